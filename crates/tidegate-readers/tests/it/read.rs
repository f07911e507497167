//! Reads a file that a test writes out.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{DataType, TimeUnit};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use tidegate_readers::{
    Decoder, Given, LeftOut, Mapping, ReadError, Sample, Sniffed, Transcoder, sniff,
};

/// The rows of a file as texts; `None` is NULL.
pub(crate) type Rows = Vec<Vec<Option<String>>>;

/// Compares a file's columns and rows with those that are expected.
#[track_caller]
pub(crate) fn check(bytes: &[u8], columns: &[(&str, &str)], rows: &[&[Option<&str>]]) {
    check_given(bytes, &Given::default(), columns, rows);
}

/// As [`check`], of a file of which something was said.
#[track_caller]
pub(crate) fn check_given(
    bytes: &[u8],
    given: &Given,
    columns: &[(&str, &str)],
    rows: &[&[Option<&str>]],
) {
    let sniffed = sniff(&Sample::whole(bytes.to_vec()), given).unwrap();
    let found: Vec<(&str, String)> = sniffed
        .columns
        .iter()
        .map(|column| (column.name.as_str(), sql_type(&column.data_type)))
        .collect();
    let found: Vec<(&str, &str)> = found.iter().map(|(n, t)| (*n, t.as_str())).collect();
    assert_eq!(found, columns, "{:?}", sniffed.dialect);
    let expect: Rows = rows
        .iter()
        .map(|row| row.iter().map(|value| value.map(str::to_string)).collect())
        .collect();
    for buffer in [1, 7, 1 << 16] {
        let (found, _) = read(bytes, &sniffed, buffer);
        assert_eq!(found.unwrap(), expect, "in buffers of {buffer}");
    }
}

/// Reads a file in buffers of this size.
pub(crate) fn read(
    bytes: &[u8],
    sniffed: &Sniffed,
    buffer: usize,
) -> (Result<Rows, ReadError>, Arc<LeftOut>) {
    let left_out = Arc::<LeftOut>::default();
    let rows = read_rows(bytes, sniffed, buffer, None, &left_out);
    (rows, left_out)
}

/// Reads a file, or a part of one that begins on `first_line`.
pub(crate) fn read_rows(
    bytes: &[u8],
    sniffed: &Sniffed,
    buffer: usize,
    first_line: Option<u64>,
    left_out: &Arc<LeftOut>,
) -> Result<Rows, ReadError> {
    let table = Arc::new(sniffed.schema());
    let all: Vec<usize> = (0..sniffed.columns.len()).collect();
    let mapping = Mapping::new(sniffed, &table, &all, false)?;
    let mut decoder = Decoder::new(sniffed, mapping, 2, first_line, Arc::clone(left_out));
    let mut transcoder = Transcoder::new(sniffed.dialect.encoding, first_line.is_none());
    let mut rows = Rows::new();
    let mut buffers: Vec<Vec<u8>> = Vec::new();
    for chunk in bytes.chunks(buffer) {
        let mut text = Vec::new();
        transcoder.push(chunk, false, &mut text);
        buffers.push(text);
    }
    let mut last = Vec::new();
    transcoder.push(&[], true, &mut last);
    buffers.push(last);
    for text in buffers.iter().filter(|text| !text.is_empty()) {
        let mut rest = text.as_slice();
        while !rest.is_empty() {
            let taken = decoder.decode(rest)?;
            rest = &rest[taken..];
            if decoder.is_full() {
                add(&mut rows, decoder.flush()?);
            }
        }
    }
    decoder.decode(&[])?;
    add(&mut rows, decoder.flush()?);
    Ok(rows)
}

fn add(rows: &mut Rows, batch: Option<RecordBatch>) {
    let Some(batch) = batch else { return };
    let options = FormatOptions::default();
    for row in 0..batch.num_rows() {
        let value = |column: &Arc<dyn Array>| {
            let text = ArrayFormatter::try_new(column, &options).unwrap();
            column.is_valid(row).then(|| text.value(row).to_string())
        };
        rows.push(batch.columns().iter().map(value).collect());
    }
}

fn sql_type(data_type: &DataType) -> String {
    match data_type {
        DataType::Int64 => "BIGINT".into(),
        DataType::Float64 => "DOUBLE".into(),
        DataType::Boolean => "BOOLEAN".into(),
        DataType::Date32 => "DATE".into(),
        DataType::Utf8 => "VARCHAR".into(),
        DataType::Timestamp(TimeUnit::Microsecond, None) => "TIMESTAMP".into(),
        DataType::Time64(TimeUnit::Nanosecond) => "TIME".into(),
        DataType::Timestamp(TimeUnit::Nanosecond, None) => "TIMESTAMP_NS".into(),
        DataType::Timestamp(_, Some(_)) => "TIMESTAMPTZ".into(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision},{scale})"),
        other => other.to_string(),
    }
}
