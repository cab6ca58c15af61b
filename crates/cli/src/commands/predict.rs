//! `maxitive predict`: what a finished run says of new pictures.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, ValueEnum};
use datasets::formats::npy::{self, Array, Values};
use datasets::formats::picture::{KINDS, Picture};
use datasets::{Images, Shape};
use evaluation::record::Checkpoint;
use experiment::Model;
use experiment::predictive::ClassBounds;
use serde_json::{Value, json};

use crate::files::write_atomically;
use crate::text::{TextTable, exact, number};
use crate::training::{self, ComputeArgs};
use crate::user_error::UserError;

/// Predict the class of new pictures with a finished run.
///
/// RUN is the folder of a run. PICTURES are PNG, JPEG, BMP, GIF, TIFF or WebP files, folders of
/// them, or - for one picture from standard input. They get the size and the channels that the
/// run's images have, if its data.resize asked for a size; what cannot be read in a folder is left
/// out, with a note. A row tells the most probable class, its
/// probability, the entropy of all probabilities in nats, and the score by which the run tells
/// images of another kind: the lower, the stranger. The method possibilistic adds what the weights
/// still allow, for logits that are linear in them: the lower and the upper probability of the
/// class, and its necessity, one minus the largest possibility of another answer.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  maxitive predict runs/mine new/
  maxitive predict runs/mine a.png b.jpg -o answers.csv
  maxitive predict runs/mine new/ -o sheet.html
  maxitive predict runs/mine new/ --row 'SGD + Laplace' --checkpoint final --json
  maxitive predict runs/mine new/ --method possibilistic
  curl -s https://example.org/a.png | maxitive predict runs/mine -")]
pub struct PredictArgs {
    /// Folder of a finished run
    run: PathBuf,
    /// Pictures, folders of pictures, or - for standard input
    #[arg(required = true)]
    pictures: Vec<PathBuf>,
    /// Where to write all probabilities, by its ending: .csv, .json or .npy; .html for a sheet of
    /// the pictures
    #[arg(long, short, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Row of the run's config whose method predicts; by default the first
    #[arg(long, value_name = "NAME")]
    row: Option<String>,
    /// Method that predicts, with its defaults, instead of a row's: point, possibilistic, ..
    #[arg(long, value_name = "METHOD", conflicts_with = "row")]
    method: Option<String>,
    /// Weights of lowest validation loss, or those after the last step
    #[arg(long, value_enum, default_value_t = Which::Best)]
    checkpoint: Which,
    /// Scale pictures of another size and cut out their middle, as a run with data.resize does
    #[arg(long)]
    resize: bool,
    /// JSON on standard output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    compute: ComputeArgs,
}

/// Which weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Which {
    /// Those of lowest validation loss
    Best,
    /// Those after the last step
    Final,
}

impl From<Which> for Checkpoint {
    fn from(which: Which) -> Self {
        match which {
            Which::Best => Self::Best,
            Which::Final => Self::Final,
        }
    }
}

/// What is told of a picture.
struct Answer {
    file: String,
    class: String,
    probability: f64,
    entropy: f64,
    score: f64,
    probabilities: Vec<f32>,
    /// What the weights still allow, for methods that bound it.
    bounds: Option<ClassBounds>,
    /// The picture as an address, for a page.
    picture: Option<String>,
}

/// Pictures that were read.
struct Pictures {
    names: Vec<String>,
    images: Images,
    /// As addresses, if they were asked for.
    addresses: Vec<String>,
}

/// Longest side of a picture on a page.
const SHOWN: usize = 160;

/// Runs the command.
///
/// # Errors
/// A run that is not finished, a picture that cannot be read or does not fit, a file that cannot be
/// written.
pub fn execute(args: PredictArgs) -> anyhow::Result<ExitCode> {
    let format = args.out.as_deref().map(Format::of).transpose()?;
    let model = Model::open(&args.run).map_err(training::error)?;
    let row = match &args.method {
        Some(method) => model.row_by(method),
        None => model.row(args.row.as_deref()).cloned(),
    };
    let row = &row.map_err(training::error)?;
    let with_pictures = matches!(format, Some(Format::Html));
    let pictures = read(&model, &args, with_pictures)?;
    let images = &pictures.images;
    let checkpoint = args.checkpoint.into();
    let library = args.compute.library();
    let device = args.compute.device();
    let (probabilities, bounds) = model
        .predict(row, checkpoint, images, (device, &library))
        .map_err(training::error)?;
    let mut answers = answers(&model, pictures, &probabilities)?;
    for (answer, bounds) in answers.iter_mut().zip(bounds.into_iter().flatten()) {
        answer.bounds = Some(bounds);
    }
    if let (Some(path), Some(format)) = (&args.out, format) {
        let bytes = format.bytes(&model, &row.row, &answers)?;
        write_atomically(path, &bytes)?;
    }
    let mut out = io::stdout().lock();
    if args.json {
        writeln!(out, "{}", json(&model, &row.row, &answers))?;
    } else if args.out.is_none() {
        write!(out, "{}", table(&answers))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The pictures with their names, as one set for the network.
fn read(model: &Model, args: &PredictArgs, with_pictures: bool) -> anyhow::Result<Pictures> {
    let mut files = Vec::new();
    for path in &args.pictures {
        if path.is_dir() {
            let before = files.len();
            collect(path, &mut files)?;
            if files.len() == before {
                let problem = format!("{}: has no {KINDS} file", path.display());
                return Err(UserError::new(problem).into());
            }
        } else {
            files.push((path.clone(), Found::Named));
        }
    }
    let input = model.input();
    let mut pixels = Vec::with_capacity(files.len() * input.len());
    let (mut names, mut addresses) = (Vec::new(), Vec::new());
    let mut unreadable = None;
    for (file, found) in &files {
        let picture = match (decode(file), found) {
            (Ok(picture), _) => picture,
            (Err(error), Found::InFolder) => {
                writeln!(io::stderr(), "note: {error:#}; left out")?;
                unreadable.get_or_insert(error);
                continue;
            }
            (Err(error), Found::Named) => return Err(error),
        };
        if with_pictures {
            addresses.push(picture.data_address(SHOWN));
        }
        let fitted = fit(picture, input, args.resize || model.file().resize)
            .map_err(|problem| UserError::new(format!("{}: {problem}", file.display())))?;
        pixels.extend(fitted.planes(input.channels));
        names.push(file.display().to_string());
    }
    if let (true, Some(error)) = (names.is_empty(), unreadable) {
        return Err(error);
    }
    let labels = vec![0; names.len()];
    let images = Images::new(input, model.file().classes, pixels, labels)?;
    Ok(Pictures {
        names,
        images,
        addresses,
    })
}

/// How a picture came to be asked for.
#[derive(Clone, Copy)]
enum Found {
    /// By its name: what is wrong with it is an error.
    Named,
    /// Among others.
    InFolder,
}

/// All pictures below a folder, sorted.
fn collect(folder: &Path, files: &mut Vec<(PathBuf, Found)>) -> anyhow::Result<()> {
    let told = || UserError::new(format!("{}: cannot be read", folder.display()));
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(told)? {
        entries.push(entry.with_context(told)?.path());
    }
    entries.sort();
    for path in entries {
        if path.is_dir() {
            collect(&path, files)?;
        } else if Picture::has_ending(&path) {
            files.push((path, Found::InFolder));
        }
    }
    Ok(())
}

fn decode(file: &Path) -> anyhow::Result<Picture> {
    if file != Path::new("-") {
        return Picture::open(file).map_err(|error| training::error(error.into()));
    }
    let read = Picture::read(io::stdin().lock()).context("cannot read standard input")?;
    Ok(read.map_err(|malformed| UserError::new(format!("standard input: {malformed}")))?)
}

/// The picture in the size of the input, or what is in the way.
fn fit(picture: Picture, input: Shape, resize: bool) -> Result<Picture, String> {
    let Shape { height, width, .. } = picture.shape();
    if (height, width) == (input.height, input.width) {
        return Ok(picture);
    }
    let takes = format!("{}x{}", input.height, input.width);
    if !resize {
        return Err(format!(
            "is {height}x{width}, the network takes {takes}; --resize scales it and cuts out its \
             middle"
        ));
    }
    Ok(picture.resized_to(input.height, input.width))
}

fn answers(
    model: &Model,
    pictures: Pictures,
    probabilities: &[f32],
) -> anyhow::Result<Vec<Answer>> {
    let classes = model.file().classes;
    let scores = model.config().evaluation.score.of(probabilities, classes)?;
    let rows = probabilities.chunks_exact(classes);
    let mut addresses = pictures.addresses.into_iter();
    let answer = |((file, row), score): ((String, &[f32]), f64)| {
        // of equal ones the first
        let best = (0..classes)
            .rev()
            .max_by(|&a, &b| row[a].total_cmp(&row[b]));
        let best = best.unwrap_or_default();
        let entropy = row.iter().map(|&p| f64::from(p)).filter(|&p| p > 0.0);
        Answer {
            file,
            class: model.class_name(best),
            probability: row[best].into(),
            entropy: -entropy.map(|p| p * p.ln()).sum::<f64>(),
            score,
            probabilities: row.to_vec(),
            bounds: None,
            picture: addresses.next(),
        }
    };
    Ok(pictures
        .names
        .into_iter()
        .zip(rows)
        .zip(scores)
        .map(answer)
        .collect())
}

/// Heads of what is told of every picture.
const HEADS: [&str; 5] = ["file", "class", "probability", "entropy", "score"];
/// Heads of what a method that bounds its predictions tells besides.
const BOUNDS: [&str; 4] = ["lower", "upper", "possibility", "necessity"];

impl Answer {
    /// The numbers under the heads, those of the bounds included.
    fn numbers(&self) -> Vec<f64> {
        let mut numbers = vec![self.probability, self.entropy, self.score];
        if let Some(bounds) = &self.bounds {
            let of = |all: &[Option<f64>], vacuous: f64| all[bounds.answer].unwrap_or(vacuous);
            numbers.extend([
                of(&bounds.lower, 0.0),
                of(&bounds.upper, 1.0),
                of(&bounds.possibility, 1.0),
                bounds.necessity,
            ]);
        }
        numbers
    }
}

/// The heads of all that is told.
fn heads(answers: &[Answer]) -> Vec<&'static str> {
    let bounded = answers.iter().any(|answer| answer.bounds.is_some());
    let more: &[&str] = if bounded { &BOUNDS } else { &[] };
    HEADS.iter().chain(more).copied().collect()
}

fn table(answers: &[Answer]) -> String {
    let mut table = TextTable::new(heads(answers));
    for answer in answers {
        let numbers = answer.numbers();
        let words = [answer.file.clone(), answer.class.clone()];
        let numbers = numbers.iter().map(|value| format!("{value:.4}"));
        table.row(words.into_iter().chain(numbers));
    }
    table.render()
}

fn json(model: &Model, row: &str, answers: &[Answer]) -> Value {
    let classes = (0..model.file().classes).map(|class| model.class_name(class));
    let pictures = answers.iter().map(|answer| {
        let all = answer.probabilities.iter().map(|&p| number(p.into()));
        let mut told = json!({
            "file": answer.file,
            "class": answer.class,
            "probability": number(answer.probability),
            "entropy": number(answer.entropy),
            "score": number(answer.score),
            "probabilities": all.collect::<Vec<_>>(),
        });
        if let Some(bounds) = &answer.bounds {
            told["upper"] = json!(bounds.upper);
            told["lower"] = json!(bounds.lower);
            told["possibility"] = json!(bounds.possibility);
            told["necessity"] = json!(bounds.necessity);
            told["certified"] = json!(!bounds.is_vacuous);
        }
        told
    });
    json!({
        "row": row,
        "score": model.config().evaluation.score.name(),
        "classes": classes.collect::<Vec<_>>(),
        "pictures": pictures.collect::<Vec<_>>(),
    })
}

/// A page of all pictures.
fn sheet(model: &Model, row: &str, answers: &[Answer]) -> String {
    let entry = |answer: &Answer| {
        let all = answer.probabilities.iter().enumerate();
        let mut classes: Vec<(usize, f64)> = all.map(|(class, &p)| (class, p.into())).collect();
        // stable: of equal ones the first
        classes.sort_by(|a, b| b.1.total_cmp(&a.1));
        let classes = classes
            .into_iter()
            .map(|(class, p)| (model.class_name(class), p));
        let score = model.config().evaluation.score.name();
        report::sheet::Entry {
            file: answer.file.clone(),
            picture: answer.picture.clone().unwrap_or_default(),
            classes: classes.collect(),
            numbers: ["probability", "entropy", score]
                .into_iter()
                .chain(BOUNDS)
                .zip(answer.numbers())
                .skip(1)
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        }
    };
    let entries: Vec<_> = answers.iter().map(entry).collect();
    let file = model.file();
    let (network, dataset) = (&file.network, &file.dataset);
    let count = answers.len();
    let plural = if count == 1 { "" } else { "s" };
    let title = format!("{count} picture{plural}, by {row}");
    let note = format!("{network}, trained on {dataset}. The lower the score, the stranger.");
    report::sheet::html(&title, &note, &entries)
}

/// What is written to a file.
#[derive(Debug, Clone, Copy)]
enum Format {
    Csv,
    Json,
    Npy,
    Html,
}

impl Format {
    fn of(path: &Path) -> anyhow::Result<Self> {
        match path.extension().and_then(|end| end.to_str()) {
            Some("csv") => Ok(Self::Csv),
            Some("json") => Ok(Self::Json),
            Some("npy") => Ok(Self::Npy),
            Some("html") => Ok(Self::Html),
            _ => {
                let allowed = ".csv, .json, .npy or .html";
                let problem = format!("{}: the ending is not {allowed}", path.display());
                Err(UserError::new(problem).into())
            }
        }
    }

    fn bytes(self, model: &Model, row: &str, answers: &[Answer]) -> anyhow::Result<Vec<u8>> {
        let classes = model.file().classes;
        match self {
            Self::Html => Ok(sheet(model, row, answers).into_bytes()),
            Self::Json => Ok(format!("{}\n", json(model, row, answers)).into_bytes()),
            Self::Npy => {
                let all: Vec<f32> = answers
                    .iter()
                    .flat_map(|a| a.probabilities.clone())
                    .collect();
                let array = Array::new(vec![answers.len(), classes], Values::Singles(all))?;
                let mut bytes = Vec::new();
                npy::write(&mut bytes, &array)?;
                Ok(bytes)
            }
            Self::Csv => {
                let mut writer = csv::Writer::from_writer(Vec::new());
                let head = heads(answers).into_iter().map(String::from);
                let names = (0..classes).map(|class| format!("p({})", model.class_name(class)));
                writer.write_record(head.chain(names))?;
                for answer in answers {
                    let numbers = answer.numbers();
                    let words = [answer.file.clone(), answer.class.clone()].into_iter();
                    let numbers = numbers.into_iter().map(exact);
                    let all = answer.probabilities.iter().map(exact);
                    writer.write_record(words.chain(numbers).chain(all))?;
                }
                Ok(writer.into_inner().map_err(|error| error.into_error())?)
            }
        }
    }
}
