//! `Σ fᵢ uᵢuᵢᵀ` with `uᵢ = (xᵢ, yᵢ) - s` in twice the precision: a row's products are exact, and
//! what a sum loses is carried along. Columns that are nearly multiples of each other keep as many
//! digits as they have. Beside a constant term columns far from 0, such as times, are shifted by
//! `s`, which changes nothing but the constant.
//!
//! Twin: [`twin`] adds one [`Double`] after another.

use faer::MatRef;
use pulp::{Arch, Simd, WithSimd};

use super::design::{BLOCK_ROWS, BlockView, Design};
use super::kernel::{Rows, column, over_groups};
use crate::double::{Double, UNIT};

/// The sums, and how exact they are.
#[derive(Debug, Clone)]
pub(super) struct Gram {
    /// Columns with the response, which is the last.
    pub size: usize,
    /// `s`.
    pub shifts: Vec<f64>,
    /// Lower triangle, row after row.
    pub sums: Vec<Double>,
    /// `γ`: entry `(j, k)` is off by at most `γ√(gⱼⱼgₖₖ)`.
    pub rounding: f64,
}

/// Vectors whose sum carries its error unnormalized: the bound grows with their square.
const CHUNK: usize = 16;

/// [`UNIT`]s that a sum over a block is off by, relative to the sum of sizes: `2·16²` for each
/// chunk, and a few for each of at most 32 chunks and 8 lanes.
const OF_A_BLOCK: f64 = 1024.0;

/// [`UNIT`]s of a sum of two numbers of twice the precision.
const OF_A_SUM: f64 = 8.0;

/// A mean of this many deviations is worth a shift.
const FAR: f64 = 8.0;

/// Columns that are summed at once.
const TILE: usize = 4;

/// `Σ fᵢ uᵢuᵢᵀ` by at most `threads` threads, with the factors that are given, one for each row, or
/// with the weights; shifted only if there is a constant term that `is_free` of a prior.
pub(super) fn gram(
    design: &Design,
    factors: Option<&[f64]>,
    is_free: bool,
    threads: usize,
) -> Gram {
    let size = design.columns() + 1;
    let shifts = shifts(design, is_free, FAR);
    let arch = Arch::new();
    let zero = || vec![Double::default(); size * size];
    let partials = over_groups(design, threads, zero, |blocks, _, sums| {
        let mut buffers = Box::<Buffers>::default();
        for b in blocks {
            let block = design.block(b);
            let first = b * BLOCK_ROWS;
            let factors = factors.map(|all| &all[first..first + block.responses.len()]);
            arch.dispatch(Products {
                block: &block,
                factors: factors.or(block.weights),
                shifts: &shifts,
                buffers: &mut buffers,
                sums,
            });
        }
    });
    let mut sums = zero();
    for partial in &partials {
        for (sum, &term) in sums.iter_mut().zip(partial) {
            *sum = *sum + term;
        }
    }
    // a square that vanishes says so: it is below every other number, and not 0
    let is_zero = |j: usize| {
        let value = |i: usize| {
            if j + 1 == size {
                design.observed(i)
            } else {
                design.row(i)[j]
            }
        };
        (0..design.rows()).all(|i| design.weight(i) == 0.0 || value(i) == shifts[j])
    };
    for j in 0..size {
        let square = &mut sums[j * size + j];
        if square.round() == 0.0 && design.total_weight() > 0.0 && !is_zero(j) {
            *square = f64::MIN_POSITIVE.into();
        }
    }
    let blocks = design.block_count() + partials.len();
    Gram {
        size,
        shifts,
        sums,
        rounding: (OF_A_BLOCK + OF_A_SUM * blocks as f64) * UNIT,
    }
}

impl Gram {
    /// Adds `factor · (w - m)ᵀΔ(w - m)` of a symmetric `Δ`, row after row, which says nothing of a
    /// constant beside which columns were shifted.
    pub(super) fn add_prior(&mut self, factor: f64, matrix: &[Double], mode: &[f64]) {
        let columns = self.size - 1;
        let mode: Vec<Double> = mode.iter().map(|&m| m.into()).collect();
        let times_mode = |row: &[Double]| {
            let pairs = row.iter().copied().zip(mode.iter().copied());
            Double::dot(pairs) * factor.into()
        };
        let pull: Vec<Double> = matrix.chunks(columns).map(times_mode).collect();
        let mut add = |i: usize, j: usize, term: Double| {
            let entry = &mut self.sums[i * self.size + j];
            *entry = *entry + term;
        };
        for i in 0..columns {
            for j in 0..=i {
                add(i, j, Double::from(factor) * matrix[i * columns + j]);
            }
            add(columns, i, pull[i]);
        }
        let rest = pull.into_iter().zip(mode.iter().copied());
        add(columns, columns, Double::dot(rest));
        self.rounding += OF_A_SUM * (columns + 8) as f64 * UNIT;
    }
}

/// The entries of a matrix in twice the precision.
pub(super) fn doubles(matrix: MatRef<'_, f64>) -> Vec<Double> {
    let (rows, columns) = (matrix.nrows(), matrix.ncols());
    let entries = (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j)));
    entries.map(|(i, j)| matrix[(i, j)].into()).collect()
}

/// Where numbers lie far from 0: the mean of the first ones, if that is beyond `far` of their
/// deviations, else 0. Nothing is won by a shift that is itself rounded away.
fn far_from_zero(values: &[f64], far: f64) -> f64 {
    let n = values.len() as f64;
    // the sum cannot overflow, and the first number stands for all where they are equal
    let first = values[0];
    let mean = first + values.iter().map(|x| (x - first) / n).sum::<f64>();
    let deviation = values.iter().map(|x| (x - mean).abs() / n).sum::<f64>();
    if mean.is_finite() && mean.abs() > far * deviation {
        mean
    } else {
        0.0
    }
}

/// The shift of each column and of the responses: 0 for the constant term, and without one that
/// `is_free` of a prior.
pub(super) fn shifts(design: &Design, is_free: bool, far: f64) -> Vec<f64> {
    let columns = design.columns();
    if !is_free || !design.has_intercept() || design.rows() == 0 {
        return vec![0.0; columns + 1];
    }
    let block = design.block(0);
    let n = block.responses.len();
    let mut shifts = vec![0.0];
    let values = |j: usize| &block.values[j * BLOCK_ROWS..j * BLOCK_ROWS + n];
    shifts.extend((1..columns).map(|j| far_from_zero(values(j), far)));
    shifts.push(far_from_zero(block.responses, far));
    shifts
}

/// Working memory of a thread: columns in two parts.
#[derive(Default)]
struct Buffers {
    high: Vec<Rows>,
    low: Vec<Rows>,
    /// A column times the factors.
    scaled_high: Rows,
    scaled_low: Rows,
    zero: Rows,
}

impl Buffers {
    /// Splits `xᵢ - shift`, exactly, where it is asked for; whether a second part is left.
    fn shift(&mut self, j: usize, x: &[f64], padded: usize, shift: f64) -> bool {
        let (high, low) = (&mut self.high[j].0, &mut self.low[j].0);
        let mut is_split = false;
        for (i, &x) in x.iter().enumerate() {
            let difference = Double::sum(x, -shift);
            (high[i], low[i]) = difference.parts();
            is_split |= low[i] != 0.0;
        }
        high[x.len()..padded].fill(0.0);
        low[x.len()..padded].fill(0.0);
        is_split
    }

    /// Column `j`, which is not shifted, in two parts.
    fn copy(&mut self, j: usize, x: &[f64], padded: usize) {
        self.high[j].0[..x.len()].copy_from_slice(x);
        self.high[j].0[x.len()..padded].fill(0.0);
    }
}

/// The sums of a block.
struct Products<'a> {
    block: &'a BlockView<'a>,
    factors: Option<&'a [f64]>,
    shifts: &'a [f64],
    buffers: &'a mut Buffers,
    sums: &'a mut [Double],
}

impl WithSimd for Products<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self {
            block,
            factors,
            shifts,
            buffers,
            sums,
        } = self;
        let n = block.responses.len();
        let padded = n.next_multiple_of(8);
        let size = shifts.len();
        buffers.high.resize_with(size, Rows::default);
        buffers.low.resize_with(size, Rows::default);
        let mut is_split = vec![false; size];
        for j in (0..size).filter(|&j| shifts[j] != 0.0 || j + 1 == size) {
            let x = if j + 1 < size {
                &block.values[j * BLOCK_ROWS..j * BLOCK_ROWS + n]
            } else {
                block.responses
            };
            if shifts[j] == 0.0 {
                buffers.copy(j, x, padded);
            } else {
                is_split[j] = buffers.shift(j, x, padded, shifts[j]);
            }
        }
        let Buffers {
            high,
            low,
            scaled_high,
            scaled_low,
            zero,
        } = buffers;
        let at = |j: usize| {
            if shifts[j] != 0.0 || j + 1 == size {
                S::as_simd_f64s(&high[j].0[..padded]).0
            } else {
                column(simd, block, j, padded)
            }
        };
        let rest = |j: usize| {
            let rest = if is_split[j] { &low[j] } else { &*zero };
            S::as_simd_f64s(&rest.0[..padded]).0
        };
        let has_rest = is_split.contains(&true);
        for j in 0..size {
            let row = &mut sums[j * size..=j * size + j];
            if let Some(factors) = factors {
                let factor = &mut scaled_low.0;
                factor[..n].copy_from_slice(factors);
                factor[n..padded].fill(0.0);
                let f = S::as_mut_simd_f64s(&mut scaled_low.0[..padded]).0;
                let product = S::as_mut_simd_f64s(&mut scaled_high.0[..padded]).0;
                for (v, f) in f.iter_mut().enumerate() {
                    // a row of factor 0 is gone, whatever it was
                    product[v] = simd.mul_f64s(*f, at(j)[v]);
                    let lost = simd.mul_add_f64s(*f, at(j)[v], simd.neg_f64s(product[v]));
                    *f = simd.mul_add_f64s(*f, rest(j)[v], lost);
                }
                let left = S::as_simd_f64s(&scaled_high.0[..padded]).0;
                let left_rest = S::as_simd_f64s(&scaled_low.0[..padded]).0;
                add_row::<S, true>(simd, left, left_rest, at, rest, row);
            } else if has_rest {
                add_row::<S, true>(simd, at(j), rest(j), at, rest, row);
            } else {
                add_row::<S, false>(simd, at(j), at(j), at, at, row);
            }
        }
    }
}

/// Adds the inner products of a column with those up to itself.
#[inline(always)]
fn add_row<'a, S: Simd, const SPLIT: bool>(
    simd: S,
    left: &[S::f64s],
    left_rest: &[S::f64s],
    at: impl Fn(usize) -> &'a [S::f64s],
    rest: impl Fn(usize) -> &'a [S::f64s],
    row: &mut [Double],
) {
    let mut k = 0;
    while k + TILE <= row.len() {
        let (mut columns, mut rests) = ([at(k); TILE], [rest(k); TILE]);
        for c in 1..TILE {
            (columns[c], rests[c]) = (at(k + c), rest(k + c));
        }
        let sums = products::<S, SPLIT, TILE>(simd, left, left_rest, columns, rests);
        for (sum, term) in row[k..].iter_mut().zip(sums) {
            *sum = *sum + term;
        }
        k += TILE;
    }
    while k < row.len() {
        let [term] = products::<S, SPLIT, 1>(simd, left, left_rest, [at(k)], [rest(k)]);
        row[k] = row[k] + term;
        k += 1;
    }
}

/// Inner products of one column with `C` others, all in two parts if `SPLIT`.
#[inline(always)]
fn products<S: Simd, const SPLIT: bool, const C: usize>(
    simd: S,
    left: &[S::f64s],
    left_rest: &[S::f64s],
    columns: [&[S::f64s]; C],
    rests: [&[S::f64s]; C],
) -> [Double; C] {
    let n = left.len();
    let left_rest = &left_rest[..n];
    let columns = columns.map(|column| &column[..n]);
    let rests = rests.map(|rest| &rest[..n]);
    let zero = simd.splat_f64s(0.0);
    let (mut sums, mut carried) = ([zero; C], [zero; C]);
    let mut start = 0;
    while start < n {
        let end = (start + CHUNK).min(n);
        let (mut high, mut low) = ([zero; C], [zero; C]);
        for v in start..end {
            let x = left[v];
            for c in 0..C {
                let y = columns[c][v];
                let product = simd.mul_f64s(x, y);
                let mut lost = simd.mul_add_f64s(x, y, simd.neg_f64s(product));
                if SPLIT {
                    lost = simd.mul_add_f64s(left_rest[v], y, lost);
                    lost = simd.mul_add_f64s(x, rests[c][v], lost);
                }
                let (sum, error) = two_sum(simd, high[c], product);
                high[c] = sum;
                low[c] = simd.add_f64s(low[c], simd.add_f64s(lost, error));
            }
        }
        for c in 0..C {
            let (sum, error) = two_sum(simd, sums[c], high[c]);
            let low = simd.add_f64s(carried[c], simd.add_f64s(error, low[c]));
            sums[c] = simd.add_f64s(sum, low);
            // the sum is the larger of the two
            carried[c] = simd.sub_f64s(low, simd.sub_f64s(sums[c], sum));
        }
        start = end;
    }
    let mut totals = [Double::default(); C];
    for c in 0..C {
        let (mut high, mut low) = ([0.0; 8], [0.0; 8]);
        S::as_mut_simd_f64s(&mut high).0[0] = sums[c];
        S::as_mut_simd_f64s(&mut low).0[0] = carried[c];
        let lanes = high.iter().zip(&low);
        totals[c] = lanes.fold(totals[c], |total, (&h, &l)| total + Double::sum(h, l));
    }
    totals
}

/// A sum, and what its rounding took.
#[inline(always)]
fn two_sum<S: Simd>(simd: S, a: S::f64s, b: S::f64s) -> (S::f64s, S::f64s) {
    let sum = simd.add_f64s(a, b);
    let part = simd.sub_f64s(sum, a);
    let of_a = simd.sub_f64s(a, simd.sub_f64s(sum, part));
    (sum, simd.add_f64s(of_a, simd.sub_f64s(b, part)))
}

/// The same sums, the obvious way.
#[cfg(test)]
fn twin(design: &Design, factors: Option<&[f64]>, is_free: bool) -> Vec<Double> {
    let shifts = shifts(design, is_free, FAR);
    let size = shifts.len();
    let mut sums = vec![Double::default(); size * size];
    for i in 0..design.rows() {
        let factor = factors.map_or_else(|| design.weight(i), |factors| factors[i]);
        let mut row = design.row(i);
        row.push(design.observed(i));
        for j in 0..size {
            for k in 0..=j {
                let [x, y] = [j, k].map(|j| Double::sum(row[j], -shifts[j]));
                let term = Double::from(factor) * x * y;
                sums[j * size + k] = sums[j * size + k] + term;
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::super::Response;
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_is_lost_far_from_zero() {
        let mut design = Design::with_intercept(Response::Normal, 2);
        let mut alone = Design::new(Response::Normal, 2).unwrap();
        for x in 0..1000 {
            let x = f64::from(x);
            design.push(&[1.7e9 + x, 0.25 * x - 3.0], 1e8 + x).unwrap();
            alone.push(&[1.0, 1.7e9 + x], 1e8).unwrap();
        }
        let found = gram(&design, None, true, 1);
        // the mean of the first 512 rows; the other column is not far from 0
        assert_eq!(found.shifts, [0.0, 1.7e9 + 255.5, 0.0, 1e8 + 255.5]);
        // without a constant term nothing is shifted
        let of_alone = gram(&alone, None, true, 1);
        assert_eq!(of_alone.shifts, [0.0; 3]);
        // Σ(x - x̄)² = n(n² - 1)/12, by twice the precision as by the shift
        for sums in [
            [0, 4, 5].map(|i| found.sums[i]),
            [0, 3, 4].map(|i| of_alone.sums[i]),
        ] {
            let spread = sums[2] - sums[1] * sums[1] / sums[0];
            assert!((spread.round() / (1000.0 * 999_999.0 / 12.0) - 1.0).abs() < 1e-14);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_fast_sums_are_those_of_the_twin(
            rows in 1usize..1200, columns in 1usize..9, weighted in any::<bool>(),
            factored in any::<bool>(), intercept in any::<bool>(), is_free in any::<bool>(),
            offset in -9..9i32, seed in any::<u32>(),
        ) {
            let mut state = u64::from(seed);
            let mut draw = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                (state >> 11) as f64 / (1u64 << 53) as f64 - 0.5
            };
            let mut design = if intercept {
                Design::with_intercept(Response::Normal, columns)
            } else {
                Design::new(Response::Normal, columns).unwrap()
            };
            let shift = 10f64.powi(offset);
            for _ in 0..rows {
                let row: Vec<f64> = (0..columns).map(|_| draw() + shift).collect();
                let weight = if weighted { 3.0 * draw().abs() } else { 1.0 };
                design.push_weighted(&row, draw() - shift, weight).unwrap();
            }
            let factors: Vec<f64> = (0..rows).map(|_| draw().abs()).collect();
            let factors = factored.then_some(&factors[..]);
            let want = twin(&design, factors, is_free);
            for threads in [1, 3] {
                let got = gram(&design, factors, is_free, threads);
                let size = got.size;
                let scale = |j: usize| want[j * size + j].round().sqrt();
                for j in 0..size {
                    for k in 0..=j {
                        let off = (got.sums[j * size + k] - want[j * size + k]).round().abs();
                        // the twin's own error is of the same kind, one addition for each row
                        let twin = OF_A_SUM * rows as f64 * UNIT;
                        let bound = (got.rounding + twin) * scale(j) * scale(k);
                        prop_assert!(off <= bound, "{} {}: {} above {}", j, k, off, bound);
                    }
                }
            }
        }
    }
}
