//! Networks as data, compiled once to a plan, trained and evaluated on the CPU in blocks of 16
//! images, or on a GPU many runs at a time.
//!
//! ```text
//! NetworkBuilder / zoo ──► Network ──► Plan ──► Device ──► Trainer, Predictor
//! ```
//!
//! - [`network`] describes a network: layers, shapes, parameters with the names of PyTorch's state
//!   dict.
//! - [`twin`] computes it the obvious way in `f64`; everything fast is held against it.
//! - A plan settles once what is computed in which order and which values share memory.
//! - A [`Device`] runs the plan; the CPU does it sixteen images side by side with the instruction
//!   set it finds ([`Isa`]), a GPU all images of all runs in one launch ([`kernels`]).
//! - [`Trainer`] makes steps with any rule of `cbopt`, [`Predictor`] gives probabilities, logits
//!   and features.
//!
//! Results do not depend on the number of threads, nor on the runs that share a GPU, to the last
//! bit.

mod backend;
mod cpu;
mod cuda;
mod device;
mod dropout;
pub mod error;
mod gram;
pub mod network;
mod plan;
mod predictor;
mod trainer;
pub mod twin;
pub mod zoo;

pub use backend::Sample;
pub use cpu::peak_gflops;
pub use cuda::{CardInfo, kernels};
pub use device::{Device, MAX_THREADS, Precision};
pub use dropout::DropoutMode;
pub use error::{Error, Result};
pub use gram::{GRAM_CLASSES, GramConfig, Grams, Precisions, gram_matrices};
pub use machine::Isa;
pub use network::{Conv2d, Network, NetworkBuilder, Shape, Value};
pub use predictor::{Input, Predictor, PredictorConfig};
pub use trainer::{
    BatchLoss, MAX_BATCH, Member, Snapshot, Step, Stretch, Stretched, TrainStep, Trainer,
    TrainerConfig,
};
