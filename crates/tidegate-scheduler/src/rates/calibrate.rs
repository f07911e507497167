//! What is measured before anything has run.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use tidegate_device::DeviceRates;
use tidegate_kernels::{
    ColumnDictionary, PipelineDevice, StoredMorsel, StoredRun, referenced_bytes,
};
use tidegate_pipeline::{
    Aggregate, AggregateCall, AggregateFunction, AggregateOutput, Expr, Pipeline, Step,
};

use super::HOST_ROWS_PER_SECOND;

/// Rows of the loop that the host is measured by.
const ROWS: usize = 1 << 18;

/// Times that it runs; the fastest counts.
const TIMES: usize = 5;

/// What the loop takes a row on the machine for which [`HOST_ROWS_PER_SECOND`] was measured: one
/// core of a virtual machine at 2.6 GHz.
const LOOP_SECONDS_PER_ROW: f64 = 1.2e-9;

/// How far a calibration may move the start, so that a busy moment does no harm.
const FACTOR_MAX: f64 = 4.0;

/// Rows of the column that a device is measured by.
const DEVICE_ROWS: usize = 1 << 22;

/// Columns of the rows that are moved: as in a feeder's morsel they are encoded side by side, and one
/// column alone would show what a single core encodes and not what the link takes.
const MOVED_COLUMNS: usize = 8;

/// As many rows as are measured for each that is moved: 64 MiB are, enough for a link to come up to speed.
const ROWS_PER_MOVED: usize = 4;

/// Batches that these rows come in.
const MOVED_BATCHES: usize = 8;

/// Rows of the column that tells what a launch takes.
const LAUNCH_ROWS: usize = 64;

/// Times that a device folds each; the fastest counts.
const FOLDS: usize = 3;

/// Measures how fast a device is by sums of columns of integers, before anything has run on it: what a
/// launch takes, what a row takes that is there, and what a byte of several columns takes to get there,
/// encoded and copied as a feeder's morsels are.
///
/// A fraction of a second, most of it for compiling; `None` if the device fails, is lost or has no
/// 100 MB to spare. Must be called within a tokio runtime.
pub async fn measure(device: &Arc<dyn PipelineDevice>) -> Option<DeviceRates> {
    measure_by(device, DEVICE_ROWS).await
}

/// As [`measure`], by a column of so many rows.
pub(super) async fn measure_by(
    device: &Arc<dyn PipelineDevice>,
    num_rows: usize,
) -> Option<DeviceRates> {
    let pipeline = sums_of_integers(1)?;
    let launch = fold_stored(device, &pipeline, LAUNCH_ROWS).await?;
    let resident = fold_stored(device, &pipeline, num_rows).await?;
    let (pipeline, moved_rows) = (sums_of_integers(MOVED_COLUMNS)?, num_rows / ROWS_PER_MOVED);
    let in_place = fold_stored(device, &pipeline, moved_rows).await?;
    let (moved, bytes) = fold_moved(device, &pipeline, moved_rows).await?;
    // A clock's step stands for what is too fast to be seen.
    let seconds = |time: f64| time.max(1e-9);
    Some(DeviceRates {
        copy_bytes_per_second: bytes as f64 / seconds(moved - in_place),
        rows_per_second: num_rows as f64 / seconds(resident - launch),
        launch_seconds: launch,
    })
}

/// Returns the seconds of the fastest fold of so many rows that are on the device.
async fn fold_stored(
    device: &Arc<dyn PipelineDevice>,
    pipeline: &Arc<Pipeline>,
    num_rows: usize,
) -> Option<f64> {
    let mut columns = Vec::new();
    for column in 0..pipeline.input.fields().len() {
        let arrays = vec![integers(column, num_rows)];
        let stored = device.store(arrays, ColumnDictionary::new()).await.ok()?;
        columns.push(Arc::new(stored));
    }
    let morsel = StoredMorsel {
        num_rows: num_rows as u64,
        columns,
    };
    let stored = StoredRun::new(vec![morsel]);
    let mut fastest = f64::MAX;
    // The first one also compiles.
    for _ in 0..=FOLDS {
        let mut run = device.open(Arc::clone(pipeline)).ok()?;
        let report = run.fold_stored(Arc::clone(&stored)).await.ok()?;
        fastest = fastest.min(report.device_seconds);
    }
    Some(fastest)
}

/// Returns the seconds of the fastest fold of so many rows that are moved for it, and their bytes.
async fn fold_moved(
    device: &Arc<dyn PipelineDevice>,
    pipeline: &Arc<Pipeline>,
    num_rows: usize,
) -> Option<(f64, u64)> {
    let columns = 0..pipeline.input.fields().len();
    let columns = columns.map(|column| integers(column, num_rows)).collect();
    let rows = RecordBatch::try_new(Arc::clone(&pipeline.input), columns).ok()?;
    let batch_rows = num_rows.div_ceil(MOVED_BATCHES).max(1);
    let batches = (0..num_rows).step_by(batch_rows);
    let batches = batches.map(|first| rows.slice(first, batch_rows.min(num_rows - first)));
    let batches: Vec<RecordBatch> = batches.collect();
    let (mut fastest, mut bytes) = (f64::MAX, 0);
    // The first one also compiles, and takes the memory that the others find.
    for _ in 0..=FOLDS {
        let input = batches.iter().map(referenced_bytes).sum();
        let input = device.reserve(input).ok()?;
        let mut run = device.open(Arc::clone(pipeline)).ok()?;
        let report = run.fold(batches.clone(), input).await.ok()?;
        fastest = fastest.min(report.device_seconds);
        bytes = report.bytes;
    }
    Some((fastest, bytes))
}

/// Makes the integers of a column, which no encoding makes smaller.
fn integers(column: usize, num_rows: usize) -> ArrayRef {
    let scattered = |row: u64| (row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1) as i64;
    let first = (column * num_rows) as u64;
    let values = (first..first + num_rows as u64).map(scattered);
    Arc::new(Int64Array::from_iter_values(values))
}

/// The sums of so many columns, as partial state.
fn sums_of_integers(num_columns: usize) -> Option<Arc<Pipeline>> {
    let field = |column| Field::new(format!("v{column}"), DataType::Int64, false);
    let fields: Vec<Field> = (0..num_columns).map(field).collect();
    let input = Arc::new(Schema::new(fields));
    let sum = |column: usize| {
        let state = vec![Field::new(format!("sum{column}"), DataType::Int64, true)];
        let argument = Expr::column(column, DataType::Int64).ok();
        let (function, name) = (AggregateFunction::Sum, format!("v{column}"));
        AggregateCall::new(function, argument, None, DataType::Int64, state, &name).ok()
    };
    let step = Step::Aggregate(Aggregate {
        keys: vec![],
        calls: (0..num_columns).map(sum).collect::<Option<_>>()?,
        output: AggregateOutput::State,
    });
    Some(Arc::new(Pipeline {
        output: Arc::new(step.output_schema(&input)),
        input,
        parameters: vec![],
        steps: vec![step],
    }))
}

/// Measures, in some milliseconds of this thread, what a row takes a host partition: a loop that
/// filters and sums, in proportion to what the same loop and a query took on a known machine.
pub fn host_seconds_per_row() -> f64 {
    let values: Vec<i64> = (0..ROWS as i64).map(|row| row * 7919 % 1000).collect();
    let fastest = (0..TIMES)
        .map(|_| {
            let started = Instant::now();
            black_box(filtered_sum(black_box(&values)));
            started.elapsed().as_secs_f64()
        })
        .fold(f64::MAX, f64::min);
    let factor = fastest / ROWS as f64 / LOOP_SECONDS_PER_ROW;
    let factor = factor.clamp(1.0 / FACTOR_MAX, FACTOR_MAX);
    factor / HOST_ROWS_PER_SECOND
}

/// Sums what passes a filter, in groups, so that no compiler makes it a vector operation.
fn filtered_sum(values: &[i64]) -> [i64; 16] {
    let mut sums = [0_i64; 16];
    for &value in values {
        if value > 250 {
            let group = (value & 15) as usize;
            sums[group] = sums[group].wrapping_add(value);
        }
    }
    sums
}
