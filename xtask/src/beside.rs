//! Rows of steps that run beside others, so that no core waits for the slowest test of a file.
//!
//! A row is this program once more. What it says goes to a file under `target/check` and is shown
//! when it has ended, so that no two steps talk at once.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::{copied, root};

/// A row that was started.
pub struct Row {
    name: &'static str,
    child: Child,
    file: std::path::PathBuf,
    start: Instant,
}

impl Row {
    /// Starts the task `row NAME` of this program.
    pub fn start(name: &'static str) -> Result<Self> {
        let folder = root().join("target/check");
        std::fs::create_dir_all(&folder)?;
        let file = folder.join(format!("{name}.txt"));
        let output = File::create(&file)?;
        let child = Command::new(copied())
            .args(["row", name])
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("cannot start the row '{name}'"))?;
        eprintln!("xtask: row {name}: started beside the tests");
        Ok(Self {
            name,
            child,
            file,
            start: Instant::now(),
        })
    }

    /// Waits for its end and shows what it said.
    pub fn finish(mut self) -> Result<()> {
        let name = self.name;
        let status = self.child.wait()?;
        let said = std::fs::read(&self.file)?;
        eprint!("{}", String::from_utf8_lossy(&said));
        if !status.success() {
            bail!("row '{name}' failed");
        }
        let seconds = self.start.elapsed().as_secs_f64();
        eprintln!("xtask: row {name}: ok, {seconds:.1} s after its start");
        Ok(())
    }
}

impl Drop for Row {
    /// A step in the foreground failed: nobody waits for the row any more.
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let _ = self.child.kill();
        }
    }
}

/// Runs `cargo test` and calls `started` when its first program runs: from then on others may have
/// the lock of the target folder.
pub fn tests(mut command: Command, started: impl FnOnce() -> Result<()>) -> Result<()> {
    let mut child = command.stderr(Stdio::piped()).spawn()?;
    let lines = child.stderr.take().context("the tests have no stderr")?;
    let mut started = Some(started);
    let mut outcome = Ok(());
    for line in BufReader::new(lines).split(b'\n') {
        let line = String::from_utf8_lossy(&line?).into_owned();
        eprintln!("{line}");
        if line.contains("Running")
            && let Some(started) = started.take()
        {
            outcome = started();
        }
    }
    let status = child.wait()?;
    outcome?;
    if !status.success() {
        bail!("{status}");
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdout(Stdio::null());
        command
    }

    #[test]
    fn others_start_with_the_first_program_and_only_once() {
        let mut starts = 0;
        let script = "echo Compiling >&2; echo '  Running a' >&2; echo '  Running b' >&2";
        tests(shell(script), || {
            starts += 1;
            Ok(())
        })
        .unwrap();
        assert_eq!(starts, 1);
    }

    #[test]
    fn nothing_starts_beside_tests_that_do_not_compile() {
        let failed = tests(shell("echo 'error: no' >&2; exit 101"), || {
            panic!("nothing runs")
        });
        assert!(failed.unwrap_err().to_string().contains("101"));
    }

    #[test]
    fn a_failure_to_start_is_told_after_the_tests_have_ended() {
        let failed = tests(shell("echo Running >&2"), || bail!("no such program"));
        assert!(failed.unwrap_err().to_string().contains("no such program"));
    }
}
