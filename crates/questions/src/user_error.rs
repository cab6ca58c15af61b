//! Mistakes that the person at the keyboard can repair: exit code 2 and one clear message.

use std::{fmt, io};

use plot::text::printable_lines;

/// A mistake in the arguments or in the data, as opposed to a failure of the program or of the
/// machine.
#[derive(Debug)]
pub struct UserError(String);

impl UserError {
    /// An error with this message: lower case, no full stop. Control characters, which data may
    /// hold, are written out.
    pub fn new(message: impl Into<String>) -> Self {
        Self(printable_lines(&message.into()).into_owned())
    }
}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UserError {}

/// The reason of an I/O error in plain words.
pub fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        _ => format!("cannot be read: {error}"),
    }
}

/// The entry of `known` that differs from `word` in the fewest letters, if it is near enough to be
/// meant.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let limit = length.div_ceil(2).min(3);
    known
        .into_iter()
        .map(|candidate| (edit_distance(word, candidate), candidate))
        // a word with every letter replaced is another word
        .filter(|&(distance, candidate)| {
            distance <= limit && distance < length.max(candidate.chars().count())
        })
        .min_by_key(|&(distance, _)| distance)
        .map(|(_, candidate)| candidate)
}

/// Letters to insert, delete or replace to get from one word to the other; case is ignored.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.to_lowercase().chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

/// Names for a message: quoted, comma separated, the tail of a long list counted.
pub fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 20;
    let quoted: Vec<String> = names
        .into_iter()
        .map(|name| format!("\"{name}\""))
        .collect();
    if quoted.len() > SHOWN {
        let rest = quoted.len() - SHOWN;
        format!("{} and {rest} more", quoted[..SHOWN].join(", "))
    } else {
        quoted.join(", ")
    }
}

/// "unknown `what` ...": what exists, and the nearest of it.
pub fn unknown<'a>(
    what: &str,
    word: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
) -> String {
    let mut message = format!("unknown {what} \"{word}\"");
    if let Some(candidate) = nearest(word, known.clone()) {
        message.push_str(&format!(", did you mean \"{candidate}\"?"));
    }
    message.push_str(&format!(" (there is {})", list(known)));
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_insertions_deletions_and_replacements() {
        assert_eq!(edit_distance("height", "height"), 0);
        assert_eq!(edit_distance("heigt", "height"), 1);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
    }

    #[test]
    fn a_near_name_is_suggested_and_a_far_one_is_not() {
        let known = ["height", "weight", "age"];
        assert_eq!(nearest("heigth", known), Some("height"));
        assert_eq!(nearest("zzz", known), None);
        assert_eq!(nearest("p", ["x", "rate"]), None);
        assert_eq!(nearest("x", ["xx", "y"]), Some("xx"));
        assert_eq!(
            unknown("column", "agee", known),
            "unknown column \"agee\", did you mean \"age\"? (there is \"height\", \"weight\", \"age\")"
        );
    }
}
