//! Expressions over one row.
//!
//! A tree of [`Expr`] is prepared once: every decision that depends on types alone is taken then,
//! constants are read, and LIKE patterns parsed. What is left per row is a walk over [`Node`]s.

use std::sync::Arc;

use arrow_schema::DataType;

use super::EvalError;
use super::arithmetic::{Arithmetic, negate};
use super::cast::Cast;
use super::column::Column;
use super::compare::{compare, order};
use super::custom::Call;
use super::like::LikePattern;
use super::temporal::Calendar;
use super::value::Value;
use crate::expr::{CompareOp, DatePart, Expr, ExprKind};
use crate::scalar::Scalar;

/// A prepared expression.
pub(crate) enum Node {
    Column(usize),
    Constant(Arc<Scalar>),
    Arithmetic(Box<(Arithmetic, Node, Node)>),
    Compare(CompareOp, Box<(Node, Node)>),
    And(Box<(Node, Node)>),
    Or(Box<(Node, Node)>),
    Not(Box<Node>),
    Negate(DataType, Box<Node>),
    IsNull {
        inner: Box<Node>,
        negated: bool,
    },
    Case {
        branches: Vec<(Node, Node)>,
        otherwise: Option<Box<Node>>,
    },
    InList {
        needle: Box<Node>,
        list: Vec<Node>,
        negated: bool,
    },
    Cast(Box<(Cast, Node)>),
    DatePart(DatePart, Calendar, Box<Node>),
    Like {
        text: Box<Node>,
        pattern: Pattern,
        negated: bool,
    },
    Substring {
        text: Box<Node>,
        start: i64,
        length: Option<i64>,
    },
    Custom(Box<Call>, Vec<Node>),
}

/// A LIKE pattern: read beforehand, or differing by row.
pub(crate) enum Pattern {
    Fixed(LikePattern),
    Null,
    Varying {
        pattern: Box<Node>,
        case_insensitive: bool,
    },
}

/// The row over which an expression is evaluated.
#[derive(Clone, Copy)]
pub(crate) enum Row<'r, 'v> {
    /// A row of a batch.
    Cells {
        columns: &'r [Column<'v>],
        index: usize,
    },
    /// What a projection gave.
    Values(&'r [Value<'v>]),
}

impl<'v> Row<'_, 'v> {
    /// Reads a column.
    pub(crate) fn get(self, column: usize) -> Value<'v> {
        match self {
            Self::Cells { columns, index } => columns[column].get(index),
            Self::Values(values) => values[column],
        }
    }

    /// Returns how many columns there are.
    pub(crate) fn width(self) -> usize {
        match self {
            Self::Cells { columns, .. } => columns.len(),
            Self::Values(values) => values.len(),
        }
    }
}

impl Node {
    /// Prepares an expression that has passed its checks.
    pub(crate) fn new(expr: &Expr, parameters: &[Scalar]) -> Result<Self, EvalError> {
        let node = |expr: &Expr| Self::new(expr, parameters);
        let boxed = |expr: &Expr| node(expr).map(Box::new);
        let pair =
            |left: &Expr, right: &Expr| Ok::<_, EvalError>(Box::new((node(left)?, node(right)?)));
        let prepared = match &expr.kind {
            ExprKind::Column(index) => Self::Column(*index),
            ExprKind::Parameter(index) => match parameters.get(*index) {
                Some(parameter) => Self::Constant(Arc::new(parameter.clone())),
                None => return Err(EvalError::internal(format!("parameter ${index}"))),
            },
            ExprKind::Arithmetic { op, left, right } => {
                let kernel = Arithmetic::new(*op, &left.data_type, &right.data_type)?;
                Self::Arithmetic(Box::new((kernel, node(left)?, node(right)?)))
            }
            ExprKind::Compare { op, left, right } => Self::Compare(*op, pair(left, right)?),
            ExprKind::And(left, right) => Self::And(pair(left, right)?),
            ExprKind::Or(left, right) => Self::Or(pair(left, right)?),
            ExprKind::Not(inner) => Self::Not(boxed(inner)?),
            ExprKind::Negate(inner) => Self::Negate(expr.data_type.clone(), boxed(inner)?),
            ExprKind::IsNull(inner) => Self::IsNull {
                inner: boxed(inner)?,
                negated: false,
            },
            ExprKind::IsNotNull(inner) => Self::IsNull {
                inner: boxed(inner)?,
                negated: true,
            },
            ExprKind::Case {
                branches,
                otherwise,
            } => Self::case(branches, otherwise.as_deref(), parameters)?,
            ExprKind::InList {
                expr,
                list,
                negated,
            } => Self::InList {
                needle: boxed(expr)?,
                list: list.iter().map(node).collect::<Result<_, _>>()?,
                negated: *negated,
            },
            ExprKind::Cast {
                expr: from,
                on_failure,
            } => {
                let cast = Cast::new(&from.data_type, &expr.data_type, *on_failure)?;
                Self::Cast(Box::new((cast, node(from)?)))
            }
            ExprKind::DatePart { part, expr } => {
                Self::DatePart(*part, Calendar::of(&expr.data_type)?, boxed(expr)?)
            }
            ExprKind::Like {
                expr,
                pattern,
                negated,
                case_insensitive,
            } => Self::Like {
                text: boxed(expr)?,
                pattern: Pattern::new(node(pattern)?, *case_insensitive),
                negated: *negated,
            },
            ExprKind::Substring {
                expr,
                start,
                length,
            } => Self::Substring {
                text: boxed(expr)?,
                start: *start,
                length: *length,
            },
            ExprKind::Custom { function, args } => Self::Custom(
                Box::new(Call::new(function)),
                args.iter().map(node).collect::<Result<_, _>>()?,
            ),
        };
        Ok(prepared)
    }

    fn case(
        branches: &[(Expr, Expr)],
        otherwise: Option<&Expr>,
        parameters: &[Scalar],
    ) -> Result<Self, EvalError> {
        let branches = branches.iter().map(|(when, then)| {
            let when = Self::new(when, parameters)?;
            Ok((when, Self::new(then, parameters)?))
        });
        let otherwise = otherwise.map(|expr| Self::new(expr, parameters));
        Ok(Self::Case {
            branches: branches.collect::<Result<_, EvalError>>()?,
            otherwise: otherwise.transpose()?.map(Box::new),
        })
    }

    /// Evaluates the expression. Only what the result depends on is evaluated, so a branch that is
    /// not taken does not raise.
    pub(crate) fn evaluate<'v>(&'v self, row: Row<'_, 'v>) -> Result<Value<'v>, EvalError> {
        match self {
            Self::Column(index) => Ok(row.get(*index)),
            Self::Constant(scalar) => Ok(Value::of_scalar(scalar)),
            Self::Arithmetic(parts) => {
                let (kernel, left, right) = parts.as_ref();
                kernel.apply(left.evaluate(row)?, right.evaluate(row)?)
            }
            Self::Compare(op, sides) => {
                let (left, right) = sides.as_ref();
                Ok(compare(*op, left.evaluate(row)?, right.evaluate(row)?))
            }
            Self::And(sides) => connect(sides, row, false),
            Self::Or(sides) => connect(sides, row, true),
            Self::Not(inner) => Ok(match inner.evaluate(row)? {
                Value::Boolean(value) => Value::Boolean(!value),
                _ => Value::Null,
            }),
            Self::Negate(data_type, inner) => negate(inner.evaluate(row)?, data_type),
            Self::IsNull { inner, negated } => {
                Ok(Value::Boolean(inner.evaluate(row)?.is_null() != *negated))
            }
            Self::Case {
                branches,
                otherwise,
            } => {
                for (when, then) in branches {
                    if when.evaluate(row)?.is_true() {
                        return then.evaluate(row);
                    }
                }
                match otherwise {
                    Some(otherwise) => otherwise.evaluate(row),
                    None => Ok(Value::Null),
                }
            }
            Self::InList {
                needle,
                list,
                negated,
            } => in_list(needle.evaluate(row)?, list, *negated, row),
            Self::Cast(parts) => {
                let (cast, inner) = parts.as_ref();
                cast.apply(inner.evaluate(row)?)
            }
            Self::DatePart(part, calendar, inner) => Ok(match inner.evaluate(row)? {
                Value::Int(value) => calendar.part(*part, value),
                _ => Value::Null,
            }),
            Self::Like {
                text,
                pattern,
                negated,
            } => match text.evaluate(row)? {
                Value::Utf8(text) => {
                    let matched = pattern.matches(text, row)?;
                    Ok(matched.map_or(Value::Null, |found| Value::Boolean(found != *negated)))
                }
                _ => Ok(Value::Null),
            },
            Self::Substring {
                text,
                start,
                length,
            } => Ok(match text.evaluate(row)? {
                Value::Utf8(text) => Value::Utf8(substring(text, *start, *length)),
                _ => Value::Null,
            }),
            Self::Custom(call, args) => {
                let args = args.iter().map(|arg| arg.evaluate(row));
                call.apply(&args.collect::<Result<Vec<_>, _>>()?)
            }
        }
    }
}

/// Evaluates AND (`decisive` FALSE) or OR (`decisive` TRUE): the decisive value wins over NULL, and
/// on the left it spares the right.
fn connect<'v>(
    sides: &'v (Node, Node),
    row: Row<'_, 'v>,
    decisive: bool,
) -> Result<Value<'v>, EvalError> {
    let (left, right) = sides;
    let left = left.evaluate(row)?;
    if left == Value::Boolean(decisive) {
        return Ok(left);
    }
    let right = right.evaluate(row)?;
    if right == Value::Boolean(decisive) || !left.is_null() {
        return Ok(right);
    }
    Ok(Value::Null)
}

fn in_list<'v>(
    needle: Value<'v>,
    list: &'v [Node],
    negated: bool,
    row: Row<'_, 'v>,
) -> Result<Value<'v>, EvalError> {
    if needle.is_null() {
        return Ok(Value::Null);
    }
    let mut null_seen = false;
    for item in list {
        let item = item.evaluate(row)?;
        if item.is_null() {
            null_seen = true;
        } else if order(needle, item).is_eq() {
            return Ok(Value::Boolean(!negated));
        }
    }
    if null_seen {
        return Ok(Value::Null);
    }
    Ok(Value::Boolean(negated))
}

impl Pattern {
    fn new(pattern: Node, case_insensitive: bool) -> Self {
        if let Node::Constant(scalar) = &pattern {
            return match Value::of_scalar(scalar) {
                Value::Utf8(text) => Self::Fixed(LikePattern::new(text, case_insensitive)),
                _ => Self::Null,
            };
        }
        Self::Varying {
            pattern: Box::new(pattern),
            case_insensitive,
        }
    }

    /// Returns whether the text matches; `None` if the pattern is NULL.
    fn matches<'v>(&'v self, text: &str, row: Row<'_, 'v>) -> Result<Option<bool>, EvalError> {
        match self {
            Self::Fixed(pattern) => Ok(Some(pattern.matches(text))),
            Self::Null => Ok(None),
            Self::Varying {
                pattern,
                case_insensitive,
            } => Ok(match pattern.evaluate(row)? {
                Value::Utf8(pattern) => {
                    Some(LikePattern::new(pattern, *case_insensitive).matches(text))
                }
                _ => None,
            }),
        }
    }
}

/// Returns the characters from `start`, counted from 1, at most `length` of them. Positions before
/// the first character count towards the length.
fn substring(text: &str, start: i64, length: Option<i64>) -> &str {
    let begin = start.saturating_sub(1);
    let end = length.map(|length| begin.saturating_add(length));
    let offset_of = |position: i64| match usize::try_from(position) {
        Ok(position) => text
            .char_indices()
            .nth(position)
            .map_or(text.len(), |(offset, _)| offset),
        Err(_) => 0,
    };
    let from = offset_of(begin);
    let to = end.map_or(text.len(), offset_of);
    text.get(from..to.max(from)).unwrap_or("")
}

#[cfg(test)]
mod tests;
