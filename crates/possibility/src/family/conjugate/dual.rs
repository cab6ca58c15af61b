//! The dual possibility function `f_θ: λ ↦ g_λ(θ) = exp(θᵀλ - A††(θ) - A†(λ))`, a member of
//! `G_{A†}`: the roles of `A` and `A†` are exchanged. Mode `∇A(θ)`, precision `∇²A†` there. Paper:
//! Section 5.1.

use faer::Mat;

use super::ConjugateFamily;
use crate::error::{Result, check_not_negative};
use crate::function::{Mode, Possibility};

/// `f_θ^ν: λ ↦ g_λ^ν(θ)`, a possibility function of the mean statistic.
///
/// ```
/// use possibility::Possibility;
/// use possibility::family::conjugate::{Conjugate, Dual, Poisson};
/// let dual = Dual::new(Poisson, &[0.5], 2.0)?;
/// let conjugate = Conjugate::new(Poisson, &[3.0], 2.0)?;
/// assert_eq!(dual.log_possibility(&[3.0]), conjugate.log_possibility(&[0.5]));
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Dual<F> {
    family: F,
    natural: Vec<f64>,
    weight: f64,
}

impl<F: ConjugateFamily> Dual<F> {
    /// The dual function at `θ = natural`, to the power `weight`.
    ///
    /// # Errors
    /// `θ` outside the natural domain, or the weight negative or not finite.
    pub fn new(family: F, natural: &[f64], weight: f64) -> Result<Self> {
        family.check_natural(natural)?;
        check_not_negative("weight", weight)?;
        Ok(Self {
            family,
            natural: natural.to_vec(),
            weight,
        })
    }

    /// The mode `∇A(θ) = ∇(A†)†(θ)`; everything at weight 0.
    pub fn mode(&self) -> Mode<Vec<f64>> {
        if self.weight == 0.0 {
            Mode::Everything
        } else {
            Mode::Point(self.family.mean_at(&self.natural))
        }
    }

    /// `ν∇²A†(∇A(θ))`; `None` if the mode is on the boundary.
    pub fn precision(&self) -> Option<Mat<f64>> {
        let mean = self.family.mean_at(&self.natural);
        if self.family.is_on_boundary(&mean) {
            return None;
        }
        Some(self.family.dual_curvature_at(&mean) * faer::Scale(self.weight))
    }
}

impl<F: ConjugateFamily> Possibility for Dual<F> {
    type Point = [f64];

    /// `ν(θᵀλ - A(θ) - A†(λ))`; `-∞` outside the mean domain.
    fn log_possibility(&self, point: &[f64]) -> f64 {
        if self.family.check_mean(point).is_err() {
            f64::NEG_INFINITY
        } else if self.weight == 0.0 {
            0.0
        } else {
            0.0 - self.weight * self.family.divergence_at(point, &self.natural)
        }
    }
}
