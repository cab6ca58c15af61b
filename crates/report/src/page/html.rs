//! Pieces of HTML: escaped text, JSON inside a script element, switches, marks of rows, the picture
//! of the header.

use std::fmt::Write as _;

use serde_json::Value;

use crate::style::{Style, dashes};

/// Text for an element or a quoted attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // HTML has no place for other control characters
            c if c.is_control() && c != '\n' && c != '\t' => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Escaped text in which words between backquotes are set as code.
pub(super) fn code(text: &str) -> String {
    let mut out = String::new();
    for (i, part) in text.split('`').enumerate() {
        if i % 2 == 1 {
            let _ = write!(out, "<code>{}</code>", escape(part));
        } else {
            out.push_str(&escape(part));
        }
    }
    out
}

/// JSON that can stand inside a script element: without `<`, nothing in it can end the element or
/// open a comment.
pub(super) fn script_json(value: &Value) -> String {
    value
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// HTML inside a comment, which the script can turn into elements: without `--`, nothing in it can
/// end the comment. Dashes have to stand in texts and values of attributes, not in names.
pub(super) fn comment(html: &str) -> String {
    format!("<!--\n{}\n-->", html.replace("--", "-&#45;"))
}

/// Groups of radio buttons; those with the same purpose are kept in step by the script.
#[derive(Default)]
pub(super) struct Switches {
    written: usize,
}

impl Switches {
    /// A row of buttons; the first is chosen.
    pub(super) fn write(
        &mut self,
        page: &mut String,
        purpose: &str,
        legend: &str,
        options: &[(String, String)],
    ) {
        self.fieldset(page, purpose, legend, options, "switch");
    }

    /// The same one below the other.
    pub(super) fn write_column(
        &mut self,
        page: &mut String,
        purpose: &str,
        legend: &str,
        options: &[(String, String)],
    ) {
        self.fieldset(page, purpose, legend, options, "switch column");
    }

    fn fieldset(
        &mut self,
        page: &mut String,
        purpose: &str,
        legend: &str,
        options: &[(String, String)],
        class: &str,
    ) {
        self.written += 1;
        let _ = write!(
            page,
            "<fieldset class=\"{class} {purpose}\"><legend>{}</legend><div>",
            escape(legend)
        );
        for (i, (value, label)) in options.iter().enumerate() {
            let checked = if i == 0 { " checked" } else { "" };
            let _ = write!(
                page,
                "<label><input type=\"radio\" name=\"switch{}\" data-switch=\"{purpose}\" value=\"{}\"{checked}><span>{}</span></label>",
                self.written,
                escape(value),
                escape(label)
            );
        }
        page.push_str("</div></fieldset>\n");
    }
}

/// A short line in the style of a row.
pub(super) fn swatch(style: Style) -> String {
    format!(
        "<svg class=\"swatch\" viewBox=\"0 0 28 10\" aria-hidden=\"true\"><line x1=\"2\" y1=\"5\" x2=\"26\" y2=\"5\" \
         stroke=\"var(--c{})\" stroke-dasharray=\"{}\"/></svg>",
        style.color,
        dashes()[style.dash]
    )
}

/// Normal possibility functions `exp(-λ(x-μ)²/2)` and, above them all, their supremum.
pub(super) fn possibility_curves() -> String {
    const WIDTH: f64 = 1200.0;
    const HEIGHT: f64 = 220.0;
    const CURVES: [(f64, f64, f64); 5] = [
        (0.10, 190.0, 0.55),
        (0.30, 320.0, 0.86),
        (0.52, 90.0, 0.70),
        (0.74, 520.0, 1.0),
        (0.93, 150.0, 0.62),
    ];
    let value = |x: f64, (mode, precision, height): (f64, f64, f64)| {
        height * (-0.5 * precision * (x - mode).powi(2)).exp()
    };
    let path = |f: &dyn Fn(f64) -> f64| {
        let mut d = String::new();
        for i in 0..=240 {
            let x = f64::from(i) / 240.0;
            let (px, py) = (x * WIDTH, HEIGHT - (HEIGHT - 10.0) * f(x));
            let _ = write!(d, "{}{px:.0} {py:.1}", if i == 0 { "M" } else { "L" });
        }
        d
    };
    let mut svg = format!(
        "<svg class=\"bells\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" aria-hidden=\"true\">"
    );
    for (i, &curve) in CURVES.iter().enumerate() {
        let _ = write!(
            svg,
            "<path class=\"bell b{i}\" d=\"{0}L{WIDTH} {HEIGHT}L0 {HEIGHT}Z\"/>",
            path(&|x| value(x, curve))
        );
    }
    let supremum = path(&|x| {
        CURVES
            .iter()
            .map(|&curve| value(x, curve))
            .fold(0.0, f64::max)
    });
    let _ = write!(svg, "<path class=\"supremum\" d=\"{supremum}\"/></svg>");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(
            escape("<b a=\"1\" c='2'>&\u{7}"),
            "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;\u{fffd}"
        );
        assert_eq!(code("see `a<b` there"), "see <code>a&lt;b</code> there");
    }

    proptest! {
        #[test]
        fn html_survives_in_a_comment_and_cannot_end_it(
            text in "[-a<>!]*", word in "-->|--!>|->|--|<!--|-",
        ) {
            let html = format!("<p title=\"{0}\">{0}</p>", escape(&format!("{text}{word}{text}")));
            let hidden = comment(&html);
            let inside = hidden.strip_prefix("<!--\n").and_then(|rest| rest.strip_suffix("\n-->"));
            let inside = inside.unwrap();
            prop_assert!(!inside.contains("--"));
            prop_assert_eq!(inside.replace("&#45;", "-"), html);
        }

        #[test]
        fn json_survives_and_cannot_end_the_script(text in ".*", word in "</?script>|<!--|-->|&lt;") {
            let value = Value::from(format!("{text}{word}{text}"));
            let embedded = script_json(&value);
            prop_assert!(!embedded.contains(['<', '>', '&']));
            prop_assert_eq!(serde_json::from_str::<Value>(&embedded).unwrap(), value);
        }
    }
}
