//! Arrays in chunks: one doubled, and a large random one summed.

use std::time::Instant;

use tidegate::Session;

use crate::{Outcome, Scale, expect, number, tell};

/// A chunked 1000 × 1000 array, doubled.
pub(crate) async fn doubled() -> Outcome {
    let session = Session::new()?;
    let sql = "SELECT sum(x * 2) AS total FROM ones([1000, 1000], chunks => [100, 100])";
    let rows = tell(&session, sql).await?;
    expect("the sum of the doubled array", number(&rows)?, 2e6, 0.0)?;
    // One element, by its indices.
    let sql =
        "SELECT x * 2 AS x FROM ones([1000, 1000], chunks => [100, 100]) WHERE i = 999 AND j = 0";
    expect(
        "the element",
        number(&session.collect(sql).await?)?,
        2.0,
        0.0,
    )
}

/// What the post of 2019 measured for the sum of every second of both dimensions, in seconds.
/// <https://blog.dask.org/2019/01/03/dask-array-gpus-first-steps>
const POST: [(&str, f64); 4] = [
    ("one core", 9540.0),
    ("forty cores", 690.0),
    ("one GPU", 97.0),
    ("eight GPUs", 19.0),
];

/// `(random_normal(10, 1) + 1)[::2, ::2].sum()`, on one core, all cores, and the devices that there are.
pub(crate) async fn random_sum(scale: Scale) -> Outcome {
    let (size, chunk) = match scale {
        Scale::Small => (2_000_u64, 500),
        Scale::Full => (500_000, 10_000),
    };
    let sql = format!(
        "SELECT sum(x + 1) AS total FROM random_normal([{size}, {size}], 10, 1, \
         chunks => [{chunk}, {chunk}], seed => 42) WHERE i % 2 = 0 AND j % 2 = 0"
    );
    let values = (size / 2) * (size / 2);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut measured = Vec::new();
    for (what, partitions) in [("one core", 1), ("all cores", cores)] {
        let session = Session::builder().target_partitions(partitions).build()?;
        session.set("tidegate.placement", "host").await?;
        measured.push((what.to_string(), timed(&session, &sql, values).await?));
    }
    let session = Session::new()?;
    match session.runtime().devices().len() {
        0 => {
            tell(&session, &sql).await?;
        }
        devices => {
            let what = format!("{devices} GPUs");
            measured.push((what, timed(&session, &sql, values).await?));
        }
    }
    println!("| {size} × {size} | seconds |\n|---|---|");
    for (what, seconds) in measured {
        println!("| here, {what} | {seconds:.3} |");
    }
    for (what, seconds) in POST {
        println!("| the post, {what}, 500000 × 500000 | {seconds} |");
    }
    Ok(())
}

async fn timed(
    session: &Session,
    sql: &str,
    values: u64,
) -> Result<f64, Box<dyn std::error::Error>> {
    let began = Instant::now();
    let rows = session.collect(sql).await?;
    let seconds = began.elapsed().as_secs_f64();
    let values = values as f64;
    // Ten standard errors.
    expect(
        "the sum",
        number(&rows)?,
        11.0 * values,
        10.0 * values.sqrt(),
    )?;
    Ok(seconds)
}
