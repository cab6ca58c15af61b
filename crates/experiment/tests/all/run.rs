//! Runs from the outside: every method, interruption, failure, sweeps. The data are made up: ten
//! classes of bright squares.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use datasets::formats::npy::{self, Array, Values};
use datasets::{Library, Origin, Root};
use engine::{Device, Network, NetworkBuilder, Shape};
use evaluation::record::{Checkpoint, Evaluation, RunRecord};
use experiment::again::reevaluate;
use experiment::config::RowConfig;
use experiment::predictive::Method::{Ivon, McDropout, Swag};
use experiment::run::{BEST, CHECKPOINT, LAST, RECORD, RunOptions};
use experiment::sweep::SweepOptions;
use experiment::{
    Error, Event, Model, Observer, Outcome, Run, RunConfig, RunData, Silent, Stop, Sweep, preset,
};
use tempfile::TempDir;

/// Images with a bright square whose place is the class, and some noise.
fn write_images(folder: &Path, prefix: &str, count: u32, salt: u32) {
    std::fs::create_dir_all(folder).unwrap();
    let mut images = Vec::from([0, 0, 8, 3]);
    images.extend(count.to_be_bytes());
    images.extend(28_u32.to_be_bytes());
    images.extend(28_u32.to_be_bytes());
    let mut labels = Vec::from([0, 0, 8, 1]);
    labels.extend(count.to_be_bytes());
    for image in 0..count {
        let class = image * 7 % 10;
        labels.push(class as u8);
        let (x0, y0) = (class % 5 * 5 + 1, class / 5 * 13 + 3);
        for y in 0..28 {
            for x in 0..28 {
                let noise = (image * 784 + y * 28 + x + salt).wrapping_mul(2_654_435_761) >> 26;
                let inside = (x0..x0 + 5).contains(&x) && (y0..y0 + 8).contains(&y);
                images.push(noise as u8 + if inside { 120 } else { 0 });
            }
        }
    }
    std::fs::write(folder.join(format!("{prefix}-images-idx3-ubyte")), images).unwrap();
    std::fs::write(folder.join(format!("{prefix}-labels-idx1-ubyte")), labels).unwrap();
}

/// What lies in a folder, whatever its sums.
fn library(path: &Path) -> Library {
    let origin = Origin::Given;
    let path = path.into();
    Library::with_roots(vec![Root { path, origin }]).unverified()
}

pub struct Lab {
    pub folder: TempDir,
    library: Library,
}

impl Lab {
    pub fn new() -> Self {
        Self::with([200, 60, 50])
    }

    /// With so many images to train on, to test with, and of another set.
    pub fn with([train, test, other]: [u32; 3]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write_images(&folder.path().join("fashion-mnist"), "train", train, 1);
        write_images(&folder.path().join("fashion-mnist"), "t10k", test, 2);
        write_images(&folder.path().join("mnist"), "t10k", other, 99_999);
        let library = library(folder.path());
        Self { folder, library }
    }

    /// A run in a folder of this name.
    pub fn create(&self, name: &str, config: RunConfig) -> Run {
        Run::create(&self.directory(name), config).unwrap()
    }

    pub fn directory(&self, name: &str) -> PathBuf {
        self.folder.path().join("runs").join(name)
    }

    pub fn options<'a>(&'a self, observer: &'a dyn Observer, stop: &'a Stop) -> RunOptions<'a> {
        RunOptions {
            library: &self.library,
            device: Device::cpu().threads(2),
            observer,
            stop,
            checkpoint_seconds: 0.0,
        }
    }

    pub fn execute(&self, run: &Run, stop: &Stop) -> experiment::Result<Outcome> {
        run.execute(&self.options(&Silent, stop))
    }

    pub fn finish(&self, run: &Run) -> RunRecord {
        match self.execute(run, &Stop::default()).unwrap() {
            Outcome::Finished(record) => *record,
            Outcome::Stopped => panic!("nobody asked it to stop"),
        }
    }

    /// Lets a run stop before its first step.
    fn stop(&self, run: &Run) {
        let stop = Stop::default();
        stop.raise();
        let outcome = self.execute(run, &stop).unwrap();
        assert!(matches!(outcome, Outcome::Stopped));
    }
}

/// What a refusal says.
pub fn refusal<T>(result: experiment::Result<T>) -> String {
    result.err().unwrap().to_string()
}

/// Fails unless the error says this.
#[track_caller]
pub fn assert_says<T>(result: experiment::Result<T>, part: &str) {
    let message = refusal(result);
    assert!(message.contains(part), "{message}");
}

/// Does this work with a stop that is raised after this time.
pub fn stopped_after<T>(wait: Duration, work: impl FnOnce(&Stop) -> T) -> T {
    let stop = Stop::default();
    let raise = stop.clone();
    let timer = std::thread::spawn(move || {
        std::thread::sleep(wait);
        raise.raise();
    });
    let result = work(&stop);
    timer.join().unwrap();
    result
}

pub fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

pub fn small(name: &str, more: &[&str]) -> RunConfig {
    let always = ["data.out_of_domain=[\"mnist\"]", "train.batch=16"];
    let settings = strings(&[&always, more].concat());
    let mut config = preset::run(&format!("fashion-mnist-lenet/{name}"), &settings).unwrap();
    config.stretch(6);
    for row in &mut config.rows {
        match &mut row.method {
            Ivon(method) => method.samples = 3,
            McDropout(method) => method.samples = 3,
            Swag(method) => method.samples = 3,
            _ => {}
        }
    }
    config
}

const METHODS: [&str; 9] = [
    "adamw",
    "sgd",
    "ivon",
    "mc-dropout",
    "swag",
    "ucbopt",
    "ucbopt-zero",
    "ucbopt-adapt",
    "lcbopt-adapt",
];

#[test]
fn every_method_runs_and_says_what_it_did() {
    let lab = Lab::new();
    for method in METHODS {
        let config = small(method, &[]);
        let run = lab.create(method, config.clone());
        let record = lab.finish(&run);
        assert_eq!(record.curves.len(), 6, "{method}");
        let unverified = "unverified: the checksums were not compared";
        let notes = ["fashion-mnist", "mnist"].map(|set| format!("{set}: {unverified}"));
        // some have learned too little to say nothing of it
        let found = record.notes.iter();
        let of_data = found.filter(|note| !note.starts_with("training: "));
        assert!(of_data.eq(&notes), "{method}: {:?}", record.notes);
        assert_eq!(record.timings.steps, 6 * 12, "{method}");
        assert_eq!(record.evaluations.len(), 2 * config.rows.len(), "{method}");
        for evaluation in &record.evaluations {
            assert_eq!(evaluation.in_domain.samples, 60);
            assert_eq!(evaluation.out_of_domain[0].dataset, "mnist");
            assert_eq!(evaluation.out_of_domain[0].metrics.out_samples, 50);
            let counts = evaluation.reliability.bins.iter().map(|bin| bin.count);
            assert_eq!(counts.sum::<usize>(), 60);
        }
        // what is on the disk is what was returned, and a second start finds it finished
        assert_eq!(run.record().unwrap().unwrap(), record);
        assert_eq!(lab.finish(&Run::open(run.directory()).unwrap()), record);
        // the best epoch is the one of lowest validation loss among those that count
        let from = config.swag.as_ref().map_or(0, |swag| swag.start);
        let lowest = record.curves[from..]
            .iter()
            .min_by(|a, b| a.validation_loss.partial_cmp(&b.validation_loss).unwrap())
            .unwrap();
        let best = &record.evaluations[0];
        assert_eq!(best.checkpoint, Checkpoint::Best);
        if let Some(swag) = &config.swag {
            // once, from all snapshots, at both checkpoints
            let last = &record.evaluations[1];
            let told = Evaluation {
                checkpoint: Checkpoint::Final,
                ..best.clone()
            };
            assert_eq!(&told, last);
            let snapshots = best.details["snapshots"].as_u64();
            assert_eq!((best.epoch, snapshots), (5, Some(6 - swag.start as u64)));
        } else {
            assert_eq!(best.epoch, lowest.epoch);
        }
        // the weights carry the names of PyTorch's state dict
        let network = config.network.build(Shape::new(3, 32, 32), 10).unwrap();
        for file in [BEST, LAST] {
            let weights = experiment::weights::read(&run.directory().join(file), &network).unwrap();
            assert!(weights.iter().all(|w| w.is_finite()), "{method} {file}");
        }
    }
}

/// Every rule has precisions at its best and at its last weights, and tells bounds there.
#[test]
fn every_rule_bounds_its_predictions() {
    let lab = Lab::new();
    for method in METHODS {
        let mut config = small(method, &[]);
        config.rows = vec![
            row(r#"row = "point"; predictive = "point""#),
            row(r#"row = "given"; predictive = "possibilistic"; factor = 50; images = 20"#),
            row(r#"row = "chosen"; predictive = "possibilistic"; factor = "right-wrong""#),
        ];
        let run = lab.create(method, config);
        let record = lab.finish(&run);
        assert_eq!(run.record().unwrap().unwrap(), record);
        for found in record.evaluations.chunks(3) {
            let [point, given, chosen] = found else {
                panic!("three rows at each checkpoint")
            };
            assert!(point.bounds.is_none() && point.out_of_domain[0].bounds.is_none());
            assert_eq!(point.in_domain, given.in_domain, "{method}");
            for (evaluation, images) in [(given, 20), (chosen, 60)] {
                let scored = &evaluation.bounds.as_ref().unwrap().scored;
                assert_eq!(scored.in_samples + scored.out_samples, images, "{method}");
                assert_eq!(scored.vacuous, 0, "{method}");
                let out = &evaluation.out_of_domain[0].bounds.as_ref().unwrap().scored;
                let others = images.min(50);
                assert_eq!((out.in_samples, out.out_samples), (images, others));
                assert!(out.auroc.each().iter().all(|auroc| auroc.is_some()));
            }
            // the first checkpoint shows pictures, where a picture has one prediction
            let first = given.checkpoint == Checkpoint::Best && method != "mc-dropout";
            let bounds =
                [&given.bounds, &given.out_of_domain[0].bounds].map(|b| b.as_ref().unwrap());
            for bounds in bounds {
                assert_eq!(bounds.shown.len(), if first { 8 } else { 0 }, "{method}");
                for shown in &bounds.shown {
                    let top = &shown.classes[0];
                    let inside = (top.lower - 1e-6..=top.upper + 1e-6).contains(&top.probability);
                    assert!(inside && shown.classes.len() == 4, "{method}");
                }
                let sure = bounds.shown.iter().map(|shown| shown.classes[0].lower);
                assert!(sure.is_sorted_by(|a, b| *a >= b - 1e-9), "{method}");
            }
            // the same score on the same images; in f32 two of them may be equal
            let scored = &chosen.bounds.as_ref().unwrap().scored;
            let pairs = (scored.in_samples * scored.out_samples) as f64;
            let (auroc, plain) = (scored.auroc.max_probability, chosen.in_domain.values.auroc);
            let differ = |(a, b): (f64, f64)| (a - b).abs() > 2.0 / pairs;
            assert!(!auroc.zip(plain).is_some_and(differ), "{method}");
            assert_eq!(given.details["factor"], 50.0);
            assert_eq!(chosen.details["criterion"], "right-wrong");
            assert_eq!(chosen.details["validation_images"], 20);
        }
        // the state is there for those who come later
        let state = run.directory().join("best.state.safetensors");
        let kept = !["sgd", "mc-dropout", "swag", "ucbopt"].contains(&method);
        assert_eq!(state.exists(), kept, "{method}");
    }
}

#[test]
fn a_finished_run_is_evaluated_again_with_other_rows() {
    let lab = Lab::new();
    let (stop, runs) = (Stop::default(), lab.folder.path().join("again"));
    for method in ["swag", "ivon", "lcbopt-adapt"] {
        let run = lab.create(method, small(method, &[]));
        let record = lab.finish(&run);
        let options = lab.options(&Silent, &stop);
        let again = |settings: &[&str], out: &str| {
            let out = runs.join(method).join(out);
            let found = reevaluate(run.directory(), &strings(settings), &out, &options);
            found.map(|record| (record.unwrap(), out))
        };
        // nothing new: the same numbers, in a folder of their own
        let (found, out) = again(&[], "same").unwrap();
        let want = lasting(record.clone()).evaluations;
        assert_eq!(lasting(found.clone()).evaluations, want, "{method}");
        assert_eq!(found.curves, record.curves);
        assert_eq!(RunRecord::read(out.join(RECORD)).unwrap(), found);
        assert_says(again(&[], "same"), "same");
        assert_eq!(run.record().unwrap().unwrap(), record);
        // another row and another set; a state that was not kept at the best weights is missed
        let row = r#"rows=[{row="b",predictive="possibilistic",factor="right-wrong"}]"#;
        if method != "swag" {
            let (found, _) = again(&[row, "data.out_of_domain=[]"], "other").unwrap();
            let checkpoints = found.evaluations.iter().map(|found| found.checkpoint);
            let mut notes = found.notes.iter();
            let last_only = notes.any(|note| note.contains("only the last"));
            assert_eq!(last_only, method == "lcbopt-adapt", "{:?}", found.notes);
            let want = if last_only { 1 } else { 2 };
            assert_eq!(checkpoints.count(), want, "{method}");
            let known = found.evaluations.iter();
            assert!(known.clone().all(|found| found.bounds.is_some()));
            assert!(known.clone().all(|found| found.out_of_domain.is_empty()));
        }
        assert_says(again(&["train.epochs=7"], "no"), "rows, data.out_of_domain");
        assert!(!runs.join(method).join("no").exists());
    }
}

/// A label of probability 0 costs what its logit says, not infinitely much.
#[test]
fn the_log_loss_of_a_record_is_that_of_the_logits() {
    let lab = Lab::new();
    let run = lab.create("sure", small("sgd", &["data.out_of_domain=[]"]));
    lab.finish(&run);
    // the last layer ten thousand times as large, in the folder of a run of before there were sums
    let network = run
        .config()
        .network
        .build(Shape::new(1, 28, 28), 10)
        .unwrap();
    let path = run.directory().join(LAST);
    let mut weights = experiment::weights::read(&path, &network).unwrap();
    let first = network.parameters()[network.parameters().len() - 2]
        .range()
        .start;
    weights[first..].iter_mut().for_each(|w| *w *= 1e4);
    experiment::weights::write(&path, &network, &weights).unwrap();
    let path = run.directory().join("model.json");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut model: serde_json::Value = serde_json::from_str(&text).unwrap();
    for key in ["files", "sha256"] {
        model.as_object_mut().unwrap().remove(key).unwrap();
    }
    std::fs::write(&path, model.to_string()).unwrap();
    let (stop, out) = (Stop::default(), lab.directory("again"));
    let settings = strings(&["evaluation.keep_predictions=true"]);
    let options = lab.options(&Silent, &stop);
    let record = reevaluate(run.directory(), &settings, &out, &options);
    let record = record.unwrap().unwrap();
    let last = record.evaluations.last().unwrap();
    let read = |file: &str| npy::open(out.join("predictions").join(file)).unwrap();
    let labels = read("labels.npy").to_integers().unwrap();
    let folder = last.predictions.as_ref().unwrap();
    let probabilities = npy::open(out.join(folder).join("test.npy"))
        .unwrap()
        .to_f64();
    let of_labels = probabilities.chunks(10).zip(&labels);
    let of_labels: Vec<f64> = of_labels.map(|(row, label)| row[*label as usize]).collect();
    let impossible = of_labels.iter().filter(|p| **p == 0.0).count();
    assert!(impossible > 0, "{of_labels:?}");
    let nll = last.in_domain.values.nll.unwrap();
    let normal = of_labels.iter().filter(|p| **p >= f32::MIN_POSITIVE.into());
    let rest = nll * 60.0 - normal.map(|p| -p.ln()).sum::<f64>();
    assert!(
        nll.is_finite() && rest > 87.0 * impossible as f64,
        "{nll} {rest}"
    );
}

/// A row of a config, its keys separated by semicolons.
fn row(text: &str) -> RowConfig {
    toml::from_str(&text.replace("; ", "\n")).unwrap()
}

#[test]
fn bounds_that_a_run_cannot_have_are_refused_before_it_begins() {
    let rows = |more: &str| format!("rows=[{{row=\"a\",predictive=\"possibilistic\",{more}}}]");
    let nll = rows("factor=\"nll\"");
    for (settings, part) in [
        (
            [&rows("factor=\"best\""), "seed=1"],
            "expected a number above 0, \"nll\" or \"right-wrong\"",
        ),
        (
            [&rows("factor=-1"), "seed=1"],
            "rows.0.factor: -1 is not in (0, inf)",
        ),
        (
            [&rows("samples=3"), "seed=1"],
            "rows.0.samples: no such key",
        ),
        (
            [&nll, "data.validation_share=0"],
            "\"possibilistic\" needs validation images to choose the factor",
        ),
        (
            [&nll, "optimizer.weight_decay=0"],
            "\"possibilistic\" needs optimizer.weight_decay above 0",
        ),
    ] {
        assert_says(
            preset::run("fashion-mnist-lenet/sgd", &strings(&settings)),
            part,
        );
    }
}

#[test]
fn squares_are_learned() {
    let lab = Lab::new();
    let mut config = small("adamw", &["optimizer.lr=0.003"]);
    config.stretch(25);
    let record = lab.finish(&lab.create("adamw", config));
    let accuracy = record.evaluations[0].in_domain.values.accuracy.unwrap();
    assert!(accuracy > 0.95, "{accuracy}");
    let last = record.curves.last().unwrap();
    assert!(last.train_loss < 0.2 * record.curves[0].train_loss);
}

/// Everything that must not depend on interruptions.
pub fn lasting(mut record: RunRecord) -> RunRecord {
    record.timings.resumed = 0;
    record.timings.started_unix = 0;
    record.timings.peak_memory_bytes = None;
    record.timings.train_s = 0.0;
    record.timings.validation_s = 0.0;
    record.timings.evaluation_s = 0.0;
    record.hardware.threads = 0;
    for point in &mut record.curves {
        point.seconds = 0.0;
    }
    for evaluation in &mut record.evaluations {
        evaluation.seconds = 0.0;
    }
    record
}

#[test]
fn interrupted_again_and_again_every_method_ends_with_the_same_bits() {
    let lab = Lab::new();
    let plain = METHODS.map(|method| (method, small(method, &[])));
    // several samples a step, augmentation, a rate that changes with every step, dropout beside
    // SWAG
    let ivon = ["optimizer.mc_samples=3", "schedule.per_step=true"];
    let swag = ["network.dropout=0.2", "data.flip=true", "data.pad=2"];
    let more = [
        ("ivon-more", small("ivon", &ivon)),
        ("swag-more", small("swag", &swag)),
    ];
    for (method, config) in plain.into_iter().chain(more) {
        let whole = lab.create(&format!("{method}-whole"), config.clone());
        let want = lab.finish(&whole);
        let parts = lab.create(&format!("{method}-parts"), config);
        let mut interruptions = 0;
        let got = loop {
            // stops during the steps, the epochs and the evaluation, however slow the machine is
            let wait = 1500 * (interruptions % 23) * (1 + interruptions / 23);
            let outcome = stopped_after(Duration::from_micros(wait), |stop| {
                let mut options = lab.options(&Silent, stop);
                options.device = Device::cpu().threads(1 + interruptions as usize % 2);
                Run::open(parts.directory()).unwrap().execute(&options)
            });
            match outcome.unwrap() {
                Outcome::Finished(record) => break *record,
                Outcome::Stopped => interruptions += 1,
            }
            assert!(interruptions < 10_000, "{method} makes no progress");
        };
        assert!(interruptions > 2, "{method}: {interruptions}");
        assert_eq!(lasting(got), lasting(want), "{method}");
        for file in [BEST, LAST] {
            let read = |run: &Run| std::fs::read(run.directory().join(file)).unwrap();
            assert!(read(&parts) == read(&whole), "{method} {file}");
        }
    }
}

/// Stops an evaluation when so many pieces have begun under it.
struct After<'a> {
    stop: &'a Stop,
    pieces: usize,
    begun: Mutex<Vec<String>>,
}

impl<'a> After<'a> {
    fn new(stop: &'a Stop, pieces: usize) -> Self {
        let begun = Mutex::new(Vec::new());
        Self {
            stop,
            pieces,
            begun,
        }
    }
}

impl Observer for After<'_> {
    fn event(&self, _: &str, event: Event<'_>) {
        if let Event::Evaluating { row, checkpoint } = event {
            let mut begun = self.begun.lock().unwrap();
            if begun.len() == self.pieces {
                self.stop.raise();
            } else {
                begun.push(format!("{row} {checkpoint:?}"));
            }
        }
    }
}

/// Rows and sets are done once, however often the evaluation is stopped between them.
#[test]
fn a_stopped_evaluation_goes_on_where_it_was() {
    const EVALUATED: &str = "evaluated.json";
    let lab = Lab::new();
    let rows = [
        row("row=\"point\"; predictive=\"point\""),
        row("row=\"bounds\"; predictive=\"possibilistic\"; images=20"),
    ];
    let config = |name: &str| {
        let more = ["data.out_of_domain=[\"mnist\", \"fashion-mnist\"]"];
        let mut config = small("sgd", &more);
        config.evaluation.score = evaluation::Score::NegativeEntropy;
        config.evaluation.keep_predictions = true;
        config.name = name.into();
        config.rows = rows.to_vec();
        config
    };
    let whole = lab.create("whole", config("a"));
    let stop = Stop::default();
    let all = After::new(&stop, usize::MAX);
    let outcome = whole.execute(&lab.options(&all, &stop)).unwrap();
    let Outcome::Finished(want) = outcome else {
        panic!("nobody asked it to stop");
    };
    // two rows at two checkpoints on three sets
    let all = all.begun.into_inner().unwrap();
    assert_eq!(all.len(), 12);
    assert!(!whole.directory().join(EVALUATED).exists());
    // one piece a command, saved as it is stopped or as time passes
    for (name, seconds) in [("stopped", 1e9), ("saved", 0.0)] {
        let parts = lab.create(name, config("a"));
        let mut begun = Vec::new();
        let got = loop {
            let stop = Stop::default();
            let one = After::new(&stop, 1);
            let mut options = lab.options(&one, &stop);
            options.checkpoint_seconds = seconds;
            let outcome = Run::open(parts.directory()).unwrap().execute(&options);
            let outcome = outcome.unwrap();
            begun.extend(one.begun.into_inner().unwrap());
            match outcome {
                Outcome::Finished(record) => break *record,
                Outcome::Stopped => assert!(parts.directory().join(EVALUATED).exists()),
            }
            assert!(begun.len() <= all.len(), "{begun:?}");
        };
        assert_eq!(begun, all, "{name}");
        assert_eq!(lasting(got), lasting(*want.clone()), "{name}");
        assert!(!parts.directory().join(EVALUATED).exists());
        let read = |run: &Run, file: &str| {
            std::fs::read(run.directory().join("predictions").join(file)).unwrap()
        };
        for file in [
            "labels.npy",
            "point-best/test.npy",
            "bounds-final/mnist.npy",
        ] {
            assert!(read(&whole, file) == read(&parts, file), "{file}");
        }
    }
    // what is damaged, of another config or of other images is not gone on with
    let parts = lab.create("stale", config("a"));
    let part = |pieces: usize| {
        let stop = Stop::default();
        let some = After::new(&stop, pieces);
        let run = Run::open(parts.directory()).unwrap();
        let outcome = run.execute(&lab.options(&some, &stop)).unwrap();
        assert!(matches!(outcome, Outcome::Stopped));
        some.begun.into_inner().unwrap()
    };
    assert_eq!(part(5), all[..5]);
    assert_eq!(part(2), all[5..7]);
    let path = parts.directory().join(EVALUATED);
    let text = std::fs::read_to_string(&path).unwrap();
    let damaged = text.replacen("\"samples\": 60", "\"samples\": 61", 1);
    assert_ne!(damaged, text);
    std::fs::write(&path, damaged).unwrap();
    assert_eq!(part(1), all[..1]);
    std::fs::write(&path, &text).unwrap();
    assert_eq!(part(1), all[7..8]);
    let settings = parts.directory().join("config.toml");
    let config = std::fs::read_to_string(&settings).unwrap();
    assert!(config.contains("bins = 20"));
    std::fs::write(&settings, config.replace("bins = 20", "bins = 19")).unwrap();
    assert_eq!(part(1), all[..1]);
    std::fs::write(&settings, config).unwrap();
    std::fs::write(&path, &text).unwrap();
    write_images(&lab.folder.path().join("mnist"), "t10k", 50, 7);
    let library = library(lab.folder.path());
    let stop = Stop::default();
    let one = After::new(&stop, 1);
    let options = RunOptions {
        library: &library,
        ..lab.options(&one, &stop)
    };
    let outcome = Run::open(parts.directory()).unwrap().execute(&options);
    assert!(matches!(outcome.unwrap(), Outcome::Stopped));
    assert_eq!(one.begun.into_inner().unwrap(), all[..1]);
}

/// A piece for which all of the time is too short says so instead of being put off for ever.
#[test]
fn an_evaluation_within_a_limit_ends_or_says_why_it_cannot() {
    let lab = Lab::new();
    let mut config = small("mc-dropout", &[]);
    let set = |config: &mut RunConfig, samples| {
        for row in &mut config.rows {
            if let McDropout(method) = &mut row.method {
                method.samples = samples;
            }
        }
    };
    set(&mut config, 100_000);
    let run = lab.create("long", config);
    // trained, and asked to stop as the evaluation begins
    let stop = Stop::default();
    let none = After::new(&stop, 0);
    let outcome = run.execute(&lab.options(&none, &stop)).unwrap();
    assert!(matches!(outcome, Outcome::Stopped));
    let within = |time: Duration| lab.execute(&run, &Stop::default().within(time));
    let error = within(Duration::from_secs(3)).unwrap_err();
    let message = error.to_string();
    assert!(error.is_mistake());
    assert!(message.starts_with("row \""), "{message}");
    for part in [
        "on the test images takes about",
        "of 3.0 s were left for it",
    ] {
        assert!(message.contains(part), "{message}");
    }
    // where something was done in the same command, the next one may have time enough
    let mut config = small("mc-dropout", &[]);
    set(&mut config, 100_000);
    let run = lab.create("fresh", config);
    let stop = Stop::default().within(Duration::from_secs(20));
    let outcome = lab.execute(&run, &stop).unwrap();
    assert!(matches!(outcome, Outcome::Stopped) && !stop.is_asked());
    assert!(run.directory().join(CHECKPOINT).exists());
    assert!(stop.left().is_some_and(|left| left > Duration::ZERO));
}

#[test]
fn a_diverging_run_says_where_and_what_to_try() {
    let lab = Lab::new();
    let config = small("sgd", &["optimizer.lr=1e25"]);
    let run = lab.create("sgd", config);
    let error = lab.execute(&run, &Stop::default()).unwrap_err();
    assert!(matches!(error, Error::Diverged { .. }), "{error}");
    let message = error.to_string();
    for part in [
        "step ",
        "epoch 0",
        "learning rate",
        "try a smaller learning rate",
    ] {
        assert!(message.contains(part), "{message}");
    }
    assert!(run.record().unwrap().is_none());
}

#[test]
fn weights_of_no_use_are_told_of_before_they_are_evaluated() {
    let lab = Lab::new();
    let run = |name: &str, lr: &str| {
        let settings = [
            &format!("optimizer.lr={lr}")[..],
            "schedule={shape='constant'}",
            "network={layers=[{layer='flatten'}, {layer='dense'}]}",
            "rows=[{row='a', predictive='point'}, {row='b', predictive='laplace'}]",
        ];
        let config = small("adamw", &settings);
        let record = lab.finish(&lab.create(name, config));
        let loss = record.curves.last().unwrap().train_loss;
        let mut notes = record.notes.into_iter();
        (loss, notes.find(|note| note.starts_with("training: ")))
    };
    let (loss, told) = run("useless", "10");
    assert!(loss > 2.0 * 10f64.ln());
    let expected = format!(
        "training: the loss of the last epoch is {loss:.3e}, that of guessing 2.303: the weights \
         are of no use; try a smaller optimizer.lr than 1e1"
    );
    assert_eq!(told, Some(expected));
    let (loss, told) = run("useful", "1e-3");
    assert!(loss < 10f64.ln());
    assert_eq!(told, None);
}

#[test]
fn folders_are_not_mixed_up() {
    let lab = Lab::new();
    let directory = lab.directory("one");
    let config = small("sgd", &[]);
    let run = Run::create(&directory, config.clone()).unwrap();
    let again = Run::create(&directory, config.clone());
    assert_says(again, "already holds a run");
    assert_says(Run::open(&lab.directory("none")), "holds no run");
    let mut other = config;
    other.train.epochs = 9;
    let differs = "the config of another run, train.epochs differs";
    assert_says(Run::open_or_create(&directory, other), differs);
    // a process that holds the folder
    let file = std::fs::File::create(directory.join("lock")).unwrap();
    file.lock().unwrap();
    let endings = Endings::default();
    let stop = Stop::default();
    let error = run.execute(&lab.options(&endings, &stop)).unwrap_err();
    assert!(matches!(error, Error::Locked { .. }), "{error}");
    let endings = endings.0.into_inner().unwrap();
    assert_eq!(endings, [("sgd-seed0".into(), "taken")]);
    drop(file);
    lab.finish(&run);
}

#[test]
fn what_does_not_fit_is_named() {
    let lab = Lab::new();
    let fail = |name: &str, config: RunConfig| {
        let run = lab.create(name, config);
        refusal(lab.execute(&run, &Stop::default()))
    };
    let mut config = small("sgd", &[]);
    config.network.name = "resnet20".into();
    let message = fail("shape", config);
    assert_eq!(
        message,
        "data.dataset: fashion-mnist has images of 1x28x28, resnet20 takes 3x32x32; \
         data.resize and data.channels change images"
    );
    let mut config = small("sgd", &[]);
    config.data.dataset = "kmnist".into();
    let message = fail("missing", config);
    assert!(message.contains("kmnist"), "{message}");
    let mut config = small("sgd", &[]);
    config.data.dataset = "unheard-of".into();
    let message = fail("unknown", config);
    assert!(message.contains("unheard-of"), "{message}");
    // before the training, not after it
    let mut config = small("sgd", &[]);
    config.data.out_of_domain.push("unheard-of".into());
    let message = fail("out", config);
    assert!(message.contains("unheard-of"), "{message}");
    assert!(!lab.directory("out").join(CHECKPOINT).exists());
    let mut config = small("sgd", &["data.limit=1"]);
    config.data.validation_share = 0.9;
    assert_eq!(
        fail("few", config),
        "data.validation_share: 0.9 of 1 images leaves none to train on"
    );
}

/// A part of a set as NPY files: plain images with these labels.
fn write_arrays(folder: &Path, part: &str, side: usize, labels: &[i64]) {
    let count = labels.len();
    let pixels = vec![7; count * side * side];
    for (kind, shape, values) in [
        ("images", vec![count, side, side], Values::Bytes(pixels)),
        ("labels", vec![count], Values::Integers(labels.to_vec())),
    ] {
        let file = std::fs::File::create(folder.join(format!("{part}{kind}.npy")));
        npy::write(file.unwrap(), &Array::new(shape, values).unwrap()).unwrap();
    }
}

#[test]
fn data_of_ones_own_are_looked_at_before_the_training() {
    let lab = Lab::new();
    let write = |name: &str, train: (usize, &[i64]), test: (usize, &[i64])| {
        let folder = lab.folder.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        write_arrays(&folder, "train_", train.0, train.1);
        write_arrays(&folder, "test_", test.0, test.1);
        name.to_owned()
    };
    for (dataset, message) in [
        (
            write("alike", (28, &[0, 0, 0]), (28, &[0])),
            "data.dataset: alike has 1 class, expected 2 or more",
        ),
        (
            write("untested", (28, &[0, 1, 2]), (28, &[])),
            "data.dataset: untested has no images",
        ),
        (
            write("other-test", (28, &[0, 1, 2]), (5, &[1])),
            "data.dataset: other-test has images of 1x5x5, lenet takes 1x28x28; \
             data.resize and data.channels change images",
        ),
    ] {
        let mut config = small("sgd", &[]);
        config.data.dataset = dataset;
        assert_eq!(refusal(RunData::load(&config, &lab.library)), message);
    }
    // a set of another name than the known ones is normalized by its own images, and trained on
    let mut config = small("sgd", &[]);
    config.data.dataset = write("fine", (28, &[0, 1, 2]), (28, &[2, 1]));
    config.data.out_of_domain = vec!["fine".into()];
    let record = lab.finish(&lab.create("fine", config));
    assert_eq!(record.evaluations[0].in_domain.classes, 3);
}

#[test]
fn predictions_are_kept_in_the_folder_of_the_run() {
    let lab = Lab::new();
    let mut config = small("sgd", &["evaluation.keep_predictions=true"]);
    config.stretch(1);
    // a set that is given by its path
    let folder = lab.folder.path().join("outside");
    std::fs::create_dir(&folder).unwrap();
    write_arrays(&folder, "", 28, &[0; 4]);
    config.data.out_of_domain.push(folder.display().to_string());
    config.rows = preset::run("fashion-mnist-lenet/sgd", &[]).unwrap().rows;
    let run = lab.create("kept", config.clone());
    let record = lab.finish(&run);
    assert!(!lab.folder.path().join("outside.npy").exists());
    let read = |file: String| npy::open(run.directory().join(file)).unwrap();
    let labels = read("predictions/labels.npy".into()).to_integers().unwrap();
    assert_eq!(labels.len(), 60);
    assert_eq!(config.rows.len(), 2);
    for evaluation in &record.evaluations {
        let folder = evaluation.predictions.as_ref().unwrap();
        let test = read(format!("{folder}/test.npy"));
        assert_eq!(test.shape(), [60, 10]);
        let probabilities = test.to_f64();
        let right = probabilities
            .chunks(10)
            .zip(&labels)
            .filter(|(row, label)| row.iter().all(|p| *p <= row[**label as usize]));
        let accuracy = evaluation.in_domain.values.accuracy;
        assert_eq!(Some(right.count() as f64 / 60.0), accuracy);
        assert_eq!(read(format!("{folder}/mnist.npy")).shape(), [50, 10]);
        assert_eq!(read(format!("{folder}/outside.npy")).shape(), [4, 10]);
    }
}

#[test]
fn a_checkpoint_goes_with_its_config() {
    let lab = Lab::new();
    let stopped = |name: &str| {
        let run = lab.create(name, small("swag", &[]));
        lab.stop(&run);
        run.directory().to_owned()
    };
    let directory = stopped("changed");
    let rewrite = |settings: &[&str]| {
        let path = directory.join("config.toml");
        let config = RunConfig::read(&path, &strings(settings)).unwrap();
        std::fs::write(path, config.to_toml()).unwrap();
        Run::open(&directory).unwrap()
    };
    for (there, back, key) in [
        ("swag.rank=3", "swag.rank=20", "swag.rank"),
        ("optimizer.lr=0.1", "optimizer.lr=0.005", "optimizer.lr"),
        ("data.flip=true", "data.flip=false", "data.flip"),
    ] {
        let refused = lab.execute(&rewrite(&[there]), &Stop::default());
        let part = format!("belongs to a run with another config, {key} differs");
        assert_says(refused, &part);
        rewrite(&[back]);
    }
    // other data under the same name
    write_images(&lab.folder.path().join("fashion-mnist"), "train", 190, 1);
    let library = library(lab.folder.path());
    let stop = Stop::default();
    let mut options = lab.options(&Silent, &stop);
    options.library = &library;
    let message = refusal(Run::open(&directory).unwrap().execute(&options));
    assert!(
        message.ends_with("belongs to a run with 180 training images, now there are 171"),
        "{message}"
    );
    // how it is evaluated may change while it rests
    let run = rewrite(&["evaluation.bins=5", "data.out_of_domain=[]"]);
    let record = lab.finish(&run);
    assert_eq!(record.evaluations[0].reliability.bins.len(), 5);
    // without its config it is nobody's
    let directory = stopped("orphan");
    std::fs::remove_file(directory.join("config.toml")).unwrap();
    let created = Run::create(&directory, small("swag", &[]));
    assert_says(created, "left from another run");
}

#[test]
fn a_broken_checkpoint_is_named() {
    let lab = Lab::new();
    let run = lab.create("broken", small("ucbopt", &[]));
    let path = run.directory().join("checkpoint.safetensors");
    std::fs::write(&path, b"garbage").unwrap();
    let broken = "checkpoint.safetensors: no safetensors file";
    assert_says(lab.execute(&run, &Stop::default()), broken);
}

/// Counts how runs end.
#[derive(Default)]
struct Endings(Mutex<Vec<(String, &'static str)>>);

impl Observer for Endings {
    fn event(&self, run: &str, event: Event<'_>) {
        let ending = match event {
            Event::Finished(_) => "finished",
            Event::Skipped(_) => "skipped",
            Event::Failed(_) => "failed",
            Event::Stopped => "stopped",
            Event::Taken(_) => "taken",
            _ => return,
        };
        self.0.lock().unwrap().push((run.into(), ending));
    }
}

#[test]
fn a_failing_run_does_not_stop_the_sweep_and_finished_ones_are_skipped() {
    let lab = Lab::new();
    let mut runs = Vec::new();
    for (name, lr) in [("a", "0.01"), ("b", "1e25"), ("c", "0.02")] {
        let mut config = small("sgd", &[&format!("optimizer.lr={lr}")]);
        config.name = name.into();
        runs.push(config);
    }
    let sweep = Sweep::of("three", runs);
    let directory = lab.directory("sweep");
    let execute = |stop: &Stop| {
        let endings = Endings::default();
        let options = SweepOptions {
            jobs: 2,
            ..SweepOptions::new(RunOptions {
                device: Device::cpu().threads(1),
                checkpoint_seconds: 1.0,
                ..lab.options(&endings, stop)
            })
        };
        let outcome = sweep.execute(&directory, &options).unwrap();
        let mut endings = endings.0.into_inner().unwrap();
        endings.sort_unstable();
        (outcome, endings)
    };
    let (outcome, endings) = execute(&Stop::default());
    let names: Vec<&str> = outcome.finished.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["a-seed0", "c-seed0"]);
    assert_eq!(outcome.failed.len(), 1);
    assert_eq!(outcome.failed[0].0, "b-seed0");
    let of = |a, b, c| {
        [("a-seed0", a), ("b-seed0", b), ("c-seed0", c)].map(|(run, ending)| (run.into(), ending))
    };
    assert_eq!(endings, of("finished", "failed", "finished"));
    let (again, endings) = execute(&Stop::default());
    assert_eq!(endings, of("skipped", "failed", "skipped"));
    assert_eq!(again.finished, outcome.finished);
    let stop = Stop::default();
    stop.raise();
    let (outcome, endings) = execute(&stop);
    assert_eq!((outcome.stopped.len(), endings.len()), (3, 0));
}

#[test]
fn a_run_whose_time_is_over_is_saved_and_goes_on_to_the_same_bits() {
    let lab = Lab::new();
    let run = lab.create("cut", small("sgd", &[]));
    // less than what is kept for saving: it stops after its first steps
    let stop = Stop::default().within(Duration::from_millis(1001));
    let outcome = lab.execute(&run, &stop).unwrap();
    assert!(matches!(outcome, Outcome::Stopped) && !stop.is_asked());
    let cut = lab.finish(&run);
    assert_eq!(cut.timings.resumed, 1);
    let whole = lab.create("whole", small("sgd", &[]));
    assert_eq!(lasting(cut), lasting(lab.finish(&whole)));
}

#[test]
fn a_sweep_begins_no_run_that_could_not_end() {
    let lab = Lab::new();
    let named = |name: &str| RunConfig {
        name: name.into(),
        ..small("sgd", &[])
    };
    let directory = lab.directory("sweep");
    let execute = |names: &[&str], stop: &Stop| {
        let runs = names.iter().map(|name| named(name)).collect();
        let options = SweepOptions::new(lab.options(&Silent, stop));
        let outcome = Sweep::of("limited", runs).execute(&directory, &options);
        outcome.unwrap()
    };
    let mut record = execute(&["a"], &Stop::default()).finished.remove(0);
    // it took 1024 seconds an epoch
    record.timings.train_s = 6144.0;
    record.timings.validation_s = 0.0;
    record.timings.evaluation_s = 0.0;
    let path = directory.join(&record.name).join(RECORD);
    std::fs::write(path, record.to_json().unwrap()).unwrap();
    let all = Duration::from_secs(6144);
    let outcome = execute(&["a", "b"], &Stop::default().within(all));
    assert_eq!((outcome.finished.len(), outcome.failed.len()), (1, 0));
    assert_eq!(outcome.stopped, ["b-seed0"]);
    assert!(!directory.join("b-seed0").exists());
    // more time would do, and a run that is longer than all of the time is made in parts
    for (name, time) in [("b", 2 * all), ("c", all / 2)] {
        let outcome = execute(&["a", name], &Stop::default().within(time));
        assert_eq!(outcome.finished.len(), 2, "{name}");
    }
}

/// A network that is none of the built-in ones.
fn tiny(features: usize) -> Network {
    let mut net = NetworkBuilder::new("tiny", Shape::new(1, 28, 28));
    let mut x = net.input();
    x = net.flatten("flatten", x);
    x = net.linear("hidden", x, features);
    x = net.relu("relu", x);
    x = net.linear("out", x, 10);
    net.build(x).unwrap()
}

#[test]
fn a_run_keeps_the_instruction_set_it_began_with() {
    let lab = Lab::new();
    let execute = |run: &Run, stop: &Stop, device: Device| {
        let options = RunOptions {
            device,
            ..lab.options(&Silent, stop)
        };
        run.execute(&options).unwrap()
    };
    let portable = Device::cpu().threads(1).isa(engine::Isa::portable());
    let run = lab.create("run", small("adamw", &[]));
    let stop = Stop::default();
    stop.raise();
    let outcome = execute(&run, &stop, portable);
    assert!(matches!(outcome, Outcome::Stopped));
    // the machine's own
    let resumed = lab.finish(&run);
    assert_eq!(resumed.hardware.isa, "portable");
    assert_eq!(resumed.timings.resumed, 1);
    let mut notes = resumed.notes.iter();
    assert!(notes.all(|note| !note.contains("trained with")));
    let whole = lab.create("whole", small("adamw", &[]));
    let Outcome::Finished(whole) = execute(&whole, &Stop::default(), portable) else {
        panic!("nobody asked it to stop");
    };
    assert_eq!(lasting(resumed), lasting(*whole));
}

#[test]
fn a_custom_network_is_trained_and_resumed_and_told_from_others() {
    let lab = Lab::new();
    let directory = lab.directory("custom");
    let run = Run::create_with(&directory, small("sgd", &[]), tiny(5)).unwrap();
    lab.stop(&run);
    assert_says(Run::open(&directory), "the network is custom");
    let message = refusal(Run::open_with(&directory, tiny(6)));
    assert!(
        message.ends_with("the run has another network than the \"tiny\" given"),
        "{message}"
    );
    let resumed = lab.finish(&Run::open_with(&directory, tiny(5)).unwrap());
    assert_eq!(resumed.network, "tiny");
    assert_eq!(resumed.timings.resumed, 1);
    let whole = Run::create_with(&lab.directory("whole"), small("sgd", &[]), tiny(5)).unwrap();
    assert_eq!(lasting(resumed), lasting(lab.finish(&whole)));
    // what a row needs is looked for in the network itself
    let config = small("mc-dropout", &[]);
    let refused = Run::create_with(&lab.directory("refused"), config, tiny(5));
    assert_says(refused, "needs network.dropout");
}

#[test]
fn a_sweep_trains_a_custom_network_and_its_runs_predict() {
    let lab = Lab::new();
    let directory = lab.directory("sweep");
    // the section of the file is for another network, which has no dropout
    let settings = ["rows=[{row='a',predictive='mc-dropout',samples=2}]"];
    let mut table: toml::Table = small("mc-dropout", &settings).to_toml().parse().unwrap();
    table.remove("network");
    let config = table.to_string();
    let text = "name = 'own'\nconfigs = ['a']\n[grid]\noptimizer.lr = [0.01, 0.02]";
    let parse = |network: Option<&Network>| {
        let load = |_: &str| Ok(("a".to_owned(), config.clone()));
        Sweep::parse_with(text, "sweep", &[], network, load)
    };
    assert_says(parse(None), "network: is missing");
    assert_says(parse(Some(&tiny(5))), "needs network.dropout");
    let network = {
        let mut net = NetworkBuilder::new("own", Shape::new(1, 28, 28));
        let mut x = net.input();
        x = net.avg_pool("pool", x, 4, 4);
        x = net.flatten("flatten", x);
        x = net.dropout("dropout", x, 0.1, true);
        x = net.linear("out", x, 10);
        net.build(x).unwrap()
    };
    let sweep = parse(Some(&network)).unwrap();
    let execute = |stop: &Stop| {
        let options = SweepOptions {
            jobs: 2,
            ..SweepOptions::new(lab.options(&Silent, stop))
        };
        sweep.execute(&directory, &options).unwrap()
    };
    let stopped = execute(&Stop::default().after_epochs(2));
    assert_eq!((stopped.stopped.len(), stopped.failed.len()), (2, 0));
    let outcome = execute(&Stop::default());
    assert_eq!((outcome.finished.len(), outcome.failed.len()), (2, 0));
    let mut records = outcome.finished.iter();
    assert!(records.all(|record| record.network == "own"));
    let again = execute(&Stop::default());
    assert_eq!((again.finished.len(), again.worked), (2, false));
    // a run of its own has the same bits
    let config = sweep.runs()[1].clone();
    let single = Run::create_with(&lab.directory("1"), config, network.clone());
    let record = lab.finish(&single.unwrap());
    assert_eq!(lasting(record), lasting(outcome.finished[1].clone()));
    // and predicts, for the one who has the network
    let folder = directory.join(sweep.runs()[1].run_name());
    assert_says(Model::open(&folder), "the network is custom");
    assert!(Model::open_with(&folder, &tiny(5)).is_err());
    let model = Model::open_with(&folder, &network).unwrap();
    let row = model.row(None).unwrap();
    let test = lab.library.load("fashion-mnist", datasets::Part::Test);
    let test = test.unwrap();
    let place = (Device::cpu().threads(1), &lab.library);
    let found = model.predict(row, Checkpoint::Final, test.images(), place);
    let (found, _) = found.unwrap();
    let metrics = evaluation::in_domain(&found, 10, test.labels(), &Default::default()).unwrap();
    let last = outcome.finished[1].evaluations.last().unwrap();
    assert_eq!(metrics.0, last.in_domain);
}

#[test]
fn runs_that_are_trained_together_are_the_same_and_one_that_fails_leaves_alone() {
    let lab = Lab::new();
    let runs = |epochs: usize| {
        let methods = [
            ("a", "sgd", "0.01"),
            ("b", "sgd", "1e25"),
            ("c", "ivon", "0.1"),
        ];
        let of = |(name, method, lr): (&str, &str, &str)| {
            let mut config = small(method, &[&format!("optimizer.lr={lr}")]);
            config.name = name.into();
            config
        };
        let mut runs: Vec<RunConfig> = methods.into_iter().map(of).collect();
        // one has its end before the others
        runs[0].stretch(epochs);
        runs
    };
    let execute = |name: &str, together: usize, stop: &Stop| {
        let options = SweepOptions {
            together: Some(together),
            ..SweepOptions::new(lab.options(&Silent, stop))
        };
        let sweep = Sweep::of("three", runs(4));
        sweep.execute(&lab.directory(name), &options).unwrap()
    };
    let alone = execute("alone", 1, &Stop::default());
    // stopped after the first step, each goes on from its own checkpoint
    stopped_after(Duration::from_millis(30), |stop| {
        execute("together", 3, stop)
    });
    let together = execute("together", 3, &Stop::default());
    for outcome in [&alone, &together] {
        let names: Vec<&str> = outcome.finished.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["a-seed0", "c-seed0"]);
        assert_eq!(outcome.failed.len(), 1);
        assert!(outcome.failed[0].1.is_divergence());
    }
    // it may have diverged before the first stop
    let [first, second] = [&alone, &together].map(|outcome| outcome.failed[0].1.to_string());
    assert!(second.contains(&first), "{second}");
    for (alone, together) in alone.finished.into_iter().zip(together.finished) {
        assert_eq!(lasting(alone), lasting(together));
    }
    for name in ["a-seed0", "c-seed0"] {
        for file in [BEST, LAST] {
            let read = |sweep: &str| std::fs::read(lab.directory(sweep).join(name).join(file));
            let (alone, together) = (read("alone").unwrap(), read("together").unwrap());
            assert!(alone == together, "{name} {file}");
        }
    }
}

#[test]
fn another_seed_is_another_run_and_threads_are_not() {
    let lab = Lab::new();
    let run = |name: &str, seed: u64, threads: usize| {
        let mut config = small("ivon", &[]);
        config.seed = seed;
        config.stretch(2);
        let run = lab.create(name, config);
        let stop = Stop::default();
        let mut options = lab.options(&Silent, &stop);
        options.device = Device::cpu().threads(threads);
        run.execute(&options).unwrap();
        std::fs::read(run.directory().join(LAST)).unwrap()
    };
    let first = run("first", 0, 1);
    assert!(first == run("threads", 0, 3));
    assert!(first != run("seed", 1, 1));
}
