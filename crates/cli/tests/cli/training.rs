//! Training from the command line: runs, sweeps, what is printed, and `kill -9`.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{CommandLine, Outcome, Place, split};

/// A config for tiny images of the user's own, in the layout of Fashion-MNIST.
const CONFIG: &str = r#"
name = "tiny"
data = { dataset = "fashion-mnist", out_of_domain = ["mnist"] }
network = { name = "lenet" }
train = { epochs = 4, batch = 16 }
optimizer = { rule = "ivon", lr = 0.1 }
rows = [{ row = "mean", predictive = "point" }, { row = "samples", predictive = "ivon", samples = 2 }]
"#;

/// IDX files of noisy images with a bright column that tells the class.
fn images(count: u32, salt: u32) -> (Vec<u8>, Vec<u8>) {
    let mut images = Vec::from([0, 0, 8, 3]);
    for size in [count, 28, 28] {
        images.extend(size.to_be_bytes());
    }
    let mut labels = Vec::from([0, 0, 8, 1]);
    labels.extend(count.to_be_bytes());
    for image in 0..count {
        let class = image * 3 % 10;
        labels.push(class as u8);
        for pixel in 0..784 {
            let noise = (image * 784 + pixel + salt).wrapping_mul(2_654_435_761) >> 26;
            let bright = pixel % 28 / 2 == class + 2;
            images.push(noise as u8 + if bright { 150 } else { 0 });
        }
    }
    (images, labels)
}

pub fn place() -> Place {
    let place = Place::new();
    for (set, part, count, salt) in [
        ("fashion-mnist", "train", 120, 1),
        ("fashion-mnist", "t10k", 30, 2),
        ("mnist", "t10k", 20, 77_777),
    ] {
        let folder = place.path("data").join(set);
        std::fs::create_dir_all(&folder).unwrap();
        let (images, labels) = images(count, salt);
        std::fs::write(folder.join(format!("{part}-images-idx3-ubyte")), images).unwrap();
        std::fs::write(folder.join(format!("{part}-labels-idx1-ubyte")), labels).unwrap();
    }
    place.with("tiny.toml", CONFIG)
}

pub const DATA: [&str; 3] = ["--data-dir", "data", "--unverified"];

/// Runs a command on these data, which must end with this code.
#[track_caller]
pub fn run<C: CommandLine + ?Sized>(place: &Place, command: &C, code: i32) -> Outcome {
    place
        .run(&[&command.words()[..], &DATA].concat())
        .ended(code)
}

/// Starts a command on these data without waiting for its end.
pub fn start<C: CommandLine + ?Sized>(place: &Place, command: &C) -> Child {
    Command::new(env!("CARGO_BIN_EXE_maxitive"))
        .args(command.words())
        .args(DATA)
        .current_dir(place.folder())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

pub fn wait_for(what: &str, mut ready: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !ready() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_run_prints_a_table_and_leaves_a_record() {
    let place = place();
    let outcome = run(&place, "train tiny.toml --set seed=3 --out run", 0);
    outcome.stdout_has("samples");
    outcome.stderr_has("tiny-seed3: 4 epochs of 7 steps");
    for file in split("config.toml record.json best.safetensors last.safetensors") {
        assert!(place.path("run").join(file).exists(), "{file}");
    }
    let record: Value = place.value("run/record.json");
    assert_eq!(record["schema"], "maxitive-run/2");
    assert_eq!(
        (&record["device"], &record["precision"]),
        (&"cpu".into(), &"f32".into())
    );
    assert_eq!(record["config"]["optimizer"]["ess"], 108.0);
    // another config is another run; the same one is there and finished
    let outcome = run(&place, "train tiny.toml --out run", 2);
    outcome.stderr_has("of another run, seed differs");
    for again in ["resume run", "train tiny.toml --set seed=3 --out run"] {
        run(&place, again, 0).stderr_has("was finished before");
    }
}

/// The JSON objects that were printed, one a line.
fn events(outcome: &Outcome) -> Vec<Value> {
    let lines = outcome.stdout.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn kinds(events: &[Value]) -> Vec<&str> {
    let kinds = events.iter().map(|event| event["event"].as_str());
    kinds.collect::<Option<_>>().unwrap()
}

#[test]
fn a_reason_to_fail_is_told_once() {
    let sweep = "name = \"s\"\nconfigs = [\"tiny.toml\"]\n[set]\ndata.out_of_domain = [\"kmnist\"]\n[grid]\nseed = [0, 1, 2]\n";
    let place = place().with("sweep.toml", sweep);
    for quiet in ["", "--quiet"] {
        let sweep = format!("sweep sweep.toml --out runs --jobs 1 {quiet}");
        let outcome = run(&place, &sweep, 1);
        let count = |text: &str| outcome.stderr.matches(text).count();
        assert_eq!(count("kmnist is not on this machine"), 1);
        assert_eq!(count("failed like tiny-seed0"), 2);
        assert_eq!(count("3 of 3 runs failed"), 1);
    }
}

#[test]
fn events_are_json_lines() {
    let place = place();
    let outcome = run(&place, "train tiny.toml --out run --json", 0);
    assert_eq!(outcome.stderr, "");
    let events = events(&outcome);
    let kinds = kinds(&events);
    // the files are not the published ones, which is noted
    let notes = kinds.iter().take_while(|kind| **kind == "note").count();
    assert!(notes > 0);
    assert_eq!(kinds[notes], "started");
    assert_eq!(kinds.iter().filter(|kind| **kind == "epoch").count(), 4);
    assert_eq!(*kinds.last().unwrap(), "finished");
    let rows = events.last().unwrap()["evaluations"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    assert!(rows[0]["in_domain"]["accuracy"].is_number());
    assert!(rows[0]["out_of_domain"]["mnist"]["auroc"].is_number());
}

#[test]
fn mistakes_are_named_before_anything_starts() {
    let place = place();
    place.refuse_each(
        "* --data-dir data --unverified",
        r#"
train nothing.toml --out x => nothing.toml: no such file
train tiny.toml --set train.epoch=2 --out x => train.epoch: no such key
train tiny.toml --set train.epochs=0 --out x => train.epochs: 0 is not in 1..=100000
train tiny.toml --set optimizer.lr=-1 --out x => optimizer.lr: -1 is not in (0, inf)
train tiny.toml --set rows.0.row=samples --out x => the name "samples" is listed twice
train tiny.toml --set seed --out x => not of the form key=value
train tiny.toml --set network.name=vgg --out x => known are lenet
train tiny.toml --set optimizer.rule=adam --out x => optimizer.rule: expected one of "ucbopt"
resume nowhere => nowhere: holds no run
train tiny.toml --checkpoint-seconds=nan --out x => not a number of seconds from 0 on
reproduce fmist => did you mean "fmnist"?
quickstart --set train.epochs=3 --out x => swag.start: 18 is not below train.epochs, 3; --epochs shortens
sweep tiny.toml --out x => tiny.toml
"#,
    );
}

#[test]
fn data_that_are_not_there_are_asked_for() {
    let place = place();
    let train = "train tiny.toml --set data.dataset=kmnist --out x";
    run(&place, train, 2).stderr_has("kmnist");
    assert!(!place.path("x").exists());
    // asked for once, not by every run
    let outcome = run(&place, "reproduce cifar10 --out x", 2);
    let count = outcome.stderr.matches("is not on this machine").count();
    assert_eq!(count, 1, "{}", outcome.stderr);
    assert!(!place.path("x").exists());
}

#[test]
fn runtimes_are_measured_in_processes_of_their_own() {
    let place = place();
    // two of the three datasets are not there
    let outcome = run(&place, "reproduce runtime --epochs 1 --out x", 1);
    for name in ["cifar-10", "cifar-100"] {
        let part = format!("{name} is not here, runs on it are left out");
        let count = outcome.stderr.matches(&part).count();
        assert_eq!(count, 1, "{}", outcome.stderr);
    }
    let line = |rule: &str| {
        let mut lines = outcome.stdout.lines();
        lines
            .find(|line| line.starts_with("lenet") && line.contains(rule))
            .unwrap_or_else(|| panic!("no {rule} in {}", outcome.stdout))
            .split_whitespace()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    for (rule, paper) in [("adamw", "3.26"), ("ivon", "3.30"), ("ucbopt", "3.28")] {
        let cells = line(rule);
        assert_eq!(cells.len(), 7, "{cells:?}");
        assert!(cells[2].parse::<f64>().is_ok() && cells[3].parse::<u32>().is_ok());
        // the processor has no memory of a GPU; the paper's is beside it
        assert_eq!((&cells[1][..], &cells[4][..]), (rule, "-"));
        assert!(cells[5] == paper && cells[6].parse::<u32>().is_ok());
    }
    // a second time everything is there
    let again = "reproduce runtime --epochs 1 --out x --json --paper-layout paper";
    let again = run(&place, again, 1);
    let kinds_again = events(&again);
    let kinds_again = kinds(&kinds_again);
    let (others, last) = kinds_again.split_at(kinds_again.len() - 2);
    assert_eq!(
        (last, others),
        (&["report", "paper-layout"][..], &["skipped"; 6][..])
    );
    // the paper's table from the records, without training again
    let table = place.text("paper/runtime.md");
    let line = |start: &str| {
        let mut lines = table.lines();
        lines.find(|line| line.starts_with(start)).unwrap()
    };
    let block = "| Fashion-MNIST, LeNet | Runtime (seconds per epoch) | ours |";
    assert!(!line(block).contains('–'), "{table}");
    let memory = line("|  | Resident memory of the process (GiB) | ours |");
    assert!(!memory.contains('–'), "{table}");
    assert!(line("| CIFAR-100, DenseNet-121 |").ends_with("| – | – | – | – | – | – |"));
    assert!(table.contains("|  |  | paper | 84.5 | 83.2 | 83.5 | 86.9 | 86.9 | 86.9 |"));
    assert!(place.path("paper/runtime.tex").exists());
}

#[test]
fn an_error_is_told_once_and_quiet_is_quiet() {
    let place = place().with(
        "sweep.toml",
        "name = \"rates\"\nconfigs = [\"tiny.toml\"]\n[set]\ntrain.epochs = 1\n[grid]\noptimizer.lr = [0.1, 1e30]\n",
    );
    let train = "train tiny.toml --set train.epochs=1";
    for mode in ["--out a", "--out b --quiet", "--out c --json"] {
        let wild = format!("{train} --set optimizer.lr=1e30 {mode}");
        let outcome = run(&place, &wild, 1);
        let count = outcome.stderr.matches("training diverged").count();
        assert_eq!(count, 1, "{mode:?}: {}", outcome.stderr);
    }
    let outcome = run(&place, &format!("{train} --out d --quiet"), 0);
    assert_eq!(outcome.stderr, "");
    let outcome = run(&place, "sweep sweep.toml --out s --quiet", 1);
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{}", outcome.stderr);
    assert!(
        lines[0].starts_with("tiny-lr=1e30-seed0: failed: training diverged"),
        "{}",
        lines[0]
    );
    assert_eq!(lines[1], "1 of 2 runs failed: tiny-lr=1e30-seed0");
    outcome.stdout_has("mean, lr = 0.1");
    let best = outcome.stdout.lines().last().unwrap();
    assert!(
        best.contains("s/tiny-lr=0.1-seed0, validation loss")
            && best.ends_with(", of the only finished run"),
        "{best}"
    );
}

#[test]
fn kept_predictions_are_evaluated_to_the_same_numbers() {
    let place = place();
    let train = "train tiny.toml --set evaluation.keep_predictions=true --out run --quiet";
    run(&place, train, 0);
    let record: Value = place.value("run/record.json");
    for evaluation in record["evaluations"].as_array().unwrap() {
        let folder = evaluation["predictions"].as_str().unwrap();
        let file = |name: &str| format!("run/{folder}/{name}.npy");
        let (test, mnist) = (file("test"), file("mnist"));
        let labels = "run/predictions/labels.npy";
        let again = format!("evaluate --probs {test} --labels {labels} --ood {mnist}");
        let again = place.json(&again);
        let (ours, theirs) = (&evaluation["in_domain"], &again["in_domain"]);
        for metric in ["accuracy", "nll", "ece", "brier", "auroc"] {
            assert_eq!(ours[metric], theirs[metric], "{folder} {metric}");
        }
        let ours = &evaluation["out_of_domain"][0]["metrics"];
        for metric in ["auroc", "aupr_in", "aupr_out", "fpr_at_95_tpr"] {
            assert_eq!(ours[metric], again["ood"][metric], "{folder} {metric}");
        }
    }
}

#[test]
fn a_sweep_runs_the_grid_and_goes_on_where_it_was() {
    let place = place().with(
        "sweep.toml",
        "name = \"rates\"\nconfigs = [\"tiny.toml\"]\n[grid]\n\"optimizer.lr\" = [0.05, 0.1]\nseed = [0, 1]\n",
    );
    let sweep = "sweep sweep.toml --out runs --set train.epochs=1";
    let outcome = run(&place, sweep, 0);
    let runs = split("tiny-lr=0.05-seed0 tiny-lr=0.05-seed1 tiny-lr=0.1-seed0 tiny-lr=0.1-seed1");
    let loss = |name: &&str| {
        let record = place.value(&format!("runs/{name}/record.json"));
        record["curves"][0]["validation_loss"].as_f64().unwrap()
    };
    let best = runs.into_iter().min_by(|a, b| loss(a).total_cmp(&loss(b)));
    let best = best.unwrap();
    let expected = format!(
        "Best run on fashion-mnist: runs/{best}, validation loss {:.4}, the lowest of 4 finished runs",
        loss(&best)
    );
    assert_eq!(outcome.stdout.lines().last(), Some(&expected[..]));
    std::fs::remove_file(place.path("runs/tiny-lr=0.1-seed1/record.json")).unwrap();
    let outcome = run(&place, sweep, 0);
    let count = outcome.stderr.matches("was finished before").count();
    assert_eq!(count, 3, "{}", outcome.stderr);
}

#[test]
fn runs_that_are_as_good_as_the_best_are_named() {
    // keeping predictions changes no training
    let sweep = "name = \"s\"\nconfigs = [\"tiny.toml\"]\nset.train.epochs = 1\n\
                 grid.evaluation.keep_predictions = [false, true]\n";
    let place = place().with("sweep.toml", sweep);
    let outcome = run(&place, "sweep sweep.toml --out runs", 0);
    let best = outcome.stdout.lines().last().unwrap();
    assert!(
        best.contains("runs/tiny-keep_predictions=false-seed0, validation loss")
            && best.ends_with("of 2 finished runs; tiny-keep_predictions=true-seed0 is as good"),
        "{best}"
    );
    let outcome = run(&place, "sweep sweep.toml --out runs --json", 0);
    let events = events(&outcome);
    let best = events.last().unwrap();
    assert_eq!(best["event"], "best");
    assert_eq!(best["run"], "tiny-keep_predictions=false-seed0");
    assert_eq!(best["folder"], "runs/tiny-keep_predictions=false-seed0");
    assert_eq!(best["metric"], "validation_loss");
    assert!(best["value"].as_f64().unwrap() > 0.0);
    assert_eq!(best["compared"], 2);
    assert_eq!(best["ties"][0], "tiny-keep_predictions=true-seed0");
}

#[test]
fn a_search_drops_what_is_left_behind_and_says_so() {
    let search = "name = \"s\"\nconfigs = [\"tiny.toml\"]\n[random]\ntrials = 4\n\
                  keys.optimizer.lr = { low = 0.01, high = 0.2, scale = \"log\" }\n\
                  [halving]\neta = 2\nmetric = \"validation_accuracy\"\n";
    let reversed = search.replace("low = 0.01", "low = 1");
    let place = place()
        .with("search.toml", search)
        .with("reversed.toml", reversed);
    let sweep = "sweep search.toml --out runs";
    let outcome = run(&place, sweep, 0);
    let dropped = outcome.stderr.matches("dropped: validation_accuracy");
    assert_eq!(dropped.count(), 3);
    let best = outcome.stdout.lines().last().unwrap();
    assert!(best.contains(", validation accuracy "), "{best}");
    outcome.stderr_has("3 of 4 runs were dropped; runs/search.json says why");
    let text = place.text("runs/search.json");
    let found: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(found["rounds"].as_array().unwrap().len(), 2);
    // once more: nothing is trained, and the same are dropped
    let again = run(&place, sweep, 0);
    assert_eq!(again.stdout, outcome.stdout);
    assert!(!again.stderr.contains("epochs of"), "{}", again.stderr);
    assert_eq!(place.text("runs/search.json"), text);
    let outcome = run(&place, "sweep reversed.toml --out none", 2);
    let message = "reversed.toml: random.keys.optimizer.lr: low 1 is not below high 0.2\n";
    assert!(outcome.stderr.ends_with(message), "{}", outcome.stderr);
    assert!(!place.path("none").exists());
}

#[test]
fn runs_are_watched_from_what_they_save() {
    let place = place();
    let refused = |folder: &str, words: &str| {
        let outcome = place.refuse(&["watch", folder, "--once"]);
        assert_eq!(outcome.stderr, format!("error: {folder}: {words}\n"));
    };
    refused("runs", "there is no such folder");
    std::fs::create_dir(place.path("runs")).unwrap();
    refused("runs", "holds no run (no config.toml)");
    run(&place, "train tiny.toml --out runs/whole --quiet", 0);
    // a search leaves one run at its first epoch
    let search =
        "name = \"s\"\nconfigs = [\"tiny.toml\"]\n[grid]\nseed = [0, 1]\n[halving]\neta = 2\n";
    std::fs::write(place.path("search.toml"), search).unwrap();
    let sweep = "sweep search.toml --out runs/s --set train.epochs=2";
    run(&place, sweep, 0);
    let outcome = place.succeed("watch runs --once --json");
    let runs = events(&outcome);
    let seen = runs.iter().map(|run| {
        let epochs = run["curve"].as_array().unwrap().len();
        let state = run["state"].as_str().unwrap();
        (state, epochs, run["epochs"].as_u64().unwrap())
    });
    let mut seen: Vec<_> = seen.collect();
    seen.sort_unstable();
    assert_eq!(
        seen,
        [("dropped", 1, 2), ("finished", 2, 2), ("finished", 4, 4)]
    );
    let record = place.value("runs/whole/record.json");
    let whole = runs.iter().find(|run| run["run"] == "whole").unwrap();
    assert_eq!(whole["curve"], record["curves"]);
    let outcome = place.run("watch runs/whole --once");
    assert!(outcome.stdout.starts_with("whole "), "{}", outcome.stdout);
    outcome.stdout_has("epoch 4/4 loss ");
    assert!(
        outcome.stdout.ends_with(" finished\n"),
        "{}",
        outcome.stdout
    );
    // all are over: it tells every epoch and ends
    let outcome = place.succeed("watch runs --every 0.01");
    assert_eq!(outcome.stdout.lines().count(), 7, "{}", outcome.stdout);
    outcome.stdout_has("whole: epoch 4/4 loss ");
}

#[test]
fn a_run_is_watched_while_it_works() {
    let place = place();
    let train = "train tiny.toml --set train.epochs=30 --out run --checkpoint-seconds 0";
    let mut child = start(&place, train);
    wait_for("a checkpoint", || {
        place.path("run/checkpoint.safetensors").exists()
    });
    let outcome = place.run("watch run --every 0.05 --json");
    // it ended because the run did
    assert!(place.path("run/record.json").exists());
    assert!(child.wait().unwrap().success());
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let epochs = events(&outcome).into_iter().map(|event| {
        assert_eq!(event["event"], "epoch");
        event["epoch"].as_u64().unwrap()
    });
    assert!(epochs.eq(0..30), "{}", outcome.stdout);
}

/// The program `script` of util-linux gives the command a terminal.
#[cfg(target_os = "linux")]
#[test]
fn a_terminal_shows_runs_line_by_line_while_they_work() {
    let place = place();
    let sweep = "name = \"s\"\nconfigs = [\"tiny.toml\"]\n[grid]\nseed = [0, 1]\n";
    std::fs::write(place.path("sweep.toml"), sweep).unwrap();
    let sweep = "sweep sweep.toml --out runs --threads 1 --set train.epochs=30 \
                 --checkpoint-seconds 0";
    let mut child = start(&place, sweep);
    wait_for("a run", || {
        place.path("runs/tiny-seed0/config.toml").exists()
    });
    let watch = format!(
        "stty cols 80 rows 24 && '{}' watch runs --every 0.05",
        env!("CARGO_BIN_EXE_maxitive")
    );
    let output = Command::new("script")
        .args(["--quiet", "--return", "--command", &watch, "/dev/null"])
        .env("TERM", "xterm")
        .env("LANG", "C.UTF-8")
        .current_dir(place.folder())
        .stdin(Stdio::null())
        .output();
    assert!(child.wait().unwrap().success());
    let Ok(output) = output else {
        eprintln!("skipped: there is no program script");
        return;
    };
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{shown}");
    // what is left at the end, after the last line that was cleared
    let (drawn, left) = shown.rsplit_once("\u{1b}[2K").unwrap();
    assert!(
        drawn.contains("\u{1b}[1A"),
        "nothing was drawn again: {shown:?}"
    );
    assert!(
        drawn.contains("tiny-seed0 ") && drawn.contains("loss "),
        "{shown:?}"
    );
    let lines: Vec<&str> = left.lines().collect();
    assert_eq!(lines.len(), 2, "{shown:?}");
    for (seed, line) in lines.iter().enumerate() {
        assert!(line.starts_with(&format!("tiny-seed{seed} ")), "{line}");
        assert!(
            line.contains("epoch 30/30 loss ") && line.ends_with(" finished"),
            "{line}"
        );
        let bars = line.matches(|c| ('▁'..='█').contains(&c));
        assert_eq!(bars.count(), 24, "{line}");
    }
}

#[cfg(unix)]
/// A training without end in the folder `long`, after its first checkpoint.
fn endless(place: &Place, program: &str, before: &[&str]) -> Child {
    let child = Command::new(program)
        .args(before)
        .args(["train", "tiny.toml", "--set", "train.epochs=100000"])
        .args(["--out", "long", "--checkpoint-seconds", "0.2"])
        .args(DATA)
        .current_dir(place.folder())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("a checkpoint", || {
        place.path("long/checkpoint.safetensors").exists()
    });
    child
}

pub fn send(child: &Child, signal: &str) {
    let id = child.id().to_string();
    let sent = Command::new("kill").args([signal, &id]).status().unwrap();
    assert!(sent.success());
}

#[test]
fn a_signal_saves_and_says_how_to_go_on() {
    for (signal, name, code) in [
        ("-INT", "Ctrl-C", 130),
        ("-TERM", "SIGTERM", 143),
        ("-HUP", "SIGHUP", 129),
        // what a scheduler sends before its time limit: to be tried again
        ("-USR1", "SIGUSR1", 75),
    ] {
        let place = place();
        let program = env!("CARGO_BIN_EXE_maxitive");
        // tests that were started by nohup would hand on that hang-ups are ignored
        let child = match cfg!(target_os = "linux") {
            true => endless(&place, "env", &["--default-signal=HUP", program]),
            false => endless(&place, program, &[]),
        };
        let checkpoint = place.path("long/checkpoint.safetensors");
        let before = std::fs::read(&checkpoint).unwrap();
        send(&child, signal);
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{stderr}");
        for words in [
            format!("Stopping ({name})"),
            "Go on with: maxitive resume long --data-dir data --unverified".to_owned(),
        ] {
            assert!(stderr.contains(&words), "{stderr}");
        }
        assert!(std::fs::read(&checkpoint).unwrap() != before);
    }
}

#[test]
fn a_hangup_that_is_ignored_does_not_stop_a_training() {
    let place = place();
    let mut child = endless(&place, "nohup", &[env!("CARGO_BIN_EXE_maxitive")]);
    send(&child, "-HUP");
    // a training that minds it stops within a step
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(child.try_wait().unwrap(), None);
    send(&child, "-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(143));
}

#[test]
fn a_time_limit_saves_and_says_how_to_go_on() {
    let place = place();
    let begin = Instant::now();
    let train = "train tiny.toml --set train.epochs=100000 --out long --within 3s";
    run(&place, train, 75).stderr_has(
        "Time is over and all is saved. Go on with: maxitive resume long --data-dir data \
         --unverified --within 3s",
    );
    assert!(place.path("long/checkpoint.safetensors").exists());
    // again, from where it stands
    run(&place, "resume long --within 3s", 75);
    assert!(begin.elapsed() < Duration::from_secs(60));
}

/// A small generator, so that the moments are the same every time.
pub fn random(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// Fifty processes killed at moments between the start and the end; each run then resumes to the
/// weights of the uninterrupted one.
#[cfg(unix)]
#[test]
fn killed_at_any_moment_a_run_resumes_to_the_same_bits() {
    let place = place();
    let often = "--checkpoint-seconds 0 --quiet";
    let train = |folder: &str| format!("train tiny.toml --out {folder} {often}");
    let begin = Instant::now();
    run(&place, &train("whole"), 0);
    let mut length = begin.elapsed().as_micros() as u64;
    let read = |folder: &str, file: &str| std::fs::read(place.path(folder).join(file)).unwrap();
    let (mut state, mut killed, mut resumed, mut number) = (2026, 0, 0, 0);
    while killed < 50 {
        number += 1;
        assert!(number < 500, "the runs end before they can be killed");
        let folder = format!("run{number}");
        let begin = Instant::now();
        let mut child = start(&place, &train(&folder));
        let moment = random(&mut state) % length.max(1);
        std::thread::sleep(Duration::from_micros(moment));
        if child.try_wait().unwrap().is_some() {
            // too late: runs are shorter than the first one was
            length = length.min(begin.elapsed().as_micros() as u64);
            continue;
        }
        child.kill().unwrap();
        killed += u32::from(child.wait().unwrap().code().is_none());
        // killed before the config was there: it is begun anew
        let again = match place.path(&folder).join("config.toml").exists() {
            true => format!("resume {folder} {often}"),
            false => train(&folder),
        };
        run(&place, &again, 0);
        for file in ["last.safetensors", "best.safetensors"] {
            assert!(
                read(&folder, file) == read("whole", file),
                "{folder} {file}"
            );
        }
        let mut metrics = |folder: &str| {
            let record = place.value(&format!("{folder}/record.json"));
            resumed += u32::from(record["timings"]["resumed"].as_u64() > Some(0));
            let rows = record["evaluations"].as_array().unwrap().iter();
            rows.map(|e| (e["in_domain"].clone(), e["out_of_domain"].clone()))
                .collect::<Vec<_>>()
        };
        assert_eq!(metrics(&folder), metrics("whole"), "{folder}");
    }
    assert!(
        resumed > 5,
        "only {resumed} runs had begun when they were killed"
    );
}

#[test]
fn a_run_is_evaluated_again_by_another_method() {
    let place = place();
    run(&place, "train tiny.toml --out runs/tiny --quiet", 0);
    let again = |more: &str, code: i32| {
        let command = format!("reevaluate runs/tiny --quiet {more}");
        run(&place, &command, code)
    };
    again("--out again --method possibilistic", 0).stdout_has("Lower prob.");
    assert!(place.path("again/tiny/record.json").exists());
    for (more, part) in [
        ("--out again", "again/tiny"),
        ("--out b --method laplase", "rows.0.predictive"),
        ("--out b --method swag", "needs"),
        ("--out b --set seed=3", "what can be set is rows"),
        ("--out b --method point --set rows=[]", "one of them"),
    ] {
        again(more, 2).stderr_has(part);
        assert!(!place.path("b").exists());
    }
    // another rule: its row has a name of its own, and one name for both is refused
    let rule = r#"optimizer.rule="sgd""#;
    let rows = r#"rows=[{row="sgd",predictive="point"}]"#;
    let train = format!("train tiny.toml --out runs/sgd --quiet --set {rule} --set {rows}");
    run(&place, &train, 0);
    let outcome = again("runs/sgd --out two --method possibilistic", 0);
    for name in ["mean, possibilistic", "sgd, possibilistic"] {
        outcome.stdout_has(name);
    }
    let one = r#"runs/sgd --out b --set rows=[{row="x",predictive="point"}]"#;
    again(one, 2).stderr_has("both give the row");
    run(&place, "reevaluate nowhere --out b", 2).stderr_has("nowhere");
}
