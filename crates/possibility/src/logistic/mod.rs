//! Possibilistic logistic regression: labels `yᵢ = ±1` with likelihood `σ(yᵢ xᵢᵀw)`, Gaussian
//! possibilistic prior `exp(-½(w-m₀)ᵀΔ(w-m₀))` with `Δ` positive definite, any number of
//! covariates. Paper: Section 4 (posterior and its bounds) and the appendix "Example: Bayesian
//! Logistic Regression", here with many observations and many dimensions.
//!
//! With the loss `ℓ(w) = Σ cᵢ softplus(-yᵢ xᵢᵀw)` and the regularized loss
//! `ℓ̂(w) = ℓ(w) + ½(w-m₀)ᵀΔ(w-m₀)`, the posterior is `exp(-(ℓ̂(w) - ℓ̂(m)))`, where the mode `m`
//! is the only minimizer of `ℓ̂`, and its log consistency with the data is
//! `log sup_w L(w)π(w) = -ℓ̂(m)`.
//!
//! # Three Gaussians at the mode
//!
//! | name | precision | relation to the posterior |
//! |---|---|---|
//! | Laplace | `H = Δ + Σ cᵢ σ'(zᵢ) xᵢxᵢᵀ` | same curvature at the mode, in general neither above nor below |
//! | upper | `Δ` | above everywhere, and the least such Gaussian centered at the mode |
//! | lower | `P = Δ + Σ cᵢ κ(zᵢ) xᵢxᵢᵀ`, `κ(z) = tanh(z/2)/(2z)` | below everywhere |
//!
//! with `zᵢ = xᵢᵀm`.
//!
//! **Upper.** Softplus is convex and lies above its tangents, so `ℓ(w) ≥ ℓ(m) + ∇ℓ(m)ᵀ(w-m)`; the
//! prior's part of `ℓ̂` is quadratic, and `∇ℓ̂(m) = 0`, so `ℓ̂(w) - ℓ̂(m) ≥ ½(w-m)ᵀΔ(w-m)`: the
//! Gaussian with precision `Δ` lies above the posterior. No Gaussian at the mode with a larger
//! precision does: if one with precision `Q` lies above, then
//! `½s²vᵀQv ≤ ℓ̂(m+sv) - ℓ̂(m) ≤ ½s²vᵀΔv + O(s)` for each direction `v`, because softplus grows
//! only linearly; dividing by `s²` and letting `s → ∞` gives `vᵀQv ≤ vᵀΔv`. So `Δ` is the largest
//! precision in the Löwner order, whatever the data are, directions without data included.
//!
//! **Lower.** `softplus(z) = z/2 + log(2 cosh(z/2))`, and `log cosh(√s/2)` is concave in `s = z²`.
//! Its tangent at `s₀ = z₀²`, read as a function of `z`, is a parabola of curvature `κ(z₀)` that
//! touches softplus at `z₀` and `-z₀` and lies above it elsewhere. Adding up the rows,
//! `ℓ̂(w) - ℓ̂(m) ≤ ½(w-m)ᵀP(w-m)`. With one row in one dimension no smaller precision will do (the
//! parabola touches again); with several rows in one dimension [`Logistic::widest_lower_precision`]
//! finds the smallest. Since `σ'(z) ≤ κ(z) ≤ ¼`, `H ⪯ P`.
//!
//! **A common scaling.** `cH` lies below the posterior for every `c ≥ λ_max(H^{-½}PH^{-½})`
//! ([`LogisticPosterior::certified_scaling`]); [`Logistic::least_scaling_found`] looks for points
//! that show how much of that `c` is needed.
//!
//! A supremum over a set keeps the order, so the possibility of every event lies between its values
//! under the lower and the upper Gaussian, and its necessity between those under the upper and the
//! lower one.
//!
//! ```
//! use possibility::logistic::{Design, LogisticConfig, PriorPrecision};
//!
//! let mut design = Design::with_intercept(1);
//! for (x, y) in [(-2.0, false), (-1.0, false), (-0.5, true), (0.5, false), (1.0, true), (3.0, true)] {
//!     design.push(&[x], y)?;
//! }
//! let config = LogisticConfig {
//!     prior_precision: PriorPrecision::Scalar(0.5),
//!     ..LogisticConfig::default()
//! };
//! let posterior = config.build(design.columns())?.fit(&design)?;
//! let slope = posterior.coefficient(1)?;
//! assert!(slope.laplace.mode() > 0.0);
//! // the possibility that the slope is not positive, certified from both sides
//! let not_positive = slope.possibility_of(..=0.0)?;
//! assert!(not_positive.lower <= not_positive.upper && not_positive.upper < 1.0);
//! # Ok::<(), possibility::Error>(())
//! ```

mod design;
mod kernel;
mod marginal;
mod posterior;
mod widest;

use std::num::NonZero;

use faer::{Mat, MatRef};

pub use design::Design;
pub use marginal::{Bounds, Marginal, MarginalBounds};
pub use posterior::{LogisticPosterior, Prediction};

use crate::error::{Error, Result, check, check_finite, check_size};
use crate::linear::{cholesky, dot, eigen, multiply, solve, solve_lower_matrix, symmetric};
use kernel::{Demand, evaluate};

/// Precision `Δ` of the Gaussian prior.
#[derive(Debug, Clone, PartialEq)]
pub enum PriorPrecision {
    /// `δI` with `δ > 0`.
    Scalar(f64),
    /// `diag(δ₁, …, δ_d)` with every `δⱼ > 0`.
    Diagonal(Vec<f64>),
    /// Any symmetric positive definite matrix.
    Full(Mat<f64>),
}

/// Settings of a possibilistic logistic regression.
#[derive(Debug, Clone, PartialEq)]
pub struct LogisticConfig {
    /// Mode `m₀` of the prior, one entry for each column (the intercept's first); `None` is the
    /// origin.
    pub prior_mode: Option<Vec<f64>>,
    /// Precision `Δ` of the prior; by default the identity.
    pub prior_precision: PriorPrecision,
    /// Newton's method takes its last step once half the squared Newton decrement, which estimates
    /// how far the log possibility is from its supremum, is at most this; by default 1e-20.
    pub tolerance: f64,
    /// Most Newton steps; by default 100.
    pub max_steps: usize,
    /// Number of threads; `None` takes what the system offers. The result does not depend on it.
    pub threads: Option<NonZero<usize>>,
}

impl Default for LogisticConfig {
    fn default() -> Self {
        Self {
            prior_mode: None,
            prior_precision: PriorPrecision::Scalar(1.0),
            tolerance: 1e-20,
            max_steps: 100,
            threads: None,
        }
    }
}

/// A checked prior and the settings of the search for the mode.
#[derive(Debug, Clone)]
pub struct Logistic {
    prior_mode: Vec<f64>,
    prior_precision: Mat<f64>,
    tolerance: f64,
    max_steps: usize,
    threads: usize,
}

impl LogisticConfig {
    /// Checks every range for a design with `columns` columns.
    ///
    /// # Errors
    /// A wrong size, a value out of range, a prior precision that is not symmetric or not positive
    /// definite.
    pub fn build(&self, columns: usize) -> Result<Logistic> {
        if columns == 0 {
            return Err(Error::Empty {
                name: "list of columns",
            });
        }
        let prior_mode = self
            .prior_mode
            .clone()
            .unwrap_or_else(|| vec![0.0; columns]);
        check_size("prior mode", prior_mode.len(), columns)?;
        check_finite("prior mode", &prior_mode)?;
        check("tolerance", self.tolerance, "(0, inf)", |t| {
            t > 0.0 && t.is_finite()
        })?;
        if self.max_steps == 0 {
            return Err(Error::OutOfRange {
                field: "max_steps",
                value: 0.0,
                range: "1..",
            });
        }
        let threads = self
            .threads
            .or_else(|| std::thread::available_parallelism().ok())
            .map_or(1, NonZero::get);
        Ok(Logistic {
            prior_mode,
            prior_precision: self.prior_precision.matrix(columns)?,
            tolerance: self.tolerance,
            max_steps: self.max_steps,
            threads,
        })
    }
}

impl PriorPrecision {
    /// The checked matrix.
    fn matrix(&self, columns: usize) -> Result<Mat<f64>> {
        const POSITIVE: &str = "(0, inf)";
        let positive = |d: f64| d > 0.0 && d.is_finite();
        match self {
            Self::Scalar(delta) => {
                check("prior precision", *delta, POSITIVE, positive)?;
                Ok(Mat::from_fn(columns, columns, |i, j| {
                    if i == j { *delta } else { 0.0 }
                }))
            }
            Self::Diagonal(delta) => {
                check_size("prior precision", delta.len(), columns)?;
                if let Some(index) = delta.iter().position(|&d| !positive(d)) {
                    return Err(Error::EntryOutOfRange {
                        field: "prior precision",
                        index,
                        value: delta[index],
                        range: POSITIVE,
                    });
                }
                Ok(Mat::from_fn(columns, columns, |i, j| {
                    if i == j { delta[i] } else { 0.0 }
                }))
            }
            Self::Full(matrix) => {
                let matrix = symmetric("prior precision", matrix.clone(), columns)?;
                cholesky("prior precision", matrix.as_ref())?;
                Ok(matrix)
            }
        }
    }
}

/// Largest eigenvalue of `H^{-½}PH^{-½}`, the least `c` with `P ⪯ cH`.
fn largest_ratio(p: MatRef<'_, f64>, h: MatRef<'_, f64>) -> Result<f64> {
    let l = cholesky("Laplace precision", h)?;
    let half = solve_lower_matrix(l.as_ref(), p);
    let ratio = solve_lower_matrix(l.as_ref(), half.transpose());
    eigen(ratio.as_ref())
        .and_then(|(values, _)| values.last().copied())
        .ok_or(Error::NotConverged {
            what: "eigenvalues of the lower precision",
            steps: 0,
            residual: f64::NAN,
        })
}

/// `ℓ̂`, its gradient and, where demanded, `H` and `P` at one point.
struct Regularized {
    loss: f64,
    gradient: Vec<f64>,
    hessian: Mat<f64>,
    lower: Mat<f64>,
}

impl Logistic {
    /// Number of coefficients `d`.
    pub fn columns(&self) -> usize {
        self.prior_mode.len()
    }

    /// Mode `m₀` of the prior.
    pub fn prior_mode(&self) -> &[f64] {
        &self.prior_mode
    }

    /// Precision `Δ` of the prior.
    pub fn prior_precision(&self) -> MatRef<'_, f64> {
        self.prior_precision.as_ref()
    }

    /// `ℓ̂(w) = Σ cᵢ softplus(-yᵢ xᵢᵀw) + ½(w-m₀)ᵀΔ(w-m₀)`.
    ///
    /// # Errors
    /// The design or the coefficients do not fit, or a coefficient is not finite.
    pub fn regularized_loss(&self, design: &Design, coefficients: &[f64]) -> Result<f64> {
        check_size("design", design.columns(), self.columns())?;
        check_size("coefficients", coefficients.len(), self.columns())?;
        check_finite("coefficients", coefficients)?;
        Ok(self.regularize(design, coefficients, Demand::Loss).loss)
    }

    /// `log` of the posterior itself at `w`: `-(ℓ̂(w) - ℓ̂(m))`.
    ///
    /// # Errors
    /// As [`Self::regularized_loss`].
    pub fn log_possibility(
        &self,
        design: &Design,
        posterior: &LogisticPosterior,
        coefficients: &[f64],
    ) -> Result<f64> {
        let loss = self.regularized_loss(design, coefficients)?;
        Ok(-(loss + posterior.log_consistency()))
    }

    /// One pass over the data.
    fn regularize(&self, design: &Design, coefficients: &[f64], demand: Demand) -> Regularized {
        let d = self.columns();
        let data = evaluate(design, coefficients, demand, self.threads);
        let gap: Vec<f64> = (0..d)
            .map(|j| coefficients[j] - self.prior_mode[j])
            .collect();
        let pull = multiply(self.prior_precision.as_ref(), &gap);
        let matrix = |lower_triangle: &[f64]| {
            if lower_triangle.is_empty() {
                return Mat::new();
            }
            Mat::from_fn(d, d, |i, j| {
                lower_triangle[i.max(j) * d + i.min(j)] + self.prior_precision[(i, j)]
            })
        };
        Regularized {
            loss: data.loss + 0.5 * dot(&gap, &pull),
            gradient: data
                .gradient
                .iter()
                .zip(&pull)
                .map(|(g, p)| g + p)
                .collect(),
            hessian: matrix(&data.curvature),
            lower: matrix(&data.majorizer),
        }
    }

    /// The posterior: mode by damped Newton, log consistency, and the three Gaussians at the mode.
    ///
    /// A Newton step is one pass over the data; one more pass at the mode gives the results. Data
    /// that can be separated are no special case: the prior keeps the mode finite. With a single
    /// coefficient and up to 100,000 rows the lower Gaussian is the widest there is, at the cost of
    /// a few hundred passes more.
    ///
    /// # Errors
    /// The design does not fit, the numbers overflow, or Newton's method does not converge.
    pub fn fit(&self, design: &Design) -> Result<LogisticPosterior> {
        check_size("design", design.columns(), self.columns())?;
        let mut coefficients = self.prior_mode.clone();
        let mut at = self.regularize(design, &coefficients, Demand::Curvature);
        let mut previous = f64::INFINITY;
        for step in 1..=self.max_steps {
            check_overflow(&at)?;
            let factor = cholesky("Hessian of the regularized loss", at.hessian.as_ref())?;
            let direction = solve(factor.as_ref(), &at.gradient);
            let decrement = dot(&at.gradient, &direction);
            let noise = LOSS_NOISE * at.loss.abs();
            let stalled = decrement <= noise && decrement >= 0.25 * previous;
            // a loss below 1 is that of data all but separated: there the curvature falls with the
            // loss
            let tolerance = self.tolerance * at.loss.min(1.0);
            // Newton's method squares the decrement's root: d, then about d³/previous²
            let foreseen = decrement * (decrement / previous).powi(2);
            let nearly_there = decrement <= noise && 0.5 * foreseen <= tolerance;
            if 0.5 * decrement <= tolerance || stalled || nearly_there {
                for (w, p) in coefficients.iter_mut().zip(&direction) {
                    *w -= p;
                }
                let end = self.regularize(design, &coefficients, Demand::Majorizer);
                check_overflow(&end)?;
                // by the Hessian before the step, which has hardly changed
                let left = 0.5 * dot(&end.gradient, &solve(factor.as_ref(), &end.gradient));
                if left <= tolerance || !nearly_there || stalled {
                    let posterior = LogisticPosterior::new(self, design, coefficients, step, end)?;
                    return self.widen_lower(design, posterior);
                }
                // foreseen too well: go on from here
                previous = decrement;
                at = end;
                continue;
            }
            previous = decrement;
            (coefficients, at) = self.descend(design, &coefficients, &at, &direction, decrement)?;
        }
        Err(Error::NotConverged {
            what: "Newton's method for logistic regression",
            steps: self.max_steps,
            residual: 0.5 * previous,
        })
    }

    /// In one dimension, replaces the lower Gaussian by the widest where the data are few enough
    /// for it.
    fn widen_lower(
        &self,
        design: &Design,
        posterior: LogisticPosterior,
    ) -> Result<LogisticPosterior> {
        if self.columns() > 1 || design.rows() > ROWS_FOR_WIDEST {
            return Ok(posterior);
        }
        match self.widest_lower_precision(design, &posterior) {
            Ok(widest) => posterior.with_lower_precision(widest.upper),
            // the sum of the parabolas is certified too, only less wide
            Err(Error::NotCertified { .. }) => Ok(posterior),
            Err(error) => Err(error),
        }
    }

    /// The largest step `2⁻ᵏ` along `-direction` that lowers the regularized loss enough.
    fn descend(
        &self,
        design: &Design,
        coefficients: &[f64],
        at: &Regularized,
        direction: &[f64],
        decrement: f64,
    ) -> Result<(Vec<f64>, Regularized)> {
        const HALVINGS: usize = 60;
        let noise = LOSS_NOISE * at.loss.abs();
        let mut scale = 1.0;
        for halving in 0..HALVINGS {
            let next: Vec<f64> = coefficients
                .iter()
                .zip(direction)
                .map(|(w, p)| w - scale * p)
                .collect();
            // the full step is nearly always taken, and then its pass is the next step's
            let demand = if halving == 0 {
                Demand::Curvature
            } else {
                Demand::Loss
            };
            let there = self.regularize(design, &next, demand);
            if there.loss <= at.loss - SUFFICIENT_DECREASE * scale * decrement + noise {
                let there = if halving == 0 {
                    there
                } else {
                    self.regularize(design, &next, Demand::Curvature)
                };
                return Ok((next, there));
            }
            scale *= 0.5;
        }
        Err(Error::NotConverged {
            what: "backtracking for logistic regression",
            steps: HALVINGS,
            residual: 0.5 * decrement,
        })
    }
}

/// Up to this many rows a few hundred more passes over one column take well under a second.
const ROWS_FOR_WIDEST: usize = 100_000;

/// Relative rounding noise of the loss: a difference below it says nothing.
const LOSS_NOISE: f64 = 64.0 * f64::EPSILON;

/// A step must gain this part of what the linear model promises.
const SUFFICIENT_DECREASE: f64 = 1e-4;

/// Refuses a loss, gradient or Hessian that left the range of `f64`.
fn check_overflow(at: &Regularized) -> Result<()> {
    let finite = at.loss.is_finite()
        && at.gradient.iter().all(|g| g.is_finite())
        && at
            .hessian
            .col_iter()
            .all(|column| column.iter().all(|h| h.is_finite()));
    if finite {
        Ok(())
    } else {
        Err(Error::OutOfRange {
            field: "regularized loss with its gradient and Hessian",
            value: f64::INFINITY,
            range: "(-inf, inf)",
        })
    }
}

#[cfg(test)]
mod tests;
