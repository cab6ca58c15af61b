//! Results for people, as aligned text, and for programs, as JSON.

use std::fmt::{Display, LowerExp};

use possibility::coverage::coverage_of_cut;
use serde_json::Value;

pub use plot::text::{printable, printable_lines, significant, significant_on};

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

/// `1 epoch`, `2 epochs`.
pub fn count(number: usize, noun: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{s}")
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

/// A number with all its digits, in a text of at most two dozen letters: `0.25`, `3e-40`.
pub fn exact<T: Display + LowerExp>(value: T) -> String {
    let plain = value.to_string();
    if plain.len() > 24 {
        format!("{value:e}")
    } else {
        plain
    }
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

/// A closed interval to six significant digits.
pub fn interval(lower: f64, upper: f64) -> String {
    format!("[{}, {}]", significant(lower), significant(upper))
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
        let clean = |cell: S| printable(&cell.into()).into_owned();
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
    fn exact_numbers_are_short_and_read_back() {
        for (value, text) in [
            (0.0, "0"),
            (0.25, "0.25"),
            (3e-40, "3e-40"),
            (-2.5e99, "-2.5e99"),
        ] {
            assert_eq!((exact(value), text.parse()), (text.to_owned(), Ok(value)));
        }
        assert_eq!(exact(1.0 / 3.0), "0.3333333333333333");
        assert_eq!(exact(2.440_285_5e-33_f32), "2.4402855e-33");
    }

    #[test]
    fn control_characters_are_written_out() {
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
