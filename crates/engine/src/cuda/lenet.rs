//! LeNet from pixels to gradients inside a thread block, in f32: the kernels of `lenet.cu`.

use super::kernels::Source;
use super::program::{Argument, Program};
use super::table::Lenet;
use super::{layer_number, recognize};
use crate::dropout::dropout_threshold;
use crate::network::Network;
use crate::zoo;

/// Most classes that the kernels have room for.
const CLASSES: usize = 32;
/// Parameters of the two convolutions.
const CONVOLUTIONS: usize = 2572;
/// Bytes of shared memory of an image.
const IMAGE: usize =
    4 * (1056 + 6 * 146 + 864 + 256 + 120 + 84 + 32 + 32 + 84 + 120) + 8 * (256 + 590) + 864;
/// Bytes of shared memory of the weights but those of the second convolution.
const WEIGHTS: usize = 4 * (25 * 8 + 2 * 2336);
/// Bytes of these, in whose place gradients come later.
const AREA: usize = 4 * 150 * 20;
/// From so many runs on a block takes two images, and the dense layers' gradients larger tiles. No
/// sum depends on it.
const MANY: usize = 4;

/// The program of LeNet for at most `batch` images, for `runs` runs; none for another network, or a
/// card with too little shared memory.
pub(super) fn program(
    network: &Network,
    batch: usize,
    shared: usize,
    runs: usize,
) -> Option<Program> {
    let rate = recognize(network, zoo::lenet, zoo::lenet_dropout)?;
    let classes = network.classes();
    let layer = |name| layer_number(network, name);
    let mut at = 0;
    let mut place = |width: usize| {
        let place = at;
        at += batch * width;
        place as i64
    };
    let net = Lenet {
        classes: classes as i32,
        layer1: layer("fc1.dropout"),
        layer2: layer("fc2.dropout"),
        threshold: dropout_threshold(rate),
        factor: (1.0 / (1.0 - rate)) as f32,
        reserved: 0,
        features: place(256),
        hidden1: place(120),
        hidden2: place(84),
        delta1: place(120),
        delta2: place(84),
        delta3: place(classes),
        loss: place(1),
        correct: place(1),
        partial: 0,
    };
    let many = runs >= MANY;
    let (images, kernel) = if many { (2, "lenet2") } else { (1, "lenet1") };
    let bytes = images * IMAGE + WEIGHTS + AREA.max(images * 8 * 864) + 8;
    let (outputs, gradients) = if many {
        (32, "lenet_gradients32")
    } else {
        (8, "lenet_gradients8")
    };
    if bytes > shared || classes > CLASSES {
        return None;
    }
    let tiles = 2 * 120usize.div_ceil(outputs) + 84usize.div_ceil(outputs);
    Some(Program {
        calls: vec![
            Source::Lenet.call(
                kernel,
                [batch.div_ceil(images), 1],
                320,
                bytes,
                [Argument::Runs, Argument::Images, net.into()],
            ),
            Source::Lenet.call(
                gradients,
                [21 + tiles + classes.div_ceil(outputs), 1],
                512,
                4 * 128 * (128 + outputs),
                [Argument::Runs, net.into()],
            ),
        ],
        values: at,
        partial: batch * CONVOLUTIONS,
        loss: net.loss,
        correct: net.correct,
        ..Program::default()
    })
}
