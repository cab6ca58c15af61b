//! Labeled images: pixels `[images, channels, height, width]` of one byte each.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Result, check, check_labels, check_length};
use crate::normalization::Normalization;
use crate::shape::Shape;

/// Labeled images, decoded once and never changed; hold them in an `Arc` and share them between
/// runs.
///
/// Memory: one byte per pixel and channel, four per label.
///
/// ```
/// use images::{Images, Shape};
///
/// let images = Images::new(Shape::new(1, 1, 2), 2, vec![0, 9, 9, 0], vec![1, 0])?;
/// assert_eq!(images.len(), 2);
/// assert_eq!(images.image(1), [9, 0]);
/// # Ok::<(), images::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Images {
    shape: Shape,
    classes: usize,
    pixels: Vec<u8>,
    labels: Vec<u32>,
    identity: Identity,
}

/// A number that a set has for itself and its clones; no part of what it equals.
#[derive(Debug, Clone, Copy)]
struct Identity(u64);

impl Identity {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl PartialEq for Identity {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Identity {}

impl Images {
    /// `labels.len()` images.
    ///
    /// # Errors
    /// The number of pixels does not fit, a label is not below `classes`, or an image has no pixel.
    pub fn new(shape: Shape, classes: usize, pixels: Vec<u8>, labels: Vec<u32>) -> Result<Self> {
        check("pixels of an image", 0.0, "1..", !shape.is_empty())?;
        let count = labels.len();
        let countable = u32::try_from(count).is_ok();
        check("images of a set", count as f64, "0..=4294967295", countable)?;
        check_length("pixels", pixels.len(), labels.len() * shape.len())?;
        check_labels(&labels, classes)?;
        Ok(Self {
            shape,
            classes,
            pixels,
            labels,
            identity: Identity::new(),
        })
    }

    /// A number that only this set and its clones have in this process, for whoever keeps copies of
    /// sets elsewhere.
    pub fn id(&self) -> u64 {
        self.identity.0
    }

    /// Size of one image.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Number of classes; labels are below it.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no image.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// All pixels, `[images, channels, height, width]`.
    pub fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// Pixels of one image, `[channels, height, width]`.
    ///
    /// # Panics
    /// If there is no image `index`.
    pub fn image(&self, index: usize) -> &[u8] {
        let size = self.shape.len();
        &self.pixels[index * size..(index + 1) * size]
    }

    /// Class of every image.
    pub fn labels(&self) -> &[u32] {
        &self.labels
    }

    /// All pixels as the network wants them: `(x/255 - mean) / std` per channel, four bytes each.
    ///
    /// # Panics
    /// If the normalization has another number of channels.
    pub fn normalized(&self, normalization: &Normalization) -> Vec<f32> {
        let mut out = Vec::with_capacity(self.pixels.len());
        self.normalize(
            self.pixels.chunks_exact(self.shape.len()),
            normalization,
            &mut out,
        );
        out
    }

    /// The same for some of the images, in this order.
    ///
    /// # Panics
    /// If there is no such image, or the normalization has another number of channels.
    pub fn normalized_at(&self, indices: &[u32], normalization: &Normalization) -> Vec<f32> {
        let mut out = Vec::with_capacity(indices.len() * self.shape.len());
        let images = indices.iter().map(|&index| self.image(index as usize));
        self.normalize(images, normalization, &mut out);
        out
    }

    fn normalize<'a>(
        &self,
        images: impl Iterator<Item = &'a [u8]>,
        normalization: &Normalization,
        out: &mut Vec<f32>,
    ) {
        normalization.check(self.shape.channels);
        let tables = normalization.tables();
        for image in images {
            for (plane, table) in image.chunks_exact(self.shape.plane()).zip(&tables) {
                out.extend(plane.iter().map(|&pixel| table[pixel as usize]));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_images_are_normalized_as_all_are() {
        let shape = Shape::new(2, 1, 2);
        let images = Images::new(shape, 2, (0..12).collect(), vec![0, 1, 0]).unwrap();
        let normalization = Normalization::new(vec![0.1, 0.2], vec![0.3, 0.4]).unwrap();
        let all = images.normalized(&normalization);
        let some = images.normalized_at(&[2, 0], &normalization);
        assert_eq!(some, [&all[8..], &all[..4]].concat());
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let images = |classes, pixels: usize, labels: &[u32]| {
            Images::new(Shape::new(1, 2, 2), classes, vec![0; pixels], labels.into())
                .map_err(|error| error.to_string())
        };
        assert!(images(2, 8, &[0, 1]).is_ok());
        assert_eq!(
            images(2, 7, &[0, 1]).unwrap_err(),
            "pixels has 7 entries, expected 8"
        );
        assert_eq!(
            images(2, 8, &[0, 2]).unwrap_err(),
            "label 2 of image 1 is not in 0..2"
        );
        let empty = Images::new(Shape::new(1, 0, 2), 1, vec![], vec![0]);
        assert_eq!(
            empty.unwrap_err().to_string(),
            "pixels of an image 0 is not in 1.."
        );
    }

    #[test]
    fn each_channel_has_its_own_constants() {
        let shape = Shape::new(2, 1, 2);
        let pixels = vec![0, 255, 51, 102, 255, 0, 102, 51];
        let images = Images::new(shape, 1, pixels, vec![0, 0]).unwrap();
        let normalization = Normalization::new(vec![0.5, 0.0], vec![0.5, 0.2]).unwrap();
        let expected = [-1.0, 1.0, 1.0, 2.0, 1.0, -1.0, 2.0, 1.0];
        assert_eq!(images.normalized(&normalization), expected);
    }
}
