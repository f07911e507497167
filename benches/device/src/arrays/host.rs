//! How fast a host makes values of an array, and adds them up as the engine does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_schema::DataType;
use tidegate_kernels::generated::ArrayFold;
use tidegate_kernels::program::{Generated, GeneratedColumn};
use tidegate_kernels::random::{Array, Part, Simd, Span};
use tidegate_pipeline::AggregateOutput;

use super::{Failure, NORMAL};
use crate::shapes;

/// How long each rate is measured.
const FOR_LONG: Duration = Duration::from_millis(400);

/// Prints the rates with each kind of instructions, and those of the engine's fold.
#[expect(clippy::print_stdout, reason = "a table is what this program is for")]
pub(super) fn print_rates() -> Result<(), Failure> {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    println!("host: sum(x + 1) over N(10, 1), values a second");
    for simd in Simd::ALL {
        if !simd.is_here() {
            println!("{:<10} not here", simd.name());
            continue;
        }
        let rates = [1, 2, 3].map(|step| rate(simd, step, 1));
        println!(
            "{:<10} one thread {:.3e}, every second {:.3e}, every third {:.3e}; {threads} threads {:.3e}",
            simd.name(),
            rates[0],
            rates[1],
            rates[2],
            rate(simd, 1, threads)
        );
    }
    println!(
        "fold       one thread {:.3e}; {threads} threads {:.3e}",
        fold_rate(1)?,
        fold_rate(threads)?
    );
    Ok(())
}

/// Returns how many values a second so many threads fold, as regions over arrays do: chunks of 5,000 by
/// 5,000, whose rows are 50,000 apart, with the widest instructions.
fn fold_rate(threads: usize) -> Result<f64, Failure> {
    const CHUNK: u64 = 5000;
    const ROWS: u64 = 1 << 18;
    let array = Array::try_new(vec![10 * CHUNK; 2], NORMAL, 42)?;
    let pipeline = shapes::sum_plus_one(DataType::Float64, AggregateOutput::State)?;
    let columns = vec![GeneratedColumn::Value];
    let source = Generated::new(array.clone(), columns, 1, &[array.whole()]);
    let fold = ArrayFold::of(&pipeline, &source, &pipeline.output).ok_or("rows are made")?;
    let fold = Arc::new(fold);
    let next = AtomicU64::new(0);
    let began = Instant::now();
    let work = || -> Result<u64, Failure> {
        let mut states = fold.begin();
        let mut count = 0;
        'parts: loop {
            let position = next.fetch_add(1, Ordering::Relaxed) % 100;
            let span = |chunk| Span {
                start: chunk * CHUNK,
                step: 1,
                count: CHUNK,
            };
            let part = Part {
                spans: vec![span(position / 10), span(position % 10)],
            };
            for from in (0..part.num_values()).step_by(ROWS as usize) {
                if began.elapsed() > FOR_LONG {
                    break 'parts;
                }
                let rows = from..part.num_values().min(from + ROWS);
                count += rows.end - rows.start;
                states.add(&part, rows);
            }
        }
        let row = states.row()?;
        let sum = row.column(0).as_primitive::<Float64Type>().value(0);
        let counted = row.column(1).as_primitive::<Int64Type>().value(0);
        let is_right = counted as u64 == count && (sum / count as f64 - 11.0).abs() < 0.01;
        if is_right {
            Ok(count)
        } else {
            Err("a wrong sum".into())
        }
    };
    let counts = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let joined = workers
            .into_iter()
            .map(|worker| worker.join().map_err(|_| "a thread panicked")?);
        joined.sum::<Result<u64, Failure>>()
    })?;
    Ok(counts as f64 / began.elapsed().as_secs_f64())
}

/// Returns how many values a second so many threads generate, add 1 to and sum up.
fn rate(simd: Simd, step: u64, threads: usize) -> f64 {
    const ROWS: usize = 8192;
    let array = Array::try_new(vec![1 << 62], NORMAL, 42);
    let began = Instant::now();
    let counts: u64 = thread::scope(|scope| {
        let array = &array;
        let workers: Vec<_> = (0..threads as u64)
            .map(|worker| {
                scope.spawn(move || {
                    let Ok(array) = array else { return 0 };
                    let mut values = vec![0.0; ROWS];
                    let (mut count, mut sum) = (0, 0.0);
                    let mut first = worker << 40;
                    while began.elapsed() < FOR_LONG {
                        for _ in 0..64 {
                            let values = &mut values[..];
                            array
                                .values()
                                .fill(simd, array.stream(), first, step, values);
                            sum += plus_one_summed(values);
                            first += ROWS as u64 * step;
                            count += ROWS as u64;
                        }
                    }
                    let mean: f64 = sum / count as f64;
                    if (mean - 11.0).abs() < 0.01 { count } else { 0 }
                })
            })
            .collect();
        let joined = workers.into_iter().map(|worker| worker.join().unwrap_or(0));
        joined.sum()
    });
    counts as f64 / began.elapsed().as_secs_f64()
}

fn plus_one_summed(values: &[f64]) -> f64 {
    let mut sums = [0.0; 32];
    let (chunks, rest) = values.as_chunks::<32>();
    for chunk in chunks {
        for (sum, value) in sums.iter_mut().zip(chunk) {
            *sum += value + 1.0;
        }
    }
    sums.iter().sum::<f64>() + rest.iter().map(|value| value + 1.0).sum::<f64>()
}
