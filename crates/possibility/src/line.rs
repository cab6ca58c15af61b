//! Possibility functions on an interval or the whole line, given by any [`Curve`]: normalized,
//! measured, cut and compared with certified searches. Paper: Sections 2 and 4.

use crate::arithmetic::Range;
use crate::curve::{Curve, End, Scaled, Sum};
use crate::error::{Error, Result, check_alpha, check_real, not_certified};
use crate::function::{Measure, Mode, Possibility};
use crate::search::{Extremum, Search, polish};
use crate::set::{Interval, RealSet};

/// Slopes up to this size are rounding: the curve is flat there.
const SLOPE_OF_FLAT: f64 = 1e-100;
/// Largest `|sup log f|` accepted by [`Line::new`], which wants a normalized function.
const NORMALIZED: f64 = 1e-9;

/// A possibility function `f = exp(curve - sup curve)` on an interval of the line.
///
/// The support is the domain of the curve: the curve must be finite in its interior.
///
/// ```
/// use possibility::curve::{LogSigmoid, Parabola, Sum};
/// use possibility::{Measure, Mode, Possibility};
/// use possibility::line::Line;
/// use possibility::set::{Interval, RealSet};
/// let posterior = Line::normalize(Sum::new(vec![
///     Box::new(LogSigmoid::new(-1.0)?),
///     Box::new(Parabola::new(0.0, 1.0)?),
/// ])?)?;
/// let mode = *posterior.mode().as_point().expect("log-concave");
/// assert!((mode + 0.401058137541547).abs() < 1e-12);
/// let positive = RealSet::from(Interval::above(0.0)?);
/// assert!((posterior.possibility_of(&positive)? - 0.9047174242167086).abs() < 1e-12);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Line<C> {
    curve: C,
    log_supremum: f64,
    mode: Mode<f64>,
    search: Search,
}

impl<C: Curve> Line<C> {
    /// Divides by the supremum: `f = exp(curve - sup curve)`.
    ///
    /// # Errors
    /// The supremum is infinite or cannot be certified.
    pub fn normalize(curve: C) -> Result<Self> {
        Self::normalize_with(curve, Search::default())
    }

    /// As [`Self::normalize`], with a given accuracy and budget for this and every later search.
    ///
    /// # Errors
    /// As [`Self::normalize`].
    pub fn normalize_with(curve: C, search: Search) -> Result<Self> {
        let found = search.supremum(&curve, Interval::REAL_LINE)?;
        check_real("supremum of the log function", found.value)?;
        let mode = maximizers(&curve, &found, &search);
        Ok(Self {
            curve,
            log_supremum: found.value,
            mode,
            search,
        })
    }

    /// Takes a curve that is a log possibility already.
    ///
    /// # Errors
    /// [`Error::NotNormalized`] if the supremum is not 1, or it cannot be certified.
    pub fn new(curve: C) -> Result<Self> {
        let mut line = Self::normalize(curve)?;
        if line.log_supremum.abs() > NORMALIZED {
            return Err(Error::NotNormalized {
                supremum: line.log_supremum.exp(),
            });
        }
        line.log_supremum = 0.0;
        Ok(line)
    }

    /// The curve before normalization.
    pub fn curve(&self) -> &C {
        &self.curve
    }

    /// `log sup` of the curve before normalization.
    pub fn log_supremum(&self) -> f64 {
        self.log_supremum
    }

    /// The support (its closure, for a curve that goes to `-∞` at an end).
    pub fn support(&self) -> Interval {
        self.curve.domain()
    }

    /// `E*_f[θ]`, the set of maximizers.
    pub fn mode(&self) -> &Mode<f64> {
        &self.mode
    }

    /// The precision `ℐ_f = -(log f)''` at the mode; `None` unless the mode is a single finite
    /// point at which the curvature is known.
    pub fn precision(&self) -> Option<f64> {
        let mode = *self.mode.as_point()?;
        let curvature = self.curve.jet(mode).curvature();
        (mode.is_finite() && curvature.is_finite()).then_some(0.0 - curvature)
    }

    /// The normalized log as a curve.
    pub fn log_curve(&self) -> Scaled<&C> {
        Scaled::shifted(&self.curve, -self.log_supremum)
    }

    /// The α-cut `{θ : f(θ) ≥ α}`.
    ///
    /// # Errors
    /// `alpha` is not in `(0, 1]`, or the cut cannot be certified.
    pub fn alpha_cut(&self, alpha: f64) -> Result<RealSet> {
        check_alpha(alpha)?;
        if alpha == 1.0 {
            return match &self.mode {
                Mode::Point(x) => RealSet::points(&[*x]),
                Mode::Finite(points) => RealSet::points(points),
                Mode::Interval(a, b) => Ok(Interval::closed(*a, *b)?.into()),
                Mode::Everything => Ok(self.support().into()),
                Mode::Approached(_) => Ok(RealSet::empty()),
            };
        }
        let level = alpha.ln() + self.log_supremum;
        self.search
            .superlevel(&self.curve, level, Interval::REAL_LINE)
    }

    /// `D_max(self ‖ other) = sup log(self / other)`, at least 0.
    ///
    /// The supremum runs over the support of `other`; it is `+∞` if the support of `self` reaches
    /// outside.
    ///
    /// # Errors
    /// The supremum cannot be certified.
    pub fn max_relative_entropy<D: Curve>(&self, other: &Line<D>) -> Result<f64> {
        if !other.support().covers(&self.support()) {
            return Ok(f64::INFINITY);
        }
        let found = self
            .search
            .supremum(&self.log_ratio(other)?, Interval::REAL_LINE)?;
        Ok(found.value.max(0.0))
    }

    /// The active region of `D_max(self ‖ other)`: where `self ≥ other`. Paper: Appendix E.2.
    ///
    /// # Errors
    /// The region cannot be certified.
    pub fn active_region<D: Curve>(&self, other: &Line<D>) -> Result<RealSet> {
        self.search
            .superlevel(&self.log_ratio(other)?, 0.0, Interval::REAL_LINE)
    }

    /// The order `self ⪯ other`, that is `self(θ) ≤ other(θ)` everywhere.
    ///
    /// # Errors
    /// The comparison cannot be certified.
    pub fn compare<D: Curve>(&self, other: &Line<D>) -> Result<Below> {
        if !other.support().covers(&self.support()) {
            return Ok(Below::No {
                witness: None,
                log_excess: f64::INFINITY,
            });
        }
        let ratio = self.log_ratio(other)?;
        let found = self.search.supremum(&ratio, Interval::REAL_LINE)?;
        // what floating point can tell apart from touching
        let slack = self.search.absolute + (found.bound - found.value).abs() + 1e-15;
        Ok(if found.bound <= slack {
            Below::Yes {
                slack: found.bound.max(0.0),
            }
        } else if found.value > 0.0 {
            Below::No {
                witness: Some(found.argument),
                log_excess: found.value,
            }
        } else {
            return Err(not_certified(
                "the functions touch within the accuracy of the search",
                found.value,
                found.bound,
            ));
        })
    }

    fn log_ratio<'a, D: Curve>(&'a self, other: &'a Line<D>) -> Result<Sum<'a>> {
        Sum::new(vec![
            Box::new(self.log_curve()),
            Box::new(Scaled::negative(other.log_curve())),
        ])
    }

    fn log_possibility_over(&self, set: &RealSet) -> Result<f64> {
        let mut highest = f64::NEG_INFINITY;
        for part in set.parts() {
            highest = highest.max(self.search.supremum(&self.curve, *part)?.value);
        }
        Ok((highest - self.log_supremum).min(0.0))
    }
}

/// The answer to `f ⪯ g`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Below {
    /// `log f ≤ log g + slack` everywhere is certified, with a slack of the order of rounding.
    Yes {
        /// Largest excess that is not excluded.
        slack: f64,
    },
    /// `f` exceeds `g`.
    No {
        /// A point where it does; `None` if `f` is possible where `g` is not.
        witness: Option<f64>,
        /// `log f - log g` there.
        log_excess: f64,
    },
}

impl Below {
    /// Whether `f ⪯ g`.
    pub fn holds(&self) -> bool {
        matches!(self, Self::Yes { .. })
    }
}

/// The set of maximizers: the parts of the superlevel set just below the supremum, each a peak or a
/// plateau.
fn maximizers(curve: &dyn Curve, found: &Extremum, search: &Search) -> Mode<f64> {
    // below what rounding and the search can tell apart
    let top = found.value - 2.0 * search.absolute - 2.0 * search.relative * found.value.abs();
    let lone = || Mode::Point(polish(curve, Range::point(found.argument)));
    let Ok(near_top) = search.superlevel(curve, top, Interval::REAL_LINE) else {
        return lone();
    };
    let domain = curve.domain();
    let mut points: Vec<f64> = Vec::new();
    for part in near_top.parts() {
        let (lower, upper) = (part.lower(), part.upper());
        if !part.is_bounded() {
            let end = if lower.is_infinite() {
                End::Left
            } else {
                End::Right
            };
            let from = if lower.is_infinite() { upper } else { lower };
            let flat = |end, from| {
                curve
                    .tail(end, from)
                    .is_some_and(|t| t.slope(end, from).width() <= SLOPE_OF_FLAT)
            };
            if from.is_infinite() && flat(End::Left, -1.0) && flat(End::Right, 1.0) {
                return Mode::Everything;
            }
            if from.is_finite() && flat(end, from) {
                return Mode::Interval(lower, upper);
            }
            points.push(end.sign() * f64::INFINITY);
            continue;
        }
        let over = curve.enclose(Range::new(lower, upper));
        let quarter = curve
            .enclose(Range::point(0.75 * lower + 0.25 * upper))
            .slope();
        let is_peak = lower == upper
            || over.curvature().upper < 0.0
            || quarter.lower > SLOPE_OF_FLAT
            || quarter.upper < -SLOPE_OF_FLAT;
        let slope = over.slope();
        if is_peak && slope.upper < 0.0 {
            points.push(lower);
        } else if is_peak && slope.lower > 0.0 {
            points.push(upper);
        } else if is_peak {
            points.push(polish(curve, Range::new(lower, upper)));
        } else if lower <= domain.lower() && upper >= domain.upper() {
            return Mode::Everything;
        } else {
            return Mode::Interval(lower, upper);
        }
    }
    match points[..] {
        [] => lone(),
        [point] => Mode::Point(point),
        _ => Mode::Finite(points),
    }
}

impl<C: Curve> Possibility for Line<C> {
    type Point = f64;

    fn log_possibility(&self, point: &f64) -> f64 {
        if self.support().contains(*point) {
            (self.curve.value(*point) - self.log_supremum).min(0.0)
        } else {
            f64::NEG_INFINITY
        }
    }
}

impl<C: Curve> Measure<RealSet> for Line<C> {
    fn log_possibility_of(&self, event: &RealSet) -> Result<f64> {
        self.log_possibility_over(event)
    }

    fn log_possibility_of_complement(&self, event: &RealSet) -> Result<f64> {
        self.log_possibility_over(&event.complement())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arithmetic::Scalar;
    use crate::curve::{Formula, LogSigmoid, Parabola, Restricted, Smooth};
    use proptest::prelude::*;

    /// `sin(frequency x + phase) - 1`, a log possibility with several modes.
    #[derive(Debug, Clone, Copy)]
    struct Wave {
        frequency: f64,
        phase: f64,
    }

    impl Formula for Wave {
        fn evaluate<S: Scalar>(&self, x: S) -> S {
            x.scale(self.frequency).shift(self.phase).sin().shift(-1.0)
        }
        fn holds_on(&self) -> Interval {
            Interval::closed(0.0, 10.0).unwrap()
        }
    }

    fn gaussian(mode: f64, precision: f64) -> Line<Parabola> {
        Line::new(Parabola::new(mode, precision).unwrap()).unwrap()
    }

    fn half_line_above(x: f64) -> RealSet {
        Interval::above(x).unwrap().into()
    }

    #[test]
    fn modes_of_every_kind() {
        assert_eq!(gaussian(1.25, 4.0).mode(), &Mode::Point(1.25));
        assert_eq!(
            Line::new(Parabola::new(0.0, 0.0).unwrap()).unwrap().mode(),
            &Mode::Everything
        );
        let waves = Line::new(Smooth(Wave {
            frequency: 1.0,
            phase: 0.0,
        }))
        .unwrap();
        match waves.mode() {
            Mode::Finite(points) => {
                let quarter = std::f64::consts::FRAC_PI_2;
                assert_eq!(points.len(), 2);
                assert!((points[0] - quarter).abs() < 1e-7);
                assert!((points[1] - 5.0 * quarter).abs() < 1e-7);
            }
            other => panic!("two peaks expected, found {other:?}"),
        }
        // a supremum that is only approached: uninformative prior, one success seen
        let limit = Line::new(LogSigmoid::new(1.0).unwrap()).unwrap();
        assert_eq!(limit.mode(), &Mode::Point(f64::INFINITY));
        assert_eq!(limit.precision(), None);
    }

    #[test]
    fn precision_is_minus_the_curvature_at_the_mode() {
        assert!((gaussian(-2.0, 3.5).precision().unwrap() - 3.5).abs() < 1e-14);
    }

    #[test]
    fn unnormalized_curves_are_refused_by_new() {
        let shifted = Scaled::new(Parabola::new(0.0, 1.0).unwrap(), 1.0, -0.5).unwrap();
        assert!(matches!(
            Line::new(shifted),
            Err(Error::NotNormalized { .. })
        ));
        assert!((Line::normalize(shifted).unwrap().log_supremum() + 0.5).abs() < 1e-15);
        assert!(Line::normalize(Scaled::negative(Parabola::new(0.0, 1.0).unwrap())).is_err());
    }

    #[test]
    fn a_restricted_prior_has_no_possibility_outside() {
        let domain = Interval::at_least(1.0).unwrap();
        let line =
            Line::normalize(Restricted::new(Parabola::new(0.0, 1.0).unwrap(), domain).unwrap())
                .unwrap();
        assert_eq!(line.mode(), &Mode::Point(1.0));
        assert_eq!(line.possibility(&0.5), 0.0);
        assert_eq!(
            line.possibility_of(&Interval::below(1.0).unwrap().into())
                .unwrap(),
            0.0
        );
        assert_eq!(
            gaussian(0.0, 1.0).max_relative_entropy(&line).unwrap(),
            f64::INFINITY
        );
        // log ratio on [1, ∞) is log sup of the restricted curve, -1/2 below... so D_max is the
        // normalizer
        let back = line.max_relative_entropy(&gaussian(0.0, 1.0)).unwrap();
        assert!((back - 0.5).abs() < 1e-12, "{back}");
        assert!(!gaussian(0.0, 1.0).compare(&line).unwrap().holds());
    }

    #[test]
    fn the_uninformative_function_is_the_greatest() {
        let one = Line::new(Parabola::new(0.0, 0.0).unwrap()).unwrap();
        let g = gaussian(0.3, 2.0);
        assert!(g.compare(&one).unwrap().holds());
        assert!(matches!(one.compare(&g).unwrap(), Below::No { .. }));
        assert_eq!(one.max_relative_entropy(&g).unwrap(), f64::INFINITY);
        assert_eq!(one.possibility_of(&half_line_above(7.0)).unwrap(), 1.0);
        assert_eq!(one.necessity_of(&half_line_above(7.0)).unwrap(), 0.0);
    }

    proptest! {
        #[test]
        fn normals_agree_with_the_closed_form(
            m in -3.0..3.0f64, p in 0.1..9.0f64, n in -3.0..3.0f64, q in 0.1..9.0f64,
        ) {
            let (g, f) = (gaussian(m, p), gaussian(n, q));
            let found = g.max_relative_entropy(&f).unwrap();
            if p > q {
                let expected = 0.5 * (m - n).powi(2) / (1.0 / q - 1.0 / p);
                // the supremum is ill-conditioned in the difference of the variances
                let scale = 1.0 + expected * p / (p - q);
                prop_assert!((found - expected).abs() <= 1e-11 * scale, "{found} {expected}");
            } else if p < q {
                prop_assert_eq!(found, f64::INFINITY);
            }
        }

        #[test]
        fn measure_laws_hold_with_several_modes(
            frequency in 0.3..3.0f64, phase in 0.0..6.0f64, a in 0.0..10.0f64, b in 0.0..10.0f64,
        ) {
            let f = Line::normalize(Smooth(Wave { frequency, phase })).unwrap();
            let event: RealSet = Interval::closed(a.min(b), a.max(b)).unwrap().into();
            let (inside, outside) = (
                f.possibility_of(&event).unwrap(),
                f.possibility_of(&event.complement()).unwrap(),
            );
            prop_assert!((inside.max(outside) - 1.0).abs() < 1e-12);
            let necessity = f.necessity_of(&event).unwrap();
            prop_assert!(necessity <= inside + 1e-12 && (necessity - (1.0 - outside)).abs() < 1e-12);
        }

        #[test]
        fn alpha_cuts_are_nested_and_exact(
            frequency in 0.3..3.0f64, phase in 0.0..6.0f64, alpha in 0.2..0.99f64, x in 0.0..10.0f64,
        ) {
            let f = Line::normalize(Smooth(Wave { frequency, phase })).unwrap();
            let cut = f.alpha_cut(alpha).unwrap();
            let value = f.possibility(&x);
            prop_assert!((value - alpha).abs() < 1e-9 || cut.contains(x) == (value >= alpha));
            let smaller = f.alpha_cut(0.5 * (1.0 + alpha)).unwrap();
            prop_assert_eq!(smaller.union(&cut), cut.clone());
            // the event "inside the cut" is certain to the degree 1 - α
            let certainty = f.necessity_of(&cut).unwrap();
            prop_assert!(certainty >= 1.0 - alpha - 1e-9);
        }

        #[test]
        fn active_region_is_where_the_first_function_is_higher(
            a in 0.3..3.0f64, b in 0.3..3.0f64, x in 0.0..10.0f64,
        ) {
            let g = Line::normalize(Smooth(Wave { frequency: a, phase: 0.2 })).unwrap();
            let f = Line::normalize(Smooth(Wave { frequency: b, phase: 1.4 })).unwrap();
            let region = g.active_region(&f).unwrap();
            let (u, v) = (g.log_possibility(&x), f.log_possibility(&x));
            prop_assert!((u - v).abs() < 1e-9 || region.contains(x) == (u >= v));
            // the supremum of the log ratio is taken inside the active region
            let entropy = g.max_relative_entropy(&f).unwrap();
            prop_assert!(entropy >= 0.0 && u - v <= entropy + 1e-10);
        }
    }
}
