//! `maxitive evaluate`: metrics of predictions that any program made.

use std::io::{self, Write};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use evaluation::record::Names;
use evaluation::{BootstrapConfig, CalibrationConfig, Scheme, Score};

use crate::files::{check_page, create_folder, write_atomically};
use crate::user_error::UserError;
use assessment::logits::LogitScore;
use assessment::{Assessment, Header, Inputs, Named, ScoreSource, Settings};

/// Evaluate predictions from files: accuracy, calibration, and detection of foreign inputs.
///
/// In-domain metrics compare probabilities with labels. Out-of-domain (OOD) metrics ask how well a
/// score of the prediction tells the test set from another set of inputs. Files are NPY, NPZ
/// (file.npz:name, or an array called like the option) or CSV with or without a header;
/// probabilities have the shape (images, classes), labels and scores (images); labels count from 0.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  maxitive evaluate --probs p.npy --labels y.npy
  maxitive evaluate --probs p.npy --labels y.npy --ood o.npy --json
  maxitive evaluate --probs run.npz:test --labels run.npz:y --ood kmnist=run.npz:kmnist --ood mnist=m.csv
  maxitive evaluate --scores s.npy --ood-scores o.npy --bootstrap 1000
  maxitive evaluate --probs p.npy --labels y.npy --ood o.npy --report out.html
  maxitive evaluate --logits --probs logits.npy --labels y.csv --score energy --ood o.npy
  maxitive evaluate --logits --probs z.npy --labels y.npy --validation v.npy --validation-labels vy.npy
  maxitive evaluate --probs p.npy --labels y.npy --ood near/kmnist=k.npy --ood far/noise=n.npy
  maxitive evaluate --probs p.npy --labels y.npy --record runs/torch --row 'SGD (PyTorch)' --experiment fmnist \\
                    --dataset fashion-mnist --network lenet
  maxitive evaluate --logits --probs z.npy --gram c.npy --precision 100 --json

Conventions:
  The higher a score, the more in-domain. In-domain is the positive class, but for aupr_out. Equal scores are accepted or
  refused together. Of equally probable classes the lowest comes first. Undefined values are null: top5 below five classes,
  auroc if all predictions are right or all are wrong, every OOD metric if a set is empty. nll is \"inf\" in JSON if a label has
  probability 0; with --logits it is that of the logits, however improbable the label is.
  fpr_at_95_tpr is the standard FPR@95, mean_fpr_below_95_tpr what the paper's tables print under that name; it has no interval,
  because it depends on ties, of which every resample has more. aurc is the mean error rate of the surest 1, 2, .. images;
  excess_aurc is what a perfect order of the same mistakes would have less. With several OOD sets ood_mean has their means, and
  those of the groups named before a slash. --record writes FOLDER/record.json, which `maxitive report` shows beside other runs
  of the same experiment, dataset and network.

Bounds:
  With --gram, the weights may move: a normal possibility function of precision L around them, the logits linear in them with
  covariance C = c/L, c = J J' the inner products of the logits' weight gradients. upper: the highest probability of a class,
  weighed by the possibility of the weights that give it; lower: 1 - upper of all other classes together, as found by ascent
  from several points; lower_at_least: what is certified of it. possibility: that the class has the largest logit. necessity
  of the answer: 1 - the largest possibility of another class. width: upper - lower of the answer.

JSON:
  {\"in_domain\": {\"accuracy\": ..}, \"ood\": {\"auroc\": ..}}; a part without data is null; with several OOD sets \"ood\" is a
  list of such objects, each with its \"name\". With --gram, \"images\": [{\"answer\", \"upper\": [..], \"lower\": [..],
  \"lower_at_least\": [..], \"possibility\": [..], \"necessity\", \"width\"}], lists with an entry per class.
  \"notes\" has what else was done with the files, if anything: first lines taken as headers, say.")]
pub struct EvaluateArgs {
    /// Probabilities on the test set
    #[arg(long, value_name = "FILE", required_unless_present = "scores")]
    probs: Option<String>,
    /// Labels of the test set, from 0
    #[arg(long, value_name = "FILE", requires = "probs")]
    labels: Option<String>,
    /// Probabilities on other inputs, [NAME=]FILE; may be repeated
    #[arg(long, value_name = "[NAME=]FILE", requires = "probs", conflicts_with_all = ["scores", "ood_scores"])]
    ood: Vec<String>,
    /// Ready-made scores of the test set, the higher the more in-domain
    #[arg(long, value_name = "FILE", requires = "ood_scores")]
    scores: Option<String>,
    /// Ready-made scores of other inputs, [NAME=]FILE; may be repeated
    #[arg(long, value_name = "[NAME=]FILE", requires = "scores")]
    ood_scores: Vec<String>,
    /// The higher a ready-made score, the more out-of-domain, like a distance
    #[arg(long, requires = "scores")]
    higher_is_out: bool,
    /// The files hold logits instead of probabilities
    #[arg(long, requires = "probs")]
    logits: bool,
    /// What a first line 0 or 0,1 of a CSV file is, where the numbers of rows do not tell
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    header: HeaderArg,
    /// Gram matrices of the logits' weight gradients, (images, classes, classes): adds bounds
    #[arg(long, value_name = "FILE", requires_all = ["logits", "precision"])]
    gram: Option<String>,
    /// Precision of the weights, L > 0: the covariance of the logits is the Gram matrix over it
    #[arg(
        long,
        value_name = "L",
        requires = "gram",
        allow_negative_numbers = true
    )]
    precision: Option<f64>,
    /// Score that tells the sets apart
    #[arg(
        long,
        value_parser = score_parser(),
        value_name = "SCORE",
        default_value = Score::default().id(),
        conflicts_with = "scores"
    )]
    score: ScoreSource,
    /// Predictions on a validation set; probabilities or logits are then divided by the temperature
    /// that fits them best
    #[arg(
        long,
        value_name = "FILE",
        requires = "validation_labels",
        requires = "probs"
    )]
    validation: Option<String>,
    /// Labels of the validation set
    #[arg(long, value_name = "FILE", requires = "validation")]
    validation_labels: Option<String>,
    /// Number of bins of the calibration error, 1 to 10000
    #[arg(long, value_name = "B", default_value_t = 20)]
    bins: usize,
    /// Bins of equal width, or of equal numbers of images
    #[arg(long, value_enum, value_name = "SCHEME", default_value = "equal-width")]
    scheme: SchemeArg,
    /// Add confidence intervals from this many resamples of the images, 1 to 1000000
    #[arg(long, value_name = "R")]
    bootstrap: Option<usize>,
    /// Level of the intervals, in (0, 1)
    #[arg(long, value_name = "L", default_value_t = 0.95, requires = "bootstrap")]
    level: f64,
    /// Seed of the resamples
    #[arg(long, value_name = "SEED", default_value_t = 0, requires = "bootstrap")]
    seed: u64,
    /// Number of threads of the resamples [default: what the system offers]
    #[arg(long, value_name = "N", requires = "bootstrap")]
    threads: Option<NonZero<usize>>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Write a page with tables, reliability diagram, curves and histograms
    #[arg(long, value_name = "FILE.html", requires = "labels")]
    report: Option<PathBuf>,
    /// Write a run record into this new folder, for `maxitive report`
    #[arg(long, value_name = "FOLDER", requires = "labels")]
    record: Option<PathBuf>,
    /// Row of the record [default: the name of the folder]
    #[arg(long, value_name = "NAME", requires = "record")]
    row: Option<String>,
    /// Experiment of the record
    #[arg(long, value_name = "NAME", requires = "record", default_value = "")]
    experiment: String,
    /// Dataset of the record [default: the file of the probabilities]
    #[arg(long, value_name = "NAME", requires = "record")]
    dataset: Option<String>,
    /// Network of the record
    #[arg(long, value_name = "NAME", requires = "record", default_value = "")]
    network: String,
    /// Seed of the training, for the record
    #[arg(long, value_name = "SEED", requires = "record", default_value_t = 0)]
    run_seed: u64,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum HeaderArg {
    /// The header of unnamed columns if fractions stand below it, else an error
    #[default]
    Auto,
    /// A header
    Yes,
    /// Data
    No,
}

impl From<HeaderArg> for Header {
    fn from(arg: HeaderArg) -> Self {
        match arg {
            HeaderArg::Auto => Self::Auto,
            HeaderArg::Yes => Self::Yes,
            HeaderArg::No => Self::No,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SchemeArg {
    EqualWidth,
    EqualMass,
}

/// Scores by the words of configs.
fn score_parser() -> impl TypedValueParser<Value = ScoreSource> {
    let words = Score::ALL.map(|score| PossibleValue::new(score.id()).help(score.meaning()));
    let more = LogitScore::ALL.map(|score| PossibleValue::new(score.id()).help(score.meaning()));
    PossibleValuesParser::new(words.into_iter().chain(more)).map(|word| {
        let logits = LogitScore::ALL.into_iter().find(|score| score.id() == word);
        let score = Score::ALL.into_iter().find(|score| score.id() == word);
        match logits {
            Some(score) => ScoreSource::Logits(score),
            None => ScoreSource::Probabilities(score.unwrap_or_default()),
        }
    })
}

/// Runs the command.
///
/// # Errors
/// An argument or a file is wrong, the report cannot be written, or standard output is closed.
pub fn execute(args: EvaluateArgs) -> anyhow::Result<ExitCode> {
    if let (ScoreSource::Logits(score), false) = (args.score, args.logits) {
        let problem = format!("--score {} is made from logits; add --logits", score.id());
        return Err(UserError::new(problem).into());
    }
    if let Some(path) = &args.report {
        check_page(path)?;
    }
    let inputs = Inputs {
        probabilities: args.probs.clone(),
        gram: args.gram.clone().zip(args.precision),
        labels: args.labels.clone(),
        scores: args.scores.clone(),
        others: args
            .ood
            .iter()
            .chain(&args.ood_scores)
            .map(|text| named(text))
            .collect(),
        validation: args.validation.clone().zip(args.validation_labels.clone()),
    };
    for (place, Named { name, .. }) in inputs.others.iter().enumerate() {
        if inputs.others[..place]
            .iter()
            .any(|other| other.name == *name)
        {
            let problem = format!("two out-of-domain sets are called \"{name}\"; say NAME=FILE");
            return Err(UserError::new(problem).into());
        }
    }
    let settings = Settings {
        logits: args.logits,
        header: args.header.into(),
        bounds: args.gram.is_some(),
        score: match (&args.scores, args.score) {
            (Some(_), _) => ScoreSource::Given {
                negated: args.higher_is_out,
            },
            (None, score) => score,
        },
        calibration: CalibrationConfig {
            bins: args.bins,
            scheme: match args.scheme {
                SchemeArg::EqualWidth => Scheme::EqualWidth,
                SchemeArg::EqualMass => Scheme::EqualMass,
            },
        },
        bootstrap: args.bootstrap.map(|replicates| BootstrapConfig {
            replicates,
            level: args.level,
            seed: args.seed,
            threads: args.threads,
        }),
        curves: args.report.is_some() || args.record.is_some(),
    };
    let assessment = Assessment::new(&inputs, &settings)?;
    for note in assessment.notes() {
        writeln!(io::stderr(), "note: {note}")?;
    }
    // whoever sees the numbers has the page
    if args.report.is_some() || args.record.is_some() {
        let (record, options) = assessment.record(&inputs, &settings, &names(&args))?;
        if let Some(folder) = &args.record {
            let text = record.to_json()?;
            write_record(folder, &text)?;
        }
        if let Some(path) = &args.report {
            write_atomically(path, report::html(&[record], &options).as_bytes())?;
        }
    }
    let output = if args.json {
        serde_json::to_string_pretty(&assessment.json()?)? + "\n"
    } else {
        assessment.text()
    };
    io::stdout().write_all(output.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// What the record calls itself.
fn names(args: &EvaluateArgs) -> Names {
    let folder = args.record.as_deref().and_then(Path::file_name);
    let folder = folder.map(|name| name.to_string_lossy().into_owned());
    let row = args.row.clone().or(folder);
    let file = args.probs.clone().unwrap_or_default();
    Names {
        row: row.unwrap_or_else(|| "predictions".to_owned()),
        experiment: args.experiment.clone(),
        dataset: args.dataset.clone().unwrap_or(file),
        network: args.network.clone(),
        seed: args.run_seed,
    }
}

/// Writes a record into a folder that has none.
fn write_record(folder: &Path, text: &str) -> anyhow::Result<()> {
    let path = folder.join(report::files::RECORD);
    if path.exists() {
        let problem = format!("{}: there is a record already", path.display());
        return Err(UserError::new(problem).into());
    }
    create_folder(folder)?;
    write_atomically(&path, text.as_bytes())
}

/// `NAME=FILE`, or a file named by itself without folders and ending. A file that exists as it is
/// written is a file.
fn named(text: &str) -> Named {
    if let Some((name, file)) = text.split_once('=')
        && !name.is_empty()
        && !Path::new(text).exists()
    {
        return Named {
            name: name.to_owned(),
            file: file.to_owned(),
        };
    }
    let (path, array) = match text.rsplit_once(':') {
        Some((path, array)) if path.to_ascii_lowercase().ends_with(".npz") => (path, Some(array)),
        _ => (text, None),
    };
    let stem = PathBuf::from(path)
        .file_stem()
        .map(|stem| stem.to_string_lossy().into_owned());
    Named {
        name: array
            .map(str::to_owned)
            .or(stem)
            .unwrap_or_else(|| text.to_owned()),
        file: text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_names() {
        let name = |text| named(text).name;
        assert_eq!(name("a/kmnist.npy"), "kmnist");
        assert_eq!(name("run.npz:mnist"), "mnist");
        assert_eq!(name("letters=a/o.csv"), "letters");
        assert_eq!(named("letters=a/o.csv").file, "a/o.csv");
        assert_eq!(named("=a.csv").file, "=a.csv");
    }
}
