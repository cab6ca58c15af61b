//! A decoded set of labeled images: pixels `[images, channels, height, width]` of one byte each.

use crate::error::{Error, Result};
use crate::normalization::Normalization;

/// Size of one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shape {
    /// 1 for gray, 3 for red, green, blue.
    pub channels: usize,
    /// Rows.
    pub height: usize,
    /// Columns.
    pub width: usize,
}

impl Shape {
    /// A shape from its three sizes.
    pub const fn new(channels: usize, height: usize, width: usize) -> Self {
        Self {
            channels,
            height,
            width,
        }
    }

    /// Pixels of one channel.
    pub const fn area(self) -> usize {
        self.height * self.width
    }

    /// Bytes of one image.
    pub const fn size(self) -> usize {
        self.channels * self.area()
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}x{}", self.channels, self.height, self.width)
    }
}

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSet {
    name: String,
    shape: Shape,
    classes: usize,
    class_names: Option<Vec<String>>,
    pixels: Vec<u8>,
    labels: Vec<u32>,
    notes: Vec<String>,
}

impl ImageSet {
    /// A set of `labels.len()` images.
    ///
    /// # Errors
    /// The number of pixels or class names does not fit, a label is not below `classes`, or an image has no pixel.
    pub fn new(
        name: impl Into<String>,
        shape: Shape,
        classes: usize,
        class_names: Option<Vec<String>>,
        pixels: Vec<u8>,
        labels: Vec<u32>,
    ) -> Result<Self> {
        let name = name.into();
        if shape.size() == 0 {
            return Err(Error::OutOfRange {
                field: "pixels of an image",
                value: 0.0,
                range: "1..".into(),
            });
        }
        if labels.len() > u32::MAX as usize {
            return Err(Error::OutOfRange {
                field: "images of a set",
                value: labels.len() as f64,
                range: format!("0..={}", u32::MAX),
            });
        }
        let length = |what, got, want| {
            if got == want {
                Ok(())
            } else {
                let name = name.clone();
                Err(Error::Length {
                    name,
                    what,
                    got,
                    want,
                })
            }
        };
        length("pixels", pixels.len(), labels.len() * shape.size())?;
        if let Some(names) = &class_names {
            length("class names", names.len(), classes)?;
        }
        let wrong = labels.iter().position(|&label| label as usize >= classes);
        if let Some(index) = wrong {
            return Err(Error::Label {
                name,
                index,
                label: labels[index].into(),
                allowed: format!("0..{classes}"),
            });
        }
        Ok(Self {
            name,
            shape,
            classes,
            class_names,
            pixels,
            labels,
            notes: Vec::new(),
        })
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

    /// How the set differs from what was published, or why that is not known; empty for official data.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Name of the dataset.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Size of one image.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Number of classes; labels are below it.
    pub fn classes(&self) -> usize {
        self.classes
    }

    /// Names of the classes, where they are known.
    pub fn class_names(&self) -> Option<&[String]> {
        self.class_names.as_deref()
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
        let size = self.shape.size();
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
        let tables = normalization.tables(self.shape.channels);
        let area = self.shape.area();
        let mut out = Vec::with_capacity(self.pixels.len());
        for (plane, pixels) in self.pixels.chunks_exact(area).enumerate() {
            let table = &tables[plane % self.shape.channels];
            out.extend(pixels.iter().map(|&pixel| table[pixel as usize]));
        }
        out
    }

    /// The same for some of the images, in this order.
    ///
    /// # Panics
    /// If there is no such image, or the normalization has another number of channels.
    pub fn normalized_at(&self, indices: &[u32], normalization: &Normalization) -> Vec<f32> {
        let tables = normalization.tables(self.shape.channels);
        let mut out = Vec::with_capacity(indices.len() * self.shape.size());
        for &index in indices {
            let planes = self.image(index as usize).chunks_exact(self.shape.area());
            for (plane, table) in planes.zip(&tables) {
                out.extend(plane.iter().map(|&pixel| table[pixel as usize]));
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_images_are_normalized_as_all_are() {
        let shape = Shape::new(2, 1, 2);
        let set = ImageSet::new("toy", shape, 2, None, (0..12).collect(), vec![0, 1, 0]).unwrap();
        let normalization = Normalization::new(vec![0.1, 0.2], vec![0.3, 0.4]).unwrap();
        let all = set.normalized(&normalization);
        let some = set.normalized_at(&[2, 0], &normalization);
        assert_eq!(some, [&all[8..], &all[..4]].concat());
    }

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

    #[test]
    fn each_channel_has_its_own_constants() {
        let shape = Shape::new(2, 1, 2);
        let pixels = vec![0, 255, 51, 102, 255, 0, 102, 51];
        let set = ImageSet::new("toy", shape, 1, None, pixels, vec![0, 0]).unwrap();
        let normalization = Normalization::new(vec![0.5, 0.0], vec![0.5, 0.2]).unwrap();
        let expected = [-1.0, 1.0, 1.0, 2.0, 1.0, -1.0, 2.0, 1.0];
        assert_eq!(set.normalized(&normalization), expected);
    }
}
