//! What a group of runs amounts to, in words: the facts of its header, what stands out in its
//! tables, and what to keep in mind.

use std::collections::BTreeSet;

use evaluation::record::{Checkpoint, RunRecord};

use crate::names;
use crate::paper;
use crate::summary::{Cell, Family, Group, Table, checkpoint_name, with_deviation};

/// A fact of the header: what, and its value.
pub(crate) type Fact = (&'static str, String);

/// Title of a group.
pub(crate) fn title(group: &Group<'_>) -> String {
    let dataset = names::dataset(group.dataset);
    if group.network.is_empty() {
        return dataset.to_owned();
    }
    format!("{dataset} with {}", names::network(group.network))
}

/// What was run, on what, how long.
pub(crate) fn facts(group: &Group<'_>) -> Vec<Fact> {
    let mut facts: Vec<Fact> = Vec::new();
    let runs = &group.runs;
    if !group.experiment.is_empty() {
        facts.push(("Experiment", group.experiment.to_owned()));
    }
    let rows = group.rows.len();
    facts.push((
        if rows == 1 { "Method" } else { "Methods" },
        if rows == 1 {
            group.rows[0].to_owned()
        } else {
            rows.to_string()
        },
    ));
    let seeds: BTreeSet<u64> = runs.iter().map(|run| run.seed).collect();
    let trained = runs.iter().any(|run| run.timings.steps > 0);
    if trained {
        facts.push(("Runs", runs.len().to_string()));
        facts.push((
            if seeds.len() == 1 { "Seed" } else { "Seeds" },
            ranges(seeds),
        ));
    }
    facts.extend(sizes(group));
    facts.extend(times(group));
    facts.extend(makers(group));
    facts
}

/// How much was trained and tested, on what data.
fn sizes(group: &Group<'_>) -> Vec<Fact> {
    let mut facts: Vec<Fact> = Vec::new();
    let runs = &group.runs;
    let epochs: BTreeSet<u64> = runs
        .iter()
        .map(|run| run.curves.len() as u64)
        .filter(|&epochs| epochs > 0)
        .collect();
    if !epochs.is_empty() {
        facts.push(("Epochs", ranges(epochs)));
    }
    let parameters: BTreeSet<usize> = runs
        .iter()
        .map(|run| run.parameters)
        .filter(|&n| n > 0)
        .collect();
    if !parameters.is_empty() {
        let all: Vec<String> = parameters.into_iter().map(thousands).collect();
        facts.push(("Parameters", all.join(", ")));
    }
    let images = runs
        .iter()
        .flat_map(|run| &run.evaluations)
        .map(|evaluation| evaluation.in_domain.samples)
        .filter(|&n| n > 0);
    let images: BTreeSet<usize> = images.collect();
    if !images.is_empty() {
        let all: Vec<String> = images.into_iter().map(thousands).collect();
        facts.push(("Test images", all.join(", ")));
    }
    let notes: BTreeSet<&str> = runs
        .iter()
        .flat_map(|run| &run.notes)
        .map(String::as_str)
        .collect();
    if !notes.is_empty() {
        let all: Vec<&str> = notes.into_iter().collect();
        facts.push(("Data", all.join("; ")));
    }
    facts
}

/// How long it took, and when.
fn times(group: &Group<'_>) -> Vec<Fact> {
    let mut facts: Vec<Fact> = Vec::new();
    let runs = &group.runs;
    let spent = |run: &&RunRecord| {
        run.timings.train_s + run.timings.validation_s + run.timings.evaluation_s
    };
    let total: f64 = runs.iter().map(spent).sum();
    if total > 0.0 {
        facts.push(("Time spent", duration(total)));
    }
    let starts = runs.iter().map(|run| run.timings.started_unix);
    let start = starts.filter(|&start| start > 0).min();
    if let Some(start) = start {
        let end = runs
            .iter()
            .map(|run| run.timings.started_unix as f64 + spent(run))
            .fold(0.0, f64::max);
        // a resumed run may have rested in between
        if runs.len() > 1 && runs.iter().all(|run| run.timings.resumed == 0) {
            facts.push(("Wall clock", duration((end - start as f64).max(0.0))));
        }
        facts.push(("Started", date(start)));
    }
    facts
}

/// What ran, and on what.
fn makers(group: &Group<'_>) -> Vec<Fact> {
    let mut facts: Vec<Fact> = Vec::new();
    let runs = &group.runs;
    let hardware: BTreeSet<String> = runs
        .iter()
        .filter(|run| !run.hardware.device.is_empty())
        .map(|run| {
            let hardware = &run.hardware;
            let threads = count(hardware.threads, "thread");
            match (hardware.isa.is_empty(), hardware.threads) {
                (_, 0) => hardware.device.clone(),
                (true, _) => format!("{}, {threads}", hardware.device),
                (false, _) => format!("{}, {threads}, {}", hardware.device, hardware.isa),
            }
        })
        .collect();
    if !hardware.is_empty() {
        facts.push((
            "Hardware",
            hardware.into_iter().collect::<Vec<_>>().join("; "),
        ));
    }
    let code: BTreeSet<String> = runs.iter().map(|run| version(run)).collect();
    let code: Vec<String> = code.into_iter().filter(|code| !code.is_empty()).collect();
    if !code.is_empty() {
        facts.push(("Code", format!("Maxitive {}", code.join(", "))));
    }
    facts
}

fn version(run: &RunRecord) -> String {
    match &run.code.commit {
        Some(commit) => {
            let short: String = commit.chars().take(10).collect();
            format!("{} ({short})", run.code.version)
        }
        None => run.code.version.clone(),
    }
}

/// A line of the summary: what it is about, and the rest.
pub(crate) type Finding = (String, String);

/// What stands out, read off the tables of one checkpoint.
pub(crate) fn findings(group: &Group<'_>, checkpoint: Checkpoint) -> Vec<Finding> {
    let mut lines = Vec::new();
    let in_domain = group.in_domain(checkpoint);
    let detection: Vec<Table<'_>> = group
        .sets
        .iter()
        .map(|set| group.out_of_domain(checkpoint, set))
        .collect();
    for (id, name) in [
        ("accuracy", "Accuracy"),
        ("nll", "Log-likelihood (NLL)"),
        ("ece", "Calibration (ECE)"),
        ("brier", "Brier score"),
    ] {
        if let Some(text) = best(&in_domain, id) {
            lines.push((name.to_owned(), text));
        }
    }
    for (set, table) in group.sets.iter().zip(&detection) {
        if let Some(text) = best(table, "auroc") {
            lines.push((format!("Telling {} apart (AUROC)", set.label), text));
        }
    }
    let tables: Vec<&Table<'_>> = std::iter::once(&in_domain).chain(&detection).collect();
    if let Some(text) = most_often_best(group, &tables) {
        lines.push(("Across the columns".to_owned(), text));
    }
    if let Some(text) = against_the_paper(&tables) {
        lines.push(("Against the paper".to_owned(), text));
    }
    lines
}

/// Who is best in a column, and who cannot be told from it.
fn best(table: &Table<'_>, id: &str) -> Option<String> {
    let i = table.metrics.iter().position(|metric| metric.id == id)?;
    let metric = table.metrics[i];
    let cells: Vec<(&str, &Cell)> = table
        .rows
        .iter()
        .filter_map(|row| Some((row.name, row.cells[i].as_ref()?)))
        .collect();
    if let [(_, only)] = cells.as_slice() {
        return Some(only.text());
    }
    let (first, cell) = cells
        .iter()
        .filter(|(_, cell)| cell.is_best)
        .reduce(|best, next| {
            if metric.better.prefers(next.1.mean, best.1.mean) {
                next
            } else {
                best
            }
        })?;
    let others: Vec<&str> = cells
        .iter()
        .filter(|(name, cell)| cell.is_best && name != first)
        .map(|&(name, _)| name)
        .collect();
    let mut text = format!("{first} is best with {}", cell.text());
    if !others.is_empty() {
        text += &format!("; {} within one deviation of it", is_or_are(&others));
    }
    Some(text)
}

fn is_or_are(names: &[&str]) -> String {
    let verb = if names.len() == 1 { "lies" } else { "lie" };
    format!("{} {verb}", list(names))
}

fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [front @ .., last] => format!("{} and {last}", front.join(", ")),
    }
}

fn most_often_best(group: &Group<'_>, tables: &[&Table<'_>]) -> Option<String> {
    let columns: usize = tables.iter().map(|table| table.metrics.len()).sum();
    let mut marks = vec![0usize; group.rows.len()];
    for row in tables.iter().flat_map(|table| &table.rows) {
        marks[row.index] += row
            .cells
            .iter()
            .flatten()
            .filter(|cell| cell.is_best)
            .count();
    }
    let most = marks.iter().copied().max().filter(|&most| most > 0)?;
    let names: Vec<&str> = group
        .rows
        .iter()
        .zip(&marks)
        .filter(|&(_, &marks)| marks == most)
        .map(|(&name, _)| name)
        .collect();
    if group.rows.len() < 2 || names.len() > 3 {
        return None;
    }
    let verb = if names.len() == 1 { "is" } else { "are" };
    Some(format!(
        "{} {verb} most often the best or within one deviation of it: in {most} of {columns}",
        list(&names)
    ))
}

fn against_the_paper(tables: &[&Table<'_>]) -> Option<String> {
    let mut compared = 0;
    let mut near = 0;
    let mut farthest: Option<(f64, String)> = None;
    for table in tables {
        for row in &table.rows {
            for (metric, cell) in table.metrics.iter().zip(&row.cells) {
                let Some(cell) = cell else { continue };
                let Some(distance) = distance(cell) else {
                    continue;
                };
                compared += 1;
                if distance <= 2.0 {
                    near += 1;
                } else if farthest.as_ref().is_none_or(|(most, _)| distance > *most) {
                    farthest = Some((distance, format!("{} of {}", metric.name, row.name)));
                }
            }
        }
    }
    if compared == 0 {
        return None;
    }
    let mut text =
        format!("{near} of {compared} figures lie within two standard errors of the printed ones");
    if let Some((distance, what)) = farthest {
        text += &format!("; the farthest is {what}, {} away", errors(distance));
    }
    Some(text)
}

/// Distance to the paper's figure in standard errors.
pub(crate) fn distance(cell: &Cell) -> Option<f64> {
    let paper = cell.paper?;
    paper.standard_errors(cell.mean, cell.deviation, cell.values.len())
}

/// `3.2 standard errors`.
pub(crate) fn errors(distance: f64) -> String {
    if distance > 99.0 {
        return "far more than ten standard errors".to_owned();
    }
    format!("{distance:.1} standard errors")
}

/// What to keep in mind when reading.
pub(crate) fn notices(group: &Group<'_>, rows: &[&str], families: &[Family<'_>]) -> Vec<String> {
    let mut notices = Vec::new();
    let trained = group.runs.iter().any(|run| run.timings.steps > 0);
    let single = rows.iter().any(|row| {
        group.checkpoints.iter().any(|&checkpoint| {
            let seeds: Vec<u64> = group.evaluations(row, checkpoint).map(|e| e.0).collect();
            seeds.len() == 1
        })
    });
    if trained && single {
        notices.push(
            "Rows with one run have no deviation; a difference between them may be chance."
                .to_owned(),
        );
    }
    for row in rows {
        for &checkpoint in &group.checkpoints {
            let seeds: Vec<u64> = group.evaluations(row, checkpoint).map(|e| e.0).collect();
            let distinct: BTreeSet<u64> = seeds.iter().copied().collect();
            if distinct.len() < seeds.len() {
                notices.push(format!(
                    "{row} ({}) holds runs of the same seed more than once: its deviation is too small.",
                    checkpoint_name(checkpoint)
                ));
            }
        }
    }
    for family in families {
        if let Some(keys) = differing_settings(family) {
            notices.push(format!(
                "Runs of {} differ in more than their seed ({keys}); their mean mixes settings.",
                family.label
            ));
        }
    }
    if let Some((_, epochs)) = paper::EXPERIMENTS
        .iter()
        .find(|(name, _)| *name == group.experiment)
    {
        let ours: BTreeSet<u64> = group
            .runs
            .iter()
            .map(|run| run.curves.len() as u64)
            .filter(|&n| n > 0)
            .collect();
        if ours.iter().any(|&n| n != *epochs as u64) {
            let s = if ours.iter().eq(&[1]) { "" } else { "s" };
            notices.push(format!(
                "These runs trained for {} epoch{s}, those of the paper for {epochs}; its figures beside ours are not a like-for-like comparison.",
                ranges(ours)
            ));
        }
    }
    let limits: BTreeSet<String> = group
        .runs
        .iter()
        .flat_map(|run| flatten(&run.config))
        .filter(|(key, _)| key == "data.limit")
        .map(|(_, value)| value)
        .collect();
    if !limits.is_empty() {
        let limits: Vec<String> = limits.into_iter().collect();
        notices.push(format!(
            "Only a part of the training images was used ({}).",
            limits.join(", ")
        ));
    }
    let versions: BTreeSet<String> = group.runs.iter().map(|run| version(run)).collect();
    if versions.len() > 1 {
        notices.push("The runs were made by different versions of the program.".to_owned());
    }
    notices
}

/// Keys of the config that differ between the runs of a family, seeds aside.
fn differing_settings(family: &Family<'_>) -> Option<String> {
    let flat: Vec<Vec<(String, String)>> =
        family.runs.iter().map(|run| flatten(&run.config)).collect();
    let first = flat.first()?;
    let mut keys = BTreeSet::new();
    for other in &flat[1..] {
        // there and back, since either may have a key that the other lacks
        for (one, two) in [(first, other), (other, first)] {
            for (key, value) in one.iter().filter(|(key, _)| !is_of_the_run(key)) {
                let same = two.iter().find(|(name, _)| name == key);
                if same.is_none_or(|(_, found)| found != value) {
                    keys.insert(key.as_str());
                }
            }
        }
    }
    (!keys.is_empty()).then(|| keys.into_iter().collect::<Vec<_>>().join(", "))
}

/// Settings that belong to the single run: its seed, its name, where it is kept.
fn is_of_the_run(key: &str) -> bool {
    let last = key.rsplit('.').next().unwrap_or(key);
    matches!(last, "seed" | "name" | "out" | "output" | "directory")
}

/// A config as dotted keys and values.
pub(crate) fn flatten(config: &serde_json::Value) -> Vec<(String, String)> {
    fn walk(prefix: &str, value: &serde_json::Value, out: &mut Vec<(String, String)>) {
        match value {
            serde_json::Value::Object(map) => {
                for (key, value) in map {
                    let key = if prefix.is_empty() {
                        key.clone()
                    } else {
                        format!("{prefix}.{key}")
                    };
                    walk(&key, value, out);
                }
            }
            serde_json::Value::Null => {}
            serde_json::Value::String(text) => out.push((prefix.to_owned(), text.clone())),
            other => out.push((prefix.to_owned(), other.to_string())),
        }
    }
    let mut out = Vec::new();
    walk("", config, &mut out);
    out
}

/// The paper's figure beside ours.
pub(crate) fn published(number: &paper::Published) -> String {
    with_deviation(number.mean(), number.spread())
}

/// `0-2, 5`.
pub(crate) fn ranges(numbers: BTreeSet<u64>) -> String {
    let mut parts: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let text: Vec<String> = parts
        .into_iter()
        .map(|(first, last)| match last - first {
            0 => first.to_string(),
            1 => format!("{first}, {last}"),
            _ => format!("{first}–{last}"),
        })
        .collect();
    text.join(", ")
}

/// `44,426`.
pub(crate) fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 thread`, `2 threads`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{} {noun}{s}", thousands(number))
}

/// `1 h 12 min`, `3 min 5 s`, `12.3 s`.
pub(crate) fn duration(seconds: f64) -> String {
    if seconds < 60.0 {
        return format!("{seconds:.1} s");
    }
    let whole = seconds.round() as u64;
    let (hours, minutes, rest) = (whole / 3600, whole % 3600 / 60, whole % 60);
    if hours > 0 {
        format!("{hours} h {minutes} min")
    } else {
        format!("{minutes} min {rest} s")
    }
}

/// `2026-11-01 12:30 UTC` (proleptic Gregorian calendar; days to date by eras of 400 years).
pub(crate) fn date(unix: u64) -> String {
    let (days, seconds) = (unix / 86_400, unix % 86_400);
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (seconds / 3600, seconds % 3600 / 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_by_hand() {
        assert_eq!(date(0), "1970-01-01 00:00 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00 UTC");
        assert_eq!(date(1_709_251_199), "2024-02-29 23:59 UTC");
        assert_eq!(date(1_790_000_000), "2026-09-21 14:13 UTC");
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(thousands(44_426), "44,426");
        assert_eq!(thousands(999), "999");
        assert_eq!(duration(12.34), "12.3 s");
        assert_eq!(duration(185.2), "3 min 5 s");
        assert_eq!(duration(4_329.0), "1 h 12 min");
        assert_eq!(ranges([0, 1, 2, 5, 7, 8].into()), "0–2, 5, 7, 8");
        assert_eq!(list(&["a", "b", "c"]), "a, b and c");
        assert_eq!(count(1, "run"), "1 run");
    }

    #[test]
    fn configs_are_flattened() {
        let config = serde_json::json!({"a": {"b": 1, "c": [1, 2]}, "d": "x", "e": null});
        let flat = flatten(&config);
        let expected = [("a.b", "1"), ("a.c", "[1,2]"), ("d", "x")];
        let found: Vec<(&str, &str)> = flat.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(found, expected);
    }
}
