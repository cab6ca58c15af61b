//! Curves for drawing: ROC, precision-recall and score histograms of two sides, thinned to a few
//! hundred points.
//!
//! A curve is thinned twice. First the x axis is cut into a thousand cells of which the first,
//! lowest, highest and last point are kept: at the size of a picture nothing changes. Then points
//! are taken back one at a time, each time the one that is farthest from the line drawn so far.

use super::Ranking;
use crate::error::Result;
use crate::results::{DetectionCurves, ScoreHistogram};

/// Points that a thinned curve has at most.
pub const POINTS: usize = 300;
/// Bins of a histogram.
pub const HISTOGRAM_BINS: usize = 50;
/// Cells of the first thinning.
const CELLS: usize = 1000;

/// Curves of a score for drawing, from in-domain and out-of-domain scores. The histogram spans
/// `range`, by default from the lowest to the highest finite score; scores outside are counted in
/// the outer bins. O(n) per digit of the scores.
///
/// ROC from (0, 0) to (1, 1); precision-recall from recall 0, where the precision is that of the
/// highest score, to recall 1. If a side is empty, the curves are, too.
///
/// ```
/// let curves = evaluation::detection_curves(&[0.9, 0.8], &[0.8, 0.1], Some((0.0, 1.0)))?;
/// assert_eq!(curves.roc, [(0.0, 0.0), (0.0, 0.5), (0.5, 1.0), (1.0, 1.0)]);
/// assert_eq!(curves.precision_recall_in[..3], [(0.0, 1.0), (0.5, 1.0), (1.0, 2.0 / 3.0)]);
/// assert_eq!(curves.histogram.in_counts.iter().sum::<usize>(), 2);
/// # Ok::<(), evaluation::Error>(())
/// ```
///
/// # Errors
/// A score is NaN, or there are more than 32 bits can count.
pub fn detection_curves<S: Copy + Into<f64>>(
    in_scores: &[S],
    out_scores: &[S],
    range: Option<(f64, f64)>,
) -> Result<DetectionCurves> {
    let ranking = Ranking::new(in_scores, out_scores)?;
    Ok(ranking.curves(histogram(in_scores, out_scores, range)))
}

impl Ranking {
    /// Curves for drawing, with a histogram made by [`histogram`]. O(distinct scores).
    pub fn curves(&self, histogram: ScoreHistogram) -> DetectionCurves {
        let [ins, outs] = self.samples.map(|count| count as f64);
        let mut curves = DetectionCurves {
            histogram,
            ..DetectionCurves::default()
        };
        if ins > 0.0 && outs > 0.0 {
            curves.roc = thin(&self.roc(true), POINTS);
            let forward = self.groups.iter().map(|&[i, o]| (i, o));
            curves.precision_recall_in = thin(&precision_recall(forward, ins), POINTS);
            let backward = self.groups.iter().rev().map(|&[i, o]| (o, i));
            curves.precision_recall_out = thin(&precision_recall(backward, outs), POINTS);
        }
        curves
    }
}

/// Points (recall, precision) up to full recall, of groups of positives and negatives.
fn precision_recall(groups: impl Iterator<Item = (u32, u32)>, positives: f64) -> Vec<(f64, f64)> {
    let (mut hits, mut accepted) = (0.0, 0.0);
    let mut points = Vec::new();
    for (positive, negative) in groups {
        hits += f64::from(positive);
        accepted += f64::from(positive) + f64::from(negative);
        let precision = hits / accepted;
        if points.is_empty() {
            points.push((0.0, precision));
        }
        // without a positive the recall stays, and only the precision falls: the point belongs to
        // the curve until full recall
        points.push((hits / positives, precision));
        if hits == positives {
            break;
        }
    }
    points
}

/// Counts of the scores of both sides over [`HISTOGRAM_BINS`] equal-width bins of `range`, by
/// default from the lowest to the highest finite score. Scores outside are counted in the outer
/// bins. O(n).
pub fn histogram<S: Copy + Into<f64>>(
    in_scores: &[S],
    out_scores: &[S],
    range: Option<(f64, f64)>,
) -> ScoreHistogram {
    let (from, to) = range.unwrap_or_else(|| {
        let finite = in_scores
            .iter()
            .chain(out_scores)
            .map(|&score| score.into())
            .filter(|score| score.is_finite());
        let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), score| {
            (low.min(score), high.max(score))
        });
        if low <= high { (low, high) } else { (0.0, 0.0) }
    });
    let count = |scores: &[S]| {
        let mut counts = vec![0; HISTOGRAM_BINS];
        for &score in scores {
            counts[bin(score.into(), from, to)] += 1;
        }
        counts
    };
    ScoreHistogram {
        from,
        to,
        in_counts: count(in_scores),
        out_counts: count(out_scores),
    }
}

/// Bin of a score; a conversion of floats to whole numbers sends what is too small to 0, and NaN as
/// well.
fn bin(score: f64, from: f64, to: f64) -> usize {
    // halves, because the width of [f64::MIN, f64::MAX] is infinite
    let share = (score / 2.0 - from / 2.0) / (to / 2.0 - from / 2.0);
    ((share * HISTOGRAM_BINS as f64) as usize).min(HISTOGRAM_BINS - 1)
}

/// At most `limit` points (at least 2) of a curve whose x never falls, the first and the last among
/// them.
fn thin(points: &[(f64, f64)], limit: usize) -> Vec<(f64, f64)> {
    if points.len() <= limit {
        return points.to_vec();
    }
    let points = extremes(points);
    if points.len() <= limit {
        return points;
    }
    // segments between kept points, each with its farthest point
    let mut segments = vec![Segment::new(&points, 0, points.len() - 1)];
    while segments.len() + 1 < limit {
        let widest = (0..segments.len())
            .max_by(|&a, &b| segments[a].distance.total_cmp(&segments[b].distance))
            .expect("there is at least one segment");
        let Segment {
            from,
            to,
            farthest,
            distance,
        } = segments[widest];
        if distance == 0.0 {
            break;
        }
        segments[widest] = Segment::new(&points, from, farthest);
        segments.push(Segment::new(&points, farthest, to));
    }
    let mut kept: Vec<usize> = segments.iter().map(|segment| segment.to).collect();
    kept.push(0);
    kept.sort_unstable();
    kept.into_iter().map(|k| points[k]).collect()
}

/// First, lowest, highest and last point of each of [`CELLS`] cells of the x axis.
fn extremes(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let (from, to) = (points[0].0, points[points.len() - 1].0);
    let cell = |k: usize| ((points[k].0 - from) / (to - from) * CELLS as f64) as usize;
    let mut kept = Vec::with_capacity(4 * CELLS);
    let mut start = 0;
    while start < points.len() {
        let this = cell(start);
        let (mut lowest, mut highest, mut end) = (start, start, start);
        while end < points.len() && cell(end) == this {
            lowest = if points[end].1 < points[lowest].1 {
                end
            } else {
                lowest
            };
            highest = if points[end].1 > points[highest].1 {
                end
            } else {
                highest
            };
            end += 1;
        }
        let mut four = [start, lowest.min(highest), lowest.max(highest), end - 1].to_vec();
        four.dedup();
        kept.extend(four.into_iter().map(|k| points[k]));
        start = end;
    }
    kept
}

/// A line from one point to another, and the point between them that it misses most.
#[derive(Clone, Copy)]
struct Segment {
    from: usize,
    to: usize,
    farthest: usize,
    distance: f64,
}

impl Segment {
    fn new(points: &[(f64, f64)], from: usize, to: usize) -> Self {
        let mut segment = Self {
            from,
            to,
            farthest: from,
            distance: 0.0,
        };
        for k in from + 1..to {
            let distance = distance(points[k], points[from], points[to]);
            if distance > segment.distance {
                (segment.farthest, segment.distance) = (k, distance);
            }
        }
        segment
    }
}

/// Distance of a point from the segment between two others.
fn distance(point: (f64, f64), from: (f64, f64), to: (f64, f64)) -> f64 {
    let (dx, dy) = (to.0 - from.0, to.1 - from.1);
    let (px, py) = (point.0 - from.0, point.1 - from.1);
    let square = dx * dx + dy * dy;
    let along = if square > 0.0 {
        ((px * dx + py * dy) / square).clamp(0.0, 1.0)
    } else {
        0.0
    };
    (px - along * dx).hypot(py - along * dy)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scores(n: usize, power: f64) -> Vec<f64> {
        (0..n)
            .map(|i| ((i * 7919 % 10_007) as f64 / 10_007.0).powf(power))
            .collect()
    }

    /// Largest distance of a point from a curve.
    fn farthest(points: &[(f64, f64)], curve: &[(f64, f64)]) -> f64 {
        let from_curve = |&point: &(f64, f64)| {
            curve
                .windows(2)
                .map(|ends| distance(point, ends[0], ends[1]))
                .fold(f64::INFINITY, f64::min)
        };
        points.iter().map(from_curve).fold(0.0, f64::max)
    }

    #[test]
    fn thinned_curves_keep_their_shape_and_ends() {
        let (ins, outs) = (scores(6000, 0.3), scores(9000, 0.9));
        let ranking = Ranking::new(&ins, &outs).unwrap();
        let full = ranking.roc(false);
        let curves = detection_curves(&ins, &outs, None).unwrap();
        assert!(full.len() > 5000 && curves.roc.len() <= POINTS);
        assert_eq!(curves.roc[0], (0.0, 0.0));
        assert_eq!(*curves.roc.last().unwrap(), (1.0, 1.0));
        assert!(farthest(&full, &curves.roc) < 2e-3);
        let area: f64 = curves
            .roc
            .windows(2)
            .map(|p| (p[1].0 - p[0].0) * (p[1].1 + p[0].1) / 2.0)
            .sum();
        assert!((area - ranking.auroc().unwrap()).abs() < 1e-3);
        for (curve, share) in [
            (&curves.precision_recall_in, 0.4),
            (&curves.precision_recall_out, 0.6),
        ] {
            assert!(curve.len() <= POINTS && curve.len() > 50);
            assert_eq!(curve[0].0, 0.0);
            let end = curve.last().unwrap();
            assert_eq!(end.0, 1.0);
            assert!(end.1 >= share);
            assert!(curve.is_sorted_by(|a, b| a.0 <= b.0));
        }
    }

    proptest! {
        /// Saw teeth of any kind: what is kept is part of the curve, in order, with its ends and
        /// its extremes.
        #[test]
        fn thinned_points_are_points_of_the_curve(steps in prop::collection::vec((0u8..4, 0.0..1.0f64), 3..3000), limit in 5usize..400) {
            let mut x = 0.0;
            let points: Vec<(f64, f64)> = steps
                .iter()
                .map(|&(step, y)| {
                    x += f64::from(step);
                    (x, y)
                })
                .collect();
            let thinned = thin(&points, limit);
            prop_assert!(thinned.len() <= limit.max(2));
            let mut rest = points.iter();
            for point in &thinned {
                prop_assert!(rest.any(|other| other == point));
            }
            prop_assert_eq!(thinned[0], points[0]);
            prop_assert_eq!(thinned.last(), points.last());
        }
    }

    #[test]
    fn a_curve_without_width_is_thinned() {
        let points: Vec<(f64, f64)> = (0..2000).map(|i| (0.0, f64::from(i))).collect();
        assert_eq!(thin(&points, 10), [(0.0, 0.0), (0.0, 1999.0)]);
    }

    #[test]
    fn precision_stops_at_full_recall() {
        let curves = detection_curves(&[3.0, 1.0], &[2.0, 0.0, -1.0], None).unwrap();
        assert_eq!(
            curves.precision_recall_in,
            [(0.0, 1.0), (0.5, 1.0), (0.5, 0.5), (1.0, 2.0 / 3.0)]
        );
        assert_eq!(
            curves.precision_recall_out,
            [
                (0.0, 1.0),
                (1.0 / 3.0, 1.0),
                (2.0 / 3.0, 1.0),
                (2.0 / 3.0, 2.0 / 3.0),
                (1.0, 0.75)
            ]
        );
    }

    #[test]
    fn histograms_count_everything_once() {
        let ins = [0.0, 0.5, 1.0, f64::INFINITY];
        let outs = [-1.0, f64::NEG_INFINITY, 0.019];
        let fixed = histogram(&ins, &outs, Some((0.0, 1.0)));
        assert_eq!(fixed.in_counts[0], 1);
        assert_eq!(fixed.in_counts[HISTOGRAM_BINS / 2], 1);
        assert_eq!(fixed.in_counts[HISTOGRAM_BINS - 1], 2);
        assert_eq!(fixed.out_counts[0], 3);
        let own = histogram(&ins, &outs, None);
        assert_eq!((own.from, own.to), (-1.0, 1.0));
        assert_eq!(own.in_counts.iter().sum::<usize>(), 4);
        assert_eq!(own.out_counts.iter().sum::<usize>(), 3);
        let wide = histogram(&[f64::MIN, 0.0, f64::MAX], &[], None);
        assert_eq!(
            (wide.in_counts[0], wide.in_counts[25], wide.in_counts[49]),
            (1, 1, 1)
        );
        for same in [
            histogram(&[2.0; 5], &[], None),
            histogram(&[f64::INFINITY; 5], &[], None),
        ] {
            assert_eq!(same.in_counts.iter().sum::<usize>(), 5);
        }
        let none: [f64; 0] = [];
        assert_eq!(histogram(&none, &none, None).from, 0.0);
    }

    #[test]
    fn an_empty_side_has_no_curve() {
        let curves = detection_curves(&[1.0], &[], None).unwrap();
        assert!(curves.roc.is_empty() && curves.precision_recall_in.is_empty());
        assert_eq!(curves.histogram.in_counts.iter().sum::<usize>(), 1);
    }
}
