//! Tasks of the workspace. `cargo xtask check` is the full proof that CI runs, cheapest first;
//! `cargo xtask quick` is what one runs before a commit.
#![allow(clippy::print_stderr)]

mod beside;
mod compiler;
mod guided;
mod host;
mod mutants;
mod python;
mod release;
mod sanitize;
mod sbom;
mod width;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use beside::Row;

const USAGE: &str = "usage: cargo xtask check|compile|quick|widths|slurm|
       python [--without-torch] [--after-check]|
       kernels FOLDER [ARCHITECTURE...]|mutants [WORD...]|
       sanitize [address|thread|miri|races...]|fuzz [--seconds S] [READER...]|arm [WORD...]|
       sbom FILE|release FOLDER

check   the full proof: format, widths, spelling, dependency rules, lints, tests (doctests
        included), a sweep on a real Slurm, CUDA kernels on the host and compiled by NVRTC, examples,
        documentation with broken links denied, packages, the promised Rust version, aarch64, Miri,
        the Python package in the environment $MAXITIVE_PYTHON; slow steps run beside the tests;
        a step whose tool is missing is skipped, and said so
compile the longest step of check by itself, which needs no tool: check finds it done
quick   before a commit: format, widths, lints and tests of the default members, without Burn
widths  comments and Markdown wider than 100 columns
slurm   a sweep as an array job of a real Slurm on this machine, with the program that the tests
        have built; needs root and Debian's packages slurm-wlm and munge
python  the Python package, built as a wheel and tested in an environment of its own with PyTorch, JAX
        and optax; --without-torch leaves out PyTorch, a download of gigabytes, and its tests;
        --after-check takes the dependencies that check has compiled, instead of its own
kernels the CUDA kernels compiled with NVRTC, for sm_80, sm_90 and sm_100 unless others are named;
        NVRTC is looked for in $MAXITIVE_NVRTC and where the system looks
mutants mistakes planted one at a time in a copy of the sources (xtask/mutants.toml), all or those
        with these words in their names; the tests named for each must fail
sanitize machine, cbopt and engine under AddressSanitizer and ThreadSanitizer, the worker pool under
        Miri, and races between the threads of the CUDA kernels, searched for on the host, or those
        that are named; without the DenseNets of full size, the kernels' apart; needs a nightly
        toolchain with rust-src, and says so
fuzz    every reader of files under libFuzzer, or those that are named, for a minute or so many
        seconds each; needs a nightly toolchain and a C++ compiler
arm     the tests of machine, random, cbopt and engine, or those with these words in their names,
        compiled for aarch64 and run by qemu-aarch64; without the DenseNets of full size; needs
        aarch64-linux-gnu-gcc, too
sbom    what the program is built of, as a CycloneDX document in JSON
release the program in a folder, with its SHA-256: the same bits for the same commit and toolchain,
        wherever the clone lies; and where NVRTC is, the compiled CUDA kernels beside it, so that a
        machine with a GPU needs the driver alone";

/// What the tests are told under sanitizers and emulators, where the DenseNets of full size take
/// hours, and most of them in the twin, which has no `unsafe`. Small ones run there
/// (`a_small_densenet_agrees`). A ResNet on every instruction set, in Winograd's form and without,
/// takes ten minutes; on one it runs there (`threads_do_not_change_a_bit`), and Winograd's form of
/// single convolutions on all (`winograd_of_any_size`).
const WITHOUT_LARGE: [&str; 8] = [
    "--skip",
    "golden_densenet",
    "--skip",
    "golden_engine_densenet",
    "--skip",
    "golden_engine_resnet20",
    "--skip",
    "winograd_agrees_with_the_direct_form",
];

/// Tells the same tests that they are to be short (`golden::short`).
const SHORT: &str = "MAXITIVE_SHORT";

/// Examples that are compiled but not run: unoptimized, Burn takes too long.
const SLOW_EXAMPLES: [&str; 1] = ["swap"];

/// What clippy is told.
const LINTS: &str = "-D warnings";

/// The target whose instruction set has code of its own in the kernels.
const ARM: &str = "aarch64-unknown-linux-gnu";

fn main() -> Result<ExitCode> {
    if let Some(cargo) = std::env::var_os(python::REAL_CARGO) {
        return python::as_cargo(cargo, std::env::args_os().skip(1));
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    if compiler::is_called(&words) {
        return compiler::compile(&words);
    }
    task(&words).map(|()| ExitCode::SUCCESS)
}

fn task(words: &[String]) -> Result<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["check"] => check(),
        ["compile"] => compile(),
        ["row", name] => row(name),
        ["slurm"] => slurm(),
        ["quick"] => quick(),
        ["widths"] => widths(),
        ["python", ref words @ ..] => match python::Options::parse(words) {
            Some(options) => python::test(options),
            None => bail!("{USAGE}"),
        },
        ["kernels", ref words @ ..] => compile_kernels(words),
        ["mutants", ref words @ ..] => mutants::run(&root(), words),
        ["sanitize", ref tools @ ..] => sanitize::run(tools),
        ["fuzz", ref words @ ..] => guided::run(words),
        ["arm", ref words @ ..] => arm_tests(words),
        ["sbom", file] => sbom::write(&root(), Path::new(file)),
        ["release", folder] => release::build(Path::new(folder)),
        ["--help" | "-h"] => {
            eprintln!("{USAGE}");
            Ok(())
        }
        _ => bail!("{USAGE}"),
    }
}

fn quick() -> Result<()> {
    cargo("format", "fmt --all --check")?;
    widths()?;
    let lints = format!("clippy --all-targets --locked -- {LINTS}");
    cargo("lints", &lints)?;
    cargo("tests", "test --locked --no-fail-fast")
}

fn check() -> Result<()> {
    cargo("format", "fmt --all --check")?;
    widths()?;
    spelling()?;
    dependencies()?;
    copy()?;
    compile_workspace()?;
    let command = compiled("test --workspace --locked --no-fail-fast")?;
    let mut rows = Vec::new();
    let tests = timed("tests", || {
        beside::tests(command, || {
            for name in ROWS {
                rows.push(Row::start(name)?);
            }
            Ok(())
        })
    });
    // all are waited for: one failure does not hide another
    let rows: Vec<Result<()>> = rows.into_iter().map(Row::finish).collect();
    tests.context("step 'tests' failed")?;
    rows.into_iter().collect()
}

/// What takes `check` longest, and needs no tool: CI compiles while it installs them.
fn compile() -> Result<()> {
    copy()?;
    compile_workspace()
}

fn compile_workspace() -> Result<()> {
    run(
        "lints, documentation, and tests compiled",
        &mut compiled("build --workspace --lib --bins --tests --examples --locked")?,
    )
}

/// What runs beside the tests (see [`beside`]), each row from its first step to its last. Two rows,
/// about as long as each other: with more of them at a time everything took longer.
const ROWS: [&str; 2] = ["programs", "others"];

/// Runs one of them.
fn row(name: &str) -> Result<()> {
    match name {
        "programs" => {
            host::emulated_gpu()?;
            host::proofs()?;
            examples()
        }
        "others" => {
            sanitize::miri()?;
            cubins()?;
            slurm()?;
            python::after_check()?;
            promised_rust()?;
            arm()?;
            packages()
        }
        _ => bail!("no such row: {name}"),
    }
}

/// No comment and no line of Markdown is wider than rustfmt lets code be.
fn widths() -> Result<()> {
    timed("widths", || {
        let wide = width::check(&root())?;
        for line in &wide {
            eprintln!("{line}");
        }
        if !wide.is_empty() {
            bail!(
                "{} lines are wider than {} columns",
                wide.len(),
                width::LIMIT
            );
        }
        Ok(())
    })
}

fn spelling() -> Result<()> {
    if !answers("typos", &["--version"]) {
        skip("spelling", "typos is not installed");
        return Ok(());
    }
    run("spelling", Command::new("typos").current_dir(root()))
}

/// A sweep as an array job of a real Slurm, disturbed once: no run is lost, none is another.
fn slurm() -> Result<()> {
    if !answers("python3", &["--version"]) {
        skip("Slurm", "there is no python3 to start its daemons");
        return Ok(());
    }
    let program = built("maxitive")?;
    let mut test = Command::new("python3");
    test.arg(root().join("benches/slurm/cluster.py"))
        .arg("--quick")
        .arg(&program);
    timed("Slurm", || {
        let done = test.output().context("cannot start the step 'Slurm'")?;
        let said = String::from_utf8_lossy(&done.stdout);
        // its way to say that there is no Slurm on this machine
        if done.status.code() == Some(77) {
            skip("Slurm", said.lines().last().unwrap_or("no reason is given"));
            return Ok(());
        }
        eprint!("{said}");
        if !done.status.success() {
            bail!(
                "step 'Slurm' failed: {}",
                String::from_utf8_lossy(&done.stderr)
            );
        }
        Ok(())
    })
}

/// All CUDA kernels compile for all architectures that they serve. Folder `$MAXITIVE_CUBINS`, or
/// one in `target`, keeps what was made of a source, since the two large ones take NVRTC half a
/// minute each.
fn cubins() -> Result<()> {
    if std::env::var_os("MAXITIVE_NVRTC").is_none() {
        let reason = "MAXITIVE_NVRTC does not name the folder of the compiler NVRTC";
        skip("kernels for GPUs", reason);
        return Ok(());
    }
    let kept = std::env::var_os("MAXITIVE_CUBINS").map(PathBuf::from);
    let folder = kept.unwrap_or_else(|| root().join("target/cubins"));
    let program = built_examples()?.join("kernels");
    let mut command = Command::new(&program);
    command.arg(&folder).stdout(Stdio::null());
    run("kernels for GPUs", &mut command)
}

/// Compiles the CUDA kernels to the folder that is named, for the architectures that are.
fn compile_kernels(words: &[&str]) -> Result<()> {
    if words.is_empty() {
        bail!("{USAGE}");
    }
    run("kernels", kernels_command().args(words))
}

/// What compiles the CUDA kernels; it is to be given a folder, and architectures or none for all.
fn kernels_command() -> Command {
    cargo_command("run --quiet -p maxitive-engine --example kernels --")
}

/// Where `cargo test` has put the examples; `cargo run` would build their dependencies again, with
/// the features of one package alone.
fn built_examples() -> Result<PathBuf> {
    built("examples")
}

/// What `cargo test` has put under this name.
fn built(name: &str) -> Result<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), PathBuf::from)
        .canonicalize()
        .context("there is no target folder")?;
    Ok(target.join("debug").join(name))
}

/// Runs every program in `crates/*/examples` to its end.
fn examples() -> Result<()> {
    let programs = built_examples()?;
    let folder = std::env::temp_dir().join(format!("maxitive-examples-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let mut names = Vec::new();
    for package in std::fs::read_dir(root().join("crates"))? {
        let Ok(files) = std::fs::read_dir(package?.path().join("examples")) else {
            continue;
        };
        for file in files {
            names.extend(file?.path().file_stem().map(|stem| stem.to_os_string()));
        }
    }
    names.sort();
    for name in names {
        let name = name.to_string_lossy();
        if SLOW_EXAMPLES.contains(&&*name) {
            skip(&format!("example {name}"), "it takes long unoptimized");
            continue;
        }
        let mut command = Command::new(programs.join(&*name));
        command.current_dir(&folder).stdout(Stdio::null());
        run(&format!("example {name}"), &mut command)?;
    }
    std::fs::remove_dir_all(&folder).context("cannot remove what the examples wrote")
}

/// The crates compile with the Rust version that `rust-version` promises.
fn promised_rust() -> Result<()> {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml"))?;
    let promised = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = "))
        .context("Cargo.toml promises no rust-version")?
        .trim_matches('"');
    let found = Command::new("rustc").arg("--version").output()?.stdout;
    let found = String::from_utf8_lossy(&found).trim().to_owned();
    if found.starts_with(&format!("rustc {promised}.")) {
        eprintln!("xtask: Rust {promised}: all of the above ran with it ({found})");
        return Ok(());
    }
    let toolchain = format!("+{promised}");
    if !answers("cargo", &[&toolchain, "--version"]) {
        skip(
            &format!("Rust {promised}"),
            "this toolchain is not installed",
        );
        return Ok(());
    }
    let mut command = Command::new("rustup");
    command
        .args(["run", promised, "cargo", "check", "--workspace"])
        .args(["--all-targets", "--locked", "--target-dir", "target/msrv"])
        .current_dir(root())
        .env_remove("RUSTUP_TOOLCHAIN");
    run(&format!("Rust {promised}"), &mut command)
}

/// The code for NEON compiles, all of it in `engine` and the crates under it.
fn arm() -> Result<()> {
    let installed = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", ARM])
        .output()
        .is_ok_and(|found| Path::new(String::from_utf8_lossy(&found.stdout).trim()).is_dir());
    if !installed {
        skip("aarch64", &format!("the target {ARM} is not installed"));
        return Ok(());
    }
    cargo(
        "aarch64",
        &format!("check -p maxitive-engine --locked --target {ARM}"),
    )
}

/// The tests of the crates with code for NEON, run by an emulator on one core.
///
/// On one core, because qemu does not keep a store with release order before a later load with
/// acquire order where the machine itself has stores that wait, as x86-64 does; the worker pool
/// rests on that order (see docs/reliability.md).
fn arm_tests(words: &[&str]) -> Result<()> {
    for (tool, argument) in [
        ("qemu-aarch64", "--version"),
        ("aarch64-linux-gnu-gcc", "--version"),
    ] {
        if !answers(tool, &[argument]) {
            bail!("{tool} is missing");
        }
    }
    let line = format!(
        "test -p maxitive-machine -p maxitive-random -p cbopt -p maxitive-engine --lib --tests \
         --locked --target {ARM} --target-dir target/arm --"
    );
    let mut command = cargo_command(&line);
    command
        .args(words)
        .args(WITHOUT_LARGE)
        .env(SHORT, "1")
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER",
            "aarch64-linux-gnu-gcc",
        )
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
            "taskset -c 0 qemu-aarch64 -L /usr/aarch64-linux-gnu",
        );
    run("aarch64 tests", &mut command)
}

/// Every published crate makes a package that holds all it needs.
fn packages() -> Result<()> {
    cargo(
        "packages",
        "package --workspace --exclude maxitive-benches --exclude maxitive-golden --exclude xtask \
         --no-verify --allow-dirty --quiet",
    )
}

fn dependencies() -> Result<()> {
    if !answers("cargo-deny", &["--version"]) {
        skip("dependencies", "cargo-deny is not installed");
        return Ok(());
    }
    cargo(
        "dependencies",
        "deny --all-features check bans licenses sources",
    )?;
    // the database of advisories comes from the network
    if answers("cargo", &["deny", "fetch", "db"]) {
        cargo("advisories", "deny --all-features check advisories")
    } else {
        skip("advisories", "their database cannot be reached");
        Ok(())
    }
}

/// The root of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A copy of this program, made by [`copy`]: the workspace's compilation replaces the program.
fn copied() -> PathBuf {
    root().join("target/check/xtask")
}

fn copy() -> Result<()> {
    let copy = copied();
    std::fs::create_dir_all(root().join("target/check"))?;
    // not written over, since an earlier one may still run
    let _ = std::fs::remove_file(&copy);
    std::fs::copy(std::env::current_exe()?, &copy).context("cannot copy this program")?;
    Ok(())
}

/// Runs `cargo` with the given words.
fn cargo(name: &str, words: &str) -> Result<()> {
    run(name, &mut cargo_command(words))
}

fn cargo_command(words: &str) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(words.split_whitespace()).current_dir(root());
    command
}

/// Cargo, to take what [`compiler`] has made of the workspace.
fn compiled(words: &str) -> Result<Command> {
    let mut command = cargo_command(words);
    compiler::settings(&mut command)?;
    Ok(command)
}

/// `cargo` of the nightly toolchain.
fn nightly(words: &str) -> Command {
    let mut command = Command::new("rustup");
    command
        .args(["run", "nightly", "cargo"])
        .args(words.split_whitespace())
        .current_dir(root())
        .env_remove("RUSTUP_TOOLCHAIN")
        .env_remove("CARGO");
    command
}

/// Runs a program that must succeed.
fn run(name: &str, command: &mut Command) -> Result<()> {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect();
    let words = words.join(" ");
    timed(name, || {
        eprintln!("xtask: {name}: {words}");
        let status = command
            .status()
            .with_context(|| format!("cannot start the step '{name}': {words}"))?;
        if !status.success() {
            bail!("step '{name}' failed: {words}");
        }
        Ok(())
    })
}

/// Reports how long a step took.
fn timed(name: &str, step: impl FnOnce() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    step()?;
    let seconds = start.elapsed().as_secs_f64();
    eprintln!("xtask: {name}: ok after {seconds:.1} s");
    Ok(())
}

fn skip(name: &str, reason: &str) {
    eprintln!("xtask: {name}: SKIPPED, {reason}");
}

/// Whether a program is there and succeeds.
fn answers(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .env_remove("RUSTUP_TOOLCHAIN")
        .current_dir(root())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}
