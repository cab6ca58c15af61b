//! Philox4x32 with 10 rounds: four random words as a function of a key and a counter.

const MULTIPLIER: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// One block of Philox4x32-10.
#[inline(always)]
pub fn philox(mut counter: [u32; 4], mut key: [u32; 2]) -> [u32; 4] {
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

/// The low and the high half of `x`: a seed as a key, or a large number as two words of a counter.
#[inline(always)]
pub const fn halves(x: u64) -> [u32; 2] {
    [x as u32, (x >> 32) as u32]
}

/// `⌊word · below / 2³²⌋`: uniform on `0..below` up to a bias of `below / 2³²`.
#[inline]
pub const fn scale(word: u32, below: u32) -> u32 {
    ((word as u64 * below as u64) >> 32) as u32
}

/// The words of blocks 0, 1, 2, … one after the other: the counter of a block is its number, then
/// three given words.
///
/// ```
/// use random::{Words, halves};
/// let mut order = [0, 1, 2, 3];
/// Words::new(halves(17), [0, 0, 1]).shuffle(&mut order);
/// order.sort();
/// assert_eq!(order, [0, 1, 2, 3]);
/// ```
#[derive(Debug, Clone)]
pub struct Words {
    key: [u32; 2],
    counter: [u32; 4],
    words: [u32; 4],
    used: usize,
}

impl Words {
    /// The words under this key and these last three words of the counter.
    pub fn new(key: [u32; 2], [second, third, fourth]: [u32; 3]) -> Self {
        let counter = [0, second, third, fourth];
        Self {
            key,
            counter,
            words: philox(counter, key),
            used: 0,
        }
    }

    /// The next word.
    pub fn word(&mut self) -> u32 {
        if self.used == 4 {
            self.counter[0] = self.counter[0].wrapping_add(1);
            self.words = philox(self.counter, self.key);
            self.used = 0;
        }
        self.used += 1;
        self.words[self.used - 1]
    }

    /// Exactly uniform on `0..below`, by rejection.
    ///
    /// # Panics
    /// If `below` is zero.
    pub fn below(&mut self, below: u32) -> u32 {
        assert!(below > 0, "there is no number below zero");
        // the products whose low half is under 2³² mod below are one too many
        let excess = below.wrapping_neg() % below;
        loop {
            let product = u64::from(self.word()) * u64::from(below);
            if product as u32 >= excess {
                return (product >> 32) as u32;
            }
        }
    }

    /// Shuffles in place, every order equally likely (Fisher-Yates from the last entry down).
    pub fn shuffle(&mut self, items: &mut [u32]) {
        for last in (1..items.len()).rev() {
            // numbered by u32, so that there are fewer than 2³²
            let other = self.below(last as u32 + 1) as usize;
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test vectors published with the generator (Random123, `kat_vectors`).
    #[test]
    fn philox_gives_the_published_words() {
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

    #[test]
    fn bounded_numbers_are_uniform() {
        let mut stream = Words::new([7, 0], [3, 0, 1]);
        let mut counts = [0_i32; 6];
        for _ in 0..60_000 {
            counts[stream.below(6) as usize] += 1;
        }
        // five standard deviations of a binomial count
        assert!(
            counts.iter().all(|&n| (n - 10_000).abs() < 457),
            "{counts:?}"
        );
    }

    #[test]
    fn every_order_of_three_is_equally_likely() {
        let mut counts = std::collections::BTreeMap::new();
        for draw in 0..6_000 {
            let mut items = [0, 1, 2];
            Words::new([1, 0], [draw, 0, 1]).shuffle(&mut items);
            *counts.entry(items).or_insert(0_i32) += 1;
        }
        assert_eq!(counts.len(), 6);
        assert!(
            counts.values().all(|&n| (n - 1_000).abs() < 145),
            "{counts:?}"
        );
    }
}
