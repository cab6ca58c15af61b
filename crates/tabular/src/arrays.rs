//! Arrays from files of any framework: NPY, NPZ and CSV, told apart by their ending or, without a
//! known one, their first bytes.
//!
//! An array in an NPZ file is named behind a colon, `file.npz:name`; without a name it is the only
//! one there, or the one called like the option. A CSV file may have a header or not. A first line
//! 0, 1, 2, ... is what some programs write as the header of unnamed columns; with three columns
//! and more it is taken as one, with fewer it may be data, and the caller decides.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use datasets::formats::npy::{self, Array, Npz, Values};
use questions::user_error::{UserError, list, unknown};

use crate::csv::{Table, describe};

/// An array and the name of its file.
#[derive(Debug)]
pub struct Loaded {
    /// As it was given.
    pub name: String,
    array: Array,
    /// The first line of a CSV file reads `0` or `0,1`, like the header of unnamed columns.
    doubtful: bool,
}

/// Numbers as they are in the file.
#[derive(Debug, Clone, PartialEq)]
pub enum Floats {
    /// From `f16` and `f32`.
    Single(Vec<f32>),
    /// From everything else.
    Double(Vec<f64>),
}

impl Loaded {
    /// Reads an array; `usual` is its name in an NPZ file that does not say.
    ///
    /// # Errors
    /// The file cannot be read or is malformed, or the array is not in it.
    pub fn read(place: &str, usual: &str) -> Result<Self, UserError> {
        let (path, array) = split_name(place);
        let refuse = |error: datasets::Error| UserError::new(evaluation::reason(&error));
        let (array, doubtful) = match (Kind::of(path)?, array) {
            (Kind::Npy, None) => (npy::open(path).map_err(refuse)?, false),
            (Kind::Npz, name) => (read_npz(path, name, usual)?, false),
            (Kind::Csv, None) => read_csv(path)?,
            (_, Some(name)) => {
                let message =
                    format!("{path}: only an NPZ file has arrays with names like \"{name}\"");
                return Err(UserError::new(message));
            }
        };
        let name = place.to_owned();
        Ok(Self {
            name,
            array,
            doubtful,
        })
    }

    /// Whether the first row may have been meant as a header.
    pub fn is_doubtful(&self) -> bool {
        self.doubtful
    }

    /// Whether a first line of whole numbers stands above numbers with fractions, as a header does:
    /// programs that write such numbers write `0.0` for a zero among them.
    pub fn stands_out(&self) -> bool {
        let values = self.array.to_f64();
        let width = values.len() / self.rows().max(1);
        values.iter().skip(width).any(|value| value.fract() != 0.0)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.array.shape().first().copied().unwrap_or(1)
    }

    /// Without its first row, which is a header after all.
    pub fn without_header(self) -> Self {
        let (mut shape, values) = self.array.into_parts();
        let width: usize = shape.iter().skip(1).product();
        let Values::Doubles(mut numbers) = values else {
            unreachable!("only CSV files are doubtful, and their numbers are doubles");
        };
        numbers.drain(..width);
        shape[0] -= 1;
        let array = Array::new(shape, Values::Doubles(numbers)).expect("one row less");
        Self {
            array,
            doubtful: false,
            ..self
        }
    }

    /// Numbers `[n, columns]`, and the number of columns.
    ///
    /// # Errors
    /// The array has another number of dimensions.
    pub fn matrix(self, what: &str) -> Result<(Floats, usize), UserError> {
        let &[_, columns] = self.array.shape() else {
            return Err(self.complain(&format!("{what} need the shape [images, classes]")));
        };
        Ok((floats(self.array), columns))
    }

    /// Numbers `[images, classes, classes]`, a square matrix for each image.
    ///
    /// # Errors
    /// The array has another shape.
    pub fn squares(self, images: usize, classes: usize) -> Result<Vec<f64>, UserError> {
        if self.array.shape() != [images, classes, classes] {
            let need = format!("Gram matrices need the shape [{images}, {classes}, {classes}]");
            return Err(self.complain(&need));
        }
        Ok(self.array.to_f64())
    }

    /// One number per row.
    ///
    /// # Errors
    /// There are several.
    pub fn column(self, what: &str) -> Result<Floats, UserError> {
        self.check_column(what)?;
        Ok(floats(self.array))
    }

    /// One whole number per row.
    ///
    /// # Errors
    /// There are several, or one is not whole.
    pub fn whole_column(self, what: &str) -> Result<Vec<i64>, UserError> {
        self.check_column(what)?;
        self.array.to_integers().ok_or_else(|| {
            let values = self.array.to_f64();
            let bad = values
                .iter()
                .position(|v| v.fract() != 0.0 || v.abs() >= 9e15);
            let row = bad.unwrap_or(0);
            let value = values[row];
            let name = &self.name;
            UserError::new(format!(
                "{name}: row {row}: {value} is not a whole number; {what} are"
            ))
        })
    }

    fn check_column(&self, what: &str) -> Result<(), UserError> {
        match self.array.shape() {
            [_] | [_, 1] => Ok(()),
            _ => Err(self.complain(&format!("{what} need the shape [images], one number each"))),
        }
    }

    fn complain(&self, need: &str) -> UserError {
        UserError::new(format!(
            "{}: {need}, found {:?}",
            self.name,
            self.array.shape()
        ))
    }
}

fn floats(array: Array) -> Floats {
    match array.into_parts() {
        (_, Values::Singles(values)) => Floats::Single(values),
        (_, Values::Doubles(values)) => Floats::Double(values),
        (shape, values) => {
            let array = Array::new(shape, values).expect("the parts of an array make an array");
            Floats::Double(array.to_f64())
        }
    }
}

/// Path and, behind `.npz:`, the name of an array.
fn split_name(place: &str) -> (&str, Option<&str>) {
    let lower = place.to_ascii_lowercase();
    match lower.rfind(".npz:") {
        Some(at) => (&place[..at + 4], Some(&place[at + 5..])),
        None => (place, None),
    }
}

enum Kind {
    Npy,
    Npz,
    Csv,
}

impl Kind {
    /// What the ending says, else the first bytes. Standard input is CSV.
    fn of(path: &str) -> Result<Self, UserError> {
        if path == "-" {
            return Ok(Self::Csv);
        }
        let fail = |error| UserError::new(format!("{path}: {}", describe(&error)));
        let file = File::open(path).map_err(fail)?;
        if file.metadata().map_err(fail)?.is_dir() {
            return Err(UserError::new(format!("{path}: is a folder, not a file")));
        }
        let ending = Path::new(path)
            .extension()
            .and_then(|ending| ending.to_str());
        match ending.map(str::to_ascii_lowercase).as_deref() {
            Some("npy") => return Ok(Self::Npy),
            Some("npz") => return Ok(Self::Npz),
            Some("csv") => return Ok(Self::Csv),
            _ => {}
        }
        let mut start = Vec::new();
        file.take(6).read_to_end(&mut start).map_err(fail)?;
        Ok(match &start[..] {
            b"\x93NUMPY" => Self::Npy,
            [b'P', b'K', 3, 4, ..] => Self::Npz,
            _ => Self::Csv,
        })
    }
}

fn read_npz(path: &str, name: Option<&str>, usual: &str) -> Result<Array, UserError> {
    let mut file = Npz::open(path).map_err(|error| UserError::new(evaluation::reason(&error)))?;
    let names: Vec<String> = file.names().map(str::to_owned).collect();
    let known = || names.iter().map(String::as_str);
    let name = match (name, &names[..]) {
        (Some(name), _) => name,
        (None, [only]) => only,
        (None, several) if several.iter().any(|name| name == usual) => usual,
        (None, []) => return Err(UserError::new(format!("{path}: there is no array in it"))),
        (None, _) => {
            let message = format!(
                "{path}: choose an array, like {path}:{} (there is {})",
                names[0],
                list(known())
            );
            return Err(UserError::new(message));
        }
    };
    let array = file
        .array(name)
        .map_err(|error| UserError::new(format!("{path}:{name}: {error}")))?;
    array.ok_or_else(|| UserError::new(format!("{path}: {}", unknown("array", name, known()))))
}

fn read_csv(path: &str) -> Result<(Array, bool), UserError> {
    let mut table = Table::open_matrix(Path::new(path))?;
    let columns = table.header().len();
    let mut like_header = table.is_unnamed();
    let mut values = Vec::new();
    table.for_each(|row| {
        for column in 0..columns {
            if like_header && values.len() < columns {
                like_header = row.text(column)? == column.to_string();
            }
            values.push(row.number(column)?);
        }
        Ok(())
    })?;
    if like_header && columns > 2 {
        values.drain(..columns);
        like_header = false;
    }
    let shape = vec![values.len() / columns, columns];
    let array = Array::new(shape, Values::Doubles(values)).expect("whole rows were read");
    Ok((array, like_header))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_behind_the_ending() {
        assert_eq!(split_name("a/b.npz:probs"), ("a/b.npz", Some("probs")));
        assert_eq!(split_name("C:\\b.NPZ:x:y"), ("C:\\b.NPZ", Some("x:y")));
        assert_eq!(split_name("b.npz"), ("b.npz", None));
        assert_eq!(split_name("b.npy:x"), ("b.npy:x", None));
    }
}
