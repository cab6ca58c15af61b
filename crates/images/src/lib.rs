//! Images as bytes: their shape, their normalization, and the visits of a training.
