//! Several independent numbers in one linear form: the possibility of `Σ c_i x_i ∈ S` under
//! `Π π_i(x_i)`, such as `x - (y + z)/2 > 0` for the means of three groups. Paper: Section 2
//! (independence, marginals as suprema). Two numbers are compared by [`Contrast`], with any shape;
//! here every `log π_i` must be concave.
//!
//! With the modes `m_i` and the gap `Δ = t - Σ c_i m_i` let `u_i ≥ 0` be what `x_i` contributes to
//! `|Δ|`, so that `x_i = m_i ± u_i/|c_i|` on the side of the gap. Then
//!
//! `log π(t) = max { Σ log π_i : Σ u_i = |Δ| } = min_s { Σ max_u (log π_i + s u) - s|Δ| }`
//!
//! by duality, with `u` between 0 and what domain and gap leave room for. The inner maximum is
//! where the steepness of `-log π_i` in `u` passes `s`, so that the sum of the `u` increases with
//! `s`: one multiplier is searched for, and for each of its values one number per part. Where a
//! steepness is constant (a rate of which nothing was counted) the sum jumps, and `s(Σ u_i - |Δ|)`
//! is what is missing.
//!
//! [`Contrast`]: crate::compare::Contrast

use crate::compare::{Comparable, Part, Shape};
use crate::error::{Error, Result};
use crate::function::{Measure, Possibility};
use crate::numeric::crossing;
use crate::set::RealSet;

/// The linear form `Σ c_i x_i` of independent numbers with concave `log π_i`.
///
/// ```
/// use possibility::combine::Combination;
/// use possibility::prelude::*;
/// let [a, b, c] = [[7, 9, 4], [3, 2, 4], [1, 5, 3]].map(|counts| Poisson.observe(&counts));
/// let (a, b, c) = (a?, b?, c?);
/// let sum = Combination::new(&[(&a, 1.0), (&b, 1.0), (&c, 1.0)])?;
/// // equal weights: the sum of rates is a rate
/// let whole = Poisson.observe(&[11, 16, 11])?;
/// assert!((sum.possibility(&9.5) - whole.possibility(&9.5)).abs() < 1e-12);
/// # Ok::<(), possibility::Error>(())
/// ```
pub struct Combination<'a> {
    parts: Vec<Part<'a>>,
}

/// Whether the log of a possibility function is concave: `w(x - m)/V(x)` increases unless `V` bends
/// upward.
pub fn is_concave(function: &dyn Comparable) -> bool {
    match function.shape() {
        Shape::LogConcave => true,
        Shape::QuadraticVariance { variance, .. } => variance[2] <= 0.0,
    }
}

impl<'a> Combination<'a> {
    /// The form of these functions and their factors.
    ///
    /// # Errors
    /// A factor that is 0 or not finite, or a function without a finite mode or whose log is not
    /// concave.
    pub fn new(parts: &[(&'a dyn Comparable, f64)]) -> Result<Self> {
        let part = |part: &(&'a dyn Comparable, f64)| {
            let part = Part::new(*part)?;
            if !is_concave(part.function) {
                let what = "a linear form of three or more numbers whose logs are not concave";
                return Err(Error::Unsupported { what });
            }
            Ok(part)
        };
        Ok(Self {
            parts: parts.iter().map(part).collect::<Result<_>>()?,
        })
    }

    /// The value of possibility 1.
    pub fn mode(&self) -> f64 {
        self.parts.iter().map(|part| part.factor * part.mode).sum()
    }
    /// `Σ u_i` and the best `Σ log π_i + s(Σ u_i - |Δ|)` at a multiplier.
    fn at(&self, s: f64, gap: f64) -> (f64, f64) {
        let (mut sum, mut log) = (0.0, 0.0);
        for part in &self.parts {
            let x = part.best(s, gap);
            sum += (part.factor * (x - part.mode)).abs();
            log += part.function.log_possibility(&x);
        }
        let missing = sum - gap.abs();
        (
            sum,
            if missing == 0.0 {
                log
            } else {
                log + s * missing
            },
        )
    }
}

impl Part<'_> {
    /// Where the steepness per unit of the form passes `s`.
    fn best(&self, s: f64, gap: f64) -> f64 {
        let end = self.value(1.0, gap);
        let sign = (end - self.mode).signum();
        let beyond = |x: f64| sign * self.function.steepness(x) - s * self.factor.abs();
        let (low, high) = (self.mode.min(end), self.mode.max(end));
        crossing(beyond, sign > 0.0, low, high)
    }
}

impl Possibility for Combination<'_> {
    type Point = f64;

    /// `log sup {Π π_i(x_i) : Σ c_i x_i = t}`.
    fn log_possibility(&self, point: &f64) -> f64 {
        let gap = point - self.mode();
        if gap == 0.0 {
            return 0.0;
        }
        let room: f64 = self.parts.iter().map(|part| part.room(gap)).sum();
        let ends = || {
            let logs = self.parts.iter().map(|part| {
                let end = part.value(1.0, gap);
                part.function.log_possibility(&end)
            });
            logs.sum()
        };
        match room.total_cmp(&1.0) {
            std::cmp::Ordering::Less => return f64::NEG_INFINITY,
            std::cmp::Ordering::Equal => return ends(),
            std::cmp::Ordering::Greater => {}
        }
        let mut high = 1.0;
        while self.at(high, gap).0 < gap.abs() {
            if high == f64::MAX {
                return ends();
            }
            high = (2.0_f64 * high).min(f64::MAX);
        }
        let s = crossing(|s| self.at(s, gap).0 - gap.abs(), true, 0.0, high);
        self.at(s, gap).1.min(0.0)
    }
}

impl Measure<RealSet> for Combination<'_> {
    fn log_possibility_of(&self, event: &RealSet) -> Result<f64> {
        Ok(event.supremum(self.mode(), |t| self.log_possibility(&t)))
    }

    fn log_possibility_of_complement(&self, event: &RealSet) -> Result<f64> {
        self.log_possibility_of(&event.complement())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::{self, Contrast, Student};
    use crate::family::conjugate::{
        Bernoulli, Conjugate, Exponential, NormalNoise, Parameter, Poisson, ScalarFamily,
        ScalarPosterior,
    };
    use proptest::prelude::*;

    /// Two nested searches to the last digit, and a sum of a few logs.
    const TOLERANCE: f64 = 1e-9;

    fn posterior<F: ScalarFamily + Clone>(family: F, mean: f64, weight: f64) -> ScalarPosterior<F> {
        let posterior = Conjugate::new(family, &[mean], weight).unwrap();
        posterior.in_parameter(Parameter::Mean)
    }

    #[test]
    fn golden_combinations() {
        for case in golden::cases("compare/combinations.json") {
            let functions = golden::list(&case["functions"]);
            let functions: Vec<_> = functions.iter().map(compare::tests::function).collect();
            let factors = golden::numbers(&case["factors"]);
            let pairs = functions.iter().zip(factors);
            let parts: Vec<_> = pairs.map(|(function, c)| (&**function, c)).collect();
            let form = Combination::new(&parts).unwrap();
            for point in golden::list(&case["points"]) {
                let found = form.log_possibility(&golden::number(&point["value"]));
                let expected = golden::number(&point["log_possibility"]);
                let allowed = TOLERANCE * expected.abs().max(1.0);
                assert!(
                    (found - expected).abs() <= allowed,
                    "{case}: {point} {found}"
                );
            }
        }
    }

    proptest! {
        /// For two numbers it is the contrast, which searches in another way.
        #[test]
        fn two_numbers_are_contrasted(
            counts in [1_u32..9, 1_u32..9], weights in [1.0..9.0_f64, 1.0..9.0_f64],
            factors in [0.2..2.0_f64, -2.0..-0.2_f64], value in -4.0..4.0_f64,
        ) {
            let rate = |i: usize| posterior(Poisson, f64::from(counts[i]), weights[i]);
            let share = |i: usize| posterior(Bernoulli, f64::from(counts[i]) / 10.0, weights[i]);
            let (rates, shares) = ([rate(0), rate(1)], [share(0), share(1)]);
            for pair in [[&rates[0] as &dyn Comparable, &rates[1]], [&shares[0], &shares[1]]] {
                let parts = [(pair[0], factors[0]), (pair[1], factors[1])];
                let (contrast, form) = (Contrast::new(parts).unwrap(), Combination::new(&parts).unwrap());
                let (expected, found) = (contrast.possibility(&value), form.possibility(&value));
                prop_assert!((expected - found).abs() < TOLERANCE, "{expected} {found}");
            }
        }

        /// No way to share the gap between three numbers is better, and a grid comes close.
        #[test]
        fn three_numbers_have_the_best_share_of_the_gap(
            modes in prop::array::uniform3(0_u32..=4), weights in prop::array::uniform3(1.0..6.0_f64),
            factors in prop::array::uniform3(prop_oneof![-2.0..-0.5_f64, 0.5..2.0_f64]), gap in -1.0..1.0_f64,
        ) {
            const STEPS: i32 = 60;
            let shares: Vec<_> = (0..3)
                .map(|i| posterior(Bernoulli, f64::from(modes[i]) / 4.0, weights[i]))
                .collect();
            let parts: Vec<(&dyn Comparable, f64)> =
                shares.iter().zip(factors).map(|(share, c)| (share as &dyn Comparable, c)).collect();
            let form = Combination::new(&parts).unwrap();
            let exact = form.log_possibility(&(form.mode() + gap));
            let part = |i: usize, share: f64| {
                let x = f64::from(modes[i]) / 4.0 + share * gap / factors[i];
                if (0.0..=1.0).contains(&x) { shares[i].log_possibility(&x) } else { f64::NEG_INFINITY }
            };
            let mut best = f64::NEG_INFINITY;
            for i in 0..=STEPS {
                for j in 0..=STEPS - i {
                    let (r, q) = (f64::from(i) / f64::from(STEPS), f64::from(j) / f64::from(STEPS));
                    best = best.max(part(0, r) + part(1, q) + part(2, 1.0 - r - q));
                }
            }
            prop_assert!(exact >= best - 1e-9, "{exact} {best}");
            prop_assert!(exact.exp() <= best.exp() + 0.05, "{exact} {best}");
        }
    }

    #[test]
    fn a_rate_of_nothing_costs_its_weight() {
        // log π = -3x for both, and the gap of 2 goes to the factor 2
        let zero = posterior(Poisson, 0.0, 3.0);
        let form = Combination::new(&[(&zero, 1.0), (&zero, 2.0), (&zero, 0.5)]).unwrap();
        assert!((form.log_possibility(&2.0) + 3.0).abs() < 1e-12);
        assert_eq!(form.log_possibility(&-0.1), f64::NEG_INFINITY);
        assert_eq!(form.log_possibility(&0.0), 0.0);
    }

    #[test]
    fn normal_numbers_add_their_variances() {
        let normal = |mean: f64| posterior(NormalNoise::new(2.0).unwrap(), mean, 4.0);
        let (a, b, c) = (normal(1.0), normal(2.0), normal(5.0));
        let form = Combination::new(&[(&a, 1.0), (&b, -0.5), (&c, -0.5)]).unwrap();
        let gap = 1.0 + 2.5_f64;
        let expected = -0.5 * gap * gap / (0.5 * 1.5);
        assert!((form.log_possibility(&1.0) - expected).abs() < 1e-9);
    }

    #[test]
    fn what_is_not_concave_is_refused() {
        let student = Student::new(0.0, 1.0, 5.0).unwrap();
        let wait = posterior(Exponential, 2.0, 5.0);
        let rate = posterior(Poisson, 2.0, 5.0);
        assert!(Combination::new(&[(&student, 1.0), (&rate, 1.0), (&rate, 1.0)]).is_err());
        assert!(Combination::new(&[(&wait, 1.0), (&rate, 1.0), (&rate, 1.0)]).is_err());
        assert!(Combination::new(&[(&rate, 0.0), (&rate, 1.0), (&rate, 1.0)]).is_err());
    }
}
