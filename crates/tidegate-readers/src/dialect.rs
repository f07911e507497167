//! What there is to know of a file of delimited text.

use arrow::datatypes::{DataType, Field, Schema};

use crate::encoding::Encoding;
use crate::numbers::NumberFormat;
use crate::temporal::{DateFormat, TimestampFormat};

/// Words that stand for NULL in columns of numbers, booleans and dates, where nobody says which do.
pub(crate) const NULL_WORDS: [&str; 14] = [
    "", "NA", "N/A", "n/a", "na", "null", "NULL", "Null", "\\N", "-", "None", "#N/A", "(null)",
    "--",
];

/// Words that stand for NULL in columns of text too.
pub(crate) const TEXT_NULL_WORDS: [&str; 2] = ["", "\\N"];

/// How a file is written.
#[derive(Clone, Debug, PartialEq)]
pub struct Dialect {
    /// What stands between values.
    pub delimiter: u8,
    /// What values may be enclosed in.
    pub quote: Option<u8>,
    /// What makes a quote part of a quoted value; `None` for a doubled quote.
    pub escape: Option<u8>,
    /// What lines begin with that are no rows.
    pub comment: Option<u8>,
    /// Lines before the header or the first row.
    pub skip: usize,
    /// Whether the first row has the columns' names.
    pub header: bool,
    /// The encoding.
    pub encoding: Encoding,
    /// Words that stand for NULL in every column, if the user said which.
    pub null_words: Option<Vec<String>>,
    /// Whether short rows end with NULLs.
    pub null_padding: bool,
    /// Whether rows that contradict are left out.
    pub ignore_errors: bool,
    /// Whether quoted values with newlines were seen.
    pub has_newlines: bool,
}

/// A column of one file.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Its name: the header's, or `column0` and so on.
    pub name: String,
    /// The narrowest type that all values have that were looked at.
    pub data_type: DataType,
    /// Whether only NULLs were seen.
    pub is_empty: bool,
    /// How its numbers are written.
    pub numbers: NumberFormat,
    /// How its dates are written.
    pub date: DateFormat,
    /// How its timestamps are written.
    pub timestamp: TimestampFormat,
}

/// What was found of a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Sniffed {
    /// How it is written.
    pub dialect: Dialect,
    /// Its columns, by place.
    pub columns: Vec<Column>,
}

impl Sniffed {
    /// Returns the columns as a schema; all may be NULL.
    pub fn schema(&self) -> Schema {
        let field = |column: &Column| Field::new(&column.name, column.data_type.clone(), true);
        Schema::new(self.columns.iter().map(field).collect::<Vec<_>>())
    }
}
