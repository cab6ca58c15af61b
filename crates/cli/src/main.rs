//! `maxitive`: arguments in, exit code out.
mod data;
mod event;
mod user_error;
fn main() {}
