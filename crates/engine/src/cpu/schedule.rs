//! Who does what when: blocks of sixteen images are shared between threads.
//!
//! Blocks are bundled into at most sixteen groups, each with gradients of its own, and groups into
//! clusters of four. A thread begins with a cluster that is the same in every step, so that the
//! memory stays with it, and then helps with the others. Whoever ends a cluster sums its gradients,
//! and the clusters are summed at the end, always in the same order: neither the number of threads
//! nor their speed changes a bit of the result.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use cbopt::Executor;
use machine::{Isa, Workers};

use super::block::Block;
use super::lower::{Choices, Program};
use super::memory::Memory;
use super::vector::LANES;
use super::{simple, winograd};
use crate::backend::{Backend, BatchResult, Job, Sample, Source, Wanted};
use crate::dropout::DropoutMode;
use crate::error::Result;

/// Most groups of blocks, each with gradients of its own.
const GROUPS: usize = 16;
/// Groups whose gradients are summed by one thread.
const CLUSTER: usize = 4;
/// Blocks that one of many sets of weights is used for at a time.
const SPAN: usize = 8;
/// Numbers of transformed weights kept at a time when many samples are evaluated: 64 MiB.
const TRANSFORMED: usize = 1 << 24;
/// Classes whose probabilities need no allocation.
const FEW_CLASSES: usize = 128;

/// A machine that runs one plan.
pub(crate) struct Cpu {
    pub(super) program: Program,
    isa: Isa,
    pub(super) workers: Arc<Workers>,
    /// One per thread: the values of a block, then scratch memory.
    pub(super) arenas: Vec<Memory>,
    /// Gradients of each group.
    gradients: Memory,
    groups: usize,
    /// Weights of the convolutions in Winograd's form: forward, then backward, for each set of
    /// weights.
    pub(super) transformed: Memory,
    results: Mutex<Vec<BatchResult>>,
}

/// A pointer that threads may share; whoever uses it says why that is sound.
#[derive(Clone, Copy)]
pub(super) struct Shared<T>(pub *mut T);
// SAFETY: only a pointer; see its uses.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: only a pointer; see its uses.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub fn get(self) -> *mut T {
        self.0
    }
}

/// Groups of a cluster, out of so many.
fn groups_of(cluster: usize, groups: usize) -> Range<usize> {
    cluster * CLUSTER..groups.min((cluster + 1) * CLUSTER)
}

impl Cpu {
    /// A machine with so many threads.
    pub fn new(job: &Job<'_>, threads: usize, isa: Isa, choices: Choices) -> Self {
        let plan = job.plan();
        let groups = job.batch().div_ceil(LANES).min(GROUPS);
        let sums = if plan.is_training() { groups } else { 0 };
        Self::with_program(Program::new(plan, choices), (groups, sums), threads, isa)
    }

    /// A machine for a program, with groups and gradients of so many of them.
    pub(super) fn with_program(
        program: Program,
        (groups, sums): (usize, usize),
        threads: usize,
        isa: Isa,
    ) -> Self {
        let workers = Arc::new(Workers::start(threads));
        let arenas = (0..workers.count())
            .map(|_| Memory::new((program.arena + program.scratch) * LANES))
            .collect();
        let stride = Self::stride(program.plan.parameters);
        Self {
            gradients: Memory::new(sums * stride),
            groups,
            transformed: Memory::new(program.transformed),
            results: Mutex::new(vec![BatchResult::default(); groups]),
            program,
            isa,
            workers,
            arenas,
        }
    }

    /// Numbers between the gradients of two groups.
    fn stride(parameters: usize) -> usize {
        parameters.next_multiple_of(LANES) + LANES
    }

    /// Transforms the weights of Winograd convolutions, for each of the given samples.
    pub(super) fn transform_weights<'a>(
        &mut self,
        sets: usize,
        parameters: impl Fn(usize) -> &'a [f32] + Sync,
    ) {
        let stride = self.program.transformed;
        if stride == 0 {
            return;
        }
        let training = self.program.plan.is_training();
        if self.transformed.len() < stride * sets {
            self.transformed = Memory::new(stride * sets);
        }
        let next = AtomicUsize::new(0);
        let memory = Shared(self.transformed.as_ptr());
        let (isa, convolutions) = (self.isa, &self.program.winograd);
        let count = convolutions.len();
        self.workers.run(&|_| {
            loop {
                let job = next.fetch_add(1, Ordering::Relaxed);
                if job >= count * sets {
                    break;
                }
                let Some(transformed) = &convolutions[job % count] else {
                    continue;
                };
                let (conv, lens) = (&transformed.conv, transformed.lens);
                let (set, parameters) = (job / count, parameters(job / count));
                // SAFETY: every job has a range of its own inside the memory.
                let (forward, backward) = unsafe {
                    let at = memory.get().add(set * stride + transformed.forward);
                    let forward = std::slice::from_raw_parts_mut(at, lens.0);
                    let backward =
                        training.then(|| std::slice::from_raw_parts_mut(at.add(lens.0), lens.1));
                    (forward, backward)
                };
                let shapes = (conv.shape.input, conv.shape.output);
                let len = 9 * shapes.0.channels * shapes.1.channels;
                let weights = &parameters[conv.weight..conv.weight + len];
                winograd::prepare_weights(isa, shapes, weights, forward, backward);
            }
        });
    }

    /// Gradients of all groups, each cluster's summed into that of its first group.
    fn group_gradients(
        &self,
        parameters: &[f32],
        source: Source<'_>,
        labels: &[u32],
        seed: u64,
        groups: usize,
    ) {
        let blocks = labels.len().div_ceil(LANES);
        let clusters = groups.div_ceil(CLUSTER);
        let stride = Self::stride(parameters.len());
        let next: [AtomicUsize; GROUPS / CLUSTER] = Default::default();
        let done: [AtomicUsize; GROUPS / CLUSTER] = Default::default();
        let memory = Shared(self.gradients.as_ptr());
        let transformed = Shared(self.transformed.as_ptr());
        let run_group = |thread: usize, group: usize| {
            let mut total = BatchResult::default();
            for b in group * blocks / groups..(group + 1) * blocks / groups {
                let first_image = b * LANES;
                let images = LANES.min(labels.len() - first_image);
                let block = Block {
                    isa: self.isa,
                    program: &self.program,
                    parameters: parameters.as_ptr(),
                    gradients: memory.get().wrapping_add(group * stride),
                    arena: self.arenas[thread].as_ptr(),
                    transformed: transformed.get(),
                    mode: DropoutMode::Train(seed),
                    first_image,
                    images,
                    labels: &labels[first_image..][..images],
                    weight: 1.0 / labels.len() as f32,
                };
                // SAFETY: every group has gradients and every thread an arena of its own; the
                // program stays inside the arena and the parameters, whose lengths were checked.
                let result = unsafe {
                    block.load(source);
                    block.run(&self.program.plan.ops)
                };
                total.loss += result.loss;
                total.correct += result.correct;
            }
            self.results.lock().expect("nobody panics with the lock")[group] = total;
        };
        let threads = self.workers.count();
        self.workers.run(&|thread| {
            let own = thread * clusters / threads;
            for cluster in (0..clusters).map(|i| (own + i) % clusters) {
                let members = groups_of(cluster, groups);
                loop {
                    let group = members.start + next[cluster].fetch_add(1, Ordering::Relaxed);
                    if group >= members.end {
                        break;
                    }
                    // SAFETY: the memory has `groups` gradients, and this one is the thread's own.
                    unsafe {
                        let gradients = memory.get().add(group * stride);
                        gradients.write_bytes(0, parameters.len());
                    }
                    run_group(thread, group);
                    if done[cluster].fetch_add(1, Ordering::AcqRel) + 1 < members.len() {
                        continue;
                    }
                    // SAFETY: all groups of the cluster are done, and only the last one to be done
                    // gets here.
                    unsafe {
                        let first = memory.get().add(members.start * stride);
                        let parts = (first.cast_const(), stride, members.len());
                        simple::run_sum_parts(self.isa, parts, first, 0, parameters.len());
                    }
                }
            }
        });
    }

    /// The sum of the clusters' gradients.
    fn sum_clusters(&self, clusters: usize, gradient: &mut [f32]) {
        // One part per thread, the same as in the update that follows; whoever is done takes what
        // is left.
        let len = gradient.len();
        let stride = Self::stride(len);
        let parts = self.workers.count().min(GROUPS);
        let part_len = len.div_ceil(parts).next_multiple_of(LANES);
        let taken: [AtomicBool; GROUPS] = Default::default();
        let memory = Shared(self.gradients.as_ptr());
        let out = Shared(gradient.as_mut_ptr());
        self.workers.run(&|thread| {
            for part in (0..parts).map(|i| (thread + i) % parts) {
                if taken[part].swap(true, Ordering::Relaxed) {
                    continue;
                }
                let from = (part * part_len).min(len);
                let to = (from + part_len).min(len);
                // SAFETY: parts do not overlap, and the sums of the clusters are that many numbers
                // apart.
                unsafe {
                    let sums = (memory.get().cast_const(), CLUSTER * stride, clusters);
                    simple::run_sum_parts(self.isa, sums, out.get(), from, to);
                }
            }
        });
    }

    /// The forward pass for samples whose weights have been transformed together.
    fn forward_together(
        &self,
        samples: &[Sample<'_>],
        source: Source<'_>,
        total: usize,
        wanted: Wanted,
        out: &mut [f32],
    ) {
        let plan = &self.program.plan;
        let width = self.width(wanted);
        let blocks = total.div_ceil(LANES);
        // Many sets of weights do not stay in the second cache: each meets several blocks before
        // the next one comes.
        let span = match samples.len() {
            0 | 1 => 1,
            _ => (blocks / (4 * self.workers.count())).clamp(1, SPAN),
        };
        let next = AtomicUsize::new(0);
        let transformed = Shared(self.transformed.as_ptr());
        let out = Shared(out.as_mut_ptr());
        let run_block = |thread: usize, set: usize, b: usize| {
            let first_image = b * LANES;
            let images = LANES.min(total - first_image);
            let block = Block {
                isa: self.isa,
                program: &self.program,
                parameters: samples[set].parameters.as_ptr(),
                gradients: std::ptr::null_mut(),
                arena: self.arenas[thread].as_ptr(),
                transformed: transformed
                    .get()
                    .wrapping_add(set * self.program.transformed),
                mode: DropoutMode::Predict(samples[set].seed),
                first_image,
                images,
                labels: &[],
                weight: 0.0,
            };
            // SAFETY: every thread has an arena of its own; the program stays inside it and the
            // parameters; blocks have different rows of `out`.
            unsafe {
                block.load(source);
                block.run(&plan.ops[..plan.forward]);
                let (slot, len) = match wanted {
                    Wanted::Features => plan.features,
                    _ => (plan.logits, plan.classes),
                };
                let values = std::slice::from_raw_parts(block.at(slot).cast(), len);
                let rows = out.get().add(first_image * width);
                let rows = std::slice::from_raw_parts_mut(rows, images * width);
                deliver(values, wanted, rows);
            }
        };
        self.workers.run(&|thread| {
            loop {
                let first = span * next.fetch_add(1, Ordering::Relaxed);
                if first >= blocks {
                    break;
                }
                for set in 0..samples.len() {
                    (first..blocks.min(first + span)).for_each(|b| run_block(thread, set, b));
                }
            }
        });
    }

    /// Numbers per image of what is wanted.
    fn width(&self, wanted: Wanted) -> usize {
        match wanted {
            Wanted::Features => self.program.plan.features.1,
            _ => self.program.plan.classes,
        }
    }
}

impl Backend for Cpu {
    fn gradient(
        &mut self,
        parameters: &[f32],
        source: Source<'_>,
        labels: &[u32],
        seed: u64,
        gradient: &mut [f32],
    ) -> Result<BatchResult> {
        let plan = &self.program.plan;
        assert_eq!(source.count(plan.input_shape.len()), labels.len());
        assert_eq!(parameters.len(), plan.parameters);
        assert_eq!(gradient.len(), plan.parameters);
        self.transform_weights(1, |_| parameters);
        let groups = labels.len().div_ceil(LANES).min(self.groups);
        self.group_gradients(parameters, source, labels, seed, groups);
        self.sum_clusters(groups.div_ceil(CLUSTER), gradient);
        let results = self.results.lock().expect("nobody panics with the lock");
        let add = |a: BatchResult, b: &BatchResult| BatchResult {
            loss: a.loss + b.loss,
            correct: a.correct + b.correct,
        };
        Ok(results[..groups].iter().fold(BatchResult::default(), add))
    }

    fn forward(
        &mut self,
        samples: &[Sample<'_>],
        source: Source<'_>,
        wanted: Wanted,
        out: &mut [f32],
    ) -> Result<()> {
        let plan = &self.program.plan;
        let total = source.count(plan.input_shape.len());
        assert_eq!(out.len(), total * self.width(wanted));
        let fits = |sample: &Sample<'_>| sample.parameters.len() == plan.parameters;
        assert!(samples.iter().all(fits));
        let together = (TRANSFORMED / self.program.transformed.max(1)).max(1);
        for samples in samples.chunks(together) {
            self.transform_weights(samples.len(), |set| samples[set].parameters);
            self.forward_together(samples, source, total, wanted, out);
        }
        Ok(())
    }

    fn executor(&self) -> Executor {
        // The threads have just worked on the gradient when the update comes.
        Executor::sharing(Arc::clone(&self.workers)).isa(self.isa)
    }

    fn bytes(&self) -> usize {
        let arenas: usize = self.arenas.iter().map(Memory::len).sum();
        4 * (arenas + self.gradients.len() + self.transformed.len())
    }
}

/// From `[width][16]` to what is wanted, one row per image.
fn deliver(values: &[[f32; LANES]], wanted: Wanted, out: &mut [f32]) {
    let rows = out.chunks_mut(values.len()).enumerate();
    let Wanted::Probabilities { share } = wanted else {
        for (lane, row) in rows {
            for (out, value) in row.iter_mut().zip(values) {
                *out = value[lane];
            }
        }
        return;
    };
    let mut few = [0.0f32; FEW_CLASSES];
    let mut many;
    let probabilities = if values.len() <= few.len() {
        &mut few[..values.len()]
    } else {
        many = vec![0.0; values.len()];
        &mut many[..]
    };
    for (lane, row) in rows {
        softmax(values, lane, probabilities);
        for (sum, p) in row.iter_mut().zip(&*probabilities) {
            *sum += share * p;
        }
    }
}

/// Softmax of one image of a block.
fn softmax(logits: &[[f32; LANES]], lane: usize, out: &mut [f32]) {
    let top = logits.iter().map(|z| z[lane]);
    let top = top.fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for (value, z) in out.iter_mut().zip(logits) {
        *value = (z[lane] - top).exp();
        sum += *value;
    }
    out.iter_mut().for_each(|value| *value /= sum);
}
