//! Possibility theory in plain `f64`.
//!
//! A possibility function describes what is not known: it gives every value of a parameter a degree in `[0, 1]`,
//! and its supremum is 1. Suprema stand where a probability density has integrals. This crate holds the
//! theory of the paper "Maxitive Donsker-Varadhan Formulation for Possibilistic Variational Inference"; each module
//! names the section it comes from, and each value that is a logarithm says so in its name.
//!
//! ```
//! use possibility::family::conjugate::{Bernoulli, Conjugate, Parameter};
//! use possibility::set::{Interval, RealSet};
//! use possibility::Measure;
//!
//! // nothing is known beforehand; three successes and two failures are seen
//! let posterior = Conjugate::uninformative(Bernoulli).update(&[1.0, 0.0, 1.0, 1.0, 0.0])?;
//! let p = posterior.in_parameter(Parameter::Mean);
//! let better_than_even = RealSet::from(Interval::above(0.5)?);
//! assert_eq!(p.possibility_of(&better_than_even)?, 1.0); // nothing speaks against it
//! assert!(p.necessity_of(&better_than_even)? < 0.1);     // but it is far from certain
//! let cut = p.alpha_cut(0.05)?.hull().expect("a cut is not empty");
//! assert!(cut.contains(0.14) && !cut.contains(0.13));
//! # Ok::<(), possibility::Error>(())
//! ```
//!
//! Where to look:
//!
//! | for | see |
//! |---|---|
//! | values, modes, possibility and necessity of events | [`function`], [`set`], [`event`] |
//! | functions on finite sets, grids, counts, the line, `ℝᵈ` | [`finite`], [`joint`], [`count`], [`mod@line`], [`normal`] |
//! | conjugate inference from data | [`family::conjugate`] |
//! | exponential families of possibility functions | [`family::exponential`] |
//! | posteriors from a loss and a prior, consistency bounds | [`posterior`], [`smooth`], [`bound`] |
//! | fitting a candidate by either bound | [`variational`] |
//! | the tightest Gaussians around a posterior | [`tight`] |
//! | logistic regression | [`logistic`] |
//! | your own one-dimensional function, searched with a guarantee | [`curve`], [`search`], [`arithmetic`] |
#![forbid(unsafe_code)]

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
mod newton;
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

/// The example of the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
