//! What the paper prints, number by number, and what an independent reproduction found.
//!
//! `data/paper.toml` holds every number of the paper's result tables as printed (`data/extract.py`
//! reads them from its source), `data/notes.toml` what is known about some of them,
//! `data/reproduction.toml` the reproduction. A number is addressed by experiment (`fmnist`), row
//! (`uCBOpt`), checkpoint and metric; the metric of an out-of-domain set carries the set:
//! `svhn/auroc`. The paper's column "FPR@95" is `mean_fpr_below_95_tpr`, which is what its numbers
//! are.

use std::collections::HashMap;
use std::sync::LazyLock;

use evaluation::record::Checkpoint;
use serde::Deserialize;
use serde::de::DeserializeOwned;

/// Runs behind each of the paper's numbers.
pub const PAPER_RUNS: usize = 3;

/// Half a unit of the last printed digit: what rounding hides.
const ROUNDING: f64 = 0.0005;

/// Rows in the order of the paper's tables.
pub const ROWS: [&str; 11] = [
    "AdamW",
    "SGD",
    "IVON@mean",
    "IVON",
    "MC-D",
    "Laplace",
    "SWAG",
    "uCBOpt (ϑ→0)",
    "uCBOpt",
    "uCBOpt-adapt",
    "lCBOpt-adapt",
];

/// Experiments with a table in the paper, and epochs of their runs.
pub const EXPERIMENTS: [(&str, usize); 9] = [
    ("fmnist", 100),
    ("cifar10", 200),
    ("cifar100", 200),
    ("ablation-vartheta", 100),
    ("ablation-gamma-upper", 100),
    ("ablation-beta3-upper", 100),
    ("ablation-gamma-lower", 100),
    ("ablation-beta3-lower", 100),
    ("mc-dropout", 200),
];

/// A published number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Published {
    /// Mean over the runs, as printed.
    pub value: f64,
    /// Deviation over the runs, as printed, where it was.
    pub deviation: Option<f64>,
    /// Runs behind the mean.
    pub runs: usize,
    /// Mean and deviation that were meant, where the printed ones are a slip and the right ones
    /// stand elsewhere in the paper.
    pub meant: Option<(f64, f64)>,
    /// What is known about the number.
    pub note: Option<&'static str>,
}

impl Published {
    /// The mean to compare with: the one that was meant, else the printed one.
    pub fn mean(&self) -> f64 {
        self.meant.map_or(self.value, |(mean, _)| mean)
    }

    /// The deviation that belongs to [`Self::mean`].
    pub fn spread(&self) -> Option<f64> {
        self.meant
            .map(|(_, deviation)| deviation)
            .or(self.deviation)
    }

    /// How far a mean of `runs` runs lies from this one, in standard errors of both together,
    /// `(|Δ| - rounding) / √(s²/n + s'²/n')`; a difference that rounding to three digits explains
    /// is 0.
    ///
    /// `None` where a deviation is unknown or a mean is not finite.
    pub fn standard_errors(&self, mean: f64, deviation: Option<f64>, runs: usize) -> Option<f64> {
        let difference = ((mean - self.mean()).abs() - ROUNDING).max(0.0);
        let (own, published) = (deviation?, self.spread()?);
        if !difference.is_finite() || runs == 0 {
            return None;
        }
        if difference == 0.0 {
            return Some(0.0);
        }
        let variance = own * own / runs as f64 + published * published / self.runs as f64;
        Some(difference / variance.sqrt())
    }
}

/// The paper's number, from the full tables of the appendix where the main table has it too.
///
/// ```
/// use evaluation::record::Checkpoint;
/// let nll = report::paper::lookup("fmnist", "SGD", Checkpoint::Final, "nll").unwrap();
/// assert_eq!((nll.value, nll.deviation), (0.441, Some(0.025)));
/// // two columns of this row are swapped in the paper
/// let ece = report::paper::lookup("fmnist", "IVON", Checkpoint::Final, "ece").unwrap();
/// assert_eq!((ece.value, ece.mean()), (0.130, 0.018));
/// assert!(ece.note.unwrap().contains("swapped"));
/// assert!(report::paper::lookup("fmnist", "SGD", Checkpoint::Final, "kmnist/auroc").is_none());
/// ```
pub fn lookup(
    experiment: &str,
    row: &str,
    checkpoint: Checkpoint,
    metric: &str,
) -> Option<Published> {
    find(&DATA.paper, experiment, row, checkpoint, metric)
}

/// The number of the independent reproduction, where there is one.
///
/// ```
/// use evaluation::record::Checkpoint;
/// let nll = report::paper::reproduction("fmnist", "SWAG", Checkpoint::Best, "nll").unwrap();
/// assert_eq!((nll.value, nll.runs), (0.291, 3));
/// ```
pub fn reproduction(
    experiment: &str,
    row: &str,
    checkpoint: Checkpoint,
    metric: &str,
) -> Option<Published> {
    find(&DATA.reproduction, experiment, row, checkpoint, metric)
}

/// What is known about a whole row of the paper's table.
pub fn row_note(experiment: &str, row: &str, checkpoint: Checkpoint) -> Option<&'static str> {
    let row = canonical(row);
    let paper = &DATA.paper;
    paper
        .row_notes
        .iter()
        .find(|(at, _)| at.0 == experiment && at.1 == row && at.2.is_none_or(|at| at == checkpoint))
        .map(|&(_, text)| text)
}

/// The out-of-domain set of an experiment of the paper.
pub fn out_of_domain_set(experiment: &str) -> Option<&'static str> {
    let known = EXPERIMENTS.iter().any(|(name, _)| *name == experiment);
    known.then_some(match experiment {
        "cifar10" | "mc-dropout" => "svhn",
        "cifar100" => "tiny-imagenet",
        _ => "emnist-letters",
    })
}

/// Every printed number: (experiment, row, checkpoint, metric), main and full tables alike, so that
/// some come twice.
pub fn printed() -> impl Iterator<
    Item = (
        &'static str,
        &'static str,
        Checkpoint,
        &'static str,
        Published,
    ),
> {
    DATA.tables.iter().flat_map(|table| {
        table.rows.iter().flat_map(move |row| {
            let columns = table.columns.iter().zip(&row.cells);
            columns.map(move |(metric, cell)| {
                let at = table.checkpoint;
                (table.experiment, row.name, at, metric.as_str(), cell.number)
            })
        })
    })
}

/// One experiment's part of a table of the paper, as printed.
pub(crate) struct PrintedTable {
    /// Label of the table in the paper's source: `tab:main-results`.
    pub label: &'static str,
    /// Experiment of the rows.
    pub experiment: &'static str,
    /// Checkpoint of the rows.
    pub checkpoint: Checkpoint,
    /// Metrics, those of an out-of-domain set with the set: `svhn/auroc`.
    pub columns: &'static [String],
    /// Rows in the paper's order.
    pub rows: Vec<PrintedRow>,
}

/// A row of a [`PrintedTable`].
pub(crate) struct PrintedRow {
    /// Name of the row.
    pub name: &'static str,
    /// One cell per column.
    pub cells: Vec<PrintedCell>,
    /// What is known about the whole row of this table.
    pub note: Option<&'static str>,
}

/// A cell of a [`PrintedTable`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct PrintedCell {
    /// The number, with what is known about it.
    pub number: Published,
    /// The paper sets it in bold.
    pub is_bold: bool,
}

/// The parts of the paper's tables in its order; parts of one table follow each other.
pub(crate) fn tables() -> &'static [PrintedTable] {
    &DATA.tables
}

/// What the paper trains in an experiment: dataset and network.
pub(crate) fn setting(experiment: &str) -> Option<(&'static str, &'static str)> {
    let known = EXPERIMENTS.iter().any(|(name, _)| *name == experiment);
    known.then_some(match experiment {
        "cifar10" | "mc-dropout" => ("cifar-10", "resnet20"),
        "cifar100" => ("cifar-100", "densenet121"),
        _ => ("fashion-mnist", "lenet"),
    })
}

/// Experiments with a block in the paper's table of runtimes.
pub(crate) const RUNTIME_BLOCKS: [&str; 3] = ["fmnist", "cifar10", "cifar100"];

/// Rules of the table of runtimes: id, name, and the paper's column, of which the last serves three
/// rules.
pub(crate) const RUNTIME_COLUMNS: [(&str, &str, &str); 6] = [
    ("adamw", "AdamW", "AdamW"),
    ("sgd", "SGD", "SGD"),
    ("ivon", "IVON", "IVON"),
    ("ucbopt", "uCBOpt", "CBOpt variants"),
    ("ucbopt-adapt", "uCBOpt-adapt", "CBOpt variants"),
    ("lcbopt-adapt", "lCBOpt-adapt", "CBOpt variants"),
];

/// Seconds and memory as the paper prints them, for an experiment and an update rule:
/// `(seconds, GiB allocated, GiB reserved)`. The experiment `runtime` has several datasets, each of
/// which stands for a block of the main table.
///
/// The paper calls the seconds those of the full run; they are those of an epoch.
///
/// ```
/// use report::paper::runtime;
/// assert_eq!(runtime("runtime", "cifar-10", "sgd"), runtime("cifar10", "cifar-10", "sgd"));
/// ```
pub fn runtime(experiment: &str, dataset: &str, rule: &str) -> Option<(f64, f64, f64)> {
    let of_dataset = |block: &&str| setting(block).is_some_and(|(known, _)| known == dataset);
    let experiment = match experiment {
        "runtime" => RUNTIME_BLOCKS.into_iter().find(of_dataset)?,
        _ => experiment,
    };
    let (_, _, column) = RUNTIME_COLUMNS.iter().find(|(known, ..)| *known == rule)?;
    let table = DATA
        .runtime
        .iter()
        .find(|table| table.experiment == experiment)?;
    let i = table.columns.iter().position(|name| name == *column)?;
    Some((
        *table.seconds.get(i)?,
        *table.allocated_gib.get(i)?,
        *table.reserved_gib.get(i)?,
    ))
}

/// Name of the row of an ablation: `ϑ = 1e-7`, `γ = 0.95`, `β₃ = 1.001`, `ϑ = 0`.
///
/// ```
/// use report::paper::ablation_row;
/// assert_eq!(ablation_row("ϑ", 8e-6), "ϑ = 8e-6");
/// assert_eq!(ablation_row("γ", 2.0), "γ = 2");
/// assert_eq!(ablation_row("β₃", 1.00001), "β₃ = 1.00001");
/// ```
pub fn ablation_row(symbol: &str, value: f64) -> String {
    if value != 0.0 && !(1e-3..1e6).contains(&value.abs()) {
        format!("{symbol} = {value:e}")
    } else {
        format!("{symbol} = {value}")
    }
}

/// Symbol and value of an ablation's row.
pub(crate) fn ablation_value(row: &str) -> Option<(&str, f64)> {
    let (symbol, value) = row.split_once(" = ")?;
    let value: f64 = value.parse().ok()?;
    value.is_finite().then_some((symbol, value))
}

/// `γ = 2.0` and `γ = 2` are the same row.
pub(crate) fn canonical(row: &str) -> String {
    ablation_value(row).map_or_else(
        || row.to_owned(),
        |(symbol, value)| ablation_row(symbol, value),
    )
}

fn find(
    source: &Source,
    experiment: &str,
    row: &str,
    checkpoint: Checkpoint,
    metric: &str,
) -> Option<Published> {
    let key = (
        experiment.to_owned(),
        canonical(row),
        checkpoint,
        metric.to_owned(),
    );
    source.numbers.get(&key).copied()
}

type Key = (String, String, Checkpoint, String);
type RowKey = (String, String, Option<Checkpoint>);

#[derive(Default)]
struct Source {
    numbers: HashMap<Key, Published>,
    row_notes: Vec<(RowKey, &'static str)>,
}

struct Data {
    paper: Source,
    reproduction: Source,
    tables: Vec<PrintedTable>,
    runtime: Vec<RuntimeTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    table: Vec<Table>,
    #[serde(default)]
    runtime: Vec<RuntimeTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(default)]
    label: String,
    #[serde(default)]
    table: String,
    experiment: String,
    checkpoint: Checkpoint,
    #[serde(default = "paper_runs")]
    seeds: usize,
    columns: Vec<String>,
    rows: toml::Table,
}

fn paper_runs() -> usize {
    PAPER_RUNS
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuntimeTable {
    experiment: String,
    columns: Vec<String>,
    seconds: Vec<f64>,
    allocated_gib: Vec<f64>,
    reserved_gib: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Notes {
    note: Vec<Note>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    table: Option<String>,
    experiment: String,
    rows: Vec<String>,
    checkpoint: Option<Checkpoint>,
    #[serde(default)]
    metrics: Vec<String>,
    #[serde(default)]
    meant: Vec<String>,
    #[serde(default)]
    inferred: bool,
    text: String,
}

impl Note {
    fn concerns(&self, table: &Table, row: &str) -> bool {
        self.table.as_ref().is_none_or(|name| *name == table.table)
            && self.experiment == table.experiment
            && self.rows.iter().any(|name| name == row)
            && self.checkpoint.is_none_or(|at| at == table.checkpoint)
    }
}

/// A file that is part of the program; tests read it whole, so that this cannot fail for a user.
/// It is read from a table, as configs are, so that no second reader of TOML is compiled.
fn embedded<T: DeserializeOwned>(text: &str) -> T {
    let table: toml::Table = text.parse().expect("a test reads the embedded files");
    T::deserialize(table).expect("a test reads the embedded files")
}

static DATA: LazyLock<Data> = LazyLock::new(|| {
    let paper: File = embedded(include_str!("../data/paper.toml"));
    let again: File = embedded(include_str!("../data/reproduction.toml"));
    let notes: Notes = embedded(include_str!("../data/notes.toml"));
    // the process keeps them for good, as it would constants
    let notes: &'static [Note] = Vec::leak(notes.note);
    let tables: &'static [Table] = Vec::leak(paper.table);
    let mut printed = Vec::new();
    let mut source = Source::default();
    for table in tables {
        let mut part = PrintedTable {
            label: &table.label,
            experiment: &table.experiment,
            checkpoint: table.checkpoint,
            columns: &table.columns,
            rows: Vec::new(),
        };
        for (row, metric, cell) in numbers(table) {
            let PrintedCell {
                mut number,
                is_bold,
            } = cell;
            for note in notes.iter().filter(|note| note.concerns(table, row)) {
                if let Some(i) = note.metrics.iter().position(|name| name == metric) {
                    number.note = Some(said(note));
                    number.meant = note.meant.get(i).map(|text| {
                        let (mean, deviation, _) = parse(text);
                        (mean, deviation.expect("what was meant has a deviation"))
                    });
                }
            }
            let cell = PrintedCell { number, is_bold };
            match part.rows.last_mut() {
                Some(last) if last.name == row => last.cells.push(cell),
                _ => {
                    let mut known = notes.iter().filter(|note| note.concerns(table, row));
                    let whole = known.find(|note| note.metrics.is_empty());
                    part.rows.push(PrintedRow {
                        name: row,
                        cells: vec![cell],
                        note: whole.map(said),
                    });
                }
            }
            // the full tables stand after the main one and replace it
            let key = (
                table.experiment.clone(),
                row.to_owned(),
                table.checkpoint,
                metric.to_owned(),
            );
            source.numbers.insert(key, number);
        }
        printed.push(part);
    }
    for note in notes.iter().filter(|note| note.metrics.is_empty()) {
        // what is said of the main table alone does not concern the numbers that replaced it
        if note.table.as_deref() == Some("main") {
            continue;
        }
        for row in &note.rows {
            let key = (note.experiment.clone(), row.clone(), note.checkpoint);
            source.row_notes.push((key, said(note)));
        }
    }
    let mut reproduction = Source::default();
    for table in &again.table {
        for (row, metric, cell) in numbers(table) {
            let key = (
                table.experiment.clone(),
                row.to_owned(),
                table.checkpoint,
                metric.to_owned(),
            );
            reproduction.numbers.insert(key, cell.number);
        }
    }
    Data {
        paper: source,
        reproduction,
        tables: printed,
        runtime: paper.runtime,
    }
});

fn said(note: &'static Note) -> &'static str {
    if note.inferred {
        format!("{} (our inference)", note.text).leak()
    } else {
        &note.text
    }
}

/// The numbers of a table: row, metric, number.
fn numbers(table: &Table) -> impl Iterator<Item = (&str, &str, PrintedCell)> {
    table.rows.iter().flat_map(move |(row, cells)| {
        let cells = cells.as_array().expect("a row is an array");
        assert_eq!(
            cells.len(),
            table.columns.len(),
            "row {row} is as long as its header"
        );
        table.columns.iter().zip(cells).map(move |(metric, cell)| {
            let (value, deviation, is_bold) = parse(cell.as_str().expect("a cell is text"));
            let number = Published {
                value,
                deviation,
                runs: table.seeds,
                meant: None,
                note: None,
            };
            let cell = PrintedCell { number, is_bold };
            (row.as_str(), metric.as_str(), cell)
        })
    })
}

/// `0.441 ± 0.025 bold`, `0.441 ± 0.025` or `0.441`: mean, deviation, whether it is bold.
fn parse(text: &str) -> (f64, Option<f64>, bool) {
    let number = |text: &str| -> f64 { text.trim().parse().expect("a number of the tables") };
    let (text, is_bold) = match text.strip_suffix(" bold") {
        Some(text) => (text, true),
        None => (text, false),
    };
    match text.split_once('±') {
        Some((value, deviation)) => (number(value), Some(number(deviation)), is_bold),
        None => (number(text), None, is_bold),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_number_of_the_tables_is_there() {
        // main 27 x 6, full 30 x 6 and 30 x 5 at two checkpoints, ablations 38 x 6, dropout 5 x 6
        assert_eq!(
            printed().count(),
            27 * 6 + 2 * (30 * 6 + 30 * 5) + 38 * 6 + 5 * 6
        );
        for (experiment, row, checkpoint, metric, number) in printed() {
            let name = format!("{experiment} {row} {checkpoint:?} {metric}");
            assert!(number.value > 0.0 && number.value < 2.0, "{name}");
            let deviation = number.deviation.unwrap();
            assert!((0.0..0.1).contains(&deviation), "{name}");
            assert_eq!(number.runs, PAPER_RUNS, "{name}");
            assert!(
                lookup(experiment, row, checkpoint, metric).is_some(),
                "{name}"
            );
            if let Some((set, _)) = metric.split_once('/') {
                assert_eq!(out_of_domain_set(experiment), Some(set), "{name}");
            }
            assert!(
                EXPERIMENTS.iter().any(|(known, _)| *known == experiment),
                "{name}"
            );
        }
    }

    #[test]
    fn bold_numbers_are_those_of_two_tables() {
        let bold = |label: &str| -> usize {
            let parts = tables().iter().filter(|part| part.label == label);
            let cells = parts.flat_map(|part| part.rows.iter().flat_map(|row| &row.cells));
            cells.filter(|cell| cell.is_bold).count()
        };
        assert_eq!(
            (bold("tab:main-results"), bold("tab:mcdrop-cbopt")),
            (38, 6)
        );
        let all: usize = tables()
            .iter()
            .flat_map(|part| &part.rows)
            .map(|row| row.cells.iter().filter(|cell| cell.is_bold).count())
            .sum();
        assert_eq!(all, 44);
        // in the table of in-domain figures nothing is bold, and IVON's accuracy is in the main one
        let part = tables().first().unwrap();
        let ivon = part.rows.iter().find(|row| row.name == "IVON").unwrap();
        assert!(ivon.cells[0].is_bold && !ivon.cells[4].is_bold);
        assert_eq!(ivon.cells[0].number.value, 0.911);
    }

    #[test]
    fn main_and_full_tables_agree_but_for_the_known_slips() {
        let mut differing = HashSet::new();
        for (experiment, row, checkpoint, metric, number) in printed() {
            let full = lookup(experiment, row, checkpoint, metric).unwrap();
            if (full.value, full.deviation) != (number.value, number.deviation) {
                differing.insert((experiment, row, metric));
            }
        }
        let mut known: HashSet<_> = [("fmnist", "AdamW", "emnist-letters/aupr_out")].into();
        for metric in [
            "accuracy",
            "nll",
            "ece",
            "svhn/mean_fpr_below_95_tpr",
            "svhn/auroc",
            "svhn/aupr_out",
        ] {
            known.insert(("cifar10", "uCBOpt", metric));
        }
        assert_eq!(differing, known);
        // the other row of that name is the one the main table shows
        for (experiment, row, checkpoint, metric, number) in printed() {
            if differing.contains(&(experiment, row, metric)) && experiment == "cifar10" {
                let full = lookup(experiment, row, checkpoint, metric).unwrap();
                let limit = lookup(experiment, "uCBOpt (ϑ→0)", checkpoint, metric).unwrap();
                assert!(number.value == full.value || number.value == limit.value);
            }
        }
    }

    #[test]
    fn ablations_repeat_the_chosen_setting() {
        let pairs = [
            ("ablation-gamma-upper", "γ = 0.9", "uCBOpt-adapt"),
            ("ablation-beta3-upper", "β₃ = 1.001", "uCBOpt-adapt"),
            ("ablation-gamma-lower", "γ = 1.02", "lCBOpt-adapt"),
            ("ablation-beta3-lower", "β₃ = 0.999", "lCBOpt-adapt"),
            ("ablation-vartheta", "ϑ = 0", "uCBOpt (ϑ→0)"),
        ];
        for (ablation, setting, row) in pairs {
            for metric in [
                "accuracy",
                "nll",
                "ece",
                "emnist-letters/auroc",
                "emnist-letters/aupr_out",
            ] {
                let one = lookup(ablation, setting, Checkpoint::Best, metric).unwrap();
                let other = lookup("fmnist", row, Checkpoint::Best, metric).unwrap();
                assert_eq!(
                    (one.value, one.deviation),
                    (other.value, other.deviation),
                    "{ablation} {metric}"
                );
            }
        }
    }

    #[test]
    fn every_note_finds_its_numbers() {
        let notes: Notes = embedded(include_str!("../data/notes.toml"));
        let paper: File = embedded(include_str!("../data/paper.toml"));
        for note in &notes.note {
            for row in &note.rows {
                let tables: Vec<&Table> = paper
                    .table
                    .iter()
                    .filter(|table| note.concerns(table, row) && table.rows.contains_key(row))
                    .collect();
                assert!(!tables.is_empty(), "{}", note.text);
                for metric in &note.metrics {
                    assert!(
                        tables.iter().any(|table| table.columns.contains(metric)),
                        "{}: {metric}",
                        note.text
                    );
                }
            }
            assert!(note.meant.is_empty() || note.meant.len() == note.metrics.len());
        }
        let slips = printed()
            .filter(|(.., number)| number.note.is_some())
            .count();
        // swapped 4, AdamW 2, ablations 3 + 6, copied 3 + 3 in the main and 5 + 5 in the full
        // table, uCBOpt 3 + 3
        assert_eq!(slips, 4 + 2 + 3 + 6 + 16 + 6);
    }

    #[test]
    fn swapped_columns_are_read_as_they_were_meant() {
        for (experiment, row) in [("fmnist", "IVON"), ("cifar10", "IVON@mean")] {
            let ece = lookup(experiment, row, Checkpoint::Final, "ece").unwrap();
            let brier = lookup(experiment, row, Checkpoint::Final, "brier").unwrap();
            assert_eq!(
                (ece.mean(), ece.spread()),
                (brier.value, brier.deviation),
                "{row}"
            );
            assert_eq!(
                (brier.mean(), brier.spread()),
                (ece.value, ece.deviation),
                "{row}"
            );
        }
    }

    #[test]
    fn rows_of_ablations_are_found_however_they_are_written() {
        let at = Checkpoint::Best;
        let two = lookup("ablation-gamma-lower", "γ = 2.0", at, "nll").unwrap();
        assert_eq!(two.value, 0.282);
        let small = lookup("ablation-vartheta", "ϑ = 0.000008", at, "nll").unwrap();
        assert_eq!(small.value, 0.263);
        assert_eq!(lookup("ablation-vartheta", "ϑ = 3e-6", at, "nll"), None);
        for (experiment, row, ..) in printed() {
            if experiment.starts_with("ablation") {
                assert_eq!(canonical(row), row);
            }
        }
    }

    #[test]
    fn distance_in_standard_errors_by_hand() {
        let number = lookup("fmnist", "SGD", Checkpoint::Final, "nll").unwrap();
        // 0.441 ± 0.025 of three runs against 0.4615 ± 0.020 of four
        let found = number.standard_errors(0.4615, Some(0.020), 4).unwrap();
        let expected = 0.020 / (0.020f64.powi(2) / 4.0 + 0.025f64.powi(2) / 3.0).sqrt();
        assert!(
            (found - expected).abs() < 1e-12 * expected,
            "{found} {expected}"
        );
        assert_eq!(number.standard_errors(0.4413, Some(0.0), 3), Some(0.0));
        assert_eq!(number.standard_errors(0.4413, None, 1), None);
        assert_eq!(number.standard_errors(f64::INFINITY, Some(0.1), 3), None);
        let swag = reproduction("fmnist", "SWAG", Checkpoint::Best, "nll").unwrap();
        assert_eq!(swag.standard_errors(0.3, Some(0.01), 3), None);
    }

    #[test]
    fn notes_on_rows_and_the_runtime_are_found() {
        let note = row_note("cifar10", "uCBOpt", Checkpoint::Best).unwrap();
        assert!(note.starts_with("from the appendix"), "{note}");
        assert_eq!(row_note("cifar10", "uCBOpt", Checkpoint::Final), None);
        assert!(row_note("fmnist", "SWAG", Checkpoint::Final).is_some());
        assert_eq!(
            runtime("fmnist", "fashion-mnist", "sgd"),
            Some((3.52, 0.07, 0.09))
        );
        assert_eq!(
            runtime("cifar100", "cifar-100", "lcbopt-adapt"),
            Some((86.9, 4.52, 4.95))
        );
        assert_eq!(runtime("fmnist", "fashion-mnist", "rmsprop"), None);
    }
}
