//! Observations that were checked one by one as they came, and the sum `ΣT(xᵢ)` of their
//! statistics.

use super::ConjugateFamily;
use crate::error::Result;
use crate::family::special::CompensatedSum;

/// `ΣT(xᵢ)` and the number of observations.
#[derive(Debug, Clone)]
pub(super) struct Statistics {
    sums: Vec<CompensatedSum>,
    count: usize,
    scratch: Vec<f64>,
}

impl Statistics {
    pub(super) fn new<F: ConjugateFamily>(family: &F) -> Self {
        let size = family.dimension();
        Self {
            sums: vec![CompensatedSum::default(); size],
            count: 0,
            scratch: vec![0.0; size],
        }
    }

    /// Checks the observation and adds its statistic.
    pub(super) fn add<F: ConjugateFamily>(
        &mut self,
        family: &F,
        observation: &F::Observation,
    ) -> Result<()> {
        family.statistic(observation, self.count, &mut self.scratch)?;
        for (sum, &entry) in self.sums.iter_mut().zip(&self.scratch) {
            sum.add(entry);
        }
        self.count += 1;
        Ok(())
    }

    pub(super) fn sum(&self) -> Vec<f64> {
        self.sums.iter().map(CompensatedSum::total).collect()
    }

    pub(super) fn count(&self) -> usize {
        self.count
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
    statistics: Statistics,
}

impl<F: ConjugateFamily> Sample<F> {
    /// No observation yet.
    pub fn new(family: F) -> Self {
        Self {
            statistics: Statistics::new(&family),
            observations: Vec::new(),
            family,
        }
    }

    /// Adds an observation.
    ///
    /// # Errors
    /// It breaks the family's rule, and is left out.
    pub fn push(&mut self, observation: &F::Observation) -> Result<()> {
        self.statistics.add(&self.family, observation)?;
        self.observations.push(observation.to_owned());
        Ok(())
    }

    /// The observations.
    pub fn observations(&self) -> &[<F::Observation as ToOwned>::Owned] {
        &self.observations
    }

    pub(super) fn statistics(&self) -> &Statistics {
        &self.statistics
    }
}
