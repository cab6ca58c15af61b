//! Poisson likelihood: `A(θ) = e^θ` with the log rate `θ`, mean `λ` = rate in `[0, ∞)`,
//! `A†(λ) = λ log λ - λ`, and `KL = λ(e^δ - 1 - δ)` with `δ = θ - log λ`. Paper: Section 5.1.

use super::scalar::is_count;
use super::{Parameter, ScalarFamily};
use crate::family::special::{
    deviance, exp_m1_minus, exp_m1_minus_roots, log_factorial, stirling_remainder,
};
use crate::numeric::x_log_x;
use crate::set::Interval;

/// Counts 0, 1, 2, … The mean parameter is the `rate`.
///
/// ```
/// use possibility::prelude::*;
/// assert_eq!(Poisson.prior(2.0, 1.0)?.observe(&[3, 0, 3])?.mode(), Some(2.0));
/// // log sup over the rate of the probability of the counts 3, 0, 2: attained at the rate 5/3
/// let log_consistency = Poisson.uninformative().log_consistency(&[3, 0, 2])?;
/// let rate = 5.0f64 / 3.0;
/// assert!((log_consistency - (5.0 * rate.ln() - 5.0 - 12f64.ln())).abs() < 1e-14);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Poisson;

/// `scale (e^x - 1 - x)` without overflow of `e^x` alone.
fn scaled_exp_m1_minus(scale: f64, log_scale: f64, x: f64) -> f64 {
    if x > 1.0 {
        let (exponential, linear) = ((log_scale + x).exp(), scale * (1.0 + x));
        if exponential.is_infinite() {
            exponential
        } else {
            exponential - linear
        }
    } else {
        scale * exp_m1_minus(x)
    }
}

impl ScalarFamily for Poisson {
    fn name(&self) -> &'static str {
        "poisson"
    }

    fn mean_name(&self) -> &'static str {
        "rate"
    }

    fn natural_domain(&self) -> Interval {
        Interval::below(f64::INFINITY).expect("-inf < inf")
    }

    fn mean_domain(&self) -> Interval {
        Interval::new(0.0, f64::INFINITY, true, false).expect("0 < inf")
    }

    fn log_partition(&self, natural: f64) -> f64 {
        natural.exp()
    }

    fn mean_of(&self, natural: f64) -> f64 {
        natural.exp()
    }

    fn curvature(&self, natural: f64) -> f64 {
        natural.exp()
    }

    fn dual(&self, mean: f64) -> f64 {
        x_log_x(mean) - mean
    }

    fn dual_of_natural(&self, natural: f64) -> f64 {
        let rate = natural.exp();
        if rate == 0.0 {
            0.0
        } else {
            rate * (natural - 1.0)
        }
    }

    fn natural_of(&self, mean: f64) -> f64 {
        mean.ln()
    }

    fn variance(&self, mean: f64) -> f64 {
        mean
    }

    fn variance_polynomial(&self) -> [f64; 3] {
        [0.0, 1.0, 0.0]
    }

    fn bregman(&self, natural: f64, reference: f64) -> f64 {
        if reference == f64::NEG_INFINITY {
            natural.exp()
        } else {
            scaled_exp_m1_minus(reference.exp(), reference, natural - reference)
        }
    }

    fn divergence(&self, mean: f64, natural: f64) -> f64 {
        if mean == 0.0 {
            natural.exp()
        } else {
            scaled_exp_m1_minus(mean, mean.ln(), natural - mean.ln())
        }
    }

    fn divergence_between_means(&self, mean: f64, other: f64) -> f64 {
        deviance(mean, other)
    }

    fn ball(&self, mean: f64, radius: f64, parameter: Parameter) -> (f64, f64) {
        if mean == 0.0 {
            return match parameter {
                Parameter::Natural => (f64::NEG_INFINITY, radius.ln()),
                Parameter::Mean => (0.0, radius),
            };
        }
        let (down, up) = exp_m1_minus_roots(radius / mean);
        match parameter {
            Parameter::Natural => (mean.ln() + down, mean.ln() + up),
            Parameter::Mean => (mean * down.exp(), mean * up.exp()),
        }
    }

    fn observation_rule(&self) -> &'static str {
        "{0, 1, 2, ...}"
    }

    fn accepts(&self, observation: f64) -> bool {
        is_count(observation)
    }

    fn log_base_measure(&self, observation: f64) -> f64 {
        0.0 - log_factorial(observation)
    }

    fn log_likelihood(&self, observation: f64, mean: f64) -> f64 {
        0.0 - stirling_remainder(observation) - deviance(observation, mean)
    }
}
