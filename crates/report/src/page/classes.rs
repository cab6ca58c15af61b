//! The section *Classes*: accuracy class by class, what was taken for what, and the surest
//! mistakes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use evaluation::results::{ByClass, Mistake};

use super::View;
use super::html::{escape, swatch};
use crate::summary::{checkpoint_name, three};

/// Most classes whose table and matrix are shown in full.
const SHOWN: usize = 20;
/// Most pairs in a list of confusions, and most columns where not all classes are shown.
const LISTED: usize = 12;

/// A row of the group, all seeds together.
struct Pooled<'a> {
    row: usize,
    names: Vec<String>,
    images: Vec<usize>,
    right: Vec<usize>,
    confused: BTreeMap<(usize, usize), usize>,
    /// Those of the first seed that shows them.
    mistakes: Vec<&'a Mistake>,
}

impl Pooled<'_> {
    fn accuracy(&self, class: usize) -> Option<f64> {
        let images = *self.images.get(class)?;
        (images > 0).then(|| self.right[class] as f64 / images as f64)
    }

    fn name(&self, class: usize) -> String {
        let name = self.names.get(class);
        name.map_or_else(|| class.to_string(), |name| escape(name))
    }
}

impl View<'_, '_> {
    pub(super) fn classes(&self, page: &mut String) {
        let Some(&checkpoint) = self.group.checkpoints.first() else {
            return;
        };
        let rows: Vec<Pooled<'_>> = (self.group.rows.iter().enumerate())
            .filter_map(|(index, row)| {
                let found = self.group.evaluations(row, checkpoint);
                pool(index, found.filter_map(|(_, e)| e.by_class.as_ref()))
            })
            .collect();
        let weights = if self.is_trained() {
            format!(" Weights: {}.", checkpoint_name(checkpoint))
        } else {
            String::new()
        };
        let seeds = if self.has_seeds() {
            ", all seeds together"
        } else {
            ""
        };
        let _ = writeln!(
            page,
            "<p class=\"lead\">Share of the test images of a class that were recognized{seeds}.{weights}</p>"
        );
        self.accuracies(page, &rows);
        for pooled in &rows {
            let _ = writeln!(
                page,
                "<details{}><summary>{} {}</summary>",
                if rows.len() == 1 { " open" } else { "" },
                swatch(self.styles[pooled.row]),
                escape(self.group.rows[pooled.row])
            );
            if pooled.images.len() <= SHOWN {
                matrix(page, pooled);
            } else {
                list(page, pooled);
            }
            mistakes(page, pooled);
            page.push_str("</details>\n");
        }
    }

    /// A table of rows and classes: all of them, or those that are recognized least.
    fn accuracies(&self, page: &mut String, rows: &[Pooled<'_>]) {
        let Some(first) = rows.first() else { return };
        let count = first.images.len();
        let mut classes: Vec<usize> = (0..count).collect();
        if count > SHOWN {
            let mean = |class: usize| {
                let values: Vec<f64> = rows.iter().filter_map(|row| row.accuracy(class)).collect();
                values.iter().sum::<f64>() / values.len() as f64
            };
            classes.retain(|&class| !mean(class).is_nan());
            classes.sort_by(|&a, &b| mean(a).total_cmp(&mean(b)));
            classes.truncate(LISTED);
            let _ = writeln!(
                page,
                "<p class=\"hint\">Of {count} classes those {} that were recognized least.</p>",
                classes.len()
            );
        }
        page.push_str(
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table: accuracy by class\">\n\
             <table>\n<caption>Accuracy by class</caption>\n<thead><tr><th scope=\"col\">Method</th>",
        );
        for &class in &classes {
            let _ = write!(page, "<th scope=\"col\">{}</th>", first.name(class));
        }
        page.push_str("</tr></thead>\n<tbody>\n");
        for row in rows {
            let _ = write!(
                page,
                "<tr data-row=\"{}\"><th scope=\"row\"><span class=\"name\">{}{}</span></th>",
                row.row,
                swatch(self.styles[row.row]),
                escape(self.group.rows[row.row])
            );
            for &class in &classes {
                match row.accuracy(class) {
                    Some(share) => {
                        let _ = write!(page, "<td>{}</td>", three(share));
                    }
                    None => page.push_str("<td class=\"none\">–</td>"),
                }
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</tbody>\n</table>\n</div>\n");
    }
}

/// The results of all seeds of a row, as far as they are about the same classes.
fn pool<'a>(row: usize, found: impl Iterator<Item = &'a ByClass>) -> Option<Pooled<'a>> {
    let mut pooled: Option<Pooled<'a>> = None;
    for part in found {
        // a file may say anything; lists of different lengths say nothing
        if part.images.len() != part.right.len() {
            continue;
        }
        let all = pooled.get_or_insert_with(|| Pooled {
            row,
            names: part.names.clone(),
            images: vec![0; part.images.len()],
            right: vec![0; part.images.len()],
            confused: BTreeMap::new(),
            mistakes: Vec::new(),
        });
        if all.images.len() != part.images.len() {
            continue;
        }
        for (sum, more) in all.images.iter_mut().zip(&part.images) {
            *sum += more;
        }
        for (sum, more) in all.right.iter_mut().zip(&part.right) {
            *sum += more;
        }
        for &(class, predicted, images) in &part.confused {
            *all.confused.entry((class, predicted)).or_default() += images;
        }
        if all.mistakes.is_empty() {
            let shown = part.mistakes.iter().filter(|m| m.picture.is_some());
            all.mistakes = shown.collect();
        }
    }
    pooled
}

/// The confusion matrix: a line per class, a column per prediction.
fn matrix(page: &mut String, pooled: &Pooled<'_>) {
    page.push_str(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table: confusion matrix\">\n\
         <table class=\"matrix\">\n<caption>Images of a class (line) and what they were taken for (column)</caption>\n\
         <thead><tr><th scope=\"col\">Class</th>",
    );
    let classes = pooled.images.len();
    for class in 0..classes {
        let _ = write!(page, "<th scope=\"col\">{}</th>", pooled.name(class));
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for class in 0..classes {
        let _ = write!(page, "<tr><th scope=\"row\">{}</th>", pooled.name(class));
        for predicted in 0..classes {
            let images = match class == predicted {
                true => pooled.right[class],
                false => *pooled.confused.get(&(class, predicted)).unwrap_or(&0),
            };
            let share = 100 * images / pooled.images[class].max(1);
            match (images, class == predicted) {
                (0, _) => page.push_str("<td class=\"none\">0</td>"),
                (_, true) => {
                    let _ = write!(
                        page,
                        "<td class=\"right\" style=\"--s:{share}%\">{images}</td>"
                    );
                }
                (_, false) => {
                    let _ = write!(
                        page,
                        "<td class=\"wrong\" style=\"--s:{share}%\">{images}</td>"
                    );
                }
            }
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table>\n</div>\n");
}

/// The most frequent confusions in words.
fn list(page: &mut String, pooled: &Pooled<'_>) {
    let mut pairs: Vec<_> = pooled.confused.iter().collect();
    pairs.sort_by_key(|&(_, &images)| std::cmp::Reverse(images));
    page.push_str("<p>Most frequent confusions:</p>\n<ol class=\"confusions\">\n");
    for (&(class, predicted), images) in pairs.into_iter().take(LISTED) {
        let of = pooled.images.get(class).unwrap_or(&0);
        let (class, predicted) = (pooled.name(class), pooled.name(predicted));
        let _ = writeln!(
            page,
            "<li>{class} taken for {predicted}: {images} of {of}</li>"
        );
    }
    page.push_str("</ol>\n");
}

/// Pictures of the surest mistakes.
fn mistakes(page: &mut String, pooled: &Pooled<'_>) {
    if pooled.mistakes.is_empty() {
        return;
    }
    page.push_str("<p>The surest mistakes of the first seed:</p>\n<div class=\"mistakes\">\n");
    for mistake in &pooled.mistakes {
        let address = mistake.picture.as_deref().unwrap_or_default();
        let (class, predicted) = (pooled.name(mistake.class), pooled.name(mistake.predicted));
        // nothing but a picture inside the page is shown
        if !address.starts_with("data:image/png;base64,") {
            continue;
        }
        let _ = writeln!(
            page,
            "<figure><img src=\"{}\" alt=\"Test image {}: {class}\" width=\"64\" height=\"64\">\
             <figcaption>{class}, taken for {predicted} <span class=\"deviation\">{}</span></figcaption></figure>",
            escape(address),
            mistake.image,
            three(mistake.probability)
        );
    }
    page.push_str("</div>\n");
}
