//! Upper and lower probabilities from the logits and Gram matrices of any framework: the covariance
//! of the logits of an image is `C = c/L` for its Gram matrix `c = JJᵀ` and the precision `L`.

use possibility::prediction::{Prediction, predict_each};
use serde_json::{Value, json};

use questions::text::{TextTable, significant};
use questions::user_error::UserError;
use tabular::arrays::Loaded;

/// Images that people are shown.
const SHOWN: usize = 20;

/// `Ok(())` if the precision is one.
///
/// # Errors
/// It is not positive and finite.
pub fn check_precision(precision: f64) -> Result<(), UserError> {
    if precision > 0.0 && precision.is_finite() {
        return Ok(());
    }
    let message = format!("--precision {precision} is not in (0, inf)");
    Err(UserError::new(message))
}

/// What the weights still allow for every image: `logits` are `[n, classes]` from the file `name`,
/// the file `gram` holds `[n, classes, classes]`.
///
/// # Errors
/// The file cannot be read, has another shape, or holds what is no Gram matrix.
pub fn predict(
    name: &str,
    logits: &[f64],
    classes: usize,
    gram: &str,
    precision: f64,
) -> Result<Vec<Prediction>, UserError> {
    if let Some(at) = logits.iter().position(|z| !z.is_finite()) {
        let (row, class, value) = (at / classes, at % classes, logits[at]);
        return Err(UserError::new(format!(
            "{name}: row {row}: the logit of class {class} is {value}; bounds need finite ones"
        )));
    }
    let grams = Loaded::read(gram, "gram")?.squares(logits.len() / classes, classes)?;
    if let Some(at) = grams.iter().position(|c| !c.is_finite()) {
        let (image, entry) = (at / (classes * classes), at % (classes * classes));
        let (row, column, value) = (entry / classes, entry % classes, grams[at]);
        return Err(UserError::new(format!(
            "{gram}: image {image}: entry ({row}, {column}) is {value}, not a finite number"
        )));
    }
    let found = predict_each(logits, &grams, classes, precision);
    let found = found.map_err(|error| UserError::new(format!("{gram}: {error}")))?;
    found
        .into_iter()
        .enumerate()
        .map(|(image, result)| {
            result.map_err(|error| {
                let divided = "the covariance is the Gram matrix over the precision";
                UserError::new(format!("{gram}: image {image}: {error} ({divided})"))
            })
        })
        .collect()
}

/// An image for programs.
pub fn json(image: &Prediction) -> Value {
    json!({
        "answer": image.answer,
        "upper": image.upper,
        "lower": image.lower,
        "lower_at_least": image.lower_at_least,
        "possibility": image.possibility(),
        "necessity": image.necessity(),
        "width": image.width(),
    })
}

/// The first images for people.
pub fn text(images: &[Prediction]) -> String {
    let header = [
        "image",
        "answer",
        "lower",
        "probability",
        "upper",
        "necessity",
    ];
    let mut table = TextTable::new(header);
    for (number, image) in images.iter().take(SHOWN).enumerate() {
        let answer = image.answer;
        table.row([
            number.to_string(),
            answer.to_string(),
            significant(image.lower[answer]),
            significant(image.probabilities[answer]),
            significant(image.upper[answer]),
            significant(image.necessity()),
        ]);
    }
    let more = match images.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!("and {more} more, all of them with --json\n"),
    };
    format!(
        "What the weights still allow, for logits that are linear in them\n{}{more}",
        table.render()
    )
}
