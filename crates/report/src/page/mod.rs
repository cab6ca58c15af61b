//! The page: tables and words are written here, so that they can be read without the script and by
//! any program; plots are drawn by the script from the JSON at the end of the page. A file per
//! section.
//!
//! What is not seen at first costs a browser little: tables of other checkpoints and sets stand in
//! comments until they are chosen, large parts of the JSON are strings until they are drawn, and of
//! more than `view::MANY` rows the parts far from the window are not laid out.
//!
//! Whatever comes out of a record is escaped, and the JSON cannot end its script element. A content
//! security policy forbids the page to load anything.

mod bounds;
mod calibration;
mod classes;
mod cost;
mod data;
mod detection;
mod disagreements;
mod glance;
mod header;
mod html;
mod numbers;
mod panel;
mod results;
mod settings;
mod short;
mod sweep;
mod training;
mod view;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use evaluation::record::RunRecord;
use serde_json::json;

use self::disagreements::disagreements;
use self::header::header;
pub(crate) use self::html::escape;
use self::html::{Switches, script_json};
use self::panel::panel;
use self::view::View;
use crate::curves::{number, recall_grid, roc_grid};
use crate::search::Search;
use crate::style::dashes;
use crate::summary::groups;
use crate::{facts, names, paper};

/// What the page says beside the records.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// Title; by default made from the records.
    pub title: Option<String>,
    /// A paragraph under the title, plain text: what the reader should know about these runs.
    pub note: Option<String>,
    /// Searches that some of the runs come from.
    pub searches: Vec<Search>,
    /// Intervals that stand under the figures of the tables, where there is one row.
    pub intervals: Vec<Interval>,
}

/// Where a figure of a table may lie.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// The out-of-domain set; none for the test set.
    pub set: Option<String>,
    /// Id of the metric.
    pub metric: &'static str,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// One self-contained HTML file about these records. The same records give the same bytes.
///
/// Runs are grouped by experiment, dataset and network, rows by their names over the seeds. What
/// the records do not hold is left out of the page.
///
/// ```
/// let page = report::html(&[], &report::Options::default());
/// assert!(page.starts_with("<!doctype html>"));
/// assert!(page.contains("No runs"));
/// ```
pub fn html(records: &[RunRecord], options: &Options) -> String {
    let groups = groups(records);
    let views: Vec<View<'_, '_>> = groups
        .iter()
        .enumerate()
        .map(|(index, group)| View::new(index, group, options))
        .collect();
    let title = options
        .title
        .clone()
        .unwrap_or_else(|| match views.as_slice() {
            [] => "No runs".to_owned(),
            [one] => facts::title(one.group),
            many => {
                let names: BTreeSet<&str> = many
                    .iter()
                    .map(|v| names::dataset(v.group.dataset))
                    .collect();
                let names: Vec<&str> = names.into_iter().collect();
                names.join(", ")
            }
        });
    // a row of one's own may have the name of a method, too: the experiment decides
    let with_disagreements = groups
        .iter()
        .any(|group| paper::out_of_domain_set(group.experiment).is_some());
    let mut switches = Switches::default();
    let mut page = String::new();
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'unsafe-inline'; img-src data:\">\n\
         <title>{} · Maxitive</title>\n<style>\n{}</style>\n</head>\n<body class=\"beside-paper\">\n\
         <a class=\"skip\" href=\"#main\">Skip to the results</a>\n",
        escape(&title),
        include_str!("../../assets/page.css"),
    );
    header(&mut page, &title, options, &views, &mut switches);
    page.push_str("<div class=\"shell\">\n");
    panel(&mut page, &views, &mut switches, with_disagreements);
    page.push_str("<main id=\"main\" tabindex=\"-1\">\n<noscript><p class=\"notice\">Tables, settings and notes can be read as they \
                   are; the plots and the switches need the script inside this page.</p></noscript>\n");
    for view in &views {
        view.write(&mut page, &mut switches);
    }
    if with_disagreements {
        disagreements(&mut page);
    }
    page.push_str("</main>\n</div>\n");
    footer(&mut page);
    let mut seeds = data::SeedLists::default();
    let groups: Vec<_> = views
        .iter()
        .map(|view| data::group(view, &mut seeds))
        .collect();
    let data = json!({
        "grids": {
            "roc": roc_grid().iter().map(|&x| number(x)).collect::<Vec<_>>(),
            "recall": recall_grid().iter().map(|&x| number(x)).collect::<Vec<_>>(),
        },
        "dashes": dashes(),
        "many": view::MANY,
        "seeds": seeds.json(),
        "groups": groups,
    });
    let _ = write!(
        page,
        "<div id=\"tip\" role=\"status\" aria-live=\"polite\" hidden></div>\n\
         <script type=\"application/json\" id=\"data\">{}</script>\n<script>\n{}</script>\n</body>\n</html>\n",
        script_json(&data),
        include_str!("../../assets/page.js"),
    );
    page
}

fn footer(page: &mut String) {
    let _ = writeln!(
        page,
        "<footer><p>Written by Maxitive {}. The page holds everything it shows and loads nothing. Printed, it shows the view that is \
         chosen.</p></footer>",
        env!("CARGO_PKG_VERSION")
    );
}
