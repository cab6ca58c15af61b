//! DenseNet with FRN, one kernel per block of layers and direction: the kernels of `densenet.cu`,
//! which say what the offsets mean that are settled here.

use super::kernels::Source;
use super::program::{Argument, BLOCK, Call, Place, Program};
use super::table::{DenseBlock, DenseHead, DensePrepare, DenseSums, Plain};
use super::{layer_number, recognize};
use crate::dropout::dropout_threshold;
use crate::network::Network;
use crate::zoo;

/// Most classes: the head keeps two numbers of each in shared memory.
const CLASSES: usize = 4096;
/// Channels after the first convolution, those that a layer adds, and those in its middle.
const STEM: usize = 24;
const GROWTH: usize = 12;
const MIDDLE: usize = 48;
/// Side of the planes, room for channels, and images of a thread block, for each block of layers.
const BLOCKS: [(usize, usize, usize); 4] = [(32, 96, 1), (16, 192, 1), (8, 384, 2), (4, 384, 4)];
/// Threads of a block of layers, and of the head.
const THREADS: usize = 512;
const WARPS: usize = THREADS / 32;
/// Blocks of `dense_prepare` per convolution.
const PREPARE_BLOCKS: usize = 8;
/// Sums that a thread of `dense_reduce` forms.
const REDUCED: usize = 4;

/// Names of the kernels in one precision.
struct Names {
    prepare: &'static str,
    forward: [&'static str; 4],
    backward: [&'static str; 4],
}

macro_rules! names {
    ($precision:literal) => {
        Names {
            prepare: concat!("dense_prepare_", $precision),
            forward: [
                concat!("dense1_forward_", $precision),
                concat!("dense2_forward_", $precision),
                concat!("dense3_forward_", $precision),
                concat!("dense4_forward_", $precision),
            ],
            backward: [
                concat!("dense1_backward_", $precision),
                concat!("dense2_backward_", $precision),
                concat!("dense3_backward_", $precision),
                concat!("dense4_backward_", $precision),
            ],
        }
    };
}

/// What a network is, if the kernels have it.
struct Net {
    /// Layers of the blocks.
    layers: [usize; 4],
    classes: usize,
    /// Rate of the dropout before the dense layer, 0 without.
    rate: f64,
    dropout: i32,
    tf32: bool,
}

impl Net {
    fn of(network: &Network, shared: usize, tf32: bool) -> Option<Self> {
        let of_121 = || {
            let plain = |classes| zoo::densenet121(classes, None);
            let rate = recognize(network, plain, |c, rate| zoo::densenet121(c, Some(rate)))?;
            Some(([6, 12, 24, 16], rate))
        };
        let of_101 = || {
            let plain = |classes| zoo::densenet101(classes, None);
            let rate = recognize(network, plain, |c, rate| zoo::densenet101(c, Some(rate)))?;
            Some(([6, 12, 24, 8], rate))
        };
        let (layers, rate) = of_121().or_else(of_101)?;
        let classes = network.classes();
        let fits = (0..4).all(|block| {
            let (forward, backward) = shared_bytes(block);
            forward.max(backward) <= shared
        });
        (fits && classes <= CLASSES).then(|| Self {
            layers,
            classes,
            rate,
            dropout: layer_number(network, "dropout"),
            tf32,
        })
    }
}

/// Bytes of shared memory of a block of layers, forward and backward, as `BlockOf` counts them.
fn shared_bytes(block: usize) -> (usize, usize) {
    let (side, channels, images) = BLOCKS[block];
    let strips = if side == 32 { 4 } else { 1 };
    let (area, plane) = (side * side, (side + 2) * (side + 4));
    let pixels = images * area / strips;
    let plain = pixels + 4;
    let split = |rows: usize, pixels: usize| WARPS * (768 / rows).min(pixels) / pixels;
    let product = |rows: usize, pixels: usize| split(rows, pixels) * rows * (pixels + 4);
    // warps give each other sums, and all weights of a 1×1 convolution come at once
    let tile = (WARPS * 24 * 32 + 8 * 52)
        .max(product(MIDDLE, pixels))
        .max(product(GROWTH, images * area))
        .max(product(24, pixels));
    let planes = if strips > 1 { 2 * 8 } else { MIDDLE };
    let tables = images * (5 * channels + 4 * MIDDLE) + 3 * channels + 6 * MIDDLE;
    let forward = tile + planes * images * plane + channels * MIDDLE + MIDDLE_FORWARD + tables;
    let after = match (strips, split(MIDDLE, pixels)) {
        (1, 1) => 3 * 8 * 52,
        (1, _) => product(MIDDLE, pixels),
        _ => MIDDLE * plain,
    };
    let (shifted, middle) = (GROWTH * images * plane, MIDDLE * pixels);
    let nine = (WARPS / 3).min(pixels / 8) * GROWTH * (9 * MIDDLE + 4);
    let layer = nine.max(MIDDLE * plain + after + MIDDLE_BACKWARD);
    let work = if strips > 1 {
        // normalized features, the gradient in the middle of a layer on its way, gradients of FRN
        // by warps, and weights
        let features = WARPS / 2 * MIDDLE * 32;
        let point = middle + features + 2 * middle + 3 * WARPS * channels + MIDDLE * MIDDLE;
        point.max(shifted + layer)
    } else {
        // what warps give each other, and gradients of FRN by 64 pixels, or by smaller images
        let team = pixels / 64;
        let exchanged = if team > 1 { 2 * WARPS * MIDDLE * 16 } else { 0 };
        let point = exchanged + 3 * team * (64 / area).max(1) * channels;
        2 * middle + shifted + layer.max(point)
    };
    let backward = work + images * 6 * channels + images * 8 * MIDDLE + MIDDLE;
    (4 * forward, 4 * backward)
}

/// Rearranged weights of the 3×3 convolutions.
const MIDDLE_FORWARD: usize = MIDDLE * 9 * 16;
const MIDDLE_BACKWARD: usize = 16 * 9 * MIDDLE;
const STEM_FORWARD: usize = 8 * 9 * STEM;

/// Rearranged weights of a 1×1 convolution with 48 outputs, forward and backward.
fn point(inputs: usize) -> usize {
    inputs.next_multiple_of(8) * MIDDLE + point_backward(inputs)
}

/// Those of the way back, and partial sums of as many, in tiles of 16 inputs.
fn point_backward(inputs: usize) -> usize {
    inputs.next_multiple_of(16) * MIDDLE
}

/// Where the next things go.
#[derive(Default)]
struct Places {
    parameters: usize,
    prepared: usize,
    values: usize,
    partial: usize,
    table: Vec<DensePrepare>,
    /// Partial sums of stretches of the parameters; those from `open` on are of a slice that is
    /// still without an end, whose length so far is `slice`.
    sums: Vec<DenseSums>,
    open: usize,
    slice: usize,
    blocks: Vec<DenseBlock>,
}

impl Places {
    /// Room for so many values.
    fn take(&mut self, count: usize) -> i64 {
        self.values += count;
        (self.values - count) as i64
    }

    /// The next parameters, whose partial sums lie in tiles if they are those of a 1×1 convolution
    /// with so many inputs, and else as the parameters do.
    fn stretch(&mut self, parameters: usize, inputs: usize) {
        let count = match inputs {
            0 => parameters,
            _ => point_backward(inputs),
        };
        match self.sums[self.open..].last_mut() {
            Some(last) if inputs == 0 && last.inputs == 0 => last.count += count as i32,
            _ => self.sums.push(DenseSums {
                partial: self.slice as i64,
                gradient: self.parameters as i32,
                count: count as i32,
                inputs: inputs as i32,
                ..DenseSums::default()
            }),
        }
        self.parameters += parameters;
        self.slice += count;
    }

    fn frn(&mut self, channels: usize) {
        self.stretch(3 * channels, 0);
    }

    /// A convolution, with `tiles` one whose partial sums lie in them.
    fn conv(&mut self, out: usize, inputs: usize, taps: usize, tiles: bool) {
        self.table.push(DensePrepare {
            weight: self.parameters as i32,
            out: out as i32,
            inputs: inputs as i32,
            taps: taps as i32,
            prepared: self.prepared as i32,
            reserved: 0,
        });
        self.prepared += match (taps, inputs) {
            (1, _) => out / 48 * point(inputs),
            (_, 3) => STEM_FORWARD,
            _ => MIDDLE_FORWARD + MIDDLE_BACKWARD,
        };
        if tiles {
            for _ in 0..out / MIDDLE {
                self.stretch(MIDDLE * inputs, inputs);
            }
        } else {
            self.stretch(out * inputs * taps, 0);
        }
    }

    /// Ends a slice of partial sums, one for every so many of the images: where they begin, and
    /// the slice's length.
    fn end_slice(&mut self, batch: usize, group: usize) -> (i64, i32) {
        let (partial, slice) = (self.partial as i64, self.slice);
        for sums in &mut self.sums[self.open..] {
            sums.partial += partial;
            sums.stride = slice as i32;
            sums.group = group as i32;
        }
        self.partial += batch.div_ceil(group) * slice;
        (self.open, self.slice) = (self.sums.len(), 0);
        (partial, slice as i32)
    }

    /// A block of layers that begins with so many channels, and the transition after it unless it
    /// is the last; the channels after that. A prediction keeps nothing for the way back.
    fn block(&mut self, number: usize, net: &Net, width: usize, batch: usize, back: bool) -> usize {
        let (side, _, images) = BLOCKS[number];
        let layers = net.layers[number];
        let (area, all) = (side * side, width + GROWTH * layers);
        let middle = batch * MIDDLE * area;
        let first = self.parameters;
        let mut block = DenseBlock {
            batch: batch as i32,
            layers: layers as i32,
            width: width as i32,
            parameters: first as i32,
            prepared: self.prepared as i32,
            z_step: if back { middle as i64 } else { 0 },
            x: self.take(batch * all * area),
            z: self.take(if back { layers * middle } else { middle }),
            roots: self.take(batch * all),
            z_roots: self.take(layers * batch * MIDDLE),
            ..DenseBlock::default()
        };
        if back {
            block.g = self.take(batch * all * area);
            block.sums = self.take(batch * all);
            // of the first block alone
            block.dz = match self.blocks.first() {
                Some(first) => first.dz,
                None => self.take(middle),
            };
        }
        // the first block, whose planes are worked on in strips, forms its sums in another way
        let tiles = number > 0;
        if number == 0 {
            self.conv(STEM, 3, 9, false);
        }
        for layer in 0..layers {
            let inputs = width + GROWTH * layer;
            self.frn(inputs);
            self.conv(MIDDLE, inputs, 1, tiles);
            self.frn(MIDDLE);
            self.conv(GROWTH, MIDDLE, 9, false);
        }
        let last = number + 1 == BLOCKS.len();
        let after = if last { all } else { all / 2 };
        if !last {
            self.frn(all);
            self.conv(after, all, 1, tiles);
        }
        (block.partial, block.slice) = self.end_slice(batch, images);
        self.blocks.push(block);
        after
    }

    /// All blocks, each told where the next one is; the channels at the end.
    fn blocks(&mut self, net: &Net, batch: usize, back: bool) -> usize {
        let mut width = STEM;
        for number in 0..BLOCKS.len() {
            width = self.block(number, net, width, batch, back);
        }
        for number in 1..BLOCKS.len() {
            let next = self.blocks[number];
            let block = &mut self.blocks[number - 1];
            block.next_first = GROWTH as i32 * next.layers;
            block.next_channels = next.width + block.next_first;
            block.next_x = next.x;
            block.next_g = next.g;
            block.next_roots = next.roots;
            block.next_sums = next.sums;
        }
        width
    }

    /// The last FRN, the dense layer and the loss.
    fn head(&mut self, net: &Net, channels: usize, batch: usize, back: bool) -> DenseHead {
        let last = self.blocks[BLOCKS.len() - 1];
        let first = self.parameters;
        self.frn(channels);
        let mut head = DenseHead {
            channels: channels as i32,
            classes: net.classes as i32,
            frn: first as i32,
            weight: self.parameters as i32,
            layer: net.dropout,
            predict: i32::from(!back),
            threshold: dropout_threshold(net.rate),
            factor: (1.0 / (1.0 - net.rate)) as f32,
            x: last.x,
            g: last.g,
            roots: last.roots,
            sums: last.sums,
            features: self.take(batch * channels),
            logits: self.take(batch * net.classes),
            ..DenseHead::default()
        };
        if back {
            head.delta = self.take(batch * net.classes);
            head.loss = self.take(batch);
            head.correct = self.take(batch);
        }
        (head.partial, _) = self.end_slice(batch, 1);
        head
    }
}

/// DenseNet-121 or -101 for at most `batch` images: one gradient, or with `back` off a prediction.
/// None for another network, or a card with too little shared memory.
pub(super) fn program(
    network: &Network,
    batch: usize,
    shared: usize,
    tf32: bool,
    back: bool,
) -> Option<Program> {
    let net = Net::of(network, shared, tf32)?;
    let mut places = Places::default();
    let channels = places.blocks(&net, batch, back);
    let head = places.head(&net, channels, batch, back);
    let place = |at: i64, width: usize| Place {
        at,
        stride: width,
        width,
    };
    let prepare = places.table.iter().flat_map(Plain::words);
    let sums = places.sums.iter().flat_map(Plain::words);
    Some(Program {
        calls: calls(&net, &places, head, back),
        values: places.values,
        partial: if back { places.partial } else { 0 },
        prepared: places.prepared,
        table: prepare.chain(sums).collect(),
        loss: head.loss,
        correct: head.correct,
        logits: place(head.logits, net.classes),
        features: place(head.features, channels),
    })
}

/// Weights rearranged, the blocks forward, the head; backward the blocks, the dense layer, and the
/// sums over images.
fn calls(net: &Net, places: &Places, head: DenseHead, back: bool) -> Vec<Call> {
    let names = if net.tf32 {
        names!("tf32")
    } else {
        names!("f32")
    };
    let batch = places.blocks[0].batch as usize;
    let block = |kernel, number: usize, shared| {
        let arguments = vec![
            Argument::Runs,
            Argument::Images,
            places.blocks[number].into(),
        ];
        let grid = [batch.div_ceil(BLOCKS[number].2), 1];
        Source::Densenet.call(kernel, grid, THREADS, shared, arguments)
    };
    let bytes = shared_bytes;
    let prepare = vec![Argument::Runs, Argument::Table(0)];
    let grid = [PREPARE_BLOCKS, places.table.len()];
    let mut all = vec![Source::Densenet.call(names.prepare, grid, BLOCK, 0, prepare)];
    all.extend((0..4).map(|i| block(names.forward[i], i, bytes(i).0)));
    let (channels, classes) = (head.channels as usize, head.classes as usize);
    let loss = vec![Argument::Runs, Argument::Images, head.into()];
    let loss_bytes = 4 * (channels + 2 * classes);
    all.push(Source::Densenet.call("dense_head", [batch, 1], THREADS, loss_bytes, loss));
    if !back {
        return all;
    }
    let backward = (0..4).rev();
    all.extend(backward.map(|i| block(names.backward[i], i, bytes(i).1)));
    let grid = [(classes * (channels + 1)).div_ceil(BLOCK), 1];
    let dense = vec![Argument::Runs, head.into()];
    all.push(Source::Densenet.call("dense_head_gradients", grid, BLOCK, 0, dense));
    let longest = places.sums.iter().map(|s| s.count as usize).max();
    let grid = [
        longest.unwrap_or(0).div_ceil(BLOCK * REDUCED),
        places.sums.len(),
    ];
    let at = places.table.len() * size_of::<DensePrepare>();
    let arguments = [Argument::Runs, Argument::Table(at)];
    all.push(Source::Densenet.call("dense_reduce", grid, BLOCK, 0, arguments));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the compiler counts them in `densenet.cu`, where each is a constant.
    #[test]
    fn shared_memory_is_that_of_the_kernels() {
        let want = [
            (180_224, 228_288),
            (192_512, 229_440),
            (220_928, 189_888),
            (230_016, 181_632),
        ];
        assert_eq!([0, 1, 2, 3].map(shared_bytes), want);
    }

    #[test]
    fn parameters_end_where_the_networks_do() {
        for network in [
            zoo::densenet121(100, None).unwrap(),
            zoo::densenet101(7, Some(0.1)).unwrap(),
        ] {
            let net = Net::of(&network, 232_448, false).unwrap();
            let mut places = Places::default();
            let channels = places.blocks(&net, 5, true);
            let head = places.head(&net, channels, 5, true);
            let end = head.weight as usize + (channels + 1) * net.classes;
            assert_eq!(end, network.parameter_count());
            assert!(Net::of(&network, 163 << 10, false).is_none());
        }
        assert!(Net::of(&zoo::resnet20(10).unwrap(), 232_448, false).is_none());
    }
}
