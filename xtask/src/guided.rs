//! Damage that is guided by coverage: every reader of `fuzz` under libFuzzer, for a while each.
//!
//! libFuzzer keeps an input that takes a branch no other took, and damages it further. It is built
//! into a package of its own, `fuzz/guided`, with a count of every branch in all code, that of the
//! decoders included.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::sanitize::TARGET;
use crate::{answers, cargo_command, nightly, root, run as run_step, skip};

/// What makes the compiler count branches and compared numbers.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module \
     -Cllvm-args=-sanitizer-coverage-level=4 \
     -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
     -Cllvm-args=-sanitizer-coverage-pc-table \
     -Cllvm-args=-sanitizer-coverage-trace-compares";

/// Runs these readers for so many seconds each, or all.
pub fn run(words: &[&str]) -> Result<()> {
    let (seconds, names) = match words {
        ["--seconds", seconds, names @ ..] => {
            let seconds = seconds.parse::<u32>();
            (seconds.context("--seconds takes a whole number")?, names)
        }
        names => (60, names),
    };
    if !answers("rustc", &["+nightly", "--version"]) {
        skip("fuzz", "there is no nightly toolchain");
        return Ok(());
    }
    let folder = root().join("fuzz/guided");
    let target = root().join("target/guided");
    // the decoders of the program, not their newest versions
    std::fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock"))
        .context("Cargo.lock cannot be copied to fuzz/guided")?;
    // a target, so that the scripts of builds and macros go without libFuzzer
    let mut build = nightly(&format!("build --release --target {TARGET}"));
    build
        .current_dir(&folder)
        .env("CARGO_TARGET_DIR", &target)
        .env("RUSTFLAGS", FLAGS);
    run_step("build", &mut build)?;
    // with the valid files of all readers, also those that are made and not kept
    let corpus = target.join("valid");
    let words = "run --quiet --release -p maxitive-fuzz -- --corpus";
    run_step("valid files", cargo_command(words).arg(&corpus))?;
    let program = target.join(format!("{TARGET}/release/maxitive-fuzz-guided"));
    let mut all = Vec::new();
    for folder in std::fs::read_dir(&corpus)? {
        all.push(folder?.file_name().to_string_lossy().into_owned());
    }
    all.sort();
    eprintln!("| reader | executions | edges of the valid files | edges | slowest s | peak MB |");
    for name in &all {
        if names.is_empty() || names.contains(&name.as_str()) {
            one(&program, &target, name, seconds)?;
        }
    }
    Ok(())
}

/// One reader, from its valid files on; what libFuzzer finds stays below `target`.
fn one(program: &Path, target: &Path, name: &str, seconds: u32) -> Result<()> {
    let found = target.join("corpus").join(name);
    std::fs::create_dir_all(&found)?;
    let artifacts = format!("{}/{name}-", target.display());
    let mut command = Command::new(program);
    command
        .env("TARGET", name)
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-artifact_prefix={artifacts}"))
        .args([
            "-print_final_stats=1",
            "-max_len=65536",
            "-timeout=10",
            "-rss_limit_mb=4096",
        ])
        .arg(&found)
        .arg(target.join("valid").join(name))
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let last: Vec<&str> = text.lines().rev().take(30).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        bail!("{name}: {}", last.join("\n"));
    }
    eprintln!("{}", summary(name, &text));
    Ok(())
}

/// A row of a table: executions, branches, corpus, slowest input, peak memory.
fn summary(name: &str, text: &str) -> String {
    let stat = |key: &str| {
        let line = text.lines().find(|line| line.starts_with(key));
        line.and_then(|line| line.split_whitespace().last())
            .unwrap_or("?")
            .to_owned()
    };
    let word = |line: Option<&str>, key: &str| {
        let mut words = line.unwrap_or_default().split_whitespace();
        words
            .find(|word| *word == key)
            .and_then(|_| words.next())
            .unwrap_or("?")
            .to_owned()
    };
    let has = |word: &'static str| move |line: &&str| line.contains(word) && line.contains("cov: ");
    let first = word(text.lines().find(has("INITED")), "cov:");
    let last = word(text.lines().rev().find(has("corp: ")), "cov:");
    format!(
        "| {name} | {} | {first} | {last} | {} | {} |",
        stat("stat::number_of_executed_units"),
        stat("stat::slowest_unit_time_sec"),
        stat("stat::peak_rss_mb"),
    )
}
