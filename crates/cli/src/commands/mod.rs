//! The commands, one file each: arguments in, exit code out.

pub mod bench;
pub mod completions;
pub mod data;
pub mod devices;
pub mod evaluate;
pub mod export;
pub mod figures;
pub mod infer;
pub mod man;
pub mod net;
pub mod predict;
pub mod quickstart;
pub mod reevaluate;
pub mod report;
pub mod reproduce;
pub mod resume;
pub mod sweep;
pub mod train;
pub mod watch;
