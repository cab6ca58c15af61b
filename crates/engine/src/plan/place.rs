//! Which values share memory: the parts of a concatenation with the whole, flattened values and
//! fused ReLUs with their input.

use super::{Compiler, Slot};
use crate::network::LayerKind;

impl Compiler<'_> {
    /// A new buffer of so many entries per image.
    pub(super) fn buffer(&mut self, len: usize) -> Slot {
        self.buffers.push(len);
        Slot {
            buffer: self.buffers.len() - 1,
            offset: 0,
        }
    }

    /// Gives every value its place, the parts of a concatenation inside the whole.
    pub(super) fn place_values(&mut self) {
        let layers = &self.network.layers;
        self.values[0] = Some(self.buffer(self.len(0)));
        // Backwards: the whole is placed before its parts, and an alias before what it stands for.
        for i in (0..layers.len()).rev() {
            if self.is_frn_of_sum(i) {
                continue;
            }
            let input = layers[i].inputs[0].0;
            let slot = match self.values[i + 1] {
                Some(slot) => slot,
                None => {
                    let stands_for_input = matches!(layers[i].kind, LayerKind::Flatten);
                    match self.values[input] {
                        Some(slot) if stands_for_input => slot,
                        _ => self.buffer(self.len(i + 1)),
                    }
                }
            };
            self.values[i + 1] = Some(slot);
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
                    self.values[input].get_or_insert(slot);
                }
                LayerKind::Relu if self.fused[i] => self.values[input] = Some(slot),
                _ => {}
            }
        }
    }
}
