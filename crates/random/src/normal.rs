//! Standard normal numbers as a pure function of (seed, step, sample, coordinate).
//!
//! Generator: Philox4x32 with 10 rounds, key = the two halves of the seed, counter = (low and high
//! half of the block number, sample, low half of the step). The four words of a block become four
//! normal numbers by Box-Muller: `√(-2 log u) · (cos 2πv, sin 2πv)` with `u = w₀/2³² + 2⁻³³`
//! (rounded to `f32`), `v = w₁/2³²`, and the same for `w₂, w₃`. So `|z| < 6.77`, and the stream
//! repeats after 2³² steps.
//!
//! Coordinate `i` is word `(i mod 64) / 16` of block `16 ⌊i/64⌋ + i mod 16`: sixteen neighbors come
//! from sixteen blocks, which is what a vector register wants. The mapping is part of the format:
//! it is the same on every machine, whatever its vectors.

use crate::{halves, philox};

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

/// Coordinates made together: 16 blocks of four words.
const TILE: usize = 64;
const WIDTH: usize = 16;

/// `w/2³² + 2⁻³³`, in (0, 1].
#[inline(always)]
fn unit(word: u32) -> f32 {
    word as f32 * (1.0 / 4_294_967_296.0) + (0.5 / 4_294_967_296.0)
}

/// Natural logarithm of a positive normal number, to about one unit in the last place.
///
/// `u = 2ᵉ f` with `f` in `[√½, √2)`; `log f = 2 artanh s`, `s = (f-1)/(f+1)`, by its series to
/// `s⁹`.
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
    (philox(counter, halves(key.seed)), inside / WIDTH)
}

/// The 64 numbers of tile `number`.
#[inline(always)]
fn fill_tile(key: NoiseKey, number: u64, out: &mut [f32; TILE]) {
    let (head, rest) = out.split_at_mut(2 * WIDTH);
    let (first, second) = head.split_at_mut(WIDTH);
    let (third, fourth) = rest.split_at_mut(WIDTH);
    // Sixteen blocks never cross a multiple of 2³², so the high half is common.
    let base = number * WIDTH as u64;
    let [low, high] = halves(base);
    let seed = halves(key.seed);
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

/// Fills `out` with the standard normal numbers of the coordinates `first, first + 1, …`; inlined,
/// so that it is compiled for the instruction set of the caller's loop.
///
/// ```
/// use random::normal::{NoiseKey, fill};
/// let key = NoiseKey { seed: 7, step: 1, sample: 0 };
/// let mut all = [0.0; 100];
/// fill(key, 0, &mut all);
/// let mut tail = [0.0; 30];
/// fill(key, 70, &mut tail);
/// assert_eq!(all[70..], tail);
/// ```
#[inline(always)]
pub fn fill(key: NoiseKey, first: u64, out: &mut [f32]) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Part of the format: a resumed run must draw the same.
    #[test]
    fn derivation_is_pinned() {
        let key = NoiseKey {
            seed: 0x0123_4567_89AB_CDEF,
            step: 3,
            sample: 2,
        };
        let mut z = [0.0; 70];
        fill(key, 61, &mut z);
        assert_eq!(
            [z[0], z[1], z[2], z[3], z[69]].map(f32::to_bits),
            [
                0xBF2D_F993,
                0xBF96_1D3C,
                0xBFF1_2B5B,
                0x3E93_4BF3,
                0xBF3B_D7D0
            ]
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
        // Every exponent from 2⁻³³ to 1, many mantissas; one unit in the last place of the larger
        // part is 1.2e-7.
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
            fill(NoiseKey { seed, step, sample }, 0, &mut z);
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
        fn a_coordinate_has_one_number_in_every_cut(
            seed: u64, step: u64, sample: u32,
            first in prop_oneof![0u64..10_000, (1u64 << 36) - 500..(1u64 << 36) + 500],
            count in 1usize..600,
        ) {
            let key = NoiseKey { seed, step, sample };
            let mut whole = vec![0.0; count];
            fill(key, first, &mut whole);
            for (i, &z) in whole.iter().enumerate() {
                let want = normal_twin(key, first + i as u64);
                prop_assert!((f64::from(z) - want).abs() <= 2e-6, "{z} {want}");
            }
            let cut = count / 3;
            let mut other = vec![0.0; count];
            fill(key, first, &mut other[..cut]);
            fill(key, first + cut as u64, &mut other[cut..]);
            prop_assert!(whole.iter().zip(&other).all(|(a, b)| a.to_bits() == b.to_bits()));
        }
    }
}
