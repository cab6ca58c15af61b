//! Parquet files as tables: a column is decoded when it is first asked for, a batch of rows at a
//! time, so that columns that are not in use cost nothing.
//!
//! Rules: columns of numbers, truth values and text; a null, a NaN and an empty text are missing
//! values. Nested columns, decimals, dates, times and other types are refused by name, once they
//! are in use.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use datasets::formats::guard::{PROBLEM, guarded};
use parquet::basic::{ConvertedType, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use super::FieldError;
use super::pages::Pages;
use super::sizes::{Sizes, Source};

/// What the first bytes of a Parquet file are.
pub const MAGIC: &[u8; 4] = b"PAR1";

/// Rows that are decoded together: they stay in the cache.
const BATCH: usize = 1 << 14;

/// A column of the file that can be read.
#[derive(Debug, Clone, Copy)]
struct Leaf {
    /// Its place among the leaves of the schema.
    index: usize,
    /// The definition level of a value; 0 where there are no nulls.
    level: i16,
    is_unsigned: bool,
}

/// A value of a row.
#[derive(Debug, Clone, Copy)]
enum Field<'a> {
    Null,
    Truth(bool),
    Integer(i64),
    /// An unsigned integer, in the same bits.
    Unsigned(i64),
    Number(f64),
    Text(&'a [u8]),
}

/// Values of a batch of rows.
#[derive(Debug)]
enum Values {
    Truth(Vec<bool>),
    Integer(Vec<i64>),
    Unsigned(Vec<i64>),
    Number(Vec<f64>),
    Text(Vec<ByteArray>),
}

/// A batch of rows of one column.
#[derive(Debug)]
struct Decoded {
    /// One for each row, also where there is a null.
    values: Values,
    /// Which of them are values; `None` if all are.
    is_value: Option<Vec<bool>>,
}

/// A column of the current row group, and how many of its rows were read.
struct Cursor {
    reader: ColumnReader,
    position: usize,
}

/// An open file and its current row.
pub struct Parquet {
    file: Box<dyn FileReader>,
    /// The same file, to look at its pages before they are decoded.
    source: Arc<dyn Source>,
    /// Each column, or why it cannot be read.
    leaves: Vec<std::result::Result<Leaf, String>>,
    /// The current row group.
    group: usize,
    group_rows: usize,
    cursors: RefCell<Vec<Option<Cursor>>>,
    /// First row of the batch, inside the row group.
    start: usize,
    /// Rows of the batch.
    length: usize,
    /// The batch of each column that was asked for, or why it cannot be read.
    decoded: Vec<OnceCell<std::result::Result<Decoded, String>>>,
    /// The current row of the batch.
    row: usize,
    /// Rows before the batch.
    before: usize,
    has_started: bool,
}

impl Parquet {
    /// Opens a file on a disk.
    ///
    /// # Errors
    /// It is no Parquet file.
    pub fn open(file: File) -> Result<(Self, Vec<String>)> {
        guard(|| {
            let source = Arc::new(file.try_clone()?);
            Self::new(Box::new(SerializedFileReader::new(file)?), source)
        })
    }

    /// Opens a file that is in memory.
    ///
    /// # Errors
    /// It is no Parquet file.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<(Self, Vec<String>)> {
        guard(|| {
            let bytes = Bytes::from(bytes);
            let source = Arc::new(bytes.clone());
            Self::new(Box::new(SerializedFileReader::new(bytes)?), source)
        })
    }

    /// The table before its first row, and the names of its columns.
    fn new(file: Box<dyn FileReader>, source: Arc<dyn Source>) -> Result<(Self, Vec<String>)> {
        check_rows(file.metadata())?;
        let schema = file.metadata().file_metadata().schema_descr_ptr();
        let fields = schema.root_schema().get_fields();
        let names: Vec<String> = fields.iter().map(|field| field.name().to_owned()).collect();
        let mut leaves = vec![Err("nested columns cannot be read".to_owned()); names.len()];
        for index in 0..schema.num_columns() {
            let place = schema.get_column_root_idx(index);
            if fields[place].is_primitive() {
                leaves[place] = leaf(&schema.column(index), index);
            }
        }
        let count = names.len();
        let empty = Self {
            file,
            source,
            leaves,
            group: 0,
            group_rows: 0,
            cursors: RefCell::new(Vec::new()),
            start: 0,
            length: 0,
            decoded: Vec::new(),
            row: 0,
            before: 0,
            has_started: false,
        };
        let mut table = empty;
        table.decoded.resize_with(count, OnceCell::new);
        Ok((table, names))
    }

    /// Goes to the next row; `false` at the end.
    pub fn advance(&mut self) -> bool {
        if self.row + 1 < self.length {
            self.row += 1;
            return true;
        }
        self.before += self.length;
        self.start += self.length;
        self.row = 0;
        while self.start >= self.group_rows {
            if self.has_started {
                self.group += 1;
            }
            self.has_started = true;
            let metadata = self.file.metadata();
            if self.group >= metadata.num_row_groups() {
                self.length = 0;
                return false;
            }
            let rows = metadata.row_group(self.group).num_rows();
            self.group_rows = usize::try_from(rows).unwrap_or(0);
            self.start = 0;
            let cursors = self.cursors.get_mut();
            cursors.clear();
            cursors.resize_with(self.leaves.len(), || None);
        }
        self.length = BATCH.min(self.group_rows - self.start);
        for batch in &mut self.decoded {
            batch.take();
        }
        true
    }

    /// What follows the first row of a batch, while that is the current row and if all of it are
    /// finite numbers.
    pub fn rest_of_batch(&self, column: usize) -> Option<Cow<'_, [f64]>> {
        let Decoded { values, is_value } = self.decoded[column].get()?.as_ref().ok()?;
        if self.row > 0 || is_value.is_some() {
            return None;
        }
        match values {
            Values::Number(values) => values
                .iter()
                .all(|x| x.is_finite())
                .then_some(values[1..].into()),
            Values::Integer(values) => Some(values[1..].iter().map(|&x| x as f64).collect()),
            Values::Unsigned(values) => {
                let number = |&x: &i64| x.cast_unsigned() as f64;
                Some(values[1..].iter().map(number).collect())
            }
            Values::Truth(_) | Values::Text(_) => None,
        }
    }

    /// Goes to the last row of the batch.
    pub fn leave_batch(&mut self) {
        self.row = self.length - 1;
    }

    /// Number of the current row, from 1.
    pub fn row(&self) -> usize {
        self.before + self.row + 1
    }

    /// The batch of a column. What cannot be read is not tried again for the next row.
    fn decoded(&self, column: usize) -> std::result::Result<&Decoded, FieldError> {
        let batch = self.decoded[column].get_or_init(|| {
            let leaf = self.leaves[column].clone()?;
            guard(|| self.decode(column, leaf)).map_err(|error| {
                // a reader that failed stands anywhere: the next batch begins anew
                self.cursors.borrow_mut()[column] = None;
                format!("cannot be read: {error}")
            })
        });
        let refuse = |rule: &String| FieldError::of_column(column, rule.clone());
        batch.as_ref().map_err(refuse)
    }

    fn decode(&self, column: usize, leaf: Leaf) -> Result<Decoded> {
        let mut cursors = self.cursors.borrow_mut();
        let cursor = match &mut cursors[column] {
            Some(cursor) => cursor,
            closed => {
                let group = self.file.get_row_group(self.group)?;
                let column = group.metadata().column(leaf.index);
                let pages = Pages {
                    pages: group.get_column_page_reader(leaf.index)?,
                    sizes: Sizes::new(Arc::clone(&self.source), column)?,
                    level: leaf.level,
                };
                let schema = self.file.metadata().file_metadata().schema_descr();
                let reader = get_column_reader(schema.column(leaf.index), Box::new(pages));
                closed.insert(Cursor {
                    reader,
                    position: 0,
                })
            }
        };
        // a column that was not asked for in the batches before
        let skipped = self.start - cursor.position;
        cursor.position = self.start + self.length;
        let batch = Batch {
            skipped,
            length: self.length,
            level: leaf.level,
        };
        let ((is_value, values), is_unsigned) = (
            match &mut cursor.reader {
                ColumnReader::BoolColumnReader(reader) => batch.read(reader, Values::Truth)?,
                ColumnReader::Int32ColumnReader(reader) => batch.read(reader, |values| {
                    let widen = |&x: &i32| match leaf.is_unsigned {
                        true => i64::from(x.cast_unsigned()),
                        false => i64::from(x),
                    };
                    Values::Integer(values.iter().map(widen).collect())
                })?,
                ColumnReader::Int64ColumnReader(reader) => batch.read(reader, Values::Integer)?,
                ColumnReader::FloatColumnReader(reader) => batch.read(reader, |values| {
                    Values::Number(values.iter().copied().map(f64::from).collect())
                })?,
                ColumnReader::DoubleColumnReader(reader) => batch.read(reader, Values::Number)?,
                ColumnReader::ByteArrayColumnReader(reader) => batch.read(reader, Values::Text)?,
                _ => return Err(ParquetError::General("unexpected type".to_owned())),
            },
            leaf.is_unsigned,
        );
        let values = match values {
            Values::Integer(bits) if is_unsigned => Values::Unsigned(bits),
            other => other,
        };
        Ok(Decoded { values, is_value })
    }

    fn field(&self, column: usize) -> std::result::Result<Field<'_>, FieldError> {
        let Decoded { values, is_value } = self.decoded(column)?;
        let row = self.row;
        if is_value.as_ref().is_some_and(|is_value| !is_value[row]) {
            return Ok(Field::Null);
        }
        Ok(match values {
            Values::Truth(values) => Field::Truth(values[row]),
            Values::Integer(values) => Field::Integer(values[row]),
            Values::Unsigned(values) => Field::Unsigned(values[row]),
            Values::Number(values) => Field::Number(values[row]),
            Values::Text(values) => Field::Text(values[row].data()),
        })
    }

    /// A value as text.
    ///
    /// # Errors
    /// It is missing, not UTF-8, or in a column that cannot be read.
    pub fn text(&self, column: usize) -> std::result::Result<Cow<'_, str>, FieldError> {
        Ok(match self.field(column)? {
            Field::Null => return Err(FieldError::missing(column, "null")),
            Field::Text([]) => return Err(FieldError::missing(column, "")),
            Field::Number(x) if x.is_nan() => return Err(FieldError::missing(column, "NaN")),
            Field::Truth(x) => x.to_string().into(),
            Field::Integer(x) => x.to_string().into(),
            Field::Unsigned(x) => x.cast_unsigned().to_string().into(),
            Field::Number(x) => x.to_string().into(),
            Field::Text(bytes) => std::str::from_utf8(bytes)
                .map_err(|_| FieldError::new(column, "the text is not UTF-8"))?
                .into(),
        })
    }

    /// A value as text, whatever it is; nothing for a null.
    ///
    /// # Errors
    /// The column cannot be read.
    pub fn raw(&self, column: usize) -> std::result::Result<String, FieldError> {
        match self.field(column)? {
            Field::Null => Ok(String::new()),
            Field::Text(bytes) => Ok(String::from_utf8_lossy(bytes).into_owned()),
            Field::Number(x) => Ok(x.to_string()),
            _ => Ok(self.text(column)?.into_owned()),
        }
    }

    /// A value that is a finite number already; `None` where its text decides.
    ///
    /// # Errors
    /// The column cannot be read.
    pub fn number(&self, column: usize) -> std::result::Result<Option<f64>, FieldError> {
        Ok(match self.field(column)? {
            Field::Number(x) => Some(x).filter(|x| x.is_finite()),
            Field::Integer(x) => Some(x as f64),
            Field::Unsigned(x) => Some(x.cast_unsigned() as f64),
            Field::Null | Field::Truth(_) | Field::Text(_) => None,
        })
    }
}

/// No group of rows has more of them than any of its columns has values.
fn check_rows(metadata: &ParquetMetaData) -> Result<()> {
    for (number, group) in metadata.row_groups().iter().enumerate() {
        let rows = group.num_rows();
        let most = group.columns().iter().map(ColumnChunkMetaData::num_values);
        if let Some(most) = most.max()
            && rows > most
        {
            return Err(ParquetError::General(format!(
                "row group {} announces {rows} rows, and its columns have at most {most}",
                number + 1
            )));
        }
    }
    Ok(())
}

/// What the decoder gives; an error where it panics.
fn guard<T>(decode: impl FnOnce() -> Result<T>) -> Result<T> {
    guarded(decode).unwrap_or_else(|| Err(ParquetError::General(PROBLEM.into())))
}

/// What is read of a column.
struct Batch {
    skipped: usize,
    length: usize,
    level: i16,
}

impl Batch {
    /// Which rows hold values, and one value for each row.
    fn read<T: DataType>(
        &self,
        reader: &mut ColumnReaderImpl<T>,
        collect: impl FnOnce(Vec<T::T>) -> Values,
    ) -> Result<(Option<Vec<bool>>, Values)> {
        if self.skipped > 0 {
            reader.skip_records(self.skipped)?;
        }
        let mut values = Vec::with_capacity(self.length);
        let mut levels = Vec::new();
        let mut rows = 0;
        while rows < self.length {
            let wanted = (self.level > 0).then_some(&mut levels);
            let (more, _, _) =
                reader.read_records(self.length - rows, wanted, None, &mut values)?;
            if more == 0 {
                return Err(ParquetError::General("the column ends too early".into()));
            }
            rows += more;
        }
        if values.len() == rows {
            return Ok((None, collect(values)));
        }
        let mut present = values.into_iter();
        let is_value: Vec<bool> = levels.iter().map(|&level| level == self.level).collect();
        let spread = is_value.iter().map(|&is_value| {
            let value = is_value.then(|| present.next()).flatten();
            value.unwrap_or_default()
        });
        let values = spread.collect();
        Ok((Some(is_value), collect(values)))
    }
}

/// How a column of the schema is read, or why it is not.
fn leaf(column: &ColumnDescriptor, index: usize) -> std::result::Result<Leaf, String> {
    use ConvertedType as Kind;
    let logical = column.logical_type_ref();
    let kind = match logical {
        None => column.converted_type(),
        Some(logical) => Kind::from(Some(logical.clone())),
    };
    let is_plain = logical.is_none() && kind == Kind::NONE;
    let is_unsigned = matches!(
        kind,
        Kind::UINT_8 | Kind::UINT_16 | Kind::UINT_32 | Kind::UINT_64
    );
    let is_signed = matches!(
        kind,
        Kind::INT_8 | Kind::INT_16 | Kind::INT_32 | Kind::INT_64
    );
    let is_known = match column.physical_type() {
        Type::BOOLEAN | Type::FLOAT | Type::DOUBLE => is_plain,
        Type::INT32 | Type::INT64 => is_plain || is_signed || is_unsigned,
        Type::BYTE_ARRAY => is_plain || matches!(kind, Kind::UTF8 | Kind::ENUM),
        Type::INT96 | Type::FIXED_LEN_BYTE_ARRAY => false,
    };
    if column.max_rep_level() > 0 || !is_known {
        let physical = column.physical_type();
        let name = match logical {
            _ if column.max_rep_level() > 0 => "a list".to_owned(),
            Some(logical) => {
                let name = format!("{logical:?}");
                let end = name.find(|c: char| !c.is_alphanumeric());
                format!(
                    "{} ({physical})",
                    name[..end.unwrap_or(name.len())].to_lowercase()
                )
            }
            None if kind != Kind::NONE => {
                format!("{} ({physical})", kind.to_string().to_lowercase())
            }
            None => physical.to_string(),
        };
        return Err(format!(
            "the type is {name}; only integers, floating-point numbers, truth values and text can be \
             read"
        ));
    }
    Ok(Leaf {
        index,
        level: column.max_def_level(),
        is_unsigned,
    })
}
