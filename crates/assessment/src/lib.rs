//! Predictions from files, evaluated: what `maxitive evaluate` prints.
#![forbid(unsafe_code)]

pub mod logits;

mod bounds;

use std::fmt::Display;
use std::mem;

use evaluation::metrics::curves::histogram;
use evaluation::record::{Names, OutOfDomainEvaluation, RunRecord};
use evaluation::results::{
    ByClass, Classification, ConfidenceInterval, Detection, DetectionCurves, Reliability,
};
use evaluation::{
    BootstrapConfig, CalibrationConfig, Error, InDomain, Metric, OutOfDomain, Outcomes, Ranking,
    RiskCoverage, Score,
};
use possibility::prediction::Prediction;
use serde_json::{Value, json};

use crate::logits::{LogitScore, Temperature};
use questions::text::{TextTable, number, significant};
use questions::user_error::UserError;
use tabular::arrays::{Floats, Loaded};

/// Files to evaluate.
#[derive(Debug)]
pub struct Inputs {
    /// Probabilities, or logits, on the test set.
    pub probabilities: Option<String>,
    /// Gram matrices of the logits' weight gradients on the test set, and the weights' precision.
    pub gram: Option<(String, f64)>,
    /// Labels of the test set.
    pub labels: Option<String>,
    /// Ready-made scores of the test set.
    pub scores: Option<String>,
    /// Probabilities, or ready-made scores, of other sets.
    pub others: Vec<Named>,
    /// Predictions and labels of a validation set, to fit a temperature to.
    pub validation: Option<(String, String)>,
}

/// A file with a name for what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// What the set is called.
    pub name: String,
    /// Where it is.
    pub file: String,
}

/// What the first line of a CSV file is that reads `0` or `0,1`, where the numbers of rows do not
/// tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Header {
    /// The header of unnamed columns if fractions stand below it, else an error.
    #[default]
    Auto,
    /// A header.
    Yes,
    /// Data.
    No,
}

/// How to evaluate them.
#[derive(Debug)]
pub struct Settings {
    /// Files hold logits.
    pub logits: bool,
    /// What first lines are that may be a header.
    pub header: Header,
    /// Gram matrices come with the logits.
    pub bounds: bool,
    /// What tells the sets apart.
    pub score: ScoreSource,
    /// Bins of the calibration error.
    pub calibration: CalibrationConfig,
    /// How to draw intervals, if they are asked for.
    pub bootstrap: Option<BootstrapConfig>,
    /// Curves are wanted, too, for a record.
    pub curves: bool,
}

/// What tells in-domain from out-of-domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoreSource {
    /// Made from the probabilities.
    Probabilities(Score),
    /// Made from the logits.
    Logits(LogitScore),
    /// Ready-made.
    Given {
        /// Lower for in-domain.
        negated: bool,
    },
}

impl ScoreSource {
    fn name(self) -> &'static str {
        match self {
            Self::Probabilities(score) => score.name(),
            Self::Logits(score) => score.name(),
            Self::Given { negated: false } => "given",
            Self::Given { negated: true } => "given, negated",
        }
    }
}

/// In-domain metrics and where they came from.
#[derive(Debug)]
struct InDomainPart {
    found: Classification,
    reliability: Reliability,
    intervals: Option<InDomain<Option<ConfidenceInterval>>>,
    risk: RiskCoverage,
    by_class: Option<ByClass>,
}

/// Metrics of one out-of-domain set.
#[derive(Debug)]
struct OutOfDomainPart {
    name: String,
    found: Detection,
    intervals: Option<OutOfDomain<Option<ConfidenceInterval>>>,
    curves: DetectionCurves,
}

/// All metrics of the given files.
#[derive(Debug)]
pub struct Assessment {
    in_domain: Option<InDomainPart>,
    out_of_domain: Vec<OutOfDomainPart>,
    temperature: Option<Temperature>,
    images: Option<Vec<Prediction>>,
    header: Header,
    notes: Vec<String>,
}

/// Shares of the images at which the risk is told.
const COVERAGES: [f64; 4] = [0.5, 0.8, 0.9, 1.0];

/// Calls a function with the numbers of a file, of whichever width.
macro_rules! with_floats {
    ($floats:expr, $values:ident => $body:expr) => {
        match $floats {
            Floats::Single($values) => $body,
            Floats::Double($values) => $body,
        }
    };
}

/// Probabilities `[n, classes]` of a file.
struct Probabilities {
    name: String,
    values: Floats,
    /// What the file holds, where that is logits with Gram matrices.
    logits: Option<Floats>,
    classes: usize,
    /// Scores made from the logits, if they were asked for.
    scores: Option<Vec<f64>>,
    /// The logits, over the temperature, where a probability is below all numbers.
    exponents: Option<Vec<f64>>,
}

impl Probabilities {
    fn new(
        loaded: Loaded,
        settings: &Settings,
        temperature: Option<Temperature>,
    ) -> Result<Self, UserError> {
        let what = if settings.logits {
            "logits"
        } else {
            "probabilities"
        };
        let name = loaded.name.clone();
        let (values, classes) = loaded.matrix(what)?;
        let mut own = Self {
            name,
            values,
            logits: None,
            classes,
            scores: None,
            exponents: None,
        };
        if settings.logits {
            // what comes with Gram matrices is what they are about, and may add up to 1
            if settings.bounds {
                own.logits = Some(own.values.clone());
            } else {
                logits::check(&own.name, &own.values, classes)?;
            }
        }
        if let ScoreSource::Logits(score) = settings.score {
            own.scores = Some(score.of(&own.values, classes));
        }
        let exponents = match (settings.logits, temperature) {
            (false, None) => return Ok(own),
            (true, None) => None,
            (true, Some(_)) => Some(logits::doubles(&own.values)),
            (false, Some(_)) => {
                // rows that are no probabilities have no logarithms
                own.scores(Score::MaximumProbability)?;
                Some(logits::logarithms(&logits::doubles(&own.values)))
            }
        };
        if let (Some(mut scaled), Some(temperature)) = (exponents, temperature) {
            scaled.iter_mut().for_each(|z| *z /= temperature.value);
            own.values = Floats::Double(scaled);
        }
        if with_floats!(&own.values, values => values.is_empty()) {
            return Ok(own);
        }
        let found = with_floats!(&own.values, values => evaluation::softmax(values, classes));
        let found = found.map_err(|error| about(&own.name, &error))?;
        let exponents = mem::replace(&mut own.values, Floats::Double(Vec::new()));
        if found.iter().any(|&p| p < f64::MIN_POSITIVE) {
            own.exponents = Some(logits::doubles(&exponents));
        }
        own.values = Floats::Double(found);
        Ok(own)
    }

    /// The log losses of labels that are less probable than any number.
    fn refine(&self, outcomes: &mut Outcomes, labels: &[i64]) {
        let Some(exponents) = &self.exponents else {
            return;
        };
        let row = |image: usize| &exponents[image * self.classes..][..self.classes];
        let loss = |&image: &usize| evaluation::log_loss(row(image), labels[image] as usize);
        let found = outcomes.refine(f64::MIN_POSITIVE, |images| {
            Ok::<_, std::convert::Infallible>(images.iter().map(loss).collect())
        });
        found.unwrap_or_else(|never| match never {});
    }

    /// What is wrong with them, and what may be the reason.
    fn complain(&self, error: &Error) -> UserError {
        let hint = match error {
            Error::Probability { value, .. } if !value.is_nan() => {
                "; are these logits? then add --logits"
            }
            Error::Sum { .. } => "; are these logits? then add --logits",
            _ => "",
        };
        UserError::new(format!("{}: {error}{hint}", self.name))
    }

    /// What the weights still allow for every image.
    fn bounds(&self, gram: &str, precision: f64) -> Result<Vec<Prediction>, UserError> {
        let Some(logits) = &self.logits else {
            return Err(UserError::new("--gram needs logits: add --logits"));
        };
        bounds::predict(
            &self.name,
            &logits::doubles(logits),
            self.classes,
            gram,
            precision,
        )
    }

    fn scores(&self, score: Score) -> Result<Vec<f64>, UserError> {
        let classes = self.classes;
        // a set without images has no scores, and every metric of it is undefined
        if with_floats!(&self.values, values => values.is_empty()) {
            return Ok(Vec::new());
        }
        let scores = with_floats!(&self.values, values => score.of(values, classes));
        scores.map_err(|error| self.complain(&error))
    }
}

/// Asks whether a first line is a header.
fn unclear(names: &str) -> UserError {
    UserError::new(format!(
        "{names}: the first line may be a header or data, and so may the numbers below it; say \
         --header yes or --header no"
    ))
}

fn about(name: &str, problem: &dyn Display) -> UserError {
    UserError::new(format!("{name}: {problem}"))
}

/// A mistake in a setting, or in something that has no file.
fn mistake(error: &Error) -> UserError {
    UserError::new(error.to_string())
}

impl Assessment {
    /// Reads the files and computes the metrics.
    ///
    /// # Errors
    /// A file cannot be read or does not hold what it should, or a setting is out of range.
    pub fn new(inputs: &Inputs, settings: &Settings) -> Result<Self, UserError> {
        if inputs.labels.is_none() && inputs.others.is_empty() && inputs.gram.is_none() {
            return Err(UserError::new(
                "nothing to compare with: give --labels, or other inputs with --ood",
            ));
        }
        if let Some((_, precision)) = &inputs.gram {
            bounds::check_precision(*precision)?;
        }
        settings
            .calibration
            .check()
            .map_err(|error| mistake(&error))?;
        if let Some(bootstrap) = &settings.bootstrap {
            bootstrap.check().map_err(|error| mistake(&error))?;
        }
        let mut assessment = Self {
            in_domain: None,
            out_of_domain: Vec::new(),
            temperature: None,
            images: None,
            header: settings.header,
            notes: Vec::new(),
        };
        if let Some((probabilities, labels)) = &inputs.validation {
            let probabilities = Loaded::read(probabilities, "validation")?;
            let labels = Loaded::read(labels, "validation_labels")?;
            let (probabilities, labels) = assessment.settle_headers(probabilities, labels)?;
            let fitted = Temperature::fit(probabilities, labels, settings.logits)?;
            assessment.temperature = Some(fitted);
        }
        let probabilities = inputs
            .probabilities
            .as_deref()
            .map(|file| Loaded::read(file, "probs"))
            .transpose()?;
        let labels = inputs
            .labels
            .as_deref()
            .map(|file| Loaded::read(file, "labels"))
            .transpose()?;
        let (probabilities, labels) = match (probabilities, labels) {
            (Some(probabilities), Some(labels)) => {
                let (probabilities, labels) = assessment.settle_headers(probabilities, labels)?;
                (Some(probabilities), Some(labels))
            }
            (Some(alone), None) => (Some(assessment.settle_header(alone)?), None),
            (None, labels) => (None, labels),
        };
        let mut probabilities = probabilities
            .map(|loaded| Probabilities::new(loaded, settings, assessment.temperature))
            .transpose()?;
        if let (Some((file, precision)), Some(probabilities)) = (&inputs.gram, &probabilities) {
            assessment.images = Some(probabilities.bounds(file, *precision)?);
        }
        let mut confidence = None;
        if let (Some(known), Some(labels)) = (&mut probabilities, labels) {
            // larger than all that comes
            let are_last = inputs.others.is_empty();
            let (outcomes, by_class) = outcomes(known, labels, settings, are_last)?;
            assessment.in_domain = Some(in_domain(&outcomes, by_class, settings)?);
            confidence = Some(outcomes.confidence().to_vec());
        }
        if inputs.others.is_empty() {
            return Ok(assessment);
        }
        let ins = match (&inputs.scores, &probabilities, settings.score, confidence) {
            (Some(file), _, ScoreSource::Given { negated }, _) => {
                assessment.given_scores(file, "scores", negated)?
            }
            (_, _, ScoreSource::Probabilities(Score::MaximumProbability), Some(known)) => known,
            (_, Some(probabilities), ScoreSource::Probabilities(score), _) => {
                probabilities.scores(score)?
            }
            (
                _,
                Some(Probabilities {
                    scores: Some(scores),
                    ..
                }),
                ScoreSource::Logits(_),
                _,
            ) => scores.clone(),
            _ => {
                return Err(UserError::new(
                    "out-of-domain metrics need --probs or --scores",
                ));
            }
        };
        for other in &inputs.others {
            let outs = assessment.other_scores(other, probabilities.as_ref(), settings)?;
            let classes = probabilities.as_ref().map_or(0, |known| known.classes);
            let part = detect(other, &ins, &outs, classes, inputs, settings)?;
            assessment.out_of_domain.push(part);
        }
        Ok(assessment)
    }

    /// Scores of another set.
    fn other_scores(
        &mut self,
        other: &Named,
        probabilities: Option<&Probabilities>,
        settings: &Settings,
    ) -> Result<Vec<f64>, UserError> {
        if let ScoreSource::Given { negated } = settings.score {
            return self.given_scores(&other.file, "ood_scores", negated);
        }
        let Some(ours) = probabilities else {
            return Err(UserError::new("--ood needs --probs"));
        };
        let loaded = Loaded::read(&other.file, "ood")?;
        let loaded = self.settle_header(loaded)?;
        let theirs = Probabilities::new(loaded, settings, self.temperature)?;
        if theirs.classes != ours.classes {
            return Err(UserError::new(format!(
                "{} has {} classes, but {} has {}",
                theirs.name, theirs.classes, ours.name, ours.classes
            )));
        }
        match settings.score {
            ScoreSource::Probabilities(score) => theirs.scores(score),
            _ => Ok(theirs.scores.unwrap_or_default()),
        }
    }

    /// Remarks for the person at the keyboard.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// A first line `0` or `0,1` is a header if the other file has one row less, and data if it has
    /// as many and no such line. If both may have a header, what stands below that of the
    /// probabilities tells.
    fn settle_headers(&mut self, p: Loaded, y: Loaded) -> Result<(Loaded, Loaded), UserError> {
        Ok(match (p.is_doubtful(), y.is_doubtful()) {
            (true, _) if p.rows() == y.rows() + 1 => {
                let y = self.keep(y);
                (self.drop_header(p), y)
            }
            (_, true) if y.rows() == p.rows() + 1 => {
                let p = self.keep(p);
                (p, self.drop_header(y))
            }
            (true, true) if p.rows() == y.rows() => match self.is_header(&p) {
                Some(true) => (self.drop_header(p), self.drop_header(y)),
                Some(false) => (self.keep(p), self.keep(y)),
                None => return Err(unclear(&format!("{} and {}", p.name, y.name))),
            },
            _ if p.rows() == y.rows() => (p, y),
            // and the numbers of rows are complained of
            _ => (self.keep(p), self.keep(y)),
        })
    }

    /// Settles what the first line of a file is that has no other beside it.
    fn settle_header(&mut self, loaded: Loaded) -> Result<Loaded, UserError> {
        if !loaded.is_doubtful() {
            return Ok(loaded);
        }
        match self.is_header(&loaded) {
            Some(true) => Ok(self.drop_header(loaded)),
            Some(false) => Ok(self.keep(loaded)),
            None => Err(unclear(&loaded.name)),
        }
    }

    /// Whether the doubtful first line of a file is a header, as far as that can be told.
    fn is_header(&self, loaded: &Loaded) -> Option<bool> {
        match self.header {
            Header::Yes => Some(true),
            Header::No => Some(false),
            Header::Auto => loaded.stands_out().then_some(true),
        }
    }

    fn drop_header(&mut self, loaded: Loaded) -> Loaded {
        let note = format!("{}: the first line is taken as a header", loaded.name);
        self.notes.push(note);
        loaded.without_header()
    }

    /// Says that a first line which may be a header is taken as data.
    fn keep(&mut self, loaded: Loaded) -> Loaded {
        if loaded.is_doubtful() {
            let note = format!(
                "{}: the first line is taken as data, not as a header",
                loaded.name
            );
            self.notes.push(note);
        }
        loaded
    }

    fn given_scores(
        &mut self,
        file: &str,
        usual: &str,
        negated: bool,
    ) -> Result<Vec<f64>, UserError> {
        let loaded = Loaded::read(file, usual)?;
        let mut scores = match self.settle_header(loaded)?.column("scores")? {
            Floats::Single(values) => values.into_iter().map(f64::from).collect(),
            Floats::Double(values) => values,
        };
        if negated {
            scores.iter_mut().for_each(|score| *score = -*score);
        }
        Ok(scores)
    }

    /// The metrics for programs.
    ///
    /// # Errors
    /// None that can be foreseen; results hold no NaN.
    pub fn json(&self) -> anyhow::Result<Value> {
        let in_domain = match &self.in_domain {
            None => Value::Null,
            Some(part) => {
                let mut value = serde_json::to_value(&part.found)?;
                value["bins"] = json!({
                    "number": part.reliability.bins.len(),
                    "scheme": part.reliability.scheme,
                });
                if let Some(intervals) = &part.intervals {
                    value["intervals"] = serde_json::to_value(intervals)?;
                }
                value["aurc"] = number(part.risk.area());
                value["excess_aurc"] = number(part.risk.excess_area());
                let points = COVERAGES.map(|coverage| json!([coverage, part.risk.at(coverage)]));
                value["risk_at_coverage"] = json!(points);
                value
            }
        };
        let mut sets = Vec::with_capacity(self.out_of_domain.len());
        for part in &self.out_of_domain {
            let mut value = serde_json::to_value(&part.found)?;
            value["name"] = json!(part.name);
            if let Some(intervals) = &part.intervals {
                value["intervals"] = serde_json::to_value(intervals)?;
            }
            sets.push(value);
        }
        let ood = match sets.len() {
            0 => Value::Null,
            1 => sets.remove(0),
            _ => Value::Array(sets),
        };
        let mut all = json!({"in_domain": in_domain, "ood": ood});
        if self.out_of_domain.len() > 1 {
            let means = self.means().into_iter().map(|(name, sets, values)| {
                let mut value = serde_json::Map::new();
                value.insert("sets".to_owned(), json!(sets));
                for (metric, mean) in OutOfDomain::METRICS.iter().zip(values) {
                    let mean = mean.map_or(Value::Null, number);
                    value.insert(metric.id.to_owned(), mean);
                }
                (name, Value::Object(value))
            });
            all["ood_mean"] = Value::Object(means.collect());
        }
        if let Some(Temperature { value, images }) = self.temperature {
            all["temperature"] = json!({"value": number(value), "validation_images": images});
        }
        if !self.notes.is_empty() {
            all["notes"] = json!(self.notes);
        }
        if let Some(images) = &self.images {
            all["images"] = images.iter().map(bounds::json).collect();
        }
        Ok(all)
    }

    /// Means of the metrics over all other sets and over those whose names begin alike, as in
    /// `near/a` and `near/b`; how many sets, and one value for each metric that all of them have.
    fn means(&self) -> Vec<(String, usize, Vec<Option<f64>>)> {
        let group = |part: &OutOfDomainPart| part.name.split_once('/').map(|(g, _)| g.to_owned());
        let mut names: Vec<String> = self.out_of_domain.iter().filter_map(group).collect();
        names.sort();
        names.dedup();
        let mean = |name: Option<&str>| {
            let is_in = |part: &&OutOfDomainPart| name.is_none() || group(part).as_deref() == name;
            let parts: Vec<_> = self.out_of_domain.iter().filter(is_in).collect();
            let metric = |place: usize| {
                let values = parts.iter().map(|part| *part.found.values.each()[place]);
                let sum: Option<f64> = values.sum();
                sum.map(|sum| sum / parts.len() as f64)
            };
            let values = (0..OutOfDomain::METRICS.len()).map(metric).collect();
            (name.unwrap_or("all").to_owned(), parts.len(), values)
        };
        let groups = names.iter().map(|name| mean(Some(name)));
        std::iter::once(mean(None)).chain(groups).collect()
    }

    /// A record of a run without training, for a report, and what the report says beside it.
    ///
    /// # Errors
    /// There are no in-domain metrics, of which a record cannot do without.
    pub fn record(
        &self,
        inputs: &Inputs,
        settings: &Settings,
        names: &Names,
    ) -> Result<(RunRecord, report::Options), UserError> {
        let Some(part) = &self.in_domain else {
            return Err(UserError::new("a report needs --labels"));
        };
        let probabilities = inputs.probabilities.clone().unwrap_or_default();
        let sets = self.out_of_domain.iter().map(|set| {
            let (found, curves) = (set.found.clone(), set.curves.clone());
            OutOfDomainEvaluation::of_predictions(&set.name, found, curves)
        });
        let mut record = RunRecord::of_predictions(
            names,
            config(inputs, settings),
            (part.found.clone(), part.reliability.clone()),
            part.by_class.clone(),
            sets.collect(),
        );
        record.evaluations[0].details = self.details();
        record.evaluations[0].risk = Some(part.risk.summary());
        record.notes = self.notes.clone();
        let title = format!("Predictions in {probabilities}");
        let options = report::Options {
            title: Some(title),
            note: self.interval_note(),
            intervals: self.intervals(),
            ..report::Options::default()
        };
        Ok((record, options))
    }

    /// Further facts for the record.
    fn details(&self) -> serde_json::Map<String, Value> {
        let fitted = self.temperature.iter();
        let pairs = fitted.map(|fitted| ("temperature".to_owned(), number(fitted.value)));
        pairs.collect()
    }

    /// All intervals, for the tables of a page.
    fn intervals(&self) -> Vec<report::Interval> {
        let of = |set: Option<&str>, lines: Vec<Line<'static>>| {
            let set = set.map(str::to_owned);
            let known = lines
                .into_iter()
                .filter_map(move |(metric, _, interval, _)| {
                    let ConfidenceInterval { low, high, .. } = interval?;
                    let set = set.clone();
                    Some(report::Interval {
                        set,
                        metric,
                        low,
                        high,
                    })
                });
            known.collect::<Vec<_>>()
        };
        let inside = self.in_domain.iter().map(|part| of(None, part.lines()));
        let outside = self.out_of_domain.iter();
        let outside = outside.map(|part| of(Some(&part.name), part.lines()));
        inside.chain(outside).flatten().collect()
    }

    /// What the intervals are.
    fn interval_note(&self) -> Option<String> {
        let inside = self.in_domain.iter().flat_map(InDomainPart::lines);
        let outside = self.out_of_domain.iter().flat_map(OutOfDomainPart::lines);
        let ConfidenceInterval {
            level,
            replicates,
            seed,
            ..
        } = inside.chain(outside).find_map(|line| line.2)?;
        let level = significant(100.0 * level);
        Some(format!(
            "In brackets {level} % bootstrap intervals ({replicates} resamples, seed {seed})."
        ))
    }

    /// The metrics for people.
    pub fn text(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.temperature.as_ref().map(Temperature::text));
        if let Some(part) = &self.in_domain {
            parts.push(part.text());
        }
        parts.extend(self.out_of_domain.iter().map(OutOfDomainPart::text));
        if self.out_of_domain.len() > 1 {
            parts.push(self.text_of_means());
        }
        parts.extend(self.images.as_deref().map(bounds::text));
        parts.join("\n")
    }

    /// A line for every metric, a column for every group of sets.
    fn text_of_means(&self) -> String {
        let means = self.means();
        let heads = means
            .iter()
            .map(|(name, sets, _)| format!("{name} ({sets})"));
        let heads = std::iter::once(String::new()).chain(heads);
        let mut table = TextTable::new(heads.collect::<Vec<_>>());
        for (place, metric) in OutOfDomain::METRICS.iter().enumerate() {
            let value = |values: &Vec<Option<f64>>| {
                values[place].map_or_else(|| "undefined".to_owned(), significant)
            };
            let values = means.iter().map(|(_, _, values)| value(values));
            table.row(std::iter::once(metric.id.to_owned()).chain(values));
        }
        format!("Out-of-domain, means over sets\n{}", table.render())
    }
}

/// What was evaluated and how, as the config of a record.
fn config(inputs: &Inputs, settings: &Settings) -> Value {
    let others: serde_json::Map<String, Value> = inputs
        .others
        .iter()
        .map(|Named { name, file }| (name.clone(), json!(file)))
        .collect();
    json!({
        "probs": inputs.probabilities,
        "labels": inputs.labels,
        "scores": inputs.scores,
        "ood": others,
        "logits": settings.logits,
        "gram": inputs.gram.as_ref().map(|(file, _)| file),
        "precision": inputs.gram.as_ref().map(|(_, precision)| precision),
        "score": settings.score.name(),
        "validation": inputs.validation.as_ref().map(|(probs, labels)| json!([probs, labels])),
        "bins": settings.calibration.bins,
        "scheme": settings.calibration.scheme.name(),
    })
}

/// Metrics of another set; probabilities have so many classes.
fn detect(
    other: &Named,
    ins: &[f64],
    outs: &[f64],
    classes: usize,
    inputs: &Inputs,
    settings: &Settings,
) -> Result<OutOfDomainPart, UserError> {
    let ranking = Ranking::new(ins, outs).map_err(|error| match error {
        Error::Score { side, row } => {
            let own = inputs.scores.as_deref().unwrap_or_default();
            let file = if side == "in-domain" {
                own
            } else {
                &other.file
            };
            about(file, &format_args!("row {row} is not a number"))
        }
        other => mistake(&other),
    })?;
    let intervals = settings
        .bootstrap
        .map(|config| ranking.bootstrap(&config).map_err(|error| mistake(&error)))
        .transpose()?;
    // histograms span the range of the score, where it has one
    let range = match settings.score {
        ScoreSource::Probabilities(score) => Some(score.range(classes)),
        ScoreSource::Given { .. } | ScoreSource::Logits(_) => None,
    };
    let curves = if settings.curves {
        ranking.curves(histogram(ins, outs, range))
    } else {
        DetectionCurves::default()
    };
    Ok(OutOfDomainPart {
        name: other.name.clone(),
        found: ranking.detection(settings.score.name()),
        intervals,
        curves,
    })
}

/// What the predictions are worth, and class by class if curves are wanted, too. Probabilities that
/// nothing else needs are given up.
fn outcomes(
    probabilities: &mut Probabilities,
    labels: Loaded,
    settings: &Settings,
    are_last: bool,
) -> Result<(Outcomes, Option<ByClass>), UserError> {
    let name = labels.name.clone();
    let labels = labels.whole_column("labels")?;
    let classes = probabilities.classes;
    let mut by_class = None;
    let outcomes = if are_last && !settings.curves {
        let values = mem::replace(&mut probabilities.values, Floats::Single(Vec::new()));
        with_floats!(values, values => Outcomes::consuming(values, classes, &labels))
    } else {
        with_floats!(&probabilities.values, values => Outcomes::new(values, classes, &labels))
    };
    let mut outcomes = outcomes.map_err(|error| match error {
        Error::Labels { .. } => {
            UserError::new(format!("{name}: {error} in {}", probabilities.name))
        }
        Error::Label { .. } => about(&name, &error),
        other => probabilities.complain(&other),
    })?;
    probabilities.refine(&mut outcomes, &labels);
    if settings.curves {
        let labels: Vec<u32> = labels.iter().map(|&label| label as u32).collect();
        let found = with_floats!(&probabilities.values, values => evaluation::by_class(values, classes, &labels));
        by_class = Some(found.map_err(|error| mistake(&error))?);
    }
    Ok((outcomes, by_class))
}

fn in_domain(
    outcomes: &Outcomes,
    by_class: Option<ByClass>,
    settings: &Settings,
) -> Result<InDomainPart, UserError> {
    let Settings {
        calibration,
        bootstrap,
        ..
    } = settings;
    let (found, reliability) = outcomes
        .in_domain(calibration)
        .map_err(|error| mistake(&error))?;
    let intervals = bootstrap
        .map(|config| {
            let intervals = outcomes.bootstrap(calibration, &config);
            intervals.map_err(|error| mistake(&error))
        })
        .transpose()?;
    Ok(InDomainPart {
        found,
        reliability,
        intervals,
        risk: outcomes.risk_coverage(),
        by_class,
    })
}

/// A metric as it is printed: id, value, interval, meaning.
type Line<'a> = (&'a str, Option<f64>, Option<ConfidenceInterval>, String);

/// Lines under a title, in columns.
fn table(mut text: String, lines: &[Line<'_>]) -> String {
    let value = |value: Option<f64>| value.map_or_else(|| "undefined".to_owned(), significant);
    let ends = |interval: Option<ConfidenceInterval>| {
        interval.map_or_else(String::new, |ConfidenceInterval { low, high, .. }| {
            questions::text::interval(low, high)
        })
    };
    let cells: Vec<[String; 4]> = lines
        .iter()
        .map(|(name, number, interval, meaning)| {
            let name = (*name).to_owned();
            [name, value(*number), ends(*interval), meaning.clone()]
        })
        .collect();
    let width = |k: usize| {
        let lengths = cells.iter().map(|row| row[k].chars().count());
        lengths.max().unwrap_or(0)
    };
    if let Some(ConfidenceInterval { level, .. }) = lines.iter().find_map(|line| line.2) {
        let level = significant(100.0 * level);
        text.push_str(&format!("; in brackets {level} % bootstrap intervals"));
    }
    text.push('\n');
    for [name, number, ends, meaning] in &cells {
        let (first, second) = (width(0), width(1));
        text.push_str(&format!("  {name:<first$}  {number:<second$}  "));
        if width(2) > 0 {
            text.push_str(&format!("{ends:<0$}  ", width(2)));
        }
        text.push_str(meaning);
        text.push('\n');
    }
    text
}

/// Metrics in the order of their table; `facts` are what stands for the words in braces.
fn lines(
    metrics: &'static [Metric],
    values: &[&Option<f64>],
    intervals: &[&Option<ConfidenceInterval>],
    facts: &[(&str, String)],
) -> Vec<Line<'static>> {
    let line = |((metric, value), interval): ((&'static Metric, &&Option<f64>), &&Option<_>)| {
        let brief = facts
            .iter()
            .fold(metric.brief.to_owned(), |text, (word, fact)| {
                text.replace(word, fact)
            });
        (metric.id, **value, **interval, brief)
    };
    let pairs = metrics.iter().zip(values).zip(intervals);
    pairs.map(line).collect()
}

impl InDomainPart {
    fn lines(&self) -> Vec<Line<'static>> {
        let Reliability { scheme, bins } = &self.reliability;
        let (values, intervals) = (&self.found.values, self.intervals.unwrap_or_default());
        let facts = [("{bins}", format!("{} {scheme}", bins.len()))];
        lines(InDomain::METRICS, &values.each(), &intervals.each(), &facts)
    }

    fn text(&self) -> String {
        let (samples, classes) = (self.found.samples, self.found.classes);
        let title = format!("In-domain: {samples} images, {classes} classes");
        let risks = COVERAGES.map(|coverage| {
            let risk = significant(self.risk.at(coverage));
            format!("{risk} of the surest {}%", 100.0 * coverage)
        });
        let (area, excess) = (self.risk.area(), self.risk.excess_area());
        format!(
            "{}  wrong: {}\n  aurc {}, area under this risk over coverage; {} more than the best order\n",
            table(title, &self.lines()),
            risks.join(", "),
            significant(area),
            significant(excess),
        )
    }
}

impl OutOfDomainPart {
    fn lines(&self) -> Vec<Line<'static>> {
        let Detection {
            values,
            in_samples,
            out_samples,
            ..
        } = &self.found;
        let intervals = self.intervals.unwrap_or_default();
        let share = |count: usize| significant(count as f64 / (in_samples + out_samples) as f64);
        let facts = [
            ("{in_share}", share(*in_samples)),
            ("{out_share}", share(*out_samples)),
        ];
        lines(
            OutOfDomain::METRICS,
            &values.each(),
            &intervals.each(),
            &facts,
        )
    }

    fn text(&self) -> String {
        let Detection {
            in_samples,
            out_samples,
            score,
            ..
        } = &self.found;
        let name = &self.name;
        let title =
            format!("Out-of-domain, {name}: {in_samples} images in, {out_samples} out, by {score}");
        table(title, &self.lines())
    }
}
