//! What decoding a column takes for each row, without and with decompression: columns as TPC-H has them.
//!
//! Each column is first compared with what the `parquet` crate's reader makes of it, by a sum.

use std::hint::black_box;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray,
};
use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::WriterProperties;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tidegate_kernels::host::{Chunk, Entries, Values};
use tidegate_pages::{Buffers, ChunkBytes, ColumnRequest, ReadOptions, RowGroupReader};

const ROWS: usize = 1 << 20;

/// A column, whether it has a dictionary, how else its values are encoded.
type Case = (&'static str, ArrayRef, bool, Encoding);

fn cases() -> Vec<Case> {
    let mut random = StdRng::seed_from_u64(1);
    let mut numbers =
        |most: i64| -> Vec<i64> { (0..ROWS).map(|_| random.random_range(0..most)).collect() };
    let decimals = |values: Vec<i64>| {
        let values = values.into_iter().map(i128::from);
        let array = Decimal128Array::from_iter_values(values);
        Arc::new(
            array
                .with_precision_and_scale(15, 2)
                .unwrap_or_else(|_| unreachable!()),
        )
    };
    let ints = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
    let some = |values: Vec<i64>| {
        let rows = values.into_iter();
        Arc::new(
            rows.map(|v| (v % 3 > 0).then_some(v))
                .collect::<Int64Array>(),
        ) as ArrayRef
    };
    let text = |values: Vec<i64>| {
        let values = values.into_iter().map(|value| format!("id{value:010}"));
        Arc::new(StringArray::from_iter_values(values)) as ArrayRef
    };
    let days = numbers(2_500)
        .into_iter()
        .map(|day| day as i32)
        .collect::<Vec<_>>();
    let doubles = numbers(1 << 40)
        .into_iter()
        .map(|v| v as f64 * 0.01)
        .collect::<Vec<_>>();
    vec![
        ("codes of 2 bits", ints(numbers(3)), true, Encoding::PLAIN),
        (
            "codes of 6 bits",
            decimals(numbers(50)),
            true,
            Encoding::PLAIN,
        ),
        (
            "codes of 12 bits",
            Arc::new(Int32Array::from(days)) as ArrayRef,
            true,
            Encoding::PLAIN,
        ),
        (
            "codes of 17 bits",
            ints(numbers(100_000)),
            true,
            Encoding::PLAIN,
        ),
        (
            "codes with nulls",
            some(numbers(3_000)),
            true,
            Encoding::PLAIN,
        ),
        ("text as codes", text(numbers(1_000)), true, Encoding::PLAIN),
        ("plain i64", ints(numbers(1 << 40)), false, Encoding::PLAIN),
        (
            "plain i64 with nulls",
            some(numbers(1 << 40)),
            false,
            Encoding::PLAIN,
        ),
        (
            "plain f64",
            Arc::new(Float64Array::from(doubles.clone())) as ArrayRef,
            false,
            Encoding::PLAIN,
        ),
        ("plain text", text(numbers(1 << 30)), false, Encoding::PLAIN),
        (
            "differences",
            ints(numbers(1 << 20)),
            false,
            Encoding::DELTA_BINARY_PACKED,
        ),
        (
            "streams",
            Arc::new(Float64Array::from(doubles)) as ArrayRef,
            false,
            Encoding::BYTE_STREAM_SPLIT,
        ),
    ]
}

fn written(case: &Case, codec: Compression) -> Option<Bytes> {
    let (_, array, dictionary, encoding) = case;
    let batch = RecordBatch::try_from_iter_with_nullable([("x", Arc::clone(array), true)]).ok()?;
    let mut properties = WriterProperties::builder()
        .set_compression(codec)
        .set_dictionary_enabled(*dictionary)
        .set_dictionary_page_size_limit(1 << 30);
    if *encoding != Encoding::PLAIN {
        properties = properties.set_encoding(*encoding);
    }
    let mut bytes = Vec::new();
    let mut writer =
        ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties.build())).ok()?;
    writer.write(&batch).ok()?;
    writer.close().ok()?;
    Some(bytes.into())
}

/// Sums all values modulo 2^64; strings count by their lengths.
fn sum_of_array(array: &ArrayRef) -> u64 {
    use arrow_schema::DataType;
    let array = array.as_ref();
    let words: Box<dyn Iterator<Item = u64>> = match array.data_type() {
        DataType::Int32 => Box::new(
            array
                .as_primitive::<Int32Type>()
                .iter()
                .flatten()
                .map(|v| v as u64),
        ),
        DataType::Int64 => Box::new(
            array
                .as_primitive::<Int64Type>()
                .iter()
                .flatten()
                .map(|v| v as u64),
        ),
        DataType::Float64 => Box::new(
            array
                .as_primitive::<Float64Type>()
                .iter()
                .flatten()
                .map(f64::to_bits),
        ),
        DataType::Decimal128(..) => Box::new(
            array
                .as_primitive::<Decimal128Type>()
                .iter()
                .flatten()
                .map(|v| v as u64),
        ),
        _ => Box::new(
            array
                .as_string::<i32>()
                .iter()
                .flatten()
                .map(|v| v.len() as u64),
        ),
    };
    words.fold(0, u64::wrapping_add)
}

fn sum_of_chunk(chunk: &Chunk<'_>, rows: usize, entries: Option<&Entries>) -> u64 {
    let entry = |code: usize| match entries {
        Some(Entries::I32(values)) => values[code] as u64,
        Some(Entries::I64(values)) => values[code] as u64,
        Some(Entries::F64(values)) => values[code].to_bits(),
        Some(Entries::Text(values)) => values.value(code).len() as u64,
        _ => 0,
    };
    let word = |row: usize| match chunk.values {
        Values::Codes8(codes) => entry(codes[row].into()),
        Values::Codes16(codes) => entry(codes[row].into()),
        Values::Codes32(codes) => entry(codes[row] as usize),
        Values::Constant(code) => entry(code as usize),
        Values::I32(values) => values[row] as u64,
        Values::I64(values) => values[row] as u64,
        Values::F64(values) => values[row].to_bits(),
        Values::Text { array, at } => array.value(at + row).len() as u64,
        _ => 0,
    };
    let valid = |row: &usize| chunk.validity.is_none_or(|validity| validity[*row] == 1);
    (0..rows).filter(valid).map(word).fold(0, u64::wrapping_add)
}

struct File {
    builder: ParquetRecordBatchReaderBuilder<Bytes>,
    request: ColumnRequest,
    source: Arc<dyn ChunkBytes>,
    bytes: Bytes,
}

/// Reads all blocks; `visit` sees each.
fn read(
    file: &File,
    reader: &mut RowGroupReader,
    mut visit: impl FnMut(&RowGroupReader, usize),
) -> Option<()> {
    let metadata = file.builder.metadata();
    for row_group in 0..metadata.num_row_groups() {
        let columns = std::slice::from_ref(&file.request);
        reader
            .open(metadata, row_group, columns, None, &file.source)
            .ok()?;
        loop {
            match reader.next_block() {
                0 => break,
                rows => {
                    reader.decode(0).ok()?;
                    visit(reader, rows);
                }
            }
        }
    }
    Some(())
}

fn decode(criterion: &mut Criterion) {
    for (codec, name) in [
        (Compression::UNCOMPRESSED, "decode"),
        (Compression::SNAPPY, "snappy"),
    ] {
        let mut group = criterion.benchmark_group(name);
        group
            .throughput(Throughput::Elements(ROWS as u64))
            .sample_size(20);
        for case in cases() {
            let opened = written(&case, codec).and_then(|bytes| {
                let builder = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).ok()?;
                let data_type = builder.schema().field(0).data_type().clone();
                Some(File {
                    builder,
                    request: ColumnRequest { leaf: 0, data_type },
                    source: Arc::new(bytes.clone()),
                    bytes,
                })
            });
            let Some(file) = opened else {
                unreachable!("{} is written and opened", case.0);
            };
            let mut reader = RowGroupReader::new(ReadOptions::default(), &Buffers::default());
            let mut sum = 0_u64;
            let done = read(&file, &mut reader, |reader, rows| {
                if let Some(chunk) = reader.chunk(0) {
                    sum = sum.wrapping_add(sum_of_chunk(&chunk, rows, reader.entries(0)));
                }
            });
            assert!(done.is_some(), "{} is read", case.0);
            let other = ParquetRecordBatchReaderBuilder::try_new(file.bytes.clone());
            let batches = other
                .ok()
                .and_then(|other| other.build().ok())
                .into_iter()
                .flatten();
            let batches = batches.filter_map(Result::ok);
            let expect = batches.map(|batch| sum_of_array(batch.column(0)));
            assert_eq!(sum, expect.fold(0, u64::wrapping_add), "{}", case.0);
            group.bench_function(case.0, |bencher| {
                bencher.iter(|| {
                    read(&file, &mut reader, |reader, _| {
                        black_box(reader.chunk(0));
                    })
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, decode);
criterion_main!(benches);
