//! Records of runs in, one self-contained HTML file out; also the same tables as CSV, Markdown,
//! LaTeX and text.
//!
//! - [`html`]: the page. It loads nothing: styles, script and data are inside.
//! - [`csv`], [`markdown`], [`latex`], [`text`]: the tables.
//! - [`summary`]: the tables as data, for those who draw their own.
//! - [`paper`]: what the paper prints, and what an independent reproduction found.
//! - [`names`]: what datasets and networks are called on the page.
//! - [`layout`]: the tables and figures of the paper in its own layout.
//! - [`sheet`]: pictures with what a model says of them.
//! - [`search`]: what searches by successive halving leave behind.
//! - [`files`]: records and searches found in folders.
//!
//! Cost: linear in the size of the records; the page grows with rows, checkpoints and out-of-domain
//! sets, not with the seeds.
#![forbid(unsafe_code)]

mod curves;
mod disagreements;
mod facts;
pub mod files;
pub mod layout;
pub mod names;
mod page;
pub mod paper;
pub mod search;
pub mod sheet;
mod style;
pub mod summary;
mod sweep;
mod tables;

pub use page::{Interval, Options, html};
pub use tables::{csv, latex, markdown, text};
