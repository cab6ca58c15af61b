//! Subsets of the extended real line: intervals and finite unions of intervals, the events of one
//! dimension.
//!
//! A set knows which of its end points belong to it, so that `{x ≠ a}` and the complement of a
//! closed interval are exact.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use crate::error::{Error, Result};
use crate::function::AsEvent;

/// A non-empty interval of the extended real line.
///
/// ```
/// use possibility::set::Interval;
/// let cut = Interval::closed(-1.0, 2.0)?;
/// assert!(cut.contains(2.0) && !cut.contains(2.5));
/// assert_eq!(cut.to_string(), "[-1, 2]");
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    lower: f64,
    upper: f64,
    contains_lower: bool,
    contains_upper: bool,
}

impl Interval {
    /// The whole line, the infinite ends included as limits.
    pub const REAL_LINE: Self = Self {
        lower: f64::NEG_INFINITY,
        upper: f64::INFINITY,
        contains_lower: true,
        contains_upper: true,
    };

    /// An interval with the given ends.
    ///
    /// # Errors
    /// A NaN end, `lower > upper`, or an interval without a point.
    pub fn new(lower: f64, upper: f64, contains_lower: bool, contains_upper: bool) -> Result<Self> {
        if lower.is_nan() {
            return Err(Error::OutOfRange {
                field: "interval lower end",
                value: lower,
                range: "[-inf, inf]",
            });
        }
        let accept = lower < upper || (lower == upper && contains_lower && contains_upper);
        if !accept {
            return Err(Error::OutOfRange {
                field: "interval upper end",
                value: upper,
                range: "[lower end, inf]",
            });
        }
        Ok(Self {
            lower,
            upper,
            contains_lower,
            contains_upper,
        })
    }

    /// `[lower, upper]`.
    ///
    /// # Errors
    /// A NaN end or `lower > upper`.
    pub fn closed(lower: f64, upper: f64) -> Result<Self> {
        Self::new(lower, upper, true, true)
    }

    /// `(lower, upper)`.
    ///
    /// # Errors
    /// A NaN end or `lower >= upper`.
    pub fn open(lower: f64, upper: f64) -> Result<Self> {
        Self::new(lower, upper, false, false)
    }

    /// The single point `{x}`.
    ///
    /// # Errors
    /// `x` is NaN.
    pub fn point(x: f64) -> Result<Self> {
        Self::closed(x, x)
    }

    /// `[lower, +∞]`.
    ///
    /// # Errors
    /// A NaN end.
    pub fn at_least(lower: f64) -> Result<Self> {
        Self::closed(lower, f64::INFINITY)
    }

    /// `[-∞, upper]`.
    ///
    /// # Errors
    /// A NaN end.
    pub fn at_most(upper: f64) -> Result<Self> {
        Self::closed(f64::NEG_INFINITY, upper)
    }

    /// `(lower, +∞]`.
    ///
    /// # Errors
    /// A NaN end, or `lower = +∞`.
    pub fn above(lower: f64) -> Result<Self> {
        Self::new(lower, f64::INFINITY, false, true)
    }

    /// `[-∞, upper)`.
    ///
    /// # Errors
    /// A NaN end, or `upper = -∞`.
    pub fn below(upper: f64) -> Result<Self> {
        Self::new(f64::NEG_INFINITY, upper, true, false)
    }

    /// Lower end.
    pub fn lower(&self) -> f64 {
        self.lower
    }

    /// Upper end.
    pub fn upper(&self) -> f64 {
        self.upper
    }

    /// Whether the lower end belongs to the interval.
    pub fn contains_lower(&self) -> bool {
        self.contains_lower
    }

    /// Whether the upper end belongs to the interval.
    pub fn contains_upper(&self) -> bool {
        self.contains_upper
    }

    /// Whether `x` belongs to the interval.
    pub fn contains(&self, x: f64) -> bool {
        (x > self.lower || (x == self.lower && self.contains_lower))
            && (x < self.upper || (x == self.upper && self.contains_upper))
    }

    /// `upper - lower`.
    pub fn width(&self) -> f64 {
        if self.lower == self.upper {
            0.0
        } else {
            self.upper - self.lower
        }
    }

    /// Whether both ends are finite.
    pub fn is_bounded(&self) -> bool {
        self.lower.is_finite() && self.upper.is_finite()
    }

    /// The point of the closed interval nearest to `x`.
    pub fn clamp(&self, x: f64) -> f64 {
        x.clamp(self.lower, self.upper)
    }

    /// The common part, if there is one.
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        let (lower, contains_lower) = if self.lower > other.lower {
            (self.lower, self.contains_lower)
        } else if other.lower > self.lower {
            (other.lower, other.contains_lower)
        } else {
            (self.lower, self.contains_lower && other.contains_lower)
        };
        let (upper, contains_upper) = if self.upper < other.upper {
            (self.upper, self.contains_upper)
        } else if other.upper < self.upper {
            (other.upper, other.contains_upper)
        } else {
            (self.upper, self.contains_upper && other.contains_upper)
        };
        Self::new(lower, upper, contains_lower, contains_upper).ok()
    }

    /// Whether `inner` lies inside, single end points aside: they do not change a supremum of
    /// continuous functions.
    pub(crate) fn covers(&self, inner: &Self) -> bool {
        self.lower <= inner.lower && inner.upper <= self.upper
    }

    /// Whether the union with `next`, which does not start before `self`, is an interval.
    fn joins(&self, next: &Self) -> bool {
        next.lower < self.upper
            || (next.lower == self.upper && (self.contains_upper || next.contains_lower))
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lower == self.upper {
            return write!(f, "{{{}}}", self.lower);
        }
        let open = if self.contains_lower { '[' } else { '(' };
        let close = if self.contains_upper { ']' } else { ')' };
        write!(f, "{open}{}, {}{close}", self.lower, self.upper)
    }
}

/// A finite union of intervals, kept sorted and disjoint; possibly empty.
///
/// ```
/// use possibility::set::{Interval, RealSet};
/// let outside = RealSet::from(Interval::closed(-1.0, 1.0)?).complement();
/// assert_eq!(outside.to_string(), "[-inf, -1) ∪ (1, inf]");
/// assert_eq!(outside.complement(), RealSet::from(Interval::closed(-1.0, 1.0)?));
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RealSet {
    parts: Vec<Interval>,
}

impl RealSet {
    /// The empty set.
    pub fn empty() -> Self {
        Self::default()
    }

    /// The whole extended line.
    pub fn everything() -> Self {
        Self {
            parts: vec![Interval::REAL_LINE],
        }
    }

    /// A finite set of points.
    ///
    /// # Errors
    /// A point is NaN.
    pub fn points(points: &[f64]) -> Result<Self> {
        let parts = points
            .iter()
            .map(|&x| Interval::point(x))
            .collect::<Result<Vec<_>>>()?;
        Ok(parts.into_iter().collect())
    }

    /// The disjoint intervals, in increasing order.
    pub fn parts(&self) -> &[Interval] {
        &self.parts
    }

    /// The finite points of the closure that lie nearest to `x`, below and above it; `x` alone if
    /// the closure holds it. A function that falls away from `x` has its supremum over the set at
    /// one of them.
    ///
    /// ```
    /// use possibility::{Interval, RealSet};
    /// let set: RealSet = [Interval::below(-2.0)?, Interval::above(1.0)?].into_iter().collect();
    /// assert_eq!(set.nearest(0.0), [Some(-2.0), Some(1.0)]);
    /// assert_eq!(set.nearest(1.0), [Some(1.0), None]);
    /// # Ok::<(), possibility::Error>(())
    /// ```
    pub fn nearest(&self, x: f64) -> [Option<f64>; 2] {
        let [mut below, mut above] = [None; 2];
        for part in &self.parts {
            let point = part.clamp(x);
            if point == x {
                return [Some(x), None];
            }
            // the parts are in increasing order
            if point < x {
                below = Some(point).filter(|point| point.is_finite()).or(below);
            } else if above.is_none() {
                above = Some(point).filter(|point| point.is_finite());
            }
        }
        [below, above]
    }

    /// The supremum over the set of a continuous function that falls away from `x`; `-∞` where the
    /// set has no points.
    pub(crate) fn supremum(&self, x: f64, function: impl Fn(f64) -> f64) -> f64 {
        let nearest = self.nearest(x).into_iter().flatten();
        nearest.map(function).fold(f64::NEG_INFINITY, f64::max)
    }

    /// Whether no point belongs to the set.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether `x` belongs to the set.
    pub fn contains(&self, x: f64) -> bool {
        self.parts.iter().any(|part| part.contains(x))
    }

    /// The smallest interval around the set, `None` if it is empty.
    pub fn hull(&self) -> Option<Interval> {
        let (first, last) = (self.parts.first()?, self.parts.last()?);
        Some(Interval {
            lower: first.lower,
            upper: last.upper,
            contains_lower: first.contains_lower,
            contains_upper: last.contains_upper,
        })
    }

    /// The points of the extended line outside the set.
    pub fn complement(&self) -> Self {
        let mut parts = Vec::with_capacity(self.parts.len() + 1);
        let mut lower = f64::NEG_INFINITY;
        let mut contains_lower = true;
        for part in &self.parts {
            parts.extend(Interval::new(
                lower,
                part.lower,
                contains_lower,
                !part.contains_lower,
            ));
            lower = part.upper;
            contains_lower = !part.contains_upper;
        }
        parts.extend(Interval::new(lower, f64::INFINITY, contains_lower, true));
        Self { parts }
    }

    /// Points in either set.
    pub fn union(&self, other: &Self) -> Self {
        self.parts.iter().chain(&other.parts).copied().collect()
    }

    /// Points in both sets.
    pub fn intersection(&self, other: &Self) -> Self {
        self.parts
            .iter()
            .flat_map(|a| other.parts.iter().filter_map(|b| a.intersection(b)))
            .collect()
    }

    /// Points of `self` outside `other`.
    pub fn difference(&self, other: &Self) -> Self {
        self.intersection(&other.complement())
    }
}

impl From<Interval> for RealSet {
    fn from(interval: Interval) -> Self {
        Self {
            parts: vec![interval],
        }
    }
}

impl AsEvent<RealSet> for Interval {
    fn as_event(&self) -> Result<Cow<'_, RealSet>> {
        Ok(Cow::Owned((*self).into()))
    }
}

/// A range of numbers is the event that the parameter lies in it, infinite ends included as limits.
macro_rules! range_as_event {
    ($($range:ty: $self:ident => $interval:expr;)*) => {$(
        impl AsEvent<RealSet> for $range {
            fn as_event(&$self) -> Result<Cow<'_, RealSet>> {
                Ok(Cow::Owned($interval?.into()))
            }
        }
    )*};
}

range_as_event! {
    Range<f64>: self => Interval::new(self.start, self.end, true, false);
    RangeInclusive<f64>: self => Interval::closed(*self.start(), *self.end());
    RangeFrom<f64>: self => Interval::at_least(self.start);
    RangeTo<f64>: self => Interval::below(self.end);
    RangeToInclusive<f64>: self => Interval::at_most(self.end);
    RangeFull: self => Ok::<_, Error>(Interval::REAL_LINE);
}

impl FromIterator<Interval> for RealSet {
    /// The union of the intervals.
    fn from_iter<I: IntoIterator<Item = Interval>>(intervals: I) -> Self {
        let mut sorted: Vec<Interval> = intervals.into_iter().collect();
        sorted.sort_by(|a, b| {
            a.lower
                .total_cmp(&b.lower)
                .then(b.contains_lower.cmp(&a.contains_lower))
        });
        let mut parts: Vec<Interval> = Vec::with_capacity(sorted.len());
        for next in sorted {
            match parts.last_mut() {
                Some(last) if last.joins(&next) => {
                    if next.upper > last.upper {
                        last.upper = next.upper;
                        last.contains_upper = next.contains_upper;
                    } else if next.upper == last.upper {
                        last.contains_upper |= next.contains_upper;
                    }
                }
                _ => parts.push(next),
            }
        }
        Self { parts }
    }
}

impl fmt::Display for RealSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.parts.is_empty() {
            return f.write_str("∅");
        }
        for (i, part) in self.parts.iter().enumerate() {
            if i > 0 {
                f.write_str(" ∪ ")?;
            }
            write!(f, "{part}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn refuses_nan_and_empty_intervals() {
        assert!(Interval::closed(f64::NAN, 1.0).is_err());
        assert!(Interval::closed(0.0, f64::NAN).is_err());
        assert!(Interval::closed(1.0, 0.0).is_err());
        assert!(Interval::open(1.0, 1.0).is_err());
        assert!(Interval::new(1.0, 1.0, true, false).is_err());
    }

    #[test]
    fn union_joins_touching_intervals_only_where_the_end_point_is_covered() {
        let left = Interval::new(0.0, 1.0, true, false).unwrap();
        let closed = Interval::closed(1.0, 2.0).unwrap();
        let open = Interval::open(1.0, 2.0).unwrap();
        assert_eq!(
            [left, closed]
                .into_iter()
                .collect::<RealSet>()
                .parts()
                .len(),
            1
        );
        assert_eq!(
            [left, open].into_iter().collect::<RealSet>().parts().len(),
            2
        );
        let punctured = RealSet::points(&[1.0]).unwrap().complement();
        assert!(!punctured.contains(1.0) && punctured.contains(1.0 + 1e-12));
    }

    #[test]
    fn ranges_are_events_and_refuse_what_holds_no_point() {
        let shown = |event: &dyn AsEvent<RealSet>| event.as_event().map(|set| set.to_string());
        assert_eq!(shown(&(0.5..)).unwrap(), "[0.5, inf]");
        assert_eq!(shown(&(..0.5)).unwrap(), "[-inf, 0.5)");
        assert_eq!(shown(&(..=0.5)).unwrap(), "[-inf, 0.5]");
        assert_eq!(shown(&(0.25..0.5)).unwrap(), "[0.25, 0.5)");
        assert_eq!(shown(&(0.5..=0.5)).unwrap(), "{0.5}");
        assert_eq!(shown(&(..)).unwrap(), "[-inf, inf]");
        assert_eq!(shown(&Interval::above(0.5).unwrap()).unwrap(), "(0.5, inf]");
        assert!(shown(&(f64::NAN..)).is_err());
        assert!(shown(&(0.0..=f64::NAN)).is_err());
        assert!(shown(&(0.5..0.5)).is_err());
        assert!(shown(&(0.5..=0.25)).is_err());
    }

    fn sets() -> impl Strategy<Value = RealSet> {
        prop::collection::vec((-4i32..4, 0i32..3, any::<bool>(), any::<bool>()), 0..5).prop_map(
            |v| {
                v.into_iter()
                    .filter_map(|(a, w, l, u)| {
                        Interval::new(f64::from(a), f64::from(a + w), l, u).ok()
                    })
                    .collect()
            },
        )
    }

    proptest! {
        #[test]
        fn set_algebra_agrees_with_membership(a in sets(), b in sets(), x in -9i32..9) {
            let x = f64::from(x) / 2.0;
            prop_assert_eq!(a.complement().contains(x), !a.contains(x));
            prop_assert_eq!(a.union(&b).contains(x), a.contains(x) || b.contains(x));
            prop_assert_eq!(a.intersection(&b).contains(x), a.contains(x) && b.contains(x));
            prop_assert_eq!(a.difference(&b).contains(x), a.contains(x) && !b.contains(x));
            prop_assert_eq!(a.complement().complement(), a);
        }
    }
}
