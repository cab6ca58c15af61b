//! The words of a column: classes, groups, levels of a categorical covariate.

use std::collections::HashMap;

/// Words, numbered in the order in which they first appear.
#[derive(Debug, Default)]
pub struct Levels {
    known: HashMap<String, usize>,
}

impl Levels {
    /// The number of a word; a new word gets the next one.
    pub fn code(&mut self, word: &str) -> usize {
        if let Some(&code) = self.known.get(word) {
            return code;
        }
        let next = self.known.len();
        self.known.insert(word.to_owned(), next);
        next
    }

    /// The words, sorted, as numbers if all are numbers; and for each number its word's new place.
    pub fn sorted(self) -> (Vec<String>, Vec<usize>) {
        let mut found: Vec<(String, usize)> = self.known.into_iter().collect();
        let as_number = |word: &str| word.parse::<f64>().ok().filter(|x| x.is_finite());
        if found.iter().all(|(word, _)| as_number(word).is_some()) {
            found.sort_by(|a, b| {
                let order = as_number(&a.0).partial_cmp(&as_number(&b.0));
                order
                    .unwrap_or(std::cmp::Ordering::Equal)
                    .then(a.0.cmp(&b.0))
            });
        } else {
            found.sort();
        }
        let mut places = vec![0; found.len()];
        for (place, (_, code)) in found.iter().enumerate() {
            places[*code] = place;
        }
        (found.into_iter().map(|(word, _)| word).collect(), places)
    }
}
