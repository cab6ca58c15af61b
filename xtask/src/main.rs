//! Tasks of the workspace. `cargo xtask check` is exactly what CI runs, cheapest first.
#![forbid(unsafe_code)]
#![allow(clippy::print_stderr)]

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

const USAGE: &str = "usage: cargo xtask check

check   format, lints, tests (doctests included), documentation with broken links denied,
        and `cargo deny` where it is installed";

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["check"] => check(),
        ["--help" | "-h"] => {
            eprintln!("{USAGE}");
            Ok(())
        }
        _ => bail!("{USAGE}"),
    }
}

fn check() -> Result<()> {
    step("format", "fmt --all --check", &[])?;
    step(
        "lints",
        "clippy --workspace --all-targets --locked -- -D warnings",
        &[],
    )?;
    step("tests", "test --workspace --locked --no-fail-fast", &[])?;
    step(
        "documentation",
        "doc --workspace --no-deps --locked",
        &[(
            "RUSTDOCFLAGS",
            "-D warnings -D rustdoc::broken_intra_doc_links",
        )],
    )?;
    if is_installed("cargo-deny") {
        step(
            "dependencies",
            "deny --all-features check bans licenses sources",
            &[],
        )?;
    } else {
        eprintln!("xtask: cargo-deny is not installed, dependency rules were not checked");
    }
    Ok(())
}

/// Runs `cargo` with the given words and reports how long it took.
fn step(name: &str, words: &str, environment: &[(&str, &str)]) -> Result<()> {
    eprintln!("xtask: {name}: cargo {words}");
    let start = Instant::now();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(words.split_whitespace())
        .envs(environment.iter().copied())
        .status()
        .with_context(|| format!("cannot start cargo for the step '{name}'"))?;
    if !status.success() {
        bail!("step '{name}' failed: cargo {words}");
    }
    eprintln!(
        "xtask: {name}: ok after {:.1} s",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

fn is_installed(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
