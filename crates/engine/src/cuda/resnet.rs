//! ResNet-20 with FRN, one kernel per stage and direction: the kernels of `resnet.cu`, which say
//! what the offsets mean that are settled here.

use super::kernels::Source;
use super::program::{Argument, BLOCK, Call, Place, Program};
use super::table::{Head, Plain, Prepare, Stage};
use super::{layer_number, recognize};
use crate::dropout::dropout_threshold;
use crate::network::Network;
use crate::zoo;

/// Most classes: the gradients of the dense layer fit the grid of the sums.
const CLASSES: usize = 512;
/// Side and channels of the stages, and images of a block of threads.
const STAGES: [(usize, usize, usize); 3] = [(32, 16, 1), (16, 32, 1), (8, 64, 2)];
/// Channels and pixels before the dense layer.
const LAST: usize = 64;
/// Threads of a stage.
const THREADS: usize = 512;
/// Blocks of `prepare` per convolution.
const PREPARE_BLOCKS: usize = 20;
/// Blocks of `resnet_reduce`: the numbers of the largest convolution, two a thread.
const REDUCE_BLOCKS: usize = (64 * 64 * 9 + 4 * 64usize).div_ceil(2 * BLOCK);

/// Names of the kernels in one precision.
struct Names {
    prepare: &'static str,
    forward: [&'static str; 3],
    predict: [&'static str; 3],
    backward: [&'static str; 3],
}

const F32: Names = Names {
    prepare: "prepare_f32",
    forward: [
        "stage1_forward_f32",
        "stage2_forward_f32",
        "stage3_forward_f32",
    ],
    predict: [
        "stage1_predict_f32",
        "stage2_predict_f32",
        "stage3_predict_f32",
    ],
    backward: [
        "stage1_backward_f32",
        "stage2_backward_f32",
        "stage3_backward_f32",
    ],
};
const TF32: Names = Names {
    prepare: "prepare_tf32",
    forward: [
        "stage1_forward_tf32",
        "stage2_forward_tf32",
        "stage3_forward_tf32",
    ],
    predict: [
        "stage1_predict_tf32",
        "stage2_predict_tf32",
        "stage3_predict_tf32",
    ],
    backward: [
        "stage1_backward_tf32",
        "stage2_backward_tf32",
        "stage3_backward_tf32",
    ],
};

/// Where the next things go: parameters, rearranged weights, and gradients of an image.
#[derive(Default)]
struct Places {
    /// Whether there is no way back.
    forward_only: bool,
    parameters: usize,
    prepared: usize,
    gradients: usize,
    /// Images of a block of threads in this stage.
    together: usize,
    table: Vec<Prepare>,
}

impl Places {
    /// A convolution with bias and FRN, whose input is padded to so many channels; `back` if its
    /// input needs a gradient.
    fn conv(&mut self, out: usize, inputs: usize, kernel: usize, padded: usize, back: bool) {
        let taps = kernel * kernel;
        let mut row = Prepare {
            weight: self.parameters as i32,
            out: out as i32,
            inputs: inputs as i32,
            padded: padded as i32,
            taps: taps as i32,
            forward: self.prepared as i32,
            backward: -1,
            partial: self.gradients as i32,
            together: self.together as i32,
            reserved: 0,
        };
        self.gradients += out * padded * taps + 4 * out;
        self.prepared += padded * taps * out;
        if back {
            // the kernels count on the room, used or not
            if !self.forward_only {
                row.backward = self.prepared as i32;
            }
            self.prepared += out * taps * inputs;
        }
        self.parameters += out * inputs * taps + 4 * out;
        self.table.push(row);
    }

    /// The convolutions of a stage.
    fn stage(&mut self, stage: usize) {
        let (_, channels, together) = STAGES[stage];
        self.together = together;
        if stage == 0 {
            self.conv(channels, 3, 3, 8, false);
        } else {
            let before = channels / 2;
            self.conv(channels, before, 3, before, true);
            self.conv(channels, channels, 3, channels, true);
            self.conv(channels, before, 1, before, true);
        }
        for _ in usize::from(stage > 0)..3 {
            self.conv(channels, channels, 3, channels, true);
            self.conv(channels, channels, 3, channels, true);
        }
    }
}

/// Numbers of the dropout layers of a stage, two per block.
fn drop_layers(network: &Network, stage: usize) -> [i32; 6] {
    std::array::from_fn(|i| {
        let (stage, block, number) = (stage + 1, i / 2 + 1, i % 2 + 1);
        let name = format!("stage{stage}.block{block}.dropout{number}");
        layer_number(network, &name)
    })
}

/// Bytes of shared memory of a stage.
fn shared_bytes(stage: usize) -> usize {
    let (side, channels, images) = STAGES[stage];
    let plane = (side + 2) * (side + 4);
    // warps that have the same channels, and channels whose weights are held
    let (pixel_warps, piece) = (256 / channels, channels.min(32));
    // planes and, in their place, two tensors, or two parts of the gradient of half of a
    // convolution of stride 2
    let quarters = if stage == 0 { plane } else { 2 * plane };
    let parts = if images > 1 { 9 * channels / images } else { 0 };
    let first = quarters
        .max(images * plane)
        .max(2 * images * side * side)
        .max(parts);
    let tables = 4 * (pixel_warps + images) + 7 * (4 + images);
    4 * channels * (images * plane + first + 9 * piece + tables)
}

/// Rate of the dropout, and bytes of shared memory of the stages; none for another network, or a
/// card with too little of it.
fn fits(network: &Network, shared: usize) -> Option<(f64, [usize; 3])> {
    let rate = recognize(network, zoo::resnet20, zoo::resnet20_dropout)?;
    let bytes = [0, 1, 2].map(shared_bytes);
    let fits = network.classes() <= CLASSES && bytes.iter().all(|&bytes| bytes <= shared);
    fits.then_some((rate, bytes))
}

/// What all stages of a network are told.
fn stage(network: &Network, number: usize, batch: usize, rate: f64, places: &Places) -> Stage {
    Stage {
        batch: batch as i32,
        parameters: places.parameters as i32,
        prepared: places.prepared as i32,
        gradients: places.gradients as i32,
        drop_layers: drop_layers(network, number),
        threshold: dropout_threshold(rate),
        factor: (1.0 / (1.0 - rate)) as f32,
        ..Stage::default()
    }
}

/// Prediction by ResNet-20 of at most `batch` images; none for another network, or a card with too
/// little shared memory.
pub(super) fn predicting(
    network: &Network,
    batch: usize,
    shared: usize,
    tf32: bool,
) -> Option<Program> {
    let (rate, bytes) = fits(network, shared)?;
    let mut places = Places {
        forward_only: true,
        ..Places::default()
    };
    let (mut values, mut source) = (0, 0);
    let mut stages = Vec::new();
    for (number, (side, channels, together)) in STAGES.into_iter().enumerate() {
        // what a block adds to, and the stage's output
        let own = batch.next_multiple_of(together);
        let size = own * channels * side * side;
        stages.push(Stage {
            values: values as i64,
            input: source as i64,
            ..stage(network, number, own, rate, &places)
        });
        source = values + size;
        values += 2 * size;
        places.stage(number);
    }
    let classes = network.classes();
    let (logits, means) = (values, values + batch * classes);
    let head = Head {
        batch: batch as i32,
        classes: classes as i32,
        weight: places.parameters as i32,
        predict: 1,
        x: source as i64,
        dx: means as i64,
        logits: logits as i64,
        ..Head::default()
    };
    let names = if tf32 { TF32 } else { F32 };
    let place = |at: usize, width: usize| Place {
        at: at as i64,
        stride: width,
        width,
    };
    let convolutions = places.table.len();
    Some(Program {
        calls: forward_calls(&names, &names.predict, &stages, head, convolutions, bytes),
        values: means + batch * LAST,
        prepared: places.prepared,
        table: places.table.iter().flat_map(Plain::words).collect(),
        logits: place(logits, classes),
        features: place(means, LAST),
        ..Program::default()
    })
}

/// The program of ResNet-20 for at most `batch` images; none for another network, or a card with
/// too little shared memory.
pub(super) fn program(
    network: &Network,
    batch: usize,
    shared: usize,
    tf32: bool,
) -> Option<Program> {
    let classes = network.classes();
    let (rate, bytes) = fits(network, shared)?;
    let mut places = Places::default();
    let (mut values, mut source, mut source_gradient) = (0, 0, 0);
    let mut stages = Vec::new();
    for (number, (side, channels, together)) in STAGES.into_iter().enumerate() {
        let own = batch.next_multiple_of(together);
        let size = own * channels * side * side;
        stages.push(Stage {
            values: values as i64,
            roots: (values + 13 * size) as i64,
            input: source as i64,
            input_gradient: source_gradient as i64,
            ..stage(network, number, own, rate, &places)
        });
        (source, source_gradient) = (values + 9 * size, values + 11 * size);
        values += 13 * size + 7 * own * channels;
        places.stage(number);
    }
    let dense = (LAST + 1) * classes;
    let slice = (places.gradients + dense).next_multiple_of(4);
    let head = Head {
        batch: batch as i32,
        classes: classes as i32,
        weight: places.parameters as i32,
        slice: slice as i32,
        gradients: places.gradients as i32,
        predict: 0,
        x: source as i64,
        dx: source_gradient as i64,
        loss: values as i64,
        correct: (values + batch) as i64,
        logits: (values + 2 * batch) as i64,
        partial: 0,
    };
    places.table.push(Prepare {
        weight: places.parameters as i32,
        out: dense as i32,
        backward: -1,
        partial: places.gradients as i32,
        together: 1,
        ..Prepare::default()
    });
    for stage in &mut stages {
        stage.slice = slice as i32;
    }
    let names = if tf32 { TF32 } else { F32 };
    Some(Program {
        calls: calls(&names, &stages, head, places.table.len(), bytes),
        values: values + batch * (2 + classes),
        partial: batch * slice,
        prepared: places.prepared,
        table: places.table.iter().flat_map(Plain::words).collect(),
        loss: head.loss,
        correct: head.correct,
        ..Program::default()
    })
}

/// A call of a stage.
fn stage_call(kernel: &'static str, number: usize, stage: &Stage, shared: usize) -> Call {
    let arguments = vec![Argument::Runs, Argument::Images, (*stage).into()];
    let grid = [stage.batch as usize / STAGES[number].2, 1];
    Source::Resnet.call(kernel, grid, THREADS, shared, arguments)
}

/// Weights rearranged, the stages forward by these kernels, the head.
fn forward_calls(
    names: &Names,
    kernels: &[&'static str; 3],
    stages: &[Stage],
    head: Head,
    convolutions: usize,
    shared: [usize; 3],
) -> Vec<Call> {
    let prepare = vec![Argument::Runs, Argument::Table(0)];
    let grid = [PREPARE_BLOCKS, convolutions];
    let mut all = vec![Source::Resnet.call(names.prepare, grid, BLOCK, 0, prepare)];
    all.extend((0..3).map(|i| stage_call(kernels[i], i, &stages[i], shared[i])));
    let arguments = vec![Argument::Runs, Argument::Images, head.into()];
    let bytes = 4 * (LAST + 2 * head.classes as usize);
    let grid = [head.batch as usize, 1];
    all.push(Source::Resnet.call("resnet_head", grid, BLOCK, bytes, arguments));
    all
}

/// The way forward, the stages backward, the sums over images.
fn calls(
    names: &Names,
    stages: &[Stage],
    head: Head,
    rows: usize,
    shared: [usize; 3],
) -> Vec<Call> {
    // the last row of the table is the dense layer, which is not rearranged
    let mut all = forward_calls(names, &names.forward, stages, head, rows - 1, shared);
    let backward = (0..3).rev();
    all.extend(backward.map(|i| stage_call(names.backward[i], i, &stages[i], shared[i])));
    let reduce = vec![
        Argument::Runs,
        Argument::Table(0),
        head.partial.into(),
        head.slice.into(),
    ];
    all.push(Source::Resnet.call("resnet_reduce", [REDUCE_BLOCKS, rows], BLOCK, 0, reduce));
    all
}
