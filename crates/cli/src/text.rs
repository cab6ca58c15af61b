//! Results for people, as aligned text, and for programs, as JSON.

use std::borrow::Cow;

use possibility::coverage::coverage_of_cut;
use serde_json::Value;

/// How to read a result, printed below every table: what the numbers are, and what a cut of each of
/// these levels is and is not.
pub fn reading(alphas: &[f64]) -> String {
    let coverages: Vec<String> = alphas
        .iter()
        .filter_map(|&alpha| {
            let share = 100.0 * coverage_of_cut(alpha).ok()?;
            Some(format!("a {}-cut {share:.1} %", significant(alpha)))
        })
        .collect();
    format!(
        "Possibility says how well an event agrees with data and prior (1: fully, 0: ruled out); \
         necessity says how certain\nit is (1 minus the possibility of its opposite). An alpha-cut \
         holds every value of possibility at least alpha.\nIt is no interval of probability 1 - \
         alpha. Share of large samples in which it covers the truth (asymptotic):\n{}.",
        coverages.join(", ")
    )
}

/// How to read valid possibilities, or, where they are not, plain ones.
pub fn reading_of(alphas: &[f64], valid: bool) -> String {
    if !valid {
        return reading(alphas);
    }
    "Valid possibilities: that of a value is the probability, under this value, of data that agree \
     with it no better\nthan these. An alpha-cut holds every value of possibility at least alpha, and \
     covers the truth with probability at least\n1 - alpha, for every number of observations."
        .to_owned()
}

/// How to read valid possibilities that were simulated.
pub fn reading_of_simulated(is_approximate: bool) -> String {
    let probability = if is_approximate {
        "about 1 - alpha or more"
    } else {
        "at least 1 - alpha"
    };
    format!(
        "Valid possibilities: that of a value is the probability, under this value, of data that agree \
         with it no better\nthan these. An alpha-cut holds every value of possibility at least alpha, \
         and covers the truth with probability\n{probability}, in small samples too."
    )
}

/// A number and its standard error, to two digits of the error; without one, the number alone.
pub fn with_error(value: f64, error: f64) -> String {
    if error == 0.0 || !value.is_finite() {
        return significant(value);
    }
    if !error.is_finite() {
        return format!("{} ± {error}", significant(value));
    }
    let decimals = (1.0 - error.log10().floor()).clamp(0.0, 15.0) as usize;
    format!("{value:.decimals$} ± {error:.decimals$}")
}

/// A number in JSON; what JSON cannot write is one of the strings `"inf"`, `"-inf"`, `"nan"`.
pub fn number(value: f64) -> Value {
    serde_json::Number::from_f64(value).map_or_else(
        || {
            let name = if value.is_nan() {
                "nan"
            } else if value > 0.0 {
                "inf"
            } else {
                "-inf"
            };
            Value::from(name)
        },
        Value::Number,
    )
}

/// A number or, where there is none, `null`.
pub fn optional(value: Option<f64>) -> Value {
    value.map_or(Value::Null, number)
}

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

/// A closed interval to six significant digits.
pub fn interval(lower: f64, upper: f64) -> String {
    format!("[{}, {}]", significant(lower), significant(upper))
}

/// The text with every control character written out, so that data cannot move the cursor of a
/// terminal or change its colors.
pub fn printable(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

/// The same for text of several lines.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escape(text, |c| c == '\n')
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    let is_bad = |c: char| c.is_control() && !keep(c);
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

/// Text in columns: the first is flush left, the others flush right.
#[derive(Debug, Default)]
pub struct TextTable {
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// A table with this header.
    pub fn new<S: Into<String>>(header: impl IntoIterator<Item = S>) -> Self {
        let mut table = Self::default();
        table.row(header);
        table
    }

    /// Adds a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        let clean = |cell: S| match cell.into() {
            cell if cell.contains(char::is_control) => printable(&cell).into_owned(),
            cell => cell,
        };
        self.rows.push(cells.into_iter().map(clean).collect());
    }

    /// The lines, each with its line end.
    pub fn render(&self) -> String {
        let width = |text: &str| text.chars().count();
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|i| {
                let cells = self.rows.iter().filter_map(|row| row.get(i));
                cells.map(|cell| width(cell)).max().unwrap_or(0)
            })
            .collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (i, cell) in row.iter().enumerate() {
                let blanks = " ".repeat(widths[i] - width(cell));
                if i == 0 {
                    line.push_str(cell);
                    line.push_str(&blanks);
                } else {
                    line.push_str("  ");
                    line.push_str(&blanks);
                    line.push_str(cell);
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
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
    fn the_reading_names_the_coverage_of_each_cut() {
        let text = reading(&[0.05, 0.146_500_138]);
        assert!(
            text.ends_with("a 0.05-cut 98.6 %, a 0.1465-cut 95.0 %."),
            "{text}"
        );
    }

    #[test]
    fn json_numbers_that_are_not_finite_are_strings() {
        assert_eq!(number(f64::INFINITY), Value::from("inf"));
        assert_eq!(number(f64::NEG_INFINITY), Value::from("-inf"));
        assert_eq!(number(0.1).to_string(), "0.1");
        assert_eq!(optional(None), Value::Null);
    }

    #[test]
    fn control_characters_are_written_out() {
        assert_eq!(printable("a\u{1b}[2J\nb"), "a\\u{1b}[2J\\nb");
        assert_eq!(printable_lines("a\u{1b}\nb\r"), "a\\u{1b}\nb\\r");
        assert!(matches!(printable("θ > 1"), Cow::Borrowed(_)));
        let mut table = TextTable::default();
        table.row(["x\ny", "1"]);
        assert_eq!(table.render(), "x\\ny  1\n");
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = TextTable::new(["event", "possibility"]);
        table.row(["θ > 1", "0.5"]);
        table.row(["x"]);
        assert_eq!(
            table.render(),
            "event  possibility\nθ > 1          0.5\nx\n"
        );
    }
}
