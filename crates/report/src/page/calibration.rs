//! The section *Calibration*: reliability diagrams, and risk over coverage.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::View;
use super::html::escape;

impl View<'_, '_> {
    pub(super) fn calibration(&self, page: &mut String) {
        let bins: BTreeSet<usize> = self
            .evaluations()
            .map(|evaluation| evaluation.reliability.bins.len())
            .filter(|&n| n > 0)
            .collect();
        let schemes: BTreeSet<&str> = self
            .evaluations()
            .map(|evaluation| evaluation.reliability.scheme.as_str())
            .filter(|scheme| !scheme.is_empty())
            .collect();
        let bins: Vec<String> = bins.into_iter().map(|n| n.to_string()).collect();
        let _ = writeln!(
            page,
            "<p class=\"lead\">Reliability: accuracy of the predictions made with a given confidence, over {} {} bins{}. \
             On the diagonal confidence and accuracy agree; a hatched gap below it is overconfidence. Bars at the \
             foot count the images, on a logarithmic scale.</p>\n<div class=\"charts small\" data-chart=\"reliability\"></div>",
            bins.join(" or "),
            escape(&schemes.into_iter().collect::<Vec<_>>().join(" or ")),
            if self.has_seeds() {
                ", all seeds together"
            } else {
                ""
            }
        );
        self.risk(page);
    }

    /// Mistakes among the surest images, where the records tell of them.
    fn risk(&self, page: &mut String) {
        if !self
            .evaluations()
            .any(|evaluation| evaluation.risk.is_some())
        {
            return;
        }
        let _ = writeln!(
            page,
            "<h3>Risk over coverage</h3>\n<p class=\"lead\">The share of wrong answers if only the surest images are answered, over the \
             share that is answered{}. The area under the curve (AURC) is its mean: the lower, the better.</p>",
            if self.has_seeds() {
                ", mean over the seeds"
            } else {
                ""
            }
        );
        self.print_legend(page);
        page.push_str("<div class=\"charts\" data-chart=\"risk\"></div>\n");
    }
}
