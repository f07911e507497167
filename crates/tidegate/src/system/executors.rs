//! `system.executors` and `system.tasks`: what a scheduler knows of its cluster.

use std::collections::HashMap;
use std::time::SystemTime;

use datafusion::arrow::array::{Float64Array, RecordBatch};
use datafusion::error::Result;

use super::{Asked, Columns};

pub(super) fn executors(asked: Option<&Asked<'_>>) -> Result<RecordBatch> {
    let planner = asked.and_then(Asked::planner);
    let executors = planner.map_or_else(Vec::new, |planner| planner.executors());
    Columns::of(&executors)
        .text("executor", |executor| Some(&executor.name))
        .text("url", |executor| Some(&executor.url))
        .text("version", |executor| Some(&executor.version))
        .text("state", |executor| Some(&executor.state))
        .text("reason", |executor| executor.reason.as_ref())
        .count("cores", |executor| executor.cores)
        .count("memory_limit", |executor| executor.memory_limit)
        .count("memory_used", |executor| executor.memory_used)
        .text("devices", |executor| Some(executor.devices.join(", ")))
        .count("tasks", |executor| executor.tasks)
        .seconds("silent_seconds", |executor| executor.silent_seconds)
        .count("received_bytes", |executor| executor.received_bytes)
        .with::<f64, Float64Array>("speed", |executor| executor.speed)
        .batch()
}

/// Lists the tasks; those of queries that are among the reports with their numbers.
pub(super) fn tasks(asked: Option<&Asked<'_>>) -> Result<RecordBatch> {
    let planner = asked.and_then(Asked::planner);
    let tasks = planner.map_or_else(Vec::new, |planner| planner.tasks());
    let reports = asked.map_or_else(Vec::new, Asked::reports);
    let queries = reports
        .iter()
        .filter_map(|report| Some((report.statement?, report.id)));
    let queries: HashMap<u64, u64> = queries.collect();
    let now = SystemTime::now();
    Columns::of(&tasks)
        .count("statement", |task| task.statement)
        .count("attempt", |task| task.attempt)
        .count("stage", |task| task.stage)
        .count("task", |task| task.task)
        .text("executor", |task| Some(&task.executor))
        .text("state", |task| Some(&task.state))
        .count("query_id", |task| queries.get(&task.statement).copied())
        .time("started", |task| task.started)
        .seconds("seconds", |task| {
            let took = task.ended.unwrap_or(now).duration_since(task.started);
            took.map_or(0.0, |took| took.as_secs_f64())
        })
        .batch()
}
