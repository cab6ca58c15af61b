//! Counter-based random numbers: a number is a function of its stream and its index, so that the order of drawing, and
//! with it the number of threads, does not matter.

/// SplitMix64's finalizer, which makes every bit of the result depend on every bit of `x`.
pub(crate) const fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// Uniform on `[0, 1)`: entry `index` of `stream`.
pub(crate) fn uniform(stream: u64, index: u64) -> f64 {
    (mix(stream ^ mix(index)) >> 11) as f64 / (1u64 << 53) as f64
}

/// The stream of a name under a seed.
pub(crate) fn named_stream(seed: u64, name: &str) -> u64 {
    name.bytes()
        .fold(mix(seed), |state, byte| mix(state ^ u64::from(byte)))
}

/// Key of the dropout mask of one layer for one image.
pub(crate) const fn dropout_key(seed: u64, layer: usize, image: usize) -> u32 {
    mix(mix(seed ^ ((layer as u64) << 40)) ^ image as u64) as u32
}

/// 32 random bits for entry `element` of the image with this key.
#[inline(always)]
pub(crate) const fn dropout_bits(key: u32, element: u32) -> u32 {
    let x = element.wrapping_mul(0x9E37_79B9).wrapping_add(key);
    let x = (x ^ (x >> 16)).wrapping_mul(0x7FEB_352D);
    let x = (x ^ (x >> 15)).wrapping_mul(0x846C_A68B);
    x ^ (x >> 16)
}

/// Entries whose bits are below this are dropped.
pub(crate) fn dropout_threshold(rate: f64) -> u32 {
    (rate * 4_294_967_296.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_numbers_are_uniform() {
        let n = 100_000u64;
        let (mut sum, mut square) = (0.0, 0.0);
        for i in 0..n {
            let u = uniform(named_stream(3, "conv1.weight"), i);
            sum += u;
            square += u * u;
        }
        // five standard deviations of the means: √(1/12/n) and √(4/45/n)
        assert!((sum / n as f64 - 0.5).abs() < 5.0 * (1.0 / 12.0 / n as f64).sqrt());
        assert!((square / n as f64 - 1.0 / 3.0).abs() < 5.0 * (4.0 / 45.0 / n as f64).sqrt());
    }

    #[test]
    fn dropout_drops_its_share() {
        let (images, elements, rate) = (64usize, 4096u32, 0.05);
        let threshold = dropout_threshold(rate);
        let dropped: usize = (0..images)
            .map(|image| {
                let key = dropout_key(9, 2, image);
                (0..elements)
                    .filter(|&e| dropout_bits(key, e) < threshold)
                    .count()
            })
            .sum();
        let n = (images * elements as usize) as f64;
        assert!((dropped as f64 / n - rate).abs() < 5.0 * (rate * (1.0 - rate) / n).sqrt());
    }
}
