//! Which entries dropout drops: a function of seed, layer, image and entry, so that neither the
//! order of the images nor the number of threads matters.

use random::mix;

/// Which dropout layers act, and with which noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropoutMode {
    /// All of them, as in training.
    Train(u64),
    /// Only those that are always on, as in prediction.
    Predict(u64),
}

impl DropoutMode {
    /// Seed of the masks, if a layer acts.
    pub(crate) fn seed(self, always_on: bool) -> Option<u64> {
        match self {
            Self::Train(seed) => Some(seed),
            Self::Predict(seed) => always_on.then_some(seed),
        }
    }
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

    /// Part of the format: a resumed run must drop the same.
    #[test]
    fn derivations_are_pinned() {
        let key = dropout_key(9, 2, 3);
        assert_eq!(key, 0x31C3_3F92);
        assert_eq!(dropout_bits(key, 77), 0x18C8_AE4C);
        assert_eq!(dropout_threshold(0.05), 214_748_364);
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
