//! Training runs: configs, checkpoints, predictive methods, sweeps.

pub mod predictive;
