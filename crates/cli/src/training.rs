//! What the commands that train have in common: arguments, interruption, errors.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Once;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use datasets::Library;
use engine::Device;
use experiment::Stop;
#[cfg(unix)]
use signal_hook::{consts::signal, iterator::Signals};

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

    /// The arguments that decide on the data, for another process.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        if let Some(data) = &self.data_dir {
            arguments.extend(["--data-dir".into(), data.into()]);
        }
        if self.unverified {
            arguments.push("--unverified".into());
        }
        arguments
    }

    /// Threads in all.
    pub fn threads(&self) -> usize {
        self.threads.map_or_else(
            || std::thread::available_parallelism().map_or(1, |n| n.get().min(64)),
            usize::from,
        )
    }

    /// The device with all threads. Where it is not the GPU that is there, standard error has why.
    pub fn device(&self) -> Device {
        tell_fallback(&self.device);
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
    /// Stop and save in so much time, such as 9m or 1h30m, and begin no run that could not end in
    /// it; where something is left, the exit code is 75 and the message says how to go on
    #[arg(long, value_name = "TIME", value_parser = within)]
    pub within: Option<Within>,
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

    /// The arguments for another process that trains likewise; where and how long it does is left
    /// out.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut arguments = self.compute.arguments();
        let seconds = self.checkpoint_seconds.to_string();
        arguments.extend(["--checkpoint-seconds".into(), seconds.into()]);
        let switches = [(self.quiet, "--quiet"), (self.json, "--json")];
        let switches = switches.into_iter().filter(|(is_set, _)| *is_set);
        arguments.extend(switches.map(|(_, switch)| switch.into()));
        arguments
    }

    /// The command that goes on with the run in a folder, with the arguments that decide on the
    /// data.
    pub fn resume_command(&self, folder: &Path) -> String {
        let mut command = format!("maxitive resume {}", quoted(folder));
        for argument in self.compute.arguments() {
            command.push_str(&format!(" {}", quoted(Path::new(&argument))));
        }
        if !self.compute.device.is_cpu() {
            command.push_str(&format!(" --device {}", self.compute.device.name()));
        }
        if let Some(within) = &self.within {
            command.push_str(&format!(" --within {}", within.text));
        }
        command
    }

    /// A stop that signals and the end of the time raise.
    ///
    /// # Errors
    /// If the system refuses the handler.
    pub fn stop(&self) -> anyhow::Result<Stop> {
        stop(self.within.as_ref())
    }

    /// How progress is shown.
    pub fn progress(&self, runs: usize) -> Progress {
        progress(self.json, self.quiet, runs)
    }
}

/// A stop that signals and the end of the time raise.
///
/// # Errors
/// If the system refuses the handler.
pub fn stop(within: Option<&Within>) -> anyhow::Result<Stop> {
    let stop = Stop::default();
    stop_on_signals(stop.clone())?;
    Ok(match within {
        Some(within) => stop.within(within.left()),
        None => stop,
    })
}

/// Progress of so many runs, shown as the arguments say.
pub fn progress(json: bool, quiet: bool, runs: usize) -> Progress {
    let mode = match (json, quiet) {
        (true, _) => Mode::Json,
        (_, true) => Mode::Quiet,
        _ => Mode::Human,
    };
    Progress::new(mode, runs)
}

/// The device of this name.
pub fn device(name: &str) -> Result<Device, String> {
    Device::by_name(name).map_err(|error| error.to_string())
}

/// Says once why the fastest device is not the GPU that is there.
pub fn tell_fallback(device: &Device) {
    static TOLD: Once = Once::new();
    if let Some(problem) = device.fallback() {
        // nothing is left to do if standard error is closed
        TOLD.call_once(|| {
            let note = format!("note: --device auto takes the processor: {problem}");
            let _ = writeln!(io::stderr(), "{note}");
        });
    }
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
pub fn seconds(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|&seconds: &f64| seconds >= 0.0)
        .ok_or_else(|| "not a number of seconds from 0 on".to_owned())
}

/// A time limit, from when the arguments were read.
#[derive(Debug, Clone)]
pub struct Within {
    /// As it was given.
    text: String,
    whole: Duration,
    from: Instant,
}

impl Within {
    /// All of it, in seconds.
    pub fn seconds(&self) -> u64 {
        self.whole.as_secs()
    }

    /// What is left of it.
    fn left(&self) -> Duration {
        self.whole.saturating_sub(self.from.elapsed())
    }
}

/// Hours, minutes and seconds: `9m`, `1h30m`, `45s`; a number alone is of seconds.
pub fn within(text: &str) -> Result<Within, String> {
    let problem = || "not a time such as 9m, 1h30m or 45s".to_owned();
    let (mut seconds, mut number) = (0u64, String::new());
    for letter in text
        .chars()
        .chain(text.ends_with(|c: char| c.is_ascii_digit()).then_some('s'))
    {
        let unit = match letter {
            '0'..='9' => {
                number.push(letter);
                continue;
            }
            'h' => 3600,
            'm' => 60,
            's' => 1,
            _ => return Err(problem()),
        };
        let count: u64 = number.parse().map_err(|_| problem())?;
        let more = count
            .checked_mul(unit)
            .and_then(|more| seconds.checked_add(more));
        seconds = more.ok_or_else(problem)?;
        number.clear();
    }
    if seconds == 0 {
        return Err(problem());
    }
    Ok(Within {
        text: text.to_owned(),
        whole: Duration::from_secs(seconds),
        from: Instant::now(),
    })
}

/// The signal that stopped the program, 0 for none.
static SIGNAL: AtomicU8 = AtomicU8::new(0);

/// A signal's number and name.
const INTERRUPT: (u8, &str) = (2, "Ctrl-C");

/// Signals that save and stop. The last is what a scheduler sends before its time limit.
#[cfg(unix)]
const SIGNALS: [(u8, &str); 4] = [
    INTERRUPT,
    (signal::SIGTERM as u8, "SIGTERM"),
    (signal::SIGHUP as u8, "SIGHUP"),
    (signal::SIGUSR1 as u8, "SIGUSR1"),
];

/// Raises the stop on a signal; a second one ends the process at once.
fn stop_on_signals(raised: Stop) -> anyhow::Result<()> {
    on_signals(move |(number, name)| {
        if raised.is_asked() {
            std::process::exit(exit_code(number).into());
        }
        SIGNAL.store(number, Ordering::Relaxed);
        raised.raise();
        // an evaluation may take a while; nothing is left to do if standard error is closed
        let _ = writeln!(
            io::stderr(),
            "Stopping ({name}); a second signal ends the program at once"
        );
    })
}

/// Calls back from a thread of its own, once per signal. A hangup that is ignored, as `nohup` has
/// it, stays so.
#[cfg(unix)]
fn on_signals(handle: impl Fn((u8, &str)) + Send + 'static) -> anyhow::Result<()> {
    let wanted = SIGNALS.map(|(number, _)| i32::from(number));
    let wanted = wanted.into_iter();
    let mut signals = Signals::new(
        wanted.filter(|&number| number != signal::SIGHUP || !is_ignored(signal::SIGHUP)),
    )?;
    let wait = move || {
        for number in signals.forever() {
            let found = SIGNALS
                .iter()
                .find(|(other, _)| i32::from(*other) == number);
            found.into_iter().for_each(|signal| handle(*signal));
        }
    };
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(wait)?;
    Ok(())
}

#[cfg(not(unix))]
fn on_signals(handle: impl Fn((u8, &str)) + Send + 'static) -> anyhow::Result<()> {
    ctrlc::set_handler(move || handle(INTERRUPT))?;
    Ok(())
}

/// Whether the program was started with a signal ignored, where the system tells.
#[cfg(unix)]
fn is_ignored(number: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (number - 1) & 1 == 1)
}

/// The exit code of a command whose time is over while something is left to do: as the system has
/// it for what is to be tried again.
pub const TIME_IS_OVER: u8 = 75;

/// The exit code of a command that a signal stopped, as shells have it; before a scheduler's time
/// limit there is something left to do.
fn exit_code(signal: u8) -> u8 {
    #[cfg(unix)]
    if i32::from(signal) == signal::SIGUSR1 {
        return TIME_IS_OVER;
    }
    128 + signal
}

/// The exit code of a command that was stopped: by a signal, or by the clock.
pub fn stopped(stop: &Stop) -> ExitCode {
    ExitCode::from(if stop.is_asked() {
        exit_code(SIGNAL.load(Ordering::Relaxed))
    } else {
        TIME_IS_OVER
    })
}

/// Why a command stopped, for the beginning of a message.
pub fn reason(stop: &Stop) -> &'static str {
    if stop.is_asked() {
        ""
    } else {
        "Time is over and all is saved. "
    }
}

/// An error of an experiment: a mistake of the user's or a failure.
pub fn error(error: experiment::Error) -> anyhow::Error {
    if error.is_mistake() {
        UserError::new(error.with_causes()).into()
    } else if error.advice().is_some() {
        anyhow::Error::msg(error.with_causes())
    } else {
        error.into()
    }
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
    fn times_have_units() {
        let seconds = |text: &str| within(text).map(|within| within.whole.as_secs());
        for (text, want) in [
            ("9m", 540),
            ("1h30m", 5400),
            ("45s", 45),
            ("90", 90),
            ("2m5", 125),
        ] {
            assert_eq!(seconds(text), Ok(want), "{text}");
        }
        for text in [
            "",
            "0",
            "m",
            "-5s",
            "9 m",
            "1.5h",
            "9d",
            "99999999999999999999s",
        ] {
            assert!(seconds(text).is_err(), "{text}");
        }
        let most = format!("{}h", u64::MAX);
        assert_eq!(
            seconds(&most),
            Err("not a time such as 9m, 1h30m or 45s".into())
        );
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
