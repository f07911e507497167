//! What delimited files are like, as `sniff_csv` tells, with DuckDB's names of columns.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Int64Array, ListArray, StringArray, StructArray,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, Fields, Schema};
use tidegate_readers::Sniffed;

use crate::sql_type::sql_type;

/// Returns the schema of the table.
pub(super) fn schema() -> Schema {
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    Schema::new(vec![
        text("Delimiter"),
        text("Quote"),
        text("Escape"),
        text("Comment"),
        Field::new("SkipRows", DataType::Int64, true),
        Field::new("HasHeader", DataType::Boolean, true),
        Field::new("Columns", DataType::List(element()), true),
        text("Prompt"),
    ])
}

fn element() -> Arc<Field> {
    Arc::new(Field::new_list_field(DataType::Struct(fields()), true))
}

fn fields() -> Fields {
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    Fields::from(vec![text("name"), text("type")])
}

/// Returns what was found of files, by their names.
pub(super) fn columns(files: &[(String, Sniffed)]) -> Vec<ArrayRef> {
    let texts = |of: fn(&Sniffed) -> String| {
        let texts = files.iter().map(|(_, found)| of(found));
        Arc::new(StringArray::from_iter_values(texts)) as ArrayRef
    };
    let skipped = files.iter().map(|(_, found)| found.dialect.skip);
    let skipped = skipped.map(|skip| i64::try_from(skip).unwrap_or(i64::MAX));
    let headers = files.iter().map(|(_, found)| Some(found.dialect.header));
    let prompts = files.iter().map(|(name, found)| prompt(name, found));
    vec![
        texts(|found| shown(Some(found.dialect.delimiter))),
        texts(|found| shown(found.dialect.quote)),
        texts(|found| shown(found.dialect.escape)),
        texts(|found| shown(found.dialect.comment)),
        Arc::new(Int64Array::from_iter_values(skipped)),
        Arc::new(headers.collect::<BooleanArray>()),
        Arc::new(types(files)),
        Arc::new(StringArray::from_iter_values(prompts)),
    ]
}

/// Returns a character; none is empty.
fn shown(byte: Option<u8>) -> String {
    byte.map(char::from).map(String::from).unwrap_or_default()
}

/// Returns the columns of each file.
fn types(files: &[(String, Sniffed)]) -> ListArray {
    let all = files.iter().flat_map(|(_, found)| &found.columns);
    let names = all.clone().map(|column| Some(column.name.as_str()));
    let types = all.map(|column| Some(sql_type(&column.data_type)));
    let both: Vec<ArrayRef> = vec![
        Arc::new(names.collect::<StringArray>()),
        Arc::new(types.collect::<StringArray>()),
    ];
    let values = StructArray::new(fields(), both, None);
    let lengths = files.iter().map(|(_, found)| found.columns.len());
    let offsets = OffsetBuffer::from_lengths(lengths);
    ListArray::new(element(), offsets, Arc::new(values), None)
}

/// Returns the query that reads a file as it was found to be.
fn prompt(name: &str, found: &Sniffed) -> String {
    let text = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let dialect = &found.dialect;
    let columns = found.columns.iter().map(|column| {
        let data_type = sql_type(&column.data_type);
        format!("{}: {}", text(&column.name), text(&data_type))
    });
    let columns: Vec<String> = columns.collect();
    format!(
        "FROM read_csv({}, delim => {}, quote => {}, escape => {}, comment => {}, skip => {}, header => {}, \
         columns => {{{}}})",
        text(name),
        text(&shown(Some(dialect.delimiter))),
        text(&shown(dialect.quote)),
        text(&shown(dialect.escape)),
        text(&shown(dialect.comment)),
        dialect.skip,
        dialect.header,
        columns.join(", ")
    )
}
