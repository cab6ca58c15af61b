//! The operations of a plan, and the places they read and write.

use std::ops::Range;

use crate::network::{Conv, Pool, Shape};

/// Where a value lies: so many entries per image after the start of a buffer; after the start of
/// the arena once buffers are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub buffer: usize,
    pub offset: usize,
}

/// Where a gradient goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub slot: Slot,
    /// Whether it is added to what is there.
    pub accumulate: bool,
}

/// A convolution with the positions of its parameters in the flat vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Convolution {
    pub shape: Conv,
    pub weight: usize,
    pub bias: Option<usize>,
    /// Its number among the convolutions of the network.
    pub number: usize,
}

/// A dense layer with the positions of its parameters in the flat vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dense {
    pub inputs: usize,
    pub outputs: usize,
    pub weight: usize,
    pub bias: Option<usize>,
}

/// Filter response normalization with threshold: its shape, the positions of γ, β and τ in the flat
/// vector, and where `1/√(mean x² + ε)` of each channel is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frn {
    pub shape: Shape,
    pub parameters: [usize; 3],
    pub scale: Slot,
}

/// A dropout layer; `layer` is its position in the network, which chooses the masks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Dropout {
    pub layer: usize,
    pub rate: f64,
    pub always_on: bool,
}

/// One operation. Names starting with `d` are gradients; `len` counts entries per image.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Op {
    Conv {
        conv: Convolution,
        x: Slot,
        y: Slot,
        relu: bool,
    },
    ConvBackward {
        conv: Convolution,
        x: Slot,
        dy: Slot,
        dx: Option<Target>,
    },
    Linear {
        dense: Dense,
        x: Slot,
        y: Slot,
        relu: bool,
    },
    LinearBackward {
        dense: Dense,
        x: Slot,
        dy: Slot,
        dx: Option<Target>,
    },
    /// `y = max(γ x s + β, τ) (+ add)`. The scales of the `fresh` channels are computed, those of
    /// the others are known already.
    Frn {
        frn: Frn,
        fresh: Range<usize>,
        x: Slot,
        y: Slot,
        add: Option<Slot>,
    },
    FrnBackward {
        frn: Frn,
        x: Slot,
        dy: Slot,
        dx: Option<Target>,
    },
    Relu {
        len: usize,
        x: Slot,
        y: Slot,
    },
    Abs {
        len: usize,
        x: Slot,
        y: Slot,
    },
    AbsBackward {
        len: usize,
        x: Slot,
        dy: Slot,
        dx: Target,
    },
    ReluBackward {
        len: usize,
        y: Slot,
        dy: Slot,
        dx: Target,
    },
    MaxPool {
        pool: Pool,
        x: Slot,
        y: Slot,
    },
    /// With `relu`, windows without a positive entry pass nothing on.
    MaxPoolBackward {
        pool: Pool,
        x: Slot,
        y: Slot,
        dy: Slot,
        dx: Target,
        relu: bool,
    },
    AvgPool {
        pool: Pool,
        x: Slot,
        y: Slot,
    },
    AvgPoolBackward {
        pool: Pool,
        dy: Slot,
        dx: Target,
    },
    /// Forward and backward alike.
    Dropout {
        dropout: Dropout,
        len: usize,
        x: Slot,
        y: Target,
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

/// What reads and writes slots.
pub(crate) trait Slots {
    /// All of them.
    fn slots(&mut self) -> Vec<&mut Slot>;
}

impl Slots for Op {
    fn slots(&mut self) -> Vec<&mut Slot> {
        fn with<'a>(mut all: Vec<&'a mut Slot>, dx: &'a mut Option<Target>) -> Vec<&'a mut Slot> {
            all.extend(dx.as_mut().map(|d| &mut d.slot));
            all
        }
        match self {
            Self::Conv { x, y, .. }
            | Self::Linear { x, y, .. }
            | Self::Relu { x, y, .. }
            | Self::Abs { x, y, .. }
            | Self::MaxPool { x, y, .. }
            | Self::AvgPool { x, y, .. } => vec![x, y],
            Self::ConvBackward { x, dy, dx, .. } | Self::LinearBackward { x, dy, dx, .. } => {
                with(vec![x, dy], dx)
            }
            Self::Frn { frn, x, y, add, .. } => {
                let mut all = vec![x, y, &mut frn.scale];
                all.extend(add.as_mut());
                all
            }
            Self::FrnBackward { frn, x, dy, dx } => with(vec![x, &mut frn.scale, dy], dx),
            Self::ReluBackward { y, dy, dx, .. } => vec![y, dy, &mut dx.slot],
            Self::AbsBackward { x, dy, dx, .. } => vec![x, dy, &mut dx.slot],
            Self::MaxPoolBackward { x, y, dy, dx, .. } => vec![x, y, dy, &mut dx.slot],
            Self::AvgPoolBackward { dy, dx, .. } => vec![dy, &mut dx.slot],
            Self::Dropout { x, y, .. } => vec![x, &mut y.slot],
            Self::Add { x, y, out, .. } => vec![x, y, out],
            Self::Copy { from, to, .. } => vec![from, &mut to.slot],
            Self::Loss { logits, gradient } => vec![logits, gradient],
        }
    }
}
