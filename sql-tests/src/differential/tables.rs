//! Random tables: every column type that a region knows, with the values that break engines.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal32Array, Decimal128Array, DictionaryArray,
    Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, StringArray,
    StringViewArray, TimestampMillisecondArray, TimestampNanosecondArray, UInt8Array, UInt32Array,
    UInt64Array,
};
use datafusion::arrow::datatypes::{Int32Type, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::file::properties::WriterProperties;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};

/// Row counts around every boundary of a validity word, and some beyond.
const SIZES: [usize; 13] = [0, 1, 2, 31, 32, 33, 63, 64, 65, 127, 200, 333, 500];

const FEW_STRINGS: [&str; 6] = ["", "a", "b", "promo", "a string above twelve bytes", "ä"];

/// A table in memory: one batch, cut into slices that keep its buffers.
pub(crate) struct Table {
    rows: RecordBatch,
    partitions: Vec<Vec<RecordBatch>>,
}

impl Table {
    pub(crate) fn random(rng: &mut StdRng) -> Self {
        let rows = random_rows(rng);
        let mut partitions = vec![Vec::new(); rng.random_range(1..=3)];
        for slice in random_slices(rng, &rows, 40) {
            let partition = rng.random_range(0..partitions.len());
            partitions[partition].push(slice);
        }
        Self { rows, partitions }
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }

    pub(crate) fn num_rows(&self) -> usize {
        self.rows.num_rows()
    }

    pub(crate) fn partitions(&self) -> Vec<Vec<RecordBatch>> {
        self.partitions.clone()
    }

    /// Writes the rows as one to three Parquet files of small row groups.
    pub(crate) fn write_parquet(&self, rng: &mut StdRng, folder: &Path) {
        let files = rng.random_range(1..=3);
        let rows_per_file = self.num_rows().div_ceil(files).max(1);
        for file in 0..files {
            let start = (file * rows_per_file).min(self.num_rows());
            let length = rows_per_file.min(self.num_rows() - start);
            let properties = WriterProperties::builder()
                .set_max_row_group_row_count(Some(rng.random_range(5..100)))
                .build();
            let path = folder.join(format!("{file}.parquet"));
            let sink = File::create(path).expect("a Parquet file");
            let mut writer = ArrowWriter::try_new(sink, self.schema(), Some(properties))
                .expect("a Parquet writer");
            writer
                .write(&self.rows.slice(start, length))
                .expect("rows are written");
            writer.close().expect("the file is closed");
        }
    }
}

/// Cuts `rows` into slices of at most `most` rows, with an empty one now and then.
fn random_slices(rng: &mut StdRng, rows: &RecordBatch, most: usize) -> Vec<RecordBatch> {
    let mut slices = Vec::new();
    let mut start = 0;
    while start < rows.num_rows() {
        let length = rng.random_range(0..=most).min(rows.num_rows() - start);
        slices.push(rows.slice(start, length));
        start += length;
    }
    slices
}

fn random_rows(rng: &mut StdRng) -> RecordBatch {
    let n = *SIZES.choose(rng).expect("sizes");
    let mut ids: Vec<i64> = (0..n as i64).collect();
    ids.shuffle(rng);
    let zero_divisors = rng.random_bool(0.5);
    let specials = rng.random_bool(0.5);

    let mut column = Columns { rng, n };
    let few = |rng: &mut StdRng| *FEW_STRINGS.choose(rng).expect("strings");
    let dictionary: DictionaryArray<Int32Type> = column.draw(few).into_iter().collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from(ids))),
        (
            "k",
            Arc::new(Int32Array::from(column.draw(|rng| rng.random_range(-2..4)))),
        ),
        (
            "i8",
            Arc::new(Int8Array::from(
                column.draw(|rng| edge(rng, i8::MIN, i8::MAX)),
            )),
        ),
        (
            "i16",
            Arc::new(Int16Array::from(
                column.draw(|rng| edge(rng, i16::MIN, i16::MAX)),
            )),
        ),
        (
            "i32",
            Arc::new(Int32Array::from(
                column.draw(|rng| edge(rng, i32::MIN, i32::MAX)),
            )),
        ),
        (
            "i64",
            Arc::new(Int64Array::from(
                column.draw(|rng| edge(rng, i64::MIN, i64::MAX)),
            )),
        ),
        (
            "u8",
            Arc::new(UInt8Array::from(
                column.draw(|rng| edge(rng, u8::MIN, u8::MAX)),
            )),
        ),
        (
            "u32",
            Arc::new(UInt32Array::from(
                column.draw(|rng| edge(rng, u32::MIN, u32::MAX)),
            )),
        ),
        (
            "u64",
            Arc::new(UInt64Array::from(
                column.draw(|rng| edge(rng, u64::MIN, u64::MAX)),
            )),
        ),
        (
            "z",
            Arc::new(Int64Array::from(
                column.draw(|rng| divisor(rng, zero_divisors)),
            )),
        ),
        (
            "f",
            Arc::new(Float64Array::from(column.draw(special_float))),
        ),
        (
            "g",
            Arc::new(Float64Array::from(column.draw(|rng| {
                match specials && rng.random_bool(0.2) {
                    true => special(rng),
                    false => rng.random_range(1.0..1e6),
                }
            }))),
        ),
        (
            "h",
            Arc::new(Float32Array::from(column.draw(|rng| {
                match specials && rng.random_bool(0.2) {
                    true => special(rng) as f32,
                    false => rng.random_range(-50.0_f32..-0.1),
                }
            }))),
        ),
        (
            "n",
            Arc::new(decimal128(
                column.draw(|rng| rng.random_range(-500_000..500_000)),
                9,
                2,
            )),
        ),
        (
            "m",
            Arc::new(decimal128(
                column.draw(|rng| rng.random_range(0..10_000_000)),
                15,
                2,
            )),
        ),
        (
            "w",
            Arc::new(decimal32(
                column.draw(|rng| rng.random_range(-9_999_999..=9_999_999)),
            )),
        ),
        (
            "d",
            Arc::new(Date32Array::from(
                column.draw(|rng| rng.random_range(-20_000..20_000)),
            )),
        ),
        (
            "ts",
            Arc::new(TimestampNanosecondArray::from(column.draw(instant))),
        ),
        (
            "ms",
            Arc::new(TimestampMillisecondArray::from(
                column.draw(|rng| instant(rng) / 1_000_000),
            )),
        ),
        ("s", Arc::new(StringArray::from(column.draw(few)))),
        (
            "v",
            Arc::new(StringViewArray::from(column.draw(many_strings))),
        ),
        ("e", Arc::new(dictionary)),
        (
            "p",
            Arc::new(BooleanArray::from(column.draw(|rng| rng.random_bool(0.5)))),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(
        columns
            .into_iter()
            .map(|(name, array)| (name, array, name != "id")),
    )
    .expect("columns of one length")
}

struct Columns<'a> {
    rng: &'a mut StdRng,
    n: usize,
}

impl Columns<'_> {
    /// Draws the values of a column: without, with some, with many or with only NULLs.
    fn draw<T>(&mut self, value: impl Fn(&mut StdRng) -> T) -> Vec<Option<T>> {
        let nulls = *[0.0, 0.0, 0.1, 0.1, 0.5, 1.0]
            .choose(self.rng)
            .expect("ratios");
        let rng = &mut *self.rng;
        (0..self.n)
            .map(|_| (!rng.random_bool(nulls)).then(|| value(rng)))
            .collect()
    }
}

/// Draws a small number mostly, and one of the type's ends now and then.
fn edge<T: Copy + TryFrom<u8>>(rng: &mut StdRng, min: T, max: T) -> T {
    match rng.random_range(0..10) {
        0 => min,
        1 => max,
        _ => T::try_from(rng.random_range(0..100)).unwrap_or(max),
    }
}

fn divisor(rng: &mut StdRng, zero: bool) -> i64 {
    match rng.random_range(0..20) {
        0 if zero => 0,
        n => n - 25,
    }
}

fn special_float(rng: &mut StdRng) -> f64 {
    match rng.random_bool(0.4) {
        true => special(rng),
        false => rng.random_range(-1e9..1e9),
    }
}

fn special(rng: &mut StdRng) -> f64 {
    let special = [
        f64::NAN,
        -f64::NAN,
        f64::from_bits(0x7ff0_0000_0000_0001),
        f64::INFINITY,
        f64::NEG_INFINITY,
        -0.0,
        0.0,
        5e-324,
        -5e-324,
        1e-40,
        1.5,
        -1.5,
    ];
    *special.choose(rng).expect("floats")
}

fn instant(rng: &mut StdRng) -> i64 {
    match rng.random_range(0..4) {
        0 => rng.random_range(-3..3),
        _ => rng.random_range(-2_000_000_000_000_000_000..2_000_000_000_000_000_000),
    }
}

fn many_strings(rng: &mut StdRng) -> String {
    let tail = rng.random_range(0..300);
    match rng.random_range(0..3) {
        0 => format!("{tail}"),
        1 => format!("key {tail}"),
        _ => format!("a key above twelve bytes {tail}"),
    }
}

fn decimal128(values: Vec<Option<i128>>, precision: u8, scale: i8) -> Decimal128Array {
    Decimal128Array::from(values)
        .with_precision_and_scale(precision, scale)
        .expect("values fit")
}

fn decimal32(values: Vec<Option<i32>>) -> Decimal32Array {
    Decimal32Array::from(values)
        .with_precision_and_scale(7, 2)
        .expect("values fit")
}
