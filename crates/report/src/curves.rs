//! Curves made ready for drawing: counts pooled over the seeds, rates averaged at fixed abscissas,
//! epochs averaged with their deviation. Everything is rounded, since it is only drawn; the numbers
//! of the tables are not made here.
//!
//! A mean ROC curve is the vertical average: the mean true positive rate at each false positive
//! rate. Precision-recall curves are averaged likewise at each recall.

use evaluation::record::{EpochPoint, RunRecord};
use evaluation::results::{Reliability, ReliabilityBin, ScoreHistogram};
use serde_json::{Value, json};

use crate::summary::mean_and_deviation;

/// Points of an averaged curve.
pub(crate) const POINTS: usize = 81;

/// Points of a training curve at most; of longer ones every k-th epoch and the last is kept.
const EPOCHS: usize = 400;

/// False positive rates of an averaged ROC curve: denser near 0, where curves are steep.
pub(crate) fn roc_grid() -> Vec<f64> {
    grid().map(|t| t * t).collect()
}

/// Recalls of an averaged precision-recall curve.
pub(crate) fn recall_grid() -> Vec<f64> {
    grid().collect()
}

fn grid() -> impl Iterator<Item = f64> {
    (0..POINTS).map(|i| i as f64 / (POINTS - 1) as f64)
}

/// Mean ordinate of the curves at each abscissa; empty if there are no curves. Cost: O(grid · log
/// points) per curve.
pub(crate) fn average(curves: &[&[(f64, f64)]], grid: &[f64]) -> Vec<f64> {
    let curves: Vec<Vec<(f64, f64)>> = curves
        .iter()
        .filter(|curve| !curve.is_empty())
        .map(|curve| {
            let finite = |point: &(f64, f64)| point.0.is_finite() && point.1.is_finite();
            let mut curve: Vec<(f64, f64)> = curve.iter().copied().filter(finite).collect();
            // stable, so that steps keep their direction
            if curve.first().map(|p| p.0) > curve.last().map(|p| p.0) {
                curve.reverse();
            }
            curve.sort_by(|a, b| a.0.total_cmp(&b.0));
            curve
        })
        .filter(|curve| !curve.is_empty())
        .collect();
    if curves.is_empty() {
        return Vec::new();
    }
    let count = curves.len() as f64;
    grid.iter()
        .map(|&x| curves.iter().map(|curve| at(curve, x)).sum::<f64>() / count)
        .collect()
}

/// The ordinate at `x` of a curve of ascending abscissas: the highest point there, or on the line
/// between the neighbors.
fn at(curve: &[(f64, f64)], x: f64) -> f64 {
    let after = curve.partition_point(|point| point.0 <= x);
    if after == 0 {
        return curve[0].1;
    }
    let (left, y) = curve[after - 1];
    if left == x || after == curve.len() {
        let same = curve[..after]
            .iter()
            .rev()
            .take_while(|point| point.0 == left);
        return same.map(|point| point.1).fold(f64::NEG_INFINITY, f64::max);
    }
    let (right, next) = curve[after];
    y + (next - y) * (x - left) / (right - left)
}

/// Bins of several runs added up; runs whose bins are laid out otherwise than the first are left
/// out.
pub(crate) fn pool_bins(parts: &[&Reliability]) -> Vec<ReliabilityBin> {
    let Some(first) = parts.iter().find(|part| !part.bins.is_empty()) else {
        return Vec::new();
    };
    let alike =
        |part: &&&Reliability| part.bins.len() == first.bins.len() && part.scheme == first.scheme;
    (0..first.bins.len())
        .map(|i| {
            let (mut count, mut right, mut sum) = (0, 0, 0.0);
            for bin in parts.iter().filter(alike).map(|part| part.bins[i]) {
                count += bin.count;
                right += bin.right;
                sum += bin.confidence.unwrap_or(0.0) * bin.count as f64;
            }
            ReliabilityBin {
                count,
                right,
                confidence: (count > 0).then(|| sum / count as f64),
            }
        })
        .collect()
}

/// Histograms of several runs added up; those laid out otherwise than the first are left out.
pub(crate) fn pool_histograms(parts: &[&ScoreHistogram]) -> Option<ScoreHistogram> {
    let first = parts.iter().find(|part| {
        let sides = [&part.in_counts, &part.out_counts];
        part.to > part.from && sides.iter().all(|side| !side.is_empty())
    })?;
    let mut sum = ScoreHistogram {
        in_counts: vec![0; first.in_counts.len()],
        out_counts: vec![0; first.out_counts.len()],
        ..(*first).clone()
    };
    for part in parts.iter().filter(|part| {
        (part.from, part.to) == (first.from, first.to)
            && part.in_counts.len() == first.in_counts.len()
            && part.out_counts.len() == first.out_counts.len()
    }) {
        let add = |sum: &mut [usize], counts: &[usize]| {
            for (sum, count) in sum.iter_mut().zip(counts) {
                *sum += count;
            }
        };
        add(&mut sum.in_counts, &part.in_counts);
        add(&mut sum.out_counts, &part.out_counts);
    }
    Some(sum)
}

/// Mean and deviation over the runs of one quantity at each kept epoch; `None` where no run has it.
pub(crate) fn epoch_means(
    runs: &[&RunRecord],
    kept: &[usize],
    read: impl Fn(&EpochPoint) -> Option<f64>,
) -> Vec<Option<(f64, Option<f64>)>> {
    let at = |&epoch: &usize| {
        let values: Vec<f64> = runs
            .iter()
            .filter_map(|run| run.curves.iter().find(|point| point.epoch == epoch))
            .filter_map(&read)
            .filter(|value| value.is_finite())
            .collect();
        (!values.is_empty()).then(|| mean_and_deviation(&values))
    };
    kept.iter().map(at).collect()
}

/// [`epoch_means`] as `[[means], [deviations]]`, `null` where no run has it, `Null` if none ever
/// has; `null` instead of deviations that are all so.
pub(crate) fn epochs(
    runs: &[&RunRecord],
    kept: &[usize],
    read: impl Fn(&EpochPoint) -> Option<f64>,
) -> Value {
    let found = epoch_means(runs, kept, read);
    if found.iter().all(Option::is_none) {
        return Value::Null;
    }
    let or_null = |value: Option<f64>| value.map_or(Value::Null, number);
    let means = found
        .iter()
        .map(|point| or_null(point.map(|(mean, _)| mean)));
    let deviations = found
        .iter()
        .map(|point| or_null(point.and_then(|(_, deviation)| deviation)));
    let deviations: Vec<Value> = deviations.collect();
    let deviations = if deviations.iter().all(Value::is_null) {
        Value::Null
    } else {
        json!(deviations)
    };
    json!([means.collect::<Vec<_>>(), deviations])
}

/// Epochs that any of the runs has, thinned.
pub(crate) fn kept_epochs(runs: &[&RunRecord]) -> Vec<usize> {
    let mut all: Vec<usize> = runs
        .iter()
        .flat_map(|run| run.curves.iter().map(|point| point.epoch))
        .collect();
    all.sort_unstable();
    all.dedup();
    let stride = all.len().div_ceil(EPOCHS).max(1);
    let last = all.len().saturating_sub(1);
    let kept = all.iter().enumerate();
    kept.filter(|(i, _)| i % stride == 0 || *i == last)
        .map(|(_, &epoch)| epoch)
        .collect()
}

/// A number to five significant digits; `null` if it is not finite.
pub(crate) fn number(value: f64) -> Value {
    if !value.is_finite() {
        return Value::Null;
    }
    short(format!("{value:.4e}").parse().unwrap_or(value))
}

/// A finite number; whole ones without a point.
pub(crate) fn short(value: f64) -> Value {
    if value == value.trunc() && value.abs() < 1e9 {
        return json!(value as i64);
    }
    json!(value)
}

/// Rates to four digits after the point.
pub(crate) fn rates(values: &[f64]) -> Value {
    let rounded = values.iter().map(|value| (value * 1e4).round() / 1e4);
    Value::Array(rounded.map(number).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn averages_by_hand() {
        let one = [(0.0, 0.0), (0.0, 0.5), (1.0, 1.0)];
        let other = [(0.0, 0.0), (0.5, 1.0), (1.0, 1.0)];
        let grid = [0.0, 0.25, 0.5, 1.0];
        let mean = average(&[&one, &other, &[]], &grid);
        assert_eq!(mean, [0.25, (0.625 + 0.5) / 2.0, (0.75 + 1.0) / 2.0, 1.0]);
        assert!(average(&[&[]], &grid).is_empty());
        // falling recall is read backwards; before the first point its precision holds
        let falling = [(1.0, 0.25), (0.5, 0.75), (0.5, 1.0)];
        assert_eq!(average(&[&falling], &[0.0, 0.5, 0.75]), [1.0, 1.0, 0.5]);
    }

    #[test]
    fn counts_are_pooled() {
        let bin = |count, right, confidence| ReliabilityBin {
            count,
            right,
            confidence,
        };
        let part = |bins| Reliability {
            scheme: "equal-width".to_owned(),
            bins,
        };
        let a = part(vec![bin(0, 0, None), bin(1, 1, Some(0.5))]);
        let b = part(vec![bin(0, 0, None), bin(3, 1, Some(0.75))]);
        let c = part(vec![bin(9, 9, Some(0.1))]);
        let pooled = pool_bins(&[&a, &b, &c]);
        assert_eq!(pooled, [bin(0, 0, None), bin(4, 2, Some(0.6875))]);
        assert!(pool_bins(&[]).is_empty());

        let histogram = |to, counts: &[usize]| ScoreHistogram {
            from: 0.0,
            to,
            in_counts: counts.to_vec(),
            out_counts: counts.to_vec(),
        };
        let sum = pool_histograms(&[
            &histogram(1.0, &[1, 2]),
            &histogram(2.0, &[5, 5]),
            &histogram(1.0, &[3, 4]),
        ]);
        assert_eq!(sum, Some(histogram(1.0, &[4, 6])));
        assert_eq!(pool_histograms(&[&ScoreHistogram::default()]), None);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(number(0.123_456_789).to_string(), "0.12346");
        assert_eq!(number(3.0).to_string(), "3");
        assert_eq!(number(f64::NAN), Value::Null);
        assert_eq!(rates(&[0.123_456, 1.0]).to_string(), "[0.1235,1]");
    }

    proptest! {
        #[test]
        fn an_average_stays_between_its_curves(
            ys in prop::collection::vec((0.0..1.0f64, 0.0..1.0f64, 0.0..1.0f64), 2..40),
        ) {
            let mut one: Vec<(f64, f64)> = ys.iter().map(|y| (y.0, y.1)).collect();
            let other: Vec<(f64, f64)> = ys.iter().map(|y| (y.0, y.2)).collect();
            one.sort_by(|a, b| a.0.total_cmp(&b.0));
            let grid = recall_grid();
            let (a, b) = (average(&[&one], &grid), average(&[&other], &grid));
            let mean = average(&[&one, &other], &grid);
            for i in 0..grid.len() {
                prop_assert!((mean[i] - (a[i] + b[i]) / 2.0).abs() < 1e-12);
                let (low, high) = (0.0, 1.0);
                prop_assert!(a[i] >= low && a[i] <= high);
            }
        }
    }
}
