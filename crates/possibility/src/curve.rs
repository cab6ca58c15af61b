//! Real functions of one variable that can be bounded over whole intervals: the inputs of the
//! certified search. A curve is usually a log possibility, a log prior, or minus a loss.
//!
//! Three ways to get one:
//! - write the formula once for every [`Scalar`] ([`Formula`]) and wrap it in [`Smooth`];
//! - give a closure with a Lipschitz constant ([`Lipschitz`]);
//! - combine curves: [`Sum`], [`Scaled`].
//!
//! On an unbounded domain a curve must also say how it behaves far out ([`Tail`]), because no
//! number of evaluations can tell.

use crate::arithmetic::{Exact, Jet, Range, Scalar};
use crate::error::{Error, Result, check, check_not_negative, check_real};
use crate::set::Interval;

/// Orders kept by [`Curve::series`].
pub const SERIES_ORDER: usize = 9;

/// Which infinite end of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// `x → -∞`.
    Left,
    /// `x → +∞`.
    Right,
}

impl End {
    /// `-1` or `+1`.
    pub fn sign(self) -> f64 {
        match self {
            Self::Left => -1.0,
            Self::Right => 1.0,
        }
    }
}

/// Behavior beyond a point: `quadratic x² + linear x + constant + r(x)` with `r` and its slope
/// enclosed.
///
/// The remainder should shrink to a point as the starting point moves out, or go to infinity with a
/// slope of one sign. The coefficients are kept without rounding, so that a sum of tails has a
/// limit only where they cancel for sure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tail {
    /// Coefficient of `x²`.
    pub quadratic: Exact,
    /// Coefficient of `x`.
    pub linear: Exact,
    /// Constant term.
    pub constant: Exact,
    /// Encloses `r(x)` for every `x` beyond the starting point.
    pub remainder: Range,
    /// Encloses `r'(x)` for every `x` beyond the starting point.
    pub remainder_slope: Range,
}

impl Tail {
    /// A tail that is exactly a polynomial of degree two.
    pub fn polynomial(
        quadratic: impl Into<Exact>,
        linear: impl Into<Exact>,
        constant: impl Into<Exact>,
    ) -> Self {
        let zero = Range::point(0.0);
        Self {
            quadratic: quadratic.into(),
            linear: linear.into(),
            constant: constant.into(),
            remainder: zero,
            remainder_slope: zero,
        }
    }

    /// Encloses the slope beyond `from`.
    pub fn slope(&self, end: End, from: f64) -> Range {
        let reach = match end {
            End::Left => Range::new(f64::NEG_INFINITY, from),
            End::Right => Range::new(from, f64::INFINITY),
        };
        let polynomial = if self.quadratic.is_zero() {
            Range::point(0.0)
        } else {
            self.quadratic.scale(2.0).enclose() * reach
        };
        polynomial + self.linear.enclose() + self.remainder_slope
    }

    /// Encloses the limit at infinity if the polynomial part is constant.
    ///
    /// ```
    /// use possibility::curve::{Curve, End, LogSigmoid, Scaled, Sum};
    /// let log_sigmoid = |factor| LogSigmoid::new(factor);
    /// let sum = |last| -> possibility::Result<_> {
    ///     let last = Scaled::negative(log_sigmoid(last)?);
    ///     Sum::new(vec![Box::new(log_sigmoid(0.25)?), Box::new(log_sigmoid(0.5)?), Box::new(last)])
    /// };
    /// let tail = |last| sum(last).map(|curve| curve.tail(End::Left, -50.0).expect("known"));
    /// assert!(tail(0.75)?.limit().is_some());
    /// assert!(tail(0.75f64.next_up())?.limit().is_none());
    /// # Ok::<(), possibility::Error>(())
    /// ```
    pub fn limit(&self) -> Option<Range> {
        (self.quadratic.is_zero() && self.linear.is_zero())
            .then(|| self.constant.enclose() + self.remainder)
    }

    fn combine(&self, other: &Self) -> Self {
        Self {
            quadratic: self.quadratic + other.quadratic,
            linear: self.linear + other.linear,
            constant: self.constant + other.constant,
            remainder: self.remainder + other.remainder,
            remainder_slope: self.remainder_slope + other.remainder_slope,
        }
    }

    fn scale(&self, factor: f64) -> Self {
        Self {
            quadratic: self.quadratic.scale(factor),
            linear: self.linear.scale(factor),
            constant: self.constant.scale(factor),
            remainder: self.remainder.scale(factor),
            remainder_slope: self.remainder_slope.scale(factor),
        }
    }
}

/// A function on an interval of the line that can be enclosed over cells.
pub trait Curve {
    /// Where the function lives; outside it is `-∞`.
    fn domain(&self) -> Interval {
        Interval::REAL_LINE
    }

    /// Value at `x`.
    fn value(&self, x: f64) -> f64;

    /// Value, slope and half the curvature at `x` as plain numbers; NaN where unknown.
    fn jet(&self, x: f64) -> Jet<f64, 3>;

    /// Encloses value, slope and half the curvature over a bounded cell.
    fn enclose(&self, cell: Range) -> Jet<Range, 3>;

    /// Encloses the Taylor coefficients over a bounded cell to high order, where the curve has
    /// them.
    fn series(&self, _cell: Range) -> Option<Jet<Range, SERIES_ORDER>> {
        None
    }

    /// Behavior at the infinite end beyond `from`; `None` if the curve does not know.
    fn tail(&self, _end: End, _from: f64) -> Option<Tail> {
        None
    }

    /// Parabolas `-p/2 (x - c)²` that are summands of the curve, as `(p, c)`.
    ///
    /// A sum of curves adds them up before it evaluates anything, because a prior and a candidate
    /// cancel far out, where each alone is huge.
    fn parabolas(&self) -> Vec<(f64, f64)> {
        Vec::new()
    }

    /// As [`Self::jet`], without the [`Self::parabolas`].
    fn rest(&self, x: f64) -> Jet<f64, 3> {
        self.jet(x)
    }

    /// As [`Self::enclose`], without the [`Self::parabolas`].
    fn enclose_rest(&self, cell: Range) -> Jet<Range, 3> {
        self.enclose(cell)
    }

    /// As [`Self::series`], without the [`Self::parabolas`].
    fn series_rest(&self, cell: Range) -> Option<Jet<Range, SERIES_ORDER>> {
        self.series(cell)
    }
}

/// The sum of parabolas, written around the center of the first: `-P/2 y² + S y + K`, `y = x - c₀`.
#[derive(Debug, Clone, Copy)]
struct Merged {
    origin: f64,
    precision: Range,
    slope: Range,
    constant: Range,
}

impl Merged {
    fn new(parabolas: &[(f64, f64)]) -> Self {
        let origin = parabolas.first().map_or(0.0, |(_, c)| *c);
        let zero = Range::point(0.0);
        let (mut slope, mut constant) = (zero, zero);
        for &(p, c) in parabolas {
            let (p, step) = (Range::point(p), Range::sum([c, -origin]));
            slope = slope + p * step;
            constant = constant - (p * step.square()).scale(0.5);
        }
        let precision = Range::sum(parabolas.iter().map(|(p, _)| *p));
        Self {
            origin,
            precision,
            slope,
            constant,
        }
    }

    /// The sum at `x`, with the coefficients turned into the kind of number of `x`.
    fn evaluate<S: Scalar>(&self, x: S, number: impl Fn(Range) -> S) -> S {
        let y = x.shift(-self.origin);
        number(self.precision) * y.square().scale(-0.5)
            + number(self.slope) * y
            + number(self.constant)
    }

    fn jet(&self, x: f64) -> Jet<f64, 3> {
        self.evaluate(Jet::variable(x), |range| Jet::constant(range.middle()))
    }

    fn enclose<const N: usize>(&self, cell: Range) -> Jet<Range, N> {
        self.evaluate(Jet::variable(cell), Jet::flat)
    }
}

/// The methods of [`Curve`] for a pointer to a curve.
macro_rules! curve_of_pointer {
    () => {
        fn domain(&self) -> Interval {
            (**self).domain()
        }
        fn value(&self, x: f64) -> f64 {
            (**self).value(x)
        }
        fn jet(&self, x: f64) -> Jet<f64, 3> {
            (**self).jet(x)
        }
        fn enclose(&self, cell: Range) -> Jet<Range, 3> {
            (**self).enclose(cell)
        }
        fn series(&self, cell: Range) -> Option<Jet<Range, SERIES_ORDER>> {
            (**self).series(cell)
        }
        fn tail(&self, end: End, from: f64) -> Option<Tail> {
            (**self).tail(end, from)
        }
        fn parabolas(&self) -> Vec<(f64, f64)> {
            (**self).parabolas()
        }
        fn rest(&self, x: f64) -> Jet<f64, 3> {
            (**self).rest(x)
        }
        fn enclose_rest(&self, cell: Range) -> Jet<Range, 3> {
            (**self).enclose_rest(cell)
        }
        fn series_rest(&self, cell: Range) -> Option<Jet<Range, SERIES_ORDER>> {
            (**self).series_rest(cell)
        }
    };
}

impl<C: Curve + ?Sized> Curve for &C {
    curve_of_pointer!();
}

impl<C: Curve + ?Sized> Curve for Box<C> {
    curve_of_pointer!();
}

/// A formula written once for every kind of number.
///
/// ```
/// use possibility::arithmetic::Scalar;
/// use possibility::curve::{Curve, Formula, Smooth};
///
/// /// `-x⁴`
/// struct Quartic;
/// impl Formula for Quartic {
///     fn evaluate<S: Scalar>(&self, x: S) -> S {
///         -x.square().square()
///     }
/// }
/// let curve = Smooth(Quartic);
/// assert_eq!(curve.value(2.0), -16.0);
/// assert_eq!(curve.jet(2.0).slope(), -32.0);
/// ```
pub trait Formula {
    /// The value at `x`, whatever kind of number `x` is.
    fn evaluate<S: Scalar>(&self, x: S) -> S;

    /// Where the formula holds, see [`Curve::domain`].
    fn holds_on(&self) -> Interval {
        Interval::REAL_LINE
    }

    /// Behavior beyond `from`, see [`Curve::tail`].
    fn far_out(&self, _end: End, _from: f64) -> Option<Tail> {
        None
    }
}

/// The methods of [`Curve`] for a type that is, or holds, a [`Formula`].
macro_rules! curve_of_formula {
    ($($field:tt)?) => {
        fn domain(&self) -> Interval {
            self$(.$field)?.holds_on()
        }
        fn value(&self, x: f64) -> f64 {
            self$(.$field)?.evaluate(x)
        }
        fn jet(&self, x: f64) -> Jet<f64, 3> {
            self$(.$field)?.evaluate(Jet::variable(x))
        }
        fn enclose(&self, cell: Range) -> Jet<Range, 3> {
            self$(.$field)?.evaluate(Jet::variable(cell))
        }
        fn series(&self, cell: Range) -> Option<Jet<Range, SERIES_ORDER>> {
            Some(self$(.$field)?.evaluate(Jet::variable(cell)))
        }
        fn tail(&self, end: End, from: f64) -> Option<Tail> {
            self$(.$field)?.far_out(end, from)
        }
    };
}

/// A [`Formula`] as a [`Curve`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Smooth<F>(pub F);

impl<F: Formula> Curve for Smooth<F> {
    curve_of_formula!(0);
}

/// `-precision/2 (x - center)²`: the log of a normal possibility function, or a quadratic penalty.
///
/// ```
/// use possibility::curve::{Curve, Parabola};
/// let prior = Parabola::new(1.0, 4.0)?;
/// assert_eq!(prior.value(2.0), -2.0);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Parabola {
    center: f64,
    precision: f64,
}

impl Parabola {
    /// The parabola with peak 0 at `center` and curvature `-precision`; precision 0 is the constant
    /// 0.
    ///
    /// # Errors
    /// `center` is not finite, or `precision` not in `[0, ∞)`.
    pub fn new(center: f64, precision: f64) -> Result<Self> {
        check_real("center", center)?;
        check_not_negative("precision", precision)?;
        Ok(Self { center, precision })
    }

    /// The peak.
    pub fn center(&self) -> f64 {
        self.center
    }

    /// Minus the curvature.
    pub fn precision(&self) -> f64 {
        self.precision
    }
}

impl Formula for Parabola {
    fn evaluate<S: Scalar>(&self, x: S) -> S {
        x.shift(-self.center).square().scale(-0.5 * self.precision)
    }

    fn far_out(&self, _end: End, _from: f64) -> Option<Tail> {
        let linear = Exact::from(self.precision).scale(self.center);
        Some(Tail::polynomial(
            -0.5 * self.precision,
            linear,
            linear.scale(-0.5 * self.center),
        ))
    }
}

impl Curve for Parabola {
    curve_of_formula!();

    fn parabolas(&self) -> Vec<(f64, f64)> {
        vec![(self.precision, self.center)]
    }
    fn rest(&self, _x: f64) -> Jet<f64, 3> {
        Jet::constant(0.0)
    }
    fn enclose_rest(&self, _cell: Range) -> Jet<Range, 3> {
        Jet::constant(0.0)
    }
    fn series_rest(&self, _cell: Range) -> Option<Jet<Range, SERIES_ORDER>> {
        Some(Jet::constant(0.0))
    }
}

/// `log σ(±x)`: the log likelihood of one Bernoulli observation with log-odds `x`. Paper: Appendix
/// E.3.
///
/// ```
/// use possibility::curve::{Curve, LogSigmoid};
/// let observed_no = LogSigmoid::new(-1.0)?;
/// assert!((observed_no.value(0.0) - 0.5f64.ln()).abs() < 1e-15);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogSigmoid {
    factor: f64,
}

impl LogSigmoid {
    /// `x ↦ log σ(factor · x)`, the factor being label times covariate.
    ///
    /// # Errors
    /// `factor` is not finite.
    pub fn new(factor: f64) -> Result<Self> {
        check_real("factor", factor)?;
        Ok(Self { factor })
    }
}

impl Formula for LogSigmoid {
    fn evaluate<S: Scalar>(&self, x: S) -> S {
        -x.scale(-self.factor).softplus()
    }

    fn far_out(&self, end: End, from: f64) -> Option<Tail> {
        if self.factor == 0.0 {
            return Some(Tail::polynomial(0.0, 0.0, -std::f64::consts::LN_2));
        }
        // beyond `from` the argument |factor x| is at least `reach` where it has the sign of the
        // end
        let rises = self.factor * end.sign() > 0.0;
        let reach = if from * end.sign() > 0.0 {
            (self.factor * from).abs()
        } else {
            return None;
        };
        let rest = Range::point(-reach).softplus().upper;
        let slope = (Range::point(-reach).sigmoid() * Range::point(self.factor.abs())).upper;
        // toward the rising end the value is -softplus(-|z|); toward the other it is z -
        // softplus(-|z|)
        let linear = if rises { 0.0 } else { self.factor };
        let remainder = Range::new(-rest, 0.0);
        let toward = end.sign();
        let remainder_slope = if toward > 0.0 {
            Range::new(0.0, slope)
        } else {
            Range::new(-slope, 0.0)
        };
        Some(Tail {
            remainder,
            remainder_slope,
            ..Tail::polynomial(0.0, linear, 0.0)
        })
    }
}

impl Curve for LogSigmoid {
    curve_of_formula!();
}

/// A closure with a Lipschitz constant on a bounded interval: `|f(x) - f(y)| ≤ L |x - y|`.
///
/// The search converges slowly on such a curve (its cost grows like the inverse tolerance where the
/// function is flat), because nothing is known about its slope.
///
/// ```
/// use possibility::curve::{Curve, Lipschitz};
/// use possibility::set::Interval;
/// let tent = Lipschitz::new(|x: f64| -x.abs(), 1.0, Interval::closed(-2.0, 2.0)?)?;
/// assert_eq!(tent.value(-1.5), -1.5);
/// assert_eq!(tent.value(3.0), f64::NEG_INFINITY);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Lipschitz<F> {
    function: F,
    constant: f64,
    domain: Interval,
}

impl<F: Fn(f64) -> f64> Lipschitz<F> {
    /// Wraps `function`, whose Lipschitz constant on `domain` is at most `constant`.
    ///
    /// # Errors
    /// `constant` is not in `[0, ∞)`, or the domain is unbounded.
    pub fn new(function: F, constant: f64, domain: Interval) -> Result<Self> {
        check_not_negative("Lipschitz constant", constant)?;
        check(
            "domain width",
            domain.width(),
            "a bounded interval",
            f64::is_finite,
        )?;
        Ok(Self {
            function,
            constant,
            domain,
        })
    }
}

impl<F: Fn(f64) -> f64> Curve for Lipschitz<F> {
    fn domain(&self) -> Interval {
        self.domain
    }

    fn value(&self, x: f64) -> f64 {
        if self.domain.contains(x) {
            (self.function)(x)
        } else {
            f64::NEG_INFINITY
        }
    }

    fn jet(&self, x: f64) -> Jet<f64, 3> {
        Jet {
            coefficients: [self.value(x), f64::NAN, f64::NAN],
        }
    }

    fn enclose(&self, cell: Range) -> Jet<Range, 3> {
        let middle = self.domain.clamp(cell.middle());
        let radius = (cell.upper - middle).max(middle - cell.lower).next_up();
        let value = Range::around((self.function)(middle), (self.constant * radius).next_up());
        let slope = Range::new(-self.constant, self.constant);
        Jet {
            coefficients: [value, slope, Range::ALL],
        }
    }
}

/// The part of [`Curve`] that a sum has whatever the number of its terms: `rest` plus the merged
/// parabolas.
macro_rules! sum_of_rest_and_parabolas {
    () => {
        fn domain(&self) -> Interval {
            self.domain
        }
        fn value(&self, x: f64) -> f64 {
            if self.domain.contains(x) {
                self.jet(x).value()
            } else {
                f64::NEG_INFINITY
            }
        }
        fn jet(&self, x: f64) -> Jet<f64, 3> {
            self.rest(x) + self.merged.jet(x)
        }
        fn enclose(&self, cell: Range) -> Jet<Range, 3> {
            self.enclose_rest(cell) + self.merged.enclose(cell)
        }
        fn series(&self, cell: Range) -> Option<Jet<Range, SERIES_ORDER>> {
            Some(self.series_rest(cell)? + self.merged.enclose(cell))
        }
    };
}

/// The sum of curves, on the common part of their domains.
pub struct Sum<'a> {
    parts: Vec<Box<dyn Curve + 'a>>,
    domain: Interval,
    merged: Merged,
}

impl std::fmt::Debug for Sum<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sum")
            .field("parts", &self.parts.len())
            .field("domain", &self.domain)
            .finish()
    }
}

impl<'a> Sum<'a> {
    /// Adds the parts; no part is the constant 0.
    ///
    /// # Errors
    /// The domains have no common point.
    pub fn new(parts: Vec<Box<dyn Curve + 'a>>) -> Result<Self> {
        let mut domain = Interval::REAL_LINE;
        for part in &parts {
            domain = domain.intersection(&part.domain()).ok_or(Error::Empty {
                name: "common domain of the curves",
            })?;
        }
        let parabolas: Vec<(f64, f64)> = parts.iter().flat_map(|part| part.parabolas()).collect();
        Ok(Self {
            parts,
            domain,
            merged: Merged::new(&parabolas),
        })
    }
}

impl Curve for Sum<'_> {
    sum_of_rest_and_parabolas!();

    fn tail(&self, end: End, from: f64) -> Option<Tail> {
        self.parts
            .iter()
            .try_fold(Tail::polynomial(0.0, 0.0, 0.0), |sum, part| {
                Some(sum.combine(&part.tail(end, from)?))
            })
    }
    fn parabolas(&self) -> Vec<(f64, f64)> {
        self.parts
            .iter()
            .flat_map(|part| part.parabolas())
            .collect()
    }
    fn rest(&self, x: f64) -> Jet<f64, 3> {
        self.parts
            .iter()
            .fold(Jet::constant(0.0), |sum, part| sum + part.rest(x))
    }
    fn enclose_rest(&self, cell: Range) -> Jet<Range, 3> {
        self.parts.iter().fold(Jet::constant(0.0), |sum, part| {
            sum + part.enclose_rest(cell)
        })
    }
    fn series_rest(&self, cell: Range) -> Option<Jet<Range, SERIES_ORDER>> {
        self.parts.iter().try_fold(Jet::constant(0.0), |sum, part| {
            Some(sum + part.series_rest(cell)?)
        })
    }
}

/// The sum of two curves, on the common part of their domains; keeps the types, so that it can be
/// owned.
#[derive(Debug, Clone, Copy)]
pub struct Plus<A, B> {
    first: A,
    second: B,
    domain: Interval,
    merged: Merged,
}

impl<A: Curve, B: Curve> Plus<A, B> {
    /// `first + second`.
    ///
    /// # Errors
    /// The domains have no common point.
    pub fn new(first: A, second: B) -> Result<Self> {
        let domain = first
            .domain()
            .intersection(&second.domain())
            .ok_or(Error::Empty {
                name: "common domain of the curves",
            })?;
        let merged = Merged::new(&[first.parabolas(), second.parabolas()].concat());
        Ok(Self {
            first,
            second,
            domain,
            merged,
        })
    }

    /// The first summand.
    pub fn first(&self) -> &A {
        &self.first
    }

    /// The second summand.
    pub fn second(&self) -> &B {
        &self.second
    }
}

impl<A: Curve, B: Curve> Curve for Plus<A, B> {
    sum_of_rest_and_parabolas!();

    fn tail(&self, end: End, from: f64) -> Option<Tail> {
        Some(
            self.first
                .tail(end, from)?
                .combine(&self.second.tail(end, from)?),
        )
    }
    fn parabolas(&self) -> Vec<(f64, f64)> {
        [self.first.parabolas(), self.second.parabolas()].concat()
    }
    fn rest(&self, x: f64) -> Jet<f64, 3> {
        self.first.rest(x) + self.second.rest(x)
    }
    fn enclose_rest(&self, cell: Range) -> Jet<Range, 3> {
        self.first.enclose_rest(cell) + self.second.enclose_rest(cell)
    }
    fn series_rest(&self, cell: Range) -> Option<Jet<Range, SERIES_ORDER>> {
        Some(self.first.series_rest(cell)? + self.second.series_rest(cell)?)
    }
}

/// `factor · curve + offset`, with any sign of the factor; factor `-1` turns an infimum into a
/// supremum.
#[derive(Debug, Clone, Copy)]
pub struct Scaled<C> {
    curve: C,
    factor: f64,
    offset: f64,
}

impl<C: Curve> Scaled<C> {
    /// `factor · curve + offset`.
    ///
    /// # Errors
    /// `factor` or `offset` is not finite.
    pub fn new(curve: C, factor: f64, offset: f64) -> Result<Self> {
        check_real("factor", factor)?;
        check_real("offset", offset)?;
        Ok(Self {
            curve,
            factor,
            offset,
        })
    }

    /// `-curve`.
    pub fn negative(curve: C) -> Self {
        Self {
            curve,
            factor: -1.0,
            offset: 0.0,
        }
    }

    /// `curve + offset`.
    pub(crate) fn shifted(curve: C, offset: f64) -> Self {
        Self {
            curve,
            factor: 1.0,
            offset,
        }
    }
}

impl<C: Curve> Scaled<C> {
    /// Whether the parabolas of the curve keep their exact coefficients.
    fn keeps_parabolas(&self) -> bool {
        self.factor.abs() == 1.0
    }
}

impl<C: Curve> Curve for Scaled<C> {
    fn domain(&self) -> Interval {
        self.curve.domain()
    }
    fn value(&self, x: f64) -> f64 {
        self.factor * self.curve.value(x) + self.offset
    }
    fn jet(&self, x: f64) -> Jet<f64, 3> {
        self.curve.jet(x).scale(self.factor).shift(self.offset)
    }
    fn enclose(&self, cell: Range) -> Jet<Range, 3> {
        self.curve
            .enclose(cell)
            .scale(self.factor)
            .shift(self.offset)
    }
    fn series(&self, cell: Range) -> Option<Jet<Range, SERIES_ORDER>> {
        Some(
            self.curve
                .series(cell)?
                .scale(self.factor)
                .shift(self.offset),
        )
    }
    fn tail(&self, end: End, from: f64) -> Option<Tail> {
        let mut tail = self.curve.tail(end, from)?.scale(self.factor);
        tail.constant = tail.constant + self.offset.into();
        Some(tail)
    }
    fn parabolas(&self) -> Vec<(f64, f64)> {
        if !self.keeps_parabolas() {
            return Vec::new();
        }
        self.curve
            .parabolas()
            .into_iter()
            .map(|(p, c)| (self.factor * p, c))
            .collect()
    }
    fn rest(&self, x: f64) -> Jet<f64, 3> {
        if !self.keeps_parabolas() {
            return self.jet(x);
        }
        self.curve.rest(x).scale(self.factor).shift(self.offset)
    }
    fn enclose_rest(&self, cell: Range) -> Jet<Range, 3> {
        if !self.keeps_parabolas() {
            return self.enclose(cell);
        }
        self.curve
            .enclose_rest(cell)
            .scale(self.factor)
            .shift(self.offset)
    }
    fn series_rest(&self, cell: Range) -> Option<Jet<Range, SERIES_ORDER>> {
        if !self.keeps_parabolas() {
            return self.series(cell);
        }
        Some(
            self.curve
                .series_rest(cell)?
                .scale(self.factor)
                .shift(self.offset),
        )
    }
}

/// A curve restricted to an interval, for example a prior with bounded support.
#[derive(Debug, Clone, Copy)]
pub struct Restricted<C> {
    curve: C,
    domain: Interval,
}

impl<C: Curve> Restricted<C> {
    /// `curve` on `domain`, `-∞` elsewhere.
    ///
    /// # Errors
    /// The domain has no point in common with the curve's own.
    pub fn new(curve: C, domain: Interval) -> Result<Self> {
        let domain = domain.intersection(&curve.domain()).ok_or(Error::Empty {
            name: "restricted domain of the curve",
        })?;
        Ok(Self { curve, domain })
    }
}

impl<C: Curve> Curve for Restricted<C> {
    fn domain(&self) -> Interval {
        self.domain
    }
    fn value(&self, x: f64) -> f64 {
        if self.domain.contains(x) {
            self.curve.value(x)
        } else {
            f64::NEG_INFINITY
        }
    }
    fn jet(&self, x: f64) -> Jet<f64, 3> {
        self.curve.jet(x)
    }
    fn enclose(&self, cell: Range) -> Jet<Range, 3> {
        self.curve.enclose(cell)
    }
    fn series(&self, cell: Range) -> Option<Jet<Range, SERIES_ORDER>> {
        self.curve.series(cell)
    }
    fn tail(&self, end: End, from: f64) -> Option<Tail> {
        self.curve.tail(end, from)
    }
    fn parabolas(&self) -> Vec<(f64, f64)> {
        self.curve.parabolas()
    }
    fn rest(&self, x: f64) -> Jet<f64, 3> {
        self.curve.rest(x)
    }
    fn enclose_rest(&self, cell: Range) -> Jet<Range, 3> {
        self.curve.enclose_rest(cell)
    }
    fn series_rest(&self, cell: Range) -> Option<Jet<Range, SERIES_ORDER>> {
        self.curve.series_rest(cell)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tails_enclose_values_and_slopes(
            factor in prop::sample::select(vec![-2.5, -1.0, -0.3, 0.0, 0.7, 1.0, 3.0]),
            from in 0.1..30.0f64, beyond in 0.0..100.0f64, left in any::<bool>(),
            center in -3.0..3.0f64, precision in 0.0..4.0f64,
        ) {
            let end = if left { End::Left } else { End::Right };
            let (from, x) = (end.sign() * from, end.sign() * (from + beyond));
            let sum = Sum::new(vec![
                Box::new(LogSigmoid::new(factor).unwrap()),
                Box::new(Scaled::new(Parabola::new(center, precision).unwrap(), -0.5, 0.25).unwrap()),
            ]).unwrap();
            let tail = sum.tail(end, from).unwrap();
            let [a, b, c] =
                [tail.quadratic, tail.linear, tail.constant].map(|part| part.enclose().middle());
            let rest = sum.value(x) - (a * x * x + b * x + c);
            let slack = 1e-12 * (1.0 + x * x * (1.0 + precision));
            prop_assert!(tail.remainder.lower - slack <= rest && rest <= tail.remainder.upper + slack);
            let slope = tail.slope(end, from);
            let exact = sum.jet(x).slope();
            prop_assert!(slope.lower - slack <= exact && exact <= slope.upper + slack);
        }

        #[test]
        fn lipschitz_cells_contain_the_function(a in -2.0..2.0f64, w in 0.0..1.0f64, s in 0.0..1.0f64) {
            let domain = Interval::closed(-2.0, 3.0).unwrap();
            let curve = Lipschitz::new(|x: f64| (2.0 * x).sin() - x.abs(), 3.0, domain).unwrap();
            let value = curve.enclose(Range::new(a, a + w)).value();
            prop_assert!(value.contains(curve.value(a + s * w)));
        }
    }

    #[test]
    fn parabolas_that_cancel_leave_no_rounding_behind() {
        let prior = Parabola::new(0.3, 1.7).unwrap();
        let candidate = Parabola::new(0.3, 1.7).unwrap();
        let sum = Plus::new(
            Plus::new(LogSigmoid::new(0.5).unwrap(), prior).unwrap(),
            Scaled::negative(candidate),
        )
        .unwrap();
        for x in [1e3, 1e8, -1e8] {
            let value = sum.enclose(Range::point(x)).value();
            let alone = LogSigmoid::new(0.5).unwrap().value(x);
            assert!(
                value.contains(alone) && value.width() <= 1e-13 * (1.0 + alone.abs()),
                "{value:?}"
            );
            assert_eq!(sum.value(x), alone);
        }
    }

    #[test]
    fn a_tail_with_constant_polynomial_has_a_limit() {
        // log σ(x) - x... at the left end log σ(x) = x - softplus(x), so the sum tends to 0
        let sum = Sum::new(vec![
            Box::new(LogSigmoid::new(1.0).unwrap()),
            Box::new(Scaled::new(LogSigmoid::new(1.0).unwrap(), -1.0, 0.5).unwrap()),
        ])
        .unwrap();
        let limit = sum.tail(End::Left, -50.0).unwrap().limit().unwrap();
        assert!(limit.contains(0.5) && limit.width() < 1e-20 + 1e-15);
        assert!(
            LogSigmoid::new(1.0)
                .unwrap()
                .tail(End::Right, -1.0)
                .is_none()
        );
    }

    #[test]
    fn a_tail_claims_no_limit_that_rounding_made() {
        // 0.1 + 0.2 is 0.30000000000000004 in f64, and less as a number
        let sum = |factors: [f64; 3]| {
            let parts = factors.map(|f| -> Box<dyn Curve> {
                let curve = LogSigmoid::new(f.abs()).unwrap();
                Box::new(Scaled::new(curve, f.signum(), 0.0).unwrap())
            });
            Sum::new(parts.into()).unwrap()
        };
        for factors in [
            [0.1, 0.2, -0.30000000000000004],
            [-0.30000000000000004, 0.1, 0.2],
            [0.1, -0.30000000000000004, 0.2],
        ] {
            let tail = sum(factors).tail(End::Left, -1e4).unwrap();
            assert!(tail.limit().is_none(), "{factors:?}");
            // the slope is that of the sum of the three numbers, -2^-55
            let slope = tail.linear.enclose();
            assert_eq!(slope, Range::point(-f64::powi(2.0, -55)), "{factors:?}");
        }
        assert!(
            sum([0.25, 0.5, -0.75])
                .tail(End::Left, -1e4)
                .unwrap()
                .limit()
                .is_some()
        );
        // nested, and with products of precision and center
        let prior = Parabola::new(0.1, 3.0).unwrap();
        let candidate = Parabola::new(0.30000000000000004, 1.0).unwrap();
        let wide = Parabola::new(0.0, 2.0).unwrap();
        let difference = Plus::new(
            Plus::new(prior, Scaled::negative(candidate)).unwrap(),
            Scaled::negative(wide),
        )
        .unwrap();
        let tail = difference.tail(End::Right, 10.0).unwrap();
        assert!(tail.quadratic.is_zero() && !tail.linear.is_zero() && tail.limit().is_none());
    }

    #[test]
    fn parameters_are_checked() {
        assert!(Parabola::new(f64::NAN, 1.0).is_err());
        assert!(Parabola::new(0.0, -1.0).is_err());
        assert!(LogSigmoid::new(f64::INFINITY).is_err());
        let half_line = Interval::at_least(0.0).unwrap();
        assert!(Lipschitz::new(|x: f64| x, 1.0, half_line).is_err());
        let disjoint = Restricted::new(Parabola::new(0.0, 1.0).unwrap(), half_line).unwrap();
        assert!(Restricted::new(disjoint, Interval::below(-1.0).unwrap()).is_err());
    }
}
