//! The plan of a network: what is computed in which order and which values share memory, settled
//! once. How it is computed is the backend's affair.
//!
//! Layers become operations on slots of buffers ([`op`]). The plan fuses a convolution or dense
//! layer with the ReLU after it, the ReLU's gradient with a max-pool, and FRN+TLU with the sum
//! after it ([`fuse`]); it lets flattened values, concatenated values and gradients that are only
//! passed on share memory ([`place`], [`emit`]), and the scale of a channel all FRNs that read it.
//! A backend may rewrite the operations and then asks for a place of every buffer in one arena
//! ([`arena`]), where memory is given back as soon as a value is not needed any more. Lengths are
//! counted in entries per image, so that a backend is free to choose its layout.

pub(crate) mod arena;
mod emit;
mod fuse;
mod op;
mod place;

pub(crate) use op::{Convolution, Dense, Dropout, Frn, Op, Slot, Slots, Target};

use crate::network::{Network, Shape, Value};

/// A compiled network. `O` is what the backend has made of the operations.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan<O = Op> {
    /// Operations: forward and, for training, the loss and backward.
    pub ops: Vec<O>,
    /// How many of them are the forward pass.
    pub forward: usize,
    /// Entries per image of each buffer.
    pub buffers: Vec<usize>,
    /// Where the input goes.
    pub input: Slot,
    /// Where the logits are after the forward pass.
    pub logits: Slot,
    /// Where the features are after the forward pass, and their length.
    pub features: (Slot, usize),
    /// Shape of the input.
    pub input_shape: Shape,
    /// Number of logits.
    pub classes: usize,
    /// Number of parameters.
    pub parameters: usize,
}

/// What a plan is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Purpose {
    /// With loss and backward pass.
    pub training: bool,
    /// The value that is kept as features; the input of the last layer if none is named.
    pub features: Option<Value>,
}

impl Purpose {
    /// With all passes, and nobody who asks for features.
    pub const TRAINING: Self = Self {
        training: true,
        features: None,
    };
}

/// Scales of the channels in one buffer: a place each, and whether it has been computed.
struct Scales {
    /// The buffer, the size of a channel, and where the first channel begins.
    key: (usize, usize, usize),
    slot: Slot,
    known: Vec<bool>,
}

/// A plan in the making. Vectors have an entry per value or layer of the network.
struct Compiler<'a> {
    network: &'a Network,
    ops: Vec<Op>,
    /// Entries per image of each buffer.
    buffers: Vec<usize>,
    values: Vec<Option<Slot>>,
    gradients: Vec<Option<Slot>>,
    scales: Vec<Scales>,
    scale_of: Vec<Option<Slot>>,
    needs_gradient: Vec<bool>,
    consumers: Vec<usize>,
    /// Layers that another operation does.
    fused: Vec<bool>,
    /// The value that is kept for whoever asks for features.
    features: usize,
}

impl Plan {
    /// Compiles a network.
    ///
    /// # Panics
    /// If the features are a value of another, larger network.
    pub fn new(network: &Network, purpose: Purpose) -> Self {
        let count = network.shapes.len();
        let last = network.layers.len();
        let mut compiler = Compiler {
            network,
            ops: Vec::new(),
            buffers: Vec::new(),
            values: vec![None; count],
            gradients: vec![None; count],
            scales: Vec::new(),
            scale_of: vec![None; count],
            needs_gradient: vec![false; count],
            consumers: vec![0; count],
            fused: vec![false; count],
            features: match purpose.features {
                Some(value) => value.0,
                None => network.layers[last - 1].inputs[0].0,
            },
        };
        for (i, layer) in network.layers.iter().enumerate() {
            compiler.needs_gradient[i + 1] = !layer.kind.parameters().is_empty()
                || layer.inputs.iter().any(|x| compiler.needs_gradient[x.0]);
            for input in &layer.inputs {
                compiler.consumers[input.0] += 1;
            }
        }
        compiler.find_fusions();
        compiler.place_values();
        for i in 0..last {
            compiler.forward(i);
        }
        let forward = compiler.ops.len();
        let logits = compiler.value(last);
        if purpose.training {
            let gradient = compiler.buffer(compiler.len(last));
            compiler.gradients[last] = Some(gradient);
            compiler.ops.push(Op::Loss { logits, gradient });
            for i in (0..last).rev() {
                compiler.backward(i);
            }
        }
        Self {
            forward,
            input: compiler.value(0),
            logits,
            features: (
                compiler.value(compiler.features),
                compiler.len(compiler.features),
            ),
            input_shape: network.input_shape(),
            classes: network.classes(),
            parameters: network.parameter_count(),
            buffers: compiler.buffers,
            ops: compiler.ops,
        }
    }
}

impl<O> Plan<O> {
    /// Whether there is a backward pass.
    pub fn is_training(&self) -> bool {
        self.ops.len() > self.forward
    }
}

impl<O: Slots + Clone> Plan<O> {
    /// First and last use of every buffer.
    fn lives(&self) -> Vec<Option<(usize, usize)>> {
        // The input is written before the first operation; logits and features are read after the
        // forward pass.
        let mut lives = vec![None; self.buffers.len()];
        let mut touch = |slot: Slot, time: usize| {
            let life = lives[slot.buffer].get_or_insert((time, time));
            life.0 = life.0.min(time);
            life.1 = life.1.max(time);
        };
        touch(self.input, 0);
        if !self.is_training() {
            // Several sets of parameters may read the same input.
            touch(self.input, self.forward);
        }
        touch(self.logits, self.forward);
        touch(self.features.0, self.forward);
        for (time, op) in self.ops.iter().enumerate() {
            for slot in op.clone().slots() {
                touch(*slot, time);
            }
        }
        lives
    }

    /// Where every buffer begins in one arena, `gap` entries apart, and the length of the arena.
    pub fn places(&self, gap: usize) -> (Vec<usize>, usize) {
        arena::place(&self.buffers, &self.lives(), gap)
    }

    /// Gives every buffer its place, `gap` entries apart, and returns the length of the arena.
    /// Slots then count from its start.
    pub fn place_buffers(&mut self, gap: usize) -> usize {
        let (offsets, total) = self.places(gap);
        self.resolve(&offsets);
        total
    }

    /// Gives the buffers that only the backward pass uses places after all the others, and returns
    /// the lengths of both parts and which buffers are in the second.
    pub fn place_gradients_apart(&mut self, gap: usize) -> (usize, usize, Vec<bool>) {
        let lives = self.lives();
        let later = |life: &Option<(usize, usize)>| life.is_some_and(|(at, _)| at >= self.forward);
        let is_gradient: Vec<bool> = lives.iter().map(later).collect();
        let part = |wanted: bool| {
            let pairs = lives.iter().zip(&is_gradient);
            let lives: Vec<_> = pairs
                .map(|(life, is)| life.filter(|_| *is == wanted))
                .collect();
            arena::place(&self.buffers, &lives, gap)
        };
        let ((mut offsets, values), (gradients, length)) = (part(false), part(true));
        for ((to, from), is) in offsets.iter_mut().zip(gradients).zip(&is_gradient) {
            if *is {
                *to = values + from;
            }
        }
        self.resolve(&offsets);
        (values, length, is_gradient)
    }

    /// Slots count from the start of the arena from now on.
    fn resolve(&mut self, offsets: &[usize]) {
        let resolve = |slot: &mut Slot| slot.offset += offsets[slot.buffer];
        for op in &mut self.ops {
            op.slots().into_iter().for_each(resolve);
        }
        [&mut self.input, &mut self.logits, &mut self.features.0]
            .into_iter()
            .for_each(resolve);
    }
}
