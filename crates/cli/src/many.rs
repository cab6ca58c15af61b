//! Many processes on one sweep: which of its runs a process takes, and how the runs are.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use experiment::Sweep;
use experiment::status::{RunStatus, State, status};
use serde_json::json;

use crate::text::{count, printable};
use crate::training;

/// What every command that trains on many machines understands.
#[derive(Debug, Args)]
pub struct ManyArgs {
    /// Print how the runs in a folder are (finished, running and where, failed and why, left) and
    /// stop
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "list", "shard", "restart"])]
    pub status: Option<PathBuf>,
    /// Print the names of the runs and stop
    #[arg(long)]
    pub list: bool,
    /// Only each N-th run, from the I-th on: for schedulers that tell a job its number. Without it
    /// several processes share a folder, too, and none waits for another
    #[arg(long, value_name = "I/N", value_parser = shard)]
    pub shard: Option<Shard>,
}

/// The i-th of n parts, from 1 on.
pub type Shard = (usize, usize);

fn shard(text: &str) -> Result<Shard, String> {
    let parts = text.split_once('/');
    let numbers = parts.and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    numbers
        .filter(|(i, n)| (1..=*n).contains(i))
        .ok_or_else(|| "not a part such as 2/4: from 1/N to N/N".to_owned())
}

impl ManyArgs {
    /// Prints what is only asked for; whether there was something.
    ///
    /// # Errors
    /// The folder holds no sweep, or standard output is closed.
    pub fn answer(&self, sweep: &Sweep, json: bool) -> anyhow::Result<bool> {
        if !self.list {
            return Ok(false);
        }
        let mut out = io::stdout();
        for number in sweep.shard(self.shard) {
            let name = sweep.runs()[number].run_name();
            match json {
                true => writeln!(out, "{}", json!({"run": name}))?,
                false => writeln!(out, "{name}")?,
            }
        }
        Ok(true)
    }
}

/// The states and how many runs are in each, in the order of their printing.
fn counts(runs: &[RunStatus]) -> [(&'static str, usize); 5] {
    ["finished", "running", "failed", "dropped", "left"].map(|name| {
        let count = runs.iter().filter(|run| word(&run.state) == name).count();
        (name, count)
    })
}

fn word(state: &State) -> &'static str {
    match state {
        State::Finished => "finished",
        State::Running(_) => "running",
        State::Failed { .. } => "failed",
        State::Dropped { .. } => "dropped",
        State::Left => "left",
    }
}

/// How many runs are in which state: `24 runs: 3 finished, 21 left`.
pub fn summary(runs: &[RunStatus]) -> String {
    let counts = counts(runs).into_iter().filter(|(_, count)| *count > 0);
    let counts: Vec<String> = counts.map(|(name, n)| format!("{n} {name}")).collect();
    format!("{}: {}", count(runs.len(), "run"), counts.join(", "))
}

/// `1 run is left`, or how many are.
pub fn left(count: usize) -> String {
    match count {
        1 => "1 run is left".to_owned(),
        _ => format!("{count} runs are left"),
    }
}

/// Prints how the runs in a folder are.
///
/// # Errors
/// The folder holds no sweep, a file of it cannot be read, or standard output is closed.
pub fn print_status(directory: &Path, json: bool) -> anyhow::Result<()> {
    let runs = status(directory).map_err(training::error)?;
    let mut out = io::stdout();
    if json {
        let mut object = json!({"runs": runs});
        for (name, count) in counts(&runs) {
            object[name] = count.into();
        }
        writeln!(out, "{object}")?;
        return Ok(());
    }
    writeln!(out, "{}", summary(&runs))?;
    let width = runs.iter().map(|run| run.run.chars().count()).max();
    let width = width.unwrap_or_default();
    for run in &runs {
        let epochs = match run.epochs {
            Some(epochs) => format!("{}/{}", run.epochs_done, count(epochs, "epoch")),
            None => "not begun".to_owned(),
        };
        let more = match &run.state {
            State::Running(holder) => holder.to_string(),
            State::Failed { reason } | State::Dropped { reason } => reason.clone(),
            State::Finished | State::Left => String::new(),
        };
        let (state, name) = (word(&run.state), &run.run);
        let line = format!("{state:8}  {name:width$}  {epochs:>14}  {more}");
        writeln!(out, "{}", printable(line.trim_end()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_one_of_its_number() {
        assert_eq!(shard("1/1"), Ok((1, 1)));
        assert_eq!(shard("3/4"), Ok((3, 4)));
        for text in ["", "0/4", "5/4", "1/0", "4", "1/4/2", "-1/4", "a/b"] {
            assert!(shard(text).is_err(), "{text}");
        }
    }
}
