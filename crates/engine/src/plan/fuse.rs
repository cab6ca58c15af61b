//! Which layers another operation does as well: a ReLU in the convolution or dense layer before it,
//! an FRN in the sum after it.

use super::Compiler;
use crate::network::{LayerKind, Value};

impl Compiler<'_> {
    /// The layer that makes a value, if the value is read once and need not be stored as it is.
    /// Features must be.
    fn sole_producer(&self, value: usize) -> Option<usize> {
        let taken_over = value > 0 && self.consumers[value] == 1 && value != self.features;
        taken_over.then(|| value - 1)
    }

    pub(super) fn find_fusions(&mut self) {
        let layers = &self.network.layers;
        for (i, layer) in layers.iter().enumerate() {
            match layer.kind {
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
                    // One FRN whose output goes nowhere else; the later one, whose input is still
                    // at hand.
                    let frn = layer.inputs.iter().filter_map(|input| {
                        let before = self.sole_producer(input.0)?;
                        self.is_frn(before).then_some(before)
                    });
                    if let Some(before) = frn.max() {
                        self.fused[before] = true;
                    }
                }
                _ => {}
            }
        }
    }

    fn is_frn(&self, layer: usize) -> bool {
        matches!(self.network.layers[layer].kind, LayerKind::FrnTlu { .. })
    }

    /// Whether a layer is an FRN that the sum after it does, so that its output is never stored.
    pub(super) fn is_frn_of_sum(&self, layer: usize) -> bool {
        self.fused[layer] && self.is_frn(layer)
    }

    /// The fused FRN among the inputs of a sum, and the other input.
    pub(super) fn fused_sum(&self, layer: usize) -> Option<(usize, usize)> {
        let inputs = &self.network.layers[layer].inputs;
        [(1, 0), (0, 1)].into_iter().find_map(|(this, other)| {
            let value = inputs[this].0;
            (value > 0 && self.is_frn_of_sum(value - 1)).then(|| (value - 1, inputs[other].0))
        })
    }

    /// Whether the layer after this one is a ReLU that it does itself.
    pub(super) fn does_relu(&self, layer: usize) -> bool {
        let next = self
            .network
            .layers
            .iter()
            .position(|l| l.inputs.contains(&Value(layer + 1)));
        self.consumers[layer + 1] == 1
            && next.is_some_and(|i| self.network.layers[i].kind == LayerKind::Relu && self.fused[i])
    }

    /// Whether a fused ReLU is read by one max-pool alone, whose gradient then does the masking.
    pub(super) fn relu_is_masked_by_pool(&self, layer: usize) -> bool {
        let layers = &self.network.layers;
        let mut readers = layers
            .iter()
            .filter(|l| l.inputs.contains(&Value(layer + 1)));
        self.fused[layer]
            && layers[layer].kind == LayerKind::Relu
            && self.consumers[layer + 1] == 1
            && readers.all(|l| matches!(l.kind, LayerKind::MaxPool(_)))
    }
}
