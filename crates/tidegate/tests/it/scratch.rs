//! scratch
use datafusion::arrow::util::pretty::pretty_format_batches;
use tidegate::{Session, SimulatedSpec};

async fn show(session: &Session, sql: &str) {
    println!("== {sql}");
    match session.collect(sql).await {
        Ok(rows) => println!("{}", pretty_format_batches(&rows).unwrap()),
        Err(error) => println!("{:?} {error}", error.kind()),
    }
    if let Some(report) = session.last_report() {
        println!("{report}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn scratch() {
    for device in [false, true] {
        let mut builder = Session::builder();
        if device {
            builder = builder.simulate_device(SimulatedSpec::with_memory(2 << 30));
        }
        let session = builder.build().unwrap();
        let q1 = "SELECT l_returnflag, l_linestatus, sum(l_quantity), avg(l_extendedprice * (1 - l_discount)), count(*) FROM tpch('lineitem', 0.01) WHERE l_shipdate <= date '1998-09-02' GROUP BY 1, 2 ORDER BY 1, 2";
        show(&session, q1).await;
        show(&session, &format!("EXPLAIN {q1}")).await;
        show(&session, &format!("EXPLAIN ANALYZE {q1}")).await;
        for set in ["SET tidegate.replay_placement = 'HD'", "SET tidegate.replay_placement = ''", "SET tidegate.placement = 'device'", "SET tidegate.placement='strict'", "SET tidegate.regions = 'additive'"] {
            show(&session, set).await;
            show(&session, q1).await;
        }
        show(&session, "SELECT * FROM system.placements").await;
        show(&session, "SELECT median(l_tax), sum(l_tax) FROM tpch('lineitem', 0.01)").await;
    }
}
