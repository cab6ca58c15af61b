//! Ascent to `max_x -½|x|² + log P(A | z₀ + Rx)` for a class, or for all classes but one, with
//! `C = RRᵀ`: the problem over `z = z₀ + Ca` for `x = Rᵀa`, without an inverse of `C`.
//!
//! With `p` the softmax of `z` and `w` the softmax within `A`, the gradient is `Rᵀ(w - p) - x` and
//! the Hessian `RᵀHR - I` with `H = (diag w - wwᵀ) - (diag p - ppᵀ)`. For a single class `w` is
//! constant, the problem concave, and half the squared gradient is the distance to the dual problem
//! `min_p (e_y-p)ᵀz₀ + ½(e_y-p)ᵀC(e_y-p) + Σ p log p`: a certificate. For all classes but one it is
//! not concave; where the Hessian is not negative definite, its convex part `diag w - wwᵀ` is left
//! out, which gives the step of a concave function that touches ours from below.

use super::Logits;
use crate::numeric::softplus;

/// Half the squared gradient, relative to `1 + |log P̄|`, at which the values agree to rounding.
const SETTLED: f64 = 1e-16;
/// Steps before giving up; a handful is usual.
const STEPS: usize = 200;
/// Armijo's constant.
const SUFFICIENT: f64 = 1e-4;
/// Shortest share of a step that is tried.
const SHORTEST: f64 = 1e-18;
/// Classes of less weight do not enter the curvature: a step need not be exact.
const NEGLIGIBLE: f64 = 1e-14;

/// What is to be probable.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    /// This class.
    Class(usize),
    /// Any other class.
    Not(usize),
}

/// A point of the ascent.
struct Point {
    /// `x`.
    coordinates: Vec<f64>,
    /// `-½|x|² + log P(A | z)`.
    value: f64,
    /// `p`.
    probabilities: Vec<f64>,
    /// `w`.
    within: Vec<f64>,
    /// `Rᵀ(w - p) - x`.
    gradient: Vec<f64>,
    /// Half its square.
    gap: f64,
}

impl Point {
    fn new(logits: &Logits, event: Event, coordinates: Vec<f64>) -> Self {
        let moved = logits.moved(&coordinates);
        let (log_sum, probabilities) = softmax(&moved, None);
        let mut difference: Vec<f64>;
        let (log_probability, within) = match event {
            Event::Class(class) => {
                let mut within = vec![0.0; moved.len()];
                within[class] = 1.0;
                difference = probabilities.iter().map(|p| -p).collect();
                // 1 - p, without the cancellation
                difference[class] = 0.0;
                difference[class] = -difference.iter().sum::<f64>();
                (moved[class] - log_sum, within)
            }
            Event::Not(class) => {
                let (log_others, within) = softmax(&moved, Some(class));
                // w - p = p_k (w - e_k), without the cancellation
                let share = probabilities[class];
                difference = within.iter().map(|w| share * w).collect();
                difference[class] = -share;
                (-softplus(moved[class] - log_others), within)
            }
        };
        let mut gradient = logits.mixture(&difference);
        for (slope, x) in gradient.iter_mut().zip(&coordinates) {
            *slope -= x;
        }
        let gap = 0.5 * dot(&gradient, &gradient);
        Self {
            value: log_probability - 0.5 * dot(&coordinates, &coordinates),
            coordinates,
            probabilities,
            within,
            gradient,
            gap,
        }
    }

    /// The step of Newton's method, where `H` is left without its convex part if `concave`; `None`
    /// if the Hessian is not negative definite.
    fn step(&self, logits: &Logits, concave: bool) -> Option<Vec<f64>> {
        let (p, w) = (&self.probabilities, &self.within);
        let convex = if concave { 0.0 } else { 1.0 };
        let (mean_p, mean_w) = (logits.mixture(p), logits.mixture(w));
        let n = self.gradient.len();
        let mut matrix = vec![0.0; n * n];
        for (row, line) in matrix.chunks_exact_mut(n).enumerate() {
            for (column, entry) in line[..=row].iter_mut().enumerate() {
                *entry = convex * mean_w[row] * mean_w[column] - mean_p[row] * mean_p[column];
            }
            line[row] += 1.0;
        }
        for (i, root) in logits.root.iter().enumerate() {
            let weight = p[i] - convex * w[i];
            if weight.abs() > NEGLIGIBLE {
                for (row, line) in matrix.chunks_exact_mut(n).enumerate() {
                    let factor = weight * root[row];
                    for (entry, r) in line[..=row].iter_mut().zip(root) {
                        *entry += factor * r;
                    }
                }
            }
        }
        solve(matrix, self.gradient.clone())
    }

    /// A point further up along a step, or `None` where rounding leaves nothing to gain.
    fn climb(&self, logits: &Logits, event: Event, step: &[f64]) -> Option<Self> {
        let slope = dot(&self.gradient, step);
        if slope.is_nan() || slope <= 0.0 {
            return None;
        }
        let rounding = 4.0 * f64::EPSILON * (1.0 + self.value.abs());
        let mut rate = 1.0;
        while rate > SHORTEST {
            let along = self.coordinates.iter().zip(step);
            let next = along.map(|(x, d)| x + rate * d).collect();
            let next = Self::new(logits, event, next);
            let enough = next.value >= self.value + SUFFICIENT * rate * slope;
            // where the values agree to rounding, the gradient decides
            let level = slope <= 1e3 * rounding && next.value >= self.value - rounding;
            if (enough && next.value > self.value) || (level && next.gap < 0.5 * self.gap) {
                return Some(next);
            }
            if slope <= rounding {
                return None;
            }
            rate *= if rate == 1.0 { 0.5 } else { 0.25 };
        }
        None
    }
}

/// Where an ascent ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Top {
    /// A value that is reached.
    pub log_value: f64,
    /// Half the squared gradient; for a single class, no value lies more than this above.
    pub gap: f64,
}

/// Climbs from `x = start`; the value never falls below that of the start.
pub(super) fn ascend(logits: &Logits, event: Event, start: Vec<f64>) -> Top {
    let mut point = Point::new(logits, event, start);
    for _ in 0..STEPS {
        if point.gap <= SETTLED * (1.0 + point.value.abs()) {
            break;
        }
        let newton = point.step(logits, false);
        let step = newton.or_else(|| point.step(logits, true));
        match step.and_then(|step| point.climb(logits, event, &step)) {
            Some(next) => point = next,
            None => break,
        }
    }
    Top {
        log_value: point.value,
        gap: point.gap,
    }
}

/// `log Σ e^z` and the softmax, of all entries but one.
pub(super) fn softmax(z: &[f64], without: Option<usize>) -> (f64, Vec<f64>) {
    let counts = |i: usize| Some(i) != without;
    let largest = (0..z.len())
        .filter(|&i| counts(i))
        .fold(f64::NEG_INFINITY, |most, i| most.max(z[i]));
    let mut shares: Vec<f64> = z.iter().map(|z| (z - largest).exp()).collect();
    if let Some(i) = without {
        shares[i] = 0.0;
    }
    let sum: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|share| *share /= sum);
    (largest + sum.ln(), shares)
}

pub(super) fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(a, b)| a * b).sum()
}

/// Solves `Mx = b` for a symmetric `M`, row-major with its lower triangle filled in, by `M = LLᵀ`;
/// `None` unless `M` is positive definite.
fn solve(mut matrix: Vec<f64>, mut right: Vec<f64>) -> Option<Vec<f64>> {
    let n = right.len();
    for i in 0..n {
        for j in 0..=i {
            let (above, line) = matrix.split_at_mut(i * n);
            let sum = line[j];
            if j == i {
                let pivot = sum - dot(&line[..i], &line[..i]);
                // what is left of a pivot lost in rounding has no meaning
                if pivot.is_nan() || pivot <= n as f64 * f64::EPSILON * sum {
                    return None;
                }
                line[i] = pivot.sqrt();
            } else {
                let other = &above[j * n..j * n + j + 1];
                line[j] = (sum - dot(&line[..j], &other[..j])) / other[j];
            }
        }
        let line = &matrix[i * n..=i * n + i];
        right[i] = (right[i] - dot(&line[..i], &right[..i])) / line[i];
    }
    for i in (0..n).rev() {
        right[i] /= matrix[i * n + i];
        let value = right[i];
        for (j, entry) in right[..i].iter_mut().enumerate() {
            *entry -= matrix[i * n + j] * value;
        }
    }
    Some(right)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symmetric_system_is_solved_or_refused() {
        // [[4, 2], [2, 3]] (2, 3) = (14, 13); what stands above the diagonal is not read
        let x = solve(vec![4.0, f64::NAN, 2.0, 3.0], vec![14.0, 13.0]).unwrap();
        assert!((x[0] - 2.0).abs() < 1e-15 && (x[1] - 3.0).abs() < 1e-15);
        assert_eq!(solve(vec![1.0, 2.0, 2.0, 4.0], vec![1.0, 1.0]), None);
        assert_eq!(solve(vec![1.0, 2.0, 2.0, 1.0], vec![1.0, 1.0]), None);
        assert_eq!(solve(vec![], vec![]), Some(vec![]));
    }

    #[test]
    fn softmax_leaves_one_out_and_survives_extremes() {
        let (log_sum, p) = softmax(&[1e4, 1e4, -1e4], None);
        assert_eq!(p, [0.5, 0.5, 0.0]);
        assert_eq!(log_sum, 1e4 + 2f64.ln());
        let (log_sum, w) = softmax(&[1e4, 3.0, 3.0], Some(0));
        assert_eq!(w, [0.0, 0.5, 0.5]);
        assert!((log_sum - 3.0 - 2f64.ln()).abs() < 1e-15);
    }
}
