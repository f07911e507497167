//! `system.executors` and `system.tasks`: what a scheduler knows of its cluster.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, UInt64Array};

use super::{counts, seconds, texts};
use crate::query::QueryReport;
use crate::spread::SpreadPlanner;

pub(super) fn executors(planner: Option<&dyn SpreadPlanner>) -> Vec<ArrayRef> {
    let executors = planner.map_or_else(Vec::new, SpreadPlanner::executors);
    let all = || executors.iter();
    vec![
        texts(all().map(|executor| Some(&executor.name))),
        texts(all().map(|executor| Some(&executor.url))),
        texts(all().map(|executor| Some(&executor.version))),
        texts(all().map(|executor| Some(&executor.state))),
        texts(all().map(|executor| executor.reason.as_ref())),
        counts(all().map(|executor| executor.cores)),
        counts(all().map(|executor| executor.memory_limit)),
        counts(all().map(|executor| executor.memory_used)),
        texts(all().map(|executor| Some(executor.devices.join(", ")))),
        counts(all().map(|executor| executor.tasks)),
        seconds(all().map(|executor| executor.silent_seconds)),
        Arc::new(
            all()
                .map(|executor| executor.speed)
                .collect::<Float64Array>(),
        ),
    ]
}

/// Lists the tasks; those of queries that are among the reports with their numbers.
pub(super) fn tasks(planner: Option<&dyn SpreadPlanner>, reports: &[QueryReport]) -> Vec<ArrayRef> {
    let tasks = planner.map_or_else(Vec::new, SpreadPlanner::tasks);
    let queries = reports
        .iter()
        .filter_map(|report| Some((report.statement?, report.id)));
    let queries: HashMap<u64, u64> = queries.collect();
    let queries = tasks
        .iter()
        .map(|task| queries.get(&task.statement).copied());
    let queries = Arc::new(queries.collect::<UInt64Array>());
    let all = || tasks.iter();
    vec![
        counts(all().map(|task| task.statement)),
        counts(all().map(|task| task.attempt)),
        counts(all().map(|task| task.stage)),
        counts(all().map(|task| task.task)),
        texts(all().map(|task| Some(&task.executor))),
        texts(all().map(|task| Some(&task.state))),
        queries,
    ]
}
