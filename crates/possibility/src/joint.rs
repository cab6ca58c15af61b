//! Joint possibility functions `f(θ, ψ)` on a finite grid, kept as logs: independence
//! `f(θ, ψ) = f(θ)f(ψ)`, sup-marginal `f(θ) = sup_ψ f(θ, ψ)`, conditional
//! `f(ψ | θ) = f(θ, ψ) / f(θ)`. Paper: Section 2 and the appendix "More on Possibility Theory". The
//! same operations for normals are methods of [`Normal`](crate::Normal).

use crate::error::{Error, Result, check_size};
use crate::finite::{Finite, check_index};
use crate::function::{Mode, Possibility};

/// A joint possibility function of a row index `θ` and a column index `ψ`.
///
/// ```
/// use possibility::{Joint, Mode, Possibility};
/// let joint = Joint::from_values(2, 2, &[1.0, 0.5, 0.25, 0.125])?;
/// assert_eq!(joint.row_marginal().values(), vec![1.0, 0.25]);
/// assert!((joint.given_row(1)?.possibility(&1) - 0.5).abs() < 1e-15);
/// assert!(joint.is_independent(1e-15)?);
/// // E*[T(θ, ψ)] = T(E*[(θ, ψ)])
/// assert_eq!(joint.expected_value(|row, column| row + column), Mode::Point(0));
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Joint {
    rows: usize,
    columns: usize,
    /// Row by row.
    cells: Finite,
}

impl Joint {
    /// From possibilities `[rows, columns]` listed row by row, whose maximum must be exactly 1.
    ///
    /// # Errors
    /// A size that does not fit, a value outside `[0, 1]`, or [`Error::NotNormalized`].
    pub fn from_values(rows: usize, columns: usize, values: &[f64]) -> Result<Self> {
        Self::build(rows, columns, Finite::from_values(values)?)
    }

    /// From log possibilities `[rows, columns]` listed row by row, whose maximum must be exactly 0.
    ///
    /// # Errors
    /// A size that does not fit, a value outside `[-∞, 0]`, or [`Error::NotNormalized`].
    pub fn from_log_values(rows: usize, columns: usize, log_values: Vec<f64>) -> Result<Self> {
        Self::build(rows, columns, Finite::from_log_values(log_values)?)
    }

    /// `exp(log_values)` over its maximum, and the log of that maximum.
    ///
    /// # Errors
    /// A size that does not fit, NaN or `+∞`, or [`Error::Impossible`] if all are `-∞`.
    pub fn normalize_log(rows: usize, columns: usize, log_values: &[f64]) -> Result<(Self, f64)> {
        let (cells, log_supremum) = Finite::normalize_log(log_values)?;
        Ok((Self::build(rows, columns, cells)?, log_supremum))
    }

    /// The joint function `f(θ)g(ψ)` of independent variables, `θ` in rows.
    pub fn independent(row: &Finite, column: &Finite) -> Self {
        let log_values = row
            .log_values()
            .iter()
            .flat_map(|a| column.log_values().iter().map(move |b| a + b))
            .collect();
        Self {
            rows: row.size(),
            columns: column.size(),
            cells: Finite::from_log_values(log_values)
                .expect("the product of two maxima 1 is the maximum 1"),
        }
    }

    fn build(rows: usize, columns: usize, cells: Finite) -> Result<Self> {
        check_size("grid of values", cells.size(), rows.saturating_mul(columns))?;
        Ok(Self {
            rows,
            columns,
            cells,
        })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The function of the cell number `row · columns + column`, for fusion, order, events and
    /// `D_max`.
    pub fn cells(&self) -> &Finite {
        &self.cells
    }

    /// `E*[(θ, ψ)]`, the maximizing cells.
    pub fn mode(&self) -> Mode<(usize, usize)> {
        self.expected_value(|row, column| (row, column))
    }

    /// `E*[T(θ, ψ)] = T(E*[(θ, ψ)])`.
    pub fn expected_value<Q: PartialOrd>(&self, map: impl Fn(usize, usize) -> Q) -> Mode<Q> {
        self.cells
            .expected_value(|cell| map(cell / self.columns, cell % self.columns))
    }

    /// `f(θ) = sup_ψ f(θ, ψ)`.
    pub fn row_marginal(&self) -> Finite {
        self.cells
            .image(self.rows, |cell| cell / self.columns)
            .expect("every cell lies in a row")
    }

    /// `f(ψ) = sup_θ f(θ, ψ)`.
    pub fn column_marginal(&self) -> Finite {
        self.cells
            .image(self.columns, |cell| cell % self.columns)
            .expect("every cell lies in a column")
    }

    /// Conditional `f(ψ | θ = row) = f(row, ψ) / f(row)`.
    ///
    /// # Errors
    /// No such row, or [`Error::Impossible`] if it has possibility zero.
    pub fn given_row(&self, row: usize) -> Result<Finite> {
        check_index("row", row, self.rows)?;
        let logs: Vec<f64> = (0..self.columns)
            .map(|column| self.log_possibility(&(row, column)))
            .collect();
        condition(&logs, "the row conditioned on")
    }

    /// Conditional `f(θ | ψ = column) = f(θ, column) / f(column)`.
    ///
    /// # Errors
    /// No such column, or [`Error::Impossible`] if it has possibility zero.
    pub fn given_column(&self, column: usize) -> Result<Finite> {
        check_index("column", column, self.columns)?;
        let logs: Vec<f64> = (0..self.rows)
            .map(|row| self.log_possibility(&(row, column)))
            .collect();
        condition(&logs, "the column conditioned on")
    }

    /// `max |log f(θ, ψ) - log f(θ) - log f(ψ)|`: 0 exactly under independence, `+∞` if the
    /// supports differ.
    pub fn log_dependence(&self) -> f64 {
        let product = Self::independent(&self.row_marginal(), &self.column_marginal());
        self.cells
            .log_values()
            .iter()
            .zip(product.cells.log_values())
            .map(|(joint, product)| {
                if joint == product {
                    0.0 // also where both are -∞
                } else {
                    (joint - product).abs()
                }
            })
            .fold(0.0, f64::max)
    }

    /// Whether `f(θ, ψ) = f(θ)f(ψ)` everywhere, up to `tolerance` in the log.
    ///
    /// # Errors
    /// A tolerance that is negative or NaN.
    pub fn is_independent(&self, tolerance: f64) -> Result<bool> {
        crate::error::check("tolerance", tolerance, "[0, inf]", |t| t >= 0.0)?;
        Ok(self.log_dependence() <= tolerance)
    }

    /// `log sup {f(θ, ψ) : accept(θ, ψ)}`, the possibility of any event of the grid; `-∞` for an
    /// empty one.
    pub fn log_possibility_where(&self, accept: impl Fn(usize, usize) -> bool) -> f64 {
        (0..self.cells.size())
            .filter(|cell| accept(cell / self.columns, cell % self.columns))
            .map(|cell| self.cells.log_values()[cell])
            .fold(f64::NEG_INFINITY, f64::max)
    }
}

fn condition(logs: &[f64], what: &'static str) -> Result<Finite> {
    match Finite::normalize_log(logs) {
        Ok((conditional, _)) => Ok(conditional),
        Err(Error::Impossible { .. }) => Err(Error::Impossible { what }),
        Err(other) => Err(other),
    }
}

impl Possibility for Joint {
    type Point = (usize, usize);

    /// Cells outside the grid have possibility zero.
    fn log_possibility(&self, &(row, column): &(usize, usize)) -> f64 {
        if row < self.rows && column < self.columns {
            self.cells.log_values()[row * self.columns + column]
        } else {
            f64::NEG_INFINITY
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hand_values_of_a_dependent_pair() {
        // columns: dry, wet; rows: sun, rain
        let joint = Joint::from_values(2, 2, &[1.0, 0.25, 0.0, 0.5]).unwrap();
        assert_eq!(joint.row_marginal().values(), vec![1.0, 0.5]);
        assert_eq!(joint.column_marginal().values(), vec![1.0, 0.5]);
        assert_eq!(joint.given_column(1).unwrap().values(), vec![0.5, 1.0]);
        assert_eq!(joint.given_row(1).unwrap().values(), vec![0.0, 1.0]);
        assert_eq!(joint.mode(), Mode::Point((0, 0)));
        // f(1, 0) = 0 but f(1) f(0) = 0.5
        assert_eq!(joint.log_dependence(), f64::INFINITY);
        assert!(!joint.is_independent(1.0).unwrap());
        assert!(joint.is_independent(f64::NAN).is_err());
        let off_diagonal = joint.log_possibility_where(|row, column| row != column);
        assert_eq!(off_diagonal.exp(), 0.25);
        assert_eq!(joint.log_possibility_where(|_, _| false), f64::NEG_INFINITY);
        assert_eq!(joint.possibility(&(0, 2)), 0.0);
    }

    #[test]
    fn conditioning_on_the_impossible_is_an_error() {
        let joint = Joint::from_values(2, 2, &[1.0, 0.25, 0.0, 0.0]).unwrap();
        assert_eq!(
            joint.given_row(1),
            Err(Error::Impossible {
                what: "the row conditioned on"
            })
        );
        assert!(joint.given_row(2).is_err());
        assert!(joint.given_column(2).is_err());
        assert!(Joint::from_values(2, 3, &[1.0, 0.5]).is_err());
        assert!(Joint::from_values(0, 0, &[]).is_err());
    }

    fn joints() -> impl Strategy<Value = Joint> {
        (1usize..5, 1usize..5).prop_flat_map(|(rows, columns)| {
            let n = rows * columns;
            (prop::collection::vec(0u32..6, n), 0..n).prop_map(move |(mut levels, top)| {
                levels[top] = 8;
                let values: Vec<f64> = levels.iter().map(|&k| f64::from(k) / 8.0).collect();
                Joint::from_values(rows, columns, &values).unwrap()
            })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]

        #[test]
        fn marginals_are_maxima_and_conditional_times_marginal_is_joint(joint in joints()) {
            let (rows, columns) = (joint.row_marginal(), joint.column_marginal());
            for row in 0..joint.rows() {
                let best = (0..joint.columns())
                    .map(|column| joint.possibility(&(row, column)))
                    .fold(0.0, f64::max);
                prop_assert_eq!(rows.possibility(&row), best);
                match joint.given_row(row) {
                    Ok(given) => for column in 0..joint.columns() {
                        let product = given.log_possibility(&column) + rows.log_possibility(&row);
                        let want = joint.log_possibility(&(row, column));
                        prop_assert!(product == want || (product - want).abs() < 1e-14);
                    },
                    Err(_) => prop_assert_eq!(rows.possibility(&row), 0.0),
                }
            }
            for column in 0..joint.columns() {
                let best = joint.log_possibility_where(|_, c| c == column);
                prop_assert_eq!(columns.log_possibility(&column), best);
                match joint.given_column(column) {
                    Ok(given) => for row in 0..joint.rows() {
                        let product = given.log_possibility(&row) + columns.log_possibility(&column);
                        let want = joint.log_possibility(&(row, column));
                        prop_assert!(product == want || (product - want).abs() < 1e-14);
                    },
                    Err(_) => prop_assert_eq!(columns.possibility(&column), 0.0),
                }
            }
        }

        #[test]
        fn a_product_is_independent_and_has_its_factors_back(joint in joints()) {
            let (row, column) = (joint.row_marginal(), joint.column_marginal());
            let product = Joint::independent(&row, &column);
            prop_assert!(product.is_independent(0.0).unwrap());
            prop_assert_eq!(product.row_marginal(), row);
            prop_assert_eq!(product.column_marginal(), column);
            // the joint function always lies below the product of its marginals' minimum
            for (cell, log) in joint.cells().log_values().iter().enumerate() {
                let (r, c) = (cell / joint.columns(), cell % joint.columns());
                let least = joint.row_marginal().log_possibility(&r)
                    .min(joint.column_marginal().log_possibility(&c));
                prop_assert!(*log <= least);
            }
        }

        #[test]
        fn expected_value_commutes_with_any_map(joint in joints()) {
            let total = |row: usize, column: usize| 2 * row + column;
            let size = 2 * joint.rows() + joint.columns();
            let image = joint
                .cells()
                .image(size, |cell| total(cell / joint.columns(), cell % joint.columns()))
                .unwrap();
            prop_assert_eq!(joint.expected_value(total), image.mode());
        }
    }
}
