//! Several at work on one sweep, runs that failed, and how the runs of a folder are.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Mutex;

use engine::Device;
use experiment::run::{BEST, FAILED, LAST, RunOptions};
use experiment::status::{State, status};
use experiment::sweep::SweepOptions;
use experiment::{Error, Event, Observer, Outcome, Run, Silent, Stop, Sweep, SweepOutcome};

use crate::run::{Lab, lasting, refusal, small};
use crate::search;

/// How often each run was trained to its end.
#[derive(Default)]
struct Trained(Mutex<BTreeMap<String, u32>>);

impl Observer for Trained {
    fn event(&self, run: &str, event: Event<'_>) {
        if let Event::Finished(_) = event {
            *self.0.lock().unwrap().entry(run.into()).or_default() += 1;
        }
    }
}

fn options<'a>(lab: &'a Lab, observer: &'a dyn Observer, stop: &'a Stop) -> SweepOptions<'a> {
    SweepOptions::new(RunOptions {
        device: Device::cpu().threads(1),
        ..lab.options(observer, stop)
    })
}

/// What three at the same work come to.
fn three(work: impl Fn() -> SweepOutcome + Sync) -> Vec<SweepOutcome> {
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3).map(|_| scope.spawn(&work)).collect();
        let outcomes = workers.into_iter().map(|worker| worker.join().unwrap());
        outcomes.collect()
    })
}

/// Runs of different rates.
fn rates(rates: &[&str]) -> Sweep {
    let runs = rates.iter().map(|lr| {
        let mut config = small("sgd", &[&format!("optimizer.lr={lr}")]);
        config.stretch(3);
        config.name = format!("lr={lr}");
        config
    });
    Sweep::of("rates", runs.collect())
}

const RATES: [&str; 6] = ["0.01", "0.012", "0.014", "0.016", "0.018", "0.02"];

#[test]
fn several_at_work_on_one_sweep_train_each_run_once() {
    let lab = Lab::new();
    let sweep = rates(&RATES);
    let (trained, stop) = (Trained::default(), Stop::default());
    let options = options(&lab, &trained, &stop);
    let outcomes = three(|| sweep.execute(&lab.directory("shared"), &options).unwrap());
    let trained = trained.0.lock().unwrap().clone();
    assert_eq!(trained.len(), 6);
    assert!(trained.values().all(|times| *times == 1), "{trained:?}");
    for outcome in &outcomes {
        assert!(outcome.failed.is_empty() && outcome.stopped.is_empty());
        assert_eq!(outcome.finished.len() + outcome.taken.len(), 6);
    }
    // bit for bit as one after the other
    let silent = self::options(&lab, &Silent, &stop);
    let alone = sweep.execute(&lab.directory("alone"), &silent).unwrap();
    let shared = sweep.execute(&lab.directory("shared"), &options).unwrap();
    assert!(alone.worked && !shared.worked && shared.taken.is_empty());
    for (alone, shared) in alone.finished.into_iter().zip(shared.finished) {
        for file in [BEST, LAST] {
            let read = |folder| std::fs::read(lab.directory(folder).join(&alone.name).join(file));
            assert!(read("alone").unwrap() == read("shared").unwrap(), "{file}");
        }
        assert_eq!(lasting(alone), lasting(shared));
    }
}

#[test]
fn several_at_work_on_one_search_wait_for_each_other_and_end_the_same() {
    let lab = Lab::new();
    let alone = search::execute(&lab, "alone", &Stop::default(), 1);
    let stop = Stop::default();
    let outcomes = three(|| search::execute(&lab, "shared", &stop, 1));
    let (shared, one) = (
        search::search(&lab, "shared"),
        search::search(&lab, "alone"),
    );
    assert_eq!(shared, one);
    for outcome in &outcomes {
        assert_eq!(outcome.dropped, alone.dropped);
        assert!(outcome.failed.is_empty() && outcome.stopped.is_empty());
    }
    let finished = search::execute(&lab, "shared", &stop, 1).finished;
    assert_eq!(finished.len(), 1);
    let [alone] = &alone.finished[..] else {
        panic!("one run is left")
    };
    assert_eq!(lasting(finished[0].clone()), lasting(alone.clone()));
    // what would compare a part of the runs is refused
    let options = SweepOptions {
        shard: Some((1, 2)),
        ..options(&lab, &Silent, &stop)
    };
    let refused = search::sweep().execute(&lab.directory("shard"), &options);
    let message = refusal(refused);
    let compares = message.starts_with("shard: a search compares all");
    assert!(compares, "{message}");
}

#[test]
fn shards_are_the_sweep_cut_into_parts() {
    let lab = Lab::new();
    let sweep = rates(&RATES);
    let stop = Stop::default();
    let mut seen = Vec::new();
    for part in 1..=4 {
        let options = SweepOptions {
            shard: Some((part, 4)),
            ..options(&lab, &Silent, &stop)
        };
        let outcome = sweep.execute(&lab.directory("parts"), &options).unwrap();
        assert!(outcome.worked && outcome.stopped.is_empty());
        seen.extend(outcome.finished.into_iter().map(|record| record.name));
        let left = status(&lab.directory("parts")).unwrap();
        let left = left.iter().filter(|run| run.state == State::Left).count();
        assert_eq!(left, 6 - seen.len());
    }
    seen.sort_unstable();
    let mut names: Vec<String> = sweep.runs().iter().map(|run| run.run_name()).collect();
    names.sort_unstable();
    assert_eq!(seen, names);
}

#[test]
fn a_run_that_diverged_is_not_tried_again_but_begins_anew() {
    let lab = Lab::new();
    let directory = lab.directory("wild");
    let run = Run::create(&directory, small("sgd", &["optimizer.lr=1e25"])).unwrap();
    let stop = Stop::default();
    let options = lab.options(&Silent, &stop);
    let first = run.execute(&options).unwrap_err();
    assert!(matches!(first, Error::Diverged { .. }), "{first}");
    assert!(directory.join(FAILED).exists());
    let again = run.execute(&options).unwrap_err();
    let message = again.to_string();
    assert!(matches!(again, Error::DivergedBefore { .. }), "{message}");
    let words = format!("{first}; this was before, and --restart begins the run anew");
    assert!(message.ends_with(&words), "{message}");
    std::fs::write(directory.join("notes.txt"), "mine").unwrap();
    let tame = Run::restart(&directory, small("sgd", &["optimizer.lr=0.01"])).unwrap();
    assert!(matches!(tame.execute(&options), Ok(Outcome::Finished(_))));
    let fresh = lab.create("tame", tame.config().clone());
    let tamed = tame.record().unwrap().unwrap();
    assert_eq!(lasting(tamed), lasting(lab.finish(&fresh)));
    assert!(!directory.join(FAILED).exists());
    // what is not the run's is left alone
    assert!(directory.join("notes.txt").exists());
}

/// What fails for another reason, data that are not there say, is tried again.
#[test]
fn what_can_be_repaired_is_tried_again() {
    let lab = Lab::new();
    let set = lab.folder.path().join("mnist");
    let hidden = lab.folder.path().join("hidden");
    std::fs::rename(&set, &hidden).unwrap();
    let sweep = rates(&RATES[..1]);
    let directory = lab.directory("repaired");
    let stop = Stop::default();
    let options = options(&lab, &Silent, &stop);
    let outcome = sweep.execute(&directory, &options).unwrap();
    assert_eq!(outcome.failed.len(), 1);
    let runs = status(&directory).unwrap();
    let State::Failed { reason } = &runs[0].state else {
        panic!("{runs:?}")
    };
    assert!(reason.contains("mnist is not on this machine"), "{reason}");
    std::fs::rename(&hidden, &set).unwrap();
    let outcome = sweep.execute(&directory, &options).unwrap();
    assert_eq!(outcome.finished.len(), 1);
    assert_eq!(status(&directory).unwrap()[0].state, State::Finished);
}

/// A search names all runs that failed, those of its last stretch too, and a sweep begins them anew
/// if it is asked to.
#[test]
fn failures_of_the_last_stretch_are_written_down() {
    let lab = Lab::new();
    let text =
        "name = 's'\nconfigs = ['mine']\n[grid]\nseed = [0, 1]\n[halving]\neta = 2\nepochs = 5\n";
    let config = small("sgd", &[]);
    let sweep = Sweep::parse(text, "s", &[], |name| Ok((name.into(), config.to_toml()))).unwrap();
    let directory = lab.directory("last");
    let stop = Stop::default();
    // the checkpoint of the survivor is damaged while the search rests before its last stretch
    let before = Stop::default().after_epochs(5);
    let first = options(&lab, &Silent, &before);
    sweep.execute(&directory, &first).unwrap();
    let dropped = experiment::search::dropped(&directory);
    assert_eq!(dropped.len(), 1);
    let runs = status(&directory).unwrap();
    let survivor = runs.iter().find(|run| run.run != dropped[0].0).unwrap();
    assert_eq!((&survivor.state, survivor.epochs_done), (&State::Left, 5));
    let folder = directory.join(&survivor.run);
    for name in ["checkpoint", "checkpoint.previous"] {
        let path = folder.join(format!("{name}.safetensors"));
        let mut bytes = std::fs::read(&path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    let second = options(&lab, &Silent, &stop);
    let outcome = sweep.execute(&directory, &second).unwrap();
    assert_eq!(outcome.failed.len(), 1);
    let search = search::search(&lab, "last");
    assert_eq!(search["failed"][0]["run"], survivor.run.as_str());
    let again = SweepOptions {
        restart: true,
        ..second
    };
    let outcome = sweep.execute(&directory, &again).unwrap();
    assert_eq!(outcome.finished.len(), 1);
    assert_eq!(outcome.finished[0].name, survivor.run);
}
