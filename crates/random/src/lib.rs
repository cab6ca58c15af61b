//! Counter-based randomness: a number is a pure function of a seed, its use and its position, so
//! that neither the order of drawing nor the number of threads matters, and nothing but the
//! position has to be saved.
//!
//! - [`Seeds`]: one root seed per run, one seed per named use.
//! - [`Stream`]: `f64` and bounded numbers by index under a seed and a name, by SplitMix64
//!   ([`mix`]).
//! - [`philox()`]: blocks of four words by Philox4x32-10; [`Words`] draws them one after the other.
//! - [`normal`]: standard normal numbers by index, by Philox and Box-Muller.
//!
//! How each of them derives its numbers is part of the format of saved runs: the tests pin every
//! derivation by literals.
#![forbid(unsafe_code)]

pub mod normal;
mod philox;
mod seeds;
mod stream;

pub use philox::{Words, halves, philox, scale};
pub use seeds::Seeds;
pub use stream::{GOLDEN, Stream, mix};
