//! Ranges of rows, and columns that are decoded later than others.

use std::ops::Range;

use parquet::basic::Compression;
use parquet::file::properties::{WriterProperties, WriterVersion};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::compare::{Opened, check_some, new_reader};
use crate::files::{Nulls, Values, columns, written};

#[test]
fn random_ranges() {
    let mut reader = new_reader();
    for seed in 0..40 {
        let mut random = StdRng::seed_from_u64(seed);
        let num_rows = random.random_range(1..12_000);
        let nulls = Nulls::ALL[random.random_range(0..4)];
        let values = [Values::Few, Values::Many, Values::One][random.random_range(0..3)];
        let properties = WriterProperties::builder()
            .set_writer_version(match random.random_bool(0.5) {
                true => WriterVersion::PARQUET_1_0,
                false => WriterVersion::PARQUET_2_0,
            })
            .set_dictionary_enabled(random.random_bool(0.5))
            .set_dictionary_page_size_limit([4_000, 1 << 20][random.random_range(0..2)])
            .set_compression(Compression::SNAPPY)
            .set_write_batch_size(random.random_range(1..400))
            .set_data_page_row_count_limit(random.random_range(1..6_000))
            .build();
        let file = written(columns(num_rows, nulls, values, &mut random), properties);
        for _ in 0..3 {
            check_some(&file, &mut reader, &mut random, &format!("seed {seed}"));
        }
    }
}

#[test]
fn ranges_must_be_in_order_and_within() {
    let mut random = StdRng::seed_from_u64(1);
    let columns = columns(100, Nulls::None, Values::Few, &mut random);
    let file = written(columns, WriterProperties::builder().build());
    let opened = Opened::new(&file);
    let mut reader = new_reader();
    let range = |start, end| Range { start, end };
    let wrong = [
        vec![range(5, 4)],
        vec![range(3, 9), range(8, 10)],
        vec![range(90, 101)],
    ];
    for ranges in wrong {
        let refused = opened.open(&mut reader, 0, Some(&ranges)).unwrap_err();
        assert!(refused.to_string().contains("do not follow"), "{refused}");
        assert_eq!(reader.next_block(), 0);
    }
    opened.open(&mut reader, 0, Some(&[])).unwrap();
    assert_eq!(reader.next_block(), 0);
}
