//! Results of runs for the terminal, the best marked as in the paper; and the report.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use evaluation::record::RunRecord;

use crate::files::write_atomically;
use crate::text::TextTable;

/// Prints the tables of all experiments among the records to standard output.
///
/// # Errors
/// If standard output is closed.
pub fn print(records: &[RunRecord]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let bold = out.is_terminal();
    write!(out, "{}", report::text(records, bold))?;
    let mark = if bold { "bold" } else { "*" };
    writeln!(
        out,
        "\n{mark}: best of the column, or within one deviation of the best; ±: deviation over seeds"
    )
}

/// Writes the HTML report, with a paragraph under its title.
///
/// # Errors
/// If the file cannot be written.
pub fn write_report(records: &[RunRecord], note: Option<&str>, path: &Path) -> anyhow::Result<()> {
    let options = report::Options {
        note: note.map(str::to_owned),
        ..report::Options::default()
    };
    let html = report::html(records, &options);
    write_atomically(path, html.as_bytes())
}

/// Time and memory of the experiment `runtime`, beside the paper's seconds; empty for others.
pub fn runtime(records: &[RunRecord]) -> String {
    let runs: Vec<&RunRecord> = records
        .iter()
        .filter(|record| record.experiment == "runtime")
        .collect();
    if runs.is_empty() {
        return String::new();
    }
    let mut table = TextTable::new([
        "runtime",
        "rule",
        "s per epoch",
        "peak MiB",
        "GPU MiB",
        "paper, s per epoch",
        "paper, GPU MiB",
    ]);
    for run in runs {
        let memory = run.timings.peak_memory_bytes;
        let device = run.timings.peak_device_bytes;
        let paper = report::paper::runtime(&run.experiment, &run.dataset, &run.rule);
        table.row([
            run.network.clone(),
            run.rule.clone(),
            run.seconds_per_epoch()
                .map_or("-".into(), |seconds| format!("{seconds:.2}")),
            memory.map_or("-".into(), |bytes| (bytes >> 20).to_string()),
            device.map_or("-".into(), |bytes| (bytes >> 20).to_string()),
            paper.map_or("-".into(), |(seconds, ..)| format!("{seconds:.2}")),
            paper.map_or("-".into(), |(_, gib, _)| format!("{:.0}", gib * 1024.0)),
        ]);
    }
    format!("\n{}", table.render())
}

/// Distance in standard errors up to which two means count as the same.
const STANDARD_ERRORS: f64 = 2.0;

/// How the records compare with the paper's numbers, in a few lines; empty where there is nothing
/// to compare.
pub fn comparison(records: &[RunRecord]) -> String {
    let (mut near, mut far) = (0, Vec::new());
    for group in report::summary::groups(records) {
        for &checkpoint in &group.checkpoints {
            let mut tables = vec![group.in_domain(checkpoint)];
            tables.extend(
                group
                    .sets
                    .iter()
                    .map(|set| group.out_of_domain(checkpoint, set)),
            );
            for table in tables {
                for row in &table.rows {
                    for (metric, cell) in table.metrics.iter().zip(&row.cells) {
                        let Some(cell) = cell else { continue };
                        let Some(paper) = &cell.paper else { continue };
                        let errors =
                            paper.standard_errors(cell.mean, cell.deviation, cell.values.len());
                        match errors {
                            Some(errors) if errors <= STANDARD_ERRORS => near += 1,
                            Some(errors) => far.push(format!(
                                "  {}, {checkpoint:?}, {}: {}, paper {:.3}, {errors:.1} standard errors apart",
                                row.name,
                                metric.name,
                                cell.text(),
                                paper.mean(),
                            )),
                            None => {}
                        }
                    }
                }
            }
        }
    }
    let all = near + far.len();
    if all == 0 {
        return String::new();
    }
    let mut text = format!(
        "{near} of {all} values lie within {STANDARD_ERRORS} standard errors (ours and the paper's together) of the paper's\n"
    );
    for line in far {
        text.push_str(&line);
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    #[test]
    fn built_in_datasets_and_networks_have_names() {
        let named = |names: &[(&'static str, &'static str)]| -> BTreeSet<&str> {
            names.iter().map(|(id, _)| *id).collect()
        };
        let datasets: BTreeSet<&str> = datasets::manifest::names().collect();
        assert_eq!(named(&report::names::DATASETS), datasets);
        let networks = engine::zoo::NAMES.into_iter();
        let networks: BTreeSet<&str> = networks.filter(|id| !id.ends_with("-dropout")).collect();
        assert_eq!(named(&report::names::NETWORKS), networks);
    }
}
