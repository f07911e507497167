//! Reads a file with both readers.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::RecordBatch;
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::ParquetMetaData;
use rand::Rng;
use rand::rngs::StdRng;
use tidegate_kernels::host::BLOCK;
use tidegate_pages::{
    Buffers, ChunkBytes, ColumnError, ColumnRequest, ReadOptions, RowGroupReader,
};

use crate::cells::{Cell, of_array, of_chunk};

pub(crate) type Column = Vec<Option<Cell>>;

/// A file, and what the other reader makes of it.
pub(crate) struct Opened {
    pub(crate) metadata: Arc<ParquetMetaData>,
    pub(crate) columns: Vec<ColumnRequest>,
    source: Arc<dyn ChunkBytes>,
    bytes: Bytes,
}

impl Opened {
    pub(crate) fn new(bytes: &Bytes) -> Self {
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).unwrap();
        let fields = builder.schema().fields().iter().enumerate();
        let columns = fields.map(|(leaf, field)| ColumnRequest {
            leaf,
            data_type: field.data_type().clone(),
        });
        Self {
            metadata: Arc::clone(builder.metadata()),
            columns: columns.collect(),
            source: Arc::new(bytes.clone()),
            bytes: bytes.clone(),
        }
    }

    /// Returns the same file, to be read otherwise.
    pub(crate) fn shared(&self) -> Self {
        Self {
            metadata: Arc::clone(&self.metadata),
            columns: self.columns.clone(),
            source: Arc::clone(&self.source),
            bytes: self.bytes.clone(),
        }
    }

    /// Returns the columns of a row group as the other reader has them.
    pub(crate) fn expected(&self, row_group: usize) -> Vec<Column> {
        let builder = ParquetRecordBatchReaderBuilder::try_new(self.bytes.clone()).unwrap();
        let reader = builder.with_row_groups(vec![row_group]).build().unwrap();
        let batches: Vec<RecordBatch> = reader.map(Result::unwrap).collect();
        let column = |column: usize| {
            let parts = batches.iter().map(|batch| of_array(batch.column(column)));
            parts.flatten().collect()
        };
        (0..self.columns.len()).map(column).collect()
    }

    pub(crate) fn open(
        &self,
        reader: &mut RowGroupReader,
        row_group: usize,
        rows: Option<&[Range<usize>]>,
    ) -> Result<(), ColumnError> {
        reader.open(&self.metadata, row_group, &self.columns, rows, &self.source)
    }
}

/// Compares all blocks of all row groups.
pub(crate) fn check_all(bytes: &Bytes, reader: &mut RowGroupReader, what: &str) {
    let file = Opened::new(bytes);
    for row_group in 0..file.metadata.num_row_groups() {
        let expected = file.expected(row_group);
        file.open(reader, row_group, None).unwrap();
        let mut at = 0;
        loop {
            let rows = reader.next_block();
            if rows == 0 {
                break;
            }
            assert!(rows == BLOCK || at + rows == reader.num_rows(), "{what}");
            for (column, expected) in expected.iter().enumerate() {
                reader
                    .decode(column)
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
                let chunk = reader.chunk(column).unwrap();
                let found = of_chunk(&chunk, rows, reader.entries(column));
                assert_eq!(
                    found,
                    expected[at..at + rows],
                    "{what}, column {column} from {at}"
                );
            }
            at += rows;
        }
        let num_rows = file.metadata.row_group(row_group).num_rows() as usize;
        assert_eq!(at, num_rows, "{what}");
    }
}

/// Compares random ranges of rows, of which columns are decoded now and then.
pub(crate) fn check_some(
    bytes: &Bytes,
    reader: &mut RowGroupReader,
    random: &mut StdRng,
    what: &str,
) {
    let file = Opened::new(bytes);
    for row_group in 0..file.metadata.num_row_groups() {
        let expected = file.expected(row_group);
        let num_rows = file.metadata.row_group(row_group).num_rows() as usize;
        let ranges = ranges_in(num_rows, random);
        let selected: Vec<usize> = ranges.iter().cloned().flatten().collect();
        file.open(reader, row_group, Some(&ranges)).unwrap();
        assert_eq!(reader.num_rows(), selected.len(), "{what}");
        let decoded = random.random_range(0.1..1.0);
        let mut at = 0;
        loop {
            let rows = reader.next_block();
            let rest: Vec<usize> = reader.rest().into_iter().flatten().collect();
            assert_eq!(rest, selected[at..], "{what}");
            if rows == 0 {
                break;
            }
            for (column, expected) in expected.iter().enumerate() {
                if !random.random_bool(decoded) {
                    continue;
                }
                reader
                    .decode(column)
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
                let chunk = reader.chunk(column).unwrap();
                let found = of_chunk(&chunk, rows, reader.entries(column));
                let expected = selected[at..at + rows]
                    .iter()
                    .map(|row| expected[*row].clone());
                let expected: Column = expected.collect();
                assert_eq!(
                    found, expected,
                    "{what}, column {column} from {at} of {ranges:?}"
                );
            }
            at += rows;
        }
        assert_eq!(at, selected.len(), "{what}");
    }
}

fn ranges_in(num_rows: usize, random: &mut StdRng) -> Vec<Range<usize>> {
    let most = [3, 50, 3_000][random.random_range(0..3)];
    let (mut ranges, mut at) = (Vec::new(), 0);
    loop {
        let start = at + random.random_range(0..most);
        let end = start + random.random_range(0..most);
        if end > num_rows {
            return ranges;
        }
        ranges.push(start..end);
        at = end;
    }
}

pub(crate) fn new_reader() -> RowGroupReader {
    RowGroupReader::new(ReadOptions::default(), &Buffers::default())
}
