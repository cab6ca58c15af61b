//! Normal possibility of one number, `exp(-½((x-μ)/s)²)`, and three of them around an unknown one:
//! the supremum-marginals of the Laplace, upper and lower Gaussian along one linear function of the
//! coefficients.

use crate::error::{Result, check_alpha, check_not_negative, check_real};
use crate::function::{AsEvent, Credence, Measure, Possibility};
use crate::set::{Interval, RealSet};
use crate::univariate::Univariate;

/// Normal possibility function of a coefficient or of a linear predictor.
///
/// A standard deviation of zero stands for a number that is known, such as the predictor of a row
/// of zeros.
///
/// ```
/// use possibility::regression::Marginal;
/// use possibility::Univariate;
/// let slope = Marginal::new(1.0, 0.5)?;
/// assert_eq!(slope.positive().possibility, 1.0);
/// assert!((slope.positive().necessity - (1.0 - (-2f64).exp())).abs() < 1e-15);
/// assert_eq!(slope.zero().possibility, (-2f64).exp());
/// let cut = slope.cut((-2f64).exp())?;
/// assert!(cut.lower().abs() < 1e-15 && (cut.upper() - 2.0).abs() < 1e-15);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Marginal {
    mode: f64,
    standard_deviation: f64,
}

/// The two ends between which a value is certain to lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bounds {
    /// At least this.
    pub lower: f64,
    /// At most this.
    pub upper: f64,
}

impl Marginal {
    /// `exp(-½((x - mode)/standard_deviation)²)`.
    ///
    /// # Errors
    /// The mode is not finite or the standard deviation is not in `[0, ∞)`.
    pub fn new(mode: f64, standard_deviation: f64) -> Result<Self> {
        check_real("mode", mode)?;
        check_not_negative("standard deviation", standard_deviation)?;
        Ok(Self {
            mode,
            standard_deviation,
        })
    }

    /// Where the possibility is 1.
    pub fn mode(&self) -> f64 {
        self.mode
    }

    /// `s`; the precision is `1/s²`.
    pub fn standard_deviation(&self) -> f64 {
        self.standard_deviation
    }

    /// The event `x > 0`.
    pub fn positive(&self) -> Credence {
        self.on_one_side(self.mode)
    }

    /// The event `x < 0`.
    pub fn negative(&self) -> Credence {
        self.on_one_side(-self.mode)
    }

    /// The event `x = 0`: its possibility is the largest `α` whose cut contains zero.
    pub fn zero(&self) -> Credence {
        Credence {
            possibility: self.possibility(&0.0),
            // every number but one has supremum 1, unless the number is known to be that one
            necessity: f64::from(u8::from(self.standard_deviation == 0.0 && self.mode == 0.0)),
        }
    }

    /// The event `x > 0` for the mode at `mode`.
    fn on_one_side(&self, mode: f64) -> Credence {
        let at_zero = self.log_possibility(&0.0);
        if mode > 0.0 {
            Credence {
                possibility: 1.0,
                necessity: 0.0 - at_zero.exp_m1(),
            }
        } else {
            // a known zero is not positive, and the supremum over x > 0 is not reached at zero
            let known = self.standard_deviation == 0.0;
            Credence {
                possibility: if known { 0.0 } else { at_zero.exp() },
                necessity: 0.0,
            }
        }
    }
}

impl Possibility for Marginal {
    type Point = f64;

    fn log_possibility(&self, point: &f64) -> f64 {
        if *point == self.mode {
            return 0.0;
        }
        let z = (point - self.mode) / self.standard_deviation;
        -0.5 * z * z
    }
}

impl Measure<RealSet> for Marginal {
    fn log_possibility_of(&self, event: &RealSet) -> Result<f64> {
        if self.standard_deviation == 0.0 {
            let certain = event.contains(self.mode);
            return Ok(if certain { 0.0 } else { f64::NEG_INFINITY });
        }
        Ok(event.supremum(self.mode, |x| self.log_possibility(&x)))
    }

    fn log_possibility_of_complement(&self, event: &RealSet) -> Result<f64> {
        self.log_possibility_of(&event.complement())
    }
}

impl Univariate for Marginal {
    fn domain(&self) -> Interval {
        Interval::REAL_LINE
    }

    fn mode(&self) -> Option<f64> {
        Some(self.mode)
    }

    fn precision(&self) -> Option<f64> {
        Some(self.standard_deviation.powi(-2))
    }

    fn cut(&self, alpha: f64) -> Result<Interval> {
        check_alpha(alpha)?;
        let reach = self.standard_deviation * (-2.0 * alpha.ln()).sqrt();
        Interval::closed(self.mode - reach, self.mode + reach)
    }
}

/// One linear function of the coefficients under the three Gaussians; they share the mode.
///
/// The supremum-marginal of the posterior lies between those of the lower and the upper Gaussian.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MarginalBounds {
    /// Under the Laplace approximation: a good guess, no bound.
    pub laplace: Marginal,
    /// Under the Gaussian above the posterior.
    pub upper: Marginal,
    /// Under the Gaussian below the posterior.
    pub lower: Marginal,
}

impl MarginalBounds {
    /// `Π_lower(A) ≤ Π(A) ≤ Π_upper(A)`.
    ///
    /// # Errors
    /// What is given is no event.
    pub fn possibility_of(&self, event: impl AsEvent<RealSet>) -> Result<Bounds> {
        let event = event.as_event()?;
        Ok(Bounds {
            lower: self.lower.possibility_of(&*event)?,
            upper: self.upper.possibility_of(&*event)?,
        })
    }

    /// `N_upper(A) ≤ N(A) ≤ N_lower(A)`: the wider function is the less certain one.
    ///
    /// # Errors
    /// What is given is no event.
    pub fn necessity_of(&self, event: impl AsEvent<RealSet>) -> Result<Bounds> {
        let event = event.as_event()?;
        Ok(Bounds {
            lower: self.upper.necessity_of(&*event)?,
            upper: self.lower.necessity_of(&*event)?,
        })
    }

    /// The inner and the outer interval around the α-cut of the posterior.
    ///
    /// # Errors
    /// `alpha` is not in `(0, 1]`.
    pub fn cut(&self, alpha: f64) -> Result<(Interval, Interval)> {
        Ok((self.lower.cut(alpha)?, self.upper.cut(alpha)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_known_number_is_certain() {
        let known = Marginal::new(0.0, 0.0).unwrap();
        let nothing = Credence {
            possibility: 0.0,
            necessity: 0.0,
        };
        assert_eq!(known.positive(), nothing);
        assert_eq!(known.negative(), nothing);
        assert_eq!(
            known.zero(),
            Credence {
                possibility: 1.0,
                necessity: 1.0
            }
        );
        assert_eq!(known.cut(0.3), Interval::point(0.0));
        assert_eq!(
            known.possibility_of(&Interval::above(0.0).unwrap().into()),
            Ok(0.0)
        );
    }

    #[test]
    fn refuses_bad_numbers() {
        assert!(Marginal::new(f64::NAN, 1.0).is_err());
        assert!(Marginal::new(0.0, -1.0).is_err());
        assert!(Marginal::new(0.0, f64::INFINITY).is_err());
        let unit = Marginal::new(0.0, 1.0).unwrap();
        for alpha in [0.0, -0.1, 1.1, f64::NAN] {
            assert!(unit.cut(alpha).is_err());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn the_three_signs_agree_with_their_sets(mode in -3.0..3.0f64, s in 0.01..4.0f64) {
            let f = Marginal::new(mode, s).unwrap();
            let above: RealSet = Interval::above(0.0).unwrap().into();
            let below: RealSet = Interval::below(0.0).unwrap().into();
            let zero: RealSet = Interval::point(0.0).unwrap().into();
            for (event, credence) in [(above, f.positive()), (below, f.negative()), (zero, f.zero())] {
                prop_assert_eq!(f.possibility_of(&event), Ok(credence.possibility));
                prop_assert_eq!(f.necessity_of(&event), Ok(credence.necessity));
                let complement = f.possibility_of(&event.complement()).unwrap();
                prop_assert_eq!(credence.possibility.max(complement), 1.0);
            }
        }

        #[test]
        fn the_ends_of_a_cut_have_its_level(mode in -3.0..3.0f64, s in 0.01..4.0f64, alpha in 1e-6..1.0f64) {
            let f = Marginal::new(mode, s).unwrap();
            let cut = f.cut(alpha).unwrap();
            prop_assert!((f.possibility(&cut.lower()) - alpha).abs() < 1e-12);
            prop_assert!((f.possibility(&cut.upper()) - alpha).abs() < 1e-12);
        }
    }
}
