//! Damages files and reads them, as often as is asked.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use fuzz::{TARGETS, Target, execute, mutate, words};

const USAGE: &str =
    "usage: fuzz [TARGET...] [--executions N] [--seconds S] [--seed N] [--corpus FOLDER]";

struct Options {
    targets: Vec<Target>,
    executions: u64,
    seconds: f64,
    seed: u32,
    /// Where the valid files are to be written, and nothing else done.
    corpus: Option<PathBuf>,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        targets: Vec::new(),
        executions: 100_000,
        seconds: f64::INFINITY,
        seed: 0,
        corpus: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || {
            let text = words.next().unwrap_or_default();
            let number: Option<f64> = text.parse().ok().filter(|n: &f64| *n >= 0.0);
            number.ok_or_else(|| format!("{word} \"{text}\": expected a number from 0"))
        };
        match word.as_str() {
            "--corpus" => options.corpus = words.next().map(PathBuf::from),
            "--executions" => options.executions = number()? as u64,
            "--seconds" => options.seconds = number()?,
            "--seed" => options.seed = number()? as u32,
            name => options.targets.push(Target::by_name(name).ok_or_else(|| {
                let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
                format!(
                    "no target \"{name}\"; there are {}\n{USAGE}",
                    known.join(", ")
                )
            })?),
        }
    }
    if options.targets.is_empty() {
        options.targets = TARGETS.to_vec();
    }
    Ok(options)
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(2);
        }
    };
    if let Some(folder) = &options.corpus {
        return match write_corpus(folder, &options.targets) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("{}: {error}", folder.display());
                ExitCode::FAILURE
            }
        };
    }
    // what is caught need not be told twice
    std::panic::set_hook(Box::new(|_| {}));
    println!("target     executions   accepted   per second   slowest ms   most bytes");
    for target in &options.targets {
        if let Err(problem) = run(*target, &options) {
            eprintln!("{}: {problem}", target.name);
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn run(target: Target, options: &Options) -> Result<(), String> {
    let files = target.files().map_err(|error| error.to_string())?;
    for file in &files {
        let seen = execute(target, file).map_err(|problem| keep(target, file, &problem))?;
        if !seen.accepted {
            return Err(keep(target, file, "a valid file is refused"));
        }
    }
    let mut random = words(options.seed);
    let (mut done, mut accepted, mut slowest, mut most) = (0u64, 0u64, 0.0f64, 0u64);
    let start = Instant::now();
    while done < options.executions && start.elapsed().as_secs_f64() < options.seconds {
        let input = mutate(&files, &mut random);
        let timed = || {
            let began = Instant::now();
            let seen = execute(target, &input).map_err(|problem| keep(target, &input, &problem))?;
            Ok::<_, String>((seen, began.elapsed().as_secs_f64()))
        };
        let (seen, mut seconds) = timed()?;
        // waiting for a processor is no slowness of the reader: the best of six
        for _ in 0..5 {
            if seconds > slowest {
                seconds = seconds.min(timed()?.1);
            }
        }
        slowest = slowest.max(seconds);
        done += 1;
        accepted += u64::from(seen.accepted);
        most = most.max(seen.bytes);
    }
    let rate = done as f64 / start.elapsed().as_secs_f64();
    let (name, slowest) = (target.name, 1e3 * slowest);
    println!("{name:9} {done:11} {accepted:10} {rate:12.0} {slowest:12.1} {most:12}");
    Ok(())
}

/// Writes the valid files, a folder for each reader.
fn write_corpus(folder: &Path, targets: &[Target]) -> std::io::Result<()> {
    for target in targets {
        let folder = folder.join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (number, file) in target.files()?.iter().enumerate() {
            std::fs::write(folder.join(number.to_string()), file)?;
        }
    }
    Ok(())
}

/// Keeps an input that did something wrong, and says where.
fn keep(target: Target, input: &[u8], problem: &str) -> String {
    let path = std::env::temp_dir().join(format!("maxitive-fuzz-{}", target.name));
    match std::fs::write(&path, input) {
        Ok(()) => format!("{problem}; the input is {}", path.display()),
        Err(error) => format!("{problem}; {}: {error}", path.display()),
    }
}
