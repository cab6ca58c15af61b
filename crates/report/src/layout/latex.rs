//! Tables of the paper as LaTeX, in its own style.

use std::fmt::Write as _;

use evaluation::Better;

use super::sheet::{Block, Line, Name, Sheet, Title, Value};
use super::{PaperTable, Reliability, TrainingCurves};
use crate::tables::latex_text;

/// One `table*` environment.
pub(super) fn table(sheet: &Sheet) -> String {
    let stubs = sheet.stubs.len() + 1;
    let columns = stubs + sheet.heads.len();
    let mut text = format!(
        "\\begin{{table*}}[h!]\n\\caption{{{}. {}}}\n\\label{{{}}}\n\\centering\n\
         \\setlength{{\\tabcolsep}}{{3pt}}\n\\resizebox{{\\linewidth}}{{!}}{{%\n\
         \\begin{{tabular}}{{{}{}}}\n\\toprule\n",
        method(&sheet.title),
        latex_text(&sheet.legend),
        sheet.label,
        "l".repeat(stubs),
        "c".repeat(sheet.heads.len()),
    );
    if !sheet.spans.is_empty() {
        text.push_str(&"& ".repeat(stubs - 1));
        let mut rules = String::new();
        let mut from = stubs + 1;
        for (title, width) in &sheet.spans {
            let _ = write!(text, "& \\multicolumn{{{width}}}{{c}}{{{title}}} ");
            let _ = write!(rules, "\\cmidrule(lr){{{from}-{}}} ", from + width - 1);
            from += width;
        }
        let _ = writeln!(text, "\\\\\n{}", rules.trim_end());
    }
    let stubs = sheet.stubs.iter().map(|stub| latex_text(stub));
    text.push_str(&stubs.collect::<Vec<_>>().join(" & "));
    text.push_str(" &");
    for (head, better) in &sheet.heads {
        let arrow = match better {
            Some(Better::Higher) => " $\\uparrow$",
            Some(Better::Lower) => " $\\downarrow$",
            None => "",
        };
        let _ = write!(text, " & {}{arrow}", method(head));
    }
    text.push_str(" \\\\\n\\midrule\n");
    for (i, block) in sheet.blocks.iter().enumerate() {
        if i > 0 {
            let _ = writeln!(text, "\\cmidrule{{1-{columns}}}");
        }
        rows(&mut text, block);
    }
    text.push_str("\\bottomrule\n\\end{tabular}}\n\\end{table*}\n");
    notes(&mut text, sheet);
    text
}

fn rows(text: &mut String, block: &Block) {
    let height: usize = block.rows.iter().map(|row| row.lines.len()).sum();
    if let Some(title) = &block.title {
        let title = match title {
            Title::Dataset(name) => latex_text(name),
            Title::InAndOut(inside, outside) => format!(
                "\\makecell[l]{{\\textbf{{In:}} {} \\\\ \\textbf{{Out:}} {}}}",
                latex_text(inside),
                latex_text(outside)
            ),
            Title::Trained(dataset, network) => format!(
                "\\makecell[l]{{{} \\\\ {}}}",
                latex_text(dataset),
                latex_text(network)
            ),
        };
        let _ = writeln!(text, "\\multirow{{{height}}}{{*}}{{{title}}}");
    }
    for row in &block.rows {
        line(text, row, block.title.is_some());
    }
}

fn line(text: &mut String, row: &Line, is_in_block: bool) {
    for (i, (whose, cells)) in row.lines.iter().enumerate() {
        match (row.is_gray, is_in_block) {
            (true, true) => text.push_str("\\rowcolor{gray!10} \\cellcolor{white}"),
            (true, false) => text.push_str("\\rowcolor{gray!10} "),
            (false, _) => {}
        }
        if is_in_block {
            text.push_str("& ");
        }
        if i == 0 {
            let name = match &row.name {
                Name::Method(name) => method(name),
                Name::Value(value) => format!("${}$", power(*value)),
                Name::Plain(name) => latex_text(name),
            };
            let _ = write!(text, "{name}{}", mark(row.mark));
        }
        let _ = write!(text, " & {whose}");
        for cell in cells {
            match cell {
                Some(cell) => {
                    let _ = write!(text, " & {}", value(cell));
                }
                None => text.push_str(" & --"),
            }
        }
        text.push_str(" \\\\\n");
    }
}

fn value(cell: &Value) -> String {
    let mean = cell.mean.replace('∞', "\\infty");
    let mean = match cell.is_bold {
        true => format!("\\bm{{{mean}}}"),
        false => mean,
    };
    let deviation = cell.deviation.as_ref();
    let deviation = deviation.map(|deviation| format!("_{{\\pm {deviation}}}"));
    let mark = cell.mark.map(|mark| format!("^{{{}}}", letter(mark)));
    format!(
        "${mean}{}{}$",
        deviation.unwrap_or_default(),
        mark.unwrap_or_default()
    )
}

fn mark(mark: Option<usize>) -> String {
    let text = mark.map(|mark| format!("$^{{{}}}$", letter(mark)));
    text.unwrap_or_default()
}

/// `a`, `b`, …, `z`, `27`.
pub(super) fn letter(number: usize) -> String {
    match u8::try_from(number) {
        Ok(number) if number < 26 => char::from(b'a' + number).to_string(),
        _ => (number + 1).to_string(),
    }
}

/// Names of the CBOpt family are set as code, and a ϑ in brackets as a formula.
fn method(name: &str) -> String {
    let words = name.split(' ');
    let set = |word: &str| match word {
        "uCBOpt" | "uCBOpt-adapt" | "lCBOpt-adapt" | "CBOpt" => format!("\\texttt{{{word}}}"),
        _ => latex_text(word),
    };
    if let Some((front, rest)) = name.split_once(" (ϑ")
        && let Some((inner, after)) = rest.split_once(')')
    {
        let inner = match inner.trim_start_matches([' ', '=']).parse::<f64>() {
            Ok(value) => format!("={}", power(value)),
            Err(_) if inner == "→0" => "\\to0^{+}".to_owned(),
            Err(_) => latex_text(inner),
        };
        let after = latex_text(after);
        return format!("{} $(\\vartheta{inner})${after}", method(front));
    }
    words.map(set).collect::<Vec<_>>().join(" ")
}

/// `8 \cdot 10^{-6}`, `0^{+}` for 0, `1.001`.
fn power(value: f64) -> String {
    if value == 0.0 {
        return "0^{+}".to_owned();
    }
    if value.abs() >= 1e-3 {
        return value.to_string();
    }
    let text = format!("{value:e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => format!("{mantissa} \\cdot 10^{{{exponent}}}"),
        None => text,
    }
}

/// The notes follow the table instead of being a part of it: it may fill a page.
fn notes(text: &mut String, sheet: &Sheet) {
    let marked = sheet.marked.iter().enumerate();
    let marked = marked.map(|(i, note)| format!("$^{{{}}}$ {}.", letter(i), latex_text(note)));
    let others = sheet.notes.iter().map(|note| latex_text(note));
    let all: Vec<String> = marked.chain(others).collect();
    if !all.is_empty() {
        let _ = writeln!(
            text,
            "{{\\scriptsize\\noindent\n{}\\par}}",
            all.join("\\par\\noindent\n")
        );
    }
}

/// A document of all tables (`NAME.tex` beside it) and figures (`NAME.pdf`), ready to be compiled.
pub fn document(
    tables: &[PaperTable],
    curves: &[TrainingCurves],
    diagrams: &[Reliability],
) -> String {
    let mut text = String::from(
        "% compile in this folder: pdflatex all.tex\n\
         \\documentclass{article}\n\\usepackage[utf8]{inputenc}\n\
         \\usepackage[margin=2cm]{geometry}\n\\usepackage{amsmath,bm,booktabs,graphicx,makecell,multirow}\n\
         \\usepackage{subcaption}\n\\usepackage[table]{xcolor}\n\\begin{document}\n",
    );
    for table in tables {
        let _ = writeln!(text, "\\input{{{}}}\n\\clearpage", table.name);
    }
    let mut settings: Vec<&str> = curves
        .iter()
        .map(|figure| figure.setting.as_str())
        .collect();
    settings.dedup();
    for setting in settings {
        text.push_str("\\begin{figure*}\n\\centering\n");
        for figure in curves.iter().filter(|figure| figure.setting == setting) {
            subfigure(&mut text, 0.48, &figure.name, figure.quantity);
        }
        let _ = writeln!(
            text,
            "\\caption{{Training and validation loss and accuracy curves for all methods on {}.}}\n\\end{{figure*}}",
            latex_text(setting)
        );
    }
    if !diagrams.is_empty() {
        text.push_str("\\begin{figure*}\n\\centering\n");
        for figure in diagrams {
            let caption = format!("{}: {}", latex_text(&figure.setting), method(&figure.row));
            subfigure(&mut text, 0.32, &figure.name, &caption);
        }
        text.push_str(
            "\\caption{Reliability diagrams for the \\texttt{CBOpt} family.}\n\\end{figure*}\n",
        );
    }
    text.push_str("\\end{document}\n");
    text
}

fn subfigure(text: &mut String, width: f64, file: &str, caption: &str) {
    let _ = writeln!(
        text,
        "\\begin{{subfigure}}{{{width}\\linewidth}}\n    \\includegraphics[width=\\linewidth]{{{file}.pdf}}\n    \
         \\caption{{{caption}}}\n\\end{{subfigure}}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_and_values_are_set_as_in_the_paper() {
        assert_eq!(method("IVON@mean"), "IVON@mean");
        assert_eq!(method("uCBOpt-adapt"), "\\texttt{uCBOpt-adapt}");
        assert_eq!(
            method("uCBOpt (ϑ→0) + MC-D"),
            "\\texttt{uCBOpt} $(\\vartheta\\to0^{+})$ + MC-D"
        );
        assert_eq!(
            method("uCBOpt (ϑ = 5e-5)"),
            "\\texttt{uCBOpt} $(\\vartheta=5 \\cdot 10^{-5})$"
        );
        assert_eq!(method("50%_{x} & more"), "50\\%\\_\\{x\\} \\& more");
        assert_eq!(power(0.0), "0^{+}");
        assert_eq!(power(8e-7), "8 \\cdot 10^{-7}");
        assert_eq!(power(1.001), "1.001");
        assert_eq!(
            (letter(0), letter(25), letter(26)),
            ("a".into(), "z".into(), "27".into())
        );
    }
}
