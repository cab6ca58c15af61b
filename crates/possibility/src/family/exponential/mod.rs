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
//!
//! What sets them apart from families of distributions (the three properties of the appendix):
//!
//! 1. `T` and `B` have no general counterparts. With the same `T` and `B` the Poisson distribution
//!    has another log-partition, `e^λ`; the normal one needs `½ log(2πσ²)` as well; and `1₀` counts
//!    in the last example only because suprema see single points.
//! 2. `B` need not be the indicator of the support: it is `log θ!` in the second example.
//! 3. `A = sup(λᵀT - B)` stands where a distribution has
//!    `A₊ = log ∫ exp(λᵀT - B)` ([`ExponentialForm::additive_log_partition`]): the logarithm and
//!    the supremum commute. On `n` points `A ≤ A₊ ≤ A + log n`.

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

    /// `A₊(λ) = log ∫ exp(λᵀT(θ) - B(θ)) dθ`, the log-partition of the distribution with the same
    /// `T` and `B`: the sum over counts, the integral over an interval.
    ///
    /// ```
    /// use possibility::family::exponential::{ExponentialForm, PoissonStyle};
    /// let counts = PoissonStyle::new(3.7)?;
    /// assert!((counts.additive_log_partition() - 3.7).abs() < 1e-15);
    /// assert!((counts.log_partition() - (3.7f64.powi(3) / 6.0).ln()).abs() < 1e-14);
    /// # Ok::<(), possibility::Error>(())
    /// ```
    fn additive_log_partition(&self) -> f64;

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

#[cfg(test)]
mod properties {
    //! Properties 1 to 3 of the paper's Appendix F.

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn golden_additive_log_partitions() {
        for case in golden::cases("twin/partitions.json") {
            let natural = golden::numbers(&case["natural"]);
            let (found, possibilistic) = match case["family"].as_str().unwrap() {
                "bernoulli" => both(&BernoulliStyle::new([natural[0], natural[1]]).unwrap()),
                "poisson" => both(&PoissonStyle::new(natural[0].exp()).unwrap()),
                "normal" => {
                    let variance = golden::number(&case["variance"]);
                    both(&NormalStyle::from_natural(natural[0], variance).unwrap())
                }
                "point mass" => both(&PointMassStyle::new([natural[0], natural[1]]).unwrap()),
                other => panic!("{other}"),
            };
            golden::assert_number("additive", found, &case["additive"], 1e-9);
            golden::assert_number("possibilistic", possibilistic, &case["possibilistic"], 1e-9);
        }
    }

    fn both<M: ExponentialForm>(member: &M) -> (f64, f64) {
        (member.additive_log_partition(), member.log_partition())
    }

    #[test]
    fn properties_1_and_2_of_the_examples() {
        // the same T and B, and a normal distribution needs a constant more at any λ
        for natural in [-2.0, 0.0, 1.5] {
            let (additive, possibilistic) = both(&NormalStyle::from_natural(natural, 0.3).unwrap());
            let constant = 0.5 * (std::f64::consts::TAU * 0.3).ln();
            assert!((additive - possibilistic - constant).abs() < 1e-14);
        }
        // a base measure that is no indicator, on a support without end
        let counts = PoissonStyle::new(2.5).unwrap();
        assert!((0..50).all(|k| counts.is_in_support(&k)));
        assert!((counts.base(&3) - 6f64.ln()).abs() < 1e-15);
        // the indicator of a point moves a supremum and no integral
        let (low, high) = ([0.5, -3.0], [0.5, 3.0]);
        let [low, high] = [low, high].map(|natural| both(&PointMassStyle::new(natural).unwrap()));
        assert_eq!(low.0, high.0);
        assert_eq!((low.1, high.1), (0.5, 3.0));
    }

    proptest! {
        /// Property 3: `A ≤ A₊ ≤ A + log n`, and `A` is the limit of `A₊(βλ; βB)/β`.
        #[test]
        fn property_3_on_finite_sets(
            (statistics, base) in (1usize..8).prop_flat_map(|n| (
                prop::collection::vec(prop::collection::vec(-2.0..2.0f64, 2), n),
                prop::collection::vec(-1.0..1.0f64, n))),
            natural in prop::array::uniform2(-3.0..3.0f64), beta in 1.0..1e6f64,
        ) {
            let log_n = (base.len() as f64).ln();
            let family = FiniteFamily::new(statistics.clone(), base.clone()).unwrap();
            let (additive, possibilistic) = both(&family.member(&natural).unwrap());
            prop_assert!(possibilistic <= additive + 1e-14);
            prop_assert!(additive <= possibilistic + log_n + 1e-14);
            let cold = FiniteFamily::new(statistics, base.iter().map(|b| beta * b).collect()).unwrap();
            let (cold, _) = both(&cold.member(&natural.map(|l| beta * l)).unwrap());
            prop_assert!((cold / beta - possibilistic).abs() <= log_n / beta + 1e-13);
        }
    }
}
