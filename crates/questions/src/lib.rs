//! What is asked of a posterior, the same on the command line and in Python: events as text, how
//! each kind of posterior answers them, groups, and posteriors in files.
#![forbid(unsafe_code)]

pub mod coefficients;
pub mod event;
pub mod groups;
pub mod levels;
pub mod means;
pub mod saved;
pub mod shares;
pub mod simulation;
pub mod text;
pub mod user_error;

use possibility::family::conjugate::{
    Conjugate, ConjugateFamily, Parameter, ScalarFamily, ScalarPosterior,
};
use possibility::valid::Valid;

use crate::user_error::UserError;

/// A prior `g_λ^ν`: the mean statistic and its weight.
#[derive(Debug, Clone, PartialEq)]
pub struct Prior {
    /// `λ`, one number for each coordinate.
    pub mean: Vec<f64>,
    /// `ν`.
    pub weight: f64,
}

impl Prior {
    /// A prior of one number.
    ///
    /// # Errors
    /// The mean has several numbers.
    pub fn single(prior: Option<&Self>) -> Result<Option<&Self>, UserError> {
        match prior.map(|prior| prior.mean.len()) {
            None | Some(1) => Ok(prior),
            Some(found) => Err(UserError::new(format!(
                "--prior-mean: one number is expected, found {found}"
            ))),
        }
    }

    /// The prior for a family; without one it says nothing.
    ///
    /// # Errors
    /// The mean or the weight is out of its range.
    pub fn build<F: ConjugateFamily>(
        prior: Option<&Self>,
        family: F,
    ) -> Result<Conjugate<F>, UserError> {
        match prior {
            None => Ok(Conjugate::uninformative(family)),
            Some(prior) => Conjugate::new(family, &prior.mean, prior.weight)
                .map_err(|error| option_error("--prior-mean, --prior-weight", &error)),
        }
    }
}

/// An error of the library about an option, or about the data of an origin.
pub fn option_error(option: &str, error: &possibility::Error) -> UserError {
    UserError::new(format!("{option}: {error}"))
}

/// Why an event has no answer.
#[derive(Debug)]
pub enum Unmeasured {
    /// The library refuses.
    Library(possibility::Error),
    /// The event is none that can be asked here.
    Event(String),
}

impl From<possibility::Error> for Unmeasured {
    fn from(error: possibility::Error) -> Self {
        Self::Library(error)
    }
}

/// The valid possibility function of a mean, from data of this mean and number.
///
/// # Errors
/// As [`Valid::new`].
pub fn valid<F: ScalarFamily + Clone>(
    family: F,
    mean: f64,
    number: f64,
) -> possibility::Result<Valid<F>> {
    let plain: ScalarPosterior<F> =
        Conjugate::new(family, &[mean], number)?.in_parameter(Parameter::Mean);
    Valid::new(plain)
}
