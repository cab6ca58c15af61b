//! Exponential-family likelihoods with one natural parameter and `T(x) = x`, in plain numbers.
//! Paper: Section 5.1.

use std::fmt;
use std::sync::Arc;

use faer::Mat;

use super::{Conjugate, ConjugateFamily, Parameter, ScalarPosterior};
use crate::error::{Result, check, check_entry, check_size};
use crate::set::Interval;

/// A likelihood `p(x|θ) = exp(θx - A(θ) - B(x))` with a single natural parameter `θ` and mean
/// parameter `λ = A'(θ)`.
///
/// [`Self::prior`] and [`Self::observe`] start an inference; observations are any numbers, or truth
/// values.
///
/// ```
/// use possibility::prelude::*;
/// let p = Bernoulli.prior(0.5, 2.0)?.observe(&[true, true, false, true])?;
/// assert_eq!(p.mode(), Some(4.0 / 6.0));
/// assert_eq!(p.possibility_of(0.5..)?, 1.0);
/// # Ok::<(), possibility::Error>(())
/// ```
///
/// Each other method expects its arguments inside the domains below. The trait can be made into an
/// object: `&dyn ScalarFamily` and `Arc<dyn ScalarFamily>` are families, too.
///
/// ```
/// use possibility::family::conjugate::{Poisson, ScalarFamily};
/// // A†(2) = 2 log 2 - 2, and A(θ) + A†(λ) - λθ is the Kullback-Leibler divergence
/// assert!((Poisson.dual(2.0) - (2.0 * 2f64.ln() - 2.0)).abs() < 1e-15);
/// let divergence = Poisson.divergence(2.0, 0.0);
/// assert!((divergence - (Poisson.log_partition(0.0) + Poisson.dual(2.0))).abs() < 1e-15);
/// ```
pub trait ScalarFamily: fmt::Debug {
    /// The family's name, as the command line has it.
    fn name(&self) -> &'static str;

    /// Name of the mean parameter: `p`, `rate` or `mean`.
    fn mean_name(&self) -> &'static str;

    /// Name and value of the known number that defines the family beside its name, where there is
    /// one: `shape`, `variance` or `trials`.
    fn setting(&self) -> Option<(&'static str, f64)> {
        None
    }

    /// Natural domain; an infinite end that belongs to it is the limit the boundary data lead to.
    fn natural_domain(&self) -> Interval;

    /// Mean domain, the image of the natural one.
    fn mean_domain(&self) -> Interval;

    /// `A(θ)`.
    fn log_partition(&self, natural: f64) -> f64;

    /// `A'(θ)`, the mean parameter.
    fn mean_of(&self, natural: f64) -> f64;

    /// `A''(θ)`.
    fn curvature(&self, natural: f64) -> f64;

    /// `A†(λ) = sup_θ λθ - A(θ)`.
    fn dual(&self, mean: f64) -> f64;

    /// `A†(A'(θ)) = θA'(θ) - A(θ)`, which the rounding of `A'(θ)` does not touch.
    fn dual_of_natural(&self, natural: f64) -> f64 {
        self.dual(self.mean_of(natural))
    }

    /// `A†'(λ)`, the natural parameter; infinite on the boundary.
    fn natural_of(&self, mean: f64) -> f64;

    /// `A''` where the mean parameter is `λ`: the variance of an observation.
    fn variance(&self, mean: f64) -> f64;

    /// The variance `v₀ + v₁λ + v₂λ²` of an observation as a polynomial of the mean parameter.
    fn variance_polynomial(&self) -> [f64; 3];

    /// `A†''(λ) = 1/A''`.
    fn dual_curvature(&self, mean: f64) -> f64 {
        1.0 / self.variance(mean)
    }

    /// The Bregman divergence `D_A(θ‖θ')`, without cancellation.
    fn bregman(&self, natural: f64, reference: f64) -> f64;

    /// `A(θ) + A†(λ) - λθ = KL(p(·|λ)‖p(·|θ))`, without cancellation, on the boundary too.
    fn divergence(&self, mean: f64, natural: f64) -> f64;

    /// `KL` from the member with mean parameter `mean` to the one with `other`.
    fn divergence_between_means(&self, mean: f64, other: f64) -> f64;

    /// The same where `rest` is to be added to the difference of the means.
    fn divergence_with_rest(&self, mean: f64, other: f64, rest: f64) -> f64 {
        let _ = rest;
        self.divergence_between_means(mean, other)
    }

    /// The least and the greatest parameter at divergence at most `radius ≥ 0` from the member with
    /// mean parameter `mean`, to full precision.
    fn ball(&self, mean: f64, radius: f64, parameter: Parameter) -> (f64, f64);

    /// What an observation must be, in words.
    fn observation_rule(&self) -> &'static str;

    /// Whether `x` is a possible observation. NaN and infinities never are.
    fn accepts(&self, observation: f64) -> bool;

    /// `-B(x)`.
    fn log_base_measure(&self, observation: f64) -> f64;

    /// `log p(x|λ)` at the mean parameter `λ`.
    fn log_likelihood(&self, observation: f64, mean: f64) -> f64;

    /// The prior with mode `mean`, worth `weight` observations, as a function of the mean
    /// parameter.
    ///
    /// # Errors
    /// `mean` outside the mean domain, or a weight that is negative or not finite.
    fn prior(self, mean: f64, weight: f64) -> Result<ScalarPosterior<Self>>
    where
        Self: Sized + Clone,
    {
        let prior = Conjugate::new(self, &[mean], weight)?;
        Ok(ScalarPosterior::new(prior, Parameter::Mean))
    }

    /// The prior that says nothing, as a function of the mean parameter.
    fn uninformative(self) -> ScalarPosterior<Self>
    where
        Self: Sized + Clone,
    {
        ScalarPosterior::new(Conjugate::uninformative(self), Parameter::Mean)
    }

    /// The posterior after `data`, with nothing known beforehand, as a function of the mean
    /// parameter.
    ///
    /// # Errors
    /// As [`ScalarPosterior::observe`].
    fn observe<X: Copy + Into<f64>>(self, data: &[X]) -> Result<ScalarPosterior<Self>>
    where
        Self: Sized + Clone,
    {
        self.uninformative().observe(data)
    }
}

/// The methods of [`ScalarFamily`] that a wrapper takes over as they are.
macro_rules! forward_scalar_family {
    ($self:ident => $inner:expr) => {
        fn mean_name(&$self) -> &'static str { $inner.mean_name() }
        fn natural_domain(&$self) -> $crate::set::Interval { $inner.natural_domain() }
        fn mean_domain(&$self) -> $crate::set::Interval { $inner.mean_domain() }
        fn log_partition(&$self, natural: f64) -> f64 { $inner.log_partition(natural) }
        fn mean_of(&$self, natural: f64) -> f64 { $inner.mean_of(natural) }
        fn curvature(&$self, natural: f64) -> f64 { $inner.curvature(natural) }
        fn dual(&$self, mean: f64) -> f64 { $inner.dual(mean) }
        fn dual_of_natural(&$self, natural: f64) -> f64 {
            $inner.dual_of_natural(natural)
        }
        fn natural_of(&$self, mean: f64) -> f64 { $inner.natural_of(mean) }
        fn variance(&$self, mean: f64) -> f64 { $inner.variance(mean) }
        fn variance_polynomial(&$self) -> [f64; 3] { $inner.variance_polynomial() }
        fn dual_curvature(&$self, mean: f64) -> f64 { $inner.dual_curvature(mean) }
        fn bregman(&$self, natural: f64, reference: f64) -> f64 {
            $inner.bregman(natural, reference)
        }
        fn divergence(&$self, mean: f64, natural: f64) -> f64 { $inner.divergence(mean, natural) }
        fn divergence_between_means(&$self, mean: f64, other: f64) -> f64 {
            $inner.divergence_between_means(mean, other)
        }
        fn divergence_with_rest(&$self, mean: f64, other: f64, rest: f64) -> f64 {
            $inner.divergence_with_rest(mean, other, rest)
        }
        fn ball(
            &$self,
            mean: f64,
            radius: f64,
            parameter: $crate::family::conjugate::Parameter,
        ) -> (f64, f64) {
            $inner.ball(mean, radius, parameter)
        }
        fn observation_rule(&$self) -> &'static str { $inner.observation_rule() }
        fn accepts(&$self, observation: f64) -> bool { $inner.accepts(observation) }
        fn log_base_measure(&$self, observation: f64) -> f64 {
            $inner.log_base_measure(observation)
        }
        fn log_likelihood(&$self, observation: f64, mean: f64) -> f64 {
            $inner.log_likelihood(observation, mean)
        }
    };
}
pub(crate) use forward_scalar_family;

impl<F: ScalarFamily + ?Sized> ScalarFamily for &F {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn setting(&self) -> Option<(&'static str, f64)> {
        (**self).setting()
    }

    forward_scalar_family!(self => (**self));
}

impl<F: ScalarFamily + ?Sized> ScalarFamily for Arc<F> {
    fn name(&self) -> &'static str {
        (**self).name()
    }

    fn setting(&self) -> Option<(&'static str, f64)> {
        (**self).setting()
    }

    forward_scalar_family!(self => (**self));
}

/// Whether `x` is `0, 1, 2, …`.
pub(crate) fn is_count(x: f64) -> bool {
    x >= 0.0 && x.is_finite() && x.fract() == 0.0
}

impl<F: ScalarFamily + Clone> ConjugateFamily for F {
    type Observation = f64;
    type Coordinate = F;

    fn family_name(&self) -> &'static str {
        self.name()
    }

    fn mean_parameter_name(&self) -> &'static str {
        self.mean_name()
    }

    fn dimension(&self) -> usize {
        1
    }

    fn check_natural(&self, natural: &[f64]) -> Result<()> {
        check_size("natural parameter", natural.len(), 1)?;
        let domain = self.natural_domain();
        check(
            "natural parameter",
            natural[0],
            "the family's natural domain",
            |x| domain.contains(x),
        )
        .map(drop)
    }

    fn check_mean(&self, mean: &[f64]) -> Result<()> {
        check_size("mean parameter", mean.len(), 1)?;
        let domain = self.mean_domain();
        check("mean parameter", mean[0], mean_rule(&domain), |x| {
            domain.contains(x)
        })
        .map(drop)
    }

    fn check_mean_of_data(&self, mean: &[f64]) -> Result<()> {
        check_size("mean of the statistics", mean.len(), 1)?;
        let domain = self.mean_domain();
        check("mean of the statistics", mean[0], mean_rule(&domain), |x| {
            x.is_finite() && x >= domain.lower() && x <= domain.upper()
        })
        .map(drop)
    }

    fn is_on_boundary(&self, mean: &[f64]) -> bool {
        self.natural_of(mean[0]).is_infinite()
    }

    fn log_partition_at(&self, natural: &[f64]) -> f64 {
        self.log_partition(natural[0])
    }

    fn mean_at(&self, natural: &[f64]) -> Vec<f64> {
        vec![self.mean_of(natural[0])]
    }

    fn curvature_at(&self, natural: &[f64]) -> Mat<f64> {
        Mat::full(1, 1, self.curvature(natural[0]))
    }

    fn dual_at(&self, mean: &[f64]) -> f64 {
        self.dual(mean[0])
    }

    fn dual_of_natural_at(&self, natural: &[f64]) -> f64 {
        self.dual_of_natural(natural[0])
    }

    fn natural_at(&self, mean: &[f64]) -> Vec<f64> {
        vec![self.natural_of(mean[0])]
    }

    fn dual_curvature_at(&self, mean: &[f64]) -> Mat<f64> {
        Mat::full(1, 1, self.dual_curvature(mean[0]))
    }

    fn covariance_at(&self, mean: &[f64]) -> Mat<f64> {
        Mat::full(1, 1, self.variance(mean[0]))
    }

    fn bregman_between(&self, natural: &[f64], reference: &[f64]) -> f64 {
        self.bregman(natural[0], reference[0])
    }

    fn divergence_at(&self, mean: &[f64], natural: &[f64]) -> f64 {
        self.divergence(mean[0], natural[0])
    }

    fn divergence_between_means_at(&self, mean: &[f64], other: &[f64]) -> f64 {
        self.divergence_between_means(mean[0], other[0])
    }

    fn divergence_with_rest(&self, mean: &[f64], other: &[f64], rest: &[f64]) -> f64 {
        ScalarFamily::divergence_with_rest(self, mean[0], other[0], rest[0])
    }

    fn statistic(&self, observation: &f64, index: usize, statistic: &mut [f64]) -> Result<()> {
        let (range, accepted) = (self.observation_rule(), self.accepts(*observation));
        check_entry("observation", index, *observation, range, accepted)?;
        statistic[0] = *observation;
        Ok(())
    }

    fn log_base_measure_of(&self, observation: &f64) -> f64 {
        self.log_base_measure(*observation)
    }

    fn log_likelihood_at(&self, observation: &f64, mean: &[f64]) -> f64 {
        self.log_likelihood(*observation, mean[0])
    }

    fn coordinates(&self, _parameter: Parameter) -> usize {
        1
    }

    fn coordinate(
        &self,
        mean: Option<&[f64]>,
        weight: f64,
        _index: usize,
        parameter: Parameter,
    ) -> Result<ScalarPosterior<F>> {
        let mean = mean.map(|mean| mean[0]);
        Ok(Conjugate::marginal(self.clone(), mean, weight).in_parameter(parameter))
    }
}

/// The mean domain in words that outlive it.
fn mean_rule(domain: &Interval) -> &'static str {
    match (domain.lower(), domain.upper()) {
        (0.0, 1.0) => "[0, 1]",
        (0.0, f64::INFINITY) if domain.contains_lower() => "[0, inf)",
        (0.0, f64::INFINITY) => "(0, inf)",
        (0.0, _) => "from 0 to the number of trials",
        _ => "(-inf, inf)",
    }
}
