//! How well a score tells two sides apart: in-domain from out-of-domain images, or right from wrong
//! predictions. Paper: Section 6.
//!
//! The higher the score, the more in-domain. A threshold accepts every image whose score reaches
//! it, so images of equal score are accepted or refused together. With `TPR` the share of in-domain
//! and `FPR` the share of out-of-domain images accepted, going through all thresholds from the top
//! draws the ROC curve from (0, 0) to (1, 1), one vertex per distinct score.
//!
//! - AUROC is the area under it: the chance that an in-domain image scores higher than another, a
//!   tie counting half.
//! - AUPR is the average precision `Σ (recall_k - recall_{k-1}) precision_k`, for AUPR-In with
//!   in-domain positive, for AUPR-Out with out-of-domain positive and the score negated.
//! - FPR@95 is the FPR of the first vertex whose TPR reaches 0.95; no interpolation.
//! - The averaged FPR is the mean of the FPR over those vertices of the reduced ROC curve whose TPR
//!   is at most 0.9505, (0, 0) included. It is what the paper's column FPR@95 holds: the comparison
//!   `(tpr <= 0.9505) >= 0.9495` in the code that made it was meant to be a band. The reduced curve
//!   lacks the vertices in the middle between their two neighbors.
//! - The detection error is the least of `(FPR + 1 - TPR) / 2` over all thresholds, (0, 0)
//!   included.
//!
//! If a side is empty, all of them are undefined. Scores may be infinite, but not NaN.
//!
//! Scores are sorted once, O(n) per digit; all metrics come from
//! one pass over the distinct scores.

use super::sort;
use crate::error::{Error, Result};
use crate::metric::OutOfDomain;
use crate::results::Detection;

/// True positive rate of the standard FPR.
const TARGET_TPR: f64 = 0.95;
/// Largest true positive rate that the averaged FPR looks at.
const AVERAGED_TPR: f64 = 0.95 + 0.0005;
/// Vertices whose terms are added one after the other, before they are added to the total.
const BLOCK: usize = 1024;

/// Scores of two sides in descending order: for every distinct score, how many in-domain and how
/// many out-of-domain images have it. 8 bytes per distinct score.
///
/// ```
/// use evaluation::Ranking;
///
/// let ranking = Ranking::new(&[0.9, 0.8, 0.8], &[0.8, 0.1])?;
/// assert_eq!(ranking.groups(), [[1, 0], [2, 1], [0, 1]]);
/// assert_eq!(ranking.auroc(), Some((2.0 * 1.0 + 0.5 * 2.0 + 2.0) / 6.0));
/// assert_eq!(ranking.metrics().fpr_at_95_tpr, Some(0.5));
/// # Ok::<(), evaluation::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranking {
    pub(super) groups: Vec<[u32; 2]>,
    pub(super) samples: [usize; 2],
}

impl Ranking {
    /// Sorts the scores of both sides. O(n) per digit of the scores, 16 bytes per score while it
    /// runs.
    ///
    /// # Errors
    /// A score is NaN, or there are more than 32 bits can count.
    pub fn new<S: Copy + Into<f64>>(in_scores: &[S], out_scores: &[S]) -> Result<Self> {
        let samples = in_scores.len().saturating_add(out_scores.len());
        if samples > u32::MAX as usize {
            return Err(Error::TooMany { samples });
        }
        let keys = |side: &'static str, scores: &[S]| {
            let mut keys = Vec::with_capacity(scores.len());
            for (row, &score) in scores.iter().enumerate() {
                // complements, so that ascending keys are descending scores
                keys.push(!sort::key(score.into()).ok_or(Error::Score { side, row })?);
            }
            Ok(keys)
        };
        let mut ins = keys("in-domain", in_scores)?;
        let mut outs = keys("out-of-domain", out_scores)?;
        let samples = [ins.len(), outs.len()];
        sort::sort(&mut ins);
        sort::sort(&mut outs);
        let groups = merge(ins, outs);
        Ok(Self { groups, samples })
    }

    /// For every distinct score, from the highest: in-domain and out-of-domain images that have it.
    pub fn groups(&self) -> &[[u32; 2]] {
        &self.groups
    }

    /// Number of in-domain images.
    pub fn in_samples(&self) -> usize {
        self.samples[0]
    }

    /// Number of out-of-domain images.
    pub fn out_samples(&self) -> usize {
        self.samples[1]
    }

    /// Area under the ROC curve; undefined if a side is empty. O(distinct scores).
    pub fn auroc(&self) -> Option<f64> {
        let [ins, outs] = self.samples;
        (ins > 0 && outs > 0).then(|| auroc(&self.groups))
    }

    /// All out-of-domain metrics; undefined if a side is empty. O(distinct scores).
    pub fn metrics(&self) -> OutOfDomain {
        if self.samples.contains(&0) {
            return OutOfDomain::default();
        }
        numbers(&self.groups).map(Some)
    }

    /// All out-of-domain metrics of the score of this name. O(distinct scores).
    pub fn detection(&self, score: &str) -> Detection {
        Detection {
            values: self.metrics(),
            score: score.to_owned(),
            in_samples: self.in_samples(),
            out_samples: self.out_samples(),
        }
    }

    /// Vertices (FPR, TPR) of the ROC curve from (0, 0) to (1, 1), one per distinct score; empty if
    /// a side is. The reduced curve lacks vertices in the middle between their two neighbors, other
    /// than (0, 0); the line through them is the same.
    ///
    /// ```
    /// let ranking = evaluation::Ranking::new(&[0.9, 0.8, 0.7], &[0.1])?;
    /// assert_eq!(ranking.roc(false).len(), 5);
    /// assert_eq!(ranking.roc(true), [(0.0, 0.0), (0.0, 1.0 / 3.0), (0.0, 1.0), (1.0, 1.0)]);
    /// # Ok::<(), evaluation::Error>(())
    /// ```
    pub fn roc(&self, reduced: bool) -> Vec<(f64, f64)> {
        let [ins, outs] = self.samples.map(|count| count as f64);
        if ins == 0.0 || outs == 0.0 {
            return Vec::new();
        }
        let (mut accepted_in, mut accepted_out) = (0.0, 0.0);
        let mut vertices = vec![(0.0, 0.0)];
        for (k, &[i, o]) in self.groups.iter().enumerate() {
            accepted_in += f64::from(i);
            accepted_out += f64::from(o);
            if !reduced || is_vertex(&self.groups, k) {
                vertices.push((accepted_out / outs, accepted_in / ins));
            }
        }
        vertices
    }
}

/// Whether vertex `k` belongs to the reduced curve: the first, the last, and all where the next
/// step differs.
#[inline]
fn is_vertex(groups: &[[u32; 2]], k: usize) -> bool {
    k == 0 || groups.get(k + 1) != Some(&groups[k])
}

/// Numbers of images per distinct key, in the order of the sorted keys.
fn merge(mut ins: Vec<u64>, mut outs: Vec<u64>) -> Vec<[u32; 2]> {
    /// Larger than any key: the images of floats leave room for it.
    const END: u64 = u64::MAX;
    let total = ins.len() + outs.len();
    if total == 0 {
        return Vec::new();
    }
    ins.push(END);
    outs.push(END);
    let mut groups = vec![[0u32; 2]; total];
    let (mut i, mut o, mut group) = (0, 0, 0);
    let mut last = ins[0].min(outs[0]);
    // which side is next is a coin toss: no branch depends on it
    while i + o < total {
        let (a, b) = (ins[i], outs[o]);
        let next = a.min(b);
        group += usize::from(next != last);
        last = next;
        let (takes_in, takes_out) = (a == next, b == next);
        let counts = &mut groups[group];
        counts[0] += u32::from(takes_in);
        counts[1] += u32::from(takes_out);
        i += usize::from(takes_in);
        o += usize::from(takes_out);
    }
    groups.truncate(group + 1);
    groups
}

/// Numbers of images on both sides.
fn totals(groups: &[[u32; 2]]) -> (f64, f64) {
    let (mut ins, mut outs) = (0u64, 0u64);
    for &[i, o] in groups {
        ins += u64::from(i);
        outs += u64::from(o);
    }
    (ins as f64, outs as f64)
}

/// Area under the ROC curve of groups in which both sides occur. Twice the area is a sum of whole
/// numbers, exact below 2⁵³.
pub(super) fn auroc(groups: &[[u32; 2]]) -> f64 {
    let (mut accepted, mut outs, mut twice) = (0.0, 0.0, 0.0);
    for &[i, o] in groups {
        let (i, o) = (f64::from(i), f64::from(o));
        twice += o * (accepted + accepted + i);
        accepted += i;
        outs += o;
    }
    twice / (2.0 * accepted * outs)
}

/// All metrics of groups in which both sides occur, in one pass.
pub(super) fn numbers(groups: &[[u32; 2]]) -> OutOfDomain<f64> {
    let (ins, outs) = totals(groups);
    let enough = smallest_reaching(TARGET_TPR, ins);
    let last_averaged = largest_within(AVERAGED_TPR, ins);
    // accepted so far; whole numbers, exact
    let (mut accepted_in, mut accepted_out) = (0.0, 0.0);
    let (mut twice_area, mut precision_in, mut precision_out) = (0.0, 0.0, 0.0);
    // the vertex (0, 0)
    let (mut averaged_sum, mut averaged_count) = (0.0, 1.0);
    let mut least_gap = 0.0;
    let mut at_target = outs;
    for (block, first) in groups.chunks(BLOCK).zip((0..).step_by(BLOCK)) {
        let (mut block_in, mut block_out) = (0.0, 0.0);
        for (k, &[i, o]) in (first..).zip(block) {
            let (i, o) = (f64::from(i), f64::from(o));
            // from the bottom, this group and all below it
            let (below_in, below_out) = (ins - accepted_in, outs - accepted_out);
            block_out += o * below_out / (below_in + below_out);
            twice_area += o * (accepted_in + accepted_in + i);
            let reached_before = accepted_in >= enough;
            accepted_in += i;
            accepted_out += o;
            block_in += i * accepted_in / (accepted_in + accepted_out);
            let reaches = accepted_in >= enough && !reached_before;
            at_target = if reaches { accepted_out } else { at_target };
            let averaged = accepted_in <= last_averaged && is_vertex(groups, k);
            averaged_sum += if averaged { accepted_out } else { 0.0 };
            averaged_count += if averaged { 1.0 } else { 0.0 };
            let gap = accepted_out * ins - accepted_in * outs;
            least_gap = if gap < least_gap { gap } else { least_gap };
        }
        precision_in += block_in;
        precision_out += block_out;
    }
    OutOfDomain {
        auroc: twice_area / (2.0 * ins * outs),
        aupr_in: precision_in / ins,
        aupr_out: precision_out / outs,
        fpr_at_95_tpr: at_target / outs,
        mean_fpr_below_95_tpr: averaged_sum / averaged_count / outs,
        detection_error: (least_gap / (ins * outs) + 1.0) / 2.0,
    }
}

/// Smallest whole number whose share of `total`, as rounded by the division, reaches `rate`.
fn smallest_reaching(rate: f64, total: f64) -> f64 {
    let mut count = (rate * total).ceil();
    while count > 0.0 && (count - 1.0) / total >= rate {
        count -= 1.0;
    }
    while count / total < rate {
        count += 1.0;
    }
    count
}

/// Largest whole number whose share of `total`, as rounded by the division, is within `rate`.
fn largest_within(rate: f64, total: f64) -> f64 {
    let mut count = (rate * total).floor();
    while (count + 1.0) / total <= rate {
        count += 1.0;
    }
    while count > 0.0 && count / total > rate {
        count -= 1.0;
    }
    count
}

/// All out-of-domain metrics of a score, given for in-domain and for out-of-domain images (`f64` or
/// `f32`). The higher, the more in-domain; `score` is its name. O(n) per digit of the scores, 24
/// bytes per score while it runs.
///
/// Equal scores are accepted or refused together. If a side is empty, all metrics are `None`.
///
/// ```
/// let found = evaluation::out_of_domain("distance", &[0.9, 0.8], &[0.8, 0.1])?;
/// assert_eq!(found.values.auroc, Some(0.875));
/// assert_eq!(found.values.fpr_at_95_tpr, Some(0.5));
/// assert_eq!(found.values.detection_error, Some(0.25));
/// let empty = evaluation::out_of_domain("distance", &[0.9, 0.8], &[])?;
/// assert_eq!(empty.values.auroc, None);
/// # Ok::<(), evaluation::Error>(())
/// ```
///
/// # Errors
/// A score is NaN, or there are more than 32 bits can count.
pub fn out_of_domain<S: Copy + Into<f64>>(
    score: &str,
    in_scores: &[S],
    out_scores: &[S],
) -> Result<Detection> {
    Ok(Ranking::new(in_scores, out_scores)?.detection(score))
}

/// The metrics straight from their definitions: every threshold, every image. O(n²).
#[cfg(test)]
pub(super) mod twin {
    use crate::metric::OutOfDomain;

    /// Vertices (FPR, TPR) of the full curve.
    pub fn vertices(ins: &[f64], outs: &[f64]) -> Vec<(f64, f64)> {
        let mut thresholds: Vec<f64> = ins.iter().chain(outs).copied().collect();
        thresholds.sort_by(|a, b| b.partial_cmp(a).unwrap());
        thresholds.dedup();
        let share = |side: &[f64], threshold: f64| {
            side.iter().filter(|&&score| score >= threshold).count() as f64 / side.len() as f64
        };
        let mut all = vec![(0.0, 0.0)];
        all.extend(thresholds.iter().map(|&t| (share(outs, t), share(ins, t))));
        all
    }

    /// Vertices of the reduced curve, by second differences of whole numbers.
    pub fn reduced(ins: &[f64], outs: &[f64]) -> Vec<(f64, f64)> {
        let full = vertices(ins, outs);
        let whole = |(x, y): (f64, f64)| {
            let round = |share: f64, side: &[f64]| (share * side.len() as f64).round() as i64;
            (round(x, outs), round(y, ins))
        };
        let keep = |k: usize| {
            if k <= 1 || k + 1 == full.len() {
                return true;
            }
            let [a, b, c] = [k - 1, k, k + 1].map(|k| whole(full[k]));
            c.0 - 2 * b.0 + a.0 != 0 || c.1 - 2 * b.1 + a.1 != 0
        };
        (0..full.len())
            .filter(|&k| keep(k))
            .map(|k| full[k])
            .collect()
    }

    fn average_precision(positive: &[f64], negative: &[f64]) -> f64 {
        let mut thresholds: Vec<f64> = positive.to_vec();
        thresholds.sort_by(|a, b| b.partial_cmp(a).unwrap());
        let count = |side: &[f64], t: f64| side.iter().filter(|&&s| s >= t).count() as f64;
        // every positive adds the precision at its own score
        let terms = thresholds.iter().map(|&t| {
            let hits = count(positive, t);
            hits / (hits + count(negative, t))
        });
        terms.sum::<f64>() / positive.len() as f64
    }

    pub fn numbers(ins: &[f64], outs: &[f64]) -> OutOfDomain<f64> {
        let full = vertices(ins, outs);
        let mut wins = 0.0;
        for a in ins {
            for b in outs {
                wins += if a > b {
                    1.0
                } else if a == b {
                    0.5
                } else {
                    0.0
                };
            }
        }
        let negated = |side: &[f64]| side.iter().map(|s| -s).collect::<Vec<_>>();
        let low: Vec<f64> = (reduced(ins, outs).iter())
            .filter(|(_, tpr)| *tpr <= 0.95 + 0.0005)
            .map(|(fpr, _)| *fpr)
            .collect();
        let error = |&(fpr, tpr): &(f64, f64)| (fpr - tpr + 1.0) / 2.0;
        OutOfDomain {
            auroc: wins / (ins.len() * outs.len()) as f64,
            aupr_in: average_precision(ins, outs),
            aupr_out: average_precision(&negated(outs), &negated(ins)),
            fpr_at_95_tpr: full.iter().find(|(_, tpr)| *tpr >= 0.95).unwrap().0,
            mean_fpr_below_95_tpr: low.iter().sum::<f64>() / low.len() as f64,
            detection_error: full.iter().map(error).fold(1.0, f64::min),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A few hundred additions of numbers up to 1.
    const TOLERANCE: f64 = 1e-13;

    #[track_caller]
    fn assert_close(found: &OutOfDomain<f64>, expected: &OutOfDomain<f64>) {
        for (a, b) in found.each().iter().zip(expected.each()) {
            assert!((*a - b).abs() < TOLERANCE, "{found:?}\n{expected:?}");
        }
    }

    /// Scores of few or many distinct values, zeros of both signs and infinities among them.
    fn side() -> impl Strategy<Value = Vec<f64>> {
        let few = (-3i8..4).prop_map(|k| f64::from(k) * 0.25);
        let odd = prop::sample::select(vec![-0.0, 0.0, f64::INFINITY, f64::NEG_INFINITY, 1e-300]);
        let score = prop_oneof![4 => few, 2 => -2.0..2.0f64, 1 => odd];
        prop::collection::vec(score, 1..120)
    }

    proptest! {
        #[test]
        fn equal_to_the_definitions(ins in side(), outs in side()) {
            let ranking = Ranking::new(&ins, &outs).unwrap();
            assert_close(&numbers(ranking.groups()), &twin::numbers(&ins, &outs));
            prop_assert_eq!(ranking.roc(false), twin::vertices(&ins, &outs));
            prop_assert_eq!(ranking.roc(true), twin::reduced(&ins, &outs));
            prop_assert_eq!(ranking.auroc().unwrap(), numbers(ranking.groups()).auroc);
        }

        /// Every score is turned around: the sides change places.
        #[test]
        fn negated_and_swapped_sides_swap_the_precisions(ins in side(), outs in side()) {
            let negated = |side: &[f64]| side.iter().map(|s| -s).collect::<Vec<_>>();
            let there = numbers(Ranking::new(&ins, &outs).unwrap().groups());
            let back = numbers(Ranking::new(&negated(&outs), &negated(&ins)).unwrap().groups());
            prop_assert!((there.auroc - back.auroc).abs() < TOLERANCE);
            prop_assert!((there.aupr_in - back.aupr_out).abs() < TOLERANCE);
            prop_assert!((there.aupr_out - back.aupr_in).abs() < TOLERANCE);
            prop_assert!((there.detection_error - back.detection_error).abs() < TOLERANCE);
        }

        /// A map that keeps the order changes nothing.
        #[test]
        fn only_the_order_matters(ins in side(), outs in side()) {
            let stretched = |side: &[f64]| side.iter().map(|s| s.cbrt() * 3.0).collect::<Vec<_>>();
            let plain = Ranking::new(&ins, &outs).unwrap();
            prop_assert_eq!(Ranking::new(&stretched(&ins), &stretched(&outs)).unwrap(), plain);
        }
    }

    #[test]
    fn many_scores_are_equal_to_the_definitions() {
        // long enough for the radix sort and several blocks
        let score = |i: usize, k: usize| ((i * k) % 7919) as f64 / 7919.0;
        let ins: Vec<f64> = (0..3001).map(|i| score(i, 6007).sqrt()).collect();
        let outs: Vec<f64> = (0..2003).map(|i| score(i, 5003)).collect();
        let ranking = Ranking::new(&ins, &outs).unwrap();
        assert_close(&numbers(ranking.groups()), &twin::numbers(&ins, &outs));
    }

    #[test]
    fn single_precision_is_the_same() {
        let ins: Vec<f32> = (0..3000).map(|i| (i % 257) as f32 / 257.0).collect();
        let outs: Vec<f32> = (0..3000).map(|i| (i % 101) as f32 / 128.0).collect();
        let wide = |side: &[f32]| side.iter().map(|&s| f64::from(s)).collect::<Vec<_>>();
        assert_eq!(
            Ranking::new(&ins, &outs).unwrap(),
            Ranking::new(&wide(&ins), &wide(&outs)).unwrap()
        );
    }

    #[test]
    fn an_empty_side_leaves_everything_undefined() {
        for (ins, outs) in [(&[1.0][..], &[][..]), (&[], &[1.0]), (&[], &[])] {
            let found = out_of_domain("x", ins, outs).unwrap();
            assert_eq!(found.values, OutOfDomain::default());
            assert_eq!(found.values.each(), [&None; 6]);
            assert_eq!(found.in_samples, ins.len());
            assert_eq!(found.out_samples, outs.len());
            assert!(Ranking::new(ins, outs).unwrap().roc(true).is_empty());
        }
    }

    #[test]
    fn scores_that_are_not_numbers_are_named() {
        let error = out_of_domain("x", &[1.0, 0.0], &[0.5, 0.5, f64::NAN]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "row 2 of the out-of-domain scores is not a number"
        );
        let error = out_of_domain("x", &[f32::NAN], &[0.5]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "row 0 of the in-domain scores is not a number"
        );
    }

    #[test]
    fn rates_are_compared_as_divided() {
        for total in 1..3000 {
            let n = f64::from(total);
            let (least, most) = (smallest_reaching(0.95, n), largest_within(AVERAGED_TPR, n));
            assert!(least / n >= 0.95 && (least - 1.0) / n < 0.95, "{total}");
            assert!(
                most / n <= AVERAGED_TPR && (most + 1.0) / n > AVERAGED_TPR,
                "{total}"
            );
        }
    }
}
