//! Dictionaries and plain values of every type, with every pattern of NULLs.

use parquet::basic::Compression;
use parquet::file::properties::{WriterProperties, WriterVersion};
use rand::SeedableRng;
use rand::rngs::StdRng;
use tidegate_kernels::host::BLOCK;

use crate::compare::{check_all, new_reader};
use crate::files::{Nulls, Values, columns, written};

fn check(num_rows: usize, values: Values, dictionary: bool) {
    let mut random = StdRng::seed_from_u64(num_rows as u64);
    let mut reader = new_reader();
    for nulls in Nulls::ALL {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            for page_rows in [100, 2_048, 20_000] {
                let properties = WriterProperties::builder()
                    .set_writer_version(version)
                    .set_dictionary_enabled(dictionary)
                    .set_compression(Compression::SNAPPY)
                    .set_write_batch_size(100)
                    .set_data_page_row_count_limit(page_rows)
                    .build();
                let what = format!("{nulls:?} {values:?} {version:?} {page_rows} of {num_rows}");
                let file = written(columns(num_rows, nulls, values, &mut random), properties);
                check_all(&file, &mut reader, &what);
            }
        }
    }
}

#[test]
fn dictionaries_of_every_type() {
    check(5_000, Values::Few, true);
    check(5_000, Values::Many, true);
    check(5_000, Values::One, true);
}

#[test]
fn plain_values_of_every_type() {
    check(5_000, Values::Few, false);
    check(5_000, Values::Many, false);
}

#[test]
fn rows_around_the_bounds_of_blocks() {
    for num_rows in [
        0,
        1,
        31,
        32,
        33,
        63,
        64,
        65,
        BLOCK - 1,
        BLOCK,
        BLOCK + 1,
        3 * BLOCK + 1,
    ] {
        check(num_rows, Values::Few, true);
        check(num_rows, Values::Many, false);
    }
}

#[test]
fn row_groups_of_any_size() {
    let mut random = StdRng::seed_from_u64(5);
    let mut reader = new_reader();
    for rows in [1, 7, 1_000, 2_048, 2_500] {
        let num_rows = match rows {
            1 => 9,
            rows => 3 * rows + 1,
        };
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some(rows))
            .build();
        let file = written(
            columns(num_rows, Nulls::Some, Values::Few, &mut random),
            properties,
        );
        check_all(&file, &mut reader, &format!("row groups of {rows}"));
    }
}

#[test]
fn dictionaries_beyond_one_and_two_bytes() {
    let mut random = StdRng::seed_from_u64(6);
    let mut reader = new_reader();
    for num_rows in [255, 256, 257, 65_535, 65_536, 65_537, 70_000] {
        let columns = columns(num_rows, Nulls::None, Values::Many, &mut random);
        let wanted = ["i64", "f64", "text", "decimal38"];
        let columns = columns
            .into_iter()
            .filter(|(name, _)| wanted.contains(name));
        let properties = WriterProperties::builder()
            .set_dictionary_page_size_limit(1 << 30)
            .build();
        let file = written(columns.collect(), properties);
        check_all(&file, &mut reader, &format!("{num_rows} rows"));
    }
}
