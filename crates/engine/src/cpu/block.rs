//! Sixteen images on their way through a program: one method per operation.

use std::ops::Range;

use machine::Isa;

use super::lower::{Program, Step};
use super::simple::FrnGradients;
use super::taps::{self, Pooled, Start, Taps};
use super::vector::LANES;
use super::{conv, gather, outer, simple, winograd};
use crate::backend::{BatchResult, Source};
use crate::dropout::{DropoutMode, dropout_key, dropout_threshold};
use crate::network::Shape;
use crate::plan::{Convolution, Dense, Dropout, Frn, Op, Slot, Target};

/// What a block needs to know.
pub(super) struct Block<'a> {
    pub isa: Isa,
    pub program: &'a Program,
    pub parameters: *const f32,
    pub gradients: *mut f32,
    /// The values of the program's arena, then its scratch memory.
    pub arena: *mut f32,
    /// The set's transformed weights.
    pub transformed: *const f32,
    pub mode: DropoutMode,
    pub first_image: usize,
    /// Images of this block; the lanes after them repeat the first, its dropout masks included.
    pub images: usize,
    pub labels: &'a [u32],
    /// Weight of an image in the mean loss.
    pub weight: f32,
}

impl Block<'_> {
    pub fn at(&self, slot: Slot) -> *mut f32 {
        // Program and arena belong together, so that the slot is inside.
        self.arena.wrapping_add(slot.offset * LANES)
    }

    pub fn scratch(&self) -> *mut f32 {
        self.arena.wrapping_add(self.program.arena * LANES)
    }

    fn parameter(&self, position: usize) -> *const f32 {
        self.parameters.wrapping_add(position)
    }

    fn gradient(&self, position: usize) -> *mut f32 {
        self.gradients.wrapping_add(position)
    }

    /// Brings the images of the block into the arena.
    ///
    /// # Safety
    /// The arena belongs to the program; the source has the images of this block.
    pub unsafe fn load(&self, source: Source<'_>) {
        let size = self.program.plan.input_shape.len();
        let to = self.at(self.program.plan.input);
        match source {
            Source::Floats(values) => {
                let from = values[self.first_image * size..][..self.images * size].as_ptr();
                // SAFETY: these are the images, and the input has `size` vectors in the arena.
                unsafe { gather::run_gather(self.isa, from, self.images, size, to) }
            }
            Source::Bytes {
                images,
                tables,
                visits,
            } => {
                // SAFETY: the input has `size` vectors in the arena.
                let out = unsafe { std::slice::from_raw_parts_mut(to.cast(), size) };
                let visits = &visits[self.first_image..][..self.images];
                gather::gather_visits(images, tables, visits, out);
            }
        }
    }

    /// Runs some steps of the program.
    ///
    /// # Safety
    /// The arena belongs to the program, and parameters, gradients and transformed weights are
    /// those of its plan.
    pub unsafe fn run(&self, steps: &[Step]) -> BatchResult {
        let mut result = BatchResult::default();
        for step in steps {
            // SAFETY: the slots of an operation lie inside the arena and do not overlap unless it
            // may work in place; the scratch memory is large enough for every step.
            unsafe {
                match step {
                    Step::Op(Op::Loss { logits, gradient }) => {
                        let (logits, gradient) = (self.at(*logits), self.at(*gradient));
                        let classes = self.program.plan.classes;
                        let (loss, correct) =
                            simple::loss(logits, classes, self.labels, self.weight, gradient);
                        result.loss += loss;
                        result.correct += correct;
                    }
                    Step::Op(op) => self.op(op),
                    Step::ConvPool {
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
                    Step::PoolBackward {
                        pool,
                        winner,
                        dy,
                        dx,
                    } => {
                        let [winner, dy, dx] = [winner, dy, dx].map(|slot| self.at(*slot));
                        simple::run_window_gradient(self.isa, pool, winner, dy, dx);
                    }
                }
            }
        }
        result
    }

    /// Runs a step of the backward pass without the gradients of its weights.
    ///
    /// # Safety
    /// As for [`run`](Self::run), but there need be no gradients.
    ///
    /// # Panics
    /// For FRN, which has [`frn_backward`](Self::frn_backward).
    pub unsafe fn pull_back(&self, step: &Step) {
        // SAFETY: as there.
        unsafe {
            match step {
                Step::Op(Op::ConvBackward { conv, dy, dx, .. }) => {
                    self.conv_input(conv, self.at(*dy), *dx);
                }
                Step::Op(Op::LinearBackward { dense, dy, dx, .. }) => {
                    self.linear_input(dense, self.at(*dy), *dx);
                }
                Step::Op(Op::FrnBackward { .. }) => unreachable!("FRN has a call of its own"),
                step => {
                    self.run(std::slice::from_ref(step));
                }
            }
        }
    }

    /// Gradients of some channels of an FRN.
    ///
    /// # Safety
    /// As for [`run`](Self::run); the gradients of the parameters have room.
    pub unsafe fn frn_backward(
        &self,
        (frn, channels): (&Frn, Range<usize>),
        [x, dy]: [&Slot; 2],
        dx: Option<Target>,
        gradients: FrnGradients,
    ) {
        let first = channels.start;
        let shape = Shape {
            channels: channels.len(),
            ..frn.shape
        };
        let offset = first * shape.plane() * LANES;
        // SAFETY: see `run`; the channels are those of the FRN.
        unsafe {
            simple::run_frn_backward(
                self.isa,
                shape,
                (
                    self.at(*x).add(offset),
                    self.at(frn.scale).add(first * LANES),
                    self.at(*dy).add(offset),
                ),
                frn.parameters.map(|p| self.parameter(p + first)),
                gradients,
                dx.map(|d| self.at(d.slot).add(offset)),
                dx.is_some_and(|d| d.accumulate),
            );
        }
    }

    unsafe fn op(&self, op: &Op) {
        let isa = self.isa;
        let at = |slot: &Slot| self.at(*slot);
        // SAFETY: see `run`.
        unsafe {
            match op {
                Op::Conv { conv, x, y, relu } => self.conv(conv, at(x), at(y), *relu),
                Op::ConvBackward { conv, x, dy, dx } => {
                    self.conv_backward(conv, at(x), at(dy), *dx);
                }
                Op::Linear { dense, x, y, relu } => self.linear(dense, at(x), at(y), *relu),
                Op::LinearBackward { dense, x, dy, dx } => {
                    self.linear_backward(dense, at(x), at(dy), *dx);
                }
                Op::Frn {
                    frn,
                    fresh,
                    x,
                    y,
                    add,
                } => {
                    let parameters = frn.parameters.map(|p| self.parameter(p));
                    let add = add.map(|slot| self.at(slot).cast_const());
                    let scale = self.at(frn.scale);
                    simple::run_frn(isa, frn.shape, fresh, at(x), parameters, at(y), scale, add);
                }
                Op::FrnBackward { frn, x, dy, dx } => {
                    let gradients = frn.parameters.map(|p| self.gradient(p));
                    let all = 0..frn.shape.channels;
                    let gradients = FrnGradients::Summed(gradients);
                    self.frn_backward((frn, all), [x, dy], *dx, gradients);
                }
                Op::Relu { len, x, y } => simple::run_relu(isa, *len, at(x), at(y)),
                Op::ReluBackward { len, y, dy, dx } => {
                    simple::run_relu_backward(
                        isa,
                        *len,
                        at(y),
                        at(dy),
                        at(&dx.slot),
                        dx.accumulate,
                    );
                }
                Op::MaxPool { pool, x, y } => simple::run_max_pool(isa, pool, at(x), at(y)),
                Op::MaxPoolBackward {
                    pool,
                    x,
                    y,
                    dy,
                    dx,
                    relu,
                } => {
                    let values = (at(x).cast_const(), at(y).cast_const(), at(dy).cast_const());
                    let to = at(&dx.slot);
                    simple::run_max_pool_backward(isa, pool, values, to, *relu, dx.accumulate);
                }
                Op::AvgPool { pool, x, y } => simple::run_avg_pool(isa, pool, at(x), at(y)),
                Op::AvgPoolBackward { pool, dy, dx } => {
                    simple::run_avg_pool_backward(isa, pool, at(dy), at(&dx.slot), dx.accumulate);
                }
                Op::Dropout { dropout, len, x, y } => self.dropout(dropout, *len, at(x), *y),
                Op::Add { len, x, y, out } => simple::run_add(isa, *len, at(x), at(y), at(out)),
                Op::Copy { len, from, to } => {
                    let (from, slot) = (at(from), at(&to.slot));
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

    unsafe fn linear(&self, dense: &Dense, x: *const f32, y: *mut f32, relu: bool) {
        let t = Taps::dense(dense.inputs, (LANES, 0), (dense.inputs, 1), (LANES, 0));
        let start = Start::bias(dense.bias.map(|b| self.parameter(b)));
        let w = self.parameter(dense.weight);
        // SAFETY: see `run`.
        unsafe { taps::run_row(self.isa, &t, dense.outputs, 1, x, w, y, start, relu) }
    }

    unsafe fn linear_backward(
        &self,
        dense: &Dense,
        x: *const f32,
        dy: *const f32,
        dx: Option<Target>,
    ) {
        let isa = self.isa;
        let Dense {
            inputs, outputs, ..
        } = *dense;
        // SAFETY: see `run`.
        unsafe {
            if let Some(bias) = dense.bias {
                outer::run_plane_sums(isa, dy, outputs, 1, self.gradient(bias));
            }
            let stride = inputs.next_multiple_of(LANES);
            simple::run_scatter(isa, x, inputs, stride, self.scratch());
            let dw = self.gradient(dense.weight);
            taps::run_dense_gradient(isa, self.scratch(), stride, dy, dw, outputs, inputs);
            self.linear_input(dense, dy, dx);
        }
    }

    unsafe fn linear_input(&self, dense: &Dense, dy: *const f32, dx: Option<Target>) {
        let Some(dx) = dx else { return };
        let t = Taps::dense(dense.outputs, (LANES, 0), (1, dense.inputs), (LANES, 0));
        let start = Start::accumulate(dx.accumulate);
        let (w, to) = (self.parameter(dense.weight), self.at(dx.slot));
        // SAFETY: see `run`.
        unsafe { taps::run_row(self.isa, &t, dense.inputs, 1, dy, w, to, start, false) }
    }

    unsafe fn dropout(&self, dropout: &Dropout, len: usize, x: *const f32, y: Target) {
        let (keys, threshold, factor) = match self.mode.seed(dropout.always_on) {
            Some(seed) => (
                std::array::from_fn(|lane| {
                    let image = if lane < self.images { lane } else { 0 };
                    dropout_key(seed, dropout.layer, self.first_image + image)
                }),
                dropout_threshold(dropout.rate),
                (1.0 / (1.0 - dropout.rate)) as f32,
            ),
            None => ([0; LANES], 0, 1.0),
        };
        let to = self.at(y.slot);
        // SAFETY: see `run`.
        unsafe {
            simple::run_dropout(self.isa, len, x, to, &keys, threshold, factor, y.accumulate);
        }
    }

    unsafe fn conv(&self, conv: &Convolution, x: *const f32, y: *mut f32, relu: bool) {
        let (isa, shape) = (self.isa, &conv.shape);
        let bias = conv.bias.map(|b| self.parameter(b));
        // SAFETY: see `run`.
        unsafe {
            if let Some(transformed) = self.program.winograd[conv.number] {
                let start = Start::bias(bias);
                let weights = self.transformed.add(transformed.forward);
                let output = winograd::Output::Plain { y, start, relu };
                winograd::convolve(
                    isa,
                    (shape.input, shape.output),
                    (shape.padding.top, shape.padding.left),
                    (x, weights),
                    output,
                    self.scratch(),
                );
            } else {
                let values = (x, self.parameter(conv.weight), bias);
                conv::forward(isa, shape, values, y, relu, self.scratch());
            }
        }
    }

    unsafe fn conv_pool(&self, conv: &Convolution, x: *const f32, to: &Pooled) {
        let (isa, shape) = (self.isa, &conv.shape);
        let bias = conv.bias.map(|b| self.parameter(b));
        // SAFETY: see `run`.
        unsafe {
            if let Some(transformed) = self.program.winograd[conv.number] {
                let weights = self.transformed.add(transformed.forward);
                winograd::convolve(
                    isa,
                    (shape.input, shape.output),
                    (shape.padding.top, shape.padding.left),
                    (x, weights),
                    winograd::Output::Pooled { bias, to },
                    self.scratch(),
                );
            } else {
                let values = (x, self.parameter(conv.weight), bias);
                conv::forward_pooled(isa, shape, values, to, self.scratch());
            }
        }
    }

    unsafe fn conv_backward(
        &self,
        conv: &Convolution,
        x: *const f32,
        dy: *const f32,
        dx: Option<Target>,
    ) {
        let (isa, shape) = (self.isa, &conv.shape);
        let dw = self.gradient(conv.weight);
        let db = conv.bias.map(|b| self.gradient(b));
        // SAFETY: see `run`.
        unsafe {
            if self.program.winograd[conv.number].is_none() {
                conv::weight_gradient(isa, shape, (x, dy), dw, db, self.scratch());
            } else {
                if let Some(db) = db {
                    outer::run_plane_sums(isa, dy, shape.output.channels, shape.output.plane(), db);
                }
                let shapes = (shape.input, shape.output);
                let before = (shape.padding.top, shape.padding.left);
                winograd::weight_gradient(isa, shapes, before, (x, dy), dw, self.scratch());
            }
            self.conv_input(conv, dy, dx);
        }
    }

    unsafe fn conv_input(&self, conv: &Convolution, dy: *const f32, dx: Option<Target>) {
        let (isa, shape) = (self.isa, &conv.shape);
        let Some(dx) = dx else { return };
        let before = (shape.padding.top, shape.padding.left);
        // SAFETY: see `run`.
        unsafe {
            let Some(transformed) = self.program.winograd[conv.number] else {
                let (values, to) = ((dy, self.parameter(conv.weight)), self.at(dx.slot));
                conv::input_gradient(isa, shape, values, to, dx.accumulate, self.scratch());
                return;
            };
            winograd::convolve(
                isa,
                (shape.output, shape.input),
                (2 - before.0, 2 - before.1),
                (dy, self.transformed.add(transformed.backward)),
                winograd::Output::Plain {
                    y: self.at(dx.slot),
                    start: Start::accumulate(dx.accumulate),
                    relu: false,
                },
                self.scratch(),
            );
        }
    }
}
