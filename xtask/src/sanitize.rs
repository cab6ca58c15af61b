//! Memory safety of the crates with `unsafe`, watched while their tests run.
//!
//! AddressSanitizer sees reads and writes outside of what is allocated, ThreadSanitizer two threads
//! at one place without order between them; Miri interprets, and sees more in less code. These are
//! parts of a nightly toolchain. Threads of the CUDA kernels are watched on the host.

use anyhow::{Result, bail};

use crate::{SHORT, WITHOUT_LARGE, answers, host, nightly, run as run_step, skip};

/// The target that the sanitizers and libFuzzer are there for.
pub const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs these tools, or all.
pub fn run(tools: &[&str]) -> Result<()> {
    let all = ["address", "thread", "miri", "races"];
    for &tool in if tools.is_empty() { &all[..] } else { tools } {
        match tool {
            "address" | "thread" => sanitizer(tool)?,
            "miri" => miri()?,
            "races" => host::races()?,
            other => bail!("no such tool: {other}; there are {}", all.join(", ")),
        }
    }
    Ok(())
}

fn sanitizer(tool: &str) -> Result<()> {
    let name = match tool {
        "address" => "AddressSanitizer",
        _ => "ThreadSanitizer",
    };
    if !answers("rustc", &["+nightly", "--version"]) {
        skip(name, "there is no nightly toolchain");
        return Ok(());
    }
    let mut words = format!(
        "test -p maxitive-machine -p cbopt -p maxitive-engine --lib --tests --locked \
         --target {TARGET} --target-dir target/sanitize-{tool}"
    );
    if tool == "thread" {
        // the order that the standard library's locks make has to be seen
        words += " -Zbuild-std";
    }
    let mut command = nightly(&words);
    command.arg("--").args(WITHOUT_LARGE);
    command
        .env("RUSTFLAGS", format!("-Zsanitizer={tool}"))
        .env(SHORT, "1");
    run_step(name, &mut command)
}

/// The worker pool and the portable kernels have no undefined behavior that Miri sees.
pub fn miri() -> Result<()> {
    if !answers("cargo", &["+nightly", "miri", "--version"]) {
        skip("Miri", "there is no nightly toolchain with Miri");
        return Ok(());
    }
    let words = "miri test -p maxitive-machine --lib --locked --target-dir target/miri";
    run_step("Miri", &mut nightly(words))
}
