//! `maxitive net NAME|FILE`: the table of a network's layers.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use datasets::Library;
use engine::{Network, Shape, zoo};
use experiment::config::{DataConfig, NetworkConfig};

use crate::user_error::{UserError, unknown};

/// Print the layers of a network: output shape, parameters, work and memory per image.
///
/// The config of a run says by its data which images the network takes and how many classes it
/// tells apart; for layers alone, --input and --classes do.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Networks: lenet, resnet20, densenet121, densenet101, and each of them with -dropout appended; or a
TOML file with [[layers]], or the config of a run with [[network.layers]].

Examples:
  maxitive net lenet
  maxitive net densenet121 --classes 10
  maxitive net mine.toml
  maxitive net layers.toml --input 3x64x64 --classes 5")]
pub struct NetArgs {
    /// Name of the network, or a TOML file with its layers
    name: String,
    /// Number of classes; by default the paper's, 10 or 100, for a config those of its data, and
    /// else 10
    #[arg(long, value_name = "N")]
    classes: Option<usize>,
    /// Shape of the images for a file: channels, height and width [default: those of its data]
    #[arg(long, value_name = "CxHxW", value_parser = shape)]
    input: Option<Shape>,
    /// Folder to search first for the data of a config
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
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

/// The network of a file, for the images and classes that were given, else for those of its data.
fn from_file(path: &Path, args: &NetArgs) -> anyhow::Result<Network> {
    let told = |error: experiment::Error| UserError::new(error.with_causes());
    let config = NetworkConfig::read(path).map_err(told)?;
    let needs_input = !config.layers.is_empty();
    let is_told = args.classes.is_some() && (args.input.is_some() || !needs_input);
    let data = match is_told {
        true => None,
        false => DataConfig::read(path).map_err(told)?,
    };
    let (mut input, mut classes) = (args.input, args.classes);
    if let Some(data) = data {
        let library = Library::new(args.data_dir.clone());
        let (shape, count) = data.shape_and_classes(&library).map_err(|error| {
            let (file, error) = (path.display(), error.with_causes());
            let advice = format!("or say: maxitive net {file} --input 3x32x32 --classes 10");
            UserError::new(format!("{file}: data.dataset: {error}\n{advice}"))
        })?;
        let (file, set) = (path.display(), &data.dataset);
        writeln!(
            io::stderr(),
            "{file}: {set} has images of {shape} and {count} classes"
        )?;
        (input, classes) = (input.or(Some(shape)), classes.or(Some(count)));
    }
    let input = match input {
        None if needs_input => {
            let file = path.display();
            let problem = format!("say for which images: maxitive net {file} --input 3x32x32");
            return Err(UserError::new(problem).into());
        }
        given => given.unwrap_or(Shape::new(3, 32, 32)),
    };
    Ok(config.build(input, classes.unwrap_or(10)).map_err(told)?)
}

/// The network of this name; a mistake names what there is.
pub fn find(name: &str, classes: Option<usize>) -> anyhow::Result<Network> {
    if !zoo::NAMES.contains(&name) {
        return Err(UserError::new(unknown("network", name, zoo::NAMES)).into());
    }
    zoo::by_name(name, classes).map_err(|error| UserError::new(error.to_string()).into())
}
