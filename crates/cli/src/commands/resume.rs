//! `maxitive resume`: an interrupted run goes on.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use experiment::run::Run;

use crate::commands::train::execute_run;
use crate::training::{self, TrainingArgs};

/// Continue a run that was stopped or killed; the result is the same to the bit.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  maxitive resume runs/ucbopt")]
pub struct ResumeArgs {
    /// Folder of the run
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Begin anew: only the config of the run is kept
    #[arg(long)]
    restart: bool,
    #[command(flatten)]
    training: TrainingArgs,
}

/// Runs the command.
///
/// # Errors
/// The folder holds no run, or the run fails.
pub fn execute(args: ResumeArgs) -> anyhow::Result<ExitCode> {
    let mut run = Run::open(&args.directory).map_err(training::error)?;
    if args.restart {
        let restarted = Run::restart(&args.directory, run.config().clone());
        run = restarted.map_err(training::error)?;
    }
    execute_run(&run, None, &args.training.compute.library(), &args.training)
}
