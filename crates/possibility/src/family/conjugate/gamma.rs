//! Gamma likelihood with known shape `k`, and the exponential as `k = 1`: `A(θ) = -k log(-θ)` with
//! `θ` = -rate < 0, mean `λ = k/rate > 0`, `A†(λ) = -k - k log(λ/k)`,
//! `B(x) = log Γ(k) - (k-1) log x`, and `KL = k(y - 1 - log y)` with `y = -λθ/k`, the ratio of the
//! two means. Paper: Section 5.1.

use super::scalar::forward_scalar_family;
use super::{Parameter, ScalarFamily};
use crate::error::{Result, check_positive};
use crate::family::special::{
    deviance_from_gap, exp_m1_minus_roots, log_gamma, stirling_remainder,
};
use crate::set::Interval;

/// Positive numbers with a gamma density of known shape. The mean parameter is the `mean`.
///
/// ```
/// use possibility::prelude::*;
/// let gamma = Gamma::new(3.0)?;
/// let mean = gamma.observe(&[1.0, 2.0])?;
/// assert_eq!(mean.mode(), Some(1.5));
/// assert_eq!(mean.possibility_of(1.0..2.0)?, 1.0);
/// assert!((gamma.variance(1.5) - 0.75).abs() < 1e-15);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gamma {
    shape: f64,
}

impl Gamma {
    /// The family with shape `k`.
    ///
    /// # Errors
    /// A shape that is not finite and positive.
    pub fn new(shape: f64) -> Result<Self> {
        check_positive("shape", shape)?;
        Ok(Self { shape })
    }

    /// The shape `k`.
    pub fn shape(&self) -> f64 {
        self.shape
    }

    /// `k(y - 1 - log y)` for the ratio `y` and its `excess = y - 1`, each as exact as it can be
    /// had.
    fn divergence_of_ratio(&self, ratio: f64, excess: f64) -> f64 {
        self.shape * deviance_from_gap(1.0, ratio, -excess)
    }
}

impl ScalarFamily for Gamma {
    fn name(&self) -> &'static str {
        "gamma"
    }

    fn setting(&self) -> Option<(&'static str, f64)> {
        Some(("shape", self.shape))
    }

    fn mean_name(&self) -> &'static str {
        "mean"
    }

    fn natural_domain(&self) -> Interval {
        Interval::open(f64::NEG_INFINITY, 0.0).expect("-inf < 0")
    }

    fn mean_domain(&self) -> Interval {
        Interval::open(0.0, f64::INFINITY).expect("0 < inf")
    }

    fn log_partition(&self, natural: f64) -> f64 {
        0.0 - self.shape * (-natural).ln()
    }

    fn mean_of(&self, natural: f64) -> f64 {
        -self.shape / natural
    }

    fn curvature(&self, natural: f64) -> f64 {
        self.shape / natural / natural
    }

    fn dual(&self, mean: f64) -> f64 {
        -self.shape - self.shape * (mean / self.shape).ln()
    }

    fn dual_of_natural(&self, natural: f64) -> f64 {
        self.shape * ((-natural).ln() - 1.0)
    }

    fn natural_of(&self, mean: f64) -> f64 {
        -self.shape / mean
    }

    fn variance(&self, mean: f64) -> f64 {
        mean / self.shape * mean
    }

    fn variance_polynomial(&self) -> [f64; 3] {
        [0.0, 0.0, 1.0 / self.shape]
    }

    fn bregman(&self, natural: f64, reference: f64) -> f64 {
        self.divergence_of_ratio(natural / reference, (natural - reference) / reference)
    }

    fn divergence(&self, mean: f64, natural: f64) -> f64 {
        if natural == 0.0 || natural.is_infinite() {
            return f64::INFINITY;
        }
        let ratio = -mean * natural / self.shape;
        let excess = (-mean).mul_add(natural, -self.shape) / self.shape;
        self.divergence_of_ratio(ratio, excess)
    }

    fn divergence_between_means(&self, mean: f64, other: f64) -> f64 {
        if other == 0.0 || other.is_infinite() {
            return f64::INFINITY;
        }
        self.divergence_of_ratio(mean / other, (mean - other) / other)
    }

    fn ball(&self, mean: f64, radius: f64, parameter: Parameter) -> (f64, f64) {
        // log of the ratio y
        let (down, up) = exp_m1_minus_roots(radius / self.shape);
        match parameter {
            Parameter::Natural => {
                let mode = self.natural_of(mean);
                (mode * up.exp(), mode * down.exp())
            }
            Parameter::Mean => (mean * (-up).exp(), mean * (-down).exp()),
        }
    }

    fn observation_rule(&self) -> &'static str {
        if self.shape == 1.0 {
            "[0, inf)"
        } else {
            "(0, inf)"
        }
    }

    fn accepts(&self, observation: f64) -> bool {
        // the density at 0 is 0 or infinite unless the shape is 1
        observation.is_finite() && (observation > 0.0 || (observation == 0.0 && self.shape == 1.0))
    }

    fn log_base_measure(&self, observation: f64) -> f64 {
        if self.shape == 1.0 {
            0.0
        } else {
            (self.shape - 1.0) * observation.ln() - log_gamma(self.shape)
        }
    }

    fn log_likelihood(&self, observation: f64, mean: f64) -> f64 {
        if self.shape == 1.0 {
            return -mean.ln() - observation / mean;
        }
        // the density where the mean is the observation itself, k log k - k - log Γ(k) - log x,
        // then the distance
        self.shape.ln()
            - stirling_remainder(self.shape)
            - observation.ln()
            - self.divergence_between_means(observation, mean)
    }
}

/// Waiting times with an exponential density: a [`Gamma`] of shape 1. The mean parameter is the
/// `mean`.
///
/// ```
/// use possibility::prelude::*;
/// let mean = Exponential.observe(&[0.5, 1.5])?;
/// assert_eq!(mean.mode(), Some(1.0));
/// assert_eq!(mean.in_parameter(Parameter::Natural).mode(), Some(-1.0));
/// // nothing but zeros: the likelihood grows without bound
/// assert!(Exponential.observe(&[0.0, 0.0]).is_err());
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Exponential;

impl ScalarFamily for Exponential {
    fn name(&self) -> &'static str {
        "exponential"
    }

    forward_scalar_family!(self => (Gamma { shape: 1.0 }));
}
