//! What a scheduler's cluster is and has done, for Prometheus.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::DescriptorEncoder;
use tidegate::spread::{ClusterActivity, ExecutorReport};

use super::{counter, gauge};

/// States that are written also when no executor is in them, so that an alert has something to look at.
const STATES: [&str; 2] = ["ready", "suspect"];

/// Writes the metrics of a cluster.
pub(super) fn encode(
    encoder: &mut DescriptorEncoder<'_>,
    executors: &[ExecutorReport],
    activity: &ClusterActivity,
) -> Result<(), fmt::Error> {
    let mut states: BTreeMap<&str, u64> = STATES.into_iter().map(|state| (state, 0)).collect();
    for executor in executors {
        *states.entry(&executor.state).or_default() += 1;
    }
    let states = states.into_iter();
    let states: Vec<_> = states
        .map(|(state, count)| (vec![("state", state.to_string())], count))
        .collect();
    gauge(encoder, "executors", "Executors, by state", None, &states)?;
    let running = executors.iter().map(|executor| executor.tasks).sum::<u64>();
    gauge(
        encoder,
        "tasks_running",
        "Tasks that executors run",
        None,
        &[(Vec::new(), running)],
    )?;
    for (name, help, count) in [
        ("executors_joined", "Executors that joined", activity.joined),
        (
            "executors_lost",
            "Executors that went without having been told to",
            activity.lost,
        ),
        (
            "exchange_bytes",
            "Bytes of rows that processes of the cluster sent each other, as they are in memory",
            activity.received_bytes,
        ),
    ] {
        counter(encoder, name, help, &[(Vec::new(), count)])?;
    }
    let tasks = activity.tasks.iter();
    let tasks: Vec<_> = tasks
        .map(|(state, count)| (vec![("state", state.clone())], *count))
        .collect();
    counter(encoder, "tasks", "Tasks that ended, by state", &tasks)
}
