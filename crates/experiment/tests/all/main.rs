//! The crate from the outside: predictive methods, and whole runs.

mod faults;
mod many;
mod onnx;
mod onnx_cases;
mod planted;
mod predictive;
mod run;
mod search;
