//! The section *Results*: the tables, their footnotes, and what the columns mean.

use std::fmt::Write as _;

use evaluation::record::{Checkpoint, OodNormalization};
use evaluation::{Better, InDomain, Metric, OutOfDomain};

use super::html::{Switches, comment, escape, swatch};
use super::numbers::precise;
use super::{Interval, View};
use crate::facts::{count, distance, errors, published, thousands};
use crate::summary::{Cell, OutOfDomainSet, Row, Table, checkpoint_id, checkpoint_name, three};
use crate::tables::RULE;
use crate::{names, paper};

impl View<'_, '_> {
    pub(super) fn results(&self, page: &mut String, switches: &mut Switches) {
        if self.group.rows.len() > 1 || self.group.runs.len() > 1 {
            let _ = writeln!(
                page,
                "<p class=\"lead\">{RULE} A head sorts its column.</p>"
            );
        }
        page.push_str("<h3>Test set</h3>\n");
        self.tables(page, &[None], false);
        if self.group.sets.is_empty() {
            definitions(page, InDomain::METRICS);
            return;
        }
        self.tables_of_sets(page, switches, false);
        if let Some(theirs) = paper::out_of_domain_set(self.group.experiment) {
            let others: Vec<&str> = self
                .group
                .sets
                .iter()
                .filter(|set| set.dataset != theirs || !set.is_as_in_the_paper())
                .map(|set| set.label.as_str())
                .collect();
            if !others.is_empty() {
                let _ = writeln!(
                    page,
                    "<p class=\"hint\">The paper's out-of-domain set for this experiment is {}. Its figures say nothing about other \
                     sets and are not set beside {}.</p>",
                    escape(names::dataset(theirs)),
                    escape(&others.join(", "))
                );
            }
        }
        definitions_of(
            page,
            &[
                ("Test set", InDomain::METRICS),
                ("Out-of-domain", OutOfDomain::METRICS),
            ],
        );
    }

    /// The tables of the out-of-domain sets, below the heading with their switch.
    pub(super) fn tables_of_sets(
        &self,
        page: &mut String,
        switches: &mut Switches,
        of_scores: bool,
    ) {
        page.push_str("<div class=\"head\"><h3>Out-of-domain</h3>");
        self.set_switch(page, switches);
        page.push_str("</div>\n");
        let sets: Vec<_> = self.group.sets.iter().enumerate().map(Some).collect();
        self.tables(page, &sets, of_scores);
    }

    /// The tables of these sets at every checkpoint; the first is shown.
    pub(super) fn tables(
        &self,
        page: &mut String,
        sets: &[Option<(usize, &OutOfDomainSet<'_>)>],
        of_scores: bool,
    ) {
        for (i, &checkpoint) in self.group.checkpoints.iter().enumerate() {
            for (j, &set) in sets.iter().enumerate() {
                let found = set.map(|(_, set)| set);
                let table = self.group.table_of(checkpoint, found, of_scores);
                let place = Place {
                    checkpoint,
                    set,
                    of_scores,
                    hidden: i > 0 || j > 0,
                };
                self.table(page, &table, &place);
            }
        }
    }

    fn table(&self, page: &mut String, table: &Table<'_>, place: &Place<'_, '_>) {
        let set = place
            .set
            .map_or(String::new(), |(j, _)| format!(" data-set=\"{j}\""));
        let hidden = if place.hidden { " hidden" } else { "" };
        let _ = writeln!(
            page,
            "<div class=\"results-table\" data-checkpoint=\"{}\"{set}{}{hidden}>",
            checkpoint_id(place.checkpoint),
            // the script has the figures, and makes the tips of the cells from them
            if place.of_scores { "" } else { " data-told" },
        );
        if place.hidden {
            // a browser makes nothing of it until it is chosen
            let mut later = String::new();
            self.table_inside(&mut later, table, place);
            page.push_str(&comment(&later));
        } else {
            self.table_inside(page, table, place);
        }
        page.push_str("</div>\n");
    }

    fn table_inside(&self, page: &mut String, table: &Table<'_>, place: &Place<'_, '_>) {
        let what = match (place.set, place.of_scores) {
            (None, true) => "Right against wrong answers",
            (set, _) => set.map_or("Test set", |(_, set)| &set.label),
        };
        let label = if self.is_trained() {
            format!("{what}, {}", checkpoint_name(place.checkpoint))
        } else {
            what.to_owned()
        };
        if table.rows.is_empty() {
            let _ = writeln!(
                page,
                "<p class=\"hint\">{}: nothing was evaluated.</p>",
                escape(&label)
            );
            return;
        }
        let _ = write!(
            page,
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table: {0}\">\n<table class=\"sortable\">\n\
             <caption>{0}{1}</caption>\n<thead><tr><th scope=\"col\" aria-sort=\"none\"><button type=\"button\">Method</button></th>",
            escape(&label),
            self.setting(place, table),
        );
        heads(page, &table.metrics);
        let mut notes = Notes::default();
        for row in &table.rows {
            self.row(page, row, &table.metrics, place, &mut notes);
        }
        page.push_str("</tbody>\n</table>\n</div>\n");
        legend(page, table);
        notes.write(page);
    }

    fn row(
        &self,
        page: &mut String,
        row: &Row<'_>,
        metrics: &[&Metric],
        place: &Place<'_, '_>,
        notes: &mut Notes,
    ) {
        let note = row.note.map(|note| notes.mark(note)).unwrap_or_default();
        let _ = write!(
            page,
            "<tr data-row=\"{0}\"><th scope=\"row\"><span class=\"name\">{1}{2}</span>{note}{3}</th>",
            row.index,
            swatch(self.styles[row.index]),
            escape(row.name),
            if row.is_chance {
                " <span class=\"tag\">chance level</span>"
            } else {
                ""
            },
        );
        let runs = row
            .cells
            .iter()
            .flatten()
            .map(|cell| cell.values.len())
            .max();
        for (cell, metric) in row.cells.iter().zip(metrics) {
            match cell {
                None => page
                    .push_str("<td class=\"none\"><span aria-label=\"not defined\">–</span></td>"),
                Some(cell) => {
                    let interval = self.interval(metric, place);
                    let figures = place.of_scores.then(|| figures(cell, metric, row.name));
                    self.cell(page, cell, figures, (runs, interval), notes);
                }
            }
        }
        page.push_str("</tr>\n");
    }

    /// Where a figure may lie, if that was given.
    fn interval(&self, metric: &Metric, place: &Place<'_, '_>) -> Option<&Interval> {
        let set = place.set.map(|(_, set)| set.dataset);
        let mut known = self.intervals.iter().filter(|_| !place.of_scores);
        known.find(|one| one.metric == metric.id && one.set.as_deref() == set)
    }

    /// What the caption of a table adds: images, score, normalization.
    fn setting(&self, place: &Place<'_, '_>, table: &Table<'_>) -> String {
        if place.of_scores {
            return self.scored(place, table);
        }
        let Some((_, set)) = place.set else {
            return String::new();
        };
        let counts = table.rows.first().and_then(|row| {
            let mut evaluations = self.group.evaluations(row.name, place.checkpoint);
            evaluations.find_map(|(_, evaluation)| {
                evaluation
                    .out_of_domain
                    .iter()
                    .find(|out| out.dataset == set.dataset)
                    .map(|out| (out.metrics.in_samples, out.metrics.out_samples))
            })
        });
        let mut text = String::from("<span class=\"setting\">");
        if let Some((inside, outside)) = counts {
            let _ = write!(
                text,
                "{} test against {} other images, ",
                thousands(inside),
                thousands(outside)
            );
        }
        let _ = write!(
            text,
            "score: {}; images normalized by {}</span>",
            escape(set.score),
            match OodNormalization::by_name(set.normalization) {
                Some(OodNormalization::Own) => "the constants of their own set".to_owned(),
                Some(OodNormalization::Training) => "the constants of the training set".to_owned(),
                None => escape(set.normalization),
            }
        );
        text
    }

    fn cell(
        &self,
        page: &mut String,
        cell: &Cell,
        figures: Option<String>,
        (runs, interval): (Option<usize>, Option<&Interval>),
        notes: &mut Notes,
    ) {
        let mut tip = figures.unwrap_or_default();
        if let Some(number) = &cell.paper {
            let _ = write!(tip, "\npaper {}", published(number));
            if let Some(distance) = distance(cell) {
                let _ = write!(tip, ", {} away", errors(distance));
            }
        }
        if let Some(number) = &cell.reproduction {
            let _ = write!(tip, "\nindependent reproduction {}", published(number));
        }
        let class = if cell.is_best { " class=\"best\"" } else { "" };
        let value = if cell.mean.is_finite() {
            cell.mean.to_string()
        } else if cell.mean > 0.0 {
            "Infinity".to_owned()
        } else {
            "-Infinity".to_owned()
        };
        let _ = write!(
            page,
            "<td{class} data-v=\"{value}\" data-tip=\"{}\"><span class=\"own\"><span class=\"mean\">{}</span>",
            escape(&tip),
            three(cell.mean)
        );
        if let Some(deviation) = cell.deviation {
            let _ = write!(
                page,
                " <span class=\"deviation\">± {}</span>",
                three(deviation)
            );
        }
        page.push_str("</span>");
        if let Some(Interval { low, high, .. }) = interval {
            let _ = write!(
                page,
                "<span class=\"theirs interval\">[{}, {}]</span>",
                three(*low),
                three(*high)
            );
        }
        if runs.is_some_and(|runs| cell.values.len() < runs) {
            let _ = write!(
                page,
                "<span class=\"partial\">{}</span>",
                count(cell.values.len(), "run")
            );
        }
        if let Some(number) = &cell.paper {
            let far = is_far(cell);
            let _ = write!(
                page,
                "<span class=\"theirs only-paper{}\">{PAPER_MARK}{}{}{}</span>",
                if far { " far" } else { "" },
                published(number),
                if far {
                    " <span class=\"far-mark\" aria-label=\"far\">≠</span>"
                } else {
                    ""
                },
                number.note.map(|note| notes.mark(note)).unwrap_or_default()
            );
        }
        if let Some(number) = &cell.reproduction {
            let _ = write!(
                page,
                "<span class=\"theirs only-reproduction\">{REPRODUCTION_MARK}{}</span>",
                published(number)
            );
        }
        page.push_str("</td>");
    }
}

/// What the tip of a cell says first: the figure of every run, their mean and deviation.
fn figures(cell: &Cell, metric: &Metric, row: &str) -> String {
    let mut text = format!("{row}, {}", metric.name);
    for (seed, value) in &cell.values {
        let _ = write!(text, "\nseed {seed}: {}", precise(*value));
    }
    let _ = write!(text, "\nmean {}", precise(cell.mean));
    if let Some(deviation) = cell.deviation {
        let _ = write!(text, ", deviation {}", precise(deviation));
    }
    text
}

/// Stands before the paper's figures, as a hollow diamond does in the plots.
const PAPER_MARK: &str =
    "<span class=\"mark\" aria-hidden=\"true\">◇</span><span class=\"unseen\">paper </span>";

/// Stands before the figures of the reproduction, as a hollow square does in the plots.
const REPRODUCTION_MARK: &str =
    "<span class=\"mark\" aria-hidden=\"true\">□</span><span class=\"unseen\">reproduction </span>";

/// The heads of the columns; each sorts its own.
fn heads(page: &mut String, metrics: &[&Metric]) {
    for metric in metrics {
        let _ = write!(
            page,
            "<th scope=\"col\" aria-sort=\"none\" data-metric=\"{}\"><button type=\"button\" \
             data-better=\"{}\" data-tip=\"{}\">{} \
             <span class=\"arrow\" aria-hidden=\"true\">{}</span></button></th>",
            metric.id,
            match metric.better {
                Better::Higher => "high",
                Better::Lower => "low",
            },
            escape(metric.meaning),
            escape(metric.name),
            metric.better.arrow()
        );
    }
    page.push_str("</tr></thead>\n<tbody>\n");
}

/// What the marks in the cells mean, for those that occur.
fn legend(page: &mut String, table: &Table<'_>) {
    let shown = |read: fn(&Cell) -> bool| {
        let mut cells = table.rows.iter().flat_map(|row| row.cells.iter().flatten());
        cells.any(read)
    };
    if shown(|cell| cell.paper.is_some()) {
        page.push_str("<p class=\"hint only-paper\">◇ the paper's figure</p>\n");
    }
    if shown(|cell| cell.reproduction.is_some()) {
        page.push_str(
            "<p class=\"hint only-reproduction\">□ an independent reproduction from the paper's text, mean \
             over the seeds</p>\n",
        );
    }
    if shown(is_far) {
        page.push_str(
            "<p class=\"hint only-paper\"><span class=\"far-mark\">≠</span> more than two standard errors, \
             theirs and ours together, from the paper's figure</p>\n",
        );
    }
}

/// Whether our figure and the paper's lie more than two standard errors apart.
fn is_far(cell: &Cell) -> bool {
    distance(cell).is_some_and(|distance| distance > 2.0)
}

/// Where a results table belongs.
pub(super) struct Place<'p, 'a> {
    pub(super) checkpoint: Checkpoint,
    pub(super) set: Option<(usize, &'p OutOfDomainSet<'a>)>,
    /// Its columns are scores, not metrics of one score.
    pub(super) of_scores: bool,
    pub(super) hidden: bool,
}

/// Footnotes of a table: the same text has the same letter.
#[derive(Default)]
struct Notes {
    texts: Vec<&'static str>,
}

impl Notes {
    fn mark(&mut self, text: &'static str) -> String {
        let found = self.texts.iter().position(|known| *known == text);
        let i = found.unwrap_or_else(|| {
            self.texts.push(text);
            self.texts.len() - 1
        });
        format!(
            "<sup class=\"note-mark only-paper\" data-tip=\"{}\">{}</sup>",
            escape(text),
            Self::letter(i)
        )
    }

    fn letter(i: usize) -> String {
        let letter = char::from(b'a' + u8::try_from(i % 26).unwrap_or(0));
        std::iter::repeat_n(letter, 1 + i / 26).collect()
    }

    fn write(&self, page: &mut String) {
        if self.texts.is_empty() {
            return;
        }
        page.push_str(
            "<ol class=\"notes only-paper\" aria-label=\"Notes on the paper's figures\">\n",
        );
        for (i, text) in self.texts.iter().enumerate() {
            let _ = writeln!(page, "<li><b>{}</b> {}</li>", Self::letter(i), escape(text));
        }
        page.push_str("</ol>\n");
    }
}

fn definitions(page: &mut String, metrics: &[Metric]) {
    definitions_of(page, &[("Test set", metrics)]);
}

pub(super) fn definitions_of(page: &mut String, parts: &[(&str, &[Metric])]) {
    page.push_str("<details class=\"definitions\"><summary>What the columns mean</summary>\n");
    for (title, metrics) in parts {
        let _ = writeln!(page, "<h4>{title}</h4>\n<dl>");
        for metric in *metrics {
            let _ = writeln!(
                page,
                "<div><dt>{} {}</dt><dd>{} <code>{}</code></dd></div>",
                escape(metric.name),
                metric.better.arrow(),
                escape(metric.meaning),
                metric.id
            );
        }
        page.push_str("</dl>\n");
    }
    page.push_str("</details>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_are_lettered_once() {
        let mut notes = Notes::default();
        assert!(notes.mark("one").contains(">a<"));
        assert!(notes.mark("two").contains(">b<"));
        assert!(notes.mark("one").contains(">a<"));
        assert_eq!(Notes::letter(27), "bb");
    }
}
