//! Possibilistic variational inference with exponential-family candidates. Paper: Section 5.2.
//!
//! A candidate is `g_η(θ) = exp(-D_A(θ‖η))` for a convex generator `A`; its mode is `η`. With the
//! sign `s = +1` for the upper and `s = -1` for the lower consistency bound,
//!
//! ```text
//! CBO_s(η)   = ext_θ { -ℓ̂(θ) + D_A(θ‖η) },     ext = sup for s = +1, inf for s = -1,
//! ∇CBO_s(η)  = ∇²A(η)(η - θ_s),                 θ_s the point where the extremum is attained (Danskin),
//! H_s(η)     = s(∇²ℓ̂(η) - ∇²A(η)) ≻ 0           the curvature condition,
//! η_{t+1}    = η_t - ρ H_s(η_t)⁻¹ ∇ℓ̂(η_t)       the Newton-like natural-gradient step on s CBO_s.
//! ```
//!
//! The step is a mirror descent step in the dual coordinate `λ = ∇A(η)`:
//! [`Variational::mirror_step`]. The paper tries isotropic normal candidates only; here are
//! diagonal and full ones ([`NormalGenerator`]) and every conjugate family ([`FamilyGenerator`]).

use faer::{Mat, MatRef};

use crate::error::{
    Error, Result, check_finite, check_not_negative, check_positive, check_real, check_size,
    not_certified,
};
use crate::family::conjugate::{Conjugate, ConjugateFamily};
use crate::linear;
use crate::newton::{Convex, minimize};
use crate::smooth::{Curvature, SmoothLoss};

/// Which consistency bound is optimized.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// `s = +1`: minimize the upper bound; candidates overestimate.
    Upper,
    /// `s = -1`: maximize the lower bound; candidates underestimate.
    Lower,
}

impl Side {
    /// `s`.
    pub fn sign(self) -> f64 {
        match self {
            Self::Upper => 1.0,
            Self::Lower => -1.0,
        }
    }
}

/// A convex generator `A` of Legendre type, which makes candidates `exp(-D_A(θ‖η))`.
pub trait Generator {
    /// Dimension of `θ`.
    fn dimension(&self) -> usize;

    /// Whether `θ` is in the domain.
    ///
    /// # Errors
    /// The length is wrong or an entry outside.
    fn check(&self, theta: &[f64]) -> Result<()>;

    /// `∇A(θ)`.
    fn gradient(&self, theta: &[f64]) -> Vec<f64>;

    /// `∇²A(θ)`.
    fn hessian(&self, theta: &[f64]) -> Mat<f64>;

    /// `∇A†(λ) = (∇A)⁻¹(λ)`.
    ///
    /// # Errors
    /// `λ` is no gradient of `A`.
    fn inverse_gradient(&self, dual: &[f64]) -> Result<Vec<f64>>;

    /// `D_A(θ‖η) = A(θ) - A(η) - ∇A(η)ᵀ(θ - η)`.
    fn divergence(&self, theta: &[f64], eta: &[f64]) -> f64;

    /// Bounds `(a, b)` with `a∇²A ⪯ ∇²ℓ̂ ⪯ b∇²A` everywhere, from what the loss says of its
    /// curvature.
    fn relative_curvature(&self, curvature: &Curvature) -> (f64, f64);

    /// `(a, b)` with `(a + o(1)) A ⪯ ℓ̂ ⪯ (b + o(1)) A` far out along some direction each, if
    /// known: smallest and largest growth of the loss in units of the candidate.
    fn relative_growth(&self, curvature: &Curvature) -> Option<(f64, f64)>;
}

/// The generator `½θᵀPθ` of normal candidates `N̄(η, P⁻¹)`: isotropic, diagonal or full.
///
/// ```
/// use possibility::variational::{Generator, NormalGenerator};
/// let candidate = NormalGenerator::diagonal(&[2.0, 0.5])?;
/// assert_eq!(candidate.gradient(&[1.0, 2.0]), [2.0, 1.0]);
/// assert_eq!(candidate.divergence(&[1.0, 2.0], &[0.0, 0.0]), 2.0);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct NormalGenerator {
    precision: Mat<f64>,
    /// Cholesky factor; `None` for the degenerate precision 0.
    factor: Option<Mat<f64>>,
}

impl NormalGenerator {
    /// Precision `ϑI` in `dimension` dimensions; `ϑ = 0` ignores the curvature of the candidate,
    /// which then is the uninformative function.
    ///
    /// # Errors
    /// `precision` is not in `[0, ∞)`, or the dimension is 0.
    pub fn isotropic(dimension: usize, precision: f64) -> Result<Self> {
        check_not_negative("precision", precision)?;
        if precision == 0.0 {
            check_not_empty(dimension)?;
            return Ok(Self {
                precision: Mat::zeros(dimension, dimension),
                factor: None,
            });
        }
        Self::diagonal(&vec![precision; dimension])
    }

    /// One precision per coordinate.
    ///
    /// # Errors
    /// A precision is not in `(0, ∞)`, or there is none.
    pub fn diagonal(precisions: &[f64]) -> Result<Self> {
        let d = precisions.len();
        Self::full(Mat::from_fn(
            d,
            d,
            |i, j| if i == j { precisions[i] } else { 0.0 },
        ))
    }

    /// Any symmetric positive definite precision matrix.
    ///
    /// # Errors
    /// The matrix is empty, not symmetric or not positive definite.
    pub fn full(precision: Mat<f64>) -> Result<Self> {
        let d = precision.nrows();
        check_not_empty(d)?;
        let precision = linear::symmetric("precision", precision, d)?;
        let factor = Some(linear::cholesky("precision", precision.as_ref())?);
        Ok(Self { precision, factor })
    }

    /// The precision matrix.
    pub fn precision(&self) -> MatRef<'_, f64> {
        self.precision.as_ref()
    }

    /// Eigenvalues of `P^{-1/2} M P^{-1/2}`, in increasing order.
    fn relative_eigenvalues(&self, matrix: &Mat<f64>) -> Option<Vec<f64>> {
        let factor = self.factor.as_ref()?;
        if matrix == &self.precision {
            // equality is common and must not be lost in rounding
            return Some(vec![1.0; matrix.nrows()]);
        }
        let half = linear::solve_lower_matrix(factor.as_ref(), matrix.as_ref());
        let both = linear::solve_lower_matrix(factor.as_ref(), half.transpose());
        linear::eigen(linear::mirrored(both).as_ref()).map(|(values, _)| values)
    }
}

fn check_not_empty(dimension: usize) -> Result<()> {
    if dimension == 0 {
        Err(Error::Empty { name: "candidate" })
    } else {
        Ok(())
    }
}

impl Generator for NormalGenerator {
    fn dimension(&self) -> usize {
        self.precision.nrows()
    }

    fn check(&self, theta: &[f64]) -> Result<()> {
        check_size("parameter", theta.len(), self.dimension())?;
        check_finite("parameter", theta)
    }

    fn gradient(&self, theta: &[f64]) -> Vec<f64> {
        linear::multiply(self.precision.as_ref(), theta)
    }

    fn hessian(&self, _theta: &[f64]) -> Mat<f64> {
        self.precision.clone()
    }

    fn inverse_gradient(&self, dual: &[f64]) -> Result<Vec<f64>> {
        match &self.factor {
            Some(factor) => Ok(linear::solve(factor.as_ref(), dual)),
            None => Err(Error::OutOfRange {
                field: "precision of the candidate",
                value: 0.0,
                range: "(0, inf)",
            }),
        }
    }

    fn divergence(&self, theta: &[f64], eta: &[f64]) -> f64 {
        let step = linear::difference(theta, eta);
        0.5 * linear::dot(&step, &linear::multiply(self.precision.as_ref(), &step))
    }

    fn relative_curvature(&self, curvature: &Curvature) -> (f64, f64) {
        let ends = |matrix: &Option<Mat<f64>>| {
            let values = self.relative_eigenvalues(matrix.as_ref()?)?;
            Some((*values.first()?, *values.last()?))
        };
        (
            ends(&curvature.lower).map_or(f64::NEG_INFINITY, |e| e.0),
            ends(&curvature.upper).map_or(f64::INFINITY, |e| e.1),
        )
    }

    fn relative_growth(&self, curvature: &Curvature) -> Option<(f64, f64)> {
        let values = self.relative_eigenvalues(curvature.growth.as_ref()?)?;
        Some((*values.first()?, *values.last()?))
    }
}

/// The generator `κA` of a conjugate family: candidates `g_λ^κ` with mode `η = ∇A†(λ)`.
///
/// ```
/// use possibility::family::conjugate::Poisson;
/// use possibility::variational::{FamilyGenerator, Generator};
/// let candidate = FamilyGenerator::new(Poisson, 3.0)?;
/// assert_eq!(candidate.gradient(&[0.0]), [3.0]);
/// assert!((candidate.divergence(&[1.0], &[0.0]) - 3.0 * (1f64.exp() - 2.0)).abs() < 1e-14);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct FamilyGenerator<F> {
    family: F,
    weight: f64,
}

impl<F: ConjugateFamily> FamilyGenerator<F> {
    /// Candidates worth `weight` observations.
    ///
    /// # Errors
    /// `weight` is not in `(0, ∞)`.
    pub fn new(family: F, weight: f64) -> Result<Self> {
        check_positive("weight", weight)?;
        Ok(Self { family, weight })
    }
}

impl<F: ConjugateFamily> Generator for FamilyGenerator<F> {
    fn dimension(&self) -> usize {
        self.family.dimension()
    }

    fn check(&self, theta: &[f64]) -> Result<()> {
        self.family.check_natural(theta)
    }

    fn gradient(&self, theta: &[f64]) -> Vec<f64> {
        self.family
            .mean_at(theta)
            .into_iter()
            .map(|m| self.weight * m)
            .collect()
    }

    fn hessian(&self, theta: &[f64]) -> Mat<f64> {
        faer::Scale(self.weight) * self.family.curvature_at(theta)
    }

    fn inverse_gradient(&self, dual: &[f64]) -> Result<Vec<f64>> {
        let mean: Vec<f64> = dual.iter().map(|l| l / self.weight).collect();
        self.family.check_mean(&mean)?;
        let natural = self.family.natural_at(&mean);
        self.check(&natural)?;
        Ok(natural)
    }

    fn divergence(&self, theta: &[f64], eta: &[f64]) -> f64 {
        self.weight * self.family.bregman_between(theta, eta)
    }

    fn relative_curvature(&self, curvature: &Curvature) -> (f64, f64) {
        curvature
            .in_family_units
            .map_or((f64::NEG_INFINITY, f64::INFINITY), |(a, b)| {
                (a / self.weight, b / self.weight)
            })
    }

    fn relative_growth(&self, curvature: &Curvature) -> Option<(f64, f64)> {
        curvature
            .in_family_units
            .map(|(a, b)| (a / self.weight, b / self.weight))
    }
}

/// The regularized loss `ν(A(θ) - λᵀθ)` of a conjugate posterior `g_λ^ν`, up to a constant.
///
/// Its consistency is `log Z_max = νA†(λ)`, and against candidates of the same family every bound
/// is exact.
#[derive(Debug, Clone)]
pub struct ConjugateLoss<F> {
    family: F,
    mean: Vec<f64>,
    weight: f64,
}

impl<F: ConjugateFamily + Clone> ConjugateLoss<F> {
    /// The loss whose posterior is `posterior`.
    ///
    /// # Errors
    /// The posterior is uninformative: it has no loss to speak of.
    pub fn new(posterior: &Conjugate<F>) -> Result<Self> {
        let mean = posterior.mean_statistic().ok_or(Error::OutOfRange {
            field: "weight of the posterior",
            value: 0.0,
            range: "(0, inf)",
        })?;
        Ok(Self {
            family: posterior.family().clone(),
            mean: mean.to_vec(),
            weight: posterior.weight(),
        })
    }

    /// `log Z_max = νA†(λ)`.
    pub fn log_consistency(&self) -> f64 {
        self.weight * self.family.dual_at(&self.mean)
    }
}

impl<F: ConjugateFamily> SmoothLoss for ConjugateLoss<F> {
    fn dimension(&self) -> usize {
        self.family.dimension()
    }

    fn value(&self, theta: &[f64]) -> f64 {
        self.weight * (self.family.log_partition_at(theta) - linear::dot(&self.mean, theta))
    }

    fn gradient(&self, theta: &[f64]) -> Vec<f64> {
        let mean = self.family.mean_at(theta);
        mean.iter()
            .zip(&self.mean)
            .map(|(m, l)| self.weight * (m - l))
            .collect()
    }

    fn hessian(&self, theta: &[f64]) -> Mat<f64> {
        faer::Scale(self.weight) * self.family.curvature_at(theta)
    }

    fn curvature(&self) -> Curvature {
        Curvature {
            in_family_units: Some((self.weight, self.weight)),
            ..Curvature::default()
        }
    }
}

/// The extremum of the inner problem at a candidate.
#[derive(Debug, Clone, PartialEq)]
pub struct InnerExtremum {
    /// `θ_s`, where the extremum is attained.
    pub theta: Vec<f64>,
    /// `CBO_s(η)`.
    pub value: f64,
}

/// One iterate of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceStep {
    /// The mode `η_t` of the candidate.
    pub eta: Vec<f64>,
    /// `ℓ̂(η_t)`.
    pub loss: f64,
    /// `‖∇ℓ̂(η_t)‖`.
    pub gradient_norm: f64,
    /// `CBO_s(η_t)`, `None` where it cannot be certified.
    pub bound: Option<f64>,
    /// Smallest and largest eigenvalue of `H_s(η_t)`.
    pub gap_eigenvalues: (f64, f64),
}

/// The iterates of a run and how it ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// From the starting point to the last iterate.
    pub steps: Vec<TraceStep>,
    /// `Ok` after the last step, or why it stopped before.
    pub outcome: Result<()>,
}

/// The problem of fitting a candidate to a loss by one of the two bounds.
///
/// ```
/// use possibility::Normal;
/// use possibility::smooth::QuadraticLoss;
/// use possibility::variational::{NormalGenerator, Side, Variational};
/// let loss = QuadraticLoss::new(Normal::isotropic([1.0, -2.0], 2.0)?, 0.0)?;
/// let problem = Variational::new(loss, NormalGenerator::isotropic(2, 0.5)?, Side::Upper)?;
/// // on a quadratic loss the step with ρ = (P - ϑ)/P lands on the mode
/// let next = problem.newton_step(&[0.0, 0.0], 0.75)?;
/// assert!((next[0] - 1.0).abs() < 1e-14 && (next[1] + 2.0).abs() < 1e-14);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Variational<L, A> {
    loss: L,
    generator: A,
    side: Side,
}

impl<L: SmoothLoss, A: Generator> Variational<L, A> {
    /// Pairs a loss with a candidate generator and a side.
    ///
    /// # Errors
    /// The dimensions differ.
    pub fn new(loss: L, generator: A, side: Side) -> Result<Self> {
        check_size("candidate", generator.dimension(), loss.dimension())?;
        Ok(Self {
            loss,
            generator,
            side,
        })
    }

    /// `H_s(η) = s(∇²ℓ̂(η) - ∇²A(η))`.
    ///
    /// # Errors
    /// `η` is outside the domain of the candidate.
    pub fn curvature_gap(&self, eta: &[f64]) -> Result<Mat<f64>> {
        self.generator.check(eta)?;
        let gap = self.loss.hessian(eta) - self.generator.hessian(eta);
        Ok(faer::Scale(self.side.sign()) * gap)
    }

    /// `H_s(η)⁻¹ ∇ℓ̂(η) = s(η - θ_s)` with `θ_s` of the local quadratic surrogate: the gradient of
    /// the objective `s CBO_s`, which is minimized, in the dual coordinate.
    fn direction(&self, eta: &[f64]) -> Result<Vec<f64>> {
        let gap = self.curvature_gap(eta)?;
        let factor =
            linear::cholesky("curvature gap", gap.as_ref()).map_err(|error| match error {
                Error::NotPositiveDefinite { smallest, .. } => Error::CurvatureGap { smallest },
                other => other,
            })?;
        let gradient = self.loss.gradient(eta);
        check_finite("gradient of the loss", &gradient)?;
        Ok(linear::solve(factor.as_ref(), &gradient))
    }

    /// `η - ρ H_s(η)⁻¹ ∇ℓ̂(η)`.
    ///
    /// # Errors
    /// [`Error::CurvatureGap`] if `H_s` is not positive definite, `ρ` is not in `(0, ∞)`, or `η` or
    /// the result is outside the domain.
    pub fn newton_step(&self, eta: &[f64], rate: f64) -> Result<Vec<f64>> {
        check_positive("rate", rate)?;
        let direction = self.direction(eta)?;
        let next: Vec<f64> = eta
            .iter()
            .zip(&direction)
            .map(|(e, d)| e - rate * d)
            .collect();
        self.generator.check(&next)?;
        Ok(next)
    }

    /// The same step as mirror descent in the dual coordinate: the `λ` that minimizes
    /// `ρ s⟨∇_λ CBO_s, λ⟩ + D_{A†}(λ‖λ_t)` with `λ_t = ∇A(η_t)`, returned as `η = ∇A†(λ)`.
    ///
    /// # Errors
    /// As [`Self::newton_step`], and if the candidate has no dual coordinate.
    pub fn mirror_step(&self, eta: &[f64], rate: f64) -> Result<Vec<f64>> {
        check_positive("rate", rate)?;
        // s times Danskin's gradient of the surrogate, then the chain rule ∇_η = ∇²A ∇_λ undone
        let metric = self.generator.hessian(eta);
        let danskin = linear::multiply(metric.as_ref(), &self.direction(eta)?);
        let factor = linear::cholesky("curvature of the candidate", metric.as_ref())?;
        let dual_gradient = linear::solve(factor.as_ref(), &danskin);
        // stationarity: ∇A†(λ) = ∇A†(λ_t) - ρs ∇_λ CBO_s
        let here = self
            .generator
            .inverse_gradient(&self.generator.gradient(eta))?;
        let there: Vec<f64> = here
            .iter()
            .zip(&dual_gradient)
            .map(|(h, g)| h - rate * g)
            .collect();
        self.generator.check(&there)?;
        self.generator
            .inverse_gradient(&self.generator.gradient(&there))
    }

    /// `CBO_s(η)` and where it is attained, certified.
    ///
    /// With `a∇²A ⪯ ∇²ℓ̂ ⪯ b∇²A` the integrand is `c`-strongly concave (convex) relative to `A`,
    /// `c = a - 1` for the upper and `c = 1 - b` for the lower bound. The extremum is then within
    /// `c D_{A†}(∇A(θ) + ∇φ(θ)/c ‖ ∇A(θ))` of the value at any `θ`, which is the certificate.
    ///
    /// # Errors
    /// [`Error::NotCertified`] where the integrand is neither, unless the bound is plainly
    /// infinite.
    pub fn inner_extremum(&self, eta: &[f64]) -> Result<InnerExtremum> {
        self.generator.check(eta)?;
        let s = self.side.sign();
        let curvature = self.loss.curvature();
        let (a, b) = self.generator.relative_curvature(&curvature);
        let modulus = if s > 0.0 { a - 1.0 } else { 1.0 - b };
        if modulus > 0.0 {
            let dual_eta = self.generator.gradient(eta);
            let (theta, value) = minimize(
                &Inner {
                    problem: self,
                    eta,
                    dual_eta,
                    modulus,
                },
                eta,
            )?;
            return Ok(InnerExtremum {
                theta,
                value: 0.0 - s * value,
            });
        }
        let runs_away = self
            .generator
            .relative_growth(&curvature)
            .is_some_and(|(a, b)| if s > 0.0 { a < 1.0 } else { b > 1.0 });
        if runs_away {
            return Ok(InnerExtremum {
                theta: vec![f64::NAN; eta.len()],
                value: s * f64::INFINITY,
            });
        }
        let here = -self.loss.value(eta);
        // the candidate has the posterior's own shape: the integrand is affine, and constant at the
        // common mode
        let is_stationary = self.loss.gradient(eta).iter().all(|slope| *slope == 0.0);
        if (a, b) == (1.0, 1.0) && is_stationary {
            return Ok(InnerExtremum {
                theta: eta.to_vec(),
                value: here,
            });
        }
        Err(not_certified(
            "the inner problem is neither concave nor convex",
            if s > 0.0 { here } else { f64::NEG_INFINITY },
            if s > 0.0 { f64::INFINITY } else { here },
        ))
    }

    /// `∇CBO_s(η) = ∇²A(η)(η - θ_s)` by Danskin's theorem, with the certified inner extremum.
    ///
    /// # Errors
    /// As [`Self::inner_extremum`]; an infinite bound has no gradient.
    pub fn gradient(&self, eta: &[f64]) -> Result<Vec<f64>> {
        let inner = self.inner_extremum(eta)?;
        check_real("consistency bound", inner.value)?;
        let step = linear::difference(eta, &inner.theta);
        Ok(linear::multiply(
            self.generator.hessian(eta).as_ref(),
            &step,
        ))
    }

    /// Makes one Newton-like step per rate, recording every iterate; stops early at the first
    /// error.
    pub fn run(&self, start: &[f64], rates: &[f64]) -> Trace {
        let mut eta = start.to_vec();
        let mut steps = Vec::with_capacity(rates.len() + 1);
        for (t, rate) in rates.iter().map(Some).chain([None]).enumerate() {
            match self.describe(&eta) {
                Ok(step) => steps.push(step),
                Err(error) => {
                    return Trace {
                        steps,
                        outcome: Err(error),
                    };
                }
            }
            let Some(rate) = rate else { break };
            match self.newton_step(&eta, *rate) {
                Ok(next) => eta = next,
                // at a stationary point the condition may hold with equality only: nothing is left
                // to do
                Err(Error::CurvatureGap { .. }) if steps[t].gradient_norm == 0.0 => break,
                Err(error) => {
                    return Trace {
                        steps,
                        outcome: Err(error),
                    };
                }
            }
        }
        Trace {
            steps,
            outcome: Ok(()),
        }
    }

    fn describe(&self, eta: &[f64]) -> Result<TraceStep> {
        let gap = self.curvature_gap(eta)?;
        let values = linear::eigen(gap.as_ref()).map_or_else(Vec::new, |(values, _)| values);
        let nan = f64::NAN;
        let gradient = self.loss.gradient(eta);
        Ok(TraceStep {
            eta: eta.to_vec(),
            loss: self.loss.value(eta),
            gradient_norm: linear::dot(&gradient, &gradient).sqrt(),
            bound: self.inner_extremum(eta).ok().map(|inner| inner.value),
            gap_eigenvalues: (
                values.first().copied().unwrap_or(nan),
                values.last().copied().unwrap_or(nan),
            ),
        })
    }
}

/// The signed update with a diagonal estimate `h` of the curvature and a fixed candidate curvature
/// `ϑ`, for a Gaussian candidate `N̄(η, I/ϑ)` and a Gaussian prior of precision `δ`:
///
/// ```text
/// η ← η - ρ s (ḡ + δη)/(h + δ - ϑ)
/// ```
///
/// For the upper bound (`s = +1`) the candidate must be wider than the loss, `h + δ > ϑ`; for the
/// lower one (`s = -1`) narrower, `h + δ < ϑ`. With averages of gradients for `ḡ` and of their
/// squares for `h`, the case `s = +1` is the paper's Algorithm 1, which the crate `cbopt` has as
/// the rule `ucbopt`. Paper: Section 5, "Practical diagonal approximation".
///
/// ```
/// use possibility::variational::{Diagonal, Side};
/// // a narrow candidate: the gap is 4 - (2 + 1)
/// let lower = Diagonal::new(Side::Lower, 1.0, 4.0)?;
/// assert_eq!(lower.step(&[0.5], &[0.5], &[2.0], 0.25)?, [0.25]);
/// // under which the upper bound is infinite
/// assert!(Diagonal::new(Side::Upper, 1.0, 4.0)?.step(&[0.5], &[0.5], &[2.0], 0.25).is_err());
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Diagonal {
    side: Side,
    weight_decay: f64,
    vartheta: f64,
}

impl Diagonal {
    /// The update for a side, the prior precision `δ` and the candidate precision `ϑ`.
    ///
    /// # Errors
    /// `δ` or `ϑ` is negative or not finite.
    pub fn new(side: Side, weight_decay: f64, vartheta: f64) -> Result<Self> {
        for (name, value) in [("weight_decay", weight_decay), ("vartheta", vartheta)] {
            check_not_negative(name, value)?;
        }
        Ok(Self {
            side,
            weight_decay,
            vartheta,
        })
    }

    /// One step from `η` with the gradient `ḡ` and the curvature `h` of the loss without prior.
    ///
    /// # Errors
    /// The lengths differ, a number is not finite, `ρ` is not in `(0, ∞)`, or
    /// [`Error::CurvatureGap`] if `s(h + δ - ϑ)` is not positive somewhere.
    pub fn step(
        &self,
        eta: &[f64],
        gradient: &[f64],
        curvature: &[f64],
        rate: f64,
    ) -> Result<Vec<f64>> {
        check_positive("rate", rate)?;
        for (name, values) in [("gradient", gradient), ("curvature", curvature)] {
            check_size(name, values.len(), eta.len())?;
            check_finite(name, values)?;
        }
        check_finite("eta", eta)?;
        let gaps: Vec<f64> = curvature
            .iter()
            .map(|h| self.side.sign() * (h + self.weight_decay - self.vartheta))
            .collect();
        let smallest = gaps.iter().copied().fold(f64::INFINITY, f64::min);
        if smallest <= 0.0 {
            return Err(Error::CurvatureGap { smallest });
        }
        let slopes = eta.iter().zip(gradient).zip(gaps);
        Ok(slopes
            .map(|((e, g), gap)| e - rate * (g + self.weight_decay * e) / gap)
            .collect())
    }
}

/// The convex problem `min s(ℓ̂(θ) - D_A(θ‖η))`, strongly convex relative to `A` with the given
/// modulus.
struct Inner<'a, L, A> {
    problem: &'a Variational<L, A>,
    eta: &'a [f64],
    dual_eta: Vec<f64>,
    modulus: f64,
}

impl<L: SmoothLoss, A: Generator> Convex for Inner<'_, L, A> {
    fn contains(&self, theta: &[f64]) -> bool {
        self.problem.generator.check(theta).is_ok()
    }

    fn value(&self, theta: &[f64]) -> f64 {
        let Variational {
            loss,
            generator,
            side,
        } = self.problem;
        side.sign() * (loss.value(theta) - generator.divergence(theta, self.eta))
    }

    fn gradient(&self, theta: &[f64]) -> Vec<f64> {
        let Variational {
            loss,
            generator,
            side,
        } = self.problem;
        let slopes = loss
            .gradient(theta)
            .into_iter()
            .zip(generator.gradient(theta));
        slopes
            .zip(&self.dual_eta)
            .map(|((l, d), e)| side.sign() * (l - (d - e)))
            .collect()
    }

    fn hessian(&self, theta: &[f64]) -> Mat<f64> {
        let Variational {
            loss,
            generator,
            side,
        } = self.problem;
        faer::Scale(side.sign()) * (loss.hessian(theta) - generator.hessian(theta))
    }

    /// `c D_{A†}(λ - ∇/c ‖ λ)` with `λ = ∇A(θ)`, which is `c D_A(θ‖θ')` with `θ' = ∇A†(λ - ∇/c)`.
    fn gap(&self, theta: &[f64], gradient: &[f64]) -> f64 {
        let generator = &self.problem.generator;
        let dual = generator.gradient(theta);
        let shifted: Vec<f64> = dual
            .iter()
            .zip(gradient)
            .map(|(l, g)| l - g / self.modulus)
            .collect();
        match generator.inverse_gradient(&shifted) {
            Ok(there) => self.modulus * generator.divergence(theta, &there),
            Err(_) => f64::INFINITY,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::conjugate::{Bernoulli, Categorical, Exponential, Poisson};
    use crate::normal::Normal;
    use crate::normal::testing::two_by_two;
    use crate::smooth::QuadraticLoss;
    use proptest::prelude::*;

    #[test]
    fn the_wrong_curvature_is_a_typed_error() {
        let loss = QuadraticLoss::new(Normal::isotropic([0.0, 0.0], 1.0).unwrap(), 0.0).unwrap();
        let narrow = NormalGenerator::isotropic(2, 2.0).unwrap();
        let problem = Variational::new(loss.clone(), narrow.clone(), Side::Upper).unwrap();
        let error = problem.newton_step(&[1.0, 1.0], 0.5).unwrap_err();
        assert_eq!(error, Error::CurvatureGap { smallest: -1.0 });
        assert_eq!(
            problem.inner_extremum(&[1.0, 1.0]).unwrap().value,
            f64::INFINITY
        );
        let lower = Variational::new(loss, narrow, Side::Lower).unwrap();
        assert!(lower.newton_step(&[1.0, 1.0], 0.5).is_ok());
        let trace = problem.run(&[1.0, 1.0], &[0.5]);
        assert_eq!(trace.steps.len(), 1);
        assert!(trace.outcome.is_err());
        // at the mode the condition is not needed
        let settled = problem.run(&[0.0, 0.0], &[0.5]);
        assert_eq!(settled.outcome, Ok(()));
    }

    #[test]
    fn the_direction_is_the_gradient_of_the_signed_bound() {
        // a quadratic loss is its own surrogate: θ_s of the certified inner problem is that of the
        // step
        let star = Normal::isotropic([1.0, -2.0], 1.5).unwrap();
        let loss = QuadraticLoss::new(star, 0.25).unwrap();
        for (precision, side) in [(0.5, Side::Upper), (4.0, Side::Lower)] {
            let candidate = NormalGenerator::isotropic(2, precision).unwrap();
            let problem = Variational::new(loss.clone(), candidate, side).unwrap();
            let eta = [0.3, 0.7];
            let (direction, gradient) = (
                problem.direction(&eta).unwrap(),
                problem.gradient(&eta).unwrap(),
            );
            let theta = problem.inner_extremum(&eta).unwrap().theta;
            let bound = |eta: &[f64]| side.sign() * problem.inner_extremum(eta).unwrap().value;
            for i in 0..2 {
                let step = side.sign() * (eta[i] - theta[i]);
                assert!((direction[i] - step).abs() < 1e-9, "{side:?}");
                let signed = side.sign() * gradient[i] / precision;
                assert!((direction[i] - signed).abs() < 1e-9, "{side:?}");
            }
            // against the direction s CBO_s falls, for either side
            let next = problem.newton_step(&eta, 0.1).unwrap();
            assert!(bound(&next) < bound(&eta), "{side:?}");
        }
    }

    #[test]
    fn a_run_converges_to_the_mode_and_its_bound_to_the_consistency() {
        let posterior = Conjugate::new(Poisson, &[2.5], 6.0).unwrap();
        let loss = ConjugateLoss::new(&posterior).unwrap();
        let log_z = loss.log_consistency();
        for (weight, side) in [(2.0, Side::Upper), (15.0, Side::Lower)] {
            let generator = FamilyGenerator::new(Poisson, weight).unwrap();
            let problem = Variational::new(loss.clone(), generator, side).unwrap();
            // the rate that makes the step a Newton step on the loss at the mode
            let rate = side.sign() * (1.0 - weight / 6.0);
            let trace = problem.run(&[0.2], &[rate; 12]);
            assert_eq!(trace.outcome, Ok(()));
            let last = trace.steps.last().unwrap();
            assert!((last.eta[0] - 2.5f64.ln()).abs() < 1e-12);
            assert!((last.bound.unwrap() - log_z).abs() < 1e-12);
            for step in &trace.steps {
                let bound = step.bound.unwrap();
                assert!(
                    side.sign() * (bound - log_z) >= -1e-12,
                    "{bound} against {log_z}"
                );
                assert!(step.gap_eigenvalues.0 > 0.0);
            }
        }
    }

    #[test]
    fn the_posterior_itself_attains_both_bounds() {
        let star = Normal::isotropic([1.0, -2.0], 1.5).unwrap();
        let loss = QuadraticLoss::new(star, 0.25).unwrap();
        for side in [Side::Upper, Side::Lower] {
            let candidate = NormalGenerator::isotropic(2, 1.5).unwrap();
            let problem = Variational::new(loss.clone(), candidate, side).unwrap();
            assert_eq!(problem.inner_extremum(&[1.0, -2.0]).unwrap().value, -0.25);
            assert!(matches!(
                problem.inner_extremum(&[1.0, 0.0]),
                Err(Error::NotCertified { .. })
            ));
        }
    }

    fn assert_gradient<L: SmoothLoss, A: Generator>(problem: &Variational<L, A>, eta: &[f64]) {
        let gradient = problem.gradient(eta).unwrap();
        let h = 1e-5;
        for i in 0..eta.len() {
            let shifted = |d: f64| {
                let mut e = eta.to_vec();
                e[i] += d;
                problem.inner_extremum(&e).unwrap().value
            };
            let difference = (shifted(h) - shifted(-h)) / (2.0 * h);
            let scale = 1.0 + gradient[i].abs();
            assert!(
                (gradient[i] - difference).abs() < 1e-6 * scale,
                "{gradient:?} {difference}"
            );
        }
    }

    fn assert_mirror<L: SmoothLoss, A: Generator>(
        problem: &Variational<L, A>,
        eta: &[f64],
        rate: f64,
        nudge: &[f64],
    ) {
        let Ok(newton) = problem.newton_step(eta, rate) else {
            return;
        };
        let mirror = problem.mirror_step(eta, rate).unwrap();
        for (a, b) in newton.iter().zip(&mirror) {
            assert!(
                (a - b).abs() < 1e-9 * (1.0 + a.abs()),
                "{newton:?} {mirror:?}"
            );
        }
        // the mirror step minimizes ρs⟨∇_λ CBO_s, λ⟩ + D_{A†}(λ‖λ_t): no nudged λ does better
        let direction: Vec<f64> = problem.direction(eta).unwrap();
        let dual = problem.generator.gradient(&mirror);
        let objective = |l: &[f64]| {
            let there = problem.generator.inverse_gradient(l).ok()?;
            Some(rate * linear::dot(&direction, l) + problem.generator.divergence(eta, &there))
        };
        let best = objective(&dual).unwrap();
        let nudged: Vec<f64> = dual.iter().zip(nudge).map(|(l, n)| l + 0.05 * n).collect();
        if let Some(other) = objective(&nudged) {
            assert!(best <= other + 1e-9 * (1.0 + best.abs()));
        }
    }

    proptest! {
        #[test]
        fn full_normal_candidates_have_exact_bounds(
            m in prop::array::uniform2(-2.0..2.0f64), p in prop::array::uniform3(-1.5..1.5f64),
            eta in prop::array::uniform2(-2.0..2.0f64), q in prop::array::uniform3(-1.5..1.5f64),
            share in 0.1..0.9f64, nudge in prop::array::uniform2(-1.0..1.0f64),
        ) {
            let precision = two_by_two(p);
            let star = Normal::from_precision(m, precision.clone()).unwrap();
            let loss = QuadraticLoss::new(star.clone(), 0.3).unwrap();
            // wide: a shrunk precision, narrow: a raised one
            let wide = faer::Scale(share) * precision.clone();
            let narrow = &precision + two_by_two(q);
            for (side, candidate) in [(Side::Upper, wide), (Side::Lower, narrow)] {
                let g = Normal::from_precision(eta, candidate.clone()).unwrap();
                let generator = NormalGenerator::full(candidate).unwrap();
                let problem = Variational::new(loss.clone(), generator, side).unwrap();
                let bound = problem.inner_extremum(&eta).unwrap().value;
                let gap = match side {
                    Side::Upper => star.max_relative_entropy(&g).unwrap(),
                    Side::Lower => -g.max_relative_entropy(&star).unwrap(),
                };
                prop_assert!((bound - (gap - 0.3)).abs() < 1e-8 * (1.0 + gap.abs()), "{bound} {gap}");
                assert_gradient(&problem, &eta);
                assert_mirror(&problem, &eta, 0.4, &nudge);
            }
        }

        #[test]
        fn diagonal_candidates_move_each_coordinate_by_its_own_gap(
            m in prop::array::uniform3(-2.0..2.0f64), p in prop::array::uniform3(1.0..4.0f64),
            q in prop::array::uniform3(0.1..0.9f64), eta in prop::array::uniform3(-2.0..2.0f64),
            rate in 0.05..1.0f64,
        ) {
            let loss = QuadraticLoss::new(Normal::diagonal(m, &p).unwrap(), 0.0).unwrap();
            let generator = NormalGenerator::diagonal(&q).unwrap();
            let problem = Variational::new(loss, generator, Side::Upper).unwrap();
            let next = problem.newton_step(&eta, rate).unwrap();
            for i in 0..3 {
                let expected = eta[i] - rate * p[i] * (eta[i] - m[i]) / (p[i] - q[i]);
                prop_assert!((next[i] - expected).abs() < 1e-11 * (1.0 + expected.abs()));
            }
        }

        #[test]
        fn the_signed_diagonal_update_is_the_newton_step(
            m in prop::array::uniform3(-2.0..2.0f64), h in prop::array::uniform3(0.5..4.0f64),
            eta in prop::array::uniform3(-2.0..2.0f64), decay in 0.0..0.4f64, rate in 0.05..1.0f64,
        ) {
            // ℓ(θ) = ½Σ h (θ - m)², regularized: curvature h + δ, and its own minimum
            let total = h.map(|h| h + decay);
            let center: [f64; 3] = std::array::from_fn(|i| h[i] * m[i] / total[i]);
            let loss = QuadraticLoss::new(Normal::diagonal(center, &total).unwrap(), 0.0).unwrap();
            let gradient: [f64; 3] = std::array::from_fn(|i| h[i] * (eta[i] - m[i]));
            for (side, vartheta) in [(Side::Upper, 0.25), (Side::Lower, 5.0)] {
                let candidate = NormalGenerator::isotropic(3, vartheta).unwrap();
                let problem = Variational::new(loss.clone(), candidate, side).unwrap();
                let expected = problem.newton_step(&eta, rate).unwrap();
                let update = Diagonal::new(side, decay, vartheta).unwrap();
                let found = update.step(&eta, &gradient, &h, rate).unwrap();
                for (a, b) in found.iter().zip(&expected) {
                    prop_assert!((a - b).abs() < 1e-11 * (1.0 + a.abs()), "{found:?} {expected:?}");
                }
                let wrong = if side == Side::Upper { Side::Lower } else { Side::Upper };
                let refused = Diagonal::new(wrong, decay, vartheta).unwrap();
                let refused = refused.step(&eta, &gradient, &h, rate);
                let is_gap = matches!(refused, Err(Error::CurvatureGap { smallest }) if smallest < 0.0);
                prop_assert!(is_gap);
            }
        }

        #[test]
        fn family_candidates_have_the_closed_form(
            lambda in 0.1..0.9f64, nu in 1.0..20.0f64, share in 0.05..0.9f64, eta in -2.0..2.0f64,
        ) {
            // φ = -(ν-κ)A + (νλ-κλ_η)θ + const: its supremum is a Legendre transform
            let loss = ConjugateLoss::new(&Conjugate::new(Bernoulli, &[lambda], nu).unwrap()).unwrap();
            let kappa = share * nu;
            let problem = Variational::new(
                loss.clone(), FamilyGenerator::new(Bernoulli, kappa).unwrap(), Side::Upper).unwrap();
            let mean = Bernoulli.mean_at(&[eta])[0];
            let target = (nu * lambda - kappa * mean) / (nu - kappa);
            let found = problem.inner_extremum(&[eta]);
            if target > 1e-3 && target < 1.0 - 1e-3 {
                let constant = kappa * (mean * eta - Bernoulli.log_partition_at(&[eta]));
                let expected = (nu - kappa) * Bernoulli.dual_at(&[target]) + constant;
                let found = found.unwrap();
                prop_assert!((found.value - expected).abs() < 1e-9 * (1.0 + expected.abs()));
                prop_assert!((Bernoulli.mean_at(&found.theta)[0] - target).abs() < 1e-6);
                prop_assert!(found.value >= loss.log_consistency() - 1e-12);
                assert_gradient(&problem, &[eta]);
            } else if !(-1e-3..=1.0 + 1e-3).contains(&target) {
                // the supremum runs off to infinity, which is never reported as a number
                prop_assert!(found.is_err());
            }
        }

        #[test]
        fn mirror_descent_is_the_newton_step_for_every_family(
            eta in -1.5..1.5f64, rate in 0.05..0.6f64, nudge in -1.0..1.0f64, x in 0.2..0.7f64,
        ) {
            let bernoulli = ConjugateLoss::new(&Conjugate::new(Bernoulli, &[x], 5.0).unwrap()).unwrap();
            let problem = Variational::new(
                bernoulli, FamilyGenerator::new(Bernoulli, 2.0).unwrap(), Side::Upper).unwrap();
            assert_mirror(&problem, &[eta], rate, &[nudge]);
            let positive = ConjugateLoss::new(&Conjugate::new(Exponential, &[x], 5.0).unwrap()).unwrap();
            let problem = Variational::new(
                positive, FamilyGenerator::new(Exponential, 9.0).unwrap(), Side::Lower).unwrap();
            assert_mirror(&problem, &[-0.1 - eta.abs()], rate, &[nudge]);
            let classes = Categorical::new(3).unwrap();
            let loss = ConjugateLoss::new(
                &Conjugate::new(classes, &[x, 0.2], 5.0).unwrap()).unwrap();
            let problem = Variational::new(
                loss, FamilyGenerator::new(classes, 2.0).unwrap(), Side::Upper).unwrap();
            assert_mirror(&problem, &[eta, 0.3], rate, &[nudge, -nudge]);
        }
    }
}
