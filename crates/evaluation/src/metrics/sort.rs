//! Sorting scores: floats become integers of the same order, integers are sorted digit by digit.
//!
//! Only bits in which the keys differ are looked at: scores that come from `f32`, or that lie close
//! together, take fewer passes. O(n) per pass, at most six passes, one buffer of the same size.

use std::thread;

use super::threads_for;

/// Bits of a digit: 2048 counters stay in the first cache.
const DIGIT: u32 = 11;
/// Values of a digit.
const BUCKETS: usize = 1 << DIGIT;
/// Below this many keys the standard library is as fast.
const SMALL: usize = 1 << 10;

/// Image of a number under a map that keeps the order, with -0 equal to 0; `None` for NaN.
pub(super) fn key(value: f64) -> Option<u64> {
    if value.is_nan() {
        return None;
    }
    const SIGN: u64 = 1 << 63;
    // -0 + 0 is 0
    let bits = (value + 0.0).to_bits();
    Some(if bits & SIGN == 0 { bits | SIGN } else { !bits })
}

/// Drops what the keys have in common: the smallest becomes 0, trailing zero bits are shifted out.
/// The order stays.
fn compress(sides: [&mut Vec<u64>; 2]) -> u32 {
    let all = || sides[0].iter().chain(sides[1].iter());
    let low = all().copied().min().unwrap_or(0);
    let bits = all().fold(0, |bits, key| bits | (key - low));
    let shift = bits.trailing_zeros().min(63);
    for side in sides {
        for key in side.iter_mut() {
            *key = (*key - low) >> shift;
        }
    }
    u64::BITS - (bits >> shift).leading_zeros()
}

/// Replaces the keys of both sides by smaller ones of the same order, and sorts each side from low
/// to high.
pub(super) fn sort_both(a: &mut Vec<u64>, b: &mut Vec<u64>) {
    let bits = compress([a, b]);
    if threads_for(a.len() + b.len()) > 1 {
        thread::scope(|scope| {
            scope.spawn(|| sort(a, bits));
            sort(b, bits);
        });
    } else {
        sort(a, bits);
        sort(b, bits);
    }
}

/// Sorts keys below `2^bits`.
fn sort(keys: &mut Vec<u64>, bits: u32) {
    if keys.len() < SMALL {
        keys.sort_unstable();
        return;
    }
    let passes = bits.div_ceil(DIGIT);
    if passes == 0 {
        return;
    }
    let width = bits.div_ceil(passes);
    let mask = (1u64 << width) - 1;
    let digit = |key: u64, pass: u32| (key >> (pass * width) & mask) as usize % BUCKETS;
    let mut counts = vec![[0u32; BUCKETS]; passes as usize];
    for &key in keys.iter() {
        for (pass, counts) in (0..).zip(&mut counts) {
            counts[digit(key, pass)] += 1;
        }
    }
    let mut buffer = vec![0; keys.len()];
    for (pass, counts) in (0..).zip(&mut counts) {
        let mut start = 0;
        for count in counts.iter_mut() {
            start += std::mem::replace(count, start);
        }
        for &key in keys.iter() {
            let place = &mut counts[digit(key, pass)];
            buffer[*place as usize] = key;
            *place += 1;
        }
        std::mem::swap(keys, &mut buffer);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keys_keep_the_order() {
        let values = [
            f64::NEG_INFINITY,
            f64::MIN,
            -1.5,
            -f64::MIN_POSITIVE,
            -5e-324,
            0.0,
            5e-324,
            f64::MIN_POSITIVE,
            1.0,
            1.0 + f64::EPSILON,
            f64::MAX,
            f64::INFINITY,
        ];
        let keys = values.map(|value| key(value).unwrap());
        assert!(keys.is_sorted_by(|a, b| a < b));
        assert_eq!(key(-0.0), key(0.0));
        assert_eq!(key(f64::NAN), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// Any bits, few bits, shifted bits, on both sides of the length where the method changes.
        #[test]
        fn sorted_like_the_standard_library(
            seed in any::<u64>(), n in 0usize..4000, m in 0usize..2500, bits in 1u32..=64, shift in 0u32..64
        ) {
            let mut state = seed;
            let mut draw = |count: usize| -> Vec<u64> {
                (0..count)
                    .map(|_| {
                        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                        (state ^ (state >> 29)) >> (64 - bits) << shift
                    })
                    .collect()
            };
            let (mut a, mut b) = (draw(n), draw(m));
            let (given_a, given_b) = (a.clone(), b.clone());
            sort_both(&mut a, &mut b);
            prop_assert!(a.is_sorted() && b.is_sorted());
            // the new keys are the old ones by rank
            let ranks = |a: &[u64], b: &[u64]| {
                let mut all: Vec<u64> = a.iter().chain(b).copied().collect();
                all.sort_unstable();
                all.dedup();
                let rank = |key: &u64| all.binary_search(key).unwrap();
                let (mut a, mut b): (Vec<_>, Vec<_>) = (a.iter().map(rank).collect(), b.iter().map(rank).collect());
                a.sort_unstable();
                b.sort_unstable();
                (a, b)
            };
            prop_assert_eq!(ranks(&a, &b), ranks(&given_a, &given_b));
        }
    }
}
