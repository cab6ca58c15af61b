//! The family on [0, 1] with an indicator statistic:
//! `g_λ(θ) = exp(λ₁θ + λ₂1₀(θ) - max(0, λ₁, λ₂))`, where `1₀` is the indicator of the point 0. A
//! single point matters to a supremum, and the supremum need not be attained. Paper: appendix
//! "Possibilistic Exponential Family".

use super::ExponentialForm;
use crate::error::{Result, check_alpha, check_finite};
use crate::function::{Measure, Mode, Possibility};
use crate::set::{Interval, RealSet};

/// A possibility function on [0, 1] that may jump at 0.
///
/// ```
/// use possibility::{Measure, Mode};
/// use possibility::family::exponential::PointMassStyle;
/// use possibility::set::{Interval, RealSet};
/// // decreases from 1 next to 0, but drops at 0 itself: the supremum is approached, never attained
/// let g = PointMassStyle::new([-1.0, -2.0])?;
/// assert_eq!(g.mode(), Mode::Approached(0.0));
/// assert!(g.argmax().is_empty());
/// assert_eq!(g.possibility_of(&Interval::open(0.0, 0.5)?.into())?, 1.0);
/// assert!((g.possibility_of(&RealSet::points(&[0.0])?)? - (-2f64).exp()).abs() < 1e-15);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PointMassStyle {
    natural: [f64; 2],
}

impl PointMassStyle {
    /// The member with the parameter `λ = (λ₁, λ₂)`: slope on (0, 1] and log value at 0, before
    /// normalization.
    ///
    /// # Errors
    /// An entry that is not finite.
    pub fn new(natural: [f64; 2]) -> Result<Self> {
        check_finite("natural parameter", &natural)?;
        Ok(Self { natural })
    }

    /// The maximizers, exactly: one or two points, `(0, 1]`, `[0, 1]`, or none at all.
    pub fn argmax(&self) -> RealSet {
        self.cut(0.0)
    }

    /// Whether the supremum is the value at some point.
    pub fn is_attained(&self) -> bool {
        !self.argmax().is_empty()
    }

    /// The maximizers as a mode.
    ///
    /// `Approached(0.0)` if `λ₁ < 0` and `λ₂ < 0`. For the half-open `(0, 1]` of `λ₁ = 0 > λ₂` the
    /// lower end of the interval is the smallest positive number, so that both ends are maximizers.
    pub fn mode(&self) -> Mode<f64> {
        let [slope, at_zero] = self.natural;
        let elsewhere = slope.max(0.0);
        if at_zero > elsewhere || (at_zero == elsewhere && slope < 0.0) {
            Mode::Point(0.0)
        } else if slope > 0.0 {
            if at_zero == elsewhere {
                Mode::Finite(vec![0.0, 1.0])
            } else {
                Mode::Point(1.0)
            }
        } else if slope == 0.0 {
            if at_zero == 0.0 {
                Mode::Everything
            } else {
                Mode::Interval(f64::from_bits(1), 1.0)
            }
        } else {
            Mode::Approached(0.0)
        }
    }

    /// `{θ : g(θ) ≥ alpha}`: at most the point 0 and one interval; for `alpha = 1` it may be empty.
    ///
    /// # Errors
    /// `alpha` outside `(0, 1]`.
    pub fn alpha_cut(&self, alpha: f64) -> Result<RealSet> {
        Ok(self.cut(check_alpha(alpha)?))
    }

    fn cut(&self, log_level: f64) -> RealSet {
        let slope = self.natural[0];
        let log_partition = self.log_partition();
        // what is left for λ₁θ to make up, or what it may lose
        let needed = log_partition + log_level;
        let smooth = if slope > 0.0 {
            // from the right end: λ₁(1 - θ) may be at most what 1 is above the level
            let lower = if slope == log_partition {
                1.0 + log_level / slope
            } else {
                needed / slope
            };
            if lower < 0.0 {
                Interval::new(0.0, 1.0, false, true)
            } else {
                Interval::new(lower, 1.0, lower > 0.0, true)
            }
        } else if needed > 0.0 {
            // λ₁θ ≤ 0 cannot reach the level
            return self.point_zero(log_level);
        } else if slope == 0.0 {
            Interval::new(0.0, 1.0, false, true)
        } else {
            Interval::new(0.0, (needed / slope).min(1.0), false, true)
        };
        let smooth: RealSet = smooth.into_iter().collect();
        smooth.union(&self.point_zero(log_level))
    }

    fn point_zero(&self, log_level: f64) -> RealSet {
        if self.natural[1] - self.log_partition() >= log_level {
            Interval::point(0.0).into_iter().collect()
        } else {
            RealSet::empty()
        }
    }
}

impl Possibility for PointMassStyle {
    type Point = f64;

    fn log_possibility(&self, point: &f64) -> f64 {
        if *point == 0.0 {
            self.natural[1] - self.log_partition()
        } else if *point > 0.0 && *point <= 1.0 {
            self.natural[0] * point - self.log_partition()
        } else {
            f64::NEG_INFINITY
        }
    }
}

impl Measure<RealSet> for PointMassStyle {
    fn log_possibility_of(&self, event: &RealSet) -> Result<f64> {
        let open = Interval::new(0.0, 1.0, false, true);
        let smooth = event
            .parts()
            .iter()
            .filter_map(|part| open.as_ref().ok()?.intersection(part))
            // monotone and continuous on (0, 1]: the end on the higher side, attained or approached
            .map(|part| {
                let end = if self.natural[0] > 0.0 {
                    part.upper()
                } else {
                    part.lower()
                };
                self.natural[0] * end - self.log_partition()
            })
            .fold(f64::NEG_INFINITY, f64::max);
        Ok(if event.contains(0.0) {
            smooth.max(self.log_possibility(&0.0))
        } else {
            smooth
        })
    }

    fn log_possibility_of_complement(&self, event: &RealSet) -> Result<f64> {
        self.log_possibility_of(&event.complement())
    }
}

impl ExponentialForm for PointMassStyle {
    fn natural(&self) -> Vec<f64> {
        self.natural.to_vec()
    }

    fn statistic(&self, point: &f64) -> Vec<f64> {
        vec![*point, f64::from(*point == 0.0)]
    }

    /// 0 on [0, 1], `+∞` outside.
    fn base(&self, point: &f64) -> f64 {
        if (0.0..=1.0).contains(point) {
            0.0
        } else {
            f64::INFINITY
        }
    }

    fn log_partition(&self) -> f64 {
        // `0.0 +`: no negative zero
        0.0 + self.natural[0].max(self.natural[1]).max(0.0)
    }

    /// `log((e^λ₁ - 1)/λ₁)`, whatever `λ₂`: a point has no length.
    fn additive_log_partition(&self) -> f64 {
        // λ/2 + log(sinh x/x) with x = |λ|/2: neither cancels nor overflows
        let half = 0.5 * self.natural[0];
        let x = half.abs();
        if x > 1.0 {
            return half + x + (-(-2.0 * x).exp_m1() / (2.0 * x)).ln();
        }
        let (mut term, mut excess) = (1.0, 0.0);
        for k in 1..12 {
            term *= x * x / f64::from(2 * k * (2 * k + 1));
            excess += term;
        }
        half + f64::ln_1p(excess)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_kind_of_mode() {
        for (natural, mode, argmax) in [
            ([1.0, 0.5], Mode::Point(1.0), "{1}"),
            ([-1.0, 0.5], Mode::Point(0.0), "{0}"),
            ([-1.0, 0.0], Mode::Point(0.0), "{0}"),
            ([-1.0, -2.0], Mode::Approached(0.0), "∅"),
            ([1.5, 1.5], Mode::Finite(vec![0.0, 1.0]), "{0} ∪ {1}"),
            (
                [0.0, -1.0],
                Mode::Interval(f64::from_bits(1), 1.0),
                "(0, 1]",
            ),
            ([0.0, 0.0], Mode::Everything, "[0, 1]"),
        ] {
            let g = PointMassStyle::new(natural).unwrap();
            assert_eq!(g.mode(), mode, "{natural:?}");
            assert_eq!(g.argmax().to_string(), argmax, "{natural:?}");
            assert_eq!(g.is_attained(), argmax != "∅");
        }
    }

    #[test]
    fn cuts_worked_by_hand() {
        let half = 0.5f64;
        let falling = PointMassStyle::new([-2.0, -3.0]).unwrap();
        let cut = falling.alpha_cut((-half).exp()).unwrap();
        assert_eq!(cut.to_string(), "(0, 0.25]");
        let rising = PointMassStyle::new([2.0, 1.0]).unwrap();
        let cut = rising.alpha_cut((-1.0f64).exp() * (1.0 - 1e-12)).unwrap();
        assert_eq!(cut.parts().len(), 2);
        assert!(cut.contains(0.0) && !cut.contains(0.4) && cut.contains(0.5));
        assert!(falling.alpha_cut(1.5).is_err());
        assert!(PointMassStyle::new([f64::INFINITY, 0.0]).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn cuts_agree_with_values(
            slope in -4i32..4, at_zero in -4i32..4, alpha in 0.01f64..0.99, x in 0.0f64..1.0,
        ) {
            let g = PointMassStyle::new([f64::from(slope) / 2.0, f64::from(at_zero) / 2.0]).unwrap();
            let cut = g.alpha_cut(alpha).unwrap();
            for point in [0.0, x, 1.0] {
                let value = g.possibility(&point);
                if (value - alpha).abs() > 1e-14 {
                    prop_assert_eq!(cut.contains(point), value >= alpha, "{} in {}", point, cut);
                }
                prop_assert!((g.exponential_form(&point) - g.log_possibility(&point)).abs() < 1e-14);
            }
            // the complement of a cut is at most alpha possible, and one of both is fully possible
            let outside = g.possibility_of(&cut.complement()).unwrap();
            prop_assert!(outside <= alpha * (1.0 + 1e-14));
            prop_assert_eq!(g.possibility_of(&cut).unwrap().max(outside), 1.0);
        }
    }
}
