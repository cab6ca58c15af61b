//! The section *In short*: what stands out, per checkpoint, and what to keep in mind.

use std::fmt::Write as _;

use evaluation::record::Checkpoint;

use super::View;
use super::html::escape;
use crate::facts::{self, notices};
use crate::summary::checkpoint_id;

impl View<'_, '_> {
    /// What stands out, per checkpoint, and what to keep in mind.
    pub(super) fn short(&self, page: &mut String) {
        for (i, &checkpoint) in self.group.checkpoints.iter().enumerate() {
            let hidden = if i == 0 { "" } else { " hidden" };
            let _ = writeln!(
                page,
                "<div data-checkpoint=\"{}\"{hidden}>\n<p class=\"lead\">{}</p>\n<dl class=\"findings\">",
                checkpoint_id(checkpoint),
                match (checkpoint, self.group.checkpoints.len()) {
                    (_, 1) if !self.is_trained() => "What was found:",
                    (Checkpoint::Best, _) => "With the weights of lowest validation loss:",
                    (Checkpoint::Final, _) => "With the weights of the last epoch:",
                }
            );
            for (what, text) in facts::findings(self.group, checkpoint) {
                let _ = writeln!(
                    page,
                    "<div><dt>{}</dt><dd>{}{}</dd></div>",
                    escape(&what),
                    escape(&text),
                    // a number alone is no sentence
                    if text.contains(char::is_alphabetic) {
                        "."
                    } else {
                        ""
                    }
                );
            }
            page.push_str("</dl>\n</div>\n");
        }
        let notices = notices(self.group, &self.group.rows, &self.families);
        if !notices.is_empty() {
            page.push_str("<ul class=\"notices\">\n");
            for notice in notices {
                let _ = writeln!(page, "<li>{}</li>", escape(&notice));
            }
            page.push_str("</ul>\n");
        }
    }
}
