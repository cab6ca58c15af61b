//! A color and a line style for every row, the same in every report for the rows of the paper.
//!
//! Ten colors that stay apart for color-blind readers (after Okabe and Ito, darkened for light
//! and lightened for dark backgrounds) and four dash patterns give 40 styles; no two rows of a
//! group share one before all are used.

/// Number of colors; the style sheet defines `--c0` to `--c9`.
const COLORS: usize = 10;

/// Dash patterns of lines: solid, dashed, dotted, dash-dot.
pub(crate) const DASHES: [&str; 4] = ["", "7 4", "1.5 4", "9 4 1.5 4"];

/// How a row is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    /// 0 to 9.
    pub color: usize,
    /// Place in [`DASHES`].
    pub dash: usize,
}

/// The styles of the rows of a group.
pub(crate) fn assign(rows: &[&str]) -> Vec<Style> {
    let mut styles: Vec<Option<Style>> = rows.iter().map(|row| known(row)).collect();
    // a row that shares its style with an earlier one is treated as unknown
    for i in 1..styles.len() {
        if styles[..i].contains(&styles[i]) {
            styles[i] = None;
        }
    }
    let mut cycle = (0..).map(|i| Style {
        color: i % COLORS,
        dash: (i + i / COLORS) % DASHES.len(),
    });
    (0..styles.len())
        .map(|i| {
            if styles[i].is_none() {
                let all = COLORS * DASHES.len();
                let free = cycle
                    .by_ref()
                    .take(all)
                    .find(|style| !styles.contains(&Some(*style)));
                styles[i] = free.or_else(|| cycle.next());
            }
            styles[i].unwrap_or(Style { color: 0, dash: 0 })
        })
        .collect()
}

fn known(row: &str) -> Option<Style> {
    let base = row.strip_suffix(" + MC-D").unwrap_or(row);
    let (color, dash) = match base {
        "uCBOpt" => (0, 0),
        "lCBOpt-adapt" => (1, 0),
        "uCBOpt-adapt" => (2, 0),
        "uCBOpt (ϑ→0)" => (5, 1),
        _ if base.starts_with("uCBOpt (ϑ = ") => (0, 0),
        "IVON" => (3, 3),
        "IVON@mean" => (3, 2),
        "MC-D" => (4, 1),
        "SWAG" => (4, 2),
        "SGD" => (6, 1),
        "Laplace" => (6, 3),
        "AdamW" => (7, 2),
        _ => return None,
    };
    Some(Style { color, dash })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_are_distinct() {
        let all = crate::paper::ROWS;
        let many: Vec<String> = (0..20).map(|i| format!("row {i}")).collect();
        let mut rows: Vec<&str> = all.to_vec();
        rows.extend(many.iter().map(String::as_str));
        for rows in [&rows[..], &all[..], &rows[11..]] {
            let styles = assign(rows);
            assert_eq!(styles.len(), rows.len());
            for (i, style) in styles.iter().enumerate() {
                assert!(!styles[..i].contains(style), "{} {style:?}", rows[i]);
                assert!(style.color < COLORS && style.dash < DASHES.len());
            }
        }
        // more rows than styles is no failure
        let more: Vec<&str> = std::iter::repeat_n("x", 100).collect();
        assert_eq!(assign(&more).len(), 100);
    }
}
