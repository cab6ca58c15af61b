//! The disk is full, or the process ends, at every single file operation of a run and of a sweep:
//! what is tried again ends with the same bits, and nothing half written is taken for whole.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;

use datasets::disk::faults::{Fault, Watch};
use engine::Device;
use evaluation::record::RunRecord;
use experiment::again::reevaluate;
use experiment::run::{RECORD, RunOptions};
use experiment::sweep::SweepOptions;
use experiment::{Error, Outcome, Run, RunConfig, Silent, Stop, Sweep};

use crate::run::{Lab, lasting, small};

/// An empty folder, in memory where the machine has one: thousands of small files are flushed here,
/// and what a disk does with them is not the question.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

/// Operations that write a file under a temporary name and give it its own.
fn written(name: &str) -> Vec<String> {
    let operations = ["create", "write", "flush"].map(|what| format!("{what} {name}.tmp"));
    operations
        .into_iter()
        .chain([format!("rename {name}")])
        .collect()
}

/// Operations of a small run that is executed in so many stretches, with these files beside those
/// of every run.
fn operations(stretches: usize, more: &[&str]) -> Vec<String> {
    let lock = ["open lock", "cut lock", "write lock", "flush lock"].map(String::from);
    let checkpoint = |replaced: &[&str]| {
        let mut all = written("checkpoint.safetensors");
        all.splice(3..3, replaced.iter().map(ToString::to_string));
        all
    };
    // the first checkpoint has none before it, which is found out by trying
    let before = ["rename checkpoint.previous.safetensors"];
    let mut all = vec!["mkdir ".to_owned(), "open lock".to_owned()];
    all.extend(written("config.toml"));
    for _ in 0..stretches {
        all.extend(lock.clone());
        all.extend(checkpoint(&before));
    }
    for name in ["last.safetensors", "best.safetensors"].iter().chain(more) {
        all.extend(written(name));
    }
    all.extend(written("model.json"));
    all.extend(written(RECORD));
    all
}

/// A run of two epochs for every predictive method, with the files it has beside those of all.
fn runs() -> Vec<(RunConfig, &'static [&'static str])> {
    let config = |rule: &str, method: &str, settings: &str| {
        let dropout = match method {
            "mc-dropout" => "{layer=\"dropout\",rate=0.2,always_on=true},",
            _ => "",
        };
        let layers = format!(
            "{{layer=\"avg-pool\",size=7}},{{layer=\"flatten\"}},{dropout}{{layer=\"dense\"}}"
        );
        let network = format!("network={{name=\"tiny\",layers=[{layers}]}}");
        let row = format!("rows=[{{row=\"a\",predictive=\"{method}\"{settings}}}]");
        let mut config = small(rule, &[&network, &row]);
        config.stretch(2);
        config
    };
    let samples = ",samples=2";
    vec![
        (config("adamw", "point", ""), &["last.state.safetensors"]),
        (
            config("ivon", "ivon", samples),
            &["best.state.safetensors", "last.state.safetensors"],
        ),
        (config("sgd", "mc-dropout", samples), &[]),
        (config("swag", "swag", samples), &["last.swag.safetensors"]),
        (
            config("sgd", "laplace", ""),
            &["best.laplace.safetensors", "last.laplace.safetensors"],
        ),
        (
            config("ucbopt-adapt", "possibilistic", ""),
            &["best.state.safetensors", "last.state.safetensors"],
        ),
    ]
}

fn options<'a>(lab: &'a Lab, stop: &'a Stop) -> RunOptions<'a> {
    RunOptions {
        device: Device::cpu().threads(1),
        // one checkpoint, at the end of a stretch
        checkpoint_seconds: 1e9,
        ..lab.options(&Silent, stop)
    }
}

/// Begins the run or goes on with it; if it was not begun before, it is stopped after an epoch.
fn attempt(lab: &Lab, directory: &Path, config: &RunConfig) -> Result<RunRecord, Error> {
    let run = Run::open_or_create(directory, config.clone())?;
    let stop = Stop::default().after_epochs(1);
    run.execute(&options(lab, &stop))?;
    match run.execute(&options(lab, &Stop::default()))? {
        Outcome::Finished(record) => Ok(*record),
        Outcome::Stopped => panic!("nobody asked it to stop"),
    }
}

/// Weights and states, and the record without times.
fn result(directory: &Path) -> (BTreeMap<String, Vec<u8>>, RunRecord) {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert!(!name.ends_with(".tmp"), "{name} stays");
        if !name.starts_with("checkpoint") && ![RECORD, "lock"].contains(&name.as_str()) {
            files.insert(name, std::fs::read(path).unwrap());
        }
    }
    let record = RunRecord::read(directory.join(RECORD)).unwrap();
    (files, lasting(record))
}

/// Every fault in turn: an attempt under the fault ends well or with an error of the system, and
/// the next one with the wanted result. How many ended with an error.
fn survive<T>(
    operations: &[String],
    attempt: impl Fn(&Path) -> Result<T, Error>,
    check: impl Fn(&Path),
) -> usize {
    let mut failed = 0;
    for (at, operation) in operations.iter().enumerate() {
        for fault in [Fault::Full(at), Fault::Killed(at)] {
            let folder = folder();
            let directory = folder.path().join("run");
            let watch = Watch::new(&directory, fault);
            match attempt(&directory) {
                Ok(_) => {}
                Err(error) => {
                    failed += 1;
                    let said = error.with_causes();
                    let is_system = matches!(error, Error::File { .. });
                    assert!(is_system, "{} {fault:?}: {said}", operation);
                    if matches!(fault, Fault::Full(_)) {
                        assert!(said.contains("make room"), "{said}");
                    }
                }
            }
            drop(watch);
            if let Err(error) = attempt(&directory) {
                panic!("{} {fault:?}: {}", operation, error.with_causes());
            }
            check(&directory);
        }
    }
    failed
}

#[test]
fn a_run_of_every_method_survives_a_fault_at_every_file_operation() {
    let lab = Lab::with([20, 2, 2]);
    for (config, more) in runs() {
        let name = config.rows[0].method.id();
        let folder = folder();
        let directory = folder.path().join("run");
        let watch = Watch::new(&directory, Fault::None);
        attempt(&lab, &directory, &config).unwrap();
        let operations = operations(2, more);
        assert_eq!(watch.happened(), operations, "{name}");
        drop(watch);
        let want = result(&directory);
        let failed = survive(
            &operations,
            |directory| attempt(&lab, directory, &config),
            |directory| assert!(result(directory) == want, "{name}"),
        );
        // none of them passes in silence
        assert_eq!(failed, 2 * operations.len(), "{name}");
    }
}

#[test]
fn a_sweep_survives_a_fault_at_every_file_operation() {
    let lab = Lab::with([20, 2, 2]);
    let text = "name = 'x'\nconfigs = ['a']\n[grid]\nseed = [0, 1]";
    let config = runs()[0].0.to_toml();
    let load = |_: &str| Ok(("a".to_owned(), config.clone()));
    let sweep = Sweep::parse(text, "sweep", &[], load).unwrap();
    let execute = |directory: &Path| -> Result<(), Error> {
        let stop = Stop::default();
        let options = SweepOptions {
            together: Some(1),
            ..SweepOptions::new(options(&lab, &stop))
        };
        let mut outcome = sweep.execute(directory, &options)?;
        match outcome.failed.pop() {
            Some((_, error)) => Err(error),
            None => {
                assert_eq!(outcome.finished.len(), 2);
                Ok(())
            }
        }
    };
    let folder = folder();
    let directory = folder.path().join("run");
    let watch = Watch::new(&directory, Fault::None);
    execute(&directory).unwrap();
    let mut all = vec!["mkdir ".to_owned()];
    all.extend(written("sweep.json"));
    for config in sweep.runs() {
        let name = config.run_name();
        let of_run = operations(1, runs()[0].1).into_iter();
        all.extend(of_run.map(|operation| match operation.split_once(' ') {
            Some((what, "")) => format!("{what} {name}"),
            Some((what, file)) => format!("{what} {name}/{file}"),
            None => operation,
        }));
    }
    assert_eq!(watch.happened(), all);
    drop(watch);
    let names: Vec<String> = sweep.runs().iter().map(RunConfig::run_name).collect();
    let results = |directory: &Path| -> Vec<_> {
        names
            .iter()
            .map(|name| result(&directory.join(name)))
            .collect()
    };
    let want = results(&directory);
    // the second run is like the first
    survive(&all[..all.len() / 2 + 5], execute, |directory| {
        assert!(results(directory) == want);
        let status = experiment::status::status(directory).unwrap();
        assert_eq!(status.len(), 2);
    });
}

/// What a finished run gives when it is evaluated again with its own rows.
fn evaluated(lab: &Lab, directory: &Path) -> Result<RunRecord, Error> {
    let out = folder();
    let stop = Stop::default();
    let record = reevaluate(
        directory,
        &[],
        &out.path().join("out"),
        &options(lab, &stop),
    )?;
    Ok(lasting(record.unwrap()))
}

/// Bits that changed, files that were cut, and files of another run.
#[test]
fn damaged_weights_and_states_are_refused_and_never_give_other_numbers() {
    let lab = Lab::with([20, 2, 2]);
    for number in [1, 3, 4, 5] {
        let mut config = runs()[number].0.clone();
        let [run, other] = ["run", "other"].map(|name| {
            config.seed += 1;
            let directory = lab.directory(&format!("{name}{number}"));
            let run = Run::create(&directory, config.clone()).unwrap();
            let stop = Stop::default();
            run.execute(&options(&lab, &stop)).unwrap();
            directory
        });
        let want = evaluated(&lab, &run).unwrap();
        let mut random = random::Words::new([7, 0], [0; 3]);
        let mut files: Vec<_> = result(&run).0.into_iter().collect();
        let record = std::fs::read(run.join(RECORD)).unwrap();
        files.push((RECORD.into(), record));
        for (name, whole) in files {
            let mut damaged = vec![std::fs::read(other.join(&name)).unwrap()];
            damaged.push(whole[..whole.len() / 2].to_vec());
            damaged.push(Vec::new());
            for _ in 0..5 {
                let mut bytes = whole.clone();
                let at = random.below(8 * bytes.len() as u32) as usize;
                bytes[at / 8] ^= 1 << (at % 8);
                damaged.push(bytes);
            }
            for (kind, bytes) in damaged.into_iter().enumerate() {
                std::fs::write(run.join(&name), bytes).unwrap();
                match evaluated(&lab, &run) {
                    Ok(found) => assert!(found == want, "{name} {kind}: other numbers"),
                    Err(error) => {
                        assert!(error.is_mistake(), "{name} {kind}: {error}");
                        let said = error.with_causes();
                        assert!(said.contains(&name), "{name} {kind}: {said}");
                    }
                }
            }
            std::fs::write(run.join(&name), whole).unwrap();
        }
    }
}

/// Nothing is left to be done there, so nothing else would look at the weights.
#[test]
fn a_finished_run_with_damaged_weights_is_not_called_finished() {
    let lab = Lab::with([20, 2, 2]);
    let directory = lab.directory("run");
    let run = Run::create(&directory, runs()[0].0.clone()).unwrap();
    let stop = Stop::default();
    let again = || Run::open(&directory)?.execute(&options(&lab, &stop));
    run.execute(&options(&lab, &stop)).unwrap();
    let before = result(&directory);
    let weights = directory.join("last.safetensors");
    let whole = std::fs::read(&weights).unwrap();
    let mut damaged = whole.clone();
    let at = whole.len() / 2;
    damaged[at] ^= 4;
    std::fs::write(&weights, damaged).unwrap();
    let said = again().unwrap_err().with_causes();
    assert!(said.contains("last.safetensors"), "{said}");
    assert!(said.contains("is damaged"), "{said}");
    // nothing was written, and weights that are gone on purpose are not missed
    std::fs::remove_file(&weights).unwrap();
    assert!(matches!(again(), Ok(Outcome::Finished(_))));
    std::fs::write(&weights, whole).unwrap();
    assert!(matches!(again(), Ok(Outcome::Finished(_))));
    assert!(result(&directory) == before);
}

/// Between the first look for a record and the lock another process may finish the run.
#[test]
fn a_run_that_was_finished_meanwhile_is_not_trained_again() {
    let lab = Lab::with([20, 2, 2]);
    let directory = lab.directory("run");
    let run = Run::create(&directory, runs()[0].0.clone()).unwrap();
    let stop = Stop::default();
    run.execute(&options(&lab, &stop)).unwrap();
    let record = directory.join(RECORD);
    let aside = lab.directory("aside.json");
    std::fs::rename(&record, &aside).unwrap();
    // the other process, whose name is not in the lock yet
    let lock = std::fs::File::options()
        .write(true)
        .open(directory.join("lock"));
    let lock = lock.unwrap();
    lock.try_lock().unwrap();
    let watch = Watch::new(&directory, Fault::None);
    let outcome = std::thread::scope(|scope| {
        let late = scope.spawn(|| run.execute(&options(&lab, &stop)).unwrap());
        while watch.happened().is_empty() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        std::fs::rename(&aside, &record).unwrap();
        lock.unlock().unwrap();
        late.join().unwrap()
    });
    assert!(matches!(outcome, Outcome::Finished(_)));
    let only_lock = ["open lock", "cut lock", "write lock", "flush lock"];
    assert_eq!(watch.happened(), only_lock);
}
