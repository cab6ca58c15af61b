//! What the commands that train have in common: arguments, interruption, errors.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use datasets::Library;
use engine::Device;
use experiment::Stop;

use crate::progress::{Mode, Progress};
use crate::user_error::UserError;

/// Where data come from and where networks are computed.
#[derive(Debug, Clone, Args)]
pub struct ComputeArgs {
    /// Folder with datasets; searched before $MAXITIVE_DATA, the cache folder and the system's
    /// packages
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Let data pass whose checksums are not those of the manifest
    #[arg(long)]
    pub unverified: bool,
    /// Where to compute: auto is the fastest device of the machine
    #[arg(long, value_name = "DEVICE", default_value = "auto", value_parser = device)]
    pub device: Device,
    /// Threads in all; by default those of the machine. Results do not depend on it
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: Option<u16>,
}

impl ComputeArgs {
    /// Where datasets come from.
    pub fn library(&self) -> Library {
        let library = Library::new(self.data_dir.clone());
        if self.unverified {
            library.unverified()
        } else {
            library
        }
    }

    /// Threads in all.
    pub fn threads(&self) -> usize {
        self.threads.map_or_else(
            || std::thread::available_parallelism().map_or(1, |n| n.get().min(64)),
            usize::from,
        )
    }

    /// The device with all threads.
    pub fn device(&self) -> Device {
        self.device.threads(self.threads())
    }
}

/// Arguments of every command that trains.
#[derive(Debug, Clone, Args)]
pub struct TrainingArgs {
    #[command(flatten)]
    pub compute: ComputeArgs,
    /// Seconds between two checkpoints of a run; 0 saves one after the other
    #[arg(long, value_name = "S", default_value_t = 5.0, value_parser = seconds)]
    pub checkpoint_seconds: f64,
    /// No progress, only results and errors
    #[arg(long, short, conflicts_with = "json")]
    pub quiet: bool,
    /// One JSON object per line and event on standard output
    #[arg(long)]
    pub json: bool,
}

impl TrainingArgs {
    /// Whether advice is wanted besides results and errors.
    pub fn advises(&self) -> bool {
        !self.quiet && !self.json
    }

    /// The command that goes on with the run in a folder, with the arguments that decide on the
    /// data.
    pub fn resume_command(&self, folder: &Path) -> String {
        let mut command = format!("maxitive resume {}", quoted(folder));
        if let Some(data) = &self.compute.data_dir {
            command.push_str(&format!(" --data-dir {}", quoted(data)));
        }
        if self.compute.unverified {
            command.push_str(" --unverified");
        }
        if self.compute.device != Device::default() {
            command.push_str(&format!(" --device {}", self.compute.device.name()));
        }
        command
    }

    /// How progress is shown.
    pub fn progress(&self, runs: usize) -> Progress {
        let mode = match (self.json, self.quiet) {
            (true, _) => Mode::Json,
            (_, true) => Mode::Quiet,
            _ => Mode::Human,
        };
        Progress::new(mode, runs)
    }
}

/// The device of this name.
pub fn device(name: &str) -> Result<Device, String> {
    Device::by_name(name).map_err(|error| error.to_string())
}

/// A path as a shell reads it.
pub fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:,@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A number of seconds from 0 on.
fn seconds(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|&seconds: &f64| seconds >= 0.0)
        .ok_or_else(|| "not a number of seconds from 0 on".to_owned())
}

/// A stop that Ctrl-C and termination raise; a second signal ends the process at once.
///
/// # Errors
/// If the system refuses the handler.
pub fn stop_on_interrupt() -> anyhow::Result<Stop> {
    let stop = Stop::default();
    let raised = stop.clone();
    ctrlc::set_handler(move || {
        if raised.is_raised() {
            std::process::exit(130);
        }
        raised.raise();
        // an evaluation may take a while; nothing is left to do if standard error is closed
        let _ = writeln!(
            io::stderr(),
            "Stopping; a second Ctrl-C ends the program at once"
        );
    })?;
    Ok(stop)
}

/// The exit code of an interrupted command, as shells have it.
pub fn interrupted() -> ExitCode {
    ExitCode::from(130)
}

/// An error of an experiment: a mistake of the user's or a failure.
pub fn error(error: experiment::Error) -> anyhow::Error {
    if error.is_mistake() {
        UserError::new(message(&error)).into()
    } else {
        error.into()
    }
}

/// What went wrong, with all causes.
pub fn message(error: &experiment::Error) -> String {
    let mut message = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        message.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_where_a_shell_would_misread_them() {
        assert_eq!(quoted(Path::new("runs/a-lr=0.1")), "runs/a-lr=0.1");
        assert_eq!(quoted(Path::new("my runs")), "'my runs'");
        assert_eq!(quoted(Path::new("it's")), r"'it'\''s'");
    }

    #[test]
    fn seconds_are_not_negative() {
        assert_eq!(seconds("0"), Ok(0.0));
        assert_eq!(seconds("2.5"), Ok(2.5));
        assert!(
            ["-1", "nan", "soon", ""]
                .into_iter()
                .all(|text| seconds(text).is_err())
        );
    }
}
