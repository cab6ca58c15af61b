//! Two independent numbers compared: the possibility of `c₁x + c₂y ∈ S` under `π₁(x)π₂(y)`, such as
//! `x - y > 0` for the rates of two groups. Paper: Section 2 (independence, marginals as suprema).
//!
//! The supremum of `π₁(x)π₂(y)` over the line `c₁x + c₂y = t` is one-dimensional. With the modes
//! `m₁`, `m₂` and the gap `Δ = t - c₁m₁ - c₂m₂` it is taken at `x = m₁ + rΔ/c₁`,
//! `y = m₂ + (1-r)Δ/c₂` for some `r ∈ [0, 1]`: elsewhere one of them moves away from its mode for
//! nothing. Every function here has one of two shapes:
//!
//! - **Quadratic variance.** `-(log π)'(x) = w(x - m)/V(x)` with `V` a polynomial of degree two:
//!   the mean parameter of every one-dimensional family (`V` is the variance of an observation),
//!   and [`Student`]. The extrema over the line are roots of the cubic `w₁c₂² r V₂(y) - w₂c₁² (1-r)
//!   V₁(x)`. All of them are found, between its critical points, so that no concavity is needed
//!   (means of exponential samples have none).
//! - **Log-concave.** The natural parameter: the only root of a monotone slope.
//!
//! ```
//! use possibility::prelude::*;
//! use possibility::compare::Contrast;
//! let (a, b) = (Poisson.observe(&[7, 9, 4])?, Poisson.observe(&[3, 2])?);
//! let difference = Contrast::new([(&a, 1.0), (&b, -1.0)])?;
//! // under equal rates the most possible common rate is 25/5
//! let equal = a.possibility(&5.0) * b.possibility(&5.0);
//! assert!((difference.necessity_of(0.0..)? - (1.0 - equal)).abs() < 1e-12);
//! # Ok::<(), possibility::Error>(())
//! ```

use crate::error::{Result, check, check_alpha, check_positive, check_real};
use crate::family::conjugate::{Parameter, ScalarFamily, ScalarPosterior};
use crate::function::{Measure, Possibility};
use crate::numeric::crossing;
use crate::set::{Interval, RealSet};
use crate::univariate::Univariate;

/// How a possibility function of one number falls away from its mode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Shape {
    /// `-(log π)'(x) = w(x - m)/V(x)` with the mode `m` and `V(x) = v₀ + v₁x + v₂x²`.
    QuadraticVariance {
        /// `w`.
        weight: f64,
        /// `v₀, v₁, v₂`.
        variance: [f64; 3],
    },
    /// `log π` is concave.
    LogConcave,
}

/// A possibility function of one number that can be compared with another.
pub trait Comparable: Univariate {
    /// How it falls away from its mode.
    fn shape(&self) -> Shape;

    /// `-(log π)'(x)`, inside the domain.
    fn steepness(&self, x: f64) -> f64;
}

impl<F: ScalarFamily + Clone> Comparable for ScalarPosterior<F> {
    fn shape(&self) -> Shape {
        match self.parameter() {
            Parameter::Natural => Shape::LogConcave,
            Parameter::Mean => Shape::QuadraticVariance {
                weight: self.weight(),
                variance: self.family().variance_polynomial(),
            },
        }
    }

    /// `ν(x - λ)/V(x)` or `ν(A'(x) - λ)`; 0 at weight 0.
    fn steepness(&self, x: f64) -> f64 {
        let Some(mean) = self.mean_statistic() else {
            return 0.0;
        };
        match self.parameter() {
            Parameter::Natural => self.weight() * (self.family().mean_of(x) - mean),
            Parameter::Mean => self.weight() * (x - mean) / self.family().variance(x),
        }
    }
}

/// `(1 + z²/n)^(-n/2)` with `z = (x - m)/s`: the profile of the mean of normal numbers whose
/// variance is unknown, close to Student's density.
///
/// ```
/// use possibility::compare::Student;
/// use possibility::prelude::*;
/// let mean = Student::new(2.0, 0.5, 4.0)?;
/// assert!((mean.possibility(&3.0) - 0.25).abs() < 1e-15);
/// assert!((mean.cut(0.25)?.upper() - 3.0).abs() < 1e-14);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Student {
    mode: f64,
    scale: f64,
    weight: f64,
}

impl Student {
    /// The function with mode `m`, precision `1/s²` at the mode, and weight `n`.
    ///
    /// # Errors
    /// A mode that is not finite, a scale or weight that is not finite and positive.
    pub fn new(mode: f64, scale: f64, weight: f64) -> Result<Self> {
        check_real("mode", mode)?;
        check_positive("scale", scale)?;
        check_positive("weight", weight)?;
        Ok(Self {
            mode,
            scale,
            weight,
        })
    }
}

impl Possibility for Student {
    type Point = f64;

    fn log_possibility(&self, point: &f64) -> f64 {
        let z = (point - self.mode) / self.scale;
        0.0 - 0.5 * self.weight * (z * z / self.weight).ln_1p()
    }
}

impl Measure<RealSet> for Student {
    fn log_possibility_of(&self, event: &RealSet) -> Result<f64> {
        Ok(event.supremum(self.mode, |x| self.log_possibility(&x)))
    }

    fn log_possibility_of_complement(&self, event: &RealSet) -> Result<f64> {
        self.log_possibility_of(&event.complement())
    }
}

impl Univariate for Student {
    fn domain(&self) -> Interval {
        Interval::REAL_LINE
    }

    fn mode(&self) -> Option<f64> {
        Some(self.mode)
    }

    fn precision(&self) -> Option<f64> {
        Some(self.scale.powi(-2))
    }

    fn cut(&self, alpha: f64) -> Result<Interval> {
        let level = -2.0 * check_alpha(alpha)? / self.weight;
        let reach = self.scale * (self.weight * level.exp_m1()).sqrt();
        Interval::closed(self.mode - reach, self.mode + reach)
    }
}

impl Comparable for Student {
    fn shape(&self) -> Shape {
        let (m, s) = (self.mode, self.scale);
        Shape::QuadraticVariance {
            weight: self.weight,
            variance: [self.weight * s * s + m * m, -2.0 * m, 1.0],
        }
    }

    fn steepness(&self, x: f64) -> f64 {
        let u = x - self.mode;
        self.weight * u / (self.weight * self.scale * self.scale + u * u)
    }
}

/// The linear form `c₁x + c₂y` of two independent numbers.
pub struct Contrast<'a> {
    parts: [Part<'a>; 2],
}

/// A number of a linear form.
pub(crate) struct Part<'a> {
    pub function: &'a dyn Comparable,
    pub factor: f64,
    pub mode: f64,
}

impl<'a> Part<'a> {
    /// A function and its factor.
    ///
    /// # Errors
    /// A factor that is 0 or not finite, or a function without a finite mode.
    pub fn new((function, factor): (&'a dyn Comparable, f64)) -> Result<Self> {
        check("factor", factor, "(-inf, 0) or (0, inf)", |c| {
            c != 0.0 && c.is_finite()
        })?;
        let mode = function.mode().unwrap_or(f64::NAN);
        check_real("mode of a compared number", mode)?;
        Ok(Self {
            function,
            factor,
            mode,
        })
    }

    /// The largest share of `gap` that this number can take inside its domain, at most 1.
    pub fn room(&self, gap: f64) -> f64 {
        let toward = gap / self.factor;
        let domain = self.function.domain();
        let end = if toward > 0.0 {
            domain.upper()
        } else {
            domain.lower()
        };
        ((end - self.mode) / toward).clamp(0.0, 1.0)
    }

    /// The number that takes this share of `gap`.
    pub fn value(&self, share: f64, gap: f64) -> f64 {
        self.function
            .domain()
            .clamp(self.mode + share * gap / self.factor)
    }

    /// Derivative of `-log π` in the share.
    fn slope(&self, share: f64, gap: f64) -> f64 {
        gap / self.factor * self.function.steepness(self.value(share, gap))
    }

    /// `w/c²` and `V` as a polynomial of the share; `None` where there is none.
    fn variance(&self, gap: f64) -> Option<(f64, [f64; 3])> {
        let Shape::QuadraticVariance { weight, variance } = self.function.shape() else {
            return None;
        };
        let ([a, b, c], m, d) = (variance, self.mode, gap / self.factor);
        let polynomial = [a + m * (b + m * c), d * (b + 2.0 * m * c), d * d * c];
        Some((weight / (self.factor * self.factor), polynomial))
    }
}

impl<'a> Contrast<'a> {
    /// `c₁x + c₂y` for two functions and their factors.
    ///
    /// # Errors
    /// A factor that is 0 or not finite, or a function without a finite mode.
    pub fn new(parts: [(&'a dyn Comparable, f64); 2]) -> Result<Self> {
        let [first, second] = parts;
        Ok(Self {
            parts: [Part::new(first)?, Part::new(second)?],
        })
    }

    /// The value of possibility 1.
    pub fn mode(&self) -> f64 {
        self.parts.iter().map(|part| part.factor * part.mode).sum()
    }
    /// Shares of the gap that the first number may take at the supremum, between `low` and `high`.
    fn candidates(&self, gap: f64, low: f64, high: f64) -> Vec<f64> {
        let [first, second] = &self.parts;
        let (Some((w1, [p0, p1, p2])), Some((w2, [q0, q1, q2]))) =
            (first.variance(gap), second.variance(gap))
        else {
            let slope = |r: f64| first.slope(r, gap) - second.slope(1.0 - r, gap);
            return vec![low, high, crossing(slope, true, low, high)];
        };
        // V₂ in terms of r: its own share is 1-r
        let [e0, e1, e2] = [q0 + q1 + q2, -q1 - 2.0 * q2, q2];
        // w₁ r V₂ - w₂ (1-r) V₁, the factors being part of the weights
        let cubic = [
            -w2 * p0,
            w1 * e0 - w2 * (p1 - p0),
            w1 * e1 - w2 * (p2 - p1),
            w1 * e2 + w2 * p2,
        ];
        let value = |r: f64| cubic.iter().rev().fold(0.0, |sum, c| sum * r + c);
        let mut ends = vec![low];
        let turns = quadratic_roots(3.0 * cubic[3], 2.0 * cubic[2], cubic[1]);
        ends.extend(turns.into_iter().filter(|r| low < *r && *r < high));
        ends.push(high);
        let pieces: Vec<f64> = ends
            .windows(2)
            .map(|piece| {
                let rises = value(piece[0]) <= value(piece[1]);
                crossing(value, rises, piece[0], piece[1])
            })
            .collect();
        ends.extend(pieces);
        ends
    }
}

impl Possibility for Contrast<'_> {
    type Point = f64;

    /// `log sup {π₁(x)π₂(y) : c₁x + c₂y = t}`.
    fn log_possibility(&self, point: &f64) -> f64 {
        let gap = point - self.mode();
        if gap == 0.0 {
            return 0.0;
        }
        let [first, second] = &self.parts;
        let (low, high) = ((1.0 - second.room(gap)).max(0.0), first.room(gap));
        // a mode at the end of its domain leaves no room, of either sign of zero
        if low > high || high < 0.0 {
            return f64::NEG_INFINITY;
        }
        let value = |r: f64| {
            let (x, y) = (first.value(r, gap), second.value(1.0 - r, gap));
            first.function.log_possibility(&x) + second.function.log_possibility(&y)
        };
        let candidates = self.candidates(gap, low, high).into_iter();
        candidates.map(value).fold(f64::NEG_INFINITY, f64::max)
    }
}

impl Measure<RealSet> for Contrast<'_> {
    fn log_possibility_of(&self, event: &RealSet) -> Result<f64> {
        Ok(event.supremum(self.mode(), |t| self.log_possibility(&t)))
    }

    fn log_possibility_of_complement(&self, event: &RealSet) -> Result<f64> {
        self.log_possibility_of(&event.complement())
    }
}

/// The real roots of `ax² + bx + c`, in increasing order; those that lie in the range of `f64`.
fn quadratic_roots(a: f64, b: f64, c: f64) -> Vec<f64> {
    let discriminant = b * b - 4.0 * a * c;
    if discriminant.is_nan() || discriminant < 0.0 {
        return Vec::new();
    }
    // nothing cancels in q
    let q = -0.5 * (b + discriminant.sqrt().copysign(b));
    let mut roots: Vec<f64> = [q / a, c / q]
        .into_iter()
        .filter(|r| r.is_finite())
        .collect();
    roots.sort_by(f64::total_cmp);
    roots
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::family::conjugate::{Bernoulli, Exponential, Gamma, NormalNoise, Poisson};
    use golden::number;
    use proptest::prelude::*;

    /// The golden numbers are found with thirty digits (`golden/generate/gen_compare.py`).
    const TOLERANCE: f64 = 1e-9;

    /// The function that a golden case describes.
    pub(crate) fn function(case: &golden::Value) -> Box<dyn Comparable> {
        let [mode, weight] = ["mode", "weight"].map(|key| number(&case[key]));
        let extra = golden::optional(&case["extra"]).unwrap_or(f64::NAN);
        let parameter = match case["parameter"].as_str() {
            Some("natural") => Parameter::Natural,
            _ => Parameter::Mean,
        };
        match case["family"].as_str().unwrap() {
            "bernoulli" => Box::new(
                Bernoulli
                    .prior(mode, weight)
                    .unwrap()
                    .in_parameter(parameter),
            ),
            "poisson" => Box::new(Poisson.prior(mode, weight).unwrap().in_parameter(parameter)),
            "gamma" => {
                let family = Gamma::new(extra).unwrap();
                Box::new(family.prior(mode, weight).unwrap().in_parameter(parameter))
            }
            "normal" => {
                let family = NormalNoise::new(extra).unwrap();
                Box::new(family.prior(mode, weight).unwrap().in_parameter(parameter))
            }
            "student" => Box::new(Student::new(mode, extra, weight).unwrap()),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn golden_comparisons() {
        for case in golden::cases("compare/contrasts.json") {
            let functions: Vec<_> = golden::list(&case["functions"])
                .iter()
                .map(function)
                .collect();
            let factors = golden::numbers(&case["factors"]);
            let contrast =
                Contrast::new([(&*functions[0], factors[0]), (&*functions[1], factors[1])])
                    .unwrap();
            for point in golden::list(&case["points"]) {
                let found = contrast.log_possibility(&number(&point["value"]));
                let expected = number(&point["log_possibility"]);
                let allowed = TOLERANCE * expected.abs().max(1.0);
                assert!(
                    found == expected || (found - expected).abs() <= allowed,
                    "{case}: {point} {found}"
                );
            }
        }
    }

    #[test]
    fn equal_rates_are_the_pooled_one() {
        let (a, b) = (
            Poisson.prior(4.0, 3.0).unwrap(),
            Poisson.prior(1.5, 2.0).unwrap(),
        );
        let difference = Contrast::new([(&a, 1.0), (&b, -1.0)]).unwrap();
        let pooled = a.log_possibility(&3.0) + b.log_possibility(&3.0);
        assert!((difference.log_possibility(&0.0) - pooled).abs() < 1e-14);
        assert_eq!(difference.log_possibility(&2.5), 0.0);
        // rates are not negative: a - b > -inf, but a + b is
        let sum = Contrast::new([(&a, 1.0), (&b, 1.0)]).unwrap();
        assert_eq!(sum.log_possibility(&-1.0), f64::NEG_INFINITY);
        let credence = sum
            .credence_of(&Interval::at_least(0.0).unwrap().into())
            .unwrap();
        assert_eq!((credence.possibility, credence.necessity), (1.0, 1.0));
    }

    #[test]
    fn boundary_data_are_compared() {
        // no successes of 3 against 2 of 2: equality at p = 2/5
        let (a, b) = (
            Bernoulli.prior(0.0, 3.0).unwrap(),
            Bernoulli.prior(1.0, 2.0).unwrap(),
        );
        let difference = Contrast::new([(&a, 1.0), (&b, -1.0)]).unwrap();
        let pooled = 3.0 * 0.6f64.ln() + 2.0 * 0.4f64.ln();
        assert!((difference.log_possibility(&0.0) - pooled).abs() < 1e-14);
        assert_eq!(difference.log_possibility(&1.5), f64::NEG_INFINITY);
        // no counts on either side: the cost is linear and one number takes all
        let (a, b) = (
            Poisson.prior(0.0, 3.0).unwrap(),
            Poisson.prior(0.0, 2.0).unwrap(),
        );
        let difference = Contrast::new([(&a, 1.0), (&b, -1.0)]).unwrap();
        assert!((difference.log_possibility(&0.7) + 2.1).abs() < 1e-15);
        assert!((difference.log_possibility(&-0.7) + 1.4).abs() < 1e-15);
    }

    #[test]
    fn what_has_no_finite_mode_is_refused() {
        let sure = Bernoulli
            .prior(1.0, 2.0)
            .unwrap()
            .in_parameter(Parameter::Natural);
        let other = Bernoulli
            .prior(0.5, 2.0)
            .unwrap()
            .in_parameter(Parameter::Natural);
        assert!(Contrast::new([(&sure, 1.0), (&other, -1.0)]).is_err());
        assert!(Contrast::new([(&other, 0.0), (&other, -1.0)]).is_err());
        assert!(Contrast::new([(&Poisson.uninformative(), 1.0), (&other, -1.0)]).is_err());
        assert!(Student::new(0.0, 0.0, 1.0).is_err());
    }

    proptest! {
        /// No point of the line is more possible than the supremum, and a fine grid comes close.
        #[test]
        fn the_supremum_is_above_a_grid(
            means in (0.2..5.0f64, 0.2..5.0f64),
            weights in (0.5..20.0f64, 0.5..20.0f64),
            factors in (prop_oneof![-2.0..-0.3f64, 0.3..2.0f64], prop_oneof![-2.0..-0.3f64, 0.3..2.0f64]),
            gap in -6.0..6.0f64,
        ) {
            let a = Exponential.prior(means.0, weights.0).unwrap();
            let b = Exponential.prior(means.1, weights.1).unwrap();
            let student = Student::new(means.1, 0.4, weights.1).unwrap();
            let others: [&dyn Comparable; 2] = [&b, &student];
            for other in others {
                let contrast = Contrast::new([(&a, factors.0), (other, factors.1)]).unwrap();
                let t = contrast.mode() + gap;
                let found = contrast.log_possibility(&t);
                let best = (1..20_000)
                    .map(|i| {
                        let x = 1e-3 * f64::from(i) * 1.5;
                        let y = (t - factors.0 * x) / factors.1;
                        a.log_possibility(&x) + other.log_possibility(&y)
                    })
                    .fold(f64::NEG_INFINITY, f64::max);
                prop_assert!(found >= best - 1e-12 * best.abs(), "{} {}", found, best);
                if best > -50.0 {
                    prop_assert!(found - best < 0.02 * best.abs().max(0.05), "{} {}", found, best);
                }
            }
        }
    }
}
