//! `maxitive`: arguments in, exit code out.
mod data;
mod user_error;
fn main() {}
