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
        let library = Library::with_roots(vec![Root {
            path: folder.path().into(),
            origin: Origin::Given,
        }])
        .unverified();
        Self { folder, library }
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

    pub fn finish(&self, run: &Run) -> RunRecord {
        match run
            .execute(&self.options(&Silent, &Stop::default()))
            .unwrap()
        {
            Outcome::Finished(record) => *record,
            Outcome::Stopped => panic!("nobody asked it to stop"),
        }
    }
}

pub fn small(name: &str, more: &[&str]) -> RunConfig {
    let mut settings = vec![
        "data.out_of_domain=[\"mnist\"]".to_owned(),
        "train.batch=16".to_owned(),
    ];
    settings.extend(more.iter().map(ToString::to_string));
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
        let run = Run::create(&lab.directory(method), config.clone()).unwrap();
        let record = lab.finish(&run);
        assert_eq!(record.curves.len(), 6, "{method}");
        let unverified = "unverified: the checksums were not compared";
        let notes = ["fashion-mnist", "mnist"].map(|set| format!("{set}: {unverified}"));
        // some have learned too little to say nothing of it
        let of_data = record
            .notes
            .iter()
            .filter(|note| !note.starts_with("training: "));
        assert!(of_data.eq(&notes), "{method}: {:?}", record.notes);
        assert_eq!(record.timings.steps, 6 * 12, "{method}");
        assert_eq!(record.evaluations.len(), 2 * config.rows.len(), "{method}");
        for evaluation in &record.evaluations {
            assert_eq!(evaluation.in_domain.samples, 60);
            assert_eq!(evaluation.out_of_domain[0].dataset, "mnist");
            assert_eq!(evaluation.out_of_domain[0].metrics.out_samples, 50);
            let counts: usize = evaluation
                .reliability
                .bins
                .iter()
                .map(|bin| bin.count)
                .sum();
            assert_eq!(counts, 60);
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
            assert_eq!(
                (best.epoch, best.details["snapshots"].as_u64()),
                (5, Some(6 - swag.start as u64))
            );
        } else {
            assert_eq!(best.epoch, lowest.epoch);
        }
        // the weights carry the names of PyTorch's state dict
        let network = config
            .network
            .build(engine::Shape::new(3, 32, 32), 10)
            .unwrap();
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
        let run = Run::create(&lab.directory(method), config).unwrap();
        let record = lab.finish(&run);
        assert_eq!(run.record().unwrap().unwrap(), record);
        for found in record.evaluations.chunks(3) {
            let [point, given, chosen] = found else {
                panic!("three rows at each checkpoint")
            };
            assert_eq!(
                (&point.bounds, &point.out_of_domain[0].bounds),
                (&None, &None)
            );
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
                    let doubt = |p: f64| (top.lower - 1e-6..=top.upper + 1e-6).contains(&p);
                    assert!(
                        doubt(top.probability) && shown.classes.len() == 4,
                        "{method}"
                    );
                }
                let sure = bounds.shown.iter().map(|shown| shown.classes[0].lower);
                assert!(sure.is_sorted_by(|a, b| *a >= b - 1e-9), "{method}");
            }
            // the same score on the same images; in f32 two of them may be equal
            let scored = &chosen.bounds.as_ref().unwrap().scored;
            let pairs = (scored.in_samples * scored.out_samples) as f64;
            let auroc = scored
                .auroc
                .max_probability
                .zip(chosen.in_domain.values.auroc);
            assert!(
                auroc.is_none_or(|(a, b)| (a - b).abs() <= 2.0 / pairs),
                "{method}"
            );
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
        let run = Run::create(&lab.directory(method), small(method, &[])).unwrap();
        let record = lab.finish(&run);
        let options = lab.options(&Silent, &stop);
        let again = |settings: &[&str], out: &str| {
            let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
            let out = runs.join(method).join(out);
            let found = reevaluate(run.directory(), &settings, &out, &options);
            found.map(|record| (record.unwrap(), out))
        };
        // nothing new: the same numbers, in a folder of their own
        let (found, out) = again(&[], "same").unwrap();
        let want = lasting(record.clone()).evaluations;
        assert_eq!(lasting(found.clone()).evaluations, want, "{method}");
        assert_eq!(found.curves, record.curves);
        assert_eq!(RunRecord::read(out.join(RECORD)).unwrap(), found);
        assert!(again(&[], "same").unwrap_err().to_string().contains("same"));
        assert_eq!(run.record().unwrap().unwrap(), record);
        // another row and another set; a state that was not kept at the best weights is missed
        let row = r#"rows=[{row="b",predictive="possibilistic",factor="right-wrong"}]"#;
        if method != "swag" {
            let (found, _) = again(&[row, "data.out_of_domain=[]"], "other").unwrap();
            let checkpoints = found.evaluations.iter().map(|found| found.checkpoint);
            let last_only = found
                .notes
                .iter()
                .any(|note| note.contains("only the last"));
            assert_eq!(last_only, method == "lcbopt-adapt", "{:?}", found.notes);
            let want = if last_only { 1 } else { 2 };
            assert_eq!(checkpoints.count(), want, "{method}");
            let known = found.evaluations.iter();
            assert!(known.clone().all(|found| found.bounds.is_some()));
            assert!(known.clone().all(|found| found.out_of_domain.is_empty()));
        }
        let error = again(&["train.epochs=7"], "no").unwrap_err().to_string();
        assert!(error.contains("rows, data.out_of_domain"), "{error}");
        assert!(!runs.join(method).join("no").exists());
    }
}

/// A row of a config, its keys separated by semicolons.
fn row(text: &str) -> RowConfig {
    toml::from_str(&text.replace("; ", "\n")).unwrap()
}

#[test]
fn bounds_that_a_run_cannot_have_are_refused_before_it_begins() {
    let refused = |settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        let name = "fashion-mnist-lenet/sgd";
        preset::run(name, &settings).unwrap_err().to_string()
    };
    let rows = r#"rows=[{row="a",predictive="possibilistic",factor="nll"}]"#;
    for (settings, part) in [
        (
            [
                r#"rows=[{row="a",predictive="possibilistic",factor="best"}]"#,
                "seed=1",
            ],
            "expected a number above 0, \"nll\" or \"right-wrong\"",
        ),
        (
            [
                r#"rows=[{row="a",predictive="possibilistic",factor=-1}]"#,
                "seed=1",
            ],
            "rows.0.factor: -1 is not in (0, inf)",
        ),
        (
            [
                r#"rows=[{row="a",predictive="possibilistic",samples=3}]"#,
                "seed=1",
            ],
            "rows.0.samples: no such key",
        ),
        (
            [rows, "data.validation_share=0"],
            "\"possibilistic\" needs validation images to choose the factor",
        ),
        (
            [rows, "optimizer.weight_decay=0"],
            "\"possibilistic\" needs optimizer.weight_decay above 0",
        ),
    ] {
        let error = refused(&settings);
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn squares_are_learned() {
    let lab = Lab::new();
    let mut config = small("adamw", &["optimizer.lr=0.003"]);
    config.stretch(25);
    let record = lab.finish(&Run::create(&lab.directory("adamw"), config).unwrap());
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
    let more = [
        (
            "ivon-more",
            small(
                "ivon",
                &["optimizer.mc_samples=3", "schedule.per_step=true"],
            ),
        ),
        (
            "swag-more",
            small(
                "swag",
                &["network.dropout=0.2", "data.flip=true", "data.pad=2"],
            ),
        ),
    ];
    for (method, config) in plain.into_iter().chain(more) {
        let whole =
            Run::create(&lab.directory(&format!("{method}-whole")), config.clone()).unwrap();
        let want = lab.finish(&whole);
        let parts = Run::create(&lab.directory(&format!("{method}-parts")), config).unwrap();
        let mut interruptions = 0;
        let got = loop {
            let stop = Stop::default();
            let raise = stop.clone();
            // stops during the steps, the epochs and the evaluation, however slow the machine is
            let wait =
                Duration::from_micros(1500 * (interruptions % 23) * (1 + interruptions / 23));
            let timer = std::thread::spawn(move || {
                std::thread::sleep(wait);
                raise.raise();
            });
            let mut options = lab.options(&Silent, &stop);
            options.device = Device::cpu().threads(1 + interruptions as usize % 2);
            let outcome = Run::open(parts.directory())
                .unwrap()
                .execute(&options)
                .unwrap();
            timer.join().unwrap();
            match outcome {
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

#[test]
fn a_diverging_run_says_where_and_what_to_try() {
    let lab = Lab::new();
    let config = small("sgd", &["optimizer.lr=1e25"]);
    let run = Run::create(&lab.directory("sgd"), config).unwrap();
    let error = run
        .execute(&lab.options(&Silent, &Stop::default()))
        .unwrap_err();
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
        let record = lab.finish(&Run::create(&lab.directory(name), config).unwrap());
        let loss = record.curves.last().unwrap().train_loss;
        let told = record
            .notes
            .iter()
            .find(|note| note.starts_with("training: "));
        (loss, told.cloned())
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
    let message = Run::create(&directory, config.clone())
        .unwrap_err()
        .to_string();
    assert!(message.contains("already holds a run"), "{message}");
    let message = Run::open(&lab.directory("none")).unwrap_err().to_string();
    assert!(message.contains("holds no run"), "{message}");
    let mut other = config;
    other.train.epochs = 9;
    let message = Run::open_or_create(&directory, other)
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("the config of another run, train.epochs differs"),
        "{message}"
    );
    // a process that holds the folder
    let file = std::fs::File::create(directory.join("lock")).unwrap();
    file.lock().unwrap();
    let endings = Endings::default();
    let error = run
        .execute(&lab.options(&endings, &Stop::default()))
        .unwrap_err();
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
        let run = Run::create(&lab.directory(name), config).unwrap();
        run.execute(&lab.options(&Silent, &Stop::default()))
            .unwrap_err()
            .to_string()
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

#[test]
fn data_of_ones_own_are_looked_at_before_the_training() {
    let lab = Lab::new();
    let write = |name: &str, train: (usize, &[i64]), test: (usize, &[i64])| {
        let folder = lab.folder.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        for (part, (side, labels)) in [("train", train), ("test", test)] {
            let count = labels.len();
            let pixels = vec![7; count * side * side];
            for (kind, shape, values) in [
                ("images", vec![count, side, side], Values::Bytes(pixels)),
                ("labels", vec![count], Values::Integers(labels.to_vec())),
            ] {
                let file = std::fs::File::create(folder.join(format!("{part}_{kind}.npy")));
                npy::write(file.unwrap(), &Array::new(shape, values).unwrap()).unwrap();
            }
        }
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
        let found = RunData::load(&config, &lab.library)
            .unwrap_err()
            .to_string();
        assert_eq!(found, message);
    }
    // a set of another name than the known ones is normalized by its own images, and trained on
    let mut config = small("sgd", &[]);
    config.data.dataset = write("fine", (28, &[0, 1, 2]), (28, &[2, 1]));
    config.data.out_of_domain = vec!["fine".into()];
    let record = lab.finish(&Run::create(&lab.directory("fine"), config).unwrap());
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
    for (name, shape, values) in [
        ("images", vec![4, 28, 28], Values::Bytes(vec![9; 4 * 784])),
        ("labels", vec![4], Values::Integers(vec![0; 4])),
    ] {
        let file = std::fs::File::create(folder.join(format!("{name}.npy"))).unwrap();
        npy::write(file, &Array::new(shape, values).unwrap()).unwrap();
    }
    config.data.out_of_domain.push(folder.display().to_string());
    config.rows = preset::run("fashion-mnist-lenet/sgd", &[]).unwrap().rows;
    let run = Run::create(&lab.directory("kept"), config.clone()).unwrap();
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
        let run = Run::create(&lab.directory(name), small("swag", &[])).unwrap();
        let stop = Stop::default();
        stop.raise();
        let outcome = run.execute(&lab.options(&Silent, &stop)).unwrap();
        assert!(matches!(outcome, Outcome::Stopped));
        run.directory().to_owned()
    };
    let directory = stopped("changed");
    let rewrite = |settings: &[&str]| {
        let settings: Vec<String> = settings.iter().map(ToString::to_string).collect();
        let path = directory.join("config.toml");
        let config = RunConfig::read(&path, &settings).unwrap();
        std::fs::write(path, config.to_toml()).unwrap();
        Run::open(&directory).unwrap()
    };
    let refuse = |run: Run| {
        run.execute(&lab.options(&Silent, &Stop::default()))
            .unwrap_err()
            .to_string()
    };
    for (there, back, key) in [
        ("swag.rank=3", "swag.rank=20", "swag.rank"),
        ("optimizer.lr=0.1", "optimizer.lr=0.005", "optimizer.lr"),
        ("data.flip=true", "data.flip=false", "data.flip"),
    ] {
        let message = refuse(rewrite(&[there]));
        let part = format!("belongs to a run with another config, {key} differs");
        assert!(message.contains(&part), "{message}");
        rewrite(&[back]);
    }
    // other data under the same name
    write_images(&lab.folder.path().join("fashion-mnist"), "train", 190, 1);
    let library = Library::with_roots(vec![Root {
        path: lab.folder.path().into(),
        origin: Origin::Given,
    }])
    .unverified();
    let stop = Stop::default();
    let mut options = lab.options(&Silent, &stop);
    options.library = &library;
    let error = Run::open(&directory).unwrap().execute(&options);
    let message = error.unwrap_err().to_string();
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
    let error = Run::create(&directory, small("swag", &[])).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("left from another run"), "{message}");
}

#[test]
fn a_broken_checkpoint_is_named() {
    let lab = Lab::new();
    let run = Run::create(&lab.directory("broken"), small("ucbopt", &[])).unwrap();
    let path = run.directory().join("checkpoint.safetensors");
    std::fs::write(&path, b"garbage").unwrap();
    let message = run
        .execute(&lab.options(&Silent, &Stop::default()))
        .unwrap_err()
        .to_string();
    assert!(
        message.contains("checkpoint.safetensors: no safetensors file"),
        "{message}"
    );
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
    let names: Vec<&str> = outcome
        .finished
        .iter()
        .map(|record| record.name.as_str())
        .collect();
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
    let run = Run::create(&lab.directory("cut"), small("sgd", &[])).unwrap();
    // less than what is kept for saving: it stops after its first steps
    let stop = Stop::default().within(Duration::from_millis(1001));
    let outcome = run.execute(&lab.options(&Silent, &stop)).unwrap();
    assert!(matches!(outcome, Outcome::Stopped) && !stop.is_asked());
    let cut = lab.finish(&run);
    assert_eq!(cut.timings.resumed, 1);
    let whole = Run::create(&lab.directory("whole"), small("sgd", &[])).unwrap();
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
    let run = Run::create(&lab.directory("run"), small("adamw", &[])).unwrap();
    let stop = Stop::default();
    stop.raise();
    let outcome = execute(&run, &stop, portable);
    assert!(matches!(outcome, Outcome::Stopped));
    // the machine's own
    let resumed = lab.finish(&run);
    assert_eq!(
        (resumed.hardware.isa.as_str(), resumed.timings.resumed),
        ("portable", 1)
    );
    assert!(
        resumed
            .notes
            .iter()
            .all(|note| !note.contains("trained with"))
    );
    let whole = Run::create(&lab.directory("whole"), small("adamw", &[])).unwrap();
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
    let stop = Stop::default();
    stop.raise();
    let outcome = run.execute(&lab.options(&Silent, &stop)).unwrap();
    assert!(matches!(outcome, Outcome::Stopped));
    let message = Run::open(&directory).unwrap_err().to_string();
    assert!(message.contains("the network is custom"), "{message}");
    let message = Run::open_with(&directory, tiny(6)).unwrap_err().to_string();
    assert!(
        message.ends_with("the run has another network than the \"tiny\" given"),
        "{message}"
    );
    let resumed = lab.finish(&Run::open_with(&directory, tiny(5)).unwrap());
    assert_eq!(
        (resumed.network.as_str(), resumed.timings.resumed),
        ("tiny", 1)
    );
    let whole = Run::create_with(&lab.directory("whole"), small("sgd", &[]), tiny(5)).unwrap();
    assert_eq!(lasting(resumed), lasting(lab.finish(&whole)));
    // what a row needs is looked for in the network itself
    let config = small("mc-dropout", &[]);
    let refused = Run::create_with(&lab.directory("refused"), config, tiny(5));
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("needs network.dropout"), "{message}");
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
    let message = parse(None).unwrap_err().to_string();
    assert!(message.contains("network: is missing"), "{message}");
    let message = parse(Some(&tiny(5))).unwrap_err().to_string();
    assert!(message.contains("needs network.dropout"), "{message}");
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
    assert!(
        outcome
            .finished
            .iter()
            .all(|record| record.network == "own")
    );
    let again = execute(&Stop::default());
    assert_eq!((again.finished.len(), again.worked), (2, false));
    // a run of its own has the same bits
    let single = Run::create_with(
        &lab.directory("1"),
        sweep.runs()[1].clone(),
        network.clone(),
    );
    let record = lab.finish(&single.unwrap());
    assert_eq!(lasting(record), lasting(outcome.finished[1].clone()));
    // and predicts, for the one who has the network
    let folder = directory.join(sweep.runs()[1].run_name());
    let message = Model::open(&folder).unwrap_err().to_string();
    assert!(message.contains("the network is custom"), "{message}");
    assert!(Model::open_with(&folder, &tiny(5)).is_err());
    let model = Model::open_with(&folder, &network).unwrap();
    let row = model.row(None).unwrap();
    let test = lab
        .library
        .load("fashion-mnist", datasets::Part::Test)
        .unwrap();
    let place = (Device::cpu().threads(1), &lab.library);
    let (found, _) = model
        .predict(row, Checkpoint::Final, test.images(), place)
        .unwrap();
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
    let stop = Stop::default();
    let timer = std::thread::spawn({
        let raise = stop.clone();
        move || {
            std::thread::sleep(Duration::from_millis(30));
            raise.raise();
        }
    });
    execute("together", 3, &stop);
    timer.join().unwrap();
    let together = execute("together", 3, &Stop::default());
    for outcome in [&alone, &together] {
        let names: Vec<&str> = outcome.finished.iter().map(|r| r.name.as_str()).collect();
        assert_eq!(names, ["a-seed0", "c-seed0"]);
        assert_eq!(outcome.failed.len(), 1);
        assert!(outcome.failed[0].1.is_divergence());
    }
    // it may have diverged before the first stop
    let message = together.failed[0].1.to_string();
    assert!(
        message.contains(&alone.failed[0].1.to_string()),
        "{message}"
    );
    for (alone, together) in alone.finished.into_iter().zip(together.finished) {
        assert_eq!(lasting(alone), lasting(together));
    }
    for name in ["a-seed0", "c-seed0"] {
        for file in [BEST, LAST] {
            let read = |sweep: &str| std::fs::read(lab.directory(sweep).join(name).join(file));
            assert!(
                read("alone").unwrap() == read("together").unwrap(),
                "{name} {file}"
            );
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
        let run = Run::create(&lab.directory(name), config).unwrap();
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
