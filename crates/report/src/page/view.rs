//! A group of runs as the page shows it, section after section.

use std::fmt::Write as _;

use evaluation::record::Evaluation;

use super::html::{Switches, escape, swatch};
use super::{Interval, Options};
use crate::facts::flatten;
use crate::search::Search;
use crate::style::{self, Style};
use crate::summary::{Cell, Family, Group};
use crate::sweep::Sweep;

/// Groups of more rows are laid out and drawn part by part, when a part comes near the window:
/// thousands of plots take seconds, and few are looked at.
pub(super) const MANY: usize = 40;

/// A section of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Section {
    Short,
    Glance,
    Results,
    Classes,
    Calibration,
    Detection,
    Bounds,
    Training,
    Sweep,
    Cost,
    Settings,
}

impl Section {
    /// In the order of the page.
    const ALL: [Self; 11] = [
        Self::Short,
        Self::Glance,
        Self::Results,
        Self::Classes,
        Self::Calibration,
        Self::Detection,
        Self::Bounds,
        Self::Training,
        Self::Sweep,
        Self::Cost,
        Self::Settings,
    ];

    /// What the stylesheet and links call it.
    fn id(self) -> &'static str {
        match self {
            Self::Short => "short",
            Self::Glance => "glance",
            Self::Results => "results",
            Self::Classes => "classes",
            Self::Calibration => "calibration",
            Self::Detection => "detection",
            Self::Bounds => "bounds",
            Self::Training => "training",
            Self::Sweep => "sweep",
            Self::Cost => "cost",
            Self::Settings => "settings",
        }
    }

    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Short => "In short",
            Self::Glance => "At a glance",
            Self::Results => "Results",
            Self::Classes => "Classes",
            Self::Calibration => "Calibration",
            Self::Detection => "Out-of-domain",
            Self::Bounds => "What is possible",
            Self::Training => "Training",
            Self::Sweep => "Hyper-parameters",
            Self::Cost => "Time and memory",
            Self::Settings => "Settings",
        }
    }
}

/// A group and how it is shown.
pub(super) struct View<'g, 'a> {
    pub(super) index: usize,
    pub(super) group: &'g Group<'a>,
    pub(super) families: Vec<Family<'a>>,
    pub(super) styles: Vec<Style>,
    /// What the runs of a sweep differ in.
    pub(super) sweep: Option<Sweep<'a>>,
    pub(super) all_searches: &'g [Search],
    pub(super) intervals: &'g [Interval],
}

impl<'g, 'a> View<'g, 'a> {
    pub(super) fn new(index: usize, group: &'g Group<'a>, options: &'g Options) -> Self {
        Self {
            index,
            group,
            families: group.families(),
            styles: style::assign(&group.rows),
            sweep: Sweep::of(group),
            all_searches: &options.searches,
            intervals: &options.intervals,
        }
    }

    /// The id of a section's element.
    pub(super) fn id(&self, section: Section) -> String {
        format!("g{}-{}", self.index, section.id())
    }

    pub(super) fn hidden(&self) -> &'static str {
        if self.index == 0 { "" } else { " hidden" }
    }

    /// Whether the records tell of training; predictions from elsewhere have no epochs.
    pub(super) fn is_trained(&self) -> bool {
        let mut runs = self.group.runs.iter();
        runs.any(|run| run.timings.steps > 0 || !run.curves.is_empty())
    }

    /// Whether some row holds more than one run.
    pub(super) fn has_seeds(&self) -> bool {
        self.group.rows.iter().any(|row| {
            let mut checkpoints = self.group.checkpoints.iter();
            checkpoints.any(|&checkpoint| self.group.evaluations(row, checkpoint).count() > 1)
        })
    }

    /// Whether some cell has a figure of the paper beside it.
    pub(super) fn has_paper(&self) -> bool {
        self.any_cell(|cell| cell.paper.is_some())
    }

    /// Whether some cell has a figure of the reproduction beside it.
    pub(super) fn has_reproduction(&self) -> bool {
        self.any_cell(|cell| cell.reproduction.is_some())
    }

    /// Whether some cell of some table is so.
    fn any_cell(&self, is_so: impl Fn(&Cell) -> bool) -> bool {
        let group = self.group;
        let tables = group.checkpoints.iter().flat_map(|&checkpoint| {
            let sets = group.sets.iter();
            let others = sets.map(move |set| group.out_of_domain(checkpoint, set));
            std::iter::once(group.in_domain(checkpoint)).chain(others)
        });
        tables
            .flat_map(|table| table.rows)
            .flat_map(|row| row.cells)
            .flatten()
            .any(|cell| is_so(&cell))
    }

    pub(super) fn evaluations(&self) -> impl Iterator<Item = &'a Evaluation> {
        self.group.runs.iter().flat_map(|run| &run.evaluations)
    }

    /// Whether a section has something to show.
    fn has(&self, section: Section) -> bool {
        let runs = &self.group.runs;
        match section {
            Section::Short | Section::Results => !self.group.rows.is_empty(),
            Section::Glance => self.group.rows.len() > 1,
            Section::Classes => self
                .evaluations()
                .filter_map(|e| e.by_class.as_ref())
                .any(|by_class| !by_class.images.is_empty()),
            Section::Calibration => self
                .evaluations()
                .any(|e| e.reliability.bins.iter().any(|bin| bin.count > 0)),
            Section::Detection => self
                .evaluations()
                .flat_map(|e| &e.out_of_domain)
                .any(|out| {
                    let curves = &out.curves;
                    !curves.roc.is_empty()
                        || !curves.precision_recall_in.is_empty()
                        || !curves.precision_recall_out.is_empty()
                        || !curves.histogram.in_counts.is_empty()
                }),
            Section::Bounds => self.evaluations().any(|e| e.bounds.is_some()),
            Section::Training => runs.iter().any(|run| !run.curves.is_empty()),
            Section::Sweep => self.sweep.is_some() || self.searches().next().is_some(),
            Section::Cost => runs
                .iter()
                .any(|run| run.timings.train_s > 0.0 || run.timings.peak_memory_bytes.is_some()),
            Section::Settings => runs.iter().any(|run| !flatten(&run.config).is_empty()),
        }
    }

    /// The sections that have something to show.
    pub(super) fn sections(&self) -> impl Iterator<Item = Section> {
        Section::ALL
            .into_iter()
            .filter(|&section| self.has(section))
    }

    pub(super) fn write(&self, page: &mut String, switches: &mut Switches) {
        let _ = writeln!(
            page,
            "<div class=\"group{}\" data-group=\"{}\"{}>",
            if self.group.rows.len() > MANY {
                format!(" many\" style=\"--rows: {}", self.group.rows.len())
            } else {
                String::new()
            },
            self.index,
            self.hidden()
        );
        for section in self.sections() {
            let _ = writeln!(
                page,
                "<section id=\"{0}\" class=\"card {1}\" aria-labelledby=\"{0}-title\">\n\
                 <h2 id=\"{0}-title\">{2}</h2>",
                self.id(section),
                section.id(),
                section.title()
            );
            match section {
                Section::Short => self.short(page),
                Section::Glance => self.glance(page, switches),
                Section::Results => self.results(page, switches),
                Section::Classes => self.classes(page),
                Section::Calibration => self.calibration(page),
                Section::Detection => self.detection(page, switches),
                Section::Bounds => self.bounds(page, switches),
                Section::Training => self.training(page),
                Section::Sweep => self.sweep(page),
                Section::Cost => self.cost(page),
                Section::Settings => self.settings(page),
            }
            page.push_str("</section>\n");
        }
        page.push_str("</div>\n");
    }

    /// What the lines stand for, on paper, where the panel is not.
    pub(super) fn print_legend(&self, page: &mut String) {
        page.push_str("<ul class=\"print-legend\">");
        for (row, style) in self.group.rows.iter().zip(&self.styles) {
            let _ = write!(page, "<li>{}{}</li>", swatch(*style), escape(row));
        }
        page.push_str("</ul>\n");
    }

    /// Buttons that choose the out-of-domain set, or the name of the only one.
    pub(super) fn set_switch(&self, page: &mut String, switches: &mut Switches) {
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
}
