//! Sorting scores: floats become integers of the same order, and integers go into buckets by the
//! first bits in which they differ; each bucket is sorted alike.
//!
//! Only bits in which keys differ are looked at: scores that come from `f32`, that lie close
//! together or that are equal cost no more. O(n) per round of buckets, one buffer of the same size.

use std::ops::Range;
use std::thread;

use super::threads_for;

/// Most bits of a digit: 2048 counters stay in the first cache.
const DIGIT: u32 = 11;
/// Up to this many keys the standard library is as fast.
const SMALL: usize = 64;
/// Keys that a bucket has on average, as a power of two, where there are few.
const PER_BUCKET: u32 = 3;

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

/// Sorts keys from low to high, in several threads where it pays.
pub(super) fn sort(keys: &mut [u64]) {
    let mut buffer = vec![0; keys.len()];
    match threads_for(keys.len()) {
        1 => sort_alone(keys, &mut buffer),
        threads => sort_together(keys, &mut buffer, threads),
    }
}

/// Which bucket a key goes into: the first bits of what it has above the smallest.
#[derive(Clone, Copy)]
struct Digit {
    low: u64,
    shift: u32,
    buckets: usize,
}

impl Digit {
    /// The digit by which these keys are told apart; `None` if all are equal.
    fn of(keys: &[u64]) -> Option<Self> {
        let first = *keys.first()?;
        let (low, high) = (keys.iter()).fold((first, first), |(low, high), &key| {
            (low.min(key), high.max(key))
        });
        let bits = u64::BITS - (high - low).leading_zeros();
        let width = DIGIT.min(keys.len().ilog2().saturating_sub(PER_BUCKET).max(1));
        let shift = bits.saturating_sub(width);
        (high > low).then(|| Self {
            low,
            shift,
            buckets: ((high - low) >> shift) as usize + 1,
        })
    }

    fn bucket(self, key: u64) -> usize {
        ((key - self.low) >> self.shift) as usize
    }

    /// Puts keys into `buffer`, bucket by bucket, and says where each bucket ends.
    fn deal(self, keys: &[u64], buffer: &mut [u64]) -> [u32; 1 << DIGIT] {
        let mut ends = [0; 1 << DIGIT];
        for &key in keys {
            ends[self.bucket(key)] += 1;
        }
        let mut start = 0;
        for end in &mut ends[..self.buckets] {
            start += std::mem::replace(end, start);
        }
        // where buckets begin becomes where they end
        for &key in keys {
            let place = &mut ends[self.bucket(key)];
            buffer[*place as usize] = key;
            *place += 1;
        }
        ends
    }
}

/// The keys of a bucket among those that were dealt.
fn range(ends: &[u32], bucket: usize) -> Range<usize> {
    let start = bucket.checked_sub(1).map_or(0, |before| ends[before]);
    start as usize..ends[bucket] as usize
}

/// Sorts keys with a buffer at least as long.
fn sort_alone(keys: &mut [u64], buffer: &mut [u64]) {
    if keys.len() <= SMALL {
        return keys.sort_unstable();
    }
    let Some(digit) = Digit::of(keys) else {
        return;
    };
    let ends = digit.deal(keys, buffer);
    keys.copy_from_slice(&buffer[..keys.len()]);
    // a bucket of one value is sorted
    if digit.shift > 0 {
        for bucket in 0..digit.buckets {
            sort_alone(&mut keys[range(&ends, bucket)], buffer);
        }
    }
}

/// The same in several threads: each deals a part of the keys, then each gathers and sorts buckets.
fn sort_together(keys: &mut [u64], buffer: &mut [u64], threads: usize) {
    let Some(digit) = Digit::of(keys) else {
        return;
    };
    let (total, size) = (keys.len(), keys.len().div_ceil(threads));
    let parts: Vec<_> = thread::scope(|scope| {
        let pieces = keys.chunks(size).zip(buffer.chunks_mut(size));
        let deal = |(keys, buffer)| scope.spawn(move || digit.deal(keys, buffer));
        let handles: Vec<_> = pieces.map(deal).collect();
        let ends = handles
            .into_iter()
            .map(|handle| (handle.join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        ends.collect()
    });
    let dealt = |bucket: usize| {
        let parts = parts.iter().zip(buffer.chunks(size));
        parts.map(move |(ends, keys)| &keys[range(ends, bucket)])
    };
    let count = |bucket: usize| dealt(bucket).map(<[u64]>::len).sum::<usize>();
    // a bucket that would keep one thread busy for long is left for all of them
    let is_large = |bucket: usize| digit.shift > 0 && count(bucket) > size;
    let mut large = Vec::new();
    thread::scope(|scope| {
        let (mut rest, mut end, mut bucket) = (&mut *keys, 0, 0);
        for thread in 1..=threads {
            let first = bucket;
            let begin = end;
            while bucket < digit.buckets && end < total * thread / threads {
                if is_large(bucket) {
                    large.push(end..end + count(bucket));
                }
                end += count(bucket);
                bucket += 1;
            }
            let (mut own, others) = std::mem::take(&mut rest).split_at_mut(end - begin);
            rest = others;
            let (dealt, is_large, last) = (&dealt, &is_large, bucket);
            scope.spawn(move || {
                let mut buffer = Vec::new();
                for bucket in first..last {
                    let mut start = 0;
                    for part in dealt(bucket) {
                        own[start..][..part.len()].copy_from_slice(part);
                        start += part.len();
                    }
                    let (keys, others) = std::mem::take(&mut own).split_at_mut(start);
                    own = others;
                    if digit.shift > 0 && !is_large(bucket) {
                        buffer.resize(buffer.len().max(keys.len()), 0);
                        sort_alone(keys, &mut buffer);
                    }
                }
            });
        }
    });
    for range in large {
        sort_together(&mut keys[range], buffer, threads);
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

    /// Keys that differ in so many bits, of which the lowest are zero; if they crowd, most of them
    /// lie near the largest.
    fn draw(seed: u64, count: usize, bits: u32, shift: u32, crowd: u32) -> Vec<u64> {
        let mut state = seed;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state ^ (state >> 29)
        };
        let most = u64::MAX >> (64 - bits);
        let key = |draw: u64, near: u32| most - ((draw & most) >> (crowd * (near & 7)));
        (0..count)
            .map(|_| key(next(), next() as u32) << shift)
            .collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        /// Any bits, few bits, shifted bits, crowds, on both sides of the length where the method
        /// changes, with any number of threads.
        #[test]
        fn sorted_like_the_standard_library(
            seed in any::<u64>(), n in 0usize..6000, bits in 1u32..=64, shift in 0u32..64,
            crowd in 0u32..4, threads in 1usize..9,
        ) {
            let given = draw(seed, n, bits, shift, crowd);
            let mut expected = given.clone();
            expected.sort_unstable();
            let (mut found, mut buffer) = (given.clone(), vec![0; n]);
            sort_alone(&mut found, &mut buffer);
            prop_assert_eq!(&found, &expected);
            let mut found = given;
            sort_together(&mut found, &mut buffer, threads);
            prop_assert_eq!(&found, &expected);
        }
    }

    #[test]
    fn long_lists_are_sorted() {
        for (bits, crowd) in [(64, 0), (52, 0), (52, 4), (3, 0), (1, 0)] {
            let mut found = draw(7, 400_000, bits, 0, crowd);
            let mut expected = found.clone();
            expected.sort_unstable();
            sort(&mut found);
            assert!(found == expected, "{bits} bits, {crowd}");
        }
        sort(&mut []);
        let mut equal = [3; 1000];
        sort(&mut equal);
        assert_eq!(equal, [3; 1000]);
    }
}
