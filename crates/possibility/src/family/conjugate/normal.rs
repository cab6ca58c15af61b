//! Normal likelihood with known variance `σ²`: `A(θ) = σ²θ²/2` with `θ` = mean/σ²,
//! `A†(λ) = λ²/(2σ²)`, `B(x) = x²/(2σ²) + log(2πσ²)/2`, and `KL = (λ - μ)²/(2σ²)`. Paper: Section
//! 5.1.

use std::f64::consts::PI;

use super::{Parameter, ScalarFamily};
use crate::error::{Result, check_positive};
use crate::set::Interval;

/// Numbers with normal noise of known variance. The mean parameter is the `mean`.
///
/// ```
/// use possibility::prelude::*;
/// let mean = NormalNoise::new(4.0)?.prior(0.0, 1.0)?.observe(&[2.0, 4.0])?;
/// assert_eq!(mean.mode(), Some(2.0));
/// assert_eq!(mean.precision(), Some(0.75));
/// // far from zero, but not for certain
/// assert_eq!(mean.possibility_of(..=0.0)?, (-1.5f64).exp());
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NormalNoise {
    variance: f64,
    /// `log(2πσ²)`.
    log_scale: f64,
}

impl NormalNoise {
    /// The family with variance `σ²`.
    ///
    /// # Errors
    /// A variance that is not finite and positive.
    pub fn new(variance: f64) -> Result<Self> {
        check_positive("variance", variance)?;
        Ok(Self {
            variance,
            log_scale: (2.0 * PI * variance).ln(),
        })
    }

    /// The variance `σ²` of an observation.
    pub fn known_variance(&self) -> f64 {
        self.variance
    }
}

impl ScalarFamily for NormalNoise {
    fn name(&self) -> &'static str {
        "normal"
    }

    fn setting(&self) -> Option<(&'static str, f64)> {
        Some(("variance", self.variance))
    }

    fn mean_name(&self) -> &'static str {
        "mean"
    }

    fn natural_domain(&self) -> Interval {
        Interval::open(f64::NEG_INFINITY, f64::INFINITY).expect("-inf < inf")
    }

    fn mean_domain(&self) -> Interval {
        self.natural_domain()
    }

    fn log_partition(&self, natural: f64) -> f64 {
        0.5 * self.variance * natural * natural
    }

    fn mean_of(&self, natural: f64) -> f64 {
        self.variance * natural
    }

    fn curvature(&self, _natural: f64) -> f64 {
        self.variance
    }

    fn dual(&self, mean: f64) -> f64 {
        0.5 * mean * mean / self.variance
    }

    fn natural_of(&self, mean: f64) -> f64 {
        mean / self.variance
    }

    fn variance(&self, _mean: f64) -> f64 {
        self.variance
    }

    fn variance_polynomial(&self) -> [f64; 3] {
        [self.variance, 0.0, 0.0]
    }

    fn bregman(&self, natural: f64, reference: f64) -> f64 {
        let gap = natural - reference;
        0.5 * self.variance * gap * gap
    }

    fn divergence(&self, mean: f64, natural: f64) -> f64 {
        let gap = (-self.variance).mul_add(natural, mean);
        0.5 * gap * gap / self.variance
    }

    fn divergence_between_means(&self, mean: f64, other: f64) -> f64 {
        let gap = mean - other;
        0.5 * gap * gap / self.variance
    }

    fn divergence_with_rest(&self, mean: f64, other: f64, rest: f64) -> f64 {
        let gap = (mean - other) + rest;
        0.5 * gap * gap / self.variance
    }

    fn ball(&self, mean: f64, radius: f64, parameter: Parameter) -> (f64, f64) {
        let half_width = (2.0 * self.variance * radius).sqrt();
        let (lower, upper) = (mean - half_width, mean + half_width);
        match parameter {
            Parameter::Natural => (lower / self.variance, upper / self.variance),
            Parameter::Mean => (lower, upper),
        }
    }

    fn observation_rule(&self) -> &'static str {
        "(-inf, inf)"
    }

    fn accepts(&self, observation: f64) -> bool {
        observation.is_finite()
    }

    fn log_base_measure(&self, observation: f64) -> f64 {
        -0.5 * (observation * observation / self.variance + self.log_scale)
    }

    fn log_likelihood(&self, observation: f64, mean: f64) -> f64 {
        -0.5 * self.log_scale - self.divergence_between_means(observation, mean)
    }
}
