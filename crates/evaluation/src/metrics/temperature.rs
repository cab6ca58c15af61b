//! Temperature scaling: one number by which logits are divided, so that validation labels become
//! most probable.
//!
//! In `s = 1/T` the mean log loss is convex, with derivative `mean(E_p[z] - z_label)` where `p` is
//! `softmax(s z)`. Newton's method, kept inside a bracket of signs.

use std::fmt::Display;

use super::probability::rows;
use crate::error::{Error, Result};

/// Temperatures that are searched.
const RANGE: [f64; 2] = [1e-3, 1e3];

/// The temperature of lowest log loss for logits `[n, classes]`; logarithms of probabilities are
/// logits, too. O(n · classes) per step, about ten steps.
///
/// ```
/// // right in three cases of four, whatever the logits claim
/// let logits = [5.0, 0.0, 5.0, 0.0, 5.0, 0.0, 5.0, 0.0];
/// let temperature = evaluation::temperature(&logits, 2, &[0, 0, 0, 1])?;
/// assert!((temperature - 5.0 / 3f64.ln()).abs() < 1e-9);
/// # Ok::<(), evaluation::Error>(())
/// ```
///
/// # Errors
/// The matrix is malformed or has a logit that is no number, there are not as many labels as rows,
/// a label names no class, or no temperature in `[0.001, 1000]` is best: all rows are right and
/// grow ever more probable, or the labels have nothing to do with the logits.
pub fn temperature<P, L>(logits: &[P], classes: usize, labels: &[L]) -> Result<f64>
where
    P: Copy + Into<f64>,
    L: Copy + TryInto<usize> + Display,
{
    let count = rows(logits, classes)?;
    if labels.len() != count {
        let labels = labels.len();
        return Err(Error::Labels {
            labels,
            rows: count,
        });
    }
    let mut values = Vec::with_capacity(logits.len());
    let mut known = Vec::with_capacity(count);
    for (row, (entries, &label)) in logits.chunks_exact(classes).zip(labels).enumerate() {
        let class = label
            .try_into()
            .ok()
            .filter(|&class: &usize| class < classes);
        known.push(class.ok_or_else(|| Error::Label {
            row,
            value: label.to_string(),
            classes,
        })?);
        let largest = entries.iter().map(|&z| z.into()).fold(f64::MIN, f64::max);
        for (class, &entry) in entries.iter().enumerate() {
            let value: f64 = entry.into();
            if !value.is_finite() {
                return Err(Error::Probability { row, class, value });
            }
            values.push(value - largest);
        }
    }
    solve(&values, classes, &known).ok_or(Error::Setting {
        field: "temperature",
        value: f64::NAN,
        range: "[0.001, 1000]",
    })
}

/// Where the derivative is zero, if it is inside the range.
fn solve(values: &[f64], classes: usize, labels: &[usize]) -> Option<f64> {
    let [mut low, mut high] = [1.0 / RANGE[1], 1.0 / RANGE[0]];
    if derivatives(values, classes, labels, low).0 >= 0.0
        || derivatives(values, classes, labels, high).0 <= 0.0
    {
        return None;
    }
    let mut s = 1.0;
    for _ in 0..200 {
        let (slope, curvature) = derivatives(values, classes, labels, s);
        if slope > 0.0 {
            high = s;
        } else {
            low = s;
        }
        let newton = s - slope / curvature;
        let next = if newton > low && newton < high {
            newton
        } else {
            (low * high).sqrt()
        };
        if (next - s).abs() <= 1e-14 * s {
            return Some(1.0 / next);
        }
        s = next;
    }
    Some(1.0 / s)
}

/// First and second derivative of the mean log loss in `s`; values have their largest entry 0.
fn derivatives(values: &[f64], classes: usize, labels: &[usize], s: f64) -> (f64, f64) {
    let (mut slope, mut curvature) = (0.0, 0.0);
    for (row, &label) in values.chunks_exact(classes).zip(labels) {
        let (mut total, mut first, mut second) = (0.0, 0.0, 0.0);
        for &z in row {
            let weight = (s * z).exp();
            total += weight;
            first += weight * z;
            second += weight * z * z;
        }
        let mean = first / total;
        slope += mean - row[label];
        curvature += second / total - mean * mean;
    }
    (slope / labels.len() as f64, curvature / labels.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean log loss at a temperature, the obvious way.
    fn loss(logits: &[f64], classes: usize, labels: &[u32], temperature: f64) -> f64 {
        let row = |(z, &label): (&[f64], &u32)| {
            let sum: f64 = z.iter().map(|z| (z / temperature).exp()).sum();
            sum.ln() - z[label as usize] / temperature
        };
        let all = logits.chunks(classes).zip(labels).map(row);
        all.sum::<f64>() / labels.len() as f64
    }

    #[test]
    fn no_other_temperature_is_better() {
        let logits: Vec<f64> = (0..60)
            .map(|i| f64::from(i * 37 % 19) * 0.7 - 4.0)
            .collect();
        let labels: Vec<u32> = (0..20).map(|i| [0, 2, 1, 2][i % 4]).collect();
        // some rows are right
        let mut logits = logits;
        for (row, &label) in labels.iter().enumerate().filter(|(row, _)| row % 3 > 0) {
            logits[3 * row + label as usize] += 9.0;
        }
        let best = temperature(&logits, 3, &labels).unwrap();
        let found = loss(&logits, 3, &labels, best);
        for factor in [0.5, 0.9, 0.999, 1.001, 1.1, 2.0] {
            assert!(found < loss(&logits, 3, &labels, factor * best), "{factor}");
        }
        // a shift of a row changes nothing
        let shifted: Vec<f64> = logits.iter().map(|z| z + 100.0).collect();
        let again = temperature(&shifted, 3, &labels).unwrap();
        assert!((again - best).abs() < 1e-9 * best);
    }

    #[test]
    fn where_no_temperature_is_best_it_is_told() {
        let message = |logits: &[f64], labels: &[i32]| {
            temperature(logits, 2, labels).unwrap_err().to_string()
        };
        // all right: the colder the better; all wrong: the hotter
        assert!(message(&[1.0, 0.0, 0.0, 2.0], &[0, 1]).contains("[0.001, 1000]"));
        assert!(message(&[1.0, 0.0, 0.0, 2.0], &[1, 0]).contains("[0.001, 1000]"));
        assert!(message(&[1.0, 0.0], &[2]).contains("label 2"));
        assert!(message(&[1.0, 0.0], &[-1]).contains("label -1"));
        assert!(message(&[1.0, f64::NAN], &[0]).contains("NaN"));
    }
}
