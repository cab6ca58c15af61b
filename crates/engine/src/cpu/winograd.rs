//! Winograd's F(2×2, 3×3): 3×3 convolutions of stride 1 with 16 instead of 36 products per 2×2 outputs, in all three passes.
//!
//! With `U = G g Gᵀ`, `V = Bᵀ d B` for each 4×4 tile `d` of the input (steps of 2), the outputs are `Aᵀ (Σ_c U ⊙ V) A`. The gradient of
//! the input is the same with turned weights; that of the weights is `Gᵀ (Σ_tiles (A dy Aᵀ) ⊙ V) G`. Tiles are handled in
//! strips that stay in the second cache.

use super::outer::{self, Outer};
use super::taps::{self, Pooled, Start, Taps};
use super::vector::{LANES, Vector, kernel};
use crate::network::Shape;
use cbopt::Isa;

/// Entries of a tile in the transformed domain.
pub(crate) const POINTS: usize = 16;
/// Numbers between two planes of the scratch memory, so that the 16 planes do not meet in one set of the cache.
const GAP: usize = 5 * LANES;
/// Output channels whose gradient is transformed at once.
const CHUNK: usize = 16;

/// Tiles per strip of a convolution.
fn strip(channels: usize) -> usize {
    (512 / channels.max(1)).clamp(4, 32) / 4 * 4
}

/// Tiles per strip of the gradient of the weights.
fn gradient_strip(channels: usize) -> usize {
    (512 / channels.max(1)).clamp(16, 32)
}

/// Vectors of scratch memory for any of the passes.
pub(crate) fn scratch(input: usize, output: usize) -> usize {
    let gaps = 2 * POINTS * GAP / LANES;
    let convolve = POINTS * (input + output) * strip(input + output);
    let tiles = gradient_strip(input);
    let sums = (POINTS * input * output).div_ceil(LANES);
    let gradient = POINTS * (input + CHUNK) * tiles + sums;
    convolve.max(gradient) + gaps
}

/// `U = G g Gᵀ` of one kernel.
fn transform_kernel(g: [f32; 9]) -> [f32; 16] {
    let mut half = [[0.0f32; 3]; 4];
    for j in 0..3 {
        let (a, b, c) = (g[j], g[3 + j], g[6 + j]);
        half[0][j] = a;
        half[1][j] = 0.5 * (a + b + c);
        half[2][j] = 0.5 * (a - b + c);
        half[3][j] = c;
    }
    let mut out = [0.0; 16];
    for (i, [a, b, c]) in half.into_iter().enumerate() {
        out[4 * i] = a;
        out[4 * i + 1] = 0.5 * (a + b + c);
        out[4 * i + 2] = 0.5 * (a - b + c);
        out[4 * i + 3] = c;
    }
    out
}

/// Weights `[out, in, 3, 3]` to `[16, out, in]` for the forward pass and, turned, to `[16, in, out]` for the gradient of the input.
pub(crate) fn transform_weights(
    weights: &[f32],
    (outputs, inputs): (usize, usize),
    forward: &mut [f32],
    backward: Option<&mut [f32]>,
) {
    let plane = outputs * inputs;
    let mut backward = backward;
    for o in 0..outputs {
        for i in 0..inputs {
            let at = o * inputs + i;
            let kernel: [f32; 9] = std::array::from_fn(|j| weights[at * 9 + j]);
            for (p, value) in transform_kernel(kernel).into_iter().enumerate() {
                forward[p * plane + at] = value;
            }
            if let Some(backward) = backward.as_deref_mut() {
                let turned = std::array::from_fn(|j| kernel[8 - j]);
                for (p, value) in transform_kernel(turned).into_iter().enumerate() {
                    backward[p * plane + i * outputs + o] = value;
                }
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
    room: usize,
}

/// `V = Bᵀ d B`; the tile at `(ty, tx)` begins at `(2 ty - top, 2 tx - left)`, zeros outside.
#[inline(always)]
unsafe fn transform_input<V: Vector>(
    shape: Shape,
    top: usize,
    left: usize,
    tiles: Tiles,
    x: *const f32,
    out: *mut f32,
) {
    let plane = shape.channels * tiles.room * LANES + GAP;
    let (height, width) = (shape.height as isize, shape.width as isize);
    // SAFETY: loads are guarded at the borders; `out` has 16 planes.
    unsafe {
        for c in 0..shape.channels {
            let x = x.add(c * shape.plane() * LANES);
            for t in 0..tiles.count {
                let tile = tiles.first + t;
                let row = (2 * (tile / tiles.across)) as isize - top as isize;
                let column = (2 * (tile % tiles.across)) as isize - left as isize;
                let inside = row >= 0 && column >= 0 && row + 4 <= height && column + 4 <= width;
                for part in 0..V::PARTS {
                    let lane = part * V::WIDTH;
                    let mut d = [[V::splat(0.0); 4]; 4];
                    if inside {
                        let at = x.add((row * width + column) as usize * LANES + lane);
                        for (i, line) in d.iter_mut().enumerate() {
                            for (j, v) in line.iter_mut().enumerate() {
                                *v = V::load(at.add((i * shape.width + j) * LANES));
                            }
                        }
                    } else {
                        for (i, line) in d.iter_mut().enumerate() {
                            for (j, v) in line.iter_mut().enumerate() {
                                let (r, k) = (row + i as isize, column + j as isize);
                                if r >= 0 && k >= 0 && r < height && k < width {
                                    *v = V::load(x.add((r * width + k) as usize * LANES + lane));
                                }
                            }
                        }
                    }
                    let mut half = [[V::splat(0.0); 4]; 4];
                    for j in 0..4 {
                        half[0][j] = d[0][j].sub(d[2][j]);
                        half[1][j] = d[1][j].add(d[2][j]);
                        half[2][j] = d[2][j].sub(d[1][j]);
                        half[3][j] = d[1][j].sub(d[3][j]);
                    }
                    let out = out.add((c * tiles.room + t) * LANES + lane);
                    for (i, [a, b, c, d]) in half.into_iter().enumerate() {
                        a.sub(c).store(out.add(4 * i * plane));
                        b.add(c).store(out.add((4 * i + 1) * plane));
                        c.sub(b).store(out.add((4 * i + 2) * plane));
                        b.sub(d).store(out.add((4 * i + 3) * plane));
                    }
                }
            }
        }
    }
}
kernel!(
    run_transform_input = transform_input(
        shape: Shape,
        top: usize,
        left: usize,
        tiles: Tiles,
        x: *const f32,
        out: *mut f32,
    )
);

/// `Aᵀ m A` of one tile, its 16 points `plane` numbers apart.
#[inline(always)]
unsafe fn tile_output<V: Vector>(m: *const f32, plane: usize) -> [[V; 2]; 2] {
    // SAFETY: the caller promises 16 planes.
    unsafe {
        let zero = V::splat(0.0);
        let mut half = [[zero; 2]; 4];
        for (i, line) in half.iter_mut().enumerate() {
            let mut v = [zero; 4];
            for (j, v) in v.iter_mut().enumerate() {
                *v = V::load(m.add((4 * i + j) * plane));
            }
            *line = [v[0].add(v[1]).add(v[2]), v[1].sub(v[2]).sub(v[3])];
        }
        let mut out = [[zero; 2]; 2];
        for j in 0..2 {
            let [a, b, c, d] = [half[0][j], half[1][j], half[2][j], half[3][j]];
            out[0][j] = a.add(b).add(c);
            out[1][j] = b.sub(c).sub(d);
        }
        out
    }
}

/// `y = Aᵀ m A + bias`, cut at the borders.
#[inline(always)]
unsafe fn transform_output<V: Vector>(
    shape: Shape,
    tiles: Tiles,
    m: *const f32,
    start: Start,
    y: *mut f32,
    relu: bool,
) {
    let plane = shape.channels * tiles.room * LANES + GAP;
    // SAFETY: stores are guarded at the borders; `m` has 16 planes.
    unsafe {
        let zero = V::splat(0.0);
        for c in 0..shape.channels {
            let y = y.add(c * shape.plane() * LANES);
            let bias = match start {
                Start::Bias(bias) => V::splat(*bias.add(c)),
                _ => zero,
            };
            for t in 0..tiles.count {
                let tile = tiles.first + t;
                let (row, column) = (2 * (tile / tiles.across), 2 * (tile % tiles.across));
                for part in 0..V::PARTS {
                    let lane = part * V::WIDTH;
                    let m = m.add((c * tiles.room + t) * LANES + lane);
                    let out: [[V; 2]; 2] = tile_output(m, plane);
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
kernel!(
    run_transform_output = transform_output(
        shape: Shape,
        tiles: Tiles,
        m: *const f32,
        start: Start,
        y: *mut f32,
        relu: bool,
    )
);

/// The maxima of the tiles `Aᵀ m A + bias`: a tile is a window of 2×2 pixels. Incomplete ones are left out.
#[inline(always)]
unsafe fn transform_output_pooled<V: Vector>(
    shape: Shape,
    tiles: Tiles,
    m: *const f32,
    bias: Option<*const f32>,
    to: &Pooled,
) {
    let plane = shape.channels * tiles.room * LANES + GAP;
    let (rows, columns) = (shape.height / 2, shape.width / 2);
    // SAFETY: incomplete tiles are left out; `m` has 16 planes.
    unsafe {
        for c in 0..shape.channels {
            let bias = V::splat(bias.map_or(0.0, |bias| *bias.add(c)));
            for t in 0..tiles.count {
                let tile = tiles.first + t;
                let (row, column) = (tile / tiles.across, tile % tiles.across);
                if row >= rows || column >= columns {
                    continue;
                }
                for part in 0..V::PARTS {
                    let lane = part * V::WIDTH;
                    let m = m.add((c * tiles.room + t) * LANES + lane);
                    let [[a, b], [c2, d]]: [[V; 2]; 2] = tile_output(m, plane);
                    let window = [a.add(bias), b.add(bias), c2.add(bias), d.add(bias)];
                    let at = (c * rows + row) * columns + column;
                    to.store(window, at * LANES + lane);
                }
            }
        }
    }
}
kernel!(
    run_transform_output_pooled = transform_output_pooled(
        shape: Shape,
        tiles: Tiles,
        m: *const f32,
        bias: Option<*const f32>,
        to: &Pooled,
    )
);

/// `Z = A dy Aᵀ` of `channels` channels.
#[inline(always)]
unsafe fn transform_gradient<V: Vector>(
    shape: Shape,
    channels: usize,
    tiles: Tiles,
    dy: *const f32,
    out: *mut f32,
) {
    let plane = CHUNK * tiles.room * LANES + GAP;
    // SAFETY: loads are guarded at the borders; `out` has 16 planes of `CHUNK` channels.
    unsafe {
        let zero = V::splat(0.0);
        for c in 0..channels {
            let dy = dy.add(c * shape.plane() * LANES);
            for t in 0..tiles.count {
                let tile = tiles.first + t;
                let (row, column) = (2 * (tile / tiles.across), 2 * (tile % tiles.across));
                let (low, right) = (row + 1 < shape.height, column + 1 < shape.width);
                for part in 0..V::PARTS {
                    let lane = part * V::WIDTH;
                    let at = dy.add((row * shape.width + column) * LANES + lane);
                    let under = at.wrapping_add(shape.width * LANES);
                    let a = V::load(at);
                    let b = if right { V::load(at.add(LANES)) } else { zero };
                    let c2 = if low { V::load(under) } else { zero };
                    let d = if low && right {
                        V::load(under.add(LANES))
                    } else {
                        zero
                    };
                    let half = [
                        [a, b],
                        [a.add(c2), b.add(d)],
                        [a.sub(c2), b.sub(d)],
                        [zero.sub(c2), zero.sub(d)],
                    ];
                    let out = out.add((c * tiles.room + t) * LANES + lane);
                    for (i, [a, b]) in half.into_iter().enumerate() {
                        a.store(out.add(4 * i * plane));
                        a.add(b).store(out.add((4 * i + 1) * plane));
                        a.sub(b).store(out.add((4 * i + 2) * plane));
                        zero.sub(b).store(out.add((4 * i + 3) * plane));
                    }
                }
            }
        }
    }
}
kernel!(
    run_transform_gradient = transform_gradient(
        shape: Shape,
        channels: usize,
        tiles: Tiles,
        dy: *const f32,
        out: *mut f32,
    )
);

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

/// 3×3 convolution of stride 1 from shape `from` to shape `to` with zeros `(top, left)` before the input and transformed weights.
pub(crate) unsafe fn convolve(
    isa: Isa,
    (from, to): (Shape, Shape),
    (top, left): (usize, usize),
    (x, weights): (*const f32, *const f32),
    output: Output<'_>,
    scratch: *mut f32,
) {
    let (inputs, outputs) = (from.channels, to.channels);
    let across = to.width.div_ceil(2);
    let total = across * to.height.div_ceil(2);
    let room = strip(inputs + outputs);
    let (from_plane, to_plane) = (inputs * room * LANES + GAP, outputs * room * LANES + GAP);
    let t = Taps {
        channels: inputs,
        rows: 1,
        columns: 1,
        x_channel: (room * LANES) as isize,
        x_row: 0,
        x_column: 0,
        x_pixel: LANES as isize,
        w_out: inputs as isize,
        w_channel: 1,
        w_row: 0,
        w_column: 0,
        y_out: (room * LANES) as isize,
        y_pixel: LANES as isize,
    };
    // SAFETY: `scratch` has room for both sets of planes.
    unsafe {
        let products = scratch.add(POINTS * from_plane);
        let mut first = 0;
        while first < total {
            let tiles = Tiles {
                across,
                first,
                count: room.min(total - first),
                room,
            };
            run_transform_input(isa, from, top, left, tiles, x, scratch);
            for p in 0..POINTS {
                taps::run_row(
                    isa,
                    &t,
                    outputs,
                    tiles.count,
                    scratch.add(p * from_plane),
                    weights.add(p * inputs * outputs),
                    products.add(p * to_plane),
                    Start::Zero,
                    false,
                );
            }
            match output {
                Output::Plain { y, start, relu } => {
                    run_transform_output(isa, to, tiles, products, start, y, relu);
                }
                Output::Pooled { bias, to: pooled } => {
                    run_transform_output_pooled(isa, to, tiles, products, bias, pooled);
                }
            }
            first += room;
        }
    }
}

/// `dw += ` gradient of the weights `[out, in, 3, 3]`.
pub(crate) unsafe fn weight_gradient(
    isa: Isa,
    (input, output): (Shape, Shape),
    (top, left): (usize, usize),
    (x, dy): (*const f32, *const f32),
    dw: *mut f32,
    scratch: *mut f32,
) {
    let (inputs, outputs) = (input.channels, output.channels);
    let across = output.width.div_ceil(2);
    let total = across * output.height.div_ceil(2);
    let room = gradient_strip(inputs);
    let input_plane = inputs * room * LANES + GAP;
    let chunk_plane = CHUNK * room * LANES + GAP;
    // SAFETY: `scratch` has room for the sums and both sets of planes.
    unsafe {
        let sums = scratch;
        let area = inputs * outputs;
        let tiles_of_input = scratch.add((POINTS * area).next_multiple_of(LANES));
        let tiles_of_gradient = tiles_of_input.add(POINTS * input_plane);
        sums.write_bytes(0, POINTS * area);
        let mut first = 0;
        while first < total {
            let tiles = Tiles {
                across,
                first,
                count: room.min(total - first),
                room,
            };
            run_transform_input(isa, input, top, left, tiles, x, tiles_of_input);
            let t = Outer {
                rows: 1,
                columns: tiles.count,
                a_m: room * LANES,
                a_row: 0,
                a_column: LANES,
                b_n: room * LANES,
                b_row: 0,
                b_column: LANES,
                out_m: inputs,
                out_n: 1,
            };
            let mut o = 0;
            while o < outputs {
                let count = CHUNK.min(outputs - o);
                let dy = dy.add(o * output.plane() * LANES);
                run_transform_gradient(isa, output, count, tiles, dy, tiles_of_gradient);
                for p in 0..POINTS {
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
                o += count;
            }
            first += room;
        }
        for at in 0..area {
            // Gᵀ s G
            let s = |p: usize| *sums.add(p * area + at);
            let mut half = [[0.0f32; 4]; 3];
            for j in 0..4 {
                let (a, b, c, d) = (s(j), s(4 + j), s(8 + j), s(12 + j));
                half[0][j] = a + 0.5 * (b + c);
                half[1][j] = 0.5 * (b - c);
                half[2][j] = 0.5 * (b + c) + d;
            }
            for (i, [a, b, c, d]) in half.into_iter().enumerate() {
                let out = dw.add(at * 9 + 3 * i);
                *out += a + 0.5 * (b + c);
                *out.add(1) += 0.5 * (b - c);
                *out.add(2) += 0.5 * (b + c) + d;
            }
        }
    }
}
