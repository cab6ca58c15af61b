//! The plan of a network: what is computed in which order and where it is kept, settled once.
//!
//! Layers become operations on slots of one arena. The plan fuses a convolution or dense layer with the ReLU after it, a convolution
//! also with a 2×2 max-pool after that, the ReLU's gradient with any other max-pool, and FRN+TLU with the sum after it; it
//! lets flattened values, concatenated values and
//! gradients that are only passed on share memory; and it gives memory back as soon as a value is not needed any more.
//! Lengths are counted in entries per image, so that a backend is free to choose its layout.

mod arena;

use crate::network::{LayerKind, Network, Padding, Shape, Value};

/// Where a value lies, in entries per image from the start of the arena.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    buffer: usize,
    offset: usize,
}

impl Slot {
    /// Entries per image from the start of the arena.
    pub fn offset(self) -> usize {
        self.offset
    }
}

/// Where a gradient goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Target {
    /// Where.
    pub slot: Slot,
    /// Whether it is added to what is there.
    pub accumulate: bool,
}

/// A convolution, its parameters as positions in the flat vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConvPlan {
    /// Shape of the input.
    pub input: Shape,
    /// Shape of the output.
    pub output: Shape,
    /// Side of the kernel.
    pub kernel: usize,
    /// Step in both directions.
    pub stride: usize,
    /// Zeros around the input.
    pub padding: Padding,
    /// Position of the weight.
    pub weight: usize,
    /// Position of the bias.
    pub bias: Option<usize>,
    /// Number among the convolutions that use Winograd's form, if it does.
    pub winograd: Option<usize>,
}

/// A pooling layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolPlan {
    /// Shape of the input.
    pub input: Shape,
    /// Shape of the output.
    pub output: Shape,
    /// Rows of a window.
    pub height: usize,
    /// Columns of a window.
    pub width: usize,
    /// Step in both directions.
    pub stride: usize,
}

/// One operation. Names starting with `d` are gradients.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)]
pub enum Op {
    Conv {
        conv: ConvPlan,
        x: Slot,
        y: Slot,
        relu: bool,
    },
    /// A convolution and the 2×2 max-pool after it; `winner` keeps which entry of each window is the largest.
    ConvPool {
        conv: ConvPlan,
        x: Slot,
        y: Slot,
        winner: Option<Slot>,
        relu: bool,
    },
    ConvBackward {
        conv: ConvPlan,
        x: Slot,
        dy: Slot,
        dx: Option<Target>,
    },
    /// The max-pool's (and ReLU's) part of the gradient of [`Op::ConvPool`].
    PoolBackward {
        pool: PoolPlan,
        winner: Slot,
        dy: Slot,
        dx: Slot,
    },
    Linear {
        inputs: usize,
        outputs: usize,
        weight: usize,
        bias: Option<usize>,
        x: Slot,
        y: Slot,
        relu: bool,
    },
    LinearBackward {
        inputs: usize,
        outputs: usize,
        weight: usize,
        bias: Option<usize>,
        x: Slot,
        dy: Slot,
        dx: Option<Target>,
    },
    Frn {
        shape: Shape,
        parameters: [usize; 3],
        x: Slot,
        y: Slot,
        scale: Slot,
        add: Option<Slot>,
    },
    FrnBackward {
        shape: Shape,
        parameters: [usize; 3],
        x: Slot,
        scale: Slot,
        dy: Slot,
        dx: Option<Target>,
    },
    Relu {
        len: usize,
        x: Slot,
        y: Slot,
    },
    ReluBackward {
        len: usize,
        y: Slot,
        dy: Slot,
        dx: Target,
    },
    MaxPool {
        pool: PoolPlan,
        x: Slot,
        y: Slot,
    },
    MaxPoolBackward {
        pool: PoolPlan,
        x: Slot,
        y: Slot,
        dy: Slot,
        dx: Target,
        relu: bool,
    },
    AvgPool {
        pool: PoolPlan,
        x: Slot,
        y: Slot,
    },
    AvgPoolBackward {
        pool: PoolPlan,
        dy: Slot,
        dx: Target,
    },
    Dropout {
        len: usize,
        layer: usize,
        rate: f64,
        always_on: bool,
        x: Slot,
        y: Slot,
        accumulate: bool,
    },
    Add {
        len: usize,
        x: Slot,
        y: Slot,
        out: Slot,
    },
    Copy {
        len: usize,
        from: Slot,
        to: Target,
    },
    Loss {
        logits: Slot,
        gradient: Slot,
    },
}

impl Op {
    fn slots(&mut self) -> Vec<&mut Slot> {
        match self {
            Self::Conv { x, y, .. }
            | Self::Linear { x, y, .. }
            | Self::Relu { x, y, .. }
            | Self::MaxPool { x, y, .. }
            | Self::AvgPool { x, y, .. }
            | Self::Dropout { x, y, .. } => vec![x, y],
            Self::ConvPool { x, y, winner, .. } => {
                let mut all = vec![x, y];
                all.extend(winner.as_mut());
                all
            }
            Self::PoolBackward { winner, dy, dx, .. } => vec![winner, dy, dx],
            Self::ConvBackward { x, dy, dx, .. } | Self::LinearBackward { x, dy, dx, .. } => {
                let mut all = vec![x, dy];
                all.extend(dx.as_mut().map(|d| &mut d.slot));
                all
            }
            Self::Frn {
                x, y, scale, add, ..
            } => {
                let mut all = vec![x, y, scale];
                all.extend(add.as_mut());
                all
            }
            Self::FrnBackward {
                x, scale, dy, dx, ..
            } => {
                let mut all = vec![x, scale, dy];
                all.extend(dx.as_mut().map(|d| &mut d.slot));
                all
            }
            Self::ReluBackward { y, dy, dx, .. } => vec![y, dy, &mut dx.slot],
            Self::MaxPoolBackward { x, y, dy, dx, .. } => vec![x, y, dy, &mut dx.slot],
            Self::AvgPoolBackward { dy, dx, .. } => vec![dy, &mut dx.slot],
            Self::Add { x, y, out, .. } => vec![x, y, out],
            Self::Copy { from, to, .. } => vec![from, &mut to.slot],
            Self::Loss { logits, gradient } => vec![logits, gradient],
        }
    }
}

/// A compiled network.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Operations: forward and, for training, the loss and backward.
    pub ops: Vec<Op>,
    /// How many of them are the forward pass.
    pub forward: usize,
    /// Entries per image of the arena.
    pub arena: usize,
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
    /// Convolutions in Winograd's form.
    pub winograd: Vec<ConvPlan>,
}

/// How a plan is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanOptions {
    /// With loss and backward pass.
    pub training: bool,
    /// With Winograd's form of 3×3 convolutions where it pays.
    pub winograd: bool,
    /// With Winograd's form of 3×3 convolutions also where it does not pay.
    pub winograd_everywhere: bool,
    /// With 2×2 max-pools done by the convolution before them.
    pub fuse_pooling: bool,
    /// The value that is kept as features; the input of the last layer if none is named.
    pub features: Option<Value>,
}

/// Channels from which on Winograd's form pays.
const WINOGRAD_FROM: usize = 8;

struct Compiler<'a> {
    network: &'a Network,
    options: PlanOptions,
    ops: Vec<Op>,
    /// Entries per image of each buffer.
    buffers: Vec<usize>,
    values: Vec<Option<Slot>>,
    scales: Vec<Option<Slot>>,
    gradients: Vec<Option<Slot>>,
    needs_gradient: Vec<bool>,
    consumers: Vec<usize>,
    /// Layers that another operation does: a ReLU in its convolution, an FRN in the sum after it.
    fused: Vec<bool>,
    /// The max-pool that a convolution does itself.
    pool_of: Vec<Option<usize>>,
    /// Where a convolution keeps which entry of each window is the largest.
    winners: Vec<Option<Slot>>,
    winograd: Vec<ConvPlan>,
    winograd_of: Vec<Option<usize>>,
    /// The value that is kept for whoever asks for features.
    features: usize,
}

impl Compiler<'_> {
    fn buffer(&mut self, len: usize) -> Slot {
        self.buffers.push(len);
        Slot {
            buffer: self.buffers.len() - 1,
            offset: 0,
        }
    }

    fn len(&self, value: usize) -> usize {
        self.network.shapes[value].len()
    }

    fn value(&self, value: usize) -> Slot {
        self.values[value].expect("values are placed before they are used")
    }

    fn gradient(&self, value: usize) -> Slot {
        self.gradients[value].expect("a gradient arrives before it is passed on")
    }

    /// Where the gradient of a value is to be put, if it is needed.
    fn target(&mut self, value: usize) -> Option<Target> {
        if !self.needs_gradient[value] {
            return None;
        }
        let accumulate = self.gradients[value].is_some();
        if !accumulate {
            let slot = self.buffer(self.len(value));
            self.gradients[value] = Some(slot);
        }
        Some(Target {
            slot: self.gradient(value),
            accumulate,
        })
    }

    /// Passes the gradient at `from` on to `value`: shares the memory if nothing has arrived there yet.
    fn pass(&mut self, from: Slot, value: usize) {
        if !self.needs_gradient[value] {
            return;
        }
        match self.gradients[value] {
            None => self.gradients[value] = Some(from),
            Some(slot) => self.ops.push(Op::Copy {
                len: self.len(value),
                from,
                to: Target {
                    slot,
                    accumulate: true,
                },
            }),
        }
    }

    fn position(&self, parameter: usize) -> usize {
        self.network.parameters[parameter].offset
    }

    /// The layer that makes a value, if it is the only reader's to take over. The features must be stored as they are.
    fn sole_producer(&self, value: usize) -> Option<usize> {
        let taken_over = value > 0 && self.consumers[value] == 1 && value != self.features;
        taken_over.then(|| value - 1)
    }

    fn find_fusions(&mut self) {
        let layers = &self.network.layers;
        for (i, layer) in layers.iter().enumerate() {
            match layer.kind {
                LayerKind::MaxPool {
                    kernel: 2,
                    stride: 2,
                } if self.options.fuse_pooling => {
                    let mut before = self.sole_producer(layer.inputs[0].0);
                    if let Some(relu) = before
                        && layers[relu].kind == LayerKind::Relu
                        && self.fused[relu]
                    {
                        before = self.sole_producer(layers[relu].inputs[0].0);
                    }
                    if let Some(conv) = before
                        && matches!(layers[conv].kind, LayerKind::Conv2d { .. })
                    {
                        self.fused[i] = true;
                        self.pool_of[conv] = Some(i);
                    }
                }
                LayerKind::Relu => {
                    if let Some(before) = self.sole_producer(layer.inputs[0].0)
                        && matches!(
                            layers[before].kind,
                            LayerKind::Conv2d { .. } | LayerKind::Linear { .. }
                        )
                    {
                        self.fused[i] = true;
                    }
                }
                LayerKind::Add => {
                    // One FRN whose output goes nowhere else; the later one, whose input is still at hand.
                    let frn = layer.inputs.iter().filter_map(|input| {
                        let before = self.sole_producer(input.0)?;
                        let is_frn = matches!(layers[before].kind, LayerKind::FrnTlu { .. });
                        is_frn.then_some(before)
                    });
                    if let Some(before) = frn.max() {
                        self.fused[before] = true;
                    }
                }
                _ => {}
            }
        }
    }

    /// The fused FRN among the inputs of a sum, and the other input.
    fn fused_sum(&self, layer: usize) -> Option<(usize, usize)> {
        let inputs = &self.network.layers[layer].inputs;
        for (this, other) in [(1, 0), (0, 1)] {
            let value = inputs[this].0;
            if value > 0
                && self.fused[value - 1]
                && matches!(
                    self.network.layers[value - 1].kind,
                    LayerKind::FrnTlu { .. }
                )
            {
                return Some((value - 1, inputs[other].0));
            }
        }
        None
    }

    /// Whether the output of a layer goes straight into the operation that does the next layer as well.
    fn is_never_stored(&self, layer: usize) -> bool {
        match self.network.layers[layer].kind {
            LayerKind::FrnTlu { .. } => self.fused[layer],
            LayerKind::Conv2d { .. } => self.pool_of[layer].is_some(),
            LayerKind::Relu => {
                let before = self.network.layers[layer].inputs[0].0;
                self.fused[layer] && before > 0 && self.pool_of[before - 1].is_some()
            }
            _ => false,
        }
    }

    /// Gives every value its place, the parts of a concatenation inside the whole.
    fn place_values(&mut self) {
        let layers = &self.network.layers;
        self.values[0] = Some(self.buffer(self.len(0)));
        // Backwards: the whole is placed before its parts, and an alias before what it stands for.
        for i in (0..layers.len()).rev() {
            let out = i + 1;
            if self.is_never_stored(i) {
                continue;
            }
            let slot = match self.values[out] {
                Some(slot) => slot,
                None => {
                    let stands_for_input = matches!(layers[i].kind, LayerKind::Flatten)
                        && self.values[layers[i].inputs[0].0].is_some();
                    let slot = if stands_for_input {
                        self.value(layers[i].inputs[0].0)
                    } else {
                        self.buffer(self.len(out))
                    };
                    self.values[out] = Some(slot);
                    slot
                }
            };
            match layers[i].kind {
                LayerKind::Concat => {
                    let mut offset = slot.offset;
                    for input in &layers[i].inputs {
                        let part = Slot { offset, ..slot };
                        self.values[input.0].get_or_insert(part);
                        offset += self.len(input.0);
                    }
                }
                LayerKind::Flatten => {
                    self.values[layers[i].inputs[0].0].get_or_insert(slot);
                }
                LayerKind::Relu if self.fused[i] => {
                    self.values[layers[i].inputs[0].0] = Some(slot);
                }
                _ => {}
            }
        }
    }

    fn conv_plan(&mut self, layer: usize) -> ConvPlan {
        let LayerKind::Conv2d {
            kernel,
            stride,
            padding,
            weight,
            bias,
        } = self.network.layers[layer].kind
        else {
            unreachable!("only called for convolutions")
        };
        let input = self.network.shapes[self.network.layers[layer].inputs[0].0];
        let output = self.network.shapes[layer + 1];
        let fits = kernel == 3 && stride == 1 && padding.top <= 2 && padding.left <= 2;
        let pays = input.channels.min(output.channels) >= WINOGRAD_FROM && output.plane() >= 4;
        let wanted = self.options.winograd_everywhere || self.options.winograd && pays;
        let mut plan = ConvPlan {
            input,
            output,
            kernel,
            stride,
            padding,
            weight: self.position(weight),
            bias: bias.map(|b| self.position(b)),
            winograd: self.winograd_of[layer],
        };
        if fits && wanted && plan.winograd.is_none() {
            plan.winograd = Some(self.winograd.len());
            self.winograd_of[layer] = plan.winograd;
            self.winograd.push(plan);
        }
        plan
    }

    fn pool_plan(&self, layer: usize) -> PoolPlan {
        let input = self.network.shapes[self.network.layers[layer].inputs[0].0];
        let output = self.network.shapes[layer + 1];
        let (height, width, stride) = match self.network.layers[layer].kind {
            LayerKind::MaxPool { kernel, stride } | LayerKind::AvgPool { kernel, stride } => {
                (kernel, kernel, stride)
            }
            _ => (input.height, input.width, 1),
        };
        PoolPlan {
            input,
            output,
            height,
            width,
            stride,
        }
    }

    fn frn_parameters(&self, layer: usize) -> [usize; 3] {
        match self.network.layers[layer].kind {
            LayerKind::FrnTlu { gamma, beta, tau } => [gamma, beta, tau].map(|p| self.position(p)),
            _ => unreachable!("only called for FRN"),
        }
    }

    fn forward_frn(&mut self, frn: usize, y: Slot, add: Option<Slot>) {
        let input = self.network.layers[frn].inputs[0].0;
        let shape = self.network.shapes[input];
        let scale = self.buffer(shape.channels);
        self.scales[frn] = Some(scale);
        let op = Op::Frn {
            shape,
            parameters: self.frn_parameters(frn),
            x: self.value(input),
            y,
            scale,
            add,
        };
        self.ops.push(op);
    }

    fn forward_conv_pool(&mut self, conv: usize, pool: usize) {
        let winner = self
            .options
            .training
            .then(|| self.buffer(self.len(pool + 1)));
        self.winners[conv] = winner;
        let op = Op::ConvPool {
            conv: self.conv_plan(conv),
            x: self.value(self.network.layers[conv].inputs[0].0),
            y: self.value(pool + 1),
            winner,
            relu: self.does_relu(conv),
        };
        self.ops.push(op);
    }

    /// From the gradient of a max-pool to that of the convolution that does it.
    fn backward_conv_pool(&mut self, conv: usize, pool: usize) {
        let dy = self.gradient(pool + 1);
        let Some(dx) = self.target(conv + 1) else {
            unreachable!("a convolution has parameters")
        };
        let op = Op::PoolBackward {
            pool: PoolPlan {
                input: self.network.shapes[conv + 1],
                ..self.pool_plan(pool)
            },
            winner: self.winners[conv].expect("the forward pass made it"),
            dy,
            dx: dx.slot,
        };
        self.ops.push(op);
    }

    fn backward_frn(&mut self, frn: usize, dy: Slot) {
        let input = self.network.layers[frn].inputs[0].0;
        let dx = self.target(input);
        let op = Op::FrnBackward {
            shape: self.network.shapes[input],
            parameters: self.frn_parameters(frn),
            x: self.value(input),
            scale: self.scales[frn].expect("the forward pass made it"),
            dy,
            dx,
        };
        self.ops.push(op);
    }

    /// Whether the layer after this one is a ReLU that it does itself.
    fn does_relu(&self, layer: usize) -> bool {
        let next = self
            .network
            .layers
            .iter()
            .enumerate()
            .find(|(_, l)| l.inputs.contains(&Value(layer + 1)));
        self.consumers[layer + 1] == 1
            && next.is_some_and(|(i, l)| l.kind == LayerKind::Relu && self.fused[i])
    }

    fn forward(&mut self, i: usize) {
        let layer = &self.network.layers[i];
        let input = layer.inputs[0].0;
        let len = self.len(i + 1);
        if self.fused[i] {
            return;
        }
        if let Some(pool) = self.pool_of[i] {
            return self.forward_conv_pool(i, pool);
        }
        let op = match layer.kind {
            LayerKind::Conv2d { .. } => Op::Conv {
                conv: self.conv_plan(i),
                x: self.value(input),
                y: self.value(i + 1),
                relu: self.does_relu(i),
            },
            LayerKind::Linear { weight, bias } => Op::Linear {
                inputs: self.len(input),
                outputs: len,
                weight: self.position(weight),
                bias: bias.map(|b| self.position(b)),
                x: self.value(input),
                y: self.value(i + 1),
                relu: self.does_relu(i),
            },
            LayerKind::FrnTlu { .. } => {
                let y = self.value(i + 1);
                return self.forward_frn(i, y, None);
            }
            LayerKind::Relu => Op::Relu {
                len,
                x: self.value(input),
                y: self.value(i + 1),
            },
            LayerKind::MaxPool { .. } => Op::MaxPool {
                pool: self.pool_plan(i),
                x: self.value(input),
                y: self.value(i + 1),
            },
            LayerKind::AvgPool { .. } | LayerKind::GlobalAvgPool => Op::AvgPool {
                pool: self.pool_plan(i),
                x: self.value(input),
                y: self.value(i + 1),
            },
            LayerKind::Dropout { rate, always_on } => Op::Dropout {
                len,
                layer: i,
                rate,
                always_on,
                x: self.value(input),
                y: self.value(i + 1),
                accumulate: false,
            },
            LayerKind::Add => {
                let out = self.value(i + 1);
                if let Some((frn, other)) = self.fused_sum(i) {
                    let other = self.value(other);
                    return self.forward_frn(frn, out, Some(other));
                }
                Op::Add {
                    len,
                    x: self.value(input),
                    y: self.value(layer.inputs[1].0),
                    out,
                }
            }
            LayerKind::Concat => {
                let mut to = self.value(i + 1);
                for part in &layer.inputs {
                    let (from, len) = (self.value(part.0), self.len(part.0));
                    if from != to {
                        self.ops.push(Op::Copy {
                            len,
                            from,
                            to: Target {
                                slot: to,
                                accumulate: false,
                            },
                        });
                    }
                    to.offset += len;
                }
                return;
            }
            LayerKind::Flatten => {
                let (from, slot) = (self.value(input), self.value(i + 1));
                if from == slot {
                    return;
                }
                let to = Target {
                    slot,
                    accumulate: false,
                };
                Op::Copy { len, from, to }
            }
        };
        self.ops.push(op);
    }

    fn backward(&mut self, i: usize) {
        let layer = &self.network.layers[i];
        let input = layer.inputs[0].0;
        let len = self.len(i + 1);
        if !self.needs_gradient[i + 1] {
            return;
        }
        if let Some(conv) = self.pool_of.iter().position(|&pool| pool == Some(i)) {
            return self.backward_conv_pool(conv, i);
        }
        if self.is_never_stored(i) && self.pool_of[i].is_none() {
            return; // done with the layer after it
        }
        let dy = self.gradient(i + 1);
        let op = match layer.kind {
            LayerKind::Conv2d { .. } => Op::ConvBackward {
                conv: self.conv_plan(i),
                x: self.value(input),
                dy,
                dx: self.target(input),
            },
            LayerKind::Linear { weight, bias } => Op::LinearBackward {
                inputs: self.len(input),
                outputs: len,
                weight: self.position(weight),
                bias: bias.map(|b| self.position(b)),
                x: self.value(input),
                dy,
                dx: self.target(input),
            },
            LayerKind::FrnTlu { .. } => return self.backward_frn(i, dy),
            LayerKind::Relu => {
                if self.relu_is_masked_by_pool(i) {
                    return self.pass(dy, input);
                }
                let target = if self.fused[i] {
                    // The sum of all gradients is complete, so it can be masked where it is.
                    self.gradients[input] = Some(dy);
                    Target {
                        slot: dy,
                        accumulate: false,
                    }
                } else {
                    let Some(target) = self.target(input) else {
                        return;
                    };
                    target
                };
                Op::ReluBackward {
                    len,
                    y: self.value(i + 1),
                    dy,
                    dx: target,
                }
            }
            LayerKind::MaxPool { .. } => {
                let relu = input > 0 && self.relu_is_masked_by_pool(input - 1);
                let Some(dx) = self.target(input) else { return };
                Op::MaxPoolBackward {
                    pool: self.pool_plan(i),
                    x: self.value(input),
                    y: self.value(i + 1),
                    dy,
                    dx,
                    relu,
                }
            }
            LayerKind::AvgPool { .. } | LayerKind::GlobalAvgPool => {
                let Some(dx) = self.target(input) else { return };
                Op::AvgPoolBackward {
                    pool: self.pool_plan(i),
                    dy,
                    dx,
                }
            }
            LayerKind::Dropout { rate, always_on } => {
                // In place if nothing else has arrived.
                if self.gradients[input].is_none() {
                    self.gradients[input] = Some(dy);
                    Op::Dropout {
                        len,
                        layer: i,
                        rate,
                        always_on,
                        x: dy,
                        y: dy,
                        accumulate: false,
                    }
                } else {
                    let Some(dx) = self.target(input) else { return };
                    Op::Dropout {
                        len,
                        layer: i,
                        rate,
                        always_on,
                        x: dy,
                        y: dx.slot,
                        accumulate: dx.accumulate,
                    }
                }
            }
            LayerKind::Add => {
                if let Some((frn, other)) = self.fused_sum(i) {
                    self.backward_frn(frn, dy);
                    return self.pass(dy, other);
                }
                // The second gets a copy before the first may take over the memory.
                let second = layer.inputs[1].0;
                if let Some(to) = self.target(second) {
                    self.ops.push(Op::Copy { len, from: dy, to });
                }
                return self.pass(dy, input);
            }
            LayerKind::Concat => {
                let mut part = dy;
                let inputs = layer.inputs.clone();
                for input in inputs {
                    self.pass(part, input.0);
                    part.offset += self.len(input.0);
                }
                return;
            }
            LayerKind::Flatten => return self.pass(dy, input),
        };
        self.ops.push(op);
    }

    /// Whether a fused ReLU is read by one max-pool alone, whose gradient then does the masking.
    fn relu_is_masked_by_pool(&self, layer: usize) -> bool {
        let layers = &self.network.layers;
        let readers: Vec<_> = layers
            .iter()
            .filter(|l| l.inputs.contains(&Value(layer + 1)))
            .collect();
        self.fused[layer]
            && layers[layer].kind == LayerKind::Relu
            && self.consumers[layer + 1] == 1
            && readers
                .iter()
                .all(|l| matches!(l.kind, LayerKind::MaxPool { .. }))
    }
}

impl Plan {
    /// Compiles a network.
    ///
    /// # Panics
    /// If the features are a value of another, larger network.
    pub fn new(network: &Network, options: PlanOptions) -> Self {
        let count = network.shapes.len();
        let mut compiler = Compiler {
            network,
            options,
            ops: Vec::new(),
            buffers: Vec::new(),
            values: vec![None; count],
            scales: vec![None; count],
            gradients: vec![None; count],
            needs_gradient: vec![false; count],
            consumers: vec![0; count],
            fused: vec![false; count],
            pool_of: vec![None; count],
            winners: vec![None; count],
            winograd: Vec::new(),
            winograd_of: vec![None; count],
            features: match options.features {
                Some(value) => value.0,
                None => network.layers[network.layers.len() - 1].inputs[0].0,
            },
        };
        for (i, layer) in network.layers.iter().enumerate() {
            let own = matches!(
                layer.kind,
                LayerKind::Conv2d { .. } | LayerKind::Linear { .. } | LayerKind::FrnTlu { .. }
            );
            compiler.needs_gradient[i + 1] =
                own || layer.inputs.iter().any(|x| compiler.needs_gradient[x.0]);
            for input in &layer.inputs {
                compiler.consumers[input.0] += 1;
            }
        }
        compiler.find_fusions();
        compiler.place_values();
        for i in 0..network.layers.len() {
            compiler.forward(i);
        }
        let forward = compiler.ops.len();
        let last = network.layers.len();
        let logits = compiler.value(last);
        let features = (
            compiler.value(compiler.features),
            compiler.len(compiler.features),
        );
        if options.training {
            let gradient = compiler.buffer(compiler.len(last));
            compiler.gradients[last] = Some(gradient);
            compiler.ops.push(Op::Loss { logits, gradient });
            for i in (0..network.layers.len()).rev() {
                compiler.backward(i);
            }
        }
        let mut plan = Self {
            forward,
            arena: 0,
            input: compiler.value(0),
            logits,
            features,
            input_shape: network.input_shape(),
            classes: network.classes(),
            parameters: network.parameter_count(),
            winograd: compiler.winograd,
            ops: compiler.ops,
        };
        plan.place_buffers(&compiler.buffers);
        plan
    }

    /// Gives every buffer its place in the arena.
    fn place_buffers(&mut self, sizes: &[usize]) {
        // The input is written before the first operation; logits and features are read after the forward pass.
        let mut lives = vec![None; sizes.len()];
        let mut touch = |slot: Slot, time: usize| {
            let life = lives[slot.buffer].get_or_insert((time, time));
            life.0 = life.0.min(time);
            life.1 = life.1.max(time);
        };
        touch(self.input, 0);
        if self.ops.len() == self.forward {
            // Several sets of parameters may read the same input.
            touch(self.input, self.forward);
        }
        touch(self.logits, self.forward);
        touch(self.features.0, self.forward);
        for (time, op) in self.ops.iter_mut().enumerate() {
            for slot in op.slots() {
                touch(*slot, time);
            }
        }
        let (offsets, total) = arena::place(sizes, &lives);
        self.arena = total;
        let resolve = |slot: &mut Slot| slot.offset += offsets[slot.buffer];
        for op in &mut self.ops {
            op.slots().into_iter().for_each(resolve);
        }
        [&mut self.input, &mut self.logits, &mut self.features.0]
            .into_iter()
            .for_each(resolve);
    }
}
