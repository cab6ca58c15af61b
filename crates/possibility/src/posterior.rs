//! Posterior possibility functions `g*(θ) = exp(-ℓ(θ)) π(θ) / Z_max` from a loss and a prior.
//! Paper: Section 4.
//!
//! The normalizing constant `Z_max = sup exp(-ℓ) π` measures how consistent prior and likelihood
//! are, rather than an average fit: [`LinePosterior::log_conflict`] compares it with what the
//! likelihood alone would reach, which makes a score for conflicting priors and for outliers.

use crate::bound::ConsistencyBounds;
use crate::curve::{Curve, Parabola, Plus, Scaled, Sum};
use crate::error::{Error, Result, check_entries, check_size};
use crate::finite::Finite;
use crate::line::Line;
use crate::search::Search;
use crate::set::Interval;

/// The posterior on a finite set, exact.
///
/// ```
/// use possibility::Finite;
/// use possibility::bound::ConsistencyBounds;
/// use possibility::posterior::FinitePosterior;
/// let prior = Finite::from_values(&[1.0, 0.5, 0.25])?;
/// let posterior = FinitePosterior::new(&[2.0, 0.0, 0.0], &prior)?;
/// assert_eq!(posterior.log_consistency(), 0.5f64.ln());
/// assert_eq!(posterior.function().values(), [(-2.0f64).exp() / 0.5, 1.0, 0.5]);
/// let candidate = Finite::from_values(&[1.0, 1.0, 1.0])?;
/// assert_eq!(posterior.upper_cbo(&candidate)?, posterior.log_consistency());
/// assert!(posterior.lower_cbo(&candidate)? < posterior.log_consistency());
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FinitePosterior {
    /// `-ℓ`.
    log_likelihood: Vec<f64>,
    log_prior: Vec<f64>,
    function: Finite,
    log_consistency: f64,
}

impl FinitePosterior {
    /// The posterior for a loss (`+∞` excludes a point) and a prior, which may vanish somewhere.
    ///
    /// # Errors
    /// The sizes differ, a loss is NaN or `-∞`, or no point has both finite loss and positive
    /// prior.
    pub fn new(loss: &[f64], prior: &Finite) -> Result<Self> {
        check_size("loss", loss.len(), prior.size())?;
        check_entries("loss", loss, "(-inf, inf]", |l| l > f64::NEG_INFINITY)?;
        let log_prior = prior.log_values().to_vec();
        // on the support of the prior alone: outside, the loss does not matter
        let logs: Vec<f64> = loss
            .iter()
            .zip(&log_prior)
            .map(|(l, p)| if *p == f64::NEG_INFINITY { *p } else { p - l })
            .collect();
        if logs.iter().all(|l| *l == f64::NEG_INFINITY) {
            return Err(Error::Impossible {
                what: "the likelihood under the prior",
            });
        }
        let (function, log_consistency) = Finite::normalize_log(&logs)?;
        let log_likelihood = loss.iter().map(|l| 0.0 - l).collect();
        Ok(Self {
            log_likelihood,
            log_prior,
            function,
            log_consistency,
        })
    }

    /// The posterior for a regularizer `R`: the prior is `exp(-(R - min R))`.
    ///
    /// # Errors
    /// As [`Self::new`], and if `R` is NaN, `-∞`, or `+∞` everywhere.
    pub fn from_regularizer(loss: &[f64], regularizer: &[f64]) -> Result<Self> {
        let logs: Vec<f64> = regularizer.iter().map(|r| 0.0 - r).collect();
        Self::new(loss, &Finite::normalize_log(&logs)?.0)
    }

    /// `g*`.
    pub fn function(&self) -> &Finite {
        &self.function
    }

    /// `log Z_max`.
    pub fn log_consistency(&self) -> f64 {
        self.log_consistency
    }

    /// The regularized loss `ℓ̂ = ℓ - log π`, `+∞` outside the support of the prior.
    pub fn regularized_loss(&self, index: usize) -> f64 {
        if self.log_prior[index] == f64::NEG_INFINITY {
            return f64::INFINITY;
        }
        0.0 - (self.log_likelihood[index] + self.log_prior[index])
    }

    /// Whether the candidate is in `argmax lower CBO = {g : g ⪯ g*}`.
    ///
    /// The posterior is the greatest of them, the least of the minimizers of the upper bound, and
    /// the only function that is both: `g* = max argmax lower CBO = min argmin upper CBO`. Paper:
    /// Section 4.
    ///
    /// # Errors
    /// The sizes differ.
    ///
    /// ```
    /// use possibility::Finite;
    /// use possibility::posterior::FinitePosterior;
    /// let posterior = FinitePosterior::new(&[0.0, 1.0], &Finite::uninformative(2)?)?;
    /// let narrow = Finite::from_values(&[1.0, 0.1])?;
    /// assert!(posterior.maximizes_lower_cbo(&narrow)? && !posterior.minimizes_upper_cbo(&narrow)?);
    /// let below = [narrow, posterior.function().clone()];
    /// assert_eq!(Finite::greatest(&below)?, Some(posterior.function()));
    /// # Ok::<(), possibility::Error>(())
    /// ```
    pub fn maximizes_lower_cbo(&self, candidate: &Finite) -> Result<bool> {
        candidate.precedes(&self.function)
    }

    /// Whether the candidate is in `argmin upper CBO = {g : g* ⪯ g}`; see
    /// [`Self::maximizes_lower_cbo`].
    ///
    /// # Errors
    /// The sizes differ.
    pub fn minimizes_upper_cbo(&self, candidate: &Finite) -> Result<bool> {
        self.function.precedes(candidate)
    }

    /// `log Z_max - max(-ℓ) ≤ 0`, see [`LinePosterior::log_conflict`].
    pub fn log_conflict(&self) -> f64 {
        let best = self
            .log_likelihood
            .iter()
            .copied()
            .fold(f64::NEG_INFINITY, f64::max);
        (self.log_consistency - best).min(0.0)
    }

    /// `-ℓ - log(g/π)` on the support of the prior, without the points that loss and candidate both
    /// exclude.
    fn integrand<'a>(&'a self, candidate: &'a Finite) -> impl Iterator<Item = f64> + 'a {
        let impossible = f64::NEG_INFINITY;
        let points = self
            .log_likelihood
            .iter()
            .zip(&self.log_prior)
            .zip(candidate.log_values());
        points.filter_map(move |((likelihood, prior), g)| {
            let skipped = *prior == impossible || (*likelihood == impossible && *g == impossible);
            (!skipped).then(|| likelihood + prior - g)
        })
    }
}

impl ConsistencyBounds<Finite> for FinitePosterior {
    fn lower_cbo(&self, candidate: &Finite) -> Result<f64> {
        check_size("candidate", candidate.size(), self.log_prior.len())?;
        let outside = self
            .log_prior
            .iter()
            .zip(candidate.log_values())
            .any(|(prior, g)| *prior == f64::NEG_INFINITY && *g > f64::NEG_INFINITY);
        if outside {
            return Ok(f64::NEG_INFINITY);
        }
        Ok(self.integrand(candidate).fold(f64::INFINITY, f64::min))
    }

    fn upper_cbo(&self, candidate: &Finite) -> Result<f64> {
        check_size("candidate", candidate.size(), self.log_prior.len())?;
        Ok(self.integrand(candidate).fold(f64::NEG_INFINITY, f64::max))
    }

    fn divergence_from(&self, candidate: &Finite) -> Result<f64> {
        candidate.max_relative_entropy(&self.function)
    }

    fn divergence_to(&self, candidate: &Finite) -> Result<f64> {
        self.function.max_relative_entropy(candidate)
    }
}

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
    /// Near 0 the prior agrees with the data; the more negative, the stronger the conflict. For a
    /// single observation under the posterior of the others it scores an outlier.
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
    /// The posterior for a regularizer `R`: the prior is `exp(-(R - inf R))`, whether or not it
    /// could be integrated.
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

impl<L: Curve, P: Curve, D: Curve> ConsistencyBounds<Line<D>> for LinePosterior<L, P> {
    fn lower_cbo(&self, candidate: &Line<D>) -> Result<f64> {
        if !self.function.support().covers(&candidate.support()) {
            return Ok(f64::NEG_INFINITY);
        }
        Ok(self
            .search
            .infimum(&self.integrand(candidate)?, Interval::REAL_LINE)?
            .value)
    }

    fn upper_cbo(&self, candidate: &Line<D>) -> Result<f64> {
        if !candidate.support().covers(&self.function.support()) {
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

    /// `-log cosh x`-like tails: the log of a Student-like prior, improper as a probability for
    /// small `a`.
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

    fn finite(values: &[f64]) -> Finite {
        Finite::normalize(values).unwrap()
    }

    #[test]
    fn finite_posteriors_refuse_what_makes_no_sense() {
        let prior = Finite::from_values(&[1.0, 0.0]).unwrap();
        assert!(matches!(
            FinitePosterior::new(&[0.0], &prior),
            Err(Error::Dimension { .. })
        ));
        assert!(FinitePosterior::new(&[f64::NAN, 0.0], &prior).is_err());
        let excluded = FinitePosterior::new(&[f64::INFINITY, 0.0], &prior);
        assert_eq!(
            excluded,
            Err(Error::Impossible {
                what: "the likelihood under the prior"
            })
        );
    }

    #[test]
    fn a_point_excluded_by_the_loss_costs_a_candidate_only_if_it_is_possible_there() {
        let prior = Finite::uninformative(3).unwrap();
        let posterior = FinitePosterior::new(&[f64::INFINITY, 0.0, 1.0], &prior).unwrap();
        let avoids = Finite::from_values(&[0.0, 1.0, 0.5]).unwrap();
        assert_eq!(posterior.lower_cbo(&avoids).unwrap(), -1.0 - 0.5f64.ln());
        assert_eq!(posterior.upper_cbo(&avoids).unwrap(), 0.0);
        let includes = Finite::from_values(&[0.1, 1.0, 0.5]).unwrap();
        assert_eq!(posterior.lower_cbo(&includes).unwrap(), f64::NEG_INFINITY);
        assert_eq!(posterior.upper_cbo(&includes).unwrap(), 0.0);
    }

    /// Every possibility function on three elements with values in quarters, and the posterior.
    #[test]
    fn the_posterior_is_the_extreme_of_either_set_of_optimizers() {
        let quarters = || (0..5).map(|k| f64::from(k) / 4.0);
        let mut all: Vec<Finite> = quarters()
            .flat_map(|a| quarters().flat_map(move |b| quarters().map(move |c| [a, b, c])))
            .filter_map(|values| Finite::from_values(&values).ok())
            .collect();
        assert_eq!(all.len(), 125 - 64);
        let prior = Finite::from_values(&[1.0, 0.5, 0.75]).unwrap();
        for likelihood in [[1.0, 0.8, 0.4], [0.1, 0.7, 0.2], [0.1, 0.9, 0.9]] {
            let loss = likelihood.map(|l: f64| -l.ln());
            let posterior = FinitePosterior::new(&loss, &prior).unwrap();
            let (star, log_z) = (posterior.function().clone(), posterior.log_consistency());
            all.push(star.clone());
            // by their definition: none of these candidates is within 1e-3 but the optimizers
            let attained = |bound: f64| {
                assert!((bound - log_z).abs() < 1e-12 || (bound - log_z).abs() > 1e-3);
                (bound - log_z).abs() < 1e-12
            };
            let (lower, upper): (Vec<Finite>, Vec<Finite>) = (
                all.iter()
                    .filter(|g| attained(posterior.lower_cbo(g).unwrap()))
                    .cloned()
                    .collect(),
                all.iter()
                    .filter(|g| attained(posterior.upper_cbo(g).unwrap()))
                    .cloned()
                    .collect(),
            );
            for g in &all {
                assert_eq!(lower.contains(g), posterior.maximizes_lower_cbo(g).unwrap());
                assert_eq!(upper.contains(g), posterior.minimizes_upper_cbo(g).unwrap());
            }
            assert!(lower.len() > 2 && upper.len() > 2);
            assert_eq!(Finite::greatest(&lower).unwrap(), Some(&star));
            assert_eq!(Finite::least(&upper).unwrap(), Some(&star));
            assert_eq!(Finite::pointwise_max(&lower).unwrap(), star);
            assert_eq!(Finite::pointwise_min(&upper).unwrap(), star);
            let both: Vec<&Finite> = lower.iter().filter(|g| upper.contains(g)).collect();
            assert_eq!(both, [&star]);
            all.pop();
        }
    }

    fn weights(n: usize) -> impl Strategy<Value = Vec<f64>> {
        // zeros included, so that supports differ
        let weight = prop_oneof![4 => 0.01..1.0f64, 1 => Just(0.0)];
        prop::collection::vec(weight, n).prop_map(|mut v| {
            v[0] = 1.0;
            v.rotate_left(1);
            v
        })
    }

    proptest! {
        #[test]
        fn finite_bounds_decompose_and_characterize_the_posterior(
            (loss, prior, g) in (2usize..9).prop_flat_map(|n| (
                prop::collection::vec(-3.0..3.0f64, n), weights(n), weights(n))),
        ) {
            let posterior = FinitePosterior::new(&loss, &finite(&prior)).unwrap();
            let g = finite(&g);
            let log_z = posterior.log_consistency();
            let (lower, upper) = (posterior.lower_cbo(&g).unwrap(), posterior.upper_cbo(&g).unwrap());
            prop_assert!(lower <= log_z + 1e-14 && log_z <= upper + 1e-14);
            let (from, to) =
                (posterior.divergence_from(&g).unwrap(), posterior.divergence_to(&g).unwrap());
            prop_assert!(
                (lower == f64::NEG_INFINITY && from == f64::INFINITY)
                    || (lower + from - log_z).abs() < 1e-10
            );
            prop_assert!(
                (upper == f64::INFINITY && to == f64::INFINITY)
                    || (upper - to - log_z).abs() < 1e-10
            );
            // the bounds are attained exactly by the functions below and above the posterior
            let star = posterior.function();
            prop_assert_eq!(g.precedes(star).unwrap(), from <= 0.0);
            prop_assert_eq!(star.precedes(&g).unwrap(), to <= 0.0);
            prop_assert!((posterior.lower_cbo(star).unwrap() - log_z).abs() < 1e-14);
            prop_assert!((posterior.upper_cbo(star).unwrap() - log_z).abs() < 1e-14);
            // a function squeezed below the posterior is a maximizer, one raised above it a
            // minimizer
            let squeezed = finite(&star.values().iter().map(|v| v.powi(3)).collect::<Vec<_>>());
            prop_assert!((posterior.lower_cbo(&squeezed).unwrap() - log_z).abs() < 1e-12);
            let raised = finite(&star.values().iter().map(|v| v.cbrt()).collect::<Vec<_>>());
            prop_assert!((posterior.upper_cbo(&raised).unwrap() - log_z).abs() < 1e-12);
        }

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
            // argmax and argmin: a bound is attained exactly by the functions below or above the
            // posterior
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
