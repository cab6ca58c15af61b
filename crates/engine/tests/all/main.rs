//! The crate from the outside: against golden numbers, and trained.

mod golden;
mod gram;
mod training;
