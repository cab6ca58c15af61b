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

/// Trains with these settings, which must end with this code.
#[track_caller]
fn train(place: &Place, settings: &[&str], code: i32) -> Outcome {
    let mut arguments = split("train mine.toml --out run --threads 1");
    arguments.extend(settings.iter().flat_map(|setting| ["--set", setting]));
    place.run(&arguments).ended(code)
}

fn record(place: &Place) -> Value {
    place.value("run/record.json")
}

#[test]
fn images_that_come_class_by_class_are_split_by_class() {
    let place = place([60, 30, 12], [6, 6, 6]);
    let outcome = train(&place, &[], 0);
    assert!(!outcome.stderr.contains("note:"), "{}", outcome.stderr);
    outcome.stderr_has("mine-seed0: epoch 4/4 loss ");
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
    let outcome = train(&place, &settings, 0);
    let notes = [
        "shapes: the validation images have no image of class 0",
        "shapes: the training images have no image of class 2",
        "shapes: the test images have no image of class 2",
        "schedule: the warm-up takes 4 of 4 epochs",
    ];
    let record = record(&place);
    let kept = record["notes"].as_array().unwrap().iter();
    let kept: Vec<&str> = kept.filter_map(Value::as_str).collect();
    for note in notes {
        outcome.stderr_has(&format!("note: {note}"));
        assert!(
            kept.iter().any(|kept| kept.starts_with(note)),
            "{note}: {kept:?}"
        );
    }
    let uneven = train(&self::place([240, 30, 12], [6, 6, 6]), &[], 0);
    uneven.stderr_has("the classes are uneven: 216 training images of class 0, 11 of class 2");
}

#[test]
fn a_training_set_of_one_class_is_refused() {
    let place = place([60, 30, 12], [6, 6, 6]);
    let outcome = train(&place, &["data.split=index", "data.limit=40"], 2);
    outcome.stderr_has("all 36 training images of");
    outcome.stderr_has("are of class 0");
    // a stratified limit keeps every class
    train(&self::place([60, 30, 12], [6, 6, 6]), &["data.limit=40"], 0);
    // one that only the test images have can't be learned
    let outcome = train(&self::place([60, 60, 0], [6, 6, 6]), &[], 0);
    let expected = "note: shapes: the training images have no image of class 2";
    outcome.stderr_has(expected);
}

#[test]
fn a_run_goes_on_from_another_folder_and_with_moved_data() {
    let place = place([20, 20, 20], [3, 3, 3]);
    train(&place, &["train.epochs=3"], 0);
    let expected = std::fs::read(place.path("run/last.safetensors")).unwrap();
    let run = place.path("run");
    for file in split("record.json last.safetensors checkpoint.safetensors best.safetensors") {
        std::fs::remove_file(run.join(file)).unwrap();
    }
    let elsewhere = Place::new();
    elsewhere.succeed(&["resume", run.to_str().unwrap(), "--threads", "1"]);
    let found = std::fs::read(run.join("last.safetensors")).unwrap();
    assert_eq!(found, expected);

    std::fs::remove_file(run.join("record.json")).unwrap();
    std::fs::rename(place.path("shapes"), elsewhere.path("shapes")).unwrap();
    place.refuse("resume run --threads 1");
    let data = elsewhere.folder().to_str().unwrap();
    place.succeed(&["resume", "run", "--threads", "1", "--data-dir", data]);
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
    let drawn = place.succeed("net net.toml --input 1x28x28 --classes 3");
    drawn.stdout_has("residual1.conv2");
    place.refuse_each(
        "net *",
        r#"
net.toml => --input 3x32x32
net.toml --input 28x28 => such as 3x64x64
lenet --input 1x28x28 => --input is for files
none.toml --input 1x28x28 => none.toml
"#,
    );
    // a config that leaves out all that has a default
    let config = "name = \"mine\"\ndata = { dataset = \"shapes\" }\ntrain = { epochs = 20 }\n\
        schedule = { warmup = 2 }\n\
        network = { file = \"net.toml\" }\noptimizer = { rule = \"ucbopt\", lr = 0.05 }\n";
    let place = place.with("mine.toml", config);
    // its data say what the network is for
    let of_data = place.succeed("net mine.toml");
    assert_eq!(of_data.stdout, drawn.stdout);
    assert_eq!(
        of_data.stderr,
        "mine.toml: shapes has images of 1x28x28 and 3 classes\n"
    );
    let place = place.with(
        "known.toml",
        config.replace("\"shapes\"", "\"cifar-100\", resize = 28, channels = 1"),
    );
    let known = place.run("net known.toml --classes 3");
    assert_eq!((known.code, &known.stdout), (Some(0), &drawn.stdout));
    let known = place.run("net known.toml");
    known.stderr_has("1x28x28 and 100 classes");
    let place = place.with("gone.toml", config.replace("\"shapes\"", "\"gone\""));
    let gone = place.refuse("net gone.toml");
    gone.stderr_has("gone.toml: data.dataset: ");
    gone.stderr_has("--input 3x32x32 --classes 10");
    let told = place.run("net gone.toml --input 1x28x28 --classes 3");
    assert_eq!(told.stdout, drawn.stdout);
    train(&place, &["train.batch=16"], 0);
    let record = record(&place);
    assert_eq!(record["network"], "net");
    assert_eq!(record["evaluations"][0]["row"], "mine");
    let accuracy = &record["evaluations"][0]["in_domain"]["accuracy"];
    assert!(accuracy.as_f64().unwrap() > 0.8);
    // the layers are in the run, the file may go
    std::fs::remove_file(place.path("net.toml")).unwrap();
    std::fs::remove_file(place.path("run/record.json")).unwrap();
    place.succeed("resume run --threads 1");
    // a layer that does not fit the data leaves nothing behind
    let place = place.with(
        "net.toml",
        LAYERS
            .replace("kernel = 3", "kernel = 31")
            .replace("\"same\"", "0"),
    );
    let outcome = place.refuse("train mine.toml --out bad");
    outcome.stderr_has("layer 1 (conv1): kernel 31 does not fit");
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
    train(&place, &["evaluation.keep_predictions=true"], 0);
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
            let choice = format!("--row {row} --checkpoint {word}");
            place.succeed(&format!("predict run new {choice} -o p.npy"));
            let kept = format!("run/predictions/{folder}-{ending}/test.npy");
            let kept = std::fs::read(place.path(&kept)).unwrap();
            let found = std::fs::read(place.path("p.npy")).unwrap();
            assert_eq!(found, kept, "{row} {word}");
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

    let table = place.succeed("predict run new/00.png new/09.png --row AdamW");
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
    let json = place.json("predict run new --row AdamW");
    assert_eq!(json["classes"], serde_json::json!(["0", "1", "2"]));
    let first = &json["pictures"][0];
    let p = first["probabilities"].as_array().unwrap().iter();
    let p: Vec<f64> = p.filter_map(Value::as_f64).collect();
    assert!((p.iter().sum::<f64>() - 1.0).abs() < 1e-6);
    let entropy: f64 = -p.iter().map(|p| p * p.ln()).sum::<f64>();
    assert!((first["entropy"].as_f64().unwrap() - entropy).abs() < 1e-9);
    let csv = place.run("predict run new -o p.csv");
    assert_eq!((csv.code, csv.stdout.as_str()), (Some(0), ""));
    let text = place.text("p.csv");
    assert!(
        text.starts_with("file,class,probability,entropy,score,p(0),p(1),p(2)\nnew/00.png,0,"),
        "{text}"
    );
    assert_eq!(text.lines().count(), 11);
    let sheet = place.run("predict run new -o sheet.html");
    assert_eq!((sheet.code, sheet.stdout.as_str()), (Some(0), ""));
    let page = place.text("sheet.html");
    let pictures = page.matches("<img src=\"data:image/png;base64,iVBORw0KGgo");
    assert_eq!(pictures.count(), 10);
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
    let outcome = train(&place, &[], 2);
    outcome.stderr_has("data.resize gives all of them one size");
    let form = [
        "data.resize=28",
        "data.channels=1",
        "evaluation.keep_predictions=true",
    ];
    train(&place, &form, 0);
    let record = record(&place);
    assert_eq!(
        record["config"]["data"]["resize"],
        serde_json::json!([28, 28])
    );
    place.succeed("predict run shapes/test -o p.npy");
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
        let outcome = train(&place, &[setting], 2);
        outcome.stderr_has(expected);
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
    let bounded = |more: &str| {
        let command = "predict run new --method possibilistic --checkpoint final";
        place.succeed(&format!("{command} {more}")).stdout
    };
    let table = bounded("");
    let head: Vec<&str> = table.lines().next().unwrap().split_whitespace().collect();
    let bounds = ["lower", "upper", "possibility", "necessity"];
    assert_eq!(head[5..], bounds);
    let found: Value = serde_json::from_str(&bounded("--json -o p.csv")).unwrap();
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
    let csv = place.text("p.csv");
    assert!(csv.starts_with(
        "file,class,probability,entropy,score,lower,upper,possibility,necessity,p(0),p(1),p(2)\n"
    ));
    bounded("-o sheet.html");
    let sheet = place.text("sheet.html");
    assert!(sheet.contains("necessity 0."), "{sheet}");
    place.refuse_each(
        "predict run new --method *",
        r#"
guess => method: expected one of "point", "ivon", "mc-dropout"
possibilistic => none of the run's rows took the state of its rule
ivon => "ivon" needs optimizer.rule = "ivon"
point --row AdamW => cannot be used with
"#,
    );
}

#[test]
fn a_run_is_exported_with_all_that_a_stranger_needs() {
    let place = place([20, 20, 20], [4, 3, 3]);
    train(&place, &[], 0);
    let outcome = place.succeed("export run -o out");
    assert_eq!(
        outcome.stdout,
        "out/weights.safetensors\nout/network.json\n"
    );
    let weights = std::fs::read(place.path("out/weights.safetensors")).unwrap();
    assert_eq!(
        weights,
        std::fs::read(place.path("run/best.safetensors")).unwrap()
    );
    let json = place.value("out/network.json");
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
    let onnx = "export run -o out --format onnx";
    let outcome = place.succeed(onnx);
    assert_eq!(outcome.stdout, "out/model.onnx\n");
    // weights as they are, classes in the metadata
    let model = std::fs::read(place.path("out/model.onnx")).unwrap();
    let holds = |part: &[u8]| model.windows(part.len()).any(|window| window == part);
    for (name, values) in tensors(&weights) {
        assert!(holds(name.as_bytes()) && holds(&values), "{name}");
    }
    assert!(holds(b"classes") && holds(br#"["0","1","2"]"#));
    for again in ["export run -o out", onnx] {
        place.refuse(again).stderr_has("is there already");
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
    train(&place, &[], 0);
    std::fs::create_dir(place.path("new")).unwrap();
    let picture = png(28, false, &images([1, 0, 0]).0);
    std::fs::write(place.path("new/a.png"), picture).unwrap();
    std::fs::write(place.path("new/b.png"), "hello").unwrap();
    let predict = "predict run new --row bounds --json";
    let with_data = place.succeed(predict);
    std::fs::remove_dir_all(place.path("shapes")).unwrap();
    let alone = place.run(predict);
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
    let own = place.run("predict run new/a.png --method possibilistic");
    let row = place.run("predict run new/a.png --row bounds");
    assert_eq!((own.code, row.code), (Some(0), Some(0)));
    assert_ne!(own.stdout, row.stdout);
}

#[test]
fn mistakes_in_predictions_are_named() {
    let place = place([20, 20, 20], [4, 3, 3]);
    place.refuse("predict run x.png").stderr_has("holds no run");
    train(&place, &["data.validation_share=0"], 0);
    std::fs::create_dir(place.path("empty")).unwrap();
    std::fs::create_dir(place.path("only-text")).unwrap();
    let place = place
        .with("large.png", png(40, false, &[7; 1600]))
        .with("ok.png", png(28, false, &[7; 784]))
        .with("broken.png", &png(28, false, &[7; 784])[..60])
        .with("only-text/text.png", "hello")
        .with("text.png", "hello");
    place.refuse_each(
        "predict run *",
        r#"
ok.png => the run had no validation images
large.png --checkpoint final => large.png: is 40x40, the network takes 28x28; --resize
none.png --checkpoint final => cannot read none.png: 
broken.png --checkpoint final => broken.png: 
text.png --checkpoint final => text.png: picture at byte 0: "hell", expected a PNG, JPEG, BMP, GIF, TIFF or WebP
empty --checkpoint final => empty: has no PNG, JPEG, BMP
ok.png --row SGD --checkpoint final => has no row "SGD"; there are "AdamW"
ok.png -o p.txt --checkpoint final => p.txt: the ending is not .csv, .json, .npy or .html
"#,
    );
    // what is left out of a folder is told first
    let none = place.refuse("predict run only-text --checkpoint final");
    none.stderr_has("error: only-text/text.png: picture at byte 0");
    place.succeed("predict run large.png --resize --checkpoint final");
    std::fs::write(place.path("run/model.json"), "{}").unwrap();
    let outcome = place.refuse("predict run ok.png --checkpoint final");
    outcome.stderr_has("model.json: missing field");
}

#[test]
fn data_that_changed_since_are_refused() {
    let place = place([20, 20, 20], [3, 3, 3]);
    train(&place, &[], 0);
    std::fs::remove_file(place.path("run/record.json")).unwrap();
    let labels = place.path("shapes/train_labels.npy");
    let mut bytes = std::fs::read(&labels).unwrap();
    *bytes.last_mut().unwrap() = 0;
    std::fs::write(&labels, &bytes).unwrap();
    let outcome = place.refuse("resume run");
    outcome.stderr_has("belongs to a run on other data");
    *bytes.last_mut().unwrap() = 2;
    std::fs::write(&labels, &bytes).unwrap();
    place.succeed("resume run");
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
                        let command =
                            format!("train mine.toml --out {out} --set seed={seed} --threads 1");
                        (seed, place.run(&command))
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
        let record: Value = place.value(&format!("{out}/record.json"));
        assert_eq!(record["seed"], won[0].0);
        let config = place.text(&format!("{out}/config.toml"));
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
    train(&place, &[], 0);
    std::fs::remove_file(place.path("run/record.json")).unwrap();
    std::fs::remove_file(place.path("run/lock")).unwrap();
    std::os::unix::fs::symlink(place.path("victim"), place.path("run/lock")).unwrap();
    let outcome = place.refuse("resume run");
    outcome.stderr_has("lock: is not a plain file; remove it");
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
    place.refuse("resume run");
    std::fs::remove_file(place.path("run/record.json")).unwrap();
    place.succeed("resume run");
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
        let outcome = train(&place, &["data.dataset='a.npz'"], 2);
        outcome.stderr_has("a.npz");
        outcome.stderr_has(told);
        let error = outcome.stderr;
        let is_plain = |c: char| c == '\n' || !(c.is_control() || c == '\u{202e}');
        assert!(error.chars().all(is_plain), "{error:?}");
        std::fs::remove_file(place.path("a.npz")).unwrap();
        assert_eq!(place.files(), before, "{told}");
    }
    std::fs::write(place.path("a.npz"), good).unwrap();
    train(
        &place,
        &[
            "data.dataset='a.npz'",
            "train.epochs=1",
            "schedule.warmup=0",
        ],
        0,
    );
}
