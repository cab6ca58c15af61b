//! Random search with successive halving, from the outside.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use engine::Device;
use experiment::run::{BEST, LAST, RunOptions};
use experiment::search::SEARCH;
use experiment::sweep::{SweepOptions, SweepOutcome};
use experiment::{Run, RunConfig, Silent, Stop, Sweep};
use serde_json::Value;

use crate::run::{Lab, lasting, small, stopped_after};

const SEARCHED: &str = r#"
    name = "searched"
    configs = ["mine"]
    [random]
    trials = 7
    seed = 3
    keys.optimizer.lr = { low = 1e-4, high = 0.1, scale = "log" }
    keys.optimizer.momentum = [0.0, 0.5, 0.9]
    [halving]
    epochs = 1
    eta = 2
"#;

pub fn sweep() -> Sweep {
    let config = small("sgd", &["schedule={shape='warmup-cosine', warmup=2}"]).to_toml();
    Sweep::parse(SEARCHED, "searched", &[], |name| {
        Ok((name.into(), config.clone()))
    })
    .unwrap()
}

pub fn execute(lab: &Lab, folder: &str, stop: &Stop, jobs: usize) -> SweepOutcome {
    let options = SweepOptions {
        jobs,
        together: Some(jobs),
        ..SweepOptions::new(RunOptions {
            device: Device::cpu().threads(1),
            ..lab.options(&Silent, stop)
        })
    };
    sweep().execute(&lab.directory(folder), &options).unwrap()
}

pub fn search(lab: &Lab, folder: &str) -> Value {
    let text = std::fs::read_to_string(lab.directory(folder).join(SEARCH)).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn what_survives_has_the_bits_of_a_whole_run() {
    let lab = Lab::new();
    let outcome = execute(&lab, "searched", &Stop::default(), 2);
    assert!(outcome.failed.is_empty() && outcome.stopped.is_empty());
    // 7 for 1 epoch, 4 for 2, 2 for 4, 1 for all 6
    assert_eq!((outcome.finished.len(), outcome.dropped.len()), (1, 6));
    let search = search(&lab, "searched");
    let rounds = search["rounds"].as_array().unwrap();
    let shape = |round: &Value| (round["epochs"].clone(), round["kept"].clone());
    let shapes: Vec<_> = rounds.iter().map(shape).collect();
    assert_eq!(
        shapes,
        [(1, 4), (2, 2), (4, 1)].map(|(a, b)| (a.into(), b.into()))
    );
    for config in sweep().runs() {
        let name = config.run_name();
        let whole = lab.create(&format!("whole-{name}"), config.clone());
        let whole_record = lab.finish(&whole);
        // every value that decided is that of the whole run
        for round in rounds {
            let epochs = round["epochs"].as_u64().unwrap() as usize;
            let runs = round["runs"].as_array().unwrap();
            let losses = whole_record.curves[..epochs].iter();
            let best = losses.map(|point| point.validation_loss.unwrap());
            let best = best.fold(f64::INFINITY, f64::min);
            let found = runs.iter().find(|run| run["run"] == name.as_str());
            assert!(found.is_none_or(|run| run["value"] == best), "{name}");
            let values = runs.iter().map(|run| run["value"].as_f64().unwrap());
            assert!(values.is_sorted());
        }
        let folder = lab.directory("searched").join(&name);
        if name == outcome.finished[0].name {
            for file in [BEST, LAST] {
                let read = |folder: &std::path::Path| std::fs::read(folder.join(file)).unwrap();
                assert!(read(&folder) == read(whole.directory()), "{file}");
            }
            let found = outcome.finished[0].clone();
            assert_eq!(lasting(found), lasting(whole_record));
        } else {
            let mut dropped = outcome.dropped.iter();
            let (_, reason) = dropped.find(|(run, _)| *run == name).unwrap();
            assert!(reason.starts_with("validation_loss "), "{reason}");
            assert!(Run::open(&folder).unwrap().record().unwrap().is_none());
        }
    }
}

#[test]
fn a_search_that_is_stopped_again_and_again_ends_the_same() {
    let lab = Lab::new();
    let want = execute(&lab, "whole", &Stop::default(), 1);
    let mut interruptions = 0;
    let got = loop {
        let wait = Duration::from_millis(20 + 10 * interruptions);
        let jobs = 1 + interruptions as usize % 2;
        let outcome = stopped_after(wait, |stop| execute(&lab, "parts", stop, jobs));
        if outcome.stopped.is_empty() {
            break outcome;
        }
        interruptions += 1;
        assert!(interruptions < 1000, "it makes no progress");
    };
    assert!(interruptions > 1);
    assert_eq!(search(&lab, "parts"), search(&lab, "whole"));
    assert_eq!(got.dropped, want.dropped);
    let [got, want] = [got, want].map(|outcome| outcome.finished.into_iter().map(lasting));
    assert!(got.eq(want));
}

#[test]
fn the_same_seed_draws_the_same_and_schedules_keep_their_length() {
    let names = |sweep: &Sweep| {
        let names = sweep.runs().iter().map(RunConfig::run_name);
        names.collect::<Vec<_>>()
    };
    let sweep = sweep();
    assert_eq!(names(&sweep), names(&self::sweep()));
    assert_eq!(sweep.runs().len(), 7);
    for run in sweep.runs() {
        assert!((1e-4..=0.1).contains(&run.optimizer.lr));
        assert_eq!(run.train.epochs, 6);
    }
}
