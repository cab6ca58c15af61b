//! The commands, one file each: arguments in, exit code out.

pub mod completions;
pub mod figures;
pub mod infer;
pub mod man;
