//! Batches of normalized, perhaps augmented images, made ahead of time by a thread of their own.
//!
//! Epoch `e` visits the chosen images in an order that is a pure function of (seed, e), and an image's augmentation
//! is one of (seed, e, image). So a run that stops after any step and starts again there sees the same bits.
//! The last batch of an epoch is as small as need be; none is dropped.
//!
//! A batch that is not ready when it is asked for is made on the spot by the caller: waiting for a thread that gets no time, on a machine
//! with more work than cores, would take far longer. Which of the two made a batch cannot be seen.
//!
//! Cost: one pass over the pixels of a batch, while the caller computes. Memory: seven batches of `4 · batch · pixels` bytes, allocated
//! once. The thread is woken when half of what it made ahead is used up, so that it interrupts once in three steps.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use images::{Normalization, Table};

use crate::augment::Augmentation;
use crate::error::{Error, Result};
use crate::image_set::ImageSet;
use crate::random::Purpose;

/// What [`Batches`] is made from.
#[derive(Debug, Clone)]
pub struct BatchesConfig {
    /// The images.
    pub set: Arc<ImageSet>,
    /// Which of them, in the order in which they are visited when not shuffled.
    pub indices: Vec<u32>,
    /// Images per batch, from 1.
    pub batch: usize,
    /// Whether every epoch has an order of its own.
    pub shuffle: bool,
    /// Seed of the order and of the augmentation.
    pub seed: u64,
    /// What a byte becomes.
    pub normalization: Normalization,
    /// What is done to an image in training.
    pub augmentation: Augmentation,
}

impl BatchesConfig {
    /// Checks everything once and starts the loader's thread.
    ///
    /// # Errors
    /// The batch is empty, an index is not in the set, the normalization has another number of channels, the padding
    /// is out of range, or the system has no thread left.
    pub fn build(self) -> Result<Batches> {
        let Self {
            set,
            indices,
            batch,
            ..
        } = &self;
        let batch = NonZeroUsize::new(*batch).ok_or_else(|| Error::OutOfRange {
            field: "batch size",
            value: 0.0,
            range: "1..".into(),
        })?;
        if let Some(&index) = indices.iter().find(|&&index| index as usize >= set.len()) {
            return Err(Error::OutOfRange {
                field: "index of an image",
                value: index.into(),
                range: format!("0..{}", set.len()),
            });
        }
        if self.normalization.channels() != set.shape().channels {
            return Err(Error::Length {
                name: set.name().into(),
                what: "normalization",
                got: self.normalization.channels(),
                want: set.shape().channels,
            });
        }
        self.augmentation.check()?;
        Batches::start_thread(self, batch)
    }
}

/// One batch, valid until the next is asked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Batch<'a> {
    /// Normalized pixels, `[images, channels, height, width]`.
    pub images: &'a [f32],
    /// Class of every image.
    pub labels: &'a [u32],
    /// Position of every image in its set.
    pub indices: &'a [u32],
}

/// A loader: `start` an epoch, then take its batches one by one.
///
/// ```
/// use std::sync::Arc;
/// use datasets::{Augmentation, BatchesConfig, ImageSet, Normalization, Shape};
///
/// let set = ImageSet::new("five", Shape::new(1, 1, 1), 5, None, vec![0, 1, 2, 3, 4], vec![0, 1, 2, 3, 4])?;
/// let mut batches = BatchesConfig {
///     set: Arc::new(set),
///     indices: vec![0, 1, 2, 3, 4],
///     batch: 2,
///     shuffle: true,
///     seed: 7,
///     normalization: Normalization::identity(1),
///     augmentation: Augmentation::none(),
/// }
/// .build()?;
///
/// batches.start(0, 0);
/// let mut sizes = Vec::new();
/// while let Some(batch) = batches.next() {
///     sizes.push(batch.labels.len());
/// }
/// assert_eq!(sizes, [2, 2, 1]);
/// # Ok::<(), datasets::Error>(())
/// ```
#[derive(Debug)]
pub struct Batches {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The caller's own hand, for a batch that is not ready.
    maker: Maker,
    /// The batch that `next` hands out next.
    position: Cursor,
    /// The batch that was handed out last.
    current: Buffer,
}

/// A batch by its place: the epoch, and the step within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cursor {
    epoch: u64,
    step: usize,
}

impl Cursor {
    /// The place after this one, when an epoch has so many steps.
    fn following(self, steps: usize) -> Self {
        Self {
            step: self.step + 1,
            ..self
        }
        .wrapped(steps)
    }

    /// The same place, the end of an epoch taken for the beginning of the next.
    fn wrapped(self, steps: usize) -> Self {
        if self.step < steps {
            self
        } else {
            Self {
                epoch: self.epoch + 1,
                step: 0,
            }
        }
    }
}

#[derive(Debug)]
struct Buffer {
    /// Which batch it holds.
    place: Cursor,
    images: Vec<f32>,
    labels: Vec<u32>,
    indices: Vec<u32>,
}

#[derive(Debug)]
struct Shared {
    exchange: Mutex<Exchange>,
    /// There is work for the thread.
    work: Condvar,
}

/// What the two threads tell each other. Every buffer but the caller's and the one being filled is in one of the lists.
#[derive(Debug)]
struct Exchange {
    /// The batch that the thread makes next.
    cursor: Cursor,
    free: Vec<Buffer>,
    ready: VecDeque<Buffer>,
    /// The loader is no longer wanted.
    stop: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Exchange> {
        // no line that holds the lock can leave the exchange half-changed
        self.exchange.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Batches {
    /// Batches made ahead while one is in use.
    const AHEAD: usize = 6;
    /// Used-up batches that are worth waking the thread for.
    const REFILL: usize = 3;

    fn start_thread(config: BatchesConfig, batch: NonZeroUsize) -> Result<Self> {
        let position = Cursor { epoch: 0, step: 0 };
        let maker = Maker::new(Arc::new(config), batch);
        let buffer = || {
            let images = batch.get().min(maker.order.len());
            Buffer {
                place: position,
                images: Vec::with_capacity(images * maker.config.set.shape().len()),
                labels: Vec::with_capacity(images),
                indices: Vec::with_capacity(images),
            }
        };
        // every buffer fits into either list
        let mut free = Vec::with_capacity(Self::AHEAD + 1);
        free.extend((0..Self::AHEAD).map(|_| buffer()));
        let shared = Arc::new(Shared {
            exchange: Mutex::new(Exchange {
                cursor: position,
                free,
                ready: VecDeque::with_capacity(Self::AHEAD + 1),
                stop: maker.order.is_empty(),
            }),
            work: Condvar::new(),
        });
        let thread = std::thread::Builder::new()
            .name("batches".into())
            .spawn({
                let shared = Arc::clone(&shared);
                let maker = maker.clone();
                move || maker.run(&shared)
            })
            .map_err(Error::io("start a thread for", "batches"))?;
        Ok(Self {
            shared,
            thread: Some(thread),
            position,
            current: buffer(),
            maker,
        })
    }

    /// Batches per epoch.
    pub fn steps(&self) -> usize {
        self.maker.steps()
    }

    /// Images per epoch.
    pub fn images(&self) -> usize {
        self.maker.order.len()
    }

    /// Goes to a step of an epoch; `next` returns that step's batch. Free of charge when it is what comes next anyway, as
    /// the first step of the following epoch does.
    pub fn start(&mut self, epoch: u64, first_step: usize) {
        let steps = self.steps();
        let prepared = self.position.wrapped(steps);
        self.position = Cursor {
            epoch,
            step: first_step.min(steps),
        };
        let wanted = self.position.wrapped(steps);
        if wanted != prepared {
            let exchange = &mut *self.shared.lock();
            exchange.cursor = wanted;
            exchange.free.extend(exchange.ready.drain(..));
            self.shared.work.notify_one();
        }
    }

    /// The next batch, or `None` after the epoch's last.
    #[expect(
        clippy::should_implement_trait,
        reason = "the batch borrows the loader"
    )]
    pub fn next(&mut self) -> Option<Batch<'_>> {
        let steps = self.steps();
        if self.position.step >= steps {
            return None;
        }
        if !self.take_ready() {
            self.maker.fill(self.position, &mut self.current);
        }
        self.position.step += 1;
        Some(Batch {
            images: &self.current.images,
            labels: &self.current.labels,
            indices: &self.current.indices,
        })
    }

    /// Exchanges the current buffer for the wanted batch if it is ready; otherwise the caller is to make it.
    fn take_ready(&mut self) -> bool {
        let mut exchange = self.shared.lock();
        let mut found = false;
        while let Some(buffer) = exchange.ready.pop_front() {
            found = buffer.place == self.position;
            if found {
                let last = std::mem::replace(&mut self.current, buffer);
                exchange.free.push(last);
                break;
            }
            // one that the caller made meanwhile, or of before a jump
            exchange.free.push(buffer);
        }
        if !found && exchange.cursor == self.position {
            // not begun, so the thread need not make it too
            exchange.cursor = self.position.following(self.maker.steps());
        }
        let wake = exchange.free.len() >= Self::REFILL;
        drop(exchange);
        if wake {
            self.shared.work.notify_one();
        }
        found
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take() {
            // a thread that panicked only left its work to the caller
            let _ = thread.join();
        }
    }
}

/// Makes batches; the thread has one and the caller another.
#[derive(Debug, Clone)]
struct Maker {
    config: Arc<BatchesConfig>,
    batch: NonZeroUsize,
    tables: Vec<Table>,
    /// The order of `epoch`, once there is one.
    order: Vec<u32>,
    epoch: Option<u64>,
}

impl Maker {
    fn new(config: Arc<BatchesConfig>, batch: NonZeroUsize) -> Self {
        Self {
            tables: config.normalization.tables(),
            order: config.indices.clone(),
            config,
            batch,
            epoch: None,
        }
    }

    fn steps(&self) -> usize {
        self.order.len().div_ceil(self.batch.get())
    }

    /// The thread: fills what is free, sleeps until enough is free again.
    fn run(mut self, shared: &Shared) {
        let steps = self.steps();
        loop {
            let mut exchange = shared.lock();
            if exchange.free.is_empty() {
                exchange = shared
                    .work
                    .wait_while(exchange, |exchange| {
                        exchange.free.len() < Batches::REFILL && !exchange.stop
                    })
                    .unwrap_or_else(PoisonError::into_inner);
            }
            if exchange.stop {
                return;
            }
            let Some(mut buffer) = exchange.free.pop() else {
                continue;
            };
            let place = exchange.cursor;
            exchange.cursor = place.following(steps);
            drop(exchange);
            self.fill(place, &mut buffer);
            shared.lock().ready.push_back(buffer);
        }
    }

    fn fill(&mut self, place: Cursor, buffer: &mut Buffer) {
        let Cursor { epoch, step } = place;
        let config = &self.config;
        buffer.place = place;
        if config.shuffle && self.epoch != Some(epoch) {
            self.order.copy_from_slice(&config.indices);
            Purpose::Order
                .stream(config.seed, epoch)
                .shuffle(&mut self.order);
            self.epoch = Some(epoch);
        }
        let set = &config.set;
        let size = set.shape().len();
        let begin = step * self.batch.get();
        let end = (begin + self.batch.get()).min(self.order.len());
        let indices = &self.order[begin..end];
        buffer.indices.clear();
        buffer.indices.extend_from_slice(indices);
        buffer.labels.clear();
        buffer
            .labels
            .extend(indices.iter().map(|&i| set.labels()[i as usize]));
        buffer.images.resize(indices.len() * size, 0.0);
        for (&index, out) in indices.iter().zip(buffer.images.chunks_exact_mut(size)) {
            config.augmentation.draw(config.seed, epoch, index).write(
                set.images(),
                &self.tables,
                out,
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image_set::Shape;
    use proptest::prelude::*;

    fn config(images: usize, batch: usize) -> BatchesConfig {
        let shape = Shape::new(2, 3, 4);
        let pixels = (0..images * shape.len())
            .map(|i| (i * 7 + i / 24) as u8)
            .collect();
        let labels = (0..images as u32).map(|i| i % 5).collect();
        BatchesConfig {
            set: Arc::new(ImageSet::new("toy", shape, 5, None, pixels, labels).unwrap()),
            indices: (0..images as u32).collect(),
            batch,
            shuffle: true,
            seed: 11,
            normalization: Normalization::new(vec![0.4, 0.6], vec![0.2, 0.3]).unwrap(),
            augmentation: Augmentation { flip: true, pad: 1 },
        }
    }

    type Seen = Vec<(Vec<f32>, Vec<u32>, Vec<u32>)>;

    fn epoch(batches: &mut Batches, epoch: u64, first_step: usize) -> Seen {
        batches.start(epoch, first_step);
        let mut seen = Vec::new();
        while let Some(batch) = batches.next() {
            seen.push((
                batch.images.into(),
                batch.labels.into(),
                batch.indices.into(),
            ));
        }
        assert!(batches.next().is_none());
        seen
    }

    #[test]
    fn an_epoch_visits_every_image_once_and_keeps_the_small_last_batch() {
        let config = config(23, 5);
        let mut batches = config.clone().build().unwrap();
        assert_eq!((batches.steps(), batches.images()), (5, 23));
        let first = epoch(&mut batches, 0, 0);
        let second = epoch(&mut batches, 1, 0);
        for seen in [&first, &second] {
            let sizes: Vec<usize> = seen.iter().map(|batch| batch.1.len()).collect();
            assert_eq!(sizes, [5, 5, 5, 5, 3]);
            let mut indices: Vec<u32> = seen.iter().flat_map(|batch| batch.2.clone()).collect();
            assert_ne!(indices, config.indices);
            indices.sort_unstable();
            assert_eq!(indices, config.indices);
            for (images, labels, indices) in seen {
                assert_eq!(images.len(), 24 * labels.len());
                assert!(
                    labels
                        .iter()
                        .zip(indices)
                        .all(|(&label, &i)| label == i % 5)
                );
            }
        }
        assert_ne!(first, second);
    }

    #[test]
    fn without_shuffle_and_augmentation_the_batches_are_the_normalized_set() {
        let mut config = config(7, 3);
        config.shuffle = false;
        config.augmentation = Augmentation::none();
        let expected = config.set.normalized(&config.normalization);
        let mut batches = config.build().unwrap();
        let seen = epoch(&mut batches, 4, 0);
        let images: Vec<f32> = seen.into_iter().flat_map(|batch| batch.0).collect();
        assert_eq!(images, expected);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]
        #[test]
        fn any_step_can_be_returned_to(
            images in 1_usize..40,
            batch in 1_usize..9,
            jumps in prop::collection::vec((0_u64..4, 0_usize..12, 0_usize..12), 1..8),
        ) {
            let config = config(images, batch);
            let whole: Vec<Seen> =
                (0..4).map(|e| epoch(&mut config.clone().build().unwrap(), e, 0)).collect();
            let mut batches = config.build().unwrap();
            for (e, step, take) in jumps {
                batches.start(e, step);
                for step in step..step + take {
                    let seen = batches
                        .next()
                        .map(|b| (b.images.to_vec(), b.labels.to_vec(), b.indices.to_vec()));
                    prop_assert_eq!(&seen, &whole[e as usize].get(step).cloned());
                }
            }
        }
    }

    #[test]
    fn the_caller_makes_the_same_batches_as_the_thread() {
        let config = config(23, 5);
        let mut alone = config.clone().build().unwrap();
        alone.shared.lock().stop = true;
        alone.shared.work.notify_one();
        alone.thread.take().unwrap().join().unwrap();
        let mut helped = config.build().unwrap();
        for e in [0, 1, 5] {
            helped.start(e, 0);
            // let the thread get ahead
            while helped.shared.lock().ready.is_empty() {
                std::thread::yield_now();
            }
            assert_eq!(epoch(&mut alone, e, 0), epoch(&mut helped, e, 0));
        }
    }

    #[test]
    fn a_step_allocates_nothing_on_the_callers_thread() {
        let mut config = config(64, 8);
        config.indices.truncate(60);
        let mut batches = config.build().unwrap();
        let mut checksum = 0.0;
        let mut run = |batches: &mut Batches, e| {
            batches.start(e, 0);
            while let Some(batch) = batches.next() {
                checksum += batch.images[0];
            }
        };
        run(&mut batches, 0);
        let info = allocation_counter::measure(|| {
            for e in 1..5 {
                run(&mut batches, e);
            }
        });
        assert_eq!(info.count_total, 0);
        assert!(checksum.is_finite());
    }

    #[test]
    fn an_empty_selection_has_no_batches() {
        let mut config = config(3, 2);
        config.indices.clear();
        let mut batches = config.build().unwrap();
        assert_eq!(epoch(&mut batches, 0, 0), []);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let message = |change: fn(&mut BatchesConfig)| {
            let mut config = config(3, 2);
            change(&mut config);
            config.build().unwrap_err().to_string()
        };
        assert_eq!(message(|c| c.batch = 0), "batch size 0 is not in 1..");
        assert_eq!(
            message(|c| c.indices.push(3)),
            "index of an image 3 is not in 0..3"
        );
        assert_eq!(
            message(|c| c.normalization = Normalization::identity(1)),
            "toy: normalization has 1 entries, expected 2"
        );
        assert_eq!(
            message(|c| c.augmentation.pad = 128),
            "padding 128 is not in 0..=127"
        );
    }
}
