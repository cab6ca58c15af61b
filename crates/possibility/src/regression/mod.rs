//! Regression with a canonical link: observations `yᵢ` whose distribution depends on
//! `zᵢ = xᵢᵀw` as in [`Response`] (Bernoulli: logistic regression; Poisson; normal: linear
//! regression), and a Gaussian possibilistic prior `exp(-½(w-m₀)ᵀΔ(w-m₀))` with `Δ` positive
//! semidefinite: a direction in which `Δ` vanishes is one of which nothing is known beforehand.
//! Paper: Section 4 (posterior and its bounds), Section 5 (exponential families) and the appendix
//! "Example: Bayesian Logistic Regression", here with many observations and many dimensions.
//!
//! With the loss `ℓ(w) = Σ cᵢ(b(zᵢ) - yᵢzᵢ)/φ` and the regularized loss
//! `ℓ̂(w) = ℓ(w) + ½(w-m₀)ᵀΔ(w-m₀)`, the posterior is `exp(-(ℓ̂(w) - ℓ̂(m)))`, where the mode `m`
//! is the only minimizer of `ℓ̂`, and its log consistency with the data is
//! `log sup_w L(w)π(w) = Σ cᵢ log h(yᵢ) - ℓ̂(m)`.
//!
//! One Newton's method finds the mode of every response ([`Regression::fit`]), and one machine
//! answers every question about a linear form `aᵀw` exactly ([`Profiles`]): possibility and
//! necessity of events, α-cuts and the curve itself, each with a certificate. [`SimulatedForm`]
//! makes possibilities whose cuts cover the truth in small samples too, by simulation.
//!
//! # Three Gaussians at the mode
//!
//! The profile is exact; the Gaussians say how far from normal the posterior is.
//!
//! | name | precision | relation to the posterior |
//! |---|---|---|
//! | Laplace | `H = Δ + Σ cᵢ b''(zᵢ) xᵢxᵢᵀ/φ` | an approximation: same curvature at the mode, in general neither above nor below |
//! | upper | `Δ + Σ cᵢ κ⁻ᵢ xᵢxᵢᵀ/φ` | a bound: above the posterior wherever the posterior is at least `α` |
//! | lower | `Δ + Σ cᵢ κ⁺ᵢ xᵢxᵢᵀ/φ` | a bound: below the posterior wherever the bound is at least `α` |
//!
//! with `zᵢ = xᵢᵀm` ([`Regression::bounds_above`]). On the α-cut `{ℓ̂ ≤ ℓ̂(m) - log α}` the step
//! `v = w - m` obeys `‖v‖_H ≤ r` (`certificate.rs`) and so `abs(xᵢᵀv) ≤ r(xᵢᵀH⁻¹xᵢ)^½`; `κ⁻ᵢ` and
//! `κ⁺ᵢ` are the least and the greatest value of `2(b(z+h) - b(z) - b'(z)h)/h²` for such `h`. The
//! first Gaussian found in this way narrows the reach of the rows, and the next is tighter.
//! Outside the α-cut the posterior is below `α`, so that `max(upper, α)` is a bound everywhere.
//!
//! **Everywhere.** For a Bernoulli response two Gaussians bound the posterior on all of `ℝᵈ`:
//! softplus is convex and grows only linearly, so that `Δ`, where it is positive definite, is the
//! largest precision in the Löwner order of a Gaussian above ([`RegressionPosterior::upper`]): if
//! one with precision `Q` lies above, `½s²vᵀQv ≤ ℓ̂(m+sv) - ℓ̂(m) ≤ ½s²vᵀΔv + O(s)`, and dividing
//! by `s²` gives `vᵀQv ≤ vᵀΔv`. And `softplus(z) = z/2 + log(2 cosh(z/2))`, where `log cosh(√s/2)`
//! is concave in `s = z²`: its tangent at `z₀²`, read as a function of `z`, is a parabola of
//! curvature `κ(z₀) = tanh(z₀/2)/(2z₀)` that touches softplus at `±z₀` and lies above it elsewhere,
//! so that `P = Δ + Σ cᵢ κ(zᵢ) xᵢxᵢᵀ` lies below ([`RegressionPosterior::lower`]). With one row in
//! one dimension no smaller precision will do; with several rows in one dimension
//! [`Regression::widest_lower_precision`] finds the smallest. `cH` lies below for every
//! `c ≥ λ_max(H^{-½}PH^{-½})` ([`RegressionPosterior::certified_scaling`]).
//!
//! ```
//! use possibility::regression::{Design, PriorPrecision, Profiles, RegressionConfig, Response};
//!
//! let mut design = Design::with_intercept(Response::Bernoulli, 1);
//! for (x, y) in [(-2.0, 0.0), (-1.0, 0.0), (-0.5, 1.0), (0.5, 0.0), (1.0, 1.0), (3.0, 1.0)] {
//!     design.push(&[x], y)?;
//! }
//! let config = RegressionConfig {
//!     prior_precision: PriorPrecision::Scalar(0.5),
//!     ..RegressionConfig::default()
//! };
//! let model = config.build(design.columns())?;
//! let posterior = model.fit(&design)?;
//! let profiles = Profiles::new(&model, &design, &posterior)?;
//! // how certain is it that the slope is positive?
//! let slope = profiles.credence_of(&[0.0, 1.0], 0.0..)?;
//! assert!(slope.possibility == 1.0 && slope.necessity > 0.5);
//! # Ok::<(), possibility::Error>(())
//! ```

mod certificate;
mod design;
mod exact;
mod gram;
mod kernel;
mod marginal;
mod mean_response;
mod posterior;
mod profile;
mod region;
mod response;
mod simulation;
mod widest;

use std::num::NonZero;

use faer::{Mat, MatRef};

pub use design::{ColumnMoments, Design};
pub use marginal::{Bounds, Marginal, MarginalBounds};
pub use mean_response::MeanResponse;
pub use posterior::{GaussianBounds, RegressionPosterior};
pub use profile::{FormAnswers, FormQuestions, ProfileCurve, ProfilePoint, Profiles, Target};
pub use region::FormAndVariance;
pub use response::Response;
pub use simulation::SimulatedForm;

use crate::double::Double;
use crate::error::{Error, Result, check, check_entries, check_finite, check_positive, check_size};
use crate::linear::{
    block, cholesky, difference, dot, eigen, gram as gram_of, multiply, solve, solve_lower_matrix,
    symmetric,
};
use exact::LeastSquares;
use gram::{doubles, gram, shifts};
use kernel::{Demand, Evaluation, evaluate_each, greatest_leverage};
use posterior::Shifted;

/// Precision `Δ` of the Gaussian prior; zero in a direction of which nothing is known.
#[derive(Debug, Clone, PartialEq)]
pub enum PriorPrecision {
    /// `δI` with `δ ≥ 0`.
    Scalar(f64),
    /// `diag(δ₁, …, δ_d)` with every `δⱼ ≥ 0`.
    Diagonal(Vec<f64>),
    /// Any symmetric positive semidefinite matrix.
    Full(Mat<f64>),
    /// `Σ ρₖrₖrₖᵀ` with every `ρₖ ≥ 0`: the precision `ρₖ` of the linear form `rₖᵀw`. The sum may
    /// have more digits than its rounded matrix.
    Forms(Vec<(f64, Vec<f64>)>),
}

/// The dispersion `φ` by which the loss is divided; for a normal response its variance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Dispersion {
    /// A known number; 1 for Bernoulli and Poisson responses.
    Known(f64),
    /// Unknown, for a normal response: the supremum over it is taken. The prior's precision is then
    /// in units of `1/φ`.
    Unknown,
}

/// Settings of a possibilistic regression.
#[derive(Debug, Clone, PartialEq)]
pub struct RegressionConfig {
    /// Mode `m₀` of the prior, one entry for each column (the intercept's first); `None` is the
    /// origin.
    pub prior_mode: Option<Vec<f64>>,
    /// Precision `Δ` of the prior; by default the identity.
    pub prior_precision: PriorPrecision,
    /// `φ`; by default known to be 1.
    pub dispersion: Dispersion,
    /// Newton's method takes its last step once half the squared Newton decrement, which estimates
    /// how far the log possibility is from its supremum, is at most this; by default 1e-20.
    pub tolerance: f64,
    /// Most Newton steps; by default 100.
    pub max_steps: usize,
    /// Number of threads; `None` takes what the system offers. The result does not depend on it.
    pub threads: Option<NonZero<usize>>,
}

impl Default for RegressionConfig {
    fn default() -> Self {
        Self {
            prior_mode: None,
            prior_precision: PriorPrecision::Scalar(1.0),
            dispersion: Dispersion::Known(1.0),
            tolerance: 1e-20,
            max_steps: 100,
            threads: None,
        }
    }
}

/// A checked prior and the settings of the search for the mode.
#[derive(Debug, Clone)]
pub struct Regression {
    prior_mode: Vec<f64>,
    prior_precision: Mat<f64>,
    /// The same before it is rounded, row after row.
    prior: Vec<Double>,
    dispersion: Dispersion,
    tolerance: f64,
    max_steps: usize,
    threads: usize,
}

impl RegressionConfig {
    /// Checks every range for a design with `columns` columns.
    ///
    /// # Errors
    /// A wrong size, a value out of range, a prior precision that is not symmetric or not positive
    /// semidefinite.
    pub fn build(&self, columns: usize) -> Result<Regression> {
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
        check_positive("tolerance", self.tolerance)?;
        if let Dispersion::Known(known) = self.dispersion {
            check_positive("dispersion", known)?;
        }
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
        let (prior_precision, prior) = self.prior_precision.matrix(columns)?;
        Ok(Regression {
            prior_mode,
            prior_precision,
            prior,
            dispersion: self.dispersion,
            tolerance: self.tolerance,
            max_steps: self.max_steps,
            threads,
        })
    }
}

impl PriorPrecision {
    /// The prior with precision `δ` for the coefficients of covariates that were shifted to mean 0
    /// and scaled to standard deviation 1, in terms of the coefficients of the covariates as they
    /// are: `δ diag(s²)`, and for an intercept of precision `δ₀`, which stands at the means `x̄`,
    /// `δ₀(1, x̄)(1, x̄)ᵀ`. Without an intercept the covariates are scaled alone.
    ///
    /// # Errors
    /// A precision outside `[0, ∞)`.
    pub fn standardized(
        moments: &ColumnMoments,
        precision: f64,
        intercept: Option<f64>,
    ) -> Result<Self> {
        const RANGE: &str = "[0, inf)";
        let allowed = |d: f64| d >= 0.0 && d.is_finite();
        check("prior precision", precision, RANGE, allowed)?;
        let own = check(
            "intercept precision",
            intercept.unwrap_or(0.0),
            RANGE,
            allowed,
        )?;
        let first = usize::from(intercept.is_some());
        let columns = first + moments.means.len();
        let deviations = moments.deviations.iter().enumerate();
        let mut forms: Vec<(f64, Vec<f64>)> = deviations
            .map(|(j, &deviation)| {
                let mut form = vec![0.0; columns];
                form[first + j] = deviation;
                (precision, form)
            })
            .collect();
        if intercept.is_some() {
            let at_means = std::iter::once(1.0).chain(moments.means.iter().copied());
            forms.push((own, at_means.collect()));
        }
        Ok(Self::Forms(forms))
    }

    /// The checked matrix, rounded and as it is.
    fn matrix(&self, columns: usize) -> Result<(Mat<f64>, Vec<Double>)> {
        let rounded = match self {
            Self::Forms(forms) => return sum_of_forms(forms, columns),
            _ => self.rounded(columns)?,
        };
        let exact = doubles(rounded.as_ref());
        Ok((rounded, exact))
    }

    /// The checked matrix of what is given as numbers.
    fn rounded(&self, columns: usize) -> Result<Mat<f64>> {
        const RANGE: &str = "[0, inf)";
        let allowed = |d: f64| d >= 0.0 && d.is_finite();
        match self {
            Self::Scalar(delta) => {
                check("prior precision", *delta, RANGE, allowed)?;
                Ok(Mat::from_fn(columns, columns, |i, j| {
                    if i == j { *delta } else { 0.0 }
                }))
            }
            Self::Diagonal(delta) => {
                check_size("prior precision", delta.len(), columns)?;
                check_entries("prior precision", delta, RANGE, allowed)?;
                Ok(Mat::from_fn(columns, columns, |i, j| {
                    if i == j { delta[i] } else { 0.0 }
                }))
            }
            Self::Full(matrix) => {
                let matrix = symmetric("prior precision", matrix.clone(), columns)?;
                check_semidefinite("prior precision", matrix.as_ref())?;
                Ok(matrix)
            }
            Self::Forms(forms) => sum_of_forms(forms, columns).map(|(rounded, _)| rounded),
        }
    }
}

/// `Σ ρₖrₖrₖᵀ`, rounded and in twice the precision.
fn sum_of_forms(forms: &[(f64, Vec<f64>)], columns: usize) -> Result<(Mat<f64>, Vec<Double>)> {
    let mut sums = vec![Double::default(); columns * columns];
    for (precision, form) in forms {
        check("prior precision", *precision, "[0, inf)", |p| {
            p >= 0.0 && p.is_finite()
        })?;
        check_size("form of the prior", form.len(), columns)?;
        for i in (0..columns).filter(|_| *precision > 0.0) {
            for j in 0..columns {
                let term = Double::product(form[i], form[j]) * (*precision).into();
                sums[i * columns + j] = sums[i * columns + j] + term;
            }
        }
    }
    for column in 0..columns {
        let squares = sums[column * columns + column].round();
        // what overflows on the way is no number
        if !squares.is_finite() {
            return Err(Error::ColumnScale {
                column: Some(column),
            });
        }
    }
    let rounded = Mat::from_fn(columns, columns, |i, j| sums[i * columns + j].round());
    Ok((rounded, sums))
}

/// Refuses a symmetric matrix with an eigenvalue below zero, rounding aside.
fn check_semidefinite(name: &'static str, matrix: MatRef<'_, f64>) -> Result<()> {
    let (smallest, largest) = match eigen(matrix) {
        Some((values, _)) => (values[0], values[values.len() - 1]),
        None => (f64::NAN, f64::NAN),
    };
    let rounding = 8.0 * matrix.nrows() as f64 * f64::EPSILON * largest;
    if smallest >= -rounding {
        Ok(())
    } else {
        Err(Error::NotPositiveDefinite { name, smallest })
    }
}

/// Largest eigenvalue of `H^{-½}PH^{-½}`, the least `c` with `P ⪯ cH`, from Cholesky factors.
fn largest_ratio(p: MatRef<'_, f64>, h: MatRef<'_, f64>) -> Result<f64> {
    let half = solve_lower_matrix(h, p);
    let ratio = gram_of(half.transpose());
    eigen(ratio.as_ref())
        .and_then(|(values, _)| values.last().copied())
        .ok_or(Error::NotConverged {
            what: "eigenvalues of the lower precision",
            steps: 0,
            residual: f64::NAN,
        })
}

/// `ℓ̂`, its gradient and, where demanded, `H` and `P` at one point.
#[derive(Debug)]
struct Regularized {
    loss: f64,
    /// Size of the terms that make up the loss.
    magnitude: f64,
    gradient: Vec<f64>,
    hessian: Mat<f64>,
    lower: Mat<f64>,
}

impl Regularized {
    /// Whether the loss, the gradient and the Hessian are in the range of `f64`.
    fn is_finite(&self) -> bool {
        self.loss.is_finite()
            && self.gradient.iter().all(|g| g.is_finite())
            && self
                .hessian
                .col_iter()
                .all(|column| column.iter().all(|h| h.is_finite()))
    }

    /// Refuses what left the range of `f64`, and names the column where it is to blame.
    fn check_overflow(&self, design: &Design) -> Result<()> {
        if self.is_finite() {
            return Ok(());
        }
        Err(match design.column_beyond(LARGEST) {
            Some(column) => Error::ColumnScale {
                column: Some(column),
            },
            None => Error::OutOfRange {
                field: "loss of the data",
                value: f64::INFINITY,
                range: "(-inf, inf)",
            },
        })
    }
}

/// The squares of numbers beyond it overflow.
const LARGEST: f64 = 1e150;

impl Regression {
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

    /// `φ`.
    pub fn dispersion(&self) -> Dispersion {
        self.dispersion
    }

    fn threads(&self) -> usize {
        self.threads
    }

    /// Whether the prior says nothing of the first coefficient.
    fn is_constant_free(&self) -> bool {
        self.prior[..self.columns()]
            .iter()
            .all(|p| p.round() == 0.0)
    }

    /// The dispersion by which the passes divide.
    fn divisor(&self) -> f64 {
        match self.dispersion {
            Dispersion::Known(known) => known,
            Dispersion::Unknown => 1.0,
        }
    }

    /// `ℓ̂(w) = Σ cᵢ(b(zᵢ) - yᵢzᵢ)/φ + ½(w-m₀)ᵀΔ(w-m₀)`.
    ///
    /// # Errors
    /// The design or the coefficients do not fit, or a coefficient is not finite.
    pub fn regularized_loss(&self, design: &Design, coefficients: &[f64]) -> Result<f64> {
        check_size("design", design.columns(), self.columns())?;
        check_size("coefficients", coefficients.len(), self.columns())?;
        check_finite("coefficients", coefficients)?;
        Ok(self.regularize(design, coefficients, Demand::Loss).loss)
    }

    /// `log` of the posterior itself at `w`, for a known dispersion: `-(ℓ̂(w) - ℓ̂(m))`.
    ///
    /// # Errors
    /// As [`Self::regularized_loss`].
    pub fn log_possibility(
        &self,
        design: &Design,
        posterior: &RegressionPosterior,
        coefficients: &[f64],
    ) -> Result<f64> {
        let loss = self.regularized_loss(design, coefficients)?;
        Ok(-(loss - posterior.loss()))
    }

    /// One pass over the data for one point.
    fn regularize(&self, design: &Design, coefficients: &[f64], demand: Demand) -> Regularized {
        let mut at = self.regularize_each(design, &[(coefficients, demand)]);
        at.pop().expect("one result for one request")
    }

    /// One pass over the data for several points.
    fn regularize_each(&self, design: &Design, requests: &[(&[f64], Demand)]) -> Vec<Regularized> {
        evaluate_each(design, requests, self.threads)
            .into_iter()
            .zip(requests)
            .map(|(data, (coefficients, _))| self.add_prior(design, coefficients, &data))
            .collect()
    }

    fn add_prior(&self, design: &Design, coefficients: &[f64], data: &Evaluation) -> Regularized {
        let d = self.columns();
        let share = self.divisor().recip();
        let gap: Vec<f64> = (0..d)
            .map(|j| coefficients[j] - self.prior_mode[j])
            .collect();
        let pull = multiply(self.prior_precision.as_ref(), &gap);
        let matrix = |lower_triangle: &[f64]| {
            if lower_triangle.is_empty() {
                return Mat::new();
            }
            Mat::from_fn(d, d, |i, j| {
                share * lower_triangle[i.max(j) * d + i.min(j)] + self.prior_precision[(i, j)]
            })
        };
        let loss = share * data.loss + 0.5 * dot(&gap, &pull);
        Regularized {
            loss,
            magnitude: loss.abs() + share * design.cancelled(),
            gradient: data
                .gradient
                .iter()
                .zip(&pull)
                .map(|(g, p)| share * g + p)
                .collect(),
            hessian: matrix(&data.curvature),
            lower: matrix(&data.majorizer),
        }
    }

    /// Where Newton's method starts: the prior's mode, with the intercept at the overall mean where
    /// nothing is known of it.
    fn start(&self, design: &Design) -> Vec<f64> {
        let mut start = self.prior_mode.clone();
        if design.has_intercept() && self.prior_precision[(0, 0)] == 0.0 {
            let link = design.response().link(design.mean_response());
            if link.is_finite() {
                start[0] = link;
            }
        }
        start
    }

    /// The posterior: mode by damped Newton, log consistency, and the Gaussians at the mode.
    ///
    /// A normal response takes one pass in twice the precision, and has closed forms. Else a Newton
    /// step is one pass over the data; one more pass at the mode gives the results. Data
    /// that can be separated are no special case where the prior keeps the mode finite, and are
    /// refused where it does not. With a single coefficient of a Bernoulli response and up to
    /// 100,000 rows the lower Gaussian is the widest there is, at the cost of a few hundred passes
    /// more.
    ///
    /// # Errors
    /// The design does not fit, the numbers overflow, there is no finite mode (separated data of
    /// which the prior says nothing), columns depend on each other where the prior says nothing, or
    /// Newton's method does not converge.
    pub fn fit(&self, design: &Design) -> Result<RegressionPosterior> {
        check_size("design", design.columns(), self.columns())?;
        if self.dispersion != Dispersion::Known(1.0) && design.response() != Response::Normal {
            return Err(Error::Unsupported {
                what: "a dispersion other than 1 for this response",
            });
        }
        self.check_intercept(design)?;
        if design.response().is_quadratic() {
            return self.fit_exactly(design);
        }
        let mut shifts = shifts(design, self.is_constant_free(), FAR);
        shifts.truncate(self.columns());
        if shifts.iter().any(|&shift| shift != 0.0) {
            let moved = design.shifted(&shifts);
            let posterior = self.fit(&moved)?;
            let shifted = Shifted {
                shifts,
                design: moved,
                posterior,
            };
            return RegressionPosterior::of_shifted(self, design, shifted);
        }
        let fitted = self.newton(design).and_then(|posterior| {
            self.check_mode(design, &posterior)?;
            Ok(posterior)
        });
        match fitted {
            Err(Error::NotConverged { .. } | Error::NotPositiveDefinite { .. })
                if self.is_unbounded(design) =>
            {
                Err(Error::NoMode {
                    reason: "the data are separated in a direction the prior says nothing of",
                })
            }
            fitted => self.widen_lower(design, fitted?),
        }
    }

    /// The posterior of a normal response, whose mode is the solution of linear equations.
    fn fit_exactly(&self, design: &Design) -> Result<RegressionPosterior> {
        let mut sums = gram(design, None, self.is_constant_free(), self.threads);
        sums.add_prior(self.divisor(), &self.prior, &self.prior_mode);
        let found = LeastSquares::new(&sums)?;
        RegressionPosterior::of_least_squares(self, design, found)
    }

    /// Refuses a mode that rounding made up: where the loss falls for ever, its fall is lost in
    /// rounding in the end. A prior of every covariate keeps the mode finite (that of the intercept
    /// is looked at beforehand), elsewhere the certificate must hold.
    fn check_mode(&self, design: &Design, posterior: &RegressionPosterior) -> Result<()> {
        let first = usize::from(design.has_intercept());
        let covariates: Vec<usize> = (first..self.columns()).collect();
        let prior = block(self.prior_precision.as_ref(), &covariates, &covariates);
        if cholesky("prior", prior.as_ref()).is_ok() {
            return Ok(());
        }
        let factor = posterior.laplace().precision_factor();
        let leverage = greatest_leverage(design, factor, self.threads);
        let decrement = posterior.squared_decrement();
        if decrement.sqrt() * leverage < CERTAIN {
            Ok(())
        } else {
            Err(Error::NotConverged {
                what: "Newton's method for regression",
                steps: posterior.steps(),
                residual: 0.5 * decrement,
            })
        }
    }

    /// Refuses data without information about an intercept that has no prior.
    fn check_intercept(&self, design: &Design) -> Result<()> {
        let unknown = design.has_intercept() && self.prior_precision[(0, 0)] == 0.0;
        let mean = design.mean_response();
        if unknown && !design.response().link(mean).is_finite() {
            return Err(Error::NoMode {
                reason: "every response is the same extreme value (or there is none), and the \
                         prior says nothing of the intercept",
            });
        }
        Ok(())
    }

    /// Whether some direction of which the prior says nothing lowers the loss for ever, judged by
    /// the direction in which Newton's method runs away.
    fn is_unbounded(&self, design: &Design) -> bool {
        let mut points = vec![self.start(design)];
        for _ in 0..UNBOUNDED_STEPS {
            let point = &points[points.len() - 1];
            let at = self.regularize(design, point, Demand::Curvature);
            let Ok(factor) = cholesky("Hessian", at.hessian.as_ref()) else {
                break;
            };
            let direction = solve(factor.as_ref(), &at.gradient);
            let decrement = dot(&at.gradient, &direction);
            match self.descend(design, point, &at, &direction, decrement) {
                Ok((next, _)) => points.push(next),
                Err(_) => break,
            }
        }
        // what still moves in the second half of the way does not come to rest
        let (middle, end) = (&points[points.len() / 2], &points[points.len() - 1]);
        let direction = difference(end, middle);
        let free = self.free_part(&direction);
        dot(&free, &free) > 1.0 && design.never_rises(&free)
    }

    /// Eigenvalues of `Δ`, 0 where they are rounding, and the eigenvectors as columns.
    fn prior_spectrum(&self) -> Option<(Vec<f64>, Mat<f64>)> {
        let (mut values, vectors) = eigen(self.prior_precision.as_ref())?;
        let rounding = 8.0 * values.len() as f64 * f64::EPSILON * values[values.len() - 1];
        for value in &mut values {
            *value = if *value <= rounding { 0.0 } else { *value };
        }
        Some((values, vectors))
    }

    /// The part of a direction that the prior says nothing of.
    fn free_part(&self, direction: &[f64]) -> Vec<f64> {
        let d = self.columns();
        let mut free = vec![0.0; d];
        if let Some((values, vectors)) = self.prior_spectrum() {
            for k in (0..d).filter(|&k| values[k] == 0.0) {
                let along: f64 = (0..d).map(|j| vectors[(j, k)] * direction[j]).sum();
                for (j, entry) in free.iter_mut().enumerate() {
                    *entry += along * vectors[(j, k)];
                }
            }
        }
        free
    }

    /// `½rᵀΔ⁺r`: how far the loss may lie above its minimum over a subspace along which its
    /// gradient is `r`, by the prior's curvature alone; `None` where `r` has a part that the prior
    /// says nothing of.
    fn prior_gap(&self, residual: &[f64]) -> Option<f64> {
        /// The gradient of rows that all have settled on straight lines underflows.
        const NOTHING: f64 = 1e-280;
        let (values, vectors) = self.prior_spectrum()?;
        let mut gap = 0.0;
        for (k, &value) in values.iter().enumerate() {
            let along: f64 = (0..residual.len())
                .map(|j| vectors[(j, k)] * residual[j])
                .sum();
            if value > 0.0 {
                gap += 0.5 * along * along / value;
            } else if along.abs() > NOTHING {
                return None;
            }
        }
        Some(gap)
    }

    /// Newton's method from [`Self::start`].
    fn newton(&self, design: &Design) -> Result<RegressionPosterior> {
        let mut coefficients = self.start(design);
        let mut at = self.regularize(design, &coefficients, Demand::Curvature);
        let mut previous = f64::INFINITY;
        let is_bernoulli = design.response() == Response::Bernoulli;
        let last = if is_bernoulli {
            Demand::Majorizer
        } else {
            Demand::Curvature
        };
        for step in 1..=self.max_steps {
            at.check_overflow(design)?;
            let factor = cholesky("Hessian of the regularized loss", at.hessian.as_ref())?;
            let direction = solve(factor.as_ref(), &at.gradient);
            let decrement = dot(&at.gradient, &direction);
            let noise = LOSS_NOISE * at.magnitude;
            let stalled = decrement <= noise && decrement >= 0.25 * previous;
            // a loss below 1 is that of data all but separated: there the curvature falls with the
            // loss
            let scale = if is_bernoulli { at.loss.min(1.0) } else { 1.0 };
            let tolerance = self.tolerance * scale;
            // Newton's method squares the decrement's root: d, then about d³/previous²
            let foreseen = decrement * (decrement / previous).powi(2);
            let nearly_there = decrement <= noise && 0.5 * foreseen <= tolerance;
            if 0.5 * decrement <= tolerance || stalled || nearly_there {
                for (w, p) in coefficients.iter_mut().zip(&direction) {
                    *w -= p;
                }
                let end = self.regularize(design, &coefficients, last);
                end.check_overflow(design)?;
                // by the Hessian before the step, which has hardly changed
                let left = dot(&end.gradient, &solve(factor.as_ref(), &end.gradient));
                if 0.5 * left <= tolerance || !nearly_there || stalled {
                    return RegressionPosterior::new(self, design, coefficients, step, end);
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
            what: "Newton's method for regression",
            steps: self.max_steps,
            residual: 0.5 * previous,
        })
    }

    /// In one dimension, replaces the lower Gaussian of a Bernoulli response by the widest where
    /// the data are few enough for it.
    fn widen_lower(
        &self,
        design: &Design,
        posterior: RegressionPosterior,
    ) -> Result<RegressionPosterior> {
        let can =
            self.columns() == 1 && design.rows() <= ROWS_FOR_WIDEST && posterior.lower().is_some();
        if !can {
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
        let noise = LOSS_NOISE * at.magnitude;
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
            what: "backtracking for regression",
            steps: HALVINGS,
            residual: 0.5 * decrement,
        })
    }
}

/// Columns whose mean is this many deviations are moved: it costs a copy of the data, and spares
/// the Hessian the loss of eight digits.
const FAR: f64 = 1e4;

/// Up to this many rows a few hundred more passes over one column take well under a second.
const ROWS_FOR_WIDEST: usize = 100_000;

/// A decrement times leverage below this is that of a minimum; along a fall without end it is 1.
const CERTAIN: f64 = 0.1;

/// Newton steps after which the direction of a runaway is plain.
const UNBOUNDED_STEPS: usize = 30;

/// Relative rounding noise of the loss: a difference below it says nothing.
const LOSS_NOISE: f64 = 64.0 * f64::EPSILON;

/// A step must gain this part of what the linear model promises.
const SUFFICIENT_DECREASE: f64 = 1e-4;

#[cfg(test)]
mod profile_tests;
#[cfg(test)]
mod tests;
