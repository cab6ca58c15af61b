//! Categorical and multinomial likelihoods: `A(θ) = m log(1 + Σe^θ_k)` with
//! `θ_k = log(p_k/p_last)`, mean `λ_k = mp_k` for all classes but the last, which is the reference,
//! `A†(λ) = Σ λ_k log(λ_k/m)` over all classes. Paper: Section 5.1.
//!
//! With `δ_k = θ_k - log p_k`, centered so that `Σp_kδ_k = 0`, the divergence is
//! `log(1 + Σ p_k h(δ_k))`, `h(x) = e^x - 1 - x ≥ 0`.

use faer::Mat;

use super::{
    Bernoulli, Binomial, Conjugate, ConjugateFamily, Parameter, ScalarPosterior, VectorFamily,
};
use crate::error::{Result, check, check_entries, check_entry, check_numbers, check_size};
use crate::family::special::{
    CompensatedSum, deviance, exp_m1_minus, log_factorial, stirling_remainder,
};
use crate::numeric::x_log_x;

/// One of `classes` classes, an index from 0; the last class is the reference. The mean parameter
/// is `p`.
///
/// ```
/// use possibility::prelude::*;
/// let posterior = Categorical::new(3)?.observe(&[0, 2, 1, 0])?;
/// assert_eq!(posterior.mean_statistic(), Some(&[0.5, 0.25][..]));
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Categorical {
    simplex: Simplex,
}

impl Categorical {
    /// The family with the given number of classes.
    ///
    /// # Errors
    /// Fewer than two classes.
    pub fn new(classes: usize) -> Result<Self> {
        Ok(Self {
            simplex: Simplex::new(classes, 1)?,
        })
    }

    /// Number of classes, the reference included.
    pub fn classes(&self) -> usize {
        self.simplex.classes
    }

    /// The prior with a share for every class, the reference included, worth `weight` observations.
    ///
    /// ```
    /// use possibility::prelude::*;
    /// let prior = Categorical::new(3)?.prior_of_shares(&[0.5, 0.3, 0.2], 4.0)?;
    /// assert_eq!(prior.mean_statistic(), Some(&[0.5, 0.3][..]));
    /// assert!(Categorical::new(3)?.prior_of_shares(&[0.5, 0.3, 0.3], 4.0).is_err());
    /// # Ok::<(), possibility::Error>(())
    /// ```
    ///
    /// # Errors
    /// A share that is missing or not in `[0, 1]`, shares whose sum misses 1 by more than a
    /// billionth (they are written in decimal), or a weight that is negative or not finite.
    pub fn prior_of_shares(self, shares: &[f64], weight: f64) -> Result<Conjugate<Self>> {
        check_size("shares", shares.len(), self.classes())?;
        check_entries("shares", shares, "[0, 1]", |p| (0.0..=1.0).contains(&p))?;
        let sum = shares.iter().sum();
        check("sum of the shares", sum, "{1}", |sum| {
            (sum - 1.0).abs() <= SHARES
        })?;
        self.prior(&shares[..shares.len() - 1], weight)
    }
}

/// How far shares that are written in decimal may miss 1 together.
const SHARES: f64 = 1e-9;

/// Counts of `classes` classes in a known number of trials; the last class is the reference. The
/// mean parameter is the expected count `mp_k`.
///
/// ```
/// use possibility::prelude::*;
/// let posterior = Multinomial::new(3, 4)?.observe([[2, 1, 1], [0, 3, 1]])?;
/// assert_eq!(posterior.mean_statistic(), Some(&[1.0, 2.0][..]));
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Multinomial {
    simplex: Simplex,
    coordinate: Binomial,
}

impl Multinomial {
    /// The family with the given number of classes, and of trials for each observation.
    ///
    /// # Errors
    /// Fewer than two classes, no trial, or more than 2^53.
    pub fn new(classes: usize, trials: u64) -> Result<Self> {
        Ok(Self {
            simplex: Simplex::new(classes, trials)?,
            coordinate: Binomial::new(trials)?,
        })
    }

    /// Number of classes, the reference included.
    pub fn classes(&self) -> usize {
        self.simplex.classes
    }

    /// Number of trials of an observation.
    pub fn trials(&self) -> u64 {
        self.coordinate.trials()
    }
}

/// What both families share.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Simplex {
    classes: usize,
    trials: f64,
}

impl Simplex {
    fn new(classes: usize, trials: u64) -> Result<Self> {
        check("classes", classes as f64, "2..", |k| k >= 2.0)?;
        Ok(Self {
            classes,
            trials: trials as f64,
        })
    }

    /// Rounding of a mean of counts: below this a reference share is 0.
    fn slack(&self) -> f64 {
        4.0 * self.classes as f64 * f64::EPSILON
    }

    fn check_natural(&self, natural: &[f64]) -> Result<()> {
        check_size("natural parameter", natural.len(), self.classes - 1)?;
        check_numbers("natural parameter", natural)
    }

    fn check_mean(&self, mean: &[f64]) -> Result<()> {
        check_size("mean parameter", mean.len(), self.classes - 1)?;
        let range = "0..=trials, 1 trial for a class";
        check_entries("mean parameter", mean, range, |x| {
            (0.0..=self.trials).contains(&x)
        })?;
        let sum = mean.iter().copied().collect::<CompensatedSum>().total();
        check(
            "sum of the mean parameter",
            sum,
            "at most the number of trials, 1 for a class",
            |s| s <= self.trials * (1.0 + self.slack()),
        )
        .map(drop)
    }

    /// Probabilities of all classes.
    fn probabilities(&self, mean: &[f64]) -> Vec<f64> {
        let mut all: Vec<f64> = mean.iter().map(|m| m / self.trials).collect();
        let mut rest = CompensatedSum::default();
        rest.add(1.0);
        for &p in &all {
            rest.add(-p);
        }
        let rest = rest.total();
        all.push(if rest <= self.slack() { 0.0 } else { rest });
        all
    }

    /// `log(1 + Σe^θ)` and the largest exponent.
    fn log_sum(natural: &[f64]) -> (f64, f64) {
        let largest = natural.iter().copied().fold(0.0, f64::max);
        if largest.is_infinite() {
            return (largest, largest);
        }
        let sum: f64 = natural.iter().map(|x| (x - largest).exp()).sum();
        if largest == 0.0 {
            (sum.ln_1p(), largest)
        } else {
            (largest + (sum + (-largest).exp()).ln(), largest)
        }
    }

    /// Probabilities of all classes at `θ`.
    fn softmax(natural: &[f64]) -> Vec<f64> {
        let largest = natural.iter().copied().fold(0.0, f64::max);
        let mut all: Vec<f64> = natural
            .iter()
            .chain([&0.0])
            .map(|&x| {
                if x == largest {
                    1.0
                } else {
                    (x - largest).exp()
                }
            })
            .collect();
        let sum: f64 = all.iter().sum();
        for p in &mut all {
            *p /= sum;
        }
        all
    }

    fn log_partition(&self, natural: &[f64]) -> f64 {
        self.trials * Self::log_sum(natural).0
    }

    fn mean(&self, natural: &[f64]) -> Vec<f64> {
        let mut all = Self::softmax(natural);
        all.pop();
        all.iter().map(|p| self.trials * p).collect()
    }

    fn covariance(&self, probabilities: &[f64]) -> Mat<f64> {
        let p = probabilities;
        let size = self.classes - 1;
        Mat::from_fn(size, size, |i, j| {
            self.trials
                * if i == j {
                    // 1 - p_i as the sum of the others: nothing cancels
                    let others: f64 = (0..p.len()).filter(|&k| k != i).map(|k| p[k]).sum();
                    p[i] * others
                } else {
                    -p[i] * p[j]
                }
        })
    }

    fn dual(&self, mean: &[f64]) -> f64 {
        let entropy: f64 = self.probabilities(mean).into_iter().map(x_log_x).sum();
        self.trials * entropy
    }

    /// `m Σ p_k log p_k` at `θ`.
    fn dual_of_natural(&self, natural: &[f64]) -> f64 {
        let p = Self::softmax(natural);
        // log p of the likeliest class through the others, which do not cancel
        let likeliest = (0..p.len()).fold(0, |best, k| if p[k] > p[best] { k } else { best });
        let sum: f64 = (0..p.len())
            .map(|k| {
                if k == likeliest {
                    let others: f64 = (0..p.len()).filter(|&j| j != k).map(|j| p[j]).sum();
                    p[k] * (-others).ln_1p()
                } else {
                    x_log_x(p[k])
                }
            })
            .sum();
        self.trials * sum
    }

    fn natural(&self, mean: &[f64]) -> Vec<f64> {
        let mut p = self.probabilities(mean);
        let reference = p.pop().expect("the reference class");
        p.iter()
            .map(|&p| match (p == 0.0, reference == 0.0) {
                // the data do not tell the two classes apart
                (true, true) => 0.0,
                _ => p.ln() - reference.ln(),
            })
            .collect()
    }

    fn dual_curvature(&self, mean: &[f64]) -> Mat<f64> {
        let p = self.probabilities(mean);
        let size = self.classes - 1;
        Mat::from_fn(size, size, |i, j| {
            let own = if i == j { 1.0 / p[i] } else { 0.0 };
            (own + 1.0 / p[size]) / self.trials
        })
    }

    fn divergence(&self, mean: &[f64], natural: &[f64]) -> f64 {
        let p = self.probabilities(mean);
        let certain = natural.iter().filter(|&&x| x == f64::INFINITY).count();
        if certain > 0 {
            // all probability on one class; on several it is undetermined, and taken as impossible
            let there = natural.iter().position(|&x| x == f64::INFINITY);
            return match there {
                Some(class) if certain == 1 && p[class] == 1.0 => 0.0,
                _ => f64::INFINITY,
            };
        }
        let theta: Vec<f64> = natural.iter().copied().chain([0.0]).collect();
        let shifts: Vec<f64> = theta
            .iter()
            .zip(&p)
            .map(|(x, p)| if *p == 0.0 { *x } else { x - p.ln() })
            .collect();
        self.divergence_of_shifts(&p, &shifts)
    }

    fn bregman(&self, natural: &[f64], reference: &[f64]) -> f64 {
        let p = Self::softmax(reference);
        let mut shifts: Vec<f64> = natural
            .iter()
            .zip(reference)
            .zip(&p)
            .map(|((x, y), p)| if *p == 0.0 { *x } else { x - y })
            .collect();
        shifts.push(0.0);
        if p.contains(&0.0) {
            // a reference so far out that a class is lost: through its mean
            let mut mean = p.clone();
            mean.pop();
            let mean: Vec<f64> = mean.iter().map(|p| self.trials * p).collect();
            return self.divergence(&mean, natural);
        }
        self.divergence_of_shifts(&p, &shifts)
    }

    /// `m (log Σ p_k e^δ_k - Σ p_k δ_k)`; where `p_k = 0` the shift is the exponent itself.
    fn divergence_of_shifts(&self, p: &[f64], shifts: &[f64]) -> f64 {
        let center: f64 = p
            .iter()
            .zip(shifts)
            .filter(|(p, _)| **p > 0.0)
            .map(|(p, shift)| p * shift)
            .sum();
        if center == f64::NEG_INFINITY {
            return f64::INFINITY;
        }
        let centered: Vec<f64> = shifts.iter().map(|shift| shift - center).collect();
        let largest = centered.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum = if largest < 600.0 {
            p.iter()
                .zip(&centered)
                .map(|(&p, &shift)| {
                    if p == 0.0 {
                        shift.exp()
                    } else {
                        p * exp_m1_minus(shift)
                    }
                })
                .sum::<f64>()
                .ln_1p()
        } else {
            let scaled: f64 = p
                .iter()
                .zip(&centered)
                .map(|(&p, &shift)| if p == 0.0 { 1.0 } else { p } * (shift - largest).exp())
                .sum();
            largest + scaled.ln()
        };
        self.trials * sum
    }

    fn divergence_between_means(&self, mean: &[f64], other: &[f64]) -> f64 {
        let sum: f64 = self
            .probabilities(mean)
            .into_iter()
            .zip(self.probabilities(other))
            .map(|(p, q)| deviance(p, q))
            .sum();
        self.trials * sum
    }

    /// Two classes among themselves: `log(p_k/p_last)` has the marginal of a Bernoulli with the
    /// share of `k` and the weight of both.
    fn natural_coordinate(
        &self,
        mean: Option<&[f64]>,
        weight: f64,
        index: usize,
    ) -> (Option<f64>, f64) {
        let Some(mean) = mean else {
            return (None, 0.0);
        };
        let p = self.probabilities(mean);
        let (own, reference) = (p[index], p[self.classes - 1]);
        let both = own + reference;
        if both == 0.0 {
            (None, 0.0)
        } else {
            (Some(own / both), weight * self.trials * both)
        }
    }
}

/// The part of [`ConjugateFamily`] that both families take from their simplex.
macro_rules! simplex_family {
    () => {
        fn dimension(&self) -> usize {
            self.simplex.classes - 1
        }
        fn check_natural(&self, natural: &[f64]) -> Result<()> {
            self.simplex.check_natural(natural)
        }
        fn check_mean(&self, mean: &[f64]) -> Result<()> {
            self.simplex.check_mean(mean)
        }
        fn is_on_boundary(&self, mean: &[f64]) -> bool {
            self.simplex.probabilities(mean).contains(&0.0)
        }
        fn log_partition_at(&self, natural: &[f64]) -> f64 {
            self.simplex.log_partition(natural)
        }
        fn mean_at(&self, natural: &[f64]) -> Vec<f64> {
            self.simplex.mean(natural)
        }
        fn curvature_at(&self, natural: &[f64]) -> Mat<f64> {
            self.simplex.covariance(&Simplex::softmax(natural))
        }
        fn dual_at(&self, mean: &[f64]) -> f64 {
            self.simplex.dual(mean)
        }
        fn dual_of_natural_at(&self, natural: &[f64]) -> f64 {
            self.simplex.dual_of_natural(natural)
        }
        fn natural_at(&self, mean: &[f64]) -> Vec<f64> {
            self.simplex.natural(mean)
        }
        fn dual_curvature_at(&self, mean: &[f64]) -> Mat<f64> {
            self.simplex.dual_curvature(mean)
        }
        fn covariance_at(&self, mean: &[f64]) -> Mat<f64> {
            self.simplex.covariance(&self.simplex.probabilities(mean))
        }
        fn bregman_between(&self, natural: &[f64], reference: &[f64]) -> f64 {
            self.simplex.bregman(natural, reference)
        }
        fn divergence_at(&self, mean: &[f64], natural: &[f64]) -> f64 {
            self.simplex.divergence(mean, natural)
        }
        fn divergence_between_means_at(&self, mean: &[f64], other: &[f64]) -> f64 {
            self.simplex.divergence_between_means(mean, other)
        }
        fn coordinates(&self, parameter: Parameter) -> usize {
            self.simplex.coordinates(parameter)
        }
    };
}

impl ConjugateFamily for Categorical {
    type Observation = usize;
    type Coordinate = Bernoulli;

    fn family_name(&self) -> &'static str {
        "categorical"
    }

    fn mean_parameter_name(&self) -> &'static str {
        "p"
    }

    simplex_family!();

    fn statistic(&self, observation: &usize, index: usize, statistic: &mut [f64]) -> Result<()> {
        let (class, accepted) = (*observation as f64, *observation < self.simplex.classes);
        check_entry("observation", index, class, "0..classes", accepted)?;
        statistic.fill(0.0);
        if let Some(entry) = statistic.get_mut(*observation) {
            *entry = 1.0;
        }
        Ok(())
    }

    fn log_base_measure_of(&self, _observation: &usize) -> f64 {
        0.0
    }

    fn log_likelihood_at(&self, observation: &usize, mean: &[f64]) -> f64 {
        match mean.get(*observation) {
            Some(p) => p.ln(),
            None => self.simplex.probabilities(mean)[self.simplex.classes - 1].ln(),
        }
    }

    fn coordinate(
        &self,
        mean: Option<&[f64]>,
        weight: f64,
        index: usize,
        parameter: Parameter,
    ) -> Result<ScalarPosterior<Bernoulli>> {
        let (share, weight) = self.simplex.coordinate(mean, weight, index, parameter);
        Ok(Conjugate::marginal(Bernoulli, share, weight).in_parameter(parameter))
    }
}

impl ConjugateFamily for Multinomial {
    type Observation = [u64];
    type Coordinate = Binomial;

    fn family_name(&self) -> &'static str {
        "multinomial"
    }

    fn mean_parameter_name(&self) -> &'static str {
        "mean"
    }

    simplex_family!();

    fn statistic(&self, observation: &[u64], index: usize, statistic: &mut [f64]) -> Result<()> {
        check_size("observation", observation.len(), self.simplex.classes)?;
        let total: u128 = observation.iter().map(|&count| u128::from(count)).sum();
        let name = "sum of the counts of observation";
        let accepted = total == u128::from(self.trials());
        check_entry(name, index, total as f64, "{trials}", accepted)?;
        for (entry, &count) in statistic.iter_mut().zip(observation) {
            *entry = count as f64;
        }
        Ok(())
    }

    fn log_base_measure_of(&self, observation: &[u64]) -> f64 {
        let repeats: f64 = observation.iter().map(|&x| log_factorial(x as f64)).sum();
        log_factorial(self.simplex.trials) - repeats
    }

    fn log_likelihood_at(&self, observation: &[u64], mean: &[f64]) -> f64 {
        // the greatest probability of the counts, then how far the mean is from them
        let m = self.simplex.trials;
        let greatest = stirling_remainder(m)
            - observation
                .iter()
                .map(|&x| stirling_remainder(x as f64))
                .sum::<f64>();
        let distance: f64 = observation
            .iter()
            .zip(self.simplex.probabilities(mean))
            .map(|(&x, p)| deviance(x as f64, m * p))
            .sum();
        greatest - distance
    }

    fn coordinate(
        &self,
        mean: Option<&[f64]>,
        weight: f64,
        index: usize,
        parameter: Parameter,
    ) -> Result<ScalarPosterior<Binomial>> {
        let trials = self.simplex.trials;
        let (share, weight) = self.simplex.coordinate(mean, weight, index, parameter);
        let weight = match parameter {
            Parameter::Natural => weight / trials,
            Parameter::Mean => weight,
        };
        let mean = share.map(|p| trials * p);
        Ok(Conjugate::marginal(self.coordinate, mean, weight).in_parameter(parameter))
    }
}

impl VectorFamily for Categorical {}

impl VectorFamily for Multinomial {}

impl Simplex {
    /// Share and weight of the marginal of a coordinate.
    fn coordinate(
        &self,
        mean: Option<&[f64]>,
        weight: f64,
        index: usize,
        parameter: Parameter,
    ) -> (Option<f64>, f64) {
        match parameter {
            Parameter::Natural => self.natural_coordinate(mean, weight, index),
            Parameter::Mean => (mean.map(|mean| self.probabilities(mean)[index]), weight),
        }
    }

    /// All classes have a probability, all but the reference a natural parameter.
    fn coordinates(&self, parameter: Parameter) -> usize {
        match parameter {
            Parameter::Natural => self.classes - 1,
            Parameter::Mean => self.classes,
        }
    }
}
