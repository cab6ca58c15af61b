//! `--slurm`: a sweep as one array job of Slurm.
//!
//! The tasks of the array are all alike: each takes runs that no other has until none is left, as
//! processes on one machine do. A task whose time is over saves, exits with 75 and is queued again
//! by its own script.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use clap::Args;
use experiment::Sweep;
use experiment::files::write_atomically;
use experiment::status::{State, status};
use serde_json::json;

use crate::commands::sweep::GridArgs;
use crate::many;
use crate::training::{self, TIME_IS_OVER, Within, quoted};
use crate::user_error::UserError;

/// What a job of Slurm needs.
#[derive(Debug, Args)]
#[command(next_help_heading = "Slurm")]
pub struct SlurmArgs {
    /// Submit one array job instead of training here; its tasks share the runs
    #[arg(long, conflicts_with_all = ["status", "list", "shard", "restart", "within"])]
    slurm: bool,
    /// Print the job's script instead of submitting it
    #[arg(long, requires = "slurm")]
    print: bool,
    /// Tasks of the array; by default as many as --array-parallelism says, or 8; never more than
    /// runs
    #[arg(long, value_name = "N", requires = "slurm", value_parser = clap::value_parser!(u16).range(1..=1000))]
    tasks: Option<u16>,
    /// Most tasks at a time
    #[arg(long, value_name = "N", requires = "slurm", value_parser = clap::value_parser!(u16).range(1..=1000))]
    array_parallelism: Option<u16>,
    /// Time limit of a task, such as 2h or 1h30m, in whole minutes; before it is over the task
    /// saves and is queued again
    #[arg(long, value_name = "TIME", requires = "slurm", value_parser = training::within)]
    time: Option<Within>,
    /// Partition of the job
    #[arg(long, value_name = "P", requires = "slurm", value_parser = word)]
    partition: Option<String>,
    /// GPU of a task: 1, or its type as in a100:1. Without it a task trains on its processors, of
    /// which --threads says how many
    #[arg(long, value_name = "[TYPE:]1", requires = "slurm", value_parser = gpu)]
    gpus: Option<String>,
    /// Another option for sbatch, such as --account=lab; can be repeated
    #[arg(long = "sbatch-arg", value_name = "ARG", requires = "slurm", allow_hyphen_values = true, value_parser = option)]
    sbatch_args: Vec<String>,
}

/// Names as Slurm has them.
fn word(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-,+".contains(c);
    match !text.is_empty() && !text.starts_with('-') && text.chars().all(plain) {
        true => Ok(text.to_owned()),
        false => Err("not a name: letters, digits, '.', '_', '-', '+', ','".into()),
    }
}

fn gpu(text: &str) -> Result<String, String> {
    let (kind, count) = text.rsplit_once(':').unwrap_or(("any", text));
    match (word(kind), count) {
        (Ok(_), "1") => Ok(text.to_owned()),
        (Ok(_), _) => {
            Err("a task trains on one GPU: 1 or TYPE:1; for more, ask for more --tasks".into())
        }
        (Err(_), _) => Err("not of the form 1 or TYPE:1".into()),
    }
}

/// An option of sbatch on a line of its own.
fn option(text: &str) -> Result<String, String> {
    let long = text.strip_prefix("--").is_some_and(|rest| !rest.is_empty());
    let short = text.len() > 1 && text.starts_with('-') && !text.starts_with("--");
    match (long || short) && !text.contains(char::is_control) {
        true => Ok(text.to_owned()),
        false => Err("not an option of sbatch such as --account=lab".into()),
    }
}

/// What is trained: the arguments of the program, and where.
pub struct Work<'a> {
    /// The command and what it is about, without the folder.
    pub command: Vec<OsString>,
    /// The runs.
    pub sweep: &'a Sweep,
    /// Folder of the runs.
    pub out: &'a Path,
    /// How they are trained.
    pub grid: &'a GridArgs,
}

impl SlurmArgs {
    /// Whether a job is asked for.
    pub fn is_asked(&self) -> bool {
        self.slurm
    }

    /// Prints the script, or writes it into the folder of the runs and submits it.
    ///
    /// # Errors
    /// A path that a script cannot hold, no Slurm, a job that it refuses.
    pub fn submit(&self, work: &Work<'_>) -> anyhow::Result<()> {
        let out = std::path::absolute(work.out)?;
        let script = self.script(work, &out)?;
        if self.print {
            io::stdout().write_all(script.as_bytes())?;
            return Ok(());
        }
        work.sweep.list(&out).map_err(training::error)?;
        let runs = status(&out).map_err(training::error)?;
        if runs.iter().all(|run| run.state == State::Finished) {
            writeln!(
                io::stderr(),
                "Nothing is left to do: {}",
                many::summary(&runs)
            )?;
            return Ok(());
        }
        let path = out.join(FOLDER).join("job.sh");
        std::fs::create_dir_all(out.join(FOLDER))
            .with_context(|| format!("{}: cannot be created", out.join(FOLDER).display()))?;
        write_atomically(&path, script.as_bytes()).map_err(training::error)?;
        let job = sbatch(&path)?;
        let tasks = self.tasks(work.sweep);
        if work.grid.training.json {
            let event = json!({"event": "submitted", "job": job, "tasks": tasks, "script": path});
            writeln!(io::stdout(), "{event}")?;
        } else {
            writeln!(io::stdout(), "{job}")?;
        }
        if work.grid.training.advises() {
            writeln!(
                io::stderr(),
                "Job {job} is submitted: {tasks} tasks, {}. Its logs and its script are in {}; see \
                 how it goes with: maxitive sweep --status {}",
                many::summary(&runs),
                out.join(FOLDER).display(),
                quoted(work.out)
            )?;
        }
        Ok(())
    }

    /// Tasks of the array.
    fn tasks(&self, sweep: &Sweep) -> usize {
        let wanted = self.tasks.or(self.array_parallelism).unwrap_or(8);
        usize::from(wanted).min(sweep.runs().len()).max(1)
    }

    /// The whole script; the folder is absolute.
    fn script(&self, work: &Work<'_>, out: &Path) -> anyhow::Result<String> {
        let tasks = self.tasks(work.sweep);
        let mut options = self.options(work, out, tasks)?;
        let (signal, within) = self.times();
        options.push(format!("--signal=B:USR1@{signal}"));
        let program = std::env::current_exe().context("the program does not find itself")?;
        let mut command: Vec<OsString> = vec![program.into()];
        command.extend(work.command.iter().cloned());
        command.extend(["--out".into(), out.into()]);
        command.extend(work.grid.arguments());
        if self.gpus.is_some() {
            command.extend(["--device".into(), "cuda".into()]);
        }
        // as many as come to a task, so that none takes the work of all
        let together = work.sweep.runs().len().div_ceil(tasks).min(1000);
        command.extend(["--together".into(), together.to_string().into()]);
        if let Some(within) = within {
            command.extend(["--within".into(), format!("{within}s").into()]);
        }
        let mut line = Vec::new();
        for argument in command {
            line.push(quoted(Path::new(&text(Path::new(&argument))?)));
        }
        let line = line.join(" ");
        let folder = std::env::current_dir().context("the folder cannot be found")?;
        let folder = quoted(Path::new(&text(&folder)?));
        let options: String = options.iter().map(|o| format!("#SBATCH {o}\n")).collect();
        Ok(format!(
            r#"#!/bin/bash
{options}
# A task takes runs that no other has until none is left. When its time is over it saves and ends
# with {TIME_IS_OVER}, and is queued again.
cd {folder} || exit 1
threads=${{SLURM_CPUS_ON_NODE:-1}}
[ "$threads" -le 64 ] || threads=64
task=
trap '[ -z "$task" ] || kill -USR1 "$task" 2>/dev/null' USR1
trap '[ -z "$task" ] || kill -TERM "$task" 2>/dev/null' TERM
{line} --threads "$threads" &
task=$!
# a signal ends the waiting, not the task
while wait "$task"; kill -0 "$task" 2>/dev/null; do :; done
wait "$task"
code=$?
if [ "$code" -eq {TIME_IS_OVER} ]; then
    exec scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
"#
        ))
    }

    /// What sbatch is told; the time of the signal is left out.
    fn options(&self, work: &Work<'_>, out: &Path, tasks: usize) -> anyhow::Result<Vec<String>> {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || "._-".contains(c) {
                c
            } else {
                '_'
            }
        };
        let name: String = work.sweep.name().chars().map(plain).collect();
        let most = self
            .array_parallelism
            .map_or(String::new(), |most| format!("%{most}"));
        let mut options = vec![
            format!("--job-name=maxitive-{name}"),
            format!("--array=0-{}{most}", tasks - 1),
            "--ntasks=1".into(),
            "--requeue".into(),
            "--open-mode=append".into(),
            log(out)?,
        ];
        if let Some(threads) = work.grid.training.compute.threads {
            options.push(format!("--cpus-per-task={threads}"));
        }
        if let Some(time) = &self.time {
            options.push(format!("--time={}", time.seconds().div_ceil(60)));
        }
        if let Some(partition) = &self.partition {
            options.push(format!("--partition={partition}"));
        }
        if let Some(gpus) = &self.gpus {
            options.push(format!("--gpus={gpus}"));
        }
        options.extend(self.sbatch_args.iter().map(|option| directive(option)));
        Ok(options)
    }

    /// Seconds before the end at which Slurm sends its signal, which may come a minute early, and
    /// the time within which the task ends by itself, a minute before that.
    fn times(&self) -> (u64, Option<u64>) {
        let Some(time) = &self.time else {
            return (120, None);
        };
        let limit = time.seconds().div_ceil(60) * 60;
        let signal = (limit / 4).min(120);
        (signal, Some(limit - signal - (limit / 4).min(60)))
    }
}

/// Folder of scripts and logs in that of the runs.
const FOLDER: &str = "slurm";

/// A path that a script can hold.
fn text(path: &Path) -> anyhow::Result<String> {
    match path
        .to_str()
        .filter(|text| !text.contains(char::is_control))
    {
        Some(text) => Ok(text.to_owned()),
        None => {
            let problem = format!(
                "{}: --slurm takes no such path, only plain text",
                path.display()
            );
            Err(UserError::new(problem).into())
        }
    }
}

/// An option as sbatch reads it in a script: in double quotes where it is more than a word.
fn directive(option: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "/._-+=:,@%".contains(c);
    if option.chars().all(plain) {
        return option.to_owned();
    }
    let escaped = option.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

/// The option for the log of a task; percent signs are Slurm's, unless they are doubled.
fn log(out: &Path) -> anyhow::Result<String> {
    let path = text(&out.join(FOLDER))?;
    if path.contains('\\') {
        let problem =
            format!("{path}: --slurm takes no path with a backslash, as Slurm's logs do not");
        return Err(UserError::new(problem).into());
    }
    let path = path.replace('%', "%%");
    Ok(directive(&format!("--output={path}/%A_%a.log")))
}

/// Submits a script; the number of the job.
fn sbatch(script: &Path) -> anyhow::Result<String> {
    let output = Command::new("sbatch")
        .arg("--parsable")
        .arg(script)
        .stdin(Stdio::null())
        .output();
    let output = match output {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let problem = "there is no sbatch on this machine: --slurm needs Slurm's commands, and \
                           --print shows the script without them";
            return Err(UserError::new(problem).into());
        }
        output => output.context("sbatch cannot be started")?,
    };
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("sbatch refused the job: {}", why.trim());
    }
    let answer = String::from_utf8_lossy(&output.stdout);
    let job = answer.trim().split(';').next().unwrap_or_default();
    Ok(job.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked() {
        assert!(word("gpu-long,cpu").is_ok());
        for text in ["", "-p", "a b", "x;rm", "a\nb", "é"] {
            assert!(word(text).is_err(), "{text}");
        }
        assert!(gpu("1").is_ok() && gpu("a100:1").is_ok());
        for text in ["0", "2", "a100:4", "a100", ":1", "a b:1", ""] {
            assert!(gpu(text).is_err(), "{text}");
        }
        assert!(option("--account=my lab").is_ok() && option("-C").is_ok());
        for text in ["", "-", "--", "account=lab", "--x\n#SBATCH --y"] {
            assert!(option(text).is_err(), "{text}");
        }
    }

    #[test]
    fn logs_are_written_where_they_are_looked_for() {
        let log = |path: &str| log(Path::new(path)).unwrap();
        assert_eq!(log("/a/runs"), "--output=/a/runs/slurm/%A_%a.log");
        let odd = "\"--output=/my runs/5%%\\\"x\\\"/slurm/%A_%a.log\"";
        assert_eq!(log("/my runs/5%\"x\""), odd);
        assert_eq!(directive("--comment=a\\b"), "\"--comment=a\\\\b\"");
        assert!(super::log(Path::new("/a\\b")).is_err());
        assert!(super::log(Path::new("/a\nb")).is_err());
    }

    #[test]
    fn a_task_ends_before_the_signal_and_the_signal_before_the_limit() {
        for time in ["60", "2m", "10m", "2h", "90s"] {
            let args = SlurmArgs {
                slurm: true,
                print: false,
                tasks: None,
                array_parallelism: None,
                time: Some(training::within(time).unwrap()),
                partition: None,
                gpus: None,
                sbatch_args: Vec::new(),
            };
            let limit = training::within(time).unwrap().seconds().div_ceil(60) * 60;
            let (signal, within) = args.times();
            let within = within.unwrap();
            assert!(
                within >= 30 && signal >= 15 && within + signal < limit,
                "{time}"
            );
        }
    }
}
