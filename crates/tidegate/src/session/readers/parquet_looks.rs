//! Footers of Parquet files as tables, with DuckDB's names of columns.

use std::fmt::Debug;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BinaryArray, BooleanArray, Int64Array, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::parquet::basic::ConvertedType;
use datafusion::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use datafusion::parquet::file::statistics::Statistics;
use datafusion::parquet::schema::types::Type;

/// A file's name, its size and its footer.
pub(super) type Footer = (String, u64, Arc<ParquetMetaData>);

/// A value of a row.
#[derive(Clone, Debug)]
enum Cell {
    Text(Option<String>),
    Number(Option<i64>),
    Truth(Option<bool>),
}

/// The kind of a column.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Text,
    Number,
    Truth,
}

/// Columns of `parquet_schema`.
pub(super) const COLUMNS: [(&str, Kind); 12] = [
    ("file_name", Kind::Text),
    ("name", Kind::Text),
    ("type", Kind::Text),
    ("type_length", Kind::Text),
    ("repetition_type", Kind::Text),
    ("num_children", Kind::Number),
    ("converted_type", Kind::Text),
    ("scale", Kind::Number),
    ("precision", Kind::Number),
    ("field_id", Kind::Number),
    ("logical_type", Kind::Text),
    ("column_id", Kind::Number),
];

/// Columns of `parquet_file_metadata`.
pub(super) const FILE: [(&str, Kind); 6] = [
    ("file_name", Kind::Text),
    ("created_by", Kind::Text),
    ("num_rows", Kind::Number),
    ("num_row_groups", Kind::Number),
    ("format_version", Kind::Number),
    ("file_size_bytes", Kind::Number),
];

/// Columns of `parquet_metadata`.
pub(super) const CHUNKS: [(&str, Kind); 28] = [
    ("file_name", Kind::Text),
    ("row_group_id", Kind::Number),
    ("row_group_num_rows", Kind::Number),
    ("row_group_num_columns", Kind::Number),
    ("row_group_bytes", Kind::Number),
    ("column_id", Kind::Number),
    ("file_offset", Kind::Number),
    ("num_values", Kind::Number),
    ("path_in_schema", Kind::Text),
    ("type", Kind::Text),
    ("stats_min", Kind::Text),
    ("stats_max", Kind::Text),
    ("stats_null_count", Kind::Number),
    ("stats_distinct_count", Kind::Number),
    ("stats_min_value", Kind::Text),
    ("stats_max_value", Kind::Text),
    ("compression", Kind::Text),
    ("encodings", Kind::Text),
    ("index_page_offset", Kind::Number),
    ("dictionary_page_offset", Kind::Number),
    ("data_page_offset", Kind::Number),
    ("total_compressed_size", Kind::Number),
    ("total_uncompressed_size", Kind::Number),
    ("bloom_filter_offset", Kind::Number),
    ("bloom_filter_length", Kind::Number),
    ("min_is_exact", Kind::Truth),
    ("max_is_exact", Kind::Truth),
    ("row_group_compressed_bytes", Kind::Number),
];

/// Returns the schema of a table.
pub(super) fn schema_of(columns: &[(&str, Kind)]) -> Schema {
    let fields = columns.iter().map(|(name, kind)| {
        let data_type = match kind {
            Kind::Text => DataType::Utf8,
            Kind::Number => DataType::Int64,
            Kind::Truth => DataType::Boolean,
        };
        Field::new(*name, data_type, true)
    });
    Schema::new(fields.collect::<Vec<_>>())
}

/// Returns the schema of `parquet_kv_metadata`.
pub(super) fn keys_schema() -> Schema {
    Schema::new(vec![
        Field::new("file_name", DataType::Utf8, true),
        Field::new("key", DataType::Binary, true),
        Field::new("value", DataType::Binary, true),
    ])
}

/// Returns the columns of files, groups before their fields.
pub(super) fn columns(footers: &[Footer]) -> Vec<ArrayRef> {
    let mut rows = Vec::new();
    for (name, _, footer) in footers {
        let mut next = 0;
        add_type(footer.file_metadata().schema(), name, &mut next, &mut rows);
    }
    arrays(&COLUMNS, rows)
}

fn add_type(kind: &Type, file: &str, next: &mut i64, rows: &mut Vec<Vec<Cell>>) {
    let info = kind.get_basic_info();
    let (physical, length, scale, precision) = match kind {
        Type::PrimitiveType {
            physical_type,
            type_length,
            scale,
            precision,
            ..
        } => (
            Some(debug(physical_type)),
            (*type_length > 0).then(|| type_length.to_string()),
            *scale,
            *precision,
        ),
        Type::GroupType { .. } => (None, None, 0, 0),
    };
    let fields: &[Arc<Type>] = match kind {
        Type::GroupType { fields, .. } => fields,
        Type::PrimitiveType { .. } => &[],
    };
    let is_group = matches!(kind, Type::GroupType { .. });
    let converted = info.converted_type();
    let is_decimal = precision > 0;
    rows.push(vec![
        text(file),
        text(info.name()),
        Cell::Text(physical),
        Cell::Text(length),
        Cell::Text(Some(match info.has_repetition() {
            true => debug(&info.repetition()),
            false => "REQUIRED".into(),
        })),
        Cell::Number(is_group.then(|| count(fields.len()))),
        Cell::Text((converted != ConvertedType::NONE).then(|| debug(&converted))),
        Cell::Number(is_decimal.then(|| i64::from(scale))),
        Cell::Number(is_decimal.then(|| i64::from(precision))),
        Cell::Number(info.has_id().then(|| i64::from(info.id()))),
        Cell::Text(info.logical_type_ref().map(debug)),
        Cell::Number(Some(*next)),
    ]);
    *next += 1;
    for field in fields {
        add_type(field, file, next, rows);
    }
}

/// Returns what is said of files as a whole.
pub(super) fn files(footers: &[Footer]) -> Vec<ArrayRef> {
    let rows = footers.iter().map(|(name, size, footer)| {
        let of_file = footer.file_metadata();
        vec![
            text(name),
            Cell::Text(of_file.created_by().map(str::to_string)),
            Cell::Number(Some(of_file.num_rows())),
            Cell::Number(Some(count(footer.num_row_groups()))),
            Cell::Number(Some(of_file.version().into())),
            Cell::Number(i64::try_from(*size).ok()),
        ]
    });
    arrays(&FILE, rows.collect())
}

/// Returns the column chunks of files.
pub(super) fn chunks(footers: &[Footer]) -> Vec<ArrayRef> {
    let mut rows = Vec::new();
    for (name, _, footer) in footers {
        for (group, row_group) in footer.row_groups().iter().enumerate() {
            for (place, chunk) in row_group.columns().iter().enumerate() {
                rows.push(of_chunk(name, (group, row_group), (place, chunk)));
            }
        }
    }
    arrays(&CHUNKS, rows)
}

fn of_chunk(
    file: &str,
    (group, row_group): (usize, &RowGroupMetaData),
    (place, chunk): (usize, &ColumnChunkMetaData),
) -> Vec<Cell> {
    let number = |number: i64| Cell::Number(Some(number));
    let known = chunk.statistics();
    let (min, max) = known.map(extremes).unwrap_or_default();
    let encodings: Vec<String> = chunk.encodings().map(|encoding| debug(&encoding)).collect();
    let count_of = |count: Option<u64>| Cell::Number(count.and_then(|count| count.try_into().ok()));
    vec![
        text(file),
        number(count(group)),
        number(row_group.num_rows()),
        number(count(row_group.num_columns())),
        number(row_group.total_byte_size()),
        number(count(place)),
        number(chunk.file_offset()),
        number(chunk.num_values()),
        text(&chunk.column_path().parts().join(", ")),
        Cell::Text(Some(debug(&chunk.column_type()))),
        Cell::Text(min.clone()),
        Cell::Text(max.clone()),
        count_of(known.and_then(Statistics::null_count_opt)),
        count_of(known.and_then(Statistics::distinct_count_opt)),
        Cell::Text(min),
        Cell::Text(max),
        Cell::Text(Some(codec(chunk))),
        text(&encodings.join(", ")),
        Cell::Number(chunk.index_page_offset()),
        Cell::Number(chunk.dictionary_page_offset()),
        number(chunk.data_page_offset()),
        number(chunk.compressed_size()),
        number(chunk.uncompressed_size()),
        Cell::Number(chunk.bloom_filter_offset()),
        Cell::Number(chunk.bloom_filter_length().map(i64::from)),
        Cell::Truth(known.map(Statistics::min_is_exact)),
        Cell::Truth(known.map(Statistics::max_is_exact)),
        number(row_group.compressed_size()),
    ]
}

/// Names a codec without its level, which a file does not say.
fn codec(chunk: &ColumnChunkMetaData) -> String {
    let named = debug(&chunk.compression());
    let end = named.find('(').unwrap_or(named.len());
    named.chars().take(end).collect()
}

/// Returns the least and the greatest value as they are stored; `None` for bytes that are no text.
fn extremes(known: &Statistics) -> (Option<String>, Option<String>) {
    fn both<T: ToString>(min: Option<&T>, max: Option<&T>) -> (Option<String>, Option<String>) {
        (min.map(T::to_string), max.map(T::to_string))
    }
    match known {
        Statistics::Boolean(known) => both(known.min_opt(), known.max_opt()),
        Statistics::Int32(known) => both(known.min_opt(), known.max_opt()),
        Statistics::Int64(known) => both(known.min_opt(), known.max_opt()),
        Statistics::Float(known) => both(known.min_opt(), known.max_opt()),
        Statistics::Double(known) => both(known.min_opt(), known.max_opt()),
        _ => {
            let text = |bytes: Option<&[u8]>| String::from_utf8(bytes?.to_vec()).ok();
            (text(known.min_bytes_opt()), text(known.max_bytes_opt()))
        }
    }
}

/// Returns the keys and values that files have beside their rows.
pub(super) fn keys(footers: &[Footer]) -> Vec<ArrayRef> {
    let mut pairs = Vec::new();
    for (name, _, footer) in footers {
        for pair in footer
            .file_metadata()
            .key_value_metadata()
            .into_iter()
            .flatten()
        {
            pairs.push((name.as_str(), pair));
        }
    }
    let names = pairs.iter().map(|(name, _)| *name);
    let keys = pairs.iter().map(|(_, pair)| pair.key.as_bytes());
    let values = pairs
        .iter()
        .map(|(_, pair)| pair.value.as_deref().map(str::as_bytes));
    vec![
        Arc::new(StringArray::from_iter_values(names)),
        Arc::new(BinaryArray::from_iter_values(keys)),
        Arc::new(values.collect::<BinaryArray>()),
    ]
}

fn text(text: &str) -> Cell {
    Cell::Text(Some(text.to_string()))
}

fn debug(value: &impl Debug) -> String {
    format!("{value:?}")
}

fn count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Makes columns of rows.
fn arrays(columns: &[(&str, Kind)], rows: Vec<Vec<Cell>>) -> Vec<ArrayRef> {
    let mut cells: Vec<Vec<Cell>> = columns
        .iter()
        .map(|_| Vec::with_capacity(rows.len()))
        .collect();
    for row in rows {
        for (column, cell) in cells.iter_mut().zip(row) {
            column.push(cell);
        }
    }
    let made = columns.iter().zip(cells).map(|((_, kind), cells)| {
        let cells = cells.into_iter();
        match kind {
            Kind::Text => Arc::new(cells.map(Cell::into_text).collect::<StringArray>()) as ArrayRef,
            Kind::Number => Arc::new(cells.map(Cell::into_number).collect::<Int64Array>()),
            Kind::Truth => Arc::new(cells.map(Cell::into_truth).collect::<BooleanArray>()),
        }
    });
    made.collect()
}

impl Cell {
    fn into_text(self) -> Option<String> {
        match self {
            Self::Text(text) => text,
            Self::Number(_) | Self::Truth(_) => None,
        }
    }

    fn into_number(self) -> Option<i64> {
        match self {
            Self::Number(number) => number,
            Self::Text(_) | Self::Truth(_) => None,
        }
    }

    fn into_truth(self) -> Option<bool> {
        match self {
            Self::Truth(truth) => truth,
            Self::Text(_) | Self::Number(_) => None,
        }
    }
}
