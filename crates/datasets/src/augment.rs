//! Augmentation of training images: a horizontal flip with probability ½, then a crop of the same size at a
//! uniform place of the image padded with black.
//!
//! The order is torchvision's `RandomHorizontalFlip`, `RandomCrop(size, padding)`, `ToTensor`, `Normalize`: the padding is
//! black before normalization, so that it becomes `-mean/std`, not 0.
//!
//! The draw for an image is a pure function of (seed, epoch, index of the image in its set).

use crate::error::{Error, Result};
use crate::image_set::Shape;
use crate::random::{Purpose, scale, words};

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
    /// The padding is larger than 256.
    pub(crate) fn check(self) -> Result<Self> {
        if self.pad > 256 {
            return Err(Error::OutOfRange {
                field: "padding",
                value: self.pad as f64,
                range: "0..=256".into(),
            });
        }
        Ok(self)
    }

    /// The draw for one image.
    pub(crate) fn draw(self, seed: u64, epoch: u64, image: u32) -> Placement {
        if self == Self::none() {
            return Placement::default();
        }
        let [coin, row, column, _] = words(seed, Purpose::Augmentation, epoch, image);
        let places = 2 * self.pad as u32 + 1;
        let pad = self.pad as isize;
        Placement {
            flip: self.flip && coin >> 31 == 1,
            down: scale(row, places) as isize - pad,
            right: scale(column, places) as isize - pad,
        }
    }
}

/// Where an image is read from: output `(y, x)` is pixel `(y + down, x + right)` of the perhaps mirrored image,
/// black outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Placement {
    pub(crate) flip: bool,
    pub(crate) down: isize,
    pub(crate) right: isize,
}

impl Placement {
    /// Writes the placed image, `[channels, height, width]`, every byte replaced by its entry in the channel's table.
    pub(crate) fn write(self, shape: Shape, pixels: &[u8], tables: &[[f32; 256]], out: &mut [f32]) {
        let Shape { height, width, .. } = shape;
        let planes = pixels.chunks_exact(shape.area());
        let outputs = out.chunks_exact_mut(shape.area());
        for ((source, target), table) in planes.zip(outputs).zip(tables) {
            if self == Self::default() {
                map(table, source.iter(), target);
                continue;
            }
            let black = table[0];
            // columns of the output that lie inside the image
            let from = (-self.right).clamp(0, width as isize) as usize;
            let to = (width as isize - self.right).clamp(0, width as isize) as usize;
            for (y, row) in target.chunks_exact_mut(width).enumerate() {
                let line = y as isize + self.down;
                if line < 0 || line >= height as isize || from >= to {
                    row.fill(black);
                    continue;
                }
                let line = &source[line as usize * width..][..width];
                row[..from].fill(black);
                row[to..].fill(black);
                let start = (from as isize + self.right) as usize;
                let end = start + (to - from);
                if self.flip {
                    let mirrored = &line[width - end..width - start];
                    map(table, mirrored.iter().rev(), &mut row[from..to]);
                } else {
                    map(table, line[start..end].iter(), &mut row[from..to]);
                }
            }
        }
    }
}

fn map<'a>(table: &[f32; 256], source: impl Iterator<Item = &'a u8>, target: &mut [f32]) {
    for (value, &pixel) in target.iter_mut().zip(source) {
        *value = table[pixel as usize];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normalization::Normalization;
    use proptest::prelude::*;

    /// The obvious way: mirror, look up, black outside.
    fn twin(
        place: Placement,
        shape: Shape,
        pixels: &[u8],
        normalization: &Normalization,
    ) -> Vec<f32> {
        let mut out = Vec::new();
        for channel in 0..shape.channels {
            for y in 0..shape.height as isize {
                for x in 0..shape.width as isize {
                    let (row, mut column) = (y + place.down, x + place.right);
                    let inside = (0..shape.height as isize).contains(&row)
                        && (0..shape.width as isize).contains(&column);
                    if place.flip {
                        column = shape.width as isize - 1 - column;
                    }
                    let pixel = if inside {
                        pixels
                            [channel * shape.area() + row as usize * shape.width + column as usize]
                    } else {
                        0
                    };
                    out.push(normalization.apply(channel, pixel));
                }
            }
        }
        out
    }

    proptest! {
        #[test]
        fn the_fast_form_agrees_with_the_obvious_one(
            (channels, height, width) in (1_usize..4, 1_usize..9, 1_usize..9),
            flip: bool,
            (down, right) in (-10_isize..=10, -10_isize..=10),
            bytes in prop::collection::vec(any::<u8>(), 3 * 8 * 8),
        ) {
            let shape = Shape::new(channels, height, width);
            let pixels = &bytes[..shape.size()];
            let normalization =
                Normalization::new(vec![0.3; channels], (1..=channels).map(|c| c as f32 / 5.0).collect())
                    .unwrap();
            let place = Placement { flip, down, right };
            let mut out = vec![f32::NAN; shape.size()];
            place.write(shape, pixels, &normalization.tables(channels), &mut out);
            prop_assert_eq!(out, twin(place, shape, pixels, &normalization));
        }
    }

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
        // five standard deviations of a binomial count
        assert!(
            counts.values().all(|&n| (n - 1_000).abs() < 158),
            "{counts:?}"
        );
        assert!(
            counts
                .keys()
                .all(|&(_, down, right)| down.abs() <= 4 && right.abs() <= 4)
        );
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
        assert_eq!(Augmentation::none().draw(1, 1, 7), Placement::default());
    }
}
