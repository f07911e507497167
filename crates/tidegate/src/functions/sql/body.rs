//! The body of a function: what it may read, and its type.

use std::sync::Arc;

use datafusion::arrow::compute::can_cast_types;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::{
    EmptyRelation, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Volatility, cast,
};

use super::{Argument, Definition};
use crate::error::{Error, ErrorKind};

/// Returns the body with every operand cast to what its operator takes, of the type that the function
/// returns.
pub(super) fn typed(
    definition: &Definition,
    columns: &Arc<DFSchema>,
    state: &SessionState,
) -> Result<Expr, Error> {
    check_operands(definition, &definition.body, columns)?;
    let body = coerced(definition.body.clone(), columns, state)?;
    let (given, wanted) = (body.get_type(columns)?, &definition.returns);
    if given == *wanted {
        return Ok(body);
    }
    if !can_cast_types(&given, wanted) {
        let message = format!(
            "function {} returns {wanted}, and its body is {given}, which has no cast to it",
            definition.name
        );
        return Err(Error::new(ErrorKind::Sql, message));
    }
    Ok(cast(body, wanted.clone()))
}

/// Returns the arguments' defaults, of the arguments' types.
pub(super) fn defaults(
    definition: &Definition,
    state: &SessionState,
) -> Result<Vec<Option<Expr>>, Error> {
    let nothing = Arc::new(DFSchema::empty());
    let default = |argument: &Argument| {
        let Some(default) = &argument.default else {
            return Ok(None);
        };
        check_operands(definition, default, &nothing)?;
        let default = coerced(default.clone(), &nothing, state)?;
        Ok(Some(cast(default, argument.data_type.clone())))
    };
    definition.arguments.iter().map(default).collect()
}

/// Refuses a body that reads anything but the function's arguments.
fn check_operands(definition: &Definition, body: &Expr, columns: &DFSchema) -> Result<(), Error> {
    let mut refused = None;
    body.apply(|expr| {
        refused = why_refused(expr, columns);
        Ok(match refused {
            Some(_) => TreeNodeRecursion::Stop,
            None => TreeNodeRecursion::Continue,
        })
    })?;
    match refused {
        Some(why) => {
            let message = format!("function {}: {why}", definition.name);
            Err(Error::new(ErrorKind::Sql, message))
        }
        None => Ok(()),
    }
}

fn why_refused(expr: &Expr, columns: &DFSchema) -> Option<String> {
    match expr {
        Expr::Column(column) if columns.maybe_index_of_column(column).is_some() => None,
        Expr::Column(column) => {
            let fields = columns.fields().iter();
            let known: Vec<&str> = fields.map(|field| field.name().as_str()).collect();
            Some(match known.as_slice() {
                [] => format!("{column} is not an argument, and none can be read here"),
                known => format!(
                    "{column} is not an argument; its arguments are {}",
                    known.join(", ")
                ),
            })
        }
        Expr::Placeholder(placeholder) => Some(format!("{} is not an argument", placeholder.id)),
        Expr::AggregateFunction(_) | Expr::WindowFunction(_) => Some(format!(
            "{} is over many rows, and a function is called for one: make its value an argument",
            expr.schema_name()
        )),
        Expr::ScalarSubquery(_)
        | Expr::Exists(_)
        | Expr::InSubquery(_)
        | Expr::SetComparison(_)
        | Expr::OuterReferenceColumn(..) => {
            Some("its body cannot hold a query: make the query's value an argument".into())
        }
        Expr::Unnest(_) => Some("unnest makes rows, and a function makes one value".into()),
        _ => None,
    }
}

/// Coerces an expression as the analyzer does those of a plan.
fn coerced(expr: Expr, columns: &Arc<DFSchema>, state: &SessionState) -> Result<Expr, Error> {
    let relation = LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: false,
        schema: Arc::clone(columns),
    });
    let plan = LogicalPlanBuilder::from(relation).project([expr.alias("body")])?;
    let analyzer = state.analyzer();
    let plan = analyzer.execute_and_check(plan.build()?, state.config_options(), |_, _| {})?;
    match plan {
        LogicalPlan::Projection(mut projection) if projection.expr.len() == 1 => {
            Ok(projection.expr.remove(0).unalias_nested().data)
        }
        plan => Err(Error::new(
            ErrorKind::Internal,
            format!("an expression was analyzed to {}", plan.display()),
        )),
    }
}

/// Returns the most that any function in an expression varies.
pub(super) fn volatility(expr: &Expr) -> Volatility {
    let mut found = Volatility::Immutable;
    let walked = expr.apply(|expr| {
        if let Expr::ScalarFunction(call) = expr {
            found = match (found, call.func.signature().volatility) {
                (Volatility::Volatile, _) | (_, Volatility::Volatile) => Volatility::Volatile,
                (Volatility::Stable, _) | (_, Volatility::Stable) => Volatility::Stable,
                _ => Volatility::Immutable,
            };
        }
        Ok(TreeNodeRecursion::Continue)
    });
    match walked {
        Ok(_) => found,
        Err(_) => Volatility::Volatile,
    }
}
