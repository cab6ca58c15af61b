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
pub(crate) fn run_text(name: &str) -> Option<&'static str> {
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
    #[test]
    fn the_hyper_parameters_are_those_of_the_paper() {
        let value = |name: &str, key: &str| {
            let config = serde_json::to_value(run(name, &[]).unwrap()).unwrap();
            config
                .pointer(key)
                .and_then(serde_json::Value::as_f64)
                .unwrap()
        };
        for (name, key, want) in [
            ("fashion-mnist-lenet/adamw", "/optimizer/weight_decay", 1e-2),
            ("fashion-mnist-lenet/sgd", "/optimizer/lr", 5e-3),
            ("fashion-mnist-lenet/ivon", "/optimizer/hess_init", 0.5),
            ("fashion-mnist-lenet/mc-dropout", "/network/dropout", 0.05),
            ("fashion-mnist-lenet/swag", "/schedule/start", 60.0),
            ("fashion-mnist-lenet/ucbopt", "/optimizer/vartheta", 8e-6),
            (
                "fashion-mnist-lenet/ucbopt-adapt",
                "/optimizer/beta3",
                1.001,
            ),
            ("fashion-mnist-lenet/lcbopt-adapt", "/optimizer/gamma", 1.02),
            ("cifar10-resnet20/adamw", "/optimizer/lr", 2e-3),
            ("cifar10-resnet20/swag", "/schedule/lr_final", 1e-2),
            ("cifar10-resnet20/ucbopt", "/optimizer/vartheta", 5e-5),
            ("cifar10-resnet20/lcbopt-adapt", "/optimizer/gamma", 1.05),
            ("cifar100-densenet121/sgd", "/optimizer/lr", 0.1),
            ("cifar100-densenet121/ucbopt-adapt", "/optimizer/lr", 5e-3),
            ("cifar100-densenet121/ivon", "/optimizer/weight_decay", 2e-4),
        ] {
            assert_eq!(value(name, key), want, "{name} {key}");
        }
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
