//! Arrays in chunks: one doubled, and a large random one summed.

use std::time::Instant;

use tidegate::Session;

use super::{Outcome, Walk, expect, number};

/// A chunked 1000 × 1000 array, doubled.
pub(super) async fn doubled(walk: Walk) -> Outcome {
    let session = walk.session().await?;
    let sql = "SELECT sum(x * 2) AS total FROM ones([1000, 1000], chunks => [100, 100])";
    let rows = walk.tell(&session, sql).await?;
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
pub(super) async fn random_sum(walk: Walk) -> Outcome {
    let (size, chunk) = match walk.full {
        false => (2_000_u64, 500),
        true => (500_000, 10_000),
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
    let session = walk.session().await?;
    match session.runtime().devices().len() {
        0 => {
            walk.tell(&session, &sql).await?;
        }
        1 => measured.push(on_devices(walk, &session, "one GPU", &sql, values).await?),
        devices => {
            let what = format!("{devices} GPUs");
            measured.push(on_devices(walk, &session, &what, &sql, values).await?);
            let one = Session::builder()
                .visible_devices(Some("0".into()))
                .build()?;
            one.set("tidegate.placement", "device").await?;
            measured.push(on_devices(walk, &one, "one GPU", &sql, values).await?);
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

/// Takes the second run, for the first compiles the kernel.
async fn on_devices(
    walk: Walk,
    session: &Session,
    what: &str,
    sql: &str,
    values: u64,
) -> Result<(String, f64), Box<dyn std::error::Error>> {
    timed(session, sql, values).await?;
    let seconds = timed(session, sql, values).await?;
    walk.check_device(session)?;
    Ok((what.to_string(), seconds))
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
