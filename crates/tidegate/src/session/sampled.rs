//! `TABLESAMPLE`: a part of a relation's rows, by chance.
//!
//! `BERNOULLI (p)` and `SYSTEM (p)`, and `p PERCENT`, keep each row with a probability of p per cent:
//! a filter of `random() < p / 100` above the relation, which the optimizer does not move past
//! anything that counts rows. `n ROWS` keeps n rows, or all if there are fewer: the first n in a random
//! order. DataFusion's planner ignores the clause.

use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::functions::math::random;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlanBuilder, col, lit};
use sqlparser::ast::{
    Expr, TableFactor, TableSample, TableSampleKind, TableSampleMethod, TableSampleQuantity,
    TableSampleUnit, Value,
};

use crate::error::{Error, ErrorKind};

/// The column that a sample of so many rows is ordered by.
const SAMPLE_ORDER: &str = "__tidegate_sample_order";

/// Plans relations with `TABLESAMPLE`.
#[derive(Debug)]
pub(super) struct Samples;

/// How many rows a sample has.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Size {
    /// Each row with this probability.
    Fraction(f64),
    Rows(usize),
}

impl RelationPlanner for Samples {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let sample = match &mut relation {
            TableFactor::Table { sample, .. } | TableFactor::Derived { sample, .. } => {
                sample.take()
            }
            _ => None,
        };
        let Some(sample) = sample else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) =
            sample;
        let size = size(&sample)?;
        let rows = context.plan(relation)?;
        let columns: Vec<_> = rows.schema().columns();
        let columns: Vec<_> = columns.into_iter().map(PlanExpr::Column).collect();
        let rows = LogicalPlanBuilder::from(rows);
        let random = random().call(Vec::new());
        let sampled = match size {
            Size::Fraction(fraction) => rows.filter(random.lt(lit(fraction)))?,
            // Rows without columns, of which count(*) needs none, cannot be sorted: the order is one.
            Size::Rows(count) => rows
                .project(columns.iter().cloned().chain([random.alias(SAMPLE_ORDER)]))?
                .sort(vec![col(SAMPLE_ORDER).sort(true, false)])?
                .limit(0, Some(count))?
                .project(columns)?,
        };
        let planned = PlannedRelation::new(sampled.build()?, None);
        Ok(RelationPlanning::Planned(Box::new(planned)))
    }
}

fn size(sample: &TableSample) -> Result<Size> {
    let not_supported = |what: &str, instead: &str| {
        let message = format!("TABLESAMPLE: {what} is not supported: {instead}");
        Err(Error::new(ErrorKind::NotSupported, message).into())
    };
    if sample.seed.is_some() {
        return not_supported(
            "REPEATABLE or SEED",
            "rows have no order that a seed could rely on; filter on a hash of a key instead",
        );
    }
    if sample.bucket.is_some() || sample.offset.is_some() {
        return not_supported("BUCKET or OFFSET", "write PERCENT or ROWS");
    }
    let Some(TableSampleQuantity { value, unit, .. }) = &sample.quantity else {
        return plan_err!("TABLESAMPLE: say how much, as in TABLESAMPLE BERNOULLI (10)");
    };
    let Some(number) = number(value) else {
        return plan_err!("TABLESAMPLE: {value} is not a number");
    };
    match (unit, &sample.name) {
        (Some(TableSampleUnit::Percent), _)
        | (
            None,
            Some(
                TableSampleMethod::Bernoulli
                | TableSampleMethod::System
                | TableSampleMethod::Row
                | TableSampleMethod::Block,
            ),
        ) => match (0.0..=100.0).contains(&number) {
            true => Ok(Size::Fraction(number / 100.0)),
            false => plan_err!("TABLESAMPLE: {value} is not between 0 and 100 per cent"),
        },
        (Some(TableSampleUnit::Rows), _) => match number.fract() == 0.0 && number >= 0.0 {
            true => Ok(Size::Rows(number as usize)),
            false => plan_err!("TABLESAMPLE: {value} is not a number of rows"),
        },
        (None, None) => plan_err!(
            "TABLESAMPLE {value}: write {value} PERCENT, {value} ROWS or BERNOULLI ({value})"
        ),
    }
}

fn number(value: &Expr) -> Option<f64> {
    match value {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.to_string().parse().ok(),
            _ => None,
        },
        Expr::Nested(inner) => number(inner),
        _ => None,
    }
}
