//! How large a logical plan may be, found out before a rule walks it.
//!
//! DataFusion puts the plan of a WITH query or view wherever it is named. The copies share their nodes, so
//! the plan is small in memory, but each rule walks it as a tree: 20 queries that each name the one before
//! twice are a million copies. [`BoundedRelations`] counts the tree's nodes at each relation while the plan
//! is made, in time linear in the nodes that are really there.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, GroupingSet, LogicalPlan};
use datafusion::sql::sqlparser::ast::TableFactor;

use super::planning;
use crate::error::{Error, ErrorKind};

/// The most operators of a plan, with all that WITH queries and views stand for where they are named.
const OPERATORS_MAX: u64 = 10_000;

/// The most expressions of a plan, parts of others included.
const EXPRESSIONS_MAX: u64 = 2_000_000;

/// The most columns of one relation: DataFusion takes time by their square.
const COLUMNS_MAX: u64 = 16_384;

/// The most different windows of one statement: each is an operator over the one before, and DataFusion takes
/// time by their cube, 1.5 s for 200 without optimization.
const WINDOWS_MAX: usize = 200;

/// Bytes reserved for planning an operator: 8,187 operators over one column took a process 10 MB more than
/// `SELECT 1` on x86-64, and wider ones take more.
const OPERATOR_BYTES: u64 = 4 << 10;

/// Bytes reserved for planning an expression: each of 16,000 selected constants took a server some 2.6 KB,
/// most of it for the result; the literals of VALUES take less.
const EXPRESSION_BYTES: u64 = 1 << 10;

/// Plans with fewer operators and expressions are not worth counting in memory.
const SMALL_BYTES: u64 = 4 << 20;

/// The size of a plan as a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlanSize {
    pub(crate) operators: u64,
    pub(crate) expressions: u64,
}

impl PlanSize {
    /// Counts a plan's nodes, those that it shares as often as it names them.
    pub(crate) fn of(plan: &LogicalPlan) -> Self {
        Counter::default().plan(plan)
    }

    /// Refuses a plan that would take too long to plan.
    ///
    /// # Errors
    /// [`ErrorKind::ResourcesExhausted`] with the limit.
    pub(crate) fn check(self) -> std::result::Result<(), Error> {
        let over = [
            ("operators", self.operators, OPERATORS_MAX),
            ("expressions", self.expressions, EXPRESSIONS_MAX),
        ];
        match over.into_iter().find(|(_, found, limit)| found > limit) {
            Some((what, found, limit)) => Err(too_large(what, found, limit)),
            None => Ok(()),
        }
    }

    /// Reserves what planning takes; small plans take nothing.
    ///
    /// # Errors
    /// DataFusion's, if the memory is not there.
    pub(crate) fn reserve(self, pool: &Arc<dyn MemoryPool>) -> Result<Option<MemoryReservation>> {
        let bytes = self.operators * OPERATOR_BYTES + self.expressions * EXPRESSION_BYTES;
        if bytes <= SMALL_BYTES {
            return Ok(None);
        }
        let reservation = MemoryConsumer::new("Planning").register(pool);
        reservation.try_grow(usize::try_from(bytes).unwrap_or(usize::MAX))?;
        Ok(Some(reservation))
    }

    fn and(self, other: Self) -> Self {
        Self {
            operators: self.operators.saturating_add(other.operators),
            expressions: self.expressions.saturating_add(other.expressions),
        }
    }
}

/// Refuses a relation, or a list of SELECT, with too many columns.
///
/// # Errors
/// [`ErrorKind::ResourcesExhausted`] with the limit.
pub(crate) fn check_columns(found: usize) -> std::result::Result<(), Error> {
    if found as u64 <= COLUMNS_MAX {
        return Ok(());
    }
    let message = format!(
        "a relation of the statement has {found} columns, and may have {COLUMNS_MAX}: select those that are \
         needed, or keep many values of one kind in a list"
    );
    Err(Error::new(ErrorKind::ResourcesExhausted, message))
}

/// Refuses a statement with too many different windows.
///
/// # Errors
/// [`ErrorKind::ResourcesExhausted`] with the limit.
pub(crate) fn check_windows(found: usize) -> std::result::Result<(), Error> {
    if found <= WINDOWS_MAX {
        return Ok(());
    }
    let message = format!(
        "the statement has more than {WINDOWS_MAX} different windows (OVER), and may have {WINDOWS_MAX}: keep \
         the rows of some with CREATE TABLE AS"
    );
    Err(Error::new(ErrorKind::ResourcesExhausted, message))
}

fn too_large(what: &str, found: u64, limit: u64) -> Error {
    let found = match found {
        u64::MAX => "more than can be counted".to_string(),
        found => found.to_string(),
    };
    let message = format!(
        "the statement's plan has {found} {what}, and may have {limit}: a WITH query or view counts wherever it \
         is named, and a key of a CUBE in each of its sets; keep its rows with CREATE TABLE AS and name the table, or ask for less at a time"
    );
    Error::new(ErrorKind::ResourcesExhausted, message)
}

/// Counts each node once and remembers its size.
#[derive(Default)]
struct Counter {
    known: HashMap<*const LogicalPlan, PlanSize>,
}

impl Counter {
    fn plan(&mut self, plan: &LogicalPlan) -> PlanSize {
        // Inputs are behind an Arc, so an address names one node for as long as the plan is borrowed.
        let address = std::ptr::from_ref(plan);
        if let Some(size) = self.known.get(&address) {
            return *size;
        }
        let mut size = PlanSize {
            operators: 1,
            expressions: 0,
        };
        let counted = plan.apply_expressions(|expr| {
            size = size.and(self.expression(expr));
            Ok(TreeNodeRecursion::Continue)
        });
        debug_assert!(counted.is_ok(), "counting does not fail");
        if let LogicalPlan::Aggregate(aggregate) = plan {
            size.expressions = size
                .expressions
                .saturating_add(keys_of_sets(&aggregate.group_expr));
        }
        for input in plan.inputs() {
            size = size.and(self.plan(input));
        }
        self.known.insert(address, size);
        size
    }

    fn expression(&mut self, expr: &Expr) -> PlanSize {
        let mut size = PlanSize::default();
        let counted = expr.apply(|part| {
            size.expressions = size.expressions.saturating_add(1);
            let subquery = match part {
                Expr::ScalarSubquery(subquery) => Some(subquery),
                Expr::InSubquery(within) => Some(&within.subquery),
                Expr::Exists(exists) => Some(&exists.subquery),
                Expr::SetComparison(compared) => Some(&compared.subquery),
                _ => None,
            };
            if let Some(subquery) = subquery {
                size = size.and(self.plan(&subquery.subquery));
            }
            Ok(TreeNodeRecursion::Continue)
        });
        debug_assert!(counted.is_ok(), "counting does not fail");
        size
    }
}

/// Counts the keys of all grouping sets that a list of keys stands for: of a CUBE of n keys there are 2^n
/// sets, and lists of sets multiply. 0 if there is one set.
fn keys_of_sets(group_by: &[Expr]) -> u64 {
    let mut keys = 0_u64;
    let mut num_sets = 1_u64;
    for expr in group_by {
        let (sets, of_set) = match expr {
            Expr::GroupingSet(GroupingSet::Cube(cubed)) => {
                let sets = u32::try_from(cubed.len()).ok();
                let sets = sets.and_then(|keys| 1_u64.checked_shl(keys));
                (sets.unwrap_or(u64::MAX), cubed.len())
            }
            Expr::GroupingSet(GroupingSet::Rollup(rolled)) => {
                (rolled.len() as u64 + 1, rolled.len())
            }
            Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => {
                let widest = sets.iter().map(Vec::len).max();
                (sets.len() as u64, widest.unwrap_or(0))
            }
            _ => (1, 1),
        };
        num_sets = num_sets.saturating_mul(sets.max(1));
        keys += of_set as u64;
    }
    match num_sets {
        1 => 0,
        sets => sets.saturating_mul(keys),
    }
}

thread_local! {
    /// Whether the next relation is planned as DataFusion does.
    static AS_EVER: Cell<bool> = const { Cell::new(false) };
}

/// Plans relations as DataFusion does, and refuses one that has grown too large. It comes first among the
/// planners of relations.
#[derive(Debug)]
pub(crate) struct BoundedRelations;

impl RelationPlanner for BoundedRelations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if AS_EVER.take() {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        planning::check()?;
        AS_EVER.set(true);
        let plan = context.plan(relation);
        AS_EVER.set(false);
        let plan = plan?;
        PlanSize::of(&plan).check()?;
        check_columns(plan.schema().fields().len())?;
        let planned = PlannedRelation::new(plan, None);
        Ok(RelationPlanning::Planned(Box::new(planned)))
    }
}

#[cfg(test)]
mod tests;
