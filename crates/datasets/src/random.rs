//! Random words as a pure function of (seed, purpose, epoch, index), by Philox.
//!
//! Key = the two halves of the seed, counter = (index, low and high half of the epoch, purpose).
//! Nothing is carried from draw to draw, so that a run resumed in the middle sees the same numbers.

use random::{Words, halves, philox};

/// What the numbers are for; each purpose has its own stream.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Purpose {
    /// Order of the images within an epoch.
    Order = 1,
    /// Flips and crops.
    Augmentation = 2,
    /// Split into training and validation images.
    Split = 3,
    /// The drawn letters.
    Letters = 4,
    /// Which images of a class stand for it in an epoch.
    Balance = 5,
}

impl Purpose {
    /// The four words that belong to `index`.
    #[inline]
    pub(crate) fn words(self, seed: u64, epoch: u64, index: u32) -> [u32; 4] {
        let [low, high] = halves(epoch);
        philox([index, low, high, self as u32], halves(seed))
    }

    /// The words of all indices, one after the other.
    pub(crate) fn stream(self, seed: u64, epoch: u64) -> Words {
        let [low, high] = halves(epoch);
        Words::new(halves(seed), [low, high, self as u32])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Part of the format: a resumed run must see the same order, flips and crops.
    #[test]
    fn derivations_are_pinned() {
        const SEED: u64 = 0x0123_4567_89AB_CDEF;
        assert_eq!(
            Purpose::Augmentation.words(SEED, 0x1_0000_0002, 5),
            [0x6633_6C3F, 0xCC63_EA34, 0x6E73_FBAA, 0xD388_8B24]
        );
        let mut letters = Purpose::Letters.stream(SEED, 2);
        assert_eq!(
            [(); 5].map(|()| letters.word()),
            [
                0xFD62_7F6F,
                0xB218_3871,
                0x1846_81FD,
                0xCDC5_C03F,
                0x1DC5_A5C7
            ]
        );
        for (purpose, order, next) in [
            (Purpose::Order, [2, 4, 9, 1, 0, 7, 3, 5, 6, 8], 252),
            (Purpose::Split, [6, 3, 8, 1, 2, 4, 9, 0, 5, 7], 832),
            (Purpose::Balance, [0, 7, 3, 8, 5, 9, 2, 1, 6, 4], 676),
        ] {
            let mut items = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
            let mut stream = purpose.stream(17, 2);
            stream.shuffle(&mut items);
            assert_eq!(items, order);
            assert_eq!(stream.below(1000), next);
        }
    }
}
