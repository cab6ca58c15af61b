//! What can go wrong with an experiment.

use std::path::{Path, PathBuf};

use crate::lock::Holder;

/// The result of everything in this crate that can fail.
pub type Result<T> = std::result::Result<T, Error>;

/// An error: lower case, with the file, field or value and what was allowed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A config that cannot be read.
    #[error("{origin}: {problem}")]
    Config {
        /// File or preset the config came from.
        origin: String,
        /// What is wrong, with the place.
        problem: String,
    },
    /// Settings that do not go together, or a value outside its range.
    #[error("{field}: {problem}")]
    Setting {
        /// Key of the config.
        field: String,
        /// What is wrong and what is allowed.
        problem: String,
    },
    /// A file or folder that cannot be read or written.
    #[error("{path}: cannot be {action}")]
    File {
        /// The file.
        path: PathBuf,
        /// `read`, `written`, `created`.
        action: &'static str,
        /// Why.
        source: std::io::Error,
    },
    /// A file that is there but is not what it should be.
    #[error("{path}: {problem}")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A time limit within which nothing can be done.
    #[error(
        "{what} takes about {} and cannot be done in parts; {} of {} were left for it: give more time",
        time(*.seconds), time(*.left), time(*.limit)
    )]
    TimeTooShort {
        /// What there is no time for.
        what: String,
        /// Seconds that it takes.
        seconds: f64,
        /// Seconds in all.
        limit: f64,
        /// Seconds that were left.
        left: f64,
    },
    /// A directory that already holds a run.
    #[error(
        "{path}: already holds a run; continue it with `maxitive resume {path}` or choose another folder"
    )]
    Occupied {
        /// The directory.
        path: PathBuf,
    },
    /// A directory that holds no run.
    #[error("{path}: holds no run (no config.toml)")]
    NoRun {
        /// The directory.
        path: PathBuf,
    },
    /// Another process works in the directory.
    #[error("{path}: another process is at work in this folder{}", who(holder))]
    Locked {
        /// The directory.
        path: PathBuf,
        /// Which one, where that is told.
        holder: Option<Box<Holder>>,
    },
    /// The run diverged before, and would do so again.
    #[error("{path}: {reason}; this was before, and --restart begins the run anew")]
    DivergedBefore {
        /// The directory.
        path: PathBuf,
        /// What was said then.
        reason: String,
    },
    /// The loss or a gradient is no longer finite.
    #[error(
        "training diverged: {what} at step {step} (epoch {epoch}, learning rate {lr:e}); \
         try a smaller learning rate, a longer warm-up, or, where the rule has them, a larger `weight_decay` or `hess_init`"
    )]
    Diverged {
        /// What is not finite.
        what: String,
        /// Step, from 0.
        step: u64,
        /// Epoch, from 0.
        epoch: usize,
        /// Learning rate of the step.
        lr: f64,
    },
    /// A training of several runs failed, which is said in full of one of them.
    #[error("the training failed: {0}")]
    Together(String),
    /// A run of a sweep panicked; a bug.
    #[error("the run failed inside: {0}")]
    Panic(String),
    /// The data cannot be had.
    #[error(transparent)]
    Data(#[from] datasets::Error),
    /// The network or its data do not fit.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// A hyper-parameter out of range.
    #[error(transparent)]
    Rule(#[from] cbopt::Error),
    /// A predictive method lacks what it needs.
    #[error(transparent)]
    Predictive(#[from] crate::predictive::Error),
    /// The record cannot be read or written.
    #[error(transparent)]
    Record(#[from] evaluation::RecordError),
    /// The predictions cannot be evaluated.
    #[error(transparent)]
    Evaluation(#[from] evaluation::Error),
}

/// A holder in parentheses, if it is known.
fn who(holder: &Option<Box<Holder>>) -> String {
    let named = holder.as_ref().map(|holder| format!(" ({holder})"));
    named.unwrap_or_default()
}

/// Seconds for people.
fn time(seconds: f64) -> String {
    match seconds {
        ..9.95 => format!("{seconds:.1} s"),
        ..120.0 => format!("{seconds:.0} s"),
        _ => format!("{:.0} min", seconds / 60.0),
    }
}

impl Error {
    /// Whether the training diverged, now or before: it would do so again.
    pub fn is_divergence(&self) -> bool {
        matches!(self, Self::Diverged { .. } | Self::DivergedBefore { .. })
    }

    /// What went wrong, with all causes.
    pub fn with_causes(&self) -> String {
        let mut message = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            message.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        if let Some(advice) = self.advice() {
            message.push_str(&format!("; {advice}"));
        }
        message
    }

    /// How to go on where the disk is full or a folder vanished.
    pub fn advice(&self) -> Option<&'static str> {
        use std::io::ErrorKind::{NotFound, QuotaExceeded, StorageFull};
        let (kind, is_write) = match self {
            Self::File { source, action, .. } => (source.kind(), *action == "written"),
            Self::Data(datasets::Error::Io { source, action, .. }) => {
                (source.kind(), matches!(*action, "write" | "rename to"))
            }
            _ => return None,
        };
        match kind {
            StorageFull | QuotaExceeded => Some(
                "make room, then run the command again; a run that was begun goes on from its last \
                 checkpoint with `maxitive resume`",
            ),
            NotFound if is_write => Some(
                "its folder was removed or renamed meanwhile; give it back its name, and a run that \
                 was begun goes on from its last checkpoint with `maxitive resume`",
            ),
            _ => None,
        }
    }

    pub(crate) fn setting(field: &str, problem: impl Into<String>) -> Self {
        Self::Setting {
            field: field.into(),
            problem: problem.into(),
        }
    }

    /// For a config that came from there.
    pub(crate) fn config(origin: &str) -> impl Fn(String) -> Self {
        let origin = origin.to_owned();
        move |problem| Self::Config {
            origin: origin.clone(),
            problem,
        }
    }

    pub(crate) fn no_run(directory: &Path) -> Self {
        let path = directory.into();
        Self::NoRun { path }
    }

    pub(crate) fn malformed(path: &Path, problem: impl ToString) -> Self {
        Self::Malformed {
            path: path.into(),
            problem: problem.to_string(),
        }
    }

    pub(crate) fn file(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File {
            path,
            action,
            source,
        }
    }

    /// Whether the person who asked can repair it: a mistake in the config, the arguments or the
    /// data. A full disk is none.
    pub fn is_mistake(&self) -> bool {
        use std::io::ErrorKind::{
            AlreadyExists, InvalidData, InvalidFilename, InvalidInput, IsADirectory, NotADirectory,
            NotFound, PermissionDenied, ReadOnlyFilesystem,
        };
        let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(self);
        while let Some(error) = cause {
            if let Some(error) = error.downcast_ref::<std::io::Error>() {
                return matches!(
                    error.kind(),
                    AlreadyExists
                        | InvalidData
                        | InvalidFilename
                        | InvalidInput
                        | IsADirectory
                        | NotADirectory
                        | NotFound
                        | PermissionDenied
                        | ReadOnlyFilesystem
                );
            }
            cause = error.source();
        }
        let is_broken = matches!(
            self,
            Self::Panic(_) | Self::Engine(engine::Error::Device(_))
        );
        !is_broken && !self.is_divergence()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn a_full_disk_and_a_vanished_folder_say_how_to_go_on() {
        let file = |kind: io::ErrorKind, action| {
            let error = Error::file(Path::new("x"), action)(kind.into());
            error.with_causes()
        };
        for (kind, action, words) in [
            (io::ErrorKind::StorageFull, "written", "make room, then"),
            (io::ErrorKind::QuotaExceeded, "created", "make room, then"),
            (io::ErrorKind::NotFound, "written", "removed or renamed"),
        ] {
            let message = file(kind, action);
            assert!(message.contains(words), "{message}");
            assert!(message.ends_with("with `maxitive resume`"), "{message}");
        }
        assert!(!file(io::ErrorKind::NotFound, "read").contains("resume"));
    }

    #[test]
    fn a_full_disk_is_nobodys_mistake() {
        let file = |kind: io::ErrorKind| Error::file(Path::new("x"), "written")(kind.into());
        assert!(file(io::ErrorKind::PermissionDenied).is_mistake());
        assert!(!file(io::ErrorKind::StorageFull).is_mistake());
        let record = Error::Record(evaluation::RecordError::File {
            path: "x".into(),
            source: io::ErrorKind::StorageFull.into(),
        });
        assert!(!record.is_mistake());
        assert!(Error::setting("seed", "too large").is_mistake());
        assert!(!Error::Panic("oh".into()).is_mistake());
    }
}
