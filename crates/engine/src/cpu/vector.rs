//! The small set of vector operations that the kernels are written in, for each instruction set.
//!
//! Kernels are generic over [`Vector`] and `#[inline(always)]`; [`kernel!`] compiles them once per
//! instruction set.

/// Images per block: the innermost dimension of every value.
pub(crate) const LANES: usize = 16;

/// A few `f32` numbers; [`LANES`] is a multiple of their count.
///
/// # Safety
/// All functions require that the machine has the instruction set; pointers must be valid for
/// `WIDTH` numbers.
pub(crate) trait Vector: Copy {
    /// Numbers per vector.
    const WIDTH: usize;
    /// Vectors per block of images.
    const PARTS: usize = LANES / Self::WIDTH;
    /// Whether there are 32 registers, not 16.
    const MANY_REGISTERS: bool;

    unsafe fn load(from: *const f32) -> Self;
    unsafe fn store(self, to: *mut f32);
    unsafe fn splat(value: f32) -> Self;
    unsafe fn add(self, other: Self) -> Self;
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    /// `self + a * b`.
    unsafe fn fma(self, a: Self, b: Self) -> Self;
    /// `self` where it is greater, else `other`; so a NaN in `self` is passed over and one in
    /// `other` stays.
    unsafe fn max(self, other: Self) -> Self;
    /// NaN where `a` or `b` is NaN, else `self`.
    unsafe fn poison(self, a: Self, b: Self) -> Self;
    /// `yes` where `self > other`, else `no`.
    unsafe fn where_greater(self, other: Self, yes: Self, no: Self) -> Self;
    /// `yes` where `self == other`, else `no`.
    unsafe fn where_equal(self, other: Self, yes: Self, no: Self) -> Self;
    /// Sum of all numbers.
    unsafe fn sum(self) -> f32;

    /// Transposes 16 rows of 16 numbers, rows `from_stride` and `to_stride` numbers apart.
    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        // SAFETY: the caller promises 16 rows of 16 numbers on both sides.
        unsafe {
            for row in 0..16 {
                for column in 0..16 {
                    *to.add(column * to_stride + row) = *from.add(row * from_stride + column);
                }
            }
        }
    }

    /// Sums of sixteen vectors.
    #[inline(always)]
    unsafe fn sums(vectors: &[Self; 16]) -> [f32; 16] {
        let mut out = [0.0; 16];
        for (sum, vector) in out.iter_mut().zip(vectors) {
            // SAFETY: passed on from the caller.
            *sum = unsafe { vector.sum() };
        }
        out
    }
}

/// Four numbers, left to the compiler.
#[derive(Clone, Copy)]
pub(crate) struct Portable([f32; 4]);

impl Portable {
    /// Written out, because the calls of `std::array::from_fn` stay calls where nothing is inlined
    /// between the parts that a crate is compiled in, as for the tests.
    #[inline(always)]
    fn from_fn(f: impl Fn(usize) -> f32) -> Self {
        Self([f(0), f(1), f(2), f(3)])
    }

    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Self::from_fn(|i| f(self.0[i], other.0[i]))
    }
}

impl Vector for Portable {
    const WIDTH: usize = 4;
    const MANY_REGISTERS: bool = false;

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller promises four numbers.
        Self(unsafe { from.cast::<[f32; 4]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller promises room for four numbers.
        unsafe { to.cast::<[f32; 4]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        Self([value; 4])
    }
    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }
    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }
    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }
    #[inline(always)]
    unsafe fn fma(self, a: Self, b: Self) -> Self {
        Self::from_fn(|i| self.0[i] + a.0[i] * b.0[i])
    }
    #[inline(always)]
    unsafe fn max(self, other: Self) -> Self {
        self.zip(other, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    unsafe fn poison(self, a: Self, b: Self) -> Self {
        Self::from_fn(|i| {
            if a.0[i].is_nan() || b.0[i].is_nan() {
                f32::NAN
            } else {
                self.0[i]
            }
        })
    }
    #[inline(always)]
    unsafe fn where_greater(self, other: Self, yes: Self, no: Self) -> Self {
        Self::from_fn(|i| {
            if self.0[i] > other.0[i] {
                yes.0[i]
            } else {
                no.0[i]
            }
        })
    }
    #[inline(always)]
    unsafe fn where_equal(self, other: Self, yes: Self, no: Self) -> Self {
        Self::from_fn(|i| {
            if self.0[i] == other.0[i] {
                yes.0[i]
            } else {
                no.0[i]
            }
        })
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        (self.0[0] + self.0[2]) + (self.0[1] + self.0[3])
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{Avx2, Avx512};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::Vector;

    /// Eight numbers.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx2(__m256);

    // SAFETY of every block below: the caller promises the instruction set and valid pointers (see
    // `Vector`).
    #[allow(clippy::undocumented_unsafe_blocks)]
    impl Vector for Avx2 {
        const WIDTH: usize = 8;
        const MANY_REGISTERS: bool = false;

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            Self(unsafe { _mm256_loadu_ps(from) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm256_storeu_ps(to, self.0) }
        }
        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            Self(unsafe { _mm256_set1_ps(value) })
        }
        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            Self(unsafe { _mm256_add_ps(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn sub(self, other: Self) -> Self {
            Self(unsafe { _mm256_sub_ps(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn mul(self, other: Self) -> Self {
            Self(unsafe { _mm256_mul_ps(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn fma(self, a: Self, b: Self) -> Self {
            Self(unsafe { _mm256_fmadd_ps(a.0, b.0, self.0) })
        }
        #[inline(always)]
        unsafe fn max(self, other: Self) -> Self {
            Self(unsafe { _mm256_max_ps(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn poison(self, a: Self, b: Self) -> Self {
            // All bits set is a NaN.
            Self(unsafe { _mm256_or_ps(self.0, _mm256_cmp_ps::<_CMP_UNORD_Q>(a.0, b.0)) })
        }
        #[inline(always)]
        unsafe fn where_greater(self, other: Self, yes: Self, no: Self) -> Self {
            unsafe {
                let mask = _mm256_cmp_ps::<_CMP_GT_OQ>(self.0, other.0);
                Self(_mm256_blendv_ps(no.0, yes.0, mask))
            }
        }
        #[inline(always)]
        unsafe fn where_equal(self, other: Self, yes: Self, no: Self) -> Self {
            unsafe {
                let mask = _mm256_cmp_ps::<_CMP_EQ_OQ>(self.0, other.0);
                Self(_mm256_blendv_ps(no.0, yes.0, mask))
            }
        }
        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            unsafe {
                let half = _mm_add_ps(
                    _mm256_castps256_ps128(self.0),
                    _mm256_extractf128_ps::<1>(self.0),
                );
                let two = _mm_add_ps(half, _mm_movehl_ps(half, half));
                _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
            }
        }
        #[inline(always)]
        unsafe fn sums(v: &[Self; 16]) -> [f32; 16] {
            unsafe {
                let mut out = [0.0; 16];
                for i in 0..4 {
                    // Four vectors become one: in each half, the partial sums of the four.
                    let ab = _mm256_hadd_ps(v[4 * i].0, v[4 * i + 1].0);
                    let cd = _mm256_hadd_ps(v[4 * i + 2].0, v[4 * i + 3].0);
                    let all = _mm256_hadd_ps(ab, cd);
                    let high = _mm256_extractf128_ps::<1>(all);
                    let sum = _mm_add_ps(_mm256_castps256_ps128(all), high);
                    _mm_storeu_ps(out.as_mut_ptr().add(4 * i), sum);
                }
                out
            }
        }
    }

    /// Sixteen numbers.
    #[derive(Clone, Copy)]
    pub(crate) struct Avx512(__m512);

    // SAFETY of every block below: the caller promises the instruction set and valid pointers (see
    // `Vector`).
    #[allow(clippy::undocumented_unsafe_blocks)]
    impl Vector for Avx512 {
        const WIDTH: usize = 16;
        const MANY_REGISTERS: bool = true;

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            Self(unsafe { _mm512_loadu_ps(from) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { _mm512_storeu_ps(to, self.0) }
        }
        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            Self(unsafe { _mm512_set1_ps(value) })
        }
        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            Self(unsafe { _mm512_add_ps(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn sub(self, other: Self) -> Self {
            Self(unsafe { _mm512_sub_ps(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn mul(self, other: Self) -> Self {
            Self(unsafe { _mm512_mul_ps(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn fma(self, a: Self, b: Self) -> Self {
            Self(unsafe { _mm512_fmadd_ps(a.0, b.0, self.0) })
        }
        #[inline(always)]
        unsafe fn max(self, other: Self) -> Self {
            Self(unsafe { _mm512_max_ps(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn poison(self, a: Self, b: Self) -> Self {
            unsafe {
                let mask = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(a.0, b.0);
                Self(_mm512_mask_add_ps(self.0, mask, a.0, b.0))
            }
        }
        #[inline(always)]
        unsafe fn where_greater(self, other: Self, yes: Self, no: Self) -> Self {
            unsafe {
                let mask = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(self.0, other.0);
                Self(_mm512_mask_blend_ps(mask, no.0, yes.0))
            }
        }
        #[inline(always)]
        unsafe fn where_equal(self, other: Self, yes: Self, no: Self) -> Self {
            unsafe {
                let mask = _mm512_cmp_ps_mask::<_CMP_EQ_OQ>(self.0, other.0);
                Self(_mm512_mask_blend_ps(mask, no.0, yes.0))
            }
        }
        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            unsafe {
                let high = _mm512_extractf32x8_ps::<1>(self.0);
                Avx2(_mm256_add_ps(_mm512_castps512_ps256(self.0), high)).sum()
            }
        }
        #[inline(always)]
        unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
            unsafe {
                let mut a = [_mm512_setzero_ps(); 16];
                for (i, row) in a.iter_mut().enumerate() {
                    *row = _mm512_loadu_ps(from.add(i * from_stride));
                }
                // Quarters of four rows: afterwards b[4 i + j] has, in quarter q, column 4 q + j of
                // rows 4 i .. 4 i + 4.
                let mut b = a;
                for i in 0..4 {
                    let [w, x, y, z] = [a[4 * i], a[4 * i + 1], a[4 * i + 2], a[4 * i + 3]];
                    let wx_low = _mm512_castps_pd(_mm512_unpacklo_ps(w, x));
                    let wx_high = _mm512_castps_pd(_mm512_unpackhi_ps(w, x));
                    let yz_low = _mm512_castps_pd(_mm512_unpacklo_ps(y, z));
                    let yz_high = _mm512_castps_pd(_mm512_unpackhi_ps(y, z));
                    b[4 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(wx_low, yz_low));
                    b[4 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(wx_low, yz_low));
                    b[4 * i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(wx_high, yz_high));
                    b[4 * i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(wx_high, yz_high));
                }
                for j in 0..4 {
                    // Quarter q of the four vectors makes column 4 q + j.
                    let [w, x, y, z] = [b[j], b[4 + j], b[8 + j], b[12 + j]];
                    let even = _mm512_shuffle_f32x4::<0b10_00_10_00>(w, x);
                    let odd = _mm512_shuffle_f32x4::<0b11_01_11_01>(w, x);
                    let even2 = _mm512_shuffle_f32x4::<0b10_00_10_00>(y, z);
                    let odd2 = _mm512_shuffle_f32x4::<0b11_01_11_01>(y, z);
                    let columns = [
                        _mm512_shuffle_f32x4::<0b10_00_10_00>(even, even2),
                        _mm512_shuffle_f32x4::<0b10_00_10_00>(odd, odd2),
                        _mm512_shuffle_f32x4::<0b11_01_11_01>(even, even2),
                        _mm512_shuffle_f32x4::<0b11_01_11_01>(odd, odd2),
                    ];
                    for (q, column) in columns.into_iter().enumerate() {
                        _mm512_storeu_ps(to.add((4 * q + j) * to_stride), column);
                    }
                }
            }
        }
        #[inline(always)]
        unsafe fn sums(v: &[Self; 16]) -> [f32; 16] {
            unsafe {
                // Not closures: those would be compiled without the instruction set. Four vectors
                // become one: in each quarter, the partial sums of the four.
                let mut fours = [v[0].0; 4];
                for (i, four) in fours.iter_mut().enumerate() {
                    let [a, b, c, d] = [v[4 * i].0, v[4 * i + 1].0, v[4 * i + 2].0, v[4 * i + 3].0];
                    let ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
                    let cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
                    let (ab, cd) = (_mm512_castps_pd(ab), _mm512_castps_pd(cd));
                    let low = _mm512_castpd_ps(_mm512_unpacklo_pd(ab, cd));
                    let high = _mm512_castpd_ps(_mm512_unpackhi_pd(ab, cd));
                    *four = _mm512_add_ps(low, high);
                }
                // Then the quarters of these four are transposed and added, twice.
                let [a, b, c, d] = fours;
                let even = _mm512_shuffle_f32x4::<0b10_00_10_00>(a, b);
                let ab = _mm512_add_ps(even, _mm512_shuffle_f32x4::<0b11_01_11_01>(a, b));
                let even = _mm512_shuffle_f32x4::<0b10_00_10_00>(c, d);
                let cd = _mm512_add_ps(even, _mm512_shuffle_f32x4::<0b11_01_11_01>(c, d));
                let even = _mm512_shuffle_f32x4::<0b10_00_10_00>(ab, cd);
                let all = _mm512_add_ps(even, _mm512_shuffle_f32x4::<0b11_01_11_01>(ab, cd));
                let mut out = [0.0; 16];
                _mm512_storeu_ps(out.as_mut_ptr(), all);
                out
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
pub(crate) use arm::Neon;

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::aarch64::*;

    use super::Vector;

    /// Four numbers.
    #[derive(Clone, Copy)]
    pub(crate) struct Neon(float32x4_t);

    // SAFETY of every block below: the caller promises the instruction set and valid pointers (see
    // `Vector`).
    #[allow(clippy::undocumented_unsafe_blocks)]
    impl Vector for Neon {
        const WIDTH: usize = 4;
        const MANY_REGISTERS: bool = true;

        #[inline(always)]
        unsafe fn load(from: *const f32) -> Self {
            Self(unsafe { vld1q_f32(from) })
        }
        #[inline(always)]
        unsafe fn store(self, to: *mut f32) {
            unsafe { vst1q_f32(to, self.0) }
        }
        #[inline(always)]
        unsafe fn splat(value: f32) -> Self {
            Self(unsafe { vdupq_n_f32(value) })
        }
        #[inline(always)]
        unsafe fn add(self, other: Self) -> Self {
            Self(unsafe { vaddq_f32(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn sub(self, other: Self) -> Self {
            Self(unsafe { vsubq_f32(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn mul(self, other: Self) -> Self {
            Self(unsafe { vmulq_f32(self.0, other.0) })
        }
        #[inline(always)]
        unsafe fn fma(self, a: Self, b: Self) -> Self {
            Self(unsafe { vfmaq_f32(self.0, a.0, b.0) })
        }
        #[inline(always)]
        unsafe fn max(self, other: Self) -> Self {
            // Not `vmaxq_f32`, which treats NaN otherwise.
            unsafe { self.where_greater(other, self, other) }
        }
        #[inline(always)]
        unsafe fn poison(self, a: Self, b: Self) -> Self {
            unsafe {
                let usable = vandq_u32(vceqq_f32(a.0, a.0), vceqq_f32(b.0, b.0));
                Self(vbslq_f32(usable, self.0, vaddq_f32(a.0, b.0)))
            }
        }
        #[inline(always)]
        unsafe fn where_greater(self, other: Self, yes: Self, no: Self) -> Self {
            Self(unsafe { vbslq_f32(vcgtq_f32(self.0, other.0), yes.0, no.0) })
        }
        #[inline(always)]
        unsafe fn where_equal(self, other: Self, yes: Self, no: Self) -> Self {
            Self(unsafe { vbslq_f32(vceqq_f32(self.0, other.0), yes.0, no.0) })
        }
        #[inline(always)]
        unsafe fn sum(self) -> f32 {
            unsafe { vaddvq_f32(self.0) }
        }
    }
}

/// Makes a function that runs a generic kernel with the instruction set it is given.
macro_rules! kernel {
    ($(#[$doc:meta])* $name:ident = $body:ident($($arg:ident: $type:ty),* $(,)?)) => {
        machine::dispatch! {
            $(#[$doc])*
            pub(crate) unsafe fn $name(isa: Isa, $($arg: $type),*) {
                portable: {
                    // SAFETY: pointers are the caller's promise.
                    unsafe { $body::<$crate::cpu::vector::Portable>($($arg),*) }
                },
                avx2: {
                    // SAFETY: pointers are the caller's promise.
                    unsafe { $body::<$crate::cpu::vector::Avx2>($($arg),*) }
                },
                avx512: {
                    // SAFETY: pointers are the caller's promise.
                    unsafe { $body::<$crate::cpu::vector::Avx512>($($arg),*) }
                },
                neon: {
                    // SAFETY: pointers are the caller's promise.
                    unsafe { $body::<$crate::cpu::vector::Neon>($($arg),*) }
                },
            }
        }
    };
}
pub(crate) use kernel;

#[cfg(test)]
mod tests {
    use super::*;
    use machine::Isa;

    #[inline(always)]
    unsafe fn sixteen_sums<V: Vector>(from: *const f32, to: *mut f32) {
        // SAFETY: the test passes 16 vectors of 16 numbers and room for 16.
        unsafe {
            let vectors: [V; 16] = std::array::from_fn(|i| V::load(from.add(16 * i)));
            let sums = V::sums(&vectors);
            for (i, (vector, sum)) in vectors.iter().zip(sums).enumerate() {
                assert_eq!(vector.sum(), sum, "{i}");
                *to.add(i) = sum;
            }
        }
    }
    #[inline(always)]
    unsafe fn turn<V: Vector>(from: *const f32, to: *mut f32) {
        // SAFETY: the test passes 16 rows 19 numbers apart, and 16 rows 17 numbers apart.
        unsafe { V::transpose(from, 19, to, 17) }
    }
    kernel!(run_turn = turn(from: *const f32, to: *mut f32));

    #[test]
    fn tiles_are_transposed() {
        let from: Vec<f32> = (0..16 * 19).map(|i| i as f32).collect();
        for isa in Isa::available() {
            let mut to = vec![0.0; 16 * 17];
            // SAFETY: both are long enough for the strides.
            unsafe { run_turn(isa, from.as_ptr(), to.as_mut_ptr()) };
            for row in 0..16 {
                for column in 0..16 {
                    assert_eq!(
                        to[row * 17 + column],
                        from[column * 19 + row],
                        "{}",
                        isa.name()
                    );
                }
            }
        }
    }

    kernel!(run_sums = sixteen_sums(from: *const f32, to: *mut f32));

    #[test]
    fn sums_are_in_order() {
        // small integers: every order of summation gives the same number
        let data: Vec<f32> = (0..256)
            .map(|i| ((i * 37 + i / 16 * 5) % 101) as f32)
            .collect();
        for isa in Isa::available() {
            let mut got = [0.0; 16];
            // SAFETY: 256 numbers in, 16 out.
            unsafe { run_sums(isa, data.as_ptr(), got.as_mut_ptr()) };
            let width = match isa.name() {
                "avx512" => 16,
                "avx2" => 8,
                _ => 4,
            };
            for (i, sum) in got.iter().enumerate() {
                assert_eq!(
                    *sum,
                    data[16 * i..16 * i + width].iter().sum::<f32>(),
                    "{}",
                    isa.name()
                );
            }
        }
    }
}
