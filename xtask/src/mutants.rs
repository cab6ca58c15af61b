//! Mistakes planted in a copy of the sources, one at a time; the tests named for each must fail.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    mutants: Vec<Mutant>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutant {
    name: String,
    file: String,
    find: String,
    replace: String,
    test: String,
}

/// Plants those whose name has all these words.
pub fn run(root: &Path, words: &[&str]) -> Result<()> {
    let text = fs::read_to_string(root.join("xtask/mutants.toml"))?;
    let list: List = toml::from_str(&text).context("xtask/mutants.toml")?;
    let chosen = |mutant: &&Mutant| words.iter().all(|word| mutant.name.contains(word));
    let mut chosen: Vec<&Mutant> = list.mutants.iter().filter(chosen).collect();
    // a mistake in one package is built again in all that rest on it, so each has its turn
    chosen.sort_by_key(|mutant| (&mutant.test, &mutant.file));
    ensure!(!chosen.is_empty(), "no mutant has {words:?} in its name");
    let copy = root.join("target/mutants");
    copy_sources(root, &copy)?;
    for mutant in &chosen {
        let whole = fs::read_to_string(copy.join(&mutant.file));
        let whole = whole.with_context(|| mutant.file.clone())?;
        let count = whole.matches(&mutant.find).count();
        ensure!(
            count == 1,
            "{}: {:?} is there {count} times",
            mutant.file,
            mutant.find
        );
    }
    // tests that fail without the mistake, or that do not exist, prove nothing
    let tests: BTreeSet<&str> = chosen.iter().map(|mutant| mutant.test.as_str()).collect();
    for name in tests {
        let sound = test(&copy, name)?;
        eprintln!(
            "xtask: mutants: without a mistake: {name}: {}",
            sound.words()
        );
        ensure!(sound == Outcome::Passed, "nothing can be said of {name}");
    }
    let mut survived = Vec::new();
    for mutant in &chosen {
        let path = copy.join(&mutant.file);
        let whole = fs::read_to_string(&path).with_context(|| mutant.file.clone())?;
        fs::write(&path, whole.replacen(&mutant.find, &mutant.replace, 1))?;
        let outcome = test(&copy, &mutant.test);
        fs::write(&path, whole)?;
        let outcome = outcome?;
        eprintln!(
            "xtask: mutants: {}: its tests: {}",
            mutant.name,
            outcome.words()
        );
        match outcome {
            Outcome::Failed => {}
            Outcome::Passed => survived.push(mutant.name.as_str()),
            Outcome::NotBuilt | Outcome::NothingRan => {
                bail!("{}: no mistake of this kind", mutant.name)
            }
        }
    }
    ensure!(survived.is_empty(), "not noticed: {}", survived.join("; "));
    eprintln!(
        "xtask: mutants: {} of {} noticed",
        chosen.len(),
        chosen.len()
    );
    Ok(())
}

/// The files that git knows, as they are now. What is the same already keeps its time, so that
/// little is built again.
fn copy_sources(root: &Path, copy: &Path) -> Result<()> {
    let mut git = Command::new("git");
    let listed = git
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()?;
    ensure!(listed.status.success(), "git ls-files failed");
    for name in String::from_utf8(listed.stdout)?.split_terminator('\0') {
        let (from, to) = (root.join(name), copy.join(name));
        let bytes = match fs::read(&from) {
            Ok(bytes) => bytes,
            // removed, and not committed yet
            Err(_) => continue,
        };
        if fs::read(&to).is_ok_and(|there| there == bytes) {
            continue;
        }
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&to, bytes)?;
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Outcome {
    Passed,
    Failed,
    NotBuilt,
    NothingRan,
}

impl Outcome {
    fn words(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::NotBuilt => "do not compile",
            Self::NothingRan => "are not there",
        }
    }
}

fn test(copy: &Path, test: &str) -> Result<Outcome> {
    let cargo = |more: &[&str]| {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["test", "--locked"])
            .args(test.split_whitespace())
            .args(more);
        // of a package with a mistake little is new
        cargo
            .current_dir(copy)
            .env("CARGO_TARGET_DIR", copy.join("target"))
            .env("CARGO_INCREMENTAL", "1")
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        cargo.stderr(Stdio::null()).output()
    };
    if !cargo(&["--no-run"])?.status.success() {
        return Ok(Outcome::NotBuilt);
    }
    let run = cargo(&[])?;
    let said = String::from_utf8_lossy(&run.stdout);
    Ok(match run.status.success() {
        _ if said.contains("running 0 tests") => Outcome::NothingRan,
        true => Outcome::Passed,
        false => Outcome::Failed,
    })
}
