//! `SET` and `RESET`: what a setting changes beside its value.

use std::sync::Arc;

use datafusion::dataframe::DataFrame;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::logical_expr::{LogicalPlan, SetVariable, Statement as PlanStatement};
use tidegate_scheduler::AdmissionLimits;

use super::bounds::check_options;
use super::{Session, spilling};
use crate::clients::Client;
use crate::error::Error;
use crate::functions::settings::OTHER_NAMES;
use crate::functions::zones::{ZONE_SETTING, exact_zone};
use crate::memory::{StatementPool, default_cache_limit, default_pinned_limit};
use crate::options::{DeviceLimits, DeviceList, ReplayedPlacement, TidegateOptions};
use crate::query::History;

/// Calls the setting of a SET or RESET by its name here. This comes before rights are checked: a setting may be locked.
pub(super) fn use_own_name(plan: &mut LogicalPlan) {
    let name = match plan {
        LogicalPlan::Statement(PlanStatement::SetVariable(set)) => &mut set.variable,
        LogicalPlan::Statement(PlanStatement::ResetVariable(reset)) => &mut reset.variable,
        _ => return,
    };
    if let Some((_, own)) = OTHER_NAMES.iter().find(|(other, _)| other == name) {
        *name = (*own).into();
    }
}

/// Sets a setting.
pub(super) async fn set(session: &Session, name: &str, value: &str) -> Result<(), Error> {
    let set = SetVariable {
        variable: name.into(),
        value: value.into(),
    };
    set_variable(session, set).await?;
    Ok(())
}

/// Sets a setting, by Tidegate's name where DataFusion's own would replace what Tidegate has.
pub(super) async fn set_or_translate(
    session: &Session,
    set: SetVariable,
) -> Result<DataFrame, Error> {
    let set = spilling::of_tidegate(set)?;
    match spilling::set(session, &set)? {
        Some(done) => Ok(done),
        None => set_variable(session, set).await,
    }
}

pub(super) async fn set_variable(session: &Session, set: SetVariable) -> Result<DataFrame, Error> {
    check_setting(session, &set)?;
    let limits_memory = set.variable == "tidegate.memory_limit";
    let limits_devices = set.variable == "tidegate.device_memory_limit";
    let cache_limits = ["tidegate.host_cache_limit", "tidegate.pinned_cache_limit"];
    let limits_cache = cache_limits.contains(&set.variable.as_str());
    let limits_queries = [
        "tidegate.max_running_queries",
        "tidegate.max_waiting_queries",
        "tidegate.queue_timeout",
    ]
    .contains(&set.variable.as_str());
    let plan = LogicalPlan::Statement(PlanStatement::SetVariable(set));
    let done = session.ctx.execute_logical_plan(plan).await?;
    if limits_memory {
        limit_memory(session)?;
    }
    if limits_memory || limits_cache {
        limit_cache(session);
    }
    if limits_queries || limits_memory {
        limit_queries(session);
    }
    if limits_devices {
        let options = TidegateOptions::of(session.ctx.state().config_options());
        let limits = options.device_memory_limit.as_ref();
        session.runtime.limit_devices(limits);
    }
    Ok(done)
}

/// Refuses what names something that there is not; a value of another kind is refused later.
pub(super) fn check_setting(session: &Session, set: &SetVariable) -> Result<(), Error> {
    let (name, runtime) = (set.variable.as_str(), &session.runtime);
    let value = set.value.trim();
    match name {
        "tidegate.devices" => match value.parse::<DeviceList>() {
            Ok(list) => runtime.check_named(name, list.devices()),
            Err(()) => Ok(()),
        },
        "tidegate.device_memory_limit" => match value.parse::<DeviceLimits>() {
            Ok(limits) => runtime.check_named(name, limits.named()),
            Err(()) => Ok(()),
        },
        ZONE_SETTING => exact_zone(value).map(drop),
        "tidegate.replay_placement" => match value.parse() {
            Ok(ReplayedPlacement::Query(id)) => {
                let client = Client::of(session.ctx.state().config());
                History::of(runtime)
                    .recorded(id, client.as_deref())
                    .map(drop)
            }
            _ => Ok(()),
        },
        _ => Ok(check_options([(&set.variable, &set.value)])?),
    }
}

/// Bounds what cached columns take; what is over the bound goes at once.
fn limit_cache(session: &Session) {
    let options = TidegateOptions::of(session.ctx.state().config_options());
    let memory = options.memory_limit.unwrap_or(session.memory.bytes);
    let (host, pinned) = (options.host_cache_limit, options.pinned_cache_limit);
    let runtime = &session.runtime;
    runtime.limit_host_cache(host.unwrap_or_else(|| default_cache_limit(memory)));
    runtime.limit_pinned_cache(pinned.unwrap_or_else(|| default_pinned_limit(memory)));
}

/// Bounds what runs and waits in all sessions, also for those that wait now.
fn limit_queries(session: &Session) {
    let options = TidegateOptions::of(session.ctx.state().config_options());
    let gate = session.runtime.admission();
    let now = gate.limits();
    gate.set_limits(AdmissionLimits {
        running_max: options.max_running_queries.unwrap_or(now.running_max),
        waiting_max: options.max_waiting_queries.unwrap_or(now.waiting_max),
        wait_max: options.queue_timeout.unwrap_or(now.wait_max),
        expected_bytes_max: options.memory_limit.unwrap_or(session.memory.bytes),
    });
}

/// Gives the statements from now on a pool of the size set; those that run keep theirs.
fn limit_memory(session: &Session) -> Result<(), Error> {
    let state_ref = session.ctx.state_ref();
    let mut state = state_ref.write();
    let limit = TidegateOptions::of(state.config_options()).memory_limit;
    let bytes = limit.unwrap_or(session.memory.bytes);
    let pool: Arc<dyn MemoryPool> = StatementPool::new(bytes, session.runtime.cache());
    session.function_memory.set(Arc::clone(&pool));
    let environment = RuntimeEnvBuilder::from_runtime_env(state.runtime_env())
        .with_memory_pool(pool)
        .build_arc()?;
    *state = SessionStateBuilder::from(state.clone())
        .with_runtime_env(environment)
        .build();
    Ok(())
}
