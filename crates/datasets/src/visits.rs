//! The visits of a training: which image is seen when, how far it is shifted, whether it is
//! mirrored.
//!
//! Epoch `e` visits the chosen images in an order that is a pure function of (seed, e), and an
//! image's augmentation is one of (seed, e, image). So a run that stops after any step and starts
//! again there sees the same bits. The last batch of an epoch is as small as need be; none is
//! dropped.

use std::collections::BTreeMap;
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
    /// Classes of the images, if every class is to be visited equally often: an epoch then has as
    /// many visits as before, to some images of a large class and several times to those of a
    /// small one.
    pub balance: Option<Vec<u32>>,
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
        if let Some(labels) = &self.balance {
            images::check_length("labels", labels.len(), self.indices.len())?;
        }
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
///     balance: None,
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
            balance,
            ..
        } = &self.config;
        let mut order = match balance {
            Some(labels) => balanced(indices, labels, *seed, epoch),
            None => indices.clone(),
        };
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

/// As many images as there are, equally many of each class: all of a class in a drawn order before
/// one is repeated. What cannot be shared equally goes to another class in every epoch.
fn balanced(indices: &[u32], labels: &[u32], seed: u64, epoch: u64) -> Vec<u32> {
    let mut classes: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (&index, &label) in indices.iter().zip(labels) {
        classes.entry(label).or_default().push(index);
    }
    let (count, most) = (indices.len(), classes.len());
    let mut stream = Purpose::Balance.stream(seed, epoch);
    let mut order = Vec::with_capacity(count);
    for (number, mut images) in classes.into_values().enumerate() {
        stream.shuffle(&mut images);
        let turn = (number + (epoch % most as u64) as usize) % most;
        let share = count / most + usize::from(turn < count % most);
        order.extend(images.iter().cycle().take(share));
    }
    order
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
            balance: None,
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
    fn balanced_epochs_visit_every_class_equally_often() {
        // classes of 7, 2 and 1 images, and 10 visits: 3 each, and one more in turn
        let labels = vec![0, 0, 0, 0, 0, 0, 0, 1, 1, 2];
        let order = OrderConfig {
            balance: Some(labels.clone()),
            ..config(10, 4)
        };
        let order = order.build(10).unwrap();
        let mut seen = BTreeSet::new();
        for epoch in 0..6 {
            let images: Vec<u32> = visits(&order, epoch).iter().map(|v| v.image).collect();
            let mut counts = [0; 3];
            images
                .iter()
                .for_each(|&i| counts[labels[i as usize] as usize] += 1);
            let mut expected = [3; 3];
            expected[[0, 2, 1][epoch as usize % 3]] = 4;
            assert_eq!(counts, expected, "epoch {epoch}");
            // none of the large class twice in an epoch
            let large: Vec<u32> = images.into_iter().filter(|&i| i < 7).collect();
            assert_eq!(BTreeSet::from_iter(large.iter()).len(), large.len());
            seen.extend(large);
        }
        assert_eq!(seen.len(), 7);
        assert_eq!(visits(&order, 1), visits(&order, 1));
        let short = OrderConfig {
            balance: Some(vec![0]),
            ..config(10, 4)
        };
        assert!(short.build(10).is_err());
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
