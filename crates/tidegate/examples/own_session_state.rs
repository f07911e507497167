//! A session state that somebody else builds, with their own options and functions, to which regions
//! and the `tidegate.*` settings are added.

#![expect(clippy::print_stdout, reason = "an example shows its answer")]

use std::sync::Arc;

use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use tidegate::{Runtime, RuntimeOptions, SimulatedSpec, add_to};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::new(&RuntimeOptions {
        simulated: vec![SimulatedSpec::with_memory(1 << 30)],
        ..RuntimeOptions::default()
    })?;
    let theirs = SessionStateBuilder::new()
        .with_config(SessionConfig::new().with_target_partitions(2))
        .with_default_features();
    let state = add_to(theirs, &Arc::new(runtime)).build();
    let ctx = SessionContext::new_with_state(state);

    ctx.sql("SET tidegate.placement = 'device'")
        .await?
        .collect()
        .await?;
    ctx.sql("CREATE TABLE t AS SELECT value % 3 AS k, value AS v FROM generate_series(1, 999)")
        .await?
        .collect()
        .await?;
    let sql = "SELECT k, sum(v), count(*) FROM t WHERE v > 9 GROUP BY k ORDER BY k";
    ctx.sql(sql).await?.show().await?;
    let plan = ctx.sql(sql).await?.create_physical_plan().await?;
    let text = datafusion::physical_plan::displayable(plan.as_ref())
        .indent(false)
        .to_string();
    println!("{text}");
    if text.contains("simulated device, not a GPU") {
        Ok(())
    } else {
        Err("nothing was placed".into())
    }
}
