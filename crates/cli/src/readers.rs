//! What reads files of strangers, for tests with damaged ones. No part of the interface.

use std::path::Path;

use crate::csv::{FieldError, Table};
use crate::event::{Event, Variables};
use inference::saved::Saved;

/// Rows of a table that are read: a Parquet file of a few bytes may have any number of them.
const ROWS: usize = 1 << 17;

/// Reads all fields of a table, CSV or Parquet, as text and as numbers; whether all rows are there.
pub fn table(bytes: &[u8]) -> bool {
    let read = |column_by_column: bool| {
        let mut table = Table::from_bytes("table", bytes.to_vec())?;
        let columns = table.header().len();
        if column_by_column {
            return table.for_each_number(0, |row| row.number(0), |_| Ok(()));
        }
        let mut rows = 0;
        table.for_each(|row| {
            rows += 1;
            if rows > ROWS {
                return Err(FieldError::new(0, "there are too many rows"));
            }
            for column in 0..columns {
                // a field may be missing, or no number
                let _ = (row.text(column), row.raw(column), row.number(column));
            }
            Ok(())
        })
    };
    let both = [read(true).is_ok(), read(false).is_ok()];
    both[1]
}

/// Reads an event about the variables `x`, `height` and `p[red]`.
pub fn event(text: &str) -> bool {
    let labels = ["height", "red", "x"].map(String::from);
    let variables = Variables::vector(&["p"], &labels);
    Event::parse(text, &variables).is_ok_and(|event| {
        event.disjuncts(true, 64);
        event.coordinates().len() <= labels.len()
    })
}

/// Reads a posterior that `infer` saved.
pub fn posterior(bytes: &[u8]) -> bool {
    Saved::parse(Path::new("posterior.json"), bytes).is_ok()
}
