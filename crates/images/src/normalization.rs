//! Normalization `(x/255 - mean) / std` per channel, computed in `f32` in this order, as
//! torchvision does.

use crate::error::{Result, check, check_length};
use crate::set::Images;

/// What each of the 256 bytes becomes in one channel.
pub type Table = [f32; 256];

/// Mean and standard deviation of every channel, on the scale where a pixel lies in `[0, 1]`.
///
/// ```
/// use images::Normalization;
///
/// let normalization = Normalization::new(vec![0.2860], vec![0.3530])?;
/// assert_eq!(normalization.apply(0, 255), (1.0 - 0.2860) / 0.3530);
/// # Ok::<(), images::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Normalization {
    mean: Vec<f32>,
    std: Vec<f32>,
}

impl Normalization {
    /// Custom constants, one per channel.
    ///
    /// # Errors
    /// The lengths differ or are zero, a mean is not finite, or a deviation is not positive and
    /// finite.
    pub fn new(mean: Vec<f32>, std: Vec<f32>) -> Result<Self> {
        check("channels of a normalization", 0.0, "1..", !mean.is_empty())?;
        check_length("std of a normalization", std.len(), mean.len())?;
        for &value in &mean {
            let finite = value.is_finite();
            check("normalization mean", value.into(), "(-inf, inf)", finite)?;
        }
        for &value in &std {
            let positive = value > 0.0 && value.is_finite();
            check("normalization std", value.into(), "(0, inf)", positive)?;
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

    /// The constants that give a set mean 0 and deviation 1 in every channel; a channel without
    /// variation keeps its scale.
    ///
    /// Cost: one pass over the pixels. For a custom set; measure the training part and use it for
    /// all.
    ///
    /// ```
    /// use images::{Images, Normalization, Shape};
    ///
    /// let images = Images::new(Shape::new(1, 1, 2), 1, vec![0, 255], vec![0])?;
    /// assert_eq!(Normalization::measured(&images), Normalization::new(vec![0.5], vec![0.5])?);
    /// # Ok::<(), images::Error>(())
    /// ```
    pub fn measured(images: &Images) -> Self {
        let (channels, area) = (images.shape().channels, images.shape().plane());
        let mut counts = vec![[0_u64; 256]; channels];
        for (plane, pixels) in images.pixels().chunks_exact(area).enumerate() {
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
    pub fn tables(&self) -> Vec<Table> {
        (0..self.channels())
            .map(|channel| std::array::from_fn(|pixel| self.apply(channel, pixel as u8)))
            .collect()
    }

    /// # Panics
    /// If the images have another number of channels.
    pub(crate) fn check(&self, channels: usize) {
        assert_eq!(
            self.channels(),
            channels,
            "channels of the normalization and of the images"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_measured() {
        let shape = crate::Shape::new(2, 1, 2);
        let pixels = vec![0, 255, 7, 7, 255, 255, 7, 7];
        let images = Images::new(shape, 2, pixels, vec![0, 1]).unwrap();
        let measured = Normalization::measured(&images);
        assert_eq!(measured.mean(), [0.75, 7.0 / 255.0]);
        assert_eq!(measured.std(), [(0.75_f32 * 0.25).sqrt(), 1.0]);
    }

    #[test]
    fn the_order_of_operations_is_torchvisions() {
        // torch: ((torch.tensor(200, dtype=torch.float32) / 255) - .2860) / .3530
        let normalization = Normalization::new(vec![0.2860], vec![0.3530]).unwrap();
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
