//! The crate from the outside: predictive methods, and whole runs.

mod planted;
mod predictive;
mod run;
mod search;
