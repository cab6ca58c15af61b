//! One pass over the workspace: what is compiled for the tests is linted and documented with it.
//!
//! `cargo clippy` and `cargo doc` need every dependency checked, next to the one compiled for the
//! tests, and the workspace's crates a second time. Clippy's compiler generates code as well, and
//! all that rustdoc needs is there when a crate has been compiled: cargo calls this program in
//! place of the compiler, and it calls these two.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::{LINTS, copied};

/// What clippy's compiler expects behind each of its words.
const SEPARATOR: &str = "__CLIPPY_HACKERY__";

/// What rustdoc is told.
const DOCUMENTED: [&str; 4] = ["-D", "warnings", "-D", "rustdoc::broken_intra_doc_links"];

/// Tells cargo to compile with it. All steps that take what the tests are compiled to have the same
/// settings, else cargo compiles again: the wheel's, too, which needs no Python to be compiled.
pub fn settings(command: &mut Command) -> Result<()> {
    let program = copied()
        .canonicalize()
        .context("cargo xtask check has compiled nothing here")?;
    let words = LINTS.split(' ').map(|word| word.to_owned() + SEPARATOR);
    command
        .env("RUSTC_WORKSPACE_WRAPPER", program)
        .env("CLIPPY_ARGS", words.collect::<String>())
        .env("PYO3_BUILD_EXTENSION_MODULE", "1")
        .env("PYO3_NO_PYTHON", "1");
    Ok(())
}

/// Whether cargo calls this program as the compiler: the first word names the real one.
pub fn is_called(words: &[String]) -> bool {
    let first = words.first().map(Path::new);
    first.and_then(Path::file_stem) == Some(OsStr::new("rustc"))
}

/// Compiles and lints a crate, and documents it if `cargo doc` would.
pub fn compile(words: &[String]) -> Result<ExitCode> {
    let mut commands = vec![Command::new("clippy-driver")];
    commands[0].args(words);
    commands.extend(documentation(words).map(|words| {
        let mut command = Command::new("rustdoc");
        command.args(words);
        command
    }));
    for mut command in commands {
        let status = command
            .status()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        if !status.success() {
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The words for rustdoc, made of those for the compiler; none for tests, examples, scripts of a
/// build, and a program with the name of its library.
fn documentation(words: &[String]) -> Option<Vec<String>> {
    let after = |name: &str| {
        let at = words.iter().position(|word| word == name)?;
        words.get(at + 1).map(String::as_str)
    };
    let (name, folder) = (after("--crate-name")?, after("--out-dir")?);
    let program = after("--crate-type")? == "bin";
    let library = format!("{name}=");
    if words.iter().any(|word| word == "--test")
        || !folder.ends_with("/deps")
        || words.iter().any(|word| word.starts_with(&library))
    {
        return None;
    }
    let mut kept: Vec<String> = Vec::new();
    // the first word is the name of the compiler
    let mut rest = words[1..].iter();
    while let Some(word) = rest.next() {
        let other = [
            "--emit=",
            "--json=",
            "--error-format=",
            "--diagnostic-width=",
        ];
        match word.as_str() {
            "--out-dir" => drop(rest.next()),
            word if other.iter().any(|start| word.starts_with(start)) => {}
            word => kept.push(word.to_owned()),
        }
    }
    kept.extend(DOCUMENTED.map(str::to_owned));
    kept.extend(["--out-dir".to_owned(), format!("{folder}/../../doc")]);
    if program {
        kept.push("--document-private-items".to_owned());
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Option<String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        documentation(&words).map(|words| words.join(" "))
    }

    #[test]
    fn a_library_and_a_program_are_documented() {
        let line = "rustc --crate-name a --edition=2024 a.rs --error-format=json --json=artifacts \
                    --crate-type lib --emit=link -C opt-level=3 --out-dir /t/debug/deps \
                    --extern b=/t/debug/deps/libb.rmeta";
        let found = words(line).unwrap();
        let expected = "--crate-name a --edition=2024 a.rs --crate-type lib -C opt-level=3 --extern \
                        b=/t/debug/deps/libb.rmeta -D warnings -D \
                        rustdoc::broken_intra_doc_links --out-dir /t/debug/deps/../../doc";
        assert_eq!(found, expected);
        let found = words(&line.replace("lib ", "bin ")).unwrap();
        assert_eq!(
            found,
            format!("{expected} --document-private-items").replace("lib ", "bin ")
        );
    }

    #[test]
    fn neither_tests_nor_examples_nor_questions_to_the_compiler_are_documented() {
        for line in [
            "rustc -vV",
            "rustc - --crate-name ___ --print=file-names --crate-type bin",
            "rustc --crate-name a a.rs --crate-type lib --test --out-dir /t/debug/deps",
            "rustc --crate-name a a.rs --crate-type bin --out-dir /t/debug/examples",
            "rustc --crate-name a a.rs --crate-type bin --out-dir /t/debug/deps --extern a=liba.rlib",
        ] {
            assert_eq!(words(line), None, "{line}");
        }
    }
}
