//! Numbers that carry a guarantee: ranges with outward rounding, and truncated Taylor series.
//!
//! A formula written once for every [`Scalar`] can be evaluated at a point (`f64`), over a whole
//! interval ([`Range`], which contains every value the formula takes there) and together with its
//! derivatives over the interval (`Jet<Range, N>`). That is what the certified searches of
//! [`crate::search`] run on. Every range operation is rounded outward, so that the guarantee
//! survives floating-point arithmetic as long as the platform's `exp`, `ln`, `sin` and `cos` are
//! good to two units in the last place.

use std::ops::{Add, Div, Mul, Neg, Sub};

use crate::numeric;

/// Units in the last place by which results of library functions are widened.
const LIBRARY_ULPS: u32 = 2;

/// The same for the sigmoid and the softplus, which take two library functions and a few
/// operations.
const COMPOSITE_ULPS: u32 = 8;

/// A number a formula can be evaluated on.
pub trait Scalar:
    Copy
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
{
    /// The constant `x`.
    fn constant(x: f64) -> Self;
    /// `e^x`.
    fn exp(self) -> Self;
    /// Natural logarithm.
    fn ln(self) -> Self;
    /// Square root.
    fn sqrt(self) -> Self;
    /// `(sin x, cos x)`.
    fn sin_cos(self) -> (Self, Self);
    /// `1 / (1 + e^-x)`.
    fn sigmoid(self) -> Self;
    /// `σ(x)(1 - σ(x))`, the slope of the sigmoid.
    fn sigmoid_slope(self) -> Self;
    /// `log(1 + e^x)`.
    fn softplus(self) -> Self;
    /// `x²`, tighter than `x * x` on ranges.
    fn square(self) -> Self;
    /// `sin x`.
    fn sin(self) -> Self {
        self.sin_cos().0
    }
    /// `cos x`.
    fn cos(self) -> Self {
        self.sin_cos().1
    }
    /// `c · x` for a plain number `c`.
    fn scale(self, c: f64) -> Self {
        Self::constant(c) * self
    }
    /// `x + c` for a plain number `c`.
    fn shift(self, c: f64) -> Self {
        self + Self::constant(c)
    }
}

impl Scalar for f64 {
    fn constant(x: f64) -> Self {
        x
    }
    fn exp(self) -> Self {
        self.exp()
    }
    fn ln(self) -> Self {
        self.ln()
    }
    fn sqrt(self) -> Self {
        self.sqrt()
    }
    fn sin_cos(self) -> (Self, Self) {
        self.sin_cos()
    }
    fn sigmoid(self) -> Self {
        numeric::sigmoid(self)
    }
    fn sigmoid_slope(self) -> Self {
        // σ(x)σ(-x) keeps the small factor accurate where 1 - σ would cancel
        numeric::sigmoid(self) * numeric::sigmoid(-self)
    }
    fn softplus(self) -> Self {
        numeric::softplus(self)
    }
    fn square(self) -> Self {
        self * self
    }
}

/// The closed set of numbers from `lower` to `upper`; arithmetic on it contains every possible
/// result.
///
/// ```
/// use possibility::arithmetic::{Range, Scalar};
/// let x = Range::new(-1.0, 2.0);
/// let y = x.square();
/// assert!(y.lower <= 0.0 && y.upper >= 4.0 && y.upper < 4.0 + 1e-12);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// Smallest member.
    pub lower: f64,
    /// Largest member.
    pub upper: f64,
}

fn down(x: f64) -> f64 {
    x.next_down()
}

fn up(x: f64) -> f64 {
    x.next_up()
}

fn down_library(x: f64) -> f64 {
    (0..LIBRARY_ULPS).fold(x, |y, _| y.next_down())
}

fn up_library(x: f64) -> f64 {
    (0..LIBRARY_ULPS).fold(x, |y, _| y.next_up())
}

fn down_composite(x: f64) -> f64 {
    (0..COMPOSITE_ULPS).fold(x, |y, _| y.next_down())
}

fn up_composite(x: f64) -> f64 {
    (0..COMPOSITE_ULPS).fold(x, |y, _| y.next_up())
}

impl Range {
    /// Every number.
    pub const ALL: Self = Self {
        lower: f64::NEG_INFINITY,
        upper: f64::INFINITY,
    };

    /// `[lower, upper]`; all numbers if an end is NaN or the ends are reversed.
    pub fn new(lower: f64, upper: f64) -> Self {
        if lower <= upper {
            Self { lower, upper }
        } else {
            Self::ALL
        }
    }

    /// The single number `x`.
    pub fn point(x: f64) -> Self {
        Self::new(x, x)
    }

    /// `[center - radius, center + radius]`, rounded outward.
    pub fn around(center: f64, radius: f64) -> Self {
        Self::new(down(center - radius), up(center + radius))
    }

    /// Encloses a sum of plain numbers; a single number where the sum is exact.
    ///
    /// Rounding errors are recovered exactly (Knuth's two-sum), so that terms that cancel leave
    /// nothing behind.
    pub fn sum(terms: impl IntoIterator<Item = f64>) -> Self {
        let mut total = 0.0f64;
        let mut errors = Self::point(0.0);
        for term in terms {
            let (next, error) = two_sum(total, term);
            if error != 0.0 {
                errors = errors + Self::point(error);
            }
            total = next;
        }
        if errors == Self::point(0.0) {
            Self::point(total)
        } else {
            Self::point(total) + errors
        }
    }

    /// Largest minus smallest member.
    pub fn width(&self) -> f64 {
        self.upper - self.lower
    }

    /// A member near the middle.
    pub fn middle(&self) -> f64 {
        let middle = 0.5 * self.lower + 0.5 * self.upper;
        middle.clamp(self.lower, self.upper)
    }

    /// Whether `x` is a member.
    pub fn contains(&self, x: f64) -> bool {
        self.lower <= x && x <= self.upper
    }

    /// The smallest range that holds both.
    pub fn hull(&self, other: &Self) -> Self {
        Self {
            lower: self.lower.min(other.lower),
            upper: self.upper.max(other.upper),
        }
    }

    /// The common members of two enclosures of the same quantity.
    pub fn meet(&self, other: &Self) -> Self {
        Self::new(self.lower.max(other.lower), self.upper.min(other.upper))
    }

    /// Image under an increasing function made of several library functions.
    fn increasing(self, f: impl Fn(f64) -> f64) -> Self {
        Self::new(down_composite(f(self.lower)), up_composite(f(self.upper)))
    }
}

/// `a + b` rounded, and the rounding error, exactly (Knuth).
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let back = sum - a;
    (sum, (a - (sum - back)) + (b - back))
}

/// Below this a product may lose the end of its rounding error to underflow.
const SMALLEST_EXACT_PRODUCT: f64 = 1e-280;

/// How many `f64` an [`Exact`] keeps.
const PARTS: usize = 8;

/// A number as a sum of `f64` that do not overlap (Shewchuk's expansions) and what they leave over:
/// sums and products of few `f64` lose nothing, so that it is known whether they are zero. A number
/// whose first and last bit are at most 7 · 53 places apart is kept whole, however it came about.
///
/// ```
/// use possibility::arithmetic::Exact;
/// let sum = Exact::from(0.1) + Exact::from(0.2) - Exact::from(0.1 + 0.2);
/// assert_eq!(0.1 + 0.2 - (0.1 + 0.2), 0.0); // rounding hides it
/// assert!(!sum.is_zero() && sum.enclose().upper < -2e-17);
/// assert!((Exact::from(0.1).scale(3.0) - Exact::from(0.3)).enclose().lower > 2e-17);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exact {
    /// From the smallest to the largest.
    parts: [f64; PARTS],
    rest: Range,
}

impl Exact {
    /// Zero.
    pub const ZERO: Self = Self {
        parts: [0.0; PARTS],
        rest: Range {
            lower: 0.0,
            upper: 0.0,
        },
    };

    /// Whether the number is 0 for sure.
    pub fn is_zero(&self) -> bool {
        *self == Self::ZERO
    }

    /// Encloses the number; a single `f64` where it is one.
    pub fn enclose(&self) -> Range {
        let sum = Range::sum(self.parts.into_iter().rev());
        if self.rest == Self::ZERO.rest {
            sum
        } else {
            sum + self.rest
        }
    }

    /// The number times a plain one.
    #[must_use]
    pub fn scale(&self, factor: f64) -> Self {
        let mut scaled = Self::ZERO;
        if self.rest != scaled.rest {
            scaled.leave(self.rest.scale(factor));
        }
        for part in self.parts.into_iter().filter(|part| *part != 0.0) {
            let product = part * factor;
            scaled.put(part.mul_add(factor, -product));
            scaled.put(product);
            if factor != 0.0 && product.abs() < SMALLEST_EXACT_PRODUCT {
                scaled.leave(Range::around(0.0, f64::MIN_POSITIVE));
            }
        }
        scaled
    }

    /// Adds a number to the parts.
    fn put(&mut self, term: f64) {
        let (mut parts, mut count, mut carry) = ([0.0; PARTS + 1], 0, term);
        for part in self.parts {
            let (sum, error) = two_sum(carry, part);
            if error != 0.0 {
                parts[count] = error;
                count += 1;
            }
            carry = sum;
        }
        parts[count] = carry;
        if count == PARTS {
            parts = compress(parts);
            if parts[PARTS] != 0.0 {
                self.leave(Range::point(parts[0]));
                parts.rotate_left(1);
            }
        }
        self.parts.copy_from_slice(&parts[..PARTS]);
    }

    fn leave(&mut self, more: Range) {
        self.rest = self.rest + more;
    }
}

/// The same number in as few parts as hold its bits: each keeps 53 of them, where sums leave parts
/// of a few bits behind.
fn compress(parts: [f64; PARTS + 1]) -> [f64; PARTS + 1] {
    // from the largest down, what rounds to one part
    let (mut rounded, mut bottom) = ([0.0; PARTS + 1], PARTS);
    let mut carry = parts[PARTS];
    for part in parts[..PARTS].iter().rev() {
        let (sum, error) = two_sum(carry, *part);
        carry = sum;
        if error != 0.0 {
            rounded[bottom] = sum;
            bottom -= 1;
            carry = error;
        }
    }
    // from the smallest up, what rounding left overlapping
    let (mut compressed, mut count) = ([0.0; PARTS + 1], 0);
    for part in &rounded[bottom + 1..] {
        let (sum, error) = two_sum(*part, carry);
        if error != 0.0 {
            compressed[count] = error;
            count += 1;
        }
        carry = sum;
    }
    compressed[count] = carry;
    compressed
}

impl From<f64> for Exact {
    fn from(x: f64) -> Self {
        let mut exact = Self::ZERO;
        exact.parts[0] = x;
        exact
    }
}

impl Add for Exact {
    type Output = Self;
    fn add(mut self, other: Self) -> Self {
        for part in other.parts.into_iter().filter(|part| *part != 0.0) {
            self.put(part);
        }
        if other.rest != Self::ZERO.rest {
            self.leave(other.rest);
        }
        self
    }
}

impl Neg for Exact {
    type Output = Self;
    fn neg(self) -> Self {
        Self {
            parts: self.parts.map(|part| 0.0 - part),
            rest: -self.rest,
        }
    }
}

impl Sub for Exact {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Add for Range {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::new(down(self.lower + other.lower), up(self.upper + other.upper))
    }
}

impl Sub for Range {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self::new(down(self.lower - other.upper), up(self.upper - other.lower))
    }
}

impl Neg for Range {
    type Output = Self;
    fn neg(self) -> Self {
        Self {
            lower: -self.upper,
            upper: -self.lower,
        }
    }
}

/// `a · b` with `0 · ∞ = 0`: the limit over the members of a range.
fn limit_product(a: f64, b: f64) -> f64 {
    if a == 0.0 || b == 0.0 { 0.0 } else { a * b }
}

impl Mul for Range {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let zero = Self {
            lower: 0.0,
            upper: 0.0,
        };
        if self == zero || other == zero {
            return zero;
        }
        let products = [
            limit_product(self.lower, other.lower),
            limit_product(self.lower, other.upper),
            limit_product(self.upper, other.lower),
            limit_product(self.upper, other.upper),
        ];
        let lower = products.iter().copied().fold(f64::INFINITY, f64::min);
        let upper = products.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        // signs stay what they are, but a product that underflows is no zero
        let not_positive = |range: &Self| range.upper <= 0.0;
        let not_negative = |range: &Self| range.lower >= 0.0;
        let stays_up = (not_negative(&self) && not_negative(&other))
            || (not_positive(&self) && not_positive(&other));
        let stays_down = (not_negative(&self) && not_positive(&other))
            || (not_positive(&self) && not_negative(&other));
        let lower = if lower == 0.0 && stays_up {
            0.0
        } else {
            down(lower)
        };
        let upper = if upper == 0.0 && stays_down {
            0.0
        } else {
            up(upper)
        };
        Self::new(lower, upper)
    }
}

impl Div for Range {
    type Output = Self;
    #[allow(clippy::suspicious_arithmetic_impl)]
    fn div(self, other: Self) -> Self {
        if other.lower > 0.0 || other.upper < 0.0 {
            let inverse = Self::new(down(1.0 / other.upper), up(1.0 / other.lower));
            self * inverse
        } else {
            Self::ALL
        }
    }
}

impl Scalar for Range {
    fn constant(x: f64) -> Self {
        Self::point(x)
    }

    fn exp(self) -> Self {
        let lower = down_library(self.lower.exp()).max(0.0);
        Self::new(lower, up_library(self.upper.exp()))
    }

    fn ln(self) -> Self {
        if self.upper <= 0.0 {
            return Self::ALL;
        }
        let lower = if self.lower > 0.0 {
            down_library(self.lower.ln())
        } else {
            f64::NEG_INFINITY
        };
        Self::new(lower, up_library(self.upper.ln()))
    }

    fn sqrt(self) -> Self {
        if self.upper < 0.0 {
            return Self::ALL;
        }
        let image = Self::new(down(self.lower.max(0.0).sqrt()), up(self.upper.sqrt()));
        Self::new(image.lower.max(0.0), image.upper)
    }

    fn sin_cos(self) -> (Self, Self) {
        use std::f64::consts::{FRAC_PI_2, PI};
        (
            wave(self, f64::sin, FRAC_PI_2, -FRAC_PI_2),
            wave(self, f64::cos, 0.0, PI),
        )
    }

    fn sigmoid(self) -> Self {
        let image = self.increasing(numeric::sigmoid);
        Self::new(image.lower.max(0.0), image.upper.min(1.0))
    }

    fn sigmoid_slope(self) -> Self {
        // even and decreasing in |x|
        let nearest = if self.contains(0.0) {
            0.0
        } else {
            self.lower.abs().min(self.upper.abs())
        };
        let farthest = self.lower.abs().max(self.upper.abs());
        // two sigmoids and a product
        let lower = down_composite(down_composite(farthest.sigmoid_slope())).max(0.0);
        Self::new(lower, up_composite(up_composite(nearest.sigmoid_slope())))
    }

    fn softplus(self) -> Self {
        let image = self.increasing(numeric::softplus);
        Self::new(image.lower.max(0.0), image.upper)
    }

    fn square(self) -> Self {
        let nearest = if self.contains(0.0) {
            0.0
        } else {
            self.lower.abs().min(self.upper.abs())
        };
        let farthest = self.lower.abs().max(self.upper.abs());
        Self::new(down(nearest * nearest).max(0.0), up(farthest * farthest))
    }
}

/// The sine or cosine of a range: extremes at its ends or at the tops and bottoms inside, of which
/// one each is given.
fn wave(x: Range, f: impl Fn(f64) -> f64, top: f64, bottom: f64) -> Range {
    use std::f64::consts::TAU;
    /// Beyond this the argument reduction of the check below is not trusted.
    const LARGEST_ARGUMENT: f64 = 1e6;
    let full = Range {
        lower: -1.0,
        upper: 1.0,
    };
    let reach = x.lower.abs().max(x.upper.abs());
    if x.width() >= TAU || reach > LARGEST_ARGUMENT {
        return full;
    }
    // widen, so that an extremum at the very end is counted
    let slack = 1e-9;
    let holds = |phase: f64| {
        let first = ((x.lower - slack - phase) / TAU).ceil();
        phase + first * TAU <= x.upper + slack
    };
    let (a, b) = (f(x.lower), f(x.upper));
    let lower = if holds(bottom) {
        -1.0
    } else {
        down_library(a.min(b)).max(-1.0)
    };
    let upper = if holds(top) {
        1.0
    } else {
        up_library(a.max(b)).min(1.0)
    };
    Range::new(lower, upper)
}

/// A truncated Taylor series: `coefficients[k] = f⁽ᵏ⁾ / k!`, for `k < N`.
///
/// Over a [`Range`] argument the coefficient `k` encloses `f⁽ᵏ⁾(x) / k!` for every `x` of the
/// range.
///
/// ```
/// use possibility::arithmetic::{Jet, Scalar};
/// let jet = Jet::<f64, 3>::variable(0.0).exp();
/// assert_eq!(jet.coefficients, [1.0, 1.0, 0.5]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Jet<T, const N: usize> {
    /// Taylor coefficients, lowest order first.
    pub coefficients: [T; N],
}

impl<T: Scalar, const N: usize> Jet<T, N> {
    /// The variable at `x`: value `x`, slope 1.
    pub fn variable(x: T) -> Self {
        let mut jet = Self::flat(x);
        if N > 1 {
            jet.coefficients[1] = T::constant(1.0);
        }
        jet
    }

    /// A constant.
    pub fn flat(x: T) -> Self {
        let mut coefficients = [T::constant(0.0); N];
        coefficients[0] = x;
        Self { coefficients }
    }

    /// `f`.
    pub fn value(&self) -> T {
        self.coefficients[0]
    }

    /// `f'`.
    pub fn slope(&self) -> T {
        self.coefficients[1]
    }

    /// `f''`.
    pub fn curvature(&self) -> T {
        self.coefficients[2].scale(2.0)
    }

    /// The series `y` with `y' = self' · outer`, where `outer` may use the coefficients of `y`
    /// below the one being computed; `start` is the value.
    fn integrate(&self, start: T, outer: impl Fn(&[T; N], usize) -> T) -> Self {
        let mut y = Self::flat(start);
        for k in 1..N {
            let mut sum = T::constant(0.0);
            for j in 1..=k {
                let factor = outer(&y.coefficients, k - j);
                sum = sum + (self.coefficients[j] * factor).scale(j as f64);
            }
            y.coefficients[k] = sum / T::constant(k as f64);
        }
        y
    }

    /// The Taylor series of `σ(1-σ)` composed with `self`, from the series of `σ`.
    fn sigmoid_pair(&self) -> (Self, Self) {
        let mut s = Self::flat(self.coefficients[0].sigmoid());
        let mut slope = Self::flat(self.coefficients[0].sigmoid_slope());
        for k in 1..N {
            let mut sum = T::constant(0.0);
            for j in 1..=k {
                let term = self.coefficients[j] * slope.coefficients[k - j];
                sum = sum + term.scale(j as f64);
            }
            s.coefficients[k] = sum / T::constant(k as f64);
            let mut square = T::constant(0.0);
            for j in 0..=k {
                square = square + s.coefficients[j] * s.coefficients[k - j];
            }
            slope.coefficients[k] = s.coefficients[k] - square;
        }
        (s, slope)
    }
}

impl<T: Scalar, const N: usize> Add for Jet<T, N> {
    type Output = Self;
    fn add(mut self, other: Self) -> Self {
        for (a, b) in self.coefficients.iter_mut().zip(other.coefficients) {
            *a = *a + b;
        }
        self
    }
}

impl<T: Scalar, const N: usize> Sub for Jet<T, N> {
    type Output = Self;
    fn sub(mut self, other: Self) -> Self {
        for (a, b) in self.coefficients.iter_mut().zip(other.coefficients) {
            *a = *a - b;
        }
        self
    }
}

impl<T: Scalar, const N: usize> Neg for Jet<T, N> {
    type Output = Self;
    fn neg(mut self) -> Self {
        for a in &mut self.coefficients {
            *a = -*a;
        }
        self
    }
}

impl<T: Scalar, const N: usize> Mul for Jet<T, N> {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        let mut product = Self::flat(T::constant(0.0));
        for k in 0..N {
            for j in 0..=k {
                let term = self.coefficients[j] * other.coefficients[k - j];
                product.coefficients[k] = product.coefficients[k] + term;
            }
        }
        product
    }
}

impl<T: Scalar, const N: usize> Div for Jet<T, N> {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        let mut quotient = Self::flat(T::constant(0.0));
        for k in 0..N {
            let mut rest = self.coefficients[k];
            for j in 1..=k {
                rest = rest - other.coefficients[j] * quotient.coefficients[k - j];
            }
            quotient.coefficients[k] = rest / other.coefficients[0];
        }
        quotient
    }
}

impl<T: Scalar, const N: usize> Scalar for Jet<T, N> {
    fn constant(x: f64) -> Self {
        Self::flat(T::constant(x))
    }

    fn exp(self) -> Self {
        self.integrate(self.coefficients[0].exp(), |y, k| y[k])
    }

    fn ln(self) -> Self {
        let mut y = Self::flat(self.coefficients[0].ln());
        for k in 1..N {
            let mut rest = self.coefficients[k];
            for j in 1..k {
                let term = y.coefficients[j] * self.coefficients[k - j];
                rest = rest - term.scale(j as f64) / T::constant(k as f64);
            }
            y.coefficients[k] = rest / self.coefficients[0];
        }
        y
    }

    fn sqrt(self) -> Self {
        let mut y = Self::flat(self.coefficients[0].sqrt());
        for k in 1..N {
            let mut rest = self.coefficients[k];
            for j in 1..k {
                rest = rest - y.coefficients[j] * y.coefficients[k - j];
            }
            y.coefficients[k] = rest / y.coefficients[0].scale(2.0);
        }
        y
    }

    fn sin_cos(self) -> (Self, Self) {
        let (s, c) = self.coefficients[0].sin_cos();
        let (mut sine, mut cosine) = (Self::flat(s), Self::flat(c));
        for k in 1..N {
            let (mut up, mut down) = (T::constant(0.0), T::constant(0.0));
            for j in 1..=k {
                let weight = self.coefficients[j].scale(j as f64);
                up = up + weight * cosine.coefficients[k - j];
                down = down - weight * sine.coefficients[k - j];
            }
            sine.coefficients[k] = up / T::constant(k as f64);
            cosine.coefficients[k] = down / T::constant(k as f64);
        }
        (sine, cosine)
    }

    fn sigmoid(self) -> Self {
        self.sigmoid_pair().0
    }

    fn sigmoid_slope(self) -> Self {
        self.sigmoid_pair().1
    }

    fn softplus(self) -> Self {
        let (sigmoid, _) = self.sigmoid_pair();
        let mut y = self.integrate(self.coefficients[0].softplus(), |_, k| {
            sigmoid.coefficients[k]
        });
        if N > 2 {
            // the second coefficient once more, from the tight enclosure of the sigmoid's slope
            let one = self.coefficients[1];
            let slope = self.coefficients[0].sigmoid_slope();
            y.coefficients[2] =
                (slope * one.square()).scale(0.5) + sigmoid.coefficients[0] * self.coefficients[2];
        }
        y
    }

    fn square(self) -> Self {
        let mut y = self * self;
        y.coefficients[0] = self.coefficients[0].square();
        if N > 2 {
            y.coefficients[2] = self.coefficients[1].square()
                + (self.coefficients[0] * self.coefficients[2]).scale(2.0);
        }
        y
    }

    fn scale(mut self, c: f64) -> Self {
        for a in &mut self.coefficients {
            *a = a.scale(c);
        }
        self
    }

    fn shift(mut self, c: f64) -> Self {
        self.coefficients[0] = self.coefficients[0].shift(c);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Uses every operation once, and stays finite on (-3, 3).
    fn formula<S: Scalar>(x: S) -> S {
        let wave = x.scale(1.3).sin() * x.cos();
        let root = x.square().shift(0.5).sqrt();
        let logs = (x.exp().shift(1.0)).ln() - x.scale(0.7).softplus();
        let fraction = x.sigmoid() / x.square().shift(2.0);
        wave + root * logs - fraction + x.scale(0.4).sigmoid_slope()
    }

    proptest! {
        #[test]
        fn exact_sums_cancel_in_any_order(
            terms in prop::collection::vec((-1e3..1e3f64, -40..40i32), 1..6), factor in -9.0..9.0f64,
        ) {
            let terms: Vec<Exact> = terms
                .into_iter()
                .map(|(x, shift)| Exact::from(x * f64::powi(2.0, shift)).scale(factor))
                .collect();
            let forward = terms.iter().fold(Exact::ZERO, |sum, term| sum + *term);
            let backward = terms.iter().rev().fold(Exact::ZERO, |sum, term| *term + sum);
            prop_assert!((forward - backward).is_zero());
            let tiny = f64::powi(2.0, -90);
            let off = forward + Exact::from(tiny) - backward;
            prop_assert_eq!(off.enclose(), Range::point(tiny));
        }
    }

    #[test]
    fn sums_that_leave_many_short_parts_lose_nothing() {
        // some 200 places from the first to the last bit, at times in more than eight parts
        let terms = [
            (-264.6, 3),
            (-95.7, 38),
            (63.2, -33),
            (-299.9, 25),
            (-646.2, 40),
        ];
        let terms = terms.map(|(x, shift)| Exact::from(x * f64::powi(2.0, shift)).scale(7.385));
        let forward = terms.iter().fold(Exact::ZERO, |sum, term| sum + *term);
        let backward = terms
            .iter()
            .rev()
            .fold(Exact::ZERO, |sum, term| sum + *term);
        assert!((forward - backward).is_zero(), "{forward:?} {backward:?}");
    }

    #[test]
    fn what_an_exact_number_cannot_keep_is_enclosed() {
        // one part for each power: more than there is room for
        let powers: Vec<f64> = (0..12).map(|k| f64::powi(2.0, -80 * k)).collect();
        let sum = powers
            .iter()
            .fold(Exact::ZERO, |sum, p| sum + Exact::from(*p));
        let left = powers.iter().fold(sum, |sum, p| sum - Exact::from(*p));
        assert!(!left.is_zero() && left.enclose().contains(0.0));
        assert!(left.enclose().width() < 1e-150);
        let small = Exact::from(1e-200).scale(1e-200);
        assert!(!small.is_zero() && small.enclose().contains(0.0));
        assert!(!Exact::from(f64::MAX).scale(2.0).is_zero());
        assert_eq!(Exact::from(f64::MAX).scale(2.0).enclose(), Range::ALL);
    }

    #[test]
    fn jets_agree_with_finite_differences() {
        let h = 1e-4;
        for x in [-2.3, -0.4, 0.0, 0.9, 2.7] {
            let jet = formula(Jet::<f64, 5>::variable(x));
            let f = |d: f64| formula(x + d);
            let first = (f(h) - f(-h)) / (2.0 * h);
            let second = (f(h) - 2.0 * f(0.0) + f(-h)) / (h * h);
            let wide = 1e-2;
            let fourth = (f(2.0 * wide) - 4.0 * f(wide) + 6.0 * f(0.0) - 4.0 * f(-wide)
                + f(-2.0 * wide))
                / wide.powi(4);
            assert!((jet.value() - f(0.0)).abs() < 1e-14);
            assert!((jet.slope() - first).abs() < 1e-7, "slope at {x}");
            assert!((jet.curvature() - second).abs() < 1e-6, "curvature at {x}");
            assert!(
                (24.0 * jet.coefficients[4] - fourth).abs() < 1e-2,
                "fourth at {x}"
            );
        }
    }

    #[test]
    fn the_cosine_at_a_rounded_quarter_turn_is_not_zero() {
        // 40-digit values at the doubles next to ±π/2 and 3π/2
        let quarter = std::f64::consts::FRAC_PI_2;
        for (x, expected) in [
            (quarter, 6.123_233_995_736_766e-17),
            (-quarter, 6.123_233_995_736_766e-17),
            (3.0 * quarter, -1.836_970_198_721_029_7e-16),
        ] {
            let cosine = Range::point(x).cos();
            assert!(cosine.contains(expected), "{x}: {cosine:?}");
            assert!(cosine.width() < 1e-30);
        }
        assert!(Range::new(3.0, 3.2).cos().contains(-1.0));
        assert!(Range::new(-0.1, 0.1).cos().contains(1.0));
    }

    #[test]
    fn a_product_that_underflows_is_not_taken_for_zero() {
        let tiny = Range::point(1e-200);
        let product = tiny * tiny;
        assert!(product.lower >= 0.0 && product.upper > 0.0, "{product:?}");
        let product = tiny * -tiny;
        assert!(product.lower < 0.0 && product.upper <= 0.0, "{product:?}");
        let mixed = Range::new(-3.0, 2.0);
        assert_eq!(Range::point(0.0) * mixed, Range::point(0.0));
    }

    proptest! {
        #[test]
        fn ranges_contain_every_value_and_derivative(
            a in -3.0..3.0f64, width in 0.0..1.5f64, share in 0.0..1.0f64,
        ) {
            let cell = Range::new(a, a + width);
            let x = (a + share * width).clamp(cell.lower, cell.upper);
            let enclosed = formula(Jet::<Range, 5>::variable(cell));
            let exact = formula(Jet::<f64, 5>::variable(x));
            for (range, value) in enclosed.coefficients.iter().zip(exact.coefficients) {
                // the f64 jet carries rounding errors of its own
                let slack = 1e-12 * (1.0 + value.abs());
                prop_assert!(range.lower - slack <= value && value <= range.upper + slack);
            }
        }

        #[test]
        fn products_and_quotients_contain_the_exact_result(
            a in -5.0..5.0f64, b in -5.0..5.0f64, c in 0.1..5.0f64,
        ) {
            let (x, y) = (Range::new(a.min(b), a.max(b)), Range::point(c));
            prop_assert!((x * y).contains(a * c) && (x / y).contains(b / c));
            prop_assert!((x - x).contains(0.0) && (-x).contains(-a));
        }
    }

    #[test]
    fn exact_sums_are_points() {
        assert_eq!(Range::sum([1.7, -1.7]), Range::point(0.0));
        assert_eq!(Range::sum([1.0, 2.0, 0.5]), Range::point(3.5));
        // 0.1 + 0.2 is not a number of the machine: the sum is enclosed, and tightly
        let sum = Range::sum([0.1, 0.2]);
        assert!(sum.lower < sum.upper && sum.contains(0.1 + 0.2) && sum.width() < 2e-16);
        assert_eq!(Range::sum([f64::NAN]), Range::ALL);
    }

    #[test]
    fn sine_finds_interior_extremes() {
        let s = Range::new(1.0, 2.0).sin();
        assert_eq!(s.upper, 1.0);
        assert!(s.lower <= 1f64.sin().min(2f64.sin()));
        assert_eq!(Range::new(0.0, 7.0).sin(), Range::new(-1.0, 1.0));
        let c = Range::new(3.0, 3.5).cos();
        assert_eq!(c.lower, -1.0);
    }

    #[test]
    fn undefined_operations_enclose_everything() {
        assert_eq!(Range::point(1.0) / Range::new(-1.0, 1.0), Range::ALL);
        assert_eq!(Range::new(-2.0, -1.0).ln(), Range::ALL);
        assert_eq!(Range::new(0.0, 1.0).ln().lower, f64::NEG_INFINITY);
        assert_eq!(Range::ALL - Range::ALL, Range::ALL);
    }
}
