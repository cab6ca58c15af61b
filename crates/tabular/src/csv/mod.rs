//! Reading CSV files row by row, with errors that name file, physical line, column and the broken
//! rule.
//!
//! Rules: the first line that is neither blank nor a `#` comment is the header; every later one has
//! as many fields; blanks around a field are trimmed; fields may be quoted, a quote inside doubled;
//! text is UTF-8; no value is missing, or rows with a missing value in a column in use are left
//! out. A file that starts with `PAR1` or whose name ends in `.parquet` is a Parquet file.

mod pages;
mod parquet;
mod quotes;
mod sizes;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fs::{File, Metadata};
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

use ::csv::{ByteRecord, ErrorKind, Position, Reader, ReaderBuilder, Trim};
use plot::text::printable;
use questions::user_error::{self, UserError, list, unknown};

use self::parquet::{MAGIC, Parquet};
use self::quotes::{BadQuote, StrictQuotes};

/// What stands for "no value here"; the empty field does too. Case is ignored.
const MISSING: [&str; 5] = ["na", "n/a", "nan", "null", "?"];

/// How compressed files begin, and what they are called; their tables would be taken for text.
const COMPRESSED: [(&[u8], &str); 4] = [
    (b"\x1f\x8b", "gzip"),
    (b"BZh", "bzip2"),
    (b"\x28\xb5\x2f\xfd", "Zstandard"),
    (b"PK\x03\x04", "ZIP"),
];

/// Bytes taken from the file at a time, at least and at most: no more than it has, for small files
/// are read in less time than a large buffer is made.
const BUFFER: [u64; 2] = [1 << 12, 1 << 18];

/// Where the bytes come from: a file can be read a second time to find a line number, a pipe cannot
/// and is kept.
enum Source {
    File(File),
    Memory(Cursor<Vec<u8>>),
}

/// Whether this is a device other than a terminal: some have no end.
#[cfg(unix)]
fn is_endless(file: &File, metadata: &Metadata) -> bool {
    use std::io::IsTerminal;
    use std::os::unix::fs::FileTypeExt;
    metadata.file_type().is_char_device() && !file.is_terminal()
}

#[cfg(not(unix))]
fn is_endless(_: &File, _: &Metadata) -> bool {
    false
}

impl Source {
    /// Bytes to take at a time.
    fn buffer(&self) -> usize {
        let length = match self {
            Self::File(file) => file.metadata().map_or(u64::MAX, |metadata| metadata.len()),
            Self::Memory(bytes) => bytes.get_ref().len() as u64,
        };
        length.clamp(BUFFER[0], BUFFER[1]) as usize
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(buffer),
            Self::Memory(bytes) => bytes.read(buffer),
        }
    }
}

impl Seek for Source {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        match self {
            Self::File(file) => file.seek(position),
            Self::Memory(bytes) => bytes.seek(position),
        }
    }
}

/// What to do with a row that lacks a value in a column in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missing {
    /// The file is refused.
    #[default]
    Refuse,
    /// The row is left out and counted.
    Drop,
}

/// How a file is to be read.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// What stands between two fields.
    pub delimiter: u8,
    /// What to do about missing values.
    pub missing: Missing,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            delimiter: b',',
            missing: Missing::Refuse,
        }
    }
}

/// Whether a file must name its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Header {
    Required,
    Optional,
}

/// What the rows are taken from, with the current row.
enum Rows {
    Csv {
        reader: Box<Reader<StrictQuotes<Source>>>,
        record: ByteRecord,
    },
    Parquet(Box<Parquet>),
}

/// A file whose header has been read and whose rows can be taken one after the other.
pub struct Table {
    name: String,
    from: Rows,
    header: Vec<String>,
    /// Where each name stands in the header.
    positions: HashMap<String, usize>,
    reading: Reading,
    rows: usize,
    dropped: usize,
    /// The current record is a row that was not visited yet.
    pending: bool,
}

/// One row of a [`Table`].
pub struct Row<'a> {
    from: &'a Rows,
}

/// A field that breaks a rule; a [`Table`] turns it into a message with file, line and
/// column.
#[derive(Debug)]
pub struct FieldError {
    column: Option<usize>,
    rule: String,
    is_missing: bool,
    /// It is not about one row.
    is_everywhere: bool,
}

impl FieldError {
    /// A broken rule in one column.
    pub fn new(column: usize, rule: impl Into<String>) -> Self {
        Self {
            column: Some(column),
            rule: rule.into(),
            is_missing: false,
            is_everywhere: false,
        }
    }

    /// A column that cannot be read.
    fn of_column(column: usize, rule: String) -> Self {
        Self {
            is_everywhere: true,
            ..Self::new(column, rule)
        }
    }

    /// A value that is not there; `shown` stands in its place.
    pub fn missing(column: usize, shown: &str) -> Self {
        let shown = if shown.is_empty() {
            "the field is empty".to_owned()
        } else {
            format!("\"{shown}\"")
        };
        Self {
            is_missing: true,
            ..Self::new(
                column,
                format!("missing value ({shown}); every row needs a value"),
            )
        }
    }
}

impl Row<'_> {
    /// The trimmed text of a field.
    ///
    /// # Errors
    /// The value is missing or not UTF-8.
    pub fn text(&self, column: usize) -> Result<Cow<'_, str>, FieldError> {
        let record = match self.from {
            Rows::Csv { record, .. } => record,
            Rows::Parquet(rows) => return rows.text(column),
        };
        let text = std::str::from_utf8(&record[column])
            .map_err(|_| FieldError::new(column, "the text is not UTF-8"))?;
        if is_missing(text) {
            return Err(FieldError::missing(column, text));
        }
        Ok(text.into())
    }

    /// The trimmed text of a field, whatever it is.
    ///
    /// # Errors
    /// The column cannot be read.
    pub fn raw(&self, column: usize) -> Result<String, FieldError> {
        match self.from {
            Rows::Csv { record, .. } => Ok(String::from_utf8_lossy(&record[column]).into_owned()),
            Rows::Parquet(rows) => rows.raw(column),
        }
    }

    /// The finite number in a field.
    ///
    /// # Errors
    /// The value is missing, not a number, or not finite.
    pub fn number(&self, column: usize) -> Result<f64, FieldError> {
        let known = match self.from {
            Rows::Csv { record, .. } => std::str::from_utf8(&record[column])
                .ok()
                .and_then(|text| text.parse::<f64>().ok())
                .filter(|value| value.is_finite()),
            Rows::Parquet(rows) => rows.number(column)?,
        };
        if let Some(value) = known {
            return Ok(value);
        }
        let text = self.text(column)?;
        let rule = match text.parse::<f64>() {
            Ok(value) if value.is_finite() => return Ok(value),
            Ok(_) => format!("{text} is not a finite number"),
            Err(_) => format!("\"{text}\" is not a number"),
        };
        Err(FieldError::new(column, rule))
    }

    /// How often a row counts: a number of at least 0.
    ///
    /// # Errors
    /// The value is missing, not a number, negative or not finite.
    pub fn weight(&self, column: usize) -> Result<f64, FieldError> {
        match self.number(column)? {
            weight if weight >= 0.0 => Ok(weight),
            weight => {
                let rule = format!("the weight {weight} is not in [0, inf)");
                Err(FieldError::new(column, rule))
            }
        }
    }

    /// 0 or 1, also written `false`, `true`, `no`, `yes`.
    ///
    /// # Errors
    /// The value is missing or anything else.
    pub fn truth(&self, column: usize) -> Result<f64, FieldError> {
        let text = self.text(column)?;
        let is_one_of = |words: [&str; 3]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
        if is_one_of(["1", "true", "yes"]) {
            return Ok(1.0);
        }
        if is_one_of(["0", "false", "no"]) {
            return Ok(0.0);
        }
        match text.parse::<f64>() {
            Ok(value) if value == 0.0 || value == 1.0 => Ok(value),
            _ => Err(FieldError::new(
                column,
                format!("{text} is not in {{0, 1}}, also written false/true and no/yes"),
            )),
        }
    }
}

fn is_missing(text: &str) -> bool {
    text.is_empty()
        || (text.len() <= 4 && MISSING.iter().any(|word| text.eq_ignore_ascii_case(word)))
}

impl Table {
    /// Opens the file (`-` is standard input), CSV or Parquet, and reads its header.
    ///
    /// # Errors
    /// The file cannot be read, is empty, is not UTF-8, or has an unnamed or repeated column.
    pub fn open(path: &Path, reading: Reading) -> Result<Self, UserError> {
        let (name, source) = Self::source(path)?;
        Self::read(path, name, source, Header::Required, reading)
    }

    /// Opens a file of numbers whose header may be missing: a first line of numbers alone is a row
    /// already, and the columns are named by their positions 1, 2, ...
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_matrix(path: &Path) -> Result<Self, UserError> {
        let (name, source) = Self::source(path)?;
        Self::read(path, name, source, Header::Optional, Reading::default())
    }

    fn read(
        path: &Path,
        name: String,
        mut source: Source,
        kind: Header,
        reading: Reading,
    ) -> Result<Self, UserError> {
        let fail = |error: io::Error| UserError::new(format!("{name}: {}", describe(&error)));
        let mut start = Vec::new();
        let taken = (&mut source).take(4).read_to_end(&mut start);
        taken
            .and_then(|_| source.seek(SeekFrom::Start(0)))
            .map_err(fail)?;
        if let Some((_, kind)) = COMPRESSED
            .iter()
            .find(|(magic, _)| start.starts_with(magic))
        {
            let problem = format!("{name}: is a {kind} file, expected CSV or Parquet");
            return Err(UserError::new(problem));
        }
        let is_named = path
            .extension()
            .is_some_and(|extension| extension.eq_ignore_ascii_case("parquet"));
        if start != MAGIC && !is_named {
            return Self::read_header(name, source, kind, reading);
        }
        let opened = match source {
            Source::File(file) => Parquet::open(file),
            Source::Memory(bytes) => Parquet::from_bytes(bytes.into_inner()),
        };
        let (rows, header) = opened
            .map_err(|error| UserError::new(format!("{name}: is no Parquet file: {error}")))?;
        let mut table = Self::before_rows(name, Rows::Parquet(Box::new(rows)), reading);
        for (i, column) in header.iter().enumerate() {
            if table.positions.insert(column.clone(), i).is_some() {
                let rule = format!("the schema names the column \"{column}\" twice");
                return Err(UserError::new(format!("{}: {rule}", table.name)));
            }
        }
        table.header = header;
        Ok(table)
    }

    fn before_rows(name: String, from: Rows, reading: Reading) -> Self {
        Self {
            name,
            from,
            header: Vec::new(),
            positions: HashMap::new(),
            reading,
            rows: 0,
            dropped: 0,
            pending: false,
        }
    }

    fn source(path: &Path) -> Result<(String, Source), UserError> {
        let is_stdin = path.as_os_str() == "-";
        let name = if is_stdin {
            "standard input".to_owned()
        } else {
            path.display().to_string()
        };
        let fail = |error: io::Error| UserError::new(format!("{name}: {}", describe(&error)));
        let read_all = |mut input: Box<dyn Read>| -> io::Result<Source> {
            let mut bytes = Vec::new();
            input.read_to_end(&mut bytes)?;
            Ok(Source::Memory(Cursor::new(bytes)))
        };
        let source = if is_stdin {
            read_all(Box::new(io::stdin())).map_err(fail)?
        } else {
            let file = File::open(path).map_err(fail)?;
            let metadata = file.metadata().map_err(fail)?;
            if metadata.is_dir() {
                return Err(UserError::new(format!("{name}: is a folder, not a file")));
            }
            if metadata.is_file() {
                Source::File(file)
            } else if is_endless(&file, &metadata) {
                return Err(UserError::new(format!("{name}: is a device, not a file")));
            } else {
                read_all(Box::new(file)).map_err(fail)?
            }
        };
        Ok((name, source))
    }

    /// A table whose bytes are in memory already.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<Self, UserError> {
        let source = Source::Memory(Cursor::new(bytes));
        let (path, name) = (Path::new(name), name.to_owned());
        Self::read(path, name, source, Header::Required, Reading::default())
    }

    /// A table from text that is already in memory.
    #[cfg(test)]
    pub fn from_text(name: &str, text: &[u8]) -> Result<Self, UserError> {
        let source = Source::Memory(Cursor::new(text.to_vec()));
        let reading = Reading::default();
        Self::read_header(name.to_owned(), source, Header::Required, reading)
    }

    fn read_header(
        name: String,
        source: Source,
        kind: Header,
        reading: Reading,
    ) -> Result<Self, UserError> {
        let reader = ReaderBuilder::new()
            .has_headers(false)
            .delimiter(reading.delimiter)
            .flexible(true)
            .comment(Some(b'#'))
            .trim(Trim::All)
            .buffer_capacity(source.buffer())
            .from_reader(StrictQuotes::new(source, reading.delimiter));
        let from = Rows::Csv {
            reader: Box::new(reader),
            record: ByteRecord::new(),
        };
        let mut table = Self::before_rows(name, from, reading);
        if !table.advance()? {
            return Err(UserError::new(format!(
                "{}: the file is empty; a header line with the column names is needed",
                table.name
            )));
        }
        let Rows::Csv { record, .. } = &table.from else {
            return Ok(table);
        };
        let is_number =
            |field: &[u8]| std::str::from_utf8(field).is_ok_and(|text| text.parse::<f64>().is_ok());
        if kind == Header::Optional && record.iter().all(is_number) {
            table.header = (1..=record.len()).map(|i| i.to_string()).collect();
            table.positions = table.header.iter().cloned().zip(0..).collect();
            table.pending = true;
            return Ok(table);
        }
        let mut header: Vec<String> = Vec::with_capacity(record.len());
        let mut failure = None;
        for (i, field) in record.iter().enumerate() {
            match std::str::from_utf8(field) {
                Err(_) => failure = Some(format!("column {}: the text is not UTF-8", i + 1)),
                Ok("") => failure = Some(format!("column {} has no name in the header", i + 1)),
                Ok(column) if table.positions.contains_key(column) => {
                    failure = Some(format!("the header names the column \"{column}\" twice"));
                }
                Ok(column) => {
                    header.push(column.to_owned());
                    table.positions.insert(column.to_owned(), i);
                }
            }
            if failure.is_some() {
                break;
            }
        }
        match failure {
            Some(rule) => Err(table.at_line(&rule)),
            None => {
                table.header = header;
                Ok(table)
            }
        }
    }

    /// Whether the file had no header and its first row is still to come.
    pub fn is_unnamed(&self) -> bool {
        self.pending
    }

    /// Name of the file, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Column names, in the order of the file.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// Position of a named column.
    ///
    /// # Errors
    /// No column has this name; the message lists what exists.
    pub fn column(&self, name: &str) -> Result<usize, UserError> {
        self.positions.get(name).copied().ok_or_else(|| {
            let known = self.header.iter().map(String::as_str);
            let message = unknown("column", name, known);
            UserError::new(format!("{}: {message}{}", self.name, self.separator_hint()))
        })
    }

    /// Advice for a file whose fields are separated by something else.
    fn separator_hint(&self) -> &'static str {
        match &self.header[..] {
            [only] if only.contains([',', ';', '\t', '|']) => {
                "; name what separates the fields with --delimiter"
            }
            _ => "",
        }
    }

    /// Positions of several named columns, none of them twice.
    ///
    /// # Errors
    /// A name is unknown or repeated.
    pub fn columns(&self, names: &[String]) -> Result<Vec<usize>, UserError> {
        let mut columns = Vec::with_capacity(names.len());
        let mut seen = HashSet::with_capacity(names.len());
        for name in names {
            let column = self.column(name)?;
            if !seen.insert(column) {
                return Err(UserError::new(format!(
                    "{}: column \"{name}\" is asked for twice",
                    self.name
                )));
            }
            columns.push(column);
        }
        Ok(columns)
    }

    /// The only column of the file.
    ///
    /// # Errors
    /// There are several, so that one must be chosen.
    pub fn only_column(&self, option: &str) -> Result<usize, UserError> {
        if self.header.len() == 1 {
            return Ok(0);
        }
        Err(UserError::new(format!(
            "{}: choose a column with {option} (there is {})",
            self.name,
            list(self.header.iter().map(String::as_str))
        )))
    }

    /// Calls `visit` on the next row; `false` at the end of the file.
    ///
    /// # Errors
    /// A row with the wrong number of fields, a file without rows, an unreadable file, or what
    /// `visit` refuses.
    pub fn next_row(
        &mut self,
        visit: impl FnOnce(&Row<'_>) -> Result<(), FieldError>,
    ) -> Result<bool, UserError> {
        if !std::mem::take(&mut self.pending) && !self.advance()? {
            if self.rows == 0 {
                let rule = match self.dropped {
                    0 => "there is a header but no row of data",
                    _ => "every row lacks a value in a column in use",
                };
                return Err(UserError::new(format!("{}: {rule}", self.name)));
            }
            return Ok(false);
        }
        let expected = self.header.len();
        if let Rows::Csv { record, .. } = &self.from
            && record.len() != expected
        {
            let found = record.len();
            let fields = if found == 1 { "field" } else { "fields" };
            let rule = format!("the row has {found} {fields}, but the header has {expected}");
            return Err(self.at_line(&rule));
        }
        let row = Row { from: &self.from };
        match visit(&row) {
            Ok(()) => self.rows += 1,
            Err(error) if error.is_missing && self.reading.missing == Missing::Drop => {
                self.dropped += 1;
            }
            Err(error) => return Err(self.locate(&error)),
        }
        Ok(true)
    }

    /// How many rows were left out for a missing value; `None` where that is not allowed.
    pub fn dropped(&self) -> Option<usize> {
        (self.reading.missing == Missing::Drop).then_some(self.dropped)
    }

    /// Calls `visit` on every row that is left.
    ///
    /// # Errors
    /// As [`Self::next_row`].
    pub fn for_each(
        &mut self,
        mut visit: impl FnMut(&Row<'_>) -> Result<(), FieldError>,
    ) -> Result<(), UserError> {
        while self.next_row(&mut visit)? {}
        Ok(())
    }

    /// Hands the numbers of a column to `take`, many at a time where the file keeps them together.
    ///
    /// `read` is asked where a row stands alone. `take` takes all it is given or nothing; then it
    /// is given each row again by itself, so that the error names the row.
    ///
    /// # Errors
    /// As [`Self::next_row`].
    pub fn for_each_number(
        &mut self,
        column: usize,
        read: impl Fn(&Row<'_>) -> Result<f64, FieldError>,
        mut take: impl FnMut(&[f64]) -> Result<(), FieldError>,
    ) -> Result<(), UserError> {
        while self.next_row(|row| take(&[read(row)?]))? {
            if let Rows::Parquet(rows) = &mut self.from
                && let Some(rest) = rows.rest_of_batch(column)
                && take(&rest).is_ok()
            {
                self.rows += rest.len();
                rows.leave_batch();
            }
        }
        Ok(())
    }

    fn advance(&mut self) -> Result<bool, UserError> {
        let (reader, record) = match &mut self.from {
            Rows::Csv { reader, record } => (reader, record),
            Rows::Parquet(rows) => return Ok(rows.advance()),
        };
        reader
            .read_byte_record(record)
            .map_err(|error| match error.into_kind() {
                ErrorKind::Io(error) => {
                    UserError::new(format!("{}: {}", self.name, describe(&error)))
                }
                other => UserError::new(format!("{}: malformed CSV: {other:?}", self.name)),
            })
    }

    /// The message for a field of the current row.
    fn locate(&mut self, error: &FieldError) -> UserError {
        let place = if error.is_everywhere {
            None
        } else if let Rows::Parquet(rows) = &self.from {
            Some(format!("row {}", rows.row()))
        } else {
            Some(format!("line {}", self.line()))
        };
        let column = error.column.map(|column| {
            let name = printable(&self.header[column]);
            format!("column \"{name}\"")
        });
        let places: Vec<String> = place.into_iter().chain(column).collect();
        let rule = printable(&error.rule);
        UserError::new(format!("{}: {}: {rule}", self.name, places.join(", ")))
    }

    fn at_line(&mut self, rule: &str) -> UserError {
        let error = FieldError {
            column: None,
            rule: rule.to_owned(),
            is_missing: false,
            is_everywhere: false,
        };
        self.locate(&error)
    }

    /// Physical line, from 1, on which the current record starts.
    ///
    /// The reader knows the line on which it started to look for the record, which counts neither
    /// blank lines nor comments before it; so the bytes are read again up to the record. Only
    /// errors come here.
    fn line(&mut self) -> u64 {
        let Rows::Csv { reader, record } = &mut self.from else {
            return 0;
        };
        let start = record.position().map_or(0, Position::byte);
        let source = reader.get_mut().source_mut();
        first_record_line(source, start)
            .unwrap_or_else(|_| record.position().map_or(1, Position::line))
    }
}

/// Line of the first record at or after byte `start`, which lies at the start of a line or behind a
/// record.
fn first_record_line(source: &mut Source, start: u64) -> io::Result<u64> {
    source.seek(SeekFrom::Start(0))?;
    let mut reader = BufReader::with_capacity(source.buffer(), source);
    let (mut line, mut offset) = (1, 0_u64);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        let length = reader.read_until(b'\n', &mut bytes)? as u64;
        if length == 0 {
            return Ok(line);
        }
        let from = usize::try_from(start.saturating_sub(offset)).unwrap_or(usize::MAX);
        offset += length;
        if offset > start {
            let text = bytes.get(from..).unwrap_or_default();
            let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
            let blank = text.iter().all(|b| matches!(b, b'\r' | b'\n'));
            if !blank && !text.starts_with(b"#") {
                return Ok(line);
            }
        }
        line += 1;
    }
}

/// The names in a comma list; a name that holds a comma or a quote is quoted as in a CSV file.
///
/// # Errors
/// A malformed quote.
pub fn split_names(text: &str) -> Result<Vec<String>, String> {
    let mut reader = ReaderBuilder::new()
        .has_headers(false)
        .trim(Trim::All)
        .from_reader(StrictQuotes::new(text.as_bytes(), b','));
    let mut record = ByteRecord::new();
    reader
        .read_byte_record(&mut record)
        .map_err(|error| match error.into_kind() {
            ErrorKind::Io(error) => describe(&error),
            other => format!("{other:?}"),
        })?;
    if record.is_empty() {
        return Ok(vec![String::new()]);
    }
    let name = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    Ok(record.iter().map(name).collect())
}

/// The reason of an I/O error in plain words.
pub fn describe(error: &io::Error) -> String {
    if let Some(bad) = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<BadQuote>())
    {
        return bad.to_string();
    }
    user_error::describe(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(text: &str) -> Result<Vec<f64>, String> {
        let mut table = Table::from_text("data.csv", text.as_bytes()).map_err(|e| e.to_string())?;
        let column = table.column("x").map_err(|e| e.to_string())?;
        let mut values = Vec::new();
        table
            .for_each(|row| {
                values.push(row.number(column)?);
                Ok(())
            })
            .map_err(|e| e.to_string())?;
        Ok(values)
    }

    #[test]
    fn comments_blanks_and_quotes_are_read() {
        let text = "# made by hand\n y , x\n1, 2.5 \n\n# in between\n\"a, b\",\"-3\"\r\n4,1e3";
        assert_eq!(numbers(text), Ok(vec![2.5, -3.0, 1000.0]));
        assert_eq!(numbers("\u{feff}x\n1\n"), Ok(vec![1.0]));
    }

    #[test]
    fn compressed_files_are_told_by_name() {
        let refused = |bytes: &[u8]| Table::from_bytes("x.csv.gz", bytes.to_vec()).err().unwrap();
        let message = "x.csv.gz: is a gzip file, expected CSV or Parquet";
        assert_eq!(refused(b"\x1f\x8b\x08\0").to_string(), message);
        assert!(refused(b"PK\x03\x04\x14").to_string().contains("ZIP"));
    }

    #[test]
    fn every_missing_value_is_named_with_its_physical_line() {
        for word in ["", "NA", "n/a", "NaN", "null", "?"] {
            let text = format!("# c\nx,y\n1,1\n\n# c\n\"{word}\",2\n");
            let error = numbers(&text).unwrap_err();
            assert!(
                error.starts_with("data.csv: line 6, column \"x\": missing value"),
                "{error}"
            );
        }
    }

    #[test]
    fn lines_are_physical_also_with_crlf_and_line_breaks_inside_quotes() {
        let error = numbers("x,y\r\n1,\"a\r\nb\"\r\n\r\n#c\r\ntwo,2\r\n").unwrap_err();
        assert_eq!(
            error,
            "data.csv: line 6, column \"x\": \"two\" is not a number"
        );
        let error = numbers("x\n1\n2\ninf").unwrap_err();
        assert_eq!(
            error,
            "data.csv: line 4, column \"x\": inf is not a finite number"
        );
        let error = numbers("x\n\"1\n\"\n\"2\n\nz\"").unwrap_err();
        assert!(
            error.starts_with("data.csv: line 4, column \"x\":"),
            "{error}"
        );
    }

    #[test]
    fn malformed_files_say_what_is_wrong() {
        let cases: [(&str, &str); 10] = [
            (
                "x\n1\n\"2\n",
                "data.csv: line 3: a quote is opened and never closed",
            ),
            (
                "x\n1\n\"2\"0\n",
                "data.csv: line 3: text follows the closing quote of a field",
            ),
            (
                "x;y\n1;2\n",
                "data.csv: unknown column \"x\" (there is \"x;y\"); name what separates the fields with --delimiter",
            ),
            (
                "",
                "data.csv: the file is empty; a header line with the column names is needed",
            ),
            (
                "# only a comment\n\n",
                "data.csv: the file is empty; a header line with the column names is needed",
            ),
            ("x\n", "data.csv: there is a header but no row of data"),
            (
                "x,y,x\n1,2,3\n",
                "data.csv: line 1: the header names the column \"x\" twice",
            ),
            (
                "# c\nx,,z\n1,2,3\n",
                "data.csv: line 2: column 2 has no name in the header",
            ),
            (
                "x,y\n1,2\n3\n",
                "data.csv: line 3: the row has 1 field, but the header has 2",
            ),
            (
                "xx,y\n1,2\n",
                "data.csv: unknown column \"x\", did you mean \"xx\"? (there is \"xx\", \"y\")",
            ),
        ];
        for (text, message) in cases {
            assert_eq!(numbers(text).unwrap_err(), message);
        }
    }

    #[test]
    fn text_that_is_not_utf8_is_refused() {
        let header = Table::from_text("d.csv", b"x\xff,y\n1,2\n").err().unwrap();
        assert_eq!(
            header.to_string(),
            "d.csv: line 1: column 1: the text is not UTF-8"
        );
        let mut table = Table::from_text("d.csv", b"x,y\n1,2\n\xfe,2\n").unwrap();
        let error = table.for_each(|row| row.number(0).map(drop)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "d.csv: line 3, column \"x\": the text is not UTF-8"
        );
    }

    #[test]
    fn a_header_of_many_columns_is_read_in_passing() {
        let header: Vec<String> = (0..100_000).map(|i| format!("c{i}")).collect();
        let text = format!("{}\n", header.join(","));
        let start = std::time::Instant::now();
        let table = Table::from_text("wide.csv", text.as_bytes()).unwrap();
        assert_eq!(table.columns(&header).unwrap().len(), header.len());
        // a comparison of every pair of names takes minutes
        assert!(start.elapsed().as_secs() < 20);
        let error = Table::from_text(
            "wide.csv",
            format!("{},c7\n1\n", header.join(",")).as_bytes(),
        );
        let message = error.err().unwrap().to_string();
        assert!(
            message.ends_with("the header names the column \"c7\" twice"),
            "{message}"
        );
    }

    #[test]
    fn fields_reach_the_terminal_without_control_characters() {
        let error = numbers("x,\u{1b}[2J\nq\u{1b}[31m\u{7}\u{9b}z,1\n").unwrap_err();
        assert_eq!(
            error,
            "data.csv: line 2, column \"x\": \"q\\u{1b}[31m\\u{7}\\u{9b}z\" is not a number"
        );
        let error = numbers("\u{1b}]0;t\n1\n").unwrap_err();
        assert!(!error.contains('\u{1b}'), "{error:?}");
    }

    #[test]
    fn rows_without_a_value_are_dropped_and_counted() {
        let text = "x;y\n1;a\n;b\n3;\nNA;c\n";
        let source = || Source::Memory(Cursor::new(text.as_bytes().to_vec()));
        let reading = Reading {
            delimiter: b';',
            missing: Missing::Drop,
        };
        let open = || Table::read_header("d.csv".to_owned(), source(), Header::Required, reading);
        let mut table = open().unwrap();
        let mut values = Vec::new();
        let read = table.for_each(|row| {
            values.push(row.number(0)?);
            Ok(())
        });
        read.unwrap();
        // a column that is not in use may lack what it wants
        assert_eq!((values, table.dropped()), (vec![1.0, 3.0], Some(2)));
        let error = open()
            .unwrap()
            .for_each(|_| Err(FieldError::missing(0, "")))
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "d.csv: every row lacks a value in a column in use"
        );
    }

    #[test]
    fn names_with_commas_are_quoted() {
        let split = |text: &str| split_names(text).unwrap();
        assert_eq!(
            split(r#"a,"b, c" ,"d ""e""f",g"#),
            ["a", "b, c", "d \"e\"f", "g"]
        );
        assert_eq!(split(""), [""]);
        assert_eq!(split("a,,b"), ["a", "", "b"]);
        assert!(split_names("\"a,b").unwrap_err().contains("never closed"));
        assert!(split_names("\"a\"b").unwrap_err().contains("closing quote"));
    }

    #[test]
    fn columns_are_found_once() {
        let table = Table::from_text("d.csv", b"a,b,c\n").unwrap();
        let names = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        assert_eq!(table.columns(&names(&["c", "a"])).unwrap(), [2, 0]);
        assert!(table.columns(&names(&["c", "c"])).is_err());
        assert!(table.only_column("--column").is_err());
    }
}
