//! The devices of a machine: found, listed, limited, used.

use tidegate::{Session, SimulatedSpec};

use crate::{Outcome, expect, number, tell};

const SQL: &str = "SELECT sum(l_quantity) AS total FROM tpch('lineitem', 0.01)";

/// Finds all devices, uses them, and then shows none or half of their memory.
pub(crate) async fn used() -> Outcome {
    let all = Session::new()?;
    println!("{}", all.doctor());
    tell(&all, "SELECT * FROM system.devices").await?;
    let wanted = tell(&all, SQL).await?;
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
    let rows = tell(&limited, SQL).await?;
    if rows != wanted {
        return Err(format!("{rows:?} is not {wanted:?}").into());
    }
    Ok(())
}
