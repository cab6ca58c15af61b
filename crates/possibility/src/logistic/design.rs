//! The data of a logistic regression: rows `xᵢ ∈ ℝᵈ`, labels `yᵢ ∈ {0, 1}`, weights `cᵢ ≥ 0` (1
//! unless given).
//!
//! The matrix is held once, in blocks of [`BLOCK_ROWS`] rows. Inside a block the columns lie one
//! after another, so that each kernel reads long contiguous runs; a block never moves, so that
//! growing the design never copies it.

use crate::error::{Error, Result, check, check_finite, check_size};

/// Rows of a block: a few columns fit the first-level cache, a whole block the second-level one,
/// and the sums at the end of a block are rare beside the products inside it.
pub(super) const BLOCK_ROWS: usize = 512;

/// Numbers in a cache line; columns start on a line.
const LINE: usize = 8;

/// Up to [`BLOCK_ROWS`] rows, column after column, each column padded with zeros to [`BLOCK_ROWS`].
#[derive(Debug)]
struct Block {
    values: Box<[f64]>,
    /// Where the first column starts: the first cache line of the allocation.
    start: usize,
}

impl Block {
    fn new(columns: usize) -> Self {
        let values = vec![0.0; columns * BLOCK_ROWS + LINE - 1].into_boxed_slice();
        // an allocation that cannot say where its lines are is used from its beginning
        let start = values.as_ptr().align_offset(LINE * size_of::<f64>());
        Self {
            start: if start < LINE { start } else { 0 },
            values,
        }
    }

    fn columns(&self) -> &[f64] {
        let end = self.values.len() - (LINE - 1);
        &self.values[self.start..end + self.start]
    }

    fn set(&mut self, row: usize, column: usize, value: f64) {
        self.values[self.start + column * BLOCK_ROWS + row] = value;
    }
}

/// Rows, labels and weights of a logistic regression, filled row by row.
///
/// A million rows of fifty columns take 0.4 GB, once. Columns are counted with the intercept,
/// which, where there is one, is column 0.
///
/// ```
/// use possibility::logistic::Design;
/// let mut design = Design::with_intercept(2);
/// design.push(&[0.5, -1.0], true)?;
/// design.push(&[2.0, 0.25], false)?;
/// assert_eq!((design.rows(), design.columns()), (2, 3));
/// assert_eq!(design.row(1), vec![1.0, 2.0, 0.25]);
/// assert!(design.push(&[f64::NAN, 0.0], true).is_err());
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug)]
pub struct Design {
    covariates: usize,
    intercept: bool,
    blocks: Vec<Block>,
    labels: Vec<u8>,
    /// Empty while every weight is 1.
    weights: Vec<f64>,
}

impl Design {
    /// A design without intercept and, so far, without rows.
    ///
    /// # Errors
    /// There is no covariate.
    pub fn new(covariates: usize) -> Result<Self> {
        if covariates == 0 {
            return Err(Error::Empty {
                name: "list of covariates",
            });
        }
        Ok(Self::empty(covariates, false))
    }

    /// A design whose column 0 is the constant 1; it may have no covariate at all.
    pub fn with_intercept(covariates: usize) -> Self {
        Self::empty(covariates, true)
    }

    fn empty(covariates: usize, intercept: bool) -> Self {
        Self {
            covariates,
            intercept,
            blocks: Vec::new(),
            labels: Vec::new(),
            weights: Vec::new(),
        }
    }

    /// Adds an observation of weight 1.
    ///
    /// # Errors
    /// The number of covariates is wrong or one is not finite; the design is then as before.
    pub fn push(&mut self, covariates: &[f64], label: bool) -> Result<()> {
        self.push_weighted(covariates, label, 1.0)
    }

    /// Adds an observation that counts `weight` times: its loss is multiplied by `weight`.
    ///
    /// # Errors
    /// The number of covariates is wrong, one is not finite, or the weight is not in `[0, ∞)`; the
    /// design is then as before.
    pub fn push_weighted(&mut self, covariates: &[f64], label: bool, weight: f64) -> Result<()> {
        check_size("row of covariates", covariates.len(), self.covariates)?;
        check_finite("row of covariates", covariates)?;
        check("row weight", weight, "[0, inf)", |w| {
            w >= 0.0 && w.is_finite()
        })?;
        let row = self.rows() % BLOCK_ROWS;
        let columns = self.columns();
        if row == 0 {
            self.blocks.push(Block::new(columns));
        }
        let block = self
            .blocks
            .last_mut()
            .expect("a design with a started block has a block");
        let first = usize::from(self.intercept);
        if self.intercept {
            block.set(row, 0, 1.0);
        }
        for (column, &value) in covariates.iter().enumerate() {
            block.set(row, first + column, value);
        }
        if self.weights.is_empty() && weight != 1.0 {
            self.weights = vec![1.0; self.labels.len()];
        }
        if !self.weights.is_empty() || weight != 1.0 {
            self.weights.push(weight);
        }
        self.labels.push(u8::from(label));
        Ok(())
    }

    /// Number of observations.
    pub fn rows(&self) -> usize {
        self.labels.len()
    }

    /// Number of coefficients `d`: covariates and, where there is one, the intercept.
    pub fn columns(&self) -> usize {
        self.covariates + usize::from(self.intercept)
    }

    /// Number of covariates, the intercept not counted.
    pub fn covariates(&self) -> usize {
        self.covariates
    }

    /// Whether column 0 is the constant 1.
    pub fn has_intercept(&self) -> bool {
        self.intercept
    }

    /// Row `i` with its intercept.
    ///
    /// # Panics
    /// `i` is not below [`Self::rows`].
    pub fn row(&self, i: usize) -> Vec<f64> {
        assert!(i < self.rows(), "row {i} of {} rows", self.rows());
        let block = self.block(i / BLOCK_ROWS);
        (0..self.columns())
            .map(|column| block.values[column * BLOCK_ROWS + i % BLOCK_ROWS])
            .collect()
    }

    /// Label `yᵢ`.
    ///
    /// # Panics
    /// `i` is not below [`Self::rows`].
    pub fn label(&self, i: usize) -> bool {
        self.labels[i] == 1
    }

    /// Weight `cᵢ`.
    ///
    /// # Panics
    /// `i` is not below [`Self::rows`].
    pub fn weight(&self, i: usize) -> f64 {
        assert!(i < self.rows(), "row {i} of {} rows", self.rows());
        self.weights.get(i).copied().unwrap_or(1.0)
    }

    /// The regressor row of a new observation: its covariates, after the constant 1 where there is
    /// one.
    ///
    /// # Errors
    /// The number of covariates is wrong or one is not finite.
    pub fn regressors(&self, covariates: &[f64]) -> Result<Vec<f64>> {
        check_size("row of covariates", covariates.len(), self.covariates)?;
        check_finite("row of covariates", covariates)?;
        let mut row = Vec::with_capacity(self.columns());
        if self.intercept {
            row.push(1.0);
        }
        row.extend_from_slice(covariates);
        Ok(row)
    }

    /// Number of blocks.
    pub(super) fn block_count(&self) -> usize {
        self.blocks.len()
    }

    /// Block `b` with the labels and weights of its rows.
    pub(super) fn block(&self, b: usize) -> BlockView<'_> {
        let rows = b * BLOCK_ROWS..self.rows().min((b + 1) * BLOCK_ROWS);
        BlockView {
            values: self.blocks[b].columns(),
            labels: &self.labels[rows.clone()],
            weights: if self.weights.is_empty() {
                None
            } else {
                Some(&self.weights[rows])
            },
        }
    }
}

/// A block as the kernels see it.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockView<'a> {
    /// `[columns, BLOCK_ROWS]`, zero beyond the rows of the block.
    pub values: &'a [f64],
    /// One per row; their number is the number of rows.
    pub labels: &'a [u8],
    /// One per row, or all 1.
    pub weights: Option<&'a [f64]>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_pushed_across_blocks() {
        let mut design = Design::new(3).unwrap();
        let rows = 2 * BLOCK_ROWS + 5;
        for i in 0..rows {
            let x = i as f64;
            design
                .push(&[x, -x, x * x], i % 3 == 0)
                .expect("finite rows are accepted");
        }
        assert_eq!((design.rows(), design.block_count()), (rows, 3));
        for i in [0, 1, BLOCK_ROWS - 1, BLOCK_ROWS, rows - 1] {
            let x = i as f64;
            assert_eq!(design.row(i), vec![x, -x, x * x]);
            assert_eq!(design.label(i), i % 3 == 0);
            assert_eq!(design.weight(i), 1.0);
        }
        assert_eq!(design.block(2).labels.len(), 5);
        assert!(design.block(0).weights.is_none());
    }

    #[test]
    fn weights_appear_with_the_first_that_is_not_one() {
        let mut design = Design::with_intercept(0);
        design.push(&[], true).unwrap();
        design.push_weighted(&[], false, 2.5).unwrap();
        design.push(&[], true).unwrap();
        assert_eq!(
            (0..3).map(|i| design.weight(i)).collect::<Vec<_>>(),
            vec![1.0, 2.5, 1.0]
        );
        assert_eq!(design.row(2), vec![1.0]);
    }

    #[test]
    fn refuses_what_is_not_a_row_and_stays_as_it_was() {
        let mut design = Design::with_intercept(2);
        design.push(&[1.0, 2.0], true).unwrap();
        assert_eq!(
            design.push(&[1.0], true),
            Err(Error::Dimension {
                name: "row of covariates",
                found: 1,
                expected: 2
            })
        );
        assert!(design.push(&[1.0, f64::INFINITY], true).is_err());
        assert!(design.push_weighted(&[1.0, 2.0], true, -1.0).is_err());
        assert!(design.push_weighted(&[1.0, 2.0], true, f64::NAN).is_err());
        assert!(design.regressors(&[f64::NAN, 2.0]).is_err());
        assert_eq!(design.rows(), 1);
        assert_eq!(design.regressors(&[3.0, 4.0]), Ok(vec![1.0, 3.0, 4.0]));
        assert!(Design::new(0).is_err());
    }
}
