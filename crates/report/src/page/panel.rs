//! The side panel: what is shown, which methods, where to go.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use evaluation::record::Checkpoint;

use super::View;
use super::html::{Switches, escape, swatch};
use crate::facts;
use crate::summary::checkpoint_id;

/// The side panel: what is shown, which methods, where to go.
pub(super) fn panel(
    page: &mut String,
    views: &[View<'_, '_>],
    switches: &mut Switches,
    with_disagreements: bool,
) {
    page.push_str(
        "<aside class=\"side\" aria-label=\"View and methods\">\n<button type=\"button\" class=\"side-toggle\" aria-expanded=\"false\" \
         aria-controls=\"panel\">View and methods</button>\n<div id=\"panel\">\n",
    );
    view_switches(page, views, switches);
    methods(page, views);
    sections(page, views, with_disagreements);
    page.push_str("</div>\n</aside>\n");
}

/// Which experiment, which weights, which figures beside ours: where there is a choice.
fn view_switches(page: &mut String, views: &[View<'_, '_>], switches: &mut Switches) {
    if views.len() > 1 {
        let options: Vec<(String, String)> = views
            .iter()
            .map(|view| {
                let own = view.group.experiment;
                let alike = views.iter().filter(|other| other.group.experiment == own);
                let name = match (own, alike.count()) {
                    ("", _) => facts::title(view.group),
                    (_, 1) => own.to_owned(),
                    // experiments of one name differ in what they train
                    _ => format!("{own}: {}", facts::title(view.group)),
                };
                (view.index.to_string(), name)
            })
            .collect();
        switches.write_column(page, "group", "Experiment", &options);
    }
    let checkpoints: BTreeSet<Checkpoint> = views
        .iter()
        .flat_map(|view| view.group.checkpoints.iter().copied())
        .collect();
    if checkpoints.len() > 1 {
        let options: Vec<(String, String)> = checkpoints
            .iter()
            .map(|&checkpoint| {
                let name = match checkpoint {
                    Checkpoint::Best => "Best validation",
                    Checkpoint::Final => "Final",
                };
                (checkpoint_id(checkpoint).to_owned(), name.to_owned())
            })
            .collect();
        switches.write(page, "checkpoint", "Weights", &options);
    }
    let paper = views.iter().any(View::has_paper);
    let reproduction = views.iter().any(View::has_reproduction);
    if paper || reproduction {
        let mut options = Vec::new();
        if paper {
            options.push(("paper".to_owned(), "Paper".to_owned()));
        }
        if reproduction {
            options.push(("reproduction".to_owned(), "Reproduction".to_owned()));
        }
        options.push(("nothing".to_owned(), "None".to_owned()));
        switches.write(page, "beside", "Beside our figures", &options);
    }
}

/// Boxes that show or hide the rows.
fn methods(page: &mut String, views: &[View<'_, '_>]) {
    for view in views.iter().filter(|view| view.group.rows.len() > 1) {
        let _ = write!(
            page,
            "<fieldset class=\"methods group\" data-group=\"{}\"{}>\n<legend>Methods</legend>\n<div class=\"all\">\
             <button type=\"button\" data-all=\"on\">All</button><button type=\"button\" data-all=\"off\">None</button></div>\n",
            view.index,
            view.hidden()
        );
        for (i, row) in view.group.rows.iter().enumerate() {
            let _ = writeln!(
                page,
                "<label><input type=\"checkbox\" data-method=\"{i}\" checked>{}<span>{}</span></label>",
                swatch(view.styles[i]),
                escape(row)
            );
        }
        page.push_str("</fieldset>\n");
    }
}

/// Links to the sections.
fn sections(page: &mut String, views: &[View<'_, '_>], with_disagreements: bool) {
    for view in views {
        let _ = writeln!(
            page,
            "<nav class=\"group\" data-group=\"{}\" aria-label=\"Sections\"{}>\n<ul>",
            view.index,
            view.hidden()
        );
        for section in view.sections() {
            let (id, title) = (view.id(section), section.title());
            let _ = writeln!(page, "<li><a href=\"#{id}\">{title}</a></li>");
        }
        if with_disagreements {
            page.push_str("<li><a href=\"#disagreements\">Paper, code and tables</a></li>\n");
        }
        page.push_str("</ul>\n</nav>\n");
    }
}
