//! Physical types that Arrow's writer does not make: other writers do.

use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, FixedLenByteArray, Int96};
use parquet::file::properties::{WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::compare::{check_all, check_some, new_reader};

/// Writes a file of one column; `write` is given its definition levels' number of ones.
pub(crate) fn written(
    schema: &str,
    levels: &[i16],
    properties: WriterProperties,
    write: impl FnOnce(&mut ColumnWriter<'_>, usize, &[i16]),
) -> Bytes {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let present = levels.iter().filter(|level| **level == 1).count();
    write(column.untyped(), present, levels);
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    bytes.into()
}

fn levels(num_rows: usize, nulls: f64, random: &mut StdRng) -> Vec<i16> {
    (0..num_rows)
        .map(|_| i16::from(!random.random_bool(nulls)))
        .collect()
}

/// Writes a decimal as few bytes as it needs, and some more.
fn big_endian(value: i128, width: usize) -> Vec<u8> {
    value.to_be_bytes()[16 - width..].to_vec()
}

fn each_way(mut check: impl FnMut(WriterProperties, &mut StdRng, f64, &str)) {
    let mut random = StdRng::seed_from_u64(51);
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        for nulls in [0.0, 0.3, 1.0] {
            for encoding in [
                None,
                Some(Encoding::PLAIN),
                Some(Encoding::DELTA_BYTE_ARRAY),
            ] {
                let mut properties = WriterProperties::builder()
                    .set_writer_version(version)
                    .set_compression(Compression::SNAPPY)
                    .set_write_batch_size(100)
                    .set_data_page_row_count_limit(700)
                    .set_dictionary_enabled(encoding.is_none());
                if let Some(encoding) = encoding {
                    properties = properties.set_encoding(encoding);
                }
                let what = format!("{version:?} {nulls} {encoding:?}");
                check(properties.build(), &mut random, nulls, &what);
            }
        }
    }
}

#[test]
fn decimals_in_byte_arrays() {
    let mut reader = new_reader();
    each_way(|properties, random, nulls, what| {
        for precision in [5, 18, 19, 38] {
            let schema = format!("message m {{ optional binary d (DECIMAL({precision}, 2)); }}");
            let levels = levels(4_000, nulls, random);
            let most = 10_i128.pow(precision);
            let file = written(
                &schema,
                &levels,
                properties.clone(),
                |column, present, levels| {
                    let ColumnWriter::ByteArrayColumnWriter(column) = column else {
                        panic!("byte arrays");
                    };
                    let values = (0..present).map(|_| {
                        let value = random.random_range(-most..most) >> random.random_range(0..120);
                        let bits = 129 - value.unsigned_abs().leading_zeros();
                        let width = (bits as usize).div_ceil(8).max(1);
                        let width = random.random_range(width.min(16)..=16);
                        ByteArray::from(big_endian(value, width))
                    });
                    let values: Vec<_> = values.collect();
                    column.write_batch(&values, Some(levels), None).unwrap();
                },
            );
            let what = format!("{what} {precision}");
            check_all(&file, &mut reader, &what);
            check_some(&file, &mut reader, random, &what);
        }
    });
}

#[test]
fn decimals_of_any_width() {
    let mut reader = new_reader();
    each_way(|properties, random, nulls, what| {
        for width in 1..=16_usize {
            let digits =
                (0..39).take_while(|digits| 10_u128.pow(*digits) <= 1_u128 << (8 * width - 1));
            let precision = digits.last().unwrap().clamp(1, 38);
            let schema = format!(
                "message m {{ optional fixed_len_byte_array({width}) d (DECIMAL({precision}, 1)); }}"
            );
            let levels = levels(1_500, nulls, random);
            let most = 10_i128.pow(precision.min(2 * width as u32));
            let file = written(
                &schema,
                &levels,
                properties.clone(),
                |column, present, levels| {
                    let ColumnWriter::FixedLenByteArrayColumnWriter(column) = column else {
                        panic!("byte arrays of one length");
                    };
                    let values = (0..present).map(|_| {
                        let value = random.random_range(-most..most);
                        FixedLenByteArray::from(big_endian(value, width))
                    });
                    let values: Vec<_> = values.collect();
                    column.write_batch(&values, Some(levels), None).unwrap();
                },
            );
            let what = format!("{what} {width}");
            check_all(&file, &mut reader, &what);
            check_some(&file, &mut reader, random, &what);
        }
    });
}

#[test]
fn days_and_nanoseconds() {
    let mut random = StdRng::seed_from_u64(52);
    let mut reader = new_reader();
    for nulls in [0.0, 0.4] {
        for dictionary in [true, false] {
            let properties = WriterProperties::builder()
                .set_dictionary_enabled(dictionary)
                .set_data_page_row_count_limit(900)
                .build();
            let levels = levels(5_000, nulls, &mut random);
            let schema = "message m { optional int96 t; }";
            let file = written(schema, &levels, properties, |column, present, levels| {
                let ColumnWriter::Int96ColumnWriter(column) = column else {
                    panic!("96 bits");
                };
                let values = (0..present).map(|_| {
                    let nanos = random.random_range(0..86_400_000_000_000_u64);
                    let mut value = Int96::new();
                    value.set_data(
                        nanos as u32,
                        (nanos >> 32) as u32,
                        random.random_range(2_400_000..2_500_000),
                    );
                    value
                });
                let values: Vec<_> = values.collect();
                column.write_batch(&values, Some(levels), None).unwrap();
            });
            check_all(&file, &mut reader, &format!("{nulls} {dictionary}"));
        }
    }
}

#[test]
fn columns_that_must_have_values() {
    let mut random = StdRng::seed_from_u64(53);
    let mut reader = new_reader();
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        for dictionary in [true, false] {
            let properties = WriterProperties::builder()
                .set_writer_version(version)
                .set_dictionary_enabled(dictionary)
                .set_data_page_row_count_limit(900)
                .build();
            let levels = vec![1; 5_000];
            let schema = "message m { required int32 n (INTEGER(8, false)); }";
            let file = written(schema, &levels, properties, |column, present, _| {
                let ColumnWriter::Int32ColumnWriter(column) = column else {
                    panic!("32 bits");
                };
                // Beyond the annotated type, of which the lowest bits count.
                let values: Vec<i32> = (0..present)
                    .map(|_| random.random_range(-300..300))
                    .collect();
                column.write_batch(&values, None, None).unwrap();
            });
            let what = format!("{version:?} {dictionary}");
            check_all(&file, &mut reader, &what);
            check_some(&file, &mut reader, &mut random, &what);
        }
    }
}

#[test]
fn wide_decimals_in_narrow_types_are_another_readers() {
    let schema = "message m { required fixed_len_byte_array(12) d (DECIMAL(5, 1)); }";
    let properties = WriterProperties::builder()
        .set_dictionary_enabled(false)
        .build();
    let file = written(schema, &[1; 3], properties, |column, _, _| {
        let ColumnWriter::FixedLenByteArrayColumnWriter(column) = column else {
            panic!("byte arrays of one length");
        };
        let values = [1, 2, 1 << 70].map(|value| FixedLenByteArray::from(big_endian(value, 12)));
        column.write_batch(&values, None, None).unwrap();
    });
    let opened = crate::compare::Opened::new(&file);
    let mut reader = new_reader();
    opened.open(&mut reader, 0, None).unwrap();
    assert_eq!(reader.next_block(), 3);
    let refused = reader.decode(0).unwrap_err();
    assert!(
        matches!(refused.error, tidegate_pages::PageError::Unsupported(_)),
        "{refused}"
    );
    assert!(reader.chunk(0).is_none());
    assert_eq!(reader.rest(), std::slice::from_ref(&(0..3)));
    assert_eq!(reader.next_block(), 0, "no block follows a failure");
}
