//! Bernoulli-style possibility function on {0, 1}: `g_λ(θ) = exp(λ₁(1-θ) + λ₂θ - max(λ₁, λ₂))`, or
//! with one parameter `η = λ₂ - λ₁`, `g_η(θ) = exp(ηθ - max(0, η))`. Paper: appendix "Possibilistic
//! Exponential Family".

use super::ExponentialForm;
use crate::error::{Error, Result, check, check_alpha, check_finite, check_real};
use crate::function::{Measure, Mode, Possibility};
use crate::numeric::softplus;
use crate::set::RealSet;

/// A possibility function on {0, 1}; `false` is the point 0 and `true` the point 1.
///
/// ```
/// use possibility::{Mode, Possibility};
/// use possibility::family::exponential::BernoulliStyle;
/// let detection = BernoulliStyle::from_possibilities(0.25, 1.0)?;
/// assert_eq!(detection.mode(), Mode::Point(true));
/// assert!((detection.eta() - 4f64.ln()).abs() < 1e-15);
/// assert!((detection.possibility(&false) - 0.25).abs() < 1e-15);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BernoulliStyle {
    natural: [f64; 2],
}

impl BernoulliStyle {
    /// The member with the parameter `λ = (λ₁, λ₂)`.
    ///
    /// # Errors
    /// An entry that is not finite, or a difference that overflows.
    pub fn new(natural: [f64; 2]) -> Result<Self> {
        check_finite("natural parameter", &natural)?;
        check_real("eta", natural[1] - natural[0])?;
        Ok(Self { natural })
    }

    /// The member with the single parameter `η`, as `λ = (0, η)`.
    ///
    /// # Errors
    /// `η` is not finite.
    pub fn from_eta(eta: f64) -> Result<Self> {
        check_real("eta", eta)?;
        Ok(Self {
            natural: [0.0, eta],
        })
    }

    /// The member with possibilities `α₀` of 0 and `α₁` of 1, as `λ = (log α₀, log α₁)`.
    ///
    /// # Errors
    /// A possibility outside `(0, 1]`, or none equal to 1.
    pub fn from_possibilities(zero: f64, one: f64) -> Result<Self> {
        let accept = |a: f64| a > 0.0 && a <= 1.0;
        check("possibility of 0", zero, "(0, 1]", accept)?;
        check("possibility of 1", one, "(0, 1]", accept)?;
        let supremum = zero.max(one);
        if supremum < 1.0 {
            return Err(Error::NotNormalized { supremum });
        }
        Ok(Self {
            natural: [zero.ln(), one.ln()],
        })
    }

    /// `η = λ₂ - λ₁`.
    pub fn eta(&self) -> f64 {
        self.natural[1] - self.natural[0]
    }

    /// The log-partition `max(0, η)` of the form with one parameter.
    pub fn log_partition_of_eta(&self) -> f64 {
        self.eta().max(0.0)
    }

    /// `(α₀, α₁)`.
    pub fn possibilities(&self) -> (f64, f64) {
        (self.possibility(&false), self.possibility(&true))
    }

    /// The maximizers; everything at `η = 0`.
    pub fn mode(&self) -> Mode<bool> {
        if self.eta() == 0.0 {
            Mode::Everything
        } else {
            Mode::Point(self.eta() > 0.0)
        }
    }

    /// `{θ : g(θ) ≥ alpha}`.
    ///
    /// # Errors
    /// `alpha` outside `(0, 1]`.
    pub fn alpha_cut(&self, alpha: f64) -> Result<RealSet> {
        let log_alpha = check_alpha(alpha)?;
        let points: Vec<f64> = [false, true]
            .into_iter()
            .filter(|point| self.log_possibility(point) >= log_alpha)
            .map(f64::from)
            .collect();
        RealSet::points(&points)
    }

    fn supremum(&self, contains: impl Fn(f64) -> bool) -> f64 {
        [false, true]
            .into_iter()
            .filter(|&point| contains(f64::from(point)))
            .map(|point| self.log_possibility(&point))
            .fold(f64::NEG_INFINITY, f64::max)
    }
}

impl Possibility for BernoulliStyle {
    type Point = bool;

    fn log_possibility(&self, point: &bool) -> f64 {
        // ηθ - max(0, η), without a negative zero
        let eta = self.eta();
        0.0 - if *point {
            (-eta).max(0.0)
        } else {
            eta.max(0.0)
        }
    }
}

impl Measure<RealSet> for BernoulliStyle {
    fn log_possibility_of(&self, event: &RealSet) -> Result<f64> {
        Ok(self.supremum(|x| event.contains(x)))
    }

    fn log_possibility_of_complement(&self, event: &RealSet) -> Result<f64> {
        Ok(self.supremum(|x| !event.contains(x)))
    }
}

impl ExponentialForm for BernoulliStyle {
    fn natural(&self) -> Vec<f64> {
        self.natural.to_vec()
    }

    fn statistic(&self, point: &bool) -> Vec<f64> {
        let theta = f64::from(*point);
        vec![1.0 - theta, theta]
    }

    fn base(&self, _point: &bool) -> f64 {
        0.0
    }

    fn log_partition(&self) -> f64 {
        self.natural[0].max(self.natural[1])
    }

    /// `log(e^λ₁ + e^λ₂)`.
    fn additive_log_partition(&self) -> f64 {
        self.natural[0] + softplus(self.natural[1] - self.natural[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parametrizations_are_the_same_function() {
        for natural in [[0.3, -1.2], [-2.0, 0.75], [1.5, 1.5]] {
            let two = BernoulliStyle::new(natural).unwrap();
            let one = BernoulliStyle::from_eta(two.eta()).unwrap();
            let (zero_possibility, one_possibility) = two.possibilities();
            let back = BernoulliStyle::from_possibilities(zero_possibility, one_possibility);
            for point in [false, true] {
                assert_eq!(two.log_possibility(&point), one.log_possibility(&point));
                assert!((two.exponential_form(&point) - two.log_possibility(&point)).abs() < 1e-15);
                let back = back.clone().unwrap().log_possibility(&point);
                assert!((back - two.log_possibility(&point)).abs() < 1e-15);
            }
            assert_eq!(one.log_partition(), two.log_partition_of_eta());
        }
    }

    #[test]
    fn events_cuts_and_refusals() {
        let f = BernoulliStyle::from_possibilities(1.0, 0.25).unwrap();
        let one = RealSet::points(&[1.0]).unwrap();
        assert!((f.possibility_of(&one).unwrap() - 0.25).abs() < 1e-15);
        assert_eq!(f.necessity_of(&one).unwrap(), 0.0);
        let zero = RealSet::points(&[0.0, 5.0]).unwrap();
        assert!((f.necessity_of(&zero).unwrap() - 0.75).abs() < 1e-15);
        assert_eq!(f.alpha_cut(0.5).unwrap(), RealSet::points(&[0.0]).unwrap());
        assert_eq!(
            f.alpha_cut(0.2).unwrap(),
            RealSet::points(&[0.0, 1.0]).unwrap()
        );
        assert!(f.alpha_cut(0.0).is_err() && f.alpha_cut(f64::NAN).is_err());
        assert_eq!(
            BernoulliStyle::from_possibilities(0.5, 0.75),
            Err(Error::NotNormalized { supremum: 0.75 })
        );
        assert!(BernoulliStyle::from_possibilities(0.0, 1.0).is_err());
        assert!(BernoulliStyle::new([f64::NAN, 0.0]).is_err());
        assert!(BernoulliStyle::from_eta(f64::INFINITY).is_err());
    }
}
