//! Expressions: trees of tuples from Python become DataFusion's, over the columns of one frame.
//!
//! A node is a tuple whose first item says what it is. Names are exact, upper and lower case differ; division
//! and remainder mean what they mean in Polars; all else is as in SQL.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::expr::{AggregateFunction, InList, Sort, WindowFunction};
use datafusion::logical_expr::{
    BinaryExpr, Case, Cast, Expr, ExprSchemable, Like, Operator, TryCast, WindowFrame,
    WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition, lit,
};
use pyo3::types::{PyAnyMethods, PyTuple, PyTupleMethods};
use pyo3::{Bound, PyAny, PyResult};
use tidegate::{Error, ErrorKind};

use crate::error::{raise, wrong_type};
use crate::functions::Function;
use crate::literal::scalar;
use crate::types::data_type;

/// How deep an expression may nest: deeper ones would overflow the stack of who plans them.
const DEPTH_MAX: usize = 500;

/// Where the names of an expression are looked up.
pub(crate) struct Scope<'a> {
    state: &'a SessionState,
    schema: &'a DFSchema,
    depth: usize,
}

type Node<'py> = Bound<'py, PyAny>;

impl<'a> Scope<'a> {
    pub(crate) fn new(state: &'a SessionState, schema: &'a DFSchema) -> Self {
        Self {
            state,
            schema,
            depth: 0,
        }
    }

    /// Reads several expressions.
    pub(crate) fn exprs(&self, nodes: &Node<'_>) -> PyResult<Vec<Expr>> {
        nodes.try_iter()?.map(|node| self.expr(&node?)).collect()
    }

    /// Reads one expression.
    pub(crate) fn expr(&self, node: &Node<'_>) -> PyResult<Expr> {
        if self.depth == DEPTH_MAX {
            let message = format!(
                "an expression nests deeper than {DEPTH_MAX} levels: make columns of its parts"
            );
            return Err(raise(&Error::new(ErrorKind::ResourcesExhausted, message)));
        }
        let below = Scope {
            depth: self.depth + 1,
            ..*self
        };
        let node = node
            .cast::<PyTuple>()
            .map_err(|_| wrong_type("an expression is a tuple"))?;
        let kind: String = node.get_item(0)?.extract()?;
        let at = |index: usize| node.get_item(index);
        let one = |index: usize| below.expr(&at(index)?);
        Ok(match kind.as_str() {
            "col" => self.column(&at(1)?.extract::<String>()?)?,
            "lit" => lit(scalar(&at(1)?.extract::<String>()?, &at(2)?)?),
            "bin" => below.binary(&at(1)?.extract::<String>()?, one(2)?, one(3)?)?,
            "not" => match self.type_of(&one(1)?) {
                Some(known) if known.is_integer() => {
                    binary(one(1)?, Operator::BitwiseXor, lit(-1_i64))
                }
                _ => Expr::Not(Box::new(one(1)?)),
            },
            "neg" => Expr::Negative(Box::new(one(1)?)),
            "is_null" => Expr::IsNull(Box::new(one(1)?)),
            "is_not_null" => Expr::IsNotNull(Box::new(one(1)?)),
            "cast" => cast(one(1)?, data_type(&at(2)?)?, at(3)?.extract()?),
            "alias" => one(1)?.alias(at(2)?.extract::<String>()?),
            "case" => below.case(&at(1)?, &at(2)?)?,
            "in" => Expr::InList(InList::new(
                Box::new(one(1)?),
                below.exprs(&at(2)?)?,
                at(3)?.extract()?,
            )),
            "like" => Expr::Like(Like::new(
                at(3)?.extract()?,
                Box::new(one(1)?),
                Box::new(one(2)?),
                None,
                at(4)?.extract()?,
            )),
            "fn" => below.function(node)?,
            "udf" => {
                let function = at(1)?;
                let function = function.cast::<Function>()?;
                function.get().0.call(below.exprs(&at(2)?)?)
            }
            "over" => below.over(node)?,
            other => {
                return Err(wrong_type(format!(
                    "no expression is of the kind '{other}'"
                )));
            }
        })
    }

    /// Reads how rows are sorted: triples of an expression, whether it descends and whether NULLs come first.
    pub(crate) fn sorts(&self, items: &Node<'_>) -> PyResult<Vec<Sort>> {
        let mut sorts = Vec::new();
        for item in items.try_iter()? {
            let (node, descends, nulls_first): (Bound<'_, PyAny>, bool, bool) = item?.extract()?;
            sorts.push(Sort::new(self.expr(&node)?, !descends, nulls_first));
        }
        Ok(sorts)
    }

    /// Finds a column by its exact name.
    pub(crate) fn column(&self, name: &str) -> PyResult<Expr> {
        let mut found = self.schema.iter().filter(|(_, field)| field.name() == name);
        match (found.next(), found.next()) {
            (Some((qualifier, field)), None) => {
                Ok(Expr::Column(Column::new(qualifier.cloned(), field.name())))
            }
            (Some(_), Some(_)) => {
                let message =
                    format!("column '{name}' is there more than once: name them apart with AS");
                Err(raise(&Error::new(ErrorKind::Sql, message)))
            }
            (None, _) => {
                let there: Vec<&str> = self
                    .schema
                    .fields()
                    .iter()
                    .map(|field| field.name().as_str())
                    .collect();
                let message = match there.as_slice() {
                    [] => format!("column '{name}' not found: the frame has no columns"),
                    some if some.len() <= 20 => {
                        format!("column '{name}' not found: there are {}", some.join(", "))
                    }
                    some => format!(
                        "column '{name}' not found: there are {}, … ({} in all)",
                        some[..20].join(", "),
                        some.len()
                    ),
                };
                Err(raise(&Error::new(ErrorKind::Sql, message)))
            }
        }
    }

    fn type_of(&self, expr: &Expr) -> Option<DataType> {
        expr.get_type(self.schema).ok()
    }

    fn binary(&self, operator: &str, left: Expr, right: Expr) -> PyResult<Expr> {
        let types = (self.type_of(&left), self.type_of(&right));
        let is = |test: fn(&DataType) -> bool| {
            types.0.as_ref().is_some_and(test) || types.1.as_ref().is_some_and(test)
        };
        let are_whole =
            types.0.as_ref().is_some_and(is_whole) && types.1.as_ref().is_some_and(is_whole);
        let operator = match operator {
            "+" if is(is_text) => Operator::StringConcat,
            "+" => Operator::Plus,
            "-" => Operator::Minus,
            "*" => Operator::Multiply,
            "/" if are_whole => {
                let double = |expr| cast(expr, DataType::Float64, true);
                return Ok(binary(double(left), Operator::Divide, double(right)));
            }
            "/" | "quotient" => Operator::Divide,
            "//" => return self.floor_divided(left, right, are_whole),
            "%" if are_whole && is_positive(&right) => {
                // It is named once, so that remainders of remainders stay small.
                let remainder = binary(left, Operator::Modulo, right.clone());
                let shifted = binary(remainder, Operator::Plus, right.clone());
                return Ok(binary(shifted, Operator::Modulo, right));
            }
            "%" => return Ok(floor_remainder(left, right)),
            "rem" => Operator::Modulo,
            "&" if is(is_truth) => Operator::And,
            "|" if is(is_truth) => Operator::Or,
            "^" if is(is_truth) => Operator::NotEq,
            "&" => Operator::BitwiseAnd,
            "|" => Operator::BitwiseOr,
            "^" => Operator::BitwiseXor,
            "<<" => Operator::BitwiseShiftLeft,
            ">>" => Operator::BitwiseShiftRight,
            "==" => Operator::Eq,
            "!=" => Operator::NotEq,
            "<" => Operator::Lt,
            "<=" => Operator::LtEq,
            ">" => Operator::Gt,
            ">=" => Operator::GtEq,
            "eq_missing" => Operator::IsNotDistinctFrom,
            "ne_missing" => Operator::IsDistinctFrom,
            "~" => Operator::RegexMatch,
            other => return Err(wrong_type(format!("there is no operator '{other}'"))),
        };
        Ok(binary(left, operator, right))
    }

    fn floor_divided(&self, left: Expr, right: Expr, are_whole: bool) -> PyResult<Expr> {
        if !are_whole {
            return self.call("floor", vec![binary(left, Operator::Divide, right)]);
        }
        // The quotient is cut toward zero: one less where that is above the true one.
        let quotient = binary(left.clone(), Operator::Divide, right.clone());
        let is_above = differs_in_sign(left, right);
        let less = binary(quotient.clone(), Operator::Minus, lit(1_i64));
        Ok(case(vec![(is_above, less)], Some(quotient)))
    }

    fn case(&self, branches: &Node<'_>, otherwise: &Node<'_>) -> PyResult<Expr> {
        let mut pairs = Vec::new();
        for branch in branches.try_iter()? {
            let (when, then): (Bound<'_, PyAny>, Bound<'_, PyAny>) = branch?.extract()?;
            pairs.push((self.expr(&when)?, self.expr(&then)?));
        }
        let otherwise = match otherwise.is_none() {
            true => None,
            false => Some(self.expr(otherwise)?),
        };
        Ok(case(pairs, otherwise))
    }

    fn function(&self, node: &Bound<'_, PyTuple>) -> PyResult<Expr> {
        let name: String = node.get_item(1)?.extract()?;
        let args = self.exprs(&node.get_item(2)?)?;
        let is_distinct: bool = node.get_item(3)?.extract()?;
        let order_by = self.sorts(&node.get_item(4)?)?;
        let filter = node.get_item(5)?;
        let filter = match filter.is_none() {
            true => None,
            false => Some(Box::new(self.expr(&filter)?)),
        };
        let Some(aggregate) = self.state.aggregate_functions().get(&name) else {
            if is_distinct || filter.is_some() || !order_by.is_empty() {
                let message = format!(
                    "'{name}' is no aggregate function: it takes no distinct, order or filter"
                );
                return Err(raise(&Error::new(ErrorKind::Sql, message)));
            }
            return self.call(&name, args);
        };
        let args = match (name.as_str(), args.is_empty()) {
            ("count", true) => vec![lit(1_i64)],
            _ => args,
        };
        let function = AggregateFunction::new_udf(
            Arc::clone(aggregate),
            args,
            is_distinct,
            filter,
            order_by,
            None,
        );
        Ok(Expr::AggregateFunction(function))
    }

    /// Calls a scalar or window function by its name.
    fn call(&self, name: &str, args: Vec<Expr>) -> PyResult<Expr> {
        if let Some(function) = self.state.scalar_functions().get(name) {
            return Ok(function.call(args));
        }
        if let Some(function) = self.state.window_functions().get(name) {
            return Ok(WindowFunction::new(Arc::clone(function), args).into());
        }
        if let Some(function) = self.state.aggregate_functions().get(name) {
            return Ok(function.call(args));
        }
        let message = format!("function '{name}' not found");
        Err(raise(&Error::new(ErrorKind::NotFound, message)))
    }

    fn over(&self, node: &Bound<'_, PyTuple>) -> PyResult<Expr> {
        let inner = self.expr(&node.get_item(1)?)?;
        let partition_by = self.exprs(&node.get_item(2)?)?;
        let order_by = self.sorts(&node.get_item(3)?)?;
        let rows = node.get_item(4)?;
        let frame = match rows.is_none() {
            true => whole_partition(),
            false => {
                let (from, to): (Option<i64>, Option<i64>) = rows.extract()?;
                WindowFrame::new_bounds(WindowFrameUnits::Rows, bound(from, true), bound(to, false))
            }
        };
        let mut window = match inner {
            Expr::AggregateFunction(aggregate) => window_of(aggregate),
            Expr::WindowFunction(window) => *window,
            other => {
                let message =
                    format!("over() follows an aggregate or window function, and not {other}");
                return Err(raise(&Error::new(ErrorKind::Sql, message)));
            }
        };
        window.params.partition_by = partition_by;
        window.params.order_by = order_by;
        window.params.window_frame = frame;
        Ok(window.into())
    }
}

/// Makes an aggregate one over all rows that lie with a row in its partition.
pub(crate) fn window_of(aggregate: AggregateFunction) -> WindowFunction {
    let AggregateFunction { func, params } = aggregate;
    let mut window = WindowFunction::new(WindowFunctionDefinition::AggregateUDF(func), params.args);
    window.params.distinct = params.distinct;
    window.params.filter = params.filter;
    window.params.order_by = params.order_by;
    window.params.null_treatment = params.null_treatment;
    window.params.window_frame = whole_partition();
    window
}

fn whole_partition() -> WindowFrame {
    WindowFrame::new_bounds(
        WindowFrameUnits::Rows,
        bound(None, true),
        bound(None, false),
    )
}

/// Returns the bound that lies so many rows after the current one; without end if `None`.
fn bound(rows: Option<i64>, is_start: bool) -> WindowFrameBound {
    let distance = |rows: u64| ScalarValue::UInt64(Some(rows));
    match rows {
        None if is_start => WindowFrameBound::Preceding(ScalarValue::UInt64(None)),
        None => WindowFrameBound::Following(ScalarValue::UInt64(None)),
        Some(0) => WindowFrameBound::CurrentRow,
        Some(rows) if rows < 0 => WindowFrameBound::Preceding(distance(rows.unsigned_abs())),
        Some(rows) => WindowFrameBound::Following(distance(rows.unsigned_abs())),
    }
}

fn binary(left: Expr, operator: Operator, right: Expr) -> Expr {
    Expr::BinaryExpr(BinaryExpr::new(Box::new(left), operator, Box::new(right)))
}

fn cast(expr: Expr, to: DataType, is_strict: bool) -> Expr {
    match is_strict {
        true => Expr::Cast(Cast::new(Box::new(expr), to)),
        false => Expr::TryCast(TryCast::new(Box::new(expr), to)),
    }
}

fn case(branches: Vec<(Expr, Expr)>, otherwise: Option<Expr>) -> Expr {
    let branches = branches
        .into_iter()
        .map(|(when, then)| (Box::new(when), Box::new(then)))
        .collect();
    Expr::Case(Case::new(None, branches, otherwise.map(Box::new)))
}

/// Makes the remainder that has the sign of the divisor.
fn floor_remainder(left: Expr, right: Expr) -> Expr {
    let remainder = binary(left.clone(), Operator::Modulo, right.clone());
    let shifted = binary(remainder.clone(), Operator::Plus, right.clone());
    case(
        vec![(differs_in_sign(left, right), shifted)],
        Some(remainder),
    )
}

/// Tells whether a division leaves a remainder of another sign than its divisor's.
fn differs_in_sign(left: Expr, right: Expr) -> Expr {
    let remainder = || binary(left.clone(), Operator::Modulo, right.clone());
    let zero = || lit(0_i64);
    let below = binary(remainder(), Operator::Lt, zero());
    let above = binary(remainder(), Operator::Gt, zero());
    let too_low = binary(
        below,
        Operator::And,
        binary(right.clone(), Operator::Gt, zero()),
    );
    let too_high = binary(
        above,
        Operator::And,
        binary(right.clone(), Operator::Lt, zero()),
    );
    binary(too_low, Operator::Or, too_high)
}

fn is_whole(of: &DataType) -> bool {
    of.is_integer() || is_truth(of)
}

/// Tells whether an expression is a positive whole number that is far from the largest one.
fn is_positive(expr: &Expr) -> bool {
    let half = i64::MAX / 2;
    matches!(expr, Expr::Literal(ScalarValue::Int64(Some(value)), _) if (1..half).contains(value))
}

fn is_truth(of: &DataType) -> bool {
    *of == DataType::Boolean
}

fn is_text(of: &DataType) -> bool {
    matches!(
        of,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}
