//! Results of runs for the terminal, the best marked as in the paper; and the report.

use std::io::{self, IsTerminal, Write};
use std::path::Path;

use evaluation::record::RunRecord;

use crate::plot::write_atomically;

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

/// Writes the HTML report.
///
/// # Errors
/// If the file cannot be written.
pub fn write_report(records: &[RunRecord], path: &Path) -> anyhow::Result<()> {
    let html = report::html(records, &report::Options::default());
    write_atomically(path, html.as_bytes())
}
