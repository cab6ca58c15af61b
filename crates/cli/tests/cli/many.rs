//! Several processes on one sweep: what is taken, how the runs are, and how they go on.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::Place;
use crate::training::{place, random, run, start, wait_for};

const GRID: &str = "name = \"g\"\nconfigs = [\"tiny.toml\"]\n[grid]\nseed = [0, 1, 2, 3]\n";

fn status(place: &Place, folder: &str) -> Value {
    place.json(&format!("sweep --status {folder}"))
}

#[test]
fn what_another_process_has_is_taken_and_not_failed() {
    let place = place().with("sweep.toml", GRID);
    let sweep = "sweep sweep.toml --out runs --set train.epochs=100000 --jobs 4";
    let mut child = start(&place, sweep);
    wait_for("all four runs are at work", || {
        place.path("runs/sweep.json").exists() && status(&place, "runs")["running"] == 4
    });
    let outcome = run(&place, sweep, 0);
    let by = format!("taken by process {} on ", child.id());
    assert_eq!(outcome.stderr.matches(&by).count(), 4, "{}", outcome.stderr);
    outcome.stderr_has(
        "Nothing is left to take: 0 of 4 runs are finished, 4 are taken by other \
         processes; see maxitive sweep --status runs",
    );
    let running = &status(&place, "runs")["runs"][0];
    assert_eq!(running["state"], "running");
    assert_eq!(running["pid"], child.id());
    assert_eq!(running["epochs"], 100_000);
    let host = running["host"].as_str();
    assert!(host.is_some_and(|host| !host.is_empty()));
    // a single run cannot be had either
    let alone = "train tiny.toml --set train.epochs=100000 --out runs/tiny-seed0";
    run(&place, alone, 2);
    // killed: nobody is at work any more, whatever stands in the lock
    child.kill().unwrap();
    child.wait().unwrap();
    let found = status(&place, "runs");
    assert_eq!((&found["running"], &found["left"]), (&0.into(), &4.into()));
}

#[test]
fn runs_are_listed_cut_into_shards_and_told_of() {
    let place = place().with("sweep.toml", GRID);
    let outcome = place.run("sweep --list sweep.toml");
    let names = "tiny-seed0\ntiny-seed1\ntiny-seed2\ntiny-seed3\n";
    assert_eq!((outcome.code, &outcome.stdout[..]), (Some(0), names));
    let outcome = place.run("sweep --list sweep.toml --shard 2/3");
    assert_eq!(outcome.stdout, "tiny-seed1\n");
    let outcome = place.run("reproduce fmnist --seeds 1 --list");
    assert_eq!(outcome.stdout.lines().count(), 9, "{}", outcome.stdout);
    // one run of the first shard diverges
    let wild = GRID.replace("seed = [0, 1, 2, 3]", "optimizer.lr = [0.1, 0.05, 1e30]");
    std::fs::write(place.path("wild.toml"), wild).unwrap();
    let first = "sweep wild.toml --out runs --shard 1/2";
    let outcome = run(&place, first, 1);
    outcome.stderr_has("Runs that diverged are not tried again without --restart");
    let outcome = place.run("sweep --status runs");
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
    let again = run(&place, first, 1);
    again.stderr_has("this was before");
    assert!(!again.stderr.contains("epochs of"), "{}", again.stderr);
    let anew = run(&place, &format!("{first} --restart"), 1);
    anew.stderr_has("tiny-lr=1e30-seed0: 4 epochs of");
    place.refuse_each(
        "*",
        r#"
sweep --status nowhere => nowhere: cannot be read
sweep --status data => data: holds no sweep
sweep --list => SWEEP.toml
sweep sweep.toml => --out <DIR>
sweep sweep.toml --status runs => cannot be used with
sweep sweep.toml --out x --shard 3/2 => not a part such as 2/4
reproduce runtime --shard 1/2 => runtime measures one run at a time
"#,
    );
}

#[test]
fn train_goes_on_in_its_own_folder_and_begins_anew_if_it_is_told() {
    let place = place();
    let train = "train tiny.toml --out run --set train.epochs=200";
    let mut child = start(&place, &format!("{train} --checkpoint-seconds 0"));
    wait_for("a checkpoint", || {
        place.path("run/checkpoint.safetensors").exists()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    // the same command as before, as a script that is started again has it
    run(&place, train, 0);
    let record = || place.value("run/record.json");
    assert_eq!(record()["timings"]["resumed"], 1);
    let wild = format!("{train} --set optimizer.lr=1e30 --restart");
    let outcome = run(&place, &wild, 1);
    outcome.stderr_has("then begin anew with the same command and --restart");
    assert!(!place.path("run/record.json").exists());
    run(&place, "resume run", 1).stderr_has("--restart begins the run anew");
    let short = "train tiny.toml --set train.epochs=1 --out run --restart";
    run(&place, short, 0);
    assert_eq!(record()["curves"].as_array().unwrap().len(), 1);
}

const SEARCH: &str = "name = \"s\"\nconfigs = [\"tiny.toml\"]\n[random]\ntrials = 4\n\
                      keys.optimizer.lr = { low = 0.01, high = 0.2, scale = \"log\" }\n\
                      [halving]\neta = 2\n";

/// Searches killed at any moment, two processes at a time, end as one that was never disturbed.
#[test]
fn a_search_that_is_killed_again_and_again_ends_with_the_same_bits() {
    let place = place().with("search.toml", SEARCH);
    let often = "--checkpoint-seconds 0 --jobs 1 --quiet";
    let search = |out| format!("sweep search.toml --out {out} {often}");
    let begin = Instant::now();
    run(&place, &search("whole"), 0);
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
    run(&place, &search("parts"), 0);
    let [parts, whole] = ["parts", "whole"].map(|out| place.text(&format!("{out}/search.json")));
    assert_eq!(parts, whole);
    let found = status(&place, "whole");
    assert_eq!(
        (&found["finished"], &found["dropped"]),
        (&1.into(), &3.into())
    );
    let runs = found["runs"].as_array().unwrap();
    let finished = runs.iter().find(|run| run["state"] == "finished").unwrap();
    let name = finished["run"].as_str().unwrap();
    for file in ["best.safetensors", "last.safetensors"] {
        let of = |out: &str| std::fs::read(place.path(&format!("{out}/{name}/{file}"))).unwrap();
        assert!(of("parts") == of("whole"), "{file}");
    }
    // watched, it is over
    place.succeed("watch parts --every 0.01");
}

/// A run that fails in the last stretch of a search does not keep the one who watches waiting.
#[test]
fn a_search_whose_last_run_fails_is_over_for_those_who_watch() {
    let search = "name = \"s\"\nconfigs = [\"tiny.toml\"]\n[set]\ndata.out_of_domain = [\"kmnist\"]\n\
                  [grid]\nseed = [0, 1]\n[halving]\neta = 2\n";
    let place = place().with("search.toml", search);
    run(&place, "sweep search.toml --out runs", 1);
    let watched = place.run("watch runs --once").stdout;
    assert_eq!(watched.matches("failed").count(), 2, "{watched}");
    place.succeed("watch runs --every 0.01");
}
