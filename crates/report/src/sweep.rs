//! The runs of a sweep as points: values of the keys it changes, and the best validation loss.
//!
//! How much a key matters is the share of the losses' order that its values explain: with `y` the
//! ranks of the losses and `n` runs,
//!
//! ```text
//! 1 - (1 - R²) (n - 1)/(n - p - 1)
//! ```
//!
//! where R² is that of the least-squares fit of `y` by the ranks of a number and their squares
//! (`p` = 2, one bend), or by a mean per word (`p` = words - 1). Ranks make it indifferent to the
//! scale of the key, the correction to the number of its values. It speaks of one key at a time:
//! of keys that only matter together it says little.

use std::collections::BTreeSet;

use evaluation::record::RunRecord;

use crate::facts::flatten;
use crate::summary::Group;

/// A key of the config that a sweep changes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Key {
    pub name: String,
    /// As the config has them, one per run.
    pub texts: Vec<String>,
    /// The same as numbers, if all are.
    pub numbers: Option<Vec<f64>>,
}

/// The runs of a group that are of a sweep, and what they differ in.
pub(crate) struct Sweep<'a> {
    pub keys: Vec<Key>,
    pub runs: Vec<&'a RunRecord>,
    /// Lowest validation loss of each run.
    pub losses: Vec<f64>,
}

impl<'a> Sweep<'a> {
    /// `None` where no two runs of the group are of a sweep of something but seeds. A sweep puts
    /// its keys and values into the names of its runs, `mine-lr=0.01-seed0`.
    pub fn of(group: &Group<'a>) -> Option<Self> {
        let loss = |run: &RunRecord| {
            let losses = run.curves.iter().filter_map(|point| point.validation_loss);
            losses
                .filter(|loss| loss.is_finite())
                .min_by(f64::total_cmp)
        };
        let trials = group.runs.iter().filter(|run| run.name.contains('='));
        let (runs, losses): (Vec<&RunRecord>, Vec<f64>) =
            trials.filter_map(|&run| Some((run, loss(run)?))).unzip();
        let keys = keys(&runs);
        (!keys.is_empty()).then_some(Self { keys, runs, losses })
    }

    /// Place of the run with the lowest loss.
    pub fn best(&self) -> Option<usize> {
        (0..self.losses.len()).min_by(|&a, &b| self.losses[a].total_cmp(&self.losses[b]))
    }

    /// The share of the order that a key explains, at least 0; `None` with too few runs, or if all
    /// losses are equal.
    pub fn share(&self, key: &Key) -> Option<f64> {
        let y = ranks(&self.losses);
        let (terms, p) = match &key.numbers {
            Some(numbers) => {
                let values: BTreeSet<&String> = key.texts.iter().collect();
                let bends = values.len().saturating_sub(1).min(2);
                (powers(&ranks(numbers), bends), bends)
            }
            None => indicators(&key.texts),
        };
        let n = y.len();
        if n < p + 2 {
            return None;
        }
        let total = sum_of_squares(&centered(&y));
        if total == 0.0 {
            return None;
        }
        let unexplained = sum_of_squares(&residual(&centered(&y), terms)) / total;
        let correction = (n - 1) as f64 / (n - p - 1) as f64;
        Some((1.0 - unexplained * correction).clamp(0.0, 1.0))
    }
}

/// The keys that stand in the names of all runs, with two values or more.
fn keys(runs: &[&RunRecord]) -> Vec<Key> {
    let flat: Vec<Vec<(String, String)>> = runs.iter().map(|run| flatten(&run.config)).collect();
    let Some(first) = flat.first() else {
        return Vec::new();
    };
    let key = |name: &String| {
        let last = name.rsplit('.').next().unwrap_or(name);
        let mark = format!("-{last}=");
        if !runs.iter().all(|run| run.name.contains(&mark)) {
            return None;
        }
        let value = |settings: &Vec<(String, String)>| {
            let found = settings.iter().find(|(other, _)| other == name);
            found.map(|(_, value)| value.clone())
        };
        let texts: Vec<String> = flat.iter().map(value).collect::<Option<_>>()?;
        if texts.iter().all(|text| *text == texts[0]) {
            return None;
        }
        let number = |text: &String| text.parse().ok().filter(|number: &f64| number.is_finite());
        let numbers = texts.iter().map(number).collect();
        Some(Key {
            name: name.clone(),
            texts,
            numbers,
        })
    };
    first.iter().filter_map(|(name, _)| key(name)).collect()
}

/// Ranks from 0; equal values share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let rank = |value: &f64| {
        let below = values.iter().filter(|other| *other < value).count();
        let equal = values.iter().filter(|other| *other == value).count();
        below as f64 + (equal - 1) as f64 / 2.0
    };
    values.iter().map(rank).collect()
}

/// `x`, and with two bends `x²`.
fn powers(x: &[f64], count: usize) -> Vec<Vec<f64>> {
    let x = centered(x);
    let power = |exponent: usize| x.iter().map(|x| x.powi(exponent as i32)).collect();
    (1..=count).map(power).collect()
}

/// One column per word, and the number of words less one.
fn indicators(texts: &[String]) -> (Vec<Vec<f64>>, usize) {
    let words: BTreeSet<&String> = texts.iter().collect();
    let column = |word: &&String| {
        let is = |text: &String| if text == *word { 1.0 } else { 0.0 };
        texts.iter().map(is).collect()
    };
    let columns: Vec<Vec<f64>> = words.iter().map(column).collect();
    let p = columns.len().saturating_sub(1);
    (columns, p)
}

fn centered(values: &[f64]) -> Vec<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| value - mean).collect()
}

fn sum_of_squares(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum()
}

/// What the terms leave of `y`, by Gram and Schmidt; the terms are centered first.
fn residual(y: &[f64], terms: Vec<Vec<f64>>) -> Vec<f64> {
    let mut y = y.to_vec();
    let mut basis: Vec<Vec<f64>> = Vec::new();
    for term in terms {
        let mut term = centered(&term);
        let size = sum_of_squares(&term);
        for other in &basis {
            subtract(&mut term, other);
        }
        // what the terms before it say already
        if sum_of_squares(&term) <= 1e-12 * size {
            continue;
        }
        subtract(&mut y, &term);
        basis.push(term);
    }
    y
}

/// Takes from `y` its part along `term`.
fn subtract(y: &mut [f64], term: &[f64]) {
    let product: f64 = y.iter().zip(term).map(|(a, b)| a * b).sum();
    let along = product / sum_of_squares(term);
    y.iter_mut().zip(term).for_each(|(y, t)| *y -= along * t);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(losses: &[f64]) -> Sweep<'static> {
        Sweep {
            keys: vec![],
            runs: vec![],
            losses: losses.to_vec(),
        }
    }

    fn number(values: &[f64]) -> Key {
        Key {
            name: "lr".into(),
            texts: values.iter().map(f64::to_string).collect(),
            numbers: Some(values.to_vec()),
        }
    }

    /// Rounding of a handful of operations.
    const TOLERANCE: f64 = 1e-12;

    #[track_caller]
    fn assert_share(losses: &[f64], key: &Key, expected: f64) {
        let found = sweep(losses).share(key).unwrap();
        assert!((found - expected).abs() < TOLERANCE, "{found}");
    }

    #[test]
    fn ranks_share_their_mean() {
        assert_eq!(ranks(&[0.5, 0.1, 0.5, 9.0]), [1.5, 0.0, 1.5, 3.0]);
    }

    #[test]
    fn a_number_explains_an_order_with_one_bend() {
        // the order of the key itself, of any scale
        assert_share(
            &[0.1, 0.2, 0.4, 0.7, 0.9],
            &number(&[1e-4, 1e-3, 0.01, 0.1, 1.0]),
            1.0,
        );
        // a valley: the ranks less 2 are 1.5, -0.5, -2, -0.5, 1.5, the squares of the key's less 2
        // are 2, -1, -2, -1, 2, so that R² = 11²/(9 · 14) and 1 - 5/126 · 4/2 is left
        let valley = [0.8, 0.5, 0.4, 0.5, 0.8];
        assert_share(
            &valley,
            &number(&[1.0, 2.0, 3.0, 4.0, 5.0]),
            1.0 - 10.0 / 126.0,
        );
    }

    #[test]
    fn words_explain_by_their_means() {
        let words = Key {
            name: "flip".into(),
            texts: ["a", "a", "b", "b"].map(String::from).into(),
            numbers: None,
        };
        // ranks 0, 1, 2, 3: between 4, in all 5, so that R² = 0.8 and 1 - 0.2 · 3/2 = 0.7
        assert_share(&[0.1, 0.2, 0.3, 0.4], &words, 0.7);
        // means are equal
        assert_share(&[0.1, 0.4, 0.2, 0.3], &words, 0.0);
    }

    #[test]
    fn too_few_runs_explain_nothing() {
        assert_eq!(
            sweep(&[0.1, 0.2, 0.3]).share(&number(&[1.0, 2.0, 3.0])),
            None
        );
        assert_eq!(
            sweep(&[0.1; 5]).share(&number(&[1.0, 2.0, 3.0, 4.0, 5.0])),
            None
        );
        // two values have no bend
        let two = number(&[1.0, 1.0, 2.0, 2.0]);
        assert_share(&[0.1, 0.2, 0.3, 0.4], &two, 0.7);
    }
}
