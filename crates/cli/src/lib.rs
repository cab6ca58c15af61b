//! `maxitive`: arguments in, exit code out.
//!
//! Standard output carries results that can be piped; advice and errors go to standard error. The
//! exit code is 0 for success, 2 for a mistake in the arguments or the data, 1 for anything else.
#![forbid(unsafe_code)]

mod commands;
mod figures;
mod files;
mod many;
mod paper_layout;
mod progress;
#[doc(hidden)]
pub mod readers;
mod slurm;
mod tables;
mod training;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use experiment::shortened;
use questions::{event, text, user_error};
use tabular::csv;

use crate::text::printable_lines;
use crate::user_error::UserError;

/// Possibilistic inference and uncertainty-aware training: what the data leave possible, and what
/// they make necessary.
#[derive(Debug, Parser)]
#[command(
    name = "maxitive",
    version,
    propagate_version = true,
    max_term_width = 100
)]
#[command(after_long_help = "\
Examples:
  maxitive quickstart
  maxitive train fashion-mnist-lenet/ucbopt --out runs/ucbopt
  maxitive evaluate --probs p.npy --labels y.npy --ood o.npy
  maxitive infer bernoulli trials.csv --column success --event 'p > 0.5'
  maxitive figures pictures

Every command explains itself: maxitive infer poisson --help")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Quickstart(commands::quickstart::QuickstartArgs),
    Train(commands::train::TrainArgs),
    Resume(commands::resume::ResumeArgs),
    Sweep(commands::sweep::SweepArgs),
    Watch(commands::watch::WatchArgs),
    Report(commands::report::ReportArgs),
    Reproduce(commands::reproduce::ReproduceArgs),
    Evaluate(commands::evaluate::EvaluateArgs),
    Reevaluate(commands::reevaluate::ReevaluateArgs),
    Predict(commands::predict::PredictArgs),
    Export(commands::export::ExportArgs),
    Data(commands::data::DataArgs),
    Infer(commands::infer::InferArgs),
    Figures(commands::figures::FiguresArgs),
    Net(commands::net::NetArgs),
    Bench(commands::bench::BenchArgs),
    Devices(commands::devices::DevicesArgs),
    Completions(commands::completions::CompletionsArgs),
    Man(commands::man::ManArgs),
}

/// Most letters of a line of an error.
const LONGEST: usize = 4000;

/// Does what the arguments of the process say.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    datasets::formats::guard::keep_quiet();
    let result = match cli.command {
        Command::Quickstart(args) => commands::quickstart::execute(args),
        Command::Train(args) => commands::train::execute(args),
        Command::Resume(args) => commands::resume::execute(args),
        Command::Sweep(args) => commands::sweep::execute(args),
        Command::Watch(args) => commands::watch::execute(args),
        Command::Reproduce(args) => commands::reproduce::execute(args),
        Command::Data(args) => commands::data::execute(args),
        Command::Infer(args) => commands::infer::execute(args),
        Command::Figures(args) => commands::figures::execute(args),
        Command::Net(args) => commands::net::execute(args),
        Command::Bench(args) => commands::bench::execute(args),
        Command::Devices(args) => commands::devices::execute(args),
        Command::Evaluate(args) => commands::evaluate::execute(args),
        Command::Reevaluate(args) => commands::reevaluate::execute(args),
        Command::Predict(args) => commands::predict::execute(args),
        Command::Export(args) => commands::export::execute(args),
        Command::Report(args) => commands::report::execute(args),
        Command::Completions(args) => commands::completions::execute(args),
        Command::Man(args) => commands::man::execute(args),
    };
    result.unwrap_or_else(|error| {
        if is_broken_pipe(&error) {
            // the reader of our output has seen enough
            return ExitCode::SUCCESS;
        }
        // nothing is left to do if even standard error is closed
        let message = format!("{error:#}");
        let message = printable_lines(&message);
        let _ = writeln!(io::stderr(), "error: {}", shortened(&message, LONGEST));
        if error.chain().any(|cause| cause.is::<UserError>()) {
            ExitCode::from(2)
        } else {
            ExitCode::FAILURE
        }
    })
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}
