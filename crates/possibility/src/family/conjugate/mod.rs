//! Conjugate possibility functions `g_λ^ν(θ) = exp(ν(λᵀθ - A†(λ) - A(θ))) = exp(-ν D_A(θ‖θ*(λ)))`
//! of an exponential-family likelihood `p(x|θ) = exp(θᵀT(x) - A(θ) - B(x))`, where `A†` is the
//! Legendre transform of `A`, `D_A` the Bregman divergence and `θ*(λ) = ∇A†(λ)`. Paper: Section
//! 5.1, "Bayesian Inference with Conjugate Family".
//!
//! | family | observation | T(x) | natural θ | mean parameter λ = ∇A(θ) | A(θ) |
//! |---|---|---|---|---|---|
//! | [`Bernoulli`] | 0 or 1 | x | log-odds | `p` in [0, 1] | log(1 + e^θ) |
//! | [`Binomial`] | 0, …, m | x | log-odds | `mean` = mp | m log(1 + e^θ) |
//! | [`Poisson`] | ℕ₀ | x | log rate | `rate` in [0, ∞) | e^θ |
//! | [`Exponential`] | [0, ∞) | x | -rate | `mean` in (0, ∞) | -log(-θ) |
//! | [`Gamma`] of known shape k | (0, ∞) | x | -rate | `mean` = k/rate | -k log(-θ) |
//! | [`NormalNoise`] of known variance σ² | ℝ | x | mean/σ² | `mean` | σ²θ²/2 |
//! | [`Categorical`], [`Multinomial`] | a class, counts | counts but the last | log(p_k/p_last) | `p` | m log(1 + Σe^θ) |
//! | [`MultivariateNormal`] of known Σ | ℝᵈ | x | Σ⁻¹ mean | `mean` | θᵀΣθ/2 |
//!
//! A possibility function needs no Jacobian: the value at `θ` is the value at `∇A(θ)`, so that the
//! two parametrizations agree on every event. At the boundary of the mean domain (all successes,
//! zero counts) the natural mode is infinite, the mean mode is on the boundary, and α-cuts are
//! one-sided.

mod bernoulli;
mod categorical;
mod dual;
mod evidence;
mod gamma;
mod multivariate_normal;
mod normal;
mod poisson;
mod posterior;
mod sample;
mod scalar;
mod shares;

pub use bernoulli::{Bernoulli, Binomial};
pub use categorical::{Categorical, Multinomial};
pub use dual::Dual;
pub use evidence::Evidence;
pub use gamma::{Exponential, Gamma};
pub use multivariate_normal::MultivariateNormal;
pub use normal::NormalNoise;
pub use poisson::Poisson;
pub use posterior::ScalarPosterior;
pub use sample::Sample;
pub use scalar::ScalarFamily;
pub use shares::ShareForm;

use std::borrow::Borrow;

use faer::Mat;

use sample::Statistics;

use crate::error::{Error, Result, check_entries, check_not_negative, check_size};
use crate::family::special::CompensatedSum;
use crate::function::{Mode, Possibility};

/// The coordinate in which a posterior is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Parameter {
    /// The natural parameter `θ`.
    Natural,
    /// The mean parameter `λ = ∇A(θ) = E[T(x)]`.
    Mean,
}

/// A regular and minimal exponential-family likelihood, in coordinates.
///
/// Methods that end in `_at` take points already checked by [`Self::check_natural`] or
/// [`Self::check_mean`]; one-dimensional families are written as a [`ScalarFamily`] and get this
/// trait for free.
pub trait ConjugateFamily: Clone {
    /// What is observed.
    type Observation: ToOwned + ?Sized;

    /// Family of the sup-marginal of a coordinate; of the only one, the family itself.
    type Coordinate: ScalarFamily + Clone;

    /// The family's name, as the command line has it.
    fn family_name(&self) -> &'static str;

    /// Name of a coordinate of the mean parameter: `p`, `rate` or `mean`.
    fn mean_parameter_name(&self) -> &'static str;

    /// Dimension of `θ`, of `λ` and of `T(x)`.
    fn dimension(&self) -> usize;

    /// Whether `θ` is in the natural domain.
    ///
    /// # Errors
    /// The length is wrong or an entry is outside.
    fn check_natural(&self, natural: &[f64]) -> Result<()>;

    /// Whether `λ` is in the mean domain, boundary included where data can put it there.
    ///
    /// # Errors
    /// The length is wrong or an entry is outside.
    fn check_mean(&self, mean: &[f64]) -> Result<()>;

    /// Whether `λ` is a mean of statistics of data: as [`Self::check_mean`], or a degenerate limit
    /// of it.
    ///
    /// # Errors
    /// The length is wrong or an entry is outside.
    fn check_mean_of_data(&self, mean: &[f64]) -> Result<()> {
        self.check_mean(mean)
    }

    /// Whether `λ` is on the boundary of its domain, where the natural mode is infinite.
    fn is_on_boundary(&self, mean: &[f64]) -> bool;

    /// `A(θ)`.
    fn log_partition_at(&self, natural: &[f64]) -> f64;

    /// `∇A(θ)`, the mean parameter.
    fn mean_at(&self, natural: &[f64]) -> Vec<f64>;

    /// `∇²A(θ)`.
    fn curvature_at(&self, natural: &[f64]) -> Mat<f64>;

    /// `A†(λ) = sup_θ λᵀθ - A(θ)`.
    fn dual_at(&self, mean: &[f64]) -> f64;

    /// `A†(∇A(θ)) = θᵀ∇A(θ) - A(θ)`, which the rounding of `∇A(θ)` does not touch.
    fn dual_of_natural_at(&self, natural: &[f64]) -> f64 {
        self.dual_at(&self.mean_at(natural))
    }

    /// `∇A†(λ)`, the natural parameter; infinite on the boundary.
    fn natural_at(&self, mean: &[f64]) -> Vec<f64>;

    /// `∇²A†(λ)`, for `λ` off the boundary.
    fn dual_curvature_at(&self, mean: &[f64]) -> Mat<f64>;

    /// `∇²A(∇A†(λ)) = (∇²A†(λ))⁻¹`, the covariance of `T(x)`; singular on the boundary.
    fn covariance_at(&self, mean: &[f64]) -> Mat<f64>;

    /// The Bregman divergence `D_A(θ‖θ') = A(θ) - A(θ') - ∇A(θ')ᵀ(θ - θ')`, without cancellation.
    fn bregman_between(&self, natural: &[f64], reference: &[f64]) -> f64;

    /// `A(θ) + A†(λ) - λᵀθ = D_A(θ‖∇A†(λ)) = KL(p(·|λ)‖p(·|θ))`, without cancellation and on the
    /// boundary too.
    fn divergence_at(&self, mean: &[f64], natural: &[f64]) -> f64;

    /// `KL` from the member with mean parameter `mean` to the one with `other`.
    fn divergence_between_means_at(&self, mean: &[f64], other: &[f64]) -> f64;

    /// The same where `rest` is to be added to the difference of the means: what their rounding
    /// took. Only where a mean far from 0 has a scale of its own, as for normal noise, does that
    /// count.
    fn divergence_with_rest(&self, mean: &[f64], other: &[f64], rest: &[f64]) -> f64 {
        let _ = rest;
        self.divergence_between_means_at(mean, other)
    }

    /// Writes `T(x)` of observation number `index`.
    ///
    /// # Errors
    /// The observation breaks the family's rule; the error names `index`.
    fn statistic(
        &self,
        observation: &Self::Observation,
        index: usize,
        statistic: &mut [f64],
    ) -> Result<()>;

    /// `-B(x)`.
    fn log_base_measure_of(&self, observation: &Self::Observation) -> f64;

    /// `log p(x|λ)` at the mean parameter `λ`.
    fn log_likelihood_at(&self, observation: &Self::Observation, mean: &[f64]) -> f64;

    /// Number of coordinates of a parameter; the mean parameter may have a redundant last one.
    fn coordinates(&self, parameter: Parameter) -> usize;

    /// The sup-marginal of coordinate `index` under `g_λ^ν`, or under **1** if `mean` is `None`.
    ///
    /// # Errors
    /// The marginal has no finite precision.
    fn coordinate(
        &self,
        mean: Option<&[f64]>,
        weight: f64,
        index: usize,
        parameter: Parameter,
    ) -> Result<ScalarPosterior<Self::Coordinate>>;
}

/// A family of several dimensions, as the start of an inference.
///
/// ```
/// use possibility::prelude::*;
/// let colors = Categorical::new(3)?;
/// let shares = colors.prior(&[0.4, 0.3], 2.0)?.observe(&[0, 2, 0, 1])?;
/// let first = shares.coordinate(0, Parameter::Mean)?;
/// assert!((first.mode().unwrap() - 2.8 / 6.0).abs() < 1e-15);
/// assert_eq!(first.possibility_of(0.3..)?, 1.0);
/// # Ok::<(), possibility::Error>(())
/// ```
pub trait VectorFamily: ConjugateFamily {
    /// The prior with the mean parameter `mean`, worth `weight` observations.
    ///
    /// # Errors
    /// `mean` outside the mean domain, or a weight that is negative or not finite.
    fn prior(self, mean: &[f64], weight: f64) -> Result<Conjugate<Self>> {
        Conjugate::new(self, mean, weight)
    }

    /// The prior that says nothing.
    fn uninformative(self) -> Conjugate<Self> {
        Conjugate::uninformative(self)
    }

    /// The posterior after `data`, with nothing known beforehand.
    ///
    /// # Errors
    /// As [`Conjugate::observe`].
    fn observe<I>(self, data: I) -> Result<Conjugate<Self>>
    where
        I: IntoIterator<Item: Borrow<Self::Observation>>,
    {
        self.uninformative().observe(data)
    }
}

/// The conjugate possibility function `g_λ^ν` in coordinates: a prior, or the posterior it becomes.
///
/// A family starts it: [`VectorFamily::prior`] for several dimensions; for one dimension
/// [`ScalarFamily::prior`], which reads it as a function of one number. This type is for what is
/// the same in any dimension.
///
/// ```
/// use possibility::prelude::*;
/// use possibility::family::conjugate::Conjugate;
/// let prior = Conjugate::new(Bernoulli, &[0.3], 4.5)?;
/// let posterior = prior.observe([1.0, 1.0, 0.0, 1.0])?;
/// assert_eq!(posterior.weight(), 8.5);
/// assert!((posterior.mean_statistic().unwrap()[0] - 4.35 / 8.5).abs() < 1e-15);
/// assert_eq!(posterior.in_parameter(Parameter::Mean), Bernoulli.prior(0.3, 4.5)?.observe(&[1, 1, 0, 1])?);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Conjugate<F> {
    family: F,
    /// Meaningless at weight 0.
    mean: Vec<f64>,
    weight: f64,
}

impl<F: ConjugateFamily> Conjugate<F> {
    /// `g_λ^ν` with the mean statistic `λ`, worth `ν ≥ 0` observations.
    ///
    /// # Errors
    /// `λ` outside the mean domain, or `ν` negative or not finite.
    pub fn new(family: F, mean: &[f64], weight: f64) -> Result<Self> {
        family.check_mean(mean)?;
        check_not_negative("weight", weight)?;
        Ok(Self {
            family,
            mean: mean.to_vec(),
            weight,
        })
    }

    /// The uninformative **1**, that is `ν = 0`.
    pub fn uninformative(family: F) -> Self {
        let mean = vec![0.0; family.dimension()];
        Self {
            family,
            mean,
            weight: 0.0,
        }
    }

    /// The likelihood's family.
    pub fn family(&self) -> &F {
        &self.family
    }

    /// `λ`, the mean statistic; `None` for **1**, which has none.
    pub fn mean_statistic(&self) -> Option<&[f64]> {
        (self.weight > 0.0).then_some(&self.mean)
    }

    /// `ν`, the number of observations it is worth.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// The posterior after `data`: `λ' = (νλ + ΣT(xᵢ))/(ν + n)`, `ν' = ν + n`.
    ///
    /// # Errors
    /// An observation that breaks the family's rule (the error names its index), or data that leave
    /// no posterior (an exponential sample of zeros).
    pub fn observe<I>(&self, data: I) -> Result<Self>
    where
        I: IntoIterator<Item: Borrow<F::Observation>>,
    {
        let mut statistics = Statistics::new(&self.family);
        for observation in data {
            statistics.add(&self.family, observation.borrow(), 1.0)?;
        }
        self.observe_checked(&statistics)
    }

    fn observe_checked(&self, statistics: &Statistics) -> Result<Self> {
        self.shifted(&statistics.sum(), statistics.weight())
    }

    /// The posterior after `count` observations whose statistics add up to `sum`.
    ///
    /// # Errors
    /// `sum` is not what `count` observations can give, or leaves no posterior.
    pub fn observe_statistics(&self, sum: &[f64], count: f64) -> Result<Self> {
        check_size("sum of statistics", sum.len(), self.family.dimension())?;
        check_not_negative("count", count)?;
        if count > 0.0 {
            let mean: Vec<f64> = sum.iter().map(|s| s / count).collect();
            self.family.check_mean_of_data(&mean)?;
        } else {
            check_entries("sum of statistics", sum, "{0} for a count of 0", |s| {
                s == 0.0
            })?;
        }
        self.shifted(sum, count)
    }

    fn shifted(&self, sum: &[f64], count: f64) -> Result<Self> {
        let weight = self.weight + count;
        check_not_negative("weight", weight)?;
        if count == 0.0 {
            return Ok(self.clone());
        }
        let mean: Vec<f64> = if self.weight == 0.0 {
            sum.iter().map(|s| s / count).collect()
        } else {
            self.mean
                .iter()
                .zip(sum)
                .map(|(mean, s)| (self.weight * mean + s) / weight)
                .collect()
        };
        Self::new(self.family.clone(), &mean, weight)
    }

    /// `(g_λ^ν)^exponent = g_λ^(ν exponent)`, for an exponent `≥ 0`.
    ///
    /// # Errors
    /// The exponent is negative or not finite, or the weight overflows.
    pub fn power(&self, exponent: f64) -> Result<Self> {
        check_not_negative("exponent", exponent)?;
        let weight = check_not_negative("weight", self.weight * exponent)?;
        Ok(Self {
            weight,
            ..self.clone()
        })
    }

    /// The mode `∇A†(λ)` in the natural parameter or `λ` in the mean parameter; everything at
    /// `ν = 0`.
    ///
    /// On the boundary the natural mode has infinite coordinates.
    pub fn mode(&self, parameter: Parameter) -> Mode<Vec<f64>> {
        match (self.mean_statistic(), parameter) {
            (None, _) => Mode::Everything,
            (Some(mean), Parameter::Mean) => Mode::Point(mean.to_vec()),
            (Some(mean), Parameter::Natural) => Mode::Point(self.family.natural_at(mean)),
        }
    }

    /// Minus the Hessian of the log at the mode: `ν∇²A(θ*) = ν(∇²A†(λ))⁻¹` in the natural
    /// parameter, `ν∇²A†(λ)` in the mean parameter. `None` where the mode is on the boundary.
    pub fn precision(&self, parameter: Parameter) -> Option<Mat<f64>> {
        let Some(mean) = self.mean_statistic() else {
            return Some(Mat::zeros(self.family.dimension(), self.family.dimension()));
        };
        if self.family.is_on_boundary(mean) {
            return None;
        }
        let matrix = match parameter {
            Parameter::Natural => self.family.covariance_at(mean),
            Parameter::Mean => self.family.dual_curvature_at(mean),
        };
        Some(matrix * faer::Scale(self.weight))
    }

    /// `log g_λ^ν` at the point whose mean parameter is `mean`; `-∞` outside the mean domain.
    pub fn log_possibility_at_mean(&self, mean: &[f64]) -> f64 {
        if self.family.check_mean(mean).is_err() {
            return f64::NEG_INFINITY;
        }
        match self.mean_statistic() {
            None => 0.0,
            Some(own) => 0.0 - self.weight * self.family.divergence_between_means_at(own, mean),
        }
    }

    /// `log sup_θ p(x₁…xₙ|θ) g_λ^ν(θ)`, base measure included, with `self` as the prior.
    ///
    /// Taken as `Σ log p(xᵢ|λ') - ν KL(λ‖λ')` at the posterior's mode `λ'`: terms of one sign
    /// wherever the observations are discrete.
    ///
    /// # Errors
    /// As [`Self::observe`].
    pub fn log_consistency<I>(&self, data: I) -> Result<f64>
    where
        I: IntoIterator<Item: Borrow<F::Observation>, IntoIter: Clone>,
    {
        let data = data.into_iter();
        let posterior = self.observe(data.clone())?;
        Ok(self.log_consistency_through(&posterior, |mode| {
            let log =
                |observation: I::Item| self.family.log_likelihood_at(observation.borrow(), mode);
            data.map(log).collect()
        }))
    }

    /// The same where the posterior is known already, from `Σ log p(xᵢ|λ')`.
    fn log_consistency_through(
        &self,
        posterior: &Self,
        log_likelihood: impl FnOnce(&[f64]) -> CompensatedSum,
    ) -> f64 {
        let Some(mode) = posterior.mean_statistic() else {
            return 0.0;
        };
        let mut sum = log_likelihood(mode);
        if let Some(mean) = self.mean_statistic() {
            sum.add(-self.weight * self.family.divergence_between_means_at(mean, mode));
        }
        sum.total()
    }

    /// The posterior after a sample, whose observations are not checked again, and the
    /// [`Self::log_consistency`] of the two.
    ///
    /// # Errors
    /// Data that leave no posterior.
    pub fn observe_sample(&self, sample: &Sample<F>) -> Result<(Self, f64)> {
        let posterior = self.observe_checked(sample.statistics())?;
        let log_consistency = self.log_consistency_through(&posterior, |mode| {
            sample.sum_of(|observation| self.family.log_likelihood_at(observation, mode))
        });
        Ok((posterior, log_consistency))
    }

    /// The same from statistics alone, `ν'A†(λ') - νA†(λ) - ΣB(xᵢ)`, where `log_base_measure` is
    /// `-ΣB(xᵢ)`.
    ///
    /// # Errors
    /// As [`Self::observe_statistics`].
    pub fn log_consistency_of_statistics(
        &self,
        sum: &[f64],
        count: f64,
        log_base_measure: f64,
    ) -> Result<f64> {
        let posterior = self.observe_statistics(sum, count)?;
        let term = |g: &Self| match g.mean_statistic() {
            None => 0.0,
            Some(mean) => g.weight * g.family.dual_at(mean),
        };
        Ok(term(&posterior) - term(self) + log_base_measure)
    }

    /// The sup-marginal of one coordinate: of `θ_k`, or of the mean parameter `λ_k` (for class
    /// probabilities the last class counts too).
    ///
    /// ```
    /// use possibility::prelude::*;
    /// let posterior = Categorical::new(3)?.observe(&[0, 0, 1, 2])?;
    /// let first = posterior.coordinate(0, Parameter::Mean)?;
    /// assert_eq!(first.possibility(&0.5), 1.0);
    /// # Ok::<(), possibility::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is no such coordinate.
    pub fn coordinate(
        &self,
        index: usize,
        parameter: Parameter,
    ) -> Result<ScalarPosterior<F::Coordinate>> {
        if index >= self.family.coordinates(parameter) {
            return Err(Error::OutOfRange {
                field: "coordinate",
                value: index as f64,
                range: "0..coordinates",
            });
        }
        self.family
            .coordinate(self.mean_statistic(), self.weight, index, parameter)
    }
}

impl<F: ScalarFamily + Clone> Conjugate<F> {
    /// Parts that were checked before.
    fn marginal(family: F, mean: Option<f64>, weight: f64) -> Self {
        Self {
            family,
            mean: vec![mean.unwrap_or(0.0)],
            weight: if mean.is_some() { weight } else { 0.0 },
        }
    }

    /// The function of one number: of the natural parameter, or of the mean parameter.
    pub fn in_parameter(&self, parameter: Parameter) -> ScalarPosterior<F> {
        ScalarPosterior::new(self.clone(), parameter)
    }
}

impl<F: ConjugateFamily> Possibility for Conjugate<F> {
    type Point = [f64];

    /// `log g_λ^ν(θ) = -ν D_A(θ‖∇A†(λ))` at a natural `θ`; `-∞` outside the natural domain.
    fn log_possibility(&self, point: &[f64]) -> f64 {
        if self.family.check_natural(point).is_err() {
            return f64::NEG_INFINITY;
        }
        match self.mean_statistic() {
            None => 0.0,
            Some(mean) => 0.0 - self.weight * self.family.divergence_at(mean, point),
        }
    }
}
