//! Numbers for people: precise ones for tooltips, rough ones for times and sizes.

use crate::facts::thousands;
use crate::summary::three;

/// Six significant digits, for a tooltip.
pub(super) fn precise(value: f64) -> String {
    if value.is_infinite() {
        return three(value);
    }
    if value != 0.0 && value.abs() < 1e-3 {
        return format!("{value:.3e}");
    }
    format!("{value:.6}")
}

/// Three significant digits or so, for times and sizes.
pub(super) fn rough(value: f64) -> String {
    let size = value.abs();
    if size >= 1000.0 {
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{sign}{}", thousands(size.round() as usize))
    } else if size >= 100.0 {
        format!("{value:.0}")
    } else if size >= 10.0 {
        format!("{value:.1}")
    } else if size >= 0.01 || size == 0.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.1e}")
    }
}

/// A rough number and its deviation to the same digit.
pub(super) fn rough_with(mean: f64, deviation: Option<f64>) -> String {
    let shown = rough(mean);
    let Some(deviation) = deviation.filter(|&deviation| deviation > 0.0) else {
        return shown;
    };
    let decimals = shown
        .split_once('.')
        .map_or(0, |(_, decimals)| decimals.len());
    if shown.contains('e') {
        return format!(
            "{shown} <span class=\"deviation\">± {}</span>",
            rough(deviation)
        );
    }
    format!("{shown} <span class=\"deviation\">± {deviation:.decimals$}</span>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_rough() {
        let cases = [
            (0.0, "0.00"),
            (0.000_12, "1.2e-4"),
            (1.234, "1.23"),
            (56.78, "56.8"),
            (567.8, "568"),
            (42_200.0, "42,200"),
        ];
        let pair = "1.23 <span class=\"deviation\">± 0.05</span>";
        assert_eq!(rough_with(1.234, Some(0.0456)), pair);
        assert_eq!(rough_with(42_200.0, Some(0.0)), "42,200");
        for (value, text) in cases {
            assert_eq!(rough(value), text);
        }
    }
}
