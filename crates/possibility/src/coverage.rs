//! How often an α-cut covers the truth in large samples.
//!
//! Where the possibility of a number is its relative likelihood, `-2 log` of that of the true value
//! is asymptotically `χ²` with one degree of freedom (Wilks). So the α-cut of one number covers the
//! truth in a share
//!
//! `c(α) → P(Z² ≤ -2 log α) = erf(√(-log α))`
//!
//! of many samples, with `Z` standard normal: 0.9857 for the 0.05-cut, 0.95 for the 0.1465-cut. In
//! small samples, and next to the boundary of a parameter, the share is another one. A prior that
//! does not grow with the sample changes nothing of this.

use crate::error::{Result, check, check_alpha};
use crate::family::special::increasing_root;

/// The asymptotic share `c(α)` of samples whose α-cut covers the truth.
///
/// ```
/// use possibility::coverage::coverage_of_cut;
/// assert!((coverage_of_cut(0.05)? - 0.9857).abs() < 1e-4);
/// # Ok::<(), possibility::Error>(())
/// ```
///
/// # Errors
/// `alpha` is not in `(0, 1]`.
pub fn coverage_of_cut(alpha: f64) -> Result<f64> {
    check_alpha(alpha)?;
    Ok(normal_within((-2.0 * alpha.ln()).sqrt()))
}

/// The level `α` with `c(α) = coverage`.
///
/// ```
/// use possibility::coverage::cut_of_coverage;
/// assert!((cut_of_coverage(0.95)? - 0.1465).abs() < 1e-4);
/// # Ok::<(), possibility::Error>(())
/// ```
///
/// # Errors
/// `coverage` is not in `(0, 1)`.
pub fn cut_of_coverage(coverage: f64) -> Result<f64> {
    check("coverage", coverage, "(0, 1)", |c| c > 0.0 && c < 1.0)?;
    let density = |z: f64| (2.0 / std::f64::consts::PI).sqrt() * (-0.5 * z * z).exp();
    let z = increasing_root(|z| (normal_within(z), density(z)), coverage, 1.0);
    Ok((-0.5 * z * z).exp())
}

/// `P(|Z| ≤ z) = √(2/π) e^{-z²/2} (z + z³/3 + z⁵/(3·5) + …)` for `z ≥ 0`.
fn normal_within(z: f64) -> f64 {
    /// Beyond it nothing is left to 1.
    const ALL: f64 = 9.0;
    if z >= ALL {
        return 1.0;
    }
    let (mut term, mut sum, mut odd) = (z, z, 1.0);
    while term > f64::EPSILON * sum {
        odd += 2.0;
        term *= z * z / odd;
        sum += term;
    }
    let share = (2.0 / std::f64::consts::PI).sqrt() * (-0.5 * z * z).exp() * sum;
    share.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use golden::number;
    use proptest::prelude::*;

    /// A series of positive terms, and a root found to the last digits.
    const TOLERANCE: f64 = 1e-13;

    #[test]
    fn golden_coverage() {
        for case in golden::cases("coverage/coverage.json") {
            let (alpha, coverage) = (number(&case["alpha"]), number(&case["coverage"]));
            golden::assert_close(
                "coverage",
                &[coverage_of_cut(alpha).unwrap()],
                &[coverage],
                TOLERANCE,
            );
            // where the share is close to 1, its last digit moves the level
            let allowed = TOLERANCE * alpha + 16.0 * f64::EPSILON;
            let back = cut_of_coverage(coverage).unwrap();
            golden::assert_within("level", &[back], &[alpha], allowed);
        }
    }

    #[test]
    fn ends_and_mistakes() {
        assert_eq!(coverage_of_cut(1.0), Ok(0.0));
        assert_eq!(coverage_of_cut(1e-300), Ok(1.0));
        for bad in [0.0, -1.0, 1.5, f64::NAN] {
            assert!(coverage_of_cut(bad).is_err());
        }
        for bad in [0.0, 1.0, -0.5, 95.0, f64::NAN] {
            assert!(cut_of_coverage(bad).is_err());
        }
        let error = cut_of_coverage(95.0).unwrap_err();
        assert_eq!(error.to_string(), "coverage 95 is not in (0, 1)");
    }

    proptest! {
        #[test]
        fn a_lower_level_covers_more_often(a in 1e-8..1.0f64, b in 1e-8..1.0f64) {
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(coverage_of_cut(low).unwrap() >= coverage_of_cut(high).unwrap());
        }

        #[test]
        fn the_two_invert_each_other(coverage in 0.001..0.999f64) {
            let back = coverage_of_cut(cut_of_coverage(coverage).unwrap()).unwrap();
            prop_assert!((back - coverage).abs() < 1e-12);
        }
    }
}
