//! Posteriors on `ℝᵈ` from a smooth regularized loss, and their consistency bounds for normal
//! candidates by certified concave or convex problems. Paper: Sections 4 and 5.
//!
//! For a candidate with precision `P` and mode `η` the integrand of the bounds is
//! `φ(θ) = -ℓ̂(θ) + ½(θ-η)ᵀP(θ-η)`, with Hessian `P - ∇²ℓ̂`. Given matrices `L ⪯ ∇²ℓ̂(θ) ⪯ U`,
//!
//! - `L - P ≻ 0` makes `φ` strongly concave: its supremum is within `‖∇φ‖²/(2 λ_min(L-P))` of any
//!   point;
//! - `P - U ≻ 0` makes `φ` strongly convex: its infimum is within `‖∇φ‖²/(2 λ_min(P-U))`;
//! - a growth matrix `G`, `ℓ̂(θ) = ½θᵀGθ + O(‖θ‖)`, decides infinite bounds: `+∞` above if `P - G`
//!   has a positive eigenvalue, `-∞` below if it has a negative one.
//!
//! Anything else is answered by [`Error::NotCertified`], never by an uncertain number.

use faer::{Mat, MatRef};

use crate::bound::ConsistencyBounds;
use crate::error::{Error, Result, check_finite, check_real, check_size, not_certified, unknown};
use crate::event::Region;
use crate::function::Measure;
use crate::linear;
use crate::newton::{Convex, minimize};
use crate::normal::Normal;

/// A twice differentiable regularized loss `ℓ̂ = ℓ - log π` on `ℝᵈ`.
pub trait SmoothLoss {
    /// `d`.
    fn dimension(&self) -> usize;

    /// `ℓ̂(θ)`.
    fn value(&self, theta: &[f64]) -> f64;

    /// `∇ℓ̂(θ)`.
    fn gradient(&self, theta: &[f64]) -> Vec<f64>;

    /// `∇²ℓ̂(θ)`.
    fn hessian(&self, theta: &[f64]) -> Mat<f64>;

    /// What is known of the curvature everywhere.
    fn curvature(&self) -> Curvature {
        Curvature::default()
    }
}

impl<L: SmoothLoss + ?Sized> SmoothLoss for &L {
    fn dimension(&self) -> usize {
        (**self).dimension()
    }
    fn value(&self, theta: &[f64]) -> f64 {
        (**self).value(theta)
    }
    fn gradient(&self, theta: &[f64]) -> Vec<f64> {
        (**self).gradient(theta)
    }
    fn hessian(&self, theta: &[f64]) -> Mat<f64> {
        (**self).hessian(theta)
    }
    fn curvature(&self) -> Curvature {
        (**self).curvature()
    }
}

/// Bounds on the curvature of a loss that hold everywhere, in the Löwner order; `None` where
/// unknown.
#[derive(Debug, Clone, Default)]
pub struct Curvature {
    /// `L ⪯ ∇²ℓ̂(θ)` for all `θ`.
    pub lower: Option<Mat<f64>>,
    /// `∇²ℓ̂(θ) ⪯ U` for all `θ`.
    pub upper: Option<Mat<f64>>,
    /// `G` with `ℓ̂(θ) = ½θᵀGθ + O(‖θ‖)`.
    pub growth: Option<Mat<f64>>,
    /// `(a, b)` with `a∇²A ⪯ ∇²ℓ̂ ⪯ b∇²A` for the log-partition `A` of the conjugate family the
    /// loss belongs to.
    pub in_family_units: Option<(f64, f64)>,
}

/// `ℓ̂(θ) = ½(θ-m)ᵀP(θ-m) + offset`: the loss of a normal posterior, where everything is exact.
#[derive(Debug, Clone)]
pub struct QuadraticLoss {
    normal: Normal,
    offset: f64,
}

impl QuadraticLoss {
    /// Minus the log of a normal possibility function, plus `offset`.
    ///
    /// # Errors
    /// `offset` is not finite.
    pub fn new(normal: Normal, offset: f64) -> Result<Self> {
        check_real("offset", offset)?;
        Ok(Self { normal, offset })
    }

    /// `exp(offset - ℓ̂)`.
    pub fn normal(&self) -> &Normal {
        &self.normal
    }

    /// The smallest value.
    pub fn offset(&self) -> f64 {
        self.offset
    }
}

impl SmoothLoss for QuadraticLoss {
    fn dimension(&self) -> usize {
        self.normal.dimension()
    }
    fn value(&self, theta: &[f64]) -> f64 {
        0.5 * self.normal.squared_distance(theta) + self.offset
    }
    fn gradient(&self, theta: &[f64]) -> Vec<f64> {
        let step = linear::difference(theta, self.normal.mode());
        linear::multiply(self.normal.precision(), &step)
    }
    fn hessian(&self, _theta: &[f64]) -> Mat<f64> {
        self.normal.precision().to_owned()
    }
    fn curvature(&self) -> Curvature {
        let precision = self.normal.precision().to_owned();
        Curvature {
            lower: Some(precision.clone()),
            upper: Some(precision.clone()),
            growth: Some(precision),
            in_family_units: None,
        }
    }
}

/// The posterior `exp(-ℓ̂ - log Z_max)` on `ℝᵈ` of a strongly convex loss.
///
/// ```
/// use possibility::{Normal, bound::ConsistencyBounds};
/// use possibility::smooth::{QuadraticLoss, SmoothPosterior};
/// let loss = QuadraticLoss::new(Normal::isotropic([1.0, -1.0], 2.0)?, 0.25)?;
/// let posterior = SmoothPosterior::new(loss)?;
/// assert_eq!(posterior.log_consistency(), -0.25);
/// // a wider normal around another mode lies above nothing, but bounds the consistency from above
/// let candidate = Normal::isotropic([0.0, 0.0], 1.0)?;
/// let upper = posterior.upper_cbo(&candidate)?;
/// assert!((upper - (-0.25 + 0.5 * 2.0 / (1.0 - 0.5))).abs() < 1e-12);
/// assert_eq!(posterior.lower_cbo(&candidate)?, f64::NEG_INFINITY);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct SmoothPosterior<L> {
    loss: L,
    mode: Vec<f64>,
    precision: Mat<f64>,
    log_consistency: f64,
}

impl<L: SmoothLoss> SmoothPosterior<L> {
    /// Finds the mode by damped Newton steps and certifies it through the lower curvature bound.
    ///
    /// # Errors
    /// The loss has no positive definite lower curvature bound ([`Error::NotCertified`]), the
    /// iteration does not converge, or a value is not finite.
    pub fn new(loss: L) -> Result<Self> {
        let d = loss.dimension();
        if d == 0 {
            return Err(Error::Empty {
                name: "parameter vector",
            });
        }
        let Some(lower) = loss.curvature().lower else {
            return Err(unknown("the loss has no lower curvature bound"));
        };
        check_size("lower curvature bound", lower.nrows(), d)?;
        let modulus = linear::smallest_eigenvalue(lower.as_ref());
        if modulus.is_nan() || modulus <= 0.0 {
            return Err(unknown("the loss is not strongly convex"));
        }
        let problem = Inner {
            loss: &loss,
            candidate: None,
            sign: 1.0,
            modulus,
        };
        let (mode, value) = minimize(&problem, &vec![0.0; d])?;
        let precision = loss.hessian(&mode);
        Ok(Self {
            loss,
            mode,
            precision,
            log_consistency: 0.0 - value,
        })
    }

    /// The regularized loss.
    pub fn loss(&self) -> &L {
        &self.loss
    }

    /// `E*[θ]`.
    pub fn mode(&self) -> &[f64] {
        &self.mode
    }

    /// The precision `∇²ℓ̂` at the mode.
    pub fn precision(&self) -> MatRef<'_, f64> {
        self.precision.as_ref()
    }

    /// `log Z_max`.
    pub fn log_consistency(&self) -> f64 {
        self.log_consistency
    }

    /// `log g*(θ)`.
    ///
    /// # Errors
    /// The point has another dimension or a non-finite entry.
    pub fn log_possibility(&self, theta: &[f64]) -> Result<f64> {
        check_size("point", theta.len(), self.mode.len())?;
        check_finite("point", theta)?;
        Ok((0.0 - self.loss.value(theta) - self.log_consistency).min(0.0))
    }

    /// The Laplace approximation: the normal with the mode and the precision of the posterior.
    ///
    /// # Errors
    /// The Hessian at the mode is not positive definite.
    pub fn laplace(&self) -> Result<Normal> {
        Normal::from_precision(self.mode.clone(), self.precision.clone())
    }

    /// The normal with the lower curvature bound as precision: it lies above the posterior.
    ///
    /// Where the growth matrix equals the bound, no larger precision lies above: it is the
    /// tightest.
    ///
    /// # Errors
    /// The bound is unknown or not positive definite.
    pub fn upper_normal(&self) -> Result<Normal> {
        self.bounding_normal(self.loss.curvature().lower)
    }

    /// The normal with the upper curvature bound as precision: it lies below the posterior.
    ///
    /// # Errors
    /// The bound is unknown or not positive definite.
    pub fn lower_normal(&self) -> Result<Normal> {
        self.bounding_normal(self.loss.curvature().upper)
    }

    /// Certified scalings of the Laplace precision: `(a, b)` such that `N̄(m, (aH)⁻¹)` lies above
    /// and `N̄(m, (bH)⁻¹)` below the posterior, the best that follow from the curvature bounds.
    ///
    /// `a = λ_min(H^{-1/2} L H^{-1/2})` and `b = λ_max(H^{-1/2} U H^{-1/2})`, so that `a ≤ 1 ≤ b`.
    ///
    /// # Errors
    /// A bound is unknown or the Hessian at the mode not positive definite.
    pub fn laplace_scalings(&self) -> Result<(f64, f64)> {
        let factor = linear::cholesky("precision", self.precision.as_ref())?;
        let curvature = self.loss.curvature();
        let relative = |bound: Option<Mat<f64>>| -> Result<Vec<f64>> {
            let bound = bound.ok_or(not_certified(
                "the loss has no curvature bound on this side",
                0.0,
                f64::INFINITY,
            ))?;
            let half = linear::solve_lower_matrix(factor.as_ref(), bound.as_ref());
            let both = linear::solve_lower_matrix(factor.as_ref(), half.transpose());
            Ok(linear::eigen(linear::mirrored(both).as_ref()).map_or_else(Vec::new, |e| e.0))
        };
        let lower = relative(curvature.lower)?;
        let upper = relative(curvature.upper)?;
        Ok((
            lower.first().copied().unwrap_or(f64::NAN),
            upper.last().copied().unwrap_or(f64::NAN),
        ))
    }

    /// Certified `(lower, upper)` values of the possibility of an event, from the two bounding
    /// normals.
    ///
    /// # Errors
    /// A curvature bound is unknown, or the event cannot be measured.
    pub fn possibility_of(&self, event: &Region) -> Result<(f64, f64)> {
        Ok((
            self.lower_normal()?.possibility_of(event)?,
            self.upper_normal()?.possibility_of(event)?,
        ))
    }

    /// Certified `(lower, upper)` values of the necessity of an event: the wider normal is less
    /// certain.
    ///
    /// # Errors
    /// As [`Self::possibility_of`].
    pub fn necessity_of(&self, event: &Region) -> Result<(f64, f64)> {
        Ok((
            self.upper_normal()?.necessity_of(event)?,
            self.lower_normal()?.necessity_of(event)?,
        ))
    }

    fn bounding_normal(&self, precision: Option<Mat<f64>>) -> Result<Normal> {
        let precision = precision.ok_or(not_certified(
            "the loss has no curvature bound on this side",
            0.0,
            1.0,
        ))?;
        Normal::from_precision(self.mode.clone(), precision)
    }

    /// `sup` (`sign = 1`) or `inf` (`sign = -1`) of `-ℓ̂ - log g`.
    fn extremum(&self, candidate: &Normal, sign: f64) -> Result<f64> {
        check_size("candidate", candidate.dimension(), self.mode.len())?;
        let curvature = self.loss.curvature();
        let precision = candidate.precision();
        // the inner Hessian is sign·(∇²ℓ̂ - P), bounded from below by sign·(bound - P)
        let bound = if sign > 0.0 {
            curvature.lower
        } else {
            curvature.upper
        };
        let modulus = bound.map_or(f64::NEG_INFINITY, |bound| {
            gap_eigenvalue(bound.as_ref(), precision, sign, linear::smallest_eigenvalue)
        });
        if modulus > 0.0 {
            let problem = Inner {
                loss: &self.loss,
                candidate: Some(candidate),
                sign,
                modulus,
            };
            let (_, value) = minimize(&problem, &self.mode)?;
            return Ok(0.0 - sign * value);
        }
        let runs_away = curvature.growth.is_some_and(|growth| {
            gap_eigenvalue(
                growth.as_ref(),
                precision,
                sign,
                linear::smallest_eigenvalue,
            ) < 0.0
        });
        if runs_away {
            return Ok(sign * f64::INFINITY);
        }
        // at a common mode the integrand is stationary, and concave or convex as far as it is
        // semidefinite
        let scale = linear::dot(&self.mode, &self.mode).sqrt() + 1.0;
        let step = linear::difference(candidate.mode(), &self.mode);
        if modulus == 0.0 && linear::dot(&step, &step).sqrt() <= f64::EPSILON * scale {
            return Ok(self.log_consistency);
        }
        Err(not_certified(
            "the inner problem is neither concave nor convex",
            if sign > 0.0 {
                self.log_consistency
            } else {
                f64::NEG_INFINITY
            },
            if sign > 0.0 {
                f64::INFINITY
            } else {
                self.log_consistency
            },
        ))
    }
}

/// An eigenvalue of `sign·(bound - precision)`.
fn gap_eigenvalue(
    bound: MatRef<'_, f64>,
    precision: MatRef<'_, f64>,
    sign: f64,
    eigenvalue: impl Fn(MatRef<'_, f64>) -> f64,
) -> f64 {
    let d = bound.nrows();
    let gap = Mat::from_fn(d, d, |i, j| sign * (bound[(i, j)] - precision[(i, j)]));
    eigenvalue(gap.as_ref())
}

impl<L: SmoothLoss> ConsistencyBounds<Normal> for SmoothPosterior<L> {
    fn lower_cbo(&self, candidate: &Normal) -> Result<f64> {
        self.extremum(candidate, -1.0)
    }

    fn upper_cbo(&self, candidate: &Normal) -> Result<f64> {
        self.extremum(candidate, 1.0)
    }

    fn divergence_from(&self, candidate: &Normal) -> Result<f64> {
        Ok((self.log_consistency - self.lower_cbo(candidate)?).max(0.0))
    }

    fn divergence_to(&self, candidate: &Normal) -> Result<f64> {
        Ok((self.upper_cbo(candidate)? - self.log_consistency).max(0.0))
    }
}

/// The convex problem `min sign·(ℓ̂(θ) - ½(θ-η)ᵀP(θ-η))`, strongly convex with the given modulus.
struct Inner<'a, L> {
    loss: &'a L,
    candidate: Option<&'a Normal>,
    sign: f64,
    modulus: f64,
}

impl<L: SmoothLoss> Convex for Inner<'_, L> {
    fn contains(&self, theta: &[f64]) -> bool {
        theta.iter().all(|t| t.is_finite())
    }

    fn value(&self, theta: &[f64]) -> f64 {
        let gaussian = self
            .candidate
            .map_or(0.0, |g| 0.5 * g.squared_distance(theta));
        self.sign * (self.loss.value(theta) - gaussian)
    }

    fn gradient(&self, theta: &[f64]) -> Vec<f64> {
        let mut gradient = self.loss.gradient(theta);
        if let Some(g) = self.candidate {
            let step = linear::difference(theta, g.mode());
            for (slope, shift) in gradient
                .iter_mut()
                .zip(linear::multiply(g.precision(), &step))
            {
                *slope -= shift;
            }
        }
        gradient.iter().map(|slope| self.sign * slope).collect()
    }

    fn hessian(&self, theta: &[f64]) -> Mat<f64> {
        let mut hessian = self.loss.hessian(theta);
        if let Some(g) = self.candidate {
            hessian -= g.precision();
        }
        if self.sign < 0.0 { -hessian } else { hessian }
    }

    fn gap(&self, _theta: &[f64], gradient: &[f64]) -> f64 {
        linear::dot(gradient, gradient) / (2.0 * self.modulus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::{sigmoid, softplus};
    use proptest::prelude::*;

    /// Two-dimensional logistic loss with an isotropic prior, the smallest loss that is not
    /// quadratic.
    #[derive(Debug, Clone)]
    pub(crate) struct Logistic {
        rows: Vec<[f64; 2]>,
        delta: f64,
    }

    impl Logistic {
        fn sum(&self, weight: impl Fn(f64) -> f64, theta: Option<&[f64]>) -> Mat<f64> {
            let mut h = Mat::from_fn(2, 2, |i, j| if i == j { self.delta } else { 0.0 });
            for row in &self.rows {
                let w = weight(theta.map_or(0.0, |t| linear::dot(row, t)));
                for i in 0..2 {
                    for j in 0..2 {
                        h[(i, j)] += w * row[i] * row[j];
                    }
                }
            }
            h
        }
    }

    impl SmoothLoss for Logistic {
        fn dimension(&self) -> usize {
            2
        }
        fn value(&self, t: &[f64]) -> f64 {
            let data: f64 = self.rows.iter().map(|r| softplus(-linear::dot(r, t))).sum();
            data + 0.5 * self.delta * linear::dot(t, t)
        }
        fn gradient(&self, t: &[f64]) -> Vec<f64> {
            let mut g: Vec<f64> = t.iter().map(|x| self.delta * x).collect();
            for r in &self.rows {
                let s = sigmoid(-linear::dot(r, t));
                g[0] -= s * r[0];
                g[1] -= s * r[1];
            }
            g
        }
        fn hessian(&self, t: &[f64]) -> Mat<f64> {
            self.sum(|z| sigmoid(z) * sigmoid(-z), Some(t))
        }
        fn curvature(&self) -> Curvature {
            let prior = self.sum(|_| 0.0, None);
            Curvature {
                lower: Some(prior.clone()),
                upper: Some(self.sum(|_| 0.25, None)),
                growth: Some(prior),
                in_family_units: None,
            }
        }
    }

    fn losses() -> impl Strategy<Value = Logistic> {
        let row = prop::array::uniform2(-2.0..2.0f64);
        (prop::collection::vec(row, 1..6), 0.3..3.0f64)
            .prop_map(|(rows, delta)| Logistic { rows, delta })
    }

    #[test]
    fn a_loss_without_curvature_bounds_is_not_certified() {
        struct Unknown;
        impl SmoothLoss for Unknown {
            fn dimension(&self) -> usize {
                1
            }
            fn value(&self, t: &[f64]) -> f64 {
                t[0] * t[0]
            }
            fn gradient(&self, t: &[f64]) -> Vec<f64> {
                vec![2.0 * t[0]]
            }
            fn hessian(&self, _: &[f64]) -> Mat<f64> {
                Mat::from_fn(1, 1, |_, _| 2.0)
            }
        }
        assert!(matches!(
            SmoothPosterior::new(Unknown),
            Err(Error::NotCertified { .. })
        ));
    }

    #[test]
    fn between_the_curvature_bounds_nothing_is_claimed() {
        let loss = Logistic {
            rows: vec![[1.0, 0.5], [-0.3, 1.0]],
            delta: 1.0,
        };
        let posterior = SmoothPosterior::new(loss).unwrap();
        let middle = Normal::isotropic([0.3, 0.3], 1.1).unwrap();
        assert!(matches!(
            posterior.lower_cbo(&middle),
            Err(Error::NotCertified { .. })
        ));
        assert_eq!(posterior.upper_cbo(&middle).unwrap(), f64::INFINITY);
        // the tightest upper normal attains the bound although the inner problem is only
        // semidefinite
        let upper = posterior.upper_normal().unwrap();
        assert_eq!(
            posterior.upper_cbo(&upper).unwrap(),
            posterior.log_consistency()
        );
        assert!(
            posterior
                .upper_cbo(&Normal::isotropic([0.0, 0.0, 0.0], 1.0).unwrap())
                .is_err()
        );
    }

    proptest! {
        #[test]
        fn quadratic_losses_agree_with_the_closed_form(
            m in prop::array::uniform3(-2.0..2.0f64), n in prop::array::uniform3(-2.0..2.0f64),
            p in prop::array::uniform3(0.3..4.0f64), q in prop::array::uniform3(0.3..4.0f64),
            offset in -3.0..3.0f64,
        ) {
            let star = Normal::diagonal(m, &p).unwrap();
            let g = Normal::diagonal(n, &q).unwrap();
            let posterior =
                SmoothPosterior::new(QuadraticLoss::new(star.clone(), offset).unwrap()).unwrap();
            let log_z = posterior.log_consistency();
            prop_assert!((log_z + offset).abs() < 1e-12);
            let (from, to) =
                (g.max_relative_entropy(&star).unwrap(), star.max_relative_entropy(&g).unwrap());
            let lower = posterior.lower_cbo(&g).unwrap();
            let upper = posterior.upper_cbo(&g).unwrap();
            prop_assert!(lower.is_finite() == from.is_finite() && upper.is_finite() == to.is_finite());
            prop_assert!(!from.is_finite() || (lower + from - log_z).abs() < 1e-9 * (1.0 + from));
            prop_assert!(!to.is_finite() || (upper - to - log_z).abs() < 1e-9 * (1.0 + to));
        }

        #[test]
        fn certified_bounds_hold_at_random_points(
            loss in losses(), eta in prop::array::uniform2(-1.5..1.5f64), share in 0.05..0.95f64,
            x in prop::array::uniform2(-6.0..6.0f64),
        ) {
            let posterior = SmoothPosterior::new(loss.clone()).unwrap();
            let log_z = posterior.log_consistency();
            let gradient = loss.gradient(posterior.mode());
            prop_assert!(gradient.iter().all(|g| g.abs() < 1e-9));
            // wide candidate: finite upper bound that holds at every point
            let wide = Normal::isotropic(eta, share * loss.delta).unwrap();
            let upper = posterior.upper_cbo(&wide).unwrap();
            let at = -loss.value(&x) + 0.5 * wide.squared_distance(&x);
            prop_assert!(at <= upper + 1e-9 && log_z <= upper + 1e-12);
            prop_assert_eq!(posterior.lower_cbo(&wide).unwrap(), f64::NEG_INFINITY);
            // narrow candidate: finite lower bound
            let top: f64 = loss.rows.iter().map(|r| linear::dot(r, r)).sum::<f64>() * 0.25;
            let narrow = Normal::isotropic(eta, loss.delta + top + share).unwrap();
            let lower = posterior.lower_cbo(&narrow).unwrap();
            let at = -loss.value(&x) + 0.5 * narrow.squared_distance(&x);
            prop_assert!(at >= lower - 1e-9 && lower <= log_z + 1e-12);
            prop_assert_eq!(posterior.upper_cbo(&narrow).unwrap(), f64::INFINITY);
        }

        #[test]
        fn bounding_normals_enclose_the_posterior(
            loss in losses(), x in prop::array::uniform2(-8.0..8.0f64),
        ) {
            let posterior = SmoothPosterior::new(loss).unwrap();
            let log = posterior.log_possibility(&x).unwrap();
            let above = -0.5 * posterior.upper_normal().unwrap().squared_distance(&x);
            let below = -0.5 * posterior.lower_normal().unwrap().squared_distance(&x);
            prop_assert!(below <= log + 1e-9 && log <= above + 1e-9);
            // the event "this very point" is bracketed, and so is everything else
            let point = Region::Point(x.to_vec());
            let (lower, upper) = posterior.possibility_of(&point).unwrap();
            prop_assert!(lower <= log.exp() + 1e-9 && log.exp() <= upper + 1e-9);
            let (lower, upper) = posterior.necessity_of(&point.complement()).unwrap();
            prop_assert!(lower <= 1.0 - log.exp() + 1e-9 && 1.0 - log.exp() <= upper + 1e-9);
            let (a, b) = posterior.laplace_scalings().unwrap();
            prop_assert!(a <= 1.0 + 1e-12 && b >= 1.0 - 1e-12);
            let laplace = -0.5 * posterior.laplace().unwrap().squared_distance(&x);
            prop_assert!(b * laplace <= log + 1e-9 && log <= a * laplace + 1e-9);
        }
    }
}
