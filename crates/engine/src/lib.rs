//! Networks as data, compiled once to a plan, trained and evaluated on the CPU in blocks of 16 images.

pub mod error;
pub mod network;
mod random;
pub mod twin;
pub mod zoo;

pub use error::{Error, Result};
pub use network::{Conv2d, Network, NetworkBuilder, Shape, Value};
