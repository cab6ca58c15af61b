//! Normal possibility function with known variance: `g_λ(θ) = exp(-(θ-μ)²/(2σ²))`, `λ = μ/σ²`,
//! `T(θ) = θ`, `B(θ) = θ²/(2σ²)`, `A(λ) = σ²λ²/2`. Paper: appendix "Possibilistic Exponential
//! Family".

use super::ExponentialForm;
use crate::error::{Result, check_alpha, check_positive, check_real};
use crate::function::{Measure, Possibility};
use crate::set::{Interval, RealSet};
use crate::univariate::Univariate;

/// A normal possibility function on ℝ whose variance is known.
///
/// ```
/// use possibility::{Measure, Possibility};
/// use possibility::family::exponential::NormalStyle;
/// let g = NormalStyle::new(1.5, 0.25)?;
/// assert!((g.possibility(&2.0) - (-0.5f64).exp()).abs() < 1e-15);
/// assert!((g.possibility_of(2.0..)? - (-0.5f64).exp()).abs() < 1e-15);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NormalStyle {
    mode: f64,
    variance: f64,
}

impl NormalStyle {
    /// The member with mode `μ` and variance `σ²`.
    ///
    /// # Errors
    /// `μ` is not finite, or `σ²` not finite and positive.
    pub fn new(mode: f64, variance: f64) -> Result<Self> {
        check_real("mode", mode)?;
        check_positive("variance", variance)?;
        Ok(Self { mode, variance })
    }

    /// The member with natural parameter `λ = μ/σ²`.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn from_natural(natural: f64, variance: f64) -> Result<Self> {
        Self::new(natural * variance, variance)
    }
}

impl Possibility for NormalStyle {
    type Point = f64;

    fn log_possibility(&self, point: &f64) -> f64 {
        let gap = point - self.mode;
        if gap.is_nan() {
            return f64::NEG_INFINITY;
        }
        0.0 - 0.5 * gap * gap / self.variance
    }
}

impl Measure<RealSet> for NormalStyle {
    fn log_possibility_of(&self, event: &RealSet) -> Result<f64> {
        Ok(event.supremum(self.mode, |x| self.log_possibility(&x)))
    }

    fn log_possibility_of_complement(&self, event: &RealSet) -> Result<f64> {
        self.log_possibility_of(&event.complement())
    }
}

impl Univariate for NormalStyle {
    fn domain(&self) -> Interval {
        Interval::REAL_LINE
    }

    /// `μ`.
    fn mode(&self) -> Option<f64> {
        Some(self.mode)
    }

    /// `1/σ²`.
    fn precision(&self) -> Option<f64> {
        Some(1.0 / self.variance)
    }

    /// `[μ - σ√(-2 log α), μ + σ√(-2 log α)]`.
    fn cut(&self, alpha: f64) -> Result<Interval> {
        let half_width = (-2.0 * self.variance * check_alpha(alpha)?).sqrt();
        Interval::closed(self.mode - half_width, self.mode + half_width)
    }
}

impl ExponentialForm for NormalStyle {
    fn natural(&self) -> Vec<f64> {
        vec![self.mode / self.variance]
    }

    fn statistic(&self, point: &f64) -> Vec<f64> {
        vec![*point]
    }

    fn base(&self, point: &f64) -> f64 {
        0.5 * point * point / self.variance
    }

    fn log_partition(&self) -> f64 {
        0.5 * self.mode * self.mode / self.variance
    }

    /// `A(λ) + ½ log(2πσ²)`.
    fn additive_log_partition(&self) -> f64 {
        self.log_partition() + 0.5 * (std::f64::consts::TAU * self.variance).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_agree_and_bad_parameters_are_refused() {
        let g = NormalStyle::from_natural(-0.6, 2.5).unwrap();
        assert_eq!(g.mode(), Some(-1.5));
        assert_eq!(g.precision(), Some(0.4));
        for x in [-4.0, -1.5, 0.0, 2.25] {
            assert!((g.exponential_form(&x) - g.log_possibility(&x)).abs() < 1e-14);
        }
        assert!(NormalStyle::new(0.0, 0.0).is_err());
        assert!(NormalStyle::new(f64::NAN, 1.0).is_err());
        assert!(NormalStyle::new(0.0, f64::INFINITY).is_err());
        assert_eq!(g.possibility_of(&RealSet::empty()).unwrap(), 0.0);
        assert_eq!(g.necessity_of(&RealSet::everything()).unwrap(), 1.0);
    }
}
