//! Any network, layer by layer, from the kernels of `layers.cu`: one to three calls per operation
//! of the plan. Values are `[image, ...]`, as far apart as the buffer is long that holds them.
//!
//! Sums over images go through partial sums of fixed groups, whose size depends on the layer alone.

use super::kernels::Source;
use super::program::{Argument, BLOCK, Place, Program};
use super::table::{Conv, Flat, Frn, Loss, Plain, Pool, Segment};
use crate::dropout::dropout_threshold;
use crate::network::{Conv as Shapes, Padding, Pool as Windows, Shape};
use crate::plan::{Convolution, Dense, Dropout, Frn as Norm, Op, Plan, Slot, Target};

/// Columns of a tile of a product.
const COLUMNS: usize = 128;
/// Bytes of shared memory of a convolution: sixteen rows of its two tiles.
const CONV_SHARED: usize = 4 * 16 * (72 + 136);
/// Pixels that a block sums for the gradient of the weights, roughly.
const GROUP_PIXELS: usize = 1024;
/// Most images of a partial sum.
const GROUP_IMAGES: usize = 16;
/// Output channels of a tile of the weights' gradient.
const WEIGHT_ROWS: usize = 16;

/// A place of the plan on the card.
#[derive(Clone, Copy)]
struct At {
    at: i64,
    stride: i32,
}

/// A program in the making.
struct Builder<'a> {
    plan: &'a Plan,
    batch: usize,
    tf32: bool,
    /// Where each buffer begins, in numbers per image.
    offsets: Vec<usize>,
    program: Program,
    segments: Vec<Segment>,
}

/// The plan for at most `batch` images at a time.
pub(super) fn program(plan: &Plan, batch: usize, tf32: bool) -> Program {
    let (offsets, total) = plan.places(0);
    let mut builder = Builder {
        plan,
        batch,
        tf32,
        offsets,
        program: Program {
            values: batch * (total + 2),
            loss: (batch * total) as i64,
            correct: (batch * (total + 1)) as i64,
            ..Program::default()
        },
        segments: Vec::new(),
    };
    let size = plan.input_shape.len();
    let input = builder.at(plan.input);
    builder.call(
        "gather",
        [size.div_ceil(BLOCK), batch],
        [Argument::Runs, Argument::Images, input.at.into()],
    );
    for op in &plan.ops {
        builder.op(op);
    }
    if plan.is_training() {
        builder.reduce();
    }
    let place = |slot: Slot, width: usize| Place {
        at: builder.at(slot).at,
        stride: plan.buffers[slot.buffer],
        width,
    };
    let logits = place(plan.logits, plan.classes);
    let features = place(plan.features.0, plan.features.1);
    Program {
        logits,
        features,
        ..builder.program
    }
}

impl Builder<'_> {
    fn at(&self, slot: Slot) -> At {
        At {
            at: (self.batch * self.offsets[slot.buffer] + slot.offset) as i64,
            stride: self.plan.buffers[slot.buffer] as i32,
        }
    }

    /// A call with blocks of the usual size.
    fn call<const N: usize>(
        &mut self,
        kernel: &'static str,
        grid: [usize; 2],
        arguments: [Argument; N],
    ) {
        self.call_with(kernel, grid, (BLOCK, 0), arguments);
    }

    /// A call with so many threads and bytes of shared memory.
    fn call_with<const N: usize>(
        &mut self,
        kernel: &'static str,
        grid: [usize; 2],
        (threads, shared): (usize, usize),
        arguments: [Argument; N],
    ) {
        let call = Source::Layers.call(kernel, grid, threads, shared, arguments);
        self.program.calls.push(call);
    }

    /// Room for partial sums of parameters that follow each other, `slots` of them over groups of
    /// so many images.
    fn partial(&mut self, parameter: usize, count: usize, slots: usize, group: usize) -> i64 {
        let partial = self.program.partial as i64;
        self.segments.push(Segment {
            partial,
            gradient: parameter as i32,
            count: count as i32,
            stride: count as i32,
            group: group as i32,
        });
        self.program.partial += slots * count;
        partial
    }

    /// Adds the partial sums of all parameters.
    fn reduce(&mut self) {
        let most = self.segments.iter().map(|s| s.count).max().unwrap_or(0) as usize;
        let grid = [most.div_ceil(BLOCK), self.segments.len()];
        if grid[0] > 0 {
            self.call("reduce", grid, [Argument::Runs, Argument::Table(0)]);
        }
        self.program.table = self.segments.iter().flat_map(Plain::words).collect();
    }

    fn op(&mut self, op: &Op) {
        match op {
            Op::Conv { conv, x, y, relu } => {
                let (x, y) = (self.at(*x), self.at(*y));
                self.forward(conv, self.tf32, x, y, *relu);
            }
            Op::Linear { dense, x, y, relu } => {
                let (x, y) = (self.at(*x), self.at(*y));
                self.forward(&convolution(dense), false, x, y, *relu);
            }
            Op::ConvBackward { conv, x, dy, dx } => {
                let (x, dy) = (self.at(*x), self.at(*dy));
                self.backward(conv, self.tf32, x, dy, *dx);
            }
            Op::LinearBackward { dense, x, dy, dx } => {
                let (x, dy) = (self.at(*x), self.at(*dy));
                self.backward(&convolution(dense), false, x, dy, *dx);
            }
            Op::Frn { frn, x, y, add, .. } => self.frn(frn, *x, *y, *add),
            Op::FrnBackward { frn, x, dy, dx } => self.frn_backward(frn, *x, *dy, *dx),
            Op::Relu { len, x, y } => self.flat("relu_forward", *len, [*x, *y, *y], None, false),
            Op::ReluBackward { len, y, dy, dx } => {
                let slots = [*y, *dy, dx.slot];
                self.flat("relu_backward", *len, slots, None, dx.accumulate);
            }
            Op::Add { len, x, y, out } => self.flat("add", *len, [*x, *y, *out], None, false),
            Op::Copy { len, from, to } => {
                self.flat("copy", *len, [*from, to.slot, to.slot], None, to.accumulate);
            }
            Op::Dropout { dropout, len, x, y } => {
                let slots = [*x, y.slot, y.slot];
                self.flat("dropout", *len, slots, Some(dropout), y.accumulate);
            }
            Op::MaxPool { pool, x, y } => {
                let target = (*y, false, false);
                self.pool("max_pool_forward", pool, *x, *y, target);
            }
            Op::AvgPool { pool, x, y } => {
                let target = (*y, false, false);
                self.pool("avg_pool_forward", pool, *x, *y, target);
            }
            Op::MaxPoolBackward {
                pool,
                x,
                dy,
                dx,
                relu,
                ..
            } => {
                let target = (dx.slot, dx.accumulate, *relu);
                self.pool("max_pool_backward", pool, *x, *dy, target);
            }
            Op::AvgPoolBackward { pool, dy, dx } => {
                let target = (dx.slot, dx.accumulate, false);
                self.pool("avg_pool_backward", pool, dx.slot, *dy, target);
            }
            Op::Loss { logits, gradient } => self.loss(*logits, *gradient),
        }
    }

    fn conv(&self, conv: &Convolution, x: At, y: At) -> Conv {
        let shape = &conv.shape;
        let size = |value: usize| value as i32;
        let taps = shape.kernel * shape.kernel;
        let weights = shape.output.channels * shape.input.channels * taps;
        let after = conv.bias.is_none_or(|bias| bias == conv.weight + weights);
        assert!(after, "the bias follows its weights");
        Conv {
            in_c: size(shape.input.channels),
            in_h: size(shape.input.height),
            in_w: size(shape.input.width),
            out_c: size(shape.output.channels),
            out_h: size(shape.output.height),
            out_w: size(shape.output.width),
            kernel: size(shape.kernel),
            stride: size(shape.stride),
            top: size(shape.padding.top),
            left: size(shape.padding.left),
            weight: size(conv.weight),
            bias: conv.bias.map_or(-1, size),
            group: size((GROUP_PIXELS / shape.output.plane()).clamp(1, GROUP_IMAGES)),
            x_stride: x.stride,
            y_stride: y.stride,
            x: x.at,
            y: y.at,
            ..Conv::default()
        }
    }

    fn forward(&mut self, conv: &Convolution, tf32: bool, x: At, y: At, relu: bool) {
        let call = Conv {
            relu: i32::from(relu),
            ..self.conv(conv, x, y)
        };
        let output = conv.shape.output;
        let (rows, kernel) = match (output.channels > 16, tf32) {
            (false, false) => (16, "conv_forward16_f32"),
            (true, false) => (64, "conv_forward64_f32"),
            (false, true) => (16, "conv_forward16_tf32"),
            (true, true) => (64, "conv_forward64_tf32"),
        };
        let columns = (self.batch * output.plane()).div_ceil(COLUMNS);
        let grid = [columns, output.channels.div_ceil(rows)];
        let arguments = [Argument::Runs, call.into()];
        self.call_with(kernel, grid, (COLUMNS, CONV_SHARED), arguments);
    }

    fn backward(&mut self, conv: &Convolution, tf32: bool, x: At, dy: At, dx: Option<Target>) {
        let (input, output) = (conv.shape.input, conv.shape.output);
        if let Some(dx) = dx {
            let call = Conv {
                accumulate: i32::from(dx.accumulate),
                ..self.conv(conv, self.at(dx.slot), dy)
            };
            let (rows, kernel) = match (input.channels > 16, tf32) {
                (false, false) => (16, "conv_input16_f32"),
                (true, false) => (64, "conv_input64_f32"),
                (false, true) => (16, "conv_input16_tf32"),
                (true, true) => (64, "conv_input64_tf32"),
            };
            let columns = (self.batch * input.plane()).div_ceil(COLUMNS);
            let grid = [columns, input.channels.div_ceil(rows)];
            let arguments = [Argument::Runs, call.into()];
            self.call_with(kernel, grid, (COLUMNS, CONV_SHARED), arguments);
        }
        let mut call = self.conv(conv, x, dy);
        let taps = conv.shape.kernel * conv.shape.kernel;
        let width = input.channels * taps + usize::from(conv.bias.is_some());
        let slots = self.batch.div_ceil(call.group as usize);
        let count = output.channels * width;
        call.partial = self.partial(conv.weight, count, slots, call.group as usize);
        let kernel = ["conv_weights_f32", "conv_weights_tf32"][usize::from(tf32)];
        let tiles = width.div_ceil(COLUMNS) * output.channels.div_ceil(WEIGHT_ROWS);
        let arguments = [Argument::Runs, call.into()];
        self.call_with(kernel, [tiles, slots], (COLUMNS, CONV_SHARED), arguments);
    }

    fn frn_call(&self, frn: &Norm, x: Slot, y: Slot) -> Frn {
        let [gamma, beta, tau] = frn.parameters;
        let channels = frn.shape.channels;
        let follow = beta == gamma + channels && tau == beta + channels;
        assert!(follow, "β and τ follow γ");
        let (x, y) = (self.at(x), self.at(y));
        Frn {
            channels: channels as i32,
            plane: frn.shape.plane() as i32,
            gamma: gamma as i32,
            x_stride: x.stride,
            y_stride: y.stride,
            x: x.at,
            y: y.at,
            dx: -1,
            add: -1,
            ..Frn::default()
        }
    }

    fn frn_launch(&mut self, kernel: &'static str, frn: &Norm, call: Frn) {
        let threads = if frn.shape.plane() > 64 { 128 } else { 32 };
        let grid = [frn.shape.channels, self.batch];
        self.call_with(kernel, grid, (threads, 256), [Argument::Runs, call.into()]);
    }

    fn frn(&mut self, frn: &Norm, x: Slot, y: Slot, add: Option<Slot>) {
        let mut call = self.frn_call(frn, x, y);
        if let Some(add) = add {
            let add = self.at(add);
            (call.add, call.add_stride) = (add.at, add.stride);
        }
        self.frn_launch("frn_forward", frn, call);
    }

    fn frn_backward(&mut self, frn: &Norm, x: Slot, dy: Slot, dx: Option<Target>) {
        let mut call = self.frn_call(frn, x, dy);
        if let Some(dx) = dx {
            let at = self.at(dx.slot);
            (call.dx, call.dx_stride) = (at.at, at.stride);
            call.accumulate = i32::from(dx.accumulate);
        }
        call.partial = self.partial(frn.parameters[0], 3 * frn.shape.channels, self.batch, 1);
        self.frn_launch("frn_backward", frn, call);
    }

    fn flat(
        &mut self,
        kernel: &'static str,
        len: usize,
        slots: [Slot; 3],
        dropout: Option<&Dropout>,
        accumulate: bool,
    ) {
        let [x, y, z] = slots.map(|slot| self.at(slot));
        let mut flat = Flat {
            size: len as i32,
            factor: 1.0,
            x_stride: x.stride,
            y_stride: y.stride,
            z_stride: z.stride,
            accumulate: i32::from(accumulate),
            x: x.at,
            y: y.at,
            z: z.at,
            ..Flat::default()
        };
        if let Some(dropout) = dropout
            && (self.plan.is_training() || dropout.always_on)
        {
            flat.threshold = dropout_threshold(dropout.rate);
            flat.factor = (1.0 / (1.0 - dropout.rate)) as f32;
            flat.layer = dropout.layer as i32;
        }
        let grid = [len.div_ceil(BLOCK), self.batch];
        self.call(kernel, grid, [Argument::Runs, flat.into()]);
    }

    /// `target` is where the gradient goes, whether it is added there, and whether a window without
    /// a positive number passes none on.
    fn pool(
        &mut self,
        kernel: &'static str,
        windows: &Windows,
        x: Slot,
        y: Slot,
        (dx, accumulate, relu): (Slot, bool, bool),
    ) {
        let [x, y, dx] = [x, y, dx].map(|slot| self.at(slot));
        let (input, output) = (windows.input, windows.output);
        let pool = Pool {
            planes: input.channels as i32,
            in_h: input.height as i32,
            in_w: input.width as i32,
            out_h: output.height as i32,
            out_w: output.width as i32,
            kernel_h: windows.height as i32,
            kernel_w: windows.width as i32,
            stride: windows.stride as i32,
            x_stride: x.stride,
            y_stride: y.stride,
            dx_stride: dx.stride,
            accumulate: i32::from(accumulate),
            relu: i32::from(relu),
            reserved: 0,
            x: x.at,
            y: y.at,
            dx: dx.at,
        };
        let forward = kernel.ends_with("forward");
        let written = if forward { output.len() } else { input.len() };
        let grid = [written.div_ceil(BLOCK), self.batch];
        self.call(kernel, grid, [Argument::Runs, pool.into()]);
    }

    fn loss(&mut self, logits: Slot, gradient: Slot) {
        let classes = self.plan.classes;
        for slot in [logits, gradient] {
            let alone = self.plan.buffers[slot.buffer] == classes;
            assert!(alone, "logits have a buffer of their own");
        }
        let loss = Loss {
            classes: classes as i64,
            logits: self.at(logits).at,
            gradient: self.at(gradient).at,
            loss: self.program.loss,
            correct: self.program.correct,
        };
        let arguments = [Argument::Runs, Argument::Images, loss.into()];
        self.call_with("softmax_loss", [self.batch, 1], (32, 0), arguments);
    }
}

/// A dense layer is a 1×1 convolution of 1×1 planes.
fn convolution(dense: &Dense) -> Convolution {
    Convolution {
        shape: Shapes {
            input: Shape::new(dense.inputs, 1, 1),
            output: Shape::new(dense.outputs, 1, 1),
            kernel: 1,
            stride: 1,
            padding: Padding::default(),
        },
        weight: dense.weight,
        bias: dense.bias,
        number: 0,
    }
}
