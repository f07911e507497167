//! Dictionaries that grow too large: the rest of the column chunk is plain.

use parquet::file::properties::{WriterProperties, WriterVersion};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tidegate_pages::RowGroupReader;

use crate::compare::{Opened, check_all, check_some, new_reader};
use crate::files::{Nulls, Values, columns, written};

#[test]
fn a_block_may_begin_as_codes_and_end_as_values() {
    let mut random = StdRng::seed_from_u64(41);
    let mut reader = new_reader();
    for nulls in [Nulls::None, Nulls::Some, Nulls::Runs] {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            for page_rows in [150, 1_000, 3_000] {
                let properties = WriterProperties::builder()
                    .set_writer_version(version)
                    .set_dictionary_page_size_limit(8_000)
                    .set_write_batch_size(150)
                    .set_data_page_row_count_limit(page_rows)
                    .build();
                let what = format!("{nulls:?} {version:?} {page_rows}");
                let file = written(columns(9_000, nulls, Values::Many, &mut random), properties);
                assert_falls_back(&file, &mut reader);
                check_all(&file, &mut reader, &what);
                check_some(&file, &mut reader, &mut random, &what);
            }
        }
    }
}

/// The test would show nothing if no column fell back.
fn assert_falls_back(file: &bytes::Bytes, reader: &mut RowGroupReader) {
    let opened = Opened::new(file);
    opened.open(reader, 0, None).unwrap();
    let mut mixed = 0;
    for column in 0..opened.columns.len() {
        let has_entries = reader.load_entries(column).unwrap().is_some();
        mixed += usize::from(has_entries && !reader.is_all_codes(column));
    }
    assert!(mixed > 10, "{mixed} columns are mixed");
}

#[test]
fn a_footer_tells_columns_that_are_all_codes() {
    let mut random = StdRng::seed_from_u64(42);
    let mut reader = new_reader();
    let file = written(
        columns(3_000, Nulls::None, Values::Few, &mut random),
        WriterProperties::builder().build(),
    );
    let opened = Opened::new(&file);
    opened.open(&mut reader, 0, None).unwrap();
    let mut num_coded = 0;
    for (column, request) in opened.columns.iter().enumerate() {
        let has_entries = reader.load_entries(column).unwrap().is_some();
        assert_eq!(
            reader.is_all_codes(column),
            has_entries,
            "{}",
            request.data_type
        );
        num_coded += usize::from(has_entries);
    }
    // All but booleans, and decimals of one length, which this writer does not give a dictionary.
    assert_eq!(num_coded, opened.columns.len() - 3);
}
