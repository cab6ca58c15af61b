//! The program as it is given away: the same commit gives the same bits, wherever its clone lies.
//!
//! What would differ is told to the compilers as another name: the clone, cargo's folder with the
//! sources of dependencies, and the sources of the standard library where they are installed. The
//! same toolchain is needed, and the same C compiler for `ring` and `zstd`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{cargo_command, kernels_command, root, run, skip};

/// Builds the program and puts it into a folder, with its SHA-256 and the compiled CUDA kernels
/// beside it.
pub fn build(folder: &Path) -> Result<()> {
    let root = root().canonicalize()?;
    let target = root.join("target/reproducible");
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    let changes = said(
        Command::new("git")
            .args(["status", "--porcelain"])
            .current_dir(&root),
    );
    match changes.as_deref() {
        Ok("") => (),
        Ok(_) => eprintln!("xtask: release: there are changes that no commit has"),
        Err(_) => eprintln!("xtask: release: no clone, so the program will not name its commit"),
    }
    let names = names(&root)?;
    // a path may have spaces: cargo's own separator
    let rust: Vec<String> = names
        .iter()
        .map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display()))
        .collect();
    let c: Vec<String> = names
        .iter()
        .map(|(from, to)| format!("-ffile-prefix-map={}={to}", from.display()))
        .collect();
    let mut command = cargo_command("build --release --locked -p maxitive --bin maxitive");
    command
        .arg("--target-dir")
        .arg(&target)
        .env_remove("RUSTFLAGS")
        .env("CARGO_ENCODED_RUSTFLAGS", rust.join("\u{1f}"))
        .env("CFLAGS", c.join(" "))
        .env("CARGO_INCREMENTAL", "0")
        .env("SOURCE_DATE_EPOCH", "0");
    run("release", &mut command)?;
    let program = folder.join("maxitive");
    fs::copy(target.join("release/maxitive"), &program)
        .with_context(|| program.display().to_string())?;
    let sum = said(
        Command::new("sha256sum")
            .arg("maxitive")
            .current_dir(folder),
    )?;
    fs::write(folder.join("maxitive.sha256"), format!("{sum}\n"))?;
    let bytes = fs::metadata(&program)?.len();
    eprintln!("xtask: release: {bytes} bytes, {sum}");
    // the program looks for them beside itself
    if std::env::var_os("MAXITIVE_NVRTC").is_none() {
        let reason = "MAXITIVE_NVRTC does not name the folder of NVRTC; users of GPUs need it";
        skip("kernels for GPUs", reason);
        return Ok(());
    }
    let kernels = folder.join("kernels");
    run("kernels for GPUs", kernels_command().arg(&kernels))
}

/// Folders that differ between machines, and what they are called instead; a later one counts more.
fn names(root: &Path) -> Result<Vec<(PathBuf, String)>> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(std::env::home_dir()?.join(".cargo")))
        .context("there is no home folder")?;
    let sysroot = said(
        Command::new("rustc")
            .args(["--print", "sysroot"])
            .current_dir(root),
    )?;
    let version = said(Command::new("rustc").arg("-vV").current_dir(root))?;
    let commit = version
        .lines()
        .find_map(|line| line.strip_prefix("commit-hash: "))
        .context("rustc -vV names no commit")?;
    Ok(vec![
        (home, "/cargo".to_owned()),
        (
            Path::new(&sysroot).join("lib/rustlib/src/rust"),
            format!("/rustc/{commit}"),
        ),
        (root.to_owned(), "/maxitive".to_owned()),
    ])
}

/// What a program that succeeds says.
fn said(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| name.clone())?;
    if !output.status.success() {
        anyhow::bail!("{name}: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
