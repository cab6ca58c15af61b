//! Multivariate normal likelihood with known covariance `Σ`: `A(θ) = θᵀΣθ/2` with `θ = Σ⁻¹` mean,
//! `A†(λ) = λᵀΣ⁻¹λ/2`, and `KL = (λ - μ)ᵀΣ⁻¹(λ - μ)/2`. Paper: Section 5.1.

use std::f64::consts::PI;

use faer::Mat;

use super::{
    Conjugate, ConjugateFamily, NormalNoise, Parameter, ScalarFamily, ScalarPosterior, VectorFamily,
};
use crate::double::{Cholesky, Double};
use crate::error::{Error, Result, check_entry, check_finite, check_size};
use crate::linear;
use crate::normal::Normal;

/// How far mirrored entries of a covariance may differ, relative to its diagonal: rounding, not
/// intent.
const SYMMETRY: f64 = 1e-12;

/// A variance that is this small a part of what others leave it is rounding.
const LOST: f64 = 1e-26;

/// Vectors with normal noise of known covariance. The mean parameter is the `mean`.
///
/// ```
/// use faer::mat;
/// use possibility::prelude::*;
/// let family = MultivariateNormal::new(mat![[2.0, 1.0], [1.0, 3.0]])?;
/// let posterior = family.observe([[1.0, 0.0], [3.0, 2.0]])?;
/// assert_eq!(posterior.mean_statistic(), Some(&[2.0, 1.0][..]));
/// // the marginal of the first mean is normal with the first variance
/// let first = posterior.coordinate(0, Parameter::Mean)?;
/// assert_eq!(first.precision(), Some(1.0));
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct MultivariateNormal {
    covariance: Mat<f64>,
    precision: Mat<f64>,
    /// Lower triangular, `Σ = LLᵀ`.
    root: Mat<f64>,
    factor: Cholesky,
    log_determinant: f64,
}

impl MultivariateNormal {
    /// The family with covariance `Σ`.
    ///
    /// # Errors
    /// An empty, rectangular, asymmetric or not positive definite matrix, or one with an entry that
    /// is not finite.
    pub fn new(covariance: Mat<f64>) -> Result<Self> {
        let size = covariance.nrows();
        if size == 0 {
            return Err(Error::Empty { name: "covariance" });
        }
        check_size("covariance", covariance.ncols(), size)?;
        for column in 0..size {
            for row in 0..size {
                check_finite("covariance", &[covariance[(row, column)]])?;
            }
        }
        for column in 0..size {
            for row in column + 1..size {
                let (a, b) = (covariance[(row, column)], covariance[(column, row)]);
                let scale = (covariance[(row, row)] * covariance[(column, column)])
                    .abs()
                    .sqrt();
                if (a - b).abs() > SYMMETRY * scale {
                    return Err(Error::NotSymmetric {
                        name: "covariance",
                        row: column,
                        column: row,
                    });
                }
            }
        }
        let covariance = Mat::from_fn(size, size, |i, j| {
            0.5 * covariance[(i, j)] + 0.5 * covariance[(j, i)]
        });
        // in twice the precision: the numbers that are given may be highly correlated
        let factor = Cholesky::new(size, |i, j| covariance[(i, j)].into());
        let is_lost = |factor: &Cholesky| {
            let pivot = |i: usize| factor.entry(i, i).round().powi(2);
            (0..size).any(|i| pivot(i) < LOST * covariance[(i, i)])
        };
        let Some(factor) = factor.filter(|factor| !is_lost(factor)) else {
            return Err(Error::NotPositiveDefinite {
                name: "covariance",
                smallest: linear::smallest_eigenvalue(covariance.as_ref()),
            });
        };
        let root = Mat::from_fn(size, size, |i, j| factor.entry(i, j).round());
        let columns: Vec<_> = (0..size).map(|j| factor.inverse_column(j)).collect();
        let precision = Mat::from_fn(size, size, |i, j| columns[i.min(j)][i.max(j)].round());
        let log_determinant = 2.0 * (0..size).map(|i| root[(i, i)].ln()).sum::<f64>();
        Ok(Self {
            covariance,
            precision,
            root,
            factor,
            log_determinant,
        })
    }

    /// `Σ`.
    pub fn covariance(&self) -> &Mat<f64> {
        &self.covariance
    }

    /// `Σ⁻¹`.
    pub fn precision(&self) -> &Mat<f64> {
        &self.precision
    }

    fn times(matrix: &Mat<f64>, vector: &[f64]) -> Vec<f64> {
        (0..matrix.nrows())
            .map(|i| (0..vector.len()).map(|j| matrix[(i, j)] * vector[j]).sum())
            .collect()
    }

    /// `|L⁻¹v|²/2 = vᵀΣ⁻¹v/2`.
    fn half_mahalanobis(&self, vector: impl Iterator<Item = Double>) -> f64 {
        let mut whitened: Vec<Double> = vector.collect();
        self.factor.solve_lower(&mut whitened);
        0.5 * whitened.iter().map(|x| x.round().powi(2)).sum::<f64>()
    }

    /// The same of a difference, which is not rounded.
    fn half_distance(&self, a: &[f64], b: &[f64]) -> f64 {
        self.half_mahalanobis(a.iter().zip(b).map(|(&a, &b)| Double::sum(a, -b)))
    }

    /// `|Lᵀv|²/2 = vᵀΣv/2`.
    fn half_energy(&self, vector: &[f64]) -> f64 {
        let image = linear::multiply_upper(self.root.as_ref(), vector);
        0.5 * linear::dot(&image, &image)
    }
}

impl ConjugateFamily for MultivariateNormal {
    type Observation = [f64];
    type Coordinate = NormalNoise;

    fn family_name(&self) -> &'static str {
        "multivariate-normal"
    }

    fn mean_parameter_name(&self) -> &'static str {
        "mean"
    }

    fn dimension(&self) -> usize {
        self.covariance.nrows()
    }

    fn check_natural(&self, natural: &[f64]) -> Result<()> {
        check_size("natural parameter", natural.len(), self.dimension())?;
        check_finite("natural parameter", natural)
    }

    fn check_mean(&self, mean: &[f64]) -> Result<()> {
        check_size("mean parameter", mean.len(), self.dimension())?;
        check_finite("mean parameter", mean)
    }

    fn is_on_boundary(&self, _mean: &[f64]) -> bool {
        false
    }

    fn log_partition_at(&self, natural: &[f64]) -> f64 {
        self.half_energy(natural)
    }

    fn mean_at(&self, natural: &[f64]) -> Vec<f64> {
        Self::times(&self.covariance, natural)
    }

    fn curvature_at(&self, _natural: &[f64]) -> Mat<f64> {
        self.covariance.clone()
    }

    fn dual_at(&self, mean: &[f64]) -> f64 {
        self.half_mahalanobis(mean.iter().map(|&x| x.into()))
    }

    fn natural_at(&self, mean: &[f64]) -> Vec<f64> {
        let mut natural: Vec<Double> = mean.iter().map(|&x| x.into()).collect();
        self.factor.solve_lower(&mut natural);
        self.factor.solve_upper(&mut natural);
        natural.into_iter().map(Double::round).collect()
    }

    fn dual_curvature_at(&self, _mean: &[f64]) -> Mat<f64> {
        self.precision.clone()
    }

    fn covariance_at(&self, _mean: &[f64]) -> Mat<f64> {
        self.covariance.clone()
    }

    fn bregman_between(&self, natural: &[f64], reference: &[f64]) -> f64 {
        self.half_energy(&linear::difference(natural, reference))
    }

    fn divergence_at(&self, mean: &[f64], natural: &[f64]) -> f64 {
        self.half_distance(mean, &self.mean_at(natural))
    }

    fn divergence_between_means_at(&self, mean: &[f64], other: &[f64]) -> f64 {
        self.half_distance(mean, other)
    }

    fn divergence_with_rest(&self, mean: &[f64], other: &[f64], rest: &[f64]) -> f64 {
        let pairs = mean.iter().zip(other).zip(rest);
        self.half_mahalanobis(pairs.map(|((&a, &b), &rest)| Double::sum(a, -b) + rest.into()))
    }

    fn statistic(&self, observation: &[f64], index: usize, statistic: &mut [f64]) -> Result<()> {
        check_size("observation", observation.len(), self.dimension())?;
        for &value in observation {
            check_entry(
                "observation",
                index,
                value,
                "(-inf, inf)",
                value.is_finite(),
            )?;
        }
        statistic.copy_from_slice(observation);
        Ok(())
    }

    fn log_base_measure_of(&self, observation: &[f64]) -> f64 {
        self.log_peak() - self.half_mahalanobis(observation.iter().map(|&x| x.into()))
    }

    fn log_likelihood_at(&self, observation: &[f64], mean: &[f64]) -> f64 {
        self.log_peak() - self.half_distance(observation, mean)
    }

    fn coordinates(&self, _parameter: Parameter) -> usize {
        self.dimension()
    }

    fn coordinate(
        &self,
        mean: Option<&[f64]>,
        weight: f64,
        index: usize,
        parameter: Parameter,
    ) -> Result<ScalarPosterior<NormalNoise>> {
        // sup over the other coordinates: the covariance of the mean, the inverse of it in θ
        let family = match parameter {
            Parameter::Mean => NormalNoise::new(self.covariance[(index, index)])?,
            Parameter::Natural => NormalNoise::new(1.0 / self.precision[(index, index)])?,
        };
        let own = mean.map(|mean| match parameter {
            Parameter::Mean => mean[index],
            Parameter::Natural => family.mean_of(self.natural_at(mean)[index]),
        });
        Ok(Conjugate::marginal(family, own, weight).in_parameter(parameter))
    }
}

impl MultivariateNormal {
    /// Log of the density at its mean.
    fn log_peak(&self) -> f64 {
        -0.5 * (self.log_determinant + self.dimension() as f64 * (2.0 * PI).ln())
    }
}

impl VectorFamily for MultivariateNormal {}

impl Conjugate<MultivariateNormal> {
    /// All coordinates of a parameter together; `None` where nothing is known. A mean has the
    /// family's covariance, a natural parameter the precision: neither is an inverse.
    ///
    /// ```
    /// use faer::mat;
    /// use possibility::Possibility;
    /// use possibility::prelude::*;
    /// let family = MultivariateNormal::new(mat![[2.0, 1.0], [1.0, 3.0]])?;
    /// let posterior = family.observe([[1.0, 0.0], [3.0, 2.0]])?;
    /// let mean = posterior.normal(Parameter::Mean)?.expect("there are data");
    /// assert_eq!(mean.covariance()[(0, 1)], 0.5);
    /// assert!((mean.log_possibility(&[4.0, 1.0]) + 12.0 / 5.0).abs() < 1e-15);
    /// # Ok::<(), possibility::Error>(())
    /// ```
    ///
    /// # Errors
    /// The numbers leave the range of `f64`.
    pub fn normal(&self, parameter: Parameter) -> Result<Option<Normal>> {
        let Some(mean) = self.mean_statistic() else {
            return Ok(None);
        };
        let (covariance, weight) = (self.family().covariance(), self.weight());
        let size = mean.len();
        let scaled =
            |scale: &dyn Fn(f64) -> f64| Mat::from_fn(size, size, |i, j| scale(covariance[(i, j)]));
        let normal = match parameter {
            Parameter::Mean => Normal::new(mean.to_vec(), scaled(&|c| c / weight)),
            Parameter::Natural => {
                let natural = self.family().natural_at(mean);
                Normal::from_precision(natural, scaled(&|c| c * weight))
            }
        };
        normal.map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Region;
    use crate::function::Measure;
    use faer::mat;

    /// `vᵀΣ⁻¹v = (v₁+v₂)²/2(1+ρ) + (v₁-v₂)²/2(1-ρ)`, where nothing cancels.
    #[test]
    fn correlated_columns_keep_their_digits() {
        for correlation in [0.5, -0.9, 0.99999999, 0.999999999999, 1.0 - f64::EPSILON] {
            let covariance = mat![[1.0, correlation], [correlation, 1.0]];
            let family = MultivariateNormal::new(covariance).unwrap();
            let posterior = family.clone().observe([[1.0, 1.0001], [2.0, 2.0]]).unwrap();
            let normal = posterior.normal(Parameter::Mean).unwrap().unwrap();
            // one standard deviation is √½
            let half_space = |normal: Vec<f64>, offset| Region::HalfSpace { normal, offset };
            let above = normal.log_possibility_of(&half_space(vec![1.0, 0.0], 2.5));
            assert!((above.unwrap() + 1.0).abs() < 1e-15);
            let (v, w) = (0.5, 0.49995);
            let square = |v: f64| v * v;
            let want = square(v + w) / (4.0 * (1.0 + correlation))
                + square(v - w) / (4.0 * (1.0 - correlation));
            let got = family.divergence_between_means_at(&[v, w], &[0.0, 0.0]);
            assert!(
                (got / want - 1.0).abs() < 1e-15,
                "{correlation}: {got} {want}"
            );
            let natural = family.natural_at(&[v, w]);
            let (sum, difference) = ((v + w) / (1.0 + correlation), (v - w) / (1.0 - correlation));
            for (got, want) in natural.iter().zip([sum + difference, sum - difference]) {
                assert!(
                    (got / (0.5 * want) - 1.0).abs() < 1e-14,
                    "{correlation}: {natural:?}"
                );
            }
            let natural = posterior.normal(Parameter::Natural).unwrap().unwrap();
            assert_eq!(natural.precision()[(0, 1)], 2.0 * correlation);
        }
        let singular = MultivariateNormal::new(mat![[1.0, 1.0], [1.0, 1.0]]);
        assert!(matches!(singular, Err(Error::NotPositiveDefinite { .. })));
        let nothing = Conjugate::uninformative(MultivariateNormal::new(mat![[2.0]]).unwrap());
        assert_eq!(nothing.normal(Parameter::Mean), Ok(None));
    }
}
