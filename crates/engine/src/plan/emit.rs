//! From layers to operations: the forward pass in the order of the layers, the backward pass in the
//! opposite one.

use super::op::{Convolution, Dense, Dropout, Frn, Op, Slot, Target};
use super::{Compiler, Scales};
use crate::network::LayerKind;

impl Compiler<'_> {
    pub(super) fn len(&self, value: usize) -> usize {
        self.network.shapes[value].len()
    }

    pub(super) fn value(&self, value: usize) -> Slot {
        self.values[value].expect("values are placed before they are used")
    }

    fn gradient(&self, value: usize) -> Slot {
        self.gradients[value].expect("a gradient arrives before it is passed on")
    }

    fn position(&self, parameter: usize) -> usize {
        self.network.parameters[parameter].offset
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

    /// Passes the gradient at `from` on to `value`: shares the memory if nothing has arrived there
    /// yet.
    fn pass(&mut self, from: Slot, value: usize) {
        if !self.needs_gradient[value] {
            return;
        }
        match self.gradients[value] {
            None => self.gradients[value] = Some(from),
            Some(slot) => self.copy(value, from, slot, true),
        }
    }

    /// Copies or adds what is as long as `value`.
    fn copy(&mut self, value: usize, from: Slot, slot: Slot, accumulate: bool) {
        self.ops.push(Op::Copy {
            len: self.len(value),
            from,
            to: Target { slot, accumulate },
        });
    }

    fn convolution(&self, layer: usize) -> Convolution {
        let LayerKind::Conv2d { conv, weight, bias } = self.network.layers[layer].kind else {
            unreachable!("only called for convolutions")
        };
        let before = &self.network.layers[..layer];
        Convolution {
            shape: conv,
            weight: self.position(weight),
            bias: bias.map(|b| self.position(b)),
            number: before
                .iter()
                .filter(|l| matches!(l.kind, LayerKind::Conv2d { .. }))
                .count(),
        }
    }

    fn dense(&self, layer: usize) -> Dense {
        let LayerKind::Linear { weight, bias } = self.network.layers[layer].kind else {
            unreachable!("only called for dense layers")
        };
        Dense {
            inputs: self.len(self.network.layers[layer].inputs[0].0),
            outputs: self.len(layer + 1),
            weight: self.position(weight),
            bias: bias.map(|b| self.position(b)),
        }
    }

    fn frn(&self, layer: usize, scale: Slot) -> Frn {
        let LayerKind::FrnTlu { gamma, beta, tau } = self.network.layers[layer].kind else {
            unreachable!("only called for FRN")
        };
        Frn {
            shape: self.network.shapes[layer + 1],
            parameters: [gamma, beta, tau].map(|p| self.position(p)),
            scale,
        }
    }

    /// Channels that lie in the same memory, such as those of a concatenation and of its parts,
    /// share the place of their scale, which the first FRN that reads them computes.
    fn forward_frn(&mut self, layer: usize, y: Slot, add: Option<Slot>) {
        let input = self.network.layers[layer].inputs[0].0;
        let (shape, x) = (self.network.shapes[input], self.value(input));
        let plane = shape.plane();
        let key = (x.buffer, plane, x.offset % plane);
        let index = match self.scales.iter().position(|scales| scales.key == key) {
            Some(index) => index,
            None => {
                let channels = self.buffers[x.buffer] / plane;
                let slot = self.buffer(channels);
                let known = vec![false; channels];
                self.scales.push(Scales { key, slot, known });
                self.scales.len() - 1
            }
        };
        let scales = &mut self.scales[index];
        let first = x.offset / plane;
        let known = &mut scales.known[first..first + shape.channels];
        let start = known.iter().position(|k| !k).unwrap_or(0);
        let end = known.iter().rposition(|k| !k).map_or(0, |last| last + 1);
        known.fill(true);
        let scale = Slot {
            offset: first,
            ..scales.slot
        };
        self.scale_of[layer] = Some(scale);
        self.ops.push(Op::Frn {
            frn: self.frn(layer, scale),
            fresh: start..end,
            x,
            y,
            add,
        });
    }

    fn backward_frn(&mut self, layer: usize, dy: Slot) {
        let input = self.network.layers[layer].inputs[0].0;
        let dx = self.target(input);
        let scale = self.scale_of[layer].expect("the forward pass made it");
        self.ops.push(Op::FrnBackward {
            frn: self.frn(layer, scale),
            x: self.value(input),
            dy,
            dx,
        });
    }

    pub(super) fn forward(&mut self, i: usize) {
        if self.fused[i] {
            return;
        }
        let layer = &self.network.layers[i];
        let input = layer.inputs[0].0;
        let len = self.len(i + 1);
        let (x, y) = (self.values[input], self.value(i + 1));
        // Only the FRN inside a sum has an output that is not stored, and the sum does not ask for
        // it.
        let x = || x.expect("values are placed before they are used");
        let op = match layer.kind {
            LayerKind::Conv2d { .. } => Op::Conv {
                conv: self.convolution(i),
                x: x(),
                y,
                relu: self.does_relu(i),
            },
            LayerKind::Linear { .. } => Op::Linear {
                dense: self.dense(i),
                x: x(),
                y,
                relu: self.does_relu(i),
            },
            LayerKind::FrnTlu { .. } => return self.forward_frn(i, y, None),
            LayerKind::Relu => Op::Relu { len, x: x(), y },
            LayerKind::Abs => Op::Abs { len, x: x(), y },
            LayerKind::MaxPool(pool) => Op::MaxPool { pool, x: x(), y },
            LayerKind::AvgPool(pool) => Op::AvgPool { pool, x: x(), y },
            LayerKind::Dropout { rate, always_on } => Op::Dropout {
                dropout: Dropout {
                    layer: i,
                    rate,
                    always_on,
                },
                len,
                x: x(),
                y: Target {
                    slot: y,
                    accumulate: false,
                },
            },
            LayerKind::Add => {
                if let Some((frn, other)) = self.fused_sum(i) {
                    let other = self.value(other);
                    return self.forward_frn(frn, y, Some(other));
                }
                Op::Add {
                    len,
                    x: x(),
                    y: self.value(layer.inputs[1].0),
                    out: y,
                }
            }
            LayerKind::Concat | LayerKind::Flatten => {
                let mut to = y;
                for part in &layer.inputs {
                    let from = self.value(part.0);
                    if from != to {
                        self.copy(part.0, from, to, false);
                    }
                    to.offset += self.len(part.0);
                }
                return;
            }
        };
        self.ops.push(op);
    }

    pub(super) fn backward(&mut self, i: usize) {
        // An FRN inside a sum is done with the sum.
        if !self.needs_gradient[i + 1] || self.is_frn_of_sum(i) {
            return;
        }
        let layer = &self.network.layers[i];
        let input = layer.inputs[0].0;
        let len = self.len(i + 1);
        let dy = self.gradient(i + 1);
        let op = match layer.kind {
            LayerKind::Conv2d { .. } => Op::ConvBackward {
                conv: self.convolution(i),
                x: self.value(input),
                dy,
                dx: self.target(input),
            },
            LayerKind::Linear { .. } => Op::LinearBackward {
                dense: self.dense(i),
                x: self.value(input),
                dy,
                dx: self.target(input),
            },
            LayerKind::FrnTlu { .. } => return self.backward_frn(i, dy),
            LayerKind::Relu => return self.backward_relu(i, dy),
            LayerKind::Abs => {
                let Some(dx) = self.target(input) else { return };
                let x = self.value(input);
                Op::AbsBackward { len, x, dy, dx }
            }
            LayerKind::MaxPool(pool) => {
                let relu = input > 0 && self.relu_is_masked_by_pool(input - 1);
                let Some(dx) = self.target(input) else { return };
                Op::MaxPoolBackward {
                    pool,
                    x: self.value(input),
                    y: self.value(i + 1),
                    dy,
                    dx,
                    relu,
                }
            }
            LayerKind::AvgPool(pool) => {
                let Some(dx) = self.target(input) else { return };
                Op::AvgPoolBackward { pool, dy, dx }
            }
            LayerKind::Dropout { rate, always_on } => {
                let Some(y) = self.target_in_place(input, dy) else {
                    return;
                };
                let dropout = Dropout {
                    layer: i,
                    rate,
                    always_on,
                };
                Op::Dropout {
                    dropout,
                    len,
                    x: dy,
                    y,
                }
            }
            LayerKind::Add => {
                if let Some((frn, other)) = self.fused_sum(i) {
                    self.backward_frn(frn, dy);
                    return self.pass(dy, other);
                }
                // The second gets a copy before the first may take over the memory.
                if let Some(to) = self.target(layer.inputs[1].0) {
                    self.ops.push(Op::Copy { len, from: dy, to });
                }
                return self.pass(dy, input);
            }
            LayerKind::Concat | LayerKind::Flatten => {
                let mut part = dy;
                for input in &layer.inputs {
                    self.pass(part, input.0);
                    part.offset += self.len(input.0);
                }
                return;
            }
        };
        self.ops.push(op);
    }

    /// Where a gradient goes that may be computed where `dy` is if nothing else has arrived.
    fn target_in_place(&mut self, value: usize, dy: Slot) -> Option<Target> {
        if self.gradients[value].is_some() {
            return self.target(value);
        }
        self.gradients[value] = Some(dy);
        Some(Target {
            slot: dy,
            accumulate: false,
        })
    }

    fn backward_relu(&mut self, i: usize, dy: Slot) {
        let input = self.network.layers[i].inputs[0].0;
        if self.relu_is_masked_by_pool(i) {
            return self.pass(dy, input);
        }
        // The sum of all gradients of a fused ReLU is complete, so it can be masked where it is.
        let dx = if self.fused[i] {
            self.target_in_place(input, dy)
        } else {
            self.target(input)
        };
        let Some(dx) = dx else { return };
        self.ops.push(Op::ReluBackward {
            len: self.len(i + 1),
            y: self.value(i + 1),
            dy,
            dx,
        });
    }
}
