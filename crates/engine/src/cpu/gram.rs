//! Per image the inner products of the logits' weight gradients: one forward pass, then every
//! operation of the backward pass for one class after another.
//!
//! The gradients of values have an arena for each class, so that an operation with weights sees
//! those of all classes at once. It gives what its weights add to the matrix, weight by weight, and
//! no gradient of a weight is kept. Convolutions that take Winograd's form elsewhere take it here,
//! with the tiles of the input transformed once for all classes. FRN goes channel by channel, all
//! classes of one, so that a convolution before it meets them while they are in the cache.

use std::sync::atomic::{AtomicUsize, Ordering};

use machine::Isa;

use super::block::Block;
use super::lower::{Choices, Copies, Program, Step};
use super::schedule::{Cpu, Shared};
use super::simple::FrnGradients;
use super::vector::{LANES, Vector, kernel};
use super::winograd::ClassTiles;
use crate::backend::Source;
use crate::dropout::DropoutMode;
use crate::gram::{Answers, Request, most_probable};
use crate::network::{Conv, Network, Shape};
use crate::plan::{Convolution, Dense, Op, Plan, Purpose, Slot};

/// One number per image of a block.
type Lanes = [f32; LANES];

/// Classes whose gradients are summed in registers: as many as sums, inputs and a gradient have
/// room for, and with many registers so that ten are two equal groups.
const fn group<V: Vector>() -> usize {
    if V::MANY_REGISTERS { 5 } else { 4 }
}
/// Pixels of the output that all weights meet before the next ones come.
const PIXELS: usize = 64;

/// Pairs of classes, `(k, l)` with `l ≤ k`.
fn pairs(classes: usize) -> usize {
    classes * (classes + 1) / 2
}

/// Computes the matrices of all images.
pub(crate) fn run(
    network: &Network,
    request: &Request<'_>,
    (choices, threads, isa): (Choices, usize, Isa),
    out: &mut Answers<'_>,
) {
    let plan = Plan::new(network, Purpose::TRAINING);
    let (program, copies) = Program::with_copies(plan, choices, request.classes);
    let mut cpu = Cpu::with_program(program, (0, 0), threads, isa);
    cpu.transform_weights(1, |_| request.parameters);
    let size = network.input_shape().len();
    let (total, all, m) = (
        request.images.len() / size,
        network.classes(),
        request.classes,
    );
    let plan = &cpu.program.plan;
    let backward = &plan.ops[plan.forward..];
    let steps: Vec<Vec<Step>> = (0..m).map(|k| copies.steps(backward, k)).collect();
    let next = AtomicUsize::new(0);
    let logits = Shared(out.logits.as_mut_ptr());
    let classes = Shared(out.classes.as_mut_ptr());
    let matrices = Shared(out.matrices.as_mut_ptr());
    let (cpu, steps, copies) = (&cpu, &steps[..], &copies);
    cpu.workers.run(&|thread| {
        loop {
            let first_image = LANES * next.fetch_add(1, Ordering::Relaxed);
            if first_image >= total {
                break;
            }
            let images = LANES.min(total - first_image);
            // SAFETY: blocks have different rows of the answers, whose lengths belong to the
            // images.
            let out = unsafe {
                Answers {
                    logits: rows(logits, first_image * all, images * all),
                    classes: rows(classes, first_image * m, images * m),
                    matrices: rows(matrices, first_image * m * m, images * m * m),
                }
            };
            let block = Block {
                isa,
                program: &cpu.program,
                parameters: request.parameters.as_ptr(),
                gradients: std::ptr::null_mut(),
                arena: cpu.arenas[thread].as_ptr(),
                transformed: cpu.transformed.as_ptr(),
                mode: DropoutMode::Predict(request.seed),
                first_image,
                images,
                labels: &[],
                weight: 0.0,
            };
            let mut pass = Pass {
                block,
                request,
                copies,
                steps,
                own: vec![[0.0; LANES]; m],
                found: Vec::new(),
                inverse: Vec::new(),
                sums: vec![[0.0; LANES]; pairs(m)],
                total: vec![[0.0; LANES]; pairs(m)],
            };
            pass.run(out);
        }
    });
}

/// Part of what all threads write to.
///
/// # Safety
/// It is inside, and nobody else has it.
unsafe fn rows<'a, T>(all: Shared<T>, from: usize, len: usize) -> &'a mut [T] {
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts_mut(all.get().add(from), len) }
}

/// Sixteen images on their way.
struct Pass<'a> {
    block: Block<'a>,
    request: &'a Request<'a>,
    copies: &'a Copies,
    /// Loss and backward pass, for each class.
    steps: &'a [Vec<Step>],
    /// Gradients of a weight, a vector per class.
    own: Vec<Lanes>,
    /// Of all weights of an output channel, and their `1/Λ`.
    found: Vec<Lanes>,
    inverse: Vec<f32>,
    /// Inner products of some weights, a pair of classes after another.
    sums: Vec<Lanes>,
    /// Of all so far.
    total: Vec<[f64; LANES]>,
}

impl Pass<'_> {
    fn run(&mut self, out: Answers<'_>) {
        let plan = &self.block.program.plan;
        let m = self.request.classes;
        // SAFETY: arena, parameters and transformed weights belong to the program, and the images
        // are those of the block; a step with weights leaves their gradients alone.
        unsafe {
            self.block.load(Source::Floats(self.request.images));
            self.block.run(&plan.ops[..plan.forward]);
            self.choose(out.logits, out.classes);
            // whether the weights of the step have been met already
            let mut met = false;
            for i in 1..self.steps[0].len() {
                if let Step::Op(Op::FrnBackward { .. }) = self.steps[0][i] {
                    met = self.normalized(i);
                    if self.request.last_layer {
                        break;
                    }
                    continue;
                }
                let weighted = met || self.share(i);
                met = false;
                if weighted && self.request.last_layer {
                    break;
                }
                for steps in self.steps {
                    self.block.pull_back(&steps[i]);
                }
            }
        }
        for (lane, matrix) in out.matrices.chunks_exact_mut(m * m).enumerate() {
            for k in 0..m {
                for l in 0..=k {
                    let value = self.total[pairs(k) + l][lane];
                    (matrix[k * m + l], matrix[l * m + k]) = (value, value);
                }
            }
        }
    }

    /// Writes logits and the most probable classes, and begins the backward pass of each class with
    /// a 1 at its logit.
    ///
    /// # Safety
    /// The forward pass is done.
    unsafe fn choose(&self, logits: &mut [f32], classes: &mut [u32]) {
        let Step::Op(Op::Loss {
            logits: from,
            gradient,
        }) = self.steps[0][0]
        else {
            unreachable!("the backward pass begins with the loss");
        };
        let gradient = |k: usize| self.block.at(self.copies.slot(gradient, k));
        let all = self.block.program.plan.classes;
        let m = self.request.classes;
        // SAFETY: both have one vector per class.
        let values: &[Lanes] = unsafe { self.values(from, all) };
        for k in 0..m {
            // SAFETY: as above, and nobody reads it now.
            unsafe { gradient(k).write_bytes(0, all * LANES) };
        }
        let images = logits
            .chunks_exact_mut(all)
            .zip(classes.chunks_exact_mut(m));
        for (lane, (logits, classes)) in images.enumerate() {
            let row = logits.iter_mut().zip(values);
            row.for_each(|(to, value)| *to = value[lane]);
            most_probable(logits, classes);
            for (k, &class) in classes.iter().enumerate() {
                // SAFETY: as above.
                unsafe { *gradient(k).add(class as usize * LANES + lane) = 1.0 };
            }
        }
    }

    /// # Safety
    /// The slot has so many vectors.
    unsafe fn values(&self, slot: Slot, len: usize) -> &[Lanes] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(self.block.at(slot).cast(), len) }
    }

    /// Adds what the weights of a convolution or dense layer give; says whether the step is one.
    ///
    /// # Safety
    /// As for [`Block::run`].
    unsafe fn share(&mut self, number: usize) -> bool {
        let steps = self.steps;
        let Step::Op(op) = &steps[0][number] else {
            return false;
        };
        let (Op::ConvBackward { dy, .. } | Op::LinearBackward { dy, .. }) = *op else {
            return false;
        };
        let delta = self.copied(dy);
        // SAFETY: the slots hold what the operation says; its scratch memory is large enough.
        unsafe {
            match op {
                Op::ConvBackward { conv, x, .. } => {
                    let input = self.input(conv, *x);
                    for o in 0..conv.shape.output.channels {
                        self.conv(conv, &input, &delta, o);
                    }
                }
                Op::LinearBackward { dense, x, .. } => self.linear(dense, *x, &delta),
                _ => unreachable!("the others have no weights"),
            }
        }
        true
    }

    /// Where a gradient is, for every class.
    fn copied(&self, slot: Slot) -> Vec<*const f32> {
        let copy = |k: usize| self.block.at(self.copies.slot(slot, k)).cast_const();
        (0..self.request.classes).map(copy).collect()
    }

    /// Pulls the gradients of all classes back through an FRN, channel by channel, and adds what
    /// its parameters give. A convolution before it meets the gradients of a channel while they are
    /// in the cache; says whether there is one.
    ///
    /// # Safety
    /// As for [`Block::run`].
    unsafe fn normalized(&mut self, number: usize) -> bool {
        let steps = self.steps;
        let Step::Op(Op::FrnBackward { frn, dx, .. }) = &steps[0][number] else {
            unreachable!("the caller has looked");
        };
        // an FRN over a concatenation begins where its first part does, and has more channels
        let feeds = |conv: &Convolution, dy: Slot| {
            dx.is_some_and(|dx| dx.slot == dy) && conv.shape.output == frn.shape
        };
        let before = match steps[0].get(number + 1) {
            Some(Step::Op(Op::ConvBackward { conv, x, dy, .. }))
                if feeds(conv, *dy) && !self.request.last_layer =>
            {
                // SAFETY: passed on from the caller.
                let input = unsafe { self.input(conv, *x) };
                Some((conv, input, self.copied(*dy)))
            }
            _ => None,
        };
        let m = self.request.classes;
        let mut found = vec![[0.0; LANES]; 3 * m];
        for c in 0..frn.shape.channels {
            // SAFETY: the slots hold what the operation says, and there is a vector for each
            // parameter and class.
            unsafe {
                for (k, steps) in steps.iter().enumerate() {
                    let Step::Op(Op::FrnBackward { frn, x, dy, dx }) = &steps[number] else {
                        unreachable!("all classes have the same steps");
                    };
                    let to = found.as_mut_ptr().add(k).cast();
                    let each = FrnGradients::Each(to, m * LANES);
                    self.block.frn_backward((frn, c..c + 1), [x, dy], *dx, each);
                }
                let inverse = frn.parameters.map(|at| self.request.inverse(at + c));
                let sums = self.sums.as_mut_ptr().cast();
                run_squares(self.block.isa, &found, &inverse, sums);
                if let Some((conv, input, delta)) = &before {
                    self.conv(conv, input, delta, c);
                }
            }
        }
        self.gather();
        before.is_some()
    }

    /// The input of a convolution, as its weights meet it.
    ///
    /// # Safety
    /// See `share`.
    unsafe fn input(&self, conv: &Convolution, x: Slot) -> Input {
        let (isa, x, scratch) = (self.block.isa, self.block.at(x), self.block.scratch());
        let tiled = self.block.program.winograd[conv.number].is_some();
        // SAFETY: see `share`.
        unsafe {
            match tiled {
                true => Input::Tiled(ClassTiles::new(isa, &conv.shape, x, scratch)),
                false => Input::Padded(Padded::new(&conv.shape, x, scratch)),
            }
        }
    }

    /// Adds what the weights of an output channel give.
    ///
    /// # Safety
    /// See `share`.
    unsafe fn conv(&mut self, conv: &Convolution, input: &Input, delta: &[*const f32], o: usize) {
        let shape = &conv.shape;
        let weights = shape.input.channels * shape.kernel * shape.kernel;
        let first = conv.weight + o * weights;
        self.inverse.clear();
        let places = first..first + weights;
        self.inverse
            .extend(places.map(|at| self.request.inverse(at)));
        self.found.resize(weights * delta.len(), [0.0; LANES]);
        let (isa, found) = (self.block.isa, &mut self.found[..]);
        let pixels = shape.output.plane();
        let offset = o * pixels * LANES;
        let sums = self.sums.as_mut_ptr().cast();
        // SAFETY: see `share`.
        unsafe {
            match input {
                Input::Tiled(tiles) => {
                    tiles.add_squares(isa, (delta, offset), found, &self.inverse, sums);
                }
                Input::Padded(input) => {
                    run_channel(isa, shape, input, (delta, offset), found);
                    run_squares(isa, found, &self.inverse, sums);
                }
            }
            if let Some(bias) = conv.bias {
                let bias = Bias {
                    inverse: self.request.inverse(bias + o),
                    plane: (delta, offset, pixels),
                };
                run_bias(isa, bias, &mut self.own, sums);
            }
        }
        self.gather();
    }

    unsafe fn linear(&mut self, dense: &Dense, x: Slot, delta: &[*const f32]) {
        let x = self.block.at(x).cast_const();
        let mut size = [0.0; LANES];
        for o in 0..dense.outputs {
            let bias = dense
                .bias
                .map_or(0.0, |bias| self.request.inverse(bias + o));
            let inverse = match self.request.inverse {
                one @ [_] => one,
                all => &all[dense.weight + o * dense.inputs..][..dense.inputs],
            };
            // SAFETY: see `share`.
            unsafe {
                let size = size.as_mut_ptr();
                if o == 0 || inverse.len() > 1 {
                    run_size(self.block.isa, x, dense.inputs, inverse, size);
                }
                let (own, sums) = (&mut self.own[..], self.sums.as_mut_ptr().cast());
                run_dense(self.block.isa, (delta, o * LANES), size, bias, own, sums);
            }
        }
        self.gather();
    }

    /// Moves the sums to the total, before they are many.
    fn gather(&mut self) {
        let both = self
            .total
            .iter_mut()
            .flatten()
            .zip(self.sums.iter_mut().flatten());
        both.for_each(|(total, sum)| *total += f64::from(std::mem::take(sum)));
    }
}

/// The input of a convolution, as its weights meet it.
enum Input {
    Padded(Padded),
    Tiled(ClassTiles),
}

/// The input of a convolution with its zeros around.
struct Padded {
    start: *const f32,
    /// Numbers from one row, and from one channel, to the next.
    row: usize,
    plane: usize,
}

/// Vectors of the padded input, none where there is nothing to add.
pub(super) fn padded(conv: &Conv) -> usize {
    let (height, width) = extent(conv);
    match (height, width) == (conv.input.height, conv.input.width) && !has_padding(conv) {
        true => 0,
        false => conv.input.channels * height * width,
    }
}

/// Rows and columns that the outputs see.
fn extent(conv: &Conv) -> (usize, usize) {
    let side = |outputs: usize| (outputs - 1) * conv.stride + conv.kernel;
    (side(conv.output.height), side(conv.output.width))
}

fn has_padding(conv: &Conv) -> bool {
    conv.padding.top > 0 || conv.padding.left > 0
}

impl Padded {
    /// # Safety
    /// `x` is a whole input, and the scratch memory has [`padded`] vectors.
    unsafe fn new(conv: &Conv, x: *const f32, scratch: *mut f32) -> Self {
        let Shape {
            channels,
            height,
            width,
        } = conv.input;
        let (rows, columns) = extent(conv);
        if padded(conv) == 0 {
            return Self {
                start: x,
                row: width * LANES,
                plane: height * width * LANES,
            };
        }
        let (top, left) = (conv.padding.top, conv.padding.left);
        let taken = width.min(columns.saturating_sub(left));
        // SAFETY: rows and columns that are copied are inside both.
        unsafe {
            scratch.write_bytes(0, channels * rows * columns * LANES);
            for c in 0..channels {
                for y in 0..height.min(rows.saturating_sub(top)) {
                    let from = x.add((c * height + y) * width * LANES);
                    let to = scratch.add(((c * rows + y + top) * columns + left) * LANES);
                    std::ptr::copy_nonoverlapping(from, to, taken * LANES);
                }
            }
        }
        Self {
            start: scratch,
            row: columns * LANES,
            plane: rows * columns * LANES,
        }
    }
}

/// Gradients of some weights, a vector per class for each of them.
#[derive(Clone, Copy)]
struct Found {
    start: *const f32,
    weights: usize,
    classes: usize,
}

/// Adds to the sums of `R` rows and `C` columns, which stay in registers while the weights pass; of
/// a tile on the `DIAGONAL` only what is not above it.
#[inline(always)]
unsafe fn add_tile<V: Vector, const R: usize, const C: usize, const DIAGONAL: bool>(
    found: Found,
    scale: impl Fn(usize) -> V,
    (row, column): (usize, usize),
    sums: *mut f32,
) {
    // SAFETY: the caller promises a vector for each pair.
    unsafe {
        let at = |i: usize, j: usize| sums.add((pairs(row + i) + column + j) * LANES);
        let counts = |i: usize, j: usize| !DIAGONAL || j <= i;
        let mut tile: [[V; C]; R] = std::array::from_fn(|i| {
            std::array::from_fn(|j| match counts(i, j) {
                true => V::load(at(i, j)),
                false => V::splat(0.0),
            })
        });
        for weight in 0..found.weights {
            let g = found.start.add(weight * found.classes * LANES);
            let right: [V; C] = std::array::from_fn(|j| V::load(g.add((column + j) * LANES)));
            let scale = scale(weight);
            for (i, sums) in tile.iter_mut().enumerate() {
                let left = V::load(g.add((row + i) * LANES)).mul(scale);
                for (j, sum) in sums.iter_mut().enumerate() {
                    if counts(i, j) {
                        *sum = sum.fma(left, right[j]);
                    }
                }
            }
        }
        for (i, sums) in tile.iter().enumerate() {
            for (j, sum) in sums.iter().enumerate() {
                if counts(i, j) {
                    sum.store(at(i, j));
                }
            }
        }
    }
}

/// `G += Σ s g gᵀ` over the weights, by tiles of `B` rows and columns.
#[inline(always)]
unsafe fn add_tiles<V: Vector, const B: usize>(
    found: Found,
    scale: impl Fn(usize) -> V,
    sums: *mut f32,
) {
    let whole = found.classes / B * B;
    // SAFETY: passed on from the caller.
    unsafe {
        for row in (0..whole).step_by(B) {
            for column in (0..row).step_by(B) {
                add_tile::<V, B, B, false>(found, &scale, (row, column), sums);
            }
            add_tile::<V, B, B, true>(found, &scale, (row, row), sums);
        }
        for row in whole..found.classes {
            for column in (0..whole).step_by(B) {
                add_tile::<V, 1, B, false>(found, &scale, (row, column), sums);
            }
            for column in whole..=row {
                add_tile::<V, 1, 1, false>(found, &scale, (row, column), sums);
            }
        }
    }
}

/// [`add_tiles`] for a part of the images, with tiles that fit the registers.
#[inline(always)]
unsafe fn add_squares<V: Vector>(
    found: &[Lanes],
    classes: usize,
    scale: impl Fn(usize) -> V,
    part: usize,
    sums: *mut f32,
) {
    let shift = part * V::WIDTH;
    let found = Found {
        start: found.as_ptr().cast::<f32>().wrapping_add(shift),
        weights: found.len() / classes,
        classes,
    };
    let sums = sums.wrapping_add(shift);
    // SAFETY: passed on from the caller.
    unsafe {
        match V::MANY_REGISTERS {
            true => add_tiles::<V, 5>(found, scale, sums),
            false => add_tiles::<V, 3>(found, scale, sums),
        }
    }
}

/// Classes whose gradients meet the input at a time.
const TOGETHER: usize = 16;

/// Vectors of two planes that meet: pixels in some rows, or tiles.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meeting {
    pub rows: usize,
    pub columns: usize,
    /// Numbers from one row, and from one column, of the input to the next.
    pub x_row: usize,
    pub x_column: usize,
    /// Numbers from one row of the gradients to the next.
    pub delta_row: usize,
}

/// Adds to the gradients of `W` weights, for `K` classes and a part of the images, or to nothing if
/// they are `FRESH`: `sums` holds those of a weight one after another, `stride` classes apart.
#[inline(always)]
unsafe fn correlate<V: Vector, const FRESH: bool, const W: usize, const K: usize>(
    meeting: &Meeting,
    mut x: [*const f32; W],
    mut delta: [*const f32; K],
    (sums, stride): (*mut f32, usize),
) {
    // SAFETY: the caller promises whole planes.
    unsafe {
        let at = |w: usize, k: usize| sums.add((w * stride + k) * LANES);
        let before = |w: usize, k: usize| match FRESH {
            true => V::splat(0.0),
            false => V::load(at(w, k)),
        };
        let mut sums: [[V; K]; W] = std::array::from_fn(|w| std::array::from_fn(|k| before(w, k)));
        for _ in 0..meeting.rows {
            for p in 0..meeting.columns {
                let x = x.map(|x| V::load(x.add(p * meeting.x_column)));
                for (k, delta) in delta.iter().enumerate() {
                    let delta = V::load(delta.add(p * LANES));
                    for (sums, x) in sums.iter_mut().zip(x) {
                        sums[k] = sums[k].fma(x, delta);
                    }
                }
            }
            x = x.map(|x| x.wrapping_add(meeting.x_row));
            delta = delta.map(|delta| delta.wrapping_add(meeting.delta_row));
        }
        for (w, sums) in sums.iter().enumerate() {
            for (k, sum) in sums.iter().enumerate() {
                sum.store(at(w, k));
            }
        }
    }
}

/// [`correlate`] for some classes, a few at a time.
#[inline(always)]
unsafe fn correlate_all<V: Vector, const FRESH: bool, const W: usize>(
    meeting: &Meeting,
    x: [*const f32; W],
    delta: &[*const f32],
    (sums, stride): (*mut f32, usize),
) {
    for (number, few) in delta.chunks(group::<V>()).enumerate() {
        let sums = (sums.wrapping_add(number * group::<V>() * LANES), stride);
        // SAFETY: passed on from the caller.
        unsafe {
            match *few {
                [a] => correlate::<V, FRESH, W, 1>(meeting, x, [a], sums),
                [a, b] => correlate::<V, FRESH, W, 2>(meeting, x, [a, b], sums),
                [a, b, c] => correlate::<V, FRESH, W, 3>(meeting, x, [a, b, c], sums),
                [a, b, c, d] => correlate::<V, FRESH, W, 4>(meeting, x, [a, b, c, d], sums),
                [a, b, c, d, e] => correlate::<V, FRESH, W, 5>(meeting, x, [a, b, c, d, e], sums),
                _ => unreachable!("groups have one to five classes"),
            }
        }
    }
}

/// Adds the sums over the vectors that meet, or writes them if they are `FRESH`, for `count`
/// weights, whose inputs begin at `x`, and some classes; those of a weight are one after another,
/// and `stride` vectors behind those of the weight before.
///
/// # Safety
/// Everything that meets is there, and a vector for each weight and class.
#[inline(always)]
pub(super) unsafe fn meet<V: Vector, const FRESH: bool>(
    meeting: &Meeting,
    count: usize,
    x: impl Fn(usize) -> *const f32,
    delta: &[*const f32],
    (sums, stride): (*mut f32, usize),
) {
    let mut weight = 0;
    macro_rules! weights {
        ($count:literal) => {
            while count - weight >= $count {
                let x: [_; $count] = std::array::from_fn(|i| x(weight + i));
                let to = (sums.wrapping_add(weight * stride * LANES), stride);
                // SAFETY: passed on from the caller.
                unsafe { correlate_all::<V, FRESH, $count>(meeting, x, delta, to) };
                weight += $count;
            }
        };
    }
    if V::MANY_REGISTERS {
        weights!(4);
    }
    weights!(3);
    weights!(1);
}

/// The gradients of the weights of one output channel, for every class. The rows of the output are
/// taken a few at a time, so that their gradients stay in the first cache while all weights meet
/// them.
#[inline(always)]
unsafe fn channel<V: Vector>(
    conv: &Conv,
    input: &Padded,
    (delta, offset): (&[*const f32], usize),
    found: &mut [Lanes],
) {
    let taps = conv.kernel * conv.kernel;
    let (height, width, m) = (conv.output.height, conv.output.width, delta.len());
    let band = (PIXELS / width).max(1);
    found.fill([0.0; LANES]);
    for part in 0..V::PARTS {
        let shift = part * V::WIDTH;
        for first in (0..height).step_by(band) {
            let meeting = Meeting {
                rows: band.min(height - first),
                columns: width,
                x_row: conv.stride * input.row,
                x_column: conv.stride * LANES,
                delta_row: width * LANES,
            };
            let at = |weight: usize| {
                let (c, tap) = (weight / taps, weight % taps);
                let (y, x) = (tap / conv.kernel + first * conv.stride, tap % conv.kernel);
                let corner = c * input.plane + y * input.row + x * LANES;
                input.start.wrapping_add(corner + shift)
            };
            for (group, delta) in delta.chunks(TOGETHER).enumerate() {
                let mut here = [std::ptr::null(); TOGETHER];
                for (here, delta) in here.iter_mut().zip(delta) {
                    *here = delta.wrapping_add(offset + first * width * LANES + shift);
                }
                let to = found.as_mut_ptr().cast::<f32>();
                let to = to.wrapping_add(group * TOGETHER * LANES + shift);
                let here = &here[..delta.len()];
                // SAFETY: the caller promises whole values of this shape, and room for the
                // gradients of all weights.
                unsafe { meet::<V, false>(&meeting, found.len() / m, at, here, (to, m)) };
            }
        }
    }
}
kernel!(
    run_channel = channel(
        conv: &Conv,
        input: &Padded,
        delta: (&[*const f32], usize),
        found: &mut [Lanes],
    )
);

/// The bias of an output channel: its `1/Λ`, and the plane of which its gradients are the sums, for
/// every class from an offset on so many pixels.
#[derive(Clone, Copy)]
struct Bias<'a> {
    inverse: f32,
    plane: (&'a [*const f32], usize, usize),
}

/// What some weights add, whose gradients were `found` and whose `1/Λ` are `inverse`.
///
/// # Safety
/// `sums` has a vector for each pair of classes.
#[inline(always)]
pub(super) unsafe fn squares<V: Vector>(found: &[Lanes], inverse: &[f32], sums: *mut f32) {
    let classes = found.len() / inverse.len();
    for part in 0..V::PARTS {
        // SAFETY: passed on from the caller; there is an inverse for each weight.
        unsafe {
            let scale = |weight: usize| V::splat(*inverse.get_unchecked(weight));
            add_squares::<V>(found, classes, scale, part, sums);
        }
    }
}
kernel!(run_squares = squares(found: &[Lanes], inverse: &[f32], sums: *mut f32));

/// What a bias adds.
#[inline(always)]
unsafe fn add_bias<V: Vector>(bias: Bias<'_>, own: &mut [Lanes], sums: *mut f32) {
    let (delta, offset, pixels) = bias.plane;
    // SAFETY: the caller promises whole planes and a vector for each pair.
    unsafe {
        for part in 0..V::PARTS {
            let shift = part * V::WIDTH;
            for (g, delta) in own.iter_mut().zip(delta) {
                let mut sum = V::splat(0.0);
                for p in 0..pixels {
                    sum = sum.add(V::load(delta.add(offset + shift + p * LANES)));
                }
                sum.store(g.as_mut_ptr().add(shift));
            }
        }
        squares::<V>(own, &[bias.inverse], sums);
    }
}
kernel!(run_bias = add_bias(bias: Bias<'_>, own: &mut [Lanes], sums: *mut f32));

/// `Σ x²/Λ` of a row of weights; `inverse` has an entry for each or one for all.
#[inline(always)]
unsafe fn size<V: Vector>(x: *const f32, inputs: usize, inverse: &[f32], out: *mut f32) {
    // SAFETY: the caller promises so many inputs.
    unsafe {
        for part in 0..V::PARTS {
            let mut sum = V::splat(0.0);
            for i in 0..inputs {
                let x = V::load(x.add(i * LANES + part * V::WIDTH));
                let inverse = V::splat(inverse[if inverse.len() == 1 { 0 } else { i }]);
                sum = sum.fma(x.mul(inverse), x);
            }
            sum.store(out.add(part * V::WIDTH));
        }
    }
}
kernel!(run_size = size(x: *const f32, inputs: usize, inverse: &[f32], out: *mut f32));

/// What one output of a dense layer adds, whose weights have this `size`.
#[inline(always)]
unsafe fn dense<V: Vector>(
    (delta, offset): (&[*const f32], usize),
    size: *const f32,
    bias: f32,
    own: &mut [Lanes],
    sums: *mut f32,
) {
    let own = &mut own[..delta.len()];
    // SAFETY: the caller promises a vector of every class at the offset.
    unsafe {
        for (g, delta) in own.iter_mut().zip(delta) {
            *g = delta.add(offset).cast::<Lanes>().read();
        }
        for part in 0..V::PARTS {
            let scale = V::load(size.add(part * V::WIDTH)).add(V::splat(bias));
            add_squares::<V>(own, own.len(), |_| scale, part, sums);
        }
    }
}
kernel!(
    run_dense = dense(
        delta: (&[*const f32], usize),
        size: *const f32,
        bias: f32,
        own: &mut [Lanes],
        sums: *mut f32,
    )
);
