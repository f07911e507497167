//! A simulated device that fails changes nothing but the counters.

use std::time::Duration;

use tidegate_sql_tests::faults::{Bench, Device, Failure, Kind, at_every_operation, at_random};

async fn every(kind: Kind) -> Result<(), Failure> {
    let bench = Bench::new(Device::Simulated).await?;
    at_every_operation(&bench, kind).await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_at_every_launch_changes_no_row() -> Result<(), Failure> {
    every(Kind::Launch).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_lost_at_any_launch_changes_no_row() -> Result<(), Failure> {
    every(Kind::Lost).await
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_that_is_not_there_changes_no_row() -> Result<(), Failure> {
    every(Kind::Memory).await?;
    every(Kind::MemoryTwice).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_at_every_copy_changes_no_row() -> Result<(), Failure> {
    every(Kind::Copy).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_at_every_event_changes_no_row() -> Result<(), Failure> {
    every(Kind::Event).await
}

/// For as many seconds as `TIDEGATE_FAULTS_SECONDS` says: no hang, no wrong row, no leak.
#[tokio::test(flavor = "multi_thread")]
async fn random_faults_under_concurrent_queries_change_no_row() -> Result<(), Failure> {
    let seconds = std::env::var("TIDEGATE_FAULTS_SECONDS");
    let seconds = seconds.map_or(3, |text| text.parse().unwrap());
    let bench = Bench::new(Device::Simulated).await?;
    let tally = at_random(&bench, Duration::from_secs(seconds)).await;
    tally.map(drop)
}
