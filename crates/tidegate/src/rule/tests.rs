//! Which form a region takes in a real run, by what is known of its groups.

use std::sync::Arc;

use datafusion::arrow::array::{Int64Array, RecordBatch};
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::physical_plan::ExecutionPlan;
use tidegate_scheduler::ShapeKey;

use super::PipelineExec;
use crate::Session;
use crate::region::host_partitions;

const ROWS: i64 = 60_000;

/// Seconds for a row: of the whole host, and of the device once the row is there.
const HOST: f64 = 2e-9;
const DEVICE: f64 = 1e-9;

/// What is too fast to matter.
const NOTHING: f64 = 1e-14;

async fn text(session: &Session, sql: &str) -> String {
    let batches = session.collect(sql).await.unwrap();
    pretty_format_batches(&batches).unwrap().to_string()
}

async fn set(session: &Session, settings: &[(&str, &str)]) {
    for (name, value) in settings {
        let name = format!("tidegate.{name}");
        session.set(&name, value).await.unwrap();
    }
}

fn shape_of(plan: &Arc<dyn ExecutionPlan>) -> Option<ShapeKey> {
    let own = plan.downcast_ref::<PipelineExec>();
    let own = own.and_then(PipelineExec::program);
    own.map(|program| ShapeKey::of(&program.pipeline))
        .or_else(|| plan.children().into_iter().find_map(shape_of))
}

/// Has the book of rates learn how fast host and device are for a shape, so often that what was
/// measured in this build is forgotten.
fn teach(session: &Session, shape: ShapeKey) {
    let rates = session.runtime().dispatch().rates();
    let info = session.runtime().devices()[0].info();
    let (amount, many) = (1_000_000, 1e6);
    for _ in 0..100 {
        rates.learn_host(shape, amount, many * HOST * host_partitions() as f64);
        rates.learn_load(shape, amount, many * NOTHING);
        rates.learn_transfer(shape, info, amount, many * NOTHING);
        rates.learn_fold(shape, info, amount, 0, many * DEVICE);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn few_groups_are_shared_and_many_are_answered_by_a_device_alone() {
    let spec = "1GB,copy=1e15B/s,rows=1e12/s,launch=1ns".parse().unwrap();
    let session = Session::builder().simulate_device(spec);
    let session = session.target_partitions(2).build().unwrap();
    let host = Session::builder().target_partitions(2).build().unwrap();
    let few: Int64Array = (0..ROWS)
        .map(|row| (row % 11 != 0).then_some(row % 7))
        .collect();
    let many: Int64Array = (0..ROWS).map(|row| Some(row * 7919 % ROWS)).collect();
    let columns = [("few", Arc::new(few) as _), ("many", Arc::new(many) as _)];
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    for session in [&session, &host] {
        session.register_batch("t", batch.clone()).unwrap();
    }
    for (key, form) in [("few", "additive"), ("many", "atomic")] {
        let sql = format!(
            "SELECT {key}, sum(many), count(*) FROM t GROUP BY {key} ORDER BY {key} NULLS FIRST \
             LIMIT 10"
        );
        let expected = text(&host, &sql).await;
        // How many groups there are a run has to show first, in which devices take part.
        set(
            &session,
            &[
                ("cache", "off"),
                ("placement", "device"),
                ("regions", "additive"),
            ],
        )
        .await;
        let frame = session.sql(&sql).await.unwrap();
        let shape = shape_of(&frame.create_physical_plan().await.unwrap()).unwrap();
        assert_eq!(text(&session, &sql).await, expected);
        assert!(session.runtime().dispatch().rates().state_bytes(shape) > 0.0);
        teach(&session, shape);
        set(&session, &[("placement", "auto"), ("regions", "auto")]).await;
        assert_eq!(text(&session, &sql).await, expected);
        let report = session.last_report().unwrap();
        let forms: Vec<&str> = report.regions.iter().map(|of| of.form.as_str()).collect();
        assert_eq!(forms, [form], "{key}: {report}");
        let mut places = report.regions.iter().flat_map(|region| &region.places);
        if form == "atomic" {
            // A device has answered, and not the host in its place.
            assert!(places.all(|place| place.place != "host"), "{report}");
        }
    }
}
