//! The CUDA backend: trains many runs in one launch, and evaluates many sets of weights.
//!
//! Weights, states, images and tables of steps live on the card; a stretch of steps is handed over
//! at once, and dozens of steps are one graph. [`layers`] makes a network of any shape from general
//! kernels, [`lenet`], [`resnet`] and [`densenet`] know kernels for one net; which of them serves
//! is settled by network and card alone, so that the bits of a run depend on nothing else.
//! [`driver`] wraps the driver, [`kernels`] holds and compiles the sources, [`table`] says how
//! descriptors lie in memory, [`training`], [`prediction`] and [`gram`] do the work.
//!
//! `unsafe` is allowed here and in `cpu`, and nowhere else in the crate.
#![allow(unsafe_code)]

mod densenet;
mod driver;
pub(crate) mod gram;
pub mod kernels;
mod layers;
mod lenet;
mod memory;
mod prediction;
mod program;
mod resnet;
mod rules;
mod table;
mod training;

use crate::backend::{Backend, Job, Task};
use crate::device::Precision;
use crate::error::Result;
use crate::network::{LayerKind, Network, Value};
use crate::plan::{Plan, Purpose};
use driver::Card;
use program::Program;

pub(crate) use driver::{count, is_there};

/// Share of the card's memory that runs which are trained together may take, in percent.
const TRAINED_TOGETHER: usize = 60;
/// Most runs that are trained together: more are not faster.
const MOST_TOGETHER: usize = 64;
/// Batch that the memory of a run is estimated for.
const USUAL_BATCH: usize = 128;
/// Multiplications and additions that are worth handing over at once: about a second of work.
const STRETCH: u64 = 20_000_000_000_000;

/// What a card is.
#[derive(Debug, Clone, PartialEq)]
pub struct CardInfo {
    /// Its name.
    pub name: String,
    /// Bytes of its memory.
    pub memory: usize,
    /// Its compute capability, major and minor.
    pub capability: (i32, i32),
    /// Version of CUDA that the driver supports, such as 13000 for 13.0.
    pub driver: i32,
}

/// What the card of this number is.
pub(crate) fn info(ordinal: usize) -> Result<CardInfo> {
    let card = Card::open(ordinal)?;
    Ok(CardInfo {
        name: card.name.clone(),
        memory: card.memory,
        capability: card.capability,
        driver: card.driver,
    })
}

/// Most bytes of the card of this number that were held at a time.
pub(crate) fn peak_memory(ordinal: usize) -> Option<usize> {
    Some(Card::open(ordinal).ok()?.held.peak())
}

/// Loads the kernels that every training needs: an error if they are neither compiled nor can be.
pub(crate) fn load(ordinal: usize) -> Result<()> {
    Card::open(ordinal)?.load(kernels::Source::Rules)
}

/// A backend for a job on the card of this number.
pub(crate) fn start(
    ordinal: usize,
    precision: Precision,
    job: &Job<'_>,
) -> Result<Box<dyn Backend>> {
    let card = Card::open(ordinal)?;
    Ok(match job.task {
        Task::Train {
            batch,
            runs,
            refuses,
        } => {
            let program = training_program(job.network, batch, precision, card.shared, runs);
            Box::new(training::Training::new(card, program, job, runs, refuses)?)
        }
        Task::Predict { features } => {
            let network = job.network;
            Box::new(prediction::Prediction::new(
                card, network, features, precision,
            )?)
        }
    })
}

/// How a network is trained on a card whose blocks have so much shared memory.
fn training_program(
    network: &Network,
    batch: usize,
    precision: Precision,
    shared: usize,
    runs: usize,
) -> Program {
    let tf32 = precision == Precision::Tf32;
    if !tf32 && let Some(program) = lenet::program(network, batch, shared, runs) {
        return program;
    }
    let own = resnet::program(network, batch, shared, tf32)
        .or_else(|| densenet::program(network, batch, shared, tf32, true));
    if let Some(program) = own {
        return program;
    }
    let plan = Plan::new(network, Purpose::TRAINING);
    layers::program(&plan, batch, tf32)
}

/// How a network predicts on a card whose blocks have so much shared memory. Networks with kernels
/// of their own have no other features than the input of the last layer.
fn predicting_program(
    network: &Network,
    features: Option<Value>,
    batch: usize,
    precision: Precision,
    shared: usize,
) -> Program {
    let tf32 = precision == Precision::Tf32;
    let last = network.layers().last();
    let usual = last.is_some_and(|last| features.is_none_or(|value| last.inputs[0] == value));
    let own = || {
        resnet::predicting(network, batch, shared, tf32)
            .or_else(|| densenet::program(network, batch, shared, tf32, false))
    };
    if usual && let Some(program) = own() {
        return program;
    }
    let purpose = Purpose {
        training: false,
        features,
    };
    layers::program(&Plan::new(network, purpose), batch, tf32)
}

/// The rate of a network's dropout, 0 without, if the network is one of the zoo: the plain one or
/// that with dropout.
fn recognize(
    network: &Network,
    plain: fn(usize) -> Result<Network>,
    with_dropout: fn(usize, f64) -> Result<Network>,
) -> Option<f64> {
    let rate = network.layers().iter().find_map(|layer| match layer.kind {
        LayerKind::Dropout { rate, .. } => Some(rate),
        _ => None,
    });
    let classes = network.classes();
    let known = match rate {
        None => plain(classes).ok()?,
        Some(rate) => with_dropout(classes, rate).ok()?,
    };
    let same = known.layers == network.layers
        && known.shapes == network.shapes
        && known.parameters == network.parameters;
    same.then_some(rate.unwrap_or(0.0))
}

/// The number of a layer that chooses its dropout masks; 0 if there is none of this name.
fn layer_number(network: &Network, name: &str) -> i32 {
    let output = network.output(name);
    output.map_or(0, |value| value.index() as i32 - 1)
}

/// How many runs of a network are trained best together on the card of this number.
pub(crate) fn together(ordinal: usize, precision: Precision, network: &Network) -> usize {
    let Ok(card) = Card::open(ordinal) else {
        return 1;
    };
    let program = training_program(network, USUAL_BATCH, precision, card.shared, 1);
    let bytes = memory::bytes_per_run(&program, network.parameter_count());
    (card.memory / 100 * TRAINED_TOGETHER / bytes.max(1)).clamp(1, MOST_TOGETHER)
}

/// How many runs of a network the memory of the card of this number holds.
pub(crate) fn room(ordinal: usize, precision: Precision, network: &Network, batch: usize) -> usize {
    let Ok(card) = Card::open(ordinal) else {
        return 1;
    };
    let program = training_program(network, batch, precision, card.shared, 1);
    let bytes = memory::bytes_per_run(&program, network.parameter_count());
    (card.memory / bytes.max(1)).max(1)
}

/// How many steps of so many runs of a network are worth handing over at once.
pub(crate) fn stretch(network: &Network, runs: usize) -> usize {
    let step = network.training_flops() * (USUAL_BATCH * runs) as u64;
    (STRETCH / step.max(1)).clamp(8, 1024) as usize
}
