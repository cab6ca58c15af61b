//! The paper in the code: where each definition, theorem, proposition and example of *Maxitive
//! Donsker-Varadhan Formulation for Possibilistic Variational Inference* lives. Every item has its
//! formula in its documentation, and tests by hand value, finite difference and law.
//!
//! | paper | statement | code |
//! |---|---|---|
//! | Section 2 | possibility function, support | [`Possibility`], [`Finite`], [`UnimodalCount`], [`Line`], [`Normal`] |
//! | | the same of one number | [`Univariate`] |
//! | | expected value `E*_f[θ] = argmax f`, a set | [`Mode`] |
//! | | `E*[T(θ)] = T(E*[θ])` | [`Mode::transform`], [`Finite::expected_value`], [`Joint::expected_value`], [`Normal::affine_image`] |
//! | | precision `ℐ_f = -∇² log f` at the mode | [`Normal::precision`], [`Line::precision`], [`Univariate::precision`], [`Conjugate::precision`] |
//! | | normal possibility function `N̄(μ, Σ)` | [`Normal`] |
//! | | order `f ⪯ g`, greatest element **1** | [`Finite::precedes`], [`Normal::precedes`], [`Line::compare`]; [`Uninformative`] |
//! | | `max 𝒢` and `min 𝒢` of a set of functions | [`Finite::greatest`], [`Finite::least`]; pointwise [`Finite::pointwise_max`], [`Finite::pointwise_min`], [`Envelope`] |
//! | Section 3 | generalized posterior `q*`, evidence `Z_add` | [`FiniteEvidence`], [`NormalEvidence`] |
//! | Theorem 1 | Donsker and Varadhan's formula, `q*` the only maximizer | [`EvidenceBound`], laws in the tests of [`probability`] |
//! | | ELBO, `log Z = ELBO(q) + KL(q‖q*)` | [`EvidenceBound::elbo`], [`Distribution::kl_divergence`], [`NormalDistribution::kl_divergence`] |
//! | Section 4 | posterior `g*`, consistency `Z_max` | [`FinitePosterior`], [`LinePosterior`], [`SmoothPosterior`] |
//! | | consistency as a measure of conflict | [`FinitePosterior::log_conflict`], [`LinePosterior::log_conflict`] |
//! | Theorem 2 | maxitive Donsker-Varadhan formula, optimizers | laws in the tests of [`posterior`] (argmax = functions below `g*`, argmin = functions above) |
//! | | lower and upper CBO | [`ConsistencyBounds`] |
//! | | decomposition `log Z = lower + D_max(g‖g*) = upper - D_max(g*‖g)` | laws in the tests of [`posterior`] and [`smooth`] |
//! | | `g* = max argmax lower CBO = min argmin upper CBO`, the only function in both sets | [`FinitePosterior::maximizes_lower_cbo`], [`FinitePosterior::minimizes_upper_cbo`], by enumeration in the tests of [`posterior`] |
//! | | max-relative entropy `D_max`, support conventions | [`Finite::max_relative_entropy`], [`Normal::max_relative_entropy`], [`Line::max_relative_entropy`] |
//! | Section 5 | exponential family `(T, B, A)`, `A` as a supremum | [`ExponentialForm`], [`FiniteFamily`] |
//! | Proposition 1 | posterior as `exp(-D_A(θ‖θ*))` and as a KL divergence | [`ConjugateFamily`], [`Conjugate`]; in one dimension [`ScalarFamily`], [`ScalarPosterior`] |
//! | Proposition 2.1 | dual function `f_θ(λ) = g_λ(θ)` | [`Dual`] |
//! | Proposition 2.2 | powers `g_λ^ν`, conjugate update, `ν = 0` | [`Conjugate::power`], [`Conjugate::observe`], [`Conjugate::observe_statistics`], [`Conjugate::uninformative`] |
//! | | mode `∇A†(λ)`, precision `(∇²A†)⁻¹` | [`Conjugate::mode`], [`Conjugate::precision`] |
//! | Proposition 3 | Danskin gradient, Newton-like update, `H_s` | [`Variational::gradient`], [`Variational::newton_step`], [`Variational::curvature_gap`] |
//! | Remark 1 | mirror descent form | [`Variational::mirror_step`] |
//! | Remark 2 | equality once converged | [`Variational::run`] |
//! | Section 5, practical form | signed update with a diagonal curvature and fixed `ϑ`, `s = ±1` | [`Diagonal`] |
//! | Algorithm 1 | uCBOpt | rule `ucbopt` of the crate `cbopt`, its gap in `cbo::fixed` |
//! | Algorithm 2 | uCBOpt-adapt | rule `ucbopt-adapt`, `cbo::upper` |
//! | Algorithm 3 | lCBOpt-adapt | rule `lcbopt-adapt`, `cbo::lower` |
//! | Appendix C | necessity | [`Measure::necessity_of`] |
//! | | independence, marginals, conditioning | [`Joint`], [`Normal::independent_product`], [`Normal::marginal`], [`Normal::conditional`] |
//! | | uninformative and improper priors | [`LinePosterior::uninformative`], [`LinePosterior::from_regularizer`] |
//! | | credal set `{P : P(A) ≤ sup_A f}`, and `f` as its envelope | [`CredalSet`] |
//! | Appendix E.1 | either CBO as the limit of Rényi's and the `χⁿ` bounds | [`FiniteEvidence::renyi_bound`] |
//! | Appendix E.2 | active region of `D_max` | [`Line::active_region`] |
//! | Appendix E.3 | Bayesian logistic regression | [`LogSigmoid`], [`posterior`], `maxitive figures`; at scale [`regression`] |
//! | Appendix F | properties 1 to 3: `T`, `B` and `A` against those of distributions | [`exponential`], [`ExponentialForm::additive_log_partition`] |
//! | Examples 1 to 4 | Bernoulli, Poisson, normal, indicator | [`BernoulliStyle`], [`PoissonStyle`], [`NormalStyle`], [`PointMassStyle`] |
//!
//! # Beyond the paper
//!
//! - **Candidates other than isotropic normals.** The paper leaves anisotropic and non-Gaussian
//!   candidates untested. [`NormalGenerator`] takes diagonal and full precisions,
//!   [`FamilyGenerator`] any conjugate family. With `a∇²A ⪯ ∇²ℓ̂ ⪯ b∇²A` the inner problem is
//!   strongly concave relative to `A` with modulus `a - 1` (upper) or strongly convex with modulus
//!   `1 - b` (lower), and the distance to its extremum is bounded by a Bregman divergence of the
//!   dual.
//! - **Tight Gaussian bounds.** The tightest Gaussian above and the widest below a possibility
//!   function, centered at the mode, are the infimum and the supremum of
//!   `q(x) = -2 log f(x)/(x - m)²` ([`TightGaussians`]). The Laplace approximation lies between
//!   them and is neither. They give certified lower and upper values for the possibility and
//!   necessity of any event.
//! - **Valid possibilities.** The probability of data that agree with a parameter no better than
//!   those that were seen is a possibility function whose α-cut covers the truth with probability
//!   at least `1 - α` at every sample size ([`valid`](crate::valid)).
//! - **Comparisons.** The possibility of a linear form of two independent numbers is a supremum
//!   over a line; in the mean parameter of every one-dimensional family its extrema are the roots
//!   of a cubic ([`Contrast`](crate::compare::Contrast)).
//! - **Regression.** The supremum-marginal of any linear form of the coefficients is a convex
//!   problem for each value; [`Profiles`](regression::Profiles) solves it and bounds its own error
//!   by the Newton decrement and the greatest leverage, because `abs(b''') ≤ b''` for every
//!   canonical link here. The Laplace approximation is neither above nor below the posterior;
//!   Gaussian bounds hold over a stated α-cut
//!   ([`bounds_above`](regression::Regression::bounds_above)). For labels, the prior precision `Δ`
//!   is in the Löwner order the tightest Gaussian above the posterior everywhere, because the
//!   logistic loss grows only linearly; `Δ + Σ w(zᵢ) xᵢxᵢᵀ` with `w(z) = tanh(|z|/2)/(2|z|)` lies
//!   below it everywhere, because each parabola touches its loss at `±zᵢ`. For one observation in
//!   one dimension it is the widest.
//! - **Prediction.** The paper predicts with the mode and leaves the candidate around it unused. A
//!   supremum passes through a network whose logits are linear in the weights: [`Logits`] gives
//!   upper and lower probabilities, possibilities and the necessity of the answer in as many
//!   numbers as there are classes, [`Calibrated`] sets of classes with a guaranteed coverage.
//!
//! # Conventions
//!
//! - The supremum over the empty set is possibility 0. `D_max(g‖f)` is `+∞` if `g` is possible
//!   where `f` is not.
//! - Where the prior vanishes, bounds run over its support: a candidate that is possible outside
//!   has lower bound `-∞`, one that is impossible inside has upper bound `+∞`.
//! - A supremum that is only approached has a mode at the limit, possibly infinite (all successes:
//!   the log-odds of a Bernoulli variable), and a one-sided α-cut.
//! - Events and α-cuts need no Jacobian: they are the same in the natural and in the mean
//!   parameter.
//!
//! The update rules that the paper derives from Proposition 3 (Algorithms 1 to 3) are in the crate
//! `cbopt`, which does not depend on this one.

#[cfg(doc)]
use crate::{
    Finite, Joint, Measure, Mode, Normal, Possibility, Uninformative, Univariate,
    bound::ConsistencyBounds,
    count::UnimodalCount,
    credal::{CredalSet, Envelope},
    curve::LogSigmoid,
    family::conjugate::{Conjugate, ConjugateFamily, Dual, ScalarFamily, ScalarPosterior},
    family::exponential,
    family::exponential::{
        BernoulliStyle, ExponentialForm, FiniteFamily, NormalStyle, PointMassStyle, PoissonStyle,
    },
    line::Line,
    posterior,
    posterior::{FinitePosterior, LinePosterior},
    prediction::{Calibrated, Logits},
    probability,
    probability::{
        Distribution, EvidenceBound, FiniteEvidence, NormalDistribution, NormalEvidence,
    },
    regression, smooth,
    smooth::SmoothPosterior,
    tight::TightGaussians,
    variational::{Diagonal, FamilyGenerator, NormalGenerator, Variational},
};
