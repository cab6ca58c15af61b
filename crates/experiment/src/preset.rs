//! The experiments of the paper, by name: the files of the folder `configs`, built into the
//! program.
//!
//! `fashion-mnist-lenet/ucbopt` is the config of a run, `fmnist` a sweep: the Fashion-MNIST block
//! of the main table.

use crate::config::RunConfig;
use crate::error::{Error, Result};
use crate::sweep::Sweep;

/// Name and text of a file of the folder `configs`.
macro_rules! configs {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../configs/", $name, ".toml")))),+]
    };
}

/// The same for sweeps, which lie in `configs/reproduce`.
macro_rules! sweeps {
    ($($name:literal),+ $(,)?) => {
        [$(($name, include_str!(concat!("../configs/reproduce/", $name, ".toml")))),+]
    };
}

const RUNS: [(&str, &str); 31] = configs!(
    "cifar10-resnet20/adamw",
    "cifar10-resnet20/ivon",
    "cifar10-resnet20/lcbopt-adapt",
    "cifar10-resnet20/lcbopt-adapt-mc-dropout",
    "cifar10-resnet20/mc-dropout",
    "cifar10-resnet20/sgd",
    "cifar10-resnet20/swag",
    "cifar10-resnet20/ucbopt",
    "cifar10-resnet20/ucbopt-adapt",
    "cifar10-resnet20/ucbopt-adapt-mc-dropout",
    "cifar10-resnet20/ucbopt-mc-dropout",
    "cifar10-resnet20/ucbopt-zero",
    "cifar10-resnet20/ucbopt-zero-mc-dropout",
    "cifar100-densenet121/adamw",
    "cifar100-densenet121/ivon",
    "cifar100-densenet121/lcbopt-adapt",
    "cifar100-densenet121/mc-dropout",
    "cifar100-densenet121/sgd",
    "cifar100-densenet121/ucbopt",
    "cifar100-densenet121/ucbopt-adapt",
    "cifar100-densenet121/ucbopt-zero",
    "fashion-mnist-lenet/adamw",
    "fashion-mnist-lenet/ivon",
    "fashion-mnist-lenet/lcbopt-adapt",
    "fashion-mnist-lenet/mc-dropout",
    "fashion-mnist-lenet/sgd",
    "fashion-mnist-lenet/swag",
    "fashion-mnist-lenet/ucbopt",
    "fashion-mnist-lenet/ucbopt-adapt",
    "fashion-mnist-lenet/ucbopt-zero",
    "quickstart/swag",
);

const SWEEPS: [(&str, &str); 12] = sweeps!(
    "ablation-beta3-lower",
    "ablation-beta3-upper",
    "ablation-gamma-lower",
    "ablation-gamma-upper",
    "ablation-vartheta",
    "cifar10",
    "cifar100",
    "fmnist",
    "mc-dropout",
    "possibilistic",
    "quickstart",
    "runtime",
);

/// Names of the runs.
pub fn runs() -> impl Iterator<Item = &'static str> {
    RUNS.iter().map(|(name, _)| *name)
}

/// Names of the sweeps.
pub fn sweeps() -> impl Iterator<Item = &'static str> {
    SWEEPS.iter().map(|(name, _)| *name)
}

/// The text of a config that is built in.
pub fn run_text(name: &str) -> Option<&'static str> {
    find(&RUNS, "config", name).ok()
}

fn find(list: &[(&str, &'static str)], what: &str, name: &str) -> Result<&'static str> {
    list.iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
        .ok_or_else(|| {
            let known: Vec<_> = list.iter().map(|(known, _)| *known).collect();
            let problem = format!("no such {what}; known are {}", known.join(", "));
            Error::setting(name, problem)
        })
}

/// The config of this name, with `key=value` settings on top.
///
/// ```
/// let config = experiment::preset::run("fashion-mnist-lenet/ucbopt", &["seed=2".into()])?;
/// assert_eq!(config.run_name(), "ucbopt-seed2");
/// # Ok::<(), experiment::Error>(())
/// ```
///
/// # Errors
/// No such name, or a setting that is refused.
pub fn run(name: &str, settings: &[String]) -> Result<RunConfig> {
    RunConfig::parse(find(&RUNS, "config", name)?, name, settings)
}

/// The sweep of this name, with `key=value` settings for all runs on top.
///
/// ```
/// // nine trainings give the eleven rows of the main table's first block, for each of three seeds
/// assert_eq!(experiment::preset::sweep("fmnist", &[])?.runs().len(), 27);
/// # Ok::<(), experiment::Error>(())
/// ```
///
/// # Errors
/// No such name, or a setting that is refused.
pub fn sweep(name: &str, settings: &[String]) -> Result<Sweep> {
    let text = find(&SWEEPS, "experiment", name)?;
    Sweep::parse(text, name, settings, |file| {
        let name = file.trim_start_matches("../").trim_end_matches(".toml");
        Ok((name.to_owned(), find(&RUNS, "config", name)?.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn every_preset_is_accepted_and_every_file_is_a_preset() {
        for name in runs() {
            run(name, &[]).unwrap();
        }
        for name in sweeps() {
            sweep(name, &[]).unwrap();
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs");
        let mut files = BTreeSet::new();
        for folder in std::fs::read_dir(&root).unwrap() {
            let folder = folder.unwrap().path();
            for file in std::fs::read_dir(&folder).unwrap() {
                let file = file.unwrap().path().with_extension("");
                files.insert(file.strip_prefix(&root).unwrap().display().to_string());
            }
        }
        let known: BTreeSet<String> = runs()
            .map(str::to_owned)
            .chain(sweeps().map(|name| format!("reproduce/{name}")))
            .collect();
        assert_eq!(files, known);
    }

    /// `tests/presets.txt` holds the configs as runs of older versions stored them: names, order
    /// and values of all keys.
    #[test]
    fn configs_are_written_as_ever() {
        let kept = include_str!("../tests/presets.txt");
        let mut found = String::new();
        for name in runs() {
            let config = run(name, &[]).unwrap();
            let json = serde_json::to_string(&config).unwrap();
            found.push_str(&format!("{name} {json}\n"));
            let again = RunConfig::parse(&config.to_toml(), name, &[]).unwrap();
            assert_eq!(again, config, "{name}");
            let again: RunConfig = serde_json::from_str(&json).unwrap();
            assert_eq!(again, config, "{name}");
            // TOML puts tables last; inside the tables the order is the same
            let toml: toml::Table = toml::from_str(&config.to_toml()).unwrap();
            let json: serde_json::Value = serde_json::from_str(&json).unwrap();
            for part in ["optimizer", "schedule"] {
                let of_toml: Vec<_> = toml[part].as_table().unwrap().keys().collect();
                let of_json: Vec<_> = json[part].as_object().unwrap().keys().collect();
                assert_eq!(of_toml, of_json, "{name}");
            }
        }
        assert_eq!(found, kept);
    }

    #[test]
    fn every_experiment_can_be_shortened() {
        for name in sweeps() {
            for epochs in [1, 2, 7] {
                for mut run in sweep(name, &[]).unwrap().runs_mut().drain(..) {
                    run.stretch(epochs);
                    assert_eq!(run.train.epochs, epochs);
                    run.check()
                        .unwrap_or_else(|error| panic!("{name}, {epochs} epochs: {error}"));
                }
            }
        }
    }

    /// Rates, decays and curvatures as the paper prints them.
    /// Appendix H, number by number: rate, decay, and what else a method has.
    #[test]
    fn the_hyper_parameters_are_those_of_the_paper() {
        type Numbers = &'static [(&'static str, f64)];
        type Setting = (&'static str, f64, f64, Numbers);
        const MOMENTUM: Numbers = &[("/optimizer/momentum", 0.9)];
        const DROPOUT: Numbers = &[("/optimizer/momentum", 0.9), ("/network/dropout", 0.05)];
        const ADAM: Numbers = &[("/optimizer/beta1", 0.9), ("/optimizer/beta2", 0.999)];
        const SLOW: Numbers = &[("/optimizer/beta1", 0.9), ("/optimizer/beta2", 0.99999)];
        const IVON: Numbers = &[
            ("/optimizer/hess_init", 0.5),
            ("/optimizer/mc_samples", 1.0),
        ];
        const UPPER: Numbers = &[
            ("/optimizer/hess_init", 0.05),
            ("/optimizer/gamma", 0.9),
            ("/optimizer/beta3", 1.001),
        ];
        const FIXED: Numbers = &[("/optimizer/hess_init", 0.05)];
        const LOWER: Numbers = &[("/optimizer/hess_init", 0.1), ("/optimizer/beta3", 0.999)];
        const FASHION: [Setting; 9] = [
            ("adamw", 1e-3, 1e-2, ADAM),
            ("sgd", 5e-3, 1e-5, MOMENTUM),
            ("ivon", 0.2, 2e-3, IVON),
            ("mc-dropout", 5e-3, 1e-5, DROPOUT),
            ("swag", 5e-3, 1e-5, MOMENTUM),
            ("ucbopt", 1e-2, 2e-3, FIXED),
            ("ucbopt-zero", 1e-2, 2e-3, FIXED),
            ("ucbopt-adapt", 1e-2, 2e-3, UPPER),
            ("lcbopt-adapt", 2e-3, 2e-3, LOWER),
        ];
        const CIFAR: [Setting; 9] = [
            ("adamw", 2e-3, 2e-4, ADAM),
            ("sgd", 0.1, 2e-4, MOMENTUM),
            ("ivon", 0.2, 2e-4, IVON),
            ("mc-dropout", 0.1, 2e-4, DROPOUT),
            ("swag", 5e-2, 2e-4, MOMENTUM),
            ("ucbopt", 0.1, 2e-4, FIXED),
            ("ucbopt-zero", 0.1, 2e-4, FIXED),
            ("ucbopt-adapt", 5e-3, 2e-4, UPPER),
            ("lcbopt-adapt", 5e-3, 2e-4, LOWER),
        ];
        // epochs, ϑ, γ of lCBOpt-adapt, last rate before SWAG begins
        let blocks = [
            ("fashion-mnist-lenet", FASHION, 100.0, 8e-6, 1.02, 1e-3),
            ("cifar10-resnet20", CIFAR, 200.0, 5e-5, 1.05, 1e-2),
            ("cifar100-densenet121", CIFAR, 200.0, 5e-5, 1.05, 1e-2),
        ];
        let mut compared = 0;
        for (block, settings, epochs, vartheta, gamma, lr_final) in blocks {
            for (method, lr, decay, numbers) in settings {
                let name = format!("{block}/{method}");
                if name == "cifar100-densenet121/swag" {
                    continue; // the paper has no such row
                }
                let config = serde_json::to_value(run(&name, &[]).unwrap()).unwrap();
                let mut wanted = vec![
                    ("/optimizer/lr", lr),
                    ("/optimizer/weight_decay", decay),
                    ("/train/epochs", epochs),
                    ("/train/batch", 128.0),
                    ("/data/validation_share", 0.1),
                ];
                wanted.extend(numbers);
                wanted.extend(match method {
                    "swag" => vec![
                        ("/schedule/start", epochs - 40.0),
                        ("/schedule/lr_final", lr_final),
                        ("/schedule/swag_lr", 5e-3),
                        ("/swag/start", epochs - 40.0),
                    ],
                    _ => vec![("/schedule/warmup", 5.0), ("/schedule/lr_final", 0.0)],
                });
                wanted.extend(match method {
                    "ucbopt" => vec![("/optimizer/vartheta", vartheta)],
                    "ucbopt-zero" => vec![("/optimizer/vartheta", 0.0)],
                    "lcbopt-adapt" => vec![("/optimizer/gamma", gamma)],
                    _ => vec![],
                });
                if method.contains("cbopt") || method == "ivon" {
                    wanted.extend(SLOW);
                }
                for (key, want) in wanted {
                    let found = config.pointer(key).and_then(serde_json::Value::as_f64);
                    assert_eq!(found, Some(want), "{name} {key}");
                    compared += 1;
                }
                let is_color = block.starts_with("cifar");
                let data = &config["data"];
                assert_eq!(data["flip"].as_bool(), Some(is_color), "{name}");
                let pad = data["pad"].as_u64();
                assert_eq!(pad, Some(if is_color { 4 } else { 0 }), "{name}");
            }
        }
        assert!(compared > 200, "{compared}");
    }

    #[test]
    fn unknown_names_are_answered_with_the_known_ones() {
        let message = sweep("mnist", &[]).unwrap_err().to_string();
        assert!(
            message.starts_with("mnist: no such experiment; known are "),
            "{message}"
        );
        assert!(message.contains("fmnist"), "{message}");
    }
}
