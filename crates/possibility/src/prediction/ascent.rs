//! Ascent to `max_x -½|x|² + log P(A | z₀ + Rx)` for a class, or for all classes but one, with
//! `C = RRᵀ`: the problem over `z = z₀ + Ca` for `x = Rᵀa`, without an inverse of `C`.
//!
//! With `w` the softmax of the classes other than `y`, `q` the probability of `y` and
//! `u = r_y - Rᵀw`, the gradient is `(1-q)u - x` for the class and `-qu - x` for the others. The
//! Hessian is `-(I + sRᵀ(diag w - wwᵀ)R + q(1-q)uuᵀ)` with `s = 1-q` for the class, which is
//! concave, and `s = -q` for the others, which is not. For a class half the squared gradient is the
//! distance to the dual problem `min_p (e_y-p)ᵀz₀ + ½(e_y-p)ᵀC(e_y-p) + Σ p log p`: a
//! certificate. For the others, where the Hessian is not negative definite, that of the class
//! stands in for it: the step of a concave function that touches ours from below.

use super::Logits;
use crate::numeric::{sigmoid, softplus};

/// Half the squared gradient, relative to `1 + |log P̄|`, at which the values agree to rounding.
pub(super) const SETTLED: f64 = 1e-16;
/// Steps before giving up; a handful is usual.
pub(super) const STEPS: usize = 200;
/// Armijo's constant.
pub(super) const SUFFICIENT: f64 = 1e-4;
/// Shortest share of a step that is tried.
pub(super) const SHORTEST: f64 = 1e-18;
/// Classes of less weight do not enter the curvature: a step need not be exact.
pub(super) const NEGLIGIBLE: f64 = 1e-14;

/// What is to be probable.
#[derive(Debug, Clone, Copy)]
pub(super) enum Event {
    /// This class.
    Class(usize),
    /// Any other class.
    Not(usize),
}

impl Event {
    /// The class that it is about.
    pub(super) fn class(self) -> usize {
        let (Self::Class(class) | Self::Not(class)) = self;
        class
    }
}

/// A point of the ascent.
#[derive(Debug)]
struct Point {
    /// `x`.
    coordinates: Vec<f64>,
    /// `-½|x|² + log P(A | z)`.
    value: f64,
    /// `q`, and `1 - q` without the cancellation.
    own: f64,
    others: f64,
    /// `w`, with a 0 for the class itself.
    within: Vec<f64>,
    /// `Rᵀw`.
    mean: Vec<f64>,
    /// The gradient.
    gradient: Vec<f64>,
    /// Half its square.
    gap: f64,
}

impl Point {
    fn empty(logits: &Logits) -> Self {
        let rank = vec![0.0; logits.rank];
        Self {
            coordinates: rank.clone(),
            value: f64::NEG_INFINITY,
            own: 0.0,
            others: 0.0,
            within: vec![0.0; logits.classes()],
            mean: rank.clone(),
            gradient: rank,
            gap: f64::INFINITY,
        }
    }

    /// Computes all the rest from the coordinates.
    fn evaluate(&mut self, logits: &Logits, event: Event) {
        let class = event.class();
        let moved = self.within.iter_mut().zip(&logits.mode).enumerate();
        for (i, (to, z)) in moved {
            *to = z + dot(logits.row(i), &self.coordinates);
        }
        let own = std::mem::replace(&mut self.within[class], f64::NEG_INFINITY);
        let log_others = to_softmax(&mut self.within);
        let ahead = own - log_others;
        (self.own, self.others) = (sigmoid(ahead), sigmoid(-ahead));
        self.mean.fill(0.0);
        for (i, &share) in self.within.iter().enumerate().filter(|(_, w)| **w != 0.0) {
            for (entry, r) in self.mean.iter_mut().zip(logits.row(i)) {
                *entry += share * r;
            }
        }
        let (log_probability, push) = match event {
            Event::Class(_) => (-softplus(-ahead), self.others),
            Event::Not(_) => (-softplus(ahead), -self.own),
        };
        let (mut price, mut gap) = (0.0, 0.0);
        let places = logits.row(class).iter().zip(&self.mean);
        for ((slope, x), (r, mean)) in (self.gradient.iter_mut().zip(&self.coordinates)).zip(places)
        {
            *slope = push * (r - mean) - x;
            price += x * x;
            gap += *slope * *slope;
        }
        self.value = log_probability - 0.5 * price;
        self.gap = 0.5 * gap;
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

/// Ascents of one image, in the same memory.
#[derive(Debug)]
pub(super) struct Climber<'a> {
    logits: &'a Logits,
    point: Point,
    next: Point,
    step: Vec<f64>,
    matrix: Vec<f64>,
    apart: Vec<f64>,
}

impl<'a> Climber<'a> {
    pub(super) fn new(logits: &'a Logits) -> Self {
        let rank = logits.rank;
        Self {
            logits,
            point: Point::empty(logits),
            next: Point::empty(logits),
            step: vec![0.0; rank],
            matrix: vec![0.0; rank * rank],
            apart: vec![0.0; rank],
        }
    }

    /// Climbs from `x = 0`, or from where `share` of the difference moves a logit up against
    /// another one; the value never falls below that of the start.
    pub(super) fn ascend(&mut self, event: Event, start: Option<(usize, usize, f64)>) -> Top {
        let x = &mut self.point.coordinates;
        match start {
            None => x.fill(0.0),
            Some((up, down, share)) => {
                let rows = self.logits.row(up).iter().zip(self.logits.row(down));
                let moved = rows.map(|(up, down)| share * (up - down));
                x.iter_mut().zip(moved).for_each(|(x, to)| *x = to);
            }
        }
        self.point.evaluate(self.logits, event);
        for _ in 0..STEPS {
            if self.point.gap <= SETTLED * (1.0 + self.point.value.abs()) {
                break;
            }
            let found = self.newton(event, false) || self.newton(event, true);
            if !found || !self.climb(event) {
                break;
            }
        }
        Top {
            log_value: self.point.value,
            gap: self.point.gap,
        }
    }

    /// The step of Newton's method, with the Hessian of the class in any case if `concave`; false
    /// if the Hessian is not negative definite.
    fn newton(&mut self, event: Event, concave: bool) -> bool {
        let (logits, point) = (self.logits, &self.point);
        let spread = match event {
            Event::Not(_) if !concave => -point.own,
            _ => point.others,
        };
        let n = point.gradient.len();
        let class = event.class();
        self.matrix.fill(0.0);
        for i in 0..n {
            self.matrix[i * n + i] = 1.0;
        }
        let each = point.within.iter().enumerate();
        let each = each.map(|(i, &weight)| (i, spread * weight, weight));
        let own = (class, point.own * point.others, 1.0);
        for (i, scale, _) in each.chain([own]).filter(|(_, _, w)| *w > NEGLIGIBLE) {
            let rows = logits.row(i).iter().zip(&point.mean);
            let apart = self.apart.iter_mut().zip(rows);
            apart.for_each(|(to, (r, mean))| *to = r - mean);
            add_square(&mut self.matrix, scale, &self.apart);
        }
        self.step.copy_from_slice(&point.gradient);
        solve(&mut self.matrix, &mut self.step)
    }

    /// Goes further up along the step; false where rounding leaves nothing to gain.
    fn climb(&mut self, event: Event) -> bool {
        let slope = dot(&self.point.gradient, &self.step);
        if slope.is_nan() || slope <= 0.0 {
            return false;
        }
        let (value, gap) = (self.point.value, self.point.gap);
        let rounding = 4.0 * f64::EPSILON * (1.0 + value.abs());
        let mut rate = 1.0;
        while rate > SHORTEST {
            let along = self.point.coordinates.iter().zip(&self.step);
            let along = self.next.coordinates.iter_mut().zip(along);
            along.for_each(|(to, (x, d))| *to = x + rate * d);
            self.next.evaluate(self.logits, event);
            let next = &self.next;
            let enough = next.value >= value + SUFFICIENT * rate * slope;
            // where the values agree to rounding, the gradient decides
            let level = slope <= 1e3 * rounding && next.value >= value - rounding;
            if (enough && next.value > value) || (level && next.gap < 0.5 * gap) {
                std::mem::swap(&mut self.point, &mut self.next);
                return true;
            }
            if slope <= rounding {
                return false;
            }
            rate *= if rate == 1.0 { 0.5 } else { 0.25 };
        }
        false
    }
}

/// The softmax in the place of its logits, and `log Σ e^z`.
pub(super) fn to_softmax(z: &mut [f64]) -> f64 {
    let largest = z.iter().fold(f64::NEG_INFINITY, |most, z| most.max(*z));
    let mut sum = 0.0;
    for z in z.iter_mut() {
        *z = (*z - largest).exp();
        sum += *z;
    }
    let scale = 1.0 / sum;
    z.iter_mut().for_each(|share| *share *= scale);
    largest + sum.ln()
}

pub(super) fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(a, b)| a * b).sum()
}

/// `M += s xxᵀ`, the lower triangle of a row-major matrix.
fn add_square(matrix: &mut [f64], scale: f64, x: &[f64]) {
    for (row, line) in matrix.chunks_exact_mut(x.len()).enumerate() {
        let factor = scale * x[row];
        for (entry, r) in line[..=row].iter_mut().zip(x) {
            *entry += factor * r;
        }
    }
}

/// Solves `Mx = b` in the place of `b` for a symmetric `M`, row-major with its lower triangle
/// filled in, by `M = LLᵀ`; false unless `M` is positive definite.
fn solve(matrix: &mut [f64], right: &mut [f64]) -> bool {
    let n = right.len();
    for i in 0..n {
        let (above, line) = matrix.split_at_mut(i * n);
        for j in 0..i {
            let other = &above[j * n..=j * n + j];
            line[j] = (line[j] - dot(&line[..j], &other[..j])) * other[j];
        }
        let sum = line[i];
        let pivot = sum - dot(&line[..i], &line[..i]);
        // what is left of a pivot lost in rounding has no meaning
        if pivot.is_nan() || pivot <= n as f64 * f64::EPSILON * sum {
            return false;
        }
        // the inverse of the diagonal, which is only divided by
        line[i] = 1.0 / pivot.sqrt();
        right[i] = (right[i] - dot(&line[..i], &right[..i])) * line[i];
    }
    for i in (0..n).rev() {
        right[i] *= matrix[i * n + i];
        let value = right[i];
        for (j, entry) in right[..i].iter_mut().enumerate() {
            *entry -= matrix[i * n + j] * value;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn solved(matrix: &[f64], right: &[f64]) -> Option<Vec<f64>> {
        let mut right = right.to_vec();
        solve(&mut matrix.to_vec(), &mut right).then_some(right)
    }

    #[test]
    fn a_symmetric_system_is_solved_or_refused() {
        // [[4, 2], [2, 3]] (2, 3) = (14, 13); what stands above the diagonal is not read
        let x = solved(&[4.0, f64::NAN, 2.0, 3.0], &[14.0, 13.0]).unwrap();
        assert!((x[0] - 2.0).abs() < 1e-15 && (x[1] - 3.0).abs() < 1e-15);
        assert_eq!(solved(&[1.0, 2.0, 2.0, 4.0], &[1.0, 1.0]), None);
        assert_eq!(solved(&[1.0, 2.0, 2.0, 1.0], &[1.0, 1.0]), None);
        assert_eq!(solved(&[], &[]), Some(vec![]));
    }

    #[test]
    fn softmax_survives_extremes() {
        let mut p = [1e4, 1e4, -1e4];
        assert_eq!(to_softmax(&mut p), 1e4 + 2f64.ln());
        assert_eq!(p, [0.5, 0.5, 0.0]);
        let mut w = [f64::NEG_INFINITY, 3.0, 3.0];
        assert!((to_softmax(&mut w) - 3.0 - 2f64.ln()).abs() < 1e-15);
        assert_eq!(w, [0.0, 0.5, 0.5]);
    }

    #[test]
    fn gradient_and_step_are_those_of_the_value() {
        let covariance = [1.3, 0.2, -0.1, 0.2, 0.8, 0.3, -0.1, 0.3, 2.0];
        let logits = Logits::new(&[0.4, -0.3, 0.1], &covariance).unwrap();
        for event in [Event::Class(1), Event::Not(1)] {
            let at = |x: &[f64]| {
                let mut point = Point::empty(&logits);
                point.coordinates.copy_from_slice(x);
                point.evaluate(&logits, event);
                point
            };
            let (here, h) = ([0.3, -0.2, 0.5], 1e-5);
            let moved = |i: usize, by: f64| {
                let mut x = here;
                x[i] += by;
                at(&x)
            };
            let mut climber = Climber::new(&logits);
            climber.point = at(&here);
            assert!(climber.newton(event, false));
            for i in 0..3 {
                let (up, down) = (moved(i, h), moved(i, -h));
                let slope = (up.value - down.value) / (2.0 * h);
                assert!(
                    (climber.point.gradient[i] - slope).abs() < 1e-9,
                    "{event:?}"
                );
                // the Hessian times the step is minus the gradient
                let bend = up.gradient.iter().zip(&down.gradient);
                let bend = bend.map(|(up, down)| (up - down) / (2.0 * h));
                let image: f64 = bend.zip(&climber.step).map(|(b, s)| b * s).sum();
                assert!(
                    (image + climber.point.gradient[i]).abs() < 1e-8,
                    "{event:?}"
                );
            }
        }
    }
}
