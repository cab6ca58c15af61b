//! `maxitive reevaluate`: finished runs, with other rows or against other sets.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use experiment::again::{changed, reevaluate};
use experiment::run::RunOptions;
use experiment::sweep::check_rows;

use crate::tables;
use crate::training::{self, ComputeArgs};
use crate::user_error::UserError;

/// Evaluate finished runs again: by another method, or against other sets.
///
/// The weights are those that were trained, and the folders of the runs stay as they are: what is
/// found goes into a record.json in a folder of its own below --out, for `maxitive report`. What
/// can be set are the rows, data.out_of_domain, data.ood_normalization, evaluation and experiment;
/// {row} in the name of a row is the name of the run's first.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  maxitive reevaluate runs/ucbopt --method possibilistic --out again
  maxitive reevaluate runs/sgd-* --set 'data.out_of_domain=[\"kmnist\"]' --out again
  maxitive reevaluate runs/sgd --set 'rows=[{ row = \"LL\", predictive = \"laplace\" }]' --out again")]
pub struct ReevaluateArgs {
    /// Folders of finished runs
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,
    /// Folder of the records; made if it is not there
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// A method with its defaults instead of the rows of the config: point, ivon, mc-dropout, swag,
    /// laplace or possibilistic
    #[arg(long, value_name = "METHOD")]
    method: Option<String>,
    /// Another value for a key of the config, as in TOML; can be repeated
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    #[command(flatten)]
    compute: ComputeArgs,
    /// No progress, only results and errors
    #[arg(long, short, conflicts_with = "json")]
    quiet: bool,
    /// One JSON object per line and event on standard output
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// A folder without a finished run, a setting that belongs to the training, a method that needs
/// what the run does not have, data that are not there, a record that is there already.
pub fn execute(args: ReevaluateArgs) -> anyhow::Result<ExitCode> {
    let mut settings = args.settings.clone();
    if let Some(method) = &args.method {
        if settings
            .iter()
            .any(|setting| setting.trim_start().starts_with("rows"))
        {
            return Err(UserError::new("--method and --set rows: one of them").into());
        }
        let (row, method) = (format!("{{row}}, {method}"), format!("{method:?}"));
        settings.push(format!("rows=[{{ row = {row:?}, predictive = {method} }}]"));
    }
    // rows of different trainings that have one name would be averaged
    let configs = args.runs.iter().map(|run| changed(run, &settings));
    let configs = configs.collect::<experiment::Result<Vec<_>>>();
    check_rows(&configs.map_err(training::error)?).map_err(UserError::new)?;
    let library = args.compute.library();
    let stop = training::stop(None)?;
    let progress = training::progress(args.json, args.quiet, args.runs.len());
    let options = RunOptions {
        library: &library,
        device: args.compute.device(),
        observer: &progress,
        stop: &stop,
        checkpoint_seconds: 0.0,
    };
    let mut records = Vec::new();
    for run in &args.runs {
        let out = args.out.join(folder_name(run)?);
        let record = reevaluate(run, &settings, &out, &options);
        match record.map_err(training::error)? {
            Some(record) => records.push(record),
            None => {
                progress.clear();
                let run = run.display();
                writeln!(io::stderr(), "{run}: stopped, nothing was written")?;
                return Ok(training::stopped(&stop));
            }
        }
    }
    progress.clear();
    if !args.json {
        tables::print(&records)?;
    }
    if !args.json && !args.quiet {
        let out = training::quoted(&args.out);
        writeln!(
            io::stderr(),
            "Draw it with: maxitive report {out} -o report.html"
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What the folder of a run is called.
fn folder_name(run: &Path) -> anyhow::Result<PathBuf> {
    let full = run
        .canonicalize()
        .map_err(|error| UserError::new(format!("{}: {error}", run.display())))?;
    let name = full.file_name().map(PathBuf::from);
    name.ok_or_else(|| UserError::new(format!("{}: no run", run.display())).into())
}
