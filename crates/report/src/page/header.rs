//! The head of the page: title, note, and the facts of each group.

use std::fmt::Write as _;

use super::html::{Switches, escape, possibility_curves};
use super::{Options, View};
use crate::facts;

pub(super) fn header(
    page: &mut String,
    title: &str,
    options: &Options,
    views: &[View<'_, '_>],
    switches: &mut Switches,
) {
    let _ = write!(
        page,
        "<header class=\"hero\">\n{}\n<div class=\"inner\">\n<p class=\"brand\">Maxitive<span> report</span></p>\n",
        possibility_curves(),
    );
    let themes = [("auto", "Auto"), ("light", "Light"), ("dark", "Dark")]
        .map(|(id, name)| (id.to_owned(), name.to_owned()));
    switches.write(page, "theme", "Colors", &themes);
    let _ = writeln!(page, "<h1>{}</h1>", escape(title));
    if let Some(note) = &options.note {
        let _ = writeln!(page, "<p class=\"about\">{}</p>", escape(note));
    }
    if views.is_empty() {
        page.push_str("<p class=\"about\">No runs were given.</p>\n");
    }
    for view in views {
        let _ = writeln!(
            page,
            "<div class=\"group\" data-group=\"{}\"{}>",
            view.index,
            view.hidden()
        );
        if views.len() > 1 || options.title.is_some() {
            let _ = writeln!(
                page,
                "<p class=\"about\">{}</p>",
                escape(&facts::title(view.group))
            );
        }
        page.push_str("<dl class=\"facts\">\n");
        for (what, value) in facts::facts(view.group) {
            let _ = writeln!(
                page,
                "<div><dt>{what}</dt><dd>{}</dd></div>",
                escape(&value)
            );
        }
        page.push_str("</dl>\n</div>\n");
    }
    page.push_str("</div>\n</header>\n");
}
