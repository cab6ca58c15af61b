//! The tightest Gaussian above and the widest Gaussian below a possibility function, both centered
//! at its mode. Beyond the paper: certified counterparts of its Figure "posterior between its
//! bounds".
//!
//! With `u = log f`, mode `m` and `q(x) = -2 (u(x) - u(m)) / (x - m)²`,
//!
//! ```text
//! exp(-p/2 (x - m)²) ≥ f(x) everywhere  ⇔  p ≤ inf q,      exp(-p/2 (x - m)²) ≤ f(x) everywhere  ⇔  p ≥ sup q.
//! ```
//!
//! Both extrema are found by the certified search. The Laplace precision `-u''(m) = q(m)` lies
//! between them, so that the Laplace approximation is neither bound unless `f` is Gaussian. Near
//! the mode `q` is enclosed by its Taylor series, where the quotient would cancel.

use crate::arithmetic::{Exact, Jet, Range, Scalar};
use crate::curve::{Curve, End, Parabola, SERIES_ORDER, Tail};
use crate::error::{Result, not_certified};
use crate::function::{Measure, Mode};
use crate::line::Line;
use crate::search::Search;
use crate::set::{Interval, RealSet};

/// The pair of Gaussians around a possibility function on the line.
///
/// ```
/// use possibility::curve::{LogSigmoid, Parabola};
/// use possibility::posterior::LinePosterior;
/// use possibility::tight::TightGaussians;
/// let posterior = LinePosterior::new(LogSigmoid::new(-1.0)?, Parabola::new(0.0, 1.0)?)?;
/// let bounds = TightGaussians::around(posterior.function())?;
/// assert!((bounds.upper_precision() - 1.0).abs() < 1e-10);
/// assert!((bounds.lower_precision() - 1.2467020444092178).abs() < 1e-10);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TightGaussians {
    mode: f64,
    laplace_precision: f64,
    upper_precision: f64,
    lower_precision: f64,
    upper_touches: f64,
    lower_touches: f64,
}

impl TightGaussians {
    /// Both Gaussians, precisions to a relative `1e-12`, rounded to the safe side.
    ///
    /// # Errors
    /// The function has no single finite mode, no Taylor series, or an extremum cannot be
    /// certified.
    pub fn around<C: Curve>(function: &Line<C>) -> Result<Self> {
        let Mode::Point(mode) = *function.mode() else {
            return Err(not_certified(
                "tight Gaussians need a single mode",
                0.0,
                f64::INFINITY,
            ));
        };
        let curve = function.log_curve();
        let quotient = Quotient::new(&curve, mode)?;
        // an absolute part, because the infimum may be 0
        let search = Search {
            absolute: 1e-13 * quotient.at_mode().abs(),
            relative: 1e-12,
            cells: 400_000,
        };
        let narrowest = search.infimum(&quotient, Interval::REAL_LINE)?;
        let domain = curve.domain();
        let (lower_precision, lower_touches) =
            if domain.lower().is_finite() || domain.upper().is_finite() {
                // f vanishes beyond an end, where no Gaussian does
                let end = if domain.lower().is_finite() {
                    domain.lower()
                } else {
                    domain.upper()
                };
                (f64::INFINITY, end)
            } else {
                let widest = search.supremum(&quotient, Interval::REAL_LINE)?;
                (widest.bound, widest.argument)
            };
        Ok(Self {
            mode,
            laplace_precision: quotient.at_mode(),
            // a negative infimum cannot happen below the mode's own value; 0 stands for the
            // function 1
            upper_precision: narrowest.bound.max(0.0),
            lower_precision,
            upper_touches: narrowest.argument,
            lower_touches,
        })
    }

    /// The common center.
    pub fn mode(&self) -> f64 {
        self.mode
    }

    /// Precision of the Laplace approximation, between the other two.
    pub fn laplace_precision(&self) -> f64 {
        self.laplace_precision
    }

    /// The largest precision of a Gaussian that lies above; 0 if only the uninformative function
    /// does.
    pub fn upper_precision(&self) -> f64 {
        self.upper_precision
    }

    /// The smallest precision of a Gaussian that lies below; `+∞` if only the point mass does.
    pub fn lower_precision(&self) -> f64 {
        self.lower_precision
    }

    /// Where the upper Gaussian touches the function besides the mode; infinite if only in the
    /// limit.
    pub fn upper_touches(&self) -> f64 {
        self.upper_touches
    }

    /// Where the lower Gaussian touches the function besides the mode; infinite if only in the
    /// limit.
    pub fn lower_touches(&self) -> f64 {
        self.lower_touches
    }

    /// Certified `(lower, upper)` values of the possibility of an event.
    ///
    /// # Errors
    /// A supremum cannot be certified.
    pub fn possibility_of(&self, event: &RealSet) -> Result<(f64, f64)> {
        Ok((
            self.measure(self.lower_precision, event)?,
            self.measure(self.upper_precision, event)?,
        ))
    }

    /// Certified `(lower, upper)` values of the necessity of an event: the wider Gaussian is less
    /// certain.
    ///
    /// # Errors
    /// A supremum cannot be certified.
    pub fn necessity_of(&self, event: &RealSet) -> Result<(f64, f64)> {
        let outside = event.complement();
        Ok((
            1.0 - self.measure(self.upper_precision, &outside)?,
            1.0 - self.measure(self.lower_precision, &outside)?,
        ))
    }

    fn measure(&self, precision: f64, event: &RealSet) -> Result<f64> {
        if precision.is_infinite() {
            return Ok(if event.contains(self.mode) { 1.0 } else { 0.0 });
        }
        Line::new(Parabola::new(self.mode, precision)?)?.possibility_of(event)
    }
}

/// `q(x) = -2 (u(x) - u(m) - u'(m)(x - m)) / (x - m)²`, continued by `-u''(m)` at the mode.
///
/// The slope term is zero at an exact mode; it removes what is left of the slope at the rounded
/// one. A mode at an end of the domain may have a slope, which then stays: `q` has a pole there.
struct Quotient<'a, C> {
    curve: &'a C,
    mode: f64,
    series: Jet<Range, SERIES_ORDER>,
    /// The slope at a mode that is an end of the domain, else zero.
    edge_slope: Range,
}

impl<'a, C: Curve> Quotient<'a, C> {
    fn new(curve: &'a C, mode: f64) -> Result<Self> {
        let unknown = not_certified(
            "the curve has no Taylor series at its mode",
            0.0,
            f64::INFINITY,
        );
        if !mode.is_finite() {
            return Err(unknown);
        }
        let mut series = curve.series(Range::point(mode)).ok_or(unknown)?;
        let mut edge_slope = Range::point(0.0);
        let domain = curve.domain();
        if mode == domain.lower() || mode == domain.upper() {
            std::mem::swap(&mut edge_slope, &mut series.coefficients[1]);
        }
        Ok(Self {
            curve,
            mode,
            series,
            edge_slope,
        })
    }

    fn at_mode(&self) -> f64 {
        -2.0 * self.series.coefficients[2].middle()
    }

    /// From the Taylor series at the mode, the last coefficient taken over everything in between.
    fn near<const N: usize>(&self, cell: Range) -> Option<Jet<Range, N>> {
        let between = cell.hull(&Range::point(self.mode));
        let last = self.curve.series(between)?.coefficients[SERIES_ORDER - 1];
        let distance = Jet::<Range, N>::variable(cell) - Jet::constant(self.mode);
        let mut sum = Jet::flat(last);
        for k in (2..SERIES_ORDER - 1).rev() {
            sum = Jet::flat(self.series.coefficients[k]) + sum * distance;
        }
        if self.edge_slope == Range::point(0.0) {
            return Some(sum.scale(-2.0));
        }
        if !cell.contains(self.mode) {
            return Some((sum + Jet::flat(self.edge_slope) / distance).scale(-2.0));
        }
        // the function falls from an end of its domain: the pole is a positive one, at least what
        // it is at the far end of the cell
        let slope = self.edge_slope.lower.abs().min(self.edge_slope.upper.abs());
        let reach = (cell - Range::point(self.mode)).square().sqrt().upper;
        let least = (Range::point(2.0 * slope) / Range::point(reach)).lower;
        let mut pole = Jet {
            coefficients: [Range::ALL; N],
        };
        pole.coefficients[0] = sum.scale(-2.0).value() + Range::new(least.max(0.0), f64::INFINITY);
        Some(pole)
    }

    /// From the tail of the curve beyond `from`, for the given values of `1/d = 1/(x - m)`: a
    /// constant, and ranges of what is left of `q` and of its slope.
    fn far(&self, end: End, from: f64, inverse: Range) -> Option<(Exact, Range, Range)> {
        let tail = self.curve.tail(end, from)?;
        let m = Range::point(self.mode);
        let [a, b, c] = [tail.quadratic, tail.linear, tail.constant].map(|part| part.enclose());
        let [level, slope] = [self.series.coefficients[0], self.series.coefficients[1]];
        // u - u(m) - u'(m) d = a d² + first d + rest
        let first = (a * m).scale(2.0) + b - slope;
        let rest = a * m.square() + b * m + c + tail.remainder - level;
        let square = inverse.square();
        let remainder = -(first * inverse + rest * square).scale(2.0);
        let remainder_slope = first.scale(2.0) * square + (rest * (inverse * square)).scale(4.0)
            - (tail.remainder_slope * square).scale(2.0);
        Some((tail.quadratic.scale(-2.0), remainder, remainder_slope))
    }

    /// The same on a cell that lies on one side of the mode.
    fn far_on(&self, cell: Range) -> Option<Jet<Range, 3>> {
        let end = if cell.lower > self.mode {
            End::Right
        } else {
            End::Left
        };
        let from = if cell.lower > self.mode {
            cell.lower
        } else {
            cell.upper
        };
        let inverse = Range::point(1.0) / (cell - Range::point(self.mode));
        let (constant, value, slope) = self.far(end, from, inverse)?;
        Some(Jet {
            coefficients: [value + constant.enclose(), slope, Range::ALL],
        })
    }

    /// The quotient as it stands, away from the mode.
    fn direct(&self, cell: Range) -> Jet<Range, 3> {
        let distance = Jet::<Range, 3>::variable(cell) - Jet::constant(self.mode);
        let tangent = Jet::flat(self.series.coefficients[0])
            + Jet::flat(self.series.coefficients[1]) * distance;
        ((self.curve.enclose(cell) - tangent) / distance.square()).scale(-2.0)
    }
}

impl<C: Curve> Curve for Quotient<'_, C> {
    fn domain(&self) -> Interval {
        self.curve.domain()
    }

    fn value(&self, x: f64) -> f64 {
        self.enclose(Range::point(x)).value().middle()
    }

    fn jet(&self, x: f64) -> Jet<f64, 3> {
        let jet = self.enclose(Range::point(x));
        Jet {
            coefficients: jet.coefficients.map(|c| c.middle()),
        }
    }

    fn enclose(&self, cell: Range) -> Jet<Range, 3> {
        let near: Option<Jet<Range, 3>> = self.near(cell);
        if cell.contains(self.mode) {
            return near.unwrap_or(Jet {
                coefficients: [Range::ALL; 3],
            });
        }
        // three enclosures of the same numbers: keep what is common to them
        let forms = [near, self.far_on(cell)];
        forms
            .into_iter()
            .flatten()
            .fold(self.direct(cell), |best, form| Jet {
                coefficients: std::array::from_fn(|k| {
                    best.coefficients[k].meet(&form.coefficients[k])
                }),
            })
    }

    fn tail(&self, end: End, from: f64) -> Option<Tail> {
        let distance = (from - self.mode) * end.sign();
        if distance <= 0.0 {
            return None;
        }
        // every 1/d beyond `from`, with its sign
        let inverse = match end {
            End::Right => Range::new(0.0, (1.0 / distance).next_up()),
            End::Left => Range::new(-(1.0 / distance).next_up(), 0.0),
        };
        let (constant, remainder, remainder_slope) = self.far(end, from, inverse)?;
        Some(Tail {
            remainder,
            remainder_slope,
            ..Tail::polynomial(0.0, 0.0, constant)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::{Formula, LogSigmoid, Plus, Restricted, Smooth};
    use crate::error::Error;
    use crate::function::Possibility;
    use crate::posterior::LinePosterior;
    use proptest::prelude::*;

    /// `log(1/cosh)`-free mixture: `-a x²/2 - (b/4) x⁴` on a bounded interval.
    struct Quartic {
        a: f64,
        b: f64,
    }

    impl Formula for Quartic {
        fn evaluate<S: Scalar>(&self, x: S) -> S {
            x.square().scale(-0.5 * self.a) - x.square().square().scale(0.25 * self.b)
        }
        fn holds_on(&self) -> Interval {
            Interval::closed(-2.0, 3.0).unwrap()
        }
    }

    #[test]
    fn a_quartic_is_bounded_by_its_own_curvature() {
        // q(x) = a + b x²/2: smallest at the mode, and no Gaussian below where f vanishes
        let line = Line::new(Smooth(Quartic { a: 1.5, b: 0.5 })).unwrap();
        let bounds = TightGaussians::around(&line).unwrap();
        assert!((bounds.upper_precision() - 1.5).abs() < 1e-11);
        assert!((bounds.laplace_precision() - 1.5).abs() < 1e-13);
        assert_eq!(bounds.lower_precision(), f64::INFINITY);
        let event: RealSet = Interval::at_least(1.0).unwrap().into();
        let (lower, upper) = bounds.possibility_of(&event).unwrap();
        assert_eq!(lower, 0.0);
        assert!(upper >= line.possibility_of(&event).unwrap());
    }

    #[test]
    fn a_gaussian_is_its_own_bound() {
        let line = Line::new(Parabola::new(3.0, 0.7).unwrap()).unwrap();
        let bounds = TightGaussians::around(&line).unwrap();
        for precision in [bounds.upper_precision(), bounds.lower_precision()] {
            assert!((precision - 0.7).abs() < 1e-11, "{precision}");
        }
    }

    /// `-x - c x²/2` on `[0, 2]`: the mode is an end, where the function has a slope.
    struct Slope {
        c: f64,
    }

    impl Formula for Slope {
        fn evaluate<S: Scalar>(&self, x: S) -> S {
            -x - x.square().scale(0.5 * self.c)
        }
        fn holds_on(&self) -> Interval {
            Interval::closed(0.0, 2.0).unwrap()
        }
    }

    #[test]
    fn the_slope_at_a_mode_on_the_edge_counts() {
        // q(x) = 2/x + c, smallest at the other end
        for c in [-0.25, 0.0, 0.5] {
            let line = Line::new(Smooth(Slope { c })).unwrap();
            assert_eq!(line.mode(), &Mode::Point(0.0));
            let bounds = TightGaussians::around(&line).unwrap();
            let p = bounds.upper_precision();
            assert!((p - (1.0 + c)).abs() < 1e-11, "{p} for {c}");
            assert_eq!(bounds.lower_precision(), f64::INFINITY);
            for x in [0.01, 0.3, 1.0, 2.0] {
                assert!(line.log_possibility(&x) <= -0.5 * p * x * x + 1e-15);
            }
        }
    }

    #[test]
    fn the_bounds_hold_to_the_last_digit() {
        // four observations and a prior far away: skewed, mode far from the prior's
        let factors = [3.0, -0.2, 1.7, 0.4];
        for center in [-6.0, -1.0, 0.0, 5.0] {
            let all = |factor: f64| LogSigmoid::new(factor).unwrap();
            let likelihood = Plus::new(
                Plus::new(all(factors[0]), all(factors[1])).unwrap(),
                Plus::new(all(factors[2]), all(factors[3])).unwrap(),
            )
            .unwrap();
            let posterior =
                LinePosterior::new(likelihood, Parabola::new(center, 0.05).unwrap()).unwrap();
            let g = posterior.function();
            let bounds = TightGaussians::around(g).unwrap();
            let (mut highest, mut lowest) = (f64::NEG_INFINITY, f64::INFINITY);
            for i in -40_000..=40_000 {
                let d = f64::from(i) * 1e-3 + 3e-4;
                let q = -2.0 * g.log_possibility(&(bounds.mode() + d)) / (d * d);
                if d.abs() > 0.1 {
                    (highest, lowest) = (highest.max(q), lowest.min(q));
                }
            }
            // nothing seen is outside, and the lower Gaussian is no narrower than the grid says
            assert!(highest <= bounds.lower_precision() * (1.0 + 1e-12));
            assert!(lowest >= bounds.upper_precision() * (1.0 - 1e-12));
            let touching = bounds.lower_precision().max(bounds.laplace_precision());
            assert!(touching - highest.max(bounds.laplace_precision()) < 1e-5 * touching);
            assert!((bounds.upper_precision() - 0.05).abs() < 1e-11);
        }
    }

    #[test]
    fn only_the_uninformative_function_lies_above_linear_tails() {
        // σ(x)σ(-x), normalized: -log grows like |x|, so no Gaussian lies above; below, the
        // curvature at the mode
        let line = Line::normalize(
            Plus::new(
                LogSigmoid::new(1.0).unwrap(),
                LogSigmoid::new(-1.0).unwrap(),
            )
            .unwrap(),
        )
        .unwrap();
        let bounds = TightGaussians::around(&line).unwrap();
        assert!(bounds.upper_precision() < 1e-12);
        assert!((bounds.lower_precision() - 0.5).abs() < 1e-11);
        let tail: RealSet = Interval::at_least(3.0).unwrap().into();
        let (lower, upper) = bounds.possibility_of(&tail).unwrap();
        assert!(lower < line.possibility_of(&tail).unwrap() && upper > 1.0 - 1e-11);
    }

    #[test]
    fn functions_without_one_mode_are_refused() {
        let flat = Line::new(Parabola::new(0.0, 0.0).unwrap()).unwrap();
        assert!(matches!(
            TightGaussians::around(&flat),
            Err(Error::NotCertified { .. })
        ));
        let limit = Line::new(LogSigmoid::new(1.0).unwrap()).unwrap();
        assert!(matches!(
            TightGaussians::around(&limit),
            Err(Error::NotCertified { .. })
        ));
        let half = Restricted::new(
            Parabola::new(0.0, 1.0).unwrap(),
            Interval::at_least(-1.0).unwrap(),
        );
        let bounds = TightGaussians::around(&Line::new(half.unwrap()).unwrap()).unwrap();
        assert_eq!(bounds.lower_precision(), f64::INFINITY);
    }

    proptest! {
        #[test]
        fn one_observation_has_the_closed_form(
            factor in prop_oneof![-3.0..-0.1f64, 0.1..3.0f64], delta in 0.2..4.0f64, center in -2.0..2.0f64,
        ) {
            let posterior = LinePosterior::new(
                LogSigmoid::new(factor).unwrap(), Parabola::new(center, delta).unwrap()).unwrap();
            let bounds = TightGaussians::around(posterior.function()).unwrap();
            // in z = factor·x the widest lower bound of the softplus touches at ±z
            let z = (factor * bounds.mode()).abs();
            let curvature = if z < 1e-6 { 0.25 } else { (0.5 * z).tanh() / (2.0 * z) };
            let expected = delta + factor * factor * curvature;
            prop_assert!((bounds.lower_precision() - expected).abs() < 1e-10 * expected);
            prop_assert!((bounds.upper_precision() - delta).abs() < 1e-10 * delta);
            prop_assert!(bounds.upper_precision() <= bounds.laplace_precision() + 1e-10);
            prop_assert!(bounds.laplace_precision() <= bounds.lower_precision() + 1e-10);
        }

        #[test]
        fn events_are_bracketed(
            f1 in -2.0..2.0f64, f2 in -2.0..2.0f64, delta in 0.3..3.0f64,
            a in -3.0..3.0f64, width in 0.0..3.0f64, x in -6.0..6.0f64,
        ) {
            let likelihood =
                Plus::new(LogSigmoid::new(f1).unwrap(), LogSigmoid::new(f2).unwrap()).unwrap();
            let posterior =
                LinePosterior::new(likelihood, Parabola::new(0.4, delta).unwrap()).unwrap();
            let g = posterior.function();
            let bounds = TightGaussians::around(g).unwrap();
            let event: RealSet = Interval::closed(a, a + width).unwrap().into();
            let (lower, upper) = bounds.possibility_of(&event).unwrap();
            let exact = g.possibility_of(&event).unwrap();
            prop_assert!(lower <= exact + 1e-11 && exact <= upper + 1e-11);
            let (lower, upper) = bounds.necessity_of(&event).unwrap();
            let exact = g.necessity_of(&event).unwrap();
            prop_assert!(lower <= exact + 1e-11 && exact <= upper + 1e-11);
            let d = x - bounds.mode();
            let log = g.log_possibility(&x);
            prop_assert!(-0.5 * bounds.lower_precision() * d * d <= log + 1e-11);
            prop_assert!(log <= -0.5 * bounds.upper_precision() * d * d + 1e-11);
        }
    }
}
