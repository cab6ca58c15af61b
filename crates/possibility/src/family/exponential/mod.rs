//! The general possibilistic exponential family `g_λ(θ) = exp(λᵀT(θ) - A(λ) - B(θ))`, where the
//! log-partition is a supremum, `A(λ) = sup_θ λᵀT(θ) - B(θ)`. Paper: Section 5, and its four
//! examples in the appendix "Possibilistic Exponential Family".
//!
//! | example | Θ | T(θ) | B(θ) | A |
//! |---|---|---|---|---|
//! | [`BernoulliStyle`] | {0, 1} | (1 - θ, θ), or θ | 0 | max(λ₁, λ₂), or max(0, η) |
//! | [`PoissonStyle`] | ℕ₀ | θ | log θ! | ⌊e^λ⌋λ - log ⌊e^λ⌋! |
//! | [`NormalStyle`] | ℝ | θ | θ²/(2σ²) | σ²λ²/2 |
//! | [`PointMassStyle`] | [0, 1] | (θ, **1**₀(θ)) | 0 | max(0, λ₁, λ₂) |
//!
//! On a finite Θ any `T` and `B` will do: [`FiniteFamily`] takes the supremum exactly.

mod bernoulli;
mod finite;
mod normal;
mod point_mass;
mod poisson;

pub use bernoulli::BernoulliStyle;
pub use finite::{FiniteFamily, FiniteMember};
pub use normal::NormalStyle;
pub use point_mass::PointMassStyle;
pub use poisson::PoissonStyle;

use crate::error::{Result, check};
use crate::function::Possibility;

/// A member `g_λ` of a possibilistic exponential family, taken apart into `λ`, `T`, `A(λ)` and `B`.
///
/// Implement it beside [`Possibility`] for a family of your own; the law that ties the two together
/// is `log_possibility(θ) = exponential_form(θ)`.
///
/// ```
/// use possibility::Possibility;
/// use possibility::family::exponential::{ExponentialForm, PoissonStyle};
/// let counts = PoissonStyle::new(3.7)?;
/// let (direct, by_parts) = (counts.log_possibility(&5), counts.exponential_form(&5));
/// assert!((direct - by_parts).abs() < 1e-14);
/// # Ok::<(), possibility::Error>(())
/// ```
pub trait ExponentialForm: Possibility {
    /// The natural parameter `λ`.
    fn natural(&self) -> Vec<f64>;

    /// The sufficient statistic `T(θ)`, as long as `λ`.
    fn statistic(&self, point: &Self::Point) -> Vec<f64>;

    /// The base measure `B(θ)`, in `(-∞, +∞]`.
    fn base(&self, point: &Self::Point) -> f64;

    /// The log-partition `A(λ) = sup_θ λᵀT(θ) - B(θ)`.
    fn log_partition(&self) -> f64;

    /// `λᵀT(θ) - A(λ) - B(θ)`, as the definition has it.
    fn exponential_form(&self, point: &Self::Point) -> f64 {
        let linear: f64 = self
            .natural()
            .iter()
            .zip(self.statistic(point))
            .map(|(parameter, statistic)| parameter * statistic)
            .sum();
        linear - self.log_partition() - self.base(point)
    }
}

/// `α` in `(0, 1]`, as `log α`.
pub(crate) fn check_alpha(alpha: f64) -> Result<f64> {
    check("alpha", alpha, "(0, 1]", |a| a > 0.0 && a <= 1.0).map(f64::ln)
}
