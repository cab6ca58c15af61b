//! One visit of a training to an image: which image, shifted how far, mirrored or not.
//!
//! Output `(y, x)` is pixel `(y + down, x + right)` of the perhaps mirrored image, black outside.
//! Black is the byte 0 before the normalization, so that it becomes `-mean/std`, not 0.

use crate::normalization::Table;
use crate::set::Images;
use crate::shape::Shape;

/// Largest shift of a visit, in pixels.
pub const MAX_SHIFT: usize = i8::MAX as usize;

/// A visit, eight bytes as devices read them.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Visit {
    /// Position of the image in its set.
    pub image: u32,
    /// Rows by which the image is moved up.
    pub down: i8,
    /// Columns by which the mirrored image is moved to the left.
    pub right: i8,
    /// Whether the image is mirrored, left and right exchanged.
    pub flip: bool,
    reserved: u8,
}

impl Visit {
    /// A visit to `image`, mirrored if `flip`, then read `down` rows and `right` columns further.
    pub const fn new(image: u32, down: i8, right: i8, flip: bool) -> Self {
        Self {
            image,
            down,
            right,
            flip,
            reserved: 0,
        }
    }

    /// Whether the image is seen as it is.
    pub const fn is_plain(self) -> bool {
        self.down == 0 && self.right == 0 && !self.flip
    }

    /// Where row `y` of the output comes from: the row of the image and the columns of the output
    /// that lie inside it. `None` if all of the row is black.
    pub fn row(self, shape: Shape, y: usize) -> Option<(usize, std::ops::Range<usize>)> {
        let row = y as isize + isize::from(self.down);
        let (right, width) = (isize::from(self.right), shape.width as isize);
        let from = (-right).clamp(0, width) as usize;
        let to = (width - right).clamp(0, width) as usize;
        let inside = row >= 0 && row < shape.height as isize && from < to;
        inside.then_some((row as usize, from..to))
    }

    /// Column of the image that column `x` of the output shows, for `x` inside [`Visit::row`]'s
    /// range.
    pub fn column(self, shape: Shape, x: usize) -> usize {
        let column = (x as isize + isize::from(self.right)) as usize;
        if self.flip {
            shape.width - 1 - column
        } else {
            column
        }
    }

    /// Writes what is seen, `[channels, height, width]`, every byte replaced by its entry in the
    /// channel's table.
    ///
    /// # Panics
    /// If there is no such image, or fewer tables than channels.
    pub fn write(self, images: &Images, tables: &[Table], out: &mut [f32]) {
        let shape = images.shape();
        assert!(tables.len() >= shape.channels, "a table for every channel");
        let planes = images.image(self.image as usize);
        let planes = planes.chunks_exact(shape.plane());
        let outputs = out.chunks_exact_mut(shape.plane());
        for ((source, target), table) in planes.zip(outputs).zip(tables) {
            if self.is_plain() {
                map(table, source.iter(), target);
                continue;
            }
            let black = table[0];
            for (y, out) in target.chunks_exact_mut(shape.width).enumerate() {
                let Some((row, inside)) = self.row(shape, y) else {
                    out.fill(black);
                    continue;
                };
                let line = &source[row * shape.width..][..shape.width];
                out[..inside.start].fill(black);
                out[inside.end..].fill(black);
                let ends = [inside.start, inside.end - 1].map(|x| self.column(shape, x));
                if self.flip {
                    let seen = line[ends[1]..=ends[0]].iter().rev();
                    map(table, seen, &mut out[inside]);
                } else {
                    map(table, line[ends[0]..=ends[1]].iter(), &mut out[inside]);
                }
            }
        }
    }
}

fn map<'a>(table: &Table, source: impl Iterator<Item = &'a u8>, target: &mut [f32]) {
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
    fn twin(visit: Visit, images: &Images, normalization: &Normalization) -> Vec<f32> {
        let shape = images.shape();
        let pixels = images.image(visit.image as usize);
        let mut out = Vec::new();
        for channel in 0..shape.channels {
            for y in 0..shape.height as isize {
                for x in 0..shape.width as isize {
                    let row = y + isize::from(visit.down);
                    let mut column = x + isize::from(visit.right);
                    let inside = (0..shape.height as isize).contains(&row)
                        && (0..shape.width as isize).contains(&column);
                    if visit.flip {
                        column = shape.width as isize - 1 - column;
                    }
                    let pixel = if inside {
                        let at = row as usize * shape.width + column as usize;
                        pixels[channel * shape.plane() + at]
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
            (image, flip) in (0_u32..2, any::<bool>()),
            (down, right) in (-10_i8..=10, -10_i8..=10),
            bytes in prop::collection::vec(any::<u8>(), 2 * 3 * 8 * 8),
        ) {
            let shape = Shape::new(channels, height, width);
            let images =
                Images::new(shape, 1, bytes[..2 * shape.len()].to_vec(), vec![0, 0]).unwrap();
            let normalization =
                Normalization::new(vec![0.3; channels], (1..=channels).map(|c| c as f32 / 5.0).collect())
                    .unwrap();
            let visit = Visit::new(image, down, right, flip);
            let mut out = vec![f32::NAN; shape.len()];
            visit.write(&images, &normalization.tables(), &mut out);
            prop_assert_eq!(out, twin(visit, &images, &normalization));
        }
    }

    #[test]
    fn a_visit_is_eight_bytes() {
        assert_eq!(size_of::<Visit>(), 8);
        assert_eq!(std::mem::offset_of!(Visit, flip), 6);
    }

    #[test]
    fn the_largest_shift_shows_nothing_of_a_small_image() {
        let images = Images::new(Shape::new(1, 2, 2), 1, vec![1, 2, 3, 4], vec![0]).unwrap();
        let tables = Normalization::identity(1).tables();
        let shift = MAX_SHIFT as i8;
        for visit in [
            Visit::new(0, shift, 0, false),
            Visit::new(0, 0, -shift, true),
        ] {
            let mut out = [f32::NAN; 4];
            visit.write(&images, &tables, &mut out);
            assert_eq!(out, [0.0; 4]);
        }
    }
}
