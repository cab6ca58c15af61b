//! The paper's tables and figures as files of one folder.

use std::path::Path;

use anyhow::bail;
use evaluation::record::RunRecord;
use report::layout;

use crate::figures::paper;
use crate::files::{create_folder, write_atomically};
use crate::user_error::UserError;

/// Names and contents of the files.
pub type Files = Vec<(String, Vec<u8>)>;

/// Makes all files: every table as `.tex` and `.md`, every figure as `.svg` and `.pdf`, and all of
/// them together as `all.tex` and `all.md`.
///
/// # Errors
/// The records hold no number of the paper's tables, or a figure cannot be drawn.
pub fn draw(records: &[RunRecord]) -> anyhow::Result<Files> {
    let tables = layout::tables(records);
    if tables.is_empty() {
        bail!(UserError::new(
            "--paper-layout: no record belongs to a table of the paper; records of `maxitive reproduce` do"
        ));
    }
    let curves = layout::training_curves(records);
    let diagrams = layout::reliability(records);
    let mut files: Files = vec![
        (
            "all.tex".to_owned(),
            layout::latex_document(&tables, &curves, &diagrams).into_bytes(),
        ),
        (
            "all.md".to_owned(),
            layout::markdown_document(&tables, &curves, &diagrams).into_bytes(),
        ),
    ];
    for table in tables {
        files.push((format!("{}.tex", table.name), table.latex.into_bytes()));
        files.push((format!("{}.md", table.name), table.markdown.into_bytes()));
    }
    let curves = curves.iter().map(|data| (&data.name, paper::curves(data)));
    let diagrams = diagrams
        .iter()
        .map(|data| (&data.name, paper::reliability(data)));
    for (name, figure) in curves.chain(diagrams) {
        files.push((format!("{name}.svg"), figure.to_svg()?.into_bytes()));
        files.push((format!("{name}.pdf"), figure.to_pdf()?));
    }
    Ok(files)
}

/// Writes the files into a folder, which is created if need be.
///
/// # Errors
/// The folder or a file cannot be written.
pub fn write(files: &Files, folder: &Path) -> anyhow::Result<()> {
    create_folder(folder)?;
    for (name, bytes) in files {
        write_atomically(&folder.join(name), bytes)?;
    }
    Ok(())
}
