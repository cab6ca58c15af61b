//! Mistakes of one character that once passed all tests; `xtask/mutants.toml` plants them again.

#![allow(clippy::unwrap_used)]

use evaluation::record::RunRecord;
use experiment::{Error, RunConfig, Stop};

use crate::run::{Lab, small};

fn finish(lab: &Lab, name: &str, config: RunConfig) -> RunRecord {
    lab.finish(&lab.create(name, config))
}

#[test]
fn of_equal_losses_the_first_is_the_best() {
    let lab = Lab::new();
    // so small a rate that no weight moves
    let record = finish(&lab, "still", small("sgd", &["optimizer.lr=1e-30"]));
    let losses = record.curves.iter().map(|point| point.validation_loss);
    let losses: Vec<f64> = losses.map(Option::unwrap).collect();
    assert_eq!(losses, [losses[0]; 6]);
    assert_eq!(record.evaluations[0].epoch, 0);
}

#[test]
fn a_training_that_diverges_in_its_last_step_is_noticed_by_its_validation() {
    let lab = Lab::new();
    // one step, whose own loss is that of the first weights
    let mut config = small("sgd", &["optimizer.lr=1e30", "train.batch=512"]);
    config.stretch(1);
    let run = lab.create("last", config);
    let error = lab.execute(&run, &Stop::default()).unwrap_err();
    let Error::Diverged { what, .. } = &error else {
        panic!("{error}");
    };
    assert!(what.starts_with("the validation loss is"), "{what}");
}

#[test]
fn the_sample_size_of_ivon_is_that_of_the_images_trained_on() {
    let lab = Lab::new();
    // a tenth of 200 images is held back
    let usual = finish(&lab, "usual", small("ivon", &[]));
    let given = finish(&lab, "given", small("ivon", &["optimizer.ess=180"]));
    let all = finish(&lab, "all", small("ivon", &["optimizer.ess=200"]));
    let losses = |record: &RunRecord| -> Vec<f64> {
        record.curves.iter().map(|point| point.train_loss).collect()
    };
    assert_eq!(losses(&usual), losses(&given));
    assert_ne!(losses(&usual), losses(&all));
}

#[test]
fn other_sets_are_normalized_as_the_config_says() {
    let lab = Lab::new();
    // the other set is the test set under another name
    let folder = lab.folder.path();
    for file in ["t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"] {
        let from = folder.join("fashion-mnist").join(file);
        std::fs::copy(from, folder.join("mnist").join(file)).unwrap();
    }
    let auroc = |constants: &str| {
        let setting = format!("data.ood_normalization=\"{constants}\"");
        let record = finish(&lab, constants, small("adamw", &[&setting]));
        record.evaluations[0].out_of_domain[0].metrics.values.auroc
    };
    assert_eq!(auroc("training"), Some(0.5));
    assert!(auroc("own").is_some_and(|area| area != 0.5));
}
