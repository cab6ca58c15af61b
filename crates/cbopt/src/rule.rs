//! Any of the rules, chosen at run time.

use crate::baseline::{adamw::AdamW, ivon::Ivon, sgd::Sgd};
use crate::error::Result;
use crate::executor::{Executor, StepReport};
use crate::lower_adapt::LowerAdaptCbo;
use crate::state::State;
use crate::update::{Coordinate, Update, sealed};
use crate::upper::UpperCbo;
use crate::upper_adapt::UpperAdaptCbo;

/// One of the six rules.
///
/// ```
/// use cbopt::{AdamWConfig, Rule, Update, UpperCboConfig};
/// let rules: Vec<Rule> =
///     vec![UpperCboConfig::default().build()?.into(), AdamWConfig::default().build()?.into()];
/// assert_eq!(rules[0].id(), "ucbopt");
/// assert_eq!(rules[1].state(10).buffer_bytes(), 80);
/// # Ok::<(), cbopt::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Rule {
    /// `ucbopt`.
    UpperCbo(UpperCbo),
    /// `ucbopt-adapt`.
    UpperAdaptCbo(UpperAdaptCbo),
    /// `lcbopt-adapt`.
    LowerAdaptCbo(LowerAdaptCbo),
    /// `sgd`.
    Sgd(Sgd),
    /// `adamw`.
    AdamW(AdamW),
    /// `ivon`.
    Ivon(Ivon),
}

macro_rules! each {
    ($self:ident, $rule:ident => $body:expr) => {
        match $self {
            Rule::UpperCbo($rule) => $body,
            Rule::UpperAdaptCbo($rule) => $body,
            Rule::LowerAdaptCbo($rule) => $body,
            Rule::Sgd($rule) => $body,
            Rule::AdamW($rule) => $body,
            Rule::Ivon($rule) => $body,
        }
    };
}

impl Rule {
    /// The state of parameters that start at `first` within the network; only the noise of `ivon` depends on it.
    pub(crate) fn state_at(&self, len: usize, first: usize) -> State {
        match self {
            Self::Ivon(rule) => rule.state_at(len, first as u64),
            other => other.state(len),
        }
    }
}

impl Update for Rule {
    fn id(&self) -> &'static str {
        each!(self, rule => rule.id())
    }

    fn state(&self, len: usize) -> State {
        each!(self, rule => rule.state(len))
    }

    fn coordinate(&self, theta: f64) -> Coordinate {
        each!(self, rule => rule.coordinate(theta))
    }

    fn step_scalar(&self, lr: f64, step: u64, gradient: f64, second: f64, x: &mut Coordinate) {
        each!(self, rule => rule.step_scalar(lr, step, gradient, second, x));
    }
}

impl sealed::Advance for Rule {
    fn limit(&self) -> f32 {
        each!(self, rule => sealed::Advance::limit(rule))
    }

    fn check_state(&self, state: &State) -> Result<()> {
        each!(self, rule => sealed::Advance::check_state(rule, state))
    }

    fn advance(
        &self,
        executor: &Executor,
        lr: f64,
        params: &mut [f32],
        grads: &[f32],
        state: &mut State,
    ) -> StepReport {
        each!(self, rule => sealed::Advance::advance(rule, executor, lr, params, grads, state))
    }
}

macro_rules! from_rule {
    ($($name:ident),*) => {
        $(impl From<$name> for Rule {
            fn from(rule: $name) -> Self {
                Self::$name(rule)
            }
        })*
    };
}

from_rule!(UpperCbo, UpperAdaptCbo, LowerAdaptCbo, Sgd, AdamW, Ivon);
