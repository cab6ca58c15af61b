//! A linear form `Σ c_k p_k` of class probabilities: the numbers of the classes are drawn from the
//! multinomial law at the most possible probabilities with `Σ c_k p_k = t`. Classes with the same
//! factor are one class, and with two factors the form is a multiple of one probability, whose law
//! is known ([`valid`](crate::valid)).

use super::{Comparison, Simulation, Source};
use crate::error::{Error, Result, check};
use crate::family::conjugate::ShareForm;
use crate::family::tails::beta_below;
use crate::function::Possibility;
use crate::set::Interval;

/// A linear form of class probabilities, for data without prior.
#[derive(Clone)]
pub struct SimulatedShares<'a> {
    form: ShareForm,
    simulation: Simulation<'a>,
}

impl<'a> SimulatedShares<'a> {
    /// The form, whose weight is the number of observations.
    ///
    /// ```
    /// use possibility::prelude::*;
    /// use possibility::family::conjugate::ShareForm;
    /// use possibility::simulated::{Simulated, SimulatedShares, Simulation};
    /// let shares = Categorical::new(3)?.observe(&[0, 0, 0, 0, 0, 1, 2, 2])?;
    /// let difference = ShareForm::new(&shares, &[1.0, -1.0, 0.0])?;
    /// // any uniform numbers will do; a generator by position is best
    /// let uniform = |draw: usize, row: usize| ((draw * 7 + row * 13) as f64 * 0.618034).fract();
    /// let simulation = Simulation { draws: 99, uniform: &uniform };
    /// let mut difference = Simulated::new(SimulatedShares::new(difference, simulation)?);
    /// let equal = difference.possibility(0.0)?;
    /// assert!(equal.value > 0.05 && equal.value < 0.6 && equal.error > 0.0);
    /// # Ok::<(), possibility::Error>(())
    /// ```
    ///
    /// # Errors
    /// The weight is no number of observations, or there are no data sets.
    pub fn new(form: ShareForm, simulation: Simulation<'a>) -> Result<Self> {
        let is_count = |n: f64| n >= 1.0 && n.fract() == 0.0;
        check(
            "number of observations",
            form.weight(),
            "{1, 2, ...}",
            is_count,
        )?;
        if simulation.draws == 0 {
            return Err(Error::Empty { name: "simulation" });
        }
        Ok(Self {
            form: form.joined(),
            simulation,
        })
    }
}

impl Source for SimulatedShares<'_> {
    fn mode(&self) -> f64 {
        self.form.mode()
    }

    fn range(&self) -> Interval {
        self.form.range()
    }

    fn draws(&self) -> usize {
        self.simulation.draws
    }

    fn compare(&self, value: f64) -> Result<Comparison> {
        let shares = self.form.shares_at(value);
        let simulate = |draw: usize| {
            let uniform = |index: usize| (self.simulation.uniform)(draw, index);
            let counts = multinomial(self.form.weight(), &shares, uniform);
            Some(self.form.with_counts(&counts).log_possibility(&value))
        };
        let logs: Vec<Option<f64>> = (0..self.simulation.draws).map(simulate).collect();
        let observed = self.form.log_possibility(&value);
        Ok(Comparison::new(value, observed, &logs))
    }
}

/// Numbers of classes, one binomial number after the other.
fn multinomial(n: f64, shares: &[f64], uniform: impl Fn(usize) -> f64) -> Vec<f64> {
    let (mut left, mut rest) = (n, 1.0);
    let mut counts = Vec::with_capacity(shares.len());
    for (index, &share) in shares.iter().enumerate() {
        let is_last = index + 1 == shares.len();
        let count = if is_last || share >= rest {
            left
        } else {
            binomial(left, share / rest, uniform(index))
        };
        counts.push(count);
        left -= count;
        rest -= share;
    }
    counts
}

/// The least `k` with `P(S ≤ k) > u` for a binomial `S`.
fn binomial(n: f64, p: f64, u: f64) -> f64 {
    let (mut low, mut high) = (-1.0, n);
    while high - low > 1.0 {
        let k = (0.5 * (low + high)).floor();
        if beta_below(n - k, k + 1.0, 1.0 - p, p) > u {
            high = k;
        } else {
            low = k;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::super::Simulated;
    use super::*;
    use crate::family::conjugate::{Bernoulli, Categorical, Conjugate, ScalarFamily};
    use crate::simulated::tests::splitmix;
    use crate::valid::Valid;

    fn form(counts: &[f64], factors: &[f64]) -> ShareForm {
        let n: f64 = counts.iter().sum();
        let shares: Vec<f64> = counts.iter().map(|count| count / n).collect();
        let family = Categorical::new(counts.len()).unwrap();
        let posterior = Conjugate::new(family, &shares[..shares.len() - 1], n).unwrap();
        ShareForm::new(&posterior, factors).unwrap()
    }

    /// `π` by its definition: all numbers of three classes, at the plugged-in shares.
    fn by_enumeration(form: &ShareForm, n: f64, t: f64) -> f64 {
        let shares = form.shares_at(t);
        let factorial = |k: f64| (1..=k as u32).map(f64::from).product::<f64>();
        let observed = form.log_possibility(&t);
        let (mut sum, mut a) = (0.0, 0.0);
        while a <= n {
            let mut b = 0.0;
            while a + b <= n {
                let counts = [a, b, n - a - b];
                let ways = factorial(n) / counts.iter().map(|&k| factorial(k)).product::<f64>();
                let pairs = counts.iter().zip(&shares);
                let probability = ways * pairs.map(|(&k, p)| p.powi(k as i32)).product::<f64>();
                if form.with_counts(&counts).log_possibility(&t) <= observed + 1e-7 {
                    sum += probability;
                }
                b += 1.0;
            }
            a += 1.0;
        }
        sum
    }

    #[test]
    fn differences_agree_with_enumeration() {
        let simulation = Simulation {
            draws: 4000,
            uniform: &splitmix,
        };
        for counts in [[5.0, 1.0, 4.0], [7.0, 0.0, 2.0], [3.0, 3.0, 6.0]] {
            let n: f64 = counts.iter().sum();
            let form = form(&counts, &[1.0, -1.0, 0.0]).joined();
            let source = SimulatedShares::new(form.clone(), simulation).unwrap();
            let mut simulated = Simulated::new(source);
            for t in [-0.4, 0.0, 0.1, 0.55, 0.9] {
                let found = simulated.possibility(t).unwrap();
                let expected = by_enumeration(&form, n, t);
                let off = (found.value - expected).abs();
                // four standard errors, and the set that was seen
                assert!(
                    off < 4.0 * found.error + 1e-3,
                    "{counts:?} {t}: {found:?} {expected}"
                );
            }
        }
    }

    /// With two factors the form is one probability: the law of a binomial number.
    #[test]
    fn one_class_agrees_with_the_exact_law() {
        let simulation = Simulation {
            draws: 4000,
            uniform: &splitmix,
        };
        let form = form(&[6.0, 3.0, 11.0], &[0.0, 1.0, 0.0]);
        let exact = Valid::new(Bernoulli.prior(0.15, 20.0).unwrap()).unwrap();
        let mut simulated = Simulated::new(SimulatedShares::new(form, simulation).unwrap());
        for t in [0.02, 0.1, 0.3, 0.5] {
            let (found, expected) = (simulated.possibility(t).unwrap(), exact.possibility(&t));
            let off = (found.value - expected).abs();
            assert!(off < 4.0 * found.error + 1e-3, "{t}: {found:?} {expected}");
        }
        assert_eq!(
            simulated.possibility(0.15).unwrap(),
            super::super::Estimate::certain(1.0)
        );
        assert_eq!(simulated.possibility(1.5).unwrap().value, 0.0);
    }

    #[test]
    fn binomial_numbers_are_quantiles() {
        // 1/8, 1/2, 7/8, 1
        let cases = [
            (0.0, 0.0),
            (0.124, 0.0),
            (0.126, 1.0),
            (0.49, 1.0),
            (0.51, 2.0),
            (0.999, 3.0),
        ];
        for (u, k) in cases {
            assert_eq!(binomial(3.0, 0.5, u), k, "{u}");
        }
        assert_eq!(binomial(0.0, 0.5, 0.7), 0.0);
        let counts = multinomial(10.0, &[0.0, 1.0, 0.0], |_| 0.9);
        assert_eq!(counts, [0.0, 10.0, 0.0]);
    }

    #[test]
    fn weights_that_are_no_counts_are_refused() {
        let family = Categorical::new(3).unwrap();
        let posterior = Conjugate::new(family, &[0.2, 0.3], 2.5).unwrap();
        let form = ShareForm::new(&posterior, &[1.0, -1.0, 0.0]).unwrap();
        let simulation = |draws| Simulation {
            draws,
            uniform: &splitmix,
        };
        assert!(SimulatedShares::new(form, simulation(9)).is_err());
        assert!(SimulatedShares::new(self::form(&[1.0, 2.0], &[1.0, 0.0]), simulation(0)).is_err());
    }
}
