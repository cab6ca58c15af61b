//! Possibility theory in plain `f64`.
//!
//! A possibility function describes what is not known: it gives every value of a parameter a degree
//! in `[0, 1]`, and its supremum is 1. Suprema stand where a probability density has integrals.
//! This crate holds the theory of the paper "Maxitive Donsker-Varadhan Formulation for
//! Possibilistic Variational Inference"; each module names the section it comes from, and each
//! value that is a logarithm says so in its name.
//!
//! ```
//! use possibility::prelude::*;
//!
//! // a coin believed to be about fair, as if it had been seen to fall twice, and five tosses of it
//! let tosses = [true, true, false, true, true];
//! let p = Bernoulli.prior(0.5, 2.0)?.observe(&tosses)?;
//!
//! assert_eq!(p.mode(), Some(5.0 / 7.0)); // the most possible value
//! let cut = p.cut(0.05)?; // every value of possibility at least 0.05
//! assert!(cut.contains(0.27) && !cut.contains(0.26));
//! assert_eq!(p.possibility_of(0.5..)?, 1.0); // nothing speaks against p ≥ 1/2
//! assert!(p.necessity_of(0.5..)? < 0.5); // but it is far from certain
//! # Ok::<(), possibility::Error>(())
//! ```
//!
//! Where to look:
//!
//! | for | see |
//! |---|---|
//! | a statement of the paper | [`theory`] |
//! | values, modes, possibility and necessity of events | [`function`], [`univariate`], [`set`], [`event`] |
//! | functions on finite sets, grids, counts, the line, `ℝᵈ` | [`finite`], [`joint`], [`count`], [`mod@line`], [`normal`] |
//! | conjugate inference from data | [`family::conjugate`], [`summary`] |
//! | exponential families of possibility functions | [`family::exponential`] |
//! | posteriors from a loss and a prior, consistency bounds | [`posterior`], [`smooth`], [`bound`] |
//! | the same in probability: evidence, ELBO, and what lies between | [`probability`] |
//! | sets of possibility functions, and of distributions they allow | [`credal`] |
//! | fitting a candidate by either bound | [`variational`] |
//! | the tightest Gaussians around a posterior | [`tight`] |
//! | how often an α-cut covers the truth | [`coverage`] |
//! | cuts that cover the truth at every sample size | [`valid`] |
//! | the same by simulation, where no law is known | [`simulated`] |
//! | two independent numbers compared | [`compare`] |
//! | logistic, linear and Poisson regression: exact profiles | [`regression`] |
//! | what a classifier may still say: bounds and sets of classes | [`prediction`] |
//! | your own one-dimensional function, searched with a guarantee | [`curve`], [`search`], [`arithmetic`] |
#![forbid(unsafe_code)]

pub mod arithmetic;
pub mod bound;
pub mod combine;
pub mod compare;
pub mod count;
pub mod coverage;
pub mod credal;
pub mod curve;
mod double;
pub mod error;
pub mod event;
pub mod family;
pub mod finite;
pub mod function;
pub mod joint;
pub mod line;
mod linear;
mod newton;
pub mod normal;
mod numeric;
pub mod posterior;
pub mod prediction;
pub mod probability;
pub mod regression;
pub mod search;
pub mod set;
pub mod simulated;
pub mod smooth;
pub mod summary;
pub mod theory;
pub mod tight;
pub mod univariate;
pub mod valid;
pub mod variational;

pub use error::{Error, Result};
pub use event::Region;
pub use finite::Finite;
pub use function::{AsEvent, Credence, Measure, Mode, Possibility, Uninformative};
pub use joint::Joint;
#[doc(hidden)]
pub use linear::eigen;
pub use normal::{Ellipsoid, Normal};
pub use set::{Interval, RealSet};
pub use univariate::Univariate;

/// All that inference from data needs: the families of observations and the traits that question a
/// posterior.
pub mod prelude {
    pub use crate::family::conjugate::{
        Bernoulli, Binomial, Categorical, Exponential, Gamma, Multinomial, MultivariateNormal,
        NormalNoise, Parameter, Poisson, ScalarFamily, VectorFamily,
    };
    pub use crate::{Measure, Possibility, Univariate};
}

/// The example of the README compiles and runs.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
