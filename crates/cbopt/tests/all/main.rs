//! The crate from the outside: against golden numbers, and one suite for all rules.

mod golden;
mod suite;
