//! `maxitive sweep`: a grid of runs, or a search.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use datasets::Library;
use engine::Device;
use evaluation::record::RunRecord;
use experiment::Sweep;
use experiment::run::RunOptions;
use experiment::search::SEARCH;
use experiment::sweep::SweepOptions;

use crate::tables;
use crate::training::{self, TrainingArgs};

/// Train a grid of methods, seeds and hyper-parameters, or search for the best ones.
///
/// Every run has a folder of its own; finished runs are skipped, interrupted ones go on, and one
/// that fails does not stop the rest. Several runs at a time with one thread each are faster than
/// one run with many threads.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  maxitive sweep sweep.toml --out runs
  maxitive sweep sweep.toml --out runs --jobs 2 --set train.epochs=10
  until maxitive sweep sweep.toml --out runs --within 9m; [ $? -ne 75 ]; do sleep 1; done

A sweep file:
  name = \"rates\"
  configs = [\"mine.toml\", \"fashion-mnist-lenet/sgd\"]
  [set]
  train.epochs = 20
  [grid]
  optimizer.lr = [0.01, 0.02]
  seed = [0, 1, 2]

A search, instead of or beside the grid; search.json says what was dropped and why:
  [random]
  trials = 27
  seed = 0
  keys.optimizer.lr = { low = 1e-4, high = 0.1, scale = \"log\" }
  keys.train.batch = { low = 16, high = 256 }
  keys.data.flip = [true, false]
  [halving]                        # one run in eta goes on, for eta times the epochs
  eta = 3
  epochs = 1
  metric = \"validation_loss\"")]
pub struct SweepArgs {
    /// TOML file of the sweep
    #[arg(value_name = "SWEEP.toml")]
    sweep: PathBuf,
    /// Folder of the runs; made if it is not there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    #[command(flatten)]
    grid: GridArgs,
}

/// What every command that trains many runs understands.
#[derive(Debug, Args)]
pub struct GridArgs {
    /// Another value for a key of every config, as in TOML; can be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub settings: Vec<String>,
    /// Runs at a time; by default as many as there are threads
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: Option<u16>,
    #[command(flatten)]
    pub training: TrainingArgs,
}

/// Runs the command.
///
/// # Errors
/// A sweep that is refused, or a folder that cannot be written.
pub fn execute(args: SweepArgs) -> anyhow::Result<ExitCode> {
    let (grid, training) = (&args.grid, &args.grid.training);
    let sweep = Sweep::read(&args.sweep, &grid.settings).map_err(training::error)?;
    let (records, code) = execute_sweep(&sweep, &args.out, &training.compute.library(), grid)?;
    if !training.json && !records.is_empty() {
        tables::print(&records)?;
    }
    if training.advises() && !records.is_empty() {
        let folder = training::quoted(&args.out);
        writeln!(
            io::stderr(),
            "Draw it with: maxitive report {folder} -o report.html"
        )?;
    }
    Ok(code)
}

/// Trainings at a time if none are asked for: as many as threads on the processor. A GPU trains
/// many runs in one, and while one training evaluates its runs another has the card.
fn trainings(device: Device, threads: usize) -> usize {
    if device.is_cpu() { threads } else { 2 }
}

/// Executes a sweep and says what went wrong; the records of the finished runs and the exit code.
///
/// # Errors
/// The folder cannot be written.
pub fn execute_sweep(
    sweep: &Sweep,
    out: &Path,
    library: &Library,
    grid: &GridArgs,
) -> anyhow::Result<(Vec<RunRecord>, ExitCode)> {
    let training = &grid.training;
    let stop = training.stop()?;
    let progress = training.progress(sweep.runs().len());
    let threads = training.compute.threads();
    let jobs = grid
        .jobs
        .map_or_else(|| trainings(training.compute.device, threads), usize::from)
        .clamp(1, sweep.runs().len().max(1));
    let options = SweepOptions {
        jobs,
        together: None,
        run: RunOptions {
            library,
            device: training.compute.device.threads((threads / jobs).max(1)),
            observer: &progress,
            stop: &stop,
            checkpoint_seconds: training.checkpoint_seconds,
        },
    };
    let outcome = sweep.execute(out, &options);
    progress.clear();
    let outcome = outcome.map_err(training::error)?;
    let mut err = io::stderr();
    let code = if !outcome.stopped.is_empty() {
        let left = outcome.stopped.len();
        writeln!(
            err,
            "{}{left} runs are left; the same command goes on with them",
            training::reason(&stop)
        )?;
        training::stopped(&stop)
    } else if outcome.failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    };
    if !outcome.dropped.is_empty() && training.advises() {
        let (dropped, all) = (outcome.dropped.len(), sweep.runs().len());
        let path = out.join(SEARCH);
        let path = path.display();
        writeln!(err, "{dropped} of {all} runs were dropped; {path} says why")?;
    }
    if !outcome.failed.is_empty() {
        let (failed, all) = (outcome.failed.len(), sweep.runs().len());
        let names: Vec<&str> = outcome.failed.iter().map(|(name, _)| &name[..]).collect();
        writeln!(err, "{failed} of {all} runs failed: {}", names.join(", "))?;
    }
    Ok((outcome.finished, code))
}
