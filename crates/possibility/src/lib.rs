//! Possibility theory in plain `f64`.
//!
//! A possibility function replaces the probability density: suprema stand where integrals stood.
//! This crate holds the theory of the paper "Maxitive Donsker-Varadhan Formulation for Possibilistic
//! Variational Inference"; each module names the section it comes from, and each value that is a
//! logarithm says so in its name.

pub mod error;
pub mod function;
pub mod logistic;
mod numeric;
pub mod set;

pub use error::{Error, Result};
pub use function::{Measure, Mode, Possibility, Uninformative};
