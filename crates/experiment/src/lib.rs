//! Training runs: configs, checkpoints, predictive methods, sweeps.
//!
//! ```text
//! config.toml ──► RunConfig ──► Run (train, checkpoint, resume) ──► record.json
//! sweep.toml  ──► Sweep     ──► many runs, some at a time, finished ones skipped
//! ```
//!
//! - [`config`]: a run as a TOML file; unknown keys and values out of range are refused before
//!   anything starts.
//! - [`run`]: one run in one directory; killed at any moment, it resumes to the same bits.
//! - [`sweep`]: a grid of runs; [`status`]: how they are, whoever works on them.
//! - [`preset`]: the experiments of the paper by name.
//!
//! The crate prints nothing: what happens is told to an [`Observer`], and a run stops when its
//! [`Stop`] is raised.
#![forbid(unsafe_code)]

pub mod again;
mod bounds;
#[doc(hidden)]
pub mod checkpoint;
pub mod config;
mod data;
pub mod error;
mod evaluate;
mod evaluated;
pub mod export;
pub mod files;
mod hardware;
pub mod layers;
pub mod lock;
pub mod model;
pub mod observer;
pub mod onnx;
pub mod predictive;
pub mod preset;
mod reading;
mod remarks;
pub mod run;
pub mod search;
pub mod status;
pub mod sweep;
mod training;
pub mod weights;

pub use config::RunConfig;
pub use data::{Judged, RunData};
pub use error::{Error, Result};
pub use model::Model;
pub use observer::{Event, Observer, Silent, Stop};
pub use reading::shortened;
pub use run::{Outcome, Run};
pub use sweep::{Sweep, SweepOutcome};
