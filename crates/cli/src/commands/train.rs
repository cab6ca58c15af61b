//! `maxitive train`: one run from a config.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use datasets::Library;
use experiment::run::{RECORD, Run, RunOptions};
use experiment::{Error, Outcome, RunConfig, RunData, preset};

use crate::tables;
use crate::training::{self, TrainingArgs};
use crate::user_error::{UserError, unknown};

/// Train a network as a config says, evaluate it, and write a record.
///
/// CONFIG is a TOML file, or the name of one of the paper's configs that are built in, such as
/// fashion-mnist-lenet/ucbopt. The folder gets the resolved config, checkpoints (weights named as
/// in PyTorch's state dict) and record.json. Ctrl-C saves; the same command, or `maxitive resume`,
/// goes on to the same bits.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  maxitive train fashion-mnist-lenet/ucbopt --out runs/ucbopt
  maxitive train mine.toml --set seed=1 --set optimizer.lr=0.02 --out runs/mine-1
  maxitive train mine.toml --set data.dataset=fashion-mnist-mini --set train.epochs=5 --out trial
  maxitive train mine.toml --out runs/mine --within 9m      # saved in time; again while it exits with 75
  maxitive train mine.toml --set optimizer.lr=0.01 --out runs/mine --restart

Configs that are built in: see `maxitive train --list`")]
pub struct TrainArgs {
    /// TOML file, or name of a config that is built in
    #[arg(value_name = "CONFIG", required_unless_present = "list")]
    config: Option<PathBuf>,
    /// Another value for a key of the config, as in TOML; can be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// Folder of the run; made if it is not there. A run of the same config in it is continued
    #[arg(long, value_name = "DIR", required_unless_present_any = ["list", "show"])]
    out: Option<PathBuf>,
    /// Begin anew: what is in the folder of an earlier run, of any config, is removed
    #[arg(long)]
    restart: bool,
    /// Print the resolved config and stop
    #[arg(long)]
    show: bool,
    /// Print the names of the configs that are built in and stop
    #[arg(long)]
    list: bool,
    #[command(flatten)]
    training: TrainingArgs,
}

/// Runs the command.
///
/// # Errors
/// A config that is refused, data that are not there, a run that fails.
pub fn execute(args: TrainArgs) -> anyhow::Result<ExitCode> {
    if args.list {
        let mut out = io::stdout();
        for name in preset::runs() {
            writeln!(out, "{name}")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let Some(config) = &args.config else {
        return Err(UserError::new("no config was given").into());
    };
    let config = read_config(config, &args.settings)?;
    if args.show {
        write!(io::stdout(), "{}", config.to_toml())?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(out) = &args.out else {
        return Err(UserError::new("--out is missing: the folder of the run").into());
    };
    // data that are not there, or do not fit, leave no folder behind
    let library = args.training.compute.library();
    let data = RunData::load(&config, &library).map_err(training::error)?;
    let run = match args.restart {
        true => Run::restart(out, config),
        false => Run::open_or_create(out, config),
    };
    let run = run.map_err(training::error)?;
    execute_run(&run, Some(data), &library, &args.training)
}

/// The config in a file, or of this name.
fn read_config(path: &Path, settings: &[String]) -> anyhow::Result<RunConfig> {
    if path.exists() {
        return RunConfig::read(path, settings).map_err(training::error);
    }
    let name = path.display().to_string();
    if preset::runs().any(|known| known == name) {
        return preset::run(&name, settings).map_err(training::error);
    }
    let known: Vec<&str> = preset::runs().collect();
    let message = unknown("config", &name, known);
    let message = match Path::new(&*name).extension() {
        Some(end) if end == "toml" => {
            format!("{name}: no such file; `maxitive train --list` names the built-in configs")
        }
        _ => format!("{name}: no such file, and {message}"),
    };
    Err(UserError::new(message).into())
}

/// Executes a run, with data that are loaded already or not, and prints what came of it.
///
/// # Errors
/// The run fails, or standard output is closed.
pub fn execute_run(
    run: &Run,
    data: Option<RunData>,
    library: &Library,
    training: &TrainingArgs,
) -> anyhow::Result<ExitCode> {
    let stop = training.stop()?;
    let progress = training.progress(1);
    let options = RunOptions {
        library,
        device: training.compute.device(),
        observer: &progress,
        stop: &stop,
        checkpoint_seconds: training.checkpoint_seconds,
    };
    let outcome = run.execute_with(data, &options);
    progress.clear();
    let outcome = outcome.map_err(|error| {
        let again = matches!(error, Error::Diverged { .. });
        let error = training::error(error);
        if again {
            let hint = "then begin anew with the same command and --restart";
            return anyhow::anyhow!("{error}; {hint}");
        }
        error
    })?;
    match outcome {
        Outcome::Finished(record) => {
            if !training.json {
                tables::print(&[*record])?;
            }
            if training.advises() {
                let folder = run.directory();
                writeln!(
                    io::stderr(),
                    "The record is {}; look at it with: maxitive report {} -o report.html",
                    folder.join(RECORD).display(),
                    training::quoted(folder)
                )?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Outcome::Stopped => {
            let command = training.resume_command(run.directory());
            let reason = training::reason(&stop);
            writeln!(io::stderr(), "{reason}Go on with: {command}")?;
            Ok(training::stopped(&stop))
        }
    }
}
