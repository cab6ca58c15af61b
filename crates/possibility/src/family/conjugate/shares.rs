//! A linear form `Σ c_k p_k` of class probabilities under a categorical posterior, such as
//! `p₁ - p₂` (class against class) or `p₁ + p₂`. Paper: Section 2 (marginals as suprema), 5.1.
//!
//! With the shares `λ` and the weight `ν` the posterior is `log π(p) = ν Σ λ_k log(p_k/λ_k)`. Its
//! supremum over the part of the simplex where `Σ c_k p_k = t` is, with `d_k = c_k - t`,
//!
//! `log π(t) = ν min_η { -Σ λ_k log(1 + ηd_k) : 1 + ηd_k ≥ 0 for every class }`.
//!
//! For: a maximum of the concave `Σ λ_k log p_k` under `Σ p_k = 1`, `Σ d_k p_k = 0` has multipliers
//! with `λ_k = p_k(κ + ηd_k)`; summed over the classes, `κ = 1`. So `p_k = λ_k/(1 + ηd_k)`, and a
//! class of share 0 may take what is left, if `1 + ηd_k = 0`. The minimum is that of a convex
//! function of one number: where its derivative `-Σ λ_k d_k/(1 + ηd_k)` changes sign or, with a
//! class of share 0, at an end. It is 0 at `t = Σ c_k λ_k` and falls away from there, since the
//! profile of a concave function is concave.
//!
//! ```
//! use possibility::prelude::*;
//! use possibility::family::conjugate::ShareForm;
//! // 5, 3 and 2 observations
//! let shares = Categorical::new(3)?.observe(&[0, 0, 0, 0, 0, 1, 1, 1, 2, 2])?;
//! let difference = ShareForm::new(&shares, &[1.0, -1.0, 0.0])?;
//! // if both are equally probable, each has half of 8/10
//! let equal = (0.4_f64 / 0.5).powi(5) * (0.4_f64 / 0.3).powi(3);
//! assert!((difference.necessity_of(0.0..)? - (1.0 - equal)).abs() < 1e-12);
//! # Ok::<(), possibility::Error>(())
//! ```

use super::{Categorical, Conjugate, Parameter};
use crate::error::{Result, check_finite, check_size};
use crate::function::{Measure, Possibility};
use crate::numeric::crossing;
use crate::set::{Interval, RealSet};

/// The number `Σ c_k p_k`.
#[derive(Debug, Clone, PartialEq)]
pub struct ShareForm {
    /// Factor and share of every class.
    classes: Vec<(f64, f64)>,
    weight: f64,
    range: Interval,
}

impl ShareForm {
    /// The form with these factors, one for each class.
    ///
    /// # Errors
    /// Not as many factors as classes, or one that is not finite.
    pub fn new(posterior: &Conjugate<Categorical>, factors: &[f64]) -> Result<Self> {
        let count = posterior.family().classes();
        check_size("list of factors", factors.len(), count)?;
        check_finite("factor", factors)?;
        let share = |index: usize| {
            let share = posterior.coordinate(index, Parameter::Mean)?;
            // at weight 0 any shares do
            let share = share.mean_statistic().unwrap_or(1.0 / count as f64);
            Ok((factors[index], share))
        };
        let largest = factors.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let smallest = factors.iter().copied().fold(f64::INFINITY, f64::min);
        Ok(Self {
            classes: (0..count).map(share).collect::<Result<_>>()?,
            weight: posterior.weight(),
            range: Interval::closed(smallest, largest)?,
        })
    }

    /// The value of possibility 1.
    pub fn mode(&self) -> f64 {
        let mode = self.classes.iter().map(|(c, share)| c * share).sum();
        self.range.clamp(mode)
    }

    /// Number of observations that the posterior is worth.
    pub fn weight(&self) -> f64 {
        self.weight
    }

    /// Factor and share of every class.
    pub fn classes(&self) -> &[(f64, f64)] {
        &self.classes
    }

    /// The same form with classes of the same factor as one, by increasing factor.
    pub fn joined(&self) -> Self {
        let mut sorted = self.classes.clone();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut classes: Vec<(f64, f64)> = Vec::new();
        for (factor, share) in sorted {
            match classes.last_mut() {
                Some(last) if last.0 == factor => last.1 += share,
                _ => classes.push((factor, share)),
            }
        }
        Self {
            classes,
            ..self.clone()
        }
    }

    /// The same form after these numbers of observations of each class.
    pub(crate) fn with_counts(&self, counts: &[f64]) -> Self {
        let weight = counts.iter().sum();
        let pairs = self.classes.iter().zip(counts);
        Self {
            classes: pairs.map(|((c, _), count)| (*c, count / weight)).collect(),
            weight,
            range: self.range,
        }
    }

    /// The most possible shares where a joined form has the value `t` of its range.
    pub(crate) fn shares_at(&self, t: f64) -> Vec<f64> {
        if t == self.range.lower() || t == self.range.upper() {
            let all = self
                .classes
                .iter()
                .map(|(c, _)| f64::from(u8::from(*c == t)));
            return all.collect();
        }
        if t == self.mode() {
            return self.classes.iter().map(|(_, share)| *share).collect();
        }
        let eta = self.multiplier(t);
        let divisors: Vec<f64> = self
            .classes
            .iter()
            .map(|(c, _)| 1.0 + eta * (c - t))
            .collect();
        let pairs = self.classes.iter().zip(&divisors);
        let share = |((_, share), divisor): (&(f64, f64), &f64)| match *share {
            0.0 => 0.0,
            share => share / divisor,
        };
        let mut shares: Vec<f64> = pairs.map(share).collect();
        // a class of share 0 takes what is left where its divisor is 0; else that is rounding
        let left = 1.0 - shares.iter().sum::<f64>();
        let least = (0..shares.len()).min_by(|&i, &j| divisors[i].total_cmp(&divisors[j]));
        if let Some(least) = least {
            shares[least] = (shares[least] + left).max(0.0);
        }
        shares
    }

    /// The values that the form can take.
    pub fn range(&self) -> Interval {
        self.range
    }
    /// `η`, between the reciprocals of the largest and the smallest `d`.
    fn multiplier(&self, t: f64) -> f64 {
        let (low, high) = (
            (t - self.range.upper()).recip(),
            (t - self.range.lower()).recip(),
        );
        // minus the derivative; it falls
        let slope = |eta: f64| -> f64 {
            let seen = self.classes.iter().filter(|(_, share)| *share > 0.0);
            seen.map(|(c, share)| share * (c - t) / (1.0 + eta * (c - t)))
                .sum()
        };
        crossing(slope, false, low, high)
    }
}

impl Possibility for ShareForm {
    type Point = f64;

    /// `log sup {π(p) : Σ c_k p_k = t}`.
    fn log_possibility(&self, point: &f64) -> f64 {
        let t = *point;
        if !self.range.contains(t) {
            return f64::NEG_INFINITY;
        }
        if t == self.mode() || self.weight == 0.0 {
            return 0.0;
        }
        if t == self.range.lower() || t == self.range.upper() {
            // all probability is with the classes of this factor
            let mut seen = self.classes.iter().filter(|(_, share)| *share > 0.0);
            let agree = seen.all(|(c, _)| *c == t);
            return if agree { 0.0 } else { f64::NEG_INFINITY };
        }
        let eta = self.multiplier(t);
        let seen = self.classes.iter().filter(|(_, share)| *share > 0.0);
        let sum: f64 = seen.map(|(c, share)| share * (eta * (c - t)).ln_1p()).sum();
        -self.weight * sum.max(0.0)
    }
}

impl Measure<RealSet> for ShareForm {
    fn log_possibility_of(&self, event: &RealSet) -> Result<f64> {
        let inside = event.intersection(&self.range.into());
        Ok(inside.supremum(self.mode(), |t| self.log_possibility(&t)))
    }

    fn log_possibility_of_complement(&self, event: &RealSet) -> Result<f64> {
        self.log_possibility_of(&event.complement())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Golden numbers are found with thirty digits (`golden/generate/gen_shares.py`).
    const GOLDEN: f64 = 1e-9;

    fn posterior(shares: &[f64], weight: f64) -> Conjugate<Categorical> {
        let family = Categorical::new(shares.len()).unwrap();
        Conjugate::new(family, &shares[..shares.len() - 1], weight).unwrap()
    }

    #[test]
    fn golden_forms() {
        for case in golden::cases("shares/forms.json") {
            let numbers = |key: &str| -> Vec<f64> {
                golden::list(&case[key])
                    .iter()
                    .map(golden::number)
                    .collect()
            };
            let counts = numbers("counts");
            let total: f64 = counts.iter().sum();
            let shares: Vec<f64> = counts.iter().map(|count| count / total).collect();
            let form = ShareForm::new(&posterior(&shares, total), &numbers("factors")).unwrap();
            let (found, expected) = (
                form.possibility(&golden::number(&case["value"])),
                golden::number(&case["possibility"]),
            );
            assert!((found - expected).abs() < GOLDEN, "{case}: {found}");
        }
    }

    /// The maximum over a grid of the part of the simplex where the form is `t`.
    fn brute_force(shares: &[f64], weight: f64, factors: &[f64], t: f64) -> f64 {
        const STEPS: usize = 100;
        let k = shares.len();
        // the two with the largest and the smallest factor, put last, follow from the others
        let mut order: Vec<usize> = (0..k).collect();
        order.sort_by(|&a, &b| factors[a].total_cmp(&factors[b]));
        order.rotate_left(1);
        let pick = |values: &[f64]| order.iter().map(|&i| values[i]).collect::<Vec<f64>>();
        let (shares, factors) = (&pick(shares)[..], &pick(factors)[..]);
        let log = |p: &[f64]| -> f64 {
            let terms = shares.iter().zip(p).filter(|(share, _)| **share > 0.0);
            weight * terms.map(|(s, p)| s * (p / s).ln()).sum::<f64>()
        };
        let (c, d) = (factors[k - 2], factors[k - 1]);
        let mut best = f64::NEG_INFINITY;
        for index in 0..(STEPS + 1).pow(k as u32 - 2) {
            let mut p: Vec<f64> = Vec::with_capacity(k);
            let mut rest = index;
            for _ in 0..k - 2 {
                p.push((rest % (STEPS + 1)) as f64 / STEPS as f64);
                rest /= STEPS + 1;
            }
            let left = 1.0 - p.iter().sum::<f64>();
            let needed = t - p.iter().zip(factors).map(|(p, c)| p * c).sum::<f64>();
            let first = (needed - d * left) / (c - d);
            p.extend([first, left - first]);
            if p.iter().all(|&p| p >= 0.0) {
                best = best.max(log(&p));
            }
        }
        best
    }

    proptest! {
        /// No point of the grid is better, and the grid comes close.
        #[test]
        fn the_profile_is_the_maximum_over_the_simplex(
            counts in prop::collection::vec(0_u32..6, 3..5),
            factors in prop::collection::vec(-2.0..2.0_f64, 4),
            place in 0.05..0.95_f64,
        ) {
            let factors = &factors[..counts.len()];
            let total: f64 = counts.iter().map(|&count| f64::from(count)).sum();
            let (low, high) = factors.iter().fold((9.0_f64, -9.0_f64), |(a, b), &c| (a.min(c), b.max(c)));
            prop_assume!(total > 0.0 && high - low > 0.1);
            let shares: Vec<f64> = counts.iter().map(|&n| f64::from(n) / total).collect();
            let form = ShareForm::new(&posterior(&shares, total), factors).unwrap();
            let (lower, upper) = (form.range().lower(), form.range().upper());
            let t = lower + place * (upper - lower);
            let (exact, grid) = (form.log_possibility(&t), brute_force(&shares, total, factors, t));
            prop_assert!(exact >= grid - 1e-9, "{exact} {grid}");
            prop_assert!(exact.exp() <= grid.exp() + 0.1, "{exact} {grid}");
        }
    }

    #[test]
    fn edges() {
        // the third class was not seen
        let unseen = posterior(&[0.5, 0.5, 0.0], 4.0);
        let form = |factors: &[f64]| ShareForm::new(&unseen, factors).unwrap();
        let above =
            |form: &ShareForm, t: f64| form.credence_of(&Interval::above(t).unwrap().into());
        // it can take its share from both others
        let third = form(&[0.0, 0.0, 1.0]);
        let expected = 0.7_f64.powi(4);
        assert!((above(&third, 0.3).unwrap().possibility - expected).abs() < 1e-14);
        // p₃ > p₁: both have a quarter at best, and the second class keeps its half
        let contrast = form(&[-1.0, 0.0, 1.0]);
        let expected = (0.25_f64 / 0.5).powi(2);
        assert!((above(&contrast, 0.0).unwrap().possibility - expected).abs() < 1e-14);
        // more than everything is impossible, and everything is certain
        let all = form(&[1.0, 1.0, 1.0]);
        assert_eq!(above(&all, 1.0).unwrap().possibility, 0.0);
        assert_eq!(above(&all, 0.5).unwrap().necessity, 1.0);
        let pair = form(&[1.0, 1.0, 0.0]);
        assert_eq!(above(&pair, 1.0).unwrap().possibility, 0.0);
        assert_eq!(pair.log_possibility(&1.0), 0.0);
        assert_eq!(pair.log_possibility(&0.0), f64::NEG_INFINITY);
        // without observations everything is possible
        let nothing = Conjugate::uninformative(Categorical::new(2).unwrap());
        let form = ShareForm::new(&nothing, &[1.0, -1.0]).unwrap();
        assert_eq!(form.log_possibility(&-0.9), 0.0);
        assert!(ShareForm::new(&nothing, &[1.0]).is_err());
        assert!(ShareForm::new(&nothing, &[1.0, f64::NAN]).is_err());
    }
}
