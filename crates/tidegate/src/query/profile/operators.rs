//! The operators of a plan that runs or has run: what each is, did and cost.

use std::sync::Arc;

use datafusion::physical_plan::{ExecutionPlan, displayable};
use serde::Serialize;
use tidegate_scheduler::PlaceReport;

use crate::region::PipelineExec;
use crate::region::report::RegionReport;

/// One operator.
#[derive(Clone, Debug, Serialize)]
pub struct OperatorReport {
    /// Counts the operators of a plan from 0, each before its inputs.
    #[serde(skip)]
    pub number: usize,
    /// Its name.
    pub operator: String,
    /// What it computes.
    pub details: String,
    /// Rows that it returned; `None` if it does not count them.
    pub rows: Option<u64>,
    /// Seconds of its own work, summed up over threads.
    pub seconds: Option<f64>,
    /// What ran where, of a region.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<PlaceReport>,
    /// Where its rows come from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<OperatorReport>,
}

impl OperatorReport {
    /// Describes a plan's operators.
    pub(in crate::query) fn of(plan: &Arc<dyn ExecutionPlan>) -> Self {
        Self::numbered(plan, &mut 0)
    }

    /// Describes a region that ran without a plan.
    pub(in crate::query) fn of_region(region: &RegionReport) -> Self {
        Self {
            number: 0,
            operator: "PipelineExec".into(),
            details: region.summary(),
            rows: None,
            seconds: None,
            places: region.places.clone(),
            inputs: Vec::new(),
        }
    }

    fn numbered(plan: &Arc<dyn ExecutionPlan>, next: &mut usize) -> Self {
        let number = *next;
        *next += 1;
        let line = displayable(plan.as_ref()).one_line().to_string();
        let line = line.trim_end();
        let (operator, details) = line.split_once(": ").unwrap_or((line, ""));
        let region = plan.downcast_ref::<PipelineExec>();
        let places = region.map(|region| region.report().places);
        let metrics = plan.metrics();
        let rows = metrics.as_ref().and_then(|metrics| metrics.output_rows());
        let nanos = metrics.and_then(|metrics| metrics.elapsed_compute());
        let inputs = plan.children().into_iter();
        Self {
            number,
            operator: operator.to_string(),
            details: details.to_string(),
            rows: rows.map(|rows| rows as u64),
            seconds: nanos.map(|nanos| nanos as f64 / 1e9),
            places: places.unwrap_or_default(),
            inputs: inputs.map(|input| Self::numbered(input, next)).collect(),
        }
    }
}
