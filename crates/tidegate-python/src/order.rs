//! Rows of data in memory keep their order where nothing but selecting and filtering is done to them: whoever
//! comes with a frame of pandas or Polars counts on it.
//!
//! Such a plan reads its one table in one partition; what it does is little beside what its rows cost in Python.

use datafusion::catalog::MemTable;
use datafusion::dataframe::DataFrame;
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::LogicalPlan;

/// Has a frame planned so that rows of data in memory keep their order.
pub(crate) fn kept(frame: DataFrame) -> DataFrame {
    if !is_kept(frame.logical_plan()) {
        return frame;
    }
    let (mut state, plan) = frame.into_parts();
    let optimizer = &mut state.config_mut().options_mut().optimizer;
    optimizer.repartition_file_scans = false;
    optimizer.enable_round_robin_repartition = false;
    DataFrame::new(state, plan)
}

/// Tells whether a plan selects and filters rows of one table in memory, and does nothing else.
fn is_kept(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(_)
        | LogicalPlan::Filter(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Limit(_) => plan.inputs().into_iter().all(is_kept),
        LogicalPlan::TableScan(scan) => source_as_provider(&scan.source).is_ok_and(|table| {
            let view = table.get_logical_plan();
            table.is::<MemTable>() || view.is_some_and(|view| is_kept(&view))
        }),
        _ => false,
    }
}
