//! `maxitive net NAME`: the table of a network's layers.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use engine::{Network, zoo};

use crate::user_error::{UserError, unknown};

/// Print the layers of a network: output shape, parameters, work and memory per image.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Networks: lenet, resnet20, densenet121, densenet101, and each of them with -dropout appended.

Examples:
  maxitive net lenet
  maxitive net densenet121 --classes 10")]
pub struct NetArgs {
    /// Name of the network
    name: String,
    /// Number of classes; by default the paper's, 10 or 100
    #[arg(long, value_name = "N")]
    classes: Option<usize>,
}

/// Runs the command.
///
/// # Errors
/// The network does not exist, or standard output is closed.
pub fn execute(args: NetArgs) -> anyhow::Result<ExitCode> {
    let network = find(&args.name, args.classes)?;
    write!(io::stdout(), "{}", network.summary())?;
    Ok(ExitCode::SUCCESS)
}

/// The network of this name; a mistake names what there is.
pub fn find(name: &str, classes: Option<usize>) -> anyhow::Result<Network> {
    if !zoo::NAMES.contains(&name) {
        return Err(UserError::new(unknown("network", name, zoo::NAMES)).into());
    }
    zoo::by_name(name, classes).map_err(|error| UserError::new(error.to_string()).into())
}
