//! Prints the sum of what so many trivial tasks return, and the seconds from the first submission to the
//! last value.
//!
//! Usage: `tasks [COUNT] [THREADS]`; a million and 2 by default. The sum is checked.

#![expect(clippy::print_stdout, reason = "the line is the program's result")]

use std::time::Instant;

use tidegate::{Error, Session, Task, TaskError};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let count: u64 = args.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let threads: usize = args.next().map_or(Ok(2), |text| text.parse())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .build()?;
    runtime.block_on(run(count))
}

async fn run(count: u64) -> Result<(), Failure> {
    let session = Session::new()?;
    let began = Instant::now();
    let mut handles = Vec::with_capacity(usize::try_from(count)?);
    for number in 0..count {
        let task = Task::call(move |_| Ok::<u64, TaskError>(number));
        handles.push(session.submit(task)?);
    }
    let mut sum = 0;
    for handle in handles {
        sum += *handle.await.map_err(Error::from)?;
    }
    let seconds = began.elapsed().as_secs_f64();
    let expected = count * count.saturating_sub(1) / 2;
    if sum != expected {
        return Err(format!("the sum is {sum}, and should be {expected}").into());
    }
    println!("{sum} {seconds:.3}");
    Ok(())
}
