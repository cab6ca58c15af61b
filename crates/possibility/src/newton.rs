//! Damped Newton iteration on a convex problem that can bound its own distance to the minimum.

use faer::Mat;

use crate::error::{Error, Result, check_finite, check_real};
use crate::linear;

/// Largest certified gap, relative to `1 + |value|`.
const TOLERANCE: f64 = 1e-12;
/// A predicted decrease below this share of `1 + |value|` is lost in the rounding of the values.
const SETTLED: f64 = 1e-13;
/// Armijo's constant.
const SUFFICIENT: f64 = 1e-4;
/// Newton steps before giving up.
const STEPS: usize = 200;
/// Shortest share of a Newton step that is tried.
const SHORTEST: f64 = 1e-12;

/// A convex function to be minimized over its domain.
pub(crate) trait Convex {
    /// Whether the point is in the domain.
    fn contains(&self, theta: &[f64]) -> bool;
    /// Value at a point of the domain.
    fn value(&self, theta: &[f64]) -> f64;
    /// Gradient.
    fn gradient(&self, theta: &[f64]) -> Vec<f64>;
    /// Hessian.
    fn hessian(&self, theta: &[f64]) -> Mat<f64>;
    /// How far the minimum may lie below the value at a point with this gradient.
    fn gap(&self, theta: &[f64], gradient: &[f64]) -> f64;
}

/// The minimizer and the minimum, certified to a relative `1e-12`.
///
/// # Errors
/// The value or gradient is not finite, a Hessian not positive definite, or the certificate not
/// reached.
pub(crate) fn minimize(problem: &impl Convex, start: &[f64]) -> Result<(Vec<f64>, f64)> {
    let mut theta = start.to_vec();
    let mut value = problem.value(&theta);
    check_real("loss", value)?;
    // the certificate of any visited point holds for the later ones, which are lower
    let mut gap = f64::INFINITY;
    for _ in 0..STEPS {
        let gradient = problem.gradient(&theta);
        check_finite("gradient of the loss", &gradient)?;
        if gradient.iter().all(|slope| *slope == 0.0) {
            gap = 0.0;
            break;
        }
        gap = gap.min(problem.gap(&theta, &gradient));
        let hessian = problem.hessian(&theta);
        let factor = linear::cholesky("Hessian of the inner problem", hessian.as_ref())?;
        let step = linear::solve(factor.as_ref(), &gradient);
        let decrease = linear::dot(&gradient, &step);
        if decrease <= SETTLED * (1.0 + value.abs()) {
            // one last step, judged by the gradient because the values agree to rounding
            let next = along(&theta, &step, 1.0);
            if problem.contains(&next) {
                let after = problem.gradient(&next);
                if linear::dot(&after, &after) < linear::dot(&gradient, &gradient) {
                    gap = gap.min(problem.gap(&next, &after));
                    value = value.min(problem.value(&next));
                    theta = next;
                }
            }
            break;
        }
        let mut rate = 1.0;
        let found = loop {
            let next = along(&theta, &step, rate);
            if problem.contains(&next) {
                let found = problem.value(&next);
                if found <= value - SUFFICIENT * rate * decrease {
                    break Some((next, found));
                }
            }
            rate *= 0.5;
            if rate < SHORTEST {
                break None;
            }
        };
        let Some(found) = found else { break };
        (theta, value) = found;
    }
    if gap <= TOLERANCE * (1.0 + value.abs()) {
        Ok((theta, value))
    } else {
        Err(Error::NotConverged {
            what: "the inner Newton iteration",
            steps: STEPS,
            residual: gap,
        })
    }
}

fn along(theta: &[f64], step: &[f64], rate: f64) -> Vec<f64> {
    theta.iter().zip(step).map(|(t, s)| t - rate * s).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `x - log x` on `x > 0`: minimum 1 at 1, a barrier at 0.
    struct Barrier {
        modulus: f64,
    }

    impl Convex for Barrier {
        fn contains(&self, x: &[f64]) -> bool {
            x[0] > 0.0
        }
        fn value(&self, x: &[f64]) -> f64 {
            x[0] - x[0].ln()
        }
        fn gradient(&self, x: &[f64]) -> Vec<f64> {
            vec![1.0 - 1.0 / x[0]]
        }
        fn hessian(&self, x: &[f64]) -> Mat<f64> {
            Mat::from_fn(1, 1, |_, _| x[0].powi(-2))
        }
        fn gap(&self, _x: &[f64], gradient: &[f64]) -> f64 {
            gradient[0] * gradient[0] / (2.0 * self.modulus)
        }
    }

    #[test]
    fn stays_in_the_domain_and_finds_the_minimum() {
        // from 5 the full Newton step would leave the domain
        let (x, value) = minimize(&Barrier { modulus: 0.01 }, &[5.0]).unwrap();
        assert!((x[0] - 1.0).abs() < 1e-12 && (value - 1.0).abs() < 1e-15);
    }

    #[test]
    fn an_infinite_value_is_refused() {
        assert!(matches!(
            minimize(&Barrier { modulus: 0.01 }, &[f64::INFINITY]),
            Err(Error::OutOfRange { field: "loss", .. })
        ));
    }
}
