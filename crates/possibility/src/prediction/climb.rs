//! The ascent of [`ascent`](super::ascent) in the space of the classes, `z = z₀ + Ca`: no root of
//! `C`, whole vectors, and a system of equations among the classes that weigh something.
//!
//! With `u = w - e_y` (`w` the softmax of the others, `q` the probability of `y`), the direction of
//! steepest ascent in `x = Rᵀa` is `Rᵀb` for `b = -(1-q)u - a` of the class and `b = qu - a` of the
//! others, and half its square `½bᵀCb`. Newton's step is `Rᵀc` for
//!
//! ```text
//! c = b₁ - s Σ_i y_i √w_i (e_i - w) + sτ(ζᵀy)u     b₁ = b - τ(uᵀCb)u     τ = q(1-q)/(1+q(1-q)uᵀCu)
//! Ay = (√w_i (e_i-w)ᵀCb₁)_i
//! A_ij = δ_ij + s(√w_i√w_j (e_i-w)ᵀC(e_j-w) - τζ_iζ_j)
//! ```
//!
//! with `ζ_i = √w_i (e_i-w)ᵀCu`, by Woodbury's formula; `A` is positive definite where the Hessian
//! is negative definite. Classes of little weight may be left out of `A`, which then has the size
//! of those that are kept; the step becomes less exact, the values do not.

use faer::linalg::matmul::matmul;
use faer::linalg::solvers::{Llt, Solve};
use faer::{Accum, Mat, MatMut, MatRef, Par, Side};

use super::ascent::{Event, NEGLIGIBLE, SETTLED, SHORTEST, STEPS, SUFFICIENT, Top};
use super::lanes::{
    Eight, LANES, Task, dot, dots, exponentials, largest, logistic, map_four, map_two, multiply,
    one, scale, sum_of, three, two, widest,
};
use crate::numeric::multiply_add;

/// Classes up to which all of them enter the system of equations.
const FEW: usize = 32;
/// What a class that is left out may add to a curvature that is at least 1, and what all of them
/// may add to its mean.
const LEFT_OUT: f64 = 0.02;
const ALL_LEFT_OUT: f64 = 0.1;
/// Half the squared gradient, relative to `1 + |log P̄|`, above which rounding was in the way.
const FLAT: f64 = 1e-13;
/// Ascents that advance together.
const TOGETHER: usize = 32;

/// Logits at the mode and their covariance, rows padded: the former with minus infinity, the latter
/// with zeros.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'a> {
    pub mode: &'a [f64],
    pub covariance: &'a [f64],
    pub classes: usize,
    /// Of the covariance.
    pub rank: usize,
}

impl Field<'_> {
    #[inline(always)]
    fn stride(&self) -> usize {
        self.mode.len()
    }

    #[inline(always)]
    pub(super) fn row(&self, class: usize) -> &[f64] {
        &self.covariance[class * self.stride()..(class + 1) * self.stride()]
    }
}

/// Where an ascent starts: at the mode, or where `share` of the difference moves a logit up against
/// another one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    pub up: usize,
    pub down: usize,
    pub share: f64,
}

impl From<(usize, usize, f64)> for Start {
    fn from((up, down, share): (usize, usize, f64)) -> Self {
        Self { up, down, share }
    }
}

/// Where an ascent ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    pub top: Top,
    /// `|x|²`.
    pub squared: f64,
    /// The gradient is zero to what rounding may leave.
    pub settled: bool,
}

/// A point of an ascent, and the step from it.
#[derive(Debug)]
pub(super) struct Climb {
    event: Event,
    /// `a`, `Ca`.
    a: Vec<f64>,
    moved: Vec<f64>,
    /// `w`.
    within: Vec<f64>,
    /// `b`, `Cb`.
    b: Vec<f64>,
    slope: Vec<f64>,
    /// The point that the step starts from, the step, and `Ca` at its end.
    from: Vec<f64>,
    from_moved: Vec<f64>,
    step: Vec<f64>,
    whole: Vec<f64>,
    /// `q`, and `1 - q` without the cancellation.
    own: f64,
    others: f64,
    value: f64,
    gap: f64,
    /// Value, gap and `|x|²` where the step starts.
    known: Option<(f64, f64, f64)>,
    /// What the step promises to gain at first.
    promised: f64,
    squared: f64,
    steps: usize,
}

/// Memory for the system of equations, for one ascent after another.
#[derive(Debug, Default)]
pub(super) struct Equations {
    matrix: Vec<f64>,
    right: Vec<f64>,
    root: Vec<f64>,
    zeta: Vec<f64>,
    /// `Cu`, `Cw`.
    toward: Vec<f64>,
    mean: Vec<f64>,
    kept: Vec<usize>,
}

impl Climb {
    pub(super) fn new(field: &Field<'_>) -> Self {
        let zeros = || vec![0.0; field.stride()];
        Self {
            event: Event::Class(0),
            a: zeros(),
            moved: zeros(),
            within: zeros(),
            b: zeros(),
            slope: zeros(),
            from: zeros(),
            from_moved: zeros(),
            step: zeros(),
            whole: Vec::new(),
            own: 0.0,
            others: 0.0,
            value: 0.0,
            gap: 0.0,
            known: None,
            promised: 0.0,
            squared: 0.0,
            steps: 0,
        }
    }

    fn begin(&mut self, field: &Field<'_>, event: Event, start: Option<Start>) {
        self.event = event;
        (self.known, self.steps) = (None, 0);
        self.gap = f64::INFINITY;
        self.a.fill(0.0);
        self.moved.fill(0.0);
        if let Some(Start { up, down, share }) = start {
            (self.a[up], self.a[down]) = (share, -share);
            let rows = (field.row(up), field.row(down));
            map_two(&mut self.moved, rows.0, rows.1, |u, d| share * (u - d));
        }
    }

    /// Looks at `a`, for which `Ca` is there, and goes back part of the way while that is too far;
    /// `b` is there afterwards. False where rounding leaves nothing to gain: then the known point
    /// stands.
    #[inline(always)]
    fn look<const FUSED: bool>(&mut self, field: &Field<'_>) -> bool {
        self.evaluate::<FUSED>(field);
        let Some((value, gap, squared)) = self.known else {
            return true;
        };
        let rounding = 4.0 * f64::EPSILON * (1.0 + value.abs());
        let mut rate = 1.0;
        loop {
            let enough = self.value >= value + SUFFICIENT * rate * self.promised;
            // where the values agree to rounding, the gradient decides, which is not known yet
            let level = self.promised <= 1e3 * rounding && self.value >= value - rounding;
            if (enough && self.value > value) || level {
                return true;
            }
            if self.promised <= rounding || rate <= SHORTEST {
                break;
            }
            if rate == 1.0 {
                self.whole.clone_from(&self.moved);
            }
            rate *= if rate == 1.0 { 0.5 } else { 0.25 };
            map_two(&mut self.a, &self.from, &self.step, |x, d| x + rate * d);
            map_two(&mut self.moved, &self.from_moved, &self.whole, |x, to| {
                x + rate * (to - x)
            });
            self.evaluate::<FUSED>(field);
        }
        (self.value, self.gap, self.squared) = (value, gap, squared);
        false
    }

    /// Value and `b` at the point.
    #[inline(always)]
    fn evaluate<const FUSED: bool>(&mut self, field: &Field<'_>) {
        let class = self.event.class();
        map_two(&mut self.within, field.mode, &self.moved, |z, by| z + by);
        let own = std::mem::replace(&mut self.within[class], f64::NEG_INFINITY);
        let most = largest(&self.within);
        let sum = exponentials::<FUSED>(&mut self.within, most);
        scale(&mut self.within, 1.0 / sum);
        let [own, others, log_own, log_others] = logistic::<FUSED>(own - (most + sum.ln()));
        (self.own, self.others) = (own, others);
        let (log_probability, push) = match self.event {
            Event::Class(_) => (log_own, -others),
            Event::Not(_) => (log_others, own),
        };
        map_two(&mut self.b, &self.within, &self.a, |w, a| push * w - a);
        self.b[class] = -push - self.a[class];
        self.squared = dot::<FUSED>(&self.a, &self.moved);
        self.value = log_probability - 0.5 * self.squared;
    }

    /// Takes the point as known, for whose `b` there is `Cb`, and steps on to another `a`; false
    /// where the ascent ends.
    #[inline(always)]
    fn turn<const FUSED: bool>(&mut self, field: &Field<'_>, equations: &mut Equations) -> bool {
        self.gap = 0.5 * dot::<FUSED>(&self.b, &self.slope).abs();
        if let Some((value, gap, squared)) = self.known {
            // no higher and not flatter: rounding alone is left
            if self.value <= value && self.gap.is_nan() | (self.gap >= 0.5 * gap) {
                (self.value, self.gap, self.squared) = (value, gap, squared);
                return false;
            }
        }
        if self.gap <= SETTLED * (1.0 + self.value.abs()) || self.steps == STEPS {
            return false;
        }
        self.steps += 1;
        // where the Hessian of the others is not negative definite, that of the class stands in
        let mut concave = matches!(self.event, Event::Class(_));
        let found = loop {
            let found = self.newton::<FUSED>(field, equations, concave);
            if found || concave {
                break found;
            }
            concave = true;
        };
        self.promised = dot::<FUSED>(&self.slope, &self.step);
        if !found || self.promised.is_nan() || self.promised <= 0.0 {
            return false;
        }
        self.known = Some((self.value, self.gap, self.squared));
        std::mem::swap(&mut self.from, &mut self.a);
        std::mem::swap(&mut self.from_moved, &mut self.moved);
        map_two(&mut self.a, &self.from, &self.step, |x, d| x + d);
        true
    }

    /// The step of Newton's method, with the curvature of the class in any case if `concave`; false
    /// if the Hessian is not negative definite.
    #[inline(always)]
    fn newton<const FUSED: bool>(
        &mut self,
        field: &Field<'_>,
        equations: &mut Equations,
        concave: bool,
    ) -> bool {
        let class = self.event.class();
        let (spread, pushed) = match self.event {
            Event::Class(_) => (self.others, -self.others),
            Event::Not(_) if concave => (self.others, self.own),
            Event::Not(_) => (-self.own, self.own),
        };
        let (w, h) = (&self.within[..], &self.slope[..]);
        // what hardly moves anything has the Hessian -1
        if pushed.abs() < f64::MIN_POSITIVE / f64::EPSILON {
            self.step.copy_from_slice(&self.b);
            return true;
        }
        let Equations { toward, mean, .. } = equations;
        toward.resize(w.len(), 0.0);
        mean.resize(w.len(), 0.0);
        // C(a + b) is Cu times what pushes
        let inverse = 1.0 / pushed;
        map_two(toward, h, &self.moved, |h, v| inverse * (h + v));
        map_two(mean, toward, field.row(class), |u, own| u + own);
        let (within_toward, within_slope) = dots::<FUSED>(w, toward, h);
        let middle = dot::<FUSED>(w, mean);
        let along = self.own * self.others;
        let tau = along / (1.0 + along * (within_toward - toward[class]).max(0.0));
        let back = tau * (within_slope - h[class]);
        let given = Given {
            spread,
            tau,
            back,
            within_toward,
            within_slope,
            middle,
        };
        let Some((weight, along)) = (if field.classes <= FEW {
            equations.solve_all::<FUSED>(field, w, h, &given)
        } else {
            equations.solve_some(field, w, h, &given)
        }) else {
            return false;
        };
        // what multiplies w, and u
        let (by_w, by_u) = (spread * weight, spread * tau * along - back);
        let (by_w, from) = (by_w + by_u, [&self.b[..], w, &equations.right, w]);
        map_four(&mut self.step, from, |[b, w, part, _]| {
            b + by_w * w - spread * part
        });
        self.step[class] -= by_u;
        true
    }
}

/// What the equations are made of besides vectors.
struct Given {
    /// `s`, `τ`, `τuᵀCb`.
    spread: f64,
    tau: f64,
    back: f64,
    /// `wᵀCu`, `wᵀCb`, `wᵀCw`.
    within_toward: f64,
    within_slope: f64,
    middle: f64,
}

impl Given {
    /// `ζ_i` and the right side, over `√w_i`.
    #[inline(always)]
    fn sides(&self, toward: f64, slope: f64) -> (f64, f64) {
        let apart = toward - self.within_toward;
        (apart, slope - self.within_slope - self.back * apart)
    }
}

impl Equations {
    /// Solves them for all classes; leaves `√w_i y_i` in `right`, and says their sum and `ζᵀy`.
    #[inline(always)]
    fn solve_all<const FUSED: bool>(
        &mut self,
        field: &Field<'_>,
        w: &[f64],
        h: &[f64],
        given: &Given,
    ) -> Option<(f64, f64)> {
        match w.len() / LANES {
            1 => self.solve_vectors::<FUSED, 1>(field, w, h, given),
            2 => self.solve_vectors::<FUSED, 2>(field, w, h, given),
            _ => self.solve_vectors::<FUSED, 4>(field, w, h, given),
        }
    }

    /// The same for columns of `V` vectors.
    #[inline(always)]
    fn solve_vectors<const FUSED: bool, const V: usize>(
        &mut self,
        field: &Field<'_>,
        w: &[f64],
        h: &[f64],
        given: &Given,
    ) -> Option<(f64, f64)> {
        let n = field.classes;
        self.root.resize(V * LANES, 0.0);
        self.zeta.resize(V * LANES, 0.0);
        self.right.resize(V * LANES, 0.0);
        self.matrix.resize((n + 1) * V * LANES, 0.0);
        let columns = self.matrix.as_chunks_mut().0.as_chunks_mut::<V>().0;
        let (toward, mean) = (load::<V>(&self.toward), load::<V>(&self.mean));
        let (w, h) = (load::<V>(w), load::<V>(h));
        let (mut root, mut zeta, mut right) = (w, w, w);
        for v in 0..V {
            root[v] = one(w[v], f64::sqrt);
            let apart = one(toward[v], |toward| given.sides(toward, 0.0).0);
            zeta[v] = two(root[v], apart, |root, apart| root * apart);
            let side = two(toward[v], h[v], |toward, h| given.sides(toward, h).1);
            right[v] = two(root[v], side, |root, side| root * side);
        }
        self.root.copy_from_slice(root.as_flattened());
        self.zeta.copy_from_slice(zeta.as_flattened());
        for j in 0..n {
            let (level, scale) = (self.mean[j] - given.middle, given.spread * self.root[j]);
            let tilt = given.spread * given.tau * self.zeta[j];
            let row = load::<V>(field.row(j));
            let mut column = row;
            for v in 0..V {
                let apart = two(row[v], mean[v], |c, mean| c - mean - level);
                let both = two(root[v], apart, |root, apart| scale * root * apart);
                column[v] = two(both, zeta[v], |both, zeta| both - tilt * zeta);
            }
            columns[j] = column;
            columns[j][j / LANES][j % LANES] += 1.0;
        }
        columns[n] = right;
        let y = eliminate::<FUSED, V>(columns)?;
        let (mut weight, mut along) = ([0.0; LANES], [0.0; LANES]);
        for v in 0..V {
            right[v] = two(y[v], root[v], |y, root| y * root);
            weight = two(weight, right[v], |sum, part| sum + part);
            along = three(along, y[v], zeta[v], |sum, y, zeta| sum + y * zeta);
        }
        self.right.copy_from_slice(right.as_flattened());
        Some((sum_of(weight), sum_of(along)))
    }

    /// Solves them for the classes that weigh something.
    #[inline(never)]
    fn solve_some(
        &mut self,
        field: &Field<'_>,
        w: &[f64],
        h: &[f64],
        given: &Given,
    ) -> Option<(f64, f64)> {
        let mut least = LEFT_OUT;
        loop {
            self.kept.clear();
            let mut left_out = 0.0;
            for (i, w) in w[..field.classes].iter().enumerate() {
                let variance = field.row(i)[i] - 2.0 * self.mean[i] + given.middle;
                let adds = given.spread.abs() * w * variance;
                if adds > least {
                    self.kept.push(i);
                } else {
                    left_out += adds.max(0.0);
                }
            }
            if left_out <= ALL_LEFT_OUT * field.rank as f64 || least < NEGLIGIBLE {
                break;
            }
            least *= 0.125;
        }
        let kept = &self.kept;
        self.root.clear();
        self.root.extend(kept.iter().map(|&i| w[i].sqrt()));
        self.zeta.clear();
        let sides = |&i: &usize| given.sides(self.toward[i], h[i]);
        let pairs = kept.iter().zip(&self.root);
        let zeta = pairs.map(|(i, root)| root * sides(i).0);
        self.zeta.extend(zeta);
        let mut right = Mat::zeros(kept.len(), 1);
        for (k, (i, root)) in kept.iter().zip(&self.root).enumerate() {
            right[(k, 0)] = root * sides(i).1;
        }
        let mut matrix = Mat::zeros(kept.len(), kept.len());
        for (l, &j) in kept.iter().enumerate() {
            let (level, root) = (self.mean[j] - given.middle, given.spread * self.root[l]);
            let tilt = given.spread * given.tau * self.zeta[l];
            let row = field.row(j);
            for (k, &i) in kept.iter().enumerate().skip(l) {
                let apart = row[i] - self.mean[i] - level;
                matrix[(k, l)] = root * self.root[k] * apart - tilt * self.zeta[k];
            }
            matrix[(l, l)] += 1.0;
        }
        let factor = Llt::new(matrix.as_ref(), Side::Lower).ok()?;
        factor.solve_in_place(right.as_mut());
        self.right.clear();
        self.right.resize(w.len(), 0.0);
        let (mut weight, mut along) = (0.0, 0.0);
        for (k, &i) in kept.iter().enumerate() {
            let part = self.root[k] * right[(k, 0)];
            self.right[i] = part;
            weight += part;
            along += self.zeta[k] * right[(k, 0)];
        }
        Some((weight, along))
    }
}

#[inline(always)]
fn load<const V: usize>(x: &[f64]) -> [Eight; V] {
    let mut to = [[0.0; LANES]; V];
    for (to, from) in to.iter_mut().zip(x.as_chunks().0) {
        *to = *from;
    }
    to
}

/// Solves `Mx = b` for a symmetric `M`, whose columns `b` follows, by `M = LDLᵀ`; `None` unless `M`
/// is positive definite.
#[inline(always)]
fn eliminate<const FUSED: bool, const V: usize>(columns: &mut [[Eight; V]]) -> Option<[Eight; V]> {
    let n = columns.len() - 1;
    let least = n as f64 * f64::EPSILON;
    let mut solved = [[0.0; LANES]; V];
    for j in 0..n {
        let column = columns[j];
        let pivot = columns[j][j / LANES][j % LANES];
        // the diagonal was about 1 or larger, but for what was taken from it
        if pivot.is_nan() || pivot <= least {
            return None;
        }
        let inverse = 1.0 / pivot;
        for (i, later) in columns[j + 1..].iter_mut().enumerate() {
            // the entry of the column, or of the right side in the last one
            let entry = match j + 1 + i {
                i if i < n => column[i / LANES][i % LANES],
                _ => later[j / LANES][j % LANES],
            };
            let factor = [-entry * inverse; LANES];
            let mut found = *later;
            for v in 0..V {
                found[v] = three(found[v], factor, column[v], |to, factor, c| {
                    multiply_add::<FUSED>(factor, c, to)
                });
            }
            // the right side of the rows before is solved already
            if j + 1 + i == n {
                for v in 0..V {
                    for l in 0..LANES {
                        found[v][l] = if v * LANES + l <= j {
                            later[v][l]
                        } else {
                            found[v][l]
                        };
                    }
                }
            }
            *later = found;
        }
    }
    let right = columns[n];
    for j in (0..n).rev() {
        let column = columns[j];
        let mut sums = [0.0; LANES];
        for v in 0..V {
            sums = three(sums, column[v], solved[v], |sum, c, x| {
                multiply_add::<FUSED>(c, x, sum)
            });
        }
        let pivot = columns[j][j / LANES][j % LANES];
        let x = (right[j / LANES][j % LANES] - sum_of(sums)) / pivot;
        for (v, lanes) in solved.iter_mut().enumerate() {
            for (l, entry) in lanes.iter_mut().enumerate() {
                *entry = if v * LANES + l == j { x } else { *entry };
            }
        }
    }
    Some(solved)
}

/// [`Climb::look`], and the product with `C` if it is wanted. A step is made of two such tasks,
/// each of which is compiled once for every instruction set.
struct Look<'a> {
    climb: &'a mut Climb,
    field: &'a Field<'a>,
    multiply: bool,
}

impl Task for Look<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<const FUSED: bool>(self) -> bool {
        let goes_on = self.climb.look::<FUSED>(self.field);
        if goes_on && self.multiply {
            let Climb { b, slope, .. } = self.climb;
            multiply::<FUSED>(self.field.covariance, b, slope);
        }
        goes_on
    }
}

/// [`Climb::turn`], and the product with `C` if it is wanted.
struct Turn<'a> {
    climb: &'a mut Climb,
    field: &'a Field<'a>,
    equations: &'a mut Equations,
    multiply: bool,
}

impl Task for Turn<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<const FUSED: bool>(self) -> bool {
        let goes_on = self.climb.turn::<FUSED>(self.field, self.equations);
        if goes_on && self.multiply {
            let Climb { a, moved, .. } = self.climb;
            multiply::<FUSED>(self.field.covariance, a, moved);
        }
        goes_on
    }
}

/// One ascent after another, in the same memory.
#[derive(Debug)]
pub(super) struct Alone {
    climb: Climb,
    equations: Equations,
}

impl Alone {
    pub(super) fn new(field: &Field<'_>) -> Self {
        Self {
            climb: Climb::new(field),
            equations: Equations::default(),
        }
    }

    pub(super) fn ascend(&mut self, field: &Field<'_>, event: Event, start: Option<Start>) -> End {
        let Self { climb, equations } = self;
        climb.begin(field, event, start);
        loop {
            let goes_on = widest(Look {
                climb,
                field,
                multiply: true,
            });
            let goes_on = goes_on
                && widest(Turn {
                    climb,
                    field,
                    equations,
                    multiply: true,
                });
            if !goes_on {
                return climb.end();
            }
        }
    }
}

impl Climb {
    fn end(&self) -> End {
        End {
            top: Top {
                log_value: self.value,
                gap: self.gap,
            },
            squared: self.squared,
            settled: self.gap <= FLAT * (1.0 + self.value.abs()),
        }
    }
}

/// Ascents for many classes, a few at a time, so that the products with `C` are those of matrices.
fn ascend_abreast(field: &Field<'_>, starts: &[(Event, Option<Start>)]) -> Vec<End> {
    let stride = field.stride();
    let width = TOGETHER.min(starts.len());
    let mut ends: Vec<Option<End>> = vec![None; starts.len()];
    let mut equations = Equations::default();
    let mut columns = vec![0.0; stride * width];
    let mut products = vec![0.0; stride * width];
    // those on their way, with their numbers
    let mut climbs: Vec<(usize, Climb)> = Vec::new();
    let mut next = 0;
    loop {
        while climbs.len() < width && next < starts.len() {
            let mut climb = Climb::new(field);
            let (event, start) = starts[next];
            climb.begin(field, event, start);
            climbs.push((next, climb));
            next += 1;
        }
        if climbs.is_empty() {
            break;
        }
        let mut keep = |(number, climb): &(usize, Climb), goes_on: bool| {
            if !goes_on {
                ends[*number] = Some(climb.end());
            }
            goes_on
        };
        climbs.retain_mut(|one| {
            let goes_on = widest(Look {
                climb: &mut one.1,
                field,
                multiply: false,
            });
            keep(one, goes_on)
        });
        let room = (&mut columns[..], &mut products[..]);
        multiply_each(field, &mut climbs, room, |climb| {
            (&climb.b, &mut climb.slope)
        });
        climbs.retain_mut(|one| {
            let goes_on = widest(Turn {
                climb: &mut one.1,
                field,
                equations: &mut equations,
                multiply: false,
            });
            keep(one, goes_on)
        });
        let room = (&mut columns[..], &mut products[..]);
        multiply_each(field, &mut climbs, room, |climb| {
            (&climb.a, &mut climb.moved)
        });
    }
    ends.into_iter().flatten().collect()
}

/// `C` times a vector of every ascent, into another one of it.
fn multiply_each(
    field: &Field<'_>,
    climbs: &mut [(usize, Climb)],
    (columns, products): (&mut [f64], &mut [f64]),
    vectors: impl for<'c> Fn(&'c mut Climb) -> (&'c [f64], &'c mut [f64]),
) {
    let stride = field.stride();
    for ((_, climb), column) in climbs.iter_mut().zip(columns.chunks_exact_mut(stride)) {
        column.copy_from_slice(vectors(climb).0);
    }
    multiply_columns(field, columns, climbs.len(), products);
    for ((_, climb), product) in climbs.iter_mut().zip(products.chunks_exact(stride)) {
        vectors(climb).1.copy_from_slice(product);
    }
}

/// `C` times some columns.
fn multiply_columns(field: &Field<'_>, columns: &[f64], count: usize, products: &mut [f64]) {
    let (n, stride) = (field.classes, field.stride());
    if count == 0 {
        return;
    }
    // C is symmetric
    let c = MatRef::from_column_major_slice_with_stride(field.covariance, n, n, stride);
    let columns = MatRef::from_column_major_slice_with_stride(columns, n, count, stride);
    let products = MatMut::from_column_major_slice_with_stride_mut(products, n, count, stride);
    matmul(products, Accum::Replace, c, columns, 1.0, Par::Seq);
}

/// The ascents one after another where there are few classes, abreast where there are many.
pub(super) fn ascend_each(field: &Field<'_>, starts: &[(Event, Option<Start>)]) -> Vec<End> {
    if field.classes > FEW {
        return ascend_abreast(field, starts);
    }
    let mut alone = Alone::new(field);
    let each = starts.iter();
    each.map(|&(event, start)| alone.ascend(field, event, start))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::ascent::Climber;
    use super::super::twin::{drawn, number};
    use super::*;

    const EVENTS: [Event; 2] = [Event::Class(1), Event::Not(1)];

    #[test]
    fn the_step_is_that_of_newton() {
        for (classes, weights) in [(3, 4), (10, 12), (10, 3), (20, 25), (40, 50)] {
            let logits = drawn(classes, weights, 2.0, 0.8);
            let field = logits.field();
            for event in EVENTS {
                let mut climb = Climb::new(&field);
                let mut seed = 5;
                let here: Vec<f64> = (0..classes).map(|_| 0.1 * number(&mut seed)).collect();
                let mut slope_at = |by: f64, step: &[f64]| {
                    climb.begin(&field, event, None);
                    for (a, (x, d)) in climb.a.iter_mut().zip(here.iter().zip(step)) {
                        *a = x + by * d;
                    }
                    multiply::<false>(field.covariance, &climb.a, &mut climb.moved);
                    assert!(climb.look::<false>(&field));
                    multiply::<false>(field.covariance, &climb.b, &mut climb.slope);
                    climb.slope.clone()
                };
                let none = vec![0.0; field.stride()];
                let slope = slope_at(0.0, &none);
                let mut equations = Equations::default();
                assert!(climb.newton::<false>(&field, &mut equations, false));
                let step = climb.step.clone();
                // the Hessian times the step is minus the gradient
                let h = 1e-5;
                let mut slope_at = |by: f64| {
                    climb.begin(&field, event, None);
                    for (a, (x, d)) in climb.a.iter_mut().zip(here.iter().zip(&step)) {
                        *a = x + by * d;
                    }
                    multiply::<false>(field.covariance, &climb.a, &mut climb.moved);
                    climb.look::<false>(&field);
                    multiply::<false>(field.covariance, &climb.b, &mut climb.slope);
                    climb.slope.clone()
                };
                let (up, down) = (slope_at(h), slope_at(-h));
                let size = slope.iter().fold(0.0f64, |most, s| most.max(s.abs()));
                // where classes are left out, the step is not exact
                let exact = if classes <= FEW { 1e-7 } else { 0.3 };
                let level = (up[0] - down[0]) / (2.0 * h) + slope[0];
                for i in 0..classes {
                    // what moves all logits alike is no direction
                    let off = (up[i] - down[i]) / (2.0 * h) + slope[i] - level;
                    assert!(off.abs() <= exact * size, "{classes} {weights} {event:?}");
                }
            }
        }
    }

    #[test]
    fn all_classes_and_those_that_weigh_something_give_one_step() {
        let logits = drawn(12, 15, 2.0, 5.0);
        let field = logits.field();
        let mut climb = Climb::new(&field);
        climb.begin(&field, Event::Class(3), None);
        climb.look::<false>(&field);
        multiply::<false>(field.covariance, &climb.b, &mut climb.slope);
        let mut equations = Equations::default();
        climb.newton::<false>(&field, &mut equations, true);
        let w = climb.within.clone();
        let given = Given {
            spread: climb.others,
            tau: 0.1,
            back: 0.02,
            within_toward: dot::<false>(&w, &equations.toward),
            within_slope: dot::<false>(&w, &climb.slope),
            middle: dot::<false>(&w, &equations.mean),
        };
        let all = equations.solve_all::<false>(&field, &w, &climb.slope, &given);
        let right = equations.right.clone();
        let some = equations.solve_some(&field, &w, &climb.slope, &given);
        let (all, some) = (all.unwrap(), some.unwrap());
        assert!((all.0 - some.0).abs() < 0.1 * (1.0 + all.0.abs()));
        assert!((all.1 - some.1).abs() < 0.1 * (1.0 + all.1.abs()));
        for (a, b) in right.iter().zip(&equations.right) {
            assert!((a - b).abs() < 0.1 * (1.0 + a.abs()), "{a} {b}");
        }
    }

    #[test]
    fn alone_and_abreast_end_where_the_root_of_the_covariance_does() {
        for (classes, weights) in [(2, 3), (10, 12), (10, 2), (40, 60), (70, 8)] {
            for variance in [1e-3, 1.0, 100.0] {
                let logits = drawn(classes, weights, 4.0, variance);
                let field = logits.field();
                let mut climber = Climber::new(&logits);
                let classes = 0..classes.min(7);
                let starts: Vec<_> = (classes.map(|k| (Event::Class(k), None)))
                    .chain([(Event::Class(0), Some((0, 1, 0.3).into()))])
                    .collect();
                let abreast = ascend_abreast(&field, &starts);
                let mut alone = Alone::new(&field);
                for (&(event, start), abreast) in starts.iter().zip(abreast) {
                    let one = alone.ascend(&field, event, start);
                    let start = start.map(|s| (s.up, s.down, s.share));
                    let want = climber.ascend(event, start);
                    for end in [one, abreast] {
                        let off = (end.top.log_value - want.log_value).abs();
                        assert!(off <= 1e-13 * (1.0 + want.log_value.abs()), "{off}");
                        assert!(end.settled);
                    }
                }
            }
        }
    }

    #[test]
    fn equations_are_solved_or_refused() {
        // [[4, 2], [2, 3]] (2, 3) = (14, 13)
        let solve = |matrix: [f64; 4], right: [f64; 2]| {
            let mut columns = [[[0.0; 8]]; 3];
            let parts = [&matrix[..2], &matrix[2..], &right];
            for (column, part) in columns.iter_mut().zip(parts) {
                column[0][..2].copy_from_slice(part);
            }
            eliminate::<false, 1>(&mut columns).map(|x| [x[0][0], x[0][1]])
        };
        let x = solve([4.0, 2.0, 2.0, 3.0], [14.0, 13.0]).unwrap();
        assert!((x[0] - 2.0).abs() < 1e-15 && (x[1] - 3.0).abs() < 1e-15);
        assert_eq!(solve([1.0, 2.0, 2.0, 4.0], [1.0, 1.0]), None);
        assert_eq!(solve([1.0, 2.0, 2.0, 1.0], [1.0, 1.0]), None);
    }
}
