//! The section *Settings*: where the runs differ, and all settings in full.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use evaluation::record::RunRecord;

use super::View;
use super::html::{escape, swatch};
use crate::facts::{self, count, flatten};
use crate::names;
use crate::summary::Family;

impl View<'_, '_> {
    pub(super) fn settings(&self, page: &mut String) {
        self.differences(page);
        for family in &self.families {
            if let Some(run) = family.runs.first()
                && !flatten(&run.config).is_empty()
            {
                self.full_settings(page, family, run);
            }
        }
    }

    /// A table of the settings in which the families differ.
    fn differences(&self, page: &mut String) {
        let flat: Vec<(&Family<'_>, Vec<(String, String)>)> = self
            .families
            .iter()
            .filter_map(|family| Some((family, flatten(&family.runs.first()?.config))))
            .collect();
        let mut keys: Vec<&str> = Vec::new();
        for (key, _) in flat.iter().flat_map(|(_, settings)| settings) {
            if !keys.contains(&key.as_str()) {
                keys.push(key);
            }
        }
        keys.retain(|key| {
            let values: BTreeSet<Option<&str>> =
                flat.iter().map(|(_, all)| value(all, key)).collect();
            values.len() > 1
        });
        if flat.len() < 2 || keys.is_empty() {
            return;
        }
        page.push_str(
            "<p class=\"lead\">Settings in which the runs differ; the rest is the same for all and stands in \
             the full settings below.</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" \
             aria-label=\"Table: settings that differ\">\n<table class=\"settings-table\">\n\
             <caption>Settings that differ</caption>\n<thead><tr><th scope=\"col\">Runs of</th>",
        );
        for key in &keys {
            let _ = write!(page, "<th scope=\"col\"><code>{}</code></th>", escape(key));
        }
        page.push_str("</tr></thead>\n<tbody>\n");
        for (family, settings) in &flat {
            let mark = family.rows.first().map(|&i| swatch(self.styles[i]));
            let _ = write!(
                page,
                "<tr><th scope=\"row\"><span class=\"name\">{}{}</span></th>",
                mark.unwrap_or_default(),
                escape(&family.label)
            );
            for key in &keys {
                match value(settings, key) {
                    Some(text) => {
                        let _ = write!(page, "<td>{}</td>", escape(text));
                    }
                    None => page.push_str("<td class=\"none\">–</td>"),
                }
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</tbody>\n</table>\n</div>\n");
    }

    /// All settings of a run that stands for its family.
    fn full_settings(&self, page: &mut String, family: &Family<'_>, run: &RunRecord) {
        let seeds: BTreeSet<u64> = family.runs.iter().map(|run| run.seed).collect();
        let pretty = serde_json::to_string_pretty(&run.config).unwrap_or_default();
        let runs = if self.is_trained() {
            let s = if seeds.len() == 1 { "" } else { "s" };
            let runs = count(family.runs.len(), "run");
            format!(
                " <span class=\"tag\">{runs}, seed{s} {}</span>",
                facts::ranges(seeds)
            )
        } else {
            String::new()
        };
        let network = if run.network.is_empty() {
            String::new()
        } else {
            format!(", {}", names::network(&run.network))
        };
        let _ = writeln!(
            page,
            "<details><summary>{}{runs}</summary>\n<p class=\"hint\">The resolved settings of {}{}.</p>\n\
                 <pre tabindex=\"0\">{}</pre></details>",
            escape(&family.label),
            escape(&run.name),
            escape(&network),
            escape(&pretty)
        );
    }
}

/// The value of a key.
fn value<'a>(settings: &'a [(String, String)], key: &str) -> Option<&'a str> {
    let found = settings.iter().find(|(name, _)| name == key);
    found.map(|(_, value)| value.as_str())
}
