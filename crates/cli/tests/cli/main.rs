//! The built binary, run as a person would.

#![allow(clippy::unwrap_used, reason = "a failed test may say so by a panic")]

mod bounds;
mod commands;
mod common;
mod config_errors;
mod data;
mod digest;
mod evaluate;
mod infer;
mod infer_data;
mod infer_events;
mod infer_export;
mod infer_groups;
mod infer_parquet;
mod infer_saved;
mod infer_valid;
mod many;
mod mistakes;
mod own_data;
mod report;
#[cfg(unix)]
mod slurm;
mod training;
