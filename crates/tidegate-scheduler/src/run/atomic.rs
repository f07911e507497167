//! A region that one device answers alone.

use std::sync::Arc;

use arrow_array::RecordBatch;
use tokio::task::JoinSet;

use super::{RunFailure, RunSpec, Workers};
use crate::cache::ScanKey;
use crate::counters::Setbacks;
use crate::feeder::Choice;
use crate::place::{Place, Reason};
use crate::rates::ShapeKey;
use crate::resident::{ResidentFailure, ResidentScan};

/// An atomic region: one device answers all of it or nothing.
#[derive(Debug)]
pub struct AtomicRun;

impl AtomicRun {
    /// Runs the whole scan on the first device and returns its rows, in the order the program gives
    /// them. [`RunFailure::Fallback`] means that the host must answer instead; nothing has left.
    pub async fn run(spec: &RunSpec) -> Result<Vec<RecordBatch>, RunFailure> {
        let Some(device) = spec.devices.first() else {
            return Err(RunFailure::Fallback(Reason::NoDevice("no device".into())));
        };
        let reads_all_of = |scan: &ScanKey| spec.loader.reads_all_of(scan);
        let found =
            ResidentScan::find(&spec.cache, device.info().id, &spec.pipeline, &reads_all_of);
        let resident = match found {
            Some(scan) => {
                let is_as_planned = spec.loader.is_as_planned().await;
                is_as_planned.map_err(RunFailure::Load)?.then_some(scan)
            }
            None => None,
        };
        if let Some(scan) = resident {
            let (pipeline, reason) = (Arc::clone(&spec.pipeline), spec.reason());
            let (dispatch, host_partitions) = (&spec.dispatch, spec.host_partitions);
            let is_free = spec.choice == Choice::Always(Reason::Resident);
            let shaped = || (&pipeline, ShapeKey::of(&pipeline));
            if is_free && scan.is_left_to_host(dispatch, shaped(), device, host_partitions) {
                return Err(RunFailure::Fallback(Reason::Compiling));
            }
            let again = |retries| {
                let place = Place::Device(device.info().id);
                let setbacks = Setbacks {
                    retries,
                    ..Setbacks::default()
                };
                spec.counters.setback(place, setbacks);
            };
            match scan
                .answer(device, pipeline, dispatch, &spec.counters, reason)
                .await
            {
                Ok(rows) => return Ok(rows),
                Err(ResidentFailure::Eval(error)) => return Err(RunFailure::Eval(error)),
                Err(ResidentFailure::Device(reason)) => {
                    again(scan.run.num_morsels);
                    return Err(RunFailure::Fallback(reason));
                }
                // As it is stored it does not do; loaded it would.
                Err(ResidentFailure::NotAsStored) => again(scan.run.num_morsels),
            }
        } else if spec.choice == Choice::Always(Reason::Resident) {
            // It was placed here for being resident, and is not any more.
            return Err(RunFailure::Fallback(Reason::EarliestFinish));
        }
        spec.queue.open_all();
        let mut feeders = JoinSet::new();
        feeders.spawn(
            spec.feeder(
                device,
                spec.choice.clone(),
                true,
                Arc::default(),
                &Workers::of(spec),
            )
            .feed(),
        );
        let mut rows = Vec::new();
        while let Some(fed) = feeders.join_next().await {
            rows.extend(fed??);
        }
        Ok(rows)
    }
}
