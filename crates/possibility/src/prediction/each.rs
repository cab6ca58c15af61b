//! Predictions of many images, on several threads.

use std::num::NonZero;

use super::{Logits, Prediction};
use crate::error::{Error, Result, check_positive, check_size};

/// What the weights still allow for every image, from logits `[n, classes]` and Gram matrices
/// `[n, classes, classes]` of the logits' weight gradients, `c = JJᵀ`: the covariance of the logits
/// is `c/precision`. The inner results are those of the images, in their order.
///
/// ```
/// use possibility::prediction::predict_each;
/// let found = predict_each(&[1.0, 0.0], &[2.0, 0.0, 0.0, 2.0], 2, 4.0)?;
/// let image = found[0].as_ref().unwrap();
/// assert!(image.lower[0] < image.probabilities[0] && image.probabilities[0] < image.upper[0]);
/// # Ok::<(), possibility::Error>(())
/// ```
///
/// # Errors
/// A precision outside `(0, ∞)`, no class, or sizes that do not fit.
pub fn predict_each(
    logits: &[f64],
    grams: &[f64],
    classes: usize,
    precision: f64,
) -> Result<Vec<Result<Prediction>>> {
    check_positive("precision", precision)?;
    if classes == 0 {
        return Err(Error::Empty {
            name: "list of classes",
        });
    }
    let count = logits.len() / classes;
    check_size("logits", logits.len(), count * classes)?;
    check_size("Gram matrices", grams.len(), count * classes * classes)?;
    let images: Vec<(&[f64], &[f64])> = logits
        .chunks_exact(classes)
        .zip(grams.chunks_exact(classes * classes))
        .collect();
    let one = |z: &[f64], c: &[f64]| {
        let covariance: Vec<f64> = c.iter().map(|c| c / precision).collect();
        Logits::new(z, &covariance)?.predict()
    };
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let share = images.len().div_ceil(threads).max(1);
    Ok(std::thread::scope(|scope| {
        let parts: Vec<_> = images
            .chunks(share)
            .map(|part| {
                scope.spawn(move || part.iter().map(|(z, c)| one(z, c)).collect::<Vec<_>>())
            })
            .collect();
        let join = |part: std::thread::ScopedJoinHandle<'_, Vec<_>>| {
            part.join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        parts.into_iter().flat_map(join).collect()
    }))
}
