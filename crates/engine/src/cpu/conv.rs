//! Convolution without Winograd: forward pass, gradient of the input, gradient of the weights, for
//! any size, stride and padding.
//!
//! Rows outside the image are left out; columns outside are zeros of a copy with wider rows, made
//! only where there is padding. Blocks of pixels leave out the columns of taps that meet nothing
//! but such zeros.

use super::outer::{self, Outer};
use super::taps::{self, Pooled, Start, Taps};
use super::vector::LANES;
use crate::network::{Conv, Padding, Shape};
use machine::Isa;

/// Vectors of scratch memory that any of the passes needs, except [`forward_pooled`].
pub(crate) fn scratch(conv: &Conv) -> usize {
    let g = conv.flattened();
    let input = g.input.channels * g.input.height * g.wide_input();
    let output = g.output.channels * g.output.height * g.wide_output().2;
    input.max(output)
}

/// Vectors of scratch memory that [`forward_pooled`] needs.
pub(crate) fn pooled_scratch(conv: &Conv) -> usize {
    conv.input.channels * conv.tall_input() * conv.wide_input()
}

impl Conv {
    /// With the plane as one row if neither neighbors nor steps are involved.
    fn flattened(&self) -> Self {
        let flat = |s: Shape| Shape::new(s.channels, 1, s.plane());
        if self.kernel == 1 && self.stride == 1 && self.padding == Padding::default() {
            return Self {
                input: flat(self.input),
                output: flat(self.output),
                ..*self
            };
        }
        *self
    }

    fn is_padded(&self) -> bool {
        self.padding.left > 0 || self.padding.right > 0
    }

    /// Columns of the widened input.
    fn wide_input(&self) -> usize {
        self.input.width + self.padding.left + self.padding.right
    }

    /// Zeros before and after each row of the output's gradient, and its columns with them.
    fn wide_output(&self) -> (usize, usize, usize) {
        let before = (self.kernel - 1) / self.stride;
        let last = (self.input.width - 1 + self.padding.left) / self.stride;
        let after = (last + 1).saturating_sub(self.output.width);
        (before, after, self.output.width + before + after)
    }

    /// Rows of the input with its padding.
    fn tall_input(&self) -> usize {
        self.input.height + self.padding.top + self.padding.bottom
    }

    /// Rows of taps of output row `y` that meet the image.
    fn rows(&self, y: usize) -> (usize, usize) {
        let first = self.padding.top.saturating_sub(y * self.stride);
        let end = (self.input.height + self.padding.top).saturating_sub(y * self.stride);
        let end = end.min(self.kernel);
        (first.min(end), end)
    }
}

/// Copies `rows` rows of `width` vectors into rows of `wide` vectors with `before` zeros at the
/// front.
unsafe fn widen(
    from: *const f32,
    to: *mut f32,
    rows: usize,
    width: usize,
    before: usize,
    wide: usize,
) {
    // SAFETY: the caller promises `rows * width` vectors to read and `rows * wide` to write.
    unsafe {
        for row in 0..rows {
            let line = to.add(row * wide * LANES);
            let after = (wide - before - width) * LANES;
            line.write_bytes(0, before * LANES);
            std::ptr::copy_nonoverlapping(
                from.add(row * width * LANES),
                line.add(before * LANES),
                width * LANES,
            );
            line.add((before + width) * LANES).write_bytes(0, after);
        }
    }
}

/// Input with its padding in the columns, and its number of columns.
unsafe fn padded_input(g: &Conv, x: *const f32, scratch: *mut f32) -> (*const f32, usize) {
    if !g.is_padded() {
        return (x, g.input.width);
    }
    let wide = g.wide_input();
    let rows = g.input.channels * g.input.height;
    // SAFETY: `scratch` has as many vectors as [`scratch`] says.
    unsafe { widen(x, scratch, rows, g.input.width, g.padding.left, wide) };
    (scratch, wide)
}

/// `y = w * x + bias`, then `max(·, 0)` if `relu`.
pub(crate) unsafe fn forward(
    isa: Isa,
    g: &Conv,
    (x, w, bias): (*const f32, *const f32, Option<*const f32>),
    y: *mut f32,
    relu: bool,
    scratch: *mut f32,
) {
    let g = &g.flattened();
    let k = g.kernel;
    // SAFETY: rows and columns of taps stay inside the (widened) image by construction.
    unsafe {
        let (x, wide) = padded_input(g, x, scratch);
        let lane = LANES as isize;
        let t = Taps {
            channels: g.input.channels,
            rows: 0,
            columns: k,
            x_channel: (g.input.height * wide) as isize * lane,
            x_row: wide as isize * lane,
            x_column: lane,
            x_pixel: g.stride as isize * lane,
            w_out: (g.input.channels * k * k) as isize,
            w_channel: (k * k) as isize,
            w_row: k as isize,
            w_column: 1,
            y_out: g.output.plane() as isize * lane,
            y_pixel: lane,
        };
        let start = Start::bias(bias);
        for oy in 0..g.output.height {
            let (first, end) = g.rows(oy);
            let t = Taps {
                rows: end - first,
                ..t
            };
            let row = (oy * g.stride + first).saturating_sub(g.padding.top);
            let x = x.wrapping_add(row * wide * LANES);
            let w = w.wrapping_add(first * k);
            let y = y.add(oy * g.output.width * LANES);
            taps::run_row(
                isa,
                &t,
                g.output.channels,
                g.output.width,
                x,
                w,
                y,
                start,
                relu,
            );
        }
    }
}

/// The maxima of the 2×2 windows of `w * x + bias`, or of `max(·, 0)` of it; an incomplete last row
/// or column is left out.
///
/// Padding in the rows is copied as well: the two rows of a window then meet the same taps.
pub(crate) unsafe fn forward_pooled(
    isa: Isa,
    g: &Conv,
    (x, w, bias): (*const f32, *const f32, Option<*const f32>),
    to: &Pooled,
    scratch: *mut f32,
) {
    let k = g.kernel;
    let (rows, columns) = (g.output.height / 2, g.output.width / 2);
    // SAFETY: taps stay inside the image with its padding by construction.
    unsafe {
        let (wide, tall) = (g.wide_input(), g.tall_input());
        let mut source = x;
        if (wide, tall) != (g.input.width, g.input.height) {
            let blank = |row: usize, count: usize| {
                let at = scratch.add(row * wide * LANES);
                at.write_bytes(0, count * wide * LANES);
            };
            for c in 0..g.input.channels {
                let first = c * tall + g.padding.top;
                blank(c * tall, g.padding.top);
                widen(
                    x.add(c * g.input.plane() * LANES),
                    scratch.add(first * wide * LANES),
                    g.input.height,
                    g.input.width,
                    g.padding.left,
                    wide,
                );
                blank(first + g.input.height, g.padding.bottom);
            }
            source = scratch;
        }
        let lane = LANES as isize;
        let t = Taps {
            channels: g.input.channels,
            rows: k,
            columns: k,
            x_channel: (tall * wide) as isize * lane,
            x_row: wide as isize * lane,
            x_column: lane,
            x_pixel: g.stride as isize * lane,
            w_out: (g.input.channels * k * k) as isize,
            w_channel: (k * k) as isize,
            w_row: k as isize,
            w_column: 1,
            y_out: (rows * columns) as isize * lane,
            y_pixel: lane,
        };
        let below = (g.stride * wide) as isize * lane;
        let start = Start::bias(bias);
        for row in 0..rows {
            let x = source.add(2 * row * g.stride * wide * LANES);
            let at = row * columns * LANES;
            let outs = g.output.channels;
            taps::run_window_row(isa, &t, below, outs, columns, x, w, to, at, start);
        }
    }
}

/// `dx (+)= ` gradient of the input, for the gradient `dy` of the output.
///
/// Long because its loops share the strides and borders that all of them need.
pub(crate) unsafe fn input_gradient(
    isa: Isa,
    g: &Conv,
    (dy, w): (*const f32, *const f32),
    dx: *mut f32,
    accumulate: bool,
    scratch: *mut f32,
) {
    let g = &g.flattened();
    let (k, s) = (g.kernel, g.stride);
    let (before, after, wide) = g.wide_output();
    let start = Start::accumulate(accumulate);
    // SAFETY: taps stay inside the widened gradient by construction.
    unsafe {
        let mut source = dy;
        if before + after > 0 {
            let rows = g.output.channels * g.output.height;
            widen(dy, scratch, rows, g.output.width, before, wide);
            source = scratch;
        }
        let lane = LANES as isize;
        let t = Taps {
            channels: g.output.channels,
            rows: 0,
            columns: 0,
            x_channel: (g.output.height * wide) as isize * lane,
            x_row: -(wide as isize) * lane,
            x_column: -lane,
            x_pixel: lane,
            w_out: (k * k) as isize,
            w_channel: (g.input.channels * k * k) as isize,
            w_row: (s * k) as isize,
            w_column: s as isize,
            y_out: g.input.plane() as isize * lane,
            y_pixel: s as isize * lane,
        };
        // Taps q of one phase: kernel positions phase + s·q, as far as they meet output positions
        // 0..size.
        let taps_of = |phase: usize, low: usize, high: usize, size: usize| {
            let count = if phase < k {
                (k - phase).div_ceil(s)
            } else {
                0
            };
            let end = count.min(high + 1);
            let first = (low + 1).saturating_sub(size).min(end);
            (first, end)
        };
        for iy in 0..g.input.height {
            let (b, phase_y) = ((iy + g.padding.top) / s, (iy + g.padding.top) % s);
            let (row_first, row_end) = taps_of(phase_y, b, b, g.output.height);
            for ix0 in 0..s.min(g.input.width) {
                let phase_x = (ix0 + g.padding.left) % s;
                let count = (g.input.width - ix0).div_ceil(s);
                let first_a = (ix0 + g.padding.left) / s;
                // Pairs of pixels at the borders, so that taps that meet nothing can be left out;
                // the inner pixels together.
                let mut j = 0;
                while j < count {
                    let low = first_a + j;
                    let mut size = 2.min(count - j);
                    let inner = low + 1 >= k.div_ceil(s);
                    if inner && low < g.output.width {
                        let run = (g.output.width - low).min(count - j);
                        size = size.max(run / 4 * 4);
                    }
                    let (first, end) = taps_of(phase_x, low, low + size - 1, g.output.width);
                    let t = Taps {
                        rows: row_end - row_first,
                        columns: end - first,
                        ..t
                    };
                    let row = b as isize - row_first as isize;
                    let column = (before + low) as isize - first as isize;
                    let x = source.wrapping_offset((row * wide as isize + column) * lane);
                    let tap = (phase_y + s * row_first) * k + phase_x + s * first;
                    let at = iy * g.input.width + ix0 + s * j;
                    taps::run_row(
                        isa,
                        &t,
                        g.input.channels,
                        size,
                        x,
                        w.wrapping_add(tap),
                        dx.add(at * LANES),
                        start,
                        false,
                    );
                    j += size;
                }
            }
        }
    }
}

/// `dw += ` gradient of the weights, `db += ` gradient of the bias.
pub(crate) unsafe fn weight_gradient(
    isa: Isa,
    g: &Conv,
    (x, dy): (*const f32, *const f32),
    dw: *mut f32,
    db: Option<*mut f32>,
    scratch: *mut f32,
) {
    let g = &g.flattened();
    let (k, s) = (g.kernel, g.stride);
    let (ic, oc) = (g.input.channels, g.output.channels);
    // SAFETY: rows and columns stay inside the (widened) image by construction.
    unsafe {
        if let Some(db) = db {
            outer::run_plane_sums(isa, dy, oc, g.output.plane(), db);
        }
        let (x, wide) = padded_input(g, x, scratch);
        let t = Outer {
            rows: 0,
            columns: g.output.width,
            a_m: g.output.plane() * LANES,
            a_row: g.output.width * LANES,
            a_column: LANES,
            b_n: LANES,
            b_row: s * wide * LANES,
            b_column: s * LANES,
            out_m: ic * k * k,
            out_n: 1,
        };
        if k == 1 {
            // No neighbors to share: four input channels at a time instead. Rows in the padding
            // meet zeros.
            let first = g.padding.top.div_ceil(s).min(g.output.height);
            let end = (g.input.height + g.padding.top)
                .div_ceil(s)
                .min(g.output.height);
            let t = Outer {
                rows: end.saturating_sub(first),
                b_n: g.input.height * wide * LANES,
                ..t
            };
            let row = (first * s).saturating_sub(g.padding.top);
            let a = dy.wrapping_add(first * g.output.width * LANES);
            outer::run_products(isa, &t, oc, ic, a, x.wrapping_add(row * wide * LANES), dw);
            return;
        }
        for c in 0..ic {
            for ky in 0..k {
                let first = g
                    .padding
                    .top
                    .saturating_sub(ky)
                    .div_ceil(s)
                    .min(g.output.height);
                let end = (g.input.height + g.padding.top)
                    .saturating_sub(ky)
                    .div_ceil(s);
                let t = Outer {
                    rows: end.min(g.output.height).saturating_sub(first),
                    ..t
                };
                let row = (c * g.input.height + first * s + ky).saturating_sub(g.padding.top);
                let a = dy.wrapping_add(first * g.output.width * LANES);
                let b = x.wrapping_add(row * wide * LANES);
                outer::run_products(isa, &t, oc, k, a, b, dw.add((c * k + ky) * k));
            }
        }
    }
}
