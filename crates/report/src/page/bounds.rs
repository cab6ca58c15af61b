//! The section *What is possible*: scores of rows whose weights may move.

use evaluation::Scores;
use evaluation::results::Bounds;

use super::View;
use super::html::Switches;
use super::results::{Place, definitions_of};
use crate::facts::thousands;
use crate::summary::Table;

impl View<'_, '_> {
    pub(super) fn bounds(&self, page: &mut String, switches: &mut Switches) {
        page.push_str(
            "<p class=\"lead\">Rows whose weights may move: around the weights that training found lies a normal possibility function, \
             and the logits are taken as linear in the weights. The scores say how sure an answer is; the figures are areas under the \
             ROC curve, all on the same images.</p>\n",
        );
        for (i, &checkpoint) in self.group.checkpoints.iter().enumerate() {
            let place = Place {
                checkpoint,
                set: None,
                of_scores: true,
                hidden: i > 0,
            };
            self.table(page, &self.group.scores(checkpoint, None), &place);
        }
        if !self.group.sets.is_empty() {
            page.push_str("<div class=\"head\"><h3>Out-of-domain</h3>");
            self.set_switch(page, switches);
            page.push_str("</div>\n");
        }
        for (i, &checkpoint) in self.group.checkpoints.iter().enumerate() {
            for (j, set) in self.group.sets.iter().enumerate() {
                let place = Place {
                    checkpoint,
                    set: Some((j, set)),
                    of_scores: true,
                    hidden: i > 0 || j > 0,
                };
                self.table(page, &self.group.scores(checkpoint, Some(set)), &place);
            }
        }
        definitions_of(page, &[("Scores", Scores::METRICS)]);
    }

    /// What the caption of a table of scores adds: the images, and those without bounds.
    pub(super) fn scored(&self, place: &Place<'_, '_>, table: &Table<'_>) -> String {
        let rows = table.rows.iter();
        let found = rows.flat_map(|row| self.group.evaluations(row.name, place.checkpoint));
        let found: Vec<&Bounds> = found
            .filter_map(|(_, evaluation)| match place.set {
                None => evaluation.bounds.as_ref(),
                Some((_, set)) => {
                    let mut sets = evaluation.out_of_domain.iter();
                    sets.find(|out| set.is_set_of(out))?.bounds.as_ref()
                }
            })
            .collect();
        let Some(first) = found.first() else {
            return String::new();
        };
        let images = match place.set {
            None => {
                let images = first.scored.in_samples + first.scored.out_samples;
                format!("{} test images", thousands(images))
            }
            Some(_) => format!(
                "{} test against {} other images",
                thousands(first.scored.in_samples),
                thousands(first.scored.out_samples)
            ),
        };
        let vacuous: usize = found.iter().map(|bounds| bounds.scored.vacuous).sum();
        let vacuous = match vacuous {
            0 => String::new(),
            count => format!("; {} bounds were not certified", thousands(count)),
        };
        format!("<span class=\"setting\">{images}{vacuous}</span>")
    }
}
