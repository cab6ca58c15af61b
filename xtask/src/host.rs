//! The CUDA kernels without a GPU: compiled for the host and run there by emulation.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::{answers, compiled, root, run, skip};

/// What the host's compiler is told of the CUDA kernels, but for how much to optimize. The proofs
/// run once: at -O1 they compile in half the time and run up to a sixth longer.
const FORM: &str = "-std=c++17 -mfma -ffp-contract=off -U_FORTIFY_SOURCE -w";

/// What it is told, too, where every access is to call the search for races.
const WATCHED: &str = "-O1 -g -DRACES -fsanitize=thread -c";

/// Whether the CUDA kernels can be compiled for this machine and run here; otherwise says why not.
fn has_form(step: &str) -> bool {
    let reason = if !answers("g++", &["--version"]) {
        "there is no g++ to run them on the host"
    } else if !cfg!(target_arch = "x86_64") {
        "their form on the host is written for x86-64"
    } else {
        return true;
    };
    skip(step, reason);
    false
}

/// g++ with these words, in the folder of the CUDA kernels.
fn compiler(words: &str) -> Command {
    let mut command = Command::new("g++");
    command
        .args(FORM.split(' '))
        .args(words.split(' '))
        .current_dir(root().join("crates/engine/kernels"));
    command
}

/// What is compiled here, by its name.
fn made(name: &str) -> PathBuf {
    root().join("target").join(format!("kernels-{name}"))
}

/// The kernels against their obvious form, and the search for races against what it must find.
pub fn proofs() -> Result<()> {
    if !has_form("kernels") {
        return Ok(());
    }
    for source in ["proof_resnet", "proof_dense"] {
        let mut compile = compiler(&format!("-O1 {source}.cpp -o"));
        run("kernels on the host", compile.arg(made(source)))?;
        prove("proof of the kernels", source)?;
    }
    watched("proof_races")
}

/// All proofs once more, with the search for races.
pub fn races() -> Result<()> {
    if !has_form("races of the kernels") {
        return Ok(());
    }
    ["proof_races", "proof_resnet", "proof_dense"]
        .into_iter()
        .try_for_each(watched)
}

/// Compiles a proof with the search for races and runs it.
fn watched(source: &str) -> Result<()> {
    let step = "search for races";
    let parts = [(source, WATCHED), ("races", "-O2 -c")];
    let mut link = Command::new("g++");
    for (file, words) in parts {
        let object = made(file).with_extension("o");
        run(
            step,
            compiler(&format!("{words} {file}.cpp -o")).arg(&object),
        )?;
        link.arg(object);
    }
    run(step, link.args(["-ldl", "-o"]).arg(made(source)))?;
    prove("races of the kernels", source)
}

/// Runs a proof; what it says of itself is not shown.
fn prove(step: &str, source: &str) -> Result<()> {
    let mut proof = Command::new(made(source));
    proof.arg(root().join("golden/nets")).stdout(Stdio::null());
    run(step, &mut proof)
}

/// The tests of the CUDA device on a GPU that is made of the emulation.
pub fn emulated_gpu() -> Result<()> {
    if !has_form("emulated GPU") {
        return Ok(());
    }
    let folder = root().join("target/emulated-gpu");
    std::fs::create_dir_all(&folder)?;
    let folder = folder.canonicalize()?;
    let mut compile = compiler("-O2 -shared -fPIC driver.cpp -o");
    run("emulated GPU", compile.arg(folder.join("libcuda.so.1")))?;
    std::fs::copy(folder.join("libcuda.so.1"), folder.join("libnvrtc.so.13"))?;
    // With the features of the whole workspace, for which it is built already. A real NVRTC opens
    // the driver that it finds, and this one is not enough for it.
    let mut tests = compiled("test --workspace --test gpu --locked")?;
    tests
        .env("LD_LIBRARY_PATH", &folder)
        .env("MAXITIVE_NVRTC", &folder)
        .env("XDG_CACHE_HOME", &folder)
        .env("MAXITIVE_GPU", "1");
    run("tests on the emulated GPU", &mut tests)
}
