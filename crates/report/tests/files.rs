//! Records found in folders, and clear words about what is no record.

#![allow(clippy::unwrap_used, reason = "a failed test may say so by a panic")]

mod synthetic;

use std::error::Error as _;
use std::fs;
use std::path::{Path, PathBuf};

use evaluation::record::RecordError;
use report::files::{Error, read, searches};

fn put(folder: &Path, name: &str, contents: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, contents).unwrap();
    path
}

fn json(seed: u64) -> String {
    let mut record = synthetic::minimal();
    record.seed = seed;
    record.name = format!("run {seed}");
    serde_json::to_string(&record).unwrap()
}

#[test]
fn records_are_found_at_any_depth_once() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    put(root, "b/record.json", json(2));
    put(root, "a/deep/er/record.json", json(1));
    put(root, "b/checkpoint/other.json", "{}");
    let named = put(root, "elsewhere.json", json(3));
    let places = [
        root.to_owned(),
        named,
        root.join("b"),
        root.join("a/../b/record.json"),
    ];
    let records = read(&places).unwrap();
    let seeds: Vec<u64> = records.iter().map(|record| record.seed).collect();
    assert_eq!(seeds, [1, 2, 3]);
    // what was infinite is infinite again
    let nll = records[0].evaluations[0].in_domain.values.nll;
    assert_eq!(nll, Some(f64::INFINITY));
}

#[test]
#[cfg(unix)]
fn a_loop_of_links_is_not_followed() {
    let place = tempfile::tempdir().unwrap();
    put(place.path(), "a/record.json", json(1));
    std::os::unix::fs::symlink(place.path(), place.path().join("a/loop")).unwrap();
    assert_eq!(read(&[place.path().to_owned()]).unwrap().len(), 1);
}

#[test]
fn what_is_no_record_is_named() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    fs::create_dir(root.join("empty")).unwrap();
    let error = read(&[root.join("empty")]).unwrap_err();
    assert!(matches!(error, Error::NoRecord { .. }));
    assert!(
        error
            .to_string()
            .ends_with("empty: no record.json in this folder or below it")
    );

    let error = read(&[root.join("missing")]).unwrap_err();
    assert!(matches!(error, Error::Unreadable { .. }));
    assert!(error.source().is_some());

    let newer = json(0).replace("maxitive-run/2", "maxitive-run/3");
    let path = put(root, "newer/record.json", newer);
    let error = read(&[root.join("newer")]).unwrap_err();
    assert!(matches!(error, Error::Record(RecordError::Schema { .. })));
    let text = error.to_string();
    assert!(text.starts_with(&path.display().to_string()), "{text}");
    assert!(
        text.contains("maxitive-run/3") && text.contains("maxitive-run/2"),
        "{text}"
    );

    for (contents, words) in [
        ("{\"schema\": ", "EOF"),
        ("[]", "schema"),
        ("{\"name\": \"x\"}", "schema"),
        ("{\"schema\": \"maxitive-run/1\"}", "missing field `name`"),
    ] {
        let path = put(root, "broken/record.json", contents);
        let text = read(std::slice::from_ref(&path)).unwrap_err().to_string();
        assert!(text.starts_with(&path.display().to_string()), "{text}");
        assert!(text.contains(words), "{text}");
    }
    let path = put(root, "binary/record.json", [0xff, 0xfe]);
    let error = read(std::slice::from_ref(&path)).unwrap_err();
    assert!(
        matches!(error, Error::Record(RecordError::File { .. })),
        "{error}"
    );
}

#[test]
fn searches_are_found_beside_the_runs() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    put(root, "s/run/record.json", json(1));
    let text = r#"{ "schema": "maxitive-search/1", "name": "s", "failed": [],
        "halving": { "eta": 3, "epochs": 1, "metric": "validation_accuracy" },
        "rounds": [{ "epochs": 1, "kept": 1, "runs": [
            { "run": "a", "value": 0.5, "kept": true, "reason": "" },
            { "run": "b", "value": null, "kept": false, "reason": "" }] }] }"#;
    let file = put(root, "s/search.json", text);
    let places = [root.to_owned(), root.join("s"), file.clone()];
    let found = searches(&places).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].halving.eta, 3);
    assert_eq!(found[0].rounds[0].runs[1].value, None);
    for (damaged, problem) in [
        (
            text.replace("search/1", "search/9"),
            "has the schema \"maxitive-search/9\"",
        ),
        (
            text.replace("\"rounds\"", "\"round\""),
            "missing field `rounds`",
        ),
    ] {
        put(root, "s/search.json", damaged);
        let message = searches(&places).unwrap_err().to_string();
        assert!(message.contains(problem), "{message}");
        assert!(message.contains("search.json"), "{message}");
    }
}
