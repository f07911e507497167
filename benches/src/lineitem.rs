//! Rows like those of TPC-H's `lineitem`, made faster than its generator makes them.
//!
//! A value is a function of its row's number, so batches are made on all cores.

use std::sync::Arc;
use std::thread;

use arrow::array::{ArrayRef, Date32Array, Decimal128Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

/// Days from 1970 to the first shipment, and how many days have shipments.
const FIRST_DAY: i32 = 8_037;
const NUM_DAYS: u64 = 2_526;

/// The day after which a line is still open.
const LAST_CLOSED_DAY: i32 = 9_298;

/// Returns the table's columns.
pub(crate) fn schema() -> SchemaRef {
    let decimal = |name| Field::new(name, DataType::Decimal128(15, 2), false);
    let text = |name| Field::new(name, DataType::Utf8, false);
    Arc::new(Schema::new(vec![
        decimal("l_quantity"),
        decimal("l_extendedprice"),
        decimal("l_discount"),
        decimal("l_tax"),
        text("l_returnflag"),
        text("l_linestatus"),
        Field::new("l_shipdate", DataType::Date32, false),
    ]))
}

/// Makes the table in batches of so many rows.
pub(crate) fn batches(num_rows: usize, batch_rows: usize) -> Vec<RecordBatch> {
    let starts: Vec<usize> = (0..num_rows).step_by(batch_rows).collect();
    let num_threads = thread::available_parallelism().map_or(1, usize::from);
    let share = starts.len().div_ceil(num_threads).max(1);
    thread::scope(|scope| {
        let threads: Vec<_> = starts
            .chunks(share)
            .map(|starts| {
                scope.spawn(move || {
                    let rows = |start: &usize| *start..num_rows.min(start + batch_rows);
                    let made = starts.iter().filter_map(|start| batch(rows(start)));
                    made.collect::<Vec<RecordBatch>>()
                })
            })
            .collect();
        let made = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Vec::new()));
        made.flatten().collect()
    })
}

fn batch(rows: std::ops::Range<usize>) -> Option<RecordBatch> {
    let decimal = |channel: u64, low: i128, count: u64| -> Option<ArrayRef> {
        let value = |row: usize| low + i128::from(mix(row as u64, channel) % count);
        let array = Decimal128Array::from_iter_values(rows.clone().map(value));
        Some(Arc::new(array.with_precision_and_scale(15, 2).ok()?))
    };
    let quantity = rows
        .clone()
        .map(|row| 100 * i128::from(1 + mix(row as u64, 1) % 50));
    let quantity = Decimal128Array::from_iter_values(quantity);
    let day = |row: usize| FIRST_DAY + (mix(row as u64, 5) % NUM_DAYS) as i32;
    let flag = |row: usize| match (day(row) > LAST_CLOSED_DAY, mix(row as u64, 6) % 2) {
        (true, _) => "N",
        (false, 0) => "A",
        (false, _) => "R",
    };
    let status = |row: usize| if day(row) > LAST_CLOSED_DAY { "O" } else { "F" };
    let columns: Vec<ArrayRef> = vec![
        Arc::new(quantity.with_precision_and_scale(15, 2).ok()?),
        decimal(2, 90_000, 10_400_000)?,
        decimal(3, 0, 11)?,
        decimal(4, 0, 9)?,
        Arc::new(StringArray::from_iter_values(rows.clone().map(flag))),
        Arc::new(StringArray::from_iter_values(rows.clone().map(status))),
        Arc::new(Date32Array::from_iter_values(rows.clone().map(day))),
    ];
    RecordBatch::try_new(schema(), columns).ok()
}

/// SplitMix64's output function over a row's number.
pub(crate) fn mix(row: u64, channel: u64) -> u64 {
    let state = row.wrapping_mul(8).wrapping_add(channel);
    let state = state.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}
