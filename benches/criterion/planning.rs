//! What finding and lowering regions costs: planning with and without the placement rule.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use datafusion::prelude::SessionContext;
use tidegate::{Session, SimulatedSpec};
use tidegate_benches::tpch::{TABLES, query};
use tokio::runtime::Runtime;

type Failure = Box<dyn std::error::Error>;

/// Makes a session whose tables are generated when they are read: planning reads none.
async fn session(device: bool) -> Result<Session, Failure> {
    let mut builder = Session::builder().target_partitions(2);
    if device {
        builder = builder.simulate_device(SimulatedSpec::with_memory(1 << 30));
    }
    let session = builder.build()?;
    for table in TABLES {
        session
            .collect(&format!(
                "CREATE VIEW {table} AS SELECT * FROM tpch('{table}', 0.01)"
            ))
            .await?;
    }
    Ok(session)
}

/// Makes a stock context with the same tables.
async fn stock(session: &Session) -> Result<SessionContext, Failure> {
    let ctx = SessionContext::new();
    for table in TABLES {
        let provider = session.context().table_provider(table).await?;
        ctx.register_table(table, provider)?;
    }
    Ok(ctx)
}

fn planning(criterion: &mut Criterion) -> Result<(), Failure> {
    let runtime = Runtime::new()?;
    let host = runtime.block_on(session(false))?;
    let device = runtime.block_on(session(true))?;
    let stock = runtime.block_on(stock(&host))?;
    for number in [1, 6] {
        let sql = query(number);
        let mut group = criterion.benchmark_group(format!("plan q{number}"));
        group.bench_function("stock", |bencher| {
            bencher.to_async(&runtime).iter(|| async {
                let frame = stock.sql(sql).await.map_err(Failure::from)?;
                Ok::<_, Failure>(black_box(frame.create_physical_plan().await?))
            });
        });
        for (name, session) in [("no device", &host), ("simulated device", &device)] {
            group.bench_function(name, |bencher| {
                bencher.to_async(&runtime).iter(|| async {
                    let frame = session.sql(sql).await.map_err(Failure::from)?;
                    Ok::<_, Failure>(black_box(frame.create_physical_plan().await?))
                });
            });
        }
        group.finish();
    }
    Ok(())
}

fn all(criterion: &mut Criterion) {
    let planned = planning(criterion);
    assert!(planned.is_ok(), "planning: {planned:?}");
}

criterion_group!(benches, all);
criterion_main!(benches);
