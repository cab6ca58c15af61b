//! What a possibilistic logistic regression knows after the data: mode, log consistency, and the
//! Laplace, upper and lower Gaussians `exp(-½(w-m)ᵀQ(w-m))` at the mode, with their marginals and
//! predictions.

use super::design::Design;
use super::marginal::{Bounds, Marginal, MarginalBounds};
use super::{Logistic, Regularized, largest_ratio};
use crate::error::{Error, Result, check_finite, check_size};
use crate::linear::{dot, multiply};
use crate::normal::Normal;
use crate::numeric::sigmoid;
use crate::set::{Interval, RealSet};
use crate::univariate::Univariate;

/// Supremum-marginal of coefficient `j`.
fn coefficient(normal: &Normal, j: usize) -> Result<Marginal> {
    Marginal::new(normal.mode()[j], normal.covariance()[(j, j)].sqrt())
}

/// Supremum-marginal of `xᵀw`, with the variance `xᵀQ⁻¹x`; a row of zeros is known to give 0.
fn linear_function(normal: &Normal, row: &[f64]) -> Result<Marginal> {
    let variance = dot(row, &multiply(normal.covariance(), row));
    Marginal::new(dot(row, normal.mode()), variance.max(0.0).sqrt())
}

/// The posterior of a possibilistic logistic regression, bounded by Gaussians at its mode.
#[derive(Debug, Clone)]
pub struct LogisticPosterior {
    rows: usize,
    covariates: usize,
    intercept: bool,
    steps: usize,
    log_consistency: f64,
    gradient_norm: f64,
    laplace: Normal,
    upper: Normal,
    lower: Normal,
    certified_scaling: f64,
}

impl LogisticPosterior {
    pub(super) fn new(
        model: &Logistic,
        design: &Design,
        mode: Vec<f64>,
        steps: usize,
        at: Regularized,
    ) -> Result<Self> {
        let certified_scaling = largest_ratio(at.lower.as_ref(), at.hessian.as_ref())?;
        Ok(Self {
            rows: design.rows(),
            covariates: design.covariates(),
            intercept: design.has_intercept(),
            steps,
            log_consistency: -at.loss,
            gradient_norm: dot(&at.gradient, &at.gradient).sqrt(),
            laplace: Normal::from_precision(mode.clone(), at.hessian)?,
            upper: Normal::from_precision(mode.clone(), model.prior_precision().to_owned())?,
            lower: Normal::from_precision(mode, at.lower)?,
            certified_scaling,
        })
    }

    /// The same with another lower Gaussian, in one dimension.
    pub(super) fn with_lower_precision(mut self, precision: f64) -> Result<Self> {
        let mode = self.lower.mode()[0];
        self.certified_scaling = precision / self.laplace.precision()[(0, 0)];
        self.lower = Normal::isotropic([mode], precision)?;
        Ok(self)
    }

    /// Number of observations.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of coefficients.
    pub fn columns(&self) -> usize {
        self.mode().len()
    }

    /// The mode `m`: the coefficients of possibility 1.
    pub fn mode(&self) -> &[f64] {
        self.laplace.mode()
    }

    /// `log sup_w L(w)π(w)`: how well data and prior agree.
    pub fn log_consistency(&self) -> f64 {
        self.log_consistency
    }

    /// Newton steps taken.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Euclidean norm of the gradient of the regularized loss at the mode: zero up to rounding.
    pub fn gradient_norm(&self) -> f64 {
        self.gradient_norm
    }

    /// Same curvature as the posterior at the mode; in general neither above nor below it.
    pub fn laplace(&self) -> &Normal {
        &self.laplace
    }

    /// The least Gaussian at the mode that lies above the posterior: its precision is the prior's.
    pub fn upper(&self) -> &Normal {
        &self.upper
    }

    /// A Gaussian at the mode that lies below the posterior: the widest one in one dimension, in
    /// several the one whose precision sums the parabolas that touch each observation's loss.
    pub fn lower(&self) -> &Normal {
        &self.lower
    }

    /// `c = λ_max(H^{-½}PH^{-½}) ≥ 1`: the Gaussian with precision `cH` lies below the posterior.
    pub fn certified_scaling(&self) -> f64 {
        self.certified_scaling
    }

    /// Coefficient `j` (0 is the intercept where there is one) under the three Gaussians.
    ///
    /// # Errors
    /// There is no such coefficient.
    pub fn coefficient(&self, j: usize) -> Result<MarginalBounds> {
        if j >= self.columns() {
            return Err(Error::OutOfRange {
                field: "coefficient",
                value: j as f64,
                range: "0..columns",
            });
        }
        Ok(MarginalBounds {
            laplace: coefficient(&self.laplace, j)?,
            upper: coefficient(&self.upper, j)?,
            lower: coefficient(&self.lower, j)?,
        })
    }

    /// The linear function `xᵀw` under the three Gaussians; `x` has one entry for each column.
    ///
    /// # Errors
    /// The row has the wrong size or an entry that is not finite.
    pub fn linear_function(&self, row: &[f64]) -> Result<MarginalBounds> {
        check_size("row", row.len(), self.columns())?;
        check_finite("row", row)?;
        Ok(MarginalBounds {
            laplace: linear_function(&self.laplace, row)?,
            upper: linear_function(&self.upper, row)?,
            lower: linear_function(&self.lower, row)?,
        })
    }

    /// The prediction for a new observation, given by its covariates without the intercept.
    ///
    /// ```
    /// use possibility::logistic::{Design, LogisticConfig};
    /// let mut design = Design::with_intercept(1);
    /// for (x, y) in [(-1.0, false), (0.0, true), (0.5, false), (2.0, true)] {
    ///     design.push(&[x], y)?;
    /// }
    /// let posterior = LogisticConfig::default().build(2)?.fit(&design)?;
    /// let prediction = posterior.predict(&[3.0])?;
    /// assert!(prediction.probability() > 0.5);
    /// let (inner, outer) = prediction.probability_cut(0.2)?;
    /// assert!(outer.lower() <= inner.lower() && inner.upper() <= outer.upper());
    /// # Ok::<(), possibility::Error>(())
    /// ```
    ///
    /// # Errors
    /// The number of covariates is wrong or one is not finite.
    pub fn predict(&self, covariates: &[f64]) -> Result<Prediction> {
        check_size("row of covariates", covariates.len(), self.covariates)?;
        let mut row = Vec::with_capacity(self.columns());
        if self.intercept {
            row.push(1.0);
        }
        row.extend_from_slice(covariates);
        Ok(Prediction {
            linear: self.linear_function(&row)?,
        })
    }
}

/// What is possible for a new observation: its linear predictor `xᵀw` and its probability `σ(xᵀw)`.
///
/// Possibility needs no Jacobian: the probability has the possibility of its linear predictor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prediction {
    /// `xᵀw` under the three Gaussians.
    pub linear: MarginalBounds,
}

impl Prediction {
    /// The most possible probability that `y = 1`, `σ(xᵀm)`.
    pub fn probability(&self) -> f64 {
        sigmoid(self.linear.laplace.mode())
    }

    /// The inner and the outer interval around the α-cut of the probability that `y = 1`.
    ///
    /// # Errors
    /// `alpha` is not in `(0, 1]`.
    pub fn probability_cut(&self, alpha: f64) -> Result<(Interval, Interval)> {
        let (inner, outer) = self.linear.cut(alpha)?;
        Ok((through_sigmoid(inner)?, through_sigmoid(outer)?))
    }

    /// The α-cut of the probability under the Laplace approximation.
    ///
    /// # Errors
    /// `alpha` is not in `(0, 1]`.
    pub fn laplace_probability_cut(&self, alpha: f64) -> Result<Interval> {
        through_sigmoid(self.linear.laplace.cut(alpha)?)
    }

    /// Bounds of the possibility that the probability lies in a set.
    ///
    /// # Errors
    /// None for sets of numbers.
    pub fn possibility_of(&self, probabilities: &RealSet) -> Result<Bounds> {
        self.linear.possibility_of(&through_logit(probabilities))
    }

    /// Bounds of the necessity that the probability lies in a set.
    ///
    /// # Errors
    /// None for sets of numbers.
    pub fn necessity_of(&self, probabilities: &RealSet) -> Result<Bounds> {
        self.linear.necessity_of(&through_logit(probabilities))
    }

    /// Bounds of the possibility that `y = 1` is ahead, `σ(xᵀw) > ½`.
    pub fn possibility_ahead(&self) -> Bounds {
        Bounds {
            lower: self.linear.lower.positive().possibility,
            upper: self.linear.upper.positive().possibility,
        }
    }

    /// Bounds of the necessity that `y = 1` is ahead.
    pub fn necessity_ahead(&self) -> Bounds {
        Bounds {
            lower: self.linear.upper.positive().necessity,
            upper: self.linear.lower.positive().necessity,
        }
    }
}

/// Image of a closed interval under `σ`.
fn through_sigmoid(cut: Interval) -> Result<Interval> {
    Interval::closed(sigmoid(cut.lower()), sigmoid(cut.upper()))
}

/// `{z : σ(z) ∈ set}`, the ends `±∞` standing for the probabilities 0 and 1.
fn through_logit(probabilities: &RealSet) -> RealSet {
    let logit = |p: f64| {
        if p <= 0.0 {
            f64::NEG_INFINITY
        } else if p >= 1.0 {
            f64::INFINITY
        } else {
            p.ln() - (-p).ln_1p()
        }
    };
    let unit = RealSet::from_iter(Interval::closed(0.0, 1.0));
    probabilities
        .intersection(&unit)
        .parts()
        .iter()
        .filter_map(|part| {
            Interval::new(
                logit(part.lower()),
                logit(part.upper()),
                part.contains_lower(),
                part.contains_upper(),
            )
            .ok()
        })
        .collect()
}
