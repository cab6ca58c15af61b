//! Pictures: a [`Figure`] is a grid of [`Panel`]s, a panel is a stack of marks, and each is SVG,
//! PDF or PNG; a [`Curve`] is a possibility function on a panel.
//!
//! Everything is laid out in points of a page, 1/96 inch. The drawing backend rounds to whole
//! pixels, so all outputs are drawn on a finer grid: an SVG carries it in its `viewBox`, a PDF in
//! its first matrix, a PNG is averaged down, which also smooths its edges. Legends stand above the
//! axes, where they cover no curve.
//!
//! ```
//! use plot::{Curve, Figure};
//! use possibility::prelude::*;
//!
//! let coin = Bernoulli.observe(&[true, true, false, true])?;
//! let figure = Figure::single(Curve::of(&coin, "p", &[0.05])?.panel());
//! assert!(figure.to_svg()?.starts_with("<svg"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod canvas;
pub mod curve;
mod error;
mod figure;
mod panel;
mod pdf;
pub mod text;
mod ticks;

pub use canvas::Stroke;
pub use curve::Curve;
pub use error::{Error, Result};
pub use figure::{Figure, Format};
pub use panel::Panel;
pub use plotters::style::RGBColor;

/// Colors that color-blind readers can tell apart (after Okabe and Ito).
pub mod palette {
    use plotters::style::RGBColor;

    /// Blue.
    pub const BLUE: RGBColor = RGBColor(0, 114, 178);
    /// Vermilion.
    pub const VERMILION: RGBColor = RGBColor(213, 94, 0);
    /// Bluish green.
    pub const GREEN: RGBColor = RGBColor(0, 158, 115);
    /// Orange.
    pub const ORANGE: RGBColor = RGBColor(230, 159, 0);
    /// Sky blue.
    pub const SKY: RGBColor = RGBColor(86, 180, 233);
    /// Nearly black, for text and axes.
    pub const INK: RGBColor = RGBColor(34, 34, 34);
    /// Light gray, for grid lines.
    pub const GRID: RGBColor = RGBColor(228, 228, 228);
}
