//! `maxitive export`: a finished run as weights and a description that other programs read.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use evaluation::record::Checkpoint;
use experiment::{Model, export};

use crate::commands::predict::Which;
use crate::training;

/// Write a finished run as weights and a description of the network.
///
/// The folder gets weights.safetensors, tensors with the names and shapes of PyTorch's state dict,
/// and network.json: layers with their inputs and parameters, shape and normalization of the
/// images, names of the classes.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  maxitive export runs/mine
  maxitive export runs/mine -o mine --checkpoint final")]
pub struct ExportArgs {
    /// Folder of a finished run
    run: PathBuf,
    /// New folder to write [default: export, in the folder of the run]
    #[arg(long, short, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Weights of lowest validation loss, or those after the last step
    #[arg(long, value_enum, default_value_t = Which::Best)]
    checkpoint: Which,
}

/// Runs the command.
///
/// # Errors
/// A run that is not finished, a folder that holds an export already or cannot be written.
pub fn execute(args: ExportArgs) -> anyhow::Result<ExitCode> {
    let model = Model::open(&args.run).map_err(training::error)?;
    let folder = args.out.unwrap_or_else(|| args.run.join("export"));
    let checkpoint: Checkpoint = args.checkpoint.into();
    export::write(&model, checkpoint, &folder).map_err(training::error)?;
    for file in [export::WEIGHTS, export::NETWORK] {
        writeln!(io::stdout(), "{}", folder.join(file).display())?;
    }
    Ok(ExitCode::SUCCESS)
}
