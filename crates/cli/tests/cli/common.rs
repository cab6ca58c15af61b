//! Running the built binary in a folder of its own.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

/// A temporary folder in which the binary is run.
pub struct Place {
    folder: TempDir,
}

/// What a run left behind.
pub struct Outcome {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Place {
    pub fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a file and returns the place.
    pub fn with(self, name: &str, contents: impl AsRef<[u8]>) -> Self {
        std::fs::write(self.path(name), contents).unwrap();
        self
    }

    pub fn run(&self, arguments: &[&str]) -> Outcome {
        let output = Command::new(env!("CARGO_BIN_EXE_maxitive"))
            .args(arguments)
            .current_dir(self.folder.path())
            // data and proxies of the machine are no concern of the tests
            .env_remove("MAXITIVE_DATA")
            .env("HOME", self.folder.path())
            .env_remove("XDG_CACHE_HOME")
            .envs([("NO_PROXY", "*"), ("no_proxy", "*")])
            .output()
            .unwrap();
        Outcome {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs a command that must succeed and prints JSON.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let mut arguments = arguments.to_vec();
        arguments.push("--json");
        let outcome = self.run(&arguments);
        assert_eq!(outcome.code, Some(0), "{arguments:?}: {}", outcome.stderr);
        assert_eq!(outcome.stderr, "");
        serde_json::from_str(&outcome.stdout).unwrap()
    }

    /// Names of the files in the folder, sorted.
    pub fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

/// The words of a command line, as a shell takes them apart: what stands between single quotes is
/// one word.
pub fn split(line: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for (number, part) in line.split('\'').enumerate() {
        match number % 2 {
            0 => words.extend(part.split_whitespace()),
            _ => words.push(part),
        }
    }
    words
}

/// A number of a report; `"inf"` and `"-inf"` are numbers, too.
pub fn number(value: &Value) -> f64 {
    match value {
        Value::String(text) => text.parse().unwrap(),
        other => other
            .as_f64()
            .unwrap_or_else(|| panic!("{other} is no number")),
    }
}

/// Relative to the larger of 1 and the expected size: results of a handful of operations.
const TOLERANCE: f64 = 1e-12;

#[track_caller]
pub fn assert_close(found: &Value, expected: f64) {
    let found = number(found);
    let close =
        found == expected || (found - expected).abs() <= TOLERANCE * expected.abs().max(1.0);
    assert!(close, "found {found}, expected {expected}");
}
