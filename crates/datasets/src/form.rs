//! Pictures brought into one form: another size, gray or color.

use crate::error::Result;
use crate::formats::picture::Picture;
use crate::image_set::{ImageSet, Shape};

/// The form in which images are wanted; what is left out stays as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Form {
    /// Height and width: a picture is scaled until it covers them, and its middle is cut out.
    pub size: Option<[usize; 2]>,
    /// 1 for gray, 3 for color.
    pub channels: Option<usize>,
}

impl Form {
    /// Whether images stay as they are.
    pub fn is_own(&self) -> bool {
        *self == Self::default()
    }

    /// The picture in the size of this form; its channels are the business of
    /// [`Picture::planes`].
    pub fn sized(&self, picture: Picture) -> Picture {
        match self.size {
            Some([height, width]) => picture.resized_to(height, width),
            None => picture,
        }
    }

    /// What becomes of images of this shape.
    pub fn shape(&self, from: Shape) -> Shape {
        let [height, width] = self.size.unwrap_or([from.height, from.width]);
        Shape::new(self.channels.unwrap_or(from.channels), height, width)
    }

    /// All images of a set in this form.
    pub(crate) fn apply(&self, set: ImageSet) -> Result<ImageSet> {
        let shape = self.shape(set.shape());
        if shape == set.shape() {
            return Ok(set);
        }
        let mut pixels = Vec::with_capacity(set.len() * shape.len());
        for index in 0..set.len() {
            let picture = Picture::from_planes(set.shape(), set.image(index));
            pixels.extend(self.sized(picture).planes(shape.channels));
        }
        let names = set.class_names().map(<[String]>::to_vec);
        let labels = set.labels().to_vec();
        let formed = ImageSet::new(set.name(), shape, set.classes(), names, pixels, labels)?;
        Ok(formed.with_notes(set.notes().iter().cloned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_gets_another_size_and_other_channels() {
        let pixels = vec![0, 10, 20, 30, 7, 7, 7, 7, 3, 3, 3, 3];
        let set = ImageSet::new("toy", Shape::new(3, 2, 2), 2, None, pixels, vec![1])
            .unwrap()
            .with_notes(["told".to_owned()]);
        let form = |size, channels| Form { size, channels };
        let same = form(Some([2, 2]), Some(3)).apply(set.clone()).unwrap();
        assert_eq!(same, set);
        // 0.299 R + 0.587 G + 0.114 B
        let gray = form(None, Some(1)).apply(set.clone()).unwrap();
        assert_eq!(
            (gray.image(0), gray.notes()),
            (&[4, 7, 10, 13][..], set.notes())
        );
        let small = form(Some([1, 1]), None).apply(set).unwrap();
        assert_eq!(
            (small.image(0), small.labels()),
            (&[15, 7, 3][..], &[1][..])
        );
    }
}
