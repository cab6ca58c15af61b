//! The visits of a training: which image is seen when, how far it is shifted, whether it is
//! mirrored.
//!
//! Epoch `e` visits the chosen images in an order that is a pure function of (seed, e), and an
//! image's augmentation is one of (seed, e, image). So a run that stops after any step and starts
//! again there sees the same bits. The last batch of an epoch is as small as need be; none is
//! dropped.

use std::num::NonZeroUsize;
use std::ops::Range;

use images::Visit;

use crate::augment::Augmentation;
use crate::error::Result;
use crate::random::Purpose;

/// What an [`Order`] is made from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderConfig {
    /// The images, in the order in which they are visited when not shuffled.
    pub indices: Vec<u32>,
    /// Images per step, from 1.
    pub batch: usize,
    /// Whether every epoch has another order.
    pub shuffle: bool,
    /// Seed of the order and of the augmentation.
    pub seed: u64,
    /// What is done to an image in training.
    pub augmentation: Augmentation,
}

impl OrderConfig {
    /// Checks everything once, for a set of `images`.
    ///
    /// # Errors
    /// The batch is empty, an index is not in the set, or the padding is out of range.
    pub fn build(self, images: usize) -> Result<Order> {
        let batch = NonZeroUsize::new(self.batch)
            .ok_or_else(|| images::Error::out_of_range("batch size", 0.0, "1.."))?;
        if let Some(&index) = self.indices.iter().find(|&&index| index as usize >= images) {
            let range = format!("0..{images}");
            return Err(
                images::Error::out_of_range("index of an image", index.into(), range).into(),
            );
        }
        self.augmentation.check()?;
        Ok(Order {
            config: self,
            batch,
        })
    }
}

/// The order in which a training visits its images.
///
/// ```
/// use datasets::{Augmentation, OrderConfig};
///
/// let order = OrderConfig {
///     indices: vec![0, 1, 2, 3, 4],
///     batch: 2,
///     shuffle: true,
///     seed: 7,
///     augmentation: Augmentation::none(),
/// }
/// .build(5)?;
/// let mut visits = Vec::new();
/// order.visits(0, &mut visits);
/// let sizes: Vec<usize> = (0..order.steps()).map(|step| order.step(step).len()).collect();
/// assert_eq!((visits.len(), sizes), (5, vec![2, 2, 1]));
/// # Ok::<(), datasets::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Order {
    config: OrderConfig,
    batch: NonZeroUsize,
}

impl Order {
    /// Steps per epoch.
    pub fn steps(&self) -> usize {
        self.images().div_ceil(self.batch.get())
    }

    /// Images per epoch.
    pub fn images(&self) -> usize {
        self.config.indices.len()
    }

    /// Which of an epoch's visits make up a step; none after the last.
    pub fn step(&self, step: usize) -> Range<usize> {
        let end = |step: usize| step.saturating_mul(self.batch.get()).min(self.images());
        end(step)..end(step + 1)
    }

    /// Replaces `out` by the visits of an epoch, in order.
    ///
    /// Cost: a random number or two per image, a millisecond for a hundred thousand.
    pub fn visits(&self, epoch: u64, out: &mut Vec<Visit>) {
        let OrderConfig {
            indices,
            shuffle,
            seed,
            augmentation,
            ..
        } = &self.config;
        let mut order = indices.clone();
        if *shuffle {
            Purpose::Order.stream(*seed, epoch).shuffle(&mut order);
        }
        out.clear();
        out.extend(
            order
                .iter()
                .map(|&image| augmentation.draw(*seed, epoch, image)),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn config(images: u32, batch: usize) -> OrderConfig {
        OrderConfig {
            indices: (0..images).collect(),
            batch,
            shuffle: true,
            seed: 11,
            augmentation: Augmentation { flip: true, pad: 1 },
        }
    }

    fn visits(order: &Order, epoch: u64) -> Vec<Visit> {
        let mut visits = Vec::new();
        order.visits(epoch, &mut visits);
        visits
    }

    #[test]
    fn an_epoch_visits_every_image_once_and_keeps_the_small_last_step() {
        let order = config(23, 5).build(23).unwrap();
        assert_eq!((order.steps(), order.images()), (5, 23));
        let steps: Vec<Range<usize>> = (0..7).map(|step| order.step(step)).collect();
        assert_eq!(steps, [0..5, 5..10, 10..15, 15..20, 20..23, 23..23, 23..23]);
        let [first, second] = [0, 1].map(|epoch| visits(&order, epoch));
        assert_ne!(first, second);
        for seen in [&first, &second] {
            let images: Vec<u32> = seen.iter().map(|visit| visit.image).collect();
            assert!(!images.is_sorted());
            assert_eq!(BTreeSet::from_iter(images), (0..23).collect());
        }
        assert_eq!(visits(&order, 1), second);
    }

    #[test]
    fn without_shuffle_and_augmentation_the_images_are_as_they_are() {
        let order = OrderConfig {
            shuffle: false,
            augmentation: Augmentation::none(),
            indices: vec![4, 0, 2],
            ..config(0, 2)
        };
        let plain = [4, 0, 2].map(|image| Visit::new(image, 0, 0, false));
        assert_eq!(visits(&order.build(5).unwrap(), 9), plain);
    }

    /// Part of the format of checkpoints: a resumed run must see the same.
    #[test]
    fn the_visits_are_what_they_always_were() {
        let order = OrderConfig {
            augmentation: Augmentation::cifar(),
            ..config(6, 2)
        };
        let pinned = [
            (2, 1, 3, true),
            (5, 2, -4, false),
            (0, 2, 3, true),
            (4, -1, 0, true),
            (1, 1, 1, true),
            (3, 2, -1, true),
        ];
        let pinned = pinned.map(|(image, down, right, flip)| Visit::new(image, down, right, flip));
        assert_eq!(visits(&order.build(6).unwrap(), 3), pinned);
    }

    #[test]
    fn an_empty_selection_has_no_steps() {
        let order = config(0, 2).build(3).unwrap();
        assert_eq!((order.steps(), visits(&order, 0)), (0, vec![]));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let message = |change: fn(&mut OrderConfig)| {
            let mut config = config(3, 2);
            change(&mut config);
            config.build(3).unwrap_err().to_string()
        };
        assert_eq!(message(|c| c.batch = 0), "batch size 0 is not in 1..");
        assert_eq!(
            message(|c| c.indices.push(3)),
            "index of an image 3 is not in 0..3"
        );
        assert_eq!(
            message(|c| c.augmentation.pad = 128),
            "padding 128 is not in 0..=127"
        );
    }
}
