//! Batches of normalized, perhaps augmented images, made ahead of time by a thread of their own.
//!
//! Epoch `e` visits the chosen images in an order that is a pure function of (seed, e), and an image's augmentation
//! is one of (seed, e, image). So a run that stops after any step and starts again there sees the same bits.
//! The last batch of an epoch is as small as need be; none is dropped.
//!
//! Cost: one pass over the pixels of a batch, on the thread of the loader, while the caller computes. Memory: seven batches of
//! `4 · batch · pixels` bytes, allocated once. The thread is woken when half of the batches made ahead are used up, so that the caller is
//! interrupted once in three steps, and a thread that gets no time for a while does no harm.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::augment::Augmentation;
use crate::error::{Error, Result};
use crate::image_set::ImageSet;
use crate::normalization::Normalization;
use crate::random::{Purpose, Stream};

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
    steps: usize,
    images: usize,
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

#[derive(Debug)]
struct Buffer {
    images: Vec<f32>,
    labels: Vec<u32>,
    indices: Vec<u32>,
}

#[derive(Debug)]
struct Shared {
    exchange: Mutex<Exchange>,
    /// There is work for the thread.
    work: Condvar,
    /// There is a batch for the caller.
    batch: Condvar,
}

/// What the two threads tell each other.
#[derive(Debug)]
struct Exchange {
    /// The batch to be made next.
    cursor: Cursor,
    /// Counts the calls of `start` that changed the order of things; a batch begun before is thrown away.
    generation: u64,
    free: Vec<Buffer>,
    ready: VecDeque<Buffer>,
    /// The loader is no longer wanted.
    stop: bool,
    /// The thread has ended.
    ended: bool,
}

impl Exchange {
    /// Whether enough buffers are free, or the caller may be out of batches.
    fn is_worth_waking(&self) -> bool {
        self.free.len() >= Batches::REFILL || (self.ready.is_empty() && !self.free.is_empty())
    }
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
        let images = config.indices.len();
        let steps = images.div_ceil(batch.get());
        let position = Cursor { epoch: 0, step: 0 };
        let buffer = || {
            let images_held = batch.get().min(images);
            Buffer {
                images: Vec::with_capacity(images_held * config.set.shape().size()),
                labels: Vec::with_capacity(images_held),
                indices: Vec::with_capacity(images_held),
            }
        };
        let mut free = Vec::with_capacity(Self::AHEAD + 1);
        free.extend((0..Self::AHEAD).map(|_| buffer()));
        let current = buffer();
        let shared = Arc::new(Shared {
            exchange: Mutex::new(Exchange {
                cursor: position,
                generation: 0,
                free,
                ready: VecDeque::with_capacity(Self::AHEAD + 1),
                stop: images == 0,
                ended: false,
            }),
            work: Condvar::new(),
            batch: Condvar::new(),
        });
        let maker = Maker::new(config, batch);
        let thread = std::thread::Builder::new()
            .name("batches".into())
            .spawn({
                let shared = Arc::clone(&shared);
                move || maker.run(&shared)
            })
            .map_err(Error::io("start a thread for", "batches"))?;
        Ok(Self {
            shared,
            thread: Some(thread),
            steps,
            images,
            position,
            current,
        })
    }

    /// Batches per epoch.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Images per epoch.
    pub fn images(&self) -> usize {
        self.images
    }

    /// Goes to a step of an epoch; `next` returns that step's batch. Free of charge when it is what comes next anyway, as
    /// the first step of the following epoch does.
    pub fn start(&mut self, epoch: u64, first_step: usize) {
        let prepared = self.front();
        self.position = Cursor {
            epoch,
            step: first_step.min(self.steps),
        };
        if self.front() != prepared {
            self.redirect(self.front());
        }
    }

    /// The batch that the thread has made or is making for the next successful `next`.
    fn front(&self) -> Cursor {
        if self.position.step < self.steps {
            self.position
        } else {
            Cursor {
                epoch: self.position.epoch + 1,
                step: 0,
            }
        }
    }

    fn redirect(&self, cursor: Cursor) {
        let mut exchange = self.shared.lock();
        let exchange = &mut *exchange;
        exchange.generation += 1;
        exchange.cursor = cursor;
        exchange.free.extend(exchange.ready.drain(..));
        self.shared.work.notify_one();
    }

    /// The next batch, or `None` after the epoch's last.
    ///
    /// # Panics
    /// If the loader's thread has panicked, which would be a bug.
    #[expect(
        clippy::should_implement_trait,
        reason = "the batch borrows the loader"
    )]
    pub fn next(&mut self) -> Option<Batch<'_>> {
        if self.position.step >= self.steps {
            return None;
        }
        let mut exchange = self
            .shared
            .batch
            .wait_while(self.shared.lock(), |exchange| {
                exchange.ready.is_empty() && !exchange.ended
            })
            .unwrap_or_else(PoisonError::into_inner);
        let next = exchange
            .ready
            .pop_front()
            .expect("the loader's thread runs as long as the loader");
        let last = std::mem::replace(&mut self.current, next);
        exchange.free.push(last);
        let wake = exchange.is_worth_waking();
        drop(exchange);
        if wake {
            self.shared.work.notify_one();
        }
        self.position.step += 1;
        Some(Batch {
            images: &self.current.images,
            labels: &self.current.labels,
            indices: &self.current.indices,
        })
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.work.notify_one();
        if let Some(thread) = self.thread.take() {
            // a panic of the thread was reported by `next`, or nobody asked
            let _ = thread.join();
        }
    }
}

/// The thread's side.
struct Maker {
    config: BatchesConfig,
    batch: NonZeroUsize,
    tables: Vec<[f32; 256]>,
    /// The order of `epoch`, once there is one.
    order: Vec<u32>,
    epoch: Option<u64>,
}

/// Tells the other side when the thread ends, however it ends.
struct Farewell<'a>(&'a Shared);

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        self.0.lock().ended = true;
        self.0.batch.notify_one();
    }
}

impl Maker {
    fn new(config: BatchesConfig, batch: NonZeroUsize) -> Self {
        Self {
            tables: config.normalization.tables(config.set.shape().channels),
            order: config.indices.clone(),
            config,
            batch,
            epoch: None,
        }
    }

    fn run(mut self, shared: &Shared) {
        let _farewell = Farewell(shared);
        let steps = self.order.len().div_ceil(self.batch.get());
        loop {
            let mut exchange = shared.lock();
            if exchange.free.is_empty() {
                exchange = shared
                    .work
                    .wait_while(exchange, |exchange| {
                        !exchange.is_worth_waking() && !exchange.stop
                    })
                    .unwrap_or_else(PoisonError::into_inner);
            }
            if exchange.stop {
                return;
            }
            let Some(mut buffer) = exchange.free.pop() else {
                continue;
            };
            let (cursor, generation) = (exchange.cursor, exchange.generation);
            exchange.cursor = if cursor.step + 1 < steps {
                Cursor {
                    step: cursor.step + 1,
                    ..cursor
                }
            } else {
                Cursor {
                    epoch: cursor.epoch + 1,
                    step: 0,
                }
            };
            drop(exchange);
            self.fill(cursor, &mut buffer);
            let mut exchange = shared.lock();
            if exchange.generation == generation {
                exchange.ready.push_back(buffer);
            } else {
                exchange.free.push(buffer);
            }
            drop(exchange);
            shared.batch.notify_one();
        }
    }

    fn fill(&mut self, cursor: Cursor, buffer: &mut Buffer) {
        let Cursor { epoch, step } = cursor;
        let config = &self.config;
        if config.shuffle && self.epoch != Some(epoch) {
            self.order.copy_from_slice(&config.indices);
            Stream::new(config.seed, Purpose::Order, epoch).shuffle(&mut self.order);
            self.epoch = Some(epoch);
        }
        let set = &config.set;
        let (shape, size) = (set.shape(), set.shape().size());
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
                shape,
                set.image(index as usize),
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
        let pixels = (0..images * shape.size())
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
            message(|c| c.augmentation.pad = 257),
            "padding 257 is not in 0..=256"
        );
    }
}
