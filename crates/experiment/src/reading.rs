//! TOML into configs, with errors that speak of keys and of what they take:
//! `optimizer.lr: expected a number, found "fast"`.
//!
//! The parser speaks of the types it fills, and of the section where a key is read by one of
//! several: what it says is translated here, and the key is looked for. No config has to help.

use serde::de::{DeserializeOwned, Unexpected};
use toml::{Table, Value};

/// What is wrong, and where.
struct Problem {
    path: Vec<String>,
    text: String,
}

impl Problem {
    /// `a.b: the problem`; layers are told by number and name, as where they are built.
    fn describe(&self, root: &Table) -> String {
        let mut words = Vec::new();
        let mut place = String::new();
        for (at, word) in self.path.iter().enumerate() {
            words.push(word.clone());
            let is_layer = at > 0 && self.path[at - 1] == LAYERS;
            let list = at_in(root, &self.path[..at]).and_then(Value::as_array);
            if let (true, Some(list), Ok(number)) = (is_layer, list, word.parse::<usize>()) {
                words.pop();
                let layer = layer_name(list, number);
                place = format!("{}: layer {}{layer}: ", words.join("."), number + 1);
                words.clear();
            }
        }
        match words.join(".") {
            path if path.is_empty() => format!("{place}{}", self.text),
            path => format!("{place}{path}: {}", self.text),
        }
    }
}

/// The key of a list of layers.
const LAYERS: &str = "layers";

/// What a layer is called, as far as the list says: ` (conv2)`.
fn layer_name(list: &[Value], number: usize) -> String {
    let word = |layer: &Value, key| layer.get(key).and_then(Value::as_str).map(str::to_owned);
    let kind = |layer: &Value| word(layer, "layer");
    let Some(layer) = list.get(number) else {
        return String::new();
    };
    let numbered = kind(layer).map(|own| {
        let before = list[..=number].iter();
        let count = before.filter(|layer| kind(layer).as_ref() == Some(&own));
        format!("{own}{}", count.count())
    });
    let name = word(layer, "name").or(numbered);
    name.map_or_else(String::new, |name| format!(" ({name})"))
}

/// The config in a text; a problem names line and key. All configs are read from tables: compiled
/// for texts as well, they took a fifth of the code of this crate.
pub(crate) fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    from_table(&table(text)?, Some(text))
}

/// A text as a table; where it is no TOML, the parser shows the place.
pub(crate) fn table(text: &str) -> Result<Table, String> {
    text.parse().map_err(|error| cut(&told(&error)))
}

/// What the parser says, with the line it is about unless that one is too long to be read.
fn told(error: &toml::de::Error) -> String {
    let text = error.to_string();
    let place = text.lines().next().unwrap_or_default();
    if text.lines().all(|line| line.chars().count() <= LONGEST) {
        return text.trim_end().into();
    }
    format!("{place}\n{}", error.message())
}

/// Most letters of a line of a message about a config.
const LONGEST: usize = 500;

/// A message without the middle of lines that are too long: files may have names and values of
/// megabytes.
pub fn shortened(text: &str, longest: usize) -> String {
    let short = |line: &str| {
        let count = line.chars().count();
        if count <= longest {
            return line.to_owned();
        }
        let start: String = line.chars().take(longest * 3 / 5).collect();
        let end: String = line.chars().skip(count - longest / 5).collect();
        format!("{start} … {end}")
    };
    text.lines().map(short).collect::<Vec<_>>().join("\n")
}

fn cut(text: &str) -> String {
    shortened(text, LONGEST)
}

/// The config in a table; a problem names the key, and the line if the text of the table is given.
pub(crate) fn from_table<T: DeserializeOwned>(
    table: &Table,
    text: Option<&str>,
) -> Result<T, String> {
    T::deserialize(table.clone()).map_err(|error| {
        let Some(problem) = explain(&|table| T::deserialize(table).err(), table) else {
            return cut(&told(&error));
        };
        let line = text.and_then(|text| line(text, &problem.path));
        let line = line.map_or(String::new(), |line| format!("line {line}: "));
        cut(&format!("{line}{}", problem.describe(table)))
    })
}

/// The first list that stands where a table belongs. The parser takes its entries for the keys in
/// the order of the type; `whole` is the config that came of it.
pub(crate) fn list_for_table(given: &Table, whole: &Table) -> Option<String> {
    given
        .iter()
        .find_map(|(key, value)| match (value, whole.get(key)) {
            (Value::Array(_), Some(Value::Table(_))) => {
                Some(format!("{key}: expected {TABLE}, found a list"))
            }
            (Value::Table(given), Some(Value::Table(whole))) => {
                list_for_table(given, whole).map(|problem| format!("{key}.{problem}"))
            }
            _ => None,
        })
}

const TABLE: &str = "a section with keys";

/// Reads a table for the error alone. What explains errors is compiled once, not for every type.
type Attempt<'a> = &'a dyn Fn(Table) -> Option<toml::de::Error>;

/// What the parser says of a table, without its lines about the place, and the place.
fn complaint(attempt: Attempt<'_>, table: &Table) -> Option<(String, String)> {
    let error = attempt(table.clone())?;
    let whole = error.to_string();
    let place = whole.rsplit_once("\nin `").map_or("", |(_, place)| place);
    let place = place.trim_end().trim_end_matches('`').to_owned();
    Some((error.message().to_owned(), place))
}

/// What is wrong with a table, in words of TOML.
fn explain(attempt: Attempt<'_>, table: &Table) -> Option<Problem> {
    let (message, place) = complaint(attempt, table)?;
    let root = Value::Table(table.clone());
    let mut path = path(attempt, &root, &place, &message);
    if let Some(list) = section_as_list(attempt, &root, &path) {
        path.truncate(list);
        let text = format!("expected {TABLE}, found a list");
        return Some(Problem { path, text });
    }
    if let Some(key) = quoted(&message, "missing field ") {
        path.push(key.into());
        let text = "is missing".into();
        return Some(Problem { path, text });
    }
    if let Some(key) = quoted(&message, "unknown field ") {
        path.push(key.into());
        let text = match names(&message) {
            known if known.is_empty() => "no such key".into(),
            known => format!("no such key; others are {}", known.join(", ")),
        };
        return Some(Problem { path, text });
    }
    // the value may be deeper than the place; equal ones are told apart by changing them
    let mut found = at(&root, &path)?;
    if expected(&message, found).is_none() {
        let mut below = matching(&message, found);
        found = below.first().map_or(found, |(_, value)| *value);
        if below.len() > 1 {
            let place = |words: &[String]| [&path, words].concat();
            below.retain(|(words, _)| matters(attempt, &root, &place(words), &message));
        }
        if let [(words, _)] = &below[..] {
            path.extend(words.iter().cloned());
        }
    }
    let Some(expected) = expected(&message, found) else {
        let text = message;
        return Some(Problem { path, text });
    };
    let wanted = match expected {
        // one of several words: which ones is said of a word
        "variant identifier" | "string only" => words(attempt, &root, &path).unwrap_or(TEXT.into()),
        _ if message.starts_with("unknown variant") => one_of(&names(&message)),
        expected => wanted(expected).into(),
    };
    let text = format!("expected {wanted}, found {}", shown(found));
    Some(Problem { path, text })
}

const TEXT: &str = "a text in quotes";

/// What a type of the parser is called in a config.
fn wanted(expected: &str) -> &str {
    match expected {
        "f64" | "f32" => "a number",
        "u64" | "u32" | "usize" => "a whole number from 0 on",
        "a boolean" => "true or false",
        "a string" => TEXT,
        "a sequence" => "a list in square brackets",
        "a map" => TABLE,
        _ if expected.starts_with("struct ") || expected.contains(" enum ") => TABLE,
        other => other,
    }
}

/// A value for a message.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".into(),
        Value::Table(_) => "a section".into(),
        Value::String(text) => format!("{text:?}"),
        value => value.to_string(),
    }
}

/// What the message expects in the place of this value, if it is about such a value.
fn expected<'a>(message: &'a str, value: &Value) -> Option<&'a str> {
    let unexpected = match value {
        Value::String(word) => {
            let variant = format!("unknown variant `{word}`, expected ");
            if let Some(expected) = message.strip_prefix(&variant) {
                return Some(expected);
            }
            Unexpected::Str(word)
        }
        Value::Integer(number) => Unexpected::Signed(*number),
        Value::Float(number) => Unexpected::Float(*number),
        Value::Boolean(truth) => Unexpected::Bool(*truth),
        Value::Array(_) => Unexpected::Seq,
        Value::Table(_) | Value::Datetime(_) => Unexpected::Map,
    };
    if let (Value::Array(_), Some(rest)) = (value, message.strip_prefix("invalid length ")) {
        return rest.split_once(", expected ").map(|(_, expected)| expected);
    }
    let rest = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))?;
    let rest = match rest.strip_prefix("unit variant") {
        Some(rest) if !matches!(value, Value::Array(_) | Value::Table(_)) => rest,
        _ => rest.strip_prefix(&unexpected.to_string())?,
    };
    rest.strip_prefix(", expected ")
}

/// The values inside this one that the message may be about.
fn matching<'a>(message: &str, value: &'a Value) -> Vec<(Vec<String>, &'a Value)> {
    let inside: Vec<(String, &Value)> = match value {
        Value::Table(table) => table
            .iter()
            .map(|(key, value)| (key.clone(), value))
            .collect(),
        Value::Array(list) => {
            let numbered = list.iter().enumerate();
            numbered.map(|(n, value)| (n.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    let mut all = Vec::new();
    for (key, value) in inside {
        if expected(message, value).is_some() {
            all.push((vec![key.clone()], value));
        }
        for (below, value) in matching(message, value) {
            all.push(([vec![key.clone()], below].concat(), value));
        }
    }
    all
}

/// Whether the complaint is about the value at this place: it follows when the value changes.
fn matters(attempt: Attempt<'_>, root: &Value, path: &[String], message: &str) -> bool {
    let changed = at(root, path).and_then(|value| {
        let mut other = value.clone();
        match &mut other {
            Value::String(text) => text.push('?'),
            Value::Integer(number) => *number = number.wrapping_sub(1),
            Value::Float(number) => *number += 0.5,
            Value::Boolean(truth) => *truth = !*truth,
            _ => return None,
        }
        let mut root = root.clone();
        *at_mut(&mut root, path)? = other.clone();
        let (found, _) = complaint(attempt, root.as_table()?)?;
        Some(expected(&found, &other)? == expected(message, value)?)
    });
    changed == Some(true)
}

/// How much of the path leads to a list that stands where a section belongs: a key that takes lists
/// refuses an empty section.
fn section_as_list(attempt: Attempt<'_>, root: &Value, path: &[String]) -> Option<usize> {
    (1..path.len()).find(|&length| {
        let mut root = root.clone();
        match at_mut(&mut root, &path[..length]) {
            Some(place @ Value::Array(_)) => *place = Value::Table(Table::new()),
            _ => return false,
        }
        let found = root.as_table().and_then(|table| complaint(attempt, table));
        found.is_none_or(|(message, _)| message != "invalid type: map, expected a sequence")
    })
}

/// The words that a key takes, found by giving it one that nothing is called.
fn words(attempt: Attempt<'_>, root: &Value, path: &[String]) -> Option<String> {
    let mut root = root.clone();
    *at_mut(&mut root, path)? = Value::String(String::new());
    let (message, _) = complaint(attempt, root.as_table()?)?;
    let known = names(message.strip_prefix("unknown variant ``, ")?);
    Some(one_of(&known))
}

fn one_of(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    match &quoted[..] {
        [name] => name.clone(),
        names => format!("one of {}", names.join(", ")),
    }
}

/// The name in backquotes after these words.
fn quoted<'a>(message: &'a str, before: &str) -> Option<&'a str> {
    let rest = message.strip_prefix(before)?.strip_prefix('`')?;
    rest.split_once('`').map(|(name, _)| name)
}

/// The names in backquotes after `expected`.
fn names(message: &str) -> Vec<&str> {
    let list = message
        .rsplit_once("expected ")
        .map_or("", |(_, list)| list);
    list.split('`').skip(1).step_by(2).collect()
}

/// The place with the numbers of list entries, which the parser leaves out: a list that is cut
/// before the entry has no such problem.
fn path(attempt: Attempt<'_>, root: &Value, place: &str, message: &str) -> Vec<String> {
    let mut path: Vec<String> = Vec::new();
    let mut words = place.split('.').filter(|word| !word.is_empty());
    loop {
        if let Some(Value::Array(list)) = at(root, &path) {
            let has_problem = |length: usize| {
                let mut root = root.clone();
                if let Some(Value::Array(list)) = at_mut(&mut root, &path) {
                    list.truncate(length);
                }
                let found = root.as_table().and_then(|table| complaint(attempt, table));
                found.is_some_and(|(found, _)| found == message)
            };
            // the first entry with which it is there, found by halving: what follows it is not read
            let (mut without, mut with) = (0, list.len());
            while without < with {
                let middle = without + (with - without) / 2;
                if has_problem(middle) {
                    with = middle;
                } else {
                    without = middle + 1;
                }
            }
            if with > 0 && has_problem(with) {
                path.push((with - 1).to_string());
            }
        }
        match words.next() {
            Some(word) => path.push(word.to_owned()),
            None => return path,
        }
    }
}

fn at_in<'a>(root: &'a Table, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    at(root.get(first)?, rest)
}

fn at<'a>(root: &'a Value, path: &[String]) -> Option<&'a Value> {
    path.iter().try_fold(root, |place, word| match place {
        Value::Array(list) => list.get(word.parse::<usize>().ok()?),
        place => place.get(word.as_str()),
    })
}

fn at_mut<'a>(root: &'a mut Value, path: &[String]) -> Option<&'a mut Value> {
    path.iter().try_fold(root, |place, word| match place {
        Value::Array(list) => list.get_mut(word.parse::<usize>().ok()?),
        place => place.get_mut(word.as_str()),
    })
}

/// The line of a key, or of the section that lacks it.
fn line(text: &str, path: &[String]) -> Option<usize> {
    use toml::de::{DeTable, DeValue};
    let root = DeTable::parse(text).ok()?;
    let (mut byte, mut place) = (None, &DeValue::Table(root.into_inner()));
    for word in path {
        let (span, value) = match place {
            DeValue::Table(table) => match table.get_key_value(word.as_str()) {
                Some((key, value)) => (key.span(), value),
                None => break,
            },
            DeValue::Array(list) => {
                let entry = list.get(word.parse::<usize>().ok()?)?;
                (entry.span(), entry)
            }
            _ => break,
        };
        byte = Some(span.start);
        place = value.get_ref();
    }
    let before = text.get(..byte?)?;
    Some(before.matches('\n').count() + 1)
}
