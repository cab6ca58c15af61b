//! Comments and Markdown keep the width of the code, 100 columns: rustfmt leaves both alone.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Columns of the widest line.
pub const LIMIT: usize = 100;

/// The comments and lines of Markdown that are too wide, as `file:line: columns`.
///
/// # Errors
/// Git does not list the files, or one cannot be read.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .args(["--", "*.rs", "*.md"])
        .current_dir(root)
        .output()
        .context("git does not run")?;
    if !listed.status.success() {
        bail!("git does not list the files: not a checkout?");
    }
    let mut found = Vec::new();
    for name in String::from_utf8(listed.stdout)?.lines() {
        let path = root.join(name);
        // made by programs
        let is_table = name.starts_with("results/paper/") && !name.ends_with("/README.md");
        let is_made = is_table || name.ends_with("/results.md") || name.ends_with("/tables.md");
        // the second: deleted, but still in the index
        if is_made || !path.exists() {
            continue;
        }
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {name}"))?;
        let wide = if name.ends_with(".rs") {
            wide_comments(&text)
        } else {
            wide_markdown(&text)
        };
        found.extend(
            wide.into_iter()
                .map(|(line, columns)| format!("{name}:{line}: {columns} columns")),
        );
    }
    Ok(found)
}

fn columns(line: &str) -> usize {
    line.chars().count()
}

/// Whether a line of prose cannot be broken: a table, or a single word such as a link.
fn is_one_piece(prose: &str) -> bool {
    let prose = prose.trim();
    prose.starts_with('|') || !prose.contains(' ') || prose.contains("](") || prose.contains("://")
}

/// Comments wider than the limit, with line number and width. Code in doc comments is excepted.
fn wide_comments(text: &str) -> Vec<(usize, usize)> {
    let mut is_code = false;
    let mut wide = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_code = false;
            continue;
        };
        let prose = comment.trim_start_matches(['/', '!']);
        if prose.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if columns(line) > LIMIT && !is_code && !is_one_piece(prose) {
            wide.push((number, columns(line)));
        }
    }
    wide
}

/// Lines of Markdown wider than the limit; tables, links and code are excepted.
fn wide_markdown(text: &str) -> Vec<(usize, usize)> {
    let mut is_code = false;
    let mut wide = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if columns(line) > LIMIT && !is_code && !is_one_piece(line) {
            wide.push((number, columns(line)));
        }
    }
    wide
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_measured_in_characters_and_code_is_not_measured() {
        let long = "word ".repeat(25);
        let text = format!("// {long}\nlet x = \"{long}\";\n/// ```\n/// {long}\n/// ```\n");
        assert_eq!(wide_comments(&text), [(1, 128)]);
        let text = format!(
            "{long}\n\n```sh\n{long}\n```\n| {long} |\nθ {}\n",
            "θ ".repeat(49)
        );
        assert_eq!(wide_markdown(&text), [(1, 125)]);
    }
}
