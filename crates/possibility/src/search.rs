//! Certified global search in one dimension: suprema, infima and superlevel sets of a [`Curve`].
//!
//! Branch and bound on cells. The supremum over a cell is bounded from above by the smallest of the
//! natural enclosure, the mean-value form `f(m) + f'(cell)(x - m)` and the second-order form
//! `f(m) + f'(m)(x - m) + f''(cell)/2 (x - m)²`; a cell on which the slope has one sign is replaced
//! by its higher end. Unbounded ends are cut off where the curve's [`Tail`] proves that nothing is
//! missed.
//!
//! **Guarantee.** `supremum` returns `value ≤ sup f ≤ bound`. Both are computed with outward
//! rounding, so that the bracket holds for the real function, not for its floating-point image. The
//! width of the bracket is at most the tolerance; where the rounding errors of the formula itself
//! forbid that it may be wider, by default up to `1e-9 (1 + |value|)`. Beyond, the answer is
//! [`Error::NotCertified`] with the bracket reached.
//!
//! Cost: for a smooth curve with isolated maxima a few hundred evaluations; it grows with the
//! number of cells on which the function is within the tolerance of its supremum, and for a merely
//! [`Lipschitz`] curve like the inverse tolerance.
//!
//! [`Lipschitz`]: crate::curve::Lipschitz
//! [`Tail`]: crate::curve::Tail

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::arithmetic::{Range, Scalar};
use crate::curve::{Curve, End, SERIES_ORDER, Scaled};
use crate::error::{Error, Result, not_certified, unknown};
use crate::set::{Interval, RealSet};

/// Farthest point at which the tails are asked, 2⁶⁰: beyond, neighboring numbers are hundreds
/// apart.
const FARTHEST: f64 = 1_152_921_504_606_846_976.0;

/// A cell whose bound exceeds the best value by this many rounding widths cannot be improved by
/// splitting.
const ROUNDING_FLOOR: f64 = 4.0;

/// Widest bracket that is accepted from a formula whose rounding forbids a narrower one, in
/// tolerances.
const WIDEST: f64 = 1e4;

/// Cells examined before the search turns to high-order Taylor bounds, which cost more but settle a
/// function that is flat near its supremum.
const EASY_CELLS: usize = 300;

/// Accuracy and budget of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Search {
    /// Largest width of the certified bracket, absolute part.
    pub absolute: f64,
    /// Largest width of the certified bracket, as a share of the magnitude of the value.
    pub relative: f64,
    /// Largest number of cells examined.
    pub cells: usize,
}

impl Default for Search {
    /// Bracket of width `1e-13 (1 + |value|)` within 400,000 cells.
    fn default() -> Self {
        Self {
            absolute: 1e-13,
            relative: 1e-13,
            cells: 400_000,
        }
    }
}

/// A certified supremum (or infimum): the true value lies between `value` and `bound`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extremum {
    /// Attained at `argument`, or the limit there if `argument` is infinite.
    pub value: f64,
    /// The other end of the bracket: no smaller than the supremum (no larger than the infimum).
    pub bound: f64,
    /// Where `value` was found.
    pub argument: f64,
}

/// A cell with the upper bound of the function on it.
#[derive(Debug, Clone, Copy)]
struct Cell {
    range: Range,
    upper: f64,
    /// Width of the enclosure at a single point: what rounding alone contributes, and no
    /// subdivision removes.
    rounding: f64,
}

impl PartialEq for Cell {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Cell {}
impl PartialOrd for Cell {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Cell {
    fn cmp(&self, other: &Self) -> Ordering {
        self.upper.total_cmp(&other.upper)
    }
}

/// What is known beyond the last finite point at an infinite end.
enum Beyond {
    /// Nothing above the value at the cut.
    Nothing(f64),
    /// Values inside `values`, tending to a limit inside `limit`.
    Limit {
        cut: f64,
        values: Range,
        limit: Range,
    },
    /// The function grows without bound.
    Unbounded,
}

impl Search {
    fn tolerance(&self, value: f64) -> f64 {
        self.absolute + self.relative * value.abs()
    }

    /// `sup f` over the part of `over` where the curve lives; `-∞` if that part is empty.
    ///
    /// ```
    /// use possibility::curve::{LogSigmoid, Parabola, Sum};
    /// use possibility::search::Search;
    /// use possibility::set::Interval;
    /// // the paper's example: one failure seen, standard normal prior on the log-odds
    /// let curve = Sum::new(vec![
    ///     Box::new(LogSigmoid::new(-1.0)?),
    ///     Box::new(Parabola::new(0.0, 1.0)?),
    /// ])?;
    /// let found = Search::default().supremum(&curve, Interval::REAL_LINE)?;
    /// assert!((found.value + 0.5930145580865889).abs() < 1e-12);
    /// assert!(found.value <= found.bound && found.bound - found.value < 2e-13);
    /// # Ok::<(), possibility::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NotCertified`] if the curve does not know its tail on an unbounded domain, or the
    /// budget runs out.
    pub fn supremum(&self, curve: &dyn Curve, over: Interval) -> Result<Extremum> {
        let Some(domain) = over.intersection(&curve.domain()) else {
            let nothing = f64::NEG_INFINITY;
            return Ok(Extremum {
                value: nothing,
                bound: nothing,
                argument: f64::NAN,
            });
        };
        let mut best = (f64::NEG_INFINITY, f64::NAN);
        let mut far_bound = f64::NEG_INFINITY;
        let (mut lower, mut upper) = (domain.lower(), domain.upper());
        for end in [End::Left, End::Right] {
            let (edge, other) = match end {
                End::Left => (lower, upper),
                End::Right => (upper, lower),
            };
            if edge.is_finite() {
                continue;
            }
            let cut = match self.beyond(curve, end, other)? {
                Beyond::Nothing(cut) => cut,
                Beyond::Limit { cut, values, limit } => {
                    far_bound = far_bound.max(values.upper);
                    if limit.lower > best.0 {
                        best = (limit.lower, edge);
                    }
                    cut
                }
                Beyond::Unbounded => {
                    return Ok(Extremum {
                        value: f64::INFINITY,
                        bound: f64::INFINITY,
                        argument: edge,
                    });
                }
            };
            match end {
                End::Left => lower = cut,
                End::Right => upper = cut,
            }
        }
        self.branch_and_bound(curve, Range::new(lower, upper), best, far_bound)
    }

    /// `inf f`, see [`Self::supremum`]; `bound ≤ inf f ≤ value`, `+∞` over an empty set.
    ///
    /// # Errors
    /// As [`Self::supremum`].
    pub fn infimum(&self, curve: &dyn Curve, over: Interval) -> Result<Extremum> {
        let mirrored = Scaled::negative(curve);
        match self.supremum(&mirrored, over) {
            Ok(found) => Ok(Extremum {
                value: -found.value,
                bound: -found.bound,
                ..found
            }),
            Err(Error::NotCertified {
                reason,
                lower,
                upper,
            }) => Err(not_certified(reason, -upper, -lower)),
            Err(error) => Err(error),
        }
    }

    fn beyond(&self, curve: &dyn Curve, end: End, other: f64) -> Result<Beyond> {
        let mut from = end.sign();
        if other.is_finite() {
            while (from - other) * end.sign() <= 0.0 {
                from = end.sign() * (2.0 * from.abs()).max(1.0);
                if from.abs() > FARTHEST {
                    from = end.sign() * 2.0 * other.abs();
                    break;
                }
            }
        }
        while from.abs() <= FARTHEST.max(4.0 * other.abs().min(1e300)) {
            if let Some(tail) = curve.tail(end, from) {
                let outward = tail.slope(end, from).scale(end.sign());
                if outward.upper <= 0.0 {
                    return Ok(Beyond::Nothing(from));
                }
                if outward.lower > 0.0 && tail.limit().is_none() {
                    return Ok(Beyond::Unbounded);
                }
                if let Some(limit) = tail.limit()
                    && limit.width() <= self.tolerance(limit.upper)
                {
                    return Ok(Beyond::Limit {
                        cut: from,
                        values: limit,
                        limit: sharpen_limit(curve, end, from, limit),
                    });
                }
            }
            from *= 2.0;
        }
        Err(unknown("nothing is known about the curve at infinity"))
    }

    fn branch_and_bound(
        &self,
        curve: &dyn Curve,
        domain: Range,
        mut best: (f64, f64),
        far_bound: f64,
    ) -> Result<Extremum> {
        let mut heap = BinaryHeap::new();
        let mut settled: Vec<Cell> = Vec::new();
        for x in [domain.lower, domain.upper] {
            improve(curve, x, &mut best);
        }
        heap.push(self.examine(curve, domain, false, &mut best));
        let mut examined = 1;
        while let Some(top) = heap.peek() {
            let stubborn = examined > EASY_CELLS;
            if top.upper <= best.0 + self.tolerance(best.0) {
                break;
            }
            if examined >= self.cells {
                return Err(not_certified(
                    "the budget of cells ran out",
                    best.0,
                    top.upper,
                ));
            }
            let top = heap.pop().expect("the heap was just peeked");
            let middle = top.range.middle();
            let limited_by_rounding =
                top.upper <= best.0 + self.tolerance(best.0) + ROUNDING_FLOOR * top.rounding;
            if limited_by_rounding || middle <= top.range.lower || middle >= top.range.upper {
                settled.push(top);
                continue;
            }
            for half in [
                Range::new(top.range.lower, middle),
                Range::new(middle, top.range.upper),
            ] {
                heap.push(self.examine(curve, half, stubborn, &mut best));
                examined += 1;
            }
        }
        if best.1.is_finite() {
            let peak = polish(curve, Range::point(best.1)).clamp(domain.lower, domain.upper);
            improve(curve, peak, &mut best);
        }
        let open = heap.into_iter().chain(settled);
        let bound = open
            .map(|cell| cell.upper)
            .fold(far_bound.max(best.0), f64::max);
        if bound - best.0 > WIDEST * self.tolerance(best.0) {
            return Err(not_certified(
                "the rounding errors of the formula are larger than the tolerance",
                best.0,
                bound,
            ));
        }
        Ok(Extremum {
            value: best.0,
            bound,
            argument: best.1,
        })
    }

    /// Bounds the curve on a cell; a cell with a slope of one sign shrinks to its higher end.
    fn examine(
        &self,
        curve: &dyn Curve,
        cell: Range,
        stubborn: bool,
        best: &mut (f64, f64),
    ) -> Cell {
        let over = curve.enclose(cell);
        let slope = over.slope();
        if slope.lower >= 0.0 || slope.upper <= 0.0 {
            let end = if slope.lower >= 0.0 {
                cell.upper
            } else {
                cell.lower
            };
            improve(curve, end, best);
            let at = curve.enclose(Range::point(end)).value();
            return Cell {
                range: Range::point(end),
                upper: at.upper.min(over.value().upper),
                rounding: at.width(),
            };
        }
        let middle = cell.middle();
        let at = curve.enclose(Range::point(middle));
        improve(curve, middle, best);
        let step = cell - Range::point(middle);
        let first = at.value() + slope * step;
        let second = at.value() + at.slope() * step + over.coefficients[2] * step.square();
        let mut upper = over.value().upper.min(first.upper).min(second.upper);
        if stubborn
            && let (Some(near), Some(far)) =
                (curve.series(Range::point(middle)), curve.series(cell))
        {
            // Taylor polynomial at the middle, remainder from the whole cell, by Horner's rule
            let mut sum = far.coefficients[SERIES_ORDER - 1];
            for coefficient in near.coefficients[..SERIES_ORDER - 1].iter().rev() {
                sum = *coefficient + sum * step;
            }
            upper = upper.min(sum.upper);
        }
        Cell {
            range: cell,
            upper,
            rounding: at.value().width(),
        }
    }

    /// The set `{x ∈ over : f(x) ≥ level}`.
    ///
    /// Crossings are located to the last bit where the curve crosses the level with a slope. Where
    /// it merely touches the level within a cell of relative width 1e-13, the cell is counted in:
    /// the answer errs on the outside.
    ///
    /// ```
    /// use possibility::curve::Parabola;
    /// use possibility::search::Search;
    /// use possibility::set::Interval;
    /// let curve = Parabola::new(1.0, 1.0)?;
    /// let cut = Search::default().superlevel(&curve, -2.0, Interval::REAL_LINE)?;
    /// let hull = cut.hull().expect("the cut holds the peak");
    /// assert!((hull.lower() + 1.0).abs() < 1e-14 && (hull.upper() - 3.0).abs() < 1e-14);
    /// # Ok::<(), possibility::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NotCertified`] if the curve does not know its tail on an unbounded domain, or the
    /// budget runs out.
    pub fn superlevel(&self, curve: &dyn Curve, level: f64, over: Interval) -> Result<RealSet> {
        let Some(domain) = over.intersection(&curve.domain()) else {
            return Ok(RealSet::empty());
        };
        let mut inside: Vec<Interval> = Vec::new();
        let (mut lower, mut upper) = (domain.lower(), domain.upper());
        if !upper.is_finite() {
            upper = self.level_cut(curve, level, End::Right, lower, &mut inside)?;
        }
        if !lower.is_finite() {
            lower = self.level_cut(curve, level, End::Left, upper, &mut inside)?;
        }
        let mut stack = vec![Range::new(lower, upper)];
        let mut examined = 0;
        while let Some(cell) = stack.pop() {
            examined += 1;
            if examined > self.cells {
                return Err(unknown("the budget of cells ran out"));
            }
            let over_cell = curve.enclose(cell);
            let value = over_cell.value();
            if value.upper < level {
                continue;
            }
            if value.lower >= level {
                inside.extend(Interval::closed(cell.lower, cell.upper));
                continue;
            }
            let slope = over_cell.slope();
            if slope.lower >= 0.0 {
                if curve.value(cell.upper) >= level {
                    let start = crossing(curve, level, cell.upper, cell.lower);
                    inside.extend(Interval::closed(start, cell.upper));
                }
                continue;
            }
            if slope.upper <= 0.0 {
                if curve.value(cell.lower) >= level {
                    let stop = crossing(curve, level, cell.lower, cell.upper);
                    inside.extend(Interval::closed(cell.lower, stop));
                }
                continue;
            }
            let middle = cell.middle();
            let at = curve.enclose(Range::point(middle));
            let step = cell - Range::point(middle);
            let first = at.value() + slope * step;
            let second = at.value() + at.slope() * step + over_cell.coefficients[2] * step.square();
            if first.upper.min(second.upper) < level {
                continue;
            }
            let smallest = 1e-13 * (1.0 + middle.abs());
            if cell.width() <= smallest || middle <= cell.lower || middle >= cell.upper {
                inside.extend(Interval::closed(cell.lower, cell.upper));
                continue;
            }
            stack.push(Range::new(cell.lower, middle));
            stack.push(Range::new(middle, cell.upper));
        }
        let set: RealSet = inside.into_iter().collect();
        Ok(set.intersection(&RealSet::from(domain)))
    }

    /// Finds a finite point beyond which the curve stays on one side of the level.
    fn level_cut(
        &self,
        curve: &dyn Curve,
        level: f64,
        end: End,
        other: f64,
        inside: &mut Vec<Interval>,
    ) -> Result<f64> {
        let mut from = end.sign();
        while from.abs() <= FARTHEST {
            let past_other = !other.is_finite() || (from - other) * end.sign() > 0.0;
            if let (true, Some(tail)) = (past_other, curve.tail(end, from)) {
                let outward = tail.slope(end, from).scale(end.sign());
                let value = curve.enclose(Range::point(from)).value();
                let limit = tail.limit();
                let below = (outward.upper <= 0.0 && value.upper < level)
                    || limit.is_some_and(|range| range.upper < level);
                let above = (outward.lower >= 0.0 && value.lower >= level)
                    || limit.is_some_and(|range| range.lower >= level);
                if above {
                    inside.extend(match end {
                        End::Left => Interval::at_most(from),
                        End::Right => Interval::at_least(from),
                    });
                }
                if above || below {
                    return Ok(from);
                }
            }
            from *= 2.0;
        }
        Err(unknown("nothing is known about the curve at infinity"))
    }
}

/// A narrower enclosure of the limit from points farther out.
fn sharpen_limit(curve: &dyn Curve, end: End, mut from: f64, mut limit: Range) -> Range {
    while from.abs() <= FARTHEST {
        if let Some(further) = curve.tail(end, from).and_then(|tail| tail.limit()) {
            limit = limit.meet(&further);
        }
        from *= 2.0;
    }
    limit
}

/// Takes `x` as the best point if the certified value there is higher.
fn improve(curve: &dyn Curve, x: f64, best: &mut (f64, f64)) {
    let value = curve.enclose(Range::point(x)).value().lower;
    if value > best.0 {
        *best = (value, x);
    }
}

/// Moves a maximizer to the zero of the slope by Newton's method, staying near the cell it was
/// found in.
pub(crate) fn polish(curve: &dyn Curve, cell: Range) -> f64 {
    let Range { lower, upper } = cell;
    let reach = (upper - lower).max(1e-7 * (1.0 + lower.abs()));
    let domain = curve.domain();
    let start = cell.middle();
    let mut x = start;
    for _ in 0..50 {
        let jet = curve.jet(x);
        let step = jet.slope() / jet.curvature();
        if !step.is_finite() || jet.curvature() >= 0.0 {
            break;
        }
        let next = domain.clamp((x - step).clamp(lower - reach, upper + reach));
        if next == x || (next - x).abs() <= f64::EPSILON * x.abs() {
            x = next;
            break;
        }
        x = next;
    }
    if curve.value(x) >= curve.value(start) - 1e-15 * (1.0 + curve.value(start).abs()) {
        x
    } else {
        start
    }
}

/// The last point on the way from `inside` to `outside` at which a monotone curve is at the level
/// or above.
fn crossing(curve: &dyn Curve, level: f64, inside: f64, outside: f64) -> f64 {
    if curve.value(outside) >= level {
        return outside;
    }
    let (mut inside, mut outside) = (inside, outside);
    loop {
        let middle = 0.5 * inside + 0.5 * outside;
        if middle == inside || middle == outside || (middle - inside) * (middle - outside) >= 0.0 {
            return inside;
        }
        if curve.value(middle) >= level {
            inside = middle;
        } else {
            outside = middle;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::{Formula, Lipschitz, LogSigmoid, Parabola, Smooth, Sum};
    use proptest::prelude::*;

    struct Waves {
        a: f64,
        b: f64,
        domain: Interval,
    }

    impl Formula for Waves {
        fn evaluate<S: Scalar>(&self, x: S) -> S {
            x.scale(self.a).sin() + x.scale(self.b).cos().scale(0.7) - x.square().scale(0.05)
        }
        fn holds_on(&self) -> Interval {
            self.domain
        }
    }

    proptest! {
        #[test]
        fn supremum_beats_a_fine_grid_and_stays_in_its_bracket(
            a in 0.5..6.0f64, b in 0.5..6.0f64, lower in -8.0..0.0f64, width in 0.1..9.0f64,
        ) {
            let domain = Interval::closed(lower, lower + width).unwrap();
            let curve = Smooth(Waves { a, b, domain });
            let found = Search::default().supremum(&curve, Interval::REAL_LINE).unwrap();
            prop_assert!(found.bound >= found.value && found.bound - found.value < 1e-12);
            prop_assert!(domain.contains(found.argument));
            prop_assert!((curve.value(found.argument) - found.value).abs() < 1e-13);
            let highest = (0..=4000)
                .map(|i| curve.value(domain.clamp(lower + width * f64::from(i) / 4000.0)))
                .fold(f64::NEG_INFINITY, f64::max);
            prop_assert!(highest <= found.bound + 1e-15);
            prop_assert!(found.value - highest < 1e-4);
            let low = Search::default().infimum(&curve, domain).unwrap();
            prop_assert!(low.bound <= low.value && low.value <= highest);
        }

        #[test]
        fn superlevel_agrees_with_membership(
            a in 0.5..6.0f64, b in 0.5..6.0f64, level in -1.5..1.5f64, share in 0.0..1.0f64,
        ) {
            let domain = Interval::closed(-4.0, 5.0).unwrap();
            let curve = Smooth(Waves { a, b, domain });
            let set = Search::default().superlevel(&curve, level, domain).unwrap();
            let x = -4.0 + 9.0 * share;
            let clear = (curve.value(x) - level).abs() > 1e-9;
            prop_assert!(!clear || set.contains(x) == (curve.value(x) >= level));
        }
    }

    #[test]
    fn tails_decide_infinite_suprema() {
        let search = Search::default();
        let logistic = LogSigmoid::new(-1.0).unwrap();
        // -log of a candidate with precision 2 minus a prior with precision 1 grows without bound
        let up = Sum::new(vec![
            Box::new(logistic),
            Box::new(Parabola::new(0.0, 1.0).unwrap()),
            Box::new(Scaled::negative(Parabola::new(0.3, 2.0).unwrap())),
        ])
        .unwrap();
        assert_eq!(
            search.supremum(&up, Interval::REAL_LINE).unwrap().value,
            f64::INFINITY
        );
        assert!(
            search
                .infimum(&up, Interval::REAL_LINE)
                .unwrap()
                .value
                .is_finite()
        );
        // equal precisions: linear tails, finite only for a range of centers, a limit at the edge
        for (center, expected) in [
            (0.0, 0.0),
            (-1.0, 0.5),
            (0.5, f64::INFINITY),
            (-1.5, f64::INFINITY),
        ] {
            let curve = Sum::new(vec![
                Box::new(logistic),
                Box::new(Parabola::new(0.0, 1.0).unwrap()),
                Box::new(Scaled::negative(Parabola::new(center, 1.0).unwrap())),
            ])
            .unwrap();
            let found = search.supremum(&curve, Interval::REAL_LINE).unwrap();
            assert!(
                found.value == expected || (found.value - expected).abs() < 1e-12,
                "center {center}: {} instead of {expected}",
                found.value
            );
        }
    }

    #[test]
    fn what_rounding_hides_is_not_certified() {
        // precisions that nearly cancel: the supremum is 0.9²/2 over their difference, far out,
        // where the squares are larger by far
        for gap in [1e-15, 1e-13, 1e-10, 1e-6, 1e-3] {
            let (precision, center) = (1.0 - gap, -1.9);
            let curve = Sum::new(vec![
                Box::new(LogSigmoid::new(-1.0).unwrap()),
                Box::new(Parabola::new(0.0, 1.0).unwrap()),
                Box::new(Scaled::negative(Parabola::new(center, precision).unwrap())),
            ])
            .unwrap();
            let difference = 1.0 - precision;
            let slope = -precision * center - 1.0;
            let expected = 0.5 * slope * slope / difference + 0.5 * precision * center * center;
            match Search::default().supremum(&curve, Interval::REAL_LINE) {
                Ok(found) => assert!((found.value / expected - 1.0).abs() < 1e-9, "{gap}"),
                Err(Error::NotCertified { lower, upper, .. }) => {
                    assert!(
                        gap < 1e-5 && lower <= expected && expected <= upper,
                        "{gap}"
                    );
                }
                Err(error) => panic!("{gap}: {error}"),
            }
        }
    }

    #[test]
    fn an_unknown_tail_is_not_certified() {
        struct Bump;
        impl Formula for Bump {
            fn evaluate<S: Scalar>(&self, x: S) -> S {
                -x.square()
            }
        }
        let error = Search::default()
            .supremum(&Smooth(Bump), Interval::REAL_LINE)
            .unwrap_err();
        assert!(matches!(error, Error::NotCertified { .. }), "{error}");
        let bounded = Interval::closed(-3.0, 2.0).unwrap();
        assert!(Search::default().supremum(&Smooth(Bump), bounded).is_ok());
    }

    #[test]
    fn a_lipschitz_curve_is_searched_to_a_coarser_tolerance() {
        let domain = Interval::closed(-2.0, 2.0).unwrap();
        let tent = Lipschitz::new(|x: f64| -(x - 0.3).abs(), 1.0, domain).unwrap();
        let search = Search {
            absolute: 1e-9,
            relative: 0.0,
            cells: 100_000,
        };
        let found = search.supremum(&tent, domain).unwrap();
        assert!(found.value <= 0.0 && found.bound >= 0.0 && found.bound - found.value <= 1e-9);
        // a flat top costs cells in proportion to 1/tolerance: refused, with the bracket
        let flat = Lipschitz::new(|_| 0.0, 1.0, domain).unwrap();
        assert!(matches!(
            search.supremum(&flat, domain),
            Err(Error::NotCertified { .. })
        ));
    }

    #[test]
    fn empty_and_single_point_domains() {
        let curve = Parabola::new(0.0, 1.0).unwrap();
        let at = Search::default()
            .supremum(&curve, Interval::point(2.0).unwrap())
            .unwrap();
        assert!((at.value + 2.0).abs() < 1e-14 && at.argument == 2.0);
        let restricted =
            crate::curve::Restricted::new(curve, Interval::at_least(1.0).unwrap()).unwrap();
        let none = Search::default()
            .supremum(&restricted, Interval::at_most(0.0).unwrap())
            .unwrap();
        assert_eq!(none.value, f64::NEG_INFINITY);
    }
}
