//! Where paper, code and tables disagree.

use std::fmt::Write as _;

use super::html::{code, escape};
use crate::disagreements::CHAPTERS;

pub(super) fn disagreements(page: &mut String) {
    page.push_str(
        "<section id=\"disagreements\" class=\"card\" aria-labelledby=\"disagreements-title\">\n\
         <h2 id=\"disagreements-title\">Where paper, code and tables disagree</h2>\n\
         <p class=\"lead\">The paper's text is what is implemented. Its tables and the code its authors published do not always say the \
         same; these are the places known, and what is done here.</p>\n",
    );
    for chapter in &CHAPTERS {
        let _ = writeln!(
            page,
            "<h3>{}</h3>\n<div class=\"disagreements\">",
            chapter.title
        );
        for item in chapter.items {
            let _ = writeln!(
                page,
                "<article><h4>{}{}</h4>\n<p>{}</p>\n<p class=\"here\"><b>Here</b> {}</p></article>",
                escape(item.title),
                if item.inferred {
                    " <span class=\"tag\">inferred</span>"
                } else {
                    ""
                },
                code(item.text),
                code(item.here)
            );
        }
        page.push_str("</div>\n");
    }
    page.push_str("</section>\n");
}
