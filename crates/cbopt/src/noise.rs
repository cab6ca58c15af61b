//! Standard normal numbers as a pure function of (seed, step, sample, coordinate).
//!
//! Generator: Philox4x32 with 10 rounds, key = the two halves of the seed, counter =
//! (low and high half of the block number, sample, low half of the step). The four words of a block become four
//! normal numbers by Box-Muller: `√(-2 log u) · (cos 2πv, sin 2πv)` with `u = w₀/2³² + 2⁻³³`
//! (rounded to `f32`), `v = w₁/2³²`, and the same for `w₂, w₃`. So `|z| < 6.77`, and the stream repeats after 2³² steps.
//!
//! Coordinate `i` is word `(i mod 64) / 16` of block `16 ⌊i/64⌋ + i mod 16`: sixteen neighbors come from sixteen
//! blocks, which is what a vector register wants. The mapping is part of the format: it is the same on every
//! machine, whatever its vectors.

use crate::kernel::{BLOCK, Isa, Work};

/// Which noise vector: one per seed, step and sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoiseKey {
    /// Root seed.
    pub seed: u64,
    /// Step the noise belongs to, from 1.
    pub step: u64,
    /// Sample within the step, from 0.
    pub sample: u32,
}

const MULTIPLIER: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Coordinates made together: 16 blocks of four words.
const TILE: usize = 64;
const WIDTH: usize = 16;

/// One block of Philox4x32-10.
#[inline(always)]
fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
    for _ in 0..10 {
        let first = u64::from(MULTIPLIER[0]) * u64::from(counter[0]);
        let second = u64::from(MULTIPLIER[1]) * u64::from(counter[2]);
        counter = [
            (second >> 32) as u32 ^ counter[1] ^ key[0],
            second as u32,
            (first >> 32) as u32 ^ counter[3] ^ key[1],
            first as u32,
        ];
        key = [key[0].wrapping_add(WEYL[0]), key[1].wrapping_add(WEYL[1])];
    }
    counter
}

/// `w/2³² + 2⁻³³`, in (0, 1].
#[inline(always)]
fn unit(word: u32) -> f32 {
    word as f32 * (1.0 / 4_294_967_296.0) + (0.5 / 4_294_967_296.0)
}

/// Natural logarithm of a positive normal number, to about one unit in the last place.
///
/// `u = 2ᵉ f` with `f` in `[√½, √2)`; `log f = 2 artanh s`, `s = (f-1)/(f+1)`, by its series to `s⁹`.
#[inline(always)]
fn log(u: f32) -> f32 {
    const SQRT_HALF: u32 = 0x3F35_04F3;
    let shifted = u.to_bits().wrapping_sub(SQRT_HALF);
    let exponent = (shifted as i32 >> 23) as f32;
    let f = f32::from_bits((shifted & 0x007F_FFFF).wrapping_add(SQRT_HALF));
    let s = (f - 1.0) / (f + 1.0);
    let q = s * s;
    let tail = q * (1.0 / 3.0 + q * (1.0 / 5.0 + q * (1.0 / 7.0 + q * (1.0 / 9.0))));
    // ln 2 in two parts: the first has trailing zeros, so its product with the exponent is exact.
    let high = exponent * 0.693_359_4;
    let low = exponent * -2.121_944_4e-4;
    high + (2.0 * s + (2.0 * s * tail + low))
}

/// `(cos, sin)` of `2πw/2³²`: the nearest quarter turn exactly, the rest by the Taylor series.
#[inline(always)]
fn turn(word: u32) -> (f32, f32) {
    let quarter = word.wrapping_add(1 << 29) >> 30;
    let rest = word.wrapping_sub(quarter << 30) as i32;
    let t = rest as f32 * (std::f64::consts::TAU / 4_294_967_296.0) as f32;
    let q = t * t;
    let sin =
        t + t * q * (-1.0 / 6.0 + q * (1.0 / 120.0 + q * (-1.0 / 5040.0 + q * (1.0 / 362_880.0))));
    let cos = 1.0
        + q * (-0.5
            + q * (1.0 / 24.0
                + q * (-1.0 / 720.0 + q * (1.0 / 40_320.0 + q * (-1.0 / 3_628_800.0)))));
    let (x, y) = if quarter & 1 == 0 {
        (cos, sin)
    } else {
        (sin, cos)
    };
    let x = if (quarter + 1) & 2 == 0 { x } else { -x };
    let y = if quarter & 2 == 0 { y } else { -y };
    (x, y)
}

/// Words of the block that coordinate `index` comes from, and its place among them.
#[cfg(test)]
fn words(key: NoiseKey, index: u64) -> ([u32; 4], usize) {
    let inside = (index % TILE as u64) as usize;
    let block = index / TILE as u64 * WIDTH as u64 + (inside % WIDTH) as u64;
    let counter = [
        block as u32,
        (block >> 32) as u32,
        key.sample,
        key.step as u32,
    ];
    (
        philox(counter, [key.seed as u32, (key.seed >> 32) as u32]),
        inside / WIDTH,
    )
}

/// The 64 numbers of tile `number`.
#[inline(always)]
fn fill_tile(key: NoiseKey, number: u64, out: &mut [f32; TILE]) {
    let (head, rest) = out.split_at_mut(2 * WIDTH);
    let (first, second) = head.split_at_mut(WIDTH);
    let (third, fourth) = rest.split_at_mut(WIDTH);
    // Sixteen blocks never cross a multiple of 2³², so the high half is common.
    let base = number * WIDTH as u64;
    let (low, high) = (base as u32, (base >> 32) as u32);
    let seed = [key.seed as u32, (key.seed >> 32) as u32];
    for lane in 0..WIDTH {
        let word = philox([low + lane as u32, high, key.sample, key.step as u32], seed);
        let radius = (-2.0 * log(unit(word[0]))).sqrt();
        let (x, y) = turn(word[1]);
        first[lane] = radius * x;
        second[lane] = radius * y;
        let radius = (-2.0 * log(unit(word[2]))).sqrt();
        let (x, y) = turn(word[3]);
        third[lane] = radius * x;
        fourth[lane] = radius * y;
    }
}

/// Standard normal numbers of the coordinates `first, first + 1, …`; inlined into loops of one instruction set.
#[inline(always)]
pub(crate) fn fill_inline(key: NoiseKey, first: u64, out: &mut [f32]) {
    let mut tile = [0.0; TILE];
    let mut done = 0;
    while done < out.len() {
        let index = first + done as u64;
        let start = (index % TILE as u64) as usize;
        let count = (TILE - start).min(out.len() - done);
        fill_tile(key, index / TILE as u64, &mut tile);
        out[done..done + count].copy_from_slice(&tile[start..start + count]);
        done += count;
    }
}

/// Fills `out` with the standard normal numbers of the coordinates `first, first + 1, …`.
///
/// ```
/// use cbopt::noise::{NoiseKey, fill_normal};
/// let key = NoiseKey { seed: 7, step: 1, sample: 0 };
/// let mut all = [0.0; 100];
/// fill_normal(key, 0, &mut all);
/// let mut tail = [0.0; 30];
/// fill_normal(key, 70, &mut tail);
/// assert_eq!(all[70..], tail);
/// ```
pub fn fill_normal(key: NoiseKey, first: u64, out: &mut [f32]) {
    fill_normal_on(Isa::detect(), key, first, out);
}

pub(crate) fn fill_normal_on(isa: Isa, key: NoiseKey, first: u64, out: &mut [f32]) {
    for (number, block) in out.chunks_mut(BLOCK).enumerate() {
        isa.run(Fill {
            key,
            first: first + (number * BLOCK) as u64,
            block,
        });
    }
}

struct Fill<'a> {
    key: NoiseKey,
    first: u64,
    block: &'a mut [f32],
}

impl Work for Fill<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        fill_inline(self.key, self.first, self.block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Known answers published with the generator.
    #[test]
    fn philox_known_answers() {
        assert_eq!(
            philox([0; 4], [0; 2]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox([u32::MAX; 4], [u32::MAX; 2]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(
            philox(
                [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
                [0xa409_3822, 0x299f_31d0]
            ),
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]
        );
    }

    /// The same number by the functions of the standard library, in `f64`.
    fn normal_twin(key: NoiseKey, index: u64) -> f64 {
        let (word, place) = words(key, index);
        let pair = place / 2 * 2;
        let u = f64::from(unit(word[pair]));
        let angle = std::f64::consts::TAU * f64::from(word[pair + 1]) / 4_294_967_296.0;
        let radius = (-2.0 * u.ln()).sqrt();
        if place % 2 == 0 {
            radius * angle.cos()
        } else {
            radius * angle.sin()
        }
    }

    #[test]
    fn logarithm_and_turn_agree_with_the_standard_library() {
        // Every exponent from 2⁻³³ to 1, many mantissas; one unit in the last place of the larger part is 1.2e-7.
        for exponent in -33..=0 {
            for k in 0..=256 {
                let u = (2f32.powi(exponent) * (1.0 + k as f32 / 256.0)).min(1.0);
                let want = f64::from(u).ln();
                assert!(
                    (f64::from(log(u)) - want).abs() <= 1.5e-7 * want.abs().max(1e-3),
                    "log {u}"
                );
            }
        }
        for k in 0..100_000u32 {
            let word = k.wrapping_mul(0x9E37_79B9);
            let angle = std::f64::consts::TAU * f64::from(word) / 4_294_967_296.0;
            let (x, y) = turn(word);
            assert!((f64::from(x) - angle.cos()).abs() < 1.5e-7, "cos {word}");
            assert!((f64::from(y) - angle.sin()).abs() < 1.5e-7, "sin {word}");
        }
    }

    #[test]
    fn moments_and_independence_of_keys() {
        const COUNT: usize = 1 << 18;
        let draw = |seed, step, sample| {
            let mut z = vec![0.0; COUNT];
            fill_normal(NoiseKey { seed, step, sample }, 0, &mut z);
            z
        };
        let z = draw(1, 1, 0);
        let n = COUNT as f64;
        let moment = |p: i32| z.iter().map(|&v| f64::from(v).powi(p)).sum::<f64>() / n;
        // Five standard errors of each sample moment: √(E z²ᵖ - (E zᵖ)²) / √n.
        let bound = |deviation: f64| 5.0 * deviation / n.sqrt();
        assert!(moment(1).abs() < bound(1.0));
        assert!((moment(2) - 1.0).abs() < bound(2f64.sqrt()));
        assert!(moment(3).abs() < bound(15f64.sqrt()));
        assert!((moment(4) - 3.0).abs() < bound(96f64.sqrt()));
        assert!(z.iter().all(|v| v.abs() < 6.77));
        let neighbor: f64 = z
            .windows(2)
            .map(|p| f64::from(p[0]) * f64::from(p[1]))
            .sum::<f64>()
            / n;
        assert!(neighbor.abs() < bound(1.0));
        for other in [
            draw(2, 1, 0),
            draw(1, 2, 0),
            draw(1, 1, 1),
            draw(1 << 32, 1, 0),
        ] {
            let correlation: f64 = z
                .iter()
                .zip(&other)
                .map(|(&a, &b)| f64::from(a) * f64::from(b))
                .sum::<f64>()
                / n;
            assert!(correlation.abs() < bound(1.0));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn a_coordinate_has_one_number_in_every_cut_and_instruction_set(
            seed: u64, step: u64, sample: u32,
            first in prop_oneof![0u64..10_000, (1u64 << 36) - 500..(1u64 << 36) + 500],
            count in 1usize..600,
        ) {
            let key = NoiseKey { seed, step, sample };
            let mut whole = vec![0.0; count];
            fill_normal_on(Isa::portable(), key, first, &mut whole);
            for (i, &z) in whole.iter().enumerate() {
                let want = normal_twin(key, first + i as u64);
                prop_assert!((f64::from(z) - want).abs() <= 2e-6, "{z} {want}");
            }
            for isa in Isa::available() {
                let cut = count / 3;
                let mut other = vec![0.0; count];
                fill_normal_on(isa, key, first, &mut other[..cut]);
                fill_normal_on(isa, key, first + cut as u64, &mut other[cut..]);
                prop_assert!(whole.iter().zip(&other).all(|(a, b)| a.to_bits() == b.to_bits()));
            }
        }
    }
}
