//! Valid possibilities: `π(θ) = P_θ(R_θ(X) ≤ R_θ(x))`, the probability under `θ` of data that agree
//! with `θ` no better than the data `x` that were seen, where `R_θ(x) = p(x|θ)/sup p(x|·)` is the
//! relative likelihood: the possibility of `θ` after `x` with nothing known beforehand.
//!
//! `P_θ(π(θ) ≤ α) ≤ α` for every `θ`, every `α` and every number of observations: the α-cut covers
//! the truth with probability at least `1 - α`. That of `R` itself does so only in large samples,
//! as in [`coverage`](crate::coverage).
//!
//! `-log R_θ = n KL(t‖λ)` depends on the data through their mean `t` alone, whose distribution is
//! known:
//!
//! - **Pivots** ([`Pivot`]). For normal, exponential and gamma observations the distribution of `R`
//!   does not depend on `θ`. So `π = h(R)` for one increasing `h`, and a cut of `π` is a cut of `R`
//!   at another level.
//! - **Counts.** For Bernoulli and Poisson observations the sum `S` is binomial or Poisson. Data no
//!   better than the sum `s` are `S ≤ i` or `S ≥ j`, where one of `i`, `j` is `s` and the other one
//!   jumps where `KL(k/n‖λ) = KL(s/n‖λ)`, at the natural parameter `(A†(s/n) - A†(k/n))/(s/n -
//!   k/n)`. Between two jumps `π = 1 - P(i < S < j)` falls and then rises, and at a jump it is as
//!   great as on either side: suprema are taken at jumps and ends. The cut is the smallest interval
//!   around all `θ` with `π(θ) ≥ α`; it is found by going through the jumps inward from where `2R =
//!   α`, since `π ≤ 2R`.

use crate::error::{Error, Result, check, check_alpha, check_positive};
use crate::family::conjugate::{Parameter, ScalarFamily, ScalarPosterior};
use crate::family::special::exp_m1_minus_roots;
use crate::family::tails::{beta_below, gamma_above, gamma_below};
use crate::function::{Credence, Measure, Possibility};
use crate::set::{Interval, RealSet};
use crate::univariate::Univariate;

/// How `ℓ = -log R` is distributed where that does not depend on the parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pivot {
    /// `ℓ = Z²/2` with `Z` standard normal: a mean, or a coefficient, of known variance.
    Normal,
    /// `ℓ = χ²/2` with `d` degrees of freedom: a mean in `ℝᵈ`, or `d` linear forms of it, of known
    /// covariance. For `d = 1` it is [`Self::Normal`]; for `d = 2` the law of `R` is uniform, and
    /// the plain possibility valid as it is.
    ///
    /// ```
    /// use possibility::valid::Pivot;
    /// let [one, two] = [1, 2].map(|dimension| Pivot::ChiSquared { dimension });
    /// assert!((one.possibility(-2.0) - Pivot::Normal.possibility(-2.0)).abs() < 1e-15);
    /// assert!((two.possibility(0.05f64.ln()) - 0.05).abs() < 1e-15);
    /// ```
    ChiSquared {
        /// `d`, at least 1.
        dimension: usize,
    },
    /// `ℓ = (w/2) log(1 + T²/f)` with Student's `T` of `f` degrees of freedom: of unknown variance.
    Student {
        /// `w`, the number of observations.
        weight: f64,
        /// `f`.
        freedom: f64,
    },
    /// `ℓ = w(v - 1 - log v)` with `wv` a gamma variable: the mean of gamma observations, or a
    /// variance.
    Gamma {
        /// Shape of the gamma variable.
        shape: f64,
        /// `w`.
        weight: f64,
    },
}

impl Pivot {
    /// The mean of a normal sample of unknown variance, or a coefficient of a regression with
    /// `coefficients` of them: `n` observations.
    ///
    /// # Errors
    /// There are not more observations than coefficients.
    pub fn student(n: f64, coefficients: usize) -> Result<Self> {
        let freedom = degrees_of_freedom(n, coefficients)?;
        Ok(Self::Student { weight: n, freedom })
    }

    /// The variance of the same.
    ///
    /// # Errors
    /// There are not more observations than coefficients.
    pub fn variance(n: f64, coefficients: usize) -> Result<Self> {
        let freedom = degrees_of_freedom(n, coefficients)?;
        Ok(Self::Gamma {
            shape: 0.5 * freedom,
            weight: 0.5 * n,
        })
    }

    /// `h(R) = P(R_θ(X) ≤ R)`, given `log R ≤ 0`.
    ///
    /// ```
    /// use possibility::valid::Pivot;
    /// // two standard deviations: 1 - 0.9545
    /// assert!((Pivot::Normal.possibility(-2.0) - 0.0455).abs() < 1e-4);
    /// ```
    pub fn possibility(&self, log_relative_likelihood: f64) -> f64 {
        let level = -log_relative_likelihood;
        if level <= 0.0 {
            return 1.0;
        }
        match *self {
            Self::Normal => gamma_above(0.5, level),
            Self::ChiSquared { dimension } => gamma_above(0.5 * dimension as f64, level),
            Self::Student { weight, freedom } => {
                let exponent = -2.0 * level / weight;
                beta_below(0.5 * freedom, 0.5, exponent.exp(), -exponent.exp_m1())
            }
            Self::Gamma { shape, weight } => {
                let (lower, upper) = exp_m1_minus_roots(level / weight);
                let (lower, upper) = (weight * lower.exp(), weight * upper.exp());
                (gamma_below(shape, lower) + gamma_above(shape, upper)).min(1.0)
            }
        }
    }

    /// The level at which `R` is to be cut for the α-cut of `π`.
    ///
    /// # Errors
    /// `alpha` is not in `(0, 1]`.
    pub fn plain_level(&self, alpha: f64) -> Result<f64> {
        check_alpha(alpha)?;
        let (mut low, mut high) = (0.0, 1.0);
        while self.possibility(-high) > alpha {
            low = high;
            high *= 2.0;
        }
        loop {
            let middle = 0.5 * (low + high);
            if middle <= low || middle >= high {
                return Ok((-low).exp());
            }
            if self.possibility(-middle) >= alpha {
                low = middle;
            } else {
                high = middle;
            }
        }
    }

    /// Possibility and necessity of an event, from those under `R`.
    pub fn credence(&self, plain: Credence) -> Credence {
        Credence {
            possibility: self.possibility(plain.possibility.ln()),
            necessity: 1.0 - self.possibility((-plain.necessity).ln_1p()),
        }
    }
}

fn degrees_of_freedom(n: f64, coefficients: usize) -> Result<f64> {
    check_positive("degrees of freedom", n - coefficients as f64)
}

/// The valid possibility function of the mean parameter of a one-dimensional family.
///
/// ```
/// use possibility::prelude::*;
/// use possibility::valid::Valid;
/// // ten successes in ten trials
/// let p = Valid::new(Bernoulli.observe(&[true; 10])?)?;
/// // with p = 0.8, five agree as well as ten, and fewer agree less well
/// let tail: f64 = [1.0, 40.0, 720.0, 7680.0, 53760.0, 258048.0].iter().sum();
/// assert!((p.possibility(&0.8) - (0.8f64.powi(10) + tail / 5f64.powi(10))).abs() < 1e-12);
/// assert!((p.possibility(&p.cut(0.05)?.lower()) - 0.05).abs() < 1e-12);
/// # Ok::<(), possibility::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Valid<F> {
    plain: ScalarPosterior<F>,
    law: Law,
}

#[derive(Debug, Clone, Copy)]
enum Law {
    Pivot(Pivot),
    Count(Count),
}

/// The law of a sum of counts.
#[derive(Debug, Clone, Copy)]
struct Count {
    /// Number of observations.
    n: f64,
    /// The sum that was seen.
    seen: f64,
    /// Whether the sum is at most `n`.
    is_binomial: bool,
}

impl Count {
    /// `P(S ≤ k)` at the mean `λ` of one observation.
    fn below(&self, k: f64, mean: f64) -> f64 {
        if k < 0.0 {
            0.0
        } else if !self.is_binomial {
            gamma_above(k + 1.0, self.n * mean)
        } else if k >= self.n {
            1.0
        } else {
            beta_below(self.n - k, k + 1.0, 1.0 - mean, mean)
        }
    }

    /// `P(S ≥ k)`.
    fn above(&self, k: f64, mean: f64) -> f64 {
        if k <= 0.0 {
            1.0
        } else if !self.is_binomial {
            gamma_below(k, self.n * mean)
        } else if k > self.n {
            0.0
        } else {
            beta_below(k, self.n - k + 1.0, mean, 1.0 - mean)
        }
    }

    /// `π(λ)` where the sums beyond the parameter, seen from `s`, that agree no better are those
    /// from `k` on.
    fn value(&self, k: f64, mean: f64) -> f64 {
        let seen = self.seen;
        let both = if mean * self.n < seen {
            self.above(seen, mean) + self.below(k.min(seen - 1.0), mean)
        } else {
            self.below(seen, mean) + self.above(k.max(seen + 1.0), mean)
        };
        both.min(1.0)
    }
}

/// Relative differences of `log R` below this are ties: parameters are typed in decimal.
const TIE: f64 = 1e-12;

/// Relative rounding of the place of a jump.
const ROUNDING: f64 = 1e-14;

impl<F: ScalarFamily + Clone> Valid<F> {
    /// The valid possibility function for the data of a posterior without prior, read in the mean
    /// parameter.
    ///
    /// # Errors
    /// Another parameter, a family whose law is not known here, no data, or counts whose sum is no
    /// whole number.
    pub fn new(plain: ScalarPosterior<F>) -> Result<Self> {
        let Some(mean) = plain.mean_statistic() else {
            return Err(Error::Empty { name: "sample" });
        };
        let n = plain.weight();
        let setting = plain.family().setting().map_or(1.0, |(_, value)| value);
        let law = match (plain.family().name(), plain.parameter()) {
            (_, Parameter::Natural) => {
                return Err(Error::Empty {
                    name: "valid possibility function of the natural parameter",
                });
            }
            ("normal", _) => Law::Pivot(Pivot::Normal),
            ("exponential" | "gamma", _) => Law::Pivot(Pivot::Gamma {
                shape: n * setting,
                weight: n * setting,
            }),
            (name @ ("bernoulli" | "poisson"), _) => {
                check("number of observations", n, "{1, 2, ...}", |n| {
                    n.fract() == 0.0
                })?;
                Law::Count(Count {
                    n,
                    seen: (n * mean).round(),
                    is_binomial: name == "bernoulli",
                })
            }
            _ => {
                return Err(Error::Empty {
                    name: "known law of this family",
                });
            }
        };
        Ok(Self { plain, law })
    }

    /// `-log R` of the sum `k` at the mean `λ`.
    fn cost(&self, count: &Count, k: f64, mean: f64) -> f64 {
        let family = self.plain.family();
        count.n * family.divergence_between_means(k / count.n, mean)
    }

    /// The mean at which the sums `k` and `s` agree equally well.
    fn jump(&self, count: &Count, k: f64) -> f64 {
        let family = self.plain.family();
        let (a, b) = (count.seen / count.n, k / count.n);
        family.mean_of((family.dual(a) - family.dual(b)) / (a - b))
    }

    /// The sum nearest to the parameter, on the other side of it than `s`, that agrees no better:
    /// -1 or a sum beyond all others if there is none.
    fn beyond(&self, count: &Count, mean: f64) -> f64 {
        let level = self.cost(count, count.seen, mean) * (1.0 - TIE);
        let agrees_less = |k: f64| self.cost(count, k, mean) >= level;
        let middle = mean * count.n;
        let (mut near, mut far) = if middle < count.seen {
            (middle.floor() + 1.0, 0.0)
        } else {
            let mut far = middle.ceil() + 1.0;
            while !count.is_binomial && !agrees_less(far) {
                far = middle + 2.0 * (far - middle);
            }
            let far = far.ceil();
            (
                middle.ceil() - 1.0,
                if count.is_binomial { count.n } else { far },
            )
        };
        let outward = (far - near).signum();
        if !agrees_less(far) {
            return far + outward;
        }
        // agrees_less(far), and near is too near
        while (far - near).abs() > 1.0 {
            let k = (0.5 * (near + far)).floor();
            let k = if k == near.min(far) {
                near.min(far) + 1.0
            } else {
                k
            };
            if agrees_less(k) {
                far = k;
            } else {
                near = k;
            }
        }
        far
    }

    /// `π` at a mean of the closed domain.
    fn value(&self, mean: f64) -> f64 {
        let log = self.plain.log_possibility(&mean);
        match &self.law {
            _ if log == 0.0 => 1.0,
            _ if log == f64::NEG_INFINITY => 0.0,
            Law::Pivot(pivot) => pivot.possibility(log),
            Law::Count(count) => count.value(self.beyond(count, mean), mean),
        }
    }

    /// The end of the α-cut on the side of `start`, where `π ≤ 2R ≤ α`: through the jumps, inward.
    fn count_end(&self, count: &Count, start: f64, alpha: f64) -> f64 {
        let mode = count.seen / count.n;
        if start == mode || self.value(start) >= alpha {
            return start;
        }
        let inward = (mode - start).signum();
        let (mut outer, mut k) = (start, self.beyond(count, start));
        loop {
            let next = k + inward;
            // no sum lies between: everything agrees no better
            if next == count.seen {
                return outer;
            }
            let jump = self.jump(count, next);
            if count.value(k, jump) >= alpha {
                let (mut low, mut high) = (outer, jump);
                loop {
                    let middle = 0.5 * (low + high);
                    if middle == low || middle == high {
                        return high;
                    }
                    if count.value(k, middle) >= alpha {
                        high = middle;
                    } else {
                        low = middle;
                    }
                }
            }
            if count.value(next, jump) >= alpha {
                // the rounding of a jump must not leave it out
                return jump - inward * ROUNDING * jump;
            }
            (outer, k) = (jump, next);
        }
    }

    /// `sup π` over a part of the line.
    fn supremum_over(&self, part: &Interval, mode: f64) -> f64 {
        let near = part.clamp(mode);
        if near == mode {
            return 1.0;
        }
        let mut best = self.value(near);
        let Law::Count(count) = &self.law else {
            return best;
        };
        let far = if near < mode {
            part.lower()
        } else {
            part.upper()
        };
        if far.is_finite() {
            best = best.max(self.value(far));
        }
        let outward = (near - mode).signum();
        let mut k = self.beyond(count, near);
        while k >= 0.0 && !(count.is_binomial && k > count.n) {
            let jump = self.jump(count, k);
            let plain = self.plain.log_possibility(&jump).exp();
            if 2.0 * plain <= best || (jump - far) * outward > 0.0 {
                break;
            }
            best = best.max(count.value(k, jump));
            k += outward;
        }
        best
    }

    fn supremum(&self, event: &RealSet) -> f64 {
        let (domain, mode) = (self.domain(), self.plain.mode().unwrap_or(f64::NAN));
        let parts = event
            .parts()
            .iter()
            .filter_map(|part| part.intersection(&domain));
        parts
            .map(|part| self.supremum_over(&part, mode))
            .fold(0.0, f64::max)
    }
}

impl<F: ScalarFamily + Clone> Possibility for Valid<F> {
    type Point = f64;

    fn log_possibility(&self, point: &f64) -> f64 {
        if self.domain().contains(*point) {
            self.value(*point).ln()
        } else {
            f64::NEG_INFINITY
        }
    }
}

impl<F: ScalarFamily + Clone> Measure<RealSet> for Valid<F> {
    fn log_possibility_of(&self, event: &RealSet) -> Result<f64> {
        Ok(self.supremum(event).ln())
    }

    fn log_possibility_of_complement(&self, event: &RealSet) -> Result<f64> {
        Ok(self.supremum(&event.complement()).ln())
    }
}

impl<F: ScalarFamily + Clone> Univariate for Valid<F> {
    fn domain(&self) -> Interval {
        self.plain.domain()
    }

    fn mode(&self) -> Option<f64> {
        self.plain.mode()
    }

    /// That of the relative likelihood.
    fn precision(&self) -> Option<f64> {
        self.plain.precision()
    }

    fn cut(&self, alpha: f64) -> Result<Interval> {
        match &self.law {
            Law::Pivot(pivot) => self.plain.cut(pivot.plain_level(alpha)?),
            Law::Count(count) => {
                check_alpha(alpha)?;
                let outer = self.plain.cut(0.5 * alpha)?;
                let lower = self.count_end(count, outer.lower(), alpha);
                let upper = self.count_end(count, outer.upper(), alpha);
                Interval::closed(lower, upper)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::conjugate::{Bernoulli, Exponential, Gamma, NormalNoise, Poisson};
    use golden::number;
    use proptest::prelude::*;

    /// The golden numbers are sums and integrals with thirty digits
    /// (`golden/generate/gen_valid.py`).
    const TOLERANCE: f64 = 1e-9;

    #[test]
    fn golden_valid() {
        for case in golden::cases("valid/valid.json") {
            let [n, mean] = ["n", "mean"].map(|key| number(&case[key]));
            let extra = golden::optional(&case["extra"]).unwrap_or(f64::NAN);
            for point in golden::list(&case["points"]) {
                let value = number(&point["value"]);
                let found = match case["family"].as_str().unwrap() {
                    "bernoulli" => valid(Bernoulli, mean, n).possibility(&value),
                    "poisson" => valid(Poisson, mean, n).possibility(&value),
                    "gamma" => valid(Gamma::new(extra).unwrap(), mean, n).possibility(&value),
                    "normal" => {
                        valid(NormalNoise::new(extra).unwrap(), mean, n).possibility(&value)
                    }
                    "student" => {
                        let log = -0.5 * n * (value * value / (n - 1.0)).ln_1p();
                        Pivot::student(n, 1).unwrap().possibility(log)
                    }
                    "chi-squared" => {
                        let dimension = n as usize;
                        Pivot::ChiSquared { dimension }.possibility(-0.5 * value)
                    }
                    other => panic!("{other}"),
                };
                let expected = number(&point["possibility"]);
                assert!(
                    (found - expected).abs() <= TOLERANCE,
                    "{case}: {point} {found}"
                );
            }
        }
    }

    fn valid<F: ScalarFamily + Clone>(family: F, mean: f64, n: f64) -> Valid<F> {
        Valid::new(family.prior(mean, n).unwrap()).unwrap()
    }

    /// `π` by its definition, over all sums up to `most`.
    fn by_definition(n: f64, seen: f64, mean: f64, most: f64, binomial: bool) -> f64 {
        let count = Count {
            n,
            seen,
            is_binomial: binomial,
        };
        let cost = |k: f64| {
            if binomial {
                n * Bernoulli.divergence_between_means(k / n, mean)
            } else {
                n * Poisson.divergence_between_means(k / n, mean)
            }
        };
        let mut sum = 0.0;
        let mut k = 0.0;
        while k <= most {
            if cost(k) >= cost(seen) * (1.0 - 1e-11) {
                sum += count.below(k, mean) - count.below(k - 1.0, mean);
            }
            k += 1.0;
        }
        sum
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn counts_follow_the_definition(n in 1..30u32, share in 0.0..1.0f64, mean in 0.02..0.98f64) {
            let n = f64::from(n);
            let seen = (share * n).round();
            let found = valid(Bernoulli, seen / n, n).possibility(&mean);
            let expected = by_definition(n, seen, mean, n, true);
            prop_assert!((found - expected).abs() < 1e-9, "{} {}", found, expected);
            let rate = 3.0 * mean;
            let found = valid(Poisson, seen / n, n).possibility(&rate);
            let expected = by_definition(n, seen, rate, n * rate + 60.0 * (1.0 + n.sqrt()), false);
            prop_assert!((found - expected).abs() < 1e-9, "{} {}", found, expected);
        }

        /// Outside the cut every value is less possible than `α`, and events agree with a grid.
        #[test]
        fn cuts_and_events_agree_with_a_grid(
            n in 1..40u32, share in 0.0..1.0f64, alpha in 0.01..0.9f64, a in 0.0..0.5f64, w in 0.01..0.5f64,
        ) {
            let n = f64::from(n);
            let seen = (share * n).round();
            let function = valid(Bernoulli, seen / n, n);
            let cut = function.cut(alpha).unwrap();
            let set: RealSet = Interval::closed(a, a + w).unwrap().into();
            let supremum = function.possibility_of(&set).unwrap();
            let mut best: f64 = 0.0;
            for i in 0..=2000 {
                let p = f64::from(i) / 2000.0;
                let value = function.possibility(&p);
                prop_assert!(value < alpha * (1.0 + 1e-9) || cut.contains(p), "{} {} {}", p, value, cut);
                if set.contains(p) {
                    best = best.max(value);
                }
            }
            prop_assert!(best <= supremum * (1.0 + 1e-9), "{} {}", best, supremum);
            for end in [cut.lower(), cut.upper()] {
                // an end may be a jump, where rounding decides on the side
                let near = [end - 1e-9, end, end + 1e-9].map(|p| function.possibility(&p.clamp(0.0, 1.0)));
                prop_assert!(near.iter().any(|value| *value >= alpha * (1.0 - 1e-6)), "{} {:?}", end, near);
            }
        }
    }

    /// A mean in three dimensions: the share of samples whose possibility is at most `α` is `α`.
    #[test]
    fn the_law_of_a_vector_is_uniform() {
        const SAMPLES: u32 = 20_000;
        let pivot = Pivot::ChiSquared { dimension: 3 };
        let mut random = Random(11);
        let possibilities: Vec<f64> = (0..SAMPLES)
            .map(|_| {
                let squares: f64 = (0..3).map(|_| random.normal().powi(2)).sum();
                pivot.possibility(-0.5 * squares)
            })
            .collect();
        for alpha in [0.01, 0.05, 0.3, 0.8] {
            let count = possibilities.iter().filter(|p| **p <= alpha).count();
            let share = count as f64 / f64::from(SAMPLES);
            let error = (alpha * (1.0 - alpha) / f64::from(SAMPLES)).sqrt();
            assert!((share - alpha).abs() < 4.0 * error, "{alpha}: {share}");
        }
    }

    /// A generator for tests: SplitMix64.
    struct Random(u64);

    impl Random {
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut x = self.0;
            x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((x ^ (x >> 31)) >> 11) as f64 / (1u64 << 53) as f64 + f64::EPSILON
        }

        fn exponential(&mut self) -> f64 {
            -self.uniform().ln()
        }

        fn normal(&mut self) -> f64 {
            let angle = 2.0 * std::f64::consts::PI * self.uniform();
            (2.0 * self.exponential()).sqrt() * angle.cos()
        }

        fn poisson(&mut self, rate: f64) -> f64 {
            let (mut count, mut time) = (0.0, self.exponential());
            while time < rate {
                count += 1.0;
                time += self.exponential();
            }
            count
        }
    }

    /// Share of simulated samples in which the α-cut covers the truth: never below `1 - α` by more
    /// than four standard errors, whatever the family and the number of observations.
    #[test]
    fn valid_cuts_cover_at_every_sample_size() {
        const SAMPLES: usize = 1500;
        const ALPHA: f64 = 0.1;
        let error = (ALPHA * (1.0 - ALPHA) / SAMPLES as f64).sqrt();
        let mut random = Random(7);
        for n in [5, 20, 100] {
            let mut covered = [0usize; 5];
            for _ in 0..SAMPLES {
                let mut mean = |draw: &mut dyn FnMut(&mut Random) -> f64| {
                    (0..n).map(|_| draw(&mut random)).sum::<f64>() / f64::from(n)
                };
                let weight = f64::from(n);
                let p = mean(&mut |r| f64::from(u8::from(r.uniform() < 0.3)));
                let rate = mean(&mut |r| r.poisson(1.7));
                let wait = mean(&mut Random::exponential);
                let rain = mean(&mut |r| (r.exponential() + r.exponential()) * 0.5);
                let height = mean(&mut Random::normal);
                let two = Gamma::new(2.0).unwrap();
                let one = NormalNoise::new(1.0).unwrap();
                let hits = [
                    valid(Bernoulli, p, weight).possibility(&0.3) >= ALPHA,
                    valid(Poisson, rate, weight).possibility(&1.7) >= ALPHA,
                    valid(Exponential, wait, weight).possibility(&1.0) >= ALPHA,
                    valid(two, rain, weight).possibility(&1.0) >= ALPHA,
                    valid(one, height, weight).possibility(&0.0) >= ALPHA,
                ];
                for (count, hit) in covered.iter_mut().zip(hits) {
                    *count += usize::from(hit);
                }
            }
            for (family, count) in covered.into_iter().enumerate() {
                let share = count as f64 / SAMPLES as f64;
                assert!(
                    share >= 1.0 - ALPHA - 4.0 * error,
                    "family {family}, n {n}: {share}"
                );
                // a sum of few trials weighs much: 0.969 for five of them
                assert!(share < 0.98, "family {family}, n {n}: {share}");
            }
        }
    }

    #[test]
    fn pivots_invert_and_refuse() {
        let pivots = [
            Pivot::Normal,
            Pivot::ChiSquared { dimension: 7 },
            Pivot::student(5.0, 2).unwrap(),
            Pivot::variance(5.0, 2).unwrap(),
            Pivot::Gamma {
                shape: 3.0,
                weight: 3.0,
            },
        ];
        for pivot in pivots {
            for alpha in [1.0, 0.5, 0.05, 1e-6] {
                let level = pivot.plain_level(alpha).unwrap();
                assert!(
                    (pivot.possibility(level.ln()) - alpha).abs() < 1e-9,
                    "{pivot:?} {alpha}"
                );
            }
            assert_eq!(pivot.possibility(0.0), 1.0);
            assert!(pivot.plain_level(0.0).is_err());
        }
        assert!(Pivot::student(2.0, 2).is_err());
        assert!(Valid::new(Poisson.uninformative()).is_err());
        assert!(Valid::new(Poisson.prior(1.0, 2.5).unwrap()).is_err());
        let natural = Poisson
            .prior(1.0, 2.0)
            .unwrap()
            .in_parameter(Parameter::Natural);
        assert!(Valid::new(natural).is_err());
        let odd = crate::family::conjugate::Binomial::new(3).unwrap();
        assert!(Valid::new(odd.prior(1.0, 2.0).unwrap()).is_err());
    }
}
