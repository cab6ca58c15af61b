//! The section *Training*: curves over the epochs.

use super::View;

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
             data-log> logarithmic losses</label></div>\n<div class=\"charts\" data-chart=\"training\"></div>\n",
        );
    }
}
