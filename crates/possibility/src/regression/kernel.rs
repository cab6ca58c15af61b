//! Passes over the data. [`evaluate_each`]: the loss `ℓ(w) = Σ cᵢ(b(zᵢ) - yᵢzᵢ)`, its gradient, its
//! Hessian and, for a Bernoulli response, the curvature of its quadratic majorizer, all together
//! and for several `w` at once. [`greatest_leverage`]: `maxᵢ (xᵢᵀH⁻¹xᵢ)^½`. [`chord_curvatures`]:
//! the curvatures of parabolas below and above each row's loss.
//!
//! | Bernoulli | per row, with `t = ±z` for `y = 0, 1`, `a = abs(t)` and `u = e⁻ᵃ` |
//! |---|---|
//! | loss | `max(t, 0) + log(1 + u)` |
//! | residual `∂ℓ/∂z` | `±σ(t)` |
//! | curvature `σ'(t)` | `u / (1 + u)²`, at most 1/4 |
//! | majorizer `tanh(a/2) / (2a)` | `(1 - u) / (2a (1 + u))`, at most 1/4, 1/4 at 0 |
//!
//! [`scalar_twin`] is the same, written the obvious way. The passes work on blocks of rows with the
//! widest vectors the processor has, found at run time. Sums are taken over fixed groups of blocks
//! and added in a fixed order, so that the number of threads changes no bit of the result.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use faer::MatRef;
use pulp::{Arch, Simd, WithSimd};

use super::design::{BLOCK_ROWS, BlockView, Design};
use super::response::Response;
use crate::numeric::{exp_negative, log_1p_unit};

/// What a pass must compute. Each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Demand {
    /// The loss.
    Loss,
    /// And its gradient.
    Gradient,
    /// And its Hessian.
    Curvature,
    /// And the curvature of its majorizer.
    Majorizer,
}

/// Sums over rows. What was not demanded is empty; of a matrix only the lower triangle is filled.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Evaluation {
    /// `ℓ(w)`.
    pub loss: f64,
    /// `∇ℓ(w)`.
    pub gradient: Vec<f64>,
    /// `∇²ℓ(w)`, `[d, d]` row after row.
    pub curvature: Vec<f64>,
    /// `Σ cᵢ tanh(aᵢ/2)/(2aᵢ) xᵢxᵢᵀ`, `[d, d]` row after row.
    pub majorizer: Vec<f64>,
}

impl Evaluation {
    fn zero(columns: usize, demand: Demand) -> Self {
        let size = |needed: Demand, size: usize| if demand >= needed { size } else { 0 };
        Self {
            loss: 0.0,
            gradient: vec![0.0; size(Demand::Gradient, columns)],
            curvature: vec![0.0; size(Demand::Curvature, columns * columns)],
            majorizer: vec![0.0; size(Demand::Majorizer, columns * columns)],
        }
    }

    fn add(&mut self, other: &Self) {
        self.loss += other.loss;
        let pairs = [
            (&mut self.gradient, &other.gradient),
            (&mut self.curvature, &other.curvature),
            (&mut self.majorizer, &other.majorizer),
        ];
        for (sum, terms) in pairs {
            for (sum, term) in sum.iter_mut().zip(terms) {
                *sum += term;
            }
        }
    }
}

/// The pass at several points, each with its own demand, by at most `threads` threads; any number
/// gives the same bits, and so does any company of points.
///
/// # Panics
/// The number of coefficients is not the number of columns.
pub(super) fn evaluate_each(
    design: &Design,
    requests: &[(&[f64], Demand)],
    threads: usize,
) -> Vec<Evaluation> {
    evaluate_on(Arch::new(), design, requests, threads)
}

/// Below this many multiplications a second thread costs more than it saves.
const SMALL_WORK: usize = 1 << 18;

/// [`evaluate_each`] with a given instruction set.
fn evaluate_on(
    arch: Arch,
    design: &Design,
    requests: &[(&[f64], Demand)],
    threads: usize,
) -> Vec<Evaluation> {
    let columns = design.columns();
    for (coefficients, _) in requests {
        assert_eq!(
            coefficients.len(),
            columns,
            "one coefficient for each column"
        );
    }
    let zero = || -> Vec<Evaluation> {
        let zero = |(_, demand): &(_, Demand)| Evaluation::zero(columns, *demand);
        requests.iter().map(zero).collect()
    };
    let partials = over_groups(design, threads, zero, |blocks, scratch, sums| {
        arch.dispatch(Group {
            design,
            blocks,
            requests,
            scratch,
            sums,
        });
    });
    let mut totals = zero();
    for partial in &partials {
        for (total, partial) in totals.iter_mut().zip(partial) {
            total.add(partial);
        }
    }
    totals
}

/// Runs `work` on every group of blocks, each with a sum of its own that starts at `zero`.
pub(super) fn over_groups<T: Send>(
    design: &Design,
    threads: usize,
    zero: impl Fn() -> T,
    work: impl Fn(Range<usize>, &mut Scratch, &mut T) + Sync,
) -> Vec<T> {
    let columns = design.columns();
    let groups = group_count(design.block_count(), columns);
    let mut partials: Vec<T> = (0..groups).map(|_| zero()).collect();
    let serve = |queue: &Mutex<std::iter::Enumerate<std::slice::IterMut<'_, T>>>| {
        let mut scratch = Box::<Scratch>::default();
        loop {
            // the lock is never held while a sum is taken, so that it cannot be poisoned half-way
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
            let Some((group, sum)) = next else { break };
            let first = group * design.block_count() / groups;
            let last = (group + 1) * design.block_count() / groups;
            work(first..last, &mut scratch, sum);
        }
    };
    let size = design.rows() * columns * (columns + 8);
    let threads = if size < SMALL_WORK {
        1
    } else {
        threads.clamp(1, groups.max(1))
    };
    {
        let queue = Mutex::new(partials.iter_mut().enumerate());
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(|| serve(&queue));
            }
            serve(&queue);
        });
    }
    partials
}

/// Groups of blocks that are summed on their own: enough for many threads to share, few enough for
/// their sums to stay small beside the data. It depends on the size of the data alone.
fn group_count(blocks: usize, columns: usize) -> usize {
    const MOST: usize = 256;
    const LEAST: usize = 16;
    const NUMBERS: usize = 1 << 22;
    blocks.min((NUMBERS / (columns * columns + columns + 1)).clamp(LEAST, MOST))
}

/// One number for each row of a block, on cache lines.
#[derive(Debug, Clone, Copy)]
#[repr(align(64))]
pub(super) struct Rows(pub(super) [f64; BLOCK_ROWS]);

impl Default for Rows {
    fn default() -> Self {
        Self([0.0; BLOCK_ROWS])
    }
}

/// Columns in the widest tile of the Hessian.
const TILE: usize = 4;

/// Working memory of a thread.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    linear: Rows,
    loss: Rows,
    residual: Rows,
    curvature: Rows,
    majorizer: Rows,
    scaled: [Rows; TILE],
    /// One for each column, for the leverages alone.
    solved: Vec<Rows>,
}

/// The sums over a group of blocks, for every point.
struct Group<'a> {
    design: &'a Design,
    blocks: Range<usize>,
    requests: &'a [(&'a [f64], Demand)],
    scratch: &'a mut Scratch,
    sums: &'a mut [Evaluation],
}

impl WithSimd for Group<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let response = self.design.response();
        for b in self.blocks.clone() {
            let block = self.design.block(b);
            for (&(coefficients, demand), sum) in self.requests.iter().zip(&mut *self.sums) {
                add_block(
                    simd,
                    response,
                    &block,
                    coefficients,
                    demand,
                    self.scratch,
                    sum,
                );
            }
        }
    }
}

/// Adds a block at one point.
#[inline(always)]
fn add_block<S: Simd>(
    simd: S,
    response: Response,
    block: &BlockView<'_>,
    coefficients: &[f64],
    demand: Demand,
    scratch: &mut Scratch,
    total: &mut Evaluation,
) {
    // rows are padded to whole vectors: the matrix is zero there, and so is every factor below
    let padded = block.responses.len().next_multiple_of(8);
    linear_predictor(simd, block, padded, coefficients, &mut scratch.linear);
    let majorize = demand == Demand::Majorizer && response == Response::Bernoulli;
    match response {
        Response::Bernoulli => match (S::IS_SCALAR, majorize) {
            (true, false) => respond_bernoulli::<false, false>(block, scratch),
            (true, true) => respond_bernoulli::<false, true>(block, scratch),
            (false, false) => respond_bernoulli::<true, false>(block, scratch),
            (false, true) => respond_bernoulli::<true, true>(block, scratch),
        },
        Response::Poisson => respond(block, scratch, |y, z| {
            let mean = z.exp();
            (mean - y * z, mean - y, mean)
        }),
        Response::Normal => respond(block, scratch, |y, z| (0.5 * (z - y) * (z - y), z - y, 1.0)),
    }
    let Scratch {
        loss,
        residual,
        curvature,
        majorizer,
        scaled,
        ..
    } = scratch;
    total.loss += sum(simd, &loss.0[..padded]);
    if demand >= Demand::Gradient {
        add_gradient(simd, block, &residual.0[..padded], &mut total.gradient);
    }
    if demand >= Demand::Curvature {
        let factor = &curvature.0[..padded];
        add_gram(simd, block, factor, scaled, &mut total.curvature);
    }
    if majorize {
        let factor = &majorizer.0[..padded];
        add_gram(simd, block, factor, scaled, &mut total.majorizer);
    }
}

/// `maxᵢ (xᵢᵀ(LLᵀ)⁻¹xᵢ)^½` over the rows that count.
pub(super) fn greatest_leverage(design: &Design, factor: MatRef<'_, f64>, threads: usize) -> f64 {
    let arch = Arch::new();
    let partials = over_groups(
        design,
        threads,
        || 0.0,
        |blocks, scratch, most: &mut f64| {
            for b in blocks {
                let block = design.block(b);
                arch.dispatch(Leverages {
                    block: &block,
                    factor,
                    scratch,
                });
                for (i, &leverage) in scratch.loss.0[..block.responses.len()].iter().enumerate() {
                    if block.weights.is_none_or(|weights| weights[i] > 0.0) {
                        // a NaN comes through and spoils every certificate
                        *most = if leverage <= *most { *most } else { leverage };
                    }
                }
            }
        },
    );
    partials.into_iter().fold(0.0, f64::max).sqrt()
}

/// `Σ cᵢ κᵢ xᵢxᵢᵀ` twice, with the least and the greatest chord curvature of each row's loss within
/// reach of its linear predictor: the least of `size · (xᵢᵀ(LLᵀ)⁻¹xᵢ)^½` over the given pairs of a
/// size and a factor `L`. Lower triangles, row after row.
pub(super) fn chord_curvatures(
    design: &Design,
    coefficients: &[f64],
    reaches: &[(f64, MatRef<'_, f64>)],
    threads: usize,
) -> [Vec<f64>; 2] {
    let columns = design.columns();
    let arch = Arch::new();
    let zero = || [vec![0.0; columns * columns], vec![0.0; columns * columns]];
    let partials = over_groups(design, threads, zero, |blocks, scratch, sums| {
        for b in blocks {
            let block = design.block(b);
            let n = block.responses.len();
            let mut reach = [f64::INFINITY; BLOCK_ROWS];
            for &(size, factor) in reaches {
                arch.dispatch(Leverages {
                    block: &block,
                    factor,
                    scratch,
                });
                for (reach, square) in reach[..n].iter_mut().zip(&scratch.loss.0) {
                    *reach = reach.min(size * square.sqrt());
                }
            }
            arch.dispatch(Chords {
                response: design.response(),
                block: &block,
                coefficients,
                reach: &reach[..n],
                scratch,
                sums,
            });
        }
    });
    let mut totals = zero();
    for partial in &partials {
        for (total, partial) in totals.iter_mut().zip(partial) {
            for (total, term) in total.iter_mut().zip(partial) {
                *total += term;
            }
        }
    }
    totals
}

/// `xᵢᵀ(LLᵀ)⁻¹xᵢ` of each row of a block, into `scratch.loss`.
struct Leverages<'a> {
    block: &'a BlockView<'a>,
    factor: MatRef<'a, f64>,
    scratch: &'a mut Scratch,
}

impl WithSimd for Leverages<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let padded = self.block.responses.len().next_multiple_of(8);
        let columns = self.factor.nrows();
        self.scratch.solved.resize_with(columns, Rows::default);
        let total = S::as_mut_simd_f64s(&mut self.scratch.loss.0[..padded]).0;
        let n = total.len();
        total.fill(simd.splat_f64s(0.0));
        for j in 0..self.factor.nrows() {
            // entry j of L⁻¹x: (x_j - Σ L_jk y_k)/L_jj
            let (solved, rest) = self.scratch.solved.split_at_mut(j);
            let y = &mut S::as_mut_simd_f64s(&mut rest[0].0[..padded]).0[..n];
            y.copy_from_slice(&column(simd, self.block, j, padded)[..n]);
            for (k, known) in solved.iter().enumerate() {
                let known = &S::as_simd_f64s(&known.0[..padded]).0[..n];
                let entry = simd.splat_f64s(-self.factor[(j, k)]);
                for v in 0..n {
                    y[v] = simd.mul_add_e_f64s(entry, known[v], y[v]);
                }
            }
            let inverse = simd.splat_f64s(self.factor[(j, j)].recip());
            for v in 0..n {
                y[v] = simd.mul_f64s(y[v], inverse);
                total[v] = simd.mul_add_e_f64s(y[v], y[v], total[v]);
            }
        }
    }
}

/// Both chord curvatures of the rows of a block.
struct Chords<'a> {
    response: Response,
    block: &'a BlockView<'a>,
    coefficients: &'a [f64],
    reach: &'a [f64],
    scratch: &'a mut Scratch,
    sums: &'a mut [Vec<f64>; 2],
}

impl WithSimd for Chords<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (block, n) = (self.block, self.block.responses.len());
        let padded = n.next_multiple_of(8);
        let Scratch {
            linear,
            curvature,
            majorizer,
            scaled,
            ..
        } = self.scratch;
        linear_predictor(simd, block, padded, self.coefficients, linear);
        for values in [&mut curvature.0, &mut majorizer.0] {
            values[n..padded].fill(0.0);
        }
        for i in 0..n {
            let (z, reach) = (linear.0[i], self.reach[i]);
            let weight = block.weights.map_or(1.0, |weights| weights[i]);
            curvature.0[i] = weight * self.response.least_chord(z, reach);
            majorizer.0[i] = weight * self.response.greatest_chord(z, reach);
        }
        let [least, greatest] = self.sums;
        add_gram(simd, block, &curvature.0[..padded], scaled, least);
        add_gram(simd, block, &majorizer.0[..padded], scaled, greatest);
    }
}

/// The first `padded` rows of column `j`, as vectors.
#[inline(always)]
pub(super) fn column<'a, S: Simd>(
    _simd: S,
    block: &BlockView<'a>,
    j: usize,
    padded: usize,
) -> &'a [S::f64s] {
    S::as_simd_f64s(&block.values[j * BLOCK_ROWS..j * BLOCK_ROWS + padded]).0
}

/// Sum of the entries; their number is a multiple of 8.
#[inline(always)]
fn sum<S: Simd>(simd: S, values: &[f64]) -> f64 {
    let mut total = simd.splat_f64s(0.0);
    for &v in S::as_simd_f64s(values).0 {
        total = simd.add_f64s(total, v);
    }
    simd.reduce_sum_f64s(total)
}

/// `z = Xw`, four columns at a time.
#[inline(always)]
fn linear_predictor<S: Simd>(
    simd: S,
    block: &BlockView<'_>,
    padded: usize,
    coefficients: &[f64],
    linear: &mut Rows,
) {
    let z = S::as_mut_simd_f64s(&mut linear.0[..padded]).0;
    for v in z.iter_mut() {
        *v = simd.splat_f64s(0.0);
    }
    let n = z.len();
    let mut j = 0;
    while j + 4 <= coefficients.len() {
        let x0 = &column(simd, block, j, padded)[..n];
        let x1 = &column(simd, block, j + 1, padded)[..n];
        let x2 = &column(simd, block, j + 2, padded)[..n];
        let x3 = &column(simd, block, j + 3, padded)[..n];
        let w0 = simd.splat_f64s(coefficients[j]);
        let w1 = simd.splat_f64s(coefficients[j + 1]);
        let w2 = simd.splat_f64s(coefficients[j + 2]);
        let w3 = simd.splat_f64s(coefficients[j + 3]);
        for v in 0..n {
            let first = simd.mul_add_e_f64s(w1, x1[v], simd.mul_f64s(w0, x0[v]));
            let second = simd.mul_add_e_f64s(w3, x3[v], simd.mul_f64s(w2, x2[v]));
            z[v] = simd.add_f64s(z[v], simd.add_f64s(first, second));
        }
        j += 4;
    }
    while j < coefficients.len() {
        let x = &column(simd, block, j, padded)[..n];
        let w = simd.splat_f64s(coefficients[j]);
        for v in 0..n {
            z[v] = simd.mul_add_e_f64s(w, x[v], z[v]);
        }
        j += 1;
    }
}

/// `g += Xᵀr`.
#[inline(always)]
fn add_gradient<S: Simd>(simd: S, block: &BlockView<'_>, residual: &[f64], gradient: &mut [f64]) {
    let padded = residual.len();
    let r = S::as_simd_f64s(residual).0;
    let columns = gradient.len();
    let mut j = 0;
    while j + 4 <= columns {
        let sums = tile::<S, 1, 4>(simd, [r], columns_from(simd, block, j, padded));
        for (g, s) in gradient[j..j + 4].iter_mut().zip(sums[0]) {
            *g += s;
        }
        j += 4;
    }
    while j < columns {
        gradient[j] += tile::<S, 1, 1>(simd, [r], columns_from(simd, block, j, padded))[0][0];
        j += 1;
    }
}

/// Columns `j .. j + C`.
#[inline(always)]
fn columns_from<'a, S: Simd, const C: usize>(
    simd: S,
    block: &BlockView<'a>,
    j: usize,
    padded: usize,
) -> [&'a [S::f64s]; C] {
    let mut columns = [column(simd, block, j, padded); C];
    for (c, slot) in columns.iter_mut().enumerate() {
        *slot = column(simd, block, j + c, padded);
    }
    columns
}

/// Lower triangle of `Xᵀ diag(factor) X`, added to `gram` (`[d, d]` row after row).
#[inline(always)]
fn add_gram<S: Simd>(
    simd: S,
    block: &BlockView<'_>,
    factor: &[f64],
    scaled: &mut [Rows; TILE],
    gram: &mut [f64],
) {
    // a tile of 4 x 4 sums needs more than 16 registers
    if S::REGISTER_COUNT >= 32 {
        add_gram_tiled::<S, 4>(simd, block, factor, scaled, gram);
    } else {
        add_gram_tiled::<S, 3>(simd, block, factor, scaled, gram);
    }
}

#[inline(always)]
fn add_gram_tiled<S: Simd, const T: usize>(
    simd: S,
    block: &BlockView<'_>,
    factor: &[f64],
    scaled: &mut [Rows; TILE],
    gram: &mut [f64],
) {
    let columns = gram.len().isqrt();
    let mut j = 0;
    while j < columns {
        match columns - j {
            1 => add_gram_rows::<S, T, 1>(simd, block, factor, scaled, j, columns, gram),
            2 => add_gram_rows::<S, T, 2>(simd, block, factor, scaled, j, columns, gram),
            3 => add_gram_rows::<S, T, 3>(simd, block, factor, scaled, j, columns, gram),
            _ => add_gram_rows::<S, T, T>(simd, block, factor, scaled, j, columns, gram),
        }
        j += T;
    }
}

/// Rows `j .. j + R` of the lower triangle.
#[inline(always)]
fn add_gram_rows<S: Simd, const T: usize, const R: usize>(
    simd: S,
    block: &BlockView<'_>,
    factor: &[f64],
    scaled: &mut [Rows; TILE],
    j: usize,
    columns: usize,
    gram: &mut [f64],
) {
    let padded = factor.len();
    let f = S::as_simd_f64s(factor).0;
    let n = f.len();
    for (r, scaled) in scaled.iter_mut().enumerate().take(R) {
        let x = &column(simd, block, j + r, padded)[..n];
        let s = &mut S::as_mut_simd_f64s(&mut scaled.0[..padded]).0[..n];
        for v in 0..n {
            s[v] = simd.mul_f64s(f[v], x[v]);
        }
    }
    let mut left = [f; R];
    for (left, scaled) in left.iter_mut().zip(scaled.iter()) {
        *left = S::as_simd_f64s(&scaled.0[..padded]).0;
    }
    let mut k = 0;
    while k < j {
        let sums = tile::<S, R, T>(simd, left, columns_from(simd, block, k, padded));
        for (r, sums) in sums.iter().enumerate() {
            let row = (j + r) * columns + k;
            for (g, s) in gram[row..row + T].iter_mut().zip(sums) {
                *g += s;
            }
        }
        k += T;
    }
    let sums = tile::<S, R, R>(simd, left, columns_from(simd, block, j, padded));
    for (r, sums) in sums.iter().enumerate() {
        let row = (j + r) * columns + j;
        for (g, s) in gram[row..=row + r].iter_mut().zip(sums) {
            *g += s;
        }
    }
}

/// The `R·C` inner products of the left with the right columns.
#[inline(always)]
fn tile<'a, S: Simd, const R: usize, const C: usize>(
    simd: S,
    mut left: [&'a [S::f64s]; R],
    mut right: [&'a [S::f64s]; C],
) -> [[f64; C]; R] {
    let n = left[0].len();
    for column in left.iter_mut().chain(&mut right) {
        *column = &column[..n];
    }
    let mut sums = [[simd.splat_f64s(0.0); C]; R];
    for v in 0..n {
        let mut x = [right[0][v]; C];
        for c in 1..C {
            x[c] = right[c][v];
        }
        for r in 0..R {
            let l = left[r][v];
            for c in 0..C {
                sums[r][c] = simd.mul_add_e_f64s(l, x[c], sums[r][c]);
            }
        }
    }
    let mut totals = [[0.0; C]; R];
    for r in 0..R {
        for c in 0..C {
            totals[r][c] = simd.reduce_sum_f64s(sums[r][c]);
        }
    }
    totals
}

/// From the linear predictor to loss, residual and curvature of each row, zero beyond the last row.
#[inline(always)]
fn respond(
    block: &BlockView<'_>,
    scratch: &mut Scratch,
    row: impl Fn(f64, f64) -> (f64, f64, f64),
) {
    let n = block.responses.len().min(BLOCK_ROWS);
    let padded = n.next_multiple_of(8);
    let linear = &scratch.linear.0[..n];
    let responses = &block.responses[..n];
    let loss = &mut scratch.loss.0[..padded];
    let residual = &mut scratch.residual.0[..padded];
    let curvature = &mut scratch.curvature.0[..padded];
    for values in [&mut *loss, residual, curvature] {
        values[n..].fill(0.0);
    }
    for i in 0..n {
        (loss[i], residual[i], curvature[i]) = row(responses[i], linear[i]);
    }
    if let Some(weights) = block.weights {
        for values in [loss, residual, curvature] {
            multiply_rows(&mut values[..n], weights);
        }
    }
}

/// Multiplies each row by its weight; a row of weight 0 is gone, whatever it was.
#[inline(always)]
fn multiply_rows(values: &mut [f64], weights: &[f64]) {
    for (value, weight) in values.iter_mut().zip(weights) {
        *value = if *weight == 0.0 { 0.0 } else { *value * weight };
    }
}

/// [`respond`] for a Bernoulli response, with the majorizer if `MAJORIZE`. `FUSED` says that the
/// processor multiplies and adds in one instruction.
#[inline(always)]
fn respond_bernoulli<const FUSED: bool, const MAJORIZE: bool>(
    block: &BlockView<'_>,
    scratch: &mut Scratch,
) {
    let n = block.responses.len().min(BLOCK_ROWS);
    let padded = n.next_multiple_of(8);
    let linear = &scratch.linear.0[..n];
    let labels = &block.responses[..n];
    let loss = &mut scratch.loss.0[..padded];
    let residual = &mut scratch.residual.0[..padded];
    let curvature = &mut scratch.curvature.0[..padded];
    let majorizer = &mut scratch.majorizer.0[..padded];
    for values in [&mut *loss, residual, curvature, majorizer] {
        values[n..].fill(0.0);
    }
    for i in 0..n {
        // minus the label as ±1
        let sign = 1.0 - 2.0 * labels[i];
        let t = sign * linear[i];
        let a = t.abs();
        let (u, one_minus_u) = exp_negative::<FUSED>(a);
        let inverse = 1.0 / (1.0 + u);
        // max(t, 0), written so that a NaN comes through
        loss[i] = (0.5 * t + 0.5 * a) + log_1p_unit::<FUSED>(u);
        residual[i] = sign * (if t >= 0.0 { inverse } else { u * inverse });
        curvature[i] = u * inverse * inverse;
        if MAJORIZE {
            let quotient = one_minus_u * inverse / (2.0 * a);
            majorizer[i] = if a < SMALL_PREDICTOR {
                0.25 - a * a / 48.0
            } else {
                quotient
            };
        }
    }
    if let Some(weights) = block.weights {
        for values in [loss, residual, curvature, majorizer] {
            multiply_rows(&mut values[..n], weights);
        }
    }
}

/// `tanh(a/2)/(2a) = 1/4 - a²/48 + a⁴/480 - …`: the third term is below half an ulp of the first
/// here.
const SMALL_PREDICTOR: f64 = 1e-4;

/// The pass written the obvious way: one row after another, library functions, one matrix entry at
/// a time.
#[cfg(test)]
pub(super) fn scalar_twin(design: &Design, coefficients: &[f64], demand: Demand) -> Evaluation {
    let columns = design.columns();
    let response = design.response();
    let mut total = Evaluation::zero(columns, demand);
    for i in 0..design.rows() {
        let x = design.row(i);
        let z: f64 = x.iter().zip(coefficients).map(|(x, w)| x * w).sum();
        let (y, weight) = (design.observed(i), design.weight(i));
        let residual = response.mean(z) - y;
        let curvature = response.least_chord(z, 0.0);
        total.loss += weight * response.loss(y, z);
        for j in 0..columns {
            total.gradient[j] += weight * residual * x[j];
            for k in 0..=j {
                total.curvature[j * columns + k] += weight * curvature * x[j] * x[k];
                if demand == Demand::Majorizer {
                    let majorizer = response.greatest_chord(z, 0.0);
                    total.majorizer[j * columns + k] += weight * majorizer * x[j] * x[k];
                }
            }
        }
    }
    total
}

/// `tanh(abs(z)/2) / (2 abs(z))`, 1/4 at 0: the least curvature of a parabola that touches softplus
/// at `z` and lies above it everywhere (it touches again at `-z`).
pub(super) fn majorizer_curvature(z: f64) -> f64 {
    let a = z.abs();
    if a < SMALL_PREDICTOR {
        0.25 - a * a / 48.0
    } else {
        (0.5 * a).tanh() / (2.0 * a)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::{sigmoid, softplus};
    use proptest::prelude::*;

    /// Relative difference of two vectors, by their largest entries.
    fn difference(got: &[f64], want: &[f64]) -> f64 {
        assert_eq!(got.len(), want.len());
        let scale = want.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        let gap = got
            .iter()
            .zip(want)
            .fold(0.0f64, |m, (g, w)| m.max((g - w).abs()));
        if scale == 0.0 { gap } else { gap / scale }
    }

    /// Every instruction set this machine has, by name.
    fn instruction_sets() -> Vec<(&'static str, Arch)> {
        let mut sets = vec![("scalar", Arch::Scalar), ("widest", Arch::new())];
        #[cfg(target_arch = "x86_64")]
        sets.extend(pulp::x86::V3::try_new().map(|v3| ("v3", Arch::V3(v3))));
        sets
    }

    #[test]
    fn the_majorizer_touches_softplus_twice_and_lies_above() {
        for z0 in [-7.0, -1.3, -2e-4, -5e-5, 0.0, 5e-5, 0.4, 2.5, 30.0] {
            let k = majorizer_curvature(z0);
            let parabola =
                |z: f64| softplus(z0) + sigmoid(z0) * (z - z0) + 0.5 * k * (z - z0) * (z - z0);
            let touch = parabola(-z0) - softplus(-z0);
            // a few roundings of terms that are at most twice as large as z0
            let rounding = 8.0 * f64::EPSILON * (1.0 + z0.abs());
            assert!(touch.abs() < rounding, "touches at {}: {touch}", -z0);
            for i in -400..=400 {
                let z = 0.1 * f64::from(i);
                assert!(parabola(z) >= softplus(z) - 1e-13, "above at {z} from {z0}");
            }
            assert!(k <= 0.25 && k >= sigmoid(z0) * sigmoid(-z0));
        }
        // both forms meet where they change over
        let (below, above) = (SMALL_PREDICTOR * (1.0 - 1e-9), SMALL_PREDICTOR);
        assert!((majorizer_curvature(below) - majorizer_curvature(above)).abs() < 1e-15);
    }

    /// A design with numbers from a small linear congruence, and coefficients to go with it.
    fn example(
        response: Response,
        rows: usize,
        columns: usize,
        weighted: bool,
    ) -> (Design, Vec<f64>) {
        let mut state = (rows * 31 + columns * 7 + 1) as u64;
        let mut draw = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64 * 4.0 - 2.0
        };
        let mut design = Design::new(response, columns).unwrap();
        for _ in 0..rows {
            let row: Vec<f64> = (0..columns).map(|_| draw()).collect();
            let weight = if weighted { draw().abs() } else { 1.0 };
            let y = match response {
                Response::Bernoulli => f64::from(u8::from(draw() > 0.0)),
                Response::Poisson => (4.0 * draw().abs()).floor(),
                Response::Normal => draw(),
            };
            design.push_weighted(&row, y, weight).unwrap();
        }
        let coefficients = (0..columns).map(|_| draw()).collect();
        (design, coefficients)
    }

    fn responses() -> impl Strategy<Value = Response> {
        prop::sample::select(vec![
            Response::Bernoulli,
            Response::Poisson,
            Response::Normal,
        ])
    }

    /// The pass at one point.
    fn one_on(
        arch: Arch,
        design: &Design,
        coefficients: &[f64],
        demand: Demand,
        threads: usize,
    ) -> Evaluation {
        let mut at = evaluate_on(arch, design, &[(coefficients, demand)], threads);
        at.pop().unwrap()
    }

    /// Rounding of a sum over a few hundred rows; entries that cancel are compared by the largest.
    const TWIN: f64 = 1e-13;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn the_fast_pass_is_its_scalar_twin(
            response in responses(),
            rows in 1usize..1100,
            columns in 1usize..20,
            weighted in any::<bool>(),
            scale in prop::sample::select(vec![1e-6, 0.1, 1.0, 30.0f64]),
        ) {
            // the exponential of a huge predictor carries its rounding into every sum
            let scale = if response == Response::Poisson { scale.min(0.1) } else { scale };
            let (design, mut w) = example(response, rows, columns, weighted);
            let last = match response {
                Response::Bernoulli => Demand::Majorizer,
                _ => Demand::Curvature,
            };
            for w in &mut w {
                *w *= scale;
            }
            let twin = scalar_twin(&design, &w, last);
            // the gradient's entries cancel: compare them with the sum of sizes
            let size = (rows as f64).sqrt();
            for (name, arch) in instruction_sets() {
                let fast = one_on(arch, &design, &w, last, 1);
                prop_assert!((fast.loss - twin.loss).abs() <= TWIN * twin.loss, "{} loss", name);
                prop_assert!(
                    difference(&fast.gradient, &twin.gradient) <= TWIN * size, "{} gradient", name
                );
                // a huge linear predictor carries its rounding into the exponential
                let curvature = difference(&fast.curvature, &twin.curvature);
                prop_assert!(curvature <= TWIN * scale.max(1.0), "{} {}", name, curvature);
                let majorizer = difference(&fast.majorizer, &twin.majorizer);
                prop_assert!(majorizer <= TWIN * scale.max(1.0), "{} {}", name, majorizer);
                for demand in [Demand::Loss, Demand::Gradient, Demand::Curvature] {
                    let part = one_on(arch, &design, &w, demand, 1);
                    prop_assert_eq!(part.loss, fast.loss);
                    prop_assert!(part.gradient.is_empty() || part.gradient == fast.gradient);
                    prop_assert!(part.curvature.is_empty() || part.curvature == fast.curvature);
                    prop_assert!(part.majorizer.is_empty());
                }
            }
        }
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bits() {
        for (rows, columns) in [(70_001, 3), (9_973, 19), (513, 41), (1, 1)] {
            let (design, w) = example(Response::Bernoulli, rows, columns, false);
            let at = |threads| one_on(Arch::new(), &design, &w, Demand::Majorizer, threads);
            let one = at(1);
            for threads in [2, 3, 4, 7] {
                assert_eq!(at(threads), one);
            }
        }
    }

    #[test]
    fn huge_predictors_do_not_overflow() {
        let mut design = Design::new(Response::Bernoulli, 1).unwrap();
        for x in [1e150, -1e150, 1e5, -1e5] {
            design.push(&[x], 1.0).unwrap();
        }
        let at = one_on(Arch::new(), &design, &[1.0], Demand::Majorizer, 1);
        assert_eq!(at.loss, 1e150 + 1e5);
        assert_eq!(at.gradient, vec![1e150 + 1e5]);
        assert_eq!(at.curvature, vec![0.0]);
        // tanh is 1: Σ x²/(2|x|)
        assert!((at.majorizer[0] / 1e150 - 1.0).abs() < 1e-15);
        // a predictor that is itself too large shows in the loss
        let mut design = Design::new(Response::Bernoulli, 2).unwrap();
        design.push(&[1e300, -1e300], 1.0).unwrap();
        let at = one_on(Arch::new(), &design, &[1e300, 1e300], Demand::Loss, 1);
        assert!(at.loss.is_nan());
    }

    #[test]
    fn no_rows_give_zero() {
        let design = Design::with_intercept(Response::Bernoulli, 2);
        let at = one_on(Arch::new(), &design, &[1.0, 2.0, 3.0], Demand::Majorizer, 4);
        assert_eq!(at, Evaluation::zero(3, Demand::Majorizer));
    }
}
