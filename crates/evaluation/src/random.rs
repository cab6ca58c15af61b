//! Counter-based random numbers: a number is a function of its stream and its index, so that neither the order of drawing
//! nor the number of threads matters.

/// Odd number near 2⁶⁴ divided by the golden ratio: its multiples visit all 64-bit numbers.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// SplitMix64's finalizer, which makes every bit of the result depend on every bit of `x`.
const fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(GOLDEN);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// One stream of random numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stream(u64);

impl Stream {
    /// Part `index` of the stream of this name under this seed.
    pub fn new(seed: u64, name: &str, index: u64) -> Self {
        let named = name
            .bytes()
            .fold(mix(seed), |state, byte| mix(state ^ u64::from(byte)));
        Self(mix(named ^ mix(index)))
    }

    /// Number `index` of the stream, uniform on `0..below`; the deviation from uniform is below `below / 2⁶⁴`.
    pub fn below(self, index: u64, below: u32) -> u32 {
        let bits = mix(self.0.wrapping_add(index.wrapping_mul(GOLDEN)));
        ((u128::from(bits) * u128::from(below)) >> 64) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_below_are_uniform_and_streams_differ() {
        let (cells, draws) = (7u32, 70_000u64);
        let count = |stream: Stream| {
            let mut counts = [0u32; 7];
            for i in 0..draws {
                counts[stream.below(i, cells) as usize] += 1;
            }
            counts
        };
        let (first, second) = (
            count(Stream::new(3, "in", 0)),
            count(Stream::new(3, "in", 1)),
        );
        assert_ne!(first, second);
        assert_ne!(first, count(Stream::new(3, "out", 0)));
        assert_ne!(first, count(Stream::new(4, "in", 0)));
        assert_eq!(first, count(Stream::new(3, "in", 0)));
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
