//! Observations that were checked one by one as they came, and the sum `ΣT(xᵢ)` of their
//! statistics.

use std::borrow::Borrow;

use super::ConjugateFamily;
use crate::double::Double;
use crate::error::{Result, check_not_negative};
use crate::family::special::CompensatedSum;

/// `ΣwᵢT(xᵢ)` and `Σwᵢ`, the number of observations where every weight is 1.
#[derive(Debug, Clone)]
pub(super) struct Statistics {
    sums: Vec<CompensatedSum>,
    /// Without those that are 1.
    weight: CompensatedSum,
    ones: usize,
    count: usize,
    scratch: Vec<f64>,
}

impl Statistics {
    pub(super) fn new<F: ConjugateFamily>(family: &F) -> Self {
        let size = family.dimension();
        Self {
            sums: vec![CompensatedSum::default(); size],
            weight: CompensatedSum::default(),
            ones: 0,
            count: 0,
            scratch: vec![0.0; size],
        }
    }

    /// Checks the observation and adds its statistic `weight` times.
    pub(super) fn add<F: ConjugateFamily>(
        &mut self,
        family: &F,
        observation: &F::Observation,
        weight: f64,
    ) -> Result<()> {
        family.statistic(observation, self.count, &mut self.scratch)?;
        for (sum, &entry) in self.sums.iter_mut().zip(&self.scratch) {
            if weight == 1.0 {
                sum.add(entry);
            } else {
                let (high, low) = Double::product(weight, entry).parts();
                sum.add(high);
                // what overflows has no second part
                sum.add(if high.is_finite() { low } else { 0.0 });
            }
        }
        match weight == 1.0 {
            true => self.ones += 1,
            false => self.weight.add(weight),
        }
        self.count += 1;
        Ok(())
    }

    /// Checks the observations and adds their statistics, all or none.
    ///
    /// A single sum stays in a register: files of millions of rows come here.
    fn add_all<F: ConjugateFamily>(
        &mut self,
        family: &F,
        observations: &[<F::Observation as ToOwned>::Owned],
    ) -> Result<()> {
        let &[mut sum] = self.sums.as_slice() else {
            let mut added = self.clone();
            for observation in observations {
                added.add(family, observation.borrow(), 1.0)?;
            }
            *self = added;
            return Ok(());
        };
        let mut entry = [0.0];
        for (index, observation) in (self.count..).zip(observations) {
            family.statistic(observation.borrow(), index, &mut entry)?;
            sum.add(entry[0]);
        }
        self.sums[0] = sum;
        self.ones += observations.len();
        self.count += observations.len();
        Ok(())
    }

    pub(super) fn sum(&self) -> Vec<f64> {
        self.sums.iter().map(CompensatedSum::total).collect()
    }

    /// The sums, not rounded.
    pub(super) fn exact_sums(&self) -> impl Iterator<Item = Double> {
        self.sums.iter().map(CompensatedSum::parts)
    }

    pub(super) fn weight(&self) -> f64 {
        self.with_ones().total()
    }

    /// The weight, not rounded.
    pub(super) fn exact_weight(&self) -> Double {
        self.with_ones().parts()
    }

    fn with_ones(&self) -> CompensatedSum {
        let mut weight = self.weight;
        weight.add(self.ones as f64);
        weight
    }
}

/// Observations of a family that arrive one by one, from a file for example: each is checked once,
/// when it comes.
///
/// ```
/// use possibility::prelude::*;
/// use possibility::family::conjugate::{Conjugate, Sample};
/// let mut calls = Sample::new(Poisson);
/// for count in [2.0, 3.0, 7.0] {
///     calls.push(&count)?;
/// }
/// assert!(calls.push(&-1.0).is_err());
/// let (posterior, log_consistency) = Conjugate::uninformative(Poisson).observe_sample(&calls)?;
/// assert_eq!(posterior.in_parameter(Parameter::Mean), Poisson.observe(&[2, 3, 7])?);
/// assert_eq!(log_consistency, Poisson.uninformative().log_consistency(&[2, 3, 7])?);
/// # Ok::<(), possibility::Error>(())
/// ```
pub struct Sample<F: ConjugateFamily> {
    family: F,
    observations: Vec<<F::Observation as ToOwned>::Owned>,
    /// Empty while every weight is 1.
    weights: Vec<f64>,
    statistics: Statistics,
}

impl<F: ConjugateFamily> Sample<F> {
    /// No observation yet.
    pub fn new(family: F) -> Self {
        Self {
            statistics: Statistics::new(&family),
            observations: Vec::new(),
            weights: Vec::new(),
            family,
        }
    }

    /// Adds an observation.
    ///
    /// # Errors
    /// It breaks the family's rule, and is left out.
    pub fn push(&mut self, observation: &F::Observation) -> Result<()> {
        self.push_weighted(observation, 1.0)
    }

    /// Adds observations that are at hand together, all or none.
    ///
    /// ```
    /// use possibility::prelude::*;
    /// use possibility::family::conjugate::{Conjugate, Sample};
    /// let mut calls = Sample::new(Poisson);
    /// calls.push_all(&[2.0, 3.0, 7.0])?;
    /// assert!(calls.push_all(&[1.0, -1.0]).is_err());
    /// let (posterior, _) = Conjugate::uninformative(Poisson).observe_sample(&calls)?;
    /// assert_eq!(posterior.in_parameter(Parameter::Mean), Poisson.observe(&[2, 3, 7])?);
    /// # Ok::<(), possibility::Error>(())
    /// ```
    ///
    /// # Errors
    /// One of them breaks the family's rule; none is added.
    pub fn push_all(&mut self, observations: &[<F::Observation as ToOwned>::Owned]) -> Result<()> {
        self.statistics.add_all(&self.family, observations)?;
        let added = observations.iter().map(|one| one.borrow().to_owned());
        self.observations.extend(added);
        if !self.weights.is_empty() {
            self.weights.resize(self.observations.len(), 1.0);
        }
        Ok(())
    }

    /// Adds an observation that counts `weight` times.
    ///
    /// ```
    /// use possibility::prelude::*;
    /// use possibility::family::conjugate::{Conjugate, Sample};
    /// let mut calls = Sample::new(Poisson);
    /// calls.push_weighted(&2.0, 3.0)?;
    /// calls.push(&7.0)?;
    /// let (posterior, _) = Conjugate::uninformative(Poisson).observe_sample(&calls)?;
    /// assert_eq!(posterior.in_parameter(Parameter::Mean), Poisson.observe(&[2, 2, 2, 7])?);
    /// # Ok::<(), possibility::Error>(())
    /// ```
    ///
    /// # Errors
    /// It breaks the family's rule, or the weight is not in `[0, ∞)`; the observation is left out.
    pub fn push_weighted(&mut self, observation: &F::Observation, weight: f64) -> Result<()> {
        check_not_negative("weight of an observation", weight)?;
        self.statistics.add(&self.family, observation, weight)?;
        if self.weights.is_empty() && weight != 1.0 {
            self.weights = vec![1.0; self.observations.len()];
        }
        if !self.weights.is_empty() || weight != 1.0 {
            self.weights.push(weight);
        }
        self.observations.push(observation.to_owned());
        Ok(())
    }

    /// `Σwᵢ`, the number of observations where every weight is 1.
    pub fn total_weight(&self) -> f64 {
        self.statistics.weight()
    }

    /// The family of the observations.
    pub fn family(&self) -> &F {
        &self.family
    }

    /// `Σwᵢ value(xᵢ)` over the observations of positive weight.
    pub(super) fn sum_of(&self, value: impl Fn(&F::Observation) -> f64) -> CompensatedSum {
        if self.weights.is_empty() {
            let all = self.observations.iter();
            return all.map(|observation| value(observation.borrow())).collect();
        }
        let all = self.weighted();
        all.map(|(observation, weight)| weight * value(observation))
            .collect()
    }

    /// The observations of positive weight with their weights.
    fn weighted(&self) -> impl Iterator<Item = (&F::Observation, f64)> {
        let weight = |i: usize| self.weights.get(i).copied().unwrap_or(1.0);
        let all = self.observations.iter().enumerate();
        all.map(move |(i, observation)| (observation.borrow(), weight(i)))
            .filter(|&(_, weight)| weight > 0.0)
    }

    /// The observations.
    pub fn observations(&self) -> &[<F::Observation as ToOwned>::Owned] {
        &self.observations
    }

    pub(super) fn statistics(&self) -> &Statistics {
        &self.statistics
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::conjugate::{Categorical, Poisson};

    fn parts<F: ConjugateFamily>(sample: &Sample<F>) -> (Vec<f64>, f64, usize, Vec<f64>) {
        let statistics = sample.statistics();
        let weights = sample.weighted().map(|(_, weight)| weight).collect();
        let count = sample.observations().len();
        (statistics.sum(), statistics.weight(), count, weights)
    }

    #[test]
    fn together_is_one_by_one() {
        let counts = [3.0, 0.0, 7.0, 1e9, 2.0];
        let (mut together, mut alone) = (Sample::new(Poisson), Sample::new(Poisson));
        together.push_all(&counts[..2]).unwrap();
        together.push_weighted(&4.0, 2.5).unwrap();
        together.push_all(&counts[2..]).unwrap();
        alone.push(&3.0).unwrap();
        alone.push(&0.0).unwrap();
        alone.push_weighted(&4.0, 2.5).unwrap();
        counts[2..]
            .iter()
            .for_each(|count| alone.push(count).unwrap());
        assert_eq!(parts(&together), parts(&alone));
        assert_eq!(together.total_weight(), 7.5);

        let family = Categorical::new(3).unwrap();
        let (mut together, mut alone) = (Sample::new(family), Sample::new(family));
        together.push_all(&[0, 2, 2, 1]).unwrap();
        [0, 2, 2, 1]
            .iter()
            .for_each(|class| alone.push(class).unwrap());
        assert_eq!(parts(&together), parts(&alone));
        // all or none
        let before = parts(&together);
        assert!(together.push_all(&[1, 3, 1]).is_err());
        assert_eq!(parts(&together), before);
    }
}
