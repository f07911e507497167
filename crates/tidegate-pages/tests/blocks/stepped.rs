//! Blocks of a file on disk whose columns are decoded late, and what is left of its rows.

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, StringArray};
use bytes::Bytes;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tidegate_kernels::host::{BLOCK, Chunk, Values};
use tidegate_pages::{Buffers, ChunkBytes, LocalFile, ReadOptions, RowGroupReader};

use crate::compare::Opened;
use crate::files::written;

const ROWS: usize = 20 * BLOCK;

/// Adds up the second column where the first is 1, and the bytes of the third.
#[derive(Default)]
struct Sums {
    selected: Vec<usize>,
    numbers: i64,
    bytes: usize,
    /// Blocks to take before declining.
    most: usize,
}

fn integers<'a>(chunk: &Option<Chunk<'a>>) -> &'a [i64] {
    let Some(Chunk {
        values: Values::I64(values),
        validity: None,
    }) = chunk
    else {
        panic!("plain integers: {chunk:?}");
    };
    values
}

/// What became of a block.
enum Step {
    /// So many rows were folded, as far as they were selected.
    Folded(usize),
    /// None of so many rows was selected.
    Filtered(usize),
    /// It was not taken.
    Declined,
    /// There was no block left.
    End,
}

impl Sums {
    /// Takes the next block, of which the first column is decoded first, and the others if rows are left.
    fn step(&mut self, reader: &mut RowGroupReader) -> Step {
        let rows = reader.next_block();
        if rows == 0 {
            return Step::End;
        }
        reader.decode(0).unwrap();
        if !self.select(rows, &reader.chunks()) {
            return Step::Filtered(rows);
        }
        for column in 0..3 {
            reader.decode(column).unwrap();
        }
        match self.fold(&reader.chunks()) {
            true => Step::Folded(rows),
            false => Step::Declined,
        }
    }

    fn select(&mut self, rows: usize, chunks: &[Option<Chunk<'_>>]) -> bool {
        assert!(
            chunks[1].is_none() && chunks[2].is_none(),
            "others are late"
        );
        let flags = integers(&chunks[0]);
        self.selected = (0..rows).filter(|row| flags[*row] == 1).collect();
        !self.selected.is_empty()
    }

    fn fold(&mut self, chunks: &[Option<Chunk<'_>>]) -> bool {
        if self.most == 0 {
            return false;
        }
        self.most -= 1;
        let numbers = integers(&chunks[1]);
        let Some(Chunk {
            values: Values::Text { array, at },
            ..
        }) = chunks[2]
        else {
            panic!("strings: {:?}", chunks[2]);
        };
        for row in &self.selected {
            self.numbers += numbers[*row];
            self.bytes += array.value(at + row).len();
        }
        true
    }
}

/// A file of plain columns in which one block of four has a row that is selected.
fn file() -> (Bytes, i64, usize) {
    let mut random = StdRng::seed_from_u64(101);
    let is_selected = |row: usize| row / BLOCK % 4 == 2 && row.is_multiple_of(5);
    let flags: Vec<i64> = (0..ROWS).map(|row| is_selected(row).into()).collect();
    let numbers: Vec<i64> = (0..ROWS).map(|_| random.random_range(0..1_000)).collect();
    let texts: Vec<String> = numbers
        .iter()
        .map(|number| "x".repeat(*number as usize % 20))
        .collect();
    let rows = (0..ROWS).filter(|row| is_selected(*row));
    let (sum, bytes) = rows.fold((0, 0), |(sum, bytes), row| {
        (sum + numbers[row], bytes + texts[row].len())
    });
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("flag", Arc::new(Int64Array::from(flags))),
        ("number", Arc::new(Int64Array::from(numbers))),
        ("text", Arc::new(StringArray::from(texts))),
    ];
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .set_compression(Compression::SNAPPY)
        .set_write_batch_size(500)
        .set_data_page_row_count_limit(500)
        .build();
    (written(columns, properties), sum, bytes)
}

fn on_disk(bytes: &Bytes, buffers: &Buffers, name: &str) -> Arc<dyn ChunkBytes> {
    let name = format!("tidegate-pages-{name}-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, bytes).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    Arc::new(LocalFile::new(file, buffers).unwrap())
}

#[test]
fn late_columns_are_read_for_blocks_with_rows_left() {
    let (bytes, sum, num_bytes) = file();
    let opened = Opened::new(&bytes);
    let buffers = Buffers::default();
    let source = on_disk(&bytes, &buffers, "late");
    for window_bytes in [1, 1_000, 1 << 20] {
        let options = ReadOptions {
            window_bytes,
            ..ReadOptions::default()
        };
        let mut reader = RowGroupReader::new(options, &buffers);
        reader
            .open(&opened.metadata, 0, &opened.columns, None, &source)
            .unwrap();
        let mut sums = Sums {
            most: usize::MAX,
            ..Sums::default()
        };
        let (mut folded, mut filtered) = (0, 0);
        loop {
            match sums.step(&mut reader) {
                Step::Folded(rows) => folded += rows,
                Step::Filtered(rows) => filtered += rows,
                Step::Declined => panic!("a block was declined"),
                Step::End => break,
            }
        }
        assert_eq!((sums.numbers, sums.bytes), (sum, num_bytes));
        assert_eq!((folded, filtered), (ROWS / 4, ROWS / 4 * 3));
    }
}

#[test]
fn a_block_that_is_declined_is_left_to_others() {
    let (bytes, ..) = file();
    let opened = Opened::new(&bytes);
    let buffers = Buffers::default();
    let source = on_disk(&bytes, &buffers, "declined");
    let mut reader = RowGroupReader::new(ReadOptions::default(), &buffers);
    reader
        .open(&opened.metadata, 0, &opened.columns, None, &source)
        .unwrap();
    let mut sums = Sums {
        most: 2,
        ..Sums::default()
    };
    loop {
        match sums.step(&mut reader) {
            Step::End => panic!("nothing was declined"),
            Step::Declined => break,
            Step::Folded(_) | Step::Filtered(_) => {}
        }
    }
    // The third block of the third four.
    assert_eq!(reader.rest(), std::slice::from_ref(&(10 * BLOCK..ROWS)));
}
