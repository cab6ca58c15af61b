//! Poisson-style possibility function on ℕ₀: `f(θ) = α^(θ-⌊α⌋) ⌊α⌋!/θ!` with rate `α > 0`, that is
//! `λ = log α`, `T(θ) = θ`, `B(θ) = log θ!`, `A(λ) = ⌊e^λ⌋λ - log ⌊e^λ⌋!`. Paper: appendix
//! "Possibilistic Exponential Family".
//!
//! The rate, not its log, is what is kept: only the rate says whether it is an integer, and then
//! both `α - 1` and `α` are modes.

use std::ops::RangeInclusive;

use super::ExponentialForm;
use crate::count::{CountRange, UnimodalCount, border};
use crate::error::{Result, check, check_alpha};
use crate::family::special::{
    deviance, deviance_from_gap, log_factorial, stirling_remainder_difference,
};
use crate::function::{Measure, Mode, Possibility};

/// Beyond this rate neighboring integers are no longer distinct in `f64`.
const LARGEST_RATE: f64 = 9_007_199_254_740_992.0;

/// Up to this many factors the product is exact enough, and quicker than Stirling's series.
const FEW: u64 = 64;

/// Up to this many factors a doubtful comparison with a level is settled in doubled precision.
const MANY: u64 = 2_000_000;

/// A possibility function of counts.
///
/// ```
/// use possibility::{Mode, Possibility};
/// use possibility::family::exponential::PoissonStyle;
/// let f = PoissonStyle::new(4.0)?;
/// assert_eq!(f.mode(), Mode::Finite(vec![3, 4]));
/// assert!((f.possibility(&6) - 16.0 / 30.0).abs() < 1e-15);
/// assert_eq!(f.alpha_cut(0.5)?, 2..=6);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PoissonStyle {
    rate: f64,
}

impl PoissonStyle {
    /// The member with the given rate `α`.
    ///
    /// # Errors
    /// A rate outside `(0, 2^53]`.
    pub fn new(rate: f64) -> Result<Self> {
        check("rate", rate, "(0, 2^53]", |a| a > 0.0 && a <= LARGEST_RATE)?;
        Ok(Self { rate })
    }

    /// The rate `α`.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// `⌊α⌋`, a maximizer.
    pub fn floor(&self) -> u64 {
        self.rate.floor() as u64
    }

    /// The maximizers: `⌊α⌋`, and `α - 1` as well if `α` is an integer.
    pub fn mode(&self) -> Mode<u64> {
        self.count_mode()
    }

    /// `{θ : f(θ) ≥ alpha}`, a run of counts.
    ///
    /// Exact: where `f64` cannot tell `f(θ)` from `alpha`, doubled precision does, and equality is
    /// inside.
    ///
    /// # Errors
    /// `alpha` outside `(0, 1]`.
    pub fn alpha_cut(&self, alpha: f64) -> Result<RangeInclusive<u64>> {
        let log_alpha = check_alpha(alpha)?;
        let inside = |k: u64| self.is_at_least(k, alpha, log_alpha);
        let floor = self.floor();
        let mut high = floor;
        // double a step until it leaves the cut, then halve it
        let mut step = 1;
        while inside(high.saturating_add(step)) {
            high += step;
            step *= 2;
        }
        while step > 1 {
            step /= 2;
            if inside(high + step) {
                high += step;
            }
        }
        let low = match inside(0) {
            true => 0,
            false => border(self.lowest_mode(), 0, inside),
        };
        Ok(low..=high)
    }

    /// The smaller maximizer.
    fn lowest_mode(&self) -> u64 {
        let floor = self.floor();
        if floor >= 1 && self.rate == self.rate.floor() {
            floor - 1
        } else {
            floor
        }
    }

    /// Whether `f(k) ≥ alpha`.
    fn is_at_least(&self, k: u64, alpha: f64, log_alpha: f64) -> bool {
        let gap = self.log_possibility(&k) - log_alpha;
        let doubtful = 1e-11 * (1.0 - log_alpha);
        let factors = k.abs_diff(self.floor());
        if gap.abs() > doubtful || factors > MANY || alpha < 1e-250 {
            return gap >= 0.0;
        }
        let mut product = Doubled::from(1.0);
        if k > self.floor() {
            for j in self.floor() + 1..=k {
                product = product.times(self.rate).over(j as f64);
            }
        } else {
            for j in k + 1..=self.floor() {
                product = product.times(j as f64).over(self.rate);
            }
        }
        // each factor may cost a rounding error of the doubled precision
        let slack = (factors as f64 + 1.0) * f64::powi(2.0, -100);
        product.minus(alpha) >= -slack * alpha
    }

    /// `log sup f` over the counts from `low` to `high`.
    fn supremum_between(&self, low: u64, high: u64) -> f64 {
        if low > high {
            f64::NEG_INFINITY
        } else if high < self.lowest_mode() {
            self.log_possibility(&high)
        } else if low > self.floor() {
            self.log_possibility(&low)
        } else {
            0.0
        }
    }
}

impl Possibility for PoissonStyle {
    type Point = u64;

    fn log_possibility(&self, point: &u64) -> f64 {
        let (k, floor) = (*point, self.floor());
        if k.abs_diff(floor) <= FEW {
            // each factor is at most 1: near 1 its distance to 1 is exact, far from it the factor
            // itself
            let log_factor = |above: f64, below: f64| {
                if above < 0.5 * below {
                    (above / below).ln()
                } else {
                    ((above - below) / below).ln_1p()
                }
            };
            let sum: f64 = if k > floor {
                (floor + 1..=k)
                    .map(|j| log_factor(self.rate, j as f64))
                    .sum()
            } else {
                (k + 1..=floor)
                    .map(|j| log_factor(j as f64, self.rate))
                    .sum()
            };
            return sum.min(0.0);
        }
        // log α^k/k! = -(k log(k/α) - k + α) + α - remainder(k), and the same at the floor
        // counts beyond 2^53 are no longer f64, their distance to the floor still is
        let rest = self.rate - self.rate.floor();
        let gap = if k > floor {
            (k - floor) as f64 - rest
        } else {
            -((floor - k) as f64) - rest
        };
        let (k, floor) = (k as f64, floor as f64);
        deviance(floor, self.rate)
            - deviance_from_gap(k, self.rate, gap)
            - stirling_remainder_difference(k, floor)
    }
}

impl UnimodalCount for PoissonStyle {
    fn mode_range(&self) -> CountRange {
        CountRange {
            lower: self.lowest_mode(),
            upper: Some(self.floor()),
        }
    }

    fn count_alpha_cut(&self, alpha: f64) -> Result<CountRange> {
        let cut = self.alpha_cut(alpha)?;
        Ok(CountRange {
            lower: *cut.start(),
            upper: Some(*cut.end()),
        })
    }
}

impl Measure<RangeInclusive<u64>> for PoissonStyle {
    fn log_possibility_of(&self, event: &RangeInclusive<u64>) -> Result<f64> {
        Ok(self.supremum_between(*event.start(), *event.end()))
    }

    fn log_possibility_of_complement(&self, event: &RangeInclusive<u64>) -> Result<f64> {
        if event.is_empty() {
            return Ok(0.0);
        }
        let below = match event.start().checked_sub(1) {
            Some(high) => self.supremum_between(0, high),
            None => f64::NEG_INFINITY,
        };
        let above = match event.end().checked_add(1) {
            Some(low) => self.supremum_between(low, u64::MAX),
            None => f64::NEG_INFINITY,
        };
        Ok(below.max(above))
    }
}

impl ExponentialForm for PoissonStyle {
    fn natural(&self) -> Vec<f64> {
        vec![self.rate.ln()]
    }

    fn statistic(&self, point: &u64) -> Vec<f64> {
        vec![*point as f64]
    }

    fn base(&self, point: &u64) -> f64 {
        log_factorial(*point as f64)
    }

    fn log_partition(&self) -> f64 {
        let floor = self.rate.floor();
        if floor == 0.0 {
            0.0
        } else {
            floor * self.rate.ln() - log_factorial(floor)
        }
    }

    /// `e^λ`.
    fn additive_log_partition(&self) -> f64 {
        self.rate
    }
}

/// An unevaluated sum of two `f64`, about 106 bits.
#[derive(Debug, Clone, Copy)]
struct Doubled {
    high: f64,
    low: f64,
}

impl From<f64> for Doubled {
    fn from(high: f64) -> Self {
        Self { high, low: 0.0 }
    }
}

impl Doubled {
    fn times(self, factor: f64) -> Self {
        let high = self.high * factor;
        let error = self.high.mul_add(factor, -high);
        Self::sum(high, self.low.mul_add(factor, error))
    }

    fn over(self, divisor: f64) -> Self {
        let high = self.high / divisor;
        let rest = (-high).mul_add(divisor, self.high) + self.low;
        Self::sum(high, rest / divisor)
    }

    fn minus(self, other: f64) -> f64 {
        (self.high - other) + self.low
    }

    /// `high + low` where `low` is far the smaller.
    fn sum(high: f64, low: f64) -> Self {
        let total = high + low;
        Self {
            high: total,
            low: low - (total - high),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::{Interval, RealSet};
    use proptest::prelude::*;

    #[test]
    fn small_rates_keep_their_digits() {
        for rate in [1e-3f64, 1e-6, 1e-15, 1e-300] {
            let f = PoissonStyle::new(rate).unwrap();
            assert!((f.possibility(&1) / rate - 1.0).abs() < 1e-13, "{rate}");
            let log = f.log_possibility(&2);
            let expected = 2.0 * rate.ln() - 2f64.ln();
            assert!((log / expected - 1.0).abs() < 1e-15, "{rate}");
        }
    }

    #[test]
    fn refuses_rates_outside_their_range() {
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e16] {
            assert!(PoissonStyle::new(rate).is_err(), "{rate}");
        }
    }

    #[test]
    fn equality_with_the_level_is_inside() {
        // f(2) = 3/4 and f(5) = 4/5 at rate 4, but the f64 next to 4/5 is above it
        let f = PoissonStyle::new(4.0).unwrap();
        assert_eq!(f.alpha_cut(0.75).unwrap(), 2..=5);
        assert_eq!(f.alpha_cut(0.75f64.next_up()).unwrap(), 3..=5);
        let four_fifths = 0.8; // slightly above 4/5
        assert_eq!(f.alpha_cut(four_fifths).unwrap(), 3..=4);
        assert_eq!(f.alpha_cut(four_fifths.next_down()).unwrap(), 3..=5);
        assert_eq!(f.alpha_cut(1.0).unwrap(), 3..=4);
        // f(11) = 10/11 at rate 10, and the f64 next to it is below
        let f = PoissonStyle::new(10.0).unwrap();
        assert_eq!(f.alpha_cut(10.0 / 11.0).unwrap(), 9..=11);
        assert_eq!(f.alpha_cut(f64::next_up(10.0 / 11.0)).unwrap(), 9..=10);
        // f(3) = 2/3 at rate 2, and the f64 next to it is below
        let f = PoissonStyle::new(2.0).unwrap();
        assert_eq!(f.alpha_cut(2.0 / 3.0).unwrap(), 1..=3);
        let below_one = PoissonStyle::new(0.5).unwrap();
        assert_eq!(below_one.alpha_cut(0.5).unwrap(), 0..=1);
        assert_eq!(below_one.alpha_cut(1.0).unwrap(), 0..=0);
        assert_eq!(
            PoissonStyle::new(1.0).unwrap().alpha_cut(1.0).unwrap(),
            0..=1
        );
    }

    #[test]
    fn large_rates_stay_accurate() {
        // log f(k) in 50-digit arithmetic
        for (rate, k, want) in [
            (1_000_000.5, 1_002_000, -1.9986669998171327),
            (1_000_000.5, 998_000, -2.001333666850467),
            (1_000_000_000_000.25, 1_000_001_000_000, -0.5000000833331667),
            (1000.75, 0, -996.3768193845196),
            (
                9_007_199_254_740_991.0,
                9_007_199_354_740_991,
                -0.5551115158093681,
            ),
            (150.5, 20, -89.13071155589076),
            (150.5, 300, -57.79128146730474),
            (0.25, 90, -442.9191321209995),
        ] {
            let got = PoissonStyle::new(rate).unwrap().log_possibility(&k);
            assert!(
                (got - want).abs() <= 4e-15 * f64::abs(want),
                "{rate} {k}: {got} {want}"
            );
        }
    }

    #[test]
    fn events_on_counts_and_on_the_line_agree() {
        let f = PoissonStyle::new(3.7).unwrap();
        let set = |l, u, cl, cu| RealSet::from(Interval::new(l, u, cl, cu).unwrap());
        // (5, 7) holds the single count 6
        let event = set(5.0, 7.0, false, false);
        assert_eq!(f.possibility_of(&event).unwrap(), f.possibility(&6));
        assert_eq!(f.necessity_of(&event).unwrap(), 0.0);
        assert_eq!(f.possibility_of(&set(0.2, 0.8, true, true)).unwrap(), 0.0);
        assert_eq!(f.possibility_of(&set(-4.0, -1.0, true, true)).unwrap(), 0.0);
        assert_eq!(
            f.possibility_of(&set(f64::NEG_INFINITY, 0.0, true, true))
                .unwrap(),
            f.possibility(&0)
        );
        assert_eq!(f.possibility_of(&RealSet::everything()).unwrap(), 1.0);
        assert_eq!(
            f.possibility_of(&RealSet::points(&[f64::INFINITY]).unwrap())
                .unwrap(),
            0.0
        );
        assert_eq!(f.necessity_of(&(0..=u64::MAX)).unwrap(), 1.0);
        #[expect(clippy::reversed_empty_ranges, reason = "the empty event")]
        let empty = 3..=2;
        assert_eq!(f.possibility_of(&empty).unwrap(), 0.0);
        assert_eq!(f.necessity_of(&empty).unwrap(), 0.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn cuts_and_events_agree_with_every_single_count(
            log_rate in -2.0f64..5.0, integer in any::<bool>(), alpha in 1e-6f64..1.0,
            low in 0u64..200, width in 0u64..50,
        ) {
            let rate = if integer { log_rate.exp().ceil() } else { log_rate.exp() };
            let f = PoissonStyle::new(rate).unwrap();
            let all: Vec<f64> = (0..400).map(|k| f.possibility(&k)).collect();
            prop_assert_eq!(all.iter().copied().fold(0.0, f64::max), 1.0);
            let cut = f.alpha_cut(alpha).unwrap();
            for (k, value) in all.iter().enumerate() {
                if (value - alpha).abs() > 1e-12 {
                    prop_assert_eq!(cut.contains(&(k as u64)), *value >= alpha);
                }
                prop_assert!((f.exponential_form(&(k as u64)) - f.log_possibility(&(k as u64))).abs()
                    <= 1e-13 * (1.0 + log_factorial(400.0)));
            }
            let event = low..=low + width;
            let line = RealSet::from(Interval::closed(low as f64 - 0.5, (low + width) as f64).unwrap());
            let inside = (low..=low + width).map(|k| f.log_possibility(&k)).fold(f64::NEG_INFINITY, f64::max);
            let outside = (0..400).filter(|k| !event.contains(k)).map(|k| f.log_possibility(&k))
                .fold(f64::NEG_INFINITY, f64::max);
            prop_assert_eq!(f.log_possibility_of(&event).unwrap(), inside);
            prop_assert_eq!(f.log_possibility_of(&line).unwrap(), inside);
            prop_assert_eq!(f.log_possibility_of_complement(&event).unwrap(), outside);
            prop_assert_eq!(f.log_possibility_of_complement(&line).unwrap(), outside);
            prop_assert_eq!(inside.max(outside), 0.0);
        }
    }
}
