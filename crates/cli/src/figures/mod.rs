//! The pictures of the theory, one file each, and those of the paper's experiments.

mod contour;
pub mod families;
pub mod intuition;
pub mod paper;
pub mod twin;

pub use contour::Contour;

/// Points from `lower` to `upper`, dense enough to look like a curve.
pub fn grid(lower: f64, upper: f64) -> impl Iterator<Item = f64> {
    const STEPS: u32 = 500;
    (0..=STEPS).map(move |i| lower + (upper - lower) * f64::from(i) / f64::from(STEPS))
}
