//! `maxitive net NAME|FILE`: the table of a network's layers.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use engine::{Network, Shape, zoo};
use experiment::config::NetworkConfig;

use crate::user_error::{UserError, unknown};

/// Print the layers of a network: output shape, parameters, work and memory per image.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Networks: lenet, resnet20, densenet121, densenet101, and each of them with -dropout appended; or a
TOML file with [[layers]], or the config of a run with [[network.layers]].

Examples:
  maxitive net lenet
  maxitive net densenet121 --classes 10
  maxitive net mine.toml --input 3x64x64 --classes 5")]
pub struct NetArgs {
    /// Name of the network, or a TOML file with its layers
    name: String,
    /// Number of classes; by default the paper's, 10 or 100, and 10 for a file
    #[arg(long, value_name = "N")]
    classes: Option<usize>,
    /// Shape of the images for a file: channels, height and width
    #[arg(long, value_name = "CxHxW", value_parser = shape)]
    input: Option<Shape>,
}

/// `3x64x64` as a shape.
fn shape(text: &str) -> Result<Shape, String> {
    let sizes: Option<Vec<usize>> = text.split('x').map(|size| size.parse().ok()).collect();
    match sizes.as_deref() {
        Some(&[channels, height, width]) if channels * height * width > 0 => {
            Ok(Shape::new(channels, height, width))
        }
        _ => Err("channels, height and width are three numbers above 0, such as 3x64x64".into()),
    }
}

/// Runs the command.
///
/// # Errors
/// The network does not exist or does not fit, or standard output is closed.
pub fn execute(args: NetArgs) -> anyhow::Result<ExitCode> {
    let path = Path::new(&args.name);
    let network = if path.extension().is_some_and(|end| end == "toml") {
        from_file(path, &args)?
    } else if args.input.is_some() {
        let problem = format!(
            "--input is for files; {} has an input of its own",
            args.name
        );
        return Err(UserError::new(problem).into());
    } else {
        find(&args.name, args.classes)?
    };
    write!(io::stdout(), "{}", network.summary())?;
    Ok(ExitCode::SUCCESS)
}

/// The network of a file, for the images that were given.
fn from_file(path: &Path, args: &NetArgs) -> anyhow::Result<Network> {
    let told = |error: experiment::Error| UserError::new(error.with_causes());
    let config = NetworkConfig::read(path).map_err(told)?;
    let classes = args.classes.unwrap_or(10);
    if config.layers.is_empty() {
        return Ok(config.build(Shape::new(3, 32, 32), classes).map_err(told)?);
    }
    let Some(input) = args.input else {
        let file = path.display();
        let problem = format!("say for which images: maxitive net {file} --input 3x32x32");
        return Err(UserError::new(problem).into());
    };
    Ok(config.build(input, classes).map_err(told)?)
}

/// The network of this name; a mistake names what there is.
pub fn find(name: &str, classes: Option<usize>) -> anyhow::Result<Network> {
    if !zoo::NAMES.contains(&name) {
        return Err(UserError::new(unknown("network", name, zoo::NAMES)).into());
    }
    zoo::by_name(name, classes).map_err(|error| UserError::new(error.to_string()).into())
}
