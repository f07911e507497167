//! The texts of a session that were planned before.
//!
//! Only what a device answers from its column cache is worth remembering, and only while nothing has
//! changed that the text's meaning hangs on.

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::catalog::Session as CatalogSession;
use datafusion::dataframe::DataFrame;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::PhysicalPlanner;
use parking_lot::Mutex;

use super::Session;
use super::dependencies::Dependencies;
use crate::mapping::planner;
use crate::query::{KnownPlan, Snapshot};

/// Texts remembered; what was used longest ago goes first.
const TEXTS_MAX: usize = 128;

/// Longer texts take their time anyway.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// The known statements of a session.
#[derive(Debug, Default)]
pub(super) struct KnownStatements {
    /// What was used last stands in front.
    texts: Mutex<VecDeque<(Arc<str>, Sight)>>,
}

/// How well a text is known.
#[derive(Clone, Debug)]
enum Sight {
    /// It came once.
    Seen,
    /// It cannot be run again, with the tables that were on devices at this version of the cache.
    Unfit(u64),
    /// It was planned.
    Planned(Arc<Known>),
}

/// A plan with what it hangs on.
#[derive(Debug)]
struct Known {
    plan: Arc<KnownPlan>,
    dependencies: Dependencies,
}

impl KnownStatements {
    /// Forgets everything: tables may have changed, and what is remembered holds their rows.
    pub(super) fn clear(&self) {
        self.texts.lock().clear();
    }

    fn sight(&self, sql: &str) -> Option<Sight> {
        let mut texts = self.texts.lock();
        let position = texts.iter().position(|(text, _)| text.as_ref() == sql)?;
        let found = texts.remove(position)?;
        let sight = found.1.clone();
        texts.push_front(found);
        Some(sight)
    }

    fn note(&self, sql: &str, sight: Sight) {
        if sql.len() > TEXT_BYTES_MAX {
            return;
        }
        let mut texts = self.texts.lock();
        texts.retain(|(text, _)| text.as_ref() != sql);
        texts.truncate(TEXTS_MAX - 1);
        texts.push_front((sql.into(), sight));
    }

    fn forget(&self, sql: &str) {
        self.texts.lock().retain(|(text, _)| text.as_ref() != sql);
    }
}

/// Returns the plan of a text that is known and means what it meant.
pub(super) async fn find(session: &Session, sql: &str) -> Option<Arc<KnownPlan>> {
    if session.runtime.cache().is_empty() {
        return None;
    }
    let Some(Sight::Planned(known)) = session.known.sight(sql) else {
        return None;
    };
    let state = state_for(session, known.plan.snapshot());
    let state = state.as_ref().map(|state| state as &dyn CatalogSession);
    if known.dependencies.hold(&session.ctx).await && known.plan.is_current(state).await {
        return Some(Arc::clone(&known.plan));
    }
    session.known.forget(sql);
    None
}

/// Returns the state that it takes to tell which rows a table has; it is large, so only if it does.
pub(super) fn state_for(session: &Session, snapshot: &Snapshot) -> Option<SessionState> {
    snapshot.is_of_files().then(|| session.ctx.state())
}

/// Remembers a plan if it is of the kind that can be run again.
pub(super) async fn remember(
    session: &Session,
    state: &SessionState,
    sql: &str,
    logical: &LogicalPlan,
    optimized: LogicalPlan,
    plan: &Arc<dyn ExecutionPlan>,
) {
    if session.runtime.cache().is_empty() {
        return;
    }
    let known = async {
        let snapshot = Snapshot::of(logical)?;
        let dialect = state.config_options().sql_parser.dialect;
        let statement = state.sql_to_statement(sql, &dialect).ok()?;
        let names = state.resolve_table_references(&statement).ok()?;
        let dependencies =
            Dependencies::of(&session.ctx, state, &names, logical, &snapshot).await?;
        let plan = Arc::new(KnownPlan::of(plan, optimized, snapshot)?);
        Some(Known { plan, dependencies })
    };
    if let Some(known) = known.await {
        session.known.note(sql, Sight::Planned(Arc::new(known)));
    }
}

/// Plans a frame's text for good if it comes the second time and is of that kind.
pub(super) async fn plan_again(session: &Session, sql: &str, frame: &DataFrame) {
    let cache = session.runtime.cache();
    if cache.is_empty() {
        return;
    }
    let version = cache.version();
    match session.known.sight(sql) {
        None => return session.known.note(sql, Sight::Seen),
        Some(Sight::Unfit(before)) if before == version => return,
        Some(_) => session.known.note(sql, Sight::Unfit(version)),
    }
    if !is_select(frame.logical_plan()) || Snapshot::of(frame.logical_plan()).is_none() {
        return;
    }
    let (state, logical) = frame.clone().into_parts();
    let Ok(optimized) = state.optimize(&logical) else {
        return;
    };
    let planner = planner();
    if let Ok(plan) = planner.create_physical_plan(&optimized, &state).await {
        remember(session, &state, sql, &logical, optimized, &plan).await;
    }
}

/// Returns whether a plan does nothing but read; to plan anything else may do something already.
fn is_select(plan: &LogicalPlan) -> bool {
    !matches!(
        plan,
        LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Copy(_)
    )
}
