//! `maxitive quickstart`: all methods on data that are built in, and a page to look at.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;

use crate::commands::reproduce::{ExtentArgs, conclude};
use crate::commands::sweep::{GridArgs, execute_sweep};

/// Train LeNet with ten methods of the paper's main table on a small Fashion-MNIST, and draw a
/// report.
///
/// Needs no data and no network: 6,000 images to train on, 2,000 to test on and drawn letters as
/// out-of-domain images are built in. Takes about a minute on two cores. Ends with a table and
/// maxitive-quickstart/report.html.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  maxitive quickstart
  maxitive quickstart --out trial --seeds 1 --epochs 10")]
pub struct QuickstartArgs {
    /// Folder of the runs and the report
    #[arg(long, value_name = "DIR", default_value = "maxitive-quickstart")]
    out: PathBuf,
    #[command(flatten)]
    extent: ExtentArgs,
    #[command(flatten)]
    grid: GridArgs,
}

/// What the reader of the page should know.
const NOTE: &str = "A trial on a small part of Fashion-MNIST that is built into the program (6,000 images to train and validate, 2,000 to \
    test) with drawn letters as out-of-domain images and few epochs: enough to see how the methods differ, not to rank them. The paper's \
    hyper-parameters were chosen for the full data and 100 epochs; maxitive reproduce fmnist trains that.";

/// Runs the command.
///
/// # Errors
/// The folder cannot be written.
pub fn execute(args: QuickstartArgs) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let (grid, training) = (&args.grid, &args.grid.training);
    let sweep = args.extent.sweep("quickstart", &grid.settings)?;
    let library = training.compute.library();
    let (records, code) = execute_sweep(&sweep, &args.out, &library, grid, None)?;
    conclude(&records, Some(NOTE), &args.out, training)?;
    if training.advises() {
        writeln!(
            io::stderr(),
            "{:.0} seconds in all",
            start.elapsed().as_secs_f64()
        )?;
    }
    Ok(code)
}
