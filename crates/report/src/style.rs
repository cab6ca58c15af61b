//! A color and a line style for every row, the same in every report for the rows of the paper.
//!
//! Ten colors that stay apart for color-blind readers (after Okabe and Ito, darkened for light
//! and lightened for dark backgrounds) and four dash patterns give 40 styles; no two rows of a
//! group share one before all are used.

/// The colors on a light background, red, green and blue; the style sheet defines them as `--c0` to
/// `--c9`.
pub(crate) const LIGHT: [(u8, u8, u8); 10] = [
    (0x00, 0x68, 0xac),
    (0xc5, 0x4a, 0x00),
    (0x00, 0x80, 0x5a),
    (0xad, 0x3f, 0x86),
    (0x94, 0x63, 0x00),
    (0x1f, 0x86, 0xbd),
    (0x33, 0x37, 0x3f),
    (0x75, 0x7a, 0x84),
    (0x6b, 0x4f, 0xc8),
    (0xb0, 0x24, 0x3f),
];
const COLORS: usize = LIGHT.len();

/// Dash patterns of lines, lengths drawn and left out by turns: solid, dashed, dotted, dash-dot.
pub(crate) const PATTERNS: [&[f64]; 4] = [&[], &[7.0, 4.0], &[1.5, 4.0], &[9.0, 4.0, 1.5, 4.0]];

/// The patterns as an SVG has them.
pub(crate) fn dashes() -> [String; 4] {
    let text = |pattern: &[f64]| {
        let lengths: Vec<String> = pattern.iter().map(f64::to_string).collect();
        lengths.join(" ")
    };
    PATTERNS.map(text)
}

/// How a row is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Style {
    /// 0 to 9.
    pub color: usize,
    /// Place in [`PATTERNS`].
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
        dash: (i + i / COLORS) % PATTERNS.len(),
    });
    (0..styles.len())
        .map(|i| {
            if styles[i].is_none() {
                let all = COLORS * PATTERNS.len();
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
        "SWAG" => (8, 2),
        "SGD" => (6, 1),
        "Laplace" => (9, 3),
        "AdamW" => (7, 2),
        _ => return None,
    };
    Some(Style { color, dash })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_style_sheet_has_the_same_colors() {
        let sheet = include_str!("../assets/page.css");
        for (i, (red, green, blue)) in LIGHT.into_iter().enumerate() {
            let color = format!("--c{i}: #{red:02x}{green:02x}{blue:02x};");
            assert_eq!(sheet.matches(&color).count(), 2, "{color}"); // screen and print
        }
        assert_eq!(dashes(), ["", "7 4", "1.5 4", "9 4 1.5 4"]);
    }

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
                assert!(style.color < COLORS && style.dash < PATTERNS.len());
            }
        }
        // ten colors for the ten methods of the paper, of which IVON has two rows
        let styles = assign(&all);
        for (i, style) in styles.iter().enumerate() {
            let alike = |j: &usize| styles[*j].color == style.color;
            let alike: Vec<&str> = (0..i).filter(alike).map(|j| all[j]).collect();
            let expected: &[&str] = match all[i] {
                "IVON" => &["IVON@mean"],
                _ => &[],
            };
            assert_eq!(alike, expected, "{}", all[i]);
        }
        // more rows than styles is no failure
        let more: Vec<&str> = std::iter::repeat_n("x", 100).collect();
        assert_eq!(assign(&more).len(), 100);
    }
}
