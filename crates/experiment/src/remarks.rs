//! What a run should say of its data before it trains, and of its weights before they are
//! evaluated: nothing has failed, but a result may mean something else than one thinks.

use cbopt::ScheduleConfig;
use datasets::{ImageSet, some_of};
use evaluation::record::EpochPoint;

use crate::config::{Balance, RunConfig};
use crate::data::RunData;
use crate::error::{Error, Result};

/// A class this many times larger than another is told of.
const UNEVEN: usize = 10;

/// Refuses training images that are all of one class: every network would be right.
///
/// # Errors
/// A setting that leaves one class.
pub(crate) fn check_classes(config: &RunConfig, set: &ImageSet, train: &[u32]) -> Result<()> {
    let labels = set.labels();
    let first = train.first().map(|&image| labels[image as usize]);
    let Some(only) = first.filter(|&c| train.iter().all(|&i| labels[i as usize] == c)) else {
        return Ok(());
    };
    let name = class_name(set, only as usize);
    let problem = format!(
        "all {} training images of {} are of class {name}; use more images, or another split",
        train.len(),
        config.data.dataset
    );
    Err(Error::setting("data.dataset", problem))
}

/// Classes that a part lacks, and classes of very different size.
pub(crate) fn of_classes(
    set: &ImageSet,
    test: &ImageSet,
    train: &[u32],
    validation: &[u32],
    balance: Balance,
) -> Vec<String> {
    let count = |labels: &mut dyn Iterator<Item = u32>| {
        let mut counts = vec![0; set.classes().max(test.classes())];
        labels.for_each(|label| counts[label as usize] += 1);
        counts
    };
    let of = |images: &[u32]| count(&mut images.iter().map(|&i| set.labels()[i as usize]));
    let trained = of(train);
    let parts = [
        ("the training images", trained.clone()),
        ("the validation images", of(validation)),
        ("the test images", count(&mut test.labels().iter().copied())),
    ];
    let mut remarks = Vec::new();
    for (part, counts) in parts {
        let missing: Vec<usize> = (0..counts.len()).filter(|&c| counts[c] == 0).collect();
        // without a validation part nothing is missing from it
        if missing.is_empty() || missing.len() == counts.len() {
            continue;
        }
        let names: Vec<String> = missing.iter().map(|&c| class_name(set, c)).collect();
        let (set, names) = (set.name(), some_of(&names));
        remarks.push(format!("{set}: {part} have no image of class {names}"));
    }
    let smallest = (0..trained.len())
        .filter(|&c| trained[c] > 0)
        .min_by_key(|&c| trained[c]);
    let largest = (0..trained.len()).rev().max_by_key(|&c| trained[c]);
    if let (Some(small), Some(large)) = (smallest, largest)
        && trained[large] > UNEVEN * trained[small]
    {
        remarks.push(format!(
            "{}: the classes are uneven: {} training images of class {}, {} of class {}; accuracy \
             speaks mostly of the large ones{}",
            set.name(),
            trained[large],
            class_name(set, large),
            trained[small],
            class_name(set, small),
            match balance {
                Balance::None =>
                    "; data.balance = \"sampling\" trains on all of them equally often",
                Balance::Sampling => "",
            }
        ));
    }
    remarks
}

/// A warm-up that is never over.
pub(crate) fn of_schedule(config: &RunConfig) -> Option<String> {
    let ScheduleConfig::WarmupCosine { warmup, .. } = config.schedule else {
        return None;
    };
    let epochs = config.train.epochs;
    (warmup > 0 && warmup >= epochs as u64).then(|| {
        let s = if epochs == 1 { "" } else { "s" };
        format!(
            "schedule: the warm-up takes {warmup} of {epochs} epoch{s}, so that the learning rate \
             never falls; set schedule.warmup lower"
        )
    })
}

/// A last epoch this many times worse than guessing is told of; runs that learned nothing yet are
/// near 1.
const WORSE_THAN_GUESSING: f64 = 2.0;

/// Weights that are numbers, but of no use, or of no more than one answer to everything.
pub(crate) fn of_weights(
    config: &RunConfig,
    curve: &[EpochPoint],
    data: &RunData,
) -> Option<String> {
    let last = curve.last()?;
    let (loss, guess) = (last.train_loss, (data.network.classes() as f64).ln());
    if loss > WORSE_THAN_GUESSING * guess {
        return Some(format!(
            "training: the loss of the last epoch is {loss:.3e}, that of guessing {guess:.3}: the \
             weights are of no use; try a smaller optimizer.lr than {:e}",
            config.optimizer.lr
        ));
    }
    of_one_answer(
        last.validation_accuracy?,
        &data.set,
        &data.labels(&data.validation),
    )
}

/// A validation accuracy that the most frequent class alone gives, whatever the image.
fn of_one_answer(accuracy: f64, set: &ImageSet, labels: &[u32]) -> Option<String> {
    let mut counts = vec![0; set.classes()];
    labels.iter().for_each(|&label| counts[label as usize] += 1);
    let largest = (0..counts.len()).rev().max_by_key(|&class| counts[class])?;
    let share = counts[largest] as f64 / labels.len() as f64;
    // shares of the same images: equal ones have the same bits
    (accuracy <= share).then(|| {
        format!(
            "training: the validation accuracy of the last epoch, {accuracy:.3}, is not above the \
             {share:.3} of answering class {} every time; try more epochs, a smaller train.batch \
             or another optimizer.lr",
            class_name(set, largest)
        )
    })
}

/// The name of a class in quotes, or its number where the classes have no names.
fn class_name(set: &ImageSet, class: usize) -> String {
    match set.class_names() {
        Some(names) => format!("\"{}\"", names[class]),
        None => class.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datasets::Shape;

    fn set(labels: &[u32], names: Option<&[&str]>) -> ImageSet {
        let names = names.map(|names| names.iter().map(|&name| name.to_owned()).collect());
        let pixels = vec![0; labels.len()];
        ImageSet::new(
            "shapes",
            Shape::new(1, 1, 1),
            3,
            names,
            pixels,
            labels.into(),
        )
        .unwrap()
    }

    #[test]
    fn a_class_that_a_part_lacks_is_named() {
        let all = set(&[0, 0, 1, 1, 2, 2], Some(&["disk", "ring", "star"]));
        let test = set(&[0, 1], None);
        assert_eq!(
            of_classes(&all, &test, &[0, 1, 2, 3], &[4, 5], Balance::None),
            [
                "shapes: the training images have no image of class \"star\"",
                "shapes: the validation images have no image of class \"disk\", \"ring\"",
                "shapes: the test images have no image of class \"star\"",
            ]
        );
        assert!(of_classes(&all, &all, &[0, 2, 4], &[1, 3, 5], Balance::None).is_empty());
        // no validation at all is no remark
        assert!(of_classes(&all, &all, &[0, 1, 2, 3, 4, 5], &[], Balance::None).is_empty());
    }

    #[test]
    fn one_answer_to_everything_is_told_of() {
        let labels = [1, 1, 2, 0];
        let named = set(&labels, Some(&["disk", "ring", "star"]));
        let told = of_one_answer(0.5, &named, &labels).unwrap();
        let expected = "training: the validation accuracy of the last epoch, 0.500, is not above \
                        the 0.500 of answering class \"ring\" every time";
        assert!(told.starts_with(expected), "{told}");
        assert_eq!(of_one_answer(0.75, &named, &labels), None);
    }

    #[test]
    fn uneven_classes_are_told_of_from_ten_times_on() {
        let labels: Vec<u32> = [vec![0; 21], vec![1; 2], vec![2; 3]].concat();
        let uneven = set(&labels, None);
        let every: Vec<u32> = (0..26).collect();
        let remarks = of_classes(&uneven, &uneven, &every, &[], Balance::None);
        assert_eq!(remarks.len(), 1);
        assert!(remarks[0].contains("21 training images of class 0, 2 of class 1"));
        assert!(of_classes(&uneven, &uneven, &every[1..], &[], Balance::None).is_empty());
    }
}
