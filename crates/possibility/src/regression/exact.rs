//! The posterior of a normal response in twice the precision: `A = XᵀCX + φΔ = LLᵀ`, the mode
//! `m = A⁻¹(XᵀCy + φΔm₀)` and `S`, the least sum of squares with the prior's part.
//!
//! **What rounding does.** Computed in this way they are those of `G + E` in place of
//! `G = (X, y)ᵀC(X, y)` with the prior, where `abs(Eⱼₖ) ≤ γ√(gⱼⱼgₖₖ)`; columns and responses far
//! from 0 are shifted before, where a free constant term makes up for it. Since
//! `abs(vⱼ) ≤ √(A⁻¹)ⱼⱼ ‖v‖` in the norm of `A`, with `T = Σ √(aⱼⱼ(A⁻¹)ⱼⱼ)` and
//! `B = Σ abs(mⱼ)√aⱼⱼ + √gᵧᵧ`
//!
//! - a variance `aᵀA⁻¹a` is off by at most `ε = γT²` of itself, to first order;
//! - the mode of `aᵀw` by `γTB √(aᵀA⁻¹a)`;
//! - `S` by `γB²`.
//!
//! `T` is the number of columns for independent ones, and grows with their condition number: a
//! matrix with `ε` beyond [`DEPENDENT`] says nothing and is refused.

use faer::Mat;

use super::gram::Gram;
use crate::double::{Cholesky, Double, UNIT};
use crate::error::{Error, Result};
use crate::linear::{inverse, smallest_eigenvalue, solve_lower_matrix};
use crate::normal::Normal;

/// Relative error of a variance at which columns count as dependent.
const DEPENDENT: f64 = 1e-3;

/// The last bits of a number: a column that is a combination of others but for them depends on
/// them, and responses that are fitted but for them are fitted exactly.
const LAST_BITS: f64 = 2.0 * f64::EPSILON;

/// Up to so many columns the inverse is computed in twice the precision as well.
const SMALL: usize = 64;

/// Sums of squares in this range neither overflow nor lose their second half.
const SQUARES: std::ops::RangeInclusive<f64> = 1e-240..=1e300;

/// `L` of a positive definite matrix.
#[derive(Debug, Clone)]
pub(super) struct Triangle {
    factor: Cholesky,
    /// Diagonal of the matrix of shifted columns.
    diagonal: Vec<f64>,
    /// `T`.
    spread: f64,
    /// `γ`.
    rounding: f64,
    /// `ε`.
    variance_error: f64,
}

impl Triangle {
    /// Factors the part of the sums without the response, for columns that are not shifted.
    ///
    /// # Errors
    /// Sums that left the range of `f64`, or columns that depend on each other.
    pub(super) fn new(gram: &Gram) -> Result<Self> {
        Self::of_shifted(gram)?.without_shifts(gram)
    }

    fn of_shifted(gram: &Gram) -> Result<Self> {
        let columns = gram.size - 1;
        let entry = |i: usize, j: usize| gram.sums[i * gram.size + j];
        let diagonal: Vec<f64> = (0..columns).map(|j| entry(j, j).round()).collect();
        for (column, squares) in diagonal.iter().enumerate() {
            if *squares != 0.0 && !SQUARES.contains(squares) {
                return Err(Error::ColumnScale {
                    column: Some(column),
                });
            }
        }
        let factor = Cholesky::new(columns, entry).ok_or_else(|| dependent(gram))?;
        let mut found = Self {
            factor,
            diagonal,
            spread: f64::INFINITY,
            rounding: gram.rounding,
            variance_error: f64::INFINITY,
        };
        found.rounding += found.of_solving();
        found.spread = found.spreads(&found.diagonal).iter().sum();
        let error = found.rounding * found.spread * found.spread;
        found.variance_error = error / (1.0 - error).max(0.0);
        // not a number counts as dependent as well
        if found.variance_error < DEPENDENT {
            Ok(found)
        } else {
            Err(dependent(gram))
        }
    }

    /// The factor for columns that are not shifted: the constant term takes part in each of them.
    fn without_shifts(mut self, gram: &Gram) -> Result<Self> {
        for i in 1..self.factor.size() {
            let shift = Double::from(gram.shifts[i]) * self.factor.entry(0, 0);
            let entry = self.factor.entry_mut(i, 0);
            *entry = *entry + shift;
        }
        let spreads = self.spreads(&self.whole_diagonal(gram));
        if spreads.iter().any(|spread| spread * LAST_BITS > 1.0) {
            return Err(dependent(gram));
        }
        // what solving loses with it
        self.variance_error += 2.0 * self.of_solving() * spreads.iter().sum::<f64>();
        Ok(self)
    }

    /// The diagonal of the matrix of columns that are not shifted.
    fn whole_diagonal(&self, gram: &Gram) -> Vec<f64> {
        let constant = self.diagonal[0];
        let parts = self.diagonal.iter().zip(&gram.shifts);
        parts
            .map(|(a, shift)| (a.sqrt() + shift.abs() * constant.sqrt()).powi(2))
            .collect()
    }

    /// Relative rounding of solving with the factor.
    fn of_solving(&self) -> f64 {
        8.0 * (self.factor.size() + 3) as f64 * UNIT
    }

    /// `√(aⱼⱼ(A⁻¹)ⱼⱼ)` for these `aⱼⱼ`, rounded: they bound errors.
    fn spreads(&self, diagonal: &[f64]) -> Vec<f64> {
        let d = diagonal.len();
        let factor = self.rounded_factor(1.0.into());
        let root = solve_lower_matrix(factor.as_ref(), Mat::<f64>::identity(d, d).as_ref());
        let squares = root.col_iter().map(|column| column.squared_norm_l2());
        squares.zip(diagonal).map(|(s, a)| (s * a).sqrt()).collect()
    }

    /// `L` over `scale`.
    fn rounded_factor(&self, scale: Double) -> Mat<f64> {
        let d = self.factor.size();
        Mat::from_fn(d, d, |i, j| (self.factor.entry(i, j) / scale).round())
    }

    /// `aᵀA⁻¹a`.
    pub(super) fn variance(&self, form: &[f64]) -> f64 {
        let mut root: Vec<Double> = form.iter().map(|&a| a.into()).collect();
        self.factor.solve_lower(&mut root);
        Double::dot(root.iter().copied().zip(root.iter().copied())).round()
    }

    /// The normal with precision `A/φ`.
    pub(super) fn normal(&self, mode: Vec<f64>, dispersion: f64) -> Result<Normal> {
        let (d, scale) = (self.factor.size(), Double::from(dispersion).sqrt());
        let entry = |i: usize, j: usize| self.factor.entry(i, j) / scale;
        let rows: Vec<Vec<Double>> = (0..d)
            .map(|i| (0..=i).map(|j| entry(i, j)).collect())
            .collect();
        let precision = Mat::from_fn(d, d, |i, j| {
            let pairs = rows[i].iter().zip(&rows[j]);
            Double::dot(pairs.map(|(&a, &b)| (a, b))).round()
        });
        let factor = self.rounded_factor(scale);
        let covariance = if d <= SMALL {
            let columns: Vec<_> = (0..d).map(|j| self.factor.inverse_column(j)).collect();
            Mat::from_fn(d, d, |i, j| {
                (columns[i.min(j)][i.max(j)] * dispersion.into()).round()
            })
        } else {
            inverse(factor.as_ref())
        };
        Normal::from_factored(mode, precision, factor, covariance)
    }
}

/// Columns that depend on each other.
fn dependent(gram: &Gram) -> Error {
    let columns = gram.size - 1;
    let matrix = Mat::from_fn(columns, columns, |i, j| {
        gram.sums[i.max(j) * gram.size + i.min(j)].round()
    });
    Error::NotPositiveDefinite {
        name: "Hessian of the regularized loss",
        smallest: smallest_eigenvalue(matrix.as_ref()),
    }
}

/// Mode and least sum of squares.
#[derive(Debug, Clone)]
pub(super) struct LeastSquares {
    triangle: Triangle,
    mode: Vec<Double>,
    /// What the entries of the mode were rounded beside.
    sizes: Vec<f64>,
    /// `S`.
    pub squares: f64,
    /// `S` is off by at most this.
    pub squares_error: f64,
    /// `S` up to this is 0 but for the last bits of the numbers it is computed from.
    pub negligible: f64,
    /// `γTB`.
    mode_error: f64,
}

/// A linear form under the posterior.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExactForm {
    /// `aᵀm`.
    pub mode: Double,
    /// The mode is off by at most this many standard deviations.
    pub mode_error: f64,
    /// `φaᵀA⁻¹a`.
    pub variance: f64,
    /// Its relative error, at most, with that of `φ` where that is estimated.
    pub variance_error: f64,
}

impl LeastSquares {
    /// From the sums with the prior's part.
    ///
    /// # Errors
    /// As [`Triangle::new`], or responses that left the range of `f64`.
    pub(super) fn new(gram: &Gram) -> Result<Self> {
        let triangle = Triangle::of_shifted(gram)?;
        let columns = triangle.factor.size();
        let last = columns * gram.size;
        let total = gram.sums[last + columns];
        if total.round() != 0.0 && !SQUARES.contains(&total.round()) {
            return Err(Error::ColumnScale { column: None });
        }
        let mut mode = gram.sums[last..last + columns].to_vec();
        triangle.factor.solve_lower(&mut mode);
        let fitted = Double::dot(mode.iter().copied().zip(mode.iter().copied()));
        let squares = (total - fitted).round().max(0.0);
        triangle.factor.solve_upper(&mut mode);
        let sizes = mode.iter().zip(&triangle.diagonal);
        let size: f64 = sizes.map(|(m, a)| m.round().abs() * a.sqrt()).sum();
        let size = size + total.round().sqrt();
        let (squares_error, mode_error) = (
            triangle.rounding * size * size,
            triangle.rounding * triangle.spread * size,
        );
        let whole = triangle.whole_diagonal(gram);
        let triangle = triangle.without_shifts(gram)?;
        // back from shifted columns and responses
        let mut sizes: Vec<f64> = mode.iter().map(|m| m.round().abs()).collect();
        let (shifts, shift) = gram.shifts.split_at(columns);
        for j in 1..columns {
            let part = mode[j] * shifts[j].into();
            mode[0] = mode[0] - part;
            sizes[0] += part.round().abs();
        }
        mode[0] = mode[0] + shift[0].into();
        sizes[0] += shift[0].abs();
        let parts = mode.iter().zip(&whole);
        let size: f64 = parts.map(|(m, a)| m.round().abs() * a.sqrt()).sum();
        let response = total.round().sqrt() + shift[0].abs() * whole[0].sqrt();
        Ok(Self {
            negligible: 4.0 * squares_error + (LAST_BITS * (size + response)).powi(2),
            squares,
            squares_error,
            mode_error,
            mode,
            sizes,
            triangle,
        })
    }

    pub(super) fn triangle(&self) -> &Triangle {
        &self.triangle
    }

    /// `m`.
    pub(super) fn mode(&self) -> Vec<f64> {
        self.mode.iter().map(|m| m.round()).collect()
    }

    /// The mode is off by at most this many standard deviations, in the worst direction.
    pub(super) fn mode_error(&self, dispersion: f64) -> f64 {
        self.mode_error / dispersion.sqrt()
    }

    /// `aᵀm`.
    pub(super) fn form_mode(&self, form: &[f64]) -> Double {
        let pairs = form.iter().zip(&self.mode);
        Double::dot(pairs.map(|(&a, &m)| (a.into(), m)))
    }

    /// A linear form, given `φ` and its relative error.
    pub(super) fn form(&self, form: &[f64], dispersion: f64, error: f64) -> ExactForm {
        let mode = self.form_mode(form);
        let sizes = form.iter().zip(&self.sizes);
        let size: f64 = sizes.map(|(a, size)| a.abs() * size).sum();
        let variance = dispersion * self.triangle.variance(form);
        let rounding = 8.0 * (form.len() + 2) as f64 * UNIT * size / variance.sqrt();
        ExactForm {
            mode,
            mode_error: self.mode_error(dispersion) + rounding,
            variance,
            variance_error: self.triangle.variance_error + error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::gram::gram;
    use super::super::{Design, Response};
    use super::*;

    /// `y` against powers of `x`.
    fn powers(degree: i32, points: &[(f64, f64)]) -> Result<LeastSquares> {
        let mut design = Design::with_intercept(Response::Normal, degree as usize);
        for &(x, y) in points {
            let row: Vec<f64> = (1..=degree).map(|k| x.powi(k)).collect();
            design.push(&row, y).unwrap();
        }
        LeastSquares::new(&gram(&design, None, true, 1))
    }

    #[test]
    fn a_line_by_hand() {
        // y = 1 + 2x + (1, -2, 1)/6: residuals, and Σ(x - x̄)² = 2
        let points = [(1e9, 1.5), (1e9 + 1.0, 3.0), (1e9 + 2.0, 5.5)];
        let line = powers(1, &points).unwrap();
        assert_eq!(line.mode()[1], 2.0);
        assert!((line.squares - 1.0 / 6.0).abs() < 1e-12);
        assert!(line.squares_error < 1e-9, "{}", line.squares_error);
        let slope = line.form(&[0.0, 1.0], 1.0, 0.0);
        assert!((slope.variance - 0.5).abs() < 1e-15 && slope.variance_error < 1e-9);
        let middle = line.form(&[1.0, 1e9 + 1.0], 1.0, 0.0);
        assert!((middle.variance - 1.0 / 3.0).abs() < 1e-15);
        assert!((middle.mode.round() - 10.0 / 3.0).abs() < 1e-14);
    }

    #[test]
    fn dependent_columns_are_refused() {
        let mut design = Design::with_intercept(Response::Normal, 2);
        for x in [0.1, 0.4, 0.7, 1.3] {
            // equal but for the rounding of the last digit
            design.push(&[x, x + 1e9], x * x).unwrap();
        }
        let refused = LeastSquares::new(&gram(&design, None, true, 1));
        assert!(matches!(refused, Err(Error::NotPositiveDefinite { .. })));
    }

    #[test]
    fn numbers_whose_squares_overflow_are_named() {
        for (x, y, column) in [
            (1e200, 1.0, Some(1)),
            (1e-200, 1.0, Some(1)),
            (1.0, 1e200, None),
        ] {
            let mut design = Design::with_intercept(Response::Normal, 1);
            design.push(&[x], y).unwrap();
            design.push(&[2.0 * x], 3.0 * y).unwrap();
            design.push(&[-3.0 * x], y).unwrap();
            let refused = LeastSquares::new(&gram(&design, None, true, 1));
            match refused {
                Err(Error::ColumnScale { column: found, .. }) => assert_eq!(found, column),
                other => panic!("{other:?}"),
            }
        }
    }
}
