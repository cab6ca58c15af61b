//! What data say about a family, in a few numbers that can be stored and added.
//!
//! A mean far from zero is rounded more than it is uncertain: a time of 1.7e9 by 1e-7. What is
//! taken from it is kept beside it, so that parts add up to the whole.

use super::{Conjugate, ConjugateFamily, Sample};
use crate::double::Double;
use crate::error::{
    Result, check_entry, check_not_negative, check_positive, check_real, check_size,
};
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
    /// What is to be added to the mean, which is rounded.
    rest: Vec<f64>,
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
            rest: vec![0.0; mean.len()],
            mean,
            log_likelihood,
        })
    }

    /// The same with what is to be added to the mean, which is rounded; the log likelihood is that
    /// at the sum of both.
    ///
    /// # Errors
    /// A number that is more than the rounding of the mean, or another number of them.
    pub fn with_rest(mut self, rest: Vec<f64>) -> Result<Self> {
        check_size("rest of the mean", rest.len(), self.mean.len())?;
        for (index, (&rest, mean)) in rest.iter().zip(&self.mean).enumerate() {
            let is_rounding = rest.abs() <= f64::EPSILON * mean.abs();
            let range = "[-ulp, ulp] of the mean";
            check_entry("rest of the mean", index, rest, range, is_rounding)?;
        }
        self.rest = rest;
        Ok(self)
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
        let statistics = sample.statistics();
        let (sums, weight) = (statistics.exact_sums(), statistics.exact_weight());
        let pairs = mean.iter().zip(sums);
        let rest: Vec<f64> = pairs.map(|(&m, sum)| rest(sum, weight, m)).collect();
        let family = sample.family();
        // from the rounded mean to the mean
        let gain = count * family.divergence_with_rest(&mean, &mean, &rest);
        Self::new(family, count, mean, log_likelihood + gain)?.with_rest(rest)
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
        let counts = parts.iter().map(|part| Double::from(part.count));
        let whole = counts.fold(Double::default(), |sum, count| sum + count);
        let (mut mean, mut rests) = (Vec::new(), Vec::new());
        for i in 0..family.dimension() {
            let all = parts.iter().fold(Double::default(), |sum, part| {
                sum + Double::sum(part.mean[i], part.rest[i]) * part.count.into()
            });
            mean.push((all / whole).round());
            rests.push(rest(all, whole, mean[i]));
        }
        let log_likelihood = sum(&|part| part.log_likelihood_around(family, &mean, &rests));
        Self::new(family, count, mean, log_likelihood)?.with_rest(rests)
    }

    /// `Σwᵢ log p(xᵢ|λ) = L - n KL(t‖λ)`.
    pub fn log_likelihood_at<F: ConjugateFamily>(&self, family: &F, mean: &[f64]) -> f64 {
        self.log_likelihood_around(family, mean, &vec![0.0; mean.len()])
    }

    /// The same at a mean with something to be added to it.
    fn log_likelihood_around<F: ConjugateFamily>(
        &self,
        family: &F,
        mean: &[f64],
        rest: &[f64],
    ) -> f64 {
        let rest: Vec<f64> = self.rest.iter().zip(rest).map(|(a, b)| a - b).collect();
        self.log_likelihood - self.count * family.divergence_with_rest(&self.mean, mean, &rest)
    }

    /// `n`, how often the observations count.
    pub fn count(&self) -> f64 {
        self.count
    }

    /// `t`, the mean statistic.
    pub fn mean(&self) -> &[f64] {
        &self.mean
    }

    /// What is to be added to the mean statistic, which is rounded.
    pub fn rest(&self) -> &[f64] {
        &self.rest
    }

    /// `L`, the log likelihood at `t`.
    pub fn log_likelihood(&self) -> f64 {
        self.log_likelihood
    }
}

/// What rounding took from a mean `sum / count`.
fn rest(sum: Double, count: Double, mean: f64) -> f64 {
    let rest = ((sum - count * mean.into()) / count).round();
    // a mean that was kept in its range is no rounded one
    if rest.abs() <= f64::EPSILON * mean.abs() {
        rest
    } else {
        0.0
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

#[cfg(test)]
mod tests {
    use std::f64::consts::PI;

    use super::*;
    use crate::family::conjugate::{MultivariateNormal, NormalNoise, Poisson};

    /// Their mean is 4, and their squares around it add up to 56.
    const DIGITS: [f64; 11] = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0, 3.0, 5.0];

    /// Evidence of three parts, each observation times `weight`.
    fn parts<F: ConjugateFamily>(
        family: &F,
        weight: f64,
        observation: impl Fn(f64) -> <F::Observation as ToOwned>::Owned,
    ) -> Vec<Evidence> {
        let part = |digits: &[f64]| {
            let mut sample = Sample::new(family.clone());
            for &digit in digits {
                use std::borrow::Borrow;
                sample
                    .push_weighted(observation(digit).borrow(), weight)
                    .unwrap();
            }
            Evidence::of_sample(&sample).unwrap()
        };
        vec![part(&DIGITS[..3]), part(&DIGITS[3..4]), part(&DIGITS[4..])]
    }

    #[test]
    fn parts_far_from_zero_add_up_by_hand() {
        for offset in [0.0, 1.7e9, -3e12] {
            for weight in [1.0, 0.1, 2.7] {
                let noise = NormalNoise::new(2.0).unwrap();
                let parts = parts(&noise, weight, |digit| offset + digit);
                let whole = Evidence::merged(&noise, &parts).unwrap();
                assert_eq!(whole.mean(), [offset + 4.0]);
                let want = -weight * (5.5 * (4.0 * PI).ln() + 14.0);
                let off = whole.log_likelihood() / want - 1.0;
                assert!(off.abs() < 1e-14, "{offset} {weight}: {off}");
                // in two steps
                let first = Evidence::merged(&noise, &parts[1..]).unwrap();
                let two = Evidence::merged(&noise, &[first, parts[0].clone()]).unwrap();
                assert!((two.log_likelihood() / want - 1.0).abs() < 1e-14);
            }
            let covariance = faer::mat![[2.0, 0.0], [0.0, 2.0]];
            let family = MultivariateNormal::new(covariance).unwrap();
            let parts = parts(&family, 1.0, |digit| vec![offset + digit, digit - offset]);
            let whole = Evidence::merged(&family, &parts).unwrap();
            let want = -(11.0 * (4.0 * PI).ln() + 28.0);
            assert!((whole.log_likelihood() / want - 1.0).abs() < 1e-14);
        }
    }

    #[test]
    fn the_rest_of_a_mean_is_its_rounding() {
        let parts = parts(&Poisson, 1.0, |digit| digit);
        // 8/3 is rounded, 1 and 5 are not
        assert!(parts[0].rest()[0] != 0.0 && parts[1].rest() == [0.0]);
        let third = parts[0].rest()[0] * 3.0;
        assert_eq!(third, 2.0 - (parts[0].mean()[0] - 2.0) * 3.0);
        assert!(parts[0].clone().with_rest(vec![1e-3]).is_err());
        assert!(parts[0].clone().with_rest(vec![]).is_err());
        assert!(parts[0].clone().with_rest(vec![f64::NAN]).is_err());
    }
}
