//! What a session's client may do and read.

use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;

use super::files;
use crate::clients::Client;
use crate::error::Error;
use crate::rewrite::bounded_values;
use crate::rewrite::distinct_pairs::refuse_distinct_pairs;
use crate::rewrite::recursion::refuse_recursive_scalars;
use crate::stores::access::AllowedPaths;

/// Refuses what the session's client may not do, or may not read.
pub(super) fn check_rights(state: &SessionState, plan: &LogicalPlan) -> Result<(), Error> {
    if let Some(client) = Client::of(state.config()) {
        client.check(plan)?;
    }
    if let Some(allowed) = AllowedPaths::of(state.config()) {
        allowed.check_plan(plan)?;
    }
    files::check_target(plan)?;
    bounded_values::check_columns(plan)?;
    refuse_distinct_pairs(plan)?;
    refuse_recursive_scalars(plan)?;
    Ok(())
}
