//! `maxitive`: arguments in, exit code out.
mod data;
mod event;
mod plot;
mod user_error;
fn main() {}
