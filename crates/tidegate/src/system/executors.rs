//! `system.executors` and `system.tasks`: what a scheduler knows of its cluster.

use datafusion::arrow::array::ArrayRef;
use datafusion::prelude::SessionConfig;

use super::{counts, seconds, texts};
use crate::spread;

pub(super) fn executors(config: &SessionConfig) -> Vec<ArrayRef> {
    let (executors, _) = spread::reports(config);
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
    ]
}

pub(super) fn tasks(config: &SessionConfig) -> Vec<ArrayRef> {
    let (_, tasks) = spread::reports(config);
    let all = || tasks.iter();
    vec![
        counts(all().map(|task| task.statement)),
        counts(all().map(|task| task.attempt)),
        counts(all().map(|task| task.stage)),
        counts(all().map(|task| task.task)),
        texts(all().map(|task| Some(&task.executor))),
        texts(all().map(|task| Some(&task.state))),
    ]
}
