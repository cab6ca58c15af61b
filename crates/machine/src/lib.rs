//! The machine: instruction sets and their dispatch, workers, large pages.
//!
//! - [`Isa`]: the instruction sets that this machine has, and [`dispatch!`], which compiles a
//!   function once for each of them and chooses at run time.
//! - [`Workers`]: threads that wait for one job at a time.
//! - [`filled`], [`prefer_large_pages`], [`move_to_large_pages`]: memory in large pages.
//!
//! `unsafe` is allowed here, behind a safe surface: the calls of functions with an enabled
//! instruction set (`dispatch`), the hand-over of a borrowed job to waiting threads (`workers`) and
//! the advice about pages (`pages`).
#![allow(unsafe_code)]

mod dispatch;
mod isa;
mod pages;
mod workers;

pub use dispatch::Work;
pub use isa::{Isa, IsaKind};
pub use pages::{filled, move_to_large_pages, prefer_large_pages};
pub use workers::Workers;
