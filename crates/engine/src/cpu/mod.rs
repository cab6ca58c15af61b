//! The CPU backend: executes a plan block by block, sixteen images innermost.
//!
//! Values are `[channels][height][width][16]`, sixteen images of the batch side by side. A block
//! goes through the whole forward and backward pass before the next one begins, so that its values
//! stay in the cache. [`lower`] settles how a plan is done, [`block`] does it for sixteen images,
//! [`schedule`] shares the blocks between threads and sums their gradients in a fixed order,
//! [`gram`] goes back for several classes side by side. The other files are the kernels.
//!
//! `unsafe` is allowed here and nowhere else in the crate.
#![allow(unsafe_code)]
// The loops over taps and tiles read best with the indices of the formulas.
#![allow(clippy::needless_range_loop)]

mod block;
mod conv;
mod gather;
pub(crate) mod gram;
mod lower;
mod memory;
mod outer;
mod peak;
mod schedule;
mod simple;
mod taps;
mod vector;
mod winograd;

pub(crate) use lower::Choices;
pub use peak::peak_gflops;
pub(crate) use schedule::Cpu;

#[cfg(test)]
mod tests;
