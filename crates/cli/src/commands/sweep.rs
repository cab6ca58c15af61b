//! `maxitive sweep`: a grid of runs, or a search.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use datasets::Library;
use engine::Device;
use evaluation::record::RunRecord;
use experiment::Sweep;
use experiment::run::RunOptions;
use experiment::search::{Best, Metric, SEARCH};
use experiment::sweep::{SweepOptions, SweepOutcome};
use serde_json::json;

use crate::many::{self, ManyArgs, Shard, print_status};
use crate::progress::merge;
use crate::slurm::{SlurmArgs, Work};
use crate::tables;
use crate::training::{self, TrainingArgs};
use crate::user_error::UserError;

/// Train a grid of methods, seeds and hyper-parameters, or search for the best ones.
///
/// Every run has a folder of its own; finished runs are skipped, interrupted ones go on, and one
/// that fails does not stop the rest. Several runs at a time with one thread each are faster than
/// one run with many threads. At the end the run is named that did best on its validation images.
/// Several processes, on one machine or on many, may share the folder: each takes runs that no
/// other has, and ends when none is left.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  maxitive sweep sweep.toml --out runs
  maxitive sweep sweep.toml --out runs --jobs 2 --set train.epochs=10
  until maxitive sweep sweep.toml --out runs --within 9m; [ $? -ne 75 ]; do sleep 1; done
  maxitive sweep --status runs
  maxitive sweep sweep.toml --out runs --shard 2/4       # the second of four jobs
  maxitive sweep sweep.toml --out /shared/runs --slurm --tasks 4 --time 2h --gpus 1

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
    #[arg(
        value_name = "SWEEP.toml",
        required_unless_present = "status",
        conflicts_with = "status"
    )]
    sweep: Option<PathBuf>,
    /// Folder of the runs; made if it is not there
    #[arg(long, value_name = "DIR", required_unless_present_any = ["status", "list"])]
    out: Option<PathBuf>,
    #[command(flatten)]
    many: ManyArgs,
    #[command(flatten)]
    grid: GridArgs,
    #[command(flatten)]
    slurm: SlurmArgs,
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
    /// Most runs of one training on a GPU, where it would take more, so that several GPUs share a
    /// sweep
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    together: Option<u16>,
    /// Begin runs anew that failed before
    #[arg(long)]
    restart: bool,
    #[command(flatten)]
    pub training: TrainingArgs,
}

impl GridArgs {
    /// The arguments for another process that trains likewise; where, how long and how many runs
    /// together is left out.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        for setting in &self.settings {
            arguments.extend(["--set".into(), setting.into()]);
        }
        if let Some(jobs) = self.jobs {
            arguments.extend(["--jobs".into(), jobs.to_string().into()]);
        }
        arguments.extend(self.training.arguments());
        arguments
    }
}

/// Runs the command.
///
/// # Errors
/// A sweep that is refused, or a folder that cannot be written.
pub fn execute(args: SweepArgs) -> anyhow::Result<ExitCode> {
    let (grid, training) = (&args.grid, &args.grid.training);
    if let Some(folder) = &args.many.status {
        print_status(folder, training.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(path) = &args.sweep else {
        return Err(UserError::new("no sweep was given").into());
    };
    let sweep = Sweep::read(path, &grid.settings).map_err(training::error)?;
    if args.many.answer(&sweep, training.json)? {
        return Ok(ExitCode::SUCCESS);
    }
    let Some(out) = &args.out else {
        return Err(UserError::new("--out is missing: the folder of the runs").into());
    };
    if args.slurm.is_asked() {
        let work = Work {
            command: vec!["sweep".into(), path.into()],
            sweep: &sweep,
            out,
            grid,
        };
        args.slurm.submit(&work)?;
        return Ok(ExitCode::SUCCESS);
    }
    let library = training.compute.library();
    let (records, code) = execute_sweep(&sweep, out, &library, grid, args.many.shard)?;
    if !training.json && !records.is_empty() {
        tables::print(&records)?;
    }
    print_best(&sweep, &records, out, training.json)?;
    if training.advises() && !records.is_empty() {
        let folder = training::quoted(out);
        writeln!(
            io::stderr(),
            "Draw it with: maxitive report {folder} -o report.html"
        )?;
    }
    Ok(code)
}

/// Names the best of the finished runs, if there was a choice.
fn print_best(sweep: &Sweep, records: &[RunRecord], out: &Path, json: bool) -> io::Result<()> {
    if sweep.runs().len() < 2 {
        return Ok(());
    }
    for best in sweep.best(records) {
        let folder = out.join(&best.run);
        if json {
            let mut event = json!({"event": "best", "folder": folder.display().to_string()});
            merge(&mut event, json!(best));
            writeln!(io::stdout(), "{event}")?;
            continue;
        }
        let Best {
            dataset,
            value,
            compared,
            ..
        } = &best;
        let (metric, extreme) = match best.metric {
            Metric::ValidationLoss => ("validation loss", "lowest"),
            Metric::ValidationAccuracy => ("validation accuracy", "highest"),
        };
        let among = match compared {
            1 => "of the only finished run".to_owned(),
            runs => format!("the {extreme} of {runs} finished runs"),
        };
        let ties = match best.ties.as_slice() {
            [] => String::new(),
            [tie] => format!("; {tie} is as good"),
            ties => format!("; {} are as good", ties.join(", ")),
        };
        let folder = training::quoted(&folder);
        writeln!(
            io::stdout(),
            "Best run on {dataset}: {folder}, {metric} {value:.4}, {among}{ties}"
        )?;
    }
    Ok(())
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
    shard: Option<Shard>,
) -> anyhow::Result<(Vec<RunRecord>, ExitCode)> {
    let training = &grid.training;
    let stop = training.stop()?;
    let runs = sweep.shard(shard).len();
    let progress = training.progress(runs);
    let threads = training.compute.threads();
    let jobs = grid
        .jobs
        .map_or_else(
            || trainings(training.compute.device(), threads),
            usize::from,
        )
        .clamp(1, runs.max(1));
    let options = SweepOptions {
        jobs,
        together: None,
        at_most: grid.together.map(usize::from),
        shard,
        restart: grid.restart,
        run: RunOptions {
            library,
            device: training.compute.device().threads((threads / jobs).max(1)),
            observer: &progress,
            stop: &stop,
            checkpoint_seconds: training.checkpoint_seconds,
        },
    };
    let outcome = sweep.execute(out, &options);
    progress.clear();
    let outcome = outcome.map_err(training::error)?;
    tell(&outcome, runs, out, training)?;
    let mut err = io::stderr();
    let code = if !outcome.stopped.is_empty() {
        let left = many::left(outcome.stopped.len());
        writeln!(
            err,
            "{}{left}; the same command goes on",
            training::reason(&stop)
        )?;
        training::stopped(&stop)
    } else if outcome.failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    };
    Ok((outcome.finished, code))
}

/// Says what became of runs that are not finished.
fn tell(
    outcome: &SweepOutcome,
    runs: usize,
    out: &Path,
    training: &TrainingArgs,
) -> io::Result<()> {
    let mut err = io::stderr();
    if !outcome.dropped.is_empty() && training.advises() {
        let dropped = outcome.dropped.len();
        let path = out.join(SEARCH);
        let path = path.display();
        writeln!(
            err,
            "{dropped} of {runs} runs were dropped; {path} says why"
        )?;
    }
    if !outcome.failed.is_empty() {
        let failed = outcome.failed.len();
        let names: Vec<&str> = outcome.failed.iter().map(|(name, _)| &name[..]).collect();
        writeln!(err, "{failed} of {runs} runs failed: {}", names.join(", "))?;
        if outcome
            .failed
            .iter()
            .any(|(_, error)| error.is_divergence())
            && training.advises()
        {
            writeln!(
                err,
                "Runs that diverged are not tried again without --restart"
            )?;
        }
    }
    if !training.advises() {
        return Ok(());
    }
    let (finished, taken) = (outcome.finished.len(), outcome.taken.len());
    let look = format!("maxitive sweep --status {}", training::quoted(out));
    if taken > 0 && outcome.worked {
        writeln!(
            err,
            "{taken} of {runs} runs are taken by other processes; see {look}"
        )?;
    } else if taken > 0 {
        writeln!(
            err,
            "Nothing is left to take: {finished} of {runs} runs are finished, {taken} are taken by \
             other processes; see {look}"
        )?;
    }
    Ok(())
}
