//! Winograd's forms of 3×3 convolutions of stride 1, in all three passes.
//!
//! With `U = G g Gᵀ`, `V = Bᵀ d B` for each tile `d` of the input (in steps of `M`), the `M`×`M`
//! outputs are `Aᵀ (Σ_c U ⊙ V) A`. The gradient of the input is the same with turned weights; that
//! of the weights is `Gᵀ (Σ_tiles (A dy Aᵀ) ⊙ V) G`. Tiles are handled in strips that stay in the
//! second cache.
//!
//! F(2×2) needs 4 products per output instead of 9 and is as exact as the direct form. F(4×4) needs
//! 2.25; with the points 0, ±√½, ±√2 and ∞ its error is two to three times that of the direct form,
//! where the usual 0, ±1, ±2 and ∞ give five to ten times.

use std::ops::Range;

use super::gram::{self, Meeting};
use super::outer::{self, Outer};
use super::taps::{self, Pooled, Start, Taps};
use super::vector::{LANES, Vector, kernel};
use crate::network::{Conv, Shape};
use machine::Isa;

/// Numbers between two planes of the scratch memory, so that the planes do not meet in one set of
/// the cache.
const GAP: usize = 5 * LANES;
/// Vectors that the tiles of a strip may take if they are not too few: half a megabyte, which stays
/// in the second cache.
const STRIP: usize = 8192;
/// Output channels that are handled at once.
const CHUNK: usize = 16;
/// Tiles of F(4×4) from which on the gradient of the weights uses it: sums over fewer are dearer to
/// fold than to form.
const GRADIENT_TILES: usize = 16;

/// Tiles per strip of the gradients by class.
const CLASS_TILES: usize = 32;

/// Size of the tiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tiling {
    /// F(2×2, 3×3).
    Two,
    /// F(4×4, 3×3).
    Four,
}

impl Tiling {
    /// Outputs of a tile in each direction.
    fn outputs(self) -> usize {
        match self {
            Self::Two => 2,
            Self::Four => 4,
        }
    }

    /// Entries of a tile in the transformed domain.
    pub fn points(self) -> usize {
        (self.outputs() + 2).pow(2)
    }

    /// Tiles of a plane: in each row and in all.
    fn tiles(self, plane: Shape) -> (usize, usize) {
        let across = plane.width.div_ceil(self.outputs());
        (across, across * plane.height.div_ceil(self.outputs()))
    }

    /// The one with fewer products for outputs of this size.
    pub fn of(output: Shape) -> Self {
        let products = |tiling: Self| tiling.tiles(output).1 * tiling.points();
        if products(Self::Four) < products(Self::Two) {
            Self::Four
        } else {
            Self::Two
        }
    }

    /// The one for the gradient of the weights.
    fn of_gradient(output: Shape) -> Self {
        match Self::of(output) {
            Self::Four if Self::Four.tiles(output).1 >= GRADIENT_TILES => Self::Four,
            _ => Self::Two,
        }
    }

    /// Tiles per strip of a convolution.
    fn strip(self, inputs: usize) -> usize {
        (STRIP / (self.points() * (inputs + CHUNK))).clamp(4, 32) / 4 * 4
    }

    /// Tiles per strip of the gradient of the weights.
    fn gradient_strip(self, inputs: usize) -> usize {
        (STRIP / (self.points() * inputs)).clamp(16, 32)
    }
}

/// Vectors of scratch memory for any of the passes.
pub(crate) fn scratch(input: Shape, output: Shape) -> usize {
    let convolve = |from: usize, to: Shape| {
        let tiling = Tiling::of(to);
        tiling.points() * ((from + CHUNK) * tiling.strip(from) + 2 * GAP / LANES)
    };
    let tiling = Tiling::of_gradient(output);
    let tiles = tiling.gradient_strip(input.channels);
    let sums = (tiling.points() * input.channels * output.channels).div_ceil(LANES);
    let gradient = tiling.points() * ((input.channels + CHUNK) * tiles + 2 * GAP / LANES) + sums;
    convolve(input.channels, output)
        .max(convolve(output.channels, input))
        .max(gradient)
}

/// One direction of the transforms: `M` outputs from `N = M + 2` inputs.
///
/// # Safety
/// As for [`Vector`].
trait Form<const N: usize, const M: usize> {
    /// `G g`.
    unsafe fn kernel<V: Vector>(g: [V; 3]) -> [V; N];
    /// `Bᵀ d`.
    unsafe fn input<V: Vector>(d: [V; N]) -> [V; N];
    /// `Aᵀ m`.
    unsafe fn output<V: Vector>(m: [V; N]) -> [V; M];
    /// `A dy`.
    unsafe fn gradient<V: Vector>(dy: [V; M]) -> [V; N];
    /// `Gᵀ s`.
    unsafe fn kernel_gradient<V: Vector>(s: [V; N]) -> [V; 3];
}

/// F(2, 3) with the points 0, 1, -1, ∞.
struct Two;

// SAFETY: passed on to the caller (see `Form`).
#[allow(clippy::undocumented_unsafe_blocks)]
impl Form<4, 2> for Two {
    #[inline(always)]
    unsafe fn kernel<V: Vector>([a, b, c]: [V; 3]) -> [V; 4] {
        unsafe {
            let half = V::splat(0.5);
            let ends = a.add(c);
            [a, ends.add(b).mul(half), ends.sub(b).mul(half), c]
        }
    }
    #[inline(always)]
    unsafe fn input<V: Vector>([a, b, c, d]: [V; 4]) -> [V; 4] {
        unsafe { [a.sub(c), b.add(c), c.sub(b), b.sub(d)] }
    }
    #[inline(always)]
    unsafe fn output<V: Vector>([a, b, c, d]: [V; 4]) -> [V; 2] {
        unsafe { [a.add(b).add(c), b.sub(c).sub(d)] }
    }
    #[inline(always)]
    unsafe fn gradient<V: Vector>([a, b]: [V; 2]) -> [V; 4] {
        unsafe { [a, a.add(b), a.sub(b), V::splat(0.0).sub(b)] }
    }
    #[inline(always)]
    unsafe fn kernel_gradient<V: Vector>([a, b, c, d]: [V; 4]) -> [V; 3] {
        unsafe {
            let half = V::splat(0.5);
            let sum = b.add(c).mul(half);
            [a.add(sum), b.sub(c).mul(half), sum.add(d)]
        }
    }
}

/// F(4, 3) with the points 0, √½, -√½, √2, -√2, ∞.
struct Four;

/// √½, the first point; the second is twice it.
const P: f32 = std::f32::consts::FRAC_1_SQRT_2;

// SAFETY: passed on to the caller (see `Form`).
#[allow(clippy::undocumented_unsafe_blocks)]
impl Form<6, 4> for Four {
    #[inline(always)]
    unsafe fn kernel<V: Vector>([a, b, c]: [V; 3]) -> [V; 6] {
        unsafe {
            // The polynomial at the points, over the products of their distances: 1, -3/2 and 6.
            let (small, large) = (V::splat(-2.0 / 3.0), V::splat(1.0 / 6.0));
            let (even, odd) = (a.fma(V::splat(0.5), c), b.mul(V::splat(P)));
            let (even2, odd2) = (a.fma(V::splat(2.0), c), b.mul(V::splat(2.0 * P)));
            [
                a,
                even.add(odd).mul(small),
                even.sub(odd).mul(small),
                even2.add(odd2).mul(large),
                even2.sub(odd2).mul(large),
                c,
            ]
        }
    }
    #[inline(always)]
    unsafe fn input<V: Vector>([a, b, c, d, e, f]: [V; 6]) -> [V; 6] {
        unsafe {
            let middle = V::splat(-2.5);
            let point = V::splat(P);
            // e - 2c and √½ (d - 2b); e - c/2 and √½ (2d - b)
            let even = e.fma(V::splat(-2.0), c);
            let odd = d.fma(V::splat(-2.0), b).mul(point);
            let even2 = e.fma(V::splat(-0.5), c);
            let odd2 = V::splat(0.0).sub(b).fma(V::splat(2.0), d).mul(point);
            [
                a.add(e).fma(middle, c),
                even.add(odd),
                even.sub(odd),
                even2.add(odd2),
                even2.sub(odd2),
                b.add(f).fma(middle, d),
            ]
        }
    }
    #[inline(always)]
    unsafe fn output<V: Vector>([a, b, c, d, e, f]: [V; 6]) -> [V; 4] {
        unsafe {
            let (sum, difference) = (b.add(c), b.sub(c));
            let (sum2, difference2) = (d.add(e), d.sub(e));
            let (half, two, point) = (V::splat(0.5), V::splat(2.0), V::splat(P));
            [
                a.add(sum).add(sum2),
                difference.fma(two, difference2).mul(point),
                sum.mul(half).fma(two, sum2),
                f.fma(point, difference.mul(half).fma(V::splat(4.0), difference2)),
            ]
        }
    }
    #[inline(always)]
    unsafe fn gradient<V: Vector>([a, b, c, d]: [V; 4]) -> [V; 6] {
        unsafe {
            let (half, two, point) = (V::splat(0.5), V::splat(2.0), V::splat(P));
            let (even, odd) = (a.fma(half, c), b.fma(half, d).mul(point));
            let (even2, odd2) = (a.fma(two, c), b.fma(two, d).mul(V::splat(2.0 * P)));
            [
                a,
                even.add(odd),
                even.sub(odd),
                even2.add(odd2),
                even2.sub(odd2),
                d,
            ]
        }
    }
    #[inline(always)]
    unsafe fn kernel_gradient<V: Vector>([a, b, c, d, e, f]: [V; 6]) -> [V; 3] {
        unsafe {
            let (small, large) = (V::splat(-2.0 / 3.0), V::splat(1.0 / 6.0));
            let (sum, difference) = (b.add(c).mul(small), b.sub(c).mul(small));
            let (sum2, difference2) = (d.add(e).mul(large), d.sub(e).mul(large));
            let (half, two) = (V::splat(0.5), V::splat(2.0));
            [
                a.add(sum).add(sum2),
                difference.fma(two, difference2).mul(V::splat(P)),
                f.fma(half, sum).fma(two, sum2),
            ]
        }
    }
}

/// A transform of a square in both directions, first down its columns. Every entry is asked for
/// once.
macro_rules! both {
    ($from:expr => $to:expr, $pass:path, $i:ident, $j:ident => $entry:expr) => {{
        let zero = V::splat(0.0);
        let mut half = [[zero; $from]; $to];
        for $j in 0..$from {
            let mut column = [zero; $from];
            for $i in 0..$from {
                column[$i] = $entry;
            }
            let column = $pass(column);
            for i in 0..$to {
                half[i][$j] = column[i];
            }
        }
        let mut out = [[zero; $to]; $to];
        for i in 0..$to {
            out[i] = $pass(half[i]);
        }
        out
    }};
}

/// `U = G g Gᵀ` of `[out, in, 3, 3]` weights, to `[points, out, in]` for the forward pass or,
/// turned, to `[points, in, out]` for the gradient of the input.
#[inline(always)]
unsafe fn transform_weights<V: Vector, F: Form<N, M>, const N: usize, const M: usize>(
    weights: *const f32,
    (outputs, inputs): (usize, usize),
    turned: bool,
    to: *mut f32,
) {
    let (rows, columns) = if turned {
        (inputs, outputs)
    } else {
        (outputs, inputs)
    };
    let plane = rows * columns;
    // SAFETY: the caller promises all weights and room for `N` times `N` planes.
    unsafe {
        for row in 0..rows {
            let mut column = 0;
            while column < columns {
                let count = V::WIDTH.min(columns - column);
                // One kernel per lane; lanes without one are not stored.
                let mut lanes = [[0.0f32; LANES]; 9];
                for lane in 0..count {
                    let (o, i) = if turned {
                        (column + lane, row)
                    } else {
                        (row, column + lane)
                    };
                    let kernel = weights.add((o * inputs + i) * 9);
                    for (j, lanes) in lanes.iter_mut().enumerate() {
                        lanes[lane] = *kernel.add(if turned { 8 - j } else { j });
                    }
                }
                let u = both!(3 => N, F::kernel, i, j => V::load(lanes[3 * i + j].as_ptr()));
                let to = to.add(row * columns + column);
                for i in 0..N {
                    for j in 0..N {
                        let to = to.add((N * i + j) * plane);
                        if count == V::WIDTH {
                            u[i][j].store(to);
                        } else {
                            u[i][j].store(lanes[0].as_mut_ptr());
                            to.copy_from_nonoverlapping(lanes[0].as_ptr(), count);
                        }
                    }
                }
                column += count;
            }
        }
    }
}

/// Which tiles of a plane are meant: `first..first + count`, row by row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tiles {
    /// Tiles per row.
    across: usize,
    first: usize,
    count: usize,
    /// Tiles that the scratch memory has room for.
    capacity: usize,
}

/// Half of the rows of `V = Bᵀ d B` for the tile that begins at `x`; entries outside `rows` and
/// `columns` are zeros unless all are `INSIDE`. Both halves together need more registers than there
/// are.
#[inline(always)]
unsafe fn half_of_input<
    V: Vector,
    F: Form<N, M>,
    const N: usize,
    const M: usize,
    const LOWER: bool,
    const INSIDE: bool,
>(
    x: *const f32,
    width: usize,
    (rows, columns): (&Range<usize>, &Range<usize>),
    out: *mut f32,
    plane: usize,
) {
    let first = if LOWER { N / 2 } else { 0 };
    // SAFETY: passed on from the caller.
    unsafe {
        let zero = V::splat(0.0);
        let mut half = [[zero; N]; N];
        for j in 0..N {
            let mut column = [zero; N];
            for i in 0..N {
                if INSIDE || rows.contains(&i) && columns.contains(&j) {
                    column[i] = V::load(x.wrapping_add((i * width + j) * LANES));
                }
            }
            let column = F::input(column);
            for i in 0..N / 2 {
                half[i][j] = column[first + i];
            }
        }
        for i in 0..N / 2 {
            let row = F::input(half[i]);
            for j in 0..N {
                row[j].store(out.add((N * (first + i) + j) * plane));
            }
        }
    }
}

/// `V = Bᵀ d B`; the tile at `(ty, tx)` begins at `(M ty - top, M tx - left)`, zeros outside.
#[inline(always)]
unsafe fn transform_input<V: Vector, F: Form<N, M>, const N: usize, const M: usize>(
    shape: Shape,
    (top, left): (usize, usize),
    tiles: Tiles,
    x: *const f32,
    out: *mut f32,
) {
    let plane = shape.channels * tiles.capacity * LANES + GAP;
    let width = shape.width;
    // SAFETY: loads are guarded at the borders; `out` has a plane per point.
    unsafe {
        for t in 0..tiles.count {
            let tile = tiles.first + t;
            let (row, column) = (M * (tile / tiles.across), M * (tile % tiles.across));
            // Those of the tile's rows and columns that are inside the image.
            let inner = |start: usize, zeros: usize, len: usize| {
                zeros.saturating_sub(start)..(len + zeros).saturating_sub(start).min(N)
            };
            let rows = inner(row, top, shape.height);
            let columns = inner(column, left, width);
            let inside = rows.len() == N && columns.len() == N;
            let held = (&rows, &columns);
            let corner = (row * width + column).wrapping_sub(top * width + left);
            for c in 0..shape.channels {
                let at = (c * shape.plane()).wrapping_add(corner);
                let x = x.wrapping_add(at.wrapping_mul(LANES));
                for part in 0..V::PARTS {
                    let x = x.wrapping_add(part * V::WIDTH);
                    let out = out.add((c * tiles.capacity + t) * LANES + part * V::WIDTH);
                    if inside {
                        half_of_input::<V, F, N, M, false, true>(x, width, held, out, plane);
                        half_of_input::<V, F, N, M, true, true>(x, width, held, out, plane);
                    } else {
                        half_of_input::<V, F, N, M, false, false>(x, width, held, out, plane);
                        half_of_input::<V, F, N, M, true, false>(x, width, held, out, plane);
                    }
                }
            }
        }
    }
}

/// `Aᵀ m A` of one tile, its points `plane` numbers apart.
#[inline(always)]
unsafe fn tile_output<V: Vector, F: Form<N, M>, const N: usize, const M: usize>(
    points: *const f32,
    plane: usize,
) -> [[V; M]; M] {
    // SAFETY: the caller promises a plane per point.
    unsafe { both!(N => M, F::output, i, j => V::load(points.add((N * i + j) * plane))) }
}

/// `y = Aᵀ m A + bias` for `channels` channels, cut at the borders.
#[inline(always)]
unsafe fn transform_output<V: Vector, F: Form<N, M>, const N: usize, const M: usize>(
    shape: Shape,
    channels: usize,
    tiles: Tiles,
    m: *const f32,
    start: Start,
    y: *mut f32,
    relu: bool,
) {
    let plane = CHUNK * tiles.capacity * LANES + GAP;
    // SAFETY: stores are guarded at the borders; `m` has a plane per point.
    unsafe {
        let zero = V::splat(0.0);
        for c in 0..channels {
            let y = y.add(c * shape.plane() * LANES);
            let bias = match start {
                Start::Bias(bias) => V::splat(*bias.add(c)),
                _ => zero,
            };
            for t in 0..tiles.count {
                let tile = tiles.first + t;
                let (row, column) = (M * (tile / tiles.across), M * (tile % tiles.across));
                for part in 0..V::PARTS {
                    let lane = part * V::WIDTH;
                    let m = m.add((c * tiles.capacity + t) * LANES + lane);
                    let out = tile_output::<V, F, N, M>(m, plane);
                    for (i, line) in out.iter().enumerate().take(shape.height - row) {
                        for (j, &v) in line.iter().enumerate().take(shape.width - column) {
                            let at = ((row + i) * shape.width + column + j) * LANES + lane;
                            let v = match start {
                                Start::Output => v.add(V::load(y.add(at))),
                                _ => v.add(bias),
                            };
                            let v = if relu { zero.max(v) } else { v };
                            v.store(y.add(at));
                        }
                    }
                }
            }
        }
    }
}

/// The maxima of the 2×2 windows of `Aᵀ m A + bias` for `channels` channels from `first` on.
/// Incomplete ones are left out.
#[inline(always)]
unsafe fn transform_output_pooled<V: Vector, F: Form<N, M>, const N: usize, const M: usize>(
    shape: Shape,
    (first, channels): (usize, usize),
    tiles: Tiles,
    m: *const f32,
    bias: Option<*const f32>,
    to: &Pooled,
) {
    let plane = CHUNK * tiles.capacity * LANES + GAP;
    let (rows, columns) = (shape.height / 2, shape.width / 2);
    // SAFETY: incomplete windows are left out; `m` has a plane per point.
    unsafe {
        for c in 0..channels {
            let bias = V::splat(bias.map_or(0.0, |bias| *bias.add(first + c)));
            for t in 0..tiles.count {
                let tile = tiles.first + t;
                let row = M / 2 * (tile / tiles.across);
                let column = M / 2 * (tile % tiles.across);
                for part in 0..V::PARTS {
                    let lane = part * V::WIDTH;
                    let m = m.add((c * tiles.capacity + t) * LANES + lane);
                    let y = tile_output::<V, F, N, M>(m, plane);
                    for i in 0..(M / 2).min(rows.saturating_sub(row)) {
                        for j in 0..(M / 2).min(columns.saturating_sub(column)) {
                            let window = [
                                y[2 * i][2 * j].add(bias),
                                y[2 * i][2 * j + 1].add(bias),
                                y[2 * i + 1][2 * j].add(bias),
                                y[2 * i + 1][2 * j + 1].add(bias),
                            ];
                            let at = ((first + c) * rows + row + i) * columns + column + j;
                            to.store(window, at * LANES + lane);
                        }
                    }
                }
            }
        }
    }
}

/// `Z = A dy Aᵀ` of `channels` channels.
#[inline(always)]
unsafe fn transform_gradient<V: Vector, F: Form<N, M>, const N: usize, const M: usize>(
    shape: Shape,
    channels: usize,
    tiles: Tiles,
    dy: *const f32,
    out: *mut f32,
) {
    let plane = CHUNK * tiles.capacity * LANES + GAP;
    // SAFETY: loads are guarded at the borders; `out` has a plane of `CHUNK` channels per point.
    unsafe {
        for c in 0..channels {
            let dy = dy.add(c * shape.plane() * LANES);
            for t in 0..tiles.count {
                let tile = tiles.first + t;
                let (row, column) = (M * (tile / tiles.across), M * (tile % tiles.across));
                let (rows, columns) = (M.min(shape.height - row), M.min(shape.width - column));
                for part in 0..V::PARTS {
                    let lane = part * V::WIDTH;
                    let at = dy.add((row * shape.width + column) * LANES + lane);
                    let entry = |i: usize, j: usize| at.wrapping_add((i * shape.width + j) * LANES);
                    let d = if (rows, columns) == (M, M) {
                        both!(M => N, F::gradient, i, j => V::load(entry(i, j)))
                    } else {
                        both!(M => N, F::gradient, i, j => {
                            if i < rows && j < columns {
                                V::load(entry(i, j))
                            } else {
                                V::splat(0.0)
                            }
                        })
                    };
                    let out = out.add((c * tiles.capacity + t) * LANES + lane);
                    for i in 0..N {
                        for j in 0..N {
                            d[i][j].store(out.add((N * i + j) * plane));
                        }
                    }
                }
            }
        }
    }
}

/// `dw += Gᵀ s G` for `count` kernels, the points of whose sums `s` lie `count` apart.
#[inline(always)]
unsafe fn fold_sums<V: Vector, F: Form<N, M>, const N: usize, const M: usize>(
    count: usize,
    sums: *const f32,
    dw: *mut f32,
) {
    // SAFETY: the caller promises `N` times `N` planes of sums and `count` kernels.
    unsafe {
        let mut at = 0;
        while at < count {
            let lanes = V::WIDTH.min(count - at);
            let mut buffer = [0.0f32; LANES];
            let g = both!(N => 3, F::kernel_gradient, i, j => {
                let from = sums.add((N * i + j) * count + at);
                if lanes == V::WIDTH {
                    V::load(from)
                } else {
                    buffer.as_mut_ptr().copy_from_nonoverlapping(from, lanes);
                    V::load(buffer.as_ptr())
                }
            });
            for i in 0..3 {
                for j in 0..3 {
                    g[i][j].store(buffer.as_mut_ptr());
                    for lane in 0..lanes {
                        *dw.add((at + lane) * 9 + 3 * i + j) += buffer[lane];
                    }
                }
            }
            at += lanes;
        }
    }
}

/// Adds what the weights of one output channel give. Their gradients are `found`, those of a weight
/// for all classes one after another: where one group has all classes, of a few input channels at
/// a time, so that they are used while they are in the first cache.
///
/// Long because its loops share the planes of scratch memory, whose places they all count from.
#[inline(always)]
unsafe fn class_squares<V: Vector, F: Form<N, M>, const N: usize, const M: usize>(
    tiles: &ClassTiles,
    (delta, offset): (&[*const f32], usize),
    found: &mut [[f32; LANES]],
    inverse: &[f32],
    pairs: *mut f32,
) {
    let (channels, m, capacity) = (tiles.input.channels, delta.len(), tiles.capacity);
    let at_once = m <= CHUNK;
    let input_plane = channels * capacity * LANES + GAP;
    let class_plane = CHUNK * capacity * LANES + GAP;
    let block = tiles.block();
    let sums_plane = block * CHUNK * LANES + GAP;
    // SAFETY: the scratch memory has room for all planes, and `delta` and `out` are whole.
    unsafe {
        for (group, delta) in delta.chunks(CHUNK).enumerate() {
            let count = delta.len();
            for first in (0..channels).step_by(block) {
                let some = block.min(channels - first);
                for (strip, here) in tiles.strips().enumerate() {
                    // with one strip they are there already for the next channels
                    if first == 0 {
                        for (k, delta) in delta.iter().enumerate() {
                            let to = tiles.gradients.add(k * capacity * LANES);
                            let dy = delta.add(offset);
                            transform_gradient::<V, F, N, M>(tiles.output, 1, here, dy, to);
                        }
                    }
                    let meeting = Meeting {
                        rows: 1,
                        columns: here.count,
                        x_row: 0,
                        x_column: LANES,
                        delta_row: 0,
                    };
                    for p in 0..N * N {
                        for part in 0..V::PARTS {
                            let shift = part * V::WIDTH;
                            let x = tiles.tiles.add((strip * N * N + p) * input_plane + shift);
                            let x = |i: usize| {
                                x.wrapping_add((first + i) * capacity * LANES).cast_const()
                            };
                            let delta = tiles.gradients.add(p * class_plane + shift);
                            let delta: [*const f32; CHUNK] = std::array::from_fn(|k| {
                                delta.wrapping_add(k * capacity * LANES).cast_const()
                            });
                            let delta = &delta[..count];
                            let sums = (tiles.sums.add(p * sums_plane + shift), count);
                            match strip {
                                0 => gram::meet::<V, true>(&meeting, some, x, delta, sums),
                                _ => gram::meet::<V, false>(&meeting, some, x, delta, sums),
                            }
                        }
                    }
                }
                for start in (0..some).step_by(USED) {
                    let few = USED.min(some - start);
                    let skipped = if at_once { 0 } else { first + start };
                    let out = found
                        .as_mut_ptr()
                        .cast::<f32>()
                        .add(9 * skipped * m * LANES);
                    for at in 0..few * count {
                        let (i, k) = (at / count, group * CHUNK + at % count);
                        for part in 0..V::PARTS {
                            let shift = part * V::WIDTH;
                            let from = tiles.sums.add((start * count + at) * LANES + shift);
                            let g = both!(N => 3, F::kernel_gradient, i, j => {
                                V::load(from.add((N * i + j) * sums_plane))
                            });
                            for (tap, g) in g.as_flattened().iter().enumerate() {
                                g.store(out.add(((9 * i + tap) * m + k) * LANES + shift));
                            }
                        }
                    }
                    if at_once {
                        let inverse = &inverse[9 * (first + start)..][..9 * few];
                        gram::squares::<V>(&found[..9 * few * m], inverse, pairs);
                    }
                }
            }
        }
        if !at_once {
            gram::squares::<V>(found, inverse, pairs);
        }
    }
}

/// Makes functions that run the passes with the tiles and the instruction set they are given.
macro_rules! passes {
    ($($(#[$doc:meta])* $run:ident = $body:ident($($arg:ident: $type:ty),* $(,)?);)*) => {$(
        $(#[$doc])*
        #[allow(clippy::too_many_arguments)]
        unsafe fn $run(isa: Isa, tiling: Tiling, $($arg: $type),*) {
            #[inline(always)]
            unsafe fn two<V: Vector>($($arg: $type),*) {
                // SAFETY: passed on from the caller.
                unsafe { $body::<V, Two, 4, 2>($($arg),*) }
            }
            #[inline(always)]
            unsafe fn four<V: Vector>($($arg: $type),*) {
                // SAFETY: passed on from the caller.
                unsafe { $body::<V, Four, 6, 4>($($arg),*) }
            }
            kernel!(run_two = two($($arg: $type),*));
            kernel!(run_four = four($($arg: $type),*));
            // SAFETY: passed on from the caller.
            unsafe {
                match tiling {
                    Tiling::Two => run_two(isa, $($arg),*),
                    Tiling::Four => run_four(isa, $($arg),*),
                }
            }
        }
    )*};
}

passes!(
    run_transform_weights = transform_weights(
        weights: *const f32,
        channels: (usize, usize),
        turned: bool,
        to: *mut f32,
    );
    run_transform_input = transform_input(
        shape: Shape,
        before: (usize, usize),
        tiles: Tiles,
        x: *const f32,
        out: *mut f32,
    );
    run_transform_output = transform_output(
        shape: Shape,
        channels: usize,
        tiles: Tiles,
        m: *const f32,
        start: Start,
        y: *mut f32,
        relu: bool,
    );
    run_transform_output_pooled = transform_output_pooled(
        shape: Shape,
        channels: (usize, usize),
        tiles: Tiles,
        m: *const f32,
        bias: Option<*const f32>,
        to: &Pooled,
    );
    run_transform_gradient = transform_gradient(
        shape: Shape,
        channels: usize,
        tiles: Tiles,
        dy: *const f32,
        out: *mut f32,
    );
    run_fold_sums = fold_sums(count: usize, sums: *const f32, dw: *mut f32);
    run_class_squares = class_squares(
        tiles: &ClassTiles,
        delta: (&[*const f32], usize),
        found: &mut [[f32; LANES]],
        inverse: &[f32],
        pairs: *mut f32,
    );
);

/// Weights `[out, in, 3, 3]` of a convolution from shape `input` to shape `output`, transformed for
/// the forward pass and, if there is room for it, the gradient of the input.
pub(crate) fn prepare_weights(
    isa: Isa,
    (input, output): (Shape, Shape),
    weights: &[f32],
    forward: &mut [f32],
    backward: Option<&mut [f32]>,
) {
    let channels = (output.channels, input.channels);
    let count = channels.0 * channels.1;
    assert_eq!(weights.len(), 9 * count);
    assert_eq!(forward.len(), Tiling::of(output).points() * count);
    let to = forward.as_mut_ptr();
    // SAFETY: the lengths were checked.
    unsafe {
        run_transform_weights(
            isa,
            Tiling::of(output),
            weights.as_ptr(),
            channels,
            false,
            to,
        )
    };
    if let Some(backward) = backward {
        assert_eq!(backward.len(), Tiling::of(input).points() * count);
        let to = backward.as_mut_ptr();
        // SAFETY: the lengths were checked.
        unsafe {
            run_transform_weights(isa, Tiling::of(input), weights.as_ptr(), channels, true, to)
        };
    }
}

/// What becomes of the tiles of a convolution.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Output<'a> {
    /// They are stored, after `max(·, 0)` if told so.
    Plain {
        y: *mut f32,
        start: Start,
        relu: bool,
    },
    /// Only their maxima are.
    Pooled {
        bias: Option<*const f32>,
        to: &'a Pooled,
    },
}

/// 3×3 convolution of stride 1 from shape `from` to shape `to` with zeros `(top, left)` before the
/// input and transformed weights.
pub(crate) unsafe fn convolve(
    isa: Isa,
    (from, to): (Shape, Shape),
    before: (usize, usize),
    (x, weights): (*const f32, *const f32),
    output: Output<'_>,
    scratch: *mut f32,
) {
    let tiling = Tiling::of(to);
    let (inputs, outputs) = (from.channels, to.channels);
    let (across, total) = tiling.tiles(to);
    let capacity = tiling.strip(inputs);
    let (from_plane, to_plane) = (
        inputs * capacity * LANES + GAP,
        CHUNK * capacity * LANES + GAP,
    );
    let t = Taps::dense(
        inputs,
        (capacity * LANES, LANES),
        (inputs, 1),
        (capacity * LANES, LANES),
    );
    // SAFETY: `scratch` has room for both sets of planes.
    unsafe {
        let products = scratch.add(tiling.points() * from_plane);
        for first in (0..total).step_by(capacity) {
            let tiles = Tiles {
                across,
                first,
                count: capacity.min(total - first),
                capacity,
            };
            run_transform_input(isa, tiling, from, before, tiles, x, scratch);
            for o in (0..outputs).step_by(CHUNK) {
                let count = CHUNK.min(outputs - o);
                for p in 0..tiling.points() {
                    taps::run_row(
                        isa,
                        &t,
                        count,
                        tiles.count,
                        scratch.add(p * from_plane),
                        weights.add((p * outputs + o) * inputs),
                        products.add(p * to_plane),
                        Start::Zero,
                        false,
                    );
                }
                match output {
                    Output::Plain { y, start, relu } => {
                        let y = y.add(o * to.plane() * LANES);
                        let start = match start {
                            Start::Bias(bias) => Start::Bias(bias.add(o)),
                            other => other,
                        };
                        run_transform_output(
                            isa, tiling, to, count, tiles, products, start, y, relu,
                        );
                    }
                    Output::Pooled { bias, to: pooled } => {
                        let channels = (o, count);
                        run_transform_output_pooled(
                            isa, tiling, to, channels, tiles, products, bias, pooled,
                        );
                    }
                }
            }
        }
    }
}

/// `dw += ` gradient of the weights `[out, in, 3, 3]`.
pub(crate) unsafe fn weight_gradient(
    isa: Isa,
    (input, output): (Shape, Shape),
    before: (usize, usize),
    (x, dy): (*const f32, *const f32),
    dw: *mut f32,
    scratch: *mut f32,
) {
    let tiling = Tiling::of_gradient(output);
    let points = tiling.points();
    let (inputs, outputs) = (input.channels, output.channels);
    let (across, total) = tiling.tiles(output);
    let capacity = tiling.gradient_strip(inputs);
    let input_plane = inputs * capacity * LANES + GAP;
    let chunk_plane = CHUNK * capacity * LANES + GAP;
    // SAFETY: `scratch` has room for the sums and both sets of planes.
    unsafe {
        let sums = scratch;
        let area = inputs * outputs;
        let tiles_of_input = scratch.add((points * area).next_multiple_of(LANES));
        let tiles_of_gradient = tiles_of_input.add(points * input_plane);
        sums.write_bytes(0, points * area);
        for first in (0..total).step_by(capacity) {
            let tiles = Tiles {
                across,
                first,
                count: capacity.min(total - first),
                capacity,
            };
            run_transform_input(isa, tiling, input, before, tiles, x, tiles_of_input);
            let t = Outer {
                rows: 1,
                columns: tiles.count,
                a_m: capacity * LANES,
                a_row: 0,
                a_column: LANES,
                b_n: capacity * LANES,
                b_row: 0,
                b_column: LANES,
                out_m: inputs,
                out_n: 1,
            };
            for o in (0..outputs).step_by(CHUNK) {
                let count = CHUNK.min(outputs - o);
                let dy = dy.add(o * output.plane() * LANES);
                run_transform_gradient(isa, tiling, output, count, tiles, dy, tiles_of_gradient);
                for p in 0..points {
                    outer::run_products(
                        isa,
                        &t,
                        count,
                        inputs,
                        tiles_of_gradient.add(p * chunk_plane),
                        tiles_of_input.add(p * input_plane),
                        sums.add(p * area + o * inputs),
                    );
                }
            }
        }
        run_fold_sums(isa, tiling, area, sums, dw);
    }
}

/// All tiles of the input of a convolution, transformed, for the gradients of its weights by class
/// and image, and room for what else they take.
pub(crate) struct ClassTiles {
    tiling: Tiling,
    input: Shape,
    output: Shape,
    /// Tiles per strip.
    capacity: usize,
    /// Of the input, a strip after another.
    tiles: *mut f32,
    /// Of the gradients of one output channel, a strip of every class.
    gradients: *mut f32,
    /// Sums over tiles, for each point, some input channels and classes.
    sums: *mut f32,
}

/// Input channels whose sums over tiles are formed one after another: gradients are fetched for
/// each such block, and the sums of many channels leave the cache.
const BLOCK: usize = 8;
/// Input channels whose gradients of weights stay in the first cache until they are used.
const USED: usize = 4;

impl ClassTiles {
    /// The numbers that tiles, gradients and sums take.
    fn lens(input: Shape, output: Shape) -> [usize; 3] {
        let tiling = Tiling::of_gradient(output);
        let (capacity, total) = (Self::capacity(tiling, output), tiling.tiles(output).1);
        let plane = |count: usize| tiling.points() * (count * LANES + GAP);
        [
            total.div_ceil(capacity) * plane(input.channels * capacity),
            plane(CHUNK * capacity),
            plane(Self::channels(tiling, input, output) * CHUNK),
        ]
    }

    /// Vectors of scratch memory.
    pub fn scratch(input: Shape, output: Shape) -> usize {
        let lens = Self::lens(input, output);
        lens.iter().sum::<usize>().div_ceil(LANES)
    }

    /// Input channels whose sums are there at a time: all where there are several strips, so that
    /// the gradients of each are transformed once.
    fn channels(tiling: Tiling, input: Shape, output: Shape) -> usize {
        match tiling.tiles(output).1 <= Self::capacity(tiling, output) {
            true => BLOCK.min(input.channels),
            false => input.channels,
        }
    }

    fn block(&self) -> usize {
        Self::channels(self.tiling, self.input, self.output)
    }

    /// The gradients of a point of a strip stay in the first cache.
    fn capacity(tiling: Tiling, output: Shape) -> usize {
        tiling.tiles(output).1.min(CLASS_TILES)
    }

    /// # Safety
    /// `x` is a whole input of a 3×3 convolution of stride 1, and the scratch memory has
    /// [`scratch`](Self::scratch) vectors.
    pub unsafe fn new(isa: Isa, conv: &Conv, x: *const f32, scratch: *mut f32) -> Self {
        let (input, output) = (conv.input, conv.output);
        let tiling = Tiling::of_gradient(output);
        let [tiles, gradients, _] = Self::lens(input, output);
        let found = Self {
            tiling,
            input,
            output,
            capacity: Self::capacity(tiling, output),
            tiles: scratch,
            gradients: scratch.wrapping_add(tiles),
            sums: scratch.wrapping_add(tiles + gradients),
        };
        let strip = tiling.points() * (input.channels * found.capacity * LANES + GAP);
        let before = (conv.padding.top, conv.padding.left);
        for (number, tiles) in found.strips().enumerate() {
            let to = found.tiles.wrapping_add(number * strip);
            // SAFETY: the caller's promise.
            unsafe { run_transform_input(isa, tiling, input, before, tiles, x, to) };
        }
        found
    }

    fn strips(&self) -> impl Iterator<Item = Tiles> {
        let (across, total) = self.tiling.tiles(self.output);
        let capacity = self.capacity;
        (0..total).step_by(capacity).map(move |first| Tiles {
            across,
            first,
            count: capacity.min(total - first),
            capacity,
        })
    }

    /// Adds what the weights of the output channel at the offset give, whose `1/Λ` are `inverse`,
    /// to the sums of all pairs of classes.
    ///
    /// # Safety
    /// `delta` has a whole output for each of the classes, and `pairs` a vector for each pair.
    pub unsafe fn add_squares(
        &self,
        isa: Isa,
        delta: (&[*const f32], usize),
        found: &mut [[f32; LANES]],
        inverse: &[f32],
        pairs: *mut f32,
    ) {
        assert_eq!(inverse.len(), 9 * self.input.channels);
        assert_eq!(found.len(), inverse.len() * delta.0.len());
        // SAFETY: the caller's promise, and the lengths were checked.
        unsafe { run_class_squares(isa, self.tiling, self, delta, found, inverse, pairs) };
    }
}

#[cfg(test)]
mod tests {
    use super::super::vector::Portable;
    use super::*;

    /// `Aᵀ (G g ⊙ Bᵀ d)`, and its gradients in the direction `dy`.
    fn once<F: Form<N, M>, const N: usize, const M: usize>(
        g: [f32; 3],
        d: [f32; N],
        dy: [f32; M],
    ) -> ([f32; M], [f32; 3]) {
        // SAFETY: `Portable` runs everywhere.
        unsafe {
            let first = |v: Portable| {
                let mut out = [0.0; 4];
                v.store(out.as_mut_ptr());
                out[0]
            };
            let u = F::kernel(g.map(|v| Portable::splat(v)));
            let v = F::input(d.map(|v| Portable::splat(v)));
            let z = F::gradient(dy.map(|v| Portable::splat(v)));
            let m = std::array::from_fn(|i| u[i].mul(v[i]));
            let s = std::array::from_fn(|i| z[i].mul(v[i]));
            (F::output(m).map(first), F::kernel_gradient(s).map(first))
        }
    }

    fn is_the_convolution<F: Form<N, M>, const N: usize, const M: usize>() {
        let number = |i: usize| ((i * 37 + 11) % 23) as f32 / 8.0 - 1.3;
        for round in 0..50 {
            let g: [f32; 3] = std::array::from_fn(|i| number(round + 5 * i));
            let d: [f32; N] = std::array::from_fn(|i| number(2 * round + 3 * i));
            let dy: [f32; M] = std::array::from_fn(|i| number(3 * round + 7 * i));
            let (y, dg) = once::<F, N, M>(g, d, dy);
            for (k, &y) in y.iter().enumerate() {
                let want: f32 = (0..3).map(|i| g[i] * d[k + i]).sum();
                assert!((y - want).abs() < 1e-5, "{y} {want}");
            }
            for (i, &dg) in dg.iter().enumerate() {
                let want: f32 = (0..M).map(|k| dy[k] * d[k + i]).sum();
                assert!((dg - want).abs() < 1e-5, "{dg} {want}");
            }
        }
    }

    #[test]
    fn both_forms_are_the_convolution() {
        is_the_convolution::<Two, 4, 2>();
        is_the_convolution::<Four, 6, 4>();
    }

    #[test]
    fn fewer_products_decide() {
        for (height, width, want) in [
            (1, 1, Tiling::Two),
            (2, 2, Tiling::Two),
            (3, 3, Tiling::Four),
            (4, 4, Tiling::Four),
            (5, 5, Tiling::Two),
            (8, 8, Tiling::Four),
            (2, 32, Tiling::Two),
        ] {
            assert_eq!(
                Tiling::of(Shape::new(1, height, width)),
                want,
                "{height}×{width}"
            );
        }
    }
}
