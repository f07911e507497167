//! One table's code, with its rows moved between host and device.

use std::sync::Arc;

use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use tidegate::{Backend, FrameExt, Session, SimulatedSpec};

use super::tables::partition;
use super::{Outcome, Walk};

const SQL: &str =
    "SELECT \"A\", count(*) AS n, sum(\"B\") AS total FROM t GROUP BY \"A\" ORDER BY \"A\"";

/// Runs the same frame on the host, on a device, and on both.
pub(super) async fn moved(walk: Walk) -> Outcome {
    let mut session = walk.session().await?;
    if session.runtime().devices().is_empty() {
        println!("no device here: a simulated one, which is not a GPU, shows what would happen");
        session = Session::builder()
            .simulate_device(SimulatedSpec::with_memory(1 << 30))
            .build()?;
    }
    session.set("tidegate.placement", "auto").await?;
    let partitions = (0..10).map(|number| Ok(vec![partition(walk, number)?]));
    let partitions = partitions.collect::<Result<Vec<_>, Box<dyn std::error::Error>>>()?;
    let table = MemTable::try_new(partitions[0][0].schema(), partitions)?;
    session.register_table("t", Arc::new(table))?;
    let frame = session.sql(SQL).await?;
    let wanted = frame.clone().to_backend(Backend::Host)?.collect().await?;
    println!("{}", pretty_format_batches(&wanted)?);
    // Morsels of one query on both sides: the host takes one, the device the next.
    session.set("tidegate.morsel_rows", "500").await?;
    session.set("tidegate.replay_placement", "HD").await?;
    let both = session.sql(SQL).await?.collect().await?;
    report(&session, "on both");
    walk.check_device(&session)?;
    session.set("tidegate.replay_placement", "").await?;
    // The rows move to the device and stay there, until they move back.
    session.collect("CACHE TABLE t ON DEVICE").await?;
    let on_device = frame.clone().to_backend(Backend::Device)?.collect().await?;
    report(&session, "on the device");
    walk.check_device(&session)?;
    session.collect("UNCACHE TABLE t").await?;
    let back = frame.to_backend(Backend::Auto)?.collect().await?;
    report(&session, "wherever it is done first");
    for (what, rows) in [("both", both), ("device", on_device), ("auto", back)] {
        if pretty_format_batches(&rows)?.to_string() != pretty_format_batches(&wanted)?.to_string()
        {
            return Err(format!("{what} gave another answer: {rows:?}").into());
        }
    }
    println!("the same rows each time");
    Ok(())
}

fn report(session: &Session, what: &str) {
    if let Some(report) = session.last_report() {
        println!("{what}:\n{report}");
    }
}
