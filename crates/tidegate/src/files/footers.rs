//! Footers of Parquet files: those that planning has read tell where row groups begin, and how long rows are.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::Session;
use datafusion::datasource::physical_plan::FileScanConfig;
use datafusion::error::Result;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::parquet::basic::Type;
use datafusion::parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use datafusion_datasource::PartitionedFile;
use datafusion_datasource_parquet::metadata::{CachedParquetMetaData, DFParquetMetadata};
use object_store::{ObjectMeta, ObjectStore};

use super::format::check_footer;
use super::guard::caught_async;
use super::name_of;

/// Bytes of a value of a string or of binary data besides its own.
const VIEW_BYTES: u64 = 16;

/// Reads the footer of a file, unless it is known.
///
/// # Errors
/// Fails for a file that is not there, or is damaged.
pub(crate) async fn footer_of(
    session: &dyn Session,
    store: &Arc<dyn ObjectStore>,
    file: &ObjectMeta,
) -> Result<Arc<ParquetMetaData>> {
    check_footer(store, file).await?;
    let footers = session
        .runtime_env()
        .cache_manager
        .get_file_metadata_cache();
    let footer = DFParquetMetadata::new(store.as_ref(), file);
    let footer = footer.with_file_metadata_cache(Some(footers));
    let name = name_of(store.as_ref(), &file.location);
    caught_async(&name, footer.fetch_metadata()).await
}

/// Returns the footer of a file, if planning has read it.
pub(crate) fn known_footer(
    file: &PartitionedFile,
    environment: &RuntimeEnv,
) -> Option<Arc<ParquetMetaData>> {
    let footers = environment.cache_manager.get_file_metadata_cache();
    let known = footers.get(&file.object_meta.location)?;
    if !known.is_valid_for(&file.object_meta) {
        return None;
    }
    let footer = known.file_metadata.as_any();
    let footer = footer.downcast_ref::<CachedParquetMetaData>()?;
    Some(Arc::clone(footer.parquet_metadata()))
}

/// Returns about how many bytes a row of a scan takes in memory, in the row group with the longest rows; 0 if nothing is
/// known of it, or if its values are short.
pub(crate) fn row_bytes(scan: &FileScanConfig, environment: &RuntimeEnv) -> u64 {
    let fields = scan.file_schema().fields();
    let projection = scan.file_source().projection();
    let indices = projection.map_or_else(
        || (0..fields.len()).collect(),
        |projection| projection.column_indices(),
    );
    let may_be_long = |kind: &DataType| kind.is_nested() || kind.is_string() || kind.is_binary();
    let fields = indices.iter().filter_map(|index| fields.get(*index));
    let fields = fields.filter(|field| may_be_long(field.data_type()));
    let columns: Vec<&str> = fields.map(|field| field.name().as_str()).collect();
    if columns.is_empty() {
        return 0;
    }
    let files = scan.file_groups.iter().flat_map(|group| group.files());
    let footers = files.filter_map(|file| known_footer(file, environment));
    let longest = footers.map(|footer| {
        let row_groups = footer.row_groups().iter();
        let bytes = row_groups.map(|row_group| row_bytes_in(row_group, &columns));
        bytes.max().unwrap_or(0)
    });
    longest.max().unwrap_or(0)
}

/// Returns about how many bytes the values of columns take in a row of a row group.
fn row_bytes_in(row_group: &RowGroupMetaData, columns: &[&str]) -> u64 {
    let read = row_group.columns().iter().filter(|column| {
        let root = column.column_path().parts().first();
        root.is_some_and(|root| columns.contains(&root.as_str()))
    });
    let bytes: u64 = read.map(decoded_bytes).sum();
    let rows = u64::try_from(row_group.num_rows()).unwrap_or(0);
    bytes / rows.max(1)
}

/// Returns about how many bytes the values of a column chunk take once they are decoded.
fn decoded_bytes(column: &ColumnChunkMetaData) -> u64 {
    let bytes = |number: i64| u64::try_from(number).unwrap_or(0);
    let values = bytes(column.num_values());
    let width = match column.column_type() {
        Type::BOOLEAN => 1,
        Type::INT32 | Type::FLOAT => 4,
        Type::INT64 | Type::DOUBLE => 8,
        Type::INT96 => 8,
        Type::FIXED_LEN_BYTE_ARRAY => bytes(column.column_descr().type_length().into()),
        Type::BYTE_ARRAY => {
            let told = column.unencoded_byte_array_data_bytes();
            let own = told.unwrap_or_else(|| column.uncompressed_size());
            // Values that repeat share the bytes of the dictionary, outside of lists.
            let is_shared = column.column_descr().max_rep_level() == 0;
            let own = match is_shared {
                true => own.min(column.uncompressed_size()),
                false => own,
            };
            return values.saturating_mul(VIEW_BYTES).saturating_add(bytes(own));
        }
    };
    values.saturating_mul(width)
}
