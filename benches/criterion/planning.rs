//! What finding and lowering regions costs (planning with and without the placement rule), and what
//! deciding about one morsel costs.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use datafusion::prelude::SessionContext;
use tidegate::{Session, SimulatedSpec};
use tidegate_benches::tpch::{TABLES, query};
use tidegate_device::DeviceId;
use tidegate_scheduler::place::{Forecast, device_takes};
use tidegate_scheduler::queue::DeviceClaim;
use tidegate_scheduler::{ClaimPolicy, MorselQueue, MorselSize};
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

/// Claims a queue of a thousand morsels empty, one decision each.
fn placement(criterion: &mut Criterion) {
    const NUM_MORSELS: usize = 1000;
    let size = MorselSize {
        num_rows: 100_000,
        num_bytes: 1 << 20,
    };
    let drain = || {
        let queue = MorselQueue::new(ClaimPolicy::Shared, vec![None]);
        queue.list(0, std::iter::repeat_n(size, NUM_MORSELS));
        let mut claimed = 0;
        let accepts = |_: &_, rows_waiting: u64| {
            device_takes(&Forecast {
                device_backlog: 1e-3,
                transfer: 1e-4,
                kernel: 1e-4,
                host_rest: rows_waiting as f64,
            })
        };
        while let DeviceClaim::Morsel(_) = queue.claim_for_device(DeviceId(0), accepts) {
            claimed += 1;
        }
        claimed
    };
    assert_eq!(drain(), NUM_MORSELS, "each morsel is claimed");
    criterion.bench_function("place 1000 morsels", |bencher| bencher.iter(drain));
}

fn all(criterion: &mut Criterion) {
    placement(criterion);
    let planned = planning(criterion);
    assert!(planned.is_ok(), "planning: {planned:?}");
}

criterion_group!(benches, all);
criterion_main!(benches);
