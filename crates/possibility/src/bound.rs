//! Consistency bounds (CBO) and the maxitive Donsker-Varadhan formula. Paper: Section 4.
//!
//! For a loss `ℓ`, a prior possibility function `π` and a candidate `g`,
//!
//! ```text
//! lower CBO(g) = inf_θ { -ℓ(θ) - log(g(θ)/π(θ)) } ≤ log Z_max ≤ sup_θ { -ℓ(θ) - log(g(θ)/π(θ)) } = upper CBO(g),
//! log Z_max = lower CBO(g) + D_max(g ‖ g*) = upper CBO(g) - D_max(g* ‖ g),
//! ```
//!
//! with `log Z_max = sup_θ { -ℓ(θ) + log π(θ) }` and the posterior `g* = exp(-ℓ) π / Z_max`. The
//! lower bound is attained exactly by the candidates with `g ⪯ g*`, the upper one exactly by those
//! with `g* ⪯ g`, and both only by the posterior itself.
//!
//! Where the prior vanishes the extrema run over its support: a candidate that is possible outside
//! it has lower bound `-∞`, one that is impossible somewhere inside has upper bound `+∞`.

use crate::error::Result;

/// A posterior possibility function that bounds its log consistency by candidates of type `G`.
///
/// The bounds are computed from their definition, not through the decomposition, so that the
/// decomposition is a law that can be tested.
pub trait ConsistencyBounds<G: ?Sized> {
    /// `inf_θ { -ℓ(θ) - log(g(θ)/π(θ)) }`.
    ///
    /// # Errors
    /// The infimum cannot be certified, or the candidate lives on another space.
    fn lower_cbo(&self, candidate: &G) -> Result<f64>;

    /// `sup_θ { -ℓ(θ) - log(g(θ)/π(θ)) }`.
    ///
    /// # Errors
    /// The supremum cannot be certified, or the candidate lives on another space.
    fn upper_cbo(&self, candidate: &G) -> Result<f64>;

    /// `D_max(g ‖ g*)`, the gap of the lower bound.
    ///
    /// # Errors
    /// The supremum cannot be certified, or the candidate lives on another space.
    fn divergence_from(&self, candidate: &G) -> Result<f64>;

    /// `D_max(g* ‖ g)`, the gap of the upper bound.
    ///
    /// # Errors
    /// The supremum cannot be certified, or the candidate lives on another space.
    fn divergence_to(&self, candidate: &G) -> Result<f64>;
}
