//! The crate from the outside: predictive methods, and whole runs.

mod many;
mod planted;
mod predictive;
mod run;
mod search;
