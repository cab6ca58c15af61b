//! Predictions against labels: accuracy, top-5, log loss, Brier score.
//!
//! Everything rests on the rank of the label, the number of classes that come before it when the
//! row is sorted stably from the highest probability to the lowest:
//! `#{p > p_label} + #{p = p_label, class < label}`. So a tie is won by the lowest class. A
//! prediction is right if the rank is 0.

use std::fmt::Display;

use super::calibration::{self, CalibrationConfig, reliability};
use super::sum::{self, BLOCK};
use super::{in_threads, mark, probability, threads_for};
use crate::error::{Error, Result};
use crate::metric::InDomain;
use crate::results::{Classification, Reliability};

/// Top-5 is undefined below this many classes.
const TOP: u32 = 5;
/// Parts in which probabilities are consumed.
const PARTS: usize = 32;
/// Rows that are looked at side by side.
const LANES: usize = 2;

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
        let rows = check_shape(probabilities, classes, labels)?;
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
        let pieces = (probabilities.chunks(size * classes))
            .zip(labels.chunks(size))
            .zip(self.confidence[these.clone()].chunks_mut(size))
            .zip(self.log_loss[these.clone()].chunks_mut(size))
            .zip(self.brier[these.clone()].chunks_mut(size))
            .zip(self.rank[these].chunks_mut(size))
            .enumerate()
            .map(
                |(i, (((((probabilities, labels), confidence), log_loss), brier), rank))| {
                    let first = first + i * size;
                    move || {
                        visit(first, probabilities, classes, labels, |row, found| {
                            (confidence[row], log_loss[row]) = (found.confidence, found.log_loss);
                            (brier[row], rank[row]) = (found.brier, found.rank);
                        })
                    }
                },
            );
        in_threads(threads, pieces)
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

    /// Takes the log loss of images whose label is less probable than `smallest` from `log_losses`,
    /// which is given their places: what rounds probabilities to nothing, as `f32` does below
    /// [`f32::MIN_POSITIVE`], keeps their logarithms.
    ///
    /// ```
    /// use evaluation::{Outcomes, log_loss};
    ///
    /// let (logits, labels) = ([0.0, 800.0, 1.0, 1.0], [0, 0]);
    /// let mut outcomes = Outcomes::new(&[0.0, 1.0, 0.5, 0.5], 2, &labels)?;
    /// outcomes.refine(f64::MIN_POSITIVE, |images| {
    ///     let loss = |&image: &usize| log_loss(&logits[2 * image..][..2], labels[image]);
    ///     Ok::<_, evaluation::Error>(images.iter().map(loss).collect())
    /// })?;
    /// assert_eq!(outcomes.log_loss(), [800.0, std::f64::consts::LN_2]);
    /// # Ok::<(), evaluation::Error>(())
    /// ```
    ///
    /// # Errors
    /// That of `log_losses`.
    ///
    /// # Panics
    /// If there is not one number for each place.
    pub fn refine<E>(
        &mut self,
        smallest: f64,
        log_losses: impl FnOnce(&[usize]) -> std::result::Result<Vec<f64>, E>,
    ) -> std::result::Result<(), E> {
        let limit = -smallest.ln();
        let images = 0..self.samples();
        let images: Vec<usize> = images
            .filter(|&image| self.log_loss[image] > limit)
            .collect();
        if images.is_empty() {
            return Ok(());
        }
        let losses = log_losses(&images)?;
        assert_eq!(losses.len(), images.len(), "one log loss for each image");
        for (image, loss) in images.into_iter().zip(losses) {
            // what has no number stays as improbable as it was
            if loss >= 0.0 {
                self.log_loss[image] = loss;
            }
        }
        Ok(())
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

    /// What of every image tells right from wrong.
    fn marks(&self) -> Vec<u64> {
        let images = self.confidence.iter().zip(&self.rank);
        images
            .map(|(&confidence, &rank)| mark::of(confidence, rank == 0))
            .collect()
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
            auroc: mark::auroc(self.marks()),
        };
        let classification = Classification {
            values,
            samples: self.samples(),
            classes: self.classes,
        };
        Ok((classification, reliability))
    }
}

/// Number of rows of a matrix `[n, classes]` with as many labels.
fn check_shape<P, L>(probabilities: &[P], classes: usize, labels: &[L]) -> Result<usize> {
    let rows = probability::rows(probabilities, classes)?;
    let labels = labels.len();
    if labels != rows {
        return Err(Error::Labels { labels, rows });
    }
    Ok(rows)
}

/// What one prediction was worth.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Outcome {
    confidence: f64,
    log_loss: f64,
    brier: f64,
    rank: u32,
}

/// Calls `take` with what each row was worth, one after the other; `first` is the number of the
/// first row, for messages.
fn visit<P, L>(
    first: usize,
    probabilities: &[P],
    classes: usize,
    labels: &[L],
    mut take: impl FnMut(usize, Outcome),
) -> Result<()>
where
    P: Copy + Into<f64>,
    L: Copy + TryInto<usize> + Display,
{
    let groups = probabilities.chunks(LANES * classes);
    for (group, (rows, labels)) in groups.zip(labels.chunks(LANES)).enumerate() {
        let found = side_by_side(rows, classes, labels);
        for (lane, (entries, &label)) in rows.chunks_exact(classes).zip(labels).enumerate() {
            let row = group * LANES + lane;
            let outcome = match found[lane] {
                Some(outcome) => outcome,
                None => outcome(first + row, entries, label)?,
            };
            take(row, outcome);
        }
    }
    Ok(())
}

/// What one row is worth; `row` is its number, for the message.
fn outcome<P, L>(row: usize, entries: &[P], label: L) -> Result<Outcome>
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
    Ok(Outcome {
        confidence,
        log_loss: log_loss(own),
        brier,
        rank,
    })
}

/// `-log p(label)`: rounding above 1 must not make it negative; 0 without a sign.
fn log_loss(own: f64) -> f64 {
    (-own.ln()).max(0.0) + 0.0
}

/// What some rows are worth, side by side: the numbers of [`outcome`], or nothing where a row has
/// to be looked at more closely. If no other class has the label's probability, the label is the
/// one that has it, and no branch depends on where it stands.
#[inline]
fn side_by_side<P, L>(rows: &[P], classes: usize, labels: &[L]) -> [Option<Outcome>; LANES]
where
    P: Copy + Into<f64>,
    L: Copy + TryInto<usize>,
{
    let mut own = [0.0; LANES];
    if labels.len() < LANES {
        return [None; LANES];
    }
    for ((own, entries), &label) in own.iter_mut().zip(rows.chunks_exact(classes)).zip(labels) {
        match label.try_into() {
            Ok(label) if label < classes => *own = entries[label].into(),
            _ => return [None; LANES],
        }
    }
    let (mut sum, mut smallest, mut largest) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
    let (mut above, mut equal) = ([0u64; LANES], [0u64; LANES]);
    let mut brier = own.map(|own| (1.0 - own) * (1.0 - own));
    let (a, b) = rows.split_at(classes);
    for (&a, &b) in a.iter().zip(b) {
        let entries: [f64; LANES] = [a.into(), b.into()];
        for lane in 0..LANES {
            let (entry, own) = (entries[lane], own[lane]);
            sum[lane] += entry;
            smallest[lane] = if entry < smallest[lane] {
                entry
            } else {
                smallest[lane]
            };
            largest[lane] = if entry > largest[lane] {
                entry
            } else {
                largest[lane]
            };
            above[lane] += u64::from(entry > own);
            let is_own = u64::from(entry == own);
            equal[lane] += is_own;
            // 0 for the label
            brier[lane] += f64::from_bits((entry * entry).to_bits() & is_own.wrapping_sub(1));
        }
    }
    std::array::from_fn(|lane| {
        let confidence = probability::confidence(sum[lane], smallest[lane], largest[lane])?;
        (equal[lane] == 1).then(|| Outcome {
            confidence,
            log_loss: log_loss(own[lane]),
            brier: brier[lane],
            rank: above[lane] as u32,
        })
    })
}

/// All in-domain metrics of probabilities `[n, classes]` (`f64` or `f32`) against `n` labels from
/// 0, and the reliability diagram behind the calibration error: the same numbers as those of
/// [`Outcomes`], which keeps more. O(n · classes + n log n) time, 16 bytes per image.
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
    let rows = check_shape(probabilities, classes, labels)?;
    let mut marks = vec![0; rows];
    let mut blocks = vec![Block::default(); rows.div_ceil(BLOCK)];
    let threads = threads_for(probabilities.len());
    // whole blocks, so that the number of threads changes no sum
    let size = blocks.len().div_ceil(threads);
    let pieces = (probabilities.chunks(size * BLOCK * classes))
        .zip(labels.chunks(size * BLOCK))
        .zip(marks.chunks_mut(size * BLOCK))
        .zip(blocks.chunks_mut(size))
        .enumerate()
        .map(|(i, (((probabilities, labels), marks), blocks))| {
            let first = i * size * BLOCK;
            move || {
                visit(first, probabilities, classes, labels, |row, found| {
                    marks[row] = mark::of(found.confidence, found.rank == 0);
                    blocks[row / BLOCK].add(&found);
                })
            }
        });
    in_threads(threads, pieces)?;
    let samples = rows as f64;
    let mean = |value: fn(&Block) -> f64| {
        // 0 without a sign
        let total: f64 = blocks.iter().map(value).sum();
        (total + 0.0) / samples
    };
    let top5 = mean(|block| f64::from(block.top5));
    let (ece, reliability) =
        calibration::reliability_of(rows, |row| mark::read(marks[row]), calibration)?;
    let values = InDomain {
        accuracy: Some(mean(|block| f64::from(block.right))),
        top5: (classes >= TOP as usize).then_some(top5),
        nll: Some(mean(|block| block.log_loss)),
        ece: Some(ece),
        brier: Some(mean(|block| block.brier)),
        auroc: mark::auroc(marks),
    };
    let classification = Classification {
        values,
        samples: rows,
        classes,
    };
    Ok((classification, reliability))
}

/// Sums of a block of rows.
#[derive(Debug, Clone, Copy, Default)]
struct Block {
    log_loss: f64,
    brier: f64,
    right: u32,
    top5: u32,
}

impl Block {
    fn add(&mut self, outcome: &Outcome) {
        self.log_loss += outcome.log_loss;
        self.brier += outcome.brier;
        self.right += u32::from(outcome.rank == 0);
        self.top5 += u32::from(outcome.rank < TOP);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Scheme;

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
            for (number, row) in rows.chunks(classes).enumerate() {
                let alone = outcome(number, row, labels[number]).unwrap();
                prop_assert_eq!(alone.rank, outcomes.rank[number]);
                prop_assert_eq!(alone.brier.to_bits(), outcomes.brier[number].to_bits());
            }
            // without what became of each image, to the bit
            for scheme in [Scheme::EqualWidth, Scheme::EqualMass] {
                let calibration = CalibrationConfig { bins: 1 + seed % 30, scheme };
                let kept = outcomes.in_domain(&calibration).unwrap();
                prop_assert_eq!(in_domain(&rows, classes, &labels, &calibration).unwrap(), kept);
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

    /// Rows of odd numbers, of several threads, blocks and bins; the first mistake is told.
    #[test]
    fn what_is_not_kept_changes_nothing() {
        let n = 300_003;
        let row = |i: usize| {
            let p = ((i * 7919) % 104_729) as f64 / 104_729.0;
            [p * p, p - p * p, 0.0, 1.0 - p]
        };
        let rows: Vec<f64> = (0..n).flat_map(row).collect();
        let mut labels: Vec<usize> = (0..n).map(|i| i * i % 4).collect();
        let outcomes = Outcomes::new(&rows, 4, &labels).unwrap();
        for bins in [1, 20, 2000] {
            let calibration = CalibrationConfig {
                bins,
                ..CalibrationConfig::default()
            };
            let kept = outcomes.in_domain(&calibration).unwrap();
            assert_eq!(kept.0.values.nll, Some(f64::INFINITY));
            assert_eq!(in_domain(&rows, 4, &labels, &calibration).unwrap(), kept);
        }
        for wrong in [n - 5, 100_000, 3] {
            labels[wrong] = 7;
            let error = in_domain(&rows, 4, &labels, &CalibrationConfig::default()).unwrap_err();
            let text = format!("row {wrong}: label 7 is not in 0..=3");
            assert_eq!(error.to_string(), text);
        }
    }

    /// Rows that are not as they should be, first and second of those that are looked at together.
    #[test]
    fn rows_side_by_side_are_what_they_are_alone() {
        let rows = [
            [0.2, 0.3, 0.5],
            [0.5, 0.5, 0.0],
            [-0.0, 0.0, 1.0],
            [1.0 + 5e-7, 0.0, 0.0],
            [f64::NAN, 0.5, 0.5],
            [-0.5, 0.5, 1.0],
            [0.5, 0.5, 0.5],
            [f64::INFINITY, 0.0, 0.0],
            [1e-300, 1.0, 1e-300],
        ];
        let text = |outcome: Result<Outcome>| format!("{outcome:?}");
        for (a, b) in rows.iter().flat_map(|a| rows.iter().map(move |b| (a, b))) {
            for (first, second) in (0..4i8).flat_map(|a| (-1..3i8).map(move |b| (a, b))) {
                let alone = [outcome(5, a, first), outcome(6, b, second)];
                let mut found = Vec::new();
                let both = [*a, *b].concat();
                let end = visit(5, &both, 3, &[first, second], |row, outcome| {
                    assert_eq!(row, found.len());
                    found.push(text(Ok(outcome)));
                });
                found.extend(end.err().map(|error| text(Err(error))));
                // nothing is said of rows after a mistake
                let told = alone
                    .iter()
                    .position(Result::is_err)
                    .map_or(2, |row| row + 1);
                let expected: Vec<_> = alone.into_iter().take(told).map(text).collect();
                assert_eq!(found, expected, "{a:?} {b:?} {first} {second}");
            }
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
