//! Whether a plan can travel: it is written, read back as an executor would, and compared.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::{AggregateUDF, ScalarUDF, WindowUDF};
use datafusion::physical_expr::window::{PlainAggregateWindowExpr, SlidingAggregateWindowExpr};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion_proto::bytes::{
    physical_plan_from_bytes_with_proto_converter, physical_plan_to_bytes_with_proto_converter,
};
use datafusion_proto::physical_plan::DeduplicatingProtoConverter;
use tidegate::spread::{inner_functions, leaf_lost, written};

use crate::codec::Codec;
use crate::executor::PLAN_BYTES_MAX;

/// Bytes of tables in memory that travel with a plan.
const MEMORY_BYTES_MAX: usize = 16 << 20;

/// The functions that every process has.
#[derive(Debug)]
pub(crate) struct Builtin {
    scalar: HashMap<String, Arc<ScalarUDF>>,
    aggregate: HashMap<String, Arc<AggregateUDF>>,
    /// Those of a session that [`inner_functions`] takes the place of.
    replaced: Vec<Arc<AggregateUDF>>,
    window: HashMap<String, Arc<WindowUDF>>,
}

impl Builtin {
    /// Returns the scalar functions.
    pub(crate) fn scalar(&self) -> Vec<Arc<ScalarUDF>> {
        self.scalar.values().cloned().collect()
    }

    /// Returns the aggregate functions.
    pub(crate) fn aggregate(&self) -> Vec<Arc<AggregateUDF>> {
        self.aggregate.values().cloned().collect()
    }

    /// Returns the window functions.
    pub(crate) fn window(&self) -> Vec<Arc<WindowUDF>> {
        self.window.values().cloned().collect()
    }

    /// Takes those of a session to which nothing was added.
    pub(crate) fn of(state: &SessionState) -> Self {
        let (mut scalar, mut aggregate) = (
            state.scalar_functions().clone(),
            state.aggregate_functions().clone(),
        );
        let (inner, behind) = inner_functions();
        for function in inner {
            scalar.insert(function.name().into(), function);
        }
        let replaced = behind.into_iter().filter_map(|function| {
            for alias in function.aliases() {
                aggregate.insert(alias.clone(), Arc::clone(&function));
            }
            let name = function.name().to_string();
            aggregate.insert(name, function)
        });
        let replaced = replaced.collect();
        Self {
            scalar,
            aggregate,
            replaced,
            window: state.window_functions().clone(),
        }
    }
}

/// Returns why a plan of a session cannot travel.
pub(crate) fn why_not(
    plan: &Arc<dyn ExecutionPlan>,
    builtin: &Builtin,
    state: &SessionState,
) -> Option<String> {
    if let Some(why) = own_function(plan, builtin) {
        return Some(why);
    }
    if let Some(lost) = lost(plan) {
        return Some(format!("a part of it would be lost on the way: {lost}"));
    }
    if memory_bytes(plan) > MEMORY_BYTES_MAX {
        return Some(format!(
            "its tables in memory have more than {MEMORY_BYTES_MAX} bytes; CREATE EXTERNAL TABLE … \
             STORED AS PARQUET makes one that every executor reads"
        ));
    }
    let ctx = TaskContext::new(
        None,
        state.session_id().to_string(),
        state.config().clone(),
        builtin.scalar.clone(),
        HashMap::new(),
        builtin.aggregate.clone(),
        builtin.window.clone(),
        Arc::clone(state.runtime_env()),
    );
    match there_and_back(plan, &ctx) {
        Err(error) => {
            let text = error.strip_backtrace();
            let line = text.lines().next().unwrap_or_default();
            Some(format!("a part of it cannot travel: {line}"))
        }
        Ok((bytes, _)) if bytes > PLAN_BYTES_MAX => Some(format!(
            "its plan has {bytes} bytes, of at most {PLAN_BYTES_MAX}"
        )),
        Ok((_, arrived)) => {
            let (sent, arrived) = (written(plan), written(&arrived));
            let mut lines = sent.lines().zip(arrived.lines());
            let differing = lines.find(|(sent, arrived)| sent != arrived);
            differing.map(|(sent, arrived)| {
                let (sent, arrived) = (sent.trim(), arrived.trim());
                format!("a part of it would be lost on the way: {sent} would arrive as {arrived}")
            })
        }
    }
}

/// Writes a plan, and reads it as an executor would.
fn there_and_back(
    plan: &Arc<dyn ExecutionPlan>,
    ctx: &TaskContext,
) -> Result<(usize, Arc<dyn ExecutionPlan>)> {
    let converter = DeduplicatingProtoConverter::default();
    let bytes = physical_plan_to_bytes_with_proto_converter(Arc::clone(plan), &Codec, &converter)?;
    let converter = DeduplicatingProtoConverter::default();
    let arrived = physical_plan_from_bytes_with_proto_converter(&bytes, ctx, &Codec, &converter)?;
    Ok((bytes.len(), arrived))
}

/// Returns what of a plan's leaves and windows is neither written nor shown.
fn lost(plan: &Arc<dyn ExecutionPlan>) -> Option<&'static str> {
    let inputs = plan.children().into_iter();
    leaf_lost(plan)
        .or_else(|| filters_window(plan).then_some("FILTER of a window function"))
        .or_else(|| inputs.into_iter().find_map(lost))
}

/// Returns whether a node has an aggregate with FILTER over a window, which DataFusion does not write.
fn filters_window(node: &Arc<dyn ExecutionPlan>) -> bool {
    let exprs = if let Some(window) = node.downcast_ref::<BoundedWindowAggExec>() {
        window.window_expr()
    } else if let Some(window) = node.downcast_ref::<WindowAggExec>() {
        window.window_expr()
    } else {
        return false;
    };
    exprs.iter().any(|expr| {
        let any = expr.as_any();
        let is_aggregate =
            any.is::<PlainAggregateWindowExpr>() || any.is::<SlidingAggregateWindowExpr>();
        // DataFusion has no public accessor for the filter.
        is_aggregate && !format!("{expr:?}").ends_with("filter: None }")
    })
}

fn memory_bytes(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let leaf = plan.downcast_ref::<DataSourceExec>();
    let memory = leaf.and_then(|leaf| leaf.data_source().downcast_ref::<MemorySourceConfig>());
    let own = memory.map_or(0, |memory| {
        let batches = memory.partitions().iter().flatten();
        batches.map(|batch| batch.get_array_memory_size()).sum()
    });
    let inputs = plan.children().into_iter();
    own + inputs.map(memory_bytes).sum::<usize>()
}

/// Names a function that executors do not have, or that carries something of this session or its result:
/// what travels is its name.
fn own_function(plan: &Arc<dyn ExecutionPlan>, builtin: &Builtin) -> Option<String> {
    let mut own = None;
    let looked = plan.apply(|node| {
        if let Some(aggregate) = node.downcast_ref::<AggregateExec>() {
            let unknown = aggregate.aggr_expr().iter().find(|call| {
                let known = builtin.aggregate.get(call.fun().name());
                let mut known = known.into_iter().chain(&builtin.replaced);
                !known.any(|known| known.as_ref() == call.fun())
            });
            if let Some(call) = unknown {
                own = Some(call.fun().name().to_string());
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        node.apply_expressions(&mut |expr| expr.apply(|expr| look(expr, builtin, &mut own)))
    });
    match (looked, own) {
        (Err(error), _) => Some(format!("its expressions cannot be seen: {error}")),
        (Ok(_), own) => own.map(|name| {
            format!("executors do not have its function {name}, or not what it carries")
        }),
    }
}

fn look(
    expr: &Arc<dyn PhysicalExpr>,
    builtin: &Builtin,
    own: &mut Option<String>,
) -> Result<TreeNodeRecursion> {
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        let known = builtin.scalar.get(call.fun().name());
        // What is said of a result beside its type does not travel, and other functions may look at it.
        let says_more = !call.return_field(&Schema::empty())?.metadata().is_empty();
        if says_more || known.is_none_or(|known| known.as_ref() != call.fun()) {
            *own = Some(call.fun().name().to_string());
            return Ok(TreeNodeRecursion::Stop);
        }
    }
    Ok(TreeNodeRecursion::Continue)
}
