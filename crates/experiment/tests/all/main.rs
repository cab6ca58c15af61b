//! The crate from the outside: predictive methods, and whole runs.

mod predictive;
mod run;
