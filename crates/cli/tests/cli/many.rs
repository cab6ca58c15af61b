//! Several processes on one sweep: what is taken, how the runs are, and how they go on.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{Place, split};
use crate::training::{DATA, place, random, run};

const GRID: &str = "name = \"g\"\nconfigs = [\"tiny.toml\"]\n[grid]\nseed = [0, 1, 2, 3]\n";

/// Starts the program without waiting for its end.
fn start(place: &Place, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_maxitive"))
        .args(arguments)
        .args(DATA)
        .current_dir(place.folder())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn wait_for(what: &str, mut ready: impl FnMut() -> bool) {
    let start = Instant::now();
    while !ready() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn status(place: &Place, folder: &str) -> Value {
    place.json(&["sweep", "--status", folder])
}

#[test]
fn what_another_process_has_is_taken_and_not_failed() {
    let place = place().with("sweep.toml", GRID);
    let long = ["--set", "train.epochs=100000", "--jobs", "4"];
    let sweep = ["sweep", "sweep.toml", "--out", "runs"];
    let mut child = start(&place, &[&sweep[..], &long].concat());
    wait_for("all four runs are at work", || {
        place.path("runs/sweep.json").exists() && status(&place, "runs")["running"] == 4
    });
    let outcome = run(&place, &[&sweep[..], &long].concat());
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let by = format!("taken by process {} on ", child.id());
    assert_eq!(outcome.stderr.matches(&by).count(), 4, "{}", outcome.stderr);
    let words = "Nothing is left to take: 0 of 4 runs are finished, 4 are taken by other \
                 processes; see maxitive sweep --status runs";
    assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
    let running = &status(&place, "runs")["runs"][0];
    assert_eq!(running["state"], "running");
    assert_eq!(running["pid"], child.id());
    assert_eq!(running["epochs"], 100_000);
    assert!(
        running["host"]
            .as_str()
            .is_some_and(|host| !host.is_empty())
    );
    // a single run cannot be had either
    let alone = ["train", "tiny.toml", "--set", "train.epochs=100000"];
    let outcome = run(
        &place,
        &[&alone[..], &["--out", "runs/tiny-seed0"]].concat(),
    );
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    // killed: nobody is at work any more, whatever stands in the lock
    child.kill().unwrap();
    child.wait().unwrap();
    let found = status(&place, "runs");
    assert_eq!((&found["running"], &found["left"]), (&0.into(), &4.into()));
}

#[test]
fn runs_are_listed_cut_into_shards_and_told_of() {
    let place = place().with("sweep.toml", GRID);
    let outcome = place.run(&["sweep", "--list", "sweep.toml"]);
    let names = "tiny-seed0\ntiny-seed1\ntiny-seed2\ntiny-seed3\n";
    assert_eq!((outcome.code, &outcome.stdout[..]), (Some(0), names));
    let outcome = place.run(&["sweep", "--list", "sweep.toml", "--shard", "2/3"]);
    assert_eq!(outcome.stdout, "tiny-seed1\n");
    let outcome = place.run(&["reproduce", "fmnist", "--seeds", "1", "--list"]);
    assert_eq!(outcome.stdout.lines().count(), 9, "{}", outcome.stdout);
    // one run of the first shard diverges
    let wild = GRID.replace("seed = [0, 1, 2, 3]", "optimizer.lr = [0.1, 0.05, 1e30]");
    std::fs::write(place.path("wild.toml"), wild).unwrap();
    let first = ["sweep", "wild.toml", "--out", "runs", "--shard", "1/2"];
    let outcome = run(&place, &first);
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    let words = "Runs that diverged are not tried again without --restart";
    assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
    let outcome = place.run(&["sweep", "--status", "runs"]);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines[0], "3 runs: 1 finished, 1 failed, 1 left");
    assert!(
        lines[1].starts_with("finished  tiny-lr=0.1-seed0 "),
        "{}",
        lines[1]
    );
    assert!(
        lines[2].starts_with("left      tiny-lr=0.05-seed0"),
        "{}",
        lines[2]
    );
    assert!(lines[2].ends_with("not begun"), "{}", lines[2]);
    assert!(lines[3].contains("training diverged: "), "{}", lines[3]);
    let again = run(&place, &first);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("this was before"), "{}", again.stderr);
    assert!(!again.stderr.contains("epochs of"), "{}", again.stderr);
    let anew = run(&place, &[&first[..], &["--restart"]].concat());
    assert!(anew.stderr.contains("tiny-lr=1e30-seed0: 4 epochs of"));
    for (arguments, words) in [
        (
            &["sweep", "--status", "nowhere"][..],
            "nowhere: cannot be read",
        ),
        (&["sweep", "--status", "data"], "data: holds no sweep"),
        (&["sweep", "--list"], "SWEEP.toml"),
        (&["sweep", "sweep.toml"], "--out <DIR>"),
        (
            &["sweep", "sweep.toml", "--status", "runs"],
            "cannot be used with",
        ),
        (
            &["sweep", "sweep.toml", "--out", "x", "--shard", "3/2"],
            "not a part such as 2/4",
        ),
        (
            &["reproduce", "runtime", "--shard", "1/2"],
            "runtime measures one run at a time",
        ),
    ] {
        let outcome = place.run(arguments);
        assert_eq!(outcome.code, Some(2), "{arguments:?}: {}", outcome.stderr);
        assert!(
            outcome.stderr.contains(words),
            "{arguments:?}: {}",
            outcome.stderr
        );
    }
}

#[test]
fn train_goes_on_in_its_own_folder_and_begins_anew_if_it_is_told() {
    let place = place();
    let train = split("train tiny.toml --out run --set train.epochs=200");
    let mut child = start(
        &place,
        &[&train[..], &["--checkpoint-seconds", "0"]].concat(),
    );
    wait_for("a checkpoint", || {
        place.path("run/checkpoint.safetensors").exists()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    // the same command as before, as a script that is started again has it
    let outcome = run(&place, &train);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let record = || -> Value {
        serde_json::from_slice(&std::fs::read(place.path("run/record.json")).unwrap()).unwrap()
    };
    assert_eq!(record()["timings"]["resumed"], 1);
    let wild = ["--set", "optimizer.lr=1e30", "--restart"];
    let outcome = run(&place, &[&train[..], &wild].concat());
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    let words = "then begin anew with the same command and --restart";
    assert!(outcome.stderr.contains(words), "{}", outcome.stderr);
    assert!(!place.path("run/record.json").exists());
    let outcome = run(&place, &["resume", "run"]);
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("--restart begins the run anew"));
    let short = ["--set", "train.epochs=1", "--out", "run", "--restart"];
    let outcome = run(&place, &[&["train", "tiny.toml"], &short[..]].concat());
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(record()["curves"].as_array().unwrap().len(), 1);
}

const SEARCH: &str = "name = \"s\"\nconfigs = [\"tiny.toml\"]\n[random]\ntrials = 4\n\
                      keys.optimizer.lr = { low = 0.01, high = 0.2, scale = \"log\" }\n\
                      [halving]\neta = 2\n";

/// Searches killed at any moment, two processes at a time, end as one that was never disturbed.
#[test]
fn a_search_that_is_killed_again_and_again_ends_with_the_same_bits() {
    let place = place().with("search.toml", SEARCH);
    let often = ["--checkpoint-seconds", "0", "--jobs", "1", "--quiet"];
    let search = |out| [&["sweep", "search.toml", "--out", out], &often[..]].concat();
    let begin = Instant::now();
    let whole = run(&place, &search("whole"));
    assert_eq!(whole.code, Some(0), "{}", whole.stderr);
    let length = begin.elapsed().as_micros() as u64;
    let (mut state, mut killed) = (7, 0);
    for _ in 0..20 {
        let mut children = [(); 2].map(|()| start(&place, &search("parts")));
        let moment = random(&mut state) % (length / 4).max(1);
        std::thread::sleep(Duration::from_micros(moment));
        for child in &mut children {
            child.kill().unwrap();
            killed += u32::from(child.wait().unwrap().code().is_none());
        }
    }
    assert!(killed > 5, "only {killed} were killed");
    let rest = run(&place, &search("parts"));
    assert_eq!(rest.code, Some(0), "{}", rest.stderr);
    let read = |path: String| std::fs::read(place.path(&path)).unwrap();
    assert_eq!(
        read("parts/search.json".into()),
        read("whole/search.json".into())
    );
    let found = status(&place, "whole");
    assert_eq!(
        (&found["finished"], &found["dropped"]),
        (&1.into(), &3.into())
    );
    let runs = found["runs"].as_array().unwrap();
    let finished = runs.iter().find(|run| run["state"] == "finished").unwrap();
    let name = finished["run"].as_str().unwrap();
    for file in ["best.safetensors", "last.safetensors"] {
        let of = |folder: &str| read(format!("{folder}/{name}/{file}"));
        assert!(of("parts") == of("whole"), "{file}");
    }
    // watched, it is over
    let watched = place.run(&["watch", "parts", "--every", "0.01"]);
    assert_eq!(watched.code, Some(0));
}

/// A run that fails in the last stretch of a search does not keep the one who watches waiting.
#[test]
fn a_search_whose_last_run_fails_is_over_for_those_who_watch() {
    let search = "name = \"s\"\nconfigs = [\"tiny.toml\"]\n[set]\ndata.out_of_domain = [\"kmnist\"]\n\
                  [grid]\nseed = [0, 1]\n[halving]\neta = 2\n";
    let place = place().with("search.toml", search);
    let outcome = run(&place, &["sweep", "search.toml", "--out", "runs"]);
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    let watched = place.run(&["watch", "runs", "--once"]);
    assert_eq!(
        watched.stdout.matches("failed").count(),
        2,
        "{}",
        watched.stdout
    );
    let watched = place.run(&["watch", "runs", "--every", "0.01"]);
    assert_eq!(watched.code, Some(0));
}
