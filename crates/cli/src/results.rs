//! Results of runs for the terminal: a table per checkpoint, the best marked as in the paper; and the report.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use evaluation::record::{Checkpoint, RunRecord};
use report::summary::{self, Group, Table};

use crate::plot::write_atomically;

/// Columns of the short table: those of the paper's main table, with the Brier score and both forms of FPR@95.
const IN_DOMAIN: [&str; 4] = ["accuracy", "nll", "ece", "brier"];
const OUT_OF_DOMAIN: [&str; 3] = ["auroc", "fpr_at_95_tpr", "mean_fpr_below_95_tpr"];

/// Prints the tables of all experiments among the records to standard output.
///
/// # Errors
/// If standard output is closed.
pub fn print(records: &[RunRecord]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let bold = io::stdout().is_terminal();
    for group in summary::groups(records) {
        print_group(&group, bold, &mut out)?;
    }
    writeln!(
        out,
        "* best of the column, or within one deviation of the best; ± is the deviation over seeds.\n\
         FPR95 is the false positive rate at 95 % true positive rate; mean FPR is what the paper's column of that name holds."
    )
}

fn print_group(group: &Group<'_>, bold: bool, out: &mut impl Write) -> io::Result<()> {
    for &checkpoint in &group.checkpoints {
        let weights = match checkpoint {
            Checkpoint::Best => "weights of lowest validation loss",
            Checkpoint::Final => "weights after the last epoch",
        };
        let (experiment, network, dataset) = (group.experiment, group.network, group.dataset);
        writeln!(out, "{experiment}: {network} on {dataset}, {weights}")?;
        let mut columns: Vec<Column> = Vec::new();
        columns.extend(columns_of(
            group,
            &group.in_domain(checkpoint),
            &IN_DOMAIN,
            "",
        ));
        for set in &group.sets {
            let table = group.out_of_domain(checkpoint, set);
            columns.extend(columns_of(group, &table, &OUT_OF_DOMAIN, &set.label));
        }
        write_columns(group, &columns, bold, out)?;
        writeln!(out)?;
    }
    Ok(())
}

/// A column: two lines of heading, and per row of the group its text and whether it is marked.
struct Column {
    heading: [String; 2],
    cells: Vec<Option<(String, bool)>>,
}

fn columns_of(group: &Group<'_>, table: &Table<'_>, wanted: &[&str], above: &str) -> Vec<Column> {
    let mut columns = Vec::new();
    for id in wanted {
        let Some(place) = table.metrics.iter().position(|metric| metric.id == *id) else {
            continue;
        };
        let mut cells = vec![None; group.rows.len()];
        for row in &table.rows {
            if let Some(cell) = &row.cells[place] {
                cells[row.index] = Some((cell.text(), cell.is_best));
            }
        }
        let name = match *id {
            "fpr_at_95_tpr" => "FPR95".to_owned(),
            "mean_fpr_below_95_tpr" => "mean FPR".to_owned(),
            _ => table.metrics[place].label.to_owned(),
        };
        columns.push(Column {
            heading: [
                above.to_owned(),
                format!("{name} {}", table.metrics[place].arrow()),
            ],
            cells,
        });
    }
    columns
}

fn write_columns(
    group: &Group<'_>,
    columns: &[Column],
    bold: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let width = |text: &str| text.chars().count();
    let first = group
        .rows
        .iter()
        .map(|row| width(row))
        .max()
        .unwrap_or(0)
        .max(6);
    let widths: Vec<usize> = columns
        .iter()
        .map(|column| {
            let cells = column
                .cells
                .iter()
                .flatten()
                .map(|(text, _)| width(text) + 1);
            let headings = column.heading.iter().map(|text| width(text) + 1);
            cells.chain(headings).max().unwrap_or(0)
        })
        .collect();
    for line in 0..2 {
        if columns.iter().all(|column| column.heading[line].is_empty()) {
            continue;
        }
        write!(out, "{:first$}", "")?;
        for (column, &width) in columns.iter().zip(&widths) {
            write!(out, "  {:>width$}", format!("{} ", column.heading[line]))?;
        }
        writeln!(out)?;
    }
    for (number, row) in group.rows.iter().enumerate() {
        if columns.iter().all(|column| column.cells[number].is_none()) {
            continue;
        }
        write!(out, "{row:first$}")?;
        for (column, &width) in columns.iter().zip(&widths) {
            match &column.cells[number] {
                Some((text, true)) if bold => {
                    write!(out, "  \x1b[1m{:>width$}\x1b[0m", format!("{text}*"))?;
                }
                Some((text, true)) => write!(out, "  {:>width$}", format!("{text}*"))?,
                Some((text, false)) => write!(out, "  {:>width$}", format!("{text} "))?,
                None => write!(out, "  {:>width$}", "- ")?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Writes the HTML report.
///
/// # Errors
/// If the file cannot be written.
pub fn write_report(records: &[RunRecord], path: &Path) -> anyhow::Result<()> {
    let html = report::html(records, &report::Options::default());
    write_atomically(path, html.as_bytes())
}
