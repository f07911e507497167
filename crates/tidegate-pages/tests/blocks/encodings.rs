//! Encodings other than dictionaries, for the types that may have them.

use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterVersion};
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::compare::{check_all, check_some, new_reader};
use crate::files::{Nulls, Values, columns, written};

fn check(encoding: Encoding, takes: impl Fn(&str) -> bool) {
    let mut random = StdRng::seed_from_u64(31);
    let mut reader = new_reader();
    for nulls in Nulls::ALL {
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            for (values, page_rows) in [
                (Values::Few, 20_000),
                (Values::Many, 333),
                (Values::One, 64),
            ] {
                for num_rows in [1, 128, 129, 2_500, 7_001] {
                    let columns = columns(num_rows, nulls, values, &mut random);
                    let columns: Vec<_> = columns
                        .into_iter()
                        .filter(|(name, _)| takes(name))
                        .collect();
                    assert!(!columns.is_empty());
                    let properties = WriterProperties::builder()
                        .set_writer_version(version)
                        .set_dictionary_enabled(false)
                        .set_encoding(encoding)
                        .set_compression(Compression::LZ4_RAW)
                        .set_write_batch_size(page_rows.min(300))
                        .set_data_page_row_count_limit(page_rows)
                        .build();
                    let what = format!("{encoding} {nulls:?} {values:?} {version:?} {num_rows}");
                    let file = written(columns, properties);
                    check_all(&file, &mut reader, &what);
                    check_some(&file, &mut reader, &mut random, &what);
                }
            }
        }
    }
}

fn is_text(name: &str) -> bool {
    name.contains("text")
}

fn is_bytes(name: &str) -> bool {
    matches!(name, "decimal22" | "decimal38")
}

fn is_float(name: &str) -> bool {
    matches!(name, "f32" | "f64")
}

#[test]
fn differences_of_integers() {
    check(Encoding::DELTA_BINARY_PACKED, |name| {
        !is_text(name) && !is_bytes(name) && !is_float(name) && name != "bool"
    });
}

#[test]
fn strings_behind_their_lengths() {
    check(Encoding::DELTA_LENGTH_BYTE_ARRAY, is_text);
}

#[test]
fn strings_that_share_beginnings() {
    check(Encoding::DELTA_BYTE_ARRAY, |name| {
        is_text(name) || is_bytes(name)
    });
}

#[test]
fn streams_of_bytes() {
    check(Encoding::BYTE_STREAM_SPLIT, |name| {
        !is_text(name) && name != "bool"
    });
}

#[test]
fn booleans_in_runs() {
    check(Encoding::RLE, |name| name == "bool");
}
