//! The section *Out-of-domain*: curves, and histograms of the scores.

use std::fmt::Write as _;

use super::View;
use super::html::Switches;

impl View<'_, '_> {
    pub(super) fn detection(&self, page: &mut String, switches: &mut Switches) {
        let seeds = if self.has_seeds() {
            " Curves are averaged over the seeds at fixed abscissas, histograms hold all seeds together."
        } else {
            ""
        };
        let _ = write!(
            page,
            "<div class=\"head\"><p class=\"lead\">How well the confidence of a prediction tells test images from images of another \
             set.{seeds}</p>"
        );
        self.set_switch(page, switches);
        page.push_str("</div>\n");
        self.print_legend(page);
        page.push_str(
            "<div class=\"charts\" data-chart=\"detection\"></div>\n<h3>Scores</h3>\n\
             <p class=\"lead\">Share of the images in each bin of the score, on a logarithmic scale. The less the two shapes overlap, the \
             better they can be told apart.</p>\n<p class=\"key\"><span class=\"key-in\"></span> test set <span class=\"key-out\"></span> \
             out-of-domain</p>\n<div class=\"charts small\" data-chart=\"scores\"></div>\n",
        );
    }
}
