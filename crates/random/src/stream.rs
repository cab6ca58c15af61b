//! Streams of numbers under a seed and a name, by SplitMix64.

/// Odd number near 2⁶⁴ divided by the golden ratio: its multiples visit all 64-bit numbers.
pub const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The next word of SplitMix64 after state `x`: every bit of it depends on every bit of `x`.
#[inline]
pub const fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(GOLDEN);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A stream of random numbers, each a function of its index.
///
/// ```
/// use random::Stream;
/// let weights = Stream::named(17, "conv1.weight");
/// assert_eq!(weights.uniform(5), 0.8516281847459791);
/// assert_eq!(Stream::named(17, "in").part(3).below(0, 1000), 557);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream(u64);

impl Stream {
    /// The stream that begins at `state` as it is.
    #[inline]
    pub const fn new(state: u64) -> Self {
        Self(state)
    }

    /// The stream of this name under this seed: `s ← mix(seed)`, then `s ← mix(s ⊕ byte)` for every
    /// byte of the name.
    pub fn named(seed: u64, name: &str) -> Self {
        let bytes = name.bytes();
        Self(bytes.fold(mix(seed), |state, byte| mix(state ^ u64::from(byte))))
    }

    /// Part `index` of the stream, a stream itself: `mix(s ⊕ mix(index))`.
    #[inline]
    pub const fn part(self, index: u64) -> Self {
        Self(mix(self.0 ^ mix(index)))
    }

    /// Number `index`, uniform on `[0, 1)`: the upper 53 bits of `mix(s ⊕ mix(index))`.
    #[inline]
    pub const fn uniform(self, index: u64) -> f64 {
        (self.part(index).0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Number `index`, uniform on `0..below` up to a bias of `below / 2⁶⁴`: from
    /// `mix(s + index · GOLDEN)`.
    #[inline]
    pub const fn below(self, index: u64, below: u32) -> u32 {
        let bits = mix(self.0.wrapping_add(index.wrapping_mul(GOLDEN)));
        ((bits as u128 * below as u128) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Part of the format: a resumed run must draw the same.
    #[test]
    fn derivations_are_pinned() {
        assert_eq!(mix(0), 0xE220_A839_7B1D_CDAF);
        assert_eq!(mix(17), 0x8084_75F0_2EE3_7363);
        let named = Stream::named(17, "conv1.weight");
        assert_eq!(named, Stream::new(0xE144_2377_EAC8_5B0E));
        assert_eq!(named.uniform(5).to_bits(), 0x3FEB_4089_C03A_BF17);
        let part = Stream::named(17, "in").part(3);
        assert_eq!(part, Stream::new(6_688_880_496_894_574_071));
        assert_eq!(
            [0, 1, 2, 3].map(|i| part.below(i, 1000)),
            [557, 107, 355, 152]
        );
    }

    #[test]
    fn uniform_numbers_are_uniform() {
        let n = 100_000u64;
        let stream = Stream::named(3, "conv1.weight");
        let (mut sum, mut square) = (0.0, 0.0);
        for i in 0..n {
            let u = stream.uniform(i);
            sum += u;
            square += u * u;
        }
        // five standard deviations of the means: √(1/12/n) and √(4/45/n)
        assert!((sum / n as f64 - 0.5).abs() < 5.0 * (1.0 / 12.0 / n as f64).sqrt());
        assert!((square / n as f64 - 1.0 / 3.0).abs() < 5.0 * (4.0 / 45.0 / n as f64).sqrt());
    }

    #[test]
    fn numbers_below_are_uniform_and_streams_differ() {
        let (cells, draws) = (7u32, 70_000u64);
        let count = |seed, name, part| {
            let stream = Stream::named(seed, name).part(part);
            let mut counts = [0u32; 7];
            for i in 0..draws {
                counts[stream.below(i, cells) as usize] += 1;
            }
            counts
        };
        let (first, second) = (count(3, "in", 0), count(3, "in", 1));
        assert_ne!(first, second);
        assert_ne!(first, count(3, "out", 0));
        assert_ne!(first, count(4, "in", 0));
        assert_eq!(first, count(3, "in", 0));
        for counts in [first, second] {
            // χ² with 6 degrees of freedom is above 30 once in 25,000 times
            let expected = draws as f64 / f64::from(cells);
            let chi: f64 = counts
                .iter()
                .map(|&c| (f64::from(c) - expected).powi(2) / expected)
                .sum();
            assert!(chi < 30.0, "{counts:?}");
        }
    }
}
