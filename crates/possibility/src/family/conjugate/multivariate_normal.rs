//! Multivariate normal likelihood with known covariance `Σ`: `A(θ) = θᵀΣθ/2` with `θ = Σ⁻¹` mean,
//! `A†(λ) = λᵀΣ⁻¹λ/2`, and `KL = (λ - μ)ᵀΣ⁻¹(λ - μ)/2`. Paper: Section 5.1.

use std::f64::consts::PI;

use faer::linalg::solvers::DenseSolveCore;
use faer::{Mat, Side};

use super::{
    Conjugate, ConjugateFamily, NormalNoise, Parameter, ScalarFamily, ScalarPosterior, VectorFamily,
};
use crate::error::{Error, Result, check_entry, check_finite, check_size};
use crate::linear;

/// How far mirrored entries of a covariance may differ, relative to its diagonal: rounding, not
/// intent.
const SYMMETRY: f64 = 1e-12;

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
        let Ok(factor) = covariance.llt(Side::Lower) else {
            let smallest = covariance
                .self_adjoint_eigenvalues(Side::Lower)
                .ok()
                .and_then(|values| values.into_iter().reduce(f64::min))
                .unwrap_or(f64::NAN);
            return Err(Error::NotPositiveDefinite {
                name: "covariance",
                smallest,
            });
        };
        let root = factor.L().to_owned();
        let inverse = factor.inverse();
        let precision = Mat::from_fn(size, size, |i, j| 0.5 * (inverse[(i, j)] + inverse[(j, i)]));
        let log_determinant = 2.0 * (0..size).map(|i| root[(i, i)].ln()).sum::<f64>();
        Ok(Self {
            covariance,
            precision,
            root,
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
    fn half_mahalanobis(&self, vector: &[f64]) -> f64 {
        let mut whitened = vector.to_vec();
        for i in 0..whitened.len() {
            let sum: f64 = (0..i).map(|j| self.root[(i, j)] * whitened[j]).sum();
            whitened[i] = (whitened[i] - sum) / self.root[(i, i)];
        }
        0.5 * whitened.iter().map(|x| x * x).sum::<f64>()
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
        self.half_mahalanobis(mean)
    }

    fn natural_at(&self, mean: &[f64]) -> Vec<f64> {
        Self::times(&self.precision, mean)
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
        self.half_mahalanobis(&linear::difference(mean, &self.mean_at(natural)))
    }

    fn divergence_between_means_at(&self, mean: &[f64], other: &[f64]) -> f64 {
        self.half_mahalanobis(&linear::difference(mean, other))
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
        self.log_peak() - self.half_mahalanobis(observation)
    }

    fn log_likelihood_at(&self, observation: &[f64], mean: &[f64]) -> f64 {
        self.log_peak() - self.half_mahalanobis(&linear::difference(observation, mean))
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
