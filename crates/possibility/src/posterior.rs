//! Posterior possibility functions `g*(θ) = exp(-ℓ(θ)) π(θ) / Z_max` from a loss and a prior. Paper: Section 4.
//!
//! The normalizing constant `Z_max = sup exp(-ℓ) π` measures how consistent prior and likelihood are, rather
//! than an average fit: [`LinePosterior::log_conflict`] compares it with what the likelihood alone would
//! reach, which makes a score for conflicting priors and for outliers.

use crate::bound::ConsistencyBounds;
use crate::curve::{Curve, Parabola, Plus, Scaled, Sum};
use crate::error::{Error, Result};
use crate::line::Line;
use crate::search::Search;
use crate::set::Interval;

/// Largest `|sup log π|` of a prior.
const NORMALIZED: f64 = 1e-9;

/// The posterior on an interval or the line, from curves for `-ℓ` and `log π`.
///
/// ```
/// use possibility::bound::ConsistencyBounds;
/// use possibility::curve::{LogSigmoid, Parabola};
/// use possibility::line::Line;
/// use possibility::posterior::LinePosterior;
/// // one failure seen, standard normal prior on the log-odds
/// let posterior = LinePosterior::new(LogSigmoid::new(-1.0)?, Parabola::new(0.0, 1.0)?)?;
/// assert!((posterior.log_consistency() + 0.5930145580865889).abs() < 1e-12);
/// // any candidate brackets it
/// let candidate = Line::new(Parabola::new(-0.4, 1.5)?)?;
/// assert!(posterior.lower_cbo(&candidate)? <= posterior.log_consistency());
/// assert_eq!(posterior.upper_cbo(&candidate)?, f64::INFINITY);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct LinePosterior<L, P> {
    function: Line<Plus<L, P>>,
    search: Search,
}

impl<L: Curve, P: Curve> LinePosterior<L, P> {
    /// The posterior for the log likelihood `-ℓ` and the log prior `log π`.
    ///
    /// # Errors
    /// The prior is not normalized to supremum 1, prior and loss have no common domain, or the
    /// consistency is infinite or cannot be certified.
    pub fn new(log_likelihood: L, log_prior: P) -> Result<Self> {
        let search = Search::default();
        let supremum = search.supremum(&log_prior, Interval::REAL_LINE)?.value;
        if supremum.abs() > NORMALIZED {
            return Err(Error::NotNormalized {
                supremum: supremum.exp(),
            });
        }
        let function = Line::normalize_with(Plus::new(log_likelihood, log_prior)?, search)?;
        Ok(Self { function, search })
    }

    /// `g*`.
    pub fn function(&self) -> &Line<Plus<L, P>> {
        &self.function
    }

    /// `log Z_max = log sup_θ exp(-ℓ(θ)) π(θ)`, the log consistency of prior and likelihood.
    pub fn log_consistency(&self) -> f64 {
        self.function.log_supremum()
    }

    /// The regularized loss `ℓ̂(θ) = ℓ(θ) - log π(θ)`.
    pub fn regularized_loss(&self, theta: f64) -> f64 {
        -self.function.curve().value(theta)
    }

    /// `log Z_max - sup(-ℓ) ≤ 0`: how much likelihood the prior costs at best.
    ///
    /// Near 0 the prior agrees with the data; the more negative, the stronger the conflict. For a single
    /// observation under the posterior of the others it scores an outlier.
    ///
    /// # Errors
    /// The supremum of the likelihood cannot be certified.
    pub fn log_conflict(&self) -> Result<f64> {
        let best = self
            .search
            .supremum(self.function.curve().first(), Interval::REAL_LINE)?;
        Ok((self.function.log_supremum() - best.value).min(0.0))
    }

    /// `-ℓ + log π - log g` as a curve.
    fn integrand<'a, D: Curve>(&'a self, candidate: &'a Line<D>) -> Result<Sum<'a>> {
        Sum::new(vec![
            Box::new(self.function.curve()),
            Box::new(Scaled::negative(candidate.log_curve())),
        ])
    }
}

impl<L: Curve> LinePosterior<L, Parabola> {
    /// The posterior under the uninformative prior **1**.
    ///
    /// # Errors
    /// The likelihood has no finite supremum that can be certified.
    pub fn uninformative(log_likelihood: L) -> Result<Self> {
        Self::new(log_likelihood, Parabola::new(0.0, 0.0)?)
    }
}

impl<L: Curve, R: Curve> LinePosterior<L, Scaled<R>> {
    /// The posterior for a regularizer `R`: the prior is `exp(-(R - inf R))`, whether or not it could be
    /// integrated.
    ///
    /// # Errors
    /// The infimum of the regularizer is not finite or cannot be certified, or as [`Self::new`].
    pub fn from_regularizer(log_likelihood: L, regularizer: R) -> Result<Self> {
        let lowest = Search::default()
            .infimum(&regularizer, Interval::REAL_LINE)?
            .value;
        Self::new(log_likelihood, Scaled::new(regularizer, -1.0, lowest)?)
    }
}

/// Whether `outer` contains `inner`, end points aside.
fn covers(outer: &Interval, inner: &Interval) -> bool {
    outer.lower() <= inner.lower() && inner.upper() <= outer.upper()
}

impl<L: Curve, P: Curve, D: Curve> ConsistencyBounds<Line<D>> for LinePosterior<L, P> {
    fn lower_cbo(&self, candidate: &Line<D>) -> Result<f64> {
        if !covers(&self.function.support(), &candidate.support()) {
            return Ok(f64::NEG_INFINITY);
        }
        Ok(self
            .search
            .infimum(&self.integrand(candidate)?, Interval::REAL_LINE)?
            .value)
    }

    fn upper_cbo(&self, candidate: &Line<D>) -> Result<f64> {
        if !covers(&candidate.support(), &self.function.support()) {
            return Ok(f64::INFINITY);
        }
        Ok(self
            .search
            .supremum(&self.integrand(candidate)?, Interval::REAL_LINE)?
            .value)
    }

    fn divergence_from(&self, candidate: &Line<D>) -> Result<f64> {
        candidate.max_relative_entropy(&self.function)
    }

    fn divergence_to(&self, candidate: &Line<D>) -> Result<f64> {
        self.function.max_relative_entropy(candidate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arithmetic::Scalar;
    use crate::curve::{Formula, LogSigmoid, Restricted, Smooth};
    use crate::function::{Mode, Possibility};
    use proptest::prelude::*;

    /// `-log cosh x`-like tails: the log of a Student-like prior, improper as a probability for small `a`.
    #[derive(Debug, Clone, Copy)]
    struct RootPenalty {
        a: f64,
    }

    impl Formula for RootPenalty {
        fn evaluate<S: Scalar>(&self, x: S) -> S {
            x.square().shift(1.0).sqrt().shift(-1.0).scale(self.a)
        }
        fn holds_on(&self) -> Interval {
            Interval::closed(-50.0, 50.0).unwrap()
        }
    }

    fn gaussian(mode: f64, precision: f64) -> Line<Parabola> {
        Line::new(Parabola::new(mode, precision).unwrap()).unwrap()
    }

    #[test]
    fn a_regularizer_is_shifted_to_a_prior() {
        let likelihood = LogSigmoid::new(1.0).unwrap();
        let raised = Scaled::new(Smooth(RootPenalty { a: 0.1 }), 1.0, 7.0).unwrap();
        let posterior = LinePosterior::from_regularizer(likelihood, raised).unwrap();
        let mode = *posterior.function().mode().as_point().unwrap();
        // the slopes balance: σ(-x) = a x / sqrt(1 + x²)
        let balance = 1.0 / (1.0 + mode.exp()) - 0.1 * mode / (1.0 + mode * mode).sqrt();
        assert!(balance.abs() < 1e-10);
        assert!((posterior.regularized_loss(mode) + posterior.log_consistency()).abs() < 1e-12);
    }

    #[test]
    fn the_uninformative_prior_leaves_the_likelihood() {
        let posterior = LinePosterior::uninformative(Parabola::new(2.0, 3.0).unwrap()).unwrap();
        assert_eq!(posterior.function().mode(), &Mode::Point(2.0));
        assert!(posterior.log_consistency().abs() < 1e-15);
        assert!(posterior.log_conflict().unwrap().abs() < 1e-15);
    }

    #[test]
    fn conflict_grows_with_the_distance_between_prior_and_data() {
        // normals with precisions 1 and 4, d apart: log consistency -d²/2 · 1·4/(1+4)
        for d in [0.0f64, 0.5, 3.0] {
            let likelihood = Parabola::new(d, 4.0).unwrap();
            let posterior =
                LinePosterior::new(likelihood, Parabola::new(0.0, 1.0).unwrap()).unwrap();
            let expected = -0.5 * d * d * 4.0 / 5.0;
            assert!((posterior.log_conflict().unwrap() - expected).abs() < 1e-12);
        }
    }

    #[test]
    fn an_unnormalized_prior_is_refused() {
        let prior = Scaled::new(Parabola::new(0.0, 1.0).unwrap(), 1.0, -1.0).unwrap();
        let error = LinePosterior::new(LogSigmoid::new(1.0).unwrap(), prior).unwrap_err();
        assert!(matches!(error, Error::NotNormalized { .. }));
    }

    #[test]
    fn bounds_follow_the_supports_where_the_prior_vanishes() {
        let half = Interval::at_least(0.0).unwrap();
        let prior = Restricted::new(Parabola::new(1.0, 1.0).unwrap(), half).unwrap();
        let posterior = LinePosterior::new(LogSigmoid::new(-2.0).unwrap(), prior).unwrap();
        let wide = gaussian(0.5, 0.5);
        assert_eq!(posterior.lower_cbo(&wide).unwrap(), f64::NEG_INFINITY);
        assert_eq!(posterior.divergence_from(&wide).unwrap(), f64::INFINITY);
        let upper = posterior.upper_cbo(&wide).unwrap();
        let gap = posterior.divergence_to(&wide).unwrap();
        assert!((upper - gap - posterior.log_consistency()).abs() < 1e-10);
        let narrow = Line::normalize(
            Restricted::new(
                Parabola::new(2.0, 9.0).unwrap(),
                Interval::at_least(1.0).unwrap(),
            )
            .unwrap(),
        )
        .unwrap();
        assert_eq!(posterior.upper_cbo(&narrow).unwrap(), f64::INFINITY);
        assert!(posterior.lower_cbo(&narrow).unwrap().is_finite());
        assert_eq!(posterior.function().possibility(&-0.1), 0.0);
    }

    proptest! {
        #[test]
        fn the_posterior_lies_between_its_bounds_and_the_decompositions_hold(
            factor in -3.0..3.0f64, delta in 0.2..4.0f64, center in -2.0..2.0f64,
            mu in -2.0..2.0f64, precision in 0.1..6.0f64,
        ) {
            let posterior = LinePosterior::new(
                LogSigmoid::new(factor).unwrap(), Parabola::new(center, delta).unwrap()).unwrap();
            let candidate = gaussian(mu, precision);
            let log_z = posterior.log_consistency();
            let (lower, upper) =
                (posterior.lower_cbo(&candidate).unwrap(), posterior.upper_cbo(&candidate).unwrap());
            prop_assert!(lower <= log_z + 1e-12 && log_z <= upper + 1e-12);
            let (from, to) = (
                posterior.divergence_from(&candidate).unwrap(),
                posterior.divergence_to(&candidate).unwrap(),
            );
            prop_assert_eq!(lower.is_finite(), from.is_finite());
            prop_assert_eq!(upper.is_finite(), to.is_finite());
            let scale = 1.0 + lower.abs().min(1e300);
            prop_assert!(!lower.is_finite() || (lower + from - log_z).abs() <= 1e-10 * scale);
            let scale = 1.0 + upper.abs().min(1e300);
            prop_assert!(!upper.is_finite() || (upper - to - log_z).abs() <= 1e-10 * scale);
            // argmax and argmin: a bound is attained exactly by the functions below or above the posterior
            let below = candidate.compare(posterior.function());
            if let Ok(below) = below {
                prop_assert_eq!(below.holds(), from < 1e-11);
            }
        }

        #[test]
        fn both_bounds_are_attained_by_the_posterior_itself(
            factor in -3.0..3.0f64, delta in 0.2..4.0f64, center in -2.0..2.0f64,
        ) {
            let likelihood = LogSigmoid::new(factor).unwrap();
            let prior = Parabola::new(center, delta).unwrap();
            let posterior = LinePosterior::new(likelihood, prior).unwrap();
            let log_z = posterior.log_consistency();
            let (lower, upper) = (
                posterior.lower_cbo(posterior.function()).unwrap(),
                posterior.upper_cbo(posterior.function()).unwrap(),
            );
            prop_assert!((lower - log_z).abs() < 1e-11 && (upper - log_z).abs() < 1e-11);
        }
    }
}
