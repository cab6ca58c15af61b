//! The probabilistic twin: distributions on finite sets and normal distributions, their
//! Kullback-Leibler divergence, and the posterior with its evidence bound. Paper: Section 3 and
//! Appendix E.1.
//!
//! Donsker and Varadhan's formula (Theorem 1) for `h = -ℓ` and a prior `π`, beside its maxitive
//! form (Theorem 2, in [`bound`](crate::bound)):
//!
//! ```text
//! log Z_add = log ∫ exp(-ℓ) dπ = sup_q ELBO(q),     ELBO(q) = -E_q[ℓ] - KL(q‖π),
//! log Z_add = ELBO(q) + KL(q‖q*),                   q* = exp(-ℓ) π / Z_add.
//! ```
//!
//! The supremum is attained by `q*` alone, where each consistency bound is attained by a whole set
//! of possibility functions. Between the two stands Rényi's bound of order `a`,
//! `log(E_q[(exp(-ℓ)π/q)^(1-a)])/(1-a)`: it falls from the upper consistency bound (`a → -∞`) over
//! the log evidence (`a = 0`) and the ELBO (`a = 1`) to the lower one (`a → +∞`); see
//! [`FiniteEvidence::renyi_bound`].

use std::f64::consts::TAU;

use faer::MatRef;

use crate::error::{Error, Result, check, check_size};
use crate::finite::Finite;
use crate::linear;
use crate::normal::Normal;
use crate::numeric::log_sum_exp;
use crate::smooth::QuadraticLoss;

/// A posterior distribution that bounds its log evidence by candidates of type `Q`: what
/// [`ConsistencyBounds`](crate::bound::ConsistencyBounds) is to possibility functions.
///
/// As there, the bound is computed from its definition, so that `log Z = ELBO(q) + KL(q‖q*)` is a
/// law that can be tested.
pub trait EvidenceBound<Q: ?Sized> {
    /// `log Z_add = log ∫ exp(-ℓ) dπ`.
    fn log_evidence(&self) -> f64;

    /// `ELBO(q) = -E_q[ℓ] - KL(q‖π)`, at most the log evidence.
    ///
    /// # Errors
    /// The candidate lives on another space.
    fn elbo(&self, candidate: &Q) -> Result<f64>;

    /// `KL(q‖q*)`, the gap of the bound.
    ///
    /// # Errors
    /// The candidate lives on another space.
    fn divergence_from(&self, candidate: &Q) -> Result<f64>;
}

/// A probability distribution on `{0, …, n-1}`.
///
/// ```
/// use possibility::probability::Distribution;
/// let p = Distribution::normalize(&[1.0, 2.0, 1.0])?;
/// assert_eq!(p.values(), [0.25, 0.5, 0.25]);
/// assert_eq!(p.probability_of(&[0, 2])?, 0.5);
/// let q = Distribution::normalize(&[1.0, 1.0, 0.0])?;
/// assert!((q.kl_divergence(&p)? - 0.5 * 2f64.ln()).abs() < 1e-15);
/// assert_eq!(p.kl_divergence(&q)?, f64::INFINITY);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    log_values: Vec<f64>,
}

impl Distribution {
    /// Any nonnegative values over their sum.
    ///
    /// # Errors
    /// No value, a value that is negative or not finite, or all are 0.
    pub fn normalize(values: &[f64]) -> Result<Self> {
        // the same inputs are refused as for possibilities; they are scaled to the maximum 1
        let scaled = Finite::normalize(values)?;
        Ok(Self::normalize_log(scaled.log_values())?.0)
    }

    /// `exp(log_values)` over its sum, and the log of that sum.
    ///
    /// # Errors
    /// No value, NaN or `+∞`, or all are `-∞`.
    pub fn normalize_log(log_values: &[f64]) -> Result<(Self, f64)> {
        Finite::normalize_log(log_values)?;
        let log_sum = log_sum_exp(log_values.iter().copied());
        let log_values = log_values.iter().map(|v| v - log_sum).collect();
        Ok((Self { log_values }, log_sum))
    }

    /// All of the probability on one element.
    ///
    /// # Errors
    /// `element` is not below `n`.
    pub fn point_mass(n: usize, element: usize) -> Result<Self> {
        let mut log_values = vec![f64::NEG_INFINITY; n];
        *log_values
            .get_mut(element)
            .ok_or(Error::Empty { name: "element" })? = 0.0;
        Ok(Self { log_values })
    }

    /// Number of elements.
    pub fn size(&self) -> usize {
        self.log_values.len()
    }

    /// `log p`, element by element.
    pub fn log_values(&self) -> &[f64] {
        &self.log_values
    }

    /// `p`, element by element.
    pub fn values(&self) -> Vec<f64> {
        self.log_values.iter().map(|v| v.exp()).collect()
    }

    /// `P(A)`.
    ///
    /// # Errors
    /// An element is outside the set, or twice in the event.
    pub fn probability_of(&self, event: &[usize]) -> Result<f64> {
        let mut seen = vec![false; self.size()];
        let mut sum = 0.0;
        for &element in event {
            check(
                "element of the event",
                element as f64,
                "the elements, each once",
                |_| element < seen.len() && !seen[element],
            )?;
            seen[element] = true;
            sum += self.log_values[element].exp();
        }
        Ok(sum)
    }

    /// The possibility function with the same ratios, `p/max p`, and `log max p`.
    pub fn as_possibility(&self) -> (Finite, f64) {
        Finite::normalize_log(&self.log_values).expect("a distribution has a positive value")
    }

    /// `KL(p‖q) = Σ p log(p/q)` with `p = self`; `+∞` if `p > 0 = q` somewhere.
    ///
    /// # Errors
    /// The sizes differ.
    pub fn kl_divergence(&self, other: &Self) -> Result<f64> {
        check_size("size of the other distribution", other.size(), self.size())?;
        let terms = self.log_values.iter().zip(&other.log_values);
        Ok(terms
            .filter(|(p, _)| **p > f64::NEG_INFINITY)
            .map(|(p, q)| p.exp() * (p - q))
            .sum::<f64>()
            .max(0.0))
    }
}

/// The posterior distribution on a finite set: Theorem 1 where everything is a sum.
///
/// ```
/// use possibility::probability::{Distribution, EvidenceBound, FiniteEvidence};
/// let prior = Distribution::normalize(&[1.0, 1.0])?;
/// let posterior = FiniteEvidence::new(&[0.0, 3f64.ln()], &prior)?; // likelihoods 1 and 1/3
/// assert!((posterior.log_evidence() - (2.0f64 / 3.0).ln()).abs() < 1e-15);
/// assert!((posterior.distribution().values()[0] - 0.75).abs() < 1e-15);
/// // the prior falls short of it by KL(π‖q*), the posterior by nothing
/// let (bound, gap) = (posterior.elbo(&prior)?, posterior.divergence_from(&prior)?);
/// assert!((bound + gap - posterior.log_evidence()).abs() < 1e-15 && gap > 0.1);
/// let at_best = posterior.elbo(posterior.distribution())?;
/// assert!((at_best - posterior.log_evidence()).abs() < 1e-15);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct FiniteEvidence {
    log_likelihood: Vec<f64>,
    prior: Distribution,
    distribution: Distribution,
    log_evidence: f64,
}

impl FiniteEvidence {
    /// The posterior for a loss (`+∞` excludes a point) and a prior, which may vanish somewhere.
    ///
    /// # Errors
    /// The sizes differ, a loss is NaN or `-∞`, or no point has both finite loss and positive
    /// prior.
    pub fn new(loss: &[f64], prior: &Distribution) -> Result<Self> {
        check_size("loss", loss.len(), prior.size())?;
        let log_likelihood: Vec<f64> = loss.iter().map(|l| 0.0 - l).collect();
        let joint: Vec<f64> = log_likelihood
            .iter()
            .zip(prior.log_values())
            .map(|(l, p)| if *p == f64::NEG_INFINITY { *p } else { l + p })
            .collect();
        let (distribution, log_evidence) = Distribution::normalize_log(&joint)?;
        Ok(Self {
            log_likelihood,
            prior: prior.clone(),
            distribution,
            log_evidence,
        })
    }

    /// `q*`, the Gibbs measure.
    pub fn distribution(&self) -> &Distribution {
        &self.distribution
    }

    /// Rényi's variational bound of order `a` on the log evidence, in `[-∞, +∞]`:
    ///
    /// ```text
    /// log(Σ q^a (exp(-ℓ)π)^(1-a)) / (1 - a)
    /// ```
    ///
    /// It does not rise with `a`; order 0 is the log evidence (over the support of `q`), order 1
    /// the ELBO, order `1 - n` the bound by the `χⁿ` divergence. With `r = log(exp(-ℓ)π/q)`,
    ///
    /// ```text
    /// max r + log(q)/n ≤ bound of order 1 - n ≤ max r      (q at the maximizer of r)
    /// min r ≤ bound of order 1 + n ≤ min r - log(q)/n      (q at the minimizer of r)
    /// ```
    ///
    /// so that the orders `∓∞` are `max r` and `min r`: the upper and the lower consistency bound
    /// of `g = q/max q` under the prior `π/max π`, plus `log max π - log max q`, the price of
    /// either normalization. Paper: Appendix E.1.
    ///
    /// # Errors
    /// The sizes differ, or the order is NaN.
    ///
    /// ```
    /// use possibility::bound::ConsistencyBounds;
    /// use possibility::posterior::FinitePosterior;
    /// use possibility::probability::{Distribution, FiniteEvidence};
    /// let loss = [0.0, 1.0, 0.5];
    /// let [prior, q] =
    ///     [[1.0, 1.0, 2.0], [3.0, 1.0, 4.0]].map(|v| Distribution::normalize(&v).expect("one"));
    /// let renyi = |order| FiniteEvidence::new(&loss, &prior)?.renyi_bound(&q, order);
    /// let (g, log_q) = q.as_possibility();
    /// let (flat, log_prior) = prior.as_possibility();
    /// let upper = FinitePosterior::new(&loss, &flat)?.upper_cbo(&g)? + log_prior - log_q;
    /// assert!((renyi(f64::NEG_INFINITY)? - upper).abs() < 1e-15);
    /// assert!((renyi(-1e9)? - upper).abs() < 3e-9);
    /// # Ok::<(), possibility::Error>(())
    /// ```
    pub fn renyi_bound(&self, candidate: &Distribution, order: f64) -> Result<f64> {
        check_size("candidate", candidate.size(), self.prior.size())?;
        check("order", order, "[-inf, inf]", |_| true)?;
        if order == 1.0 {
            return self.elbo(candidate);
        }
        let impossible = f64::NEG_INFINITY;
        let joint = self.joint();
        let points = joint.zip(candidate.log_values()).filter(|(p, q)| {
            // neither has a part in the sum; and for a ≥ 0 the mean is over q alone
            !(*p == impossible && **q == impossible) && (order < 0.0 || **q > impossible)
        });
        if order == f64::NEG_INFINITY {
            return Ok(points.map(|(p, q)| p - q).fold(impossible, f64::max));
        }
        if order == f64::INFINITY {
            return Ok(points.map(|(p, q)| p - q).fold(f64::INFINITY, f64::min));
        }
        let rest = 1.0 - order;
        // r·(1 - a) + log q, where one factor of q is the mean
        let terms = points.map(|(p, q)| match (p == impossible, *q == impossible) {
            (true, _) => impossible * rest.signum(),
            (_, true) => f64::INFINITY,
            _ => rest * (p - q) + q,
        });
        Ok(log_sum_exp(terms) / rest)
    }

    /// `log(exp(-ℓ)π)`.
    fn joint(&self) -> impl Iterator<Item = f64> + '_ {
        let log_evidence = self.log_evidence;
        let logs = self.distribution.log_values().iter();
        logs.map(move |q| q + log_evidence)
    }
}

impl EvidenceBound<Distribution> for FiniteEvidence {
    fn log_evidence(&self) -> f64 {
        self.log_evidence
    }

    fn elbo(&self, candidate: &Distribution) -> Result<f64> {
        let divergence = candidate.kl_divergence(&self.prior)?;
        if divergence == f64::INFINITY {
            return Ok(f64::NEG_INFINITY);
        }
        let terms = candidate.log_values().iter().zip(&self.log_likelihood);
        let expected: f64 = terms
            .filter(|(q, _)| **q > f64::NEG_INFINITY)
            .map(|(q, l)| q.exp() * l)
            .sum();
        Ok(expected - divergence)
    }

    fn divergence_from(&self, candidate: &Distribution) -> Result<f64> {
        candidate.kl_divergence(&self.distribution)
    }
}

/// The normal distribution `N(μ, Σ)` on `ℝᵈ`: the density `N̄(θ; μ, Σ)/√det(2πΣ)`.
///
/// ```
/// use possibility::Normal;
/// use possibility::probability::NormalDistribution;
/// let q = NormalDistribution::new(Normal::univariate(0.0, 1.0)?)?;
/// let p = NormalDistribution::new(Normal::univariate(1.0, 4.0)?)?;
/// assert!((q.log_density(&[0.0]) + 0.918938533204673).abs() < 1e-15);
/// assert!((q.kl_divergence(&p)? - (2f64.ln() + 0.5 * (0.25 + 0.25 - 1.0))).abs() < 1e-15);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct NormalDistribution {
    normal: Normal,
    /// `log det(2πΣ)`.
    log_volume: f64,
}

impl NormalDistribution {
    /// The distribution with the mode of a normal possibility function as its mean, and the same
    /// covariance.
    ///
    /// # Errors
    /// The covariance is not positive definite as far as `f64` can tell.
    pub fn new(normal: Normal) -> Result<Self> {
        let factor = linear::cholesky("precision", normal.precision())?;
        let log_det: f64 = (0..normal.dimension())
            .map(|i| 2.0 * factor[(i, i)].ln())
            .sum();
        let log_volume = normal.dimension() as f64 * TAU.ln() - log_det;
        Ok(Self { normal, log_volume })
    }

    /// The possibility function with the same parameters, `N̄(μ, Σ)`.
    pub fn as_possibility(&self) -> &Normal {
        &self.normal
    }

    /// The log of the density.
    pub fn log_density(&self, point: &[f64]) -> f64 {
        -0.5 * (self.normal.squared_distance(point) + self.log_volume)
    }

    /// `KL(q‖p) = ½(tr(PΣ_q) + (μ_q - μ_p)ᵀP(μ_q - μ_p) - d + log det Σ_p/det Σ_q)` with
    /// `q = self` and `P` the precision of `p`.
    ///
    /// # Errors
    /// The dimensions differ.
    pub fn kl_divergence(&self, other: &Self) -> Result<f64> {
        let d = self.normal.dimension();
        check_size("other distribution", other.normal.dimension(), d)?;
        let volumes = other.log_volume - self.log_volume;
        let twice = self.expected_distance(&other.normal) - d as f64 + volumes;
        Ok((0.5 * twice).max(0.0))
    }

    /// `E[(θ-m)ᵀP(θ-m)]` for the mode and the precision of a normal function.
    fn expected_distance(&self, other: &Normal) -> f64 {
        let trace = trace_of_product(other.precision(), self.normal.covariance());
        trace + other.squared_distance(self.normal.mode())
    }
}

fn trace_of_product(a: MatRef<'_, f64>, b: MatRef<'_, f64>) -> f64 {
    let n = a.nrows();
    (0..n)
        .flat_map(|i| (0..n).map(move |j| (i, j)))
        .map(|(i, j)| a[(i, j)] * b[(j, i)])
        .sum()
}

/// The posterior distribution for a quadratic loss and a normal prior: Theorem 1 with integrals in
/// closed form.
///
/// Its mean and precision are mode and precision of the posterior possibility function; what
/// differs is the constant, `log Z_add = log Z_max + ½ log(det Σ*/det Σ_π)`: the evidence pays for
/// the width of the prior, the consistency does not.
///
/// ```
/// use possibility::Normal;
/// use possibility::probability::{EvidenceBound, NormalDistribution, NormalEvidence};
/// use possibility::smooth::QuadraticLoss;
/// let loss = QuadraticLoss::new(Normal::univariate(2.0, 1.0)?, 0.0)?;
/// let prior = NormalDistribution::new(Normal::univariate(0.0, 1.0)?)?;
/// let posterior = NormalEvidence::new(&loss, prior.clone())?;
/// assert!((posterior.distribution().as_possibility().mode()[0] - 1.0).abs() < 1e-15);
/// // Z_max = exp(-1), and the posterior is narrower than the prior by √2
/// assert!((posterior.log_evidence() - (-1.0 - 0.5 * 2f64.ln())).abs() < 1e-15);
/// let short = posterior.log_evidence() - posterior.elbo(&prior)?;
/// assert!((short - posterior.divergence_from(&prior)?).abs() < 1e-15);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct NormalEvidence {
    loss: QuadraticLoss,
    prior: NormalDistribution,
    distribution: NormalDistribution,
    log_evidence: f64,
}

impl NormalEvidence {
    /// The posterior for a loss `ℓ` (not regularized) and a prior.
    ///
    /// # Errors
    /// The dimensions differ, or the posterior's precision cannot be factored.
    pub fn new(loss: &QuadraticLoss, prior: NormalDistribution) -> Result<Self> {
        let (posterior, log_consistency) = loss.normal().fuse(&prior.normal)?;
        let distribution = NormalDistribution::new(posterior)?;
        let volumes = distribution.log_volume - prior.log_volume;
        Ok(Self {
            loss: loss.clone(),
            prior,
            distribution,
            log_evidence: log_consistency - loss.offset() + 0.5 * volumes,
        })
    }

    /// `q*`.
    pub fn distribution(&self) -> &NormalDistribution {
        &self.distribution
    }
}

impl EvidenceBound<NormalDistribution> for NormalEvidence {
    fn log_evidence(&self) -> f64 {
        self.log_evidence
    }

    fn elbo(&self, candidate: &NormalDistribution) -> Result<f64> {
        let divergence = candidate.kl_divergence(&self.prior)?;
        let expected_loss =
            self.loss.offset() + 0.5 * candidate.expected_distance(self.loss.normal());
        Ok(-expected_loss - divergence)
    }

    fn divergence_from(&self, candidate: &NormalDistribution) -> Result<f64> {
        candidate.kl_divergence(&self.distribution)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::ConsistencyBounds;
    use crate::normal::testing::two_by_two;
    use crate::posterior::FinitePosterior;
    use crate::smooth::SmoothPosterior;
    use faer::Mat;
    use golden::{Value, number, numbers};
    use proptest::prelude::*;

    fn distribution(values: &[f64]) -> Distribution {
        Distribution::normalize(values).unwrap()
    }

    fn normal(value: &Value) -> Normal {
        let rows = golden::matrix(&value["covariance"]);
        let covariance = Mat::from_fn(rows.len(), rows.len(), |i, j| rows[i][j]);
        Normal::new(numbers(&value["mean"]), covariance).unwrap()
    }

    #[test]
    fn golden_evidence() {
        for case in golden::cases("twin/evidence.json") {
            if case["kind"] == "finite" {
                let [loss, prior, q] =
                    ["loss", "prior", "candidate"].map(|key| numbers(&case[key]));
                let posterior = FiniteEvidence::new(&loss, &distribution(&prior)).unwrap();
                let q = distribution(&q);
                let found = posterior.log_evidence();
                golden::assert_number("evidence", found, &case["log_evidence"], 1e-12);
                golden::assert_number("elbo", posterior.elbo(&q).unwrap(), &case["elbo"], 1e-12);
                for entry in golden::list(&case["renyi"]) {
                    let bound = posterior.renyi_bound(&q, number(&entry["order"])).unwrap();
                    golden::assert_number("renyi", bound, &entry["bound"], 1e-12);
                }
            } else {
                let [likelihood, prior, q] =
                    ["likelihood", "prior", "candidate"].map(|key| normal(&case[key]));
                let loss = QuadraticLoss::new(likelihood, number(&case["offset"])).unwrap();
                let [prior, q] = [prior, q].map(|n| NormalDistribution::new(n).unwrap());
                let posterior = NormalEvidence::new(&loss, prior).unwrap();
                let found = posterior.log_evidence();
                golden::assert_number("evidence", found, &case["log_evidence"], 1e-9);
                golden::assert_number("elbo", posterior.elbo(&q).unwrap(), &case["elbo"], 1e-9);
            }
        }
    }

    #[test]
    fn supports_follow_the_conventions() {
        let prior = distribution(&[1.0, 1.0, 0.0]);
        let posterior = FiniteEvidence::new(&[0.0, f64::INFINITY, 0.0], &prior).unwrap();
        assert_eq!(posterior.distribution().values(), [1.0, 0.0, 0.0]);
        // ∞ - ∞ = -∞: possible where the prior or the likelihood is not
        for q in [[1.0, 0.0, 1.0], [1.0, 1.0, 0.0]] {
            assert_eq!(
                posterior.elbo(&distribution(&q)).unwrap(),
                f64::NEG_INFINITY
            );
            let outside = posterior.renyi_bound(&distribution(&q), 2.0).unwrap();
            assert_eq!(outside, f64::NEG_INFINITY);
        }
        let elsewhere = Distribution::point_mass(3, 1).unwrap();
        for order in [f64::NEG_INFINITY, -3.0] {
            let bound = posterior.renyi_bound(&elsewhere, order).unwrap();
            assert_eq!(bound, f64::INFINITY, "{order}");
        }
        assert!(Distribution::point_mass(2, 2).is_err());
        assert!(Distribution::normalize(&[0.0, 0.0]).is_err());
        assert!(posterior.renyi_bound(&prior, f64::NAN).is_err());
        assert!(prior.probability_of(&[0, 0]).is_err() && prior.probability_of(&[3]).is_err());
        assert!(FiniteEvidence::new(&[f64::NAN, 0.0, 0.0], &prior).is_err());
    }

    fn weights(n: usize) -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(0.02..1.0f64, n)
    }

    proptest! {
        /// Theorem 1 on finite sets, and the bounds between the two calculi in their order.
        #[test]
        fn finite_evidence_decomposes_and_the_orders_descend(
            (loss, prior, q) in (2usize..9).prop_flat_map(|n| (
                prop::collection::vec(-3.0..3.0f64, n), weights(n), weights(n))),
            power in 1.0..60.0f64,
        ) {
            let (prior, q) = (distribution(&prior), distribution(&q));
            let posterior = FiniteEvidence::new(&loss, &prior).unwrap();
            let log_z = posterior.log_evidence();
            let (elbo, gap) = (posterior.elbo(&q).unwrap(), posterior.divergence_from(&q).unwrap());
            prop_assert!(elbo <= log_z + 1e-13 && (elbo + gap - log_z).abs() < 1e-12);
            prop_assert!((posterior.elbo(posterior.distribution()).unwrap() - log_z).abs() < 1e-12);
            let orders = [f64::NEG_INFINITY, 1.0 - power, 0.0, 0.5, 1.0, 1.0 + power, f64::INFINITY];
            let bounds = orders.map(|order| posterior.renyi_bound(&q, order).unwrap());
            prop_assert!((bounds[2] - log_z).abs() < 1e-12 && bounds[4] == elbo);
            for pair in bounds.windows(2) {
                prop_assert!(pair[1] <= pair[0] + 1e-12, "{:?}", bounds);
            }
            // the rate at which the limits are reached
            let smallest = q.log_values().iter().copied().fold(0.0, f64::min);
            prop_assert!(bounds[1] >= bounds[0] + smallest / power - 1e-12);
            prop_assert!(bounds[5] <= bounds[6] - smallest / power + 1e-12);
            // the limits are the consistency bounds
            let (g, log_q) = q.as_possibility();
            let (possible, log_prior) = prior.as_possibility();
            let maxitive = FinitePosterior::new(&loss, &possible).unwrap();
            let price = log_prior - log_q;
            prop_assert!((maxitive.upper_cbo(&g).unwrap() + price - bounds[0]).abs() < 1e-12);
            prop_assert!((maxitive.lower_cbo(&g).unwrap() + price - bounds[6]).abs() < 1e-12);
        }

        /// Theorem 1 for normal distributions, beside the consistency of the same parameters.
        #[test]
        fn normal_evidence_decomposes(
            m in prop::array::uniform2(-2.0..2.0f64), p in prop::array::uniform3(-1.5..1.5f64),
            mu in prop::array::uniform2(-2.0..2.0f64), s in prop::array::uniform3(-1.5..1.5f64),
            eta in prop::array::uniform2(-2.0..2.0f64), r in prop::array::uniform3(-1.5..1.5f64),
            offset in -2.0..2.0f64,
        ) {
            let normal = |mode, matrix| Normal::from_precision(mode, two_by_two(matrix)).unwrap();
            let loss = QuadraticLoss::new(normal(m, p), offset).unwrap();
            let prior = NormalDistribution::new(normal(mu, s)).unwrap();
            let q = NormalDistribution::new(normal(eta, r)).unwrap();
            let posterior = NormalEvidence::new(&loss, prior.clone()).unwrap();
            let log_z = posterior.log_evidence();
            let (elbo, gap) = (posterior.elbo(&q).unwrap(), posterior.divergence_from(&q).unwrap());
            prop_assert!(elbo <= log_z + 1e-9);
            prop_assert!((elbo + gap - log_z).abs() < 1e-9 * (1.0 + gap), "{elbo} {gap} {log_z}");
            let star = posterior.distribution();
            prop_assert!((posterior.elbo(star).unwrap() - log_z).abs() < 1e-9);
            // Bayes' rule at a point, density by density
            let point = [0.3, -0.4];
            let log_likelihood = -offset + -0.5 * loss.normal().squared_distance(&point);
            let bayes = log_likelihood + prior.log_density(&point) - log_z;
            prop_assert!((star.log_density(&point) - bayes).abs() < 1e-9 * (1.0 + bayes.abs()));
            // the same parameters maximize; the constants differ by the volumes
            let (fused, log_conflict) = loss.normal().fuse(prior.as_possibility()).unwrap();
            let maxitive =
                SmoothPosterior::new(QuadraticLoss::new(fused, offset - log_conflict).unwrap()).unwrap();
            for (a, b) in maxitive.mode().iter().zip(star.as_possibility().mode()) {
                prop_assert!((a - b).abs() < 1e-9);
            }
            let volumes = 0.5 * (star.log_volume - prior.log_volume);
            prop_assert!((maxitive.log_consistency() + volumes - log_z).abs() < 1e-9);
        }
    }
}
