//! `maxitive data`: the list, downloads from a mirror, verification.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use crate::common::Place;

#[test]
fn the_list_says_what_is_where() {
    let place = Place::new();
    let outcome = place.succeed("data list");
    for part in [
        "fashion-mnist-mini  6,000 + 2,000 images",
        "\n                    built in\n",
        "50,000 train + 10,000 test, 10 classes; license: none stated",
        "license: for non-commercial use only",
    ] {
        outcome.stdout_has(part);
    }
}

#[test]
fn the_list_as_json_has_every_field() {
    let place = Place::new();
    std::fs::create_dir(place.path("svhn")).unwrap();
    std::fs::write(place.path("svhn/test_32x32.mat"), "twelve bytes").unwrap();
    let list = place.json("data list --data-dir .");
    let sets = list["datasets"].as_array().unwrap();
    let of = |name: &str| sets.iter().find(|set| set["name"] == name).unwrap();
    let svhn = of("svhn");
    assert_eq!(svhn["parts"]["test"]["images"], 26_032);
    assert_eq!(svhn["parts"]["test"]["found"]["origin"], "--data-dir");
    assert_eq!(svhn["parts"]["test"]["found"]["bytes"], 12);
    assert_eq!(svhn["mean"][1], 0.4438);
    assert_eq!(svhn["shape"], serde_json::json!([3, 32, 32]));
    assert_eq!(
        of("letters")["parts"]["test"]["found"]["origin"],
        "built in"
    );
    assert_eq!(of("letters")["parts"].get("train"), None);
}

#[test]
fn verify_finds_the_wrong_file() {
    let place = Place::new();
    let outcome = place.refuse("data verify .");
    assert!(
        outcome
            .stderr
            .contains("no known dataset in .; expected one of the folders")
    );
    std::fs::create_dir(place.path("mnist")).unwrap();
    let labels = [&[0, 0, 8, 1, 0, 0, 0, 2][..], &[7, 7]].concat();
    std::fs::write(place.path("mnist/t10k-labels-idx1-ubyte"), labels).unwrap();
    let outcome = place.refuse("data verify .");
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert!(lines[0].starts_with("WRONG mnist test: mnist/t10k-images-idx3-ubyte: cannot read"));
    assert!(lines[1].starts_with("WRONG mnist test: mnist/t10k-labels-idx1-ubyte: "));
    assert!(lines[1].contains("expected ff7bcfd4"), "{}", lines[1]);
    outcome.stderr_has("2 of 2 files are not right");
    let outcome = place.refuse("data verify mnist --json");
    let report: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(
        (&report["ok"], &report["files"][1]["ok"]),
        (&false.into(), &false.into())
    );
    let outcome = place.refuse("data verify nowhere");
    outcome.stderr_has("nowhere is not a folder");
}

/// A server that answers every request with this.
fn serve(answer: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(&stream).lines();
            for line in lines {
                if line.is_ok_and(|line| line.is_empty()) {
                    break;
                }
            }
            // a client that hangs up is no concern of the server
            let _ = stream.write_all(&answer);
        }
    });
    format!("http://{address}")
}

#[test]
fn a_mirror_without_the_file_or_with_another_is_refused() {
    let place = Place::new();
    let fetch = |mirror: String| {
        let command = format!("data fetch notmnist --data-dir d --mirror {mirror}");
        let outcome = place.run(&command);
        assert_eq!((outcome.code, &outcome.stdout[..]), (Some(1), ""));
        let left = std::fs::read_dir(place.path("d/notmnist")).unwrap().count();
        assert_eq!(left, 0, "a file was left behind");
        outcome.stderr
    };
    let closing = "Connection: close\r\n\r\n";
    let missing = format!("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n{closing}");
    let error = fetch(serve(missing.into()));
    assert!(
        error.contains("notmnist/t10k-images-idx3-ubyte.gz: status 404"),
        "{error}"
    );
    // as many bytes as there should be, but others
    let bytes = 3_172_375;
    let mut other = format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n{closing}").into_bytes();
    other.resize(other.len() + bytes, 0);
    let error = fetch(serve(other));
    assert!(error.contains("sha256 of what it serves is "), "{error}");
    assert!(error.contains(", expected 70ae9e06"), "{error}");
}

#[test]
fn mistakes_are_named() {
    Place::new().refuse_each(
        "data *",
        r#"
fetch cifar10 => did you mean "cifar-10"?
fetch letters => it is built in
fetch => <NAME>
fetch svhn --part extra => train, test
"#,
    );
}
