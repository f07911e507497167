//! What becomes of many groups: grouped again, the first of an order, or let out as rows.
//!
//! A shape is a whole pipeline over `k` and `v`, run as a query over resident columns is. Printed are
//! the time of the fold, the device's time to finish, and the time until the rows are Arrow arrays.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Instant;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use futures::executor::block_on;
use tidegate_device::cuda::Lane;
use tidegate_kernels::CudaPipelineDevice;
use tidegate_kernels::engine::{Machine, ResidentColumn};
use tidegate_kernels::execution::{Execution, FinishLimits};
use tidegate_kernels::program::{ProgramOptions, SlotFacts, StoreLimits};
use tidegate_pipeline::{
    Aggregate, AggregateCall, AggregateFunction, AggregateOutput, CompareOp, Expr, NamedExpr,
    Pipeline, Scalar, ScalarValue, Sort, SortKey, Step, Unsupported,
};

use crate::answer::over_rows;
use crate::columns::{Column, Values};
use crate::timing::{Args, Failure, fill};

const FIRST: usize = 10;

/// What follows the groups `k, sum(v)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// `count(*), sum(s)`: one row.
    Again,
    /// `HAVING s > 2^62`, and then the same.
    Having,
    /// `ORDER BY s DESC LIMIT 10`.
    First,
    /// They leave.
    Leave,
}

struct Shape {
    name: String,
    groups: u64,
    sparse: bool,
    after: After,
}

fn shapes() -> Vec<Shape> {
    let shape = |groups: u64, sparse: bool, after: After| {
        let what = match after {
            After::Again => "agg over agg",
            After::Having => "agg over agg, having",
            After::First => "first 10 of groups",
            After::Leave => "groups leave",
        };
        let kind = if sparse { "sparse" } else { "dense" };
        Shape {
            name: format!("{what}, {groups:e} {kind}"),
            groups,
            sparse,
            after,
        }
    };
    let mut shapes = Vec::new();
    for groups in [10_000_000, 100_000_000] {
        for sparse in [false, true] {
            shapes.push(shape(groups, sparse, After::Again));
        }
    }
    shapes.push(shape(100_000_000, false, After::Having));
    shapes.push(shape(100_000_000, false, After::First));
    shapes.push(shape(100_000_000, true, After::First));
    shapes.push(shape(15_000_000, false, After::Leave));
    shapes.push(shape(15_000_000, true, After::Leave));
    shapes
}

/// Times the shapes that are asked for.
#[expect(clippy::print_stdout, reason = "a table is what this program is for")]
pub(crate) fn run(device: &CudaPipelineDevice, args: &Arc<Args>) -> Result<(), Failure> {
    println!(
        "{:<34} {:>9} {:>9} {:>9}  answer",
        "shape", "fold ms", "finish ms", "rows ms"
    );
    for shape in shapes() {
        if !shape.name.contains(&args.shape) {
            continue;
        }
        let name = shape.name.clone();
        let (of_thread, args) = (device.clone(), Arc::clone(args));
        let timed = device
            .device()
            .submit(move |lane| time(&of_thread, lane, &shape, &args));
        match block_on(timed)
            .map_err(Failure::from)
            .and_then(|timed| timed)
        {
            Ok(timed) => println!("{name:<34} {timed}"),
            Err(error) => println!("{name:<34} failed: {error}"),
        }
    }
    Ok(())
}

fn time(
    device: &CudaPipelineDevice,
    lane: &Lane<'_>,
    shape: &Shape,
    args: &Args,
) -> Result<String, Failure> {
    let machine = device.machine(lane);
    let columns = [key_column(shape), value_column()];
    let mut buffers = Vec::new();
    let mut resident: Vec<(ResidentColumn, SlotFacts)> = Vec::new();
    for column in &columns {
        let buffer = fill(device, lane, "fill", column, args.rows, &[])?;
        let described = ResidentColumn {
            values: buffer.address(),
            validity: 0,
            base: column.base,
            factor: column.factor,
            width: column.width,
        };
        resident.push((described, column.facts()));
        buffers.push(buffer);
    }
    let pipeline = Arc::new(pipeline(shape.after)?);
    let options = ProgramOptions {
        limits: StoreLimits {
            rows: args.rows,
            ..StoreLimits::default()
        },
        ..ProgramOptions::default()
    };
    let mut times: [Vec<f64>; 3] = Default::default();
    let mut batches = Vec::new();
    let mut reason = None;
    for run in 0..=args.runs {
        batches = Vec::new();
        let mut execution = Execution::new(machine.budget(), Arc::clone(&pipeline), &options)?;
        let from = lane.mark()?;
        block_on(execution.fold_resident(&machine, args.rows, &resident))?;
        let folded = lane.mark()?;
        let fold = lane.elapsed_seconds(&from, &folded)?;
        let began = Instant::now();
        let leaving = block_on(execution.finish(&machine, &FinishLimits::default()))?;
        let finish = began.elapsed().as_secs_f64();
        reason = leaving.host_reason().map(str::to_owned);
        batches.extend(leaving.into_batches()?);
        let rows = began.elapsed().as_secs_f64();
        // The first run compiles, loads code and touches memory for the first time.
        if run > 0 {
            for (times, seconds) in times.iter_mut().zip([fold, finish, rows]) {
                times.push(seconds);
            }
        }
    }
    let answer = if args.unchecked {
        "unchecked".to_owned()
    } else {
        match check(shape, &columns, args.rows, &batches) {
            Ok(()) => "ok".into(),
            Err(why) => format!("WRONG: {why}"),
        }
    };
    let reason = reason.map_or_else(String::new, |why| format!(" [by the host: {why}]"));
    let [fold, finish, rows] = times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or(0.0) * 1e3
    });
    drop(buffers);
    Ok(format!(
        "{fold:>9.3} {finish:>9.3} {rows:>9.3}  {answer}{reason}"
    ))
}

fn key_column(shape: &Shape) -> Column {
    Column {
        values: Values::Uniform {
            count: shape.groups,
        },
        sparse: shape.sparse,
        width: if shape.sparse { 8 } else { 4 },
        base: 0,
        factor: 1,
        low: 0,
        seed: 0x9d5c_1234_77aa_0001,
        null_every: 0,
    }
}

fn value_column() -> Column {
    Column {
        values: Values::Full,
        sparse: false,
        width: 8,
        base: 0,
        factor: 1,
        low: 0,
        seed: 0x1b87_a5cd_3311_0003,
        null_every: 0,
    }
}

fn named(expr: Expr, name: &str) -> NamedExpr {
    NamedExpr {
        expr,
        name: name.into(),
    }
}

fn int64(index: usize) -> Result<Expr, Unsupported> {
    Expr::column(index, DataType::Int64)
}

fn sum(argument: Expr) -> Result<AggregateCall, Unsupported> {
    let state = vec![Field::new("s", DataType::Int64, true)];
    AggregateCall::new(
        AggregateFunction::Sum,
        Some(argument),
        None,
        DataType::Int64,
        state,
        "s",
    )
}

fn pipeline(after: After) -> Result<Pipeline, Unsupported> {
    let field = |name: &str| Field::new(name, DataType::Int64, true);
    let input = Arc::new(Schema::new(vec![field("k"), field("v")]));
    let aggregate = |keys: Vec<NamedExpr>, calls: Vec<AggregateCall>| {
        Step::Aggregate(Aggregate {
            keys,
            calls,
            output: AggregateOutput::Value,
        })
    };
    let mut steps = vec![aggregate(
        vec![named(int64(0)?, "k")],
        vec![sum(int64(1)?)?],
    )];
    let mut parameters = Vec::new();
    if after == After::Having {
        parameters.push(Scalar {
            data_type: DataType::Int64,
            value: ScalarValue::Int(HAVING_ABOVE),
        });
        let limit = Expr::parameter(0, DataType::Int64)?;
        steps.push(Step::Filter(Expr::compare(
            CompareOp::Gt,
            int64(1)?,
            limit,
        )?));
    }
    match after {
        After::Again | After::Having => {
            let state = vec![field("n")];
            let count = AggregateCall::new(
                AggregateFunction::Count,
                None,
                None,
                DataType::Int64,
                state,
                "n",
            )?;
            steps.push(aggregate(Vec::new(), vec![count, sum(int64(1)?)?]));
        }
        After::First => {
            let key = SortKey {
                expr: int64(1)?,
                descending: true,
                nulls_first: false,
            };
            steps.push(Step::Sort(Sort {
                keys: vec![key],
                fetch: Some(FIRST),
            }));
        }
        After::Leave => {}
    }
    let output = steps.iter().fold(input.as_ref().clone(), |schema, step| {
        step.output_schema(&schema)
    });
    Ok(Pipeline {
        input,
        parameters,
        steps,
        output: Arc::new(output),
    })
}

const HAVING_ABOVE: i64 = 1 << 62;

/// Sums by key on the host, and which keys there are.
fn sums(columns: &[Column; 2], groups: u64, rows: u64) -> (Vec<AtomicI64>, Vec<AtomicU32>) {
    let sums: Vec<AtomicI64> = (0..groups).map(|_| AtomicI64::new(0)).collect();
    let present: Vec<AtomicU32> = (0..groups.div_ceil(32))
        .map(|_| AtomicU32::new(0))
        .collect();
    // The key before it is spread.
    let key = Column {
        sparse: false,
        ..columns[0]
    };
    over_rows(
        rows,
        |_: &mut (), row| {
            let at = key.raw(row, &[]) as usize;
            sums[at].fetch_add(columns[1].raw(row, &[]) as i64, Ordering::Relaxed);
            present[at / 32].fetch_or(1 << (at % 32), Ordering::Relaxed);
        },
        |_, _| {},
    );
    (sums, present)
}

fn integers(batches: &[RecordBatch], column: usize) -> Vec<i64> {
    let arrays = batches.iter().map(|batch| batch.column(column));
    arrays
        .flat_map(|array| array.as_primitive::<Int64Type>().values().to_vec())
        .collect()
}

fn check(
    shape: &Shape,
    columns: &[Column; 2],
    rows: u64,
    batches: &[RecordBatch],
) -> Result<(), String> {
    if batches
        .iter()
        .any(|batch| batch.columns().iter().any(|column| column.null_count() > 0))
    {
        return Err("a NULL".into());
    }
    let (sums, present) = sums(columns, shape.groups, rows);
    let there = |at: &usize| present[at / 32].load(Ordering::Relaxed) >> (at % 32) & 1 == 1;
    let sum = |at: usize| sums[at].load(Ordering::Relaxed);
    let all = (0..shape.groups as usize).filter(there);
    let (first, second) = (integers(batches, 0), integers(batches, 1));
    let differ = |found: &dyn std::fmt::Debug, wanted: &dyn std::fmt::Debug| {
        Err(format!("{found:?}, not {wanted:?}"))
    };
    match shape.after {
        After::Again | After::Having => {
            let (count, total) = all
                .map(sum)
                .filter(|sum| shape.after == After::Again || *sum > HAVING_ABOVE)
                .fold((0, 0_i64), |(count, total), sum| {
                    (count + 1, total.wrapping_add(sum))
                });
            if (first.as_slice(), second.as_slice()) != (&[count], &[total]) {
                return differ(&(first, second), &(count, total));
            }
        }
        After::First => {
            let mut wanted: Vec<i64> = all.map(sum).collect();
            wanted.sort_unstable_by(|left, right| right.cmp(left));
            wanted.truncate(FIRST);
            if second != wanted {
                return differ(&second, &wanted);
            }
        }
        After::Leave => {
            let spread = |at: usize| {
                let key = at as u64;
                if shape.sparse {
                    crate::columns::mix(key) as i64
                } else {
                    key as i64
                }
            };
            let mut wanted: Vec<(i64, i64)> = all.map(|at| (spread(at), sum(at))).collect();
            let mut found: Vec<(i64, i64)> = first.into_iter().zip(second).collect();
            wanted.sort_unstable();
            found.sort_unstable();
            if wanted != found {
                return Err(format!(
                    "{} groups differ from {}",
                    found.len(),
                    wanted.len()
                ));
            }
        }
    }
    Ok(())
}
