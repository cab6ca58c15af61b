//! What a possibilistic regression knows after the data: mode, log consistency, the Laplace
//! approximation, and Gaussians `exp(-½(w-m)ᵀQ(w-m))` at the mode that bound the posterior.

use faer::{Mat, MatRef};

use super::design::Design;
use super::kernel::{chord_curvatures, greatest_leverage};
use super::marginal::{Marginal, MarginalBounds};
use super::response::Response;
use super::{Dispersion, Regression, Regularized, certificate, largest_ratio};
use crate::error::{Error, Result, check, check_finite, check_size, not_certified};
use crate::family::conjugate::{Conjugate, Gamma};
use crate::linear::{cholesky, dot, multiply, solve};
use crate::normal::Normal;

/// Supremum-marginal of `aᵀw` under a Gaussian, with the variance `aᵀQ⁻¹a`.
fn marginal(normal: &Normal, form: &[f64]) -> Result<Marginal> {
    let variance = dot(form, &multiply(normal.covariance(), form));
    Marginal::new(dot(form, normal.mode()), variance.max(0.0).sqrt())
}

/// The posterior of a possibilistic regression.
#[derive(Debug, Clone)]
pub struct RegressionPosterior {
    rows: usize,
    weight: f64,
    dispersion: f64,
    steps: usize,
    loss: f64,
    log_consistency: f64,
    gradient_norm: f64,
    squared_decrement: f64,
    laplace: Normal,
    upper: Option<Normal>,
    lower: Option<Normal>,
    certified_scaling: Option<f64>,
}

impl RegressionPosterior {
    pub(super) fn new(
        model: &Regression,
        design: &Design,
        mode: Vec<f64>,
        steps: usize,
        at: Regularized,
    ) -> Result<Self> {
        let factor = cholesky("Hessian of the regularized loss", at.hessian.as_ref())?;
        let weight = design.total_weight();
        let is_bernoulli = design.response() == Response::Bernoulli;
        let prior = model.prior_precision();
        let everywhere = |precision: Mat<f64>| Normal::from_precision(mode.clone(), precision);
        let (mut upper, mut lower, mut certified_scaling) = (None, None, None);
        if is_bernoulli {
            certified_scaling = Some(largest_ratio(at.lower.as_ref(), at.hessian.as_ref())?);
            lower = Some(everywhere(at.lower)?);
            if cholesky("prior precision", prior).is_ok() {
                upper = Some(everywhere(prior.to_owned())?);
            }
        }
        let (dispersion, hessian) = match model.dispersion() {
            Dispersion::Known(known) => (known, at.hessian),
            // ℓ̂ is half the sum of squares here: φ is its supremum, and scales the precision
            Dispersion::Unknown => {
                let estimate = 2.0 * at.loss / weight;
                let rounding = at.magnitude * f64::EPSILON;
                if estimate.is_nan() || at.loss <= rounding {
                    return Err(Error::NoMode {
                        reason: "the responses are fitted exactly, and the variance is unknown",
                    });
                }
                let scaled =
                    Mat::from_fn(mode.len(), mode.len(), |i, j| at.hessian[(i, j)] / estimate);
                (estimate, scaled)
            }
        };
        let loss = match model.dispersion() {
            Dispersion::Known(_) => at.loss,
            Dispersion::Unknown => 0.5 * weight,
        };
        Ok(Self {
            rows: design.rows(),
            weight,
            dispersion,
            steps,
            loss,
            log_consistency: design.log_base(dispersion) - loss,
            gradient_norm: dot(&at.gradient, &at.gradient).sqrt(),
            squared_decrement: dot(&at.gradient, &solve(factor.as_ref(), &at.gradient)).max(0.0),
            laplace: Normal::from_precision(mode.clone(), hessian)?,
            upper,
            lower,
            certified_scaling,
        })
    }

    /// The same with another lower Gaussian, in one dimension.
    pub(super) fn with_lower_precision(mut self, precision: f64) -> Result<Self> {
        let mode = self.mode()[0];
        self.certified_scaling = Some(precision / self.laplace.precision()[(0, 0)]);
        self.lower = Some(Normal::isotropic([mode], precision)?);
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

    /// `ℓ̂(m)`.
    pub(super) fn loss(&self) -> f64 {
        self.loss
    }

    /// Squared Newton decrement at the mode.
    pub(super) fn squared_decrement(&self) -> f64 {
        self.squared_decrement
    }

    /// `Σ cᵢ`, the number of observations where no weight is given.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// `φ`: the known one, or its most possible value.
    pub fn dispersion(&self) -> f64 {
        self.dispersion
    }

    /// The possibility function of an unknown variance `φ` of a normal response, the coefficients
    /// profiled out: `((s/φ) exp(1 - s/φ))^{n/2}` with `s` the mean of the squared residuals. It is
    /// that of the mean of a gamma variable of shape ½.
    ///
    /// # Errors
    /// None for a fitted posterior.
    pub fn dispersion_profile(&self) -> Result<Conjugate<Gamma>> {
        Conjugate::new(Gamma::new(0.5)?, &[self.dispersion], self.weight)
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

    /// Same curvature as the posterior at the mode: an approximation, in general neither above nor
    /// below it; for a normal response of known variance the posterior itself.
    pub fn laplace(&self) -> &Normal {
        &self.laplace
    }

    /// The supremum-marginal of `aᵀw` under the Laplace approximation.
    ///
    /// # Errors
    /// The form has the wrong size or an entry that is not finite.
    pub fn laplace_marginal(&self, form: &[f64]) -> Result<Marginal> {
        check_size("linear form", form.len(), self.columns())?;
        check_finite("linear form", form)?;
        marginal(&self.laplace, form)
    }

    /// The least Gaussian at the mode that lies above the posterior everywhere: its precision is
    /// the prior's. For a Bernoulli response and a prior without free directions; tighter where it
    /// matters is [`Regression::bounds_above`].
    pub fn upper(&self) -> Option<&Normal> {
        self.upper.as_ref()
    }

    /// A Gaussian at the mode that lies below the posterior of a Bernoulli response everywhere: the
    /// widest one in one dimension, in several the one whose precision sums the parabolas that
    /// touch each observation's loss.
    pub fn lower(&self) -> Option<&Normal> {
        self.lower.as_ref()
    }

    pub(super) fn bernoulli_lower(&self) -> Result<&Normal> {
        self.lower.as_ref().ok_or(Error::Unsupported {
            what: "a Gaussian below the posterior everywhere, for a response that is not Bernoulli",
        })
    }

    /// `c = λ_max(H^{-½}PH^{-½}) ≥ 1` for a Bernoulli response: the Gaussian with precision `cH`
    /// lies below the posterior everywhere.
    pub fn certified_scaling(&self) -> Option<f64> {
        self.certified_scaling
    }
}

/// Two Gaussians at the mode that bound the posterior where it is at least `alpha`.
///
/// The upper one lies above the posterior wherever the posterior is at least `alpha`; the lower one
/// lies below it wherever the lower one is at least `alpha`. So the α-cut of the posterior lies
/// between theirs for every level of at least `alpha`.
#[derive(Debug, Clone)]
pub struct GaussianBounds {
    /// The level down to which the bounds hold.
    pub alpha: f64,
    /// Above the posterior.
    pub upper: Normal,
    /// Below the posterior.
    pub lower: Normal,
}

impl GaussianBounds {
    /// The bounds of the supremum-marginal of `aᵀw`, beside the Laplace approximation.
    ///
    /// # Errors
    /// The form has the wrong size or an entry that is not finite.
    pub fn marginal(
        &self,
        posterior: &RegressionPosterior,
        form: &[f64],
    ) -> Result<MarginalBounds> {
        Ok(MarginalBounds {
            laplace: posterior.laplace_marginal(form)?,
            upper: marginal(&self.upper, form)?,
            lower: marginal(&self.lower, form)?,
        })
    }
}

/// Each round makes the bounds tighter; after this many little is left to gain.
const BOUND_ROUNDS: usize = 3;

impl Regression {
    /// The Gaussians at the mode that bound the posterior where it is at least `alpha`, from the
    /// curvature of the data there. For a known dispersion; a few passes over the data.
    ///
    /// ```
    /// use possibility::Univariate;
    /// use possibility::regression::{Design, Profiles, RegressionConfig, Response};
    /// let mut design = Design::with_intercept(Response::Poisson, 1);
    /// for (x, y) in [(0.0, 2.0), (1.0, 1.0), (2.0, 6.0), (3.0, 9.0)] {
    ///     design.push(&[x], y)?;
    /// }
    /// let model = RegressionConfig::default().build(2)?;
    /// let posterior = model.fit(&design)?;
    /// let bounds = model.bounds_above(&design, &posterior, 0.05)?;
    /// let slope = bounds.marginal(&posterior, &[0.0, 1.0])?;
    /// let exact = Profiles::new(&model, &design, &posterior)?.cut(&[0.0, 1.0], 0.05)?;
    /// assert!(slope.upper.cut(0.05)?.lower() < exact.lower());
    /// assert!(exact.lower() < slope.lower.cut(0.05)?.lower());
    /// # Ok::<(), possibility::Error>(())
    /// ```
    ///
    /// # Errors
    /// `alpha` is not in `(0, 1)`, the dispersion is unknown, or no bound of the curvature over the
    /// α-cut is within reach of `f64` ([`Error::NotCertified`]).
    pub fn bounds_above(
        &self,
        design: &Design,
        posterior: &RegressionPosterior,
        alpha: f64,
    ) -> Result<GaussianBounds> {
        check("alpha", alpha, "(0, 1)", |a| a > 0.0 && a < 1.0)?;
        if self.dispersion() == Dispersion::Unknown {
            return Err(Error::Unsupported {
                what: "Gaussian bounds for an unknown dispersion",
            });
        }
        let level = -alpha.ln();
        let factor = cholesky("Laplace precision", posterior.laplace().precision())?;
        let leverage = greatest_leverage(design, factor.as_ref(), self.threads());
        let reach = certificate::reach(level, leverage);
        let (mut upper, mut lower) =
            self.chord_precisions(design, posterior, &[(reach, factor.as_ref())]);
        for _ in 1..BOUND_ROUNDS {
            // on the cut ½‖v‖² ≤ level in the norm of any upper Gaussian found so far
            let tighter = cholesky("upper precision", upper.as_ref())?;
            let reaches = [
                (reach, factor.as_ref()),
                ((2.0 * level).sqrt(), tighter.as_ref()),
            ];
            (upper, lower) = self.chord_precisions(design, posterior, &reaches);
        }
        let bound = |precision: Mat<f64>| {
            let normal = Normal::from_precision(posterior.mode().to_vec(), precision);
            normal.map_err(|_| {
                not_certified(
                    "the curvature over the α-cut has no bound within reach of f64",
                    0.0,
                    1.0,
                )
            })
        };
        Ok(GaussianBounds {
            alpha,
            upper: bound(upper)?,
            lower: bound(lower)?,
        })
    }

    /// The upper and the lower precision for given reaches of the rows.
    fn chord_precisions(
        &self,
        design: &Design,
        posterior: &RegressionPosterior,
        reaches: &[(f64, MatRef<'_, f64>)],
    ) -> (Mat<f64>, Mat<f64>) {
        let d = self.columns();
        let [least, greatest] = chord_curvatures(design, posterior.mode(), reaches, self.threads());
        let matrix = |triangle: &[f64]| {
            Mat::from_fn(d, d, |i, j| {
                triangle[i.max(j) * d + i.min(j)] / self.divisor() + self.prior_precision()[(i, j)]
            })
        };
        (matrix(&least), matrix(&greatest))
    }
}
