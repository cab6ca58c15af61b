//! Numbers of twice the precision: the unevaluated sum of two `f64`, the second at most half an ulp
//! of the first. An operation here is good to a few [`UNIT`]; nothing is said of overflow, and
//! products below 1e-290 lose their second half.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// `2⁻¹⁰⁶`: the rounding of a sum or a product is at most 8 times as much, relative to it.
pub(crate) const UNIT: f64 = 0.25 * f64::EPSILON * f64::EPSILON;

/// `high + low`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Double {
    high: f64,
    low: f64,
}

impl Double {
    /// The sum of two numbers, exactly.
    pub(crate) fn sum(a: f64, b: f64) -> Self {
        let high = a + b;
        let part = high - a;
        Self {
            high,
            low: (a - (high - part)) + (b - part),
        }
    }

    /// The product of two numbers, exactly.
    pub(crate) fn product(a: f64, b: f64) -> Self {
        let high = a * b;
        Self {
            high,
            low: a.mul_add(b, -high),
        }
    }

    /// The nearest `f64`.
    pub(crate) fn round(self) -> f64 {
        self.high
    }

    /// Both halves.
    pub(crate) fn parts(self) -> (f64, f64) {
        (self.high, self.low)
    }

    /// The square root of a number that is not negative.
    pub(crate) fn sqrt(self) -> Self {
        let root = self.high.sqrt();
        if root == 0.0 {
            return Self::default();
        }
        // one step of Newton's method
        let left = self - Self::product(root, root);
        Self::sum(root, left.high / (2.0 * root))
    }

    /// `Σ aᵢbᵢ`.
    pub(crate) fn dot(pairs: impl IntoIterator<Item = (Self, Self)>) -> Self {
        let terms = pairs.into_iter().map(|(a, b)| a * b);
        terms.fold(Self::default(), |sum, term| sum + term)
    }
}

/// `xᵀy`, rounded once.
pub(crate) fn exact_dot(x: &[f64], y: &[f64]) -> f64 {
    let terms = x.iter().zip(y).map(|(&a, &b)| Double::product(a, b));
    terms
        .fold(Double::default(), |sum, term| sum + term)
        .round()
}

impl From<f64> for Double {
    fn from(high: f64) -> Self {
        Self { high, low: 0.0 }
    }
}

impl Add for Double {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let high = Self::sum(self.high, other.high);
        let low = Self::sum(self.low, other.low);
        let first = Self::sum(high.high, high.low + low.high);
        Self::sum(first.high, first.low + low.low)
    }
}

impl Neg for Double {
    type Output = Self;

    fn neg(self) -> Self {
        Self {
            high: -self.high,
            low: -self.low,
        }
    }
}

impl Sub for Double {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl Mul for Double {
    type Output = Self;

    fn mul(self, other: Self) -> Self {
        let product = Self::product(self.high, other.high);
        let cross = self.high.mul_add(other.low, self.low * other.high);
        Self::sum(product.high, product.low + cross)
    }
}

impl Div for Double {
    type Output = Self;

    fn div(self, other: Self) -> Self {
        let first = self.high / other.high;
        let left = self - other * first.into();
        let second = left.high / other.high;
        let left = left - other * second.into();
        Self::sum(first, second) + (left.high / other.high).into()
    }
}

/// `L` with `M = LLᵀ`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Cholesky {
    size: usize,
    /// Row after row, zero above the diagonal.
    entries: Vec<Double>,
}

impl Cholesky {
    /// Of a symmetric matrix with this lower triangle; `None` if a pivot is not positive.
    pub(crate) fn new(size: usize, matrix: impl Fn(usize, usize) -> Double) -> Option<Self> {
        let mut entries = vec![Double::default(); size * size];
        for i in 0..size {
            for j in 0..=i {
                let row = |k: usize| entries[k * size..k * size + j].iter().copied();
                let left = matrix(i, j) - Double::dot(row(i).zip(row(j)));
                entries[i * size + j] = if i > j {
                    left / entries[j * size + j]
                } else if left.high > 0.0 {
                    left.sqrt()
                } else {
                    return None;
                };
            }
        }
        Some(Self { size, entries })
    }

    /// Number of rows.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// An entry of `L`.
    pub(crate) fn entry(&self, i: usize, j: usize) -> Double {
        self.entries[i * self.size + j]
    }

    /// The same entry, to be changed.
    pub(crate) fn entry_mut(&mut self, i: usize, j: usize) -> &mut Double {
        &mut self.entries[i * self.size + j]
    }

    /// `x ← L⁻¹x`.
    pub(crate) fn solve_lower(&self, x: &mut [Double]) {
        for i in 0..self.size {
            let row = &self.entries[i * self.size..];
            let known = Double::dot(row[..i].iter().copied().zip(x[..i].iter().copied()));
            x[i] = (x[i] - known) / row[i];
        }
    }

    /// `x ← L⁻ᵀx`.
    pub(crate) fn solve_upper(&self, x: &mut [Double]) {
        for i in (0..self.size).rev() {
            let column = (i + 1..self.size).map(|k| self.entry(k, i));
            let known = Double::dot(column.zip(x[i + 1..].iter().copied()));
            x[i] = (x[i] - known) / self.entry(i, i);
        }
    }

    /// Column `j` of `M⁻¹`.
    pub(crate) fn inverse_column(&self, j: usize) -> Vec<Double> {
        let mut column = vec![Double::default(); self.size];
        column[j] = 1.0.into();
        self.solve_lower(&mut column);
        self.solve_upper(&mut column);
        column
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A number whose two halves both count.
    fn number() -> impl Strategy<Value = Double> {
        (-1e3..1e3f64, -1.0..1.0f64).prop_map(|(a, b)| Double::sum(a, 1e-17 * a * b))
    }

    #[test]
    fn by_hand() {
        let third = Double::from(1.0) / Double::from(3.0);
        // 1/3 = 0x1.5555555555555p-2 + 0x1.5555555555555p-56 + …
        let high = 1.0 / 3.0;
        assert_eq!(
            third,
            Double {
                high,
                low: high * 2f64.powi(-54)
            }
        );
        // (1 + 2⁻³⁰)² = 1 + 2⁻²⁹ + 2⁻⁶⁰
        let square = Double::product(1.0 + 2f64.powi(-30), 1.0 + 2f64.powi(-30));
        assert_eq!(
            square - (1.0 + 2f64.powi(-29)).into(),
            2f64.powi(-60).into()
        );
        assert_eq!(square.sqrt(), (1.0 + 2f64.powi(-30)).into());
        let sum = Double::from(1e16) + Double::from(1.0) - Double::from(1e16);
        assert_eq!(sum.round(), 1.0);
        assert_eq!(Double::default().sqrt(), Double::default());
    }

    proptest! {
        #[test]
        fn operations_undo_each_other(a in number(), b in number()) {
            let size = a.round().abs() + b.round().abs();
            prop_assert!((a + b - b - a).round().abs() <= 16.0 * UNIT * size);
            prop_assume!(b.round().abs() > 1e-3);
            prop_assert!((a / b * b - a).round().abs() <= 32.0 * UNIT * a.round().abs());
            let square = a * a;
            prop_assert!((square.sqrt() * square.sqrt() - square).round().abs()
                <= 32.0 * UNIT * square.round());
        }
    }
}
