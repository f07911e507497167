//! Files of every format and encoding, damaged by a seed.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryArray, BooleanArray, Decimal128Array, Float64Array, Int32Array, Int64Array,
    ListArray, StringArray, StringViewArray, TimestampMicrosecondArray,
};
use arrow::compute::cast;
use arrow::csv;
use arrow::datatypes::{DataType, Int32Type};
use arrow::ipc::CompressionType;
use arrow::ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};
use arrow::json::LineDelimitedWriter;
use arrow::record_batch::RecordBatch;
use parquet::arrow::ArrowWriter;
use parquet::basic::{BrotliLevel, Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::faults::Failure;

/// Rows of a file.
const ROWS: i64 = 300;

/// Damaged copies of each good file.
const COPIES: usize = 15;

/// A file as it is written.
struct Good {
    name: String,
    ending: &'static str,
    bytes: Vec<u8>,
}

/// Writes good files into a folder, and returns their paths.
///
/// # Errors
/// A file cannot be made or written.
pub fn write_good(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = Vec::new();
    for good in good_files()? {
        let path = folder.join(format!("{}.{}", good.name, good.ending));
        fs::write(&path, &good.bytes)?;
        paths.push(path);
    }
    Ok(paths)
}

/// Writes damaged copies of the good files into a folder, and returns their paths.
///
/// # Errors
/// A file cannot be made or written.
pub fn write_damaged(folder: &Path, seed: u64) -> Result<Vec<PathBuf>, Failure> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut paths = Vec::new();
    for good in good_files()? {
        for copy in 0..COPIES {
            let mut bytes = good.bytes.clone();
            let how = damage(&mut bytes, copy, &mut random);
            let path = folder.join(format!("{}-{copy}-{how}.{}", good.name, good.ending));
            fs::write(&path, &bytes)?;
            paths.push(path);
        }
    }
    Ok(paths)
}

/// Damages a file; returns how.
fn damage(bytes: &mut Vec<u8>, copy: usize, random: &mut StdRng) -> &'static str {
    let length = bytes.len();
    // The ends have the magic, the lengths and the footer.
    let near_end = |random: &mut StdRng| length - 1 - random.random_range(0..length.min(700));
    let anywhere = |random: &mut StdRng| random.random_range(0..length);
    match copy % 7 {
        0 | 1 => {
            let at = anywhere(random);
            bytes[at] ^= 1 << random.random_range(0..8);
            "bit"
        }
        2 => {
            let at = near_end(random);
            bytes[at] ^= 1 << random.random_range(0..8);
            "end-bit"
        }
        3 => {
            for _ in 0..random.random_range(2..12) {
                let at = anywhere(random);
                bytes[at] = random.random();
            }
            "bytes"
        }
        4 => {
            bytes.truncate(random.random_range(0..length));
            "cut"
        }
        5 => {
            // A length, or an offset: small, negative or huge.
            const LENGTHS: [i64; 6] = [0, -1, 1 << 20, 1 << 31, 1 << 33, i64::MAX];
            let value = LENGTHS[random.random_range(0..LENGTHS.len())].to_le_bytes();
            let at = match random.random_bool(0.5) {
                true => near_end(random),
                false => anywhere(random),
            };
            let width = if random.random_bool(0.5) { 4 } else { 8 };
            for (to, from) in bytes[at..].iter_mut().zip(&value[..width]) {
                *to = *from;
            }
            "length"
        }
        _ => {
            // A number of a compact structure: all following bits set.
            let at = near_end(random);
            for to in bytes[at..].iter_mut().take(5) {
                *to = 0xff;
            }
            "number"
        }
    }
}

fn good_files() -> Result<Vec<Good>, Failure> {
    let rows = rows()?;
    let mut files = Vec::new();
    let codecs = [
        ("plain", Compression::UNCOMPRESSED),
        ("snappy", Compression::SNAPPY),
        ("gzip", Compression::GZIP(GzipLevel::default())),
        ("brotli", Compression::BROTLI(BrotliLevel::default())),
        ("lz4", Compression::LZ4),
        ("zstd", Compression::ZSTD(ZstdLevel::default())),
        ("lz4raw", Compression::LZ4_RAW),
    ];
    for (name, codec) in codecs {
        files.push(parquet(&rows, &format!("dictionary-{name}"), codec, None)?);
    }
    for encodings in [Encodings::Plain, Encodings::Delta, Encodings::Split] {
        for (name, codec) in &codecs[..2] {
            let name = format!("{encodings:?}-{name}").to_lowercase();
            files.push(parquet(&rows, &name, *codec, Some(encodings))?);
        }
    }
    let compressions = [
        ("plain", None),
        ("lz4", Some(CompressionType::LZ4_FRAME)),
        ("zstd", Some(CompressionType::ZSTD)),
    ];
    for (name, compression) in compressions {
        let options = IpcWriteOptions::default().try_with_compression(compression)?;
        let mut file =
            FileWriter::try_new_with_options(Vec::new(), &rows.schema(), options.clone())?;
        let mut stream = StreamWriter::try_new_with_options(Vec::new(), &rows.schema(), options)?;
        for start in [0, 100, 200] {
            file.write(&rows.slice(start, 100))?;
            stream.write(&rows.slice(start, 100))?;
        }
        let good = |name, bytes| Good {
            name,
            ending: "arrow",
            bytes,
        };
        files.push(good(format!("file-{name}"), file.into_inner()?));
        files.push(good(format!("stream-{name}"), stream.into_inner()?));
    }
    let flat = rows.project(&[0, 1, 2, 3, 5, 6])?;
    let mut bytes = Vec::new();
    csv::Writer::new(&mut bytes).write(&flat)?;
    files.push(Good {
        name: "rows".into(),
        ending: "csv",
        bytes,
    });
    let mut bytes = Vec::new();
    let mut writer = LineDelimitedWriter::new(&mut bytes);
    writer.write(&rows.project(&[0, 1, 2, 3, 5, 6, 7])?)?;
    writer.finish()?;
    files.push(Good {
        name: "rows".into(),
        ending: "ndjson",
        bytes,
    });
    Ok(files)
}

/// Encodings of pages without a dictionary.
#[derive(Clone, Copy, Debug)]
enum Encodings {
    Plain,
    Delta,
    Split,
}

fn parquet(
    rows: &RecordBatch,
    name: &str,
    codec: Compression,
    encodings: Option<Encodings>,
) -> Result<Good, Failure> {
    let mut properties = WriterProperties::builder()
        .set_compression(codec)
        .set_data_page_row_count_limit(60)
        .set_write_batch_size(30)
        .set_max_row_group_row_count(Some(150))
        .set_statistics_enabled(EnabledStatistics::Page)
        .set_dictionary_enabled(encodings.is_none());
    if matches!(encodings, None | Some(Encodings::Delta)) {
        properties = properties.set_writer_version(WriterVersion::PARQUET_2_0);
    }
    let encoding = |data_type: &DataType| match (encodings?, data_type) {
        (Encodings::Plain, _) => Some(Encoding::PLAIN),
        (Encodings::Delta, DataType::Int32 | DataType::Int64) => {
            Some(Encoding::DELTA_BINARY_PACKED)
        }
        (Encodings::Delta, DataType::Utf8) => Some(Encoding::DELTA_BYTE_ARRAY),
        (Encodings::Delta, DataType::Binary | DataType::Utf8View) => {
            Some(Encoding::DELTA_LENGTH_BYTE_ARRAY)
        }
        (Encodings::Delta, DataType::Boolean) => Some(Encoding::RLE),
        (Encodings::Split, DataType::Int32 | DataType::Int64 | DataType::Float64) => {
            Some(Encoding::BYTE_STREAM_SPLIT)
        }
        _ => None,
    };
    for field in rows.schema().fields() {
        if let Some(encoding) = encoding(field.data_type()) {
            properties = properties.set_column_encoding(field.name().as_str().into(), encoding);
        }
    }
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(
        Cursor::new(&mut bytes),
        rows.schema(),
        Some(properties.build()),
    )?;
    writer.write(rows)?;
    writer.close()?;
    Ok(Good {
        name: name.into(),
        ending: "parquet",
        bytes,
    })
}

/// Makes rows with columns of all layouts.
fn rows() -> Result<RecordBatch, Failure> {
    let some = |row: i64| (row % 7 != 3).then_some(row);
    let text = |row: i64| some(row).map(|row| format!("text {}", row % 40));
    let int64: Int64Array = (0..ROWS).map(some).collect();
    let int32: Int32Array = (0..ROWS)
        .map(|row| some(row).map(|row| (row % 9) as i32))
        .collect();
    let float: Float64Array = (0..ROWS)
        .map(|row| some(row).map(|row| row as f64 / 3.0))
        .collect();
    let strings: StringArray = (0..ROWS).map(text).collect();
    let binary: BinaryArray = (0..ROWS)
        .map(|row| text(row).map(String::into_bytes))
        .collect();
    let bools: BooleanArray = (0..ROWS)
        .map(|row| some(row).map(|row| row % 2 == 0))
        .collect();
    let views: StringViewArray = (0..ROWS)
        .map(|row| some(row).map(|row| format!("a text that is no short one, of row {row}")))
        .collect();
    let lists = (0..ROWS).map(|row| {
        let values = (0..row % 4).map(|value| Some(value as i32));
        some(row).map(|_| values.collect::<Vec<_>>())
    });
    let lists = ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
    let decimals: Decimal128Array = (0..ROWS).map(|row| some(row).map(i128::from)).collect();
    let times: TimestampMicrosecondArray = (0..ROWS).map(some).collect();
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let codes = cast(&strings, &dictionary)?;
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("int64", Arc::new(int64)),
        ("int32", Arc::new(int32)),
        ("float", Arc::new(float)),
        ("strings", Arc::new(strings)),
        ("bytes", Arc::new(binary)),
        ("bools", Arc::new(bools)),
        ("views", Arc::new(views)),
        ("lists", Arc::new(lists)),
        (
            "decimals",
            Arc::new(decimals.with_precision_and_scale(20, 2)?),
        ),
        ("times", Arc::new(times)),
        ("codes", codes),
    ];
    Ok(RecordBatch::try_from_iter(columns)?)
}
