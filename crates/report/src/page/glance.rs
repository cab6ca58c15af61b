//! The section *At a glance*: every metric of every row as a dot.

use super::View;
use super::html::Switches;

impl View<'_, '_> {
    pub(super) fn glance(&self, page: &mut String, switches: &mut Switches) {
        page.push_str(
            "<p class=\"lead\">Dots are means, bars one deviation, ticks single seeds. The shaded band reaches one deviation of the \
             best row to either side of it.",
        );
        if self.has_paper() {
            page.push_str(
                " <span class=\"only-paper\">Hollow diamonds are the paper's figures.</span>",
            );
        }
        if self.has_reproduction() {
            page.push_str(
                " <span class=\"only-reproduction\">Hollow squares are those of the independent reproduction.</span>",
            );
        }
        page.push_str("</p>\n");
        let mut checkpoints = self.group.checkpoints.iter();
        if checkpoints.any(|&checkpoint| !self.group.in_domain(checkpoint).rows.is_empty()) {
            page.push_str(
                "<h3>Test set</h3>\n<div class=\"charts\" data-chart=\"glance-in\"></div>\n",
            );
        }
        if !self.group.sets.is_empty() {
            page.push_str("<div class=\"head\"><h3>Out-of-domain</h3>");
            self.set_switch(page, switches);
            page.push_str("</div>\n<div class=\"charts\" data-chart=\"glance-out\"></div>\n");
        }
    }
}
