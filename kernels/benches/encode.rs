//! How fast one core encodes columns for a device, in plain bytes a second. Every chunk is decoded
//! and compared first.

#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run stops")]

use std::hint::black_box;
use std::sync::Arc;

use arrow_array::types::{ArrowPrimitiveType, Decimal128Type, Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, Date32Array, Decimal128Array, Float64Array, Int64Array, StringViewArray,
};
use arrow_array::{RecordBatch, cast::AsArray};
use arrow_schema::{DataType, Field, Schema};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tidegate_kernels::encode::{EncodedColumn, Narrowing, encode};
use tidegate_kernels::program::{Slot, slot_kind};
use tidegate_kernels::strings::Dictionary;
use tidegate_pipeline::Expr;

/// Rows of a chunk.
const ROWS: usize = 1 << 20;

fn columns() -> Vec<(&'static str, ArrayRef)> {
    let mut random = StdRng::seed_from_u64(7);
    let mut integers = |low: i64, high: i64| -> Vec<i64> {
        (0..ROWS).map(|_| random.random_range(low..high)).collect()
    };
    let cents = integers(90_000, 10_500_000);
    let hundreds: Vec<i64> = integers(1, 51).iter().map(|value| value * 100).collect();
    let nullable = integers(0, 1000);
    let nullable = nullable
        .iter()
        .map(|value| (value % 10 != 0).then_some(*value));
    vec![
        (
            "float64",
            Arc::new(
                cents
                    .iter()
                    .map(|value| *value as f64 / 100.0)
                    .collect::<Float64Array>(),
            ) as ArrayRef,
        ),
        (
            "int64, full range",
            Arc::new(Int64Array::from(integers(i64::MIN, i64::MAX))),
        ),
        (
            "int64, 1,000 values",
            Arc::new(Int64Array::from(integers(0, 1000))),
        ),
        (
            "int64, one in ten NULL",
            Arc::new(nullable.collect::<Int64Array>()),
        ),
        (
            "date32",
            Arc::new(
                integers(8000, 10_500)
                    .iter()
                    .map(|day| Some(*day as i32))
                    .collect::<Date32Array>(),
            ),
        ),
        ("decimal(15,2)", decimals(&cents)),
        ("strings, 3 values", strings(&cents)),
        ("decimal(15,2), whole", decimals(&hundreds)),
    ]
}

fn decimals(values: &[i64]) -> ArrayRef {
    let values: Vec<i128> = values.iter().map(|value| i128::from(*value)).collect();
    Arc::new(Decimal128Array::from(values).with_data_type(DataType::Decimal128(15, 2)))
}

fn strings(values: &[i64]) -> ArrayRef {
    let names = values
        .iter()
        .map(|value| ["A", "N", "R"][(value % 3) as usize]);
    Arc::new(names.map(Some).collect::<StringViewArray>())
}

fn encoded(array: &ArrayRef) -> EncodedColumn {
    let data_type = array.data_type().clone();
    let slot = Slot {
        kind: slot_kind(&data_type).unwrap(),
        expr: Expr::column(0, data_type.clone()).unwrap(),
    };
    let schema = Arc::new(Schema::new(vec![Field::new("column", data_type, true)]));
    let batch = RecordBatch::try_new(schema, vec![Arc::clone(array)]).unwrap();
    encode(
        &slot,
        &[],
        &[batch],
        &mut Dictionary::default(),
        Narrowing::Factor,
    )
    .unwrap()
}

/// Panics unless the chunk tells the array's values.
fn check(name: &str, array: &ArrayRef, column: &EncodedColumn) {
    fn words<T: ArrowPrimitiveType>(array: &ArrayRef, word: impl Fn(T::Native) -> i64) -> Vec<i64> {
        array
            .as_primitive::<T>()
            .values()
            .iter()
            .map(|value| word(*value))
            .collect()
    }
    let expected = match array.data_type() {
        // In the order of first appearance.
        DataType::Utf8View => {
            let mut names: Vec<&str> = Vec::new();
            array
                .as_string_view()
                .iter()
                .flatten()
                .map(|name| {
                    let known = names.iter().position(|known| *known == name);
                    known.unwrap_or_else(|| {
                        names.push(name);
                        names.len() - 1
                    }) as i64
                })
                .collect()
        }
        DataType::Float64 => words::<Float64Type>(array, |value| value.to_bits() as i64),
        DataType::Decimal128(_, _) => words::<Decimal128Type>(array, |value| value as i64),
        DataType::Date32 => words::<arrow_array::types::Date32Type>(array, i64::from),
        _ => words::<Int64Type>(array, |value| value),
    };
    for (row, (told, value)) in column.words().iter().zip(&expected).enumerate() {
        assert_eq!(
            column.is_valid(row),
            array.is_valid(row),
            "{name}, row {row}"
        );
        assert!(array.is_null(row) || told == value, "{name}, row {row}");
    }
}

fn encode_columns(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("encode");
    for (name, array) in columns() {
        check(name, &array, &encoded(&array));
        let plain = array.get_buffer_memory_size() as u64;
        group.throughput(Throughput::Bytes(plain));
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(encoded(black_box(&array))))
        });
    }
    group.finish();
}

criterion_group!(benches, encode_columns);
criterion_main!(benches);
