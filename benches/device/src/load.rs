//! How fast columns of the host's memory come to stay on the device.
//!
//! A shape is a table of Arrow arrays. Threads take its morsels in turn and have the device store
//! their columns, as `CACHE TABLE` does. Then a query folds what is stored, and its answer is checked.
//! Printed are the rates, of plain bytes and of those that were copied, and where the time went: how
//! busy each thread was encoding, how much of the time copies of so many bytes take at the rate of the
//! link, and what the device's thread did.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float64Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch,
};
use arrow_schema::{DataType, Field};
use futures::executor::block_on;
use futures::future::try_join_all;
use tidegate_device::cuda::LoadingCounters;
use tidegate_kernels::{
    ColumnDictionary, CudaPipelineDevice, PipelineDevice, StoredColumn, StoredMorsel, StoredRun,
};
use tidegate_pipeline::{
    Aggregate, AggregateCall, AggregateFunction, AggregateOutput, Expr, Pipeline, Step,
};

use crate::columns::mix;
use crate::feed;
use crate::shapes::{Builder, DATE_LOW, DECIMAL, count, pipeline, sum};
use crate::timing::{Args, Failure};

/// Rows of a morsel.
const MORSEL_ROWS: usize = 1 << 20;
/// What pinned copies reach on an H200's host, in bytes a second.
const LINK_RATE: f64 = 55.5e9;
/// Plain bytes a second that are to be reached.
const TARGET: f64 = 44e9;

/// A column of the host: `low`, and of `count` values above it every `step`-th; of NULLs one in ten,
/// if there are any.
#[derive(Clone)]
pub(crate) struct Source {
    data_type: DataType,
    low: i64,
    step: i64,
    count: u64,
    has_nulls: bool,
}

pub(crate) struct Shape {
    pub(crate) name: &'static str,
    columns: Vec<Source>,
}

fn shapes() -> Vec<Shape> {
    let source = |data_type: DataType, low: i64, step: i64, count: u64| Source {
        data_type,
        low,
        step,
        count,
        has_nulls: false,
    };
    let double = source(DataType::Float64, 0, 1, 1_000_000);
    let small = source(DataType::Int64, 0, 1, 1_000);
    let price = source(DECIMAL, 90_000, 1, 10_400_000);
    let nullable = Source {
        has_nulls: true,
        ..small.clone()
    };
    let day = source(DataType::Int32, DATE_LOW, 1, 2_526);
    let lineitem = vec![
        source(DECIMAL, 100, 100, 50),
        price.clone(),
        source(DECIMAL, 0, 1, 11),
        source(DECIMAL, 0, 1, 9),
        day,
    ];
    let shape = |name, columns| Shape { name, columns };
    vec![
        shape("load doubles", vec![double]),
        shape(
            "load int64, all of 64 bits",
            vec![source(DataType::Int64, i64::MIN, 1, u64::MAX)],
        ),
        shape("load int64, 1,000 values", vec![small]),
        shape("load int64, 10 % NULL", vec![nullable]),
        shape("load decimals to 4 bytes", vec![price]),
        shape("load lineitem's numbers", lineitem),
    ]
}

impl Source {
    fn value(&self, row: usize) -> i64 {
        let raw = mix(row as u64 ^ self.count) % self.count;
        self.low.wrapping_add(self.step.wrapping_mul(raw as i64))
    }

    fn is_null(&self, row: usize) -> bool {
        self.has_nulls && mix(!(row as u64)).is_multiple_of(10)
    }

    fn array(&self, rows: std::ops::Range<usize>) -> Result<ArrayRef, Failure> {
        let values = rows.clone().map(|row| self.value(row));
        Ok(match self.data_type {
            DataType::Float64 => Arc::new(Float64Array::from_iter_values(
                values.map(|value| value as f64),
            )),
            DataType::Int32 => Arc::new(Int32Array::from_iter_values(
                values.map(|value| value as i32),
            )),
            DataType::Int64 if self.has_nulls => Arc::new(Int64Array::from_iter(
                rows.map(|row| (!self.is_null(row)).then(|| self.value(row))),
            )),
            DataType::Int64 => Arc::new(Int64Array::from_iter_values(values)),
            _ => {
                let array = Decimal128Array::from_iter_values(values.map(i128::from));
                Arc::new(array.with_precision_and_scale(15, 2)?)
            }
        })
    }

    /// Returns what is asked of the column: its sum, and of days the last.
    fn call(&self, index: usize) -> Result<AggregateCall, Failure> {
        let argument = Expr::column(index, self.data_type.clone())?;
        if self.data_type != DataType::Int32 {
            return Ok(sum(argument, "sum")?);
        }
        let state = vec![Field::new("max", DataType::Int32, true)];
        let function = AggregateFunction::Max;
        let call = AggregateCall::new(
            function,
            Some(argument),
            None,
            DataType::Int32,
            state,
            "max",
        )?;
        Ok(call)
    }

    /// Returns the answer for some rows; those of parts add up by [`joined`](Self::joined).
    fn answer(&self, rows: std::ops::Range<usize>) -> i128 {
        let values = rows
            .filter(|row| !self.is_null(*row))
            .map(|row| i128::from(self.value(row)));
        match self.data_type {
            DataType::Int32 => values.max().unwrap_or(i128::MIN),
            _ => values.sum(),
        }
    }

    fn joined(&self, answers: impl Iterator<Item = i128>) -> i128 {
        match self.data_type {
            DataType::Int32 => answers.max().unwrap_or(i128::MIN),
            // As the sum of 64-bit integers wraps.
            DataType::Int64 => i128::from(answers.sum::<i128>() as i64),
            _ => answers.sum(),
        }
    }
}

/// A table of the host, and what a query over it answers.
pub(crate) struct Table {
    pub(crate) morsels: Vec<Vec<ArrayRef>>,
    num_rows: usize,
    pub(crate) plain_bytes: u64,
    answers: Vec<i128>,
}

/// Does something for each morsel on so many threads.
fn on_threads<T: Send>(
    num_morsels: usize,
    num_threads: usize,
    work: impl Fn(usize) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    let next = AtomicUsize::new(0);
    let done = thread::scope(|scope| {
        let threads: Vec<_> = (0..num_threads)
            .map(|_| {
                scope.spawn(|| {
                    let mut done = Vec::new();
                    loop {
                        let morsel = next.fetch_add(1, Ordering::Relaxed);
                        if morsel >= num_morsels {
                            return Ok(done);
                        }
                        done.push((morsel, work(morsel)?));
                    }
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err("a thread panicked".into()))
        });
        joined.collect::<Result<Vec<_>, Failure>>()
    })?;
    let mut done: Vec<(usize, T)> = done.into_iter().flatten().collect();
    done.sort_by_key(|(morsel, _)| *morsel);
    Ok(done.into_iter().map(|(_, value)| value).collect())
}

fn table(shape: &Shape, num_rows: usize, num_threads: usize) -> Result<Table, Failure> {
    let rows_of = |morsel: usize| {
        let start = morsel * MORSEL_ROWS;
        start..num_rows.min(start + MORSEL_ROWS)
    };
    let made = on_threads(num_rows.div_ceil(MORSEL_ROWS), num_threads, |morsel| {
        let columns = shape.columns.iter();
        let arrays = columns.clone().map(|column| column.array(rows_of(morsel)));
        let answers = columns.map(|column| column.answer(rows_of(morsel)));
        Ok((
            arrays.collect::<Result<Vec<_>, _>>()?,
            answers.collect::<Vec<_>>(),
        ))
    })?;
    let (morsels, parts): (Vec<_>, Vec<Vec<i128>>) = made.into_iter().unzip();
    let answers = shape.columns.iter().enumerate();
    let answers =
        answers.map(|(index, column)| column.joined(parts.iter().map(|part| part[index])));
    Ok(Table {
        plain_bytes: morsels
            .iter()
            .flatten()
            .map(|array: &ArrayRef| array.to_data().get_slice_memory_size().unwrap_or(0) as u64)
            .sum(),
        answers: answers.collect(),
        morsels,
        num_rows,
    })
}

/// Times the shapes that are asked for.
#[expect(clippy::print_stdout, reason = "a table is what this program is for")]
pub(crate) fn run(device: &CudaPipelineDevice, args: &Args) -> Result<(), Failure> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let num_threads = args
        .load_threads
        .unwrap_or(cores + cores.div_ceil(4))
        .max(1);
    println!(
        "{:<34} {:>9} {:>9} {:>9} {:>8}  answer",
        "shape", "ms", "plain", "target", "copied"
    );
    println!(
        "{:<34} {:>9} {:>9} {:>9} {:>8}",
        "", "", "GB/s", "GB/s", "GB/s"
    );
    for shape in shapes() {
        if !shape.name.contains(&args.shape) {
            continue;
        }
        let table = table(&shape, args.load_rows, cores)?;
        // The first pins memory and takes it of the device's pool.
        for what in ["first", "again"] {
            let name = format!("{}, {what}", shape.name);
            match load(device, &shape, &table, num_threads) {
                Ok(loaded) => println!("{name:<34} {loaded}"),
                Err(error) => println!("{name:<34} failed: {error}"),
            }
        }
        for in_flight_mib in &args.in_flight_mib {
            let how = (args.runs, in_flight_mib << 20);
            if let Err(error) = feed::run(device, &shape, &table, how) {
                println!("{:<34} failed: {error}", shape.name);
            }
        }
    }
    Ok(())
}

/// What a load took.
struct Loaded {
    seconds: f64,
    plain_bytes: u64,
    copied_bytes: u64,
    num_threads: usize,
    encode_seconds: f64,
    counters: LoadingCounters,
    answer: String,
}

impl fmt::Display for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |bytes: u64| bytes as f64 / 1e9 / self.seconds;
        let share = |seconds: f64| 100.0 * seconds / self.seconds;
        let LoadingCounters {
            copies,
            slot_bytes,
            wait_seconds,
            pin_seconds,
            alloc_seconds,
            queue_seconds,
            ..
        } = self.counters;
        write!(
            f,
            "{:>9.1} {:>9.1} {:>9.1} {:>8.1}  {}\n    {} threads: {:.0} % encoding, {:.0} % waiting \
             for a slot; {copies} copies, {:.0} % of the time at {:.1} GB/s; the device's thread: \
             {:.0} % pinning, {:.0} % taking memory, {:.0} % queuing; {} MiB pinned",
            self.seconds * 1e3,
            rate(self.plain_bytes),
            TARGET / 1e9,
            rate(self.copied_bytes),
            self.answer,
            self.num_threads,
            share(self.encode_seconds) / self.num_threads as f64,
            share(wait_seconds) / self.num_threads as f64,
            share(self.copied_bytes as f64 / LINK_RATE),
            LINK_RATE / 1e9,
            share(pin_seconds),
            share(alloc_seconds),
            share(queue_seconds),
            slot_bytes >> 20,
        )
    }
}

fn load(
    device: &CudaPipelineDevice,
    shape: &Shape,
    table: &Table,
    num_threads: usize,
) -> Result<Loaded, Failure> {
    let before = device.device().loading();
    let dictionaries: Vec<_> = shape
        .columns
        .iter()
        .map(|_| ColumnDictionary::new())
        .collect();
    let began = Instant::now();
    let morsels = on_threads(table.morsels.len(), num_threads, |morsel| {
        let arrays = table.morsels[morsel].iter().zip(&dictionaries);
        let stores = arrays.map(|(array, dictionary)| {
            device.store(vec![Arc::clone(array)], Arc::clone(dictionary))
        });
        let columns = block_on(try_join_all(stores))?;
        Ok(StoredMorsel {
            num_rows: table.morsels[morsel][0].len() as u64,
            columns: columns.into_iter().map(Arc::new).collect(),
        })
    })?;
    // Copies were queued; the last of them end here.
    block_on(device.device().submit(|lane| lane.synchronize()))??;
    let seconds = began.elapsed().as_secs_f64();
    let after = device.device().loading();
    let columns = || morsels.iter().flat_map(|morsel| &morsel.columns);
    let encode_seconds = columns().map(|column: &Arc<StoredColumn>| column.encode_seconds());
    Ok(Loaded {
        seconds,
        plain_bytes: table.plain_bytes,
        copied_bytes: after.copied_bytes - before.copied_bytes,
        num_threads,
        encode_seconds: encode_seconds.sum(),
        counters: LoadingCounters {
            copied_bytes: after.copied_bytes - before.copied_bytes,
            copies: after.copies - before.copies,
            slot_bytes: after.slot_bytes,
            wait_seconds: after.wait_seconds - before.wait_seconds,
            pin_seconds: after.pin_seconds - before.pin_seconds,
            alloc_seconds: after.alloc_seconds - before.alloc_seconds,
            queue_seconds: after.queue_seconds - before.queue_seconds,
        },
        answer: match answer(device, shape, table, StoredRun::new(morsels))? {
            None => "ok".into(),
            Some(why) => format!("WRONG: {why}"),
        },
    })
}

/// Folds what is stored, and returns what is wrong with the answer.
fn answer(
    device: &CudaPipelineDevice,
    shape: &Shape,
    table: &Table,
    run: Arc<StoredRun>,
) -> Result<Option<String>, Failure> {
    let mut opened = device.open(Arc::new(query(shape)?))?;
    block_on(opened.fold_stored(run))?;
    let finished = block_on(opened.finish())?;
    let batch = finished.batches.first().ok_or("no row")?;
    Ok(check(shape, table, batch))
}

/// Returns what is wrong with the answer of the query.
pub(crate) fn check(shape: &Shape, table: &Table, batch: &RecordBatch) -> Option<String> {
    let count = batch.column(0).as_primitive::<Int64Type>().value(0);
    if count != table.num_rows as i64 {
        return Some(format!("{count} rows of {}", table.num_rows));
    }
    let mut columns = shape.columns.iter().zip(&table.answers).enumerate();
    columns.find_map(|(index, (column, expected))| {
        let told = told(batch, index + 1, &column.data_type);
        (told != *expected).then(|| format!("column {index} gives {told}, not {expected}"))
    })
}

pub(crate) fn query(shape: &Shape) -> Result<Pipeline, Failure> {
    let fields = shape.columns.iter().enumerate();
    let fields = fields.map(|(index, column)| {
        Field::new(
            format!("c{index}"),
            column.data_type.clone(),
            column.has_nulls,
        )
    });
    let calls = shape.columns.iter().enumerate();
    let calls = calls.map(|(index, column)| column.call(index));
    let calls = std::iter::once(count().map_err(Failure::from)).chain(calls);
    let steps = vec![Step::Aggregate(Aggregate {
        keys: vec![],
        calls: calls.collect::<Result<_, _>>()?,
        output: AggregateOutput::Value,
    })];
    Ok(pipeline(fields.collect(), Builder::default(), steps)?)
}

/// Returns an answer of the device as an integer, which the sums of doubles are here too.
fn told(batch: &RecordBatch, index: usize, data_type: &DataType) -> i128 {
    let column = batch.column(index);
    match data_type {
        DataType::Float64 => column.as_primitive::<Float64Type>().value(0) as i128,
        DataType::Int32 => i128::from(column.as_primitive::<Int32Type>().value(0)),
        DataType::Int64 => i128::from(column.as_primitive::<Int64Type>().value(0)),
        _ => column.as_primitive::<Decimal128Type>().value(0),
    }
}
