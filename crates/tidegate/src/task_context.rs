//! A task's context with other settings or another environment, which DataFusion makes of whole parts alone.

use datafusion::execution::TaskContext;

/// Copies a context, so that `with_session_config` and `with_runtime` can change it.
pub fn copied_context(ctx: &TaskContext) -> TaskContext {
    TaskContext::new(
        ctx.task_id(),
        ctx.session_id(),
        ctx.session_config().clone(),
        ctx.scalar_functions().clone(),
        ctx.higher_order_functions().clone(),
        ctx.aggregate_functions().clone(),
        ctx.window_functions().clone(),
        ctx.runtime_env(),
    )
}
