//! The Python package: its wheel, and the wheel's tests.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::{compiler, copied, root, run, skip};

/// Where maturin must find the cargo that [`as_cargo`] stands for.
pub const REAL_CARGO: &str = "MAXITIVE_REAL_CARGO";

/// What is tested, and how the wheel is built.
#[derive(Clone, Copy)]
pub struct Options {
    /// Whether PyTorch is there, a download of gigabytes.
    pub torch: bool,
    /// Whether the tests of the workspace have been compiled: their dependencies are taken.
    pub after_check: bool,
}

impl Options {
    /// Reads the words after `python`.
    pub fn parse(words: &[&str]) -> Option<Self> {
        let known = ["--without-torch", "--after-check"];
        let all_known = words.iter().all(|word| known.contains(word));
        all_known.then(|| Self {
            torch: !words.contains(&known[0]),
            after_check: words.contains(&known[1]),
        })
    }
}

/// Stands for cargo before maturin, which builds one package with features of its own, and so would
/// compile faer, serde and others once more: builds the library as a part of the whole workspace.
/// An example among what is built, whichever, brings in the features that the tests have.
pub fn as_cargo(cargo: OsString, words: impl Iterator<Item = OsString>) -> Result<ExitCode> {
    let words: Vec<OsString> = words.collect();
    let mut command = Command::new(&cargo);
    if words.first().is_some_and(|word| word == "rustc") {
        command.args("build --workspace --lib --example own_loop".split(' '));
        let mut rest = words[1..].iter().take_while(|word| *word != "--");
        while let Some(word) = rest.next() {
            match &*word.to_string_lossy() {
                "--manifest-path" => drop(rest.next()),
                "--lib" => {}
                _ => drop(command.arg(word)),
            }
        }
        command.current_dir(root());
    } else {
        command.args(&words);
    }
    // which Python there is makes no difference to the library
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PYO3_") {
            command.env_remove(name);
        }
    }
    compiler::settings(&mut command)?;
    command.env("CARGO", &cargo).env_remove(REAL_CARGO);
    let status = command.status().context("cannot start cargo")?;
    Ok(match status.success() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// The wheel as a step of `check`, without PyTorch, in the environment `MAXITIVE_PYTHON`.
pub fn after_check() -> Result<()> {
    if std::env::var_os("MAXITIVE_PYTHON").is_none() {
        let reason = "MAXITIVE_PYTHON does not name the environment for its tests";
        skip("the Python package", reason);
        return Ok(());
    }
    test(Options {
        torch: false,
        after_check: true,
    })
}

/// Builds the wheel, installs it into an environment, under `target` or where `MAXITIVE_PYTHON`
/// says, and runs its tests, notebooks, the examples of its documentation and the checks of its
/// types; without PyTorch those that do not need it.
pub fn test(options: Options) -> Result<()> {
    let torch = options.torch;
    let target = root().join("target");
    std::fs::create_dir_all(&target)?;
    let environment = match std::env::var_os("MAXITIVE_PYTHON") {
        Some(folder) => folder.into(),
        None => target.canonicalize()?.join("python"),
    };
    let python = environment.join("bin/python");
    if !python.exists() {
        let mut make = Command::new("python3");
        make.args(["-m", "venv"]).arg(&environment);
        run("Python environment", &mut make)?;
    }
    let folder = root().join("python");
    let mut install = pip(&python);
    install.arg("-r").arg(folder.join("tests/requirements.txt"));
    if torch {
        install.args(["torch>=2.4", "lightning>=2.2"]);
    }
    run("Python packages", &mut install)?;
    let wheels = environment.join("wheels");
    if wheels.exists() {
        std::fs::remove_dir_all(&wheels)?;
    }
    let mut build = Command::new(&python);
    // the profile of the tests
    build
        .args("-m maturin build --quiet --locked --profile dev --out".split(' '))
        .arg(&wheels)
        .current_dir(&folder);
    if options.after_check {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        build
            .env(REAL_CARGO, cargo)
            .env("CARGO", copied().canonicalize()?);
    }
    run("wheel", &mut build)?;
    let wheel = std::fs::read_dir(&wheels)?
        .next()
        .context("maturin made no wheel")??
        .path();
    let mut install = pip(&python);
    install.args(["--force-reinstall", "--no-deps"]).arg(&wheel);
    run("wheel installed", &mut install)?;
    pytest(&python, "tests of the wheel", &["."], &folder)?;
    let mut modules = vec![
        "--doctest-modules",
        "--pyargs",
        "maxitive",
        "--ignore-glob=/*/maxitive/_triton.py",
    ];
    let mut types = Command::new(&python);
    types.args(["-m", "mypy"]).current_dir(&folder);
    if !torch {
        skip(
            "PyTorch",
            "asked for; its tests, and the examples and types of its modules, need it",
        );
        modules.extend([
            "--ignore-glob=/*/maxitive/torch.py",
            "--ignore-glob=/*/maxitive/lightning.py",
        ]);
        // what the package imports by itself
        types.args(["-m", "maxitive", "-m", "maxitive.optax"]);
    }
    pytest(&python, "examples of the wheel", &modules, &folder)?;
    run("types of the wheel", &mut types)
}

fn pip(python: &Path) -> Command {
    let mut command = Command::new(python);
    command.args("-m pip install --quiet --disable-pip-version-check".split(' '));
    command
}

fn pytest(python: &Path, name: &str, words: &[&str], folder: &Path) -> Result<()> {
    let mut command = Command::new(python);
    command
        .args([
            "-m",
            "pytest",
            "--import-mode=importlib",
            "-p",
            "no:cacheprovider",
        ])
        .args(words)
        .env("PYTHONPATH", folder.join("tests"))
        .current_dir(folder.join("tests"));
    run(name, &mut command)
}
