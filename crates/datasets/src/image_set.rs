//! A decoded set of labeled images: pixels `[images, channels, height, width]` of one byte each.

use std::sync::{Arc, OnceLock};

pub use images::Shape;
use images::{Images, Normalization, check_length};

use sha2::{Digest, Sha256};

use crate::digest::hex;
use crate::error::{Error, Result};

/// Labeled images, decoded once and never changed; hold it in an `Arc` and share it between runs.
///
/// Memory: one byte per pixel and channel, four per label.
///
/// ```
/// use datasets::{ImageSet, Shape};
///
/// let set = ImageSet::new("dots", Shape::new(1, 1, 2), 2, None, vec![0, 9, 9, 0], vec![1, 0])?;
/// assert_eq!(set.len(), 2);
/// assert_eq!(set.image(1), [9, 0]);
/// # Ok::<(), datasets::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ImageSet {
    name: String,
    images: Arc<Images>,
    class_names: Option<Vec<String>>,
    notes: Vec<String>,
    /// Made when it is asked for first.
    digest: OnceLock<String>,
}

impl PartialEq for ImageSet {
    fn eq(&self, other: &Self) -> bool {
        let parts = |set: &Self| (set.name.clone(), set.class_names.clone(), set.notes.clone());
        parts(self) == parts(other) && self.images == other.images
    }
}

impl Eq for ImageSet {}

impl ImageSet {
    /// A set of `labels.len()` images.
    ///
    /// # Errors
    /// The number of pixels or class names does not fit, a label is not below `classes`, or an
    /// image has no pixel.
    pub fn new(
        name: impl Into<String>,
        shape: Shape,
        classes: usize,
        class_names: Option<Vec<String>>,
        pixels: Vec<u8>,
        labels: Vec<u32>,
    ) -> Result<Self> {
        let name = name.into();
        let named = class_names.as_ref().map_or(classes, Vec::len);
        let checked = Images::new(shape, classes, pixels, labels)
            .and_then(|images| check_length("class names", named, classes).map(|()| images));
        match checked {
            Ok(images) => Ok(Self {
                name,
                images: Arc::new(images),
                class_names,
                notes: Vec::new(),
                digest: OnceLock::new(),
            }),
            Err(source) => Err(Error::Images { name, source }),
        }
    }

    /// The same set with remarks on how it differs from what was published; a remark is kept once.
    #[must_use]
    pub fn with_notes(mut self, notes: impl IntoIterator<Item = String>) -> Self {
        for note in notes {
            if !self.notes.contains(&note) {
                self.notes.push(note);
            }
        }
        self
    }

    /// How the set differs from what was published, or why that is not known; empty for official
    /// data.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// SHA-256 of shape, number of classes, pixels and labels in hexadecimal digits: equal for sets
    /// of the same images. Found once, at the speed of the hash.
    pub fn digest(&self) -> &str {
        self.digest.get_or_init(|| {
            let Shape {
                channels,
                height,
                width,
            } = self.shape();
            let mut digest = Sha256::new();
            for size in [channels, height, width, self.classes(), self.len()] {
                digest.update((size as u64).to_le_bytes());
            }
            digest.update(self.images.pixels());
            for label in self.labels() {
                digest.update(label.to_le_bytes());
            }
            hex(&digest.finalize())
        })
    }

    /// Name of the dataset.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Pixels and labels, to be shared with whoever computes with them.
    pub fn images(&self) -> &Arc<Images> {
        &self.images
    }

    /// Size of one image.
    pub fn shape(&self) -> Shape {
        self.images.shape()
    }

    /// Number of classes; labels are below it.
    pub fn classes(&self) -> usize {
        self.images.classes()
    }

    /// Names of the classes, where they are known.
    pub fn class_names(&self) -> Option<&[String]> {
        self.class_names.as_deref()
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        self.images.len()
    }

    /// Whether there is no image.
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    /// All pixels, `[images, channels, height, width]`.
    pub fn pixels(&self) -> &[u8] {
        self.images.pixels()
    }

    /// Pixels of one image, `[channels, height, width]`.
    ///
    /// # Panics
    /// If there is no image `index`.
    pub fn image(&self, index: usize) -> &[u8] {
        self.images.image(index)
    }

    /// Class of every image.
    pub fn labels(&self) -> &[u32] {
        self.images.labels()
    }

    /// All pixels as the network wants them: `(x/255 - mean) / std` per channel, four bytes each.
    ///
    /// # Panics
    /// If the normalization has another number of channels.
    pub fn normalized(&self, normalization: &Normalization) -> Vec<f32> {
        self.images.normalized(normalization)
    }

    /// The same for some of the images, in this order.
    ///
    /// # Panics
    /// If there is no such image, or the normalization has another number of channels.
    pub fn normalized_at(&self, indices: &[u32], normalization: &Normalization) -> Vec<f32> {
        self.images.normalized_at(indices, normalization)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_refused() {
        let shape = Shape::new(1, 2, 2);
        let set = |classes, names, pixels: usize, labels: &[u32]| {
            ImageSet::new("toy", shape, classes, names, vec![0; pixels], labels.into())
                .map_err(|error| error.to_string())
        };
        assert!(set(2, None, 8, &[0, 1]).is_ok());
        assert_eq!(
            set(2, None, 7, &[0, 1]).unwrap_err(),
            "toy: pixels has 7 entries, expected 8"
        );
        assert_eq!(
            set(2, None, 8, &[0, 2]).unwrap_err(),
            "toy: label 2 of image 1 is not in 0..2"
        );
        assert_eq!(
            set(2, Some(vec!["a".into()]), 8, &[0, 1]).unwrap_err(),
            "toy: class names has 1 entries, expected 2"
        );
        assert!(ImageSet::new("toy", Shape::new(1, 0, 2), 1, None, vec![], vec![0]).is_err());
    }
}
