//! What a possibilistic regression knows after the data: mode, log consistency, the Laplace
//! approximation, and Gaussians `exp(-½(w-m)ᵀQ(w-m))` at the mode that bound the posterior.

use std::sync::Arc;

use faer::{Mat, MatRef};

use super::design::Design;
use super::exact::{ExactForm, LeastSquares, Triangle};
use super::gram::gram;
use super::kernel::{Demand, chord_curvatures, greatest_leverage, majorizer_curvature};
use super::marginal::{Marginal, MarginalBounds};
use super::response::Response;
use super::{Dispersion, Regression, Regularized, certificate, largest_ratio};
use crate::double::{Double, exact_dot};
use crate::error::{Error, Result, check, check_finite, check_size, not_certified};
use crate::family::conjugate::{Conjugate, Gamma};
use crate::linear::{cholesky, dot, solve, solve_lower};
use crate::normal::Normal;

/// A spread (see `exact.rs`) of this many times the number of columns: the inverse of a matrix of
/// rounded entries keeps twelve digits below it.
const DELICATE: f64 = 100.0;

/// The normal with precision `Σ fᵢxᵢxᵢᵀ + Δ`, which is given rounded, and the factors `fᵢ` in case
/// that is not enough.
fn weighted_normal(
    model: &Regression,
    design: &Design,
    mode: &[f64],
    rounded: Mat<f64>,
    factors: impl FnOnce() -> Vec<f64>,
) -> Result<Normal> {
    let normal = Normal::from_precision(mode.to_vec(), rounded.clone());
    let is_delicate = |normal: &Normal| {
        let covariance = normal.covariance();
        let d = mode.len();
        let spread = |j: usize| (rounded[(j, j)] * covariance[(j, j)]).sqrt();
        let spread: f64 = (0..d).map(spread).sum();
        spread.is_nan() || spread > DELICATE * d as f64
    };
    match normal {
        Ok(normal) if !is_delicate(&normal) => Ok(normal),
        normal => {
            let is_free = model.is_constant_free();
            let mut sums = gram(design, Some(&factors()), is_free, model.threads());
            sums.add_prior(1.0, &model.prior, &model.prior_mode);
            match Triangle::new(&sums) {
                Ok(triangle) => triangle.normal(mode.to_vec(), 1.0),
                Err(_) => normal,
            }
        }
    }
}

/// Supremum-marginal of `aᵀw` under a Gaussian, with the variance `aᵀQ⁻¹a`.
fn marginal(normal: &Normal, form: &[f64]) -> Result<Marginal> {
    let variance = normal.variance_along(form);
    Marginal::new(exact_dot(form, normal.mode()), variance.sqrt())
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
    /// Of a normal response, with the relative error of the dispersion.
    exact: Option<(LeastSquares, f64)>,
    /// The fit to columns moved toward 0, where they lie far from it.
    shifted: Option<Arc<Shifted>>,
}

/// Data with columns moved by `shifts`, beside a constant term that is free to make up for it, and
/// their posterior.
#[derive(Debug)]
pub(super) struct Shifted {
    pub(super) shifts: Vec<f64>,
    pub(super) design: Design,
    pub(super) posterior: RegressionPosterior,
}

impl Shifted {
    /// A linear form of the coefficients in terms of those of the moved columns.
    pub(super) fn form(&self, form: &[f64]) -> Vec<f64> {
        let first = form[0];
        let pairs = form.iter().zip(&self.shifts);
        pairs
            .map(|(&a, &shift)| (Double::from(a) - Double::product(first, shift)).round())
            .collect()
    }

    /// The mode of the coefficients of the columns as they are.
    fn mode(&self) -> Vec<f64> {
        let mut mode = self.posterior.mode().to_vec();
        let pairs = mode.iter().zip(&self.shifts);
        let terms = pairs.map(|(&m, &shift)| Double::product(m, shift));
        mode[0] = terms
            .fold(mode[0].into(), |first: Double, term| first - term)
            .round();
        mode
    }
}

impl RegressionPosterior {
    /// The posterior of a normal response.
    pub(super) fn of_least_squares(
        model: &Regression,
        design: &Design,
        found: LeastSquares,
    ) -> Result<Self> {
        let weight = design.total_weight();
        let (dispersion, error, loss) = match model.dispersion() {
            Dispersion::Known(known) => (known, 0.0, 0.5 * found.squares / known),
            // φ is half the least sum of squares at its supremum, and scales the precision
            Dispersion::Unknown => {
                if weight <= 0.0 || found.squares <= found.negligible {
                    return Err(Error::NoMode {
                        reason: "the responses are fitted exactly, and the variance is unknown",
                    });
                }
                let error = found.squares_error / (found.squares - found.squares_error);
                (found.squares / weight, error, 0.5 * weight)
            }
        };
        let mode = found.mode();
        let gradient = model.regularize(design, &mode, Demand::Gradient).gradient;
        Ok(Self {
            rows: design.rows(),
            weight,
            dispersion,
            steps: 1,
            loss,
            log_consistency: design.log_base(dispersion) - loss,
            gradient_norm: dot(&gradient, &gradient).sqrt(),
            squared_decrement: found.mode_error(dispersion).powi(2),
            laplace: found.triangle().normal(mode, dispersion)?,
            upper: None,
            lower: None,
            certified_scaling: None,
            exact: Some((found, error)),
            shifted: None,
        })
    }

    /// The posterior of the data as they are, from that of moved columns.
    pub(super) fn of_shifted(
        model: &Regression,
        design: &Design,
        shifted: Shifted,
    ) -> Result<Self> {
        let (mode, inner) = (shifted.mode(), &shifted.posterior);
        let demand = match design.response() {
            Response::Bernoulli => Demand::Majorizer,
            _ => Demand::Curvature,
        };
        let at = model.regularize(design, &mode, demand);
        let found = Self::new(model, design, mode, inner.steps, at)?;
        Ok(Self {
            loss: inner.loss,
            log_consistency: inner.log_consistency,
            squared_decrement: inner.squared_decrement,
            gradient_norm: inner.gradient_norm,
            shifted: Some(Arc::new(shifted)),
            ..found
        })
    }

    pub(super) fn shifted(&self) -> Option<&Shifted> {
        self.shifted.as_deref()
    }

    /// A linear form in closed form, of a normal response.
    pub(super) fn exact_form(&self, form: &[f64]) -> Option<ExactForm> {
        let (found, error) = self.exact.as_ref()?;
        Some(found.form(form, self.dispersion, *error))
    }

    /// The value of possibility 1 of a linear form.
    pub(super) fn form_mode(&self, form: &[f64]) -> f64 {
        match &self.exact {
            Some((found, _)) => found.form_mode(form).round(),
            None => exact_dot(form, self.mode()),
        }
    }

    pub(super) fn new(
        model: &Regression,
        design: &Design,
        mode: Vec<f64>,
        steps: usize,
        at: Regularized,
    ) -> Result<Self> {
        let response = design.response();
        let prior = model.prior_precision();
        let factors = |curvature: &dyn Fn(f64) -> f64| -> Vec<f64> {
            let rows = 0..design.rows();
            rows.map(|i| design.weight(i) * curvature(exact_dot(&design.row(i), &mode)))
                .collect()
        };
        let laplace = weighted_normal(model, design, &mode, at.hessian, || {
            factors(&|z| response.curvature(z))
        })?;
        let factor = laplace.precision_factor();
        let (mut upper, mut lower, mut certified_scaling) = (None, None, None);
        if response == Response::Bernoulli {
            let parabolas = weighted_normal(model, design, &mode, at.lower, || {
                factors(&majorizer_curvature)
            })?;
            certified_scaling = Some(largest_ratio(parabolas.precision_factor(), factor)?);
            lower = Some(parabolas);
            if cholesky("prior precision", prior).is_ok() {
                upper = Some(Normal::from_precision(mode.clone(), prior.to_owned())?);
            }
        }
        let dispersion = model.divisor();
        Ok(Self {
            rows: design.rows(),
            weight: design.total_weight(),
            dispersion,
            steps,
            loss: at.loss,
            log_consistency: design.log_base(dispersion) - at.loss,
            gradient_norm: dot(&at.gradient, &at.gradient).sqrt(),
            squared_decrement: dot(&at.gradient, &solve(factor, &at.gradient)).max(0.0),
            laplace,
            upper,
            lower,
            certified_scaling,
            exact: None,
            shifted: None,
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
        if let Some(shifted) = self.shifted() {
            return marginal(&shifted.posterior.laplace, &shifted.form(form));
        }
        match self.exact_form(form) {
            Some(exact) => Marginal::new(exact.mode.round(), exact.variance.sqrt()),
            None => marginal(&self.laplace, form),
        }
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
        if design.response().is_quadratic() {
            return Ok(GaussianBounds {
                alpha,
                upper: posterior.laplace().clone(),
                lower: posterior.laplace().clone(),
            });
        }
        let level = -alpha.ln();
        let factor = posterior.laplace().precision_factor();
        let leverage = greatest_leverage(design, factor, self.threads());
        let reach = certificate::reach(level, leverage);
        let mut bounds = self.chord_normals(design, posterior, &[(reach, factor)])?;
        for _ in 1..BOUND_ROUNDS {
            // on the cut ½‖v‖² ≤ level in the norm of any upper Gaussian found so far
            let tighter = bounds.0.precision_factor();
            let reaches = [(reach, factor), ((2.0 * level).sqrt(), tighter)];
            bounds = self.chord_normals(design, posterior, &reaches)?;
        }
        let (upper, lower) = bounds;
        Ok(GaussianBounds {
            alpha,
            upper,
            lower,
        })
    }

    /// The upper and the lower Gaussian for given reaches of the rows.
    fn chord_normals(
        &self,
        design: &Design,
        posterior: &RegressionPosterior,
        reaches: &[(f64, MatRef<'_, f64>)],
    ) -> Result<(Normal, Normal)> {
        let (d, mode) = (self.columns(), posterior.mode());
        let [least, greatest] = chord_curvatures(design, mode, reaches, self.threads());
        let normal = |triangle: &[f64], chord: &dyn Fn(f64, f64) -> f64| {
            let rounded = Mat::from_fn(d, d, |i, j| {
                triangle[i.max(j) * d + i.min(j)] + self.prior_precision()[(i, j)]
            });
            let factor = |i: usize| {
                let row = design.row(i);
                let reach = reaches.iter().map(|(size, factor)| {
                    let mut root = row.clone();
                    solve_lower(*factor, &mut root);
                    size * dot(&root, &root).sqrt()
                });
                let reach = reach.fold(f64::INFINITY, f64::min);
                design.weight(i) * chord(exact_dot(&row, mode), reach)
            };
            let factors = || (0..design.rows()).map(factor).collect();
            weighted_normal(self, design, mode, rounded, factors).map_err(|_| {
                not_certified(
                    "the curvature over the α-cut has no bound within reach of f64",
                    0.0,
                    1.0,
                )
            })
        };
        let response = design.response();
        Ok((
            normal(&least, &|z, reach| response.least_chord(z, reach))?,
            normal(&greatest, &|z, reach| response.greatest_chord(z, reach))?,
        ))
    }
}
