//! Good Parquet files that are written in unusual ways give their rows.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::ParquetReadOptions;
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, FileMetaData, ParquetMetaData, ParquetMetaDataReader,
    ParquetMetaDataWriter,
};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use tidegate::{Session, SimulatedSpec};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// A list as some writers say it: a repeated group, without the annotation LIST.
const REPEATED: &str = "message user {
    required int32 id;
    optional group phones {
        repeated group phone {
            required int64 number;
            optional binary kind (UTF8);
        }
    }
}";

fn write_repeated(path: &Path) -> Result<()> {
    let schema = Arc::new(parse_message_type(REPEATED)?);
    let properties = Arc::new(WriterProperties::builder().build());
    let mut file = SerializedFileWriter::new(File::create(path)?, schema, properties)?;
    let mut group = file.next_row_group()?;
    let mut number = 0;
    while let Some(mut column) = group.next_column()? {
        match number {
            0 => {
                let values = [1, 2, 3, 4, 5, 6];
                column
                    .typed::<Int32Type>()
                    .write_batch(&values, None, None)?;
            }
            // Rows: none, none, empty, one, one, two.
            1 => {
                let (defined, repeated) = ([0, 0, 1, 2, 2, 2, 2], [0, 0, 0, 0, 0, 0, 1]);
                let values = [40, 50, 60, 61];
                column.typed::<Int64Type>().write_batch(
                    &values,
                    Some(&defined),
                    Some(&repeated),
                )?;
            }
            _ => {
                let (defined, repeated) = ([0, 0, 1, 2, 3, 3, 2], [0, 0, 0, 0, 0, 0, 1]);
                let values = [ByteArray::from("home"), ByteArray::from("work")];
                column.typed::<ByteArrayType>().write_batch(
                    &values,
                    Some(&defined),
                    Some(&repeated),
                )?;
            }
        }
        column.close()?;
        number += 1;
    }
    group.close()?;
    file.close()?;
    Ok(())
}

async fn text(session: &Session, sql: &str) -> Result<String> {
    Ok(pretty_format_batches(&session.collect(sql).await?)?.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_group_without_annotation_is_a_list() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("repeated.parquet");
    write_repeated(&path)?;
    let session = Session::builder().file_urls().build()?;
    let file = path.display();
    let all = format!("SELECT * FROM '{file}'");
    insta::assert_snapshot!(text(&session, &all).await?, @r"
    +----+-----------------------------------------------------------+
    | id | phones                                                    |
    +----+-----------------------------------------------------------+
    | 1  |                                                           |
    | 2  |                                                           |
    | 3  | {phone: []}                                               |
    | 4  | {phone: [{number: 40, kind: }]}                           |
    | 5  | {phone: [{number: 50, kind: home}]}                       |
    | 6  | {phone: [{number: 60, kind: work}, {number: 61, kind: }]} |
    +----+-----------------------------------------------------------+
    ");
    let counted = format!("SELECT count(*) AS rows, sum(id) AS ids FROM '{file}'");
    insta::assert_snapshot!(text(&session, &counted).await?, @r"
    +------+-----+
    | rows | ids |
    +------+-----+
    | 6    | 21  |
    +------+-----+
    ");
    Ok(())
}

/// Rewrites a file's footer.
fn with_footer(
    path: &Path,
    created_by: Option<&str>,
    num_rows: Option<i64>,
    change: impl Fn(
        &[u8],
        ColumnChunkMetaData,
    ) -> std::result::Result<ColumnChunkMetaData, ParquetError>,
) -> Result<()> {
    let bytes = fs::read(path)?;
    let metadata = ParquetMetaDataReader::new().parse_and_finish(&File::open(path)?)?;
    let file = metadata.file_metadata();
    let created_by = created_by.or(file.created_by()).map(String::from);
    let file = FileMetaData::new(
        file.version(),
        file.num_rows(),
        created_by,
        file.key_value_metadata().cloned(),
        file.schema_descr_ptr(),
        None,
    );
    let mut groups = Vec::new();
    for group in metadata.row_groups() {
        let columns = group.columns().iter().cloned();
        let columns = columns
            .map(|column| change(&bytes, column))
            .collect::<std::result::Result<_, _>>()?;
        let num_rows = num_rows.unwrap_or(group.num_rows());
        groups.push(
            group
                .clone()
                .into_builder()
                .set_num_rows(num_rows)
                .set_column_metadata(columns)
                .build()?,
        );
    }
    let changed = ParquetMetaData::new(file, groups);
    let length = bytes[bytes.len() - 8..]
        .first_chunk()
        .map(|length| u32::from_le_bytes(*length));
    let mut rewritten = bytes[..bytes.len() - 8 - length.unwrap_or(0) as usize].to_vec();
    ParquetMetaDataWriter::new(&mut rewritten, &changed).finish()?;
    fs::write(path, rewritten)?;
    Ok(())
}

async fn strings(session: &Session, path: &Path, dictionary: bool) -> Result<()> {
    let enabled = if dictionary { "true" } else { "false" };
    let sql = format!(
        "COPY (SELECT value AS id, 'text ' || (value % 9) AS s FROM generate_series(1, 1000)) TO '{}' \
         STORED AS PARQUET OPTIONS ('format.dictionary_enabled' '{enabled}', \
         'format.statistics_enabled' 'none')",
        path.display()
    );
    session.collect(&sql).await?;
    Ok(())
}

/// Reads what [`strings`] wrote.
async fn check_strings(session: &Session, path: &Path) -> Result<()> {
    let sql = format!(
        "SELECT sum(id) AS ids, max(s) AS s, count(DISTINCT s) AS texts FROM '{}'",
        path.display()
    );
    let text = text(session, &sql).await?;
    assert!(text.contains("| 500500 | text 8 | 9     |"), "{text}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dictionary_page_at_zero_is_none() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("zero.parquet");
    let session = Session::builder().file_urls().build()?;
    strings(&session, &path, false).await?;
    with_footer(&path, None, None, |_, column| {
        column
            .into_builder()
            .set_dictionary_page_offset(Some(0))
            .build()
    })?;
    check_strings(&session, &path).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dictionary_header_that_its_writer_did_not_count_is_read() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("short.parquet");
    let session = Session::builder().file_urls().build()?;
    strings(&session, &path, true).await?;
    with_footer(
        &path,
        Some("parquet-mr version 1.2.8 (build 1)"),
        None,
        |bytes, column| {
            let length = column.compressed_size();
            // The header ends where the page begins: it is as long as what the page does not fill.
            let start = column
                .dictionary_page_offset()
                .ok_or_else(|| ParquetError::General("the column has no dictionary".into()))?;
            let header = header_length(&bytes[start as usize..]);
            column
                .into_builder()
                .set_total_compressed_size(length - header)
                .build()
        },
    )?;
    check_strings(&session, &path).await
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_promised_and_not_there_are_an_error() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("promised.parquet");
    write_repeated(&path)?;
    let rows_alone = path.with_file_name("rows_alone.parquet");
    fs::copy(&path, &rows_alone)?;
    with_footer(&rows_alone, None, Some(9), |_, column| Ok(column))?;
    // arrow-rs finds no further page, and says that there are no further rows.
    with_footer(&path, None, Some(9), |_, column| {
        let values = column.num_values().max(9);
        column.into_builder().set_num_values(values).build()
    })?;
    let device = SimulatedSpec::with_memory(256 << 20);
    let session = Session::builder()
        .file_urls()
        .simulate_device(device)
        .build()?;
    let of_rows = "its footer says that there are 9 rows, and 6 were read";
    let of_column =
        "its footer is damaged: a column of a row group of 9 rows is said to have 6 values";
    for placement in ["host", "device"] {
        session.set("tidegate.placement", placement).await?;
        let read = ["*", "id", "sum(id)"];
        // Rows are counted without reading any.
        let counted = ["*", "id", "count(*)"];
        for (path, expect, selects) in [(&path, of_rows, read), (&rows_alone, of_column, counted)] {
            for select in selects {
                let sql = format!("SELECT {select} FROM '{}'", path.display());
                let Err(error) = session.collect(&sql).await else {
                    return Err(format!("{placement}: {sql} has rows").into());
                };
                let message = error.to_string();
                assert!(message.contains("damaged or unsupported"), "{message}");
                assert!(message.contains(expect), "{placement}: {sql}: {message}");
            }
        }
    }
    Ok(())
}

/// Returns the length of a dictionary page's header: numbers, and one structure of numbers.
fn header_length(bytes: &[u8]) -> i64 {
    let (mut at, mut depth) = (0, 1);
    while depth > 0 {
        let kind = bytes[at] & 0x0f;
        at += 1;
        match kind {
            0 => depth -= 1,
            12 => depth += 1,
            1 | 2 => {}
            _ => {
                while bytes[at] & 0x80 != 0 {
                    at += 1;
                }
                at += 1;
            }
        }
    }
    at as i64
}

/// Bounds leave NaN out: of such a column they are equal, and its rows are not. The table is DataFusion's own.
#[tokio::test(flavor = "multi_thread")]
async fn a_column_of_one_value_and_nan_keeps_its_nan() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("t.parquet");
    let path = path.to_str().unwrap();
    let session = Session::new()?;
    let rows = "(VALUES (1, 2.5::double, -0.0::real), (2, 'NaN', 0.0), (3, 2.5, 0.0)) v(id, x, z)";
    let copy = format!("COPY (SELECT * FROM {rows}) TO '{path}' STORED AS PARQUET");
    session.collect(&copy).await?;
    let context = session.context();
    context
        .register_parquet("t", path, ParquetReadOptions::default())
        .await?;
    for settings in ["off", "auto"] {
        let set = format!("SET tidegate.host_engine = '{settings}'");
        session.collect(&set).await?;
        let sorted = session
            .collect("SELECT id, x, z, x > 2.5 AS more FROM t WHERE z = 0 ORDER BY x DESC, id")
            .await?;
        let expected = "\
+----+-----+------+-------+
| id | x   | z    | more  |
+----+-----+------+-------+
| 2  | NaN | 0.0  | true  |
| 1  | 2.5 | -0.0 | false |
| 3  | 2.5 | 0.0  | false |
+----+-----+------+-------+";
        assert_eq!(pretty_format_batches(&sorted)?.to_string(), expected);
    }
    Ok(())
}
