//! The data of a regression: rows `xᵢ ∈ ℝᵈ`, responses `yᵢ`, weights `cᵢ ≥ 0` (1 unless given).
//!
//! The matrix is held once, in blocks of [`BLOCK_ROWS`] rows. Inside a block the columns lie one
//! after another, so that each kernel reads long contiguous runs; a block never moves, so that
//! growing the design never copies it.

use super::response::Response;
use crate::error::{Error, Result, check, check_finite, check_not_negative, check_size};
use crate::family::special::CompensatedSum;

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

impl Clone for Block {
    fn clone(&self) -> Self {
        let columns = self.columns();
        let mut copy = Self::new(columns.len() / BLOCK_ROWS);
        // where the lines of the copy start may differ
        copy.values[copy.start..copy.start + columns.len()].copy_from_slice(columns);
        copy
    }
}

/// Rows, responses and weights of a regression, filled row by row.
///
/// A million rows of fifty columns take 0.4 GB, once. Columns are counted with the intercept,
/// which, where there is one, is column 0.
///
/// ```
/// use possibility::regression::{Design, Response};
/// let mut design = Design::with_intercept(Response::Bernoulli, 2);
/// design.push(&[0.5, -1.0], 1.0)?;
/// design.push(&[2.0, 0.25], 0.0)?;
/// assert_eq!((design.rows(), design.columns()), (2, 3));
/// assert_eq!(design.row(1), vec![1.0, 2.0, 0.25]);
/// assert!(design.push(&[f64::NAN, 0.0], 1.0).is_err());
/// assert!(design.push(&[1.0, 0.0], 0.5).is_err());
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Design {
    response: Response,
    covariates: usize,
    intercept: bool,
    blocks: Vec<Block>,
    responses: Vec<f64>,
    /// Empty while every weight is 1.
    weights: Vec<f64>,
    /// `Σ cᵢ`.
    total_weight: CompensatedSum,
    /// `Σ cᵢyᵢ`.
    total_response: CompensatedSum,
    /// `Σ cᵢ` times the size of what cancels in the loss of row `i`.
    cancelled: f64,
}

/// Mean and standard deviation of each covariate, the rows weighted.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnMoments {
    /// The means.
    pub means: Vec<f64>,
    /// The standard deviations, with the total weight as divisor.
    pub deviations: Vec<f64>,
}

impl Design {
    /// A design without intercept and, so far, without rows.
    ///
    /// # Errors
    /// There is no covariate.
    pub fn new(response: Response, covariates: usize) -> Result<Self> {
        if covariates == 0 {
            return Err(Error::Empty {
                name: "list of covariates",
            });
        }
        Ok(Self::empty(response, covariates, false))
    }

    /// A design whose column 0 is the constant 1; it may have no covariate at all.
    pub fn with_intercept(response: Response, covariates: usize) -> Self {
        Self::empty(response, covariates, true)
    }

    fn empty(response: Response, covariates: usize, intercept: bool) -> Self {
        Self {
            response,
            covariates,
            intercept,
            blocks: Vec::new(),
            responses: Vec::new(),
            weights: Vec::new(),
            total_weight: CompensatedSum::default(),
            total_response: CompensatedSum::default(),
            cancelled: 0.0,
        }
    }

    /// Adds an observation of weight 1.
    ///
    /// # Errors
    /// The number of covariates is wrong, one is not finite, or the response is none of its range;
    /// the design is then as before.
    pub fn push(&mut self, covariates: &[f64], response: f64) -> Result<()> {
        self.push_weighted(covariates, response, 1.0)
    }

    /// Adds an observation that counts `weight` times: its loss is multiplied by `weight`.
    ///
    /// # Errors
    /// The number of covariates is wrong, one is not finite, the response is none of its range, or
    /// the weight is not in `[0, ∞)`; the design is then as before.
    pub fn push_weighted(&mut self, covariates: &[f64], response: f64, weight: f64) -> Result<()> {
        check_size("row of covariates", covariates.len(), self.covariates)?;
        check_finite("row of covariates", covariates)?;
        let range = self.response.range();
        check("response", response, range, |y| self.response.accepts(y))?;
        check_not_negative("row weight", weight)?;
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
            self.weights = vec![1.0; self.responses.len()];
        }
        if !self.weights.is_empty() || weight != 1.0 {
            self.weights.push(weight);
        }
        self.responses.push(response);
        self.total_weight.add(weight);
        self.add_response(response, weight);
        Ok(())
    }

    /// Adds a response to the sums over all of them.
    fn add_response(&mut self, response: f64, weight: f64) {
        self.total_response.add(weight * response);
        self.cancelled += weight * self.response.cancelled(response);
    }

    /// Other responses in the same rows.
    ///
    /// # Panics
    /// Their number is another one, or one of them is none of its range.
    pub(super) fn set_responses(&mut self, responses: Vec<f64>) {
        assert_eq!(responses.len(), self.rows(), "one response for each row");
        assert!(responses.iter().all(|&y| self.response.accepts(y)));
        self.total_response = CompensatedSum::default();
        self.cancelled = 0.0;
        for (i, &y) in responses.iter().enumerate() {
            let weight = self.weights.get(i).copied().unwrap_or(1.0);
            self.add_response(y, weight);
        }
        self.responses = responses;
    }

    /// Number of observations.
    pub fn rows(&self) -> usize {
        self.responses.len()
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

    /// Response `yᵢ`.
    ///
    /// # Panics
    /// `i` is not below [`Self::rows`].
    pub fn observed(&self, i: usize) -> f64 {
        self.responses[i]
    }

    /// How the observations are distributed.
    pub fn response(&self) -> Response {
        self.response
    }

    /// `Σ cᵢ`, the number of observations where no weight is given.
    pub fn total_weight(&self) -> f64 {
        self.total_weight.total()
    }

    /// `Σ cᵢyᵢ / Σ cᵢ`; NaN without rows.
    pub fn mean_response(&self) -> f64 {
        self.total_response.total() / self.total_weight()
    }

    /// `Σ cᵢ log h(yᵢ)`: what the loss leaves out of the log likelihood.
    pub(super) fn log_base(&self, dispersion: f64) -> f64 {
        let mut sum = CompensatedSum::default();
        if self.response != Response::Bernoulli {
            for (i, &y) in self.responses.iter().enumerate() {
                sum.add(self.weight(i) * self.response.log_base(y, dispersion));
            }
        }
        sum.total()
    }

    /// How much larger the terms of the loss are than their sum, at most.
    pub(super) fn cancelled(&self) -> f64 {
        self.cancelled
    }

    /// Mean and standard deviation of each covariate.
    pub fn column_moments(&self) -> ColumnMoments {
        let weight = self.total_weight();
        // a mean first, then squares around it: nothing cancels
        let average = |column: usize, term: &dyn Fn(f64) -> f64| {
            let mut sum = CompensatedSum::default();
            for i in 0..self.rows() {
                sum.add(self.weight(i) * term(self.covariate(i, column)));
            }
            sum.total() / weight
        };
        let means: Vec<f64> = (0..self.covariates).map(|j| average(j, &|x| x)).collect();
        let deviation = |j: usize| {
            let beyond =
                |largest: f64, i: usize| largest.max((self.covariate(i, j) - means[j]).abs());
            let scale = (0..self.rows()).fold(0.0, beyond);
            // in units of the largest, whose square may be no number
            let unit = if scale > 0.0 && scale.is_finite() {
                scale
            } else {
                1.0
            };
            unit * average(j, &|x| ((x - means[j]) / unit).powi(2)).sqrt()
        };
        ColumnMoments {
            deviations: (0..self.covariates).map(deviation).collect(),
            means,
        }
    }

    /// The same rows with each column moved by its shift, the constant term by none.
    pub(super) fn shifted(&self, shifts: &[f64]) -> Self {
        let mut moved = self.clone();
        let rows = self.rows();
        for (b, block) in moved.blocks.iter_mut().enumerate() {
            for (column, &shift) in shifts
                .iter()
                .enumerate()
                .filter(|(_, shift)| **shift != 0.0)
            {
                let first = block.start + column * BLOCK_ROWS;
                let used = BLOCK_ROWS.min(rows - b * BLOCK_ROWS);
                for x in &mut block.values[first..first + used] {
                    *x -= shift;
                }
            }
        }
        moved
    }

    /// Covariate `j` of row `i`.
    fn covariate(&self, i: usize, j: usize) -> f64 {
        let column = usize::from(self.intercept) + j;
        self.blocks[i / BLOCK_ROWS].columns()[column * BLOCK_ROWS + i % BLOCK_ROWS]
    }

    /// The first column with a number beyond `largest`, the intercept counted.
    pub(super) fn column_beyond(&self, largest: f64) -> Option<usize> {
        let is_beyond = |&j: &usize| (0..self.rows()).any(|i| self.covariate(i, j).abs() > largest);
        let found = (0..self.covariates).find(is_beyond);
        found.map(|j| usize::from(self.intercept) + j)
    }

    /// Whether no row's loss ever rises along a direction from anywhere, and some row's falls for
    /// ever: the loss has no minimum then.
    pub(super) fn never_rises(&self, direction: &[f64]) -> bool {
        let mut falls = false;
        for i in (0..self.rows()).filter(|&i| self.weight(i) > 0.0) {
            let row = self.row(i);
            let along: f64 = row.iter().zip(direction).map(|(x, v)| x * v).sum();
            let size: f64 = row.iter().zip(direction).map(|(x, v)| (x * v).abs()).sum();
            let rounding = 1e-6 * size;
            let rises = match self.response {
                Response::Bernoulli => (1.0 - 2.0 * self.responses[i]) * along > rounding,
                Response::Poisson => {
                    along > rounding || (self.responses[i] > 0.0 && along < -rounding)
                }
                Response::Normal => true,
            };
            if rises {
                return false;
            }
            falls |= along.abs() > rounding;
        }
        falls
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

    /// Block `b` with the responses and weights of its rows.
    pub(super) fn block(&self, b: usize) -> BlockView<'_> {
        let rows = b * BLOCK_ROWS..self.rows().min((b + 1) * BLOCK_ROWS);
        BlockView {
            values: self.blocks[b].columns(),
            responses: &self.responses[rows.clone()],
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
    pub responses: &'a [f64],
    /// One per row, or all 1.
    pub weights: Option<&'a [f64]>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_pushed_across_blocks() {
        let mut design = Design::new(Response::Normal, 3).unwrap();
        let rows = 2 * BLOCK_ROWS + 5;
        for i in 0..rows {
            let x = i as f64;
            design
                .push(&[x, -x, x * x], 0.5 * x)
                .expect("finite rows are accepted");
        }
        assert_eq!((design.rows(), design.block_count()), (rows, 3));
        for i in [0, 1, BLOCK_ROWS - 1, BLOCK_ROWS, rows - 1] {
            let x = i as f64;
            assert_eq!(design.row(i), vec![x, -x, x * x]);
            assert_eq!(design.observed(i), 0.5 * x);
            assert_eq!(design.weight(i), 1.0);
        }
        assert_eq!(design.block(2).responses.len(), 5);
        assert!(design.block(0).weights.is_none());
    }

    #[test]
    fn weights_appear_with_the_first_that_is_not_one() {
        let mut design = Design::with_intercept(Response::Bernoulli, 0);
        design.push(&[], 1.0).unwrap();
        design.push_weighted(&[], 0.0, 2.5).unwrap();
        design.push(&[], 1.0).unwrap();
        assert_eq!(
            (0..3).map(|i| design.weight(i)).collect::<Vec<_>>(),
            vec![1.0, 2.5, 1.0]
        );
        assert_eq!(design.row(2), vec![1.0]);
    }

    #[test]
    fn refuses_what_is_not_a_row_and_stays_as_it_was() {
        let mut design = Design::with_intercept(Response::Bernoulli, 2);
        design.push(&[1.0, 2.0], 1.0).unwrap();
        assert_eq!(
            design.push(&[1.0], 1.0),
            Err(Error::Dimension {
                name: "row of covariates",
                found: 1,
                expected: 2
            })
        );
        assert!(design.push(&[1.0, f64::INFINITY], 1.0).is_err());
        assert!(design.push_weighted(&[1.0, 2.0], 1.0, -1.0).is_err());
        assert!(design.push_weighted(&[1.0, 2.0], 1.0, f64::NAN).is_err());
        let error = design.push(&[1.0, 2.0], 0.5).unwrap_err();
        assert_eq!(error.to_string(), "response 0.5 is not in {0, 1}");
        assert!(design.regressors(&[f64::NAN, 2.0]).is_err());
        assert_eq!(design.rows(), 1);
        assert_eq!(design.regressors(&[3.0, 4.0]), Ok(vec![1.0, 3.0, 4.0]));
        assert!(Design::new(Response::Bernoulli, 0).is_err());
    }

    #[test]
    fn moments_count_the_weights() {
        let mut design = Design::with_intercept(Response::Poisson, 1);
        design.push_weighted(&[1e9 + 1.0], 2.0, 3.0).unwrap();
        design.push(&[1e9 + 5.0], 6.0).unwrap();
        let moments = design.column_moments();
        assert_eq!(moments.means, vec![1e9 + 2.0]);
        // (3·1 + 9)/4
        assert_eq!(moments.deviations, vec![3f64.sqrt()]);
        assert_eq!((design.total_weight(), design.mean_response()), (4.0, 3.0));
    }

    #[test]
    fn separated_rows_fall_for_ever() {
        let mut design = Design::with_intercept(Response::Bernoulli, 1);
        for (x, y) in [(1.0, 0.0), (2.0, 0.0), (3.0, 1.0)] {
            design.push(&[x], y).unwrap();
        }
        assert!(design.never_rises(&[-2.5, 1.0]));
        assert!(!design.never_rises(&[-1.5, 1.0]) && !design.never_rises(&[0.0, 0.0]));
        let mut counts = Design::with_intercept(Response::Poisson, 1);
        counts.push(&[0.0], 4.0).unwrap();
        counts.push(&[1.0], 0.0).unwrap();
        assert!(counts.never_rises(&[0.0, -1.0]) && !counts.never_rises(&[-1.0, 0.0]));
    }
}
