//! The plan cache of a session: texts that were planned before, and prepared statements by name.
//!
//! A text's physical plan is kept if a device answers it from its column cache; it is run again while
//! the settings, tables and functions that it depends on, and the rows of its table, are the same. A
//! prepared statement is an entry with parameters ([`super::prepared`]).

use std::collections::{HashMap, VecDeque};
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
use super::prepared::Statement;
use super::statement::{self, Source};
use crate::accounted::returned::returns_rows;
use crate::error::Error;
use crate::mapping::planner;
use crate::query::{CachedPlan, CachedStatement, Snapshot};

/// Texts remembered; what was used longest ago goes first.
const TEXTS_MAX: usize = 128;

/// Longer texts take their time anyway.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// The plans that a session keeps.
#[derive(Debug, Default)]
pub(super) struct PlanCache {
    /// What was used last stands in front.
    texts: Mutex<VecDeque<(Arc<str>, Entry)>>,
    /// What `PREPARE` made, by name.
    pub(super) prepared: Mutex<HashMap<String, Arc<Statement>>>,
}

/// What is known of a text.
#[derive(Clone, Debug)]
enum Entry {
    /// It came once.
    Seen,
    /// Its plan cannot be run again, with the tables that were on devices at this version of the
    /// column cache.
    Uncacheable(u64),
    /// It was planned.
    Planned(Arc<CachedText>),
}

/// The plan of a text.
#[derive(Debug)]
pub(super) struct CachedText {
    pub(super) plan: Arc<CachedPlan>,
    source: Source,
    dependencies: Dependencies,
}

impl PlanCache {
    /// Forgets the texts: tables may have changed, and what is remembered holds their rows.
    pub(super) fn clear(&self) {
        self.texts.lock().clear();
    }

    fn get(&self, sql: &str) -> Option<Entry> {
        let mut texts = self.texts.lock();
        let position = texts.iter().position(|(text, _)| text.as_ref() == sql)?;
        let found = texts.remove(position)?;
        let entry = found.1.clone();
        texts.push_front(found);
        Some(entry)
    }

    fn put(&self, sql: &Arc<str>, entry: Entry) {
        if sql.len() > TEXT_BYTES_MAX {
            return;
        }
        let mut texts = self.texts.lock();
        texts.retain(|(text, _)| text != sql);
        texts.truncate(TEXTS_MAX - 1);
        texts.push_front((Arc::clone(sql), entry));
    }

    fn forget(&self, sql: &str) {
        self.texts.lock().retain(|(text, _)| text.as_ref() != sql);
    }
}

impl CachedText {
    /// Returns the session's state for a run of the plan.
    pub(super) fn state(&self, session: &Session) -> Result<SessionState, Error> {
        statement::state_of(session, Arc::clone(&self.source.context))
    }

    async fn is_current(&self, session: &Session) -> bool {
        let state = state_for(session, self.plan.snapshot());
        let state = state.as_ref().map(|state| state as &dyn CatalogSession);
        self.dependencies.hold(&session.ctx).await && self.plan.is_current(state).await
    }
}

/// Returns the plan of a text that means what it meant when it was planned.
pub(super) async fn find(session: &Session, sql: &str) -> Option<Arc<CachedText>> {
    if session.runtime.cache().is_empty() {
        return None;
    }
    let Some(Entry::Planned(text)) = session.plans.get(sql) else {
        return None;
    };
    if text.is_current(session).await {
        return Some(text);
    }
    session.plans.forget(sql);
    None
}

/// Returns the state that it takes to tell which rows a table has; it is large, so only if it does.
pub(super) fn state_for(session: &Session, snapshot: &Snapshot) -> Option<SessionState> {
    snapshot.is_of_files().then(|| session.ctx.state())
}

/// Keeps the plan of a text if it is of the kind that can be run again.
pub(super) async fn keep(
    session: &Session,
    source: &Source,
    logical: &LogicalPlan,
    optimized: LogicalPlan,
    plan: &Arc<dyn ExecutionPlan>,
) -> Option<Arc<CachedText>> {
    // Settings of its own are not those of the session, by which it would be found.
    if session.runtime.cache().is_empty() || !source.context.hints.is_empty() {
        return None;
    }
    let snapshot = Snapshot::of(logical)?;
    let dependencies = Dependencies::of(&session.ctx, source, Some(logical)).await;
    if !dependencies.are_all_of(&snapshot) {
        return None;
    }
    let text = Arc::new(CachedText {
        plan: Arc::new(CachedPlan::of(plan, optimized, snapshot)?),
        source: source.clone(),
        dependencies,
    });
    let entry = Entry::Planned(Arc::clone(&text));
    session.plans.put(&source.sql, entry);
    Some(text)
}

/// Returns a frame of a query that is planned only when it runs. A text that comes the second time is
/// planned now, and kept, if it is of that kind.
pub(super) async fn frame(session: &Session, source: &Source, frame: DataFrame) -> DataFrame {
    let cache = session.runtime.cache();
    if cache.is_empty() {
        return frame;
    }
    let version = cache.version();
    let entry = match session.plans.get(&source.sql) {
        None => Entry::Seen,
        Some(Entry::Uncacheable(before)) if before == version => return frame,
        Some(_) => Entry::Uncacheable(version),
    };
    let is_first = matches!(entry, Entry::Seen);
    session.plans.put(&source.sql, entry);
    let (state, logical) = frame.into_parts();
    if !is_first
        && is_select(&logical)
        && Snapshot::of(&logical).is_some()
        && let Ok(optimized) = state.optimize(&logical)
        && let Ok(plan) = planner().create_physical_plan(&optimized, &state).await
        && let Some(text) = keep(session, source, &logical, optimized, &plan).await
    {
        return DataFrame::new(state, CachedStatement::plan(Arc::clone(&text.plan)));
    }
    DataFrame::new(state, logical)
}

/// Returns whether a plan does nothing but read; to plan anything else may do something already.
fn is_select(plan: &LogicalPlan) -> bool {
    !matches!(
        plan,
        LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Copy(_)
    ) && !returns_rows(plan)
}
