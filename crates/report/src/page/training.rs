//! The section *Training*: curves over the epochs.

use std::fmt::Write as _;

use evaluation::record::Updates;

use super::View;
use super::html::{escape, swatch};
use crate::facts::thousands;
use crate::summary::Family;

impl View<'_, '_> {
    pub(super) fn training(&self, page: &mut String) {
        let several = self.families.iter().any(|family| family.runs.len() > 1);
        page.push_str("<div class=\"head\"><p class=\"lead\">");
        page.push_str(if several {
            "Mean over the seeds, with one deviation as a band. "
        } else {
            "One run each. "
        });
        page.push_str(
            "Training values are those the steps met before each update.</p><label class=\"check\"><input type=\"checkbox\" \
             data-log> logarithmic losses</label></div>\n",
        );
        self.print_legend(page);
        page.push_str("<div class=\"charts\" data-chart=\"training\"></div>\n");
        self.updates(page);
    }

    /// What the updates met, for the runs that counted it.
    fn updates(&self, page: &mut String) {
        let counted = |family| Some((family, updates(family)?));
        let counted: Vec<(&Family<'_>, Updates)> =
            self.families.iter().filter_map(counted).collect();
        if counted.is_empty() {
            return;
        }
        page.push_str(
            "<h3>Updates</h3>\n<p class=\"lead\">An update is one weight at one step. Where the curvature gap \
             H<sub>s</sub> is not positive, the consistency bound that the step minimizes does not hold for \
             that coordinate.</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" \
             aria-label=\"Table: what the updates met\">\n<table class=\"settings-table\">\n\
             <caption>All epochs and seeds together</caption>\n<thead><tr><th scope=\"col\">Runs of</th>\
             <th scope=\"col\">Updates</th><th scope=\"col\">Gap not positive</th>\
             <th scope=\"col\">Clipped</th><th scope=\"col\">Left out</th>\
             <th scope=\"col\">Steps left out</th></tr></thead>\n<tbody>\n",
        );
        for (family, sum) in counted {
            let first = family.rows.first();
            let place = first.map(|i| format!(" data-row=\"{i}\""));
            let mark = first.map(|&i| swatch(self.styles[i]));
            let _ = writeln!(
                page,
                "<tr{}><th scope=\"row\"><span class=\"name\">{}{}</span></th><td>{}</td><td>{}</td>\
                 <td>{}</td><td>{}</td><td>{}</td></tr>",
                place.unwrap_or_default(),
                mark.unwrap_or_default(),
                escape(&family.label),
                thousands(sum.coordinates as usize),
                share(sum.gap_not_positive, sum.coordinates),
                share(sum.clipped, sum.coordinates),
                share(sum.skipped, sum.coordinates),
                thousands(sum.skipped_steps as usize),
            );
        }
        page.push_str("</tbody>\n</table>\n</div>\n");
    }
}

/// The counts of all epochs of all runs; `None` if none was counted.
fn updates(family: &Family<'_>) -> Option<Updates> {
    let points = family.runs.iter().flat_map(|run| &run.curves);
    points
        .filter_map(|point| point.updates)
        .reduce(|sum, next| Updates {
            coordinates: sum.coordinates + next.coordinates,
            clipped: sum.clipped + next.clipped,
            gap_not_positive: sum.gap_not_positive + next.gap_not_positive,
            skipped: sum.skipped + next.skipped,
            skipped_steps: sum.skipped_steps + next.skipped_steps,
        })
}

/// A count as a share of all: `0`, `0.0012 %`, `3.4 %`.
fn share(count: u64, all: u64) -> String {
    if count == 0 || all == 0 {
        return count.to_string();
    }
    let percent = 100.0 * count as f64 / all as f64;
    if percent >= 0.1 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.1e} %")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percents() {
        assert_eq!(share(0, 10), "0");
        assert_eq!(share(1, 8), "12.5 %");
        assert_eq!(share(1, 1_000_000), "1.0e-4 %");
    }
}
