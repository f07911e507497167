//! `EXPLAIN ANALYZE` as lines, as a tree, as JSON or as a graph: each operator with its rows, its time and where
//! it ran, below one line that says where most of the rows did.
//!
//! DataFusion's own `AnalyzeExec` has two formats, and knows no places. A [`Profile`] stands in for it, but
//! where everything is asked for, with VERBOSE or with statistics.
//!
//! A [`QueryProfile`] is the same of any query that ran while somebody watched, and who worked when (`trace`).

mod operators;
mod render;
mod trace;

use std::fmt;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use datafusion::arrow::array::StringArray;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::format::{
    ExplainAnalyzeCategories, ExplainFormat, MetricCategory, MetricType,
};
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Analyze, LogicalPlan};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_plan::analyze::AnalyzeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::{TryStreamExt, stream};
use serde::Serialize;
use tokio::task::JoinSet;

use crate::unary::{UnaryExec, UnaryOperator};

pub use operators::OperatorReport;
pub use trace::{LaneWork, WorkPiece};
pub(crate) use trace::{Trace, Watched};

/// How a query runs or ran: where, in which operators, and when.
#[derive(Clone, Debug, Serialize)]
pub struct QueryProfile {
    /// Where most of its rows were read, in one line.
    pub verdict: String,
    /// Its operators from the root down; `None` if nobody watched, or it has not begun.
    pub plan: Option<OperatorReport>,
    /// When it began; `None` if nobody watched, or it has not begun.
    #[serde(skip)]
    pub began: Option<SystemTime>,
    /// When each was busy; empty if nobody watched.
    pub work: Vec<WorkPiece>,
}

/// Runs a plan, and tells how it ran instead of its rows.
#[derive(Clone, Debug)]
struct Profile {
    input: Arc<dyn ExecutionPlan>,
    format: ExplainFormat,
    wanted: Wanted,
    properties: Arc<PlanProperties>,
}

/// Which measures of an operator are shown.
#[derive(Clone, Debug)]
struct Wanted {
    types: Vec<MetricType>,
    /// All, if there is none.
    categories: Option<Vec<MetricCategory>>,
}

impl Wanted {
    /// Reads what a statement or the settings ask for.
    fn of(analyze: &Analyze, config: &ConfigOptions) -> Self {
        let level = analyze
            .analyze_level
            .unwrap_or(config.explain.analyze_level);
        let categories = analyze.analyze_categories.as_ref();
        Self {
            types: level.included_types(),
            categories: match categories.unwrap_or(&config.explain.analyze_categories) {
                ExplainAnalyzeCategories::All => None,
                ExplainAnalyzeCategories::Only(categories) => Some(categories.clone()),
            },
        }
    }
}

/// Puts a [`Profile`] in the place of an `AnalyzeExec`.
pub(crate) fn profiled(
    plan: Arc<dyn ExecutionPlan>,
    logical: &LogicalPlan,
    config: &ConfigOptions,
) -> Result<Arc<dyn ExecutionPlan>> {
    let LogicalPlan::Analyze(analyze) = logical else {
        return Ok(plan);
    };
    let format = &analyze.format;
    let wants_all = analyze.verbose || config.explain.show_statistics;
    if matches!(format, ExplainFormat::Indent) && wants_all {
        return Ok(plan);
    }
    let wanted = Wanted::of(analyze, config);
    let replaced = plan.transform_down(|node| {
        if !node.is::<AnalyzeExec>() {
            return Ok(Transformed::no(node));
        }
        let [input] = node.children()[..] else {
            return internal_err!("AnalyzeExec has one input");
        };
        let profile = Profile::new(Arc::clone(input), format.clone(), wanted.clone(), &node);
        let profile = Arc::new(UnaryExec(profile)) as Arc<dyn ExecutionPlan>;
        Ok(Transformed::new(profile, true, TreeNodeRecursion::Stop))
    });
    replaced.data()
}

impl Profile {
    fn new(
        input: Arc<dyn ExecutionPlan>,
        format: ExplainFormat,
        wanted: Wanted,
        instead_of: &Arc<dyn ExecutionPlan>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(instead_of.schema()),
            Partitioning::UnknownPartitioning(1),
            instead_of.pipeline_behavior(),
            instead_of.boundedness(),
        );
        Self {
            input,
            format,
            wanted,
            properties: Arc::new(properties),
        }
    }
}

impl UnaryOperator for Profile {
    const NAME: &'static str = "ProfileExec";
    const KEEPS_ORDER: bool = false;

    fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        Self {
            input,
            ..self.clone()
        }
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn detail(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ": format={}", self.format)
    }

    fn rows(&self, _: usize, ctx: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (input, format) = (Arc::clone(&self.input), self.format.clone());
        let wanted = self.wanted.clone();
        let schema = Arc::clone(self.properties.eq_properties.schema());
        let told = Arc::clone(&schema);
        let batch = async move {
            let began = Instant::now();
            let rows = run(&input, &ctx).await?;
            let seconds = began.elapsed().as_secs_f64();
            let text = render::written(&input, &format, &wanted, rows, seconds)?;
            let [kind, text] = ["Plan with Metrics".to_string(), text]
                .map(|text| Arc::new(StringArray::from(vec![text])) as _);
            Ok::<_, DataFusionError>(RecordBatch::try_new(told, vec![kind, text])?)
        };
        let rows = stream::once(batch);
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// Runs all partitions of a plan side by side, and counts their rows.
async fn run(input: &Arc<dyn ExecutionPlan>, ctx: &Arc<TaskContext>) -> Result<u64> {
    let mut partitions = JoinSet::new();
    for partition in 0..input.output_partitioning().partition_count() {
        let mut rows = input.execute(partition, Arc::clone(ctx))?;
        partitions.spawn(async move {
            let mut count = 0;
            while let Some(batch) = rows.try_next().await? {
                count += batch.num_rows() as u64;
            }
            Result::<u64>::Ok(count)
        });
    }
    let mut sum = 0;
    while let Some(done) = partitions.join_next().await {
        sum += done.map_err(|error| DataFusionError::External(Box::new(error)))??;
    }
    Ok(sum)
}
