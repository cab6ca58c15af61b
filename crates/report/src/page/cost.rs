//! The section *Time and memory*: what training and predicting took.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use evaluation::record::{Checkpoint, Evaluation, RunRecord};

use super::View;
use super::html::{escape, swatch};
use super::numbers::{rough, rough_with};
use crate::facts::{self, count};
use crate::paper;
use crate::summary::{Family, checkpoint_name, mean_and_deviation};

impl View<'_, '_> {
    pub(super) fn cost(&self, page: &mut String) {
        let group = self.group;
        let theirs = |rule: &str| paper::runtime(group.experiment, group.dataset, rule);
        let has_theirs = group.runs.iter().any(|run| theirs(&run.rule).is_some());
        let _ = write!(
            page,
            "<p class=\"lead\">Mean ± sample deviation over the seeds.{}</p>\n\
             <div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table: time and memory\">\n<table class=\"sortable\">\n\
             <caption>Training</caption>\n<thead><tr>",
            if has_theirs {
                " The paper's seconds, printed as those of a whole run, are those of an epoch on an H100 with three runs at a time."
            } else {
                ""
            }
        );
        for head in ["Runs of", "Rule", "Device", "Runs"] {
            sortable_head(page, head);
        }
        // a column that nothing was measured for is left out
        let known = |read: fn(&RunRecord) -> Option<f64>| {
            move |family: &Family<'_>| family.runs.iter().any(|run| read(run).is_some())
        };
        let measured = MEASURED.iter();
        let measured: Vec<&Measured> = measured
            .filter(|(_, read)| self.families.iter().any(known(*read)))
            .collect();
        for (head, _) in &measured {
            sortable_head(page, head);
        }
        if has_theirs {
            sortable_head(page, "Paper, s per epoch");
            sortable_head(page, "Paper, GPU memory MiB");
        }
        page.push_str("</tr></thead>\n<tbody>\n");
        for family in &self.families {
            self.name_runs(page, family);
            for (_, read) in &measured {
                page.push_str(&over(family, *read));
            }
            if has_theirs {
                let rule = family.runs.iter().map(|run| run.rule.as_str()).min();
                match rule.and_then(theirs) {
                    Some((seconds, allocated, _)) => {
                        let memory = (allocated * 1024.0).round();
                        let _ = write!(
                            page,
                            "<td data-v=\"{seconds}\">{seconds}</td>\
                             <td data-v=\"{memory}\">{memory}</td>"
                        );
                    }
                    None => page.push_str(&NONE.repeat(2)),
                }
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</tbody>\n</table>\n</div>\n");
        self.prediction_cost(page);
    }

    /// The cells that say which runs these are.
    fn name_runs(&self, page: &mut String, family: &Family<'_>) {
        let first = family.rows.first();
        let place = first.map(|i| format!(" data-row=\"{i}\""));
        let mark = first.map(|&i| swatch(self.styles[i]));
        let rules: BTreeSet<&str> = family.runs.iter().map(|run| run.rule.as_str()).collect();
        let rules: Vec<&str> = rules.into_iter().collect();
        let devices: BTreeSet<String> = family.runs.iter().map(|run| device(run)).collect();
        let devices: Vec<String> = devices.into_iter().collect();
        let resumed: u32 = family.runs.iter().map(|run| run.timings.resumed).sum();
        let resumed = (resumed > 0).then(|| {
            let times = count(resumed as usize, "time");
            format!(" <span class=\"partial\">resumed {times}</span>")
        });
        let _ = write!(
            page,
            "<tr{0}><th scope=\"row\"><span class=\"name\">{1}{2}</span></th><td class=\"left\">{3}</td>\
             <td class=\"left\">{4}</td><td data-v=\"{5}\">{5}{6}</td>",
            place.unwrap_or_default(),
            mark.unwrap_or_default(),
            escape(&family.label),
            escape(&rules.join(", ")),
            escape(&devices.join("; ")),
            family.runs.len(),
            resumed.unwrap_or_default()
        );
    }

    fn prediction_cost(&self, page: &mut String) {
        let mut lines = String::new();
        for (i, row) in self.group.rows.iter().enumerate() {
            let all: Vec<_> = self
                .evaluations()
                .filter(|evaluation| evaluation.row == *row)
                .collect();
            let seconds: Vec<f64> = all.iter().map(|evaluation| evaluation.seconds).collect();
            let (mean, deviation) = mean_and_deviation(&seconds);
            if mean.is_nan() || mean == 0.0 {
                continue;
            }
            let predictive: BTreeSet<&str> = all.iter().map(|e| e.predictive.as_str()).collect();
            let passes: BTreeSet<u64> = all.iter().map(|e| e.samples as u64).collect();
            let _ = writeln!(
                lines,
                "<tr data-row=\"{i}\"><th scope=\"row\"><span class=\"name\">{}{}</span></th><td class=\"word\">{}</td>\
                 <td>{}</td><td data-v=\"{mean}\">{}</td><td class=\"word\">{}</td></tr>",
                swatch(self.styles[i]),
                escape(row),
                escape(&predictive.into_iter().collect::<Vec<_>>().join(", ")),
                facts::ranges(passes),
                rough_with(mean, deviation),
                escape(&details_by_checkpoint(&all)),
            );
        }
        if lines.is_empty() {
            return;
        }
        let _ = write!(
            page,
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table: cost of predicting\">\n<table class=\"sortable\">\n\
             <caption>Predicting, all test and out-of-domain images, both checkpoints</caption>\n<thead><tr>"
        );
        for head in [
            "Method",
            "Predictive method",
            "Passes",
            "Seconds",
            "Details",
        ] {
            sortable_head(page, head);
        }
        let _ = write!(
            page,
            "</tr></thead>\n<tbody>\n{lines}</tbody>\n</table>\n</div>\n"
        );
    }
}

/// A cell without a value.
const NONE: &str = "<td class=\"none\">–</td>";

/// What was measured of a training: head of the column, and where the value is.
type Measured = (&'static str, fn(&RunRecord) -> Option<f64>);

const MEASURED: [Measured; 8] = [
    ("Steps", |run| Some(run.timings.steps as f64)),
    ("Training s", |run| Some(run.timings.train_s)),
    ("ms per step", |run| {
        let steps = run.timings.steps;
        (steps > 0).then(|| run.timings.train_s * 1e3 / steps as f64)
    }),
    ("s per epoch", RunRecord::seconds_per_epoch),
    ("Validation s", |run| Some(run.timings.validation_s)),
    ("Evaluation s", |run| Some(run.timings.evaluation_s)),
    ("Peak memory MiB", |run| {
        let bytes = run.timings.peak_memory_bytes;
        bytes.map(|bytes| bytes as f64 / f64::from(1 << 20))
    }),
    ("Peak GPU memory MiB", |run| {
        let bytes = run.timings.peak_device_bytes;
        bytes.map(|bytes| bytes as f64 / f64::from(1 << 20))
    }),
];

/// A cell with mean and deviation over the runs of a family.
fn over(family: &Family<'_>, read: fn(&RunRecord) -> Option<f64>) -> String {
    let values: Vec<f64> = family
        .runs
        .iter()
        .filter_map(|run| read(run))
        .filter(|value| value.is_finite())
        .collect();
    if values.is_empty() {
        return NONE.to_owned();
    }
    let (mean, deviation) = mean_and_deviation(&values);
    format!("<td data-v=\"{mean}\">{}</td>", rough_with(mean, deviation))
}

/// Further facts of the method; those of the best and of the final weights are told apart where
/// they differ.
fn details_by_checkpoint(all: &[&Evaluation]) -> String {
    let of = |checkpoint: Checkpoint| {
        let part = all
            .iter()
            .filter(|evaluation| evaluation.checkpoint == checkpoint);
        details(&part.copied().collect::<Vec<_>>()).join("; ")
    };
    let (best, last) = (of(Checkpoint::Best), of(Checkpoint::Final));
    if best.is_empty() || best == last {
        return last;
    }
    if last.is_empty() {
        return best;
    }
    let names = [Checkpoint::Best, Checkpoint::Final].map(checkpoint_name);
    format!("{}: {best}; {}: {last}", names[0], names[1])
}

/// Further facts of the method, numbers averaged over the evaluations of one checkpoint.
fn details(all: &[&Evaluation]) -> Vec<String> {
    let mut details: Vec<String> = Vec::new();
    for (key, _) in all.iter().flat_map(|evaluation| &evaluation.details) {
        let values: Vec<f64> = all
            .iter()
            .filter_map(|evaluation| evaluation.details.get(key)?.as_f64())
            .collect();
        let text = if values.is_empty() {
            let first = all.iter().find_map(|e| e.details.get(key));
            let text = |value: &serde_json::Value| match value.as_str() {
                Some(text) => text.to_owned(),
                None => value.to_string(),
            };
            first.map(text).unwrap_or_default()
        } else {
            let (mean, deviation) = mean_and_deviation(&values);
            let deviation = deviation.filter(|&d| d > 0.0);
            let deviation = deviation.map(|d| format!(" ± {}", rough(d)));
            format!("{}{}", rough(mean), deviation.unwrap_or_default())
        };
        let line = format!("{} {text}", key.replace('_', " "));
        if !details.contains(&line) {
            details.push(line);
        }
    }
    details
}

/// The head of a column whose small values come first; columns of words are flush left.
fn sortable_head(page: &mut String, head: &str) {
    let class = match head {
        "Rule" | "Device" | "Predictive method" | "Details" => " class=\"left\"",
        _ => "",
    };
    let _ = write!(
        page,
        "<th scope=\"col\"{class} aria-sort=\"none\"><button type=\"button\" data-better=\"low\">{head}</button></th>"
    );
}

/// `cpu, f32`.
fn device(run: &RunRecord) -> String {
    let parts = [run.device.as_str(), run.precision.as_str()];
    let known: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    known.join(", ")
}
