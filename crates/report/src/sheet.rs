//! A contact sheet: pictures with what a model says of them, as one HTML file.

use std::fmt::Write as _;

use crate::page::escape;

/// What is said of one picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Name of the picture.
    pub file: String,
    /// The picture as a `data:` address.
    pub picture: String,
    /// Classes and their probabilities, the most probable first; the first few are shown.
    pub classes: Vec<(String, f64)>,
    /// Numbers with their names: entropy, score.
    pub numbers: Vec<(String, f64)>,
}

const STYLE: &str = "\
:root { color-scheme: light dark; --bg: #f7f5f0; --card: #fff; --ink: #1c2028; --soft: #565d6b; --line: #e3dfd5; --bar: #0068ac; }
@media (prefers-color-scheme: dark) { :root { --bg: #12151b; --card: #1a1e26; --ink: #e9e7e1; --soft: #a6adbb; --line: #2e333e; --bar: #57aef2; } }
body { margin: 0 auto; max-width: 1380px; padding: 1.5rem; background: var(--bg); color: var(--ink); font: 15px/1.45 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; } p { color: var(--soft); margin: 0 0 1.2rem; }
ul { list-style: none; margin: 0; padding: 0; display: grid; grid-template-columns: repeat(auto-fill, minmax(190px, 1fr)); gap: 1rem; }
li { background: var(--card); border: 1px solid var(--line); border-radius: 12px; padding: .8rem; break-inside: avoid; }
img { width: 100%; height: 140px; object-fit: contain; image-rendering: pixelated; }
.file, .numbers { font-size: .8rem; color: var(--soft); }
dl { display: grid; grid-template-columns: 1fr auto; gap: .1rem .6rem; margin: .4rem 0; }
dt:first-of-type, dd:first-of-type { font-weight: 700; }
dd { margin: 0; font-variant-numeric: tabular-nums; }
dd.bar { grid-column: 1 / 3; } meter { display: block; width: 100%; height: .5rem; }
";

/// The sheet: a title, a sentence, and the pictures in their order.
///
/// ```
/// let entry = report::sheet::Entry {
///     file: "a<b.png".into(),
///     picture: "data:image/png;base64,".into(),
///     classes: vec![("cat".into(), 0.75), ("dog".into(), 0.25)],
///     numbers: vec![("entropy".into(), 0.5623)],
/// };
/// let page = report::sheet::html("Answers", "By a run", &[entry]);
/// assert!(page.contains("a&lt;b.png") && page.contains("<dt>cat</dt><dd>0.750</dd>"));
/// ```
pub fn html(title: &str, note: &str, entries: &[Entry]) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; img-src data:\">\n\
         <title>{0}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{0}</h1>\n<p>{1}</p>\n<ul>\n",
        escape(title),
        escape(note)
    );
    for entry in entries {
        let _ = write!(
            page,
            "<li><img src=\"{}\" alt=\"{1}\"><div class=\"file\">{1}</div>\n<dl>",
            escape(&entry.picture),
            escape(&entry.file)
        );
        for (place, (class, probability)) in entry.classes.iter().take(3).enumerate() {
            let class = escape(class);
            let _ = write!(page, "<dt>{class}</dt><dd>{probability:.3}</dd>");
            if place == 0 {
                let _ = write!(
                    page,
                    "<dd class=\"bar\"><meter min=\"0\" max=\"1\" value=\"{probability:.4}\" \
                     aria-label=\"probability of {class}\"></meter></dd>"
                );
            }
        }
        page.push_str("</dl>\n<div class=\"numbers\">");
        let numbers = entry.numbers.iter();
        let numbers: Vec<String> = numbers
            .map(|(name, value)| format!("{} {value:.3}", escape(name)))
            .collect();
        let _ = writeln!(page, "{}</div></li>", numbers.join(" · "));
    }
    page.push_str("</ul>\n</main>\n</body>\n</html>\n");
    page
}
