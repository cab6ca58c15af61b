//! Data of one's own: how they are split, what is said of them, and where they are found again.

use std::path::Path;

use serde_json::Value;

use crate::common::{Outcome, Place, split};
use crate::digest::write_bytes;
use crate::evaluate::zip;

const CONFIG: &str = "\
name = \"mine\"
data = { dataset = \"shapes\", out_of_domain = [\"other/shapes\"] }
network = { name = \"lenet\" }
train = { epochs = 4, batch = 16 }
optimizer = { rule = \"adamw\", lr = 0.003 }
schedule = { shape = \"warmup-cosine\", warmup = 1 }
rows = [{ row = \"AdamW\", predictive = \"point\" }]
";

/// Images of three classes, one class after another, as a folder of pictures gives them; each class
/// is bright in a third of its own.
fn images(counts: [usize; 3]) -> (Vec<u8>, Vec<u8>) {
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for (class, count) in counts.into_iter().enumerate() {
        for image in 0..count {
            let row_is_bright = |row: usize| (class * 9..class * 9 + 9).contains(&row);
            pixels.extend((0..28 * 28).map(|at| {
                let noise = ((image * 131 + at * 31) % 60) as u8;
                noise + if row_is_bright(at / 28) { 150 } else { 0 }
            }));
            labels.push(class as u8);
        }
    }
    (pixels, labels)
}

fn write_part(folder: &Path, part: &str, counts: [usize; 3]) {
    std::fs::create_dir_all(folder).unwrap();
    let (pixels, labels) = images(counts);
    let count = labels.len();
    let shape = format!("({count}, 28, 28)");
    write_bytes(&folder.join(format!("{part}_images.npy")), &shape, &pixels);
    let shape = format!("({count},)");
    write_bytes(&folder.join(format!("{part}_labels.npy")), &shape, &labels);
}

fn place(train: [usize; 3], test: [usize; 3]) -> Place {
    let place = Place::new().with("mine.toml", CONFIG);
    write_part(&place.path("shapes"), "train", train);
    write_part(&place.path("shapes"), "test", test);
    write_part(&place.path("other/shapes"), "test", [3, 3, 3]);
    place
}

fn train(place: &Place, settings: &[&str]) -> Outcome {
    let mut arguments = vec!["train", "mine.toml", "--out", "run", "--threads", "1"];
    arguments.extend(settings.iter().flat_map(|setting| ["--set", setting]));
    place.run(&arguments)
}

fn record(place: &Place) -> Value {
    serde_json::from_slice(&std::fs::read(place.path("run/record.json")).unwrap()).unwrap()
}

#[test]
fn images_that_come_class_by_class_are_split_by_class() {
    let place = place([60, 30, 12], [6, 6, 6]);
    let outcome = train(&place, &[]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("note:"), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("mine-seed0: epoch 4/4 loss "),
        "{}",
        outcome.stderr
    );
    let record = record(&place);
    assert_eq!(record["config"]["data"]["split"], "stratified");
    // by its name, not its path
    assert_eq!(record["dataset"], "shapes");
    let found = &record["evaluations"][0];
    assert_eq!(found["out_of_domain"][0]["dataset"], "shapes");
    // easily learned; validation on the last class alone would be 0
    let last = record["curves"].as_array().unwrap().last().unwrap();
    assert!(
        last["validation_accuracy"].as_f64().unwrap() > 0.9,
        "{last}"
    );
    assert!(found["in_domain"]["accuracy"].as_f64().unwrap() > 0.9);
}

#[test]
fn what_is_odd_about_the_data_is_told_in_terminal_and_record() {
    let place = place([240, 30, 12], [6, 6, 0]);
    let settings = ["data.split=index", "schedule.warmup=4"];
    let outcome = train(&place, &settings);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let notes = [
        "shapes: the validation images have no image of class 0",
        "shapes: the training images have no image of class 2",
        "shapes: the test images have no image of class 2",
        "schedule: the warm-up takes 4 of 4 epochs",
    ];
    let record = record(&place);
    let kept: Vec<&str> = record["notes"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    for note in notes {
        assert!(
            outcome.stderr.contains(&format!("note: {note}")),
            "{note}: {}",
            outcome.stderr
        );
        assert!(
            kept.iter().any(|kept| kept.starts_with(note)),
            "{note}: {kept:?}"
        );
    }
    let uneven = train(&self::place([240, 30, 12], [6, 6, 6]), &[]);
    let expected = "the classes are uneven: 216 training images of class 0, 11 of class 2";
    assert!(uneven.stderr.contains(expected), "{}", uneven.stderr);
}

#[test]
fn a_training_set_of_one_class_is_refused() {
    let place = place([60, 30, 12], [6, 6, 6]);
    let outcome = train(&place, &["data.split=index", "data.limit=40"]);
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome.stderr.contains("all 36 training images of"),
        "{}",
        outcome.stderr
    );
    assert!(
        outcome.stderr.contains("are of class 0"),
        "{}",
        outcome.stderr
    );
    // a stratified limit keeps every class
    let outcome = train(&self::place([60, 30, 12], [6, 6, 6]), &["data.limit=40"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    // one that only the test images have can't be learned
    let outcome = train(&self::place([60, 60, 0], [6, 6, 6]), &[]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let expected = "note: shapes: the training images have no image of class 2";
    assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
}

#[test]
fn a_run_goes_on_from_another_folder_and_with_moved_data() {
    let place = place([20, 20, 20], [3, 3, 3]);
    let outcome = train(&place, &["train.epochs=3"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let expected = std::fs::read(place.path("run/last.safetensors")).unwrap();
    let run = place.path("run");
    for file in split("record.json last.safetensors checkpoint.safetensors best.safetensors") {
        std::fs::remove_file(run.join(file)).unwrap();
    }
    let elsewhere = Place::new();
    let outcome = elsewhere.run(&["resume", run.to_str().unwrap(), "--threads", "1"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(
        std::fs::read(run.join("last.safetensors")).unwrap(),
        expected
    );

    std::fs::remove_file(run.join("record.json")).unwrap();
    std::fs::rename(place.path("shapes"), elsewhere.path("shapes")).unwrap();
    let outcome = place.run(&["resume", "run", "--threads", "1"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    let data = elsewhere.folder().to_str().unwrap();
    let outcome = place.run(&["resume", "run", "--threads", "1", "--data-dir", data]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
}

const LAYERS: &str = "\
[[layers]]
layer = \"conv\"
channels = 8
kernel = 3
stride = 2
padding = \"same\"
[[layers]]
layer = \"frn\"
[[layers]]
layer = \"residual\"
channels = 8
[[layers]]
layer = \"global-avg-pool\"
[[layers]]
layer = \"dense\"
";

#[test]
fn a_network_of_ones_own_is_drawn_trained_and_resumed() {
    let place = place([20, 20, 20], [3, 3, 3]).with("net.toml", LAYERS);
    let drawn = place.run(&["net", "net.toml", "--input", "1x28x28", "--classes", "3"]);
    assert_eq!(drawn.code, Some(0), "{}", drawn.stderr);
    assert!(drawn.stdout.contains("residual1.conv2"), "{}", drawn.stdout);
    for (arguments, expected) in [
        (&["net", "net.toml"][..], "--input 3x32x32"),
        (&["net", "net.toml", "--input", "28x28"], "such as 3x64x64"),
        (
            &["net", "lenet", "--input", "1x28x28"],
            "--input is for files",
        ),
        (&["net", "none.toml", "--input", "1x28x28"], "none.toml"),
    ] {
        let outcome = place.run(arguments);
        assert_eq!(outcome.code, Some(2), "{arguments:?}");
        assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
    }
    // a config that leaves out all that has a default
    let config = "name = \"mine\"\ndata = { dataset = \"shapes\" }\ntrain = { epochs = 20 }\n\
        schedule = { warmup = 2 }\n\
        network = { file = \"net.toml\" }\noptimizer = { rule = \"ucbopt\", lr = 0.05 }\n";
    let place = place.with("mine.toml", config);
    // its data say what the network is for
    let of_data = place.run(&["net", "mine.toml"]);
    assert_eq!(of_data.code, Some(0), "{}", of_data.stderr);
    assert_eq!(of_data.stdout, drawn.stdout);
    assert_eq!(
        of_data.stderr,
        "mine.toml: shapes has images of 1x28x28 and 3 classes\n"
    );
    let place = place.with(
        "known.toml",
        config.replace("\"shapes\"", "\"cifar-100\", resize = 28, channels = 1"),
    );
    let known = place.run(&["net", "known.toml", "--classes", "3"]);
    assert_eq!((known.code, &known.stdout), (Some(0), &drawn.stdout));
    let known = place.run(&["net", "known.toml"]);
    assert!(known.stderr.contains("1x28x28 and 100 classes"));
    let place = place.with("gone.toml", config.replace("\"shapes\"", "\"gone\""));
    let gone = place.run(&["net", "gone.toml"]);
    assert_eq!(gone.code, Some(2));
    let words = "gone.toml: data.dataset: ";
    assert!(gone.stderr.contains(words), "{}", gone.stderr);
    assert!(
        gone.stderr.contains("--input 3x32x32 --classes 10"),
        "{}",
        gone.stderr
    );
    let told = ["net", "gone.toml", "--input", "1x28x28", "--classes", "3"];
    assert_eq!(place.run(&told).stdout, drawn.stdout);
    let outcome = train(&place, &["train.batch=16"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let record = record(&place);
    assert_eq!(record["network"], "net");
    assert_eq!(record["evaluations"][0]["row"], "mine");
    assert!(
        record["evaluations"][0]["in_domain"]["accuracy"]
            .as_f64()
            .unwrap()
            > 0.8
    );
    // the layers are in the run, the file may go
    std::fs::remove_file(place.path("net.toml")).unwrap();
    std::fs::remove_file(place.path("run/record.json")).unwrap();
    let outcome = place.run(&["resume", "run", "--threads", "1"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    // a layer that does not fit the data leaves nothing behind
    let place = place.with(
        "net.toml",
        LAYERS
            .replace("kernel = 3", "kernel = 31")
            .replace("\"same\"", "0"),
    );
    let outcome = place.run(&["train", "mine.toml", "--out", "bad"]);
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome
            .stderr
            .contains("layer 1 (conv1): kernel 31 does not fit"),
        "{}",
        outcome.stderr
    );
    assert!(!place.path("bad").exists());
}

/// A PNG file, gray or with this picture in all colors.
fn png(size: u32, color: bool, pixels: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, size, size);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_color(if color {
        png::ColorType::Rgb
    } else {
        png::ColorType::Grayscale
    });
    let repeated: Vec<u8> = pixels.iter().flat_map(|&p| [p, p, p]).collect();
    let mut writer = encoder.write_header().unwrap();
    writer
        .write_image_data(if color { &repeated } else { pixels })
        .unwrap();
    writer.finish().unwrap();
    bytes
}

/// Trains, then asks for the test images as pictures: the probabilities are those that the run's
/// own evaluation kept.
fn predicts_what_was_evaluated(config: &str, rows: &[(&str, &str)]) -> Place {
    let place = place([20, 20, 20], [4, 3, 3]).with("mine.toml", config);
    let outcome = train(&place, &["evaluation.keep_predictions=true"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let (pixels, _) = images([4, 3, 3]);
    std::fs::create_dir_all(place.path("new")).unwrap();
    for (number, image) in pixels.chunks(28 * 28).enumerate() {
        // half of them in color: the luma of gray is the gray
        let bytes = png(28, number % 2 == 0, image);
        std::fs::write(place.path(&format!("new/{number:02}.png")), bytes).unwrap();
    }
    // the folder of the run is all it takes
    std::fs::remove_dir_all(place.path("shapes")).unwrap();
    for (row, folder) in rows {
        // SWAG is evaluated once, for both
        let best = if *row == "swag" { "final" } else { "best" };
        for (word, ending) in [("best", best), ("final", "final")] {
            let arguments = [
                "predict",
                "run",
                "new",
                "--row",
                row,
                "--checkpoint",
                word,
                "-o",
                "p.npy",
            ];
            let outcome = place.run(&arguments);
            assert_eq!(outcome.code, Some(0), "{row}: {}", outcome.stderr);
            let kept = format!("run/predictions/{folder}-{ending}/test.npy");
            let kept = std::fs::read(place.path(&kept)).unwrap();
            assert_eq!(
                std::fs::read(place.path("p.npy")).unwrap(),
                kept,
                "{row} {word}"
            );
        }
    }
    place
}

#[test]
fn pictures_get_the_probabilities_of_the_evaluation() {
    let config = CONFIG.replace("epochs = 4", "epochs = 6")
        .replace("rows = [", "swag = { start = 2, rank = 2 }\nrows = [{ row = \"swag\", predictive = \"swag\", samples = 3 }, { row = \"laplace\", predictive = \"laplace\" }, ");
    let rows = [("AdamW", "adamw"), ("swag", "swag"), ("laplace", "laplace")];
    let place = predicts_what_was_evaluated(&config, &rows);

    let table = place.run(&split("predict run new/00.png new/09.png --row AdamW"));
    assert_eq!(table.code, Some(0), "{}", table.stderr);
    let lines: Vec<Vec<&str>> = table
        .stdout
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0],
        ["file", "class", "probability", "entropy", "score"]
    );
    assert_eq!(
        (lines[1][..2].to_vec(), lines[2][..2].to_vec()),
        (vec!["new/00.png", "0"], vec!["new/09.png", "2"])
    );
    let json = place.json(&["predict", "run", "new", "--row", "AdamW"]);
    assert_eq!(json["classes"], serde_json::json!(["0", "1", "2"]));
    let first = &json["pictures"][0];
    let p: Vec<f64> = first["probabilities"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_f64)
        .collect();
    assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-6);
    let entropy: f64 = -p.iter().map(|p| p * p.ln()).sum::<f64>();
    assert!((first["entropy"].as_f64().unwrap() - entropy).abs() < 1e-9);
    let csv = place.run(&["predict", "run", "new", "-o", "p.csv"]);
    assert_eq!((csv.code, csv.stdout.as_str()), (Some(0), ""));
    let text = std::fs::read_to_string(place.path("p.csv")).unwrap();
    assert!(
        text.starts_with("file,class,probability,entropy,score,p(0),p(1),p(2)\nnew/00.png,0,"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 11);
    let sheet = place.run(&["predict", "run", "new", "-o", "sheet.html"]);
    assert_eq!((sheet.code, sheet.stdout.as_str()), (Some(0), ""));
    let page = std::fs::read_to_string(place.path("sheet.html")).unwrap();
    assert_eq!(
        page.matches("<img src=\"data:image/png;base64,iVBORw0KGgo")
            .count(),
        10
    );
    assert!(page.contains("alt=\"new/09.png\"") && page.contains("<dt>2</dt><dd>"));
}

/// Pictures of two classes and of sizes from 20 to 34, every third in color; each is bright in its
/// upper or lower half.
fn write_pictures(folder: &Path, count: u32) {
    for (class, name) in ["high", "low"].into_iter().enumerate() {
        std::fs::create_dir_all(folder.join(name)).unwrap();
        for number in 0..count {
            let side = 20 + number * 7 % 15;
            let bright = |at: u32| (at / side < side / 2) == (class == 0);
            let pixel = |at| (number * 3 + at * 7 % 40) as u8 + if bright(at) { 150 } else { 0 };
            let pixels: Vec<u8> = (0..side * side).map(pixel).collect();
            let file = folder.join(name).join(format!("{number:02}.png"));
            std::fs::write(file, png(side, number % 3 == 0, &pixels)).unwrap();
        }
    }
}

#[test]
fn pictures_of_every_size_and_color_are_brought_into_one_form() {
    let place = Place::new().with("mine.toml", CONFIG.replace("other/shapes", "letters"));
    write_pictures(&place.path("shapes/train"), 20);
    write_pictures(&place.path("shapes/test"), 5);
    let outcome = train(&place, &[]);
    assert_eq!(outcome.code, Some(2));
    let advice = "data.resize gives all of them one size";
    assert!(outcome.stderr.contains(advice), "{}", outcome.stderr);
    let form = [
        "data.resize=28",
        "data.channels=1",
        "evaluation.keep_predictions=true",
    ];
    let outcome = train(&place, &form);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let record = record(&place);
    assert_eq!(
        record["config"]["data"]["resize"],
        serde_json::json!([28, 28])
    );
    let outcome = place.run(&["predict", "run", "shapes/test", "-o", "p.npy"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let kept = std::fs::read(place.path("run/predictions/adamw-best/test.npy")).unwrap();
    assert_eq!(std::fs::read(place.path("p.npy")).unwrap(), kept);
    for (setting, expected) in [
        ("data.resize=0", "data.resize: 0 is not in 1..=1024"),
        (
            "data.resize=[28]",
            "expected a side like 32, or [height, width]",
        ),
        (
            "data.channels=2",
            "data.channels: 2 is neither 1 (gray) nor 3 (color)",
        ),
    ] {
        let outcome = train(&place, &[setting]);
        assert_eq!(outcome.code, Some(2), "{setting}");
        assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
    }
}

#[test]
fn samples_of_the_weights_predict_from_the_stored_state() {
    let config = CONFIG
        .replace("rule = \"adamw\", lr = 0.003", "rule = \"ivon\", lr = 0.1")
        .replace(
            "rows = [",
            "rows = [{ row = \"ivon\", predictive = \"ivon\", samples = 3 }, ",
        );
    predicts_what_was_evaluated(&config, &[("ivon", "ivon"), ("AdamW", "adamw")]);
}

/// Whatever rows a run has, its pictures get bounds.
#[test]
fn pictures_get_bounds_without_a_row_for_them() {
    let config = CONFIG.replace("epochs = 4", "epochs = 6");
    let place = predicts_what_was_evaluated(&config, &[("AdamW", "adamw")]);
    let bounded = |more: &[&str]| {
        let mut arguments = vec!["predict", "run", "new", "--method", "possibilistic"];
        arguments.extend(["--checkpoint", "final"].iter().chain(more));
        let outcome = place.run(&arguments);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        outcome.stdout
    };
    let table = bounded(&[]);
    let head: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    let bounds = ["lower", "upper", "possibility", "necessity"];
    assert_eq!(head[5..], bounds);
    let found: Value = serde_json::from_str(&bounded(&["--json", "-o", "p.csv"])).unwrap();
    let pictures = found["pictures"].as_array().unwrap();
    assert_eq!(
        (pictures.len(), &found["row"]),
        (10, &"possibilistic".into())
    );
    for picture in pictures {
        let number = |key: &str, class: usize| picture[key][class].as_f64().unwrap();
        for class in 0..3 {
            let p = number("probabilities", class);
            let (lower, upper) = (number("lower", class), number("upper", class));
            // the probabilities are those of f32
            assert!(
                lower <= p + 1e-6 && p <= upper + 1e-6,
                "{lower} {p} {upper}"
            );
        }
        let possible = (0..3).map(|class| number("possibility", class));
        assert_eq!(possible.clone().fold(0.0, f64::max), 1.0);
        let mut possible: Vec<f64> = possible.collect();
        possible.sort_by(f64::total_cmp);
        let necessity = picture["necessity"].as_f64().unwrap();
        assert!((necessity - (1.0 - possible[1])).abs() < 1e-12);
        assert_eq!(picture["certified"], true);
    }
    let csv = std::fs::read_to_string(place.path("p.csv")).unwrap();
    assert!(csv.starts_with(
        "file,class,probability,entropy,score,lower,upper,possibility,necessity,p(0),p(1),p(2)\n"
    ));
    bounded(&["-o", "sheet.html"]);
    let sheet = std::fs::read_to_string(place.path("sheet.html")).unwrap();
    assert!(sheet.contains("necessity 0."), "{sheet}");
    for (arguments, expected) in [
        (
            &["--method", "guess"][..],
            "method: expected one of \"point\", \"ivon\", ",
        ),
        (
            &["--method", "possibilistic"],
            "none of the run's rows took the state of its rule",
        ),
        (
            &["--method", "ivon"],
            "\"ivon\" needs optimizer.rule = \"ivon\"",
        ),
        (
            &["--method", "point", "--row", "AdamW"],
            "cannot be used with",
        ),
    ] {
        let outcome = place.run(&[&["predict", "run", "new"], arguments].concat());
        assert_eq!(outcome.code, Some(2), "{arguments:?}");
        assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
    }
}

#[test]
fn a_run_is_exported_with_all_that_a_stranger_needs() {
    let place = place([20, 20, 20], [4, 3, 3]);
    assert_eq!(train(&place, &[]).code, Some(0));
    let outcome = place.run(&["export", "run", "-o", "out"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(
        outcome.stdout,
        "out/weights.safetensors\nout/network.json\n"
    );
    let weights = std::fs::read(place.path("out/weights.safetensors")).unwrap();
    assert_eq!(
        weights,
        std::fs::read(place.path("run/best.safetensors")).unwrap()
    );
    let text = std::fs::read(place.path("out/network.json")).unwrap();
    let json: Value = serde_json::from_slice(&text).unwrap();
    assert_eq!(json["classes"], serde_json::json!(["0", "1", "2"]));
    assert_eq!(json["images"]["height"], 28);
    let layers = json["network"]["layers"].as_array().unwrap();
    assert_eq!(layers[0]["kind"], "conv2d");
    assert_eq!(layers[0]["inputs"], serde_json::json!(["input"]));
    assert_eq!(layers[1]["inputs"][0], layers[0]["name"]);
    assert_eq!(
        layers.last().unwrap()["output"],
        serde_json::json!([3, 1, 1])
    );
    let onnx = ["export", "run", "-o", "out", "--format", "onnx"];
    let outcome = place.run(&onnx);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(outcome.stdout, "out/model.onnx\n");
    // weights as they are, classes in the metadata
    let model = std::fs::read(place.path("out/model.onnx")).unwrap();
    let holds = |part: &[u8]| model.windows(part.len()).any(|window| window == part);
    for (name, values) in tensors(&weights) {
        assert!(holds(name.as_bytes()) && holds(&values), "{name}");
    }
    assert!(holds(b"classes") && holds(br#"["0","1","2"]"#));
    for arguments in [&["export", "run", "-o", "out"][..], &onnx] {
        let again = place.run(arguments);
        assert_eq!(again.code, Some(2));
        assert!(
            again.stderr.contains("is there already"),
            "{}",
            again.stderr
        );
    }
}

/// Names and values of a safetensors file: the length of its header, the header, all values.
fn tensors(file: &[u8]) -> Vec<(String, Vec<u8>)> {
    let (length, rest) = file.split_at(8);
    let length = u64::from_le_bytes(length.try_into().unwrap()) as usize;
    let (header, values) = rest.split_at(length);
    let header: serde_json::Map<String, Value> = serde_json::from_slice(header).unwrap();
    let place = |tensor: &Value, end: usize| tensor["data_offsets"][end].as_u64();
    let bytes = |tensor: Value| Some(place(&tensor, 0)? as usize..place(&tensor, 1)? as usize);
    let all: Vec<_> = header
        .into_iter()
        .filter_map(|(name, tensor)| Some((name, values[bytes(tensor)?].to_vec())))
        .collect();
    assert!(all.len() > 2);
    all
}

/// What a criterion chose on validation images is known without them.
#[test]
fn chosen_factors_predict_from_the_record() {
    let config = CONFIG.replace("epochs = 4", "epochs = 6").replace(
        "rows = [",
        "rows = [{ row = \"bounds\", predictive = \"possibilistic\", factor = \"nll\" }, ",
    );
    let place = place([30, 30, 30], [4, 3, 3]).with("mine.toml", config);
    let outcome = train(&place, &[]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    std::fs::create_dir(place.path("new")).unwrap();
    let picture = png(28, false, &images([1, 0, 0]).0);
    std::fs::write(place.path("new/a.png"), picture).unwrap();
    std::fs::write(place.path("new/b.png"), "hello").unwrap();
    let predict = ["predict", "run", "new", "--row", "bounds", "--json"];
    let with_data = place.run(&predict);
    assert_eq!(with_data.code, Some(0), "{}", with_data.stderr);
    std::fs::remove_dir_all(place.path("shapes")).unwrap();
    let alone = place.run(&predict);
    assert_eq!(alone.stdout, with_data.stdout);
    let bounds: Value = serde_json::from_str(&alone.stdout).unwrap();
    let record = record(&place);
    let chosen = record["evaluations"][0]["details"]["factor"].as_f64();
    assert_ne!(chosen, Some(1.0));
    assert!(bounds["pictures"][0]["necessity"].as_f64().is_some());
    // the picture in the folder that is none is told
    let note = "note: new/b.png: picture at byte 0: \"hell\", expected a PNG";
    assert!(alone.stderr.starts_with(note), "{}", alone.stderr);
    assert!(alone.stderr.ends_with("; left out\n"), "{}", alone.stderr);
    // another factor gives other bounds
    let own = place.run(&["predict", "run", "new/a.png", "--method", "possibilistic"]);
    let row = place.run(&["predict", "run", "new/a.png", "--row", "bounds"]);
    assert_eq!((own.code, row.code), (Some(0), Some(0)));
    assert_ne!(own.stdout, row.stdout);
}

#[test]
fn mistakes_in_predictions_are_named() {
    let place = place([20, 20, 20], [4, 3, 3]);
    let bad = place.run(&["predict", "run", "x.png"]);
    assert_eq!(bad.code, Some(2));
    assert!(bad.stderr.contains("holds no run"), "{}", bad.stderr);
    let outcome = train(&place, &["data.validation_share=0"]);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    std::fs::create_dir(place.path("empty")).unwrap();
    std::fs::create_dir(place.path("only-text")).unwrap();
    let place = place
        .with("large.png", png(40, false, &[7; 1600]))
        .with("ok.png", png(28, false, &[7; 784]))
        .with("broken.png", &png(28, false, &[7; 784])[..60])
        .with("only-text/text.png", "hello")
        .with("text.png", "hello");
    let last = ["--checkpoint", "final"];
    for (arguments, expected) in [
        (&["ok.png"][..], "the run had no validation images"),
        (
            &["large.png"],
            "large.png: is 40x40, the network takes 28x28; --resize",
        ),
        (&["none.png"], "cannot read none.png: "),
        (&["broken.png"], "broken.png: "),
        (
            &["text.png"],
            "text.png: picture at byte 0: \"hell\", expected a PNG, JPEG, BMP, GIF, TIFF or WebP",
        ),
        (&["empty"], "empty: has no PNG, JPEG, BMP"),
        (
            &["only-text"],
            "error: only-text/text.png: picture at byte 0",
        ),
        (
            &["ok.png", "--row", "SGD"],
            "has no row \"SGD\"; there are \"AdamW\"",
        ),
        (
            &["ok.png", "-o", "p.txt"],
            "p.txt: the ending is not .csv, .json, .npy or .html",
        ),
    ] {
        let extra: &[&str] = if expected.contains("validation") {
            &[]
        } else {
            &last
        };
        let outcome = place.run(&[&["predict", "run"], arguments, extra].concat());
        assert_eq!(outcome.code, Some(2), "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
    }
    let outcome = place.run(&split("predict run large.png --resize --checkpoint final"));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    std::fs::write(place.path("run/model.json"), "{}").unwrap();
    let outcome = place.run(&["predict", "run", "ok.png", "--checkpoint", "final"]);
    assert_eq!(outcome.code, Some(2));
    assert!(
        outcome.stderr.contains("model.json: missing field"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn data_that_changed_since_are_refused() {
    let place = place([20, 20, 20], [3, 3, 3]);
    assert_eq!(train(&place, &[]).code, Some(0));
    std::fs::remove_file(place.path("run/record.json")).unwrap();
    let labels = place.path("shapes/train_labels.npy");
    let mut bytes = std::fs::read(&labels).unwrap();
    *bytes.last_mut().unwrap() = 0;
    std::fs::write(&labels, &bytes).unwrap();
    let outcome = place.run(&["resume", "run"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("belongs to a run on other data"),
        "{}",
        outcome.stderr
    );
    *bytes.last_mut().unwrap() = 2;
    std::fs::write(&labels, &bytes).unwrap();
    assert_eq!(place.run(&["resume", "run"]).code, Some(0));
}

#[test]
fn of_several_that_train_into_one_folder_one_wins() {
    let place = place([20, 20, 20], [3, 3, 3]);
    for round in 0..4 {
        let out = format!("same{round}");
        let outcomes: Vec<(usize, Outcome)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..5)
                .map(|seed| {
                    let (place, out) = (&place, &out);
                    scope.spawn(move || {
                        let setting = format!("seed={seed}");
                        let words = [
                            "train",
                            "mine.toml",
                            "--out",
                            out,
                            "--set",
                            &setting,
                            "--threads",
                            "1",
                        ];
                        (seed, place.run(&words))
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        let (won, lost): (Vec<_>, Vec<_>) = outcomes
            .iter()
            .partition(|(_, outcome)| outcome.code == Some(0));
        assert_eq!(won.len(), 1);
        for (_, outcome) in lost {
            assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
            let taken = ["is the config of another run", "another process is at work"];
            assert!(
                taken.iter().any(|word| outcome.stderr.contains(word)),
                "{}",
                outcome.stderr
            );
        }
        let record: Value = serde_json::from_slice(
            &std::fs::read(place.path(&format!("{out}/record.json"))).unwrap(),
        )
        .unwrap();
        assert_eq!(record["seed"], won[0].0);
        let config = std::fs::read_to_string(place.path(&format!("{out}/config.toml"))).unwrap();
        assert!(
            config.contains(&format!("seed = {}\n", won[0].0)),
            "{config}"
        );
    }
}

#[test]
#[cfg(unix)]
fn a_run_folder_from_someone_else_overwrites_nothing() {
    let place = place([20, 20, 20], [3, 3, 3]).with("victim", "precious");
    assert_eq!(train(&place, &[]).code, Some(0));
    std::fs::remove_file(place.path("run/record.json")).unwrap();
    std::fs::remove_file(place.path("run/lock")).unwrap();
    std::os::unix::fs::symlink(place.path("victim"), place.path("run/lock")).unwrap();
    let outcome = place.run(&["resume", "run"]);
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
    assert!(
        outcome
            .stderr
            .contains("lock: is not a plain file; remove it"),
        "{}",
        outcome.stderr
    );
    std::fs::remove_file(place.path("run/lock")).unwrap();
    for name in [
        "record.json",
        "checkpoint.safetensors.tmp",
        "last.safetensors",
    ] {
        let _ = std::fs::remove_file(place.path(&format!("run/{name}")));
        std::os::unix::fs::symlink(place.path("victim"), place.path(&format!("run/{name}")))
            .unwrap();
    }
    // a record that is a link is read, and refused; without it the rest is replaced
    assert_eq!(place.run(&["resume", "run"]).code, Some(2));
    std::fs::remove_file(place.path("run/record.json")).unwrap();
    assert_eq!(place.run(&["resume", "run"]).code, Some(0));
    assert_eq!(std::fs::read(place.path("victim")).unwrap(), b"precious");
}

/// Every archive ends in a message with its name, and nothing is written anywhere.
#[test]
fn hostile_archives_are_refused_by_name() {
    let place = place([20, 20, 20], [6, 6, 6]);
    let read = |name: &str| std::fs::read(place.path(&format!("shapes/{name}"))).unwrap();
    let names = ["train_images", "train_labels", "test_images", "test_labels"];
    let files = names.map(|name| (format!("{name}.npy"), read(&format!("{name}.npy"))));
    let archive = |change: &dyn Fn(&str) -> String| {
        let renamed = files.each_ref().map(|(name, bytes)| (change(name), bytes));
        zip(&renamed
            .each_ref()
            .map(|(name, bytes)| (&name[..], &bytes[..])))
    };
    let good = archive(&|name| name.to_owned());
    let at = |signature: &[u8]| {
        let places = good.windows(4).enumerate();
        let mut places = places.filter(|(_, four)| *four == signature);
        places.next().unwrap().0
    };
    let (table, end) = (at(b"PK\x01\x02"), at(b"PK\x05\x06"));
    let with = |place: usize, bytes: &[u8]| {
        let mut changed = good.clone();
        changed[place..place + bytes.len()].copy_from_slice(bytes);
        changed
    };
    let twice = archive(&|name| name.replace("test_labels", "train_labels"));
    // a record for large archives that tells of more than there is
    let mut lie = with(end + 10, &[0xff, 0xff]);
    let mut large = b"PK\x06\x06".to_vec();
    large.extend([0; 28]);
    large.extend([u64::MAX, u64::MAX / 2, 0].map(u64::to_le_bytes).concat());
    large.extend(b"PK\x06\x07\0\0\0\0");
    large.extend((end as u64).to_le_bytes());
    large.extend([0; 4]);
    lie.splice(end..end, large);
    let mut tar = vec![0; 10_240];
    tar[..9].copy_from_slice(b"../escape");
    let missing = "there is no array \"train_images\"";
    let cases: [(Vec<u8>, &str); 16] = [
        (archive(&|name| format!("../{name}")), missing),
        (archive(&|name| format!("/tmp/{name}")), missing),
        (archive(&|name| format!("{name}/")), missing),
        (archive(&|name| format!("\u{1b}[2J\u{202e}{name}")), missing),
        (zip(&[]), missing),
        (twice, "\"train_labels.npy\" stands there twice"),
        (with(table + 8, &[1]), "it is encrypted"),
        (with(table + 10, &[99]), "compression method 99"),
        (with(table + 16, &[0; 4]), "CRC-32 is"),
        (
            with(table + 20, &[0xff; 8]),
            "bytes announced, the file has",
        ),
        (with(table + 42, &[0xee; 4]), "local header at byte"),
        (with(30, b"other"), "expected \"train_images.npy\""),
        (with(table + 46 + 5, &[0xff]), "it needs the arrays"),
        (lie, "table of contents"),
        (good[..good.len() - 30].to_vec(), "it is cut off"),
        (tar, "this is not a ZIP archive"),
    ];
    let before = place.files();
    for (bytes, told) in cases {
        std::fs::write(place.path("a.npz"), bytes).unwrap();
        let outcome = train(&place, &["data.dataset='a.npz'"]);
        let error = outcome.stderr;
        assert_eq!(outcome.code, Some(2), "{told}: {error}");
        assert!(
            error.contains("a.npz") && error.contains(told),
            "{told}: {error}"
        );
        let is_plain = |c: char| c == '\n' || !(c.is_control() || c == '\u{202e}');
        assert!(error.chars().all(is_plain), "{error:?}");
        std::fs::remove_file(place.path("a.npz")).unwrap();
        assert_eq!(place.files(), before, "{told}");
    }
    std::fs::write(place.path("a.npz"), good).unwrap();
    let outcome = train(
        &place,
        &[
            "data.dataset='a.npz'",
            "train.epochs=1",
            "schedule.warmup=0",
        ],
    );
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
}
