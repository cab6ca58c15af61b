//! What a record says of the bounds of predictions.

use evaluation::results::{Bounds, Scored};
use evaluation::{Ranking, Scores};

use crate::error::Result;
use crate::predictive::{Allowed, AllowedImage};

/// Right against wrong answers of test images, whose labels are all given.
pub(crate) fn right_wrong(allowed: &Allowed, labels: &[u32]) -> Result<Bounds> {
    let images = allowed.images.iter().zip(&allowed.places);
    let (right, wrong): (Vec<_>, Vec<_>) =
        images.partition(|(image, place)| image.answer == labels[**place] as usize);
    let [right, wrong] = [right, wrong].map(|side| side.into_iter().map(|(image, _)| image));
    bounds(&right.collect::<Vec<_>>(), &wrong.collect::<Vec<_>>())
}

/// Test images against those of another set.
pub(crate) fn out_of_domain(inside: &Allowed, outside: &Allowed) -> Result<Bounds> {
    let [inside, outside] = [inside, outside].map(|side| side.images.iter().collect::<Vec<_>>());
    bounds(&inside, &outside)
}

/// How well the scores tell two sides apart.
fn bounds(ins: &[&AllowedImage], outs: &[&AllowedImage]) -> Result<Bounds> {
    let of = |images: &[&AllowedImage], place: usize| -> Vec<f64> {
        let scores = images.iter().map(|image| *image.scores.each()[place]);
        scores.collect()
    };
    let mut auroc = Vec::new();
    for place in 0..Scores::METRICS.len() {
        auroc.push(Ranking::new(&of(ins, place), &of(outs, place))?.auroc());
    }
    let vacuous = ins.iter().chain(outs).filter(|image| image.is_vacuous);
    Ok(Bounds {
        scored: Scored {
            auroc: Scores::from_fn(|place| auroc[place]),
            in_samples: ins.len(),
            out_samples: outs.len(),
            vacuous: vacuous.count(),
        },
    })
}
