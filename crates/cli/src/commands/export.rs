//! `maxitive export`: a finished run as files that other programs read.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use evaluation::record::Checkpoint;
use experiment::{Model, export};

use crate::commands::predict::Which;
use crate::training;

/// Write a finished run for other programs: weights and a description, or an ONNX model.
///
/// The folder gets weights.safetensors, tensors with the names and shapes of PyTorch's state dict,
/// and network.json: layers with their inputs and parameters, shape and normalization of the
/// images, names of the classes. With --format onnx it gets model.onnx, which takes pixels from 0
/// to 1 as [n, channels, height, width], normalizes them and gives logits; the names of the classes
/// are in its metadata. Dropout is left out.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  maxitive export runs/mine
  maxitive export runs/mine -o mine --checkpoint final
  maxitive export runs/mine --format onnx")]
pub struct ExportArgs {
    /// Folder of a finished run
    run: PathBuf,
    /// New folder to write [default: export, in the folder of the run]
    #[arg(long, short, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// What to write
    #[arg(long, value_enum, default_value_t = Format::Safetensors)]
    format: Format,
    /// Weights of lowest validation loss, or those after the last step
    #[arg(long, value_enum, default_value_t = Which::Best)]
    checkpoint: Which,
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// weights.safetensors and network.json
    Safetensors,
    /// model.onnx
    Onnx,
}

/// Runs the command.
///
/// # Errors
/// A run that is not finished, a folder that holds an export already or cannot be written.
pub fn execute(args: ExportArgs) -> anyhow::Result<ExitCode> {
    let model = Model::open(&args.run).map_err(training::error)?;
    let folder = args.out.unwrap_or_else(|| args.run.join("export"));
    let checkpoint: Checkpoint = args.checkpoint.into();
    let (written, files) = match args.format {
        Format::Safetensors => (
            export::write(&model, checkpoint, &folder),
            &[export::WEIGHTS, export::NETWORK][..],
        ),
        Format::Onnx => (
            export::write_onnx(&model, checkpoint, &folder),
            &[export::ONNX][..],
        ),
    };
    written.map_err(training::error)?;
    for file in files {
        writeln!(io::stdout(), "{}", folder.join(file).display())?;
    }
    Ok(ExitCode::SUCCESS)
}
