//! `ASOF JOIN`: of each row on the left, the row on the right that is nearest by an inequality, among those with equal keys.
//!
//! The rows of both sides are put one behind the other and sorted by the compared value within each key; a window takes
//! the last row of the right side that has come:
//!
//! ```sql
//! -- a ASOF JOIN b ON a.k = b.k AND a.t >= b.t
//! SELECT a.*, r.* FROM (
//!   SELECT *, last_value(b) IGNORE NULLS OVER (PARTITION BY k ORDER BY t, side ROWS UNBOUNDED PRECEDING) AS r
//!   FROM (SELECT 1 AS side, k, t, a.*, NULL AS b FROM a UNION ALL SELECT 0, k, t, NULL, …, row(b.*) FROM b))
//! WHERE side = 1 AND r IS NOT NULL
//! ```
//!
//! Two rows on the right that are equally near: either is taken.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::functions::core::expr_fn::{get_field, named_struct};
use datafusion::functions_window::nth_value::last_value_udwf;
use datafusion::logical_expr::expr::{NullTreatment, WindowFunction};
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Operator, WindowFrame,
    WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition, binary_expr, lit,
};
use sqlparser::ast::{self, Join, JoinConstraint, JoinOperator, TableFactor, TableWithJoins};

use crate::error::{Error, ErrorKind};
use crate::statements::asof::LEFT;

/// What the columns of both sides, one behind the other, are called.
const SIDE: &str = "__asof_side";
const BY: &str = "__asof_by";
const ROW: &str = "__asof_row";
const FOUND: &str = "__asof_found";

/// Plans ASOF joins, each of which is the last join of one in parentheses.
#[derive(Debug)]
pub(super) struct AsofJoins;

impl RelationPlanner for AsofJoins {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let original = |relation| Ok(RelationPlanning::Original(Box::new(relation)));
        let TableFactor::NestedJoin {
            mut table_with_joins,
            alias,
        } = relation
        else {
            return original(relation);
        };
        let is_asof = |join: &Join| matches!(join.join_operator, JoinOperator::AsOf { .. });
        let join = match table_with_joins.joins.pop() {
            Some(join) if is_asof(&join) => join,
            other => {
                table_with_joins.joins.extend(other);
                return original(TableFactor::NestedJoin {
                    table_with_joins,
                    alias,
                });
            }
        };
        let TableWithJoins { relation, joins } = *table_with_joins;
        let left = match joins.is_empty() {
            true => context.plan(relation)?,
            false => context.plan(TableFactor::NestedJoin {
                table_with_joins: Box::new(TableWithJoins { relation, joins }),
                alias: None,
            })?,
        };
        let right = context.plan(join.relation)?;
        let JoinOperator::AsOf {
            match_condition,
            constraint,
        } = join.join_operator
        else {
            return plan_err!("ASOF JOIN has a condition");
        };
        let asof = Asof::of(&match_condition, constraint, &left, &right, context)?;
        let planned = PlannedRelation::new(asof.plan(left, right)?, alias);
        Ok(RelationPlanning::Planned(Box::new(planned)))
    }
}

/// The condition of an ASOF join.
struct Asof {
    /// Values that are equal, of the left side and of the right.
    keys: Vec<(Expr, Expr)>,
    /// The values that are compared.
    by: (Expr, Expr),
    operator: Operator,
    /// Whether rows without a match are kept.
    keeps_all: bool,
    /// Columns of the right side that USING merges with those of the left.
    merged: Vec<Column>,
}

impl Asof {
    fn of(
        match_condition: &ast::Expr,
        constraint: JoinConstraint,
        left: &LogicalPlan,
        right: &LogicalPlan,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<Self> {
        let word = match match_condition {
            ast::Expr::Value(value) => value.value.clone().into_string(),
            _ => None,
        };
        let both = left.schema().join(right.schema())?;
        let mut conditions = Vec::new();
        if word.is_none() {
            let expr = context.sql_to_expr(match_condition.clone(), &both)?;
            conditions.extend(split_conjunction_owned(expr));
        }
        let mut merged = Vec::new();
        match constraint {
            JoinConstraint::On(expr) => {
                let expr = context.sql_to_expr(expr, &both)?;
                conditions.extend(split_conjunction_owned(expr));
            }
            JoinConstraint::Using(names) => {
                let last = names.len().saturating_sub(1);
                for (place, name) in names.into_iter().enumerate() {
                    let [ast::ObjectNamePart::Identifier(name)] = name.0.as_slice() else {
                        return plan_err!("USING ({name}): it takes names of columns");
                    };
                    let name = context.normalize_ident(name.clone());
                    let of_left = column(left, &name)?;
                    let of_right = column(right, &name)?;
                    let operator = match place == last && word.is_some() {
                        true => Operator::GtEq,
                        false => Operator::Eq,
                    };
                    let of_both = [of_left, of_right.clone()].map(Expr::Column);
                    let [of_left, of_other] = of_both;
                    conditions.push(binary_expr(of_left, operator, of_other));
                    merged.push(of_right);
                }
            }
            JoinConstraint::Natural => return refused("NATURAL"),
            JoinConstraint::None => {}
        }
        let mut keys = Vec::new();
        let mut by = None;
        for condition in conditions {
            let (of_left, operator, of_right) = sides(condition, left.schema(), right.schema())?;
            match operator {
                Operator::Eq => keys.push((of_left, of_right)),
                Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq if by.is_none() => {
                    by = Some((operator, (of_left, of_right)));
                }
                other => return refused(&other.to_string()),
            }
        }
        let Some((operator, by)) = by else {
            return refused("= alone");
        };
        Ok(Self {
            keys,
            by,
            operator,
            keeps_all: word.is_none_or(|word| word == LEFT),
            merged,
        })
    }

    fn plan(self, left: LogicalPlan, right: LogicalPlan) -> Result<LogicalPlan> {
        // What is greater or equal is near if it is the last before; of equal ones those on the right come first, if they
        // count.
        let is_ascending = matches!(self.operator, Operator::Gt | Operator::GtEq);
        let counts_equal = matches!(self.operator, Operator::GtEq | Operator::LtEq);
        let of_right = if counts_equal { 0_i64 } else { 2 };
        let (left_columns, right_columns) = (left.schema().columns(), right.schema().columns());
        let (left_schema, right_schema) = (left.schema().clone(), right.schema().clone());
        let fields = right_columns.iter().enumerate();
        let fields =
            fields.flat_map(|(at, column)| [lit(format!("c{at}")), Expr::Column(column.clone())]);
        let row = named_struct(fields.collect());
        let row_type = row.get_type(&right_schema)?;
        let key = |at: usize| format!("__asof_key_{at}");
        let carried = |at: usize| format!("__asof_left_{at}");
        let mut of_left = vec![lit(1_i64).alias(SIDE), self.by.0.alias(BY)];
        let mut of_other = vec![lit(of_right).alias(SIDE), self.by.1.clone().alias(BY)];
        let mut known = self.by.1.is_not_null();
        let mut partition = Vec::with_capacity(self.keys.len());
        for (at, (left_key, right_key)) in self.keys.into_iter().enumerate() {
            of_left.push(left_key.alias(key(at)));
            of_other.push(right_key.clone().alias(key(at)));
            known = known.and(right_key.is_not_null());
            partition.push(named(key(at)));
        }
        for (at, column) in left_columns.iter().enumerate() {
            let (_, field) = left_schema.qualified_field_from_column(column)?;
            of_left.push(Expr::Column(column.clone()).alias(carried(at)));
            of_other.push(null(field.data_type())?.alias(carried(at)));
        }
        of_left.push(null(&row_type)?.alias(ROW));
        of_other.push(row.alias(ROW));
        let right = LogicalPlanBuilder::from(right)
            .filter(known)?
            .project(of_other)?
            .build()?;
        let last = WindowFunctionDefinition::WindowUDF(last_value_udwf());
        let last = Expr::from(WindowFunction::new(last, vec![named(ROW)]));
        let frame = WindowFrame::new_bounds(
            WindowFrameUnits::Rows,
            WindowFrameBound::Preceding(ScalarValue::UInt64(None)),
            WindowFrameBound::CurrentRow,
        );
        // Rows on the left with a NULL come before all others, and find none.
        let order = vec![
            named(BY).sort(is_ascending, true),
            named(SIDE).sort(true, true),
        ];
        let last = last
            .partition_by(partition)
            .order_by(order)
            .window_frame(frame)
            .null_treatment(NullTreatment::IgnoreNulls)
            .build()?;
        let name = last.schema_name().to_string();
        let mut columns = vec![named(SIDE), named(name).alias(FOUND)];
        columns.extend((0..left_columns.len()).map(|at| named(carried(at))));
        let mut is_row = named(SIDE).eq(lit(1_i64));
        if !self.keeps_all {
            is_row = is_row.and(named(FOUND).is_not_null());
        }
        let of_joined_left = left_columns.iter().enumerate().map(|(at, column)| {
            named(carried(at)).alias_qualified(column.relation.clone(), &column.name)
        });
        let of_joined_right = right_columns.iter().enumerate();
        let of_joined_right = of_joined_right.filter(|(_, column)| !self.merged.contains(column));
        let of_joined_right = of_joined_right.map(|(at, column)| {
            let value = get_field(named(FOUND), format!("c{at}"));
            value.alias_qualified(column.relation.clone(), &column.name)
        });
        let joined: Vec<Expr> = of_joined_left.chain(of_joined_right).collect();
        LogicalPlanBuilder::from(left)
            .project(of_left)?
            .union(right)?
            .window([last])?
            .project(columns)?
            .filter(is_row)?
            .project(joined)?
            .build()
    }
}

/// Returns a column of a side by its name.
fn column(side: &LogicalPlan, name: &str) -> Result<Column> {
    let (table, field) = side.schema().qualified_field_with_unqualified_name(name)?;
    Ok(Column::new(table.cloned(), field.name()))
}

fn named(name: impl Into<String>) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

fn null(data_type: &DataType) -> Result<Expr> {
    Ok(lit(ScalarValue::try_new_null(data_type)?))
}

/// Returns the sides of a comparison: the value of the left relation first.
fn sides(condition: Expr, left: &DFSchema, right: &DFSchema) -> Result<(Expr, Operator, Expr)> {
    let uses = |expr: &Expr, schema: &DFSchema| {
        let columns = expr.column_refs();
        !columns.is_empty() && columns.iter().all(|column| schema.has_column(column))
    };
    if let Expr::BinaryExpr(binary) = &condition {
        let (one, other) = (&binary.left, &binary.right);
        if uses(one, left) && uses(other, right) {
            return Ok((Expr::clone(one), binary.op, Expr::clone(other)));
        }
        if let (true, true, Some(operator)) =
            (uses(one, right), uses(other, left), binary.op.swap())
        {
            return Ok((Expr::clone(other), operator, Expr::clone(one)));
        }
    }
    refused(&condition.to_string())
}

fn refused<T>(what: &str) -> Result<T> {
    let message = format!(
        "ASOF JOIN compares columns of both sides by = and by one of >=, >, <= and <, all of them joined by AND, and not \
         by {what}"
    );
    Err(Error::new(ErrorKind::NotSupported, message).into())
}
