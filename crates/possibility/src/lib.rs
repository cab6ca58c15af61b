//! Possibility theory in plain `f64`.
//!
//! A possibility function replaces the probability density: suprema stand where integrals stood.
//! This crate holds the theory of the paper "Maxitive Donsker-Varadhan Formulation for Possibilistic
//! Variational Inference"; each module names the section it comes from, and each value that is a
//! logarithm says so in its name.

pub mod arithmetic;
pub mod bound;
pub mod count;
pub mod curve;
pub mod error;
pub mod event;
pub mod family;
pub mod finite;
pub mod function;
pub mod joint;
pub mod line;
mod linear;
pub mod logistic;
pub mod normal;
mod numeric;
pub mod posterior;
pub mod search;
pub mod set;
pub mod smooth;
pub mod tight;
pub mod variational;

pub use error::{Error, Result};
pub use event::Region;
pub use finite::Finite;
pub use function::{Measure, Mode, Possibility, Uninformative};
pub use joint::Joint;
pub use normal::{Ellipsoid, Normal};
