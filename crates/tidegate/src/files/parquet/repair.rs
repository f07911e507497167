//! Footers of old writers, read as other readers read them.
//!
//! - Some writers give 0 for the place of a dictionary page that a column does not have.
//! - parquet-mr before 1.2.9 left the header of the dictionary page out of a column's length.

use std::sync::Arc;

use parquet::arrow::async_reader::AsyncFileReader;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use tidegate_pages::thrift::walk;

use super::ParquetResult;
use super::pages::DICTIONARY_PAGE;

/// Bytes that the header of a dictionary page has at most.
const HEADER_BYTES: u64 = 256;

/// Returns a file's metadata, repaired where that is needed.
pub(super) async fn repaired(
    metadata: Arc<ParquetMetaData>,
    reader: &mut Box<dyn AsyncFileReader + Send>,
) -> ParquetResult<Arc<ParquetMetaData>> {
    let leaves_headers_out = leaves_headers_out(metadata.file_metadata().created_by());
    let columns = || {
        metadata
            .row_groups()
            .iter()
            .flat_map(|group| group.columns())
    };
    let is_wrong = |column: &ColumnChunkMetaData| {
        leaves_headers_out || column.dictionary_page_offset() == Some(0)
    };
    if !columns().any(is_wrong) {
        return Ok(metadata);
    }
    let mut builder = metadata.as_ref().clone().into_builder();
    for mut group in builder.take_row_groups() {
        let mut columns = Vec::with_capacity(group.num_columns());
        for column in group.columns() {
            let mut column = column.clone();
            if column.dictionary_page_offset() == Some(0) {
                column = column
                    .into_builder()
                    .set_dictionary_page_offset(None)
                    .build()?;
            }
            if leaves_headers_out {
                let header = dictionary_header(&column, reader).await?;
                let length = column.compressed_size().saturating_add(header);
                column = column
                    .into_builder()
                    .set_total_compressed_size(length)
                    .build()?;
            }
            columns.push(column);
        }
        group = group.into_builder().set_column_metadata(columns).build()?;
        builder = builder.add_row_group(group);
    }
    Ok(Arc::new(builder.build()))
}

/// Returns the length of the header of a column's dictionary page; 0 if it has none.
async fn dictionary_header(
    column: &ColumnChunkMetaData,
    reader: &mut Box<dyn AsyncFileReader + Send>,
) -> ParquetResult<i64> {
    let start = column.dictionary_page_offset();
    let start = start.unwrap_or_else(|| column.data_page_offset());
    let (Ok(start), Ok(length)) = (
        u64::try_from(start),
        u64::try_from(column.compressed_size()),
    ) else {
        return Ok(0);
    };
    let bytes = reader
        .get_bytes(start..start + length.min(HEADER_BYTES))
        .await?;
    let mut is_dictionary = false;
    let header = walk(&bytes, |path, value| {
        is_dictionary |= path == [1] && value == DICTIONARY_PAGE;
    });
    Ok(header.ok().filter(|_| is_dictionary).unwrap_or(0) as i64)
}

/// Tells whether a writer left the headers of dictionary pages out of columns' lengths.
fn leaves_headers_out(created_by: Option<&str>) -> bool {
    let version = created_by.and_then(|name| name.strip_prefix("parquet-mr"));
    let Some(version) = version.and_then(|rest| rest.trim_start().strip_prefix("version ")) else {
        return false;
    };
    let number = version
        .split(|c: char| !c.is_ascii_digit() && c != '.')
        .next();
    let parts = number
        .unwrap_or_default()
        .split('.')
        .map(|part| part.parse().unwrap_or(0));
    let parts: Vec<u32> = parts.collect();
    parts.as_slice() < &[1, 2, 9] && !parts.is_empty()
}

#[cfg(test)]
mod tests {
    use super::leaves_headers_out;

    #[test]
    fn writers_are_told_by_their_version() {
        let check = |name: &str, expect: bool| {
            assert_eq!(leaves_headers_out(Some(name)), expect, "{name}");
        };
        check("parquet-mr version 1.2.8 (build 1)", true);
        check("parquet-mr version 1.2.9", false);
        check("parquet-mr version 1.12.3 (build f8dced)", false);
        check("parquet-rs version 0.1.0", false);
        check("parquet-mr", false);
    }
}
