//! Gradients of weights: products of two values summed over pixels and images.
//!
//! `out[m][n] += Σ_{r, c, image} a[m][r][c] · b[n][r][c]`. Lanes run over images; sixteen vectors
//! at a time are summed across their lanes at the end.

use super::vector::{LANES, Vector};

/// Strides, in numbers, and counts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outer {
    pub rows: usize,
    pub columns: usize,
    pub a_m: usize,
    pub a_row: usize,
    pub a_column: usize,
    pub b_n: usize,
    pub b_row: usize,
    pub b_column: usize,
    pub out_m: usize,
    pub out_n: usize,
}

#[inline(always)]
unsafe fn tile<V: Vector, const M: usize, const N: usize>(
    t: &Outer,
    a: *const f32,
    b: *const f32,
    out: *mut f32,
) {
    // SAFETY: the caller promises that all positions reached with these strides are valid.
    unsafe {
        let mut sum = [[V::splat(0.0); N]; M];
        for r in 0..t.rows {
            let mut a = a.add(r * t.a_row);
            let mut b = b.add(r * t.b_row);
            for _ in 0..t.columns {
                for part in 0..V::PARTS {
                    let at = part * V::WIDTH;
                    let mut other = [V::splat(0.0); N];
                    for (n, v) in other.iter_mut().enumerate() {
                        *v = V::load(b.add(n * t.b_n + at));
                    }
                    for (m, row) in sum.iter_mut().enumerate() {
                        let v = V::load(a.add(m * t.a_m + at));
                        for (s, o) in row.iter_mut().zip(other) {
                            *s = s.fma(v, o);
                        }
                    }
                }
                a = a.wrapping_add(t.a_column);
                b = b.wrapping_add(t.b_column);
            }
        }
        let mut flat = [V::splat(0.0); 32];
        for (m, row) in sum.iter().enumerate() {
            for (n, &s) in row.iter().enumerate() {
                flat[m * N + n] = s;
            }
        }
        let mut i = 0;
        while i < M * N {
            let mut group = [V::splat(0.0); 16];
            group.copy_from_slice(&flat[i..i + 16]);
            let sums = V::sums(&group);
            for (j, value) in sums.iter().enumerate().take(M * N - i) {
                let (m, n) = ((i + j) / N, (i + j) % N);
                *out.add(m * t.out_m + n * t.out_n) += value;
            }
            i += 16;
        }
    }
}

#[inline(always)]
unsafe fn strip<V: Vector, const N: usize>(
    t: &Outer,
    m_count: usize,
    a: *const f32,
    b: *const f32,
    out: *mut f32,
) {
    // SAFETY: passed on from the caller; `m` stays below `m_count`.
    unsafe {
        let mut m = 0;
        while m < m_count {
            let left = m_count - m;
            let (a, out) = (a.add(m * t.a_m), out.add(m * t.out_m));
            let limit = if V::MANY_REGISTERS { 24 } else { 12 };
            if left >= 6 && !left.is_multiple_of(4) && 6 * N <= limit {
                tile::<V, 6, N>(t, a, b, out);
                m += 6;
            } else if left >= 4 && 4 * N <= limit {
                tile::<V, 4, N>(t, a, b, out);
                m += 4;
            } else if left >= 2 {
                tile::<V, 2, N>(t, a, b, out);
                m += 2;
            } else {
                tile::<V, 1, N>(t, a, b, out);
                m += 1;
            }
        }
    }
}

/// All products of `m` values `a` with `n` values `b`.
#[inline(always)]
pub(crate) unsafe fn products<V: Vector>(
    t: &Outer,
    m: usize,
    n: usize,
    a: *const f32,
    b: *const f32,
    out: *mut f32,
) {
    // SAFETY: passed on from the caller; `at` stays below `n`.
    unsafe {
        let mut at = 0;
        while at < n {
            let left = n - at;
            let (b, out) = (b.add(at * t.b_n), out.add(at * t.out_n));
            if left == 5 && V::MANY_REGISTERS {
                strip::<V, 5>(t, m, a, b, out);
                at += 5;
            } else if left >= 4 && V::MANY_REGISTERS {
                strip::<V, 4>(t, m, a, b, out);
                at += 4;
            } else if left >= 3 {
                strip::<V, 3>(t, m, a, b, out);
                at += 3;
            } else if left >= 2 {
                strip::<V, 2>(t, m, a, b, out);
                at += 2;
            } else {
                strip::<V, 1>(t, m, a, b, out);
                at += 1;
            }
        }
    }
}

/// `out[m] += Σ_{pixel, image} a[m][pixel]`, planes one after another.
#[inline(always)]
pub(crate) unsafe fn plane_sums<V: Vector>(
    a: *const f32,
    planes: usize,
    pixels: usize,
    out: *mut f32,
) {
    // SAFETY: the caller promises `planes * pixels` vectors of images and `planes` sums.
    unsafe {
        for m in 0..planes {
            let a = a.add(m * pixels * LANES);
            let mut sum = [V::splat(0.0); 4];
            let count = pixels * V::PARTS;
            let mut i = 0;
            while i + 4 <= count {
                for (j, s) in sum.iter_mut().enumerate() {
                    *s = s.add(V::load(a.add((i + j) * V::WIDTH)));
                }
                i += 4;
            }
            while i < count {
                sum[0] = sum[0].add(V::load(a.add(i * V::WIDTH)));
                i += 1;
            }
            *out.add(m) += sum[0].add(sum[1]).add(sum[2].add(sum[3])).sum();
        }
    }
}

super::vector::kernel!(
    /// [`products`] with the instruction set of the machine.
    run_products = products(t: &Outer, m: usize, n: usize, a: *const f32, b: *const f32, out: *mut f32)
);
super::vector::kernel!(
    /// [`plane_sums`] with the instruction set of the machine.
    run_plane_sums = plane_sums(a: *const f32, planes: usize, pixels: usize, out: *mut f32)
);
