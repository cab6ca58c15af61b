//! What the commands that train have in common: arguments, interruption, errors.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use datasets::Library;
use experiment::{Observer, Stop};

use crate::progress::{Mode, Progress};
use crate::user_error::UserError;

/// Arguments of every command that trains.
#[derive(Debug, Clone, Args)]
pub struct LabArgs {
    /// Folder with datasets; searched before $MAXITIVE_DATA, the cache folder and the system's packages
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Let data pass whose checksums are not those of the manifest
    #[arg(long)]
    pub unverified: bool,
    /// Threads in all; by default those of the machine. Results do not depend on it
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub threads: Option<u16>,
    /// Seconds between two checkpoints of a run; 0 saves after every step
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    pub checkpoint_seconds: f64,
    /// No progress, only results and errors
    #[arg(long, short, conflicts_with = "json")]
    pub quiet: bool,
    /// One JSON object per line and event on standard output
    #[arg(long)]
    pub json: bool,
}

impl LabArgs {
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
        // the chain is part of the message
        let mut message = error.to_string();
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            message.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        UserError::new(message).into()
    } else {
        error.into()
    }
}

/// The observer as a trait object.
pub fn observer(progress: &Progress) -> &dyn Observer {
    progress
}
