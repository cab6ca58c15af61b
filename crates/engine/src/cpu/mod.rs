//! The CPU backend: executes a plan block by block, sixteen images innermost.
//!
//! Values are `[channels][height][width][16]`, sixteen images of the batch side by side. A block goes through the whole forward
//! and backward pass before the next one begins, so that its values stay in the cache. Blocks are bundled into at most sixteen
//! groups, each with gradients of its own, and groups into clusters of four. A thread begins with a cluster that is the same
//! in every step, so that the memory stays with it, and then helps with the others. Whoever ends a cluster sums its gradients, and
//! the clusters are summed at the end, always in the same order: neither the number of threads nor their speed changes a
//! bit of the result.
//!
//! `unsafe` is allowed here and nowhere else in the crate.
#![allow(unsafe_code)]
// The loops over taps and tiles read best with the indices of the formulas.
#![allow(clippy::needless_range_loop)]

mod conv;
mod memory;
mod outer;
mod peak;
mod simple;
mod taps;
#[cfg(test)]
mod tests;
mod vector;
mod winograd;

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use machine::{Isa, Workers};
pub use peak::peak_gflops;

use self::conv::Geometry;
use self::memory::Memory;
use self::simple::Windows;
use self::taps::{Pooled, Start, Taps};
pub(crate) use self::vector::LANES;
use self::winograd::Tiling;
use crate::dropout::{dropout_key, dropout_threshold};
use crate::plan::{ConvPlan, Op, Plan, PoolPlan, Slot};
use crate::twin::DropoutMode;

/// Most groups of blocks, each with gradients of its own.
const GROUPS: usize = 16;
/// Groups whose gradients are summed by one thread.
const CLUSTER: usize = 4;
/// Blocks that one of many sets of weights is used for at a time.
const SPAN: usize = 8;

/// Loss and hits of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct BatchResult {
    /// Sum of the cross-entropies.
    pub loss: f64,
    /// Right predictions.
    pub right: usize,
}

/// A machine that runs one plan.
pub(crate) struct Cpu {
    plan: Plan,
    isa: Isa,
    workers: Arc<Workers>,
    /// One per thread: the values of a block, then scratch memory.
    arenas: Vec<Memory>,
    /// Gradients of each group.
    gradients: Memory,
    groups: usize,
    /// Weights of the convolutions in Winograd's form: forward, then backward, for each set of weights.
    transformed: Memory,
    offsets: Vec<(usize, usize)>,
    transformed_len: usize,
    results: Mutex<Vec<BatchResult>>,
}

/// What a block needs to know.
struct Block<'a> {
    isa: Isa,
    parameters: *const f32,
    gradients: *mut f32,
    arena: *mut f32,
    scratch: *mut f32,
    transformed: *const f32,
    offsets: &'a [(usize, usize)],
    mode: DropoutMode,
    first_image: usize,
    /// Images of this block; the lanes after them repeat the first, its dropout masks included.
    images: usize,
    labels: &'a [u32],
    weight: f32,
    classes: usize,
}

/// A pointer that threads may share; whoever uses it says why that is sound.
#[derive(Clone, Copy)]
struct Shared<T>(*mut T);
// SAFETY: only a pointer; see its uses.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: only a pointer; see its uses.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    fn get(self) -> *mut T {
        self.0
    }
}

fn geometry(conv: &ConvPlan) -> Geometry {
    Geometry::new(
        conv.input,
        conv.output,
        conv.kernel,
        conv.stride,
        conv.padding,
    )
}

/// The same with rows and columns also where neighbors do not matter.
fn planar_geometry(conv: &ConvPlan) -> Geometry {
    Geometry {
        input: conv.input,
        output: conv.output,
        kernel: conv.kernel,
        stride: conv.stride,
        padding: conv.padding,
    }
}

fn windows(pool: &PoolPlan) -> Windows {
    Windows {
        input: pool.input,
        output: pool.output,
        height: pool.height,
        width: pool.width,
        stride: pool.stride,
    }
}

/// Vectors of scratch memory that an operation needs.
fn scratch(op: &Op) -> usize {
    match op {
        Op::Conv { conv, .. } | Op::ConvPool { conv, .. } | Op::ConvBackward { conv, .. }
            if conv.winograd.is_some() =>
        {
            winograd::scratch(conv.input, conv.output)
        }
        Op::Conv { conv, .. } | Op::ConvBackward { conv, .. } => geometry(conv).scratch(),
        Op::ConvPool { conv, .. } => planar_geometry(conv).pooled_scratch(),
        Op::LinearBackward { inputs, .. } => inputs.next_multiple_of(LANES),
        _ => 0,
    }
}

/// Numbers of a convolution's weights in Winograd's form: forward and backward.
fn transformed_lens(conv: &ConvPlan) -> (usize, usize) {
    let count = conv.input.channels * conv.output.channels;
    let len = |output| Tiling::of(output).points() * count;
    (len(conv.output), len(conv.input))
}

impl Cpu {
    /// A machine for up to `batch` images at a time.
    pub fn new(plan: Plan, batch: usize, threads: usize, isa: Isa) -> Self {
        let training = plan.ops.len() > plan.forward;
        let groups = batch.div_ceil(LANES).min(GROUPS);
        let scratch = plan.ops.iter().map(scratch).max().unwrap_or(0);
        let workers = Arc::new(Workers::start(threads));
        let arenas = (0..workers.count())
            .map(|_| Memory::new((plan.arena + scratch) * LANES))
            .collect();
        let mut transformed = 0;
        let mut offsets = Vec::new();
        for conv in &plan.winograd {
            let (forward, backward) = transformed_lens(conv);
            offsets.push((transformed, transformed + forward));
            transformed += forward + if training { backward } else { 0 };
        }
        Self {
            gradients: Memory::new(if training {
                groups * Self::stride(&plan)
            } else {
                0
            }),
            groups,
            transformed: Memory::new(transformed),
            offsets,
            transformed_len: transformed,
            results: Mutex::new(vec![BatchResult::default(); groups]),
            plan,
            isa,
            workers,
            arenas,
        }
    }

    fn stride(plan: &Plan) -> usize {
        plan.parameters.next_multiple_of(LANES) + LANES
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// The threads, which may do other work in between.
    pub fn workers(&self) -> &Arc<Workers> {
        &self.workers
    }

    /// Bytes of all memory held.
    pub fn bytes(&self) -> usize {
        let arenas: usize = self.arenas.iter().map(Memory::len).sum();
        4 * (arenas + self.gradients.len() + self.transformed.len())
    }

    /// Transforms the weights of Winograd convolutions, for each of the given sets of parameters.
    fn transform_weights(&mut self, sets: &[&[f32]]) {
        if self.plan.winograd.is_empty() {
            return;
        }
        let training = self.plan.ops.len() > self.plan.forward;
        if self.transformed.len() < self.transformed_len * sets.len() {
            self.transformed = Memory::new(self.transformed_len * sets.len());
        }
        let next = AtomicUsize::new(0);
        let memory = Shared(self.transformed.as_ptr());
        let (plan, offsets, stride) = (&self.plan, &self.offsets, self.transformed_len);
        let isa = self.isa;
        let count = plan.winograd.len();
        self.workers.run(&|_| {
            loop {
                let job = next.fetch_add(1, Ordering::Relaxed);
                if job >= count * sets.len() {
                    break;
                }
                let (set, index) = (job / count, job % count);
                let conv = &plan.winograd[index];
                let lens = transformed_lens(conv);
                // SAFETY: every job has a range of its own inside the memory.
                let (forward, backward) = unsafe {
                    let at = memory.get().add(set * stride + offsets[index].0);
                    let forward = std::slice::from_raw_parts_mut(at, lens.0);
                    let backward =
                        training.then(|| std::slice::from_raw_parts_mut(at.add(lens.0), lens.1));
                    (forward, backward)
                };
                let count = conv.input.channels * conv.output.channels;
                let weights = &sets[set][conv.weight..conv.weight + 9 * count];
                let shapes = (conv.input, conv.output);
                winograd::prepare_weights(isa, shapes, weights, forward, backward);
            }
        });
    }

    /// Gradient of the mean loss of the batch, with `labels.len()` images.
    pub fn gradient(
        &mut self,
        parameters: &[f32],
        images: &[f32],
        labels: &[u32],
        seed: u64,
        gradient: &mut [f32],
    ) -> BatchResult {
        let size = self.plan.input_shape.len();
        assert_eq!(images.len(), labels.len() * size);
        assert_eq!(parameters.len(), self.plan.parameters);
        assert_eq!(gradient.len(), self.plan.parameters);
        self.transform_weights(&[parameters]);
        let blocks = labels.len().div_ceil(LANES);
        let groups = blocks.min(self.groups);
        let stride = Self::stride(&self.plan);
        let weight = 1.0 / labels.len() as f32;
        let clusters = groups.div_ceil(CLUSTER);
        let members = |cluster: usize| cluster * CLUSTER..groups.min((cluster + 1) * CLUSTER);
        let len = self.plan.parameters;
        {
            let next: [AtomicUsize; GROUPS / CLUSTER] = Default::default();
            let done: [AtomicUsize; GROUPS / CLUSTER] = Default::default();
            let (plan, isa, offsets) = (&self.plan, self.isa, &self.offsets);
            let (arenas, results) = (&self.arenas, &self.results);
            let memory = Shared(self.gradients.as_ptr());
            let transformed = Shared(self.transformed.as_ptr());
            let run_group = |thread: usize, group: usize| {
                let mut total = BatchResult::default();
                let arena = arenas[thread].as_ptr();
                // SAFETY: every group has gradients and every thread an arena of its own; the plan stays inside the arena
                // and the parameters, whose lengths were checked.
                unsafe {
                    let gradients = memory.get().add(group * stride);
                    gradients.write_bytes(0, plan.parameters);
                    for b in group * blocks / groups..(group + 1) * blocks / groups {
                        let first_image = b * LANES;
                        let count = LANES.min(labels.len() - first_image);
                        let block = Block {
                            isa,
                            parameters: parameters.as_ptr(),
                            gradients,
                            arena,
                            scratch: arena.add(plan.arena * LANES),
                            transformed: transformed.get(),
                            offsets,
                            mode: DropoutMode::Train(seed),
                            first_image,
                            images: count,
                            labels: &labels[first_image..first_image + count],
                            weight,
                            classes: plan.classes,
                        };
                        let from = images.as_ptr().add(first_image * size);
                        simple::run_gather(isa, from, count, size, block.at(plan.input));
                        let result = block.run(&plan.ops);
                        total.loss += result.loss;
                        total.right += result.right;
                    }
                }
                results.lock().expect("nobody panics with the lock")[group] = total;
            };
            let threads = self.workers.count();
            self.workers.run(&|thread| {
                let own = thread * clusters / threads;
                for cluster in (0..clusters).map(|i| (own + i) % clusters) {
                    let groups = members(cluster);
                    loop {
                        let group = groups.start + next[cluster].fetch_add(1, Ordering::Relaxed);
                        if group >= groups.end {
                            break;
                        }
                        run_group(thread, group);
                        if done[cluster].fetch_add(1, Ordering::AcqRel) + 1 < groups.len() {
                            continue;
                        }
                        // SAFETY: all groups of the cluster are done, and only the last one to be done gets here.
                        unsafe {
                            let first = memory.get().add(groups.start * stride);
                            let parts = (first.cast_const(), stride, groups.len());
                            simple::run_sum_parts(isa, parts, first, 0, len);
                        }
                    }
                }
            });
        }
        {
            // One part per thread, the same as in the update that follows; whoever is done takes what is left.
            let parts = self.workers.count().min(GROUPS);
            let part_len = len.div_ceil(parts).next_multiple_of(LANES);
            let taken: [AtomicBool; GROUPS] = Default::default();
            let isa = self.isa;
            let memory = Shared(self.gradients.as_ptr());
            let out = Shared(gradient.as_mut_ptr());
            self.workers.run(&|thread| {
                for part in (0..parts).map(|i| (thread + i) % parts) {
                    if taken[part].swap(true, Ordering::Relaxed) {
                        continue;
                    }
                    let from = (part * part_len).min(len);
                    let to = (from + part_len).min(len);
                    // SAFETY: parts do not overlap, and the sums of the clusters are that many numbers apart.
                    unsafe {
                        let sums = (memory.get().cast_const(), CLUSTER * stride, clusters);
                        simple::run_sum_parts(isa, sums, out.get(), from, to);
                    }
                }
            });
        }
        let results = self.results.lock().expect("nobody panics with the lock");
        results[..groups]
            .iter()
            .fold(BatchResult::default(), |a, b| BatchResult {
                loss: a.loss + b.loss,
                right: a.right + b.right,
            })
    }

    /// Runs the forward pass for each set of parameters. For every block of images, and for each in the order of the sets, `each(set, logits,
    /// features, out)` sees the logits `[classes][16]`, the features `[features][16]` and the block's own rows of `out`,
    /// which has `width` numbers per image.
    pub fn forward(
        &mut self,
        sets: &[&[f32]],
        images: &[f32],
        mode: impl Fn(usize) -> DropoutMode + Sync,
        (out, width): (&mut [f32], usize),
        each: impl Fn(usize, &[f32], &[f32], &mut [f32]) + Sync,
    ) {
        let size = self.plan.input_shape.len();
        let total = images.len() / size;
        assert_eq!(images.len(), total * size);
        assert_eq!(out.len(), total * width);
        assert!(sets.iter().all(|set| set.len() == self.plan.parameters));
        self.transform_weights(sets);
        let next = AtomicUsize::new(0);
        let (plan, isa, offsets) = (&self.plan, self.isa, &self.offsets);
        let arenas = &self.arenas;
        let transformed = Shared(self.transformed.as_ptr());
        let out = Shared(out.as_mut_ptr());
        let stride = self.transformed_len;
        let blocks = total.div_ceil(LANES);
        // Many sets of weights do not stay in the second cache: each meets several blocks before the next one comes.
        let span = match sets.len() {
            0 | 1 => 1,
            _ => (blocks / (4 * self.workers.count())).clamp(1, SPAN),
        };
        self.workers.run(&|thread| {
            let arena = arenas[thread].as_ptr();
            loop {
                let first = span * next.fetch_add(1, Ordering::Relaxed);
                if first >= blocks {
                    break;
                }
                for (set, parameters) in sets.iter().enumerate() {
                    for b in first..blocks.min(first + span) {
                        let first_image = b * LANES;
                        let count = LANES.min(total - first_image);
                        // SAFETY: every thread has an arena of its own; the plan stays inside it and the parameters; blocks
                        // have different rows of `out`.
                        unsafe {
                            let block = Block {
                                isa,
                                parameters: parameters.as_ptr(),
                                gradients: std::ptr::null_mut(),
                                arena,
                                scratch: arena.add(plan.arena * LANES),
                                transformed: transformed.get().wrapping_add(set * stride),
                                offsets,
                                mode: mode(set),
                                first_image,
                                images: count,
                                labels: &[],
                                weight: 0.0,
                                classes: plan.classes,
                            };
                            let from = images.as_ptr().add(first_image * size);
                            simple::run_gather(isa, from, count, size, block.at(plan.input));
                            block.run(&plan.ops[..plan.forward]);
                            let vectors = |slot, count: usize| {
                                std::slice::from_raw_parts(block.at(slot), count * LANES)
                            };
                            let logits = vectors(plan.logits, plan.classes);
                            let features = vectors(plan.features.0, plan.features.1);
                            let rows = std::slice::from_raw_parts_mut(
                                out.get().add(first_image * width),
                                count * width,
                            );
                            each(set, logits, features, rows);
                        }
                    }
                }
            }
        });
    }

    /// Numbers of the transformed weights of one set of parameters.
    pub fn transformed_len(&self) -> usize {
        self.transformed_len
    }
}

impl Block<'_> {
    fn at(&self, slot: Slot) -> *mut f32 {
        // Plan and arena belong together, so that the slot is inside.
        self.arena.wrapping_add(slot.offset() * LANES)
    }

    fn parameter(&self, position: usize) -> *const f32 {
        self.parameters.wrapping_add(position)
    }

    fn gradient(&self, position: usize) -> *mut f32 {
        self.gradients.wrapping_add(position)
    }

    unsafe fn run(&self, ops: &[Op]) -> BatchResult {
        let mut result = BatchResult::default();
        for op in ops {
            // SAFETY: the slots of an operation lie inside the arena and do not overlap unless it may work in place.
            unsafe {
                match op {
                    Op::Loss { logits, gradient } => {
                        let (logits, gradient) = (self.at(*logits), self.at(*gradient));
                        let (loss, right) =
                            simple::loss(logits, self.classes, self.labels, self.weight, gradient);
                        result.loss += loss;
                        result.right += right;
                    }
                    op => self.op(op),
                }
            }
        }
        result
    }

    unsafe fn op(&self, op: &Op) {
        let isa = self.isa;
        // SAFETY: see `run`.
        unsafe {
            match op {
                Op::Conv { conv, x, y, relu } => self.conv(conv, self.at(*x), self.at(*y), *relu),
                Op::ConvPool {
                    conv,
                    x,
                    y,
                    winner,
                    relu,
                } => {
                    let to = Pooled {
                        y: self.at(*y),
                        winner: winner.map(|slot| self.at(slot)),
                        relu: *relu,
                    };
                    self.conv_pool(conv, self.at(*x), &to);
                }
                Op::PoolBackward {
                    pool,
                    winner,
                    dy,
                    dx,
                } => simple::run_window_gradient(
                    isa,
                    &windows(pool),
                    self.at(*winner),
                    self.at(*dy),
                    self.at(*dx),
                ),
                Op::ConvBackward { conv, x, dy, dx } => {
                    let dx = dx.map(|d| (self.at(d.slot), d.accumulate));
                    self.conv_backward(conv, self.at(*x), self.at(*dy), dx);
                }
                Op::Linear {
                    inputs,
                    outputs,
                    weight,
                    bias,
                    x,
                    y,
                    relu,
                } => {
                    let t = Taps {
                        channels: *inputs,
                        rows: 1,
                        columns: 1,
                        x_channel: LANES as isize,
                        x_row: 0,
                        x_column: 0,
                        x_pixel: 0,
                        w_out: *inputs as isize,
                        w_channel: 1,
                        w_row: 0,
                        w_column: 0,
                        y_out: LANES as isize,
                        y_pixel: 0,
                    };
                    let start = bias.map_or(Start::Zero, |b| Start::Bias(self.parameter(b)));
                    let (x, w, y) = (self.at(*x), self.parameter(*weight), self.at(*y));
                    taps::run_row(isa, &t, *outputs, 1, x, w, y, start, *relu);
                }
                Op::LinearBackward {
                    inputs,
                    outputs,
                    weight,
                    bias,
                    x,
                    dy,
                    dx,
                } => {
                    let (x, dy) = (self.at(*x), self.at(*dy));
                    if let Some(bias) = bias {
                        outer::run_plane_sums(isa, dy, *outputs, 1, self.gradient(*bias));
                    }
                    let stride = inputs.next_multiple_of(LANES);
                    simple::run_scatter(isa, x, *inputs, stride, self.scratch);
                    let dw = self.gradient(*weight);
                    taps::run_dense_gradient(isa, self.scratch, stride, dy, dw, *outputs, *inputs);
                    let Some(dx) = dx else { return };
                    let t = Taps {
                        channels: *outputs,
                        rows: 1,
                        columns: 1,
                        x_channel: LANES as isize,
                        x_row: 0,
                        x_column: 0,
                        x_pixel: 0,
                        w_out: 1,
                        w_channel: *inputs as isize,
                        w_row: 0,
                        w_column: 0,
                        y_out: LANES as isize,
                        y_pixel: 0,
                    };
                    let start = if dx.accumulate {
                        Start::Output
                    } else {
                        Start::Zero
                    };
                    let (w, to) = (self.parameter(*weight), self.at(dx.slot));
                    taps::run_row(isa, &t, *inputs, 1, dy, w, to, start, false);
                }
                Op::Frn {
                    shape,
                    parameters,
                    x,
                    y,
                    scale,
                    add,
                } => simple::run_frn(
                    isa,
                    *shape,
                    self.at(*x),
                    parameters.map(|p| self.parameter(p)),
                    self.at(*y),
                    self.at(*scale),
                    add.map(|slot| self.at(slot).cast_const()),
                ),
                Op::FrnBackward {
                    shape,
                    parameters,
                    x,
                    scale,
                    dy,
                    dx,
                } => simple::run_frn_backward(
                    isa,
                    *shape,
                    (self.at(*x), self.at(*scale), self.at(*dy)),
                    parameters.map(|p| self.parameter(p)),
                    parameters.map(|p| self.gradient(p)),
                    dx.map(|d| self.at(d.slot)),
                    dx.is_some_and(|d| d.accumulate),
                ),
                Op::Relu { len, x, y } => simple::run_relu(isa, *len, self.at(*x), self.at(*y)),
                Op::ReluBackward { len, y, dy, dx } => simple::run_relu_backward(
                    isa,
                    *len,
                    self.at(*y),
                    self.at(*dy),
                    self.at(dx.slot),
                    dx.accumulate,
                ),
                Op::MaxPool { pool, x, y } => {
                    simple::run_max_pool(isa, &windows(pool), self.at(*x), self.at(*y));
                }
                Op::MaxPoolBackward {
                    pool,
                    x,
                    y,
                    dy,
                    dx,
                    relu,
                } => simple::run_max_pool_backward(
                    isa,
                    &windows(pool),
                    (self.at(*x), self.at(*y), self.at(*dy)),
                    self.at(dx.slot),
                    *relu,
                    dx.accumulate,
                ),
                Op::AvgPool { pool, x, y } => {
                    simple::run_avg_pool(isa, &windows(pool), self.at(*x), self.at(*y));
                }
                Op::AvgPoolBackward { pool, dy, dx } => simple::run_avg_pool_backward(
                    isa,
                    &windows(pool),
                    self.at(*dy),
                    self.at(dx.slot),
                    dx.accumulate,
                ),
                Op::Dropout {
                    len,
                    layer,
                    rate,
                    always_on,
                    x,
                    y,
                    accumulate,
                } => {
                    let (keys, threshold, factor) = match self.mode.seed(*always_on) {
                        Some(seed) => (
                            std::array::from_fn(|lane| {
                                let image = if lane < self.images { lane } else { 0 };
                                dropout_key(seed, *layer, self.first_image + image)
                            }),
                            dropout_threshold(*rate),
                            (1.0 / (1.0 - rate)) as f32,
                        ),
                        None => ([0; LANES], 0, 1.0),
                    };
                    let (x, y) = (self.at(*x), self.at(*y));
                    simple::run_dropout(isa, *len, x, y, &keys, threshold, factor, *accumulate);
                }
                Op::Add { len, x, y, out } => {
                    simple::run_add(isa, *len, self.at(*x), self.at(*y), self.at(*out));
                }
                Op::Copy { len, from, to } => {
                    let (from, slot) = (self.at(*from), self.at(to.slot));
                    if to.accumulate {
                        simple::run_add(isa, *len, from, slot, slot);
                    } else {
                        std::ptr::copy_nonoverlapping(from, slot, len * LANES);
                    }
                }
                Op::Loss { .. } => unreachable!("handled by `run`"),
            }
        }
    }

    unsafe fn conv(&self, conv: &ConvPlan, x: *const f32, y: *mut f32, relu: bool) {
        let isa = self.isa;
        let bias = conv.bias.map(|b| self.parameter(b));
        // SAFETY: see `run`; the scratch memory is large enough for every operation of the plan.
        unsafe {
            match conv.winograd {
                Some(index) => winograd::convolve(
                    isa,
                    (conv.input, conv.output),
                    (conv.padding.top, conv.padding.left),
                    (x, self.transformed.add(self.offsets[index].0)),
                    winograd::Output::Plain {
                        y,
                        start: bias.map_or(Start::Zero, Start::Bias),
                        relu,
                    },
                    self.scratch,
                ),
                None => {
                    let weight = self.parameter(conv.weight);
                    conv::forward(
                        isa,
                        &geometry(conv),
                        (x, weight, bias),
                        y,
                        relu,
                        self.scratch,
                    );
                }
            }
        }
    }

    unsafe fn conv_pool(&self, conv: &ConvPlan, x: *const f32, to: &Pooled) {
        let isa = self.isa;
        let bias = conv.bias.map(|b| self.parameter(b));
        // SAFETY: see `run`; the scratch memory is large enough for every operation of the plan.
        unsafe {
            match conv.winograd {
                Some(index) => winograd::convolve(
                    isa,
                    (conv.input, conv.output),
                    (conv.padding.top, conv.padding.left),
                    (x, self.transformed.add(self.offsets[index].0)),
                    winograd::Output::Pooled { bias, to },
                    self.scratch,
                ),
                None => {
                    let weight = self.parameter(conv.weight);
                    let g = planar_geometry(conv);
                    conv::forward_pooled(isa, &g, (x, weight, bias), to, self.scratch);
                }
            }
        }
    }

    unsafe fn conv_backward(
        &self,
        conv: &ConvPlan,
        x: *const f32,
        dy: *const f32,
        dx: Option<(*mut f32, bool)>,
    ) {
        let isa = self.isa;
        let dw = self.gradient(conv.weight);
        let db = conv.bias.map(|b| self.gradient(b));
        // SAFETY: see `run`; the scratch memory is large enough for every operation of the plan.
        unsafe {
            let Some(index) = conv.winograd else {
                let g = geometry(conv);
                conv::weight_gradient(isa, &g, (x, dy), dw, db, self.scratch);
                if let Some((dx, accumulate)) = dx {
                    let weight = self.parameter(conv.weight);
                    conv::input_gradient(isa, &g, (dy, weight), dx, accumulate, self.scratch);
                }
                return;
            };
            if let Some(db) = db {
                outer::run_plane_sums(isa, dy, conv.output.channels, conv.output.plane(), db);
            }
            let shapes = (conv.input, conv.output);
            let before = (conv.padding.top, conv.padding.left);
            winograd::weight_gradient(isa, shapes, before, (x, dy), dw, self.scratch);
            if let Some((dx, accumulate)) = dx {
                winograd::convolve(
                    isa,
                    (conv.output, conv.input),
                    (2 - before.0, 2 - before.1),
                    (dy, self.transformed.add(self.offsets[index].1)),
                    winograd::Output::Plain {
                        y: dx,
                        start: if accumulate {
                            Start::Output
                        } else {
                            Start::Zero
                        },
                        relu: false,
                    },
                    self.scratch,
                );
            }
        }
    }
}
