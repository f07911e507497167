//! The devices of a machine: found, listed, limited, used.

use datafusion::arrow::util::pretty::pretty_format_batches;
use tidegate::{Session, SimulatedSpec};

use super::{Outcome, Walk, expect, number};

/// Finds all devices, uses them, and then shows none or half of their memory.
pub(super) async fn used(walk: Walk) -> Outcome {
    let scale_factor = if walk.full { "1" } else { "0.01" };
    let sql = format!("SELECT sum(l_quantity) AS total FROM tpch('lineitem', {scale_factor})");
    let all = walk.session().await?;
    println!("{}", all.doctor());
    let listed = all.collect("SELECT * FROM system.devices").await?;
    println!("{}", pretty_format_batches(&listed)?);
    let wanted = walk.tell(&all, &sql).await?;
    // None of them.
    let none = Session::builder()
        .visible_devices(Some(String::new()))
        .build()?;
    let rows = none.collect("SELECT count(*) FROM system.devices").await?;
    expect("the devices that are shown", number(&rows)?, 0.0, 0.0)?;
    // Limited memory; a machine without a GPU shows it with a simulated one.
    let limited = match all.runtime().devices().len() {
        0 => Session::builder().simulate_device(SimulatedSpec::with_memory(64 << 20)),
        _ => Session::builder().device_memory_limit(1 << 30),
    };
    let limited = limited.build()?;
    limited.set("tidegate.placement", "device").await?;
    let rows = walk.tell(&limited, &sql).await?;
    if rows != wanted {
        return Err(format!("{rows:?} is not {wanted:?}").into());
    }
    Ok(())
}
