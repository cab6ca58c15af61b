//! Rows of probabilities `[n, classes]`, row after row, and the scores made from them: the higher a
//! score, the more the input looks like the training data.
//!
//! A row is valid if every entry lies in `[0, 1]` and they add up to 1 within [`SUM_TOLERANCE`].
//! Entries above 1 by no more than [`ROUNDING`], as averaging in `f32` can leave them, count as 1.

use serde::{Deserialize, Serialize};

use super::{in_threads, sum, threads_for};
use crate::error::{Error, Result};

/// How far the sum of a row may be from 1: rounding to half precision, or to four printed digits,
/// stays within; logits, scores of separate classes and truncated rows do not.
pub const SUM_TOLERANCE: f64 = 1e-3;

/// How far an entry may be above 1: a few units in the last place of `f32`.
pub const ROUNDING: f64 = 1e-6;

/// Number of rows of a matrix `[n, classes]`.
///
/// # Errors
/// There are fewer than two classes, no values, no whole rows, or more rows than 32 bits can count.
pub(super) fn rows<P>(probabilities: &[P], classes: usize) -> Result<usize> {
    if classes < 2 {
        return Err(Error::Classes { classes });
    }
    if probabilities.is_empty() {
        return Err(Error::Empty {
            what: "probabilities",
        });
    }
    if !probabilities.len().is_multiple_of(classes) {
        let values = probabilities.len();
        return Err(Error::Shape { values, classes });
    }
    let samples = probabilities.len() / classes;
    if samples > u32::MAX as usize {
        return Err(Error::TooMany { samples });
    }
    Ok(samples)
}

/// The largest entry of a valid row; `row` is its number, for the message.
#[inline]
pub(super) fn check<P: Copy + Into<f64>>(row: usize, entries: &[P]) -> Result<f64> {
    let (mut sum, mut smallest, mut largest) = (0.0, 0.0, 0.0);
    for &entry in entries {
        let entry: f64 = entry.into();
        sum += entry;
        smallest = if entry < smallest { entry } else { smallest };
        largest = if entry > largest { entry } else { largest };
    }
    confidence(sum, smallest, largest).ok_or_else(|| complaint(row, entries))
}

/// The maximum probability of a row of this sum, smallest and largest entry, if the row is valid.
#[inline]
pub(super) fn confidence(sum: f64, smallest: f64, largest: f64) -> Option<f64> {
    // a NaN among the entries makes the sum one, and the comparison false
    let valid = smallest >= 0.0 && largest <= 1.0 + ROUNDING && (sum - 1.0).abs() <= SUM_TOLERANCE;
    valid.then(|| largest.min(1.0))
}

/// What is wrong with a row that is not valid.
#[cold]
fn complaint<P: Copy + Into<f64>>(row: usize, entries: &[P]) -> Error {
    let mut sum = 0.0;
    for (class, &entry) in entries.iter().enumerate() {
        let value: f64 = entry.into();
        if !(0.0..=1.0 + ROUNDING).contains(&value) {
            return Error::Probability { row, class, value };
        }
        sum += value;
    }
    Error::Sum { row, sum }
}

/// Calls `fill` on pieces of the rows, in several threads where it pays, and returns the first
/// error by row.
pub(super) fn in_pieces<P: Copy + Into<f64> + Sync>(
    probabilities: &[P],
    classes: usize,
    scores: &mut [f64],
    fill: impl Fn(usize, &[P], &mut [f64]) -> Result<()> + Sync,
) -> Result<()> {
    let threads = threads_for(probabilities.len());
    let size = scores.len().div_ceil(threads);
    let pieces = probabilities
        .chunks(size * classes)
        .zip(scores.chunks_mut(size));
    let fill = &fill;
    in_threads(
        threads,
        (pieces.enumerate()).map(|(i, (piece, scores))| move || fill(i * size, piece, scores)),
    )
}

/// One score per row, computed from the checked row, its maximum and scratch.
fn scores<P: Copy + Into<f64> + Sync>(
    probabilities: &[P],
    classes: usize,
    score: impl Fn(&[P], f64, &mut Vec<u64>) -> f64 + Sync,
) -> Result<Vec<f64>> {
    let mut scores = vec![0.0; rows(probabilities, classes)?];
    in_pieces(
        probabilities,
        classes,
        &mut scores,
        |first, piece, scores| {
            let (entries, mut scratch) = (piece.chunks_exact(classes), Vec::new());
            for (i, (entries, slot)) in entries.zip(scores).enumerate() {
                *slot = score(entries, check(first + i, entries)?, &mut scratch);
            }
            Ok(())
        },
    )?;
    Ok(scores)
}

/// Maximum probability of every row: the paper's score. O(n · classes).
///
/// ```
/// let probabilities = [0.5f32, 0.25, 0.25, 0.0, 0.0, 1.0];
/// assert_eq!(evaluation::maximum_probability(&probabilities, 3)?, [0.5, 1.0]);
/// # Ok::<(), evaluation::Error>(())
/// ```
///
/// # Errors
/// The matrix is malformed or a row is not valid.
pub fn maximum_probability<P: Copy + Into<f64> + Sync>(
    probabilities: &[P],
    classes: usize,
) -> Result<Vec<f64>> {
    scores(probabilities, classes, |_, largest, _| largest)
}

/// Negative entropy `Σ p log p` of every row, with `0 log 0 = 0`, between `-log classes` and 0. The
/// same to the bit in whatever order the classes stand, so that equal entropies are ties. O(n ·
/// classes) logarithms, and the terms of a row are sorted.
///
/// ```
/// let scores = evaluation::negative_entropy(&[0.5, 0.5, 0.0, 1.0], 2)?;
/// assert_eq!(scores, [-std::f64::consts::LN_2, 0.0]);
/// # Ok::<(), evaluation::Error>(())
/// ```
///
/// # Errors
/// The matrix is malformed or a row is not valid.
pub fn negative_entropy<P: Copy + Into<f64> + Sync>(
    probabilities: &[P],
    classes: usize,
) -> Result<Vec<f64>> {
    let term = |p: f64| if p > 0.0 { p * p.ln() } else { 0.0 };
    scores(probabilities, classes, |entries, _, terms| {
        terms.clear();
        terms.extend(entries.iter().map(|&p| term(p.into()).to_bits()));
        // rounding above 1 must not make certainty more than certain
        sum::in_any_order(terms).min(0.0) + 0.0
    })
}

/// What tells in-domain from out-of-domain inputs, made from class probabilities: the higher, the
/// more in-domain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Score {
    /// The largest class probability, the paper's score.
    #[default]
    #[serde(rename = "max-probability")]
    MaximumProbability,
    /// The entropy of the class probabilities, negated.
    #[serde(rename = "entropy")]
    NegativeEntropy,
}

impl Score {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::MaximumProbability, Self::NegativeEntropy];

    /// The word in configs and on the command line.
    pub fn id(self) -> &'static str {
        match self {
            Self::MaximumProbability => "max-probability",
            Self::NegativeEntropy => "entropy",
        }
    }

    /// The name in results and records.
    pub fn name(self) -> &'static str {
        match self {
            Self::MaximumProbability => "maximum probability",
            Self::NegativeEntropy => "negative entropy",
        }
    }

    /// What it is, in a few words.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::MaximumProbability => "The largest probability, the paper's score",
            Self::NegativeEntropy => "The entropy, negated",
        }
    }

    /// The score with this name in results and records.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|score| score.name() == name)
    }

    /// Smallest and largest value.
    pub fn range(self, classes: usize) -> (f64, f64) {
        match self {
            Self::MaximumProbability => (0.0, 1.0),
            Self::NegativeEntropy => (-(classes as f64).ln(), 0.0),
        }
    }

    /// One score per row of probabilities `[n, classes]`. O(n · classes).
    ///
    /// # Errors
    /// The matrix is malformed or a row is not valid.
    pub fn of<P: Copy + Into<f64> + Sync>(
        self,
        probabilities: &[P],
        classes: usize,
    ) -> Result<Vec<f64>> {
        match self {
            Self::MaximumProbability => maximum_probability(probabilities, classes),
            Self::NegativeEntropy => negative_entropy(probabilities, classes),
        }
    }
}

/// The largest logit of a row, and `log Σ exp(z - largest)`, so that nothing overflows.
fn log_sum(row: &[f64]) -> (f64, f64) {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let terms = row.iter().map(|z| (z - largest).exp());
    (largest, sum::of_shares(row.len(), terms).ln())
}

/// `log Σ exp z` of a row of finite logits, the negative free energy; the same to the bit in
/// whatever order the classes stand. O(classes).
///
/// ```
/// assert_eq!(evaluation::energy(&[800.0, 800.0]), 800.0 + std::f64::consts::LN_2);
/// ```
pub fn energy(row: &[f64]) -> f64 {
    let (largest, log_sum) = log_sum(row);
    largest + log_sum
}

/// `-log p(label)` where `p` is the softmax of a row of logits, also where `p(label)` is below all
/// numbers; infinite if the label's logit is `-inf`.
///
/// ```
/// assert_eq!(evaluation::log_loss(&[0.0, 800.0], 0), 800.0);
/// ```
///
/// # Panics
/// If there is no such class.
pub fn log_loss(row: &[f64], label: usize) -> f64 {
    let (largest, log_sum) = log_sum(row);
    log_sum + (largest - row[label])
}

/// Probabilities `exp(f) / Σ exp(f)` of logits `[n, classes]`. A logit of `-inf` is a class ruled
/// out. Classes in another order have the same probabilities to the bit. O(n · classes).
///
/// ```
/// let probabilities = evaluation::softmax(&[0.0f32, 3f32.ln(), f32::NEG_INFINITY, 700.0], 2)?;
/// assert!((probabilities[1] - 0.75).abs() < 1e-7);
/// assert_eq!(probabilities[2..], [0.0, 1.0]);
/// # Ok::<(), evaluation::Error>(())
/// ```
///
/// # Errors
/// The matrix is malformed, a logit is NaN or `+inf`, or all of a row are `-inf`.
pub fn softmax<P: Copy + Into<f64>>(logits: &[P], classes: usize) -> Result<Vec<f64>> {
    rows(logits, classes)?;
    let mut probabilities: Vec<f64> = logits.iter().map(|&logit| logit.into()).collect();
    for (row, entries) in probabilities.chunks_exact_mut(classes).enumerate() {
        let bad = |&value: &f64| value.is_nan() || value == f64::INFINITY;
        if let Some(class) = entries.iter().position(bad) {
            let value = entries[class];
            return Err(Error::Logit { row, class, value });
        }
        let largest = entries.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if largest == f64::NEG_INFINITY {
            let (class, value) = (0, largest);
            return Err(Error::Logit { row, class, value });
        }
        for entry in entries.iter_mut() {
            *entry = (*entry - largest).exp();
        }
        let sum = sum::of_shares(classes, entries.iter().copied());
        for entry in entries {
            *entry /= sum;
        }
    }
    Ok(probabilities)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_are_known_by_their_words() {
        for score in Score::ALL {
            assert_eq!(Score::by_name(score.name()), Some(score));
            assert_eq!(serde_json::to_value(score).unwrap(), score.id());
        }
        assert_eq!(Score::by_name("given"), None);
        assert_eq!(
            Score::NegativeEntropy.range(2),
            (-std::f64::consts::LN_2, 0.0)
        );
    }

    #[test]
    fn malformed_matrices_are_refused() {
        let none: [f64; 0] = [];
        assert_eq!(
            maximum_probability(&[1.0], 1),
            Err(Error::Classes { classes: 1 })
        );
        assert_eq!(
            maximum_probability(&none, 3),
            Err(Error::Empty {
                what: "probabilities"
            })
        );
        let (values, classes) = (4, 3);
        assert_eq!(
            maximum_probability(&[0.25; 4], 3),
            Err(Error::Shape { values, classes })
        );
    }

    #[test]
    fn the_first_invalid_entry_is_named() {
        let cases = [
            (
                [0.5, 0.5, 0.2, 0.9],
                "row 1: sum of the probabilities 1.1 is not in 1 ± 0.001",
            ),
            (
                [0.5, 0.5, -0.25, 1.25],
                "row 1: probability -0.25 of class 0 is not in [0, 1]",
            ),
            (
                [1.5, -0.5, 0.2, 0.9],
                "row 0: probability 1.5 of class 0 is not in [0, 1]",
            ),
            (
                [0.5, 0.5, 0.5, f64::NAN],
                "row 1: probability NaN of class 1 is not in [0, 1]",
            ),
            (
                [f64::INFINITY, 0.5, 0.5, 0.5],
                "row 0: probability inf of class 0 is not in [0, 1]",
            ),
            (
                [0.0, 0.0, 0.5, 0.5],
                "row 0: sum of the probabilities 0 is not in 1 ± 0.001",
            ),
        ];
        for (probabilities, message) in cases {
            for score in [maximum_probability, negative_entropy] {
                let error = score(&probabilities, 2).unwrap_err();
                assert_eq!(error.to_string(), message);
            }
        }
    }

    #[test]
    fn rounding_passes_and_counts_as_one() {
        let probabilities = [1.000_000_1f32, 0.0, 0.4995, 0.5];
        assert_eq!(maximum_probability(&probabilities, 2).unwrap(), [1.0, 0.5]);
        assert_eq!(negative_entropy(&probabilities, 2).unwrap()[0], 0.0);
    }

    /// The same probabilities in all orders of the classes.
    #[test]
    fn the_order_of_the_classes_changes_no_score() {
        let logits = [0.1f64, -1.3, 2.7, 0.4, -0.2, 1.1];
        let probabilities = softmax(&logits, 6).unwrap();
        let sorted = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            values
        };
        let entropy = |row: &[f64]| negative_entropy(row, 6).unwrap()[0];
        let mut sums = Vec::new();
        for shift in 0..6 {
            for swapped in 0..6 {
                let (mut z, mut p) = (logits, probabilities.clone());
                z.rotate_left(shift);
                z.swap(0, swapped);
                p.rotate_left(shift);
                p.swap(0, swapped);
                assert_eq!(entropy(&p), entropy(&probabilities));
                assert_eq!(energy(&z), energy(&logits));
                let found = softmax(&z, 6).unwrap();
                assert_eq!(sorted(found), sorted(probabilities.clone()));
                sums.push(p.iter().map(|p| p * p.ln()).sum::<f64>());
            }
        }
        // which the plain sum is not
        assert!(sums.iter().any(|sum| *sum != sums[0]));
        assert!((entropy(&probabilities) - sums[0]).abs() < 1e-15);
        let plain = logits.iter().map(|z| z.exp()).sum::<f64>().ln();
        assert!((energy(&logits) - plain).abs() < 1e-15);
        for (class, p) in probabilities.iter().enumerate() {
            assert!((log_loss(&logits, class) + p.ln()).abs() < 1e-14);
        }
        assert_eq!(log_loss(&[0.0, f64::NEG_INFINITY], 1), f64::INFINITY);
    }

    #[test]
    fn threads_find_the_first_bad_row_too() {
        let mut probabilities = vec![0.5f32; 1 << 20];
        for row in [400_000, 300_000, 500_000] {
            probabilities[2 * row] = 0.75;
        }
        let sum = 1.25;
        let row = 300_000;
        assert_eq!(
            maximum_probability(&probabilities, 2),
            Err(Error::Sum { row, sum })
        );
        probabilities.fill(0.5);
        probabilities[777_777] = 0.5004;
        let scores = maximum_probability(&probabilities, 2).unwrap();
        assert_eq!(scores.len(), 1 << 19);
        let odd: Vec<usize> = (0..scores.len()).filter(|&i| scores[i] != 0.5).collect();
        assert_eq!(odd, [777_777 / 2]);
    }

    #[test]
    fn softmax_refuses_what_has_no_answer() {
        for (logits, class) in [
            ([0.0, 1.0, f64::NAN, 0.0], 0),
            ([0.0, 1.0, 0.0, f64::INFINITY], 1),
            ([0.0, 1.0, f64::NEG_INFINITY, f64::NEG_INFINITY], 0),
        ] {
            match softmax(&logits, 2).unwrap_err() {
                Error::Logit {
                    row, class: found, ..
                } => assert_eq!((row, found), (1, class)),
                other => panic!("{other}"),
            }
        }
    }
}
