//! `maxitive report`: finds records, writes its files whole or not at all, and says what is wrong.

use std::fs;

use crate::common::{Place, split};

/// A record as another program would write it.
fn record(seed: u64, accuracy: f64) -> String {
    format!(
        r#"{{"schema": "maxitive-run/1", "name": "sgd-seed{seed}", "experiment": "mine", "dataset": "fashion-mnist",
            "network": "lenet", "parameters": 44426, "rule": "sgd", "seed": {seed}, "config": {{"epochs": 2}},
            "code": {{"version": "0.1.0", "commit": null}},
            "hardware": {{"device": "x", "cores": 1, "threads": 1, "isa": "portable"}},
            "timings": {{"started_unix": 0, "train_s": 1.0, "validation_s": 0.5, "evaluation_s": 0.25, "steps": 8, "resumed": 0,
                         "peak_memory_bytes": null}},
            "curves": [],
            "evaluations": [{{"row": "SGD", "predictive": "point", "samples": 1, "checkpoint": "final", "epoch": 1, "seconds": 0.1,
                "in_domain": {{"accuracy": {accuracy}, "top5": null, "nll": "inf", "ece": 0.125, "brier": 0.25, "auroc": null,
                               "samples": 8, "classes": 3}},
                "reliability": {{"scheme": "equal-width", "bins": []}}, "out_of_domain": [], "predictions": null}}]}}"#
    )
}

fn place() -> Place {
    let place = Place::new();
    for (seed, accuracy) in [(0, 0.5), (1, 0.75)] {
        let folder = place.path(&format!("runs/{seed}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("record.json"), record(seed, accuracy)).unwrap();
    }
    place
}

#[test]
fn the_page_and_the_tables_are_written() {
    let place = place();
    let outcome =
        place.succeed("report runs -o new/page.html --csv t.csv --markdown t.md --latex t.tex");
    assert_eq!(outcome.stdout, "new/page.html\nt.csv\nt.md\nt.tex\n");
    assert_eq!(outcome.stderr, "");
    let page = place.text("new/page.html");
    assert!(page.starts_with("<!doctype html>") && page.contains("0.625"));
    // the one address in it is the name of the drawing language
    let addresses: Vec<&str> = page.split("://").skip(1).map(|rest| &rest[..18]).collect();
    assert_eq!(addresses, ["www.w3.org/2000/sv"]);
    let csv = place.text("t.csv");
    assert!(
        csv.contains("mine,fashion-mnist,lenet,final,SGD,,,,nll,2,inf,,false"),
        "{csv}"
    );
    assert!(place.text("t.md").contains("| SGD | 0.625 ± 0.177 |"));
    assert!(place.text("t.tex").contains("$0.625_{\\pm 0.177}$"));
    assert_eq!(place.files(), ["new", "runs", "t.csv", "t.md", "t.tex"]);

    let summary = place.json("report runs/0 runs/1/record.json --title 'A & B'");
    assert_eq!(summary.to_string(), r#"{"records":2,"html":"report.html"}"#);
    let page = place.text("report.html");
    assert!(page.contains("<h1>A &amp; B</h1>"));
}

#[test]
fn the_papers_layout_is_written() {
    let place = place();
    let outcome = place.refuse("report runs --paper-layout paper");
    let reason = "--paper-layout: no record belongs to a table of the paper";
    outcome.stderr_has(reason);
    assert_eq!(place.files(), ["runs"], "nothing is half written");

    for seed in 0..2 {
        let path = place.path(&format!("runs/{seed}/record.json"));
        let text = fs::read_to_string(&path).unwrap();
        let text = text.replace("\"mine\"", "\"fmnist\"");
        let curve = r#""curves": [{"epoch": 0, "lr": 0.1, "train_loss": 0.5, "train_accuracy": 0.75,
            "validation_loss": 0.25, "validation_accuracy": 0.5, "seconds": 1.0},
            {"epoch": 1, "lr": 0.1, "train_loss": 0.25, "train_accuracy": 0.875,
            "validation_loss": 0.125, "validation_accuracy": 0.625, "seconds": 1.0}]"#;
        let text = text.replace("\"curves\": []", curve);
        fs::write(&path, text).unwrap();
    }
    let outcome = place.succeed("report runs --paper-layout new/paper");
    let names = split(
        "all.tex all.md in-domain-final.tex in-domain-final.md fmnist-training-loss.svg \
         fmnist-training-loss.pdf fmnist-validation-loss.svg fmnist-validation-loss.pdf \
         fmnist-training-accuracy.svg fmnist-training-accuracy.pdf \
         fmnist-validation-accuracy.svg fmnist-validation-accuracy.pdf",
    );
    let mut expected = String::from("report.html\n");
    for name in names {
        let path = place.path("new/paper").join(name);
        assert!(fs::metadata(&path).unwrap().len() > 100, "{name}");
        expected += &format!("new/paper/{name}\n");
    }
    assert_eq!(outcome.stdout, expected);
    let table = place.text("new/paper/in-domain-final.md");
    assert!(
        table.contains("| SGD | ours (2) | 0.625 ± 0.177 |"),
        "{table}"
    );
    let picture = fs::read(place.path("new/paper/fmnist-training-loss.pdf")).unwrap();
    assert!(picture.starts_with(b"%PDF-") && picture.ends_with(b"%%EOF\n"));
    let summary = place.json("report runs --paper-layout new/paper");
    assert_eq!(summary["paper_layout"], "new/paper");
}

#[test]
fn mistakes_are_named_and_nothing_is_written() {
    let place = place().with("page.html", "precious");
    fs::create_dir(place.path("empty")).unwrap();
    let other = record(0, 0.5).replace("maxitive-run/1", "maxitive-run/9");
    fs::write(place.path("other.json"), other).unwrap();
    fs::write(place.path("broken.json"), "{\"schema\": \"maxitive-run/1\"").unwrap();
    place.refuse_each(
        "report *",
        r#"
nowhere => nowhere: cannot be read
empty => empty: no record.json in this folder or below it
other.json => other.json: the schema is "maxitive-run/9", this program reads "maxitive-run/1" and "maxitive-run/2"
broken.json => broken.json: this is no run record: EOF while parsing
runs -o empty => empty: is a folder, not a file
runs -o page.html/x.html => page.html
runs --csv report.html => report.html: named for two files
"#,
    );
    assert_eq!(place.text("page.html"), "precious");
    place.refuse("report");
}
