//! A table of the paper as data: blocks of rows, each with a line of ours and one of the paper's.

use std::collections::BTreeSet;

use evaluation::record::{Checkpoint, RunRecord};
use evaluation::{InDomain, Metric, OutOfDomain};

use crate::facts;
use crate::names;
use crate::paper::{self, PAPER_RUNS, PrintedTable, RUNTIME_BLOCKS, RUNTIME_COLUMNS};
use crate::summary::{Cell, Group, Table, mark_best, mean_and_deviation, three};

/// A table.
pub(super) struct Sheet {
    /// Name of its files.
    pub name: &'static str,
    /// Label of the paper's table.
    pub label: &'static str,
    /// Title, without a full stop.
    pub title: String,
    /// What follows the title.
    pub legend: String,
    /// Heads of the columns of words before the one that says whose line it is.
    pub stubs: Vec<&'static str>,
    /// Heads of the columns of numbers; the arrow says which direction is better.
    pub heads: Vec<(&'static str, Option<evaluation::Better>)>,
    /// Titles over neighboring columns, with how many they cover.
    pub spans: Vec<(&'static str, usize)>,
    /// The blocks.
    pub blocks: Vec<Block>,
    /// What is known about marked cells and rows, by their mark.
    pub marked: Vec<String>,
    /// What is missing and what to keep in mind.
    pub notes: Vec<String>,
}

/// Rows of one dataset.
pub(super) struct Block {
    /// What the first column says; absent in tables of one block.
    pub title: Option<Title>,
    /// The rows.
    pub rows: Vec<Line>,
}

/// What stands beside a block.
pub(super) enum Title {
    /// The dataset.
    Dataset(&'static str),
    /// The dataset and the out-of-domain set.
    InAndOut(&'static str, &'static str),
    /// The dataset and the network.
    Trained(&'static str, &'static str),
}

/// A row: its name, and the lines of ours and of the paper.
pub(super) struct Line {
    /// Its name.
    pub name: Name,
    /// Set on a gray ground.
    pub is_gray: bool,
    /// Number of the note on the row.
    pub mark: Option<usize>,
    /// Whose line, and its cells.
    pub lines: Vec<(String, Vec<Option<Value>>)>,
}

/// What a row is called.
pub(super) enum Name {
    /// A method: `uCBOpt (ϑ = 5e-5) + MC-D`.
    Method(String),
    /// A value of an ablation.
    Value(f64),
    /// Words.
    Plain(&'static str),
}

/// A number.
pub(super) struct Value {
    /// As printed.
    pub mean: String,
    /// Its deviation, as printed.
    pub deviation: Option<String>,
    /// Set in bold.
    pub is_bold: bool,
    /// Number of the note on it.
    pub mark: Option<usize>,
}

/// What is said about a table of results.
struct Form {
    label: &'static str,
    name: &'static str,
    title: &'static str,
    /// The rule for bold figures applies, as it does in the paper.
    has_bold: bool,
    /// What its rows vary, and the chosen value.
    ablation: Option<(&'static str, f64)>,
}

const fn form(label: &'static str, name: &'static str, title: &'static str) -> Form {
    Form {
        label,
        name,
        title,
        has_bold: false,
        ablation: None,
    }
}

const fn ablation(
    label: &'static str,
    name: &'static str,
    title: &'static str,
    symbol: &'static str,
    chosen: f64,
) -> Form {
    Form {
        ablation: Some((symbol, chosen)),
        ..form(label, name, title)
    }
}

const fn bold(form: Form) -> Form {
    Form {
        has_bold: true,
        ..form
    }
}

const FORMS: [Form; 11] = [
    bold(form(
        "tab:main-results",
        "main",
        "Experimental results on in-domain and out-of-domain tasks",
    )),
    form(
        "tab:in-domain-best-val",
        "in-domain-best",
        "Experimental results on in-domain tasks (best validation model)",
    ),
    form(
        "tab:ood-best-val",
        "ood-best",
        "Experimental results on out-of-domain tasks (best validation model)",
    ),
    form(
        "tab:in-domain-final",
        "in-domain-final",
        "Experimental results on in-domain tasks (final epoch model)",
    ),
    form(
        "tab:ood-final",
        "ood-final",
        "Experimental results on out-of-domain tasks (final epoch model)",
    ),
    ablation(
        "tab:ablation_vartheta",
        "ablation-vartheta",
        "Effect of the ϑ parameter in uCBOpt on performance",
        "ϑ",
        8e-6,
    ),
    ablation(
        "tab:ablation_gamma_ucbo",
        "ablation-gamma-upper",
        "Effect of the γ parameter in uCBOpt-adapt on performance",
        "γ",
        0.9,
    ),
    ablation(
        "tab:ablation_beta3_ucbo",
        "ablation-beta3-upper",
        "Effect of the β₃ parameter in uCBOpt-adapt on performance",
        "β₃",
        1.001,
    ),
    ablation(
        "tab:ablation_gamma_lcbo",
        "ablation-gamma-lower",
        "Effect of the γ parameter in lCBOpt-adapt on performance",
        "γ",
        1.02,
    ),
    ablation(
        "tab:ablation_beta3_lcbo",
        "ablation-beta3-lower",
        "Effect of the β₃ parameter in lCBOpt-adapt on performance",
        "β₃",
        0.999,
    ),
    bold(form(
        "tab:mcdrop-cbopt",
        "mc-dropout",
        "Experimental results for ResNet-20/CIFAR-10 with CBOpt combined with MC dropout (best validation model)",
    )),
];

/// Whose line it is, and how many runs are behind it.
const OURS: &str = "ours";
const THEIRS: &str = "paper";

/// The row that has no checkpoint: its moments are those of many epochs.
const SWAG: &str = "SWAG";

/// The row of the main table that the paper fills with another one of its own, and that one.
const REPLACED: (&str, &str, &str, &str) =
    ("tab:main-results", "cifar10", "uCBOpt", "uCBOpt (ϑ→0)");

/// The tables of which the groups hold at least one number.
pub(super) fn sheets(groups: &[Group<'_>]) -> Vec<Sheet> {
    let results = FORMS.iter().filter_map(|form| results(form, groups));
    results.chain(runtime(groups)).collect()
}

/// The groups whose rows belong to an experiment of the paper. The combinations with dropout and
/// the main block of CIFAR-10 are trained from the same configs, so that either serves the other.
fn groups_of<'g, 'a>(experiment: &str, groups: &'g [Group<'a>]) -> Vec<&'g Group<'a>> {
    let setting = paper::setting(experiment);
    let named = |name: &str| {
        let fits = move |group: &&Group<'_>| {
            group.experiment == name && Some((group.dataset, group.network)) == setting
        };
        groups.iter().find(fits)
    };
    let other = (experiment == "mc-dropout").then_some("cifar10");
    named(experiment)
        .into_iter()
        .chain(other.and_then(named))
        .collect()
}

/// The tables of a group that a part of the paper's table reads.
struct Sources<'a> {
    in_domain: Table<'a>,
    out_of_domain: Option<Table<'a>>,
}

fn results(form: &Form, groups: &[Group<'_>]) -> Option<Sheet> {
    let parts = paper::tables().iter();
    let parts: Vec<&PrintedTable> = parts.filter(|part| part.label == form.label).collect();
    let columns = parts.first()?.columns.iter().map(|id| metric(id));
    let columns: Vec<(&'static Metric, bool)> = columns.collect::<Option<_>>()?;
    let inside = columns.iter().filter(|(_, out)| !out).count();
    let outside = columns.len() - inside;
    let mut sheet = Sheet {
        name: form.name,
        label: form.label,
        title: form.title.to_owned(),
        legend: String::new(),
        stubs: vec![form.ablation.map_or("Optimizer", |(symbol, _)| symbol)],
        heads: columns
            .iter()
            .map(|(metric, _)| (head(metric), Some(metric.better)))
            .collect(),
        spans: match inside > 0 && outside > 0 {
            true => vec![("In-domain", inside), ("Out-of-domain", outside)],
            false => Vec::new(),
        },
        blocks: Vec::new(),
        marked: Vec::new(),
        notes: Vec::new(),
    };
    if parts.len() > 1 {
        sheet.stubs.insert(0, "Dataset");
    }
    let mut runs = BTreeSet::new();
    for part in &parts {
        let block = fill(form, part, groups, &mut sheet, &mut runs);
        let (dataset, _) = paper::setting(part.experiment)?;
        let out = paper::out_of_domain_set(part.experiment)?;
        let (dataset, out) = (names::dataset(dataset), names::dataset(out));
        let title = match (parts.len() > 1, outside > 0) {
            (false, _) => None,
            (true, false) => Some(Title::Dataset(dataset)),
            (true, true) => Some(Title::InAndOut(dataset, out)),
        };
        sheet.blocks.push(Block { title, rows: block });
    }
    if runs.is_empty() {
        return None;
    }
    let ours = match (runs.first()?, runs.last()?) {
        (least, most) if least == most => facts::count(*most, "run"),
        (least, most) => format!("{least} to {most} runs"),
    };
    sheet.legend = format!(
        "Ours over {ours}, the paper's over {PAPER_RUNS}, in brackets at each line: mean and sample \
         deviation; no deviation for one run. A dash stands for a missing number."
    );
    if form.has_bold {
        sheet.legend += " Bold: in our lines the best result of a block and all results within one \
                         deviation of it, in the paper's what the paper sets so.";
    }
    if outside > 0 {
        sheet.legend += " FPR@95 is, as in the paper's figures, the mean false positive rate over the \
                         corners of the ROC curve up to a true positive rate of 95 %.";
    }
    Some(sheet)
}

/// The metric of a column, and whether it is one of an out-of-domain set.
fn metric(id: &str) -> Option<(&'static Metric, bool)> {
    let named = |metrics: &'static [Metric], id: &str| metrics.iter().find(|known| known.id == id);
    match id.split_once('/') {
        Some((_, id)) => Some((named(OutOfDomain::METRICS, id)?, true)),
        None => Some((named(InDomain::METRICS, id)?, false)),
    }
}

/// What the paper calls a column.
fn head(metric: &Metric) -> &'static str {
    match metric.id {
        "mean_fpr_below_95_tpr" => "FPR@95",
        "top5" => "Top-5 Acc.",
        "detection_error" => "Det. Err.",
        _ => metric.name,
    }
}

/// The rows of one experiment; what is missing is added to the notes of the table, and the numbers
/// of runs to `runs`.
fn fill(
    form: &Form,
    part: &PrintedTable,
    groups: &[Group<'_>],
    sheet: &mut Sheet,
    runs: &mut BTreeSet<usize>,
) -> Vec<Line> {
    let groups = groups_of(part.experiment, groups);
    let sources = sources(part, &groups, part.checkpoint);
    let last = self::sources(part, &groups, Checkpoint::Final);
    let mut ours: Vec<(bool, Vec<Option<Cell>>)> = Vec::new();
    for row in &part.rows {
        let name = match is_replaced(part, row.name) {
            true => REPLACED.3,
            false => row.name,
        };
        let sources = if row.name == SWAG { &last } else { &sources };
        let found = sources.iter().map(|source| cells(source, part, name));
        let mut found = found.filter(|(_, cells)| cells.iter().any(Option::is_some));
        let found = found.next();
        ours.push(found.unwrap_or_else(|| (false, vec![None; part.columns.len()])));
    }
    for (i, id) in part.columns.iter().enumerate() {
        let Some((metric, _)) = metric(id) else {
            continue;
        };
        let rows = ours.iter_mut();
        let cells = rows.filter_map(|(is_chance, cells)| Some((*is_chance, cells[i].as_mut()?)));
        let mut cells: Vec<(bool, &mut Cell)> = cells.collect();
        cells.iter_mut().for_each(|(_, cell)| cell.is_best = false);
        if form.has_bold {
            mark_best(metric.better, cells);
        }
    }
    let mut lines = Vec::new();
    let mut counts: Vec<(&'static str, usize)> = Vec::new();
    for (row, (_, ours)) in part.rows.iter().zip(ours) {
        let behind: BTreeSet<usize> = ours
            .iter()
            .flatten()
            .map(|cell| cell.values.len())
            .collect();
        runs.extend(&behind);
        let most = behind.last().copied().unwrap_or(0);
        counts.push((row.name, most));
        let behind = behind.into_iter().map(|n| n as u64).collect();
        let behind = match most {
            0 => "0".to_owned(),
            _ => facts::ranges(behind),
        };
        let mut mark = |note: Option<&str>| note.map(|note| marked(&mut sheet.marked, note));
        let theirs = row.cells.iter().map(|cell| {
            Some(Value {
                mean: three(cell.number.value),
                deviation: cell.number.deviation.map(three),
                is_bold: cell.is_bold,
                mark: mark(cell.number.note),
            })
        });
        let theirs: Vec<_> = theirs.collect();
        if row.name == SWAG && part.checkpoint == Checkpoint::Best {
            sheet.notes.push(format!(
                "{}: {SWAG} is evaluated once, from all its snapshots; the paper prints one row for \
                 both checkpoints.",
                title(part)
            ));
        }
        let note = row.note.map(|note| match is_replaced(part, row.name) {
            true => format!("{note}; ours is our row {} here, too", REPLACED.3),
            false => note.to_owned(),
        });
        let mark = mark(note.as_deref());
        let ours = ours.into_iter().map(|cell| cell.map(|cell| value(&cell)));
        let by_whom = [
            (format!("{OURS} ({behind})"), ours.collect()),
            (format!("{THEIRS} ({PAPER_RUNS})"), theirs),
        ];
        lines.push(Line {
            name: name(form, part.experiment, row.name),
            is_gray: is_gray(form, row.name),
            mark,
            lines: by_whom.into(),
        });
    }
    sheet
        .notes
        .extend(missing(part, &groups, &sources, &counts));
    lines
}

/// The tables of the groups at a checkpoint.
fn sources<'a>(
    part: &PrintedTable,
    groups: &[&Group<'a>],
    checkpoint: Checkpoint,
) -> Vec<Sources<'a>> {
    let set = paper::out_of_domain_set(part.experiment).unwrap_or_default();
    let sources = groups.iter().map(|group| {
        let mut sets = group.sets.iter();
        let set = sets.find(|known| known.dataset == set && known.is_as_in_the_paper());
        Sources {
            in_domain: group.in_domain(checkpoint),
            out_of_domain: set.map(|set| group.out_of_domain(checkpoint, set)),
        }
    });
    sources.collect()
}

/// `CIFAR-10 with ResNet-20`.
fn title(part: &PrintedTable) -> String {
    let (dataset, network) = paper::setting(part.experiment).unwrap_or_default();
    setting(dataset, network)
}

fn setting(dataset: &str, network: &str) -> String {
    let (dataset, network) = (names::dataset(dataset), names::network(network));
    format!("{dataset} with {network}")
}

fn is_replaced(part: &PrintedTable, row: &str) -> bool {
    (part.label, part.experiment, row) == (REPLACED.0, REPLACED.1, REPLACED.2)
}

/// The cells of a row, and whether it guesses.
fn cells(source: &Sources<'_>, part: &PrintedTable, name: &str) -> (bool, Vec<Option<Cell>>) {
    let mut is_chance = false;
    let cells = part.columns.iter().map(|id| {
        let (metric, is_outside) = metric(id)?;
        let table = match is_outside {
            true => source.out_of_domain.as_ref()?,
            false => &source.in_domain,
        };
        let mut rows = table.rows.iter();
        let row = rows.find(|row| paper::canonical(row.name) == paper::canonical(name))?;
        is_chance = row.is_chance;
        let mut columns = table.metrics.iter();
        let i = columns.position(|known| known.id == metric.id)?;
        row.cells[i].clone()
    });
    let cells = cells.collect();
    (is_chance, cells)
}

fn value(cell: &Cell) -> Value {
    Value {
        mean: three(cell.mean),
        deviation: cell.deviation.map(three),
        is_bold: cell.is_best,
        mark: None,
    }
}

/// The number of a note; a new one is added.
fn marked(notes: &mut Vec<String>, text: &str) -> usize {
    let known = notes.iter().position(|note| note == text);
    known.unwrap_or_else(|| {
        notes.push(text.to_owned());
        notes.len() - 1
    })
}

/// The full tables name the ϑ that the paper chose.
fn name(form: &Form, experiment: &str, row: &str) -> Name {
    if form.ablation.is_some()
        && let Some((_, value)) = paper::ablation_value(row)
    {
        return Name::Value(value);
    }
    Name::Method(match (form.has_bold, row, experiment) {
        (false, "uCBOpt", "fmnist") => "uCBOpt (ϑ = 8e-6)".to_owned(),
        (false, "uCBOpt", _) => "uCBOpt (ϑ = 5e-5)".to_owned(),
        _ => row.to_owned(),
    })
}

/// The CBOpt family, and the chosen value of an ablation.
fn is_gray(form: &Form, row: &str) -> bool {
    match form.ablation {
        Some((_, chosen)) => paper::ablation_value(row).is_some_and(|(_, value)| value == chosen),
        None => row.contains("CBOpt"),
    }
}

/// What the records lack of a part of the paper's table, and what to keep in mind about them.
fn missing(
    part: &PrintedTable,
    groups: &[&Group<'_>],
    sources: &[Sources<'_>],
    counts: &[(&'static str, usize)],
) -> Vec<String> {
    let mut notes = Vec::new();
    let setting = title(part);
    if groups.is_empty() {
        return vec![format!("{setting}: no run is among the records.")];
    }
    let lacks_set = part.columns.iter().any(|id| id.contains('/'))
        && sources.iter().all(|source| source.out_of_domain.is_none());
    let set = paper::out_of_domain_set(part.experiment).unwrap_or_default();
    let unevaluated = || format!("{setting}: {} was not evaluated.", names::dataset(set));
    if lacks_set && counts.iter().all(|(_, runs)| *runs == 0) {
        return vec![unevaluated()];
    }
    let with = |wanted: usize| -> Vec<&str> {
        let rows = counts.iter().filter(|(_, runs)| *runs == wanted);
        rows.map(|(row, _)| *row).collect()
    };
    if !with(0).is_empty() {
        notes.push(format!("{setting}: no run of {}.", with(0).join(", ")));
    }
    for runs in 1..PAPER_RUNS {
        if !with(runs).is_empty() {
            notes.push(format!(
                "{setting}: {} of {PAPER_RUNS} of {}.",
                facts::count(runs, "run"),
                with(runs).join(", ")
            ));
        }
    }
    if lacks_set {
        notes.push(unevaluated());
    }
    for group in groups {
        let used = |row: &&&str| counts.iter().any(|(name, runs)| name == *row && *runs > 0);
        let rows: Vec<&str> = group.rows.iter().filter(used).copied().collect();
        if !rows.is_empty() {
            let notices = facts::notices(group, &rows, &group.families()).into_iter();
            notes.extend(notices.map(|notice| format!("{setting}: {notice}")));
            let data: BTreeSet<&String> = group.runs.iter().flat_map(|run| &run.notes).collect();
            notes.extend(data.into_iter().map(|note| format!("{setting}: {note}.")));
        }
    }
    notes.dedup();
    notes
}

/// What the table of runtimes measures: its name, ours, the paper's, digits.
type Measure = (
    &'static str,
    fn(&RunRecord) -> Option<f64>,
    fn((f64, f64, f64)) -> Option<f64>,
);

const MEASURES: [Measure; 4] = [
    (
        "Runtime (seconds per epoch)",
        RunRecord::seconds_per_epoch,
        |paper| Some(paper.0),
    ),
    (
        "Memory allocated (GiB)",
        |run| gib(run.timings.peak_device_bytes),
        |paper| Some(paper.1),
    ),
    ("Memory reserved (GiB)", |_| None, |paper| Some(paper.2)),
    (
        "Resident memory of the process (GiB)",
        |run| gib(run.timings.peak_memory_bytes),
        |_| None,
    ),
];

fn gib(bytes: Option<u64>) -> Option<f64> {
    bytes.map(|bytes| bytes as f64 / f64::from(1 << 30))
}

/// Where a run was: a record names the processor, and a GPU by its kind alone.
fn machine(run: &RunRecord) -> String {
    let processor = &run.hardware.device;
    match run.device.as_str() {
        "" | "cpu" => processor.clone(),
        gpu if processor.is_empty() => format!("a GPU ({gpu})"),
        gpu => format!("a GPU ({gpu}) beside {processor}"),
    }
}

/// The table of runtimes, from runs of the experiment `runtime` alone: others share their device.
fn runtime(groups: &[Group<'_>]) -> Option<Sheet> {
    let mut blocks = Vec::new();
    let mut notes = Vec::new();
    let mut devices = BTreeSet::new();
    let mut any = false;
    for block in RUNTIME_BLOCKS {
        let (dataset, network) = paper::setting(block)?;
        let mut all = groups.iter().filter(|group| group.experiment == "runtime");
        let group = all.find(|group| (group.dataset, group.network) == (dataset, network));
        let runs = |rule: &str| -> Vec<&RunRecord> {
            let runs = group.iter().flat_map(|group| &group.runs);
            runs.filter(|run| run.rule == rule).copied().collect()
        };
        let title = Title::Trained(names::dataset(dataset), names::network(network));
        let lacking = RUNTIME_COLUMNS
            .iter()
            .filter(|(rule, ..)| runs(rule).is_empty());
        let lacking: Vec<&str> = lacking.map(|(_, name, _)| *name).collect();
        let setting = setting(dataset, network);
        match lacking.len() {
            0 => {}
            all if all == RUNTIME_COLUMNS.len() => {
                notes.push(format!("{setting}: no run is among the records."));
            }
            _ => notes.push(format!("{setting}: no run of {}.", lacking.join(", "))),
        }
        if let Some(group) = group {
            let notices = facts::notices(group, &group.rows, &group.families()).into_iter();
            notes.extend(notices.map(|notice| format!("{setting}: {notice}")));
            devices.extend(group.runs.iter().map(|run| machine(run)));
        }
        let mut rows = Vec::new();
        for (what, read, printed) in MEASURES {
            let ours: Vec<Option<Value>> = RUNTIME_COLUMNS
                .iter()
                .map(|(rule, ..)| {
                    let found: Vec<f64> = runs(rule).into_iter().filter_map(read).collect();
                    (!found.is_empty()).then(|| amount(&found))
                })
                .collect();
            let theirs = RUNTIME_COLUMNS.iter().map(|(rule, ..)| {
                let found = printed(paper::runtime(block, dataset, rule)?)?;
                Some(plain(short(found)))
            });
            let theirs: Vec<Option<Value>> = theirs.collect();
            any |= ours.iter().any(Option::is_some);
            if ours.iter().chain(&theirs).all(Option::is_none) {
                continue;
            }
            let mut lines = vec![(OURS.to_owned(), ours)];
            if theirs.iter().any(Option::is_some) {
                lines.push((THEIRS.to_owned(), theirs));
            }
            rows.push(Line {
                name: Name::Plain(what),
                is_gray: false,
                mark: None,
                lines,
            });
        }
        blocks.push(Block {
            title: Some(title),
            rows,
        });
    }
    let devices: Vec<String> = devices
        .into_iter()
        .filter(|name| !name.is_empty())
        .collect();
    any.then(|| Sheet {
        name: "runtime",
        label: "tab:runtime-memory",
        title: "Runtime and memory usage for classification experiments".to_owned(),
        legend: format!(
            "Ours on {}, one run at a time, training and validation; allocated is the most device \
             memory that the process held. The paper's on an H100 with three runs at a time; it calls \
             the seconds those of the full run, and prints one number for the three CBOpt variants. \
             A dash stands for a missing number.",
            match devices.is_empty() {
                true => "an unnamed machine".to_owned(),
                false => devices.join(" and "),
            }
        ),
        stubs: vec!["Dataset / Model", "Metric"],
        heads: RUNTIME_COLUMNS.iter().map(|(_, name, _)| (*name, None)).collect(),
        spans: Vec::new(),
        blocks,
        marked: Vec::new(),
        notes,
    })
}

/// Mean of several runs, with their deviation.
fn amount(values: &[f64]) -> Value {
    let (mean, deviation) = mean_and_deviation(values);
    Value {
        deviation: deviation.map(short),
        ..plain(short(mean))
    }
}

fn plain(mean: String) -> Value {
    Value {
        mean,
        deviation: None,
        is_bold: false,
        mark: None,
    }
}

/// Three significant digits, but at least two and at most three after the point: `86.9`, `0.07`,
/// `0.005`.
fn short(value: f64) -> String {
    match value {
        value if value >= 9.995 => format!("{value:.1}"),
        value if value >= 0.01 => format!("{value:.2}"),
        value => format!("{value:.3}"),
    }
}
