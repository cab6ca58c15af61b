//! Normalization `(x/255 - mean) / std` per channel, computed in `f32` in this order, as torchvision does.

use crate::error::{Error, Result};
use crate::image_set::ImageSet;
use crate::manifest;

/// Mean and standard deviation of every channel, on the scale where a pixel lies in `[0, 1]`.
///
/// ```
/// use datasets::Normalization;
///
/// let of_paper = Normalization::of("fashion-mnist").expect("in the manifest");
/// assert_eq!(of_paper.mean(), [0.2860]);
/// assert_eq!(of_paper.std(), [0.3530]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Normalization {
    mean: Vec<f32>,
    std: Vec<f32>,
}

impl Normalization {
    /// Constants of one's own, one per channel.
    ///
    /// # Errors
    /// The lengths differ or are zero, a mean is not finite, or a deviation is not positive and finite.
    pub fn new(mean: Vec<f32>, std: Vec<f32>) -> Result<Self> {
        if mean.is_empty() || mean.len() != std.len() {
            return Err(Error::Length {
                name: "normalization".into(),
                what: "std",
                got: std.len(),
                want: mean.len().max(1),
            });
        }
        let wrong = |field, value: f32, range: &str| Error::OutOfRange {
            field,
            value: value.into(),
            range: range.into(),
        };
        if let Some(&value) = mean.iter().find(|value| !value.is_finite()) {
            return Err(wrong("normalization mean", value, "(-inf, inf)"));
        }
        if let Some(&value) = std
            .iter()
            .find(|value| !(**value > 0.0 && value.is_finite()))
        {
            return Err(wrong("normalization std", value, "(0, inf)"));
        }
        Ok(Self { mean, std })
    }

    /// Pixels in `[0, 1]` as they are: mean 0, deviation 1.
    ///
    /// # Panics
    /// If there is no channel.
    pub fn identity(channels: usize) -> Self {
        assert!(channels > 0, "an image has at least one channel");
        Self {
            mean: vec![0.0; channels],
            std: vec![1.0; channels],
        }
    }

    /// The constants that go with a dataset of the manifest: the paper's where it has some, measured ones otherwise.
    pub fn of(name: &str) -> Option<Self> {
        let entry = manifest::find(name)?;
        Some(Self {
            mean: entry.mean.clone(),
            std: entry.std.clone(),
        })
    }

    /// The constants that give a set mean 0 and deviation 1 in every channel; a channel without variation keeps its scale.
    ///
    /// Cost: one pass over the pixels. For a set of one's own; measure the training part and use it for all.
    ///
    /// ```
    /// use datasets::{ImageSet, Normalization, Shape};
    ///
    /// let set = ImageSet::new("dots", Shape::new(1, 1, 2), 1, None, vec![0, 255], vec![0])?;
    /// assert_eq!(Normalization::measured(&set), Normalization::new(vec![0.5], vec![0.5])?);
    /// # Ok::<(), datasets::Error>(())
    /// ```
    pub fn measured(set: &ImageSet) -> Self {
        let (channels, area) = (set.shape().channels, set.shape().area());
        let mut counts = vec![[0_u64; 256]; channels];
        for (plane, pixels) in set.pixels().chunks_exact(area).enumerate() {
            let counts = &mut counts[plane % channels];
            pixels.iter().for_each(|&pixel| counts[pixel as usize] += 1);
        }
        let moments = counts.iter().map(|counts| {
            let total = counts.iter().sum::<u64>().max(1) as f64;
            let mean_of = |value: &dyn Fn(f64) -> f64| {
                let values = counts.iter().enumerate();
                values
                    .map(|(pixel, &n)| n as f64 * value(pixel as f64 / 255.0))
                    .sum::<f64>()
                    / total
            };
            let mean = mean_of(&|x| x);
            let deviation = mean_of(&|x| (x - mean) * (x - mean)).sqrt();
            (
                mean as f32,
                if deviation > 0.0 {
                    deviation as f32
                } else {
                    1.0
                },
            )
        });
        let (mean, std) = moments.unzip();
        Self { mean, std }
    }

    /// Mean of every channel.
    pub fn mean(&self) -> &[f32] {
        &self.mean
    }

    /// Standard deviation of every channel.
    pub fn std(&self) -> &[f32] {
        &self.std
    }

    /// Number of channels.
    pub fn channels(&self) -> usize {
        self.mean.len()
    }

    /// The normalized value of one byte of channel `channel`.
    ///
    /// # Panics
    /// If there is no such channel.
    pub fn apply(&self, channel: usize, pixel: u8) -> f32 {
        (f32::from(pixel) / 255.0 - self.mean[channel]) / self.std[channel]
    }

    /// For every channel, what each of the 256 bytes becomes.
    pub(crate) fn tables(&self, channels: usize) -> Vec<[f32; 256]> {
        assert_eq!(
            self.channels(),
            channels,
            "channels of the normalization and of the images"
        );
        (0..channels)
            .map(|channel| std::array::from_fn(|pixel| self.apply(channel, pixel as u8)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_measured() {
        let shape = crate::Shape::new(2, 1, 2);
        let pixels = vec![0, 255, 7, 7, 255, 255, 7, 7];
        let set = ImageSet::new("toy", shape, 2, None, pixels, vec![0, 1]).unwrap();
        let measured = Normalization::measured(&set);
        assert_eq!(measured.mean(), [0.75, 7.0 / 255.0]);
        assert_eq!(measured.std(), [(0.75_f32 * 0.25).sqrt(), 1.0]);
    }

    #[test]
    fn the_order_of_operations_is_torchvisions() {
        // torch: ((torch.tensor(200, dtype=torch.float32) / 255) - .2860) / .3530
        let normalization = Normalization::of("fashion-mnist").unwrap();
        let unit = 200.0_f32 / 255.0_f32;
        assert_eq!(
            normalization.apply(0, 200),
            (unit - 0.2860_f32) / 0.3530_f32
        );
    }

    #[test]
    fn senseless_constants_are_refused() {
        for (mean, std) in [
            (vec![], vec![]),
            (vec![0.5], vec![0.5, 0.5]),
            (vec![f32::NAN], vec![1.0]),
            (vec![0.5], vec![0.0]),
            (vec![0.5], vec![-1.0]),
            (vec![0.5], vec![f32::INFINITY]),
        ] {
            assert!(Normalization::new(mean, std).is_err());
        }
    }
}
