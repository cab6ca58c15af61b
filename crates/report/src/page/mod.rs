//! The page: tables and words are written here, so that they can be read without the script and by any program; plots are
//! drawn by the script from the JSON at the end of the page.
//!
//! Whatever comes out of a record is escaped, and the JSON cannot end its script element. A content security policy forbids
//! the page to load anything.

mod data;
mod html;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use evaluation::record::{Checkpoint, OodNormalization, RunRecord};
use evaluation::{Better, InDomain, Metric, OutOfDomain};
use serde_json::json;

use self::html::{Switches, code, escape, script_json};
use crate::curves::{recall_grid, roc_grid};
use crate::disagreements::CHAPTERS;
use crate::facts::{self, count, distance, errors, flatten, notices, published, thousands};
use crate::paper;
use crate::style::{self, DASHES, Style};
use crate::summary::{
    Cell, Family, Group, OutOfDomainSet, Table, checkpoint_id, checkpoint_name, dataset_name,
    groups, mean_and_deviation, network_name, three,
};
use crate::tables::RULE;

/// What the page says beside the records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Title; by default made from the records.
    pub title: Option<String>,
    /// A paragraph under the title, plain text: what the reader should know about these runs.
    pub note: Option<String>,
}

/// One self-contained HTML file about these records. The same records give the same bytes.
///
/// Runs are grouped by experiment, dataset and network, rows by their names over the seeds. What the records do not hold is
/// left out of the page.
///
/// ```
/// let page = report::html(&[], &report::Options::default());
/// assert!(page.starts_with("<!doctype html>"));
/// assert!(page.contains("No runs"));
/// ```
pub fn html(records: &[RunRecord], options: &Options) -> String {
    let groups = groups(records);
    let views: Vec<View<'_, '_>> = groups.iter().enumerate().map(View::new).collect();
    let title = options
        .title
        .clone()
        .unwrap_or_else(|| match views.as_slice() {
            [] => "No runs".to_owned(),
            [one] => facts::title(one.group),
            many => {
                let names: BTreeSet<&str> =
                    many.iter().map(|v| dataset_name(v.group.dataset)).collect();
                let names: Vec<&str> = names.into_iter().collect();
                names.join(", ")
            }
        });
    let with_disagreements = groups.iter().any(|group| {
        group.rows.iter().any(|row| paper::ROWS.contains(row))
            || paper::out_of_domain_set(group.experiment).is_some()
    });
    let mut switches = Switches::default();
    let mut page = String::new();
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'\">\n\
         <title>{} · Maxitive</title>\n<style>\n{}</style>\n</head>\n<body class=\"beside-paper\">\n\
         <a class=\"skip\" href=\"#main\">Skip to the results</a>\n",
        escape(&title),
        include_str!("../../assets/page.css"),
    );
    hero(&mut page, &title, options, &views, &mut switches);
    page.push_str("<div class=\"shell\">\n");
    panel(&mut page, &views, &mut switches, with_disagreements);
    page.push_str("<main id=\"main\" tabindex=\"-1\">\n<noscript><p class=\"notice\">Tables, settings and notes can be read as they \
                   are; the plots and the switches need the script inside this page.</p></noscript>\n");
    for view in &views {
        view.write(&mut page, &mut switches);
    }
    if with_disagreements {
        disagreements(&mut page);
    }
    page.push_str("</main>\n</div>\n");
    footer(&mut page);
    let data = json!({
        "grids": {
            "roc": roc_grid().iter().map(|&x| crate::curves::number(x)).collect::<Vec<_>>(),
            "recall": recall_grid().iter().map(|&x| crate::curves::number(x)).collect::<Vec<_>>(),
        },
        "dashes": DASHES,
        "groups": views
            .iter()
            .map(|view| data::group(view.group, &view.families, &view.styles))
            .collect::<Vec<_>>(),
    });
    let _ = write!(
        page,
        "<div id=\"tip\" role=\"status\" aria-live=\"polite\" hidden></div>\n\
         <script type=\"application/json\" id=\"data\">{}</script>\n<script>\n{}</script>\n</body>\n</html>\n",
        script_json(&data),
        include_str!("../../assets/page.js"),
    );
    page
}

/// A group and how it is shown.
struct View<'g, 'a> {
    index: usize,
    group: &'g Group<'a>,
    families: Vec<Family<'a>>,
    styles: Vec<Style>,
}

impl<'g, 'a> View<'g, 'a> {
    fn new((index, group): (usize, &'g Group<'a>)) -> Self {
        Self {
            index,
            group,
            families: group.families(),
            styles: style::assign(&group.rows),
        }
    }

    fn id(&self, section: &str) -> String {
        format!("g{}-{section}", self.index)
    }

    fn hidden(&self) -> &'static str {
        if self.index == 0 { "" } else { " hidden" }
    }

    /// Whether the records tell of training; predictions from elsewhere have no epochs.
    fn is_trained(&self) -> bool {
        let mut runs = self.group.runs.iter();
        runs.any(|run| run.timings.steps > 0 || !run.curves.is_empty())
    }

    /// Whether some row holds more than one run.
    fn has_seeds(&self) -> bool {
        self.group.rows.iter().any(|row| {
            let mut checkpoints = self.group.checkpoints.iter();
            checkpoints.any(|&checkpoint| self.group.evaluations(row, checkpoint).count() > 1)
        })
    }

    fn has_bins(&self) -> bool {
        self.evaluations()
            .any(|e| e.reliability.bins.iter().any(|bin| bin.count > 0))
    }

    fn has_detection_curves(&self) -> bool {
        self.evaluations()
            .flat_map(|e| &e.out_of_domain)
            .any(|out| {
                let curves = &out.curves;
                !curves.roc.is_empty()
                    || !curves.precision_recall_in.is_empty()
                    || !curves.precision_recall_out.is_empty()
                    || !curves.histogram.in_counts.is_empty()
            })
    }

    fn has_training(&self) -> bool {
        self.group.runs.iter().any(|run| !run.curves.is_empty())
    }

    fn has_cost(&self) -> bool {
        self.group
            .runs
            .iter()
            .any(|run| run.timings.train_s > 0.0 || run.timings.peak_memory_bytes.is_some())
    }

    fn has_settings(&self) -> bool {
        self.group
            .runs
            .iter()
            .any(|run| !flatten(&run.config).is_empty())
    }

    fn has_results(&self) -> bool {
        !self.group.rows.is_empty()
    }

    fn evaluations(&self) -> impl Iterator<Item = &'a evaluation::record::Evaluation> {
        self.group.runs.iter().flat_map(|run| &run.evaluations)
    }

    /// The sections that have something to show: id, title.
    fn sections(&self) -> Vec<(&'static str, &'static str)> {
        [
            ("short", "In short", self.has_results()),
            (
                "glance",
                "At a glance",
                self.has_results() && self.group.rows.len() > 1,
            ),
            ("results", "Results", self.has_results()),
            ("calibration", "Calibration", self.has_bins()),
            ("detection", "Out-of-domain", self.has_detection_curves()),
            ("training", "Training", self.has_training()),
            ("cost", "Time and memory", self.has_cost()),
            ("settings", "Settings", self.has_settings()),
        ]
        .into_iter()
        .filter(|&(_, _, shown)| shown)
        .map(|(id, title, _)| (id, title))
        .collect()
    }

    fn write(&self, page: &mut String, switches: &mut Switches) {
        let _ = writeln!(
            page,
            "<div class=\"group\" data-group=\"{}\"{}>",
            self.index,
            self.hidden()
        );
        for (id, title) in self.sections() {
            let _ = writeln!(
                page,
                "<section id=\"{0}\" class=\"card {id}\" aria-labelledby=\"{0}-title\">\n<h2 id=\"{0}-title\">{title}</h2>",
                self.id(id)
            );
            match id {
                "short" => self.short(page),
                "glance" => self.glance(page, switches),
                "results" => self.results(page, switches),
                "calibration" => self.calibration(page),
                "detection" => self.detection(page, switches),
                "training" => self.training(page),
                "cost" => self.cost(page),
                _ => self.settings(page),
            }
            page.push_str("</section>\n");
        }
        page.push_str("</div>\n");
    }

    /// What stands out, per checkpoint, and what to keep in mind.
    fn short(&self, page: &mut String) {
        for (i, &checkpoint) in self.group.checkpoints.iter().enumerate() {
            let hidden = if i == 0 { "" } else { " hidden" };
            let _ = writeln!(
                page,
                "<div data-checkpoint=\"{}\"{hidden}>\n<p class=\"lead\">{}</p>\n<dl class=\"findings\">",
                checkpoint_id(checkpoint),
                match (checkpoint, self.group.checkpoints.len()) {
                    (_, 1) if !self.is_trained() => "What was found:",
                    (Checkpoint::Best, _) => "With the weights of lowest validation loss:",
                    (Checkpoint::Final, _) => "With the weights of the last epoch:",
                }
            );
            for (what, text) in facts::findings(self.group, checkpoint) {
                let _ = writeln!(
                    page,
                    "<div><dt>{}</dt><dd>{}{}</dd></div>",
                    escape(&what),
                    escape(&text),
                    // a number alone is no sentence
                    if text.contains(char::is_alphabetic) {
                        "."
                    } else {
                        ""
                    }
                );
            }
            page.push_str("</dl>\n</div>\n");
        }
        let notices = notices(self.group, &self.families);
        if !notices.is_empty() {
            page.push_str("<ul class=\"notices\">\n");
            for notice in notices {
                let _ = writeln!(page, "<li>{}</li>", escape(&notice));
            }
            page.push_str("</ul>\n");
        }
    }

    fn glance(&self, page: &mut String, switches: &mut Switches) {
        page.push_str(
            "<p class=\"lead\">Dots are means, bars one deviation, ticks single seeds. The shaded band reaches one deviation of the \
             best row to either side of it.",
        );
        if self.has_paper() {
            page.push_str(
                " <span class=\"only-paper\">Hollow diamonds are the paper's figures.</span>",
            );
        }
        if self.has_reproduction() {
            page.push_str(
                " <span class=\"only-reproduction\">Hollow squares are those of the independent reproduction.</span>",
            );
        }
        page.push_str("</p>\n");
        if self
            .group
            .in_domain_tables()
            .any(|table| !table.rows.is_empty())
        {
            page.push_str(
                "<h3>Test set</h3>\n<div class=\"charts\" data-chart=\"glance-in\"></div>\n",
            );
        }
        if !self.group.sets.is_empty() {
            page.push_str("<div class=\"head\"><h3>Out-of-domain</h3>");
            self.set_switch(page, switches);
            page.push_str("</div>\n<div class=\"charts\" data-chart=\"glance-out\"></div>\n");
        }
    }

    fn has_paper(&self) -> bool {
        self.group.all_cells(|cell| cell.paper.is_some())
    }

    fn has_reproduction(&self) -> bool {
        self.group.all_cells(|cell| cell.reproduction.is_some())
    }

    fn set_switch(&self, page: &mut String, switches: &mut Switches) {
        if self.group.sets.len() < 2 {
            if let [set] = self.group.sets.as_slice() {
                let _ = write!(page, "<span class=\"tag\">{}</span>", escape(&set.label));
            }
            return;
        }
        let options: Vec<(String, String)> = self
            .group
            .sets
            .iter()
            .enumerate()
            .map(|(i, set)| (i.to_string(), set.label.clone()))
            .collect();
        switches.write(page, "set", "Out-of-domain set", &options);
    }

    fn results(&self, page: &mut String, switches: &mut Switches) {
        if self.group.rows.len() > 1 || self.group.runs.len() > 1 {
            let _ = writeln!(
                page,
                "<p class=\"lead\">{RULE} A head sorts its column.</p>"
            );
        }
        page.push_str("<h3>Test set</h3>\n");
        for (i, &checkpoint) in self.group.checkpoints.iter().enumerate() {
            let table = self.group.in_domain(checkpoint);
            let place = Place {
                checkpoint,
                set: None,
                hidden: i > 0,
            };
            self.table(page, &table, &place);
        }
        if self.group.sets.is_empty() {
            definitions(page, InDomain::METRICS);
            return;
        }
        page.push_str("<div class=\"head\"><h3>Out-of-domain</h3>");
        self.set_switch(page, switches);
        page.push_str("</div>\n");
        for (i, &checkpoint) in self.group.checkpoints.iter().enumerate() {
            for (j, set) in self.group.sets.iter().enumerate() {
                let table = self.group.out_of_domain(checkpoint, set);
                let place = Place {
                    checkpoint,
                    set: Some((j, set)),
                    hidden: i > 0 || j > 0,
                };
                self.table(page, &table, &place);
            }
        }
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
                    escape(dataset_name(theirs)),
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

    fn table(&self, page: &mut String, table: &Table<'_>, place: &Place<'_, '_>) {
        let set = place
            .set
            .map_or(String::new(), |(j, _)| format!(" data-set=\"{j}\""));
        let hidden = if place.hidden { " hidden" } else { "" };
        let _ = writeln!(
            page,
            "<div class=\"results-table\" data-checkpoint=\"{}\"{set}{hidden}>",
            checkpoint_id(place.checkpoint)
        );
        let what = place.set.map_or("Test set", |(_, set)| &set.label);
        let label = if self.is_trained() {
            format!("{what}, {}", checkpoint_name(place.checkpoint))
        } else {
            what.to_owned()
        };
        if table.rows.is_empty() {
            let _ = writeln!(
                page,
                "<p class=\"hint\">{}: nothing was evaluated.</p></div>",
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
        for metric in &table.metrics {
            let _ = write!(
                page,
                "<th scope=\"col\" aria-sort=\"none\" data-metric=\"{}\"><button type=\"button\" data-better=\"{}\" data-tip=\"{}\">{} \
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
        let mut notes = Notes::default();
        let mut is_far = false;
        for row in &table.rows {
            let note = row.note.map(|note| notes.mark(note)).unwrap_or_default();
            let _ = write!(
                page,
                "<tr data-row=\"{0}\"><th scope=\"row\"><span class=\"name\">{1}{2}</span>{note}</th>",
                row.index,
                swatch(self.styles[row.index]),
                escape(row.name),
            );
            let runs = row
                .cells
                .iter()
                .flatten()
                .map(|cell| cell.values.len())
                .max();
            for (cell, metric) in row.cells.iter().zip(&table.metrics) {
                match cell {
                    None => page.push_str(
                        "<td class=\"none\"><span aria-label=\"not defined\">–</span></td>",
                    ),
                    Some(cell) => {
                        is_far |= distance(cell).is_some_and(|d| d > 2.0);
                        self.cell(page, cell, metric, row.name, runs, &mut notes);
                    }
                }
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</tbody>\n</table>\n</div>\n");
        let shown = |read: fn(&Cell) -> bool| {
            let mut cells = table.rows.iter().flat_map(|row| row.cells.iter().flatten());
            cells.any(read)
        };
        if shown(|cell| cell.paper.is_some()) {
            page.push_str("<p class=\"hint only-paper\">◇ the paper's figure</p>\n");
        }
        if shown(|cell| cell.reproduction.is_some()) {
            page.push_str(
                "<p class=\"hint only-reproduction\">□ an independent reproduction from the paper's text, mean over the seeds</p>\n",
            );
        }
        if is_far {
            page.push_str(
                "<p class=\"hint only-paper\"><span class=\"far-mark\">≠</span> more than two standard errors, theirs and ours together, \
                 from the paper's figure</p>\n",
            );
        }
        notes.write(page);
        page.push_str("</div>\n");
    }

    /// What the caption of a table adds: images, score, normalization.
    fn setting(&self, place: &Place<'_, '_>, table: &Table<'_>) -> String {
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
        metric: &Metric,
        row: &str,
        runs: Option<usize>,
        notes: &mut Notes,
    ) {
        let mut tip = format!("{row}, {}", metric.name);
        for (seed, value) in &cell.values {
            let _ = write!(tip, "\nseed {seed}: {}", precise(*value));
        }
        let _ = write!(tip, "\nmean {}", precise(cell.mean));
        if let Some(deviation) = cell.deviation {
            let _ = write!(tip, ", deviation {}", precise(deviation));
        }
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
        if runs.is_some_and(|runs| cell.values.len() < runs) {
            let _ = write!(
                page,
                "<span class=\"partial\">{}</span>",
                count(cell.values.len(), "run")
            );
        }
        if let Some(number) = &cell.paper {
            let far = distance(cell).is_some_and(|distance| distance > 2.0);
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

    fn calibration(&self, page: &mut String) {
        let bins: BTreeSet<usize> = self
            .evaluations()
            .map(|evaluation| evaluation.reliability.bins.len())
            .filter(|&n| n > 0)
            .collect();
        let schemes: BTreeSet<&str> = self
            .evaluations()
            .map(|evaluation| evaluation.reliability.scheme.as_str())
            .filter(|scheme| !scheme.is_empty())
            .collect();
        let bins: Vec<String> = bins.into_iter().map(|n| n.to_string()).collect();
        let _ = writeln!(
            page,
            "<p class=\"lead\">Reliability: accuracy of the predictions made with a given confidence, over {} {} bins{}. \
             On the diagonal confidence and accuracy agree; a hatched gap below it is overconfidence. Bars at the \
             foot count the images, on a logarithmic scale.</p>\n<div class=\"charts small\" data-chart=\"reliability\"></div>",
            bins.join(" or "),
            escape(&schemes.into_iter().collect::<Vec<_>>().join(" or ")),
            if self.has_seeds() {
                ", all seeds together"
            } else {
                ""
            }
        );
    }

    fn detection(&self, page: &mut String, switches: &mut Switches) {
        let seeds = if self.has_seeds() {
            " Curves are averaged over the seeds at fixed abscissas, histograms hold all seeds together."
        } else {
            ""
        };
        let _ = write!(
            page,
            "<div class=\"head\"><p class=\"lead\">How well the confidence of a prediction tells test images from images of another \
             set.{seeds}</p>"
        );
        self.set_switch(page, switches);
        page.push_str(
            "</div>\n<div class=\"charts\" data-chart=\"detection\"></div>\n<h3>Scores</h3>\n\
             <p class=\"lead\">Share of the images in each bin of the score, on a logarithmic scale. The less the two shapes overlap, the \
             better they can be told apart.</p>\n<p class=\"key\"><span class=\"key-in\"></span> test set <span class=\"key-out\"></span> \
             out-of-domain</p>\n<div class=\"charts small\" data-chart=\"scores\"></div>\n",
        );
    }

    fn training(&self, page: &mut String) {
        let several = self.families.iter().any(|family| family.runs.len() > 1);
        page.push_str("<div class=\"head\"><p class=\"lead\">");
        page.push_str(if several {
            "Mean over the seeds, with one deviation as a band. "
        } else {
            "One run each. "
        });
        page.push_str(
            "Training values are those the steps met before each update.</p><label class=\"check\"><input type=\"checkbox\" \
             data-log> logarithmic losses</label></div>\n<div class=\"charts\" data-chart=\"training\"></div>\n",
        );
    }

    fn cost(&self, page: &mut String) {
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
        let mut heads = vec![
            "Runs of",
            "Rule",
            "Device",
            "Runs",
            "Steps",
            "Training s",
            "ms per step",
            "s per epoch",
            "Validation s",
            "Evaluation s",
            "Peak memory MiB",
        ];
        if has_theirs {
            heads.push("Paper, s per epoch");
        }
        for head in &heads {
            sortable_head(page, head);
        }
        page.push_str("</tr></thead>\n<tbody>\n");
        for family in &self.families {
            let over = |read: &dyn Fn(&RunRecord) -> Option<f64>| -> String {
                let values: Vec<f64> = family
                    .runs
                    .iter()
                    .filter_map(|run| read(run))
                    .filter(|value| value.is_finite())
                    .collect();
                if values.is_empty() {
                    return "<td class=\"none\">–</td>".to_owned();
                }
                let (mean, deviation) = mean_and_deviation(&values);
                format!("<td data-v=\"{mean}\">{}</td>", rough_with(mean, deviation))
            };
            let first = family.rows.first().map(|&i| swatch(self.styles[i]));
            let rules: BTreeSet<&str> = family.runs.iter().map(|run| run.rule.as_str()).collect();
            let rules: Vec<&str> = rules.into_iter().collect();
            let devices: BTreeSet<String> = family.runs.iter().map(|run| device(run)).collect();
            let devices: Vec<String> = devices.into_iter().collect();
            let resumed: u32 = family.runs.iter().map(|run| run.timings.resumed).sum();
            let _ = write!(
                page,
                "<tr{0}><th scope=\"row\"><span class=\"name\">{1}{2}</span></th><td class=\"left\">{3}</td>\
                 <td class=\"left\">{4}</td><td data-v=\"{5}\">{5}{6}</td>",
                family
                    .rows
                    .first()
                    .map(|i| format!(" data-row=\"{i}\""))
                    .unwrap_or_default(),
                first.unwrap_or_default(),
                escape(&family.label),
                escape(&rules.join(", ")),
                escape(&devices.join("; ")),
                family.runs.len(),
                if resumed > 0 {
                    format!(
                        " <span class=\"partial\">resumed {}</span>",
                        count(resumed as usize, "time")
                    )
                } else {
                    String::new()
                }
            );
            page.push_str(&over(&|run| Some(run.timings.steps as f64)));
            page.push_str(&over(&|run| Some(run.timings.train_s)));
            page.push_str(&over(&|run| {
                let steps = run.timings.steps;
                (steps > 0).then(|| run.timings.train_s * 1e3 / steps as f64)
            }));
            page.push_str(&over(&|run| {
                let epochs = run.curves.len();
                (epochs > 0)
                    .then(|| (run.timings.train_s + run.timings.validation_s) / epochs as f64)
            }));
            page.push_str(&over(&|run| Some(run.timings.validation_s)));
            page.push_str(&over(&|run| Some(run.timings.evaluation_s)));
            page.push_str(&over(&|run| {
                run.timings
                    .peak_memory_bytes
                    .map(|bytes| bytes as f64 / f64::from(1 << 20))
            }));
            if has_theirs {
                match rules.first().and_then(|rule| theirs(rule)) {
                    Some((seconds, ..)) => {
                        let _ = write!(page, "<td data-v=\"{seconds}\">{seconds}</td>");
                    }
                    None => page.push_str("<td class=\"none\">–</td>"),
                }
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</tbody>\n</table>\n</div>\n");
        self.prediction_cost(page);
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
            let mut details: Vec<String> = Vec::new();
            for (key, _) in all.iter().flat_map(|evaluation| &evaluation.details) {
                let values: Vec<f64> = all
                    .iter()
                    .filter_map(|evaluation| evaluation.details.get(key)?.as_f64())
                    .collect();
                let text = if values.is_empty() {
                    let first = all.iter().find_map(|e| e.details.get(key));
                    first.map(ToString::to_string).unwrap_or_default()
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
            let _ = writeln!(
                lines,
                "<tr data-row=\"{i}\"><th scope=\"row\"><span class=\"name\">{}{}</span></th><td class=\"word\">{}</td>\
                 <td>{}</td><td data-v=\"{mean}\">{}</td><td class=\"word\">{}</td></tr>",
                swatch(self.styles[i]),
                escape(row),
                escape(&predictive.into_iter().collect::<Vec<_>>().join(", ")),
                facts::ranges(passes),
                rough_with(mean, deviation),
                escape(&details.join("; ")),
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

    fn settings(&self, page: &mut String) {
        let flat: Vec<(usize, Vec<(String, String)>)> = self
            .families
            .iter()
            .enumerate()
            .filter_map(|(i, family)| Some((i, flatten(&family.runs.first()?.config))))
            .collect();
        let mut keys: Vec<&str> = Vec::new();
        for (key, _) in flat.iter().flat_map(|(_, settings)| settings) {
            if !keys.contains(&key.as_str()) {
                keys.push(key);
            }
        }
        let value = |settings: &[(String, String)], key: &str| -> Option<String> {
            let found = settings.iter().find(|(name, _)| name == key);
            found.map(|(_, value)| value.clone())
        };
        keys.retain(|key| {
            let values: BTreeSet<Option<String>> = flat
                .iter()
                .map(|(_, settings)| value(settings, key))
                .collect();
            values.len() > 1
        });
        if flat.len() > 1 && !keys.is_empty() {
            page.push_str(
                "<p class=\"lead\">Settings in which the runs differ; the rest is the same for all and stands in the full \
                 settings below.</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table: settings that differ\">\n\
                 <table class=\"settings-table\">\n<caption>Settings that differ</caption>\n<thead><tr><th scope=\"col\">Runs of</th>",
            );
            for key in &keys {
                let _ = write!(page, "<th scope=\"col\"><code>{}</code></th>", escape(key));
            }
            page.push_str("</tr></thead>\n<tbody>\n");
            for (i, settings) in &flat {
                let family = &self.families[*i];
                let mark = family.rows.first().map(|&i| swatch(self.styles[i]));
                let _ = write!(
                    page,
                    "<tr><th scope=\"row\"><span class=\"name\">{}{}</span></th>",
                    mark.unwrap_or_default(),
                    escape(&family.label)
                );
                for key in &keys {
                    match value(settings, key) {
                        Some(text) => {
                            let _ = write!(page, "<td>{}</td>", escape(&text));
                        }
                        None => page.push_str("<td class=\"none\">–</td>"),
                    }
                }
                page.push_str("</tr>\n");
            }
            page.push_str("</tbody>\n</table>\n</div>\n");
        }
        for family in &self.families {
            let Some(run) = family.runs.first() else {
                continue;
            };
            if flatten(&run.config).is_empty() {
                continue;
            }
            let seeds: BTreeSet<u64> = family.runs.iter().map(|run| run.seed).collect();
            let pretty = serde_json::to_string_pretty(&run.config).unwrap_or_default();
            let runs = if self.is_trained() {
                let s = if seeds.len() == 1 { "" } else { "s" };
                let runs = count(family.runs.len(), "run");
                format!(
                    " <span class=\"tag\">{runs}, seed{s} {}</span>",
                    facts::ranges(seeds)
                )
            } else {
                String::new()
            };
            let network = if run.network.is_empty() {
                String::new()
            } else {
                format!(", {}", network_name(&run.network))
            };
            let _ = writeln!(
                page,
                "<details><summary>{}{runs}</summary>\n<p class=\"hint\">The resolved settings of {}{}.</p>\n\
                 <pre tabindex=\"0\">{}</pre></details>",
                escape(&family.label),
                escape(&run.name),
                escape(&network),
                escape(&pretty)
            );
        }
    }
}

/// Stands before the paper's figures, as a hollow diamond does in the plots.
const PAPER_MARK: &str =
    "<span class=\"mark\" aria-hidden=\"true\">◇</span><span class=\"unseen\">paper </span>";
/// Stands before the figures of the reproduction, as a hollow square does in the plots.
const REPRODUCTION_MARK: &str =
    "<span class=\"mark\" aria-hidden=\"true\">□</span><span class=\"unseen\">reproduction </span>";

/// Where a results table belongs.
struct Place<'p, 'a> {
    checkpoint: Checkpoint,
    set: Option<(usize, &'p OutOfDomainSet<'a>)>,
    hidden: bool,
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

/// A short line in the style of a row.
fn swatch(style: Style) -> String {
    format!(
        "<svg class=\"swatch\" viewBox=\"0 0 28 10\" aria-hidden=\"true\"><line x1=\"2\" y1=\"5\" x2=\"26\" y2=\"5\" \
         stroke=\"var(--c{})\" stroke-dasharray=\"{}\"/></svg>",
        style.color, DASHES[style.dash]
    )
}

fn hero(
    page: &mut String,
    title: &str,
    options: &Options,
    views: &[View<'_, '_>],
    switches: &mut Switches,
) {
    let _ = write!(
        page,
        "<header class=\"hero\">\n{}\n<div class=\"inner\">\n<p class=\"brand\">Maxitive<span> report</span></p>\n",
        html::possibility_curves(),
    );
    let themes = [("auto", "Auto"), ("light", "Light"), ("dark", "Dark")]
        .map(|(id, name)| (id.to_owned(), name.to_owned()));
    switches.write(page, "theme", "Colors", &themes);
    let _ = writeln!(page, "<h1>{}</h1>", escape(title));
    if let Some(note) = &options.note {
        let _ = writeln!(page, "<p class=\"about\">{}</p>", escape(note));
    }
    if views.is_empty() {
        page.push_str("<p class=\"about\">No runs were given.</p>\n");
    }
    for view in views {
        let _ = writeln!(
            page,
            "<div class=\"group\" data-group=\"{}\"{}>",
            view.index,
            view.hidden()
        );
        if views.len() > 1 || options.title.is_some() {
            let _ = writeln!(
                page,
                "<p class=\"about\">{}</p>",
                escape(&facts::title(view.group))
            );
        }
        page.push_str("<dl class=\"facts\">\n");
        for (what, value) in facts::facts(view.group) {
            let _ = writeln!(
                page,
                "<div><dt>{what}</dt><dd>{}</dd></div>",
                escape(&value)
            );
        }
        page.push_str("</dl>\n</div>\n");
    }
    page.push_str("</div>\n</header>\n");
}

/// The side panel: what is shown, which methods, where to go.
fn panel(
    page: &mut String,
    views: &[View<'_, '_>],
    switches: &mut Switches,
    with_disagreements: bool,
) {
    page.push_str(
        "<aside class=\"side\" aria-label=\"View and methods\">\n<button type=\"button\" class=\"side-toggle\" aria-expanded=\"false\" \
         aria-controls=\"panel\">View and methods</button>\n<div id=\"panel\">\n",
    );
    if views.len() > 1 {
        let options: Vec<(String, String)> = views
            .iter()
            .map(|view| {
                let name = if view.group.experiment.is_empty() {
                    facts::title(view.group)
                } else {
                    view.group.experiment.to_owned()
                };
                (view.index.to_string(), name)
            })
            .collect();
        switches.write_column(page, "group", "Experiment", &options);
    }
    let checkpoints: BTreeSet<Checkpoint> = views
        .iter()
        .flat_map(|view| view.group.checkpoints.iter().copied())
        .collect();
    if checkpoints.len() > 1 {
        let options: Vec<(String, String)> = checkpoints
            .iter()
            .map(|&checkpoint| {
                let name = match checkpoint {
                    Checkpoint::Best => "Best validation",
                    Checkpoint::Final => "Final",
                };
                (checkpoint_id(checkpoint).to_owned(), name.to_owned())
            })
            .collect();
        switches.write(page, "checkpoint", "Weights", &options);
    }
    let paper = views.iter().any(View::has_paper);
    let reproduction = views.iter().any(View::has_reproduction);
    if paper || reproduction {
        let mut options = Vec::new();
        if paper {
            options.push(("paper".to_owned(), "Paper".to_owned()));
        }
        if reproduction {
            options.push(("reproduction".to_owned(), "Reproduction".to_owned()));
        }
        options.push(("nothing".to_owned(), "None".to_owned()));
        switches.write(page, "beside", "Beside our figures", &options);
    }
    for view in views.iter().filter(|view| view.group.rows.len() > 1) {
        let _ = write!(
            page,
            "<fieldset class=\"methods group\" data-group=\"{}\"{}>\n<legend>Methods</legend>\n<div class=\"all\">\
             <button type=\"button\" data-all=\"on\">All</button><button type=\"button\" data-all=\"off\">None</button></div>\n",
            view.index,
            view.hidden()
        );
        for (i, row) in view.group.rows.iter().enumerate() {
            let _ = writeln!(
                page,
                "<label><input type=\"checkbox\" data-method=\"{i}\" checked>{}<span>{}</span></label>",
                swatch(view.styles[i]),
                escape(row)
            );
        }
        page.push_str("</fieldset>\n");
    }
    for view in views {
        let _ = writeln!(
            page,
            "<nav class=\"group\" data-group=\"{}\" aria-label=\"Sections\"{}>\n<ul>",
            view.index,
            view.hidden()
        );
        for (id, title) in view.sections() {
            let _ = writeln!(page, "<li><a href=\"#{}\">{title}</a></li>", view.id(id));
        }
        if with_disagreements {
            page.push_str("<li><a href=\"#disagreements\">Paper, code and tables</a></li>\n");
        }
        page.push_str("</ul>\n</nav>\n");
    }
    page.push_str("</div>\n</aside>\n");
}

fn definitions(page: &mut String, metrics: &[Metric]) {
    definitions_of(page, &[("Test set", metrics)]);
}

fn definitions_of(page: &mut String, parts: &[(&str, &[Metric])]) {
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

fn disagreements(page: &mut String) {
    page.push_str(
        "<section id=\"disagreements\" class=\"card\" aria-labelledby=\"disagreements-title\">\n\
         <h2 id=\"disagreements-title\">Where paper, code and tables disagree</h2>\n\
         <p class=\"lead\">The paper's text is what is implemented. Its tables and the code its authors published do not always say the \
         same; these are the places known, and what is done here.</p>\n",
    );
    for chapter in &CHAPTERS {
        let _ = writeln!(
            page,
            "<h3>{}</h3>\n<div class=\"disagreements\">",
            chapter.title
        );
        for item in chapter.items {
            let _ = writeln!(
                page,
                "<article><h4>{}{}</h4>\n<p>{}</p>\n<p class=\"here\"><b>Here</b> {}</p></article>",
                escape(item.title),
                if item.inferred {
                    " <span class=\"tag\">inferred</span>"
                } else {
                    ""
                },
                code(item.text),
                code(item.here)
            );
        }
        page.push_str("</div>\n");
    }
    page.push_str("</section>\n");
}

fn footer(page: &mut String) {
    let _ = writeln!(
        page,
        "<footer><p>Written by Maxitive {}. The page holds everything it shows and loads nothing. Printed, it shows the view that is \
         chosen.</p></footer>",
        env!("CARGO_PKG_VERSION")
    );
}

/// `cpu, f32`.
fn device(run: &RunRecord) -> String {
    let parts = [run.device.as_str(), run.precision.as_str()];
    let known: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    known.join(", ")
}

/// Six significant digits, for a tooltip.
fn precise(value: f64) -> String {
    if value.is_infinite() {
        return three(value);
    }
    if value != 0.0 && value.abs() < 1e-3 {
        return format!("{value:.3e}");
    }
    format!("{value:.6}")
}

/// Three significant digits or so, for times and sizes.
fn rough(value: f64) -> String {
    let size = value.abs();
    if size >= 1000.0 {
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{sign}{}", thousands(size.round() as usize))
    } else if size >= 100.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 0.01 || size == 0.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.1e}")
    }
}

/// A rough number and its deviation to the same digit.
fn rough_with(mean: f64, deviation: Option<f64>) -> String {
    let shown = rough(mean);
    let Some(deviation) = deviation.filter(|&deviation| deviation > 0.0) else {
        return shown;
    };
    let decimals = shown
        .split_once('.')
        .map_or(0, |(_, decimals)| decimals.len());
    if shown.contains('e') {
        return format!(
            "{shown} <span class=\"deviation\">± {}</span>",
            rough(deviation)
        );
    }
    format!("{shown} <span class=\"deviation\">± {deviation:.decimals$}</span>")
}

impl<'a> Group<'a> {
    fn in_domain_tables(&self) -> impl Iterator<Item = Table<'a>> {
        self.checkpoints
            .iter()
            .map(|&checkpoint| self.in_domain(checkpoint))
    }

    /// Whether some cell of some table is so.
    fn all_cells(&self, is_so: impl Fn(&Cell) -> bool) -> bool {
        let out = self.checkpoints.iter().flat_map(|&checkpoint| {
            self.sets
                .iter()
                .map(move |set| self.out_of_domain(checkpoint, set))
        });
        self.in_domain_tables()
            .chain(out)
            .flat_map(|table| table.rows)
            .flat_map(|row| row.cells)
            .flatten()
            .any(|cell| is_so(&cell))
    }
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

    #[test]
    fn sizes_are_rough() {
        let cases = [
            (0.0, "0.00"),
            (0.000_12, "1.2e-4"),
            (1.234, "1.23"),
            (56.78, "56.8"),
            (567.8, "568"),
            (42_200.0, "42,200"),
        ];
        let pair = "1.23 <span class=\"deviation\">± 0.05</span>";
        assert_eq!(rough_with(1.234, Some(0.0456)), pair);
        assert_eq!(rough_with(42_200.0, Some(0.0)), "42,200");
        for (value, text) in cases {
            assert_eq!(rough(value), text);
        }
    }
}
