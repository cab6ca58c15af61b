//! Tables of the paper as Markdown.

use std::fmt::Write as _;

use super::latex::letter;
use super::sheet::{Block, Name, Sheet, Title, Value};
use super::{PaperTable, Reliability, TrainingCurves};
use crate::paper;
use crate::tables::markdown_text;

/// A heading, the legend, the table and the notes.
pub(super) fn table(sheet: &Sheet) -> String {
    let mut text = format!(
        "## {}\n\n{}\n\n|",
        markdown_text(&sheet.title),
        markdown_text(&sheet.legend)
    );
    for stub in &sheet.stubs {
        let _ = write!(text, " {} |", markdown_text(stub));
    }
    text.push_str(" |");
    for (head, better) in &sheet.heads {
        let arrow = better.map(|better| format!(" {}", better.arrow()));
        let _ = write!(
            text,
            " {}{} |",
            markdown_text(head),
            arrow.unwrap_or_default()
        );
    }
    let words = "|:--".repeat(sheet.stubs.len() + 1);
    let _ = writeln!(text, "\n{words}{}|", "|--:".repeat(sheet.heads.len()));
    for block in &sheet.blocks {
        rows(&mut text, block);
    }
    let marked = sheet.marked.iter().enumerate();
    let marked = marked.map(|(i, note)| format!("({}) {}.", letter(i), markdown_text(note)));
    let others = sheet.notes.iter().map(|note| markdown_text(note));
    let all: Vec<String> = marked.chain(others).collect();
    if !all.is_empty() {
        text.push('\n');
        for note in all {
            let _ = writeln!(text, "- {note}");
        }
    }
    text
}

fn rows(text: &mut String, block: &Block) {
    let mut title = block.title.as_ref().map(|title| match title {
        Title::Dataset(name) => (*name).to_owned(),
        Title::InAndOut(inside, outside) => format!("in: {inside}, out: {outside}"),
        Title::Trained(dataset, network) => format!("{dataset}, {network}"),
    });
    for row in &block.rows {
        let name = match &row.name {
            Name::Method(name) => markdown_text(name),
            // the row without its symbol, which is the head of the column
            Name::Value(value) => paper::ablation_row("", *value).replace(" = ", ""),
            Name::Plain(name) => markdown_text(name),
        };
        let mut name = format!("{name}{}", mark(row.mark));
        for (whose, cells) in &row.lines {
            text.push('|');
            if let Some(title) = &mut title {
                let _ = write!(text, " {} |", markdown_text(&std::mem::take(title)));
            }
            let _ = write!(text, " {} | {whose} |", std::mem::take(&mut name));
            for cell in cells {
                let cell = cell.as_ref().map_or("–".to_owned(), value);
                let _ = write!(text, " {cell} |");
            }
            text.push('\n');
        }
    }
}

fn value(cell: &Value) -> String {
    let mut text = match &cell.deviation {
        Some(deviation) => format!("{} ± {deviation}", cell.mean),
        None => cell.mean.clone(),
    };
    if cell.is_bold {
        text = format!("**{text}**");
    }
    text + &mark(cell.mark)
}

fn mark(mark: Option<usize>) -> String {
    let text = mark.map(|mark| format!(" ({})", letter(mark)));
    text.unwrap_or_default()
}

/// All tables, and the figures as links to `NAME.svg`.
pub fn document(
    tables: &[PaperTable],
    curves: &[TrainingCurves],
    diagrams: &[Reliability],
) -> String {
    let mut text = String::from("# The paper's tables and figures, ours and theirs\n");
    for table in tables {
        let _ = write!(text, "\n{}", table.markdown);
    }
    let curves = curves.iter().map(|figure| {
        let title = format!("{}: {}", figure.setting, figure.quantity);
        (title, &figure.name)
    });
    let diagrams = diagrams.iter().map(|figure| {
        let title = format!("{}: reliability of {}", figure.setting, figure.row);
        (title, &figure.name)
    });
    let figures: Vec<(String, &String)> = curves.chain(diagrams).collect();
    if !figures.is_empty() {
        text.push_str("\n## Figures\n\n");
        for (title, name) in figures {
            let title = markdown_text(&title);
            let _ = writeln!(text, "![{title}]({name}.svg)");
        }
    }
    text
}
