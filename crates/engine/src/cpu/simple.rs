//! Everything that is not a product: FRN+TLU, ReLU, pooling, sums, dropout, softmax.

use std::ops::Range;

use super::vector::{LANES, Vector, kernel};
use crate::dropout::dropout_bits;
use crate::network::{Pool, Shape};

/// ε in `√(mean x² + ε)`.
pub(crate) const FRN_EPSILON: f32 = 1e-6;

/// Calls `$body` with every position of `$count` vectors of images.
macro_rules! each {
    ($count:expr, $at:ident => $body:block) => {
        let mut $at = 0;
        let end = $count * LANES;
        while $at < end {
            $body
            $at += V::WIDTH;
        }
    };
}

/// `s = 1/√(mean x² + ε)` of one channel, kept at `at`.
#[inline(always)]
unsafe fn frn_scale<V: Vector>(x: *const f32, pixels: usize, at: *mut f32) {
    // SAFETY: the caller promises `pixels` vectors of images and one for the result.
    unsafe {
        let mut sum = [V::splat(0.0); 4];
        let mut p = 0;
        while p + 4 <= pixels {
            for (j, s) in sum.iter_mut().enumerate() {
                let v = V::load(x.add((p + j) * LANES));
                *s = s.fma(v, v);
            }
            p += 4;
        }
        while p < pixels {
            let v = V::load(x.add(p * LANES));
            sum[0] = sum[0].fma(v, v);
            p += 1;
        }
        let total = sum[0].add(sum[1]).add(sum[2].add(sum[3]));
        total.store(at);
        for i in 0..V::WIDTH {
            *at.add(i) = 1.0 / (*at.add(i) / pixels as f32 + FRN_EPSILON).sqrt();
        }
    }
}

/// `y = max(γ x s + β, τ) (+ other)`. `scale` has `s`, one vector per channel; that of the `fresh`
/// channels is computed first.
#[inline(always)]
unsafe fn frn<V: Vector>(
    shape: Shape,
    fresh: &Range<usize>,
    x: *const f32,
    parameters: [*const f32; 3],
    y: *mut f32,
    scale: *mut f32,
    other: Option<*const f32>,
) {
    let pixels = shape.plane();
    // SAFETY: the caller promises whole values of this shape and parameters per channel.
    unsafe {
        for c in 0..shape.channels {
            let [gamma, beta, tau] = [
                V::splat(*parameters[0].add(c)),
                V::splat(*parameters[1].add(c)),
                V::splat(*parameters[2].add(c)),
            ];
            // `tau.max(v)` lets a NaN in `v` through; one in τ comes in by way of β.
            let beta = beta.poison(tau, tau);
            for part in 0..V::PARTS {
                let offset = c * pixels * LANES + part * V::WIDTH;
                let x = x.add(offset);
                let at = scale.add(c * LANES + part * V::WIDTH);
                if fresh.contains(&c) {
                    frn_scale::<V>(x, pixels, at);
                }
                let factor = V::load(at).mul(gamma);
                let y = y.add(offset);
                match other {
                    None => {
                        for p in 0..pixels {
                            let v = beta.fma(factor, V::load(x.add(p * LANES)));
                            tau.max(v).store(y.add(p * LANES));
                        }
                    }
                    Some(other) => {
                        let other = other.add(offset);
                        for p in 0..pixels {
                            let v = beta.fma(factor, V::load(x.add(p * LANES)));
                            tau.max(v)
                                .add(V::load(other.add(p * LANES)))
                                .store(y.add(p * LANES));
                        }
                    }
                }
            }
        }
    }
}
kernel!(
    run_frn = frn(
        shape: Shape,
        fresh: &Range<usize>,
        x: *const f32,
        parameters: [*const f32; 3],
        y: *mut f32,
        scale: *mut f32,
        other: Option<*const f32>,
    )
);

/// What TLU passes on of a gradient: all above the threshold, half of it there, nothing below.
#[inline(always)]
unsafe fn passed<V: Vector>(y: V, tau: V, gradient: V) -> V {
    // SAFETY: passed on from the caller.
    unsafe {
        let here = y.where_equal(tau, gradient.mul(V::splat(0.5)), V::splat(0.0));
        y.where_greater(tau, gradient, here)
    }
}

/// Where the gradients of FRN's parameters go: γ, β and τ of each channel.
#[derive(Debug, Clone, Copy)]
pub(super) enum FrnGradients {
    /// Summed over the images and added to those of before.
    Summed([*mut f32; 3]),
    /// A vector for each, γ, β and τ of a channel one after another, so many numbers apart.
    Each(*mut f32, usize),
}

/// Gradients of FRN+TLU. `dx` may be `dy`.
#[inline(always)]
unsafe fn frn_backward<V: Vector>(
    shape: Shape,
    (x, scale, dy): (*const f32, *const f32, *const f32),
    parameters: [*const f32; 3],
    gradients: FrnGradients,
    dx: Option<*mut f32>,
    accumulate: bool,
) {
    let pixels = shape.plane();
    // SAFETY: the caller promises whole values of this shape and parameters per channel.
    unsafe {
        let zero = V::splat(0.0);
        for c in 0..shape.channels {
            let [gamma, beta, tau] = [
                V::splat(*parameters[0].add(c)),
                V::splat(*parameters[1].add(c)),
                V::splat(*parameters[2].add(c)),
            ];
            let mut total = [0.0f32; 3];
            for part in 0..V::PARTS {
                let offset = c * pixels * LANES + part * V::WIDTH;
                let (x, dy) = (x.add(offset), dy.add(offset));
                let s = V::load(scale.add(c * LANES + part * V::WIDTH));
                let factor = s.mul(gamma);
                // Sums of passed gradient times x, passed gradient, and all of it.
                let mut sums = [[zero; 3]; 2];
                for p in 0..pixels {
                    let (v, g) = (V::load(x.add(p * LANES)), V::load(dy.add(p * LANES)));
                    let y = beta.fma(factor, v);
                    let passed = passed(y, tau, g);
                    let sum = &mut sums[p % 2];
                    sum[0] = sum[0].fma(passed, v);
                    sum[1] = sum[1].add(passed);
                    sum[2] = sum[2].add(g.sub(passed));
                }
                let inner = sums[0][0].add(sums[1][0]);
                let found = [
                    inner.mul(s),
                    sums[0][1].add(sums[1][1]),
                    sums[0][2].add(sums[1][2]),
                ];
                for (which, (total, found)) in total.iter_mut().zip(found).enumerate() {
                    match gradients {
                        FrnGradients::Summed(_) => *total += found.sum(),
                        FrnGradients::Each(to, apart) => {
                            found.store(to.add((3 * c + which) * apart + part * V::WIDTH));
                        }
                    }
                }
                let Some(dx) = dx else { continue };
                let dx = dx.add(offset);
                let back = inner.mul(s).mul(s).mul(V::splat(1.0 / pixels as f32));
                // What a single pixel passes on: 1 - x² s² = ε s², of which the difference would
                // leave nothing but rounding.
                let alone = V::splat(FRN_EPSILON).mul(s).mul(s);
                for p in 0..pixels {
                    let (v, g) = (V::load(x.add(p * LANES)), V::load(dy.add(p * LANES)));
                    let y = beta.fma(factor, v);
                    let passed = passed(y, tau, g);
                    let passed = if pixels == 1 {
                        passed.mul(alone)
                    } else {
                        passed.sub(v.mul(back))
                    };
                    let mut d = passed.mul(factor);
                    if accumulate {
                        d = d.add(V::load(dx.add(p * LANES)));
                    }
                    d.store(dx.add(p * LANES));
                }
            }
            if let FrnGradients::Summed(gradients) = gradients {
                for (to, total) in gradients.iter().zip(total) {
                    *to.add(c) += total;
                }
            }
        }
    }
}
kernel!(
    run_frn_backward = frn_backward(
        shape: Shape,
        values: (*const f32, *const f32, *const f32),
        parameters: [*const f32; 3],
        gradients: FrnGradients,
        dx: Option<*mut f32>,
        accumulate: bool,
    )
);

/// `y = max(x, 0)`.
#[inline(always)]
unsafe fn relu<V: Vector>(count: usize, x: *const f32, y: *mut f32) {
    // SAFETY: the caller promises `count` vectors of images.
    unsafe {
        each!(count, at => { V::splat(0.0).max(V::load(x.add(at))).store(y.add(at)); });
    }
}
kernel!(run_relu = relu(count: usize, x: *const f32, y: *mut f32));

/// `dx (+)= dy` where the output `y` is positive.
#[inline(always)]
unsafe fn relu_backward<V: Vector>(
    count: usize,
    y: *const f32,
    dy: *const f32,
    dx: *mut f32,
    accumulate: bool,
) {
    // SAFETY: the caller promises `count` vectors of images.
    unsafe {
        let zero = V::splat(0.0);
        each!(count, at => {
            let mut d = V::load(y.add(at)).where_greater(zero, V::load(dy.add(at)), zero);
            if accumulate {
                d = d.add(V::load(dx.add(at)));
            }
            d.store(dx.add(at));
        });
    }
}
kernel!(
    run_relu_backward = relu_backward(
        count: usize,
        y: *const f32,
        dy: *const f32,
        dx: *mut f32,
        accumulate: bool,
    )
);

/// `out = x + y`.
#[inline(always)]
unsafe fn add<V: Vector>(count: usize, x: *const f32, y: *const f32, out: *mut f32) {
    // SAFETY: the caller promises `count` vectors of images.
    unsafe {
        each!(count, at => { V::load(x.add(at)).add(V::load(y.add(at))).store(out.add(at)); });
    }
}
kernel!(run_add = add(count: usize, x: *const f32, y: *const f32, out: *mut f32));

/// Calls `$body` for every window with the position of the output and of the window's first entry.
macro_rules! each_window {
    ($w:expr, $out:ident, $first:ident => $body:block) => {
        let w = $w;
        for c in 0..w.output.channels {
            for y in 0..w.output.height {
                for x in 0..w.output.width {
                    for part in 0..V::PARTS {
                        let at = (c * w.output.height + y) * w.output.width + x;
                        let $out = at * LANES + part * V::WIDTH;
                        let row = c * w.input.height + y * w.stride;
                        let $first = (row * w.input.width + x * w.stride) * LANES + part * V::WIDTH;
                        $body
                    }
                }
            }
        }
    };
}

#[inline(always)]
unsafe fn max_pool<V: Vector>(w: &Pool, x: *const f32, y: *mut f32) {
    // SAFETY: the caller promises whole values of these shapes.
    unsafe {
        each_window!(w, out, first => {
            let mut best = V::load(x.add(first));
            for ky in 0..w.height {
                for kx in 0..w.width {
                    let v = V::load(x.add(first + (ky * w.input.width + kx) * LANES));
                    best = v.max(best).poison(v, v);
                }
            }
            best.store(y.add(out));
        });
    }
}
kernel!(run_max_pool = max_pool(w: &Pool, x: *const f32, y: *mut f32));

/// The first maximum of a 2×2 window of a convolution, and which one it is.
#[inline(always)]
pub(crate) unsafe fn window_maximum<V: Vector>(window: [V; 4], relu: bool) -> (V, V) {
    // SAFETY: the caller promises the instruction set.
    unsafe {
        let zero = V::splat(0.0);
        let [first, others @ ..] = window;
        let (mut best, mut winner) = (first, zero);
        if relu {
            (best, winner) = (zero, V::splat(NOBODY));
            winner = first.where_greater(best, zero, winner);
            best = first.max(best);
        }
        for (i, v) in others.into_iter().enumerate() {
            winner = v.where_greater(best, V::splat((i + 1) as f32), winner);
            best = v.max(best);
        }
        let [a, b, c, d] = window;
        (best.poison(a, b).poison(c, d), winner)
    }
}

/// Mark of a window without a positive entry, whose gradient a ReLU swallows.
const NOBODY: f32 = -1.0;

/// Gradient of 2×2 max-pooling where the forward pass has kept which entry of a window is the first
/// maximum.
#[inline(always)]
unsafe fn window_gradient<V: Vector>(w: &Pool, winner: *const f32, dy: *const f32, dx: *mut f32) {
    // SAFETY: the caller promises whole values of these shapes.
    unsafe {
        let zero = V::splat(0.0);
        if !w.is_tiling() {
            dx.write_bytes(0, w.input.len() * LANES);
        }
        each_window!(w, out, first => {
            let (winner, d) = (V::load(winner.add(out)), V::load(dy.add(out)));
            for ky in 0..2 {
                for kx in 0..2 {
                    let own = V::splat((2 * ky + kx) as f32);
                    let at = first + (ky * w.input.width + kx) * LANES;
                    winner.where_equal(own, d, zero).store(dx.add(at));
                }
            }
        });
    }
}
kernel!(
    run_window_gradient = window_gradient(
        w: &Pool,
        winner: *const f32,
        dy: *const f32,
        dx: *mut f32,
    )
);

/// Gradient of max-pooling, to the first maximum; nothing where the output `y` is not positive if
/// `relu`.
///
/// `dx` is overwritten unless `accumulate`.
#[inline(always)]
unsafe fn max_pool_backward<V: Vector>(
    w: &Pool,
    (x, y, dy): (*const f32, *const f32, *const f32),
    dx: *mut f32,
    relu: bool,
    accumulate: bool,
) {
    // SAFETY: the caller promises whole values of these shapes.
    unsafe {
        let zero = V::splat(0.0);
        let overwrite = w.is_tiling() && !accumulate;
        if !overwrite && !accumulate {
            dx.write_bytes(0, w.input.len() * LANES);
        }
        each_window!(w, out, first => {
            let best = V::load(y.add(out));
            let mut left = V::load(dy.add(out));
            if relu {
                left = best.where_greater(zero, left, zero);
            }
            for ky in 0..w.height {
                for kx in 0..w.width {
                    let at = first + (ky * w.input.width + kx) * LANES;
                    let v = V::load(x.add(at));
                    let d = v.where_equal(best, left, zero);
                    left = v.where_equal(best, zero, left);
                    let d = if overwrite { d } else { d.add(V::load(dx.add(at))) };
                    d.store(dx.add(at));
                }
            }
        });
    }
}
kernel!(
    run_max_pool_backward = max_pool_backward(
        w: &Pool,
        values: (*const f32, *const f32, *const f32),
        dx: *mut f32,
        relu: bool,
        accumulate: bool,
    )
);

#[inline(always)]
unsafe fn avg_pool<V: Vector>(w: &Pool, x: *const f32, y: *mut f32) {
    // SAFETY: the caller promises whole values of these shapes.
    unsafe {
        let share = V::splat(1.0 / (w.height * w.width) as f32);
        each_window!(w, out, first => {
            let mut sum = V::splat(0.0);
            for ky in 0..w.height {
                for kx in 0..w.width {
                    sum = sum.add(V::load(x.add(first + (ky * w.input.width + kx) * LANES)));
                }
            }
            sum.mul(share).store(y.add(out));
        });
    }
}
kernel!(run_avg_pool = avg_pool(w: &Pool, x: *const f32, y: *mut f32));

#[inline(always)]
unsafe fn avg_pool_backward<V: Vector>(w: &Pool, dy: *const f32, dx: *mut f32, accumulate: bool) {
    // SAFETY: the caller promises whole values of these shapes.
    unsafe {
        if !accumulate {
            dx.write_bytes(0, w.input.len() * LANES);
        }
        let share = V::splat(1.0 / (w.height * w.width) as f32);
        each_window!(w, out, first => {
            let d = V::load(dy.add(out)).mul(share);
            for ky in 0..w.height {
                for kx in 0..w.width {
                    let at = dx.add(first + (ky * w.input.width + kx) * LANES);
                    V::load(at).add(d).store(at);
                }
            }
        });
    }
}
kernel!(
    run_avg_pool_backward = avg_pool_backward(
        w: &Pool,
        dy: *const f32,
        dx: *mut f32,
        accumulate: bool,
    )
);

/// `y (+)= x` times 0 or `factor`, as the bits of the masks have it; `keys` has one entry per image
/// of the block.
#[inline(always)]
unsafe fn dropout<V: Vector>(
    count: usize,
    x: *const f32,
    y: *mut f32,
    keys: &[u32; LANES],
    threshold: u32,
    factor: f32,
    accumulate: bool,
) {
    // SAFETY: the caller promises `count` vectors of images.
    unsafe {
        for e in 0..count {
            let mut line = [0.0f32; LANES];
            for (i, value) in line.iter_mut().enumerate() {
                let kept = dropout_bits(keys[i], e as u32) >= threshold;
                *value = if kept { factor } else { 0.0 };
            }
            for part in 0..V::PARTS {
                let at = e * LANES + part * V::WIDTH;
                let mut v = V::load(x.add(at)).mul(V::load(line.as_ptr().add(part * V::WIDTH)));
                if accumulate {
                    v = v.add(V::load(y.add(at)));
                }
                v.store(y.add(at));
            }
        }
    }
}
kernel!(
    run_dropout = dropout(
        count: usize,
        x: *const f32,
        y: *mut f32,
        keys: &[u32; LANES],
        threshold: u32,
        factor: f32,
        accumulate: bool,
    )
);

/// `out[i] = Σ_g parts[g][i]` over `from..to`, in the order of `g`; `parts` are given by the first,
/// their distance and their number. `out` may be the first of them.
#[inline(always)]
unsafe fn sum_parts<V: Vector>(
    (parts, stride, count): (*const f32, usize, usize),
    out: *mut f32,
    from: usize,
    to: usize,
) {
    // SAFETY: the caller promises `count` parts of at least `to` numbers, and that many in `out`.
    unsafe {
        let mut i = from;
        while i + V::WIDTH <= to {
            let mut sum = V::load(parts.add(i));
            for g in 1..count {
                sum = sum.add(V::load(parts.add(g * stride + i)));
            }
            sum.store(out.add(i));
            i += V::WIDTH;
        }
        while i < to {
            let mut sum = *parts.add(i);
            for g in 1..count {
                sum += *parts.add(g * stride + i);
            }
            *out.add(i) = sum;
            i += 1;
        }
    }
}
kernel!(
    run_sum_parts = sum_parts(
        parts: (*const f32, usize, usize),
        out: *mut f32,
        from: usize,
        to: usize,
    )
);

/// Softmax cross-entropy of one block: what it adds to the loss, correct predictions, and the
/// gradient at the logits.
pub(crate) unsafe fn loss(
    logits: *const f32,
    classes: usize,
    labels: &[u32],
    weight: f32,
    gradient: *mut f32,
) -> (f64, usize) {
    let (mut total, mut correct) = (0.0, 0);
    // SAFETY: the caller promises `classes` vectors of images in both.
    unsafe {
        for lane in 0..LANES {
            let z = |k: usize| *logits.add(k * LANES + lane);
            let Some(&label) = labels.get(lane) else {
                for k in 0..classes {
                    *gradient.add(k * LANES + lane) = 0.0;
                }
                continue;
            };
            let mut best = 0;
            for k in 1..classes {
                if z(k) > z(best) {
                    best = k;
                }
            }
            let top = z(best);
            let mut sum = 0.0f32;
            for k in 0..classes {
                let e = (z(k) - top).exp();
                *gradient.add(k * LANES + lane) = e;
                sum += e;
            }
            let scale = weight / sum;
            for k in 0..classes {
                *gradient.add(k * LANES + lane) *= scale;
            }
            *gradient.add(label as usize * LANES + lane) -= weight;
            total += f64::from(sum).ln() - f64::from(z(label as usize) - top);
            correct += usize::from(best == label as usize);
        }
    }
    (total, correct)
}

/// `[count][16]` to 16 rows of `stride` numbers, zeros after the first `count`.
#[inline(always)]
unsafe fn scatter<V: Vector>(x: *const f32, count: usize, stride: usize, out: *mut f32) {
    // SAFETY: the caller promises `count` vectors and `16 * stride` numbers of room.
    unsafe {
        let mut i = 0;
        while i + 16 <= count {
            V::transpose(x.add(i * LANES), LANES, out.add(i), stride);
            i += 16;
        }
        for i in i..stride {
            for lane in 0..LANES {
                let value = if i < count {
                    *x.add(i * LANES + lane)
                } else {
                    0.0
                };
                *out.add(lane * stride + i) = value;
            }
        }
    }
}
kernel!(run_scatter = scatter(x: *const f32, count: usize, stride: usize, out: *mut f32));
