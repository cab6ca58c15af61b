//! Round values on an axis, and their texts.

use std::ops::Range;

/// What to subtract from tick values that differ only far behind their first digit: a round number
/// near the range, or 0 where the values can be told apart.
pub(super) fn tick_base(range: &Range<f64>) -> f64 {
    let span = range.end - range.start;
    let middle = 0.5 * range.start + 0.5 * range.end;
    if span <= 0.0 || span > 1e-4 * middle.abs() {
        return 0.0;
    }
    let unit = 10_f64.powf(span.log10().ceil());
    (middle / unit).round() * unit
}

/// Round values in a range, about `wanted` of them, with their texts.
pub(super) fn ticks(range: &Range<f64>, wanted: usize) -> Vec<(f64, String)> {
    let span = range.end - range.start;
    if !(span > 0.0 && span.is_finite()) {
        return vec![];
    }
    let rough = span / wanted.max(1) as f64;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| span / step <= 1.35 * wanted as f64)
        .unwrap_or(10.0 * power);
    let slack = 1e-9 * span;
    let (first, last) = (
        ((range.start - slack) / step).ceil(),
        ((range.end + slack) / step).floor(),
    );
    let largest = range.start.abs().max(range.end.abs());
    let count = (last - first).max(-1.0) as usize + 1;
    (0..count)
        .map(|i| {
            let value = (first + i as f64) * step;
            (value, tick_text(value, step, largest))
        })
        .collect()
}

/// A tick value with the decimals its step needs; powers of ten outside the usual range.
fn tick_text(value: f64, step: f64, largest: f64) -> String {
    if !(1e-4..1e6).contains(&largest) {
        if value == 0.0 {
            return "0".to_owned();
        }
        let decimals = (value.abs().log10().floor() - step.log10().floor()).clamp(0.0, 8.0);
        return format!("{value:.*e}", decimals as usize).replace('-', "−");
    }
    // 2.5 · 10^k needs one more decimal than its power of ten
    let power = step.log10().floor();
    let is_half = (step / 10_f64.powf(power) - 2.5).abs() < 1e-9;
    let decimals = (-power + f64::from(u8::from(is_half))).max(0.0) as usize;
    let text = format!("{value:.decimals$}");
    if text
        .trim_start_matches('-')
        .chars()
        .all(|c| matches!(c, '0' | '.'))
    {
        return text.trim_start_matches('-').to_owned();
    }
    text.replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        let texts = |range: Range<f64>, wanted| -> Vec<String> {
            ticks(&range, wanted)
                .into_iter()
                .map(|(_, text)| text)
                .collect()
        };
        assert_eq!(
            texts(0.0..1.0, 5),
            ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]
        );
        assert_eq!(texts(-1.0..1.0, 4), ["−1.0", "−0.5", "0.0", "0.5", "1.0"]);
        assert_eq!(texts(0.0..1.0, 3), ["0.00", "0.25", "0.50", "0.75", "1.00"]);
        assert_eq!(texts(3.0..47.0, 4), ["10", "20", "30", "40"]);
        assert_eq!(texts(0.0..2e7, 2), ["0", "1e7", "2e7"]);
        assert_eq!(texts(1.0..1.0, 4), [""; 0]);
        assert_eq!(tick_base(&(-1.0..5.0)), 0.0);
        assert_eq!(tick_base(&(123_456_787.0..123_456_793.0)), 123_456_790.0);
        assert_eq!(tick_base(&(-123_456_793.0..-123_456_787.0)), -123_456_790.0);
    }
}
