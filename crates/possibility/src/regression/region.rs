//! A linear form of the coefficients and the unknown variance of a normal response, together.
//!
//! With `n` the number of observations, `m` and `s²` mode and variance of the form `t` under the
//! Laplace approximation, `φ̂` the mode of the variance and `r = 1 + (t - m)²/(n s²)`, the other
//! coefficients profiled out:
//! `log g(t, φ) = -n/2 (log(φ/φ̂) + r φ̂/φ - 1)`, largest in `φ` at `r φ̂`.
//! Section 5.1 of the paper has it for a known variance.

use super::RegressionPosterior;
use crate::error::{Error, Result, check, check_alpha};
use crate::family::special::{deviance, exp_m1_minus_roots};
use crate::function::Credence;
use crate::set::{Interval, RealSet};

/// The possibility function of a linear form and an unknown variance.
///
/// ```
/// use possibility::regression::{Design, Dispersion, PriorPrecision, RegressionConfig, Response};
/// use possibility::{Interval, RealSet};
/// let mut design = Design::new(Response::Normal, 1)?;
/// for y in [1.0, 3.0, 4.0, 6.0] {
///     design.push(&[1.0], y)?;
/// }
/// let config = RegressionConfig {
///     prior_precision: PriorPrecision::Scalar(0.0),
///     dispersion: Dispersion::Unknown,
///     ..RegressionConfig::default()
/// };
/// let posterior = config.build(design.columns())?.fit(&design)?;
/// let together = posterior.with_variance(&[1.0])?;
/// assert_eq!(together.mode(), (3.5, 3.25));
/// // the profile of the mean is the supremum over all variances
/// let above = Interval::at_least(5.0)?.into();
/// let above = together.possibility_of(&above, &RealSet::everything());
/// assert!((above - (1.0f64 + 1.5 * 1.5 / 3.25).powf(-2.0)).abs() < 1e-14);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FormAndVariance {
    weight: f64,
    mode: f64,
    form_variance: f64,
    variance: f64,
    /// The mode is off by at most this many standard deviations.
    mode_error: f64,
    /// Relative error of both variances together.
    variance_error: f64,
}

/// Relative rounding of the formula for `log g`: a few roundings of each term.
const ROUNDING: f64 = 16.0 * f64::EPSILON;

impl RegressionPosterior {
    /// A linear form and the unknown variance of a normal response.
    ///
    /// # Errors
    /// A form of another size, or one that is the same whatever the coefficients.
    pub fn with_variance(&self, form: &[f64]) -> Result<FormAndVariance> {
        let marginal = self.laplace_marginal(form)?;
        let form_variance = marginal.standard_deviation().powi(2);
        check("variance of the form", form_variance, "(0, inf)", |v| {
            v > 0.0
        })?;
        let exact = self.exact_form(form).ok_or(Error::Unsupported {
            what: "a form and the variance of a response that is not normal",
        })?;
        let rounded = f64::EPSILON * marginal.mode().abs() / marginal.standard_deviation();
        Ok(FormAndVariance {
            weight: self.weight(),
            mode: marginal.mode(),
            form_variance,
            variance: self.dispersion(),
            mode_error: exact.mode_error + rounded,
            variance_error: 2.0 * exact.variance_error,
        })
    }
}

impl FormAndVariance {
    /// The form and the variance of possibility 1.
    pub fn mode(&self) -> (f64, f64) {
        (self.mode, self.variance)
    }

    /// `r`.
    fn ratio(&self, form: f64) -> f64 {
        1.0 + (form - self.mode).powi(2) / (self.weight * self.form_variance)
    }

    /// `log g(t, φ)`; minus infinity for variances that are not positive.
    pub fn log_possibility(&self, form: f64, variance: f64) -> f64 {
        self.log_at(self.ratio(form), variance)
    }

    fn log_at(&self, ratio: f64, variance: f64) -> f64 {
        if variance <= 0.0 || variance == f64::INFINITY {
            return f64::NEG_INFINITY;
        }
        // log(φ/rφ̂) + rφ̂/φ - 1 ≥ 0, and what the form costs by itself
        let best = ratio * self.variance;
        let away = deviance(1.0, best / variance);
        0.0 - 0.5 * self.weight * (away + (ratio - 1.0).ln_1p())
    }

    /// The variances in the α-cut beside this value of the form; `None` if there are none.
    ///
    /// # Errors
    /// A level outside `(0, 1]`.
    pub fn slice(&self, form: f64, alpha: f64) -> Result<Option<Interval>> {
        check_alpha(alpha)?;
        let ratio = self.ratio(form);
        let left = -2.0 * alpha.ln() / self.weight - (ratio - 1.0).ln_1p();
        if left < 0.0 {
            return Ok(None);
        }
        // w - 1 - log w = left for w = rφ̂/φ
        let (down, up) = exp_m1_minus_roots(left);
        let best = ratio * self.variance;
        Interval::closed(best * (-up).exp(), best * (-down).exp()).map(Some)
    }

    /// `sup g` over all forms in one and all variances in the other set.
    pub fn possibility_of(&self, forms: &RealSet, variances: &RealSet) -> f64 {
        self.log_supremum(forms, variances).exp()
    }

    /// Possibility and necessity of "the form is in one and the variance in the other set".
    pub fn credence_of(&self, forms: &RealSet, variances: &RealSet) -> Credence {
        let everything = RealSet::everything();
        let inside = self.log_supremum(forms, variances);
        let outside = self
            .log_supremum(&forms.complement(), &everything)
            .max(self.log_supremum(&everything, &variances.complement()));
        Credence::from_logs(inside, outside)
    }

    /// How far the logs of possibility and of `1 - necessity` may be off, at most.
    ///
    /// With `w = rφ̂/φ` and `log g = -n/2 (w - 1 - log w + log r)`, errors `ε` of a variance and
    /// `δ` standard deviations of the mode move `log g` by at most `nw/2 (ε + δ/√n)`, and `w` is
    /// below `2 + 4 abs(log g)/n`.
    pub fn error_of(&self, credence: Credence) -> f64 {
        let logs = [credence.possibility.ln(), (-credence.necessity).ln_1p()];
        // an event without points has possibility 0, exactly
        let finite = logs.iter().filter(|log| log.is_finite());
        let size = finite.fold(0.0, |most: f64, log| most.max(log.abs()));
        let relative = self.variance_error + self.mode_error / self.weight.sqrt() + ROUNDING;
        (self.weight + 2.0 * size) * relative
    }

    fn log_supremum(&self, forms: &RealSet, variances: &RealSet) -> f64 {
        // the nearer form is better whatever the variance
        let forms = forms.nearest(self.mode).into_iter().flatten();
        let ratio = forms
            .map(|form| self.ratio(form))
            .fold(f64::INFINITY, f64::min);
        if ratio == f64::INFINITY {
            return f64::NEG_INFINITY;
        }
        let variances = variances
            .nearest(ratio * self.variance)
            .into_iter()
            .flatten();
        let logs = variances.map(|variance| self.log_at(ratio, variance));
        logs.fold(f64::NEG_INFINITY, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn three() -> FormAndVariance {
        FormAndVariance {
            weight: 7.0,
            mode: 1.5,
            form_variance: 0.3,
            variance: 2.0,
            mode_error: 0.0,
            variance_error: 0.0,
        }
    }

    #[test]
    fn by_hand() {
        let g = three();
        assert_eq!(g.log_possibility(1.5, 2.0), 0.0);
        // -n/2 log φ - (S + q φ̂)/(2φ), the log likelihood of seven observations
        let log = |t: f64, v: f64| {
            let squares = 7.0 * 2.0 + (t - 1.5f64).powi(2) / 0.3 * 2.0;
            -3.5 * v.ln() - 0.5 * squares / v
        };
        for (t, v) in [(0.2, 0.7), (1.5, 9.0), (4.0, 2.0), (-3.0, 1e-3)] {
            let want = log(t, v) - log(1.5, 2.0);
            assert!(
                (g.log_possibility(t, v) - want).abs() < 1e-12 * want.abs().max(1.0),
                "{t} {v}"
            );
        }
        assert_eq!(g.log_possibility(1.5, 0.0), f64::NEG_INFINITY);
        assert_eq!(
            g.possibility_of(&RealSet::empty(), &RealSet::everything()),
            0.0
        );
        assert!(g.slice(1.5, 0.0).is_err());
        assert_eq!(g.slice(9.0, 0.99).unwrap(), None);
        let point = g.slice(1.5, 1.0).unwrap().unwrap();
        assert!((point.lower() - 2.0).abs() < 1e-6 && (point.upper() - 2.0).abs() < 1e-6);
    }

    #[test]
    fn the_error_covers_a_change_of_the_numbers() {
        let exact = FormAndVariance {
            mode_error: 3e-7,
            variance_error: 2e-7,
            ..three()
        };
        let changed = FormAndVariance {
            mode: 1.5 + 3e-7 * 0.3f64.sqrt(),
            form_variance: 0.3 * (1.0 - 1e-7),
            variance: 2.0 * (1.0 + 1e-7),
            ..three()
        };
        let above = |x: f64| RealSet::from(Interval::at_least(x).unwrap());
        let below = |x: f64| RealSet::from(Interval::below(x).unwrap());
        for (t, v) in [(1.6, 0.1), (4.0, 1.5), (-9.0, 2.5), (2.0, 40.0)] {
            for variances in [above(v), below(v)] {
                let log = |g: &FormAndVariance| g.log_supremum(&above(t), &variances);
                let moved = (log(&exact) - log(&changed)).abs();
                let error = exact.error_of(exact.credence_of(&above(t), &variances));
                assert!(moved <= error && error < 1e-4, "{t} {v}: {moved} {error}");
            }
        }
        let sure = Credence {
            possibility: 0.0,
            necessity: 0.0,
        };
        assert_eq!(three().error_of(sure), 7.0 * ROUNDING);
    }

    proptest! {
        #[test]
        fn slices_end_at_their_level(t in -3.0..5.0f64, alpha in 0.001..1.0f64) {
            let g = three();
            match g.slice(t, alpha).unwrap() {
                None => prop_assert!(g.log_possibility(t, g.ratio(t) * 2.0) < alpha.ln()),
                Some(cut) => for end in [cut.lower(), cut.upper()] {
                    prop_assert!((g.log_possibility(t, end) - alpha.ln()).abs() < 1e-9);
                },
            }
        }

        #[test]
        fn a_box_has_the_supremum_of_its_grid(
            a in -3.0..4.0f64, width in 0.0..3.0f64, low in 0.0..5.0f64, height in 0.01..4.0f64,
        ) {
            let g = three();
            let set = |a: f64, b: f64| RealSet::from(Interval::closed(a, b).unwrap());
            let (forms, variances) = (set(a, a + width), set(low, low + height));
            let found = g.possibility_of(&forms, &variances);
            let steps = || (0..=200).map(|i| f64::from(i) / 200.0);
            let mut largest = 0.0f64;
            for t in steps().map(|s| a + s * width) {
                for v in steps().map(|s| low + s * height) {
                    largest = largest.max(g.log_possibility(t, v).exp());
                }
            }
            prop_assert!(largest <= found + 1e-12);
            prop_assert!(largest >= found * 0.97 - 1e-12, "{} {}", largest, found);
            let credence = g.credence_of(&forms, &variances);
            prop_assert_eq!(credence.possibility, found);
            prop_assert!(credence.necessity == 0.0 || credence.possibility == 1.0);
        }
    }
}
