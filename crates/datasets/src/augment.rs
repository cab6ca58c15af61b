//! Augmentation of training images: a horizontal flip with probability ½, then a crop of the same
//! size at a uniform place of the image padded with black.
//!
//! The order is torchvision's `RandomHorizontalFlip`, `RandomCrop(size, padding)`, `ToTensor`,
//! `Normalize`: the padding is black before normalization, so that it becomes `-mean/std`, not 0.
//!
//! The draw for an image is a pure function of (seed, epoch, index of the image in its set).

use images::{MAX_SHIFT, Visit};
use random::scale;

use crate::error::Result;
use crate::random::Purpose;

/// What is done to a training image.
///
/// ```
/// use datasets::Augmentation;
///
/// let of_cifar = Augmentation { flip: true, pad: 4 };
/// assert_eq!(of_cifar, Augmentation::cifar());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Augmentation {
    /// Mirror every other image, by chance.
    pub flip: bool,
    /// Black pixels added on each side before the crop; 0 for no crop.
    pub pad: usize,
}

impl Augmentation {
    /// Flip, and crop with 4 pixels of padding.
    pub const fn cifar() -> Self {
        Self { flip: true, pad: 4 }
    }

    /// No change at all.
    pub const fn none() -> Self {
        Self {
            flip: false,
            pad: 0,
        }
    }

    /// # Errors
    /// The padding is larger than 127.
    pub(crate) fn check(self) -> Result<Self> {
        if self.pad <= MAX_SHIFT {
            return Ok(self);
        }
        let range = format!("0..={MAX_SHIFT}");
        Err(images::Error::out_of_range("padding", self.pad as f64, range).into())
    }

    /// The visit to one image: a pure function of its arguments.
    pub fn draw(self, seed: u64, epoch: u64, image: u32) -> Visit {
        if self == Self::none() {
            return Visit::new(image, 0, 0, false);
        }
        let [coin, row, column, _] = Purpose::Augmentation.words(seed, epoch, image);
        let places = 2 * self.pad as u32 + 1;
        // the padding is at most 127, so that the shifts fit
        let shift = |word| (scale(word, places) as i32 - self.pad as i32) as i8;
        Visit::new(
            image,
            shift(row),
            shift(column),
            self.flip && coin >> 31 == 1,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_and_both_sides_are_drawn_equally_often() {
        let augmentation = Augmentation::cifar();
        let mut counts = std::collections::BTreeMap::new();
        for image in 0..162_000 {
            let place = augmentation.draw(5, 2, image);
            *counts
                .entry((place.flip, place.down, place.right))
                .or_insert(0_i32) += 1;
        }
        assert_eq!(counts.len(), 2 * 9 * 9);
        for ((_, down, right), n) in counts {
            // five standard deviations of a binomial count
            assert!((n - 1_000).abs() < 158, "{n}");
            assert!(down.abs() <= 4 && right.abs() <= 4);
        }
    }

    #[test]
    fn the_draw_depends_on_seed_epoch_and_image() {
        let of = |seed, epoch| {
            (0..20)
                .map(|image| Augmentation::cifar().draw(seed, epoch, image))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(1, 1), of(1, 1));
        assert_ne!(of(1, 1), of(2, 1));
        assert_ne!(of(1, 1), of(1, 2));
        assert_ne!(of(1, 1), of(1 << 40, 1));
        assert_ne!(of(1, 1), of(1, 1 | 1 << 40));
        let plain = Visit::new(7, 0, 0, false);
        assert_eq!(Augmentation::none().draw(1, 1, 7), plain);
    }
}
