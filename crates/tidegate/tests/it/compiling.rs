//! A query whose kernels are being compiled keeps no other from its device, and can be given up.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use datafusion::common::ScalarValue;
use tidegate::Session;
use tidegate_device::{DeviceId, SimulatedDevice};
use tidegate_kernels::SimulatedPipelineDevice;
use tokio::time::timeout;

use crate::support::{answer, host_only, lines, rows, runtime_of, sides};

const SUM: &str = "SELECT k, sum(v), count(*) FROM t GROUP BY k";
const MAX: &str = "SELECT k, max(v), count(*) FROM t GROUP BY k";
const LONG: Duration = Duration::from_secs(60);

/// Compilers that a test opens: pipelines that say `max` are compiled once it is open.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_open: bool,
    arrived: HashSet<String>,
}

impl State {
    fn is_reached(&self) -> bool {
        let mut arrived = self.arrived.iter();
        arrived.any(|pipeline| pipeline.to_lowercase().contains("max"))
    }
}

impl Gate {
    fn pass(&self, pipeline: &str) {
        let mut state = self.state.lock().unwrap();
        state.arrived.insert(pipeline.to_owned());
        self.changed.notify_all();
        let is_shut = |state: &mut State| !state.is_open;
        if pipeline.to_lowercase().contains("max") {
            let passed = self.changed.wait_timeout_while(state, LONG, is_shut);
            assert!(!passed.unwrap().1.timed_out(), "the gate stayed shut");
        }
    }

    fn open(&self) {
        self.state.lock().unwrap().is_open = true;
        self.changed.notify_all();
    }

    /// Whether a pipeline that says `max` has come to be compiled.
    fn was_reached(&self) -> bool {
        self.state.lock().unwrap().is_reached()
    }

    /// Waits until a pipeline that says `max` is being compiled.
    fn is_reached(&self) {
        let none = |state: &mut State| !state.is_reached();
        let state = self.state.lock().unwrap();
        let arrived = self.changed.wait_timeout_while(state, LONG, none).unwrap();
        assert!(!arrived.1.timed_out(), "nothing is compiled");
    }
}

/// Makes a session with one device, which compiles behind a gate, over the table `t`.
fn gated(placement: &str) -> (Session, Arc<Gate>) {
    let spec = "1GB,copy=1e15B/s,rows=1e12/s,launch=1ns".parse().unwrap();
    let device = SimulatedDevice::new(DeviceId(0), spec).unwrap();
    let gate = Arc::new(Gate::default());
    let of_device = Arc::clone(&gate);
    let device = SimulatedPipelineDevice::with_compiler(device, move |text| of_device.pass(text));
    let session = Session::builder().runtime(runtime_of(device));
    let session = session.target_partitions(2).build().unwrap();
    session.register_batch("t", rows(0, 20_000)).unwrap();
    let session_of = session.clone();
    futures::executor::block_on(async {
        for (name, value) in [("placement", placement), ("morsel_rows", "1000")] {
            let name = format!("tidegate.{name}");
            session_of.set(&name, value).await.unwrap();
        }
    });
    (session, gate)
}

async fn expected(sql: &str) -> Vec<String> {
    let host = host_only();
    host.register_batch("t", rows(0, 20_000)).unwrap();
    answer(&host, sql).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_does_not_wait_for_the_kernels_of_another() {
    for (cached, regions) in [
        (false, "additive"),
        (false, "atomic"),
        (true, "additive"),
        (true, "atomic"),
    ] {
        let (session, gate) = gated("strict");
        session.set("tidegate.regions", regions).await.unwrap();
        if cached {
            session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
        }
        let slow = {
            let session = session.clone();
            tokio::spawn(async move { answer(&session, MAX).await })
        };
        gate.is_reached();
        // Its own kernels are compiled meanwhile, and then are there.
        for _ in 0..3 {
            let quick = timeout(LONG, answer(&session, SUM)).await;
            let quick = quick.unwrap_or_else(|_| panic!("{regions}, cached: {cached}"));
            assert_eq!(quick, expected(SUM).await, "{regions}, cached: {cached}");
            assert_eq!(sides(&session).1.1, 20_000, "{regions}, cached: {cached}");
        }
        assert!(!slow.is_finished(), "{regions}, cached: {cached}");
        gate.open();
        let slow = timeout(LONG, slow).await.unwrap().unwrap();
        assert_eq!(slow, expected(MAX).await, "{regions}, cached: {cached}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_is_given_up_waits_for_no_kernels() {
    let (session, gate) = gated("strict");
    let slow = {
        let session = session.clone();
        tokio::spawn(async move { session.collect(MAX).await })
    };
    gate.is_reached();
    slow.abort();
    assert!(
        timeout(LONG, slow)
            .await
            .unwrap()
            .unwrap_err()
            .is_cancelled()
    );
    // Another of the same shape waits for the kernels that are being compiled.
    let again = {
        let session = session.clone();
        tokio::spawn(async move { answer(&session, MAX).await })
    };
    let quick = timeout(LONG, answer(&session, SUM)).await.unwrap();
    assert_eq!(quick, expected(SUM).await);
    assert!(!again.is_finished());
    gate.open();
    let again = timeout(LONG, again).await.unwrap().unwrap();
    assert_eq!(again, expected(MAX).await);
}

/// Asks until a device answers.
async fn comes_to_the_device(session: &Session, sql: &str) {
    let asking = async {
        loop {
            assert_eq!(answer(session, sql).await, expected(sql).await);
            if sides(session).1.1 > 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(LONG, asking).await.unwrap();
}

/// Whether the last statement's report names kernels that are compiled as the reason for a place.
fn says_compiled(session: &Session) -> bool {
    let report = session.last_report().unwrap();
    let places = report.regions.iter().flat_map(|region| &region.places);
    let mut reasons = places.flat_map(|place| &place.reasons);
    reasons.any(|(why, _)| why.contains("kernels are compiled"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_answers_over_a_table_on_a_device_until_its_kernels_are_there() {
    for regions in ["auto", "additive"] {
        let (session, gate) = gated("auto");
        session.set("tidegate.regions", regions).await.unwrap();
        session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
        // The gate is shut. The host may have answered all before the device asks for kernels.
        let asking = async {
            let mut is_told = false;
            while !is_told {
                assert_eq!(
                    answer(&session, MAX).await,
                    expected(MAX).await,
                    "{regions}"
                );
                assert_eq!(sides(&session).1, (0, 0), "{regions}");
                is_told = gate.was_reached() && (regions != "auto" || says_compiled(&session));
            }
        };
        timeout(LONG, asking).await.unwrap();
        gate.open();
        comes_to_the_device(&session, MAX).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_statement_waits_for_no_kernels() {
    let (session, gate) = gated("auto");
    session.collect("CACHE TABLE t ON DEVICE").await.unwrap();
    let sql = "SELECT k, max(v) FROM t WHERE v > $1 GROUP BY k";
    let prepared = session.prepare(sql).await.unwrap();
    let written = sql.replace("$1", "100");
    let ask = || async {
        let values = [ScalarValue::Int64(Some(100))];
        lines(&prepared.collect(&values).await.unwrap())
    };
    let asking = async {
        while !gate.was_reached() {
            assert_eq!(ask().await, expected(&written).await);
            assert_eq!(sides(&session).1, (0, 0));
        }
    };
    timeout(LONG, asking).await.unwrap();
    assert_eq!(ask().await, expected(&written).await);
    assert_eq!(sides(&session).1, (0, 0));
    gate.open();
    let asking = async {
        while sides(&session).1.1 == 0 {
            assert_eq!(ask().await, expected(&written).await);
        }
    };
    timeout(LONG, asking).await.unwrap();
}
