//! The Python package: its wheel, and the wheel's tests.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::{root, run, skip};

/// Builds the wheel, installs it into an environment, under `target` or where `MAXITIVE_PYTHON`
/// says, and runs its tests, notebooks, the examples of its documentation and the checks of its
/// types; without PyTorch those that do not need it.
pub fn test(torch: bool) -> Result<()> {
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
    // the profile of the tests: its dependencies are compiled already after `cargo test`
    build
        .args("-m maturin build --quiet --locked --profile dev --out".split(' '))
        .arg(&wheels)
        .current_dir(&folder);
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
