//! Predictions against labels: accuracy, top-5, log loss, Brier score.
//!
//! Everything rests on the rank of the label, the number of classes that come before it when the
//! row is sorted stably from the highest probability to the lowest:
//! `#{p > p_label} + #{p = p_label, class < label}`. So a tie is won by the lowest class. A
//! prediction is right if the rank is 0.

use std::fmt::Display;
use std::thread;

use super::calibration::{CalibrationConfig, reliability};
use super::detection::Ranking;
use super::{probability, sum, threads_for};
use crate::error::{Error, Result};
use crate::metric::InDomain;
use crate::results::{Classification, Reliability};

/// Top-5 is undefined below this many classes.
const TOP: u32 = 5;
/// Parts in which probabilities are consumed.
const PARTS: usize = 32;

/// What each prediction was worth: confidence, log loss, Brier score and rank of the label. 28
/// bytes per image.
///
/// ```
/// use evaluation::Outcomes;
///
/// // [2, 3]: the first prediction is right, the second is not
/// let outcomes = Outcomes::new(&[0.5f32, 0.25, 0.25, 0.75, 0.25, 0.0], 3, &[0u8, 1])?;
/// assert_eq!(outcomes.accuracy(), 0.5);
/// assert_eq!(outcomes.confidence(), [0.5, 0.75]);
/// assert_eq!(outcomes.brier(), (0.375 + 1.125) / 2.0);
/// # Ok::<(), evaluation::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Outcomes {
    classes: usize,
    confidence: Vec<f64>,
    log_loss: Vec<f64>,
    brier: Vec<f64>,
    rank: Vec<u32>,
}

impl Outcomes {
    /// Holds probabilities `[n, classes]` against `n` labels from 0. O(n · classes), in several
    /// threads where it pays.
    ///
    /// # Errors
    /// The matrix is malformed, a row is not valid (see [`probability`]), there are not as many
    /// labels as rows, or a label names no class.
    pub fn new<P, L>(probabilities: &[P], classes: usize, labels: &[L]) -> Result<Self>
    where
        P: Copy + Into<f64> + Sync,
        L: Copy + TryInto<usize> + Display + Sync,
    {
        let mut outcomes = Self::blank(probabilities, classes, labels)?;
        outcomes.fill(0, probabilities, labels)?;
        Ok(outcomes)
    }

    /// The same as [`Outcomes::new`], from probabilities that nobody needs any more: their memory
    /// is given back on the way, so that both are never there as a whole.
    ///
    /// ```
    /// use evaluation::Outcomes;
    ///
    /// let rows = vec![0.5, 0.25, 0.25, 0.75, 0.25, 0.0];
    /// let outcomes = Outcomes::new(&rows, 3, &[0, 1])?;
    /// assert_eq!(Outcomes::consuming(rows, 3, &[0, 1])?, outcomes);
    /// # Ok::<(), evaluation::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Outcomes::new`].
    pub fn consuming<P, L>(mut probabilities: Vec<P>, classes: usize, labels: &[L]) -> Result<Self>
    where
        P: Copy + Into<f64> + Sync,
        L: Copy + TryInto<usize> + Display + Sync,
    {
        let mut outcomes = Self::blank(&probabilities, classes, labels)?;
        let rows = labels.len();
        let size = rows.div_ceil(PARTS);
        let mut filled = Ok(());
        // from the end, where memory can be given back
        for first in (0..rows).step_by(size).rev() {
            let end = rows.min(first + size);
            let part = outcomes.fill(
                first,
                &probabilities[first * classes..],
                &labels[first..end],
            );
            // of several rows that are wrong the first is told
            filled = part.and(filled);
            probabilities.truncate(first * classes);
            probabilities.shrink_to_fit();
        }
        filled.map(|()| outcomes)
    }

    /// As many outcomes as there are rows, none of them known.
    fn blank<P, L>(probabilities: &[P], classes: usize, labels: &[L]) -> Result<Self> {
        let rows = probability::rows(probabilities, classes)?;
        if labels.len() != rows {
            let labels = labels.len();
            return Err(Error::Labels { labels, rows });
        }
        Ok(Self {
            classes,
            confidence: vec![0.0; rows],
            log_loss: vec![0.0; rows],
            brier: vec![0.0; rows],
            rank: vec![0; rows],
        })
    }

    /// Finds the outcomes of these rows, which begin at row `first`.
    fn fill<P, L>(&mut self, first: usize, probabilities: &[P], labels: &[L]) -> Result<()>
    where
        P: Copy + Into<f64> + Sync,
        L: Copy + TryInto<usize> + Display + Sync,
    {
        let (classes, these) = (self.classes, first..first + labels.len());
        let threads = threads_for(probabilities.len());
        let size = labels.len().div_ceil(threads);
        thread::scope(|scope| {
            let pieces = (probabilities.chunks(size * classes))
                .zip(labels.chunks(size))
                .zip(self.confidence[these.clone()].chunks_mut(size))
                .zip(self.log_loss[these.clone()].chunks_mut(size))
                .zip(self.brier[these.clone()].chunks_mut(size))
                .zip(self.rank[these].chunks_mut(size));
            let mut handles = Vec::with_capacity(threads);
            for (i, (((((probabilities, labels), confidence), log_loss), brier), rank)) in
                pieces.enumerate()
            {
                let mut fill = move || -> Result<()> {
                    let entries = probabilities.chunks_exact(classes);
                    for (j, (entries, &label)) in entries.zip(labels).enumerate() {
                        let outcome = outcome(first + i * size + j, entries, label)?;
                        (confidence[j], log_loss[j], brier[j], rank[j]) = outcome;
                    }
                    Ok(())
                };
                if threads == 1 {
                    return fill();
                }
                handles.push(scope.spawn(fill));
            }
            let mut results = handles.into_iter().map(|handle| {
                handle
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            });
            results.find(Result::is_err).unwrap_or(Ok(()))
        })
    }

    /// Number of images, at least 1.
    pub fn samples(&self) -> usize {
        self.confidence.len()
    }

    /// Number of classes.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Maximum probability of every image.
    pub fn confidence(&self) -> &[f64] {
        &self.confidence
    }

    /// `-log p(label)` of every image; infinite where the label has probability 0.
    pub fn log_loss(&self) -> &[f64] {
        &self.log_loss
    }

    /// `Σ (p - onehot)²` of every image.
    pub fn brier_scores(&self) -> &[f64] {
        &self.brier
    }

    /// Rank of the label of every image, from 0.
    pub fn rank(&self) -> &[u32] {
        &self.rank
    }

    /// Whether the prediction for an image is right.
    ///
    /// # Panics
    /// If there is no image of this number.
    pub fn is_right(&self, image: usize) -> bool {
        self.rank[image] == 0
    }

    /// Share of images whose label is among the `k` most probable classes.
    pub fn top(&self, k: u32) -> f64 {
        let hits = self.rank.iter().filter(|&&rank| rank < k).count();
        hits as f64 / self.samples() as f64
    }

    /// Share of right predictions.
    pub fn accuracy(&self) -> f64 {
        self.top(1)
    }

    /// Share of images whose label is among the five most probable classes; undefined below five
    /// classes.
    pub fn top5(&self) -> Option<f64> {
        (self.classes >= TOP as usize).then(|| self.top(TOP))
    }

    /// Mean log loss; infinite if a label has probability 0.
    pub fn nll(&self) -> f64 {
        sum::mean(self.log_loss.iter().copied())
    }

    /// Mean log loss with probabilities of the labels raised to at least `floor`, as some
    /// implementations do to keep it finite (the authors of the paper with the smallest normal
    /// `f32`).
    ///
    /// ```
    /// let outcomes = evaluation::Outcomes::new(&[0.0, 1.0], 2, &[0])?;
    /// assert_eq!(outcomes.nll(), f64::INFINITY);
    /// assert_eq!(outcomes.nll_with_floor(0.5), std::f64::consts::LN_2);
    /// # Ok::<(), evaluation::Error>(())
    /// ```
    pub fn nll_with_floor(&self, floor: f64) -> f64 {
        let ceiling = -floor.ln();
        sum::mean(self.log_loss.iter().map(|loss| loss.min(ceiling)))
    }

    /// Mean Brier score `Σ (p - onehot)²`, between 0 and 2.
    pub fn brier(&self) -> f64 {
        sum::mean(self.brier.iter().copied())
    }

    /// Confidences of right and of wrong predictions, as the two sides of a [`Ranking`]: right is
    /// positive.
    ///
    /// # Errors
    /// None; the confidences are numbers.
    pub(super) fn misclassification(&self) -> Result<Ranking> {
        let side = |right: bool| {
            let images = self.confidence.iter().zip(&self.rank);
            let chosen = images.filter(move |&(_, &rank)| (rank == 0) == right);
            chosen.map(|(&confidence, _)| confidence)
        };
        Ranking::of([side(true), side(false)])
    }

    /// All in-domain metrics, and the reliability diagram behind the calibration error. O(n log n)
    /// at most.
    ///
    /// # Errors
    /// The number of bins is out of range.
    pub fn in_domain(
        &self,
        calibration: &CalibrationConfig,
    ) -> Result<(Classification, Reliability)> {
        let (ece, reliability) = reliability(self, calibration)?;
        let values = InDomain {
            accuracy: Some(self.accuracy()),
            top5: self.top5(),
            nll: Some(self.nll()),
            ece: Some(ece),
            brier: Some(self.brier()),
            auroc: self.misclassification()?.auroc(),
        };
        let classification = Classification {
            values,
            samples: self.samples(),
            classes: self.classes,
        };
        Ok((classification, reliability))
    }
}

/// Confidence, log loss, Brier score and rank of one row.
#[inline]
fn outcome<P, L>(row: usize, entries: &[P], label: L) -> Result<(f64, f64, f64, u32)>
where
    P: Copy + Into<f64>,
    L: Copy + TryInto<usize> + Display,
{
    let confidence = probability::check(row, entries)?;
    let label = match label.try_into() {
        Ok(class) if class < entries.len() => class,
        _ => {
            let (value, classes) = (label.to_string(), entries.len());
            return Err(Error::Label {
                row,
                value,
                classes,
            });
        }
    };
    let own: f64 = entries[label].into();
    let (mut rank, mut brier) = (0u32, (1.0 - own) * (1.0 - own));
    for &entry in &entries[..label] {
        let entry: f64 = entry.into();
        rank += u32::from(entry >= own);
        brier += entry * entry;
    }
    for &entry in &entries[label + 1..] {
        let entry: f64 = entry.into();
        rank += u32::from(entry > own);
        brier += entry * entry;
    }
    // rounding above 1 must not make a loss negative; 0 without a sign
    let log_loss = (-own.ln()).max(0.0) + 0.0;
    Ok((confidence, log_loss, brier, rank))
}

/// All in-domain metrics of probabilities `[n, classes]` (`f64` or `f32`) against `n` labels from
/// 0, and the reliability diagram behind the calibration error. O(n · classes + n log n) time, 28
/// bytes per image.
///
/// Ties between classes are won by the lowest one. `top5` is `None` below five classes; `auroc`,
/// right against wrong predictions by maximum probability, right positive, is `None` if all are
/// right or all are wrong; `nll` is infinite if a label has probability 0.
///
/// ```
/// use evaluation::CalibrationConfig;
///
/// let probabilities = [0.5, 0.25, 0.25, 0.75, 0.25, 0.0];
/// let calibration = CalibrationConfig { bins: 20, ..CalibrationConfig::default() };
/// let (found, reliability) = evaluation::in_domain(&probabilities, 3, &[0, 1], &calibration)?;
/// assert_eq!(found.values.accuracy, Some(0.5));
/// assert_eq!(found.values.top5, None);
/// assert_eq!(found.values.ece, Some((0.5 + 0.75) / 2.0));
/// assert_eq!(found.values.auroc, Some(0.0)); // surer where it was wrong
/// assert_eq!(reliability.bins[15].count, 1);
/// # Ok::<(), evaluation::Error>(())
/// ```
///
/// # Errors
/// The matrix is malformed, a row is not valid (see [`probability`]), there are not as many labels
/// as rows, a label names no class, or the number of bins is out of range.
pub fn in_domain<P, L>(
    probabilities: &[P],
    classes: usize,
    labels: &[L],
    calibration: &CalibrationConfig,
) -> Result<(Classification, Reliability)>
where
    P: Copy + Into<f64> + Sync,
    L: Copy + TryInto<usize> + Display + Sync,
{
    calibration.check()?;
    Outcomes::new(probabilities, classes, labels)?.in_domain(calibration)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Rows of multiples of 1/64, many of them equal.
    fn coarse_rows(classes: usize) -> impl Strategy<Value = Vec<f64>> {
        let row = prop::collection::vec(0..classes, 64).prop_map(move |balls| {
            let mut counts = vec![0.0; classes];
            balls.iter().for_each(|&class| counts[class] += 1.0 / 64.0);
            counts
        });
        prop::collection::vec(row, 1..40).prop_map(|rows| rows.concat())
    }

    proptest! {
        /// Sorted for each row, the obvious way.
        #[test]
        fn ranks_are_those_of_a_stable_sort(
            (classes, rows, seed) in (2usize..12).prop_flat_map(|c| (Just(c), coarse_rows(c), any::<usize>()))
        ) {
            let n = rows.len() / classes;
            let labels: Vec<usize> = (0..n).map(|i| (seed / 7 + i * (seed % 31)) % classes).collect();
            let outcomes = Outcomes::new(&rows, classes, &labels).unwrap();
            for (i, row) in rows.chunks(classes).enumerate() {
                let mut order: Vec<usize> = (0..classes).collect();
                order.sort_by(|&a, &b| row[b].total_cmp(&row[a]));
                prop_assert_eq!(order[outcomes.rank()[i] as usize], labels[i]);
                prop_assert_eq!(outcomes.is_right(i), order[0] == labels[i]);
                prop_assert_eq!(outcomes.confidence()[i], row[order[0]]);
                let brier: f64 = (0..classes)
                    .map(|c| row[c] - f64::from(u8::from(c == labels[i])))
                    .map(|gap| gap * gap)
                    .sum();
                prop_assert!((outcomes.brier_scores()[i] - brier).abs() < 1e-15);
                prop_assert_eq!(outcomes.log_loss()[i], -row[labels[i]].ln() + 0.0);
            }
            // multiples of 1/64 are exact in f32
            let single: Vec<f32> = rows.iter().map(|&p| p as f32).collect();
            prop_assert_eq!(&Outcomes::new(&single, classes, &labels).unwrap(), &outcomes);
        }
    }

    #[test]
    fn threads_change_nothing() {
        let n = 300_000;
        let probabilities: Vec<f64> = (0..n)
            .flat_map(|i| {
                let p = f64::from(i as u32 % 1009) / 1009.0;
                [p, 1.0 - p]
            })
            .collect();
        let labels: Vec<i32> = (0..n).map(|i| i % 3 % 2).collect();
        let outcomes = Outcomes::new(&probabilities, 2, &labels).unwrap();
        for (i, row) in probabilities.chunks(2).enumerate() {
            assert_eq!(
                outcomes.log_loss[i],
                -row[labels[i] as usize].ln() + 0.0,
                "{i}"
            );
        }
    }

    /// Of several threads and parts, with mistakes in two of the parts.
    #[test]
    fn consuming_is_the_same_with_less_memory() {
        let n = 300_001;
        let row = |i: usize| {
            let p = (i % 1009) as f32 / 2018.0;
            [p, 0.5, 0.5 - p]
        };
        let rows: Vec<f32> = (0..n).flat_map(row).collect();
        let mut labels: Vec<usize> = (0..n).map(|i| i % 3).collect();
        let expected = Outcomes::new(&rows, 3, &labels).unwrap();
        let found = Outcomes::consuming(rows.clone(), 3, &labels).unwrap();
        assert_eq!(found, expected);
        for wrong in [n - 5, 100_000, 3] {
            labels[wrong] = 7;
            let by_reference = Outcomes::new(&rows, 3, &labels).unwrap_err();
            let found = Outcomes::consuming(rows.clone(), 3, &labels).unwrap_err();
            assert_eq!(found.to_string(), by_reference.to_string());
            assert!(found.to_string().starts_with(&format!("row {wrong}:")));
        }
        let found = Outcomes::consuming(vec![0.5, 0.5], 2, &[0, 1]).unwrap_err();
        assert!(matches!(found, Error::Labels { .. }), "{found}");
    }

    #[test]
    fn labels_are_checked() {
        let probabilities = [0.5, 0.5, 0.25, 0.75];
        let refuse = |labels: &[i64]| {
            Outcomes::new(&probabilities, 2, labels)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(
            refuse(&[0]),
            "labels has 1 entries, expected 2, one for each row of probabilities"
        );
        assert_eq!(refuse(&[0, 2]), "row 1: label 2 is not in 0..=1");
        assert_eq!(refuse(&[-1, 0]), "row 0: label -1 is not in 0..=1");
    }
}
