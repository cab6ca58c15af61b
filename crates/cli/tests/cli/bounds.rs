//! `maxitive evaluate --gram`: golden bounds through the command, and what it refuses.

use golden::{assert_within, numbers};

use crate::common::Place;
use crate::evaluate::{doubles, singles};

/// What is promised of the numbers.
const PROMISED: f64 = 1e-6;
/// The reference solves its problems by other means, both to rounding.
const NUMERICAL: f64 = 1e-9;

fn evaluate(z: &str, c: &str, precision: &str) -> String {
    format!("evaluate --logits --probs {z} --gram {c} --precision {precision}")
}

#[test]
fn golden_bounds_through_the_command() {
    for case in golden::cases("prediction/bounds.json") {
        let (logits, gram) = (numbers(&case["logits"]), numbers(&case["gram"]));
        let classes = logits.len();
        let place = Place::new()
            .with("z.npy", doubles(&[1, classes], &logits))
            .with("c.npy", doubles(&[1, classes, classes], &gram));
        let precision = case["precision"].to_string();
        let found = place.json(&evaluate("z.npy", "c.npy", &precision));
        let image = &found["images"][0];
        for key in ["upper", "lower", "possibility", "necessity"] {
            let what = format!("{}: {key}", case["name"]);
            assert_within(
                &what,
                &numbers(&image[key]),
                &numbers(&case[key]),
                NUMERICAL,
            );
        }
        assert!(found["in_domain"].is_null() && found["ood"].is_null());
    }
}

/// Two images of two classes, worked by hand: a margin of ±2 and variance 4 between the logits.
fn place() -> Place {
    Place::new()
        .with("z.npy", doubles(&[2, 2], &[1.0, -1.0, -1.0, 1.0]))
        .with(
            "c.npy",
            doubles(&[2, 2, 2], &[3.0, -3.0, -3.0, 3.0, 3.0, -3.0, -3.0, 3.0]),
        )
        .with("y.npy", doubles(&[2], &[0.0, 1.0]))
        .with("p.npy", doubles(&[2, 2], &[0.5; 4]))
}

#[test]
fn labels_are_optional_and_single_precision_is_enough() {
    let place = place()
        .with("zs.npy", singles(&[2, 2], &[1.0, -1.0, -1.0, 1.0]))
        .with(
            "cs.npy",
            singles(&[2, 2, 2], &[3.0, -3.0, -3.0, 3.0, 3.0, -3.0, -3.0, 3.0]),
        );
    let half = 0.5 * (-0.5f64).exp();
    for (z, c) in [("z.npy", "c.npy"), ("zs.npy", "cs.npy")] {
        let found = place.json(&(evaluate(z, c, "3") + " --labels y.npy"));
        assert_eq!(found["in_domain"]["accuracy"], 1.0);
        for (image, answer) in [(0, 0), (1, 1)] {
            let image = &found["images"][image];
            assert_eq!(image["answer"], answer);
            let lists = ["upper", "lower", "possibility"].map(|key| numbers(&image[key]));
            let wrong = 1 - answer;
            assert_within("upper", &[lists[0][wrong]], &[half], PROMISED);
            assert_within("lower", &[lists[1][answer]], &[1.0 - half], PROMISED);
            assert_within("possibility", &[lists[2][answer]], &[1.0], 0.0);
            assert_within("possibility", &[lists[2][wrong]], &[2.0 * half], PROMISED);
            assert_within(
                "necessity",
                &numbers(&image["necessity"]),
                &[1.0 - 2.0 * half],
                PROMISED,
            );
            let width = lists[0][answer] - lists[1][answer];
            assert_within("width", &numbers(&image["width"]), &[width], 0.0);
        }
    }
}

#[test]
fn logits_that_add_up_to_one_are_logits() {
    let place = Place::new()
        .with("z.npy", doubles(&[1, 2], &[1.0, 0.0]))
        .with("c.npy", doubles(&[1, 2, 2], &[1.0, 0.0, 0.0, 0.0]));
    let found = place.json(&evaluate("z.npy", "c.npy", "1"));
    let possibility = numbers(&found["images"][0]["possibility"]);
    assert_within(
        "possibility",
        &possibility,
        &[1.0, (-0.5f64).exp()],
        NUMERICAL,
    );
}

#[test]
fn people_get_the_first_images() {
    let place = place();
    let outcome = place.succeed(&evaluate("z.npy", "c.npy", "3"));
    outcome.stdout_has("linear in them");
    assert_eq!(outcome.stdout.lines().count(), 4, "{}", outcome.stdout);
}

/// What is refused, and the words that say why.
const MISTAKES: &str = r#"
--logits --probs z.npy --gram skew.npy --precision 1 => skew.npy: image 0: covariance is not symmetric
--logits --probs z.npy --gram indefinite.npy --precision 1 => indefinite.npy: image 1: covariance, scaled to a unit diagonal, is not
--logits --probs z.npy --gram nan.npy --precision 1 => nan.npy: image 1: entry (0, 1) is NaN
--logits --probs z.npy --gram flat.npy --precision 1 => Gram matrices need the shape [2, 2, 2], found
--logits --probs z.npy --gram short.npy --precision 1 => Gram matrices need the shape [2, 2, 2], found
--logits --probs z.npy --gram z.npy --precision 1 => Gram matrices need the shape [2, 2, 2], found
--logits --probs three.npy --gram c.npy --precision 1 => [2, 3, 3], found [2, 2, 2]
--logits --probs one.npy --gram unit.npy --precision 1 => one.npy: number of classes 1 is not in 2..
--logits --probs ruled-out.npy --gram c.npy --precision 1 => ruled-out.npy: row 0: the logit of class 1 is -inf
--logits --probs z.npy --gram c.npy --precision 0 => --precision 0 is not in (0, inf)
--logits --probs z.npy --gram c.npy --precision -2 => --precision -2 is not in (0, inf)
--logits --probs z.npy --gram c.npy --precision nan => --precision NaN is not in (0, inf)
--logits --probs z.npy --gram c.npy --precision inf => --precision inf is not in (0, inf)
--logits --probs z.npy --gram c.npy --precision 1e-200 => c.npy: image 0: covariance[0]
--logits --probs z.npy --gram c.npy --precision much => invalid value 'much'
--logits --probs z.npy --gram missing.npy --precision 1 => missing.npy
--probs p.npy --gram c.npy --precision 1 => --logits
--logits --probs z.npy --gram c.npy => --precision
--logits --probs z.npy --precision 1 => --gram
"#;

#[test]
fn bad_grams_are_refused_by_file_image_and_value() {
    let skew = [1.0, 0.5, 0.25, 1.0, 1.0, 0.0, 0.0, 1.0];
    let indefinite = [1.0, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 1.0];
    let nan = [1.0, 0.0, 0.0, 1.0, 1.0, f64::NAN, f64::NAN, 1.0];
    let place = place()
        .with("skew.npy", doubles(&[2, 2, 2], &skew))
        .with("indefinite.npy", doubles(&[2, 2, 2], &indefinite))
        .with("nan.npy", doubles(&[2, 2, 2], &nan))
        .with("flat.npy", doubles(&[2, 4], &skew))
        .with("short.npy", doubles(&[1, 2, 2], &skew[..4]))
        .with("three.npy", doubles(&[2, 3], &[0.0; 6]))
        .with("one.npy", doubles(&[2, 1], &[0.0; 2]))
        .with("unit.npy", doubles(&[2, 1, 1], &[1.0; 2]))
        .with(
            "ruled-out.npy",
            doubles(&[2, 2], &[0.0, f64::NEG_INFINITY, 0.0, 1.0]),
        );
    place.refuse_each("evaluate *", MISTAKES);
}
