//! The tables as CSV, Markdown, LaTeX and plain text.

use std::fmt::Write as _;

use evaluation::record::{Checkpoint, RunRecord};
use evaluation::{Better, Metric};

use crate::facts::{self, published};
use crate::paper::Published;
use crate::summary::{
    CHANCE, Cell, Group, OutOfDomainSet, Table, checkpoint_id, checkpoint_name, groups, three,
};

/// A table with the place it belongs to.
struct Placed<'g, 'a> {
    group: &'g Group<'a>,
    checkpoint: Checkpoint,
    set: Option<&'g OutOfDomainSet<'a>>,
    /// Its columns are scores, not metrics of one score.
    of_scores: bool,
    table: Table<'a>,
}

impl Placed<'_, '_> {
    fn title(&self) -> String {
        let what = self.set.map_or("Test set", |set| &set.label);
        let scores = match (self.of_scores, self.set) {
            (false, _) => "",
            (true, None) => ": AUROC of right against wrong answers, by score",
            (true, Some(_)) => ": AUROC by score",
        };
        format!("{what}, {}{scores}", checkpoint_name(self.checkpoint))
    }
}

/// All tables that have a row.
fn placed<'g, 'a>(groups: &'g [Group<'a>]) -> Vec<Placed<'g, 'a>> {
    let mut all = Vec::new();
    for group in groups {
        for &checkpoint in &group.checkpoints {
            for of_scores in [false, true] {
                for set in std::iter::once(None).chain(group.sets.iter().map(Some)) {
                    let table = group.table_of(checkpoint, set, of_scores);
                    all.push(Placed {
                        group,
                        checkpoint,
                        set,
                        of_scores,
                        table,
                    });
                }
            }
        }
    }
    all.retain(|placed| !placed.table.rows.is_empty());
    all
}

/// One line per row, checkpoint, dataset and metric, with a header, in full precision: for
/// programs.
///
/// `paper` is what was printed and `paper_meant` what was meant where a slip is known. Infinite
/// values are `inf`; what does not exist is empty.
///
/// ```
/// let header = report::csv(&[]);
/// assert!(header.starts_with("experiment,dataset,network,checkpoint,row,out_of_domain,"));
/// ```
pub fn csv(records: &[RunRecord]) -> String {
    let mut text = String::from(
        "experiment,dataset,network,checkpoint,row,out_of_domain,normalization,score,metric,runs,mean,deviation,best,\
         paper,paper_deviation,paper_meant,paper_note,reproduction\n",
    );
    let groups = groups(records);
    for placed in placed(&groups) {
        let group = placed.group;
        for row in &placed.table.rows {
            for (metric, cell) in placed.table.metrics.iter().zip(&row.cells) {
                let Some(cell) = cell else { continue };
                let paper = |read: fn(&Published) -> Option<String>| {
                    cell.paper.as_ref().and_then(read).unwrap_or_default()
                };
                let fields = [
                    group.experiment.to_owned(),
                    group.dataset.to_owned(),
                    group.network.to_owned(),
                    checkpoint_id(placed.checkpoint).to_owned(),
                    row.name.to_owned(),
                    placed.set.map_or("", |set| set.dataset).to_owned(),
                    placed.set.map_or("", |set| set.normalization).to_owned(),
                    match placed.of_scores {
                        true => metric.id,
                        false => placed.set.map_or("", |set| set.score),
                    }
                    .to_owned(),
                    match placed.of_scores {
                        true => "auroc",
                        false => metric.id,
                    }
                    .to_owned(),
                    cell.values.len().to_string(),
                    cell.mean.to_string(),
                    cell.deviation.map(|d| d.to_string()).unwrap_or_default(),
                    cell.is_best.to_string(),
                    paper(|number| Some(number.value.to_string())),
                    paper(|number| Some(number.deviation?.to_string())),
                    paper(|number| Some(number.meant?.0.to_string())),
                    paper(|number| Some(number.note?.to_owned())),
                    cell.reproduction
                        .map(|number| number.value.to_string())
                        .unwrap_or_default(),
                ];
                let quoted: Vec<String> = fields.iter().map(|field| quote(field)).collect();
                text.push_str(&quoted.join(","));
                text.push('\n');
            }
        }
    }
    text
}

/// A field of CSV, quoted where it must be (RFC 4180).
fn quote(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// Tables in Markdown: best figures bold, the paper's beside ours, notes below.
///
/// ```
/// assert_eq!(report::markdown(&[]), "");
/// ```
pub fn markdown(records: &[RunRecord]) -> String {
    let groups = groups(records);
    let mut text = String::new();
    let mut last: Option<*const Group<'_>> = None;
    for placed in placed(&groups) {
        if last != Some(std::ptr::from_ref(placed.group)) {
            last = Some(std::ptr::from_ref(placed.group));
            if !text.is_empty() {
                text.push('\n');
            }
            let title = markdown_text(&facts::title(placed.group));
            let experiment = markdown_text(placed.group.experiment);
            let _ = writeln!(text, "## {title} ({experiment})\n");
            let _ = writeln!(text, "{RULE}");
        }
        let _ = writeln!(text, "\n### {}\n", markdown_text(&placed.title()));
        let table = &placed.table;
        let heads: Vec<String> = table.metrics.iter().map(|metric| head(metric)).collect();
        let _ = writeln!(text, "| Method | {} |", heads.join(" | "));
        let _ = writeln!(text, "|:--|{}", "--:|".repeat(heads.len()));
        let mut notes: Vec<(&str, Vec<String>)> = Vec::new();
        let mut note = |text: Option<&'static str>, what: String| {
            let Some(text) = text else { return };
            match notes.iter_mut().find(|(known, _)| *known == text) {
                Some((_, all)) => all.push(what),
                None => notes.push((text, vec![what])),
            }
        };
        for row in &table.rows {
            let name = markdown_text(row.name);
            note(row.note, name.clone());
            let cells: Vec<String> = row
                .cells
                .iter()
                .zip(&table.metrics)
                .map(|(cell, metric)| {
                    let Some(cell) = cell else {
                        return "–".to_owned();
                    };
                    let known = cell.paper.and_then(|number| number.note);
                    note(known, format!("{name} {}", metric.name));
                    markdown_cell(cell)
                })
                .collect();
            let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
        }
        // a note is about the paper's numbers, but for the one about ours
        let (ours, theirs): (Vec<_>, Vec<_>) =
            notes.into_iter().partition(|(note, _)| *note == CHANCE);
        for (about, notes) in [("On the paper's figures", theirs), ("On our rows", ours)] {
            if !notes.is_empty() {
                let _ = writeln!(text, "\n{about}:\n");
            }
            for (note, what) in notes {
                let note = note.trim_end_matches('.');
                let _ = writeln!(text, "- {}: {note}.", what.join(", "));
            }
        }
    }
    text
}

/// The rule of the bold figures.
pub(crate) const RULE: &str = "Mean ± sample deviation (n − 1) over the seeds. Bold: the best mean of the column and every mean no \
                               further from it than the deviation of the best row.";

fn head(metric: &Metric) -> String {
    format!("{} {}", metric.name, metric.better.arrow())
}

fn markdown_cell(cell: &Cell) -> String {
    let mut text = cell.text();
    if cell.is_best {
        text = format!("**{text}**");
    }
    if let Some(number) = &cell.paper {
        let _ = write!(text, " (paper {})", published(number));
    }
    text
}

pub(crate) fn markdown_text(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        if matches!(c, '|' | '*' | '_' | '`' | '\\' | '[' | ']' | '<' | '>') {
            escaped.push('\\');
        }
        escaped.push(if c.is_control() { ' ' } else { c });
    }
    escaped
}

/// Tables in LaTeX for the package `booktabs`, best figures bold, one `table` environment each.
///
/// ```
/// assert_eq!(report::latex(&[]), "% needs \\usepackage{booktabs}\n");
/// ```
pub fn latex(records: &[RunRecord]) -> String {
    let groups = groups(records);
    let mut text = String::from("% needs \\usepackage{booktabs}\n");
    for placed in placed(&groups) {
        let table = &placed.table;
        let title = latex_text(&format!(
            "{}: {}.",
            facts::title(placed.group),
            placed.title()
        ));
        let _ = write!(
            text,
            "\n\\begin{{table}}\n\\centering\n\\caption{{{title} Mean and sample deviation over the seeds; the best result and \
             all results within one deviation of it are bold.}}\n\\begin{{tabular}}{{l{}}}\n\\toprule\nMethod",
            "c".repeat(table.metrics.len())
        );
        for metric in &table.metrics {
            let arrow = match metric.better {
                Better::Higher => "\\uparrow",
                Better::Lower => "\\downarrow",
            };
            let _ = write!(text, " & {} ${arrow}$", latex_text(metric.name));
        }
        text.push_str(" \\\\\n\\midrule\n");
        for row in &table.rows {
            text.push_str(&latex_text(row.name));
            for cell in &row.cells {
                text.push_str(" & ");
                match cell {
                    Some(cell) => text.push_str(&latex_cell(cell)),
                    None => text.push_str("--"),
                }
            }
            text.push_str(" \\\\\n");
        }
        text.push_str("\\bottomrule\n\\end{tabular}\n\\end{table}\n");
    }
    text
}

fn latex_cell(cell: &Cell) -> String {
    let mean = three(cell.mean).replace('∞', "\\infty");
    let mean = if cell.is_best {
        format!("\\mathbf{{{mean}}}")
    } else {
        mean
    };
    match cell.deviation {
        Some(deviation) => format!("${mean}_{{\\pm {}}}$", three(deviation)),
        None => format!("${mean}$"),
    }
}

pub(crate) fn latex_text(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => {
                escaped.push('\\');
                escaped.push(c);
            }
            '~' => escaped.push_str("\\textasciitilde{}"),
            '^' => escaped.push_str("\\textasciicircum{}"),
            '\\' => escaped.push_str("\\textbackslash{}"),
            'ϑ' => escaped.push_str("$\\vartheta$"),
            'γ' => escaped.push_str("$\\gamma$"),
            'β' => escaped.push_str("$\\beta$"),
            '₃' => escaped.push_str("$_3$"),
            '→' => escaped.push_str("$\\to$"),
            '≤' => escaped.push_str("$\\leq$"),
            c if c.is_control() => escaped.push(' '),
            c => escaped.push(c),
        }
    }
    escaped
}

/// The text without what moves the cursor of a terminal or changes its colors.
fn without_control(text: &str) -> String {
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(plain).collect()
}

/// Tables as aligned text for a terminal. The best figures are bold if `bold` is set, else they
/// carry a star.
///
/// ```
/// assert_eq!(report::text(&[], false), "");
/// ```
pub fn text(records: &[RunRecord], bold: bool) -> String {
    let groups = groups(records);
    let mut text = String::new();
    for placed in placed(&groups) {
        if !text.is_empty() {
            text.push('\n');
        }
        let title = format!("{}: {}", facts::title(placed.group), placed.title());
        let _ = writeln!(text, "{}", without_control(&title));
        let table = &placed.table;
        let mut lines: Vec<Vec<(String, bool)>> = vec![
            std::iter::once("method".to_owned())
                // the place of a star
                .chain(table.metrics.iter().map(|metric| {
                    let star = if bold { "" } else { " " };
                    format!("{}{star}", head(metric))
                }))
                .map(|head| (head, false))
                .collect(),
        ];
        for row in &table.rows {
            let cells = row.cells.iter().map(|cell| match cell {
                Some(cell) if cell.is_best && !bold => (format!("{}*", cell.text()), true),
                // the star's place is kept, so that the digits stay in line
                Some(cell) if !bold => (format!("{} ", cell.text()), false),
                Some(cell) => (cell.text(), cell.is_best),
                None => ("–".to_owned(), false),
            });
            lines.push(
                std::iter::once((without_control(row.name), false))
                    .chain(cells)
                    .collect(),
            );
        }
        let widths: Vec<usize> = (0..=table.metrics.len())
            .map(|i| {
                let cells = lines.iter().map(|line| line[i].0.chars().count());
                cells.max().unwrap_or(0)
            })
            .collect();
        for line in &lines {
            let mut out = String::new();
            for (i, (cell, best)) in line.iter().enumerate() {
                let blanks = " ".repeat(widths[i] - cell.chars().count());
                let shown = if *best && bold {
                    format!("\u{1b}[1m{cell}\u{1b}[0m")
                } else {
                    cell.clone()
                };
                if i == 0 {
                    let _ = write!(out, "{shown}{blanks}");
                } else {
                    let _ = write!(out, "  {blanks}{shown}");
                }
            }
            text.push_str(out.trim_end());
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_csv_are_quoted_where_they_must_be() {
        assert_eq!(quote("plain"), "plain");
        assert_eq!(quote("a,\"b\""), "\"a,\"\"b\"\"\"");
        assert_eq!(quote("two\nlines"), "\"two\nlines\"");
    }

    #[test]
    fn markup_in_names_is_text() {
        assert_eq!(markdown_text("a|b_*c*\n"), "a\\|b\\_\\*c\\* ");
        assert_eq!(
            latex_text("50%_β₃ → {x}\\"),
            "50\\%\\_$\\beta$$_3$ $\\to$ \\{x\\}\\textbackslash{}"
        );
    }
}
