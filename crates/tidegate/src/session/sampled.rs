//! `TABLESAMPLE`: a part of a relation's rows, by chance.
//!
//! `BERNOULLI (p)` and `SYSTEM (p)`, and `p PERCENT`, keep each row with a probability of p per cent:
//! a filter of `random() < p / 100` above the relation, which the optimizer does not move past
//! anything that counts rows. `n ROWS` keeps n rows, or all if there are fewer: the first n in a random
//! order. DataFusion's planner ignores the clause.
//!
//! `REPEATABLE (seed)` takes the same rows of the same table each time. Rows have no order that a seed could rely on: their
//! chance is a hash of the seed and all values of the row, and of the number that it has among its copies.

use std::iter::once;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::functions::math::random;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr as PlanExpr, LogicalPlan, LogicalPlanBuilder, cast, col, lit};
use sqlparser::ast::{
    Expr, TableFactor, TableSample, TableSampleKind, TableSampleMethod, TableSampleQuantity,
    TableSampleUnit, Value,
};

use crate::error::{Error, ErrorKind};
use crate::functions::hashes;
use crate::rewrite::with_number;

/// More than any hash is as a DOUBLE: the next one after 2^64.
const HASHES: f64 = u64::MAX as f64 * (1.0 + f64::EPSILON);

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
        let (rows, chance) = match &sample.seed {
            None => (rows, random().call(Vec::new())),
            Some(seed) => by_seed(rows, &columns, seed.value.to_string())?,
        };
        let rows = LogicalPlanBuilder::from(rows);
        let sampled = match size {
            Size::Fraction(fraction) => {
                let kept = rows.filter(chance.lt(lit(fraction)))?;
                match sample.seed {
                    None => kept,
                    Some(_) => kept.project(columns)?,
                }
            }
            // Rows without columns, of which count(*) needs none, cannot be sorted: the order is one.
            Size::Rows(count) => rows
                .project(columns.iter().cloned().chain([chance.alias(SAMPLE_ORDER)]))?
                .sort(vec![col(SAMPLE_ORDER).sort(true, false)])?
                .limit(0, Some(count))?
                .project(columns)?,
        };
        let planned = PlannedRelation::new(sampled.build()?, None);
        Ok(RelationPlanning::Planned(Box::new(planned)))
    }
}

/// Returns rows, and the chance of each: a number from 0 to 1, the same for the same rows and seed.
fn by_seed(
    rows: LogicalPlan,
    columns: &[PlanExpr],
    seed: String,
) -> Result<(LogicalPlan, PlanExpr)> {
    let (rows, number) = with_number(Arc::new(rows))?;
    let values = once(lit(seed))
        .chain(columns.iter().cloned())
        .chain([number]);
    let hash = hashes::function().call(values.collect());
    Ok((rows, cast(hash, DataType::Float64) / lit(HASHES)))
}

fn size(sample: &TableSample) -> Result<Size> {
    let not_supported = |what: &str, instead: &str| {
        let message = format!("TABLESAMPLE: {what} is not supported: {instead}");
        Err(Error::new(ErrorKind::NotSupported, message).into())
    };
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
