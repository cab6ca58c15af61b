//! The paper's own tables and figures, filled with what the records hold.
//!
//! Tables have the paper's blocks, rows and columns, our line above the paper's for every row; a
//! table is made where the records hold at least one of its numbers. What the records lack is a
//! dash, and is named below the table. The paper's numbers are those it prints, slips included;
//! what is known about them stands in the notes. Figures come as data: what draws them is not here.

mod figures;
mod latex;
mod markdown;
mod sheet;

pub use figures::{Curve, Reliability, TrainingCurves, reliability, training_curves};
pub use latex::document as latex_document;
pub use markdown::document as markdown_document;

use evaluation::record::RunRecord;

use crate::summary::groups;

/// A table of the paper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PaperTable {
    /// Name of its files: `main`, `in-domain-best`, `runtime`.
    pub name: &'static str,
    /// One `table*` environment; [`latex_document`] says which packages it needs.
    pub latex: String,
    /// The same as Markdown, from its heading on.
    pub markdown: String,
}

/// The tables of the paper of which the records hold at least one number, in the paper's order.
///
/// ```
/// assert!(report::layout::tables(&[]).is_empty());
/// ```
pub fn tables(records: &[RunRecord]) -> Vec<PaperTable> {
    let groups = groups(records);
    let sheets = sheet::sheets(&groups).into_iter();
    sheets
        .map(|sheet| PaperTable {
            name: sheet.name,
            latex: latex::table(&sheet),
            markdown: markdown::table(&sheet),
        })
        .collect()
}
