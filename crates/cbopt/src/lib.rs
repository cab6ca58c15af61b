//! Update rules over flat `f32` slices: the three CBOpt optimizers and the methods they are
//! compared with.
//!
//! A config is checked once by `build`, which gives a rule; a rule makes a [`State`] and then steps
//! in place:
//!
//! ```
//! use cbopt::{Update, UpperAdaptCboConfig};
//! let rule = UpperAdaptCboConfig { weight_decay: 2e-4, ..Default::default() }.build()?;
//! let mut params = vec![0.7_f32, -0.3, 0.1];
//! let mut state = rule.state(params.len());
//! for _ in 0..100 {
//!     let grads: Vec<f32> = params.iter().map(|w| w - 1.0).collect();
//!     rule.step(0.005, &mut params, &grads, &mut state)?;
//! }
//! assert!(params.iter().all(|w| (w - 1.0).abs() < 0.1));
//! # Ok::<(), cbopt::Error>(())
//! ```
//!
//! | id | config | rule |
//! |---|---|---|
//! | `ucbopt` | [`UpperCboConfig`] | [`cbo::fixed`] |
//! | `ucbopt-adapt` | [`UpperAdaptCboConfig`] | [`cbo::upper`] |
//! | `lcbopt-adapt` | [`LowerAdaptCboConfig`] | [`cbo::lower`] |
//! | `sgd` | [`SgdConfig`] | [`baseline::sgd`] |
//! | `adamw` | [`AdamWConfig`] | [`baseline::adamw`] |
//! | `ivon` | [`IvonConfig`] | [`baseline::ivon`] |
//!
//! A rule that is chosen by its identifier is a [`RuleConfig`], which is also what config files
//! hold; an [`Optimizer`] drives any of them, `ivon` with its samples included.
//!
//! Each rule exists twice: [`Update::step_scalar`] is one coordinate in plain `f64`, and
//! [`Update::step`] is one fused pass over memory, vectorized for the machine it runs on and shared
//! between the threads of an [`Executor`]. The bits of the result do not depend on the instruction
//! set or on the number of threads, and a state that was saved with [`State::to_bytes`] continues
//! to the same bits.
#![forbid(unsafe_code)]

pub mod baseline;
pub mod cbo;
pub mod checkpoint;
pub mod error;
pub mod executor;
mod kernel;
pub mod noise;
pub mod optimizer;
pub mod precision;
pub mod rule;
pub mod schedule;
pub mod stabilizer;
pub mod state;
pub mod update;

pub use baseline::adamw::{AdamW, AdamWConfig};
pub use baseline::ivon::{HessianEstimate, Ivon, IvonConfig};
pub use baseline::sgd::{Sgd, SgdConfig};
pub use cbo::{Cbo, CboConfig, LowerAdaptCboConfig, UpperAdaptCboConfig, UpperCboConfig};
pub use error::{Error, Result};
pub use executor::{Executor, NonFinite, StepReport};
pub use machine::{Isa, Workers};
pub use optimizer::Optimizer;
pub use precision::Precision;
pub use rule::{Constants, Rule, RuleConfig};
pub use schedule::{Schedule, ScheduleConfig};
pub use stabilizer::EpsPolicy;
pub use state::State;
pub use update::{Coordinate, Update};
