//! Numbers and names as people are shown them, on pictures and in tables.

use std::borrow::Cow;

/// A number to six significant digits, trailing zeros dropped.
pub fn significant(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        // no sign on a zero
        return if value == 0.0 {
            "0".to_owned()
        } else {
            value.to_string()
        };
    }
    let scientific = format!("{value:.5e}");
    let (mantissa, exponent) = scientific
        .split_once('e')
        .expect("the scientific format has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is an integer");
    let trim = |text: &str| -> String {
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text.to_owned()
        }
    };
    if (-5..6).contains(&exponent) {
        let decimals = usize::try_from(5 - exponent).unwrap_or(0);
        trim(&format!("{value:.decimals$}"))
    } else {
        format!("{}e{exponent}", trim(mantissa))
    }
}

/// What lies below this share of a parameter's scale is rounding.
const NOISE: f64 = 1e-9;

/// A parameter to six significant digits; 0 where it is rounding beside `scale`, how far the
/// parameter may lie from its mode (one over the square root of its precision).
pub fn significant_on(value: f64, scale: Option<f64>) -> String {
    match scale {
        Some(scale) if scale.is_finite() && value.abs() < NOISE * scale => significant(0.0),
        _ => significant(value),
    }
}

/// Whether a character acts on a terminal instead of being shown: it moves the cursor, changes
/// colors, ends a line, or turns the direction in which text is shown.
fn acts(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}'
                | '\u{200e}'
                | '\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2066}'..='\u{2069}'
        )
}

/// The text with every character written out that is not shown but acts, so that data cannot move
/// the cursor of a terminal, change its colors or show its own letters in another order.
pub fn printable(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

/// The same for text of several lines.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| c == '\n')
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_bad = |c: char| acts(c) && !keep(c);
    if !text.contains(is_bad) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if is_bad(c) {
            clean.extend(c.escape_default());
        } else {
            clean.push(c);
        }
    }
    Cow::Owned(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_significant_digits() {
        let cases = [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1"),
            (0.1 + 0.2, "0.3"),
            (-1234.5678, "-1234.57"),
            (999_999.5, "1e6"),
            (123_456.7, "123457"),
            (0.000_012_345_678, "0.0000123457"),
            (0.000_123_456_78, "0.000123457"),
            (1e-300, "1e-300"),
            (0.000_001_234_567, "1.23457e-6"),
            (f64::INFINITY, "inf"),
            (f64::NEG_INFINITY, "-inf"),
        ];
        for (value, text) in cases {
            assert_eq!(significant(value), text, "{value:e}");
        }
    }

    #[test]
    fn what_is_small_beside_its_scale_is_zero() {
        assert_eq!(significant_on(-2.2e-16, Some(0.3)), "0");
        assert_eq!(significant_on(-2.2e-16, Some(1e-8)), "-2.2e-16");
        assert_eq!(significant_on(-2.2e-16, None), "-2.2e-16");
        assert_eq!(significant_on(3e-5, Some(1.0)), "0.00003");
        // a parameter that nothing is known of has an infinite scale
        assert_eq!(significant_on(5.0, Some(f64::INFINITY)), "5");
    }

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(printable("a\u{1b}[2J\nb"), "a\\u{1b}[2J\\nb");
        assert_eq!(printable_lines("a\u{1b}\nb\r"), "a\\u{1b}\nb\\r");
        assert!(matches!(printable("θ > 1"), Cow::Borrowed(_)));
    }

    /// `txt.exe` after U+202E is shown as `exe.txt`.
    #[test]
    fn letters_are_not_shown_in_another_order() {
        for c in [
            '\u{61c}', '\u{200f}', '\u{2028}', '\u{202e}', '\u{2066}', '\u{2069}',
        ] {
            let text = format!("a{c}txt.exe");
            let expected = format!("a\\u{{{:x}}}txt.exe", u32::from(c));
            assert_eq!(printable(&text), expected);
            assert_eq!(printable_lines(&text), expected);
        }
        // letters from right to left need none of them
        assert!(matches!(printable("שלום"), Cow::Borrowed(_)));
    }
}
