//! `maxitive reproduce`: an experiment of the paper by its name.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use datasets::{Library, Part};
use evaluation::record::RunRecord;
use experiment::run::Run;
use experiment::{Stop, Sweep, preset};
use serde_json::json;

use crate::commands::sweep::{GridArgs, execute_sweep};
use crate::many::{self, ManyArgs, print_status};
use crate::paper_layout;
use crate::slurm::{SlurmArgs, Work};
use crate::tables;
use crate::training::{self, TrainingArgs};
use crate::user_error::{UserError, unknown};

/// Reproduce a table of the paper: train its rows, evaluate them, and set the results beside the
/// paper's.
///
/// Ends with a table and DIR/report.html. Out-of-domain sets that are not there are left out and
/// named. Interrupted, the same command goes on.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Experiments:
  fmnist                 the Fashion-MNIST block of the main table: LeNet, eleven rows
  cifar10, cifar100      the other two blocks: ResNet-20 and DenseNet-121
  ablation-vartheta, ablation-gamma-upper, ablation-beta3-upper, ablation-gamma-lower, ablation-beta3-lower
                         the appendix's ablations, LeNet on Fashion-MNIST
  mc-dropout             CBOpt combined with Monte Carlo dropout
  possibilistic          beyond the paper: what the weights still allow to be said, all rows of fmnist
  runtime                seconds per epoch and memory, one run at a time whatever --jobs says

Examples:
  maxitive reproduce fmnist
  maxitive reproduce fmnist --seeds 1 --epochs 10 --out trial
  maxitive reproduce --status trial
  maxitive reproduce fmnist --paper-layout paper
  maxitive reproduce cifar10 --slurm --gpus 1 --time 4h --out /shared/cifar10
  maxitive reproduce ablation-vartheta --data-dir ~/data")]
pub struct ReproduceArgs {
    /// Name of the experiment
    #[arg(
        value_name = "EXPERIMENT",
        required_unless_present = "status",
        conflicts_with = "status"
    )]
    experiment: Option<String>,
    #[command(flatten)]
    extent: ExtentArgs,
    /// Folder of the runs and the report; by default maxitive-EXPERIMENT
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Also write the paper's own tables into this folder, as LaTeX and Markdown with its numbers
    /// below ours, and its figures as SVG and PDF
    #[arg(long, value_name = "DIR", conflicts_with_all = ["status", "list", "shard", "slurm"])]
    paper_layout: Option<PathBuf>,
    #[command(flatten)]
    many: ManyArgs,
    #[command(flatten)]
    grid: GridArgs,
    #[command(flatten)]
    slurm: SlurmArgs,
}

/// How many runs of what length.
#[derive(Debug, Clone, Copy, Args)]
pub struct ExtentArgs {
    /// Seeds 0 to N-1 instead of 0 to 2
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    seeds: Option<u16>,
    /// Epochs; what is counted in epochs is shortened likewise
    #[arg(long, value_name = "E", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    epochs: Option<u32>,
}

impl ExtentArgs {
    /// The arguments for another process.
    fn arguments(self) -> Vec<OsString> {
        let seeds = self.seeds.map(|n| ["--seeds".into(), n.to_string().into()]);
        let epochs = self
            .epochs
            .map(|n| ["--epochs".into(), n.to_string().into()]);
        seeds.into_iter().chain(epochs).flatten().collect()
    }

    /// The experiment of this name with these settings and this extent.
    ///
    /// # Errors
    /// A setting that is refused.
    pub fn sweep(self, name: &str, settings: &[String]) -> anyhow::Result<Sweep> {
        let sweep = preset::sweep(name, settings).map_err(|error| {
            let sets_epochs = settings.iter().any(|text| text.starts_with("train.epochs"));
            let hint = "--epochs shortens what is counted in epochs likewise";
            if sets_epochs {
                UserError::new(format!("{}; {hint}", error.with_causes())).into()
            } else {
                training::error(error)
            }
        });
        let mut sweep = sweep?;
        self.apply(&mut sweep)?;
        Ok(sweep)
    }

    /// Changes the runs of a sweep.
    fn apply(self, sweep: &mut Sweep) -> anyhow::Result<()> {
        if let Some(seeds) = self.seeds {
            reseed(sweep, u64::from(seeds));
        }
        if let Some(epochs) = self.epochs {
            for run in sweep.runs_mut() {
                run.stretch(epochs as usize);
                run.check().map_err(training::error)?;
            }
        }
        Ok(())
    }
}

/// What can be reproduced.
pub fn experiments() -> impl Iterator<Item = &'static str> {
    preset::sweeps().filter(|&known| known != "quickstart")
}

/// Runs the command.
///
/// # Errors
/// An unknown experiment, data that are not there, a folder that cannot be written.
pub fn execute(args: ReproduceArgs) -> anyhow::Result<ExitCode> {
    let (grid, training) = (&args.grid, &args.grid.training);
    if let Some(folder) = &args.many.status {
        print_status(folder, training.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let name = args.experiment.as_deref().unwrap_or_default();
    if !experiments().any(|known| known == name) {
        let known: Vec<&str> = experiments().collect();
        return Err(UserError::new(unknown("experiment", name, known)).into());
    }
    let mut sweep = args.extent.sweep(name, &grid.settings)?;
    if args.many.answer(&sweep, training.json)? {
        return Ok(ExitCode::SUCCESS);
    }
    let alone = name == "runtime";
    if alone && (args.many.shard.is_some() || args.slurm.is_asked()) {
        let problem = "runtime measures one run at a time; --shard and --slurm are for several";
        return Err(UserError::new(problem).into());
    }
    let library = training.compute.library();
    let left_out = keep_trainable(&mut sweep, &library)?;
    keep_available(&mut sweep, &library)?;
    let default = || PathBuf::from(format!("maxitive-{name}"));
    let out = args.out.clone().unwrap_or_else(default);
    if args.slurm.is_asked() {
        let mut command: Vec<OsString> = vec!["reproduce".into(), name.into()];
        command.extend(args.extent.arguments());
        let work = Work {
            command,
            sweep: &sweep,
            out: &out,
            grid,
        };
        args.slurm.submit(&work)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (records, code) = if alone {
        one_process_each(&sweep, &out, training)?
    } else {
        execute_sweep(&sweep, &out, &library, grid, args.many.shard)?
    };
    conclude(&records, None, &out, training)?;
    if let Some(folder) = &args.paper_layout
        && !records.is_empty()
    {
        paper_layout::write(&paper_layout::draw(&records)?, folder)?;
        if training.json {
            let event = json!({"event": "paper-layout", "path": folder});
            writeln!(io::stdout(), "{event}")?;
        } else if training.advises() {
            writeln!(
                io::stderr(),
                "The paper's tables and figures are in {}",
                folder.display()
            )?;
        }
    }
    Ok(if left_out > 0 && code == ExitCode::SUCCESS {
        ExitCode::FAILURE
    } else {
        code
    })
}

/// The report and the table of a finished sweep; the note goes under the report's title.
///
/// # Errors
/// The report cannot be written.
pub fn conclude(
    records: &[RunRecord],
    note: Option<&str>,
    out: &Path,
    training: &TrainingArgs,
) -> anyhow::Result<()> {
    if records.is_empty() {
        return Ok(());
    }
    let report = out.join("report.html");
    tables::write_report(records, note, &report)?;
    if training.json {
        let event = json!({"event": "report", "path": report});
        writeln!(io::stdout(), "{event}")?;
    } else {
        tables::print(records)?;
        let mut out = io::stdout();
        write!(out, "{}", tables::runtime(records))?;
        write!(out, "{}", tables::comparison(records))?;
    }
    if training.advises() {
        writeln!(io::stderr(), "The report is {}", report.display())?;
    }
    Ok(())
}

/// The runs of the first seed, with the seeds 0 to n-1.
fn reseed(sweep: &mut Sweep, seeds: u64) {
    let runs = std::mem::take(sweep.runs_mut());
    let first = runs.first().map_or(0, |run| run.seed);
    for run in runs.into_iter().filter(|run| run.seed == first) {
        for seed in 0..seeds {
            let mut run = run.clone();
            run.seed = seed;
            sweep.runs_mut().push(run);
        }
    }
}

/// Takes runs out whose datasets are not there, as long as others are left, and names the datasets
/// once; how many runs.
///
/// # Errors
/// No dataset to train on is there, or something is wrong with one that is.
fn keep_trainable(sweep: &mut Sweep, library: &Library) -> anyhow::Result<usize> {
    let mut missing: Vec<(String, datasets::Error)> = Vec::new();
    for run in sweep.runs() {
        let dataset = &run.data.dataset;
        for part in [Part::Train, Part::Test] {
            if missing.iter().any(|(name, _)| name == dataset) {
                break;
            }
            match library.load(dataset, part) {
                Ok(_) => {}
                Err(error @ datasets::Error::NotFound { .. }) => {
                    missing.push((dataset.clone(), error));
                }
                Err(error) => return Err(training::error(error.into())),
            }
        }
    }
    let all = sweep.runs().len();
    let is_missing = |name: &str| missing.iter().any(|(missing, _)| missing == name);
    sweep
        .runs_mut()
        .retain(|run| !is_missing(&run.data.dataset));
    if sweep.runs().is_empty()
        && let Some((_, error)) = missing.pop()
    {
        return Err(training::error(error.into()));
    }
    for (name, _) in &missing {
        writeln!(
            io::stderr(),
            "{name} is not here, runs on it are left out; get it with: maxitive data fetch {name}"
        )?;
    }
    Ok(all - sweep.runs().len())
}

/// Takes out-of-domain sets that are not there out of the runs and names them once.
///
/// # Errors
/// Something is wrong with a set that is there.
fn keep_available(sweep: &mut Sweep, library: &Library) -> anyhow::Result<()> {
    let mut missing: Vec<String> = Vec::new();
    for run in sweep.runs_mut() {
        let mut kept = Vec::new();
        for name in std::mem::take(&mut run.data.out_of_domain) {
            if missing.contains(&name) {
                continue;
            }
            match library.load(&name, Part::Test) {
                Ok(_) => kept.push(name),
                Err(datasets::Error::NotFound { .. }) => {
                    writeln!(
                        io::stderr(),
                        "{name} is not here and is left out; get it with: maxitive data fetch {name}"
                    )?;
                    missing.push(name);
                }
                Err(error) => return Err(training::error(error.into())),
            }
        }
        run.data.out_of_domain = kept;
    }
    Ok(())
}

/// One process per run, one after another, so that the peak memory is the run's own.
fn one_process_each(
    sweep: &Sweep,
    out: &Path,
    training: &TrainingArgs,
) -> anyhow::Result<(Vec<RunRecord>, ExitCode)> {
    let stop = training.stop()?;
    let program = std::env::current_exe().context("the program does not find itself")?;
    sweep.list(out).map_err(training::error)?;
    let mut records = Vec::new();
    let mut code = ExitCode::SUCCESS;
    for (done, config) in sweep.runs().iter().enumerate() {
        let name = config.run_name();
        let directory = out.join(&name);
        let run = Run::open_or_create(&directory, config.clone()).map_err(training::error)?;
        let mut command = Command::new(&program);
        command.arg("resume").arg(&directory);
        command.args(training.arguments());
        if !training.json {
            command.stdout(Stdio::null());
            command.args((!training.quiet).then_some("--quiet"));
        }
        // where it is not the GPU that is there, whoever computes says why
        let device = training.compute.device;
        let name = device.fallback().map_or(device.name(), |_| "auto");
        command.args(["--device", name]);
        if let Some(threads) = training.compute.threads {
            command.args(["--threads", &threads.to_string()]);
        }
        if let Some(left) = stop.left() {
            command.args(["--within", &left.as_secs().max(1).to_string()]);
        }
        if training.advises() {
            writeln!(io::stderr(), "{name}")?;
        }
        let status = wait(command.spawn()?, &stop)?;
        match run.record().map_err(training::error)? {
            Some(record) if status.success() => records.push(record),
            _ if stop.is_raised() || status.code() == Some(training::TIME_IS_OVER.into()) => {
                let left = many::left(sweep.runs().len() - done);
                writeln!(
                    io::stderr(),
                    "{}{left}; the same command goes on",
                    training::reason(&stop)
                )?;
                return Ok((records, training::stopped(&stop)));
            }
            _ => {
                writeln!(io::stderr(), "{name} failed")?;
                code = ExitCode::FAILURE;
            }
        }
    }
    Ok((records, code))
}

/// Waits for a process. When this one is asked to stop, the other one has heard it too, or else is
/// ended: a run resumes from any moment.
fn wait(mut child: Child, stop: &Stop) -> io::Result<ExitStatus> {
    let mut patience: u32 = 100;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if stop.is_raised() {
            if patience == 0 {
                child.kill()?;
            }
            patience = patience.saturating_sub(1);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// What is set beside the paper's numbers is found by experiment and row: every row the paper
    /// prints is trained by an experiment that can be reproduced by its name.
    #[test]
    fn every_row_of_the_paper_is_trained() {
        let mut trained = BTreeSet::new();
        let mut add = |run: &experiment::RunConfig| {
            for row in &run.rows {
                trained.insert((run.experiment.clone(), row.row.clone()));
            }
        };
        for name in experiments() {
            let sweep = preset::sweep(name, &[]).unwrap();
            sweep.runs().iter().for_each(&mut add);
        }
        let mut rows = 0;
        for (experiment, row, ..) in report::paper::printed() {
            let key = (experiment.to_owned(), row.to_owned());
            assert!(trained.contains(&key), "{key:?} is in no experiment");
            rows += 1;
        }
        assert!(rows > 500, "{rows}");
    }

    #[test]
    fn the_extent_of_an_experiment_can_be_chosen() {
        let extent = ExtentArgs {
            seeds: Some(2),
            epochs: Some(10),
        };
        let sweep = extent.sweep("fmnist", &["train.batch=64".into()]).unwrap();
        assert_eq!(sweep.runs().len(), 18);
        for run in sweep.runs() {
            assert!(run.seed < 2);
            assert_eq!((run.train.epochs, run.train.batch), (10, 64));
            if let Some(swag) = &run.swag {
                assert_eq!(swag.start, 6);
            }
        }
    }
}
