//! Short loops over whole vectors of eight numbers, compiled for the widest instruction set the
//! processor has. What a vector does not fill is padded, by zeros unless something else is said.

use pulp::{Arch, Simd, WithSimd};

use crate::numeric::{exp_negative, log_1p_unit, multiply_add};

/// Numbers of a vector.
pub(super) const LANES: usize = 8;

/// Something that is done with the instructions of the processor; `FUSED` where it multiplies and
/// adds in one rounding.
pub(super) trait Task {
    type Output;
    fn run<const FUSED: bool>(self) -> Self::Output;
}

struct Dispatched<T>(T);

impl<T: Task> WithSimd for Dispatched<T> {
    type Output = T::Output;

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) -> T::Output {
        if S::IS_SCALAR {
            self.0.run::<false>()
        } else {
            self.0.run::<true>()
        }
    }
}

/// Runs a task on the widest instruction set; everything it calls must be inlined.
pub(super) fn widest<T: Task>(task: T) -> T::Output {
    Arch::new().dispatch(Dispatched(task))
}

/// Length with padding.
pub(super) fn padded(len: usize) -> usize {
    len.next_multiple_of(LANES)
}

#[inline(always)]
fn chunks(x: &[f64]) -> &[[f64; LANES]] {
    x.as_chunks().0
}

#[inline(always)]
fn chunks_mut(x: &mut [f64]) -> &mut [[f64; LANES]] {
    x.as_chunks_mut().0
}

/// The sum of a vector, in pairs.
#[inline(always)]
pub(super) fn sum_of(v: [f64; LANES]) -> f64 {
    let mut four = [0.0; 4];
    for i in 0..4 {
        four[i] = v[i] + v[i + 4];
    }
    (four[0] + four[2]) + (four[1] + four[3])
}

/// Eight numbers at once. Everything is taken by value, so that no store is in the way of a load,
/// and whole vectors are what is left.
pub(super) type Eight = [f64; LANES];

#[inline(always)]
pub(super) fn one(x: Eight, f: impl Fn(f64) -> f64) -> Eight {
    let mut to = [0.0; LANES];
    for l in 0..LANES {
        to[l] = f(x[l]);
    }
    to
}

#[inline(always)]
pub(super) fn two(x: Eight, y: Eight, f: impl Fn(f64, f64) -> f64) -> Eight {
    let mut to = [0.0; LANES];
    for l in 0..LANES {
        to[l] = f(x[l], y[l]);
    }
    to
}

#[inline(always)]
pub(super) fn three(x: Eight, y: Eight, z: Eight, f: impl Fn(f64, f64, f64) -> f64) -> Eight {
    let mut to = [0.0; LANES];
    for l in 0..LANES {
        to[l] = f(x[l], y[l], z[l]);
    }
    to
}

/// `s + x y`.
#[inline(always)]
fn fma<const FUSED: bool>(sums: Eight, x: Eight, y: Eight) -> Eight {
    three(sums, x, y, |s, x, y| multiply_add::<FUSED>(x, y, s))
}

#[inline(always)]
pub(super) fn dot<const FUSED: bool>(x: &[f64], y: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    for (x, y) in chunks(x).iter().zip(chunks(y)) {
        sums = fma::<FUSED>(sums, *x, *y);
    }
    sum_of(sums)
}

/// `(wᵀx, wᵀy)`.
#[inline(always)]
pub(super) fn dots<const FUSED: bool>(w: &[f64], x: &[f64], y: &[f64]) -> (f64, f64) {
    let (mut a, mut b) = ([0.0; LANES], [0.0; LANES]);
    for ((w, x), y) in chunks(w).iter().zip(chunks(x)).zip(chunks(y)) {
        a = fma::<FUSED>(a, *w, *x);
        b = fma::<FUSED>(b, *w, *y);
    }
    (sum_of(a), sum_of(b))
}

#[inline(always)]
fn larger(x: f64, y: f64) -> f64 {
    if x > y { x } else { y }
}

/// The largest of a vector, in pairs.
#[inline(always)]
pub(super) fn largest_of(v: Eight) -> f64 {
    let mut four = [0.0; 4];
    for i in 0..4 {
        four[i] = larger(v[i], v[i + 4]);
    }
    larger(larger(four[0], four[2]), larger(four[1], four[3]))
}

#[inline(always)]
pub(super) fn largest(x: &[f64]) -> f64 {
    let mut most = [f64::NEG_INFINITY; LANES];
    for x in chunks(x) {
        most = two(*x, most, larger);
    }
    largest_of(most)
}

/// Writes `f` of the entries of both.
#[inline(always)]
pub(super) fn map_two(to: &mut [f64], x: &[f64], y: &[f64], f: impl Fn(f64, f64) -> f64) {
    for ((to, x), y) in chunks_mut(to).iter_mut().zip(chunks(x)).zip(chunks(y)) {
        *to = two(*x, *y, &f);
    }
}

/// Writes `f` of the entries of all four.
#[inline(always)]
pub(super) fn map_four(to: &mut [f64], from: [&[f64]; 4], f: impl Fn([f64; 4]) -> f64) {
    let [w, x, y, z] = from.map(chunks);
    for ((((to, w), x), y), z) in chunks_mut(to).iter_mut().zip(w).zip(x).zip(y).zip(z) {
        let (w, x, y, z) = (*w, *x, *y, *z);
        let mut found = [0.0; LANES];
        for l in 0..LANES {
            found[l] = f([w[l], x[l], y[l], z[l]]);
        }
        *to = found;
    }
}

/// `y += s x`.
#[inline(always)]
pub(super) fn add_scaled<const FUSED: bool>(y: &mut [f64], scale: f64, x: &[f64]) {
    for (y, x) in chunks_mut(y).iter_mut().zip(chunks(x)) {
        *y = fma::<FUSED>(*y, [scale; LANES], *x);
    }
}

/// `y = Σ_i x_i row_i` of a matrix with padded rows.
#[inline(always)]
pub(super) fn multiply<const FUSED: bool>(matrix: &[f64], x: &[f64], y: &mut [f64]) {
    let stride = y.len();
    let mut at = 0;
    macro_rules! vectors {
        ($count:literal) => {
            while stride - at >= $count * LANES {
                let mut sums = [[0.0; LANES]; $count];
                for (row, &x) in matrix.chunks_exact(stride).zip(x) {
                    let row = chunks(&row[at..at + $count * LANES]);
                    for (sums, row) in sums.iter_mut().zip(row) {
                        *sums = fma::<FUSED>(*sums, [x; LANES], *row);
                    }
                }
                y[at..at + $count * LANES].copy_from_slice(sums.as_flattened());
                at += $count * LANES;
            }
        };
    }
    vectors!(4);
    vectors!(2);
    vectors!(1);
}

/// `w = e^(w - largest)`, and the sum; entries of minus infinity become 0.
#[inline(always)]
pub(super) fn exponentials<const FUSED: bool>(w: &mut [f64], largest: f64) -> f64 {
    let mut sums = [0.0; LANES];
    for w in chunks_mut(w) {
        let found = one(*w, |w| exp_negative::<FUSED>(largest - w).0);
        *w = found;
        sums = two(sums, found, |sum, w| sum + w);
    }
    sum_of(sums)
}

/// `x ← s x`.
#[inline(always)]
pub(super) fn scale(x: &mut [f64], scale: f64) {
    for x in chunks_mut(x) {
        *x = one(*x, |x| scale * x);
    }
}

/// `σ(x)`, `σ(-x)` and the logs of both, from one exponential.
#[inline(always)]
pub(super) fn logistic<const FUSED: bool>(x: f64) -> [f64; 4] {
    let small = exp_negative::<FUSED>(x.abs()).0;
    let inverse = 1.0 / (1.0 + small);
    let (more, less) = (inverse, small * inverse);
    let log = log_1p_unit::<FUSED>(small);
    if x >= 0.0 {
        [more, less, -log, -x - log]
    } else {
        [less, more, x - log, -log]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::{sigmoid, softplus};

    #[test]
    fn vectors_do_what_loops_do() {
        struct All;
        impl Task for All {
            type Output = ();
            fn run<const FUSED: bool>(self) {
                for stride in [8, 16, 24, 40, 64, 72] {
                    let number = |i: usize| ((i * 37 + 11) % 101) as f64 / 50.0 - 1.0;
                    let x: Vec<f64> = (0..stride).map(number).collect();
                    let y: Vec<f64> = (0..stride).map(|i| number(i + 7)).collect();
                    let matrix: Vec<f64> = (0..5 * stride).map(|i| number(i + 3)).collect();
                    let plain: f64 = x.iter().zip(&y).map(|(a, b)| a * b).sum();
                    assert!((dot::<FUSED>(&x, &y) - plain).abs() < 1e-13);
                    let (a, b) = dots::<FUSED>(&x, &y, &x);
                    assert!((a - plain).abs() < 1e-13);
                    assert!((b - x.iter().map(|x| x * x).sum::<f64>()).abs() < 1e-13);
                    assert_eq!(largest(&x), x.iter().copied().fold(-9.0, f64::max));
                    let mut product = vec![f64::NAN; stride];
                    multiply::<FUSED>(&matrix, &y[..5], &mut product);
                    for (j, got) in product.iter().enumerate() {
                        let want: f64 = (0..5).map(|i| matrix[i * stride + j] * y[i]).sum();
                        assert!((got - want).abs() < 1e-14);
                    }
                    let mut sum = x.clone();
                    add_scaled::<FUSED>(&mut sum, 0.5, &y);
                    assert!((sum[3] - x[3] - 0.5 * y[3]).abs() < 1e-15);
                    let mut w = x.clone();
                    w[1] = f64::NEG_INFINITY;
                    let total = exponentials::<FUSED>(&mut w, 1.5);
                    assert_eq!(w[1], 0.0);
                    assert!((w[2] - (x[2] - 1.5).exp()).abs() < 1e-15);
                    assert!((total - w.iter().sum::<f64>()).abs() < 1e-13);
                }
                for x in [-800.0, -3.0, -0.1, 0.0, 0.4, 5.0, 900.0] {
                    let [own, others, log, log_others] = logistic::<FUSED>(x);
                    assert!((own - sigmoid(x)).abs() <= 4e-16 * sigmoid(x).max(1e-307));
                    assert!((others - sigmoid(-x)).abs() <= 4e-16 * sigmoid(-x).max(1e-307));
                    assert!((log + softplus(-x)).abs() <= 1e-15 * softplus(-x).max(1e-290));
                    let want = -softplus(x);
                    assert!((log_others - want).abs() <= 1e-15 * want.abs().max(1e-290));
                }
            }
        }
        widest(All);
        All.run::<false>();
    }
}
