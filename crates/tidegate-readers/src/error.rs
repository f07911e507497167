//! What is wrong with a file, with its place and the way out.

use arrow::datatypes::DataType;
use arrow::error::ArrowError;

/// The most characters of a value that a message quotes.
const QUOTED_MAX: usize = 60;

/// A file whose columns cannot be found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SniffError {
    /// There is nothing but, perhaps, comments and blank lines.
    #[error("there are no rows in it, and no header")]
    Empty,
    /// The bytes are not text.
    #[error("it is not text: {0}")]
    NotText(String),
    /// An option of the user's contradicts the file or itself.
    #[error("{0}")]
    Option(String),
    /// JSON that is none.
    #[error("{0}")]
    Json(String),
}

/// A row or value that cannot be read as the file's other rows are.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A value that its column's type does not have.
    #[error(
        "line {line}, column \"{column}\": '{value}' is not {expected}; {}",
        ways_out(.column, .is_given)
    )]
    Value {
        /// The line that the row begins on, from 1.
        line: u64,
        /// The column's name.
        column: String,
        /// The beginning of the value.
        value: String,
        /// What it should be.
        expected: String,
        /// Whether the column's type was given, and not found.
        is_given: bool,
    },
    /// A row with other than the header's number of values.
    #[error(
        "line {line}: the row has {found} values, and the file has {expected} columns; fill short rows \
         with null_padding => true, leave such rows out with ignore_errors => true, or say how values are \
         separated with delim => '…' and quote => '…'"
    )]
    Width {
        /// The line that the row begins on, from 1.
        line: u64,
        /// Its values.
        found: usize,
        /// The file's columns.
        expected: usize,
    },
    /// Bytes that are not of the file's encoding.
    #[error(
        "line {line}: the bytes are not UTF-8; say what they are with encoding => 'windows-1252' or \
         another encoding, or leave such rows out with ignore_errors => true"
    )]
    Encoding {
        /// The line, from 1.
        line: u64,
    },
    /// A quote that is never closed.
    #[error(
        "line {line}: a quote is opened and never closed: where it is a character as others, quote => '' says so, and quote => \
         '…' names another"
    )]
    Quote {
        /// The line that the row begins on, from 1.
        line: u64,
    },
    /// A row that is larger than rows may be; most often a quote that is never closed.
    #[error(
        "line {line}: the row is longer than {limit} bytes; a quote may be missing its partner: try \
         quote => '' or another one"
    )]
    Row {
        /// The line that the row begins on, from 1.
        line: u64,
        /// The limit, in bytes.
        limit: usize,
    },
    /// A column that a file does not have.
    #[error(
        "there is no column \"{column}\" in it; it has {known}; give its columns with names, or fill \
         missing ones with union_by_name => true"
    )]
    Missing {
        /// The column.
        column: String,
        /// The file's columns.
        known: String,
    },
    /// A failure of Arrow's.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

/// Says what helps against a value of another type than its column's.
fn ways_out(column: &str, is_given: &bool) -> String {
    match *is_given {
        true => "leave such rows out with ignore_errors => true, or say what stands for NULL with nullstr => '…'".into(),
        false => format!(
            "read the column as text with types => {{'{column}': 'VARCHAR'}}, look at more rows with sample_size => -1, read \
             all as text with all_varchar => true, or leave such rows out with ignore_errors => true"
        ),
    }
}

/// Shortens a value for a message.
pub(crate) fn quoted(value: &str) -> String {
    let mut short: String = value.chars().take(QUOTED_MAX).collect();
    if short.len() < value.len() {
        short.push('…');
    }
    short.replace('\n', "\\n").replace('\r', "\\r")
}

/// Names a type as SQL does, with an article.
pub(crate) fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Int8 => "a TINYINT".into(),
        DataType::Int16 => "a SMALLINT".into(),
        DataType::Int32 => "an INTEGER".into(),
        DataType::Int64 => "a BIGINT".into(),
        DataType::Float32 => "a REAL".into(),
        DataType::Float64 => "a DOUBLE".into(),
        DataType::Boolean => "a BOOLEAN".into(),
        DataType::Date32 => "a DATE".into(),
        DataType::Time32(_) | DataType::Time64(_) => "a TIME".into(),
        DataType::Timestamp(_, None) => "a TIMESTAMP".into(),
        DataType::Timestamp(_, Some(_)) => "a TIMESTAMPTZ".into(),
        DataType::Decimal128(precision, scale) => format!("a DECIMAL({precision}, {scale})"),
        other => format!("of the type {other}"),
    }
}
