//! Bernoulli and binomial likelihoods: `A(θ) = m log(1 + e^θ)` with the log-odds `θ`, mean `λ = mp`
//! in `[0, m]`, `A†(λ) = λ log(λ/m) + (m-λ) log(1-λ/m)`. Paper: Section 5.1.
//!
//! With `δ = θ - logit λ` the divergence is `log(1 + λ h((1-λ)δ) + (1-λ) h(-λδ))`,
//! `h(x) = e^x - 1 - x ≥ 0`: a sum of terms of one sign.

use super::scalar::is_count;
use super::{Parameter, ScalarFamily};
use crate::error::{Result, check};
use crate::family::special::{
    deviance_from_gap, exp_m1_minus, increasing_root, log_exp_m1, log_gamma, logit,
    stirling_remainder,
};
use crate::numeric::{sigmoid, softplus, x_log_x};
use crate::set::Interval;

/// Success or failure, 1 or 0. The mean parameter is `p`.
///
/// ```
/// use possibility::prelude::*;
/// let p = Bernoulli.prior(0.5, 2.0)?.observe(&[true, true, false, true])?;
/// assert_eq!(p.mode(), Some(4.0 / 6.0));
/// assert_eq!(Bernoulli.natural_of(0.0), f64::NEG_INFINITY);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bernoulli;

/// Beyond this exponent the divergence is taken through its largest term.
const LARGE: f64 = 600.0;

/// `KL` between a success probability `p` (failure `q`) and the one at log-odds `δ` above it.
fn divergence_of_shift(p: f64, q: f64, shift: f64) -> f64 {
    let (up, down) = (q * shift, -p * shift);
    if up.abs().max(down.abs()) < LARGE {
        (p * exp_m1_minus(up) + q * exp_m1_minus(down)).ln_1p()
    } else {
        let (a, b) = (p.ln() + up, q.ln() + down);
        a.max(b) + (-(a - b).abs()).exp().ln_1p()
    }
}

/// The same between the shares `(p, q)`, whose log-odds are `center`, and the ones at log-odds
/// `natural`; shares of 0, too.
fn divergence_from((p, q): (f64, f64), center: f64, natural: f64) -> f64 {
    if p == 0.0 {
        softplus(natural)
    } else if q == 0.0 {
        softplus(-natural)
    } else if natural.is_infinite() {
        f64::INFINITY
    } else {
        divergence_of_shift(p, q, natural - center)
    }
}

/// Derivative of [`divergence_of_shift`]: the change of the success probability.
fn change_of_mean(p: f64, q: f64, shift: f64) -> f64 {
    if shift >= 0.0 {
        -(-shift).exp_m1() * p * q / (q * (-shift).exp() + p)
    } else {
        shift.exp_m1() * p * q / (q + p * shift.exp())
    }
}

impl ScalarFamily for Bernoulli {
    fn name(&self) -> &'static str {
        "bernoulli"
    }

    fn mean_name(&self) -> &'static str {
        "p"
    }

    fn natural_domain(&self) -> Interval {
        Interval::REAL_LINE
    }

    fn mean_domain(&self) -> Interval {
        Interval::closed(0.0, 1.0).expect("0 < 1")
    }

    fn log_partition(&self, natural: f64) -> f64 {
        softplus(natural)
    }

    fn mean_of(&self, natural: f64) -> f64 {
        sigmoid(natural)
    }

    fn curvature(&self, natural: f64) -> f64 {
        sigmoid(natural) * sigmoid(-natural)
    }

    fn dual(&self, mean: f64) -> f64 {
        let failure = if mean == 1.0 {
            0.0
        } else {
            (1.0 - mean) * (-mean).ln_1p()
        };
        x_log_x(mean) + failure
    }

    fn dual_of_natural(&self, natural: f64) -> f64 {
        // p log p + q log q; a limit of 0 at both ends
        let term = |x: f64| {
            let share = sigmoid(x);
            if share == 0.0 {
                0.0
            } else {
                0.0 - share * softplus(-x)
            }
        };
        term(natural) + term(-natural)
    }

    fn natural_of(&self, mean: f64) -> f64 {
        logit(mean)
    }

    fn variance(&self, mean: f64) -> f64 {
        mean * (1.0 - mean)
    }

    fn variance_polynomial(&self) -> [f64; 3] {
        [0.0, 1.0, -1.0]
    }

    fn bregman(&self, natural: f64, reference: f64) -> f64 {
        let shares = (sigmoid(reference), sigmoid(-reference));
        divergence_from(shares, reference, natural)
    }

    fn divergence(&self, mean: f64, natural: f64) -> f64 {
        divergence_from((mean, 1.0 - mean), logit(mean), natural)
    }

    fn divergence_between_means(&self, mean: f64, other: f64) -> f64 {
        let gap = mean - other;
        deviance_from_gap(mean, other, gap) + deviance_from_gap(1.0 - mean, 1.0 - other, -gap)
    }

    fn ball(&self, mean: f64, radius: f64, parameter: Parameter) -> (f64, f64) {
        if mean == 0.0 {
            return match parameter {
                Parameter::Natural => (f64::NEG_INFINITY, log_exp_m1(radius)),
                Parameter::Mean => (0.0, -(-radius).exp_m1()),
            };
        }
        if mean == 1.0 {
            return match parameter {
                Parameter::Natural => (-log_exp_m1(radius), f64::INFINITY),
                Parameter::Mean => ((-radius).exp(), 1.0),
            };
        }
        let (p, q) = (mean, 1.0 - mean);
        let guess = (2.0 * radius / (p * q)).sqrt();
        let root = |sign: f64| {
            let value = |x: f64| {
                (
                    divergence_of_shift(p, q, sign * x),
                    change_of_mean(p, q, sign * x).abs(),
                )
            };
            increasing_root(value, radius, guess)
        };
        let (down, up) = (root(-1.0), root(1.0));
        match parameter {
            Parameter::Natural => {
                let center = logit(mean);
                (center - down, center + up)
            }
            Parameter::Mean => (
                p * (-down).exp() / (q + p * (-down).exp()),
                p / (q * (-up).exp() + p),
            ),
        }
    }

    fn observation_rule(&self) -> &'static str {
        "{0, 1}"
    }

    fn accepts(&self, observation: f64) -> bool {
        observation == 0.0 || observation == 1.0
    }

    fn log_base_measure(&self, _observation: f64) -> f64 {
        0.0
    }

    fn log_likelihood(&self, observation: f64, mean: f64) -> f64 {
        if observation == 1.0 {
            mean.ln()
        } else {
            (-mean).ln_1p()
        }
    }
}

/// The number of successes in a known number of trials. The mean parameter is the expected number
/// `mp`.
///
/// ```
/// use possibility::prelude::*;
/// let successes = Binomial::new(10)?.observe(&[3, 5])?;
/// assert_eq!(successes.mode(), Some(4.0));
/// assert!(Binomial::new(10)?.observe(&[11]).is_err());
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Binomial {
    trials: f64,
}

impl Binomial {
    /// The family with `trials` trials for each observation.
    ///
    /// # Errors
    /// No trial, or more than 2^53.
    pub fn new(trials: u64) -> Result<Self> {
        check("trials", trials as f64, "1..=2^53", |m| {
            (1.0..=9_007_199_254_740_992.0).contains(&m)
        })?;
        Ok(Self {
            trials: trials as f64,
        })
    }

    /// Number of trials of an observation.
    pub fn trials(&self) -> u64 {
        self.trials as u64
    }

    /// `log C(m, x)`.
    fn log_choices(&self, x: f64) -> f64 {
        let m = self.trials;
        if x == 0.0 || x == m {
            0.0
        } else {
            log_gamma(m + 1.0) - log_gamma(x + 1.0) - log_gamma(m - x + 1.0)
        }
    }
}

impl ScalarFamily for Binomial {
    fn name(&self) -> &'static str {
        "binomial"
    }

    fn setting(&self) -> Option<(&'static str, f64)> {
        Some(("trials", self.trials))
    }

    fn mean_name(&self) -> &'static str {
        "mean"
    }

    fn natural_domain(&self) -> Interval {
        Bernoulli.natural_domain()
    }

    fn mean_domain(&self) -> Interval {
        Interval::closed(0.0, self.trials).expect("at least one trial")
    }

    fn log_partition(&self, natural: f64) -> f64 {
        self.trials * Bernoulli.log_partition(natural)
    }

    fn mean_of(&self, natural: f64) -> f64 {
        self.trials * Bernoulli.mean_of(natural)
    }

    fn curvature(&self, natural: f64) -> f64 {
        self.trials * Bernoulli.curvature(natural)
    }

    fn dual(&self, mean: f64) -> f64 {
        self.trials * Bernoulli.dual(mean / self.trials)
    }

    fn dual_of_natural(&self, natural: f64) -> f64 {
        self.trials * Bernoulli.dual_of_natural(natural)
    }

    fn natural_of(&self, mean: f64) -> f64 {
        Bernoulli.natural_of(mean / self.trials)
    }

    fn variance(&self, mean: f64) -> f64 {
        mean * (1.0 - mean / self.trials)
    }

    fn variance_polynomial(&self) -> [f64; 3] {
        [0.0, 1.0, -1.0 / self.trials]
    }

    fn bregman(&self, natural: f64, reference: f64) -> f64 {
        self.trials * Bernoulli.bregman(natural, reference)
    }

    fn divergence(&self, mean: f64, natural: f64) -> f64 {
        self.trials * Bernoulli.divergence(mean / self.trials, natural)
    }

    fn divergence_between_means(&self, mean: f64, other: f64) -> f64 {
        let gap = mean - other;
        deviance_from_gap(mean, other, gap)
            + deviance_from_gap(self.trials - mean, self.trials - other, -gap)
    }

    fn ball(&self, mean: f64, radius: f64, parameter: Parameter) -> (f64, f64) {
        let (lower, upper) = Bernoulli.ball(mean / self.trials, radius / self.trials, parameter);
        match parameter {
            Parameter::Natural => (lower, upper),
            Parameter::Mean => (self.trials * lower, self.trials * upper),
        }
    }

    fn observation_rule(&self) -> &'static str {
        "0..=trials"
    }

    fn accepts(&self, observation: f64) -> bool {
        is_count(observation) && observation <= self.trials
    }

    fn log_base_measure(&self, observation: f64) -> f64 {
        self.log_choices(observation)
    }

    fn log_likelihood(&self, observation: f64, mean: f64) -> f64 {
        // the greatest probability of the observation, then how far the mean is from it
        let (x, m) = (observation, self.trials);
        stirling_remainder(m)
            - stirling_remainder(x)
            - stirling_remainder(m - x)
            - self.divergence_between_means(x, mean)
    }
}
