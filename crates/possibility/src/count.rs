//! Possibility functions on ℕ₀: unimodal ones given by a formula ([`UnimodalCount`]), with exact
//! events and integer α-cuts, and tables ([`CountTable`]) that vanish beyond their end. Paper:
//! Section 2 and the appendix "Possibilistic Exponential Family" (the Poisson-style example).

use crate::error::{Result, check_alpha};
use crate::finite::Finite;
use crate::function::{Measure, Mode, Possibility};
use crate::set::{Interval, RealSet};

/// The integers `lower, lower + 1, …, upper`, without end if `upper` is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountRange {
    /// Smallest count.
    pub lower: u64,
    /// Largest count.
    pub upper: Option<u64>,
}

impl CountRange {
    /// Whether the count belongs to the range.
    pub fn contains(&self, count: u64) -> bool {
        count >= self.lower && self.upper.is_none_or(|upper| count <= upper)
    }
}

/// The counts in an interval of the line, `None` if there are none. Infinity is no count; counts of
/// The last count inside on the way from one inside to one outside, on either side of it.
pub(crate) fn border(mut inside: u64, mut outside: u64, is_inside: impl Fn(u64) -> bool) -> u64 {
    while inside.abs_diff(outside) > 1 {
        let middle = inside.min(outside) + inside.abs_diff(outside) / 2;
        if is_inside(middle) {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    inside
}

/// `2⁶⁴` and more are all represented by `u64::MAX`.
///
/// ```
/// use possibility::count::{CountRange, counts_in};
/// use possibility::set::Interval;
/// let counts = counts_in(&Interval::open(-0.5, 3.0)?);
/// assert_eq!(counts, Some(CountRange { lower: 0, upper: Some(2) }));
/// assert_eq!(counts_in(&Interval::open(1.0, 2.0)?), None);
/// # Ok::<(), possibility::Error>(())
/// ```
pub fn counts_in(interval: &Interval) -> Option<CountRange> {
    let first = interval.lower().ceil().max(0.0);
    let last = interval.upper().floor();
    if first == f64::INFINITY || last < 0.0 {
        return None;
    }
    // `as` is exact for the integers of `f64` below 2⁶⁴ and saturates from there on
    let mut lower = first as u64;
    if first == interval.lower() && !interval.contains_lower() {
        lower = lower.saturating_add(1);
    }
    if last >= TWO_TO_THE_64 {
        return Some(CountRange { lower, upper: None });
    }
    let mut upper = last as u64;
    if last == interval.upper() && !interval.contains_upper() {
        upper = upper.checked_sub(1)?;
    }
    (lower <= upper).then_some(CountRange {
        lower,
        upper: Some(upper),
    })
}

/// One more than the largest `u64`.
const TWO_TO_THE_64: f64 = 18_446_744_073_709_551_616.0;

/// A possibility function on ℕ₀ that rises to its modes and falls after them.
///
/// Implementors give the log value and the modes; events and α-cuts follow.
///
/// ```
/// use possibility::count::{CountRange, UnimodalCount};
/// use possibility::set::{Interval, RealSet};
/// use possibility::{Measure, Possibility};
///
/// /// `2^-|k - 3|`.
/// struct AroundThree;
/// impl Possibility for AroundThree {
///     type Point = u64;
///     fn log_possibility(&self, k: &u64) -> f64 {
///         -(k.abs_diff(3) as f64) * 2f64.ln()
///     }
/// }
/// impl UnimodalCount for AroundThree {
///     fn mode_range(&self) -> CountRange {
///         CountRange { lower: 3, upper: Some(3) }
///     }
/// }
/// assert_eq!(AroundThree.count_alpha_cut(0.25)?, CountRange { lower: 1, upper: Some(5) });
/// let event = RealSet::from(Interval::above(4.0)?);
/// assert_eq!(AroundThree.possibility_of(&event)?, 0.25);
/// # Ok::<(), possibility::Error>(())
/// ```
pub trait UnimodalCount: Possibility<Point = u64> {
    /// The counts of possibility 1. The log value must not decrease before them nor increase after
    /// them.
    fn mode_range(&self) -> CountRange;

    /// `E*[k]`: a count, or all counts from one to another.
    fn count_mode(&self) -> Mode<u64> {
        let CountRange { lower, upper } = self.mode_range();
        match upper {
            Some(upper) if upper == lower => Mode::Point(lower),
            Some(upper) if upper == lower + 1 => Mode::Finite(vec![lower, upper]),
            Some(upper) => Mode::Interval(lower, upper),
            None if lower == 0 => Mode::Everything,
            None => Mode::Interval(lower, u64::MAX),
        }
    }

    /// α-cut `{k : f(k) ≥ α}`; without end if `f` stays above `α`.
    ///
    /// # Errors
    /// `alpha` outside `(0, 1]`.
    fn count_alpha_cut(&self, alpha: f64) -> Result<CountRange> {
        let log_alpha = check_alpha(alpha)?;
        let is_inside = |k: u64| self.log_possibility(&k) >= log_alpha;
        let modes = self.mode_range();
        let lower = match is_inside(0) {
            true => 0,
            false => border(modes.lower, 0, is_inside),
        };
        let Some(mut inside) = modes.upper else {
            return Ok(CountRange { lower, upper: None });
        };
        let mut step = 1u64;
        let outside = loop {
            let Some(next) = inside.checked_add(step) else {
                if is_inside(u64::MAX) {
                    return Ok(CountRange { lower, upper: None });
                }
                break u64::MAX;
            };
            if !is_inside(next) {
                break next;
            }
            inside = next;
            step = step.saturating_mul(2);
        };
        Ok(CountRange {
            lower,
            upper: Some(border(inside, outside, is_inside)),
        })
    }

    /// `log sup` over the counts in an interval: the value at the count nearest to a mode.
    fn log_possibility_of_interval(&self, interval: &Interval) -> f64 {
        let Some(range) = counts_in(interval) else {
            return f64::NEG_INFINITY;
        };
        let modes = self.mode_range();
        if modes.upper.is_some_and(|upper| range.lower > upper) {
            self.log_possibility(&range.lower)
        } else {
            match range.upper {
                Some(upper) if upper < modes.lower => self.log_possibility(&upper),
                _ => 0.0,
            }
        }
    }
}

impl<T: UnimodalCount> Measure<RealSet> for T {
    fn log_possibility_of(&self, event: &RealSet) -> Result<f64> {
        Ok(event
            .parts()
            .iter()
            .map(|part| self.log_possibility_of_interval(part))
            .fold(f64::NEG_INFINITY, f64::max))
    }

    fn log_possibility_of_complement(&self, event: &RealSet) -> Result<f64> {
        self.log_possibility_of(&event.complement())
    }
}

/// A possibility function on `{0, …, n-1}` seen as one on ℕ₀: 0 from `n` on. It need not be
/// unimodal.
///
/// ```
/// use possibility::count::CountTable;
/// use possibility::set::{Interval, RealSet};
/// use possibility::{Finite, Measure};
/// let table = CountTable::new(Finite::from_values(&[0.5, 1.0, 0.25])?);
/// let event = RealSet::from(Interval::above(1.0)?);
/// assert_eq!(table.possibility_of(&event)?, 0.25);
/// assert_eq!(table.necessity_of(&event)?, 0.0);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct CountTable {
    table: Finite,
}

impl CountTable {
    /// The table as a function on ℕ₀.
    pub fn new(table: Finite) -> Self {
        Self { table }
    }

    /// The table.
    pub fn table(&self) -> &Finite {
        &self.table
    }

    /// `E*[k]`.
    pub fn mode(&self) -> Mode<u64> {
        self.table.expected_value(|k| k as u64)
    }

    /// α-cut `{k : f(k) ≥ α}`, in increasing order.
    ///
    /// # Errors
    /// `alpha` outside `(0, 1]`.
    pub fn alpha_cut(&self, alpha: f64) -> Result<Vec<u64>> {
        let cut = self.table.alpha_cut(alpha)?;
        Ok(cut.into_iter().map(|k| k as u64).collect())
    }
}

impl Possibility for CountTable {
    type Point = u64;

    fn log_possibility(&self, count: &u64) -> f64 {
        usize::try_from(*count).map_or(f64::NEG_INFINITY, |k| self.table.log_possibility(&k))
    }
}

impl Measure<RealSet> for CountTable {
    fn log_possibility_of(&self, event: &RealSet) -> Result<f64> {
        Ok(self
            .table
            .log_values()
            .iter()
            .enumerate()
            .filter(|(k, _)| event.contains(*k as f64))
            .map(|(_, log)| *log)
            .fold(f64::NEG_INFINITY, f64::max))
    }

    fn log_possibility_of_complement(&self, event: &RealSet) -> Result<f64> {
        self.log_possibility_of(&event.complement())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Rises with slope `rise` to the modes `lower..=upper` and falls after them with slope `fall`.
    #[derive(Debug)]
    struct Tent {
        modes: CountRange,
        rise: f64,
        fall: f64,
    }

    impl Possibility for Tent {
        type Point = u64;

        fn log_possibility(&self, k: &u64) -> f64 {
            if *k < self.modes.lower {
                -self.rise * (self.modes.lower - k) as f64
            } else {
                match self.modes.upper {
                    Some(upper) if *k > upper => -self.fall * (k - upper) as f64,
                    _ => 0.0,
                }
            }
        }
    }

    impl UnimodalCount for Tent {
        fn mode_range(&self) -> CountRange {
            self.modes
        }
    }

    fn range(lower: u64, upper: impl Into<Option<u64>>) -> CountRange {
        CountRange {
            lower,
            upper: upper.into(),
        }
    }

    #[test]
    fn counts_in_intervals_with_open_closed_and_infinite_ends() {
        let counts = |l, u, cl, cu| counts_in(&Interval::new(l, u, cl, cu).unwrap());
        assert_eq!(counts(1.0, 4.0, true, true), Some(range(1, 4)));
        assert_eq!(counts(1.0, 4.0, false, false), Some(range(2, 3)));
        assert_eq!(counts(-3.0, 0.0, true, true), Some(range(0, 0)));
        assert_eq!(counts(-3.0, 0.0, true, false), None);
        assert_eq!(counts(0.0, 0.5, false, true), None);
        assert_eq!(
            counts(f64::NEG_INFINITY, f64::INFINITY, true, true),
            Some(range(0, None))
        );
        assert_eq!(counts_in(&Interval::point(f64::INFINITY).unwrap()), None);
        assert_eq!(counts_in(&Interval::point(2.5).unwrap()), None);
        // 2^53 + 1 is no float, but the first count above 2^53
        let large = 9_007_199_254_740_992.0;
        assert_eq!(
            counts(large, f64::INFINITY, false, true),
            Some(range((1 << 53) + 1, None))
        );
        assert_eq!(counts(1e30, 1e31, true, true), Some(range(u64::MAX, None)));
    }

    #[test]
    fn modes_of_each_kind() {
        let tent = |modes| Tent {
            modes,
            rise: 0.5,
            fall: 0.5,
        };
        assert_eq!(tent(range(3, 3)).count_mode(), Mode::Point(3));
        assert_eq!(tent(range(3, 4)).count_mode(), Mode::Finite(vec![3, 4]));
        assert_eq!(tent(range(3, 6)).count_mode(), Mode::Interval(3, 6));
        assert_eq!(tent(range(0, None)).count_mode(), Mode::Everything);
        let endless = tent(range(2, None));
        let cut = endless.count_alpha_cut(0.5).unwrap();
        assert_eq!(cut, range(1, None));
        assert!(cut.contains(u64::MAX) && !cut.contains(0));
        let flat = Tent {
            modes: range(2, 2),
            rise: 0.0,
            fall: 0.0,
        };
        assert_eq!(flat.count_alpha_cut(1.0).unwrap(), range(0, None));
        for alpha in [0.0, -1.0, 1.5, f64::NAN] {
            assert!(endless.count_alpha_cut(alpha).is_err());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn cuts_and_events_agree_with_a_full_search(
            lower in 0u64..12,
            width in 0u64..4,
            slopes in (0.05f64..2.0, 0.05f64..2.0),
            alpha in 0.01f64..1.0,
            ends in (-6i32..40, 0i32..40),
            contains in (any::<bool>(), any::<bool>()),
        ) {
            let tent = Tent { modes: range(lower, lower + width), rise: slopes.0, fall: slopes.1 };
            let cut = tent.count_alpha_cut(alpha).unwrap();
            for k in 0..200 {
                prop_assert_eq!(cut.contains(k), tent.possibility(&k) >= alpha, "count {}", k);
            }
            let from = f64::from(ends.0) / 2.0;
            if let Ok(interval) =
                Interval::new(from, from + f64::from(ends.1) / 2.0, contains.0, contains.1)
            {
                let event = RealSet::from(interval);
                let search = |inside: bool| (0..400u64)
                    .filter(|&k| event.contains(k as f64) == inside)
                    .map(|k| tent.log_possibility(&k))
                    .fold(f64::NEG_INFINITY, f64::max);
                prop_assert_eq!(tent.log_possibility_of(&event).unwrap(), search(true));
                prop_assert_eq!(tent.log_possibility_of_complement(&event).unwrap(), search(false));
                prop_assert_eq!(search(true).max(search(false)), 0.0);
                // the same function as a table that is long enough
                let logs = (0..400).map(|k| tent.log_possibility(&k)).collect();
                let table = CountTable::new(Finite::from_log_values(logs).unwrap());
                prop_assert_eq!(table.log_possibility_of(&event).unwrap(), search(true));
                prop_assert_eq!(table.log_possibility_of_complement(&event).unwrap(), search(false));
                let listed = table.alpha_cut(alpha).unwrap();
                prop_assert_eq!(listed.first().copied(), Some(cut.lower));
                prop_assert_eq!(listed.last().copied(), cut.upper);
            }
        }
    }

    #[test]
    fn a_table_vanishes_beyond_its_end() {
        let table = CountTable::new(Finite::from_values(&[0.25, 1.0, 0.0, 1.0]).unwrap());
        assert_eq!(table.mode(), Mode::Finite(vec![1, 3]));
        assert_eq!(table.possibility(&4), 0.0);
        assert_eq!(table.possibility(&u64::MAX), 0.0);
        assert_eq!(table.alpha_cut(0.5).unwrap(), vec![1, 3]);
        assert_eq!(table.table().size(), 4);
        let beyond = RealSet::from(Interval::at_least(4.0).unwrap());
        assert_eq!(table.possibility_of(&beyond).unwrap(), 0.0);
    }
}
