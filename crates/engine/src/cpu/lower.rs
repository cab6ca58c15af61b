//! How the CPU does what a plan says: Winograd's form of 3×3 convolutions, 2×2 max-pools inside the
//! convolution before them, and places in the arena that do not meet in the cache.

use super::vector::LANES;
use super::winograd::{self, ClassTiles, Tiling};
use super::{conv, gram};
use crate::network::Pool;
use crate::plan::{Convolution, Op, Plan, Slot, Slots};

/// Entries between buffers, so that equal ones do not meet in the same sets of the cache.
const STAGGER: usize = 3;
/// Channels from which on Winograd's form pays.
const WINOGRAD_FROM: usize = 8;

/// Which 3×3 convolutions use Winograd's form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Winograd {
    Never,
    WherePaying,
    /// For tests: also where it does not pay.
    #[cfg_attr(not(test), expect(dead_code))]
    Everywhere,
}

/// Choices of the backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Choices {
    pub winograd: Winograd,
    /// 2×2 max-pools are done by the convolution before them; off in tests alone.
    pub fuse_pooling: bool,
}

impl Choices {
    /// What is fastest, with or without Winograd's form.
    pub fn new(winograd: bool) -> Self {
        Self {
            winograd: if winograd {
                Winograd::WherePaying
            } else {
                Winograd::Never
            },
            fuse_pooling: true,
        }
    }

    fn takes_winograd(self, conv: &Convolution) -> bool {
        let shape = &conv.shape;
        let fits = shape.kernel == 3
            && shape.stride == 1
            && shape.padding.top <= 2
            && shape.padding.left <= 2;
        let channels = shape.input.channels.min(shape.output.channels);
        fits && match self.winograd {
            Winograd::Never => false,
            Winograd::WherePaying => channels >= WINOGRAD_FROM && shape.output.plane() >= 4,
            Winograd::Everywhere => true,
        }
    }
}

/// An operation of the plan, or one that takes the place of two.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Op(Op),
    /// A convolution and the 2×2 max-pool after it; `winner` keeps which entry of each window is
    /// the largest.
    ConvPool {
        conv: Convolution,
        x: Slot,
        y: Slot,
        winner: Option<Slot>,
        relu: bool,
    },
    /// The max-pool's (and ReLU's) part of the gradient of [`Step::ConvPool`].
    PoolBackward {
        pool: Pool,
        winner: Slot,
        dy: Slot,
        dx: Slot,
    },
}

impl Slots for Step {
    fn slots(&mut self) -> Vec<&mut Slot> {
        match self {
            Self::Op(op) => op.slots(),
            Self::ConvPool { x, y, winner, .. } => {
                let mut all = vec![x, y];
                all.extend(winner.as_mut());
                all
            }
            Self::PoolBackward { winner, dy, dx, .. } => vec![winner, dy, dx],
        }
    }
}

/// The weights of a convolution in Winograd's form: where they lie in the transformed memory, and
/// how many there are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transformed {
    pub conv: Convolution,
    pub forward: usize,
    pub backward: usize,
    /// Numbers for the forward pass and for the gradient of the input.
    pub lens: (usize, usize),
}

/// A plan as the CPU runs it.
pub(super) struct Program {
    pub plan: Plan<Step>,
    /// Vectors of the arena.
    pub arena: usize,
    /// Vectors of scratch memory.
    pub scratch: usize,
    /// Convolutions in Winograd's form, by their number; `None` for the others.
    pub winograd: Vec<Option<Transformed>>,
    /// Numbers of the transformed weights of one set of parameters.
    pub transformed: usize,
}

/// Gradients of values that are there several times, one copy after another.
pub(super) struct Copies {
    is_gradient: Vec<bool>,
    /// Vectors of a copy.
    length: usize,
}

impl Copies {
    /// The slot of a copy; values are there once.
    pub fn slot(&self, mut slot: Slot, copy: usize) -> Slot {
        if self.is_gradient[slot.buffer] {
            slot.offset += copy * self.length;
        }
        slot
    }

    /// Steps that work on a copy.
    pub fn steps(&self, steps: &[Step], copy: usize) -> Vec<Step> {
        let mut steps = steps.to_vec();
        for slot in steps.iter_mut().flat_map(Slots::slots) {
            *slot = self.slot(*slot, copy);
        }
        steps
    }
}

impl Program {
    pub fn new(plan: Plan, choices: Choices) -> Self {
        let mut plan = fuse_pooling(plan, choices.fuse_pooling);
        let arena = plan.place_buffers(STAGGER);
        Self::placed(plan, arena, choices)
    }

    /// A program whose arena has room for several copies of the gradients of values.
    pub fn with_copies(plan: Plan, choices: Choices, count: usize) -> (Self, Copies) {
        let mut plan = fuse_pooling(plan, choices.fuse_pooling);
        let (values, length, is_gradient) = plan.place_gradients_apart(STAGGER);
        let mut program = Self::placed(plan, values + count * length, choices);
        let steps = program.plan.ops.iter();
        let inputs = steps.filter_map(|step| match step {
            Step::Op(Op::ConvBackward { conv, .. }) => Some(match program.winograd[conv.number] {
                Some(_) => ClassTiles::scratch(conv.shape.input, conv.shape.output),
                None => gram::padded(&conv.shape),
            }),
            _ => None,
        });
        program.scratch = inputs.fold(program.scratch, usize::max);
        let copies = Copies {
            is_gradient,
            length,
        };
        (program, copies)
    }

    /// A program whose buffers have their places.
    fn placed(plan: Plan<Step>, arena: usize, choices: Choices) -> Self {
        let training = plan.is_training();
        let mut winograd = Vec::new();
        let mut transformed = 0;
        for step in &plan.ops[..plan.forward] {
            let (Step::Op(Op::Conv { conv, .. }) | Step::ConvPool { conv, .. }) = step else {
                continue;
            };
            winograd.resize(winograd.len().max(conv.number + 1), None);
            if choices.takes_winograd(conv) {
                let (input, output) = (conv.shape.input, conv.shape.output);
                let count = input.channels * output.channels;
                let len = |output| Tiling::of(output).points() * count;
                let lens = (len(output), len(input));
                winograd[conv.number] = Some(Transformed {
                    conv: *conv,
                    forward: transformed,
                    backward: transformed + lens.0,
                    lens,
                });
                transformed += lens.0 + if training { lens.1 } else { 0 };
            }
        }
        let scratch = plan.ops.iter().map(|step| scratch(step, &winograd)).max();
        Self {
            scratch: scratch.unwrap_or(0),
            plan,
            arena,
            winograd,
            transformed,
        }
    }
}

/// Vectors of scratch memory that a step needs.
fn scratch(step: &Step, winograd: &[Option<Transformed>]) -> usize {
    let direct = |conv: &Convolution, scratch: usize| match winograd[conv.number] {
        Some(_) => winograd::scratch(conv.shape.input, conv.shape.output),
        None => scratch,
    };
    match step {
        Step::Op(Op::Conv { conv, .. } | Op::ConvBackward { conv, .. }) => {
            direct(conv, conv::scratch(&conv.shape))
        }
        Step::ConvPool { conv, .. } => direct(conv, conv::pooled_scratch(&conv.shape)),
        Step::Op(Op::LinearBackward { dense, .. }) => dense.inputs.next_multiple_of(LANES),
        _ => 0,
    }
}

/// Puts 2×2 max-pools into the convolutions before them, where nobody else sees the output of the
/// convolution.
fn fuse_pooling(plan: Plan, wanted: bool) -> Plan<Step> {
    let mut buffers = plan.buffers;
    let training = plan.ops.len() > plan.forward;
    let mut uses = vec![0; buffers.len()];
    for slot in plan.ops.clone().iter_mut().flat_map(Slots::slots) {
        uses[slot.buffer] += 1;
    }
    for slot in [plan.input, plan.logits, plan.features.0] {
        uses[slot.buffer] += 1;
    }
    // What a convolution has written where the pool reads, and where the pool writes and keeps the
    // winners.
    let mut pairs: Vec<(Slot, Slot, Option<Slot>)> = Vec::new();
    for op in &plan.ops[..plan.forward] {
        let Op::MaxPool { pool, x, y } = *op else {
            continue;
        };
        let windows = (pool.height, pool.width, pool.stride);
        let made_by_conv = |op: &Op| matches!(op, Op::Conv { y, .. } if *y == x);
        // The convolution writes it, the max-pool and its gradient read it.
        let alone = uses[x.buffer] == if training { 3 } else { 2 };
        if wanted && windows == (2, 2, 2) && alone && plan.ops.iter().any(made_by_conv) {
            let winner = training.then(|| {
                buffers.push(pool.output.len());
                Slot {
                    buffer: buffers.len() - 1,
                    offset: 0,
                }
            });
            pairs.push((x, y, winner));
        }
    }
    let pair_of = |slot: Slot| pairs.iter().find(|pair| pair.0 == slot);
    let steps = plan.ops.into_iter().filter_map(|op| match op {
        Op::Conv { conv, x, y, relu } if pair_of(y).is_some() => {
            pair_of(y).map(|&(_, y, winner)| Step::ConvPool {
                conv,
                x,
                y,
                winner,
                relu,
            })
        }
        Op::MaxPool { x, .. } if pair_of(x).is_some() => None,
        Op::MaxPoolBackward {
            pool, x, dy, dx, ..
        } if pair_of(x).is_some() => {
            let winner = pair_of(x).and_then(|pair| pair.2);
            winner.map(|winner| Step::PoolBackward {
                pool,
                winner,
                dy,
                dx: dx.slot,
            })
        }
        op => Some(Step::Op(op)),
    });
    Plan {
        ops: steps.collect(),
        forward: plan.forward - pairs.len(),
        buffers,
        input: plan.input,
        logits: plan.logits,
        features: plan.features,
        input_shape: plan.input_shape,
        classes: plan.classes,
        parameters: plan.parameters,
    }
}
