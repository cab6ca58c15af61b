//! Predictions from files, evaluated: what `maxitive evaluate` prints.

use std::fmt::Display;

use evaluation::metrics::curves::histogram;
use evaluation::record::{
    Checkpoint, Code, Evaluation, Hardware, OutOfDomainEvaluation, RunRecord, SCHEMA, Timings,
};
use evaluation::results::{
    DetectionCurves, InDomain, InDomainIntervals, Interval, OutOfDomain, OutOfDomainIntervals,
    Reliability,
};
use evaluation::{BootstrapConfig, CalibrationConfig, Error, Outcomes, Ranking};
use serde_json::{Value, json};

use crate::arrays::{Floats, Loaded};
use crate::report::significant;
use crate::user_error::UserError;

/// Files to evaluate.
#[derive(Debug)]
pub struct Inputs {
    /// Probabilities, or logits, on the test set.
    pub probabilities: Option<String>,
    /// Labels of the test set.
    pub labels: Option<String>,
    /// Ready-made scores of the test set.
    pub scores: Option<String>,
    /// Probabilities, or ready-made scores, of other sets.
    pub others: Vec<Named>,
}

/// A file with a name for what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// What the set is called.
    pub name: String,
    /// Where it is.
    pub file: String,
}

/// How to evaluate them.
#[derive(Debug)]
pub struct Settings {
    /// Files hold logits.
    pub logits: bool,
    /// What tells the sets apart.
    pub score: Score,
    /// Bins of the calibration error.
    pub calibration: CalibrationConfig,
    /// How to draw intervals, if they are asked for.
    pub bootstrap: Option<BootstrapConfig>,
    /// Curves are wanted, too, for a record.
    pub curves: bool,
}

/// What tells in-domain from out-of-domain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Score {
    /// Of the probabilities.
    MaximumProbability,
    /// Of the probabilities.
    NegativeEntropy,
    /// Ready-made, higher for in-domain.
    Given,
    /// Ready-made, lower for in-domain.
    GivenNegated,
}

impl Score {
    fn name(self) -> &'static str {
        match self {
            Self::MaximumProbability => "maximum probability",
            Self::NegativeEntropy => "negative entropy",
            Self::Given => "given",
            Self::GivenNegated => "given, negated",
        }
    }

    /// Range of the histograms: that of the score, where it has one.
    fn range(self, classes: usize) -> Option<(f64, f64)> {
        match self {
            Self::MaximumProbability => Some((0.0, 1.0)),
            Self::NegativeEntropy => Some((-(classes as f64).ln(), 0.0)),
            Self::Given | Self::GivenNegated => None,
        }
    }
}

/// In-domain metrics and where they came from.
#[derive(Debug)]
struct InDomainPart {
    metrics: InDomain,
    reliability: Reliability,
    intervals: Option<InDomainIntervals>,
}

/// Metrics of one out-of-domain set.
#[derive(Debug)]
struct OutOfDomainPart {
    name: String,
    metrics: OutOfDomain,
    intervals: Option<OutOfDomainIntervals>,
    curves: DetectionCurves,
}

/// All metrics of the given files.
#[derive(Debug)]
pub struct Assessment {
    in_domain: Option<InDomainPart>,
    out_of_domain: Vec<OutOfDomainPart>,
    notes: Vec<String>,
}

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
    classes: usize,
}

impl Probabilities {
    fn new(loaded: Loaded, logits: bool) -> Result<Self, UserError> {
        let name = loaded.name.clone();
        let what = if logits { "logits" } else { "probabilities" };
        let (mut values, classes) = loaded.matrix(what)?;
        if logits {
            let probabilities =
                with_floats!(&values, values => evaluation::softmax(values, classes));
            values = Floats::Double(probabilities.map_err(|error| about(&name, &error))?);
        }
        Ok(Self {
            name,
            values,
            classes,
        })
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

    fn scores(&self, score: Score) -> Result<Vec<f64>, UserError> {
        let classes = self.classes;
        // a set without images has no scores, and every metric of it is undefined
        if with_floats!(&self.values, values => values.is_empty()) {
            return Ok(Vec::new());
        }
        let scores = with_floats!(&self.values, values => match score {
            Score::NegativeEntropy => evaluation::negative_entropy(values, classes),
            _ => evaluation::maximum_probability(values, classes),
        });
        scores.map_err(|error| self.complain(&error))
    }
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
        if inputs.labels.is_none() && inputs.others.is_empty() {
            return Err(UserError::new(
                "nothing to compare with: give --labels, or other inputs with --ood",
            ));
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
            notes: Vec::new(),
        };
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
        let (probabilities, labels) = assessment.settle_headers(probabilities, labels);
        let probabilities = probabilities
            .map(|loaded| Probabilities::new(loaded, settings.logits))
            .transpose()?;
        let mut confidence = None;
        if let (Some(probabilities), Some(labels)) = (&probabilities, labels) {
            let outcomes = outcomes(probabilities, labels)?;
            assessment.in_domain = Some(in_domain(&outcomes, settings)?);
            confidence = Some(outcomes.confidence().to_vec());
        }
        if inputs.others.is_empty() {
            return Ok(assessment);
        }
        let ins = match (&inputs.scores, &probabilities, settings.score) {
            (Some(file), _, score) => assessment.given_scores(file, "scores", score)?,
            (None, _, Score::MaximumProbability) if confidence.is_some() => {
                confidence.unwrap_or_default()
            }
            (None, Some(probabilities), score) => probabilities.scores(score)?,
            (None, None, _) => {
                return Err(UserError::new(
                    "out-of-domain metrics need --probs or --scores",
                ));
            }
        };
        for Named { name, file } in &inputs.others {
            let outs = match &probabilities {
                _ if inputs.scores.is_some() => {
                    assessment.given_scores(file, "ood_scores", settings.score)?
                }
                Some(ours) => {
                    let loaded = Loaded::read(file, "ood")?;
                    let loaded = assessment.keep(loaded);
                    let theirs = Probabilities::new(loaded, settings.logits)?;
                    if theirs.classes != ours.classes {
                        return Err(UserError::new(format!(
                            "{} has {} classes, but {} has {}",
                            theirs.name, theirs.classes, ours.name, ours.classes
                        )));
                    }
                    theirs.scores(settings.score)?
                }
                None => return Err(UserError::new("--ood needs --probs")),
            };
            let ranking = Ranking::new(&ins, &outs).map_err(|error| match error {
                Error::Score {
                    side: "in-domain",
                    row,
                } => {
                    let file = inputs.scores.as_deref().unwrap_or_default();
                    about(file, &format_args!("row {row} is not a number"))
                }
                Error::Score { row, .. } => about(file, &format_args!("row {row} is not a number")),
                other => mistake(&other),
            })?;
            let intervals = settings
                .bootstrap
                .map(|config| ranking.bootstrap(&config).map_err(|error| mistake(&error)))
                .transpose()?;
            let curves = if settings.curves {
                let classes = probabilities.as_ref().map_or(0, |p| p.classes);
                ranking.curves(histogram(&ins, &outs, settings.score.range(classes)))
            } else {
                DetectionCurves::default()
            };
            assessment.out_of_domain.push(OutOfDomainPart {
                name: name.clone(),
                metrics: ranking.metrics(settings.score.name()),
                intervals,
                curves,
            });
        }
        Ok(assessment)
    }

    /// Remarks for the person at the keyboard.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// A first line `0` or `0,1` is a header if the other file has one row less.
    fn settle_headers(
        &mut self,
        probabilities: Option<Loaded>,
        labels: Option<Loaded>,
    ) -> (Option<Loaded>, Option<Loaded>) {
        match (probabilities, labels) {
            (Some(p), Some(y)) if p.is_doubtful() && p.rows() == y.rows() + 1 => {
                let y = self.keep(y);
                (Some(self.drop_header(p)), Some(y))
            }
            (Some(p), Some(y)) if y.is_doubtful() && y.rows() == p.rows() + 1 => {
                let p = self.keep(p);
                (Some(p), Some(self.drop_header(y)))
            }
            // rows that agree settle it, unless both files may have a header
            (Some(p), Some(y)) if p.rows() == y.rows() && !(p.is_doubtful() && y.is_doubtful()) => {
                (Some(p), Some(y))
            }
            (p, y) => (p.map(|p| self.keep(p)), y.map(|y| self.keep(y))),
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
        score: Score,
    ) -> Result<Vec<f64>, UserError> {
        let loaded = Loaded::read(file, usual)?;
        let mut scores = match self.keep(loaded).column("scores")? {
            Floats::Single(values) => values.into_iter().map(f64::from).collect(),
            Floats::Double(values) => values,
        };
        if score == Score::GivenNegated {
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
                let mut value = serde_json::to_value(&part.metrics)?;
                value["bins"] = json!({
                    "number": part.reliability.bins.len(),
                    "scheme": part.reliability.scheme,
                });
                if let Some(intervals) = &part.intervals {
                    value["intervals"] = serde_json::to_value(intervals)?;
                }
                value
            }
        };
        let mut sets = Vec::with_capacity(self.out_of_domain.len());
        for part in &self.out_of_domain {
            let mut value = serde_json::to_value(&part.metrics)?;
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
        Ok(json!({"in_domain": in_domain, "ood": ood}))
    }

    /// A record of a run without training, for a report, and what the report says beside it.
    ///
    /// # Errors
    /// There are no in-domain metrics, of which a record cannot do without.
    pub fn record(
        &self,
        inputs: &Inputs,
        settings: &Settings,
    ) -> Result<(RunRecord, report::Options), UserError> {
        let Some(part) = &self.in_domain else {
            return Err(UserError::new("a report needs --labels"));
        };
        let probabilities = inputs.probabilities.clone().unwrap_or_default();
        let sets = self.out_of_domain.iter().map(|set| OutOfDomainEvaluation {
            dataset: set.name.clone(),
            normalization: "the program that made the predictions".to_owned(),
            metrics: set.metrics.clone(),
            curves: set.curves.clone(),
        });
        let evaluation = Evaluation {
            row: "predictions".to_owned(),
            predictive: "given".to_owned(),
            samples: 1,
            checkpoint: Checkpoint::Final,
            epoch: 0,
            seconds: 0.0,
            in_domain: part.metrics.clone(),
            reliability: part.reliability.clone(),
            out_of_domain: sets.collect(),
            details: serde_json::Map::new(),
            predictions: None,
        };
        let others: serde_json::Map<String, Value> = inputs
            .others
            .iter()
            .map(|Named { name, file }| (name.clone(), json!(file)))
            .collect();
        let config = json!({
            "probs": inputs.probabilities,
            "labels": inputs.labels,
            "scores": inputs.scores,
            "ood": others,
            "logits": settings.logits,
            "score": settings.score.name(),
            "bins": settings.calibration.bins,
            "scheme": settings.calibration.scheme.name(),
        });
        let title = format!("Predictions in {probabilities}");
        let record = RunRecord {
            schema: SCHEMA.to_owned(),
            name: "predictions".to_owned(),
            experiment: String::new(),
            dataset: probabilities,
            network: String::new(),
            parameters: 0,
            rule: String::new(),
            seed: 0,
            config,
            code: Code {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                commit: None,
            },
            device: String::new(),
            precision: String::new(),
            hardware: Hardware {
                device: String::new(),
                cores: 0,
                threads: 0,
                isa: String::new(),
            },
            timings: Timings {
                started_unix: 0,
                train_s: 0.0,
                validation_s: 0.0,
                evaluation_s: 0.0,
                steps: 0,
                resumed: 0,
                peak_memory_bytes: None,
            },
            notes: Vec::new(),
            curves: Vec::new(),
            evaluations: vec![evaluation],
        };
        let options = report::Options {
            title: Some(title),
            note: self.interval_note(),
        };
        Ok((record, options))
    }

    /// All intervals in a few sentences.
    fn interval_note(&self) -> Option<String> {
        let mut lists = Vec::new();
        let mut first = None;
        let mut list = |title: &str, lines: &[Line<'_>]| {
            let ends = lines.iter().filter_map(|(name, _, interval, _)| {
                let Interval { low, high, .. } = (*interval)?;
                first = first.or(*interval);
                Some(format!("{name} {low:.3} to {high:.3}"))
            });
            let ends: Vec<String> = ends.collect();
            if !ends.is_empty() {
                lists.push(format!("{title}: {}", ends.join(", ")));
            }
        };
        if let Some(part) = &self.in_domain {
            list("In-domain", &part.lines());
        }
        for part in &self.out_of_domain {
            list(&part.name, &part.lines());
        }
        let Interval {
            level,
            replicates,
            seed,
            ..
        } = first?;
        let level = significant(100.0 * level);
        Some(format!(
            "{level} % bootstrap intervals ({replicates} resamples, seed {seed}). {}.",
            lists.join(". ")
        ))
    }

    /// The metrics for people.
    pub fn text(&self) -> String {
        let mut parts = Vec::new();
        if let Some(part) = &self.in_domain {
            parts.push(part.text());
        }
        parts.extend(self.out_of_domain.iter().map(OutOfDomainPart::text));
        parts.join("\n")
    }
}

fn outcomes(probabilities: &Probabilities, labels: Loaded) -> Result<Outcomes, UserError> {
    let name = labels.name.clone();
    let labels = labels.whole_column("labels")?;
    let Probabilities {
        values, classes, ..
    } = probabilities;
    let outcomes = with_floats!(values, values => Outcomes::new(values, *classes, &labels));
    outcomes.map_err(|error| match error {
        Error::Labels { .. } => {
            UserError::new(format!("{name}: {error} in {}", probabilities.name))
        }
        Error::Label { .. } => about(&name, &error),
        other => probabilities.complain(&other),
    })
}

fn in_domain(outcomes: &Outcomes, settings: &Settings) -> Result<InDomainPart, UserError> {
    let Settings {
        calibration,
        bootstrap,
        ..
    } = settings;
    let (metrics, reliability) = outcomes
        .in_domain(calibration)
        .map_err(|error| mistake(&error))?;
    let intervals = bootstrap
        .map(|config| {
            let intervals = outcomes.bootstrap(calibration, &config);
            intervals.map_err(|error| mistake(&error))
        })
        .transpose()?;
    Ok(InDomainPart {
        metrics,
        reliability,
        intervals,
    })
}

/// A metric as it is printed: name, value, interval, meaning.
type Line<'a> = (&'a str, Option<f64>, Option<Interval>, String);

/// Lines under a title, in columns.
fn table(mut text: String, lines: &[Line<'_>]) -> String {
    let value = |value: Option<f64>| value.map_or_else(|| "undefined".to_owned(), significant);
    let ends = |interval: Option<Interval>| {
        interval.map_or_else(String::new, |Interval { low, high, .. }| {
            crate::report::interval(low, high)
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
    if let Some(Interval { level, .. }) = lines.iter().find_map(|line| line.2) {
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

impl InDomainPart {
    fn lines(&self) -> [Line<'static>; 6] {
        let (m, i) = (&self.metrics, self.intervals.unwrap_or_default());
        let Reliability { scheme, bins } = &self.reliability;
        let bins = bins.len();
        let calibration = format!("calibration error over {bins} {scheme} bins; lower is better");
        let brier = "squared distance from the label, 0 to 2; lower is better";
        let auroc = "right predictions are surer than wrong ones; 0.5 is chance";
        [
            (
                "accuracy",
                Some(m.accuracy),
                i.accuracy,
                "right predictions; higher is better".into(),
            ),
            (
                "top5",
                m.top5,
                i.top5,
                "label among the five most probable; higher is better".into(),
            ),
            (
                "nll",
                Some(m.nll),
                i.nll,
                "mean of -log p(label); lower is better".into(),
            ),
            ("ece", Some(m.ece), i.ece, calibration),
            ("brier", Some(m.brier), i.brier, brier.into()),
            ("auroc", m.auroc, i.auroc, auroc.into()),
        ]
    }

    fn text(&self) -> String {
        let (samples, classes) = (self.metrics.samples, self.metrics.classes);
        let title = format!("In-domain: {samples} images, {classes} classes");
        table(title, &self.lines())
    }
}

impl OutOfDomainPart {
    fn lines(&self) -> [Line<'static>; 6] {
        let (m, i) = (&self.metrics, self.intervals.unwrap_or_default());
        let total = (m.in_samples + m.out_samples) as f64;
        let precision = |positive: &str, count: usize| {
            let chance = significant(count as f64 / total);
            format!("average precision, {positive} positive; {chance} is chance")
        };
        let fpr = "others accepted where 95 % of in-domain are; lower is better";
        let averaged = "the same averaged up to there: the paper's FPR@95";
        let error = "error of the best threshold, both sides alike; lower is better";
        [
            (
                "auroc",
                m.auroc,
                i.auroc,
                "in-domain scores higher; 0.5 is chance".into(),
            ),
            (
                "aupr_in",
                m.aupr_in,
                i.aupr_in,
                precision("in-domain", m.in_samples),
            ),
            (
                "aupr_out",
                m.aupr_out,
                i.aupr_out,
                precision("out-of-domain", m.out_samples),
            ),
            (
                "fpr_at_95_tpr",
                m.fpr_at_95_tpr,
                i.fpr_at_95_tpr,
                fpr.into(),
            ),
            (
                "mean_fpr_below_95_tpr",
                m.mean_fpr_below_95_tpr,
                i.mean_fpr_below_95_tpr,
                averaged.into(),
            ),
            (
                "detection_error",
                m.detection_error,
                i.detection_error,
                error.into(),
            ),
        ]
    }

    fn text(&self) -> String {
        let OutOfDomain {
            in_samples,
            out_samples,
            score,
            ..
        } = &self.metrics;
        let name = &self.name;
        let title =
            format!("Out-of-domain, {name}: {in_samples} images in, {out_samples} out, by {score}");
        table(title, &self.lines())
    }
}
