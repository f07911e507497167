//! How fast a device folds rows that lie in the host's memory and are not kept, as a scan feeds them.
//!
//! The tables and queries are those of `load`. Morsels are handed over until so many bytes of rows are in
//! flight, as a feeder does, but two at least; the query's answer is checked. Then two such queries run at once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use arrow_array::RecordBatch;
use futures::executor::block_on;
use tidegate_kernels::{CudaPipelineDevice, PipelineDevice, referenced_bytes};
use tidegate_pipeline::Pipeline;

use crate::load::{Shape, Table, check, query};
use crate::timing::Failure;

/// Times a shape: the first run, the median of `runs` more, and two at once.
#[expect(clippy::print_stdout, reason = "a table is what this program is for")]
pub(crate) fn run(
    device: &CudaPipelineDevice,
    shape: &Shape,
    table: &Table,
    (runs, in_flight_bytes): (usize, u64),
) -> Result<(), Failure> {
    let pipeline = Arc::new(query(shape)?);
    let fields = Arc::clone(&pipeline.input);
    let morsels = table.morsels.iter();
    let morsels = morsels.map(|arrays| RecordBatch::try_new(Arc::clone(&fields), arrays.clone()));
    let morsels: Vec<RecordBatch> = morsels.collect::<Result<_, _>>()?;
    let one = || {
        let (seconds, batch) = fold_all(device, &pipeline, &morsels, in_flight_bytes)?;
        match check(shape, table, &batch) {
            None => Ok(seconds),
            Some(why) => Err(Failure::from(why)),
        }
    };
    let first = one()?;
    let mut times = (0..runs.max(1))
        .map(|_| one())
        .collect::<Result<Vec<_>, _>>()?;
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    let mut both = Vec::new();
    for _ in 0..runs.max(1) {
        let began = Instant::now();
        thread::scope(|scope| {
            let other = scope.spawn(one);
            let own = one();
            let other = other
                .join()
                .unwrap_or_else(|_| Err("a thread panicked".into()));
            own.and(other)
        })?;
        both.push(began.elapsed().as_secs_f64());
    }
    both.sort_by(f64::total_cmp);
    println!(
        "{:<34} {:>9.1} {:>9.1}  first {:.1} ms, least {:.1}, most {:.1}; two at once {:.1}; answers ok",
        format!("{}, {} MiB", shape.name, in_flight_bytes >> 20),
        median * 1e3,
        table.plain_bytes as f64 / 1e9 / median,
        first * 1e3,
        times[0] * 1e3,
        times[times.len() - 1] * 1e3,
        both[both.len() / 2] * 1e3,
    );
    Ok(())
}

/// Folds all morsels and ends; returns the seconds that it took, and the answer.
fn fold_all(
    device: &CudaPipelineDevice,
    pipeline: &Arc<Pipeline>,
    morsels: &[RecordBatch],
    in_flight_bytes: u64,
) -> Result<(f64, RecordBatch), Failure> {
    let began = Instant::now();
    let mut run = device.open(Arc::clone(pipeline))?;
    let mut in_flight = VecDeque::new();
    let mut bytes_in_flight = 0;
    for morsel in morsels {
        let bytes = referenced_bytes(morsel);
        while bytes_in_flight + bytes > in_flight_bytes
            && in_flight.len() > 1
            && let Some((bytes, folding)) = in_flight.pop_front()
        {
            block_on(folding)?;
            bytes_in_flight -= bytes;
        }
        let input = device.reserve(bytes)?;
        in_flight.push_back((bytes, run.fold(vec![morsel.clone()], input)));
        bytes_in_flight += bytes;
    }
    for (_, folding) in in_flight {
        block_on(folding)?;
    }
    let finished = block_on(run.finish())?;
    let seconds = began.elapsed().as_secs_f64();
    let batch = finished.batches.into_iter().next();
    Ok((seconds, batch.ok_or("no row")?))
}
