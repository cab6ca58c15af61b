//! Training runs: configs, checkpoints, predictive methods, sweeps.
