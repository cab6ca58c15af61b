//! The one kernel behind convolutions, dense layers and Winograd products: weights broadcast over
//! contiguous images.
//!
//! `y[o][p] = start + Σ_{c, r, k} w[o][c][r][k] · x[c][r][k][p]`, each `y[o][p]` one vector of
//! images. Strides are free, so that the same loop serves the forward pass, the gradient of the
//! input (rows and columns of taps run backwards) and products of matrices (one tap).

use super::simple::window_maximum;
use super::vector::Vector;

/// Strides, in numbers, and counts of one tile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Taps {
    pub channels: usize,
    pub rows: usize,
    pub columns: usize,
    pub x_channel: isize,
    pub x_row: isize,
    pub x_column: isize,
    pub x_pixel: isize,
    pub w_out: isize,
    pub w_channel: isize,
    pub w_row: isize,
    pub w_column: isize,
    pub y_out: isize,
    pub y_pixel: isize,
}

impl Taps {
    /// A product of matrices: `y[o][p] = Σ_c w[o][c] · x[c][p]`, with the distances of rows and
    /// entries of each.
    pub fn dense(
        channels: usize,
        (x_channel, x_pixel): (usize, usize),
        (w_out, w_channel): (usize, usize),
        (y_out, y_pixel): (usize, usize),
    ) -> Self {
        Self {
            channels,
            rows: 1,
            columns: 1,
            x_channel: x_channel as isize,
            x_row: 0,
            x_column: 0,
            x_pixel: x_pixel as isize,
            w_out: w_out as isize,
            w_channel: w_channel as isize,
            w_row: 0,
            w_column: 0,
            y_out: y_out as isize,
            y_pixel: y_pixel as isize,
        }
    }
}

/// What a sum starts from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Start {
    Zero,
    /// One number per output channel.
    Bias(*const f32),
    /// What is in the output already.
    Output,
}

impl Start {
    /// From the bias, if there is one.
    pub fn bias(bias: Option<*const f32>) -> Self {
        bias.map_or(Self::Zero, Self::Bias)
    }

    /// Added to what is there, or not.
    pub fn accumulate(accumulate: bool) -> Self {
        if accumulate { Self::Output } else { Self::Zero }
    }
}

/// Adds one tap to the sums of `OUT` channels of `PIXELS` pixels that lie `at` numbers from `x`.
#[inline(always)]
unsafe fn tap<V: Vector, const OUT: usize, const PIXELS: usize>(
    x: *const f32,
    at: [isize; PIXELS],
    w: *const f32,
    w_out: isize,
    sum: &mut [[V; PIXELS]; OUT],
) {
    // SAFETY: the caller promises that these positions are valid.
    unsafe {
        let mut pixels = [V::splat(0.0); PIXELS];
        for (v, at) in pixels.iter_mut().zip(at) {
            *v = V::load(x.offset(at));
        }
        for (o, row) in sum.iter_mut().enumerate() {
            let weight = V::splat(*w.offset(o as isize * w_out));
            for (s, v) in row.iter_mut().zip(pixels) {
                *s = s.fma(weight, v);
            }
        }
    }
}

/// The sums of `OUT` channels of `PIXELS` pixels that lie `at` numbers from `x`, begun with `sum`.
#[inline(always)]
unsafe fn sums<V: Vector, const OUT: usize, const PIXELS: usize>(
    t: &Taps,
    x: *const f32,
    at: [isize; PIXELS],
    w: *const f32,
    mut sum: [[V; PIXELS]; OUT],
) -> [[V; PIXELS]; OUT] {
    // SAFETY: the caller promises that all positions reached with these strides are valid.
    unsafe {
        if (t.rows, t.columns) == (1, 1) {
            // A product of matrices: the loops inside would cost a tenth of its time.
            let (mut x, mut w) = (x, w);
            for _ in 0..t.channels {
                tap(x, at, w, t.w_out, &mut sum);
                x = x.wrapping_offset(t.x_channel);
                w = w.wrapping_offset(t.w_channel);
            }
            return sum;
        }
        for c in 0..t.channels as isize {
            for r in 0..t.rows as isize {
                let mut x = x.wrapping_offset(c * t.x_channel + r * t.x_row);
                let mut w = w.wrapping_offset(c * t.w_channel + r * t.w_row);
                for _ in 0..t.columns {
                    tap(x, at, w, t.w_out, &mut sum);
                    x = x.wrapping_offset(t.x_column);
                    w = w.wrapping_offset(t.w_column);
                }
            }
        }
        sum
    }
}

/// What the sums of `OUT` channels of `PIXELS` pixels begin with; `y` is read only if it is to be
/// added to.
#[inline(always)]
unsafe fn begin<V: Vector, const OUT: usize, const PIXELS: usize>(
    t: &Taps,
    y: *const f32,
    start: Start,
) -> [[V; PIXELS]; OUT] {
    // SAFETY: the caller promises that all positions reached with these strides are valid.
    unsafe {
        let mut sum = [[V::splat(0.0); PIXELS]; OUT];
        match start {
            Start::Zero => {}
            Start::Bias(bias) => {
                for (o, row) in sum.iter_mut().enumerate() {
                    *row = [V::splat(*bias.add(o)); PIXELS];
                }
            }
            Start::Output => {
                for (o, row) in sum.iter_mut().enumerate() {
                    for (p, s) in row.iter_mut().enumerate() {
                        *s = V::load(y.offset(o as isize * t.y_out + p as isize * t.y_pixel));
                    }
                }
            }
        }
        sum
    }
}

/// `OUT` channels of `PIXELS` pixels.
#[inline(always)]
pub(crate) unsafe fn tile<V: Vector, const OUT: usize, const PIXELS: usize>(
    t: &Taps,
    x: *const f32,
    w: *const f32,
    y: *mut f32,
    start: Start,
    relu: bool,
) {
    // SAFETY: the caller promises that all positions reached with these strides are valid.
    unsafe {
        let mut at = [0; PIXELS];
        for (p, at) in at.iter_mut().enumerate() {
            *at = p as isize * t.x_pixel;
        }
        let sum = sums::<V, OUT, PIXELS>(t, x, at, w, begin(t, y, start));
        for (o, row) in sum.iter().enumerate() {
            for (p, &s) in row.iter().enumerate() {
                let s = if relu { V::splat(0.0).max(s) } else { s };
                s.store(y.offset(o as isize * t.y_out + p as isize * t.y_pixel));
            }
        }
    }
}

/// A row of up to `pixels` pixels for all of `outs` channels: tiles that fit the registers, then
/// the remainders.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn row<V: Vector>(
    t: &Taps,
    outs: usize,
    pixels: usize,
    x: *const f32,
    w: *const f32,
    y: *mut f32,
    start: Start,
    relu: bool,
) {
    // SAFETY: passed on from the caller.
    unsafe {
        for part in 0..V::PARTS {
            // Without taps `x` may point anywhere: it is not read then.
            let x = x.wrapping_add(part * V::WIDTH);
            let y = y.add(part * V::WIDTH);
            let mut p = 0;
            while p < pixels {
                let left = pixels - p;
                let x = x.wrapping_offset(p as isize * t.x_pixel);
                let y = y.offset(p as isize * t.y_pixel);
                if left >= 4 && V::MANY_REGISTERS {
                    column::<V, 4>(t, outs, x, w, y, start, relu);
                    p += 4;
                } else if left >= 3 && left != 4 {
                    column::<V, 3>(t, outs, x, w, y, start, relu);
                    p += 3;
                } else if left >= 2 {
                    column::<V, 2>(t, outs, x, w, y, start, relu);
                    p += 2;
                } else {
                    column::<V, 1>(t, outs, x, w, y, start, relu);
                    p += 1;
                }
            }
        }
    }
}

/// All output channels of `PIXELS` pixels.
#[inline(always)]
unsafe fn column<V: Vector, const PIXELS: usize>(
    t: &Taps,
    outs: usize,
    x: *const f32,
    w: *const f32,
    y: *mut f32,
    start: Start,
    relu: bool,
) {
    // SAFETY: passed on from the caller; `o` stays below `outs`.
    unsafe {
        let mut o = 0;
        while o < outs {
            let left = outs - o;
            let w = w.wrapping_offset(o as isize * t.w_out);
            let y = y.offset(o as isize * t.y_out);
            let start = match start {
                Start::Bias(bias) => Start::Bias(bias.add(o)),
                other => other,
            };
            let wide = PIXELS * 6 <= if V::MANY_REGISTERS { 24 } else { 12 };
            if PIXELS == 1 && left >= 16 && V::MANY_REGISTERS {
                tile::<V, 16, PIXELS>(t, x, w, y, start, relu);
                o += 16;
            } else if PIXELS == 1 && left >= 8 {
                tile::<V, 8, PIXELS>(t, x, w, y, start, relu);
                o += 8;
            } else if wide && left >= 6 && !left.is_multiple_of(4) {
                tile::<V, 6, PIXELS>(t, x, w, y, start, relu);
                o += 6;
            } else if left >= 4 {
                tile::<V, 4, PIXELS>(t, x, w, y, start, relu);
                o += 4;
            } else if left >= 2 {
                tile::<V, 2, PIXELS>(t, x, w, y, start, relu);
                o += 2;
            } else {
                tile::<V, 1, PIXELS>(t, x, w, y, start, relu);
                o += 1;
            }
        }
    }
}

super::vector::kernel!(
    /// [`row`] with the instruction set of the machine.
    run_row = row(
        t: &Taps,
        outs: usize,
        pixels: usize,
        x: *const f32,
        w: *const f32,
        y: *mut f32,
        start: Start,
        relu: bool,
    )
);

/// Where the results of a convolution with 2×2 max-pooling go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pooled {
    /// The maxima.
    pub y: *mut f32,
    /// Which entry of each window is the first maximum, if that is to be kept; see
    /// [`window_maximum`].
    pub winner: Option<*mut f32>,
    pub relu: bool,
}

impl Pooled {
    /// Stores the maximum of a window at `at` numbers from the start.
    #[inline(always)]
    pub unsafe fn store<V: Vector>(&self, window: [V; 4], at: usize) {
        // SAFETY: the caller promises that the position is valid.
        unsafe {
            let (best, which) = window_maximum(window, self.relu);
            best.store(self.y.add(at));
            if let Some(winner) = self.winner {
                which.store(winner.add(at));
            }
        }
    }
}

/// `OUT` channels of one window of 2×2 pixels, the second row `below` numbers after the first.
#[inline(always)]
unsafe fn window<V: Vector, const OUT: usize>(
    t: &Taps,
    below: isize,
    x: *const f32,
    w: *const f32,
    (to, at): (&Pooled, usize),
    start: Start,
) {
    // SAFETY: the caller promises that all positions reached with these strides are valid.
    unsafe {
        let pixels = [0, t.x_pixel, below, below + t.x_pixel];
        let sum = sums::<V, OUT, 4>(t, x, pixels, w, begin(t, to.y, start));
        for (o, &window) in sum.iter().enumerate() {
            to.store(window, at + o * t.y_out as usize);
        }
    }
}

/// A row of `count` windows for all of `outs` channels, whose maxima lie `at` numbers from the
/// start.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn window_row<V: Vector>(
    t: &Taps,
    below: isize,
    outs: usize,
    count: usize,
    x: *const f32,
    w: *const f32,
    to: &Pooled,
    at: usize,
    start: Start,
) {
    // SAFETY: passed on from the caller; `o` stays below `outs`.
    unsafe {
        for part in 0..V::PARTS {
            for i in 0..count {
                let x = x.offset(2 * i as isize * t.x_pixel).add(part * V::WIDTH);
                let at = at + i * t.y_pixel as usize + part * V::WIDTH;
                let mut o = 0;
                while o < outs {
                    let left = outs - o;
                    let w = w.offset(o as isize * t.w_out);
                    let to = (to, at + o * t.y_out as usize);
                    let start = match start {
                        Start::Bias(bias) => Start::Bias(bias.add(o)),
                        other => other,
                    };
                    if V::MANY_REGISTERS && left >= 6 && !left.is_multiple_of(4) {
                        window::<V, 6>(t, below, x, w, to, start);
                        o += 6;
                    } else if V::MANY_REGISTERS && left >= 4 {
                        window::<V, 4>(t, below, x, w, to, start);
                        o += 4;
                    } else if left >= 2 {
                        // Not three: twelve sums, four pixels and a weight are one more than 16
                        // registers.
                        window::<V, 2>(t, below, x, w, to, start);
                        o += 2;
                    } else {
                        window::<V, 1>(t, below, x, w, to, start);
                        o += 1;
                    }
                }
            }
        }
    }
}

super::vector::kernel!(
    /// [`window_row`] with the instruction set of the machine.
    run_window_row = window_row(
        t: &Taps,
        below: isize,
        outs: usize,
        count: usize,
        x: *const f32,
        w: *const f32,
        to: &Pooled,
        at: usize,
        start: Start,
    )
);

/// `y[o][i] += Σ_k g[o][k] · x[k][i]` with vectors along `i`: the gradient of a dense layer's
/// weights.
///
/// `x` has rows of `stride` numbers, a multiple of [`super::vector::LANES`], of which `inputs`
/// count.
#[inline(always)]
unsafe fn dense_gradient<V: Vector>(
    x: *const f32,
    stride: usize,
    g: *const f32,
    y: *mut f32,
    outputs: usize,
    inputs: usize,
) {
    use super::vector::LANES;
    let t = Taps::dense(LANES, (stride, V::WIDTH), (LANES, 1), (inputs, V::WIDTH));
    // SAFETY: the caller promises `x` 16 rows, `g` one vector per output, `y` one row per output.
    unsafe {
        let whole = inputs / V::WIDTH;
        let mut i = 0;
        while i < whole {
            let (x, y) = (x.add(i * V::WIDTH), y.add(i * V::WIDTH));
            if whole - i >= 4 && V::MANY_REGISTERS {
                column::<V, 4>(&t, outputs, x, g, y, Start::Output, false);
                i += 4;
            } else if whole - i >= 2 {
                column::<V, 2>(&t, outputs, x, g, y, Start::Output, false);
                i += 2;
            } else {
                column::<V, 1>(&t, outputs, x, g, y, Start::Output, false);
                i += 1;
            }
        }
        let rest = inputs - whole * V::WIDTH;
        if rest > 0 {
            let mut sums = [0.0f32; 4 * LANES];
            let t = Taps {
                y_out: LANES as isize,
                ..t
            };
            let x = x.add(whole * V::WIDTH);
            let mut o = 0;
            while o < outputs {
                let count = (outputs - o).min(4);
                column::<V, 1>(
                    &t,
                    count,
                    x,
                    g.add(o * LANES),
                    sums.as_mut_ptr(),
                    Start::Zero,
                    false,
                );
                for m in 0..count {
                    for n in 0..rest {
                        *y.add((o + m) * inputs + whole * V::WIDTH + n) += sums[m * LANES + n];
                    }
                }
                o += count;
            }
        }
    }
}

super::vector::kernel!(
    /// [`dense_gradient`] with the instruction set of the machine.
    run_dense_gradient = dense_gradient(
        x: *const f32,
        stride: usize,
        g: *const f32,
        y: *mut f32,
        outputs: usize,
        inputs: usize,
    )
);
