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
    command: Vec<String>,
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

    pub fn run<C: CommandLine + ?Sized>(&self, command: &C) -> Outcome {
        let words = command.words();
        let output = Command::new(env!("CARGO_BIN_EXE_maxitive"))
            .args(&words)
            .current_dir(self.folder.path())
            // data and proxies of the machine are no concern of the tests
            .env_remove("MAXITIVE_DATA")
            .env("HOME", self.folder.path())
            .env_remove("XDG_CACHE_HOME")
            .envs([("NO_PROXY", "*"), ("no_proxy", "*")])
            .output()
            .unwrap();
        Outcome {
            command: words.into_iter().map(str::to_owned).collect(),
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub fn succeed<C: CommandLine + ?Sized>(&self, command: &C) -> Outcome {
        self.run(command).ended(0)
    }

    /// Runs a command in which something that was given must be refused.
    #[track_caller]
    pub fn refuse<C: CommandLine + ?Sized>(&self, command: &C) -> Outcome {
        self.run(command).ended(2)
    }

    /// Runs the command of each line, `COMMAND => WORDS & WORDS`, in the place of the star. It must
    /// be refused with these words, print nothing and write nothing. `\n` is the end of a line.
    #[track_caller]
    pub fn refuse_each(&self, around: &str, lines: &str) {
        let before = self.files();
        for line in lines.trim().lines() {
            let (command, words) = line.split_once(" => ").expect(line);
            let outcome = self.refuse(&around.replace('*', command));
            assert_eq!(outcome.stdout, "", "{line}");
            assert!(outcome.stderr.starts_with("error: "), "{line}");
            for words in words.split(" & ") {
                outcome.stderr_has(&words.replace("\\n", "\n"));
            }
            assert_eq!(self.files(), before, "{line}");
        }
    }

    /// Runs a command that must succeed and prints JSON.
    #[track_caller]
    pub fn json<C: CommandLine + ?Sized>(&self, command: &C) -> Value {
        let outcome = self.succeed(&[command.words(), vec!["--json"]].concat());
        assert_eq!(outcome.stderr, "");
        serde_json::from_str(&outcome.stdout).unwrap()
    }

    /// The text of a file.
    #[track_caller]
    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// The value of a JSON file.
    #[track_caller]
    pub fn value(&self, name: &str) -> Value {
        serde_json::from_str(&self.text(name)).unwrap()
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

impl Outcome {
    /// What the program left that ended with this code.
    #[track_caller]
    pub fn ended(self, code: i32) -> Self {
        let command = &self.command;
        assert_eq!(self.code, Some(code), "{command:?}: {}", self.stderr);
        self
    }

    #[track_caller]
    pub fn stdout_has(&self, words: &str) {
        assert!(self.stdout.contains(words), "{words:?} in {}", self.stdout);
    }

    #[track_caller]
    pub fn stderr_has(&self, words: &str) {
        let command = &self.command;
        let stderr = &self.stderr;
        assert!(stderr.contains(words), "{command:?}: {words:?} in {stderr}");
    }
}

/// The arguments of the program: a list of words, or a line as one types it.
pub trait CommandLine {
    fn words(&self) -> Vec<&str>;
}

impl CommandLine for str {
    fn words(&self) -> Vec<&str> {
        split(self)
    }
}

impl CommandLine for String {
    fn words(&self) -> Vec<&str> {
        split(self)
    }
}

impl CommandLine for [&str] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
    }
}

impl CommandLine for Vec<&str> {
    fn words(&self) -> Vec<&str> {
        self.clone()
    }
}

impl<const N: usize> CommandLine for [&str; N] {
    fn words(&self) -> Vec<&str> {
        self.to_vec()
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

/// How far numbers of two reports may be apart, and what may differ altogether.
pub type Difference = (f64, &'static [&'static str]);

/// Sums in another order.
pub const ROUNDED: Difference = (1e-12, &[]);

/// Two reports with the same numbers, relative to the larger of 1 and the expected size.
#[track_caller]
pub fn same(found: &Value, expected: &Value, allowed: Difference, what: &str) {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            assert_eq!(found.len(), expected.len(), "{what}");
            for (key, value) in found
                .iter()
                .filter(|(key, _)| !allowed.1.contains(&&key[..]))
            {
                same(value, &expected[key], allowed, &format!("{what} {key}"));
            }
        }
        (Value::Array(found), Value::Array(expected)) => {
            assert_eq!(found.len(), expected.len(), "{what}");
            for (found, expected) in found.iter().zip(expected) {
                same(found, expected, allowed, what);
            }
        }
        (Value::Number(_), Value::Number(_)) => {
            let (found, expected) = (number(found), number(expected));
            let close = (found - expected).abs() <= allowed.0 * expected.abs().max(1.0);
            assert!(close, "{what}: {found} {expected}");
        }
        _ => assert_eq!(found, expected, "{what}"),
    }
}
