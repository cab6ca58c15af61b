//! What data say about a family, in a few numbers that can be stored and added.

use super::{Conjugate, ConjugateFamily, Sample};
use crate::error::{Result, check_not_negative, check_positive, check_real, check_size};
use crate::family::special::CompensatedSum;

/// The evidence of observations `xᵢ` that count `wᵢ` times: `n = Σwᵢ`, the mean statistic
/// `t = ΣwᵢT(xᵢ)/n`, and `L = Σwᵢ log p(xᵢ|t)`, the log likelihood at its own maximum.
///
/// Evidence of parts of the data adds up to that of the whole, in any order: the means are weighted
/// by their counts, and `Σ log p(xᵢ|λ) = L - n KL(t‖λ)` moves each log likelihood to the common
/// mean without cancellation.
///
/// ```
/// use possibility::prelude::*;
/// use possibility::family::conjugate::{Conjugate, Evidence, Sample};
/// let evidence = |counts: &[f64]| {
///     let mut sample = Sample::new(Poisson);
///     for count in counts {
///         sample.push(count)?;
///     }
///     Evidence::of_sample(&sample)
/// };
/// let parts = [evidence(&[7.0])?, evidence(&[2.0, 3.0])?];
/// let whole = Evidence::merged(&Poisson, &parts)?;
/// let (posterior, log_consistency) = Conjugate::uninformative(Poisson).observe_evidence(&whole)?;
/// assert_eq!(posterior.in_parameter(Parameter::Mean), Poisson.observe(&[2, 3, 7])?);
/// let direct = Poisson.uninformative().log_consistency(&[2, 3, 7])?;
/// assert!((log_consistency - direct).abs() < 1e-14);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence {
    count: f64,
    mean: Vec<f64>,
    log_likelihood: f64,
}

impl Evidence {
    /// The evidence with these numbers.
    ///
    /// # Errors
    /// A count that is not positive and finite, a mean statistic that no data have, or a log
    /// likelihood that is not finite.
    pub fn new<F: ConjugateFamily>(
        family: &F,
        count: f64,
        mean: Vec<f64>,
        log_likelihood: f64,
    ) -> Result<Self> {
        check_positive("count", count)?;
        check_size("mean statistic", mean.len(), family.dimension())?;
        family.check_mean(&mean)?;
        check_real("log likelihood", log_likelihood)?;
        Ok(Self {
            count,
            mean,
            log_likelihood,
        })
    }

    /// The evidence of a sample.
    ///
    /// # Errors
    /// Data that leave no posterior: none of positive weight, or an exponential sample of zeros.
    pub fn of_sample<F: ConjugateFamily>(sample: &Sample<F>) -> Result<Self> {
        let count = sample.total_weight();
        check_positive("count", count)?;
        let prior = Conjugate::uninformative(sample.family().clone());
        let (posterior, log_likelihood) = prior.observe_sample(sample)?;
        let mean = posterior.mean_statistic().unwrap_or_default().to_vec();
        Self::new(sample.family(), count, mean, log_likelihood)
    }

    /// The evidence of all parts together.
    ///
    /// # Errors
    /// There is no part, or the counts overflow.
    pub fn merged<F: ConjugateFamily>(family: &F, parts: &[Self]) -> Result<Self> {
        let sum = |term: &dyn Fn(&Self) -> f64| {
            parts.iter().map(term).collect::<CompensatedSum>().total()
        };
        let count = check_not_negative("count", sum(&|part| part.count))?;
        let mean: Vec<f64> = (0..family.dimension())
            .map(|i| sum(&|part| part.count * part.mean[i]) / count)
            .collect();
        let log_likelihood = sum(&|part| part.log_likelihood_at(family, &mean));
        Self::new(family, count, mean, log_likelihood)
    }

    /// `Σwᵢ log p(xᵢ|λ) = L - n KL(t‖λ)`.
    pub fn log_likelihood_at<F: ConjugateFamily>(&self, family: &F, mean: &[f64]) -> f64 {
        let divergence = family.divergence_between_means_at(&self.mean, mean);
        self.log_likelihood - self.count * divergence
    }

    /// `n`, how often the observations count.
    pub fn count(&self) -> f64 {
        self.count
    }

    /// `t`, the mean statistic.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// `L`, the log likelihood at `t`.
    pub fn log_likelihood(&self) -> f64 {
        self.log_likelihood
    }
}

impl<F: ConjugateFamily> Conjugate<F> {
    /// The posterior after the evidence, and the log consistency of the two.
    ///
    /// # Errors
    /// The weights overflow.
    pub fn observe_evidence(&self, evidence: &Evidence) -> Result<(Self, f64)> {
        check_size(
            "mean statistic",
            evidence.mean.len(),
            self.family().dimension(),
        )?;
        let sum: Vec<f64> = evidence.mean.iter().map(|t| t * evidence.count).collect();
        let posterior = match self.mean_statistic() {
            // the mean as it is stored, not through a sum
            None => Self::new(self.family().clone(), &evidence.mean, evidence.count)?,
            Some(_) => self.shifted(&sum, evidence.count)?,
        };
        let mode = posterior.mean_statistic().unwrap_or(&evidence.mean);
        let mut log_consistency = evidence.log_likelihood_at(self.family(), mode);
        if let Some(own) = self.mean_statistic() {
            let divergence = self.family().divergence_between_means_at(own, mode);
            log_consistency -= self.weight() * divergence;
        }
        Ok((posterior, log_consistency))
    }
}
