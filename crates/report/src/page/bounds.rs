//! The section *What is possible*: scores of rows whose weights may move, and their sets of
//! classes.

use std::fmt::Write as _;

use evaluation::Scores;
use evaluation::record::{Checkpoint, Evaluation};
use evaluation::results::{Bounds, ClassSets, SetLevel, Shown};

use super::View;
use super::html::{Switches, escape, swatch};
use super::results::{Place, definitions_of};
use crate::facts::thousands;
use crate::names;
use crate::summary::{Table, checkpoint_id, checkpoint_name, three};

impl View<'_, '_> {
    pub(super) fn bounds(&self, page: &mut String, switches: &mut Switches) {
        page.push_str(
            "<p class=\"lead\">Rows whose weights may move: around the weights that training found lies a normal possibility function, \
             and the logits are taken as linear in the weights. The scores say how sure an answer is; the figures are areas under the \
             ROC curve, all on the same images.</p>\n",
        );
        self.tables(page, &[None], true);
        if !self.group.sets.is_empty() {
            self.tables_of_sets(page, switches, true);
        }
        definitions_of(page, &[("Scores", Scores::METRICS)]);
        self.pictures(page);
        self.sets(page);
    }

    /// The surest and the most doubtful images of every set, with what is possible of them.
    fn pictures(&self, page: &mut String) {
        let Some(&checkpoint) = self.group.checkpoints.first() else {
            return;
        };
        let rows = self.group.rows.iter().filter_map(|row| {
            let mut found = self.group.evaluations(row, checkpoint);
            let (_, found) = found.find(|(_, evaluation)| {
                let bounds = evaluation.bounds.as_ref();
                bounds.is_some_and(|bounds| !bounds.shown.is_empty())
            })?;
            Some((*row, found))
        });
        let rows: Vec<(&str, &Evaluation)> = rows.collect();
        if rows.is_empty() {
            return;
        }
        page.push_str(
            "<h3>Pictures</h3>\n<p class=\"lead\">The images of each set whose answer has the highest and the lowest lower \
             probability, of the first seed. A bar goes from the lower to the upper probability of a class, the dot is its \
             probability.</p>\n",
        );
        for (row, evaluation) in rows {
            let _ = writeln!(page, "<details><summary>{}</summary>", escape(row));
            let names = evaluation.by_class.as_ref();
            let names = names.map_or(&[][..], |by_class| &by_class.names);
            let test = evaluation.bounds.iter().map(|bounds| ("Test set", bounds));
            let others = evaluation.out_of_domain.iter().filter_map(|out| {
                let bounds = out.bounds.as_ref()?;
                Some((names::dataset(&out.dataset), bounds))
            });
            for (set, bounds) in test.chain(others) {
                let _ = writeln!(page, "<h4>{}</h4>\n<div class=\"mistakes\">", escape(set));
                for shown in &bounds.shown {
                    picture(page, shown, names);
                }
                page.push_str("</div>\n");
            }
            page.push_str("</details>\n");
        }
    }

    /// Sets of classes: coverage and size by level, and class by class.
    fn sets(&self, page: &mut String) {
        let mut all = self.evaluations().filter_map(|e| e.bounds.as_ref());
        let Some(first) = all.find_map(|bounds| bounds.sets.first()) else {
            return;
        };
        let _ = writeln!(
            page,
            "<h3>Sets of classes</h3>\n<p class=\"lead\">Sets that hold the label with probability at least 1 - α, by split \
             conformal prediction. Every second test image with bounds, {} of them, calibrates, and the other {} measure: nothing \
             else has seen either. In a cell, the share of sets that hold the label, and how many classes a set has on average{}. \
             Classes are ranked by their possibility, by their probability, or by the probability of all classes at least as \
             probable (APS, without randomization).</p>",
            thousands(first.calibration),
            thousands(first.images),
            if self.has_seeds() {
                ", all seeds together"
            } else {
                ""
            }
        );
        for (i, &checkpoint) in self.group.checkpoints.iter().enumerate() {
            let rows: Vec<(usize, Vec<ClassSets>)> = (self.group.rows.iter().enumerate())
                .map(|(index, row)| (index, self.pooled(row, checkpoint)))
                .filter(|(_, sets)| !sets.is_empty())
                .collect();
            if rows.is_empty() {
                continue;
            }
            let hidden = if i > 0 { " hidden" } else { "" };
            let (id, name) = (checkpoint_id(checkpoint), checkpoint_name(checkpoint));
            let _ = writeln!(
                page,
                "<div class=\"results-table\" data-checkpoint=\"{id}\"{hidden}>"
            );
            self.set_table(page, &format!("Coverage and size of sets, {name}"), &rows);
            for (index, sets) in &rows {
                let row = escape(self.group.rows[*index]);
                let _ = writeln!(page, "<details><summary>{row}: class by class</summary>");
                for family in sets {
                    by_class(page, family);
                }
                page.push_str("</details>\n");
            }
            page.push_str("</div>\n");
        }
    }

    fn set_table(&self, page: &mut String, caption: &str, rows: &[(usize, Vec<ClassSets>)]) {
        let levels = rows[0].1[0].levels.iter();
        let heads: Vec<String> = levels.map(|level| format!("α = {}", level.alpha)).collect();
        open_table(
            page,
            caption,
            "Method</th><th scope=\"col\">Ranked by",
            &heads,
        );
        for (index, sets) in rows {
            for family in sets {
                let _ = write!(
                    page,
                    "<tr data-row=\"{index}\"><th scope=\"row\"><span class=\"name\">{}{}</span></th><td>{}</td>",
                    swatch(self.styles[*index]),
                    escape(self.group.rows[*index]),
                    escape(&family.contour)
                );
                for level in &family.levels {
                    cell(page, family.images, level.covered, level.classes);
                }
                page.push_str("</tr>\n");
            }
        }
        page.push_str("</tbody>\n</table>\n</div>\n");
    }

    /// The sets of a row, all seeds together, as far as they are about the same levels and classes.
    fn pooled(&self, row: &str, checkpoint: Checkpoint) -> Vec<ClassSets> {
        let mut pooled: Vec<ClassSets> = Vec::new();
        let found = self.group.evaluations(row, checkpoint);
        let families = found.filter_map(|(_, evaluation)| evaluation.bounds.as_ref());
        for family in families.flat_map(|bounds| &bounds.sets) {
            let mut known = pooled.iter_mut();
            match known.find(|sum| sum.contour == family.contour) {
                Some(sum) if is_alike(sum, family) => add(sum, family),
                Some(_) => {}
                None => pooled.push(family.clone()),
            }
        }
        pooled.retain(|family| !family.levels.is_empty() && family.images > 0);
        pooled
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

/// Whether two families can be added up.
fn is_alike(a: &ClassSets, b: &ClassSets) -> bool {
    let alike =
        |(a, b): (&SetLevel, &SetLevel)| a.alpha == b.alpha && a.by_class.len() == b.by_class.len();
    a.levels.len() == b.levels.len() && a.levels.iter().zip(&b.levels).all(alike)
}

fn add(sum: &mut ClassSets, more: &ClassSets) {
    sum.calibration += more.calibration;
    sum.images += more.images;
    for (sum, more) in sum.levels.iter_mut().zip(&more.levels) {
        sum.covered += more.covered;
        sum.classes += more.classes;
        for (sum, more) in sum.by_class.iter_mut().zip(&more.by_class) {
            *sum = (sum.0 + more.0, sum.1 + more.1, sum.2 + more.2);
        }
    }
}

/// A table up to its first row.
fn open_table(page: &mut String, caption: &str, first: &str, heads: &[String]) {
    let caption = escape(caption);
    let _ = write!(
        page,
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table: {caption}\">\n<table>\n\
         <caption>{caption}</caption>\n<thead><tr><th scope=\"col\">{first}</th>"
    );
    for head in heads {
        let _ = write!(page, "<th scope=\"col\">{}</th>", escape(head));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
}

/// Coverage and mean size.
fn cell(page: &mut String, images: usize, covered: usize, classes: usize) {
    if images == 0 {
        page.push_str("<td class=\"none\">–</td>");
        return;
    }
    let mean = |sum: usize| sum as f64 / images as f64;
    let _ = write!(
        page,
        "<td>{} <span class=\"deviation\">{:.2}</span></td>",
        three(mean(covered)),
        mean(classes)
    );
}

/// Coverage and size class by class, a line per level.
fn by_class(page: &mut String, family: &ClassSets) {
    let classes = family
        .levels
        .first()
        .map_or(0, |level| level.by_class.len());
    let heads: Vec<String> = (0..classes).map(|class| class.to_string()).collect();
    let caption = format!("Ranked by {}, by the number of the class", family.contour);
    open_table(page, &caption, "Level", &heads);
    for level in &family.levels {
        let _ = write!(page, "<tr><th scope=\"row\">α = {}</th>", level.alpha);
        for &(images, covered, classes) in &level.by_class {
            cell(page, images, covered, classes);
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table>\n</div>\n");
}

/// A picture, its class where it has one, and a bar for each of its most probable classes.
fn picture(page: &mut String, shown: &Shown, names: &[String]) {
    // nothing but a picture inside the page is shown
    if !shown.picture.starts_with("data:image/png;base64,") {
        return;
    }
    let name = |class: usize| {
        let name = names.get(class);
        name.map_or_else(|| class.to_string(), |name| escape(name))
    };
    let _ = write!(
        page,
        "<figure><img src=\"{}\" alt=\"Image {}\" width=\"64\" height=\"64\"><figcaption>",
        escape(&shown.picture),
        shown.image
    );
    if let Some(class) = shown.class {
        let _ = write!(page, "<b>{}</b>", name(class));
    }
    for class in &shown.classes {
        let percent = |p: f64| 100.0 * p.clamp(0.0, 1.0);
        let (low, p, high) = (
            percent(class.lower),
            percent(class.probability),
            percent(class.upper),
        );
        let _ = write!(
            page,
            "<br>{0} <span class=\"deviation\">{1} ≤ {2} ≤ {3}</span>\
             <svg viewBox=\"0 0 104 8\" width=\"104\" height=\"8\" role=\"img\" aria-label=\"{0}: from {1} to {3}\">\
             <line x1=\"2\" y1=\"4\" x2=\"102\" y2=\"4\" stroke=\"currentColor\" stroke-opacity=\".2\"/>\
             <line x1=\"{4:.1}\" y1=\"4\" x2=\"{5:.1}\" y2=\"4\" stroke=\"currentColor\" stroke-width=\"4\" \
             stroke-opacity=\".5\"/><circle cx=\"{6:.1}\" cy=\"4\" r=\"2.5\" fill=\"currentColor\"/></svg>",
            name(class.class),
            three(class.lower),
            three(class.probability),
            three(class.upper),
            2.0 + low,
            2.0 + high,
            2.0 + p,
        );
    }
    page.push_str("</figcaption></figure>\n");
}
