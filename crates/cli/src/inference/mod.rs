//! From a file to a report: reading the observations, asking the library, collecting the answers.

pub mod categorical;
pub mod logistic;
pub mod multivariate_normal;
pub mod picture;
pub mod posterior;
pub mod scalar;

use std::time::Instant;

use possibility::family::conjugate::{Parameter, ScalarFamily, ScalarPosterior};
use possibility::logistic::Marginal;
use possibility::set::{Interval, RealSet};
use possibility::{Measure, Mode, Possibility};
use serde_json::{Value, json};

use crate::text::number;
use crate::user_error::UserError;

/// What is asked about a posterior.
#[derive(Debug, Clone)]
pub struct Questions {
    /// Levels of the α-cuts.
    pub alphas: Vec<f64>,
    /// Events, as they were typed.
    pub events: Vec<String>,
    /// The parameter that cuts and events speak of.
    pub parameter: Parameter,
}

/// A prior `g_λ^ν`: the mean statistic and its weight.
#[derive(Debug, Clone)]
pub struct Prior {
    /// `λ`, one number for each coordinate.
    pub mean: Vec<f64>,
    /// `ν`.
    pub weight: f64,
}

/// Where the observations come from, for messages.
#[derive(Debug, Clone)]
pub struct Origin {
    /// File and column or columns.
    pub name: String,
}

impl Origin {
    /// An error of the library about the data as a whole.
    pub fn error(&self, error: &possibility::Error) -> UserError {
        UserError::new(format!("{}: {error}", self.name))
    }
}

/// An error of the library about an option.
pub fn option_error(option: &str, error: &possibility::Error) -> UserError {
    UserError::new(format!("{option}: {error}"))
}

/// Possibility and necessity of an event.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The event, as it was typed.
    pub event: String,
    /// `Π(A)`.
    pub possibility: f64,
    /// `N(A)`.
    pub necessity: f64,
}

impl Answer {
    /// As JSON.
    pub fn json(&self) -> Value {
        json!({
            "event": self.event,
            "possibility": number(self.possibility),
            "necessity": number(self.necessity),
        })
    }
}

/// A possibility function of one number that can be reported and drawn.
pub trait Profile {
    /// The mode; `None` if every value is one.
    fn mode(&self) -> Option<f64>;
    /// Minus the second derivative of the log at the mode; `None` on the boundary.
    fn precision(&self) -> Option<f64>;
    /// The α-cut.
    fn cut(&self, alpha: f64) -> possibility::Result<Interval>;
    /// Where the number lives.
    fn domain(&self) -> Interval;
    /// The value at a point.
    fn value(&self, point: f64) -> f64;
    /// Possibility and necessity of a set.
    fn measure(&self, set: &RealSet) -> possibility::Result<(f64, f64)>;
}

impl<F: ScalarFamily> Profile for ScalarPosterior<F> {
    fn mode(&self) -> Option<f64> {
        match ScalarPosterior::mode(self) {
            Mode::Point(mode) => Some(mode),
            _ => None,
        }
    }

    fn precision(&self) -> Option<f64> {
        ScalarPosterior::precision(self)
    }

    fn cut(&self, alpha: f64) -> possibility::Result<Interval> {
        let empty = possibility::Error::Empty { name: "alpha-cut" };
        self.alpha_cut(alpha)?.hull().ok_or(empty)
    }

    fn domain(&self) -> Interval {
        ScalarPosterior::domain(self)
    }

    fn value(&self, point: f64) -> f64 {
        self.possibility(&point)
    }

    fn measure(&self, set: &RealSet) -> possibility::Result<(f64, f64)> {
        Ok((self.possibility_of(set)?, self.necessity_of(set)?))
    }
}

impl Profile for Marginal {
    fn mode(&self) -> Option<f64> {
        Some(Marginal::mode(self))
    }

    fn precision(&self) -> Option<f64> {
        Some(self.standard_deviation().powi(-2))
    }

    fn cut(&self, alpha: f64) -> possibility::Result<Interval> {
        self.alpha_cut(alpha)
    }

    fn domain(&self) -> Interval {
        Interval::REAL_LINE
    }

    fn value(&self, point: f64) -> f64 {
        self.possibility(&point)
    }

    fn measure(&self, set: &RealSet) -> possibility::Result<(f64, f64)> {
        Ok((self.possibility_of(set)?, self.necessity_of(set)?))
    }
}

/// Seconds spent on the two parts of the work.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timings {
    /// Reading the file.
    pub reading: f64,
    /// Finding the posterior.
    pub fitting: f64,
}

/// The value of a call and the seconds it took.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, f64) {
    let start = Instant::now();
    let value = work();
    (value, start.elapsed().as_secs_f64())
}

/// Name of the parameter on the command line.
pub fn parameter_name(parameter: Parameter, mean_name: &'static str) -> &'static str {
    match parameter {
        Parameter::Natural => "theta",
        Parameter::Mean => mean_name,
    }
}
