//! Whole queries over generated rows in memory, on the host and shared with a simulated device; each
//! answer is checked against the host's before anything is timed.

use criterion::{Criterion, criterion_group, criterion_main};
use datafusion::arrow::util::pretty::pretty_format_batches;
use tidegate::{Session, SimulatedSpec};
use tokio::runtime::Runtime;

type Failure = Box<dyn std::error::Error>;

const QUERIES: [(&str, &str); 3] = [
    (
        "filter and sum",
        "SELECT sum(v1), count(*) FROM h WHERE v3 < 50",
    ),
    (
        "100 groups",
        "SELECT id4, sum(v1), max(v2) FROM h GROUP BY id4 ORDER BY id4",
    ),
    (
        "10 000 groups",
        "SELECT count(*), sum(s) FROM (SELECT id6, sum(v1) AS s FROM h GROUP BY id6)",
    ),
];

async fn session(shared: bool) -> Result<Session, Failure> {
    let mut builder = Session::builder().target_partitions(2);
    if shared {
        builder = builder.simulate_device(SimulatedSpec::with_memory(1 << 30));
    }
    let session = builder.build()?;
    session
        .collect("CREATE TABLE h AS SELECT * FROM h2o_g1(1000000, 100)")
        .await?;
    if shared {
        session
            .collect("SET tidegate.replay_placement = 'HHHD'")
            .await?;
    }
    Ok(session)
}

async fn answer(session: &Session, sql: &str) -> Result<String, Failure> {
    Ok(pretty_format_batches(&session.collect(sql).await?)?.to_string())
}

fn measure(criterion: &mut Criterion) -> Result<(), Failure> {
    let runtime = Runtime::new()?;
    let host = runtime.block_on(session(false))?;
    let shared = runtime.block_on(session(true))?;
    for (name, sql) in QUERIES {
        let expected = runtime.block_on(answer(&host, sql))?;
        assert_eq!(runtime.block_on(answer(&shared, sql))?, expected, "{sql}");
        let mut group = criterion.benchmark_group(name);
        group.sample_size(20);
        for (place, session) in [
            ("host", &host),
            ("a quarter on a simulated device", &shared),
        ] {
            group.bench_function(place, |bencher| {
                bencher.to_async(&runtime).iter(|| session.collect(sql));
            });
        }
        group.finish();
    }
    Ok(())
}

fn all(criterion: &mut Criterion) {
    let measured = measure(criterion);
    assert!(measured.is_ok(), "{measured:?}");
}

criterion_group!(benches, all);
criterion_main!(benches);
