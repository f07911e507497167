//! A pipeline on one line, for plans, logs and error messages.
//!
//! `filter l_shipdate <= 1998-09-02 → group by l_returnflag: sum(l_quantity), count(*) [state]`.
//! Parameters are shown as the literals that they were, columns by the names of the step's input,
//! and parentheses only where the tree would read differently without them.

mod scalar;

use std::fmt;

use arrow_schema::Schema;

use crate::catalogue::{Function, Options};
use crate::expr::{ArithmeticOp, CastFailure, CompareOp, DatePart, Expr, ExprKind};
use crate::pipeline::{
    Aggregate, AggregateCall, AggregateFunction, AggregateOutput, NamedExpr, Pipeline, Sort, Step,
};
use crate::scalar::Scalar;

impl fmt::Display for ArithmeticOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
        })
    }
}

impl fmt::Display for CompareOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Eq => "=",
            Self::NotEq => "<>",
            Self::Lt => "<",
            Self::LtEq => "<=",
            Self::Gt => ">",
            Self::GtEq => ">=",
            Self::IsDistinctFrom => "is distinct from",
            Self::IsNotDistinctFrom => "is not distinct from",
        })
    }
}

impl fmt::Display for DatePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Year => "year",
            Self::Quarter => "quarter",
            Self::Month => "month",
            Self::Week => "week",
            Self::Day => "day",
            Self::DayOfYear => "doy",
            Self::DayOfWeek => "dow",
            Self::Hour => "hour",
            Self::Minute => "minute",
            Self::Second => "second",
            Self::Epoch => "epoch",
            Self::IsoYear => "isoyear",
            Self::IsoDayOfWeek => "isodow",
            Self::Millisecond => "millisecond",
            Self::Microsecond => "microsecond",
            Self::Nanosecond => "nanosecond",
        })
    }
}

impl fmt::Display for AggregateFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Count => "count",
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
            Self::VarPop => "var_pop",
            Self::VarSamp => "var_samp",
            Self::StddevPop => "stddev_pop",
            Self::StddevSamp => "stddev_samp",
            Self::Named(named) => named.entry().name,
        })
    }
}

impl Expr {
    /// Shows the expression with the column names of `input` and the literals of `parameters`.
    /// A column or parameter that is not there is shown by its index, `#3` or `$3`.
    pub fn display<'a>(
        &'a self,
        input: &'a Schema,
        parameters: &'a [Scalar],
    ) -> impl fmt::Display + 'a {
        Shown {
            expr: self,
            names: Names { input, parameters },
        }
    }
}

/// What indexes stand for.
#[derive(Clone, Copy)]
struct Names<'a> {
    input: &'a Schema,
    parameters: &'a [Scalar],
}

impl<'a> Names<'a> {
    fn show(self, expr: &'a Expr) -> Shown<'a> {
        Shown { expr, names: self }
    }
}

/// An expression with its names.
struct Shown<'a> {
    expr: &'a Expr,
    names: Names<'a>,
}

/// How tightly an operator between two operands binds, and how it is written.
fn infix(function: Function) -> Option<(u8, &'static str)> {
    Some(match function.entry().name {
        "or" => (1, "or"),
        "and" => (2, "and"),
        "equal" => (COMPARISON, "="),
        "not_equal" => (COMPARISON, "<>"),
        "less" => (COMPARISON, "<"),
        "less_or_equal" => (COMPARISON, "<="),
        "greater" => (COMPARISON, ">"),
        "greater_or_equal" => (COMPARISON, ">="),
        "is_distinct_from" => (COMPARISON, "is distinct from"),
        "is_not_distinct_from" => (COMPARISON, "is not distinct from"),
        "add" => (5, "+"),
        "subtract" => (5, "-"),
        "multiply" => (6, "*"),
        "divide" => (6, "/"),
        "modulo" => (6, "%"),
        _ => return None,
    })
}

/// How tightly comparisons bind.
const COMPARISON: u8 = 4;

/// How tightly an expression binds; an operand that binds less tightly needs parentheses.
fn precedence(expr: &Expr) -> u8 {
    let ExprKind::Call { function, .. } = &expr.kind else {
        return 8;
    };
    match (infix(*function), function.entry().name) {
        (Some((precedence, _)), _) => precedence,
        (None, "not") => 3,
        (None, "is_null" | "is_not_null" | "in" | "like") => COMPARISON,
        (None, "negate") => 7,
        (None, _) => 8,
    }
}

impl Shown<'_> {
    /// Writes an operand, in parentheses if it binds less tightly than `least`.
    fn operand(&self, f: &mut fmt::Formatter<'_>, operand: &Expr, least: u8) -> fmt::Result {
        let shown = self.names.show(operand);
        if precedence(operand) < least {
            write!(f, "({shown})")
        } else {
            write!(f, "{shown}")
        }
    }

    fn all(&self, f: &mut fmt::Formatter<'_>, items: &[Expr]) -> fmt::Result {
        separated(f, items, |f, item| write!(f, "{}", self.names.show(item)))
    }

    /// Writes a call, or an operator with its operands.
    fn call(
        &self,
        f: &mut fmt::Formatter<'_>,
        function: Function,
        options: &Options,
        arguments: &[Expr],
    ) -> fmt::Result {
        if let (Some((own, op)), [left, right]) = (infix(function), arguments) {
            // Comparisons do not chain; the right operand of what goes from left to right binds tighter.
            self.operand(f, left, own + u8::from(own == COMPARISON))?;
            write!(f, " {op} ")?;
            return self.operand(f, right, own + u8::from(own >= COMPARISON));
        }
        match (function.entry().name, options, arguments) {
            ("not", _, [inner]) => {
                f.write_str("not ")?;
                self.operand(f, inner, 3)
            }
            ("negate", _, [inner]) => {
                f.write_str("-")?;
                self.operand(f, inner, 8)
            }
            ("is_null", _, [inner]) => {
                self.operand(f, inner, 5)?;
                f.write_str(" is null")
            }
            ("is_not_null", _, [inner]) => {
                self.operand(f, inner, 5)?;
                f.write_str(" is not null")
            }
            ("case", _, _) => self.case(f, arguments),
            ("in", Options::Negated(negated), [needle, list @ ..]) => {
                self.operand(f, needle, 5)?;
                f.write_str(if *negated { " not in (" } else { " in (" })?;
                self.all(f, list)?;
                f.write_str(")")
            }
            ("cast", Options::OnFailure(on_failure), [inner]) => {
                let name = match on_failure {
                    CastFailure::Raise => "cast",
                    CastFailure::Null => "try_cast",
                };
                let (inner, to) = (self.names.show(inner), &self.expr.data_type);
                write!(f, "{name}({inner} as {to})")
            }
            ("date_part", Options::Part(part), [inner]) => {
                write!(f, "date_part('{part}', {})", self.names.show(inner))
            }
            (
                "like",
                Options::Like {
                    negated,
                    case_insensitive,
                },
                [text, pattern],
            ) => {
                self.operand(f, text, 5)?;
                let name = if *case_insensitive { "ilike" } else { "like" };
                write!(f, " {}{name} ", if *negated { "not " } else { "" })?;
                self.operand(f, pattern, 5)
            }
            ("substr", Options::Substring { start, length }, [inner]) => {
                let length = length.map_or(String::new(), |length| format!(", {length}"));
                write!(f, "substr({}, {start}{length})", self.names.show(inner))
            }
            (_, Options::Custom(custom), _) => {
                write!(f, "{}(", custom.name)?;
                self.all(f, arguments)?;
                f.write_str(")")
            }
            (_, Options::Constants(constants), _) => {
                self.call_with(f, function, constants, arguments)
            }
            _ => self.call_with(f, function, &[], arguments),
        }
    }

    /// Writes a call with its constants in their places.
    fn call_with(
        &self,
        f: &mut fmt::Formatter<'_>,
        function: Function,
        constants: &[Scalar],
        arguments: &[Expr],
    ) -> fmt::Result {
        write!(f, "{function}(")?;
        let num = constants.len() + arguments.len();
        let (mut constants, mut arguments) = (constants.iter(), arguments.iter());
        for place in 0..num {
            if place > 0 {
                f.write_str(", ")?;
            }
            let constant = match function.entry().constants.contains(&place) {
                true => constants.next(),
                false => None,
            };
            match (
                constant,
                constant.is_none().then(|| arguments.next()).flatten(),
            ) {
                (Some(constant), _) => write!(f, "{constant}")?,
                (None, Some(argument)) => write!(f, "{}", self.names.show(argument))?,
                (None, None) => {}
            }
        }
        f.write_str(")")
    }

    fn case(&self, f: &mut fmt::Formatter<'_>, arguments: &[Expr]) -> fmt::Result {
        let (branches, otherwise) = arguments.as_chunks::<2>();
        f.write_str("case")?;
        for [when, then] in branches {
            let (when, then) = (self.names.show(when), self.names.show(then));
            write!(f, " when {when} then {then}")?;
        }
        if let [otherwise] = otherwise {
            write!(f, " else {}", self.names.show(otherwise))?;
        }
        f.write_str(" end")
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.expr.kind {
            ExprKind::Column(index) => match self.names.input.fields().get(*index) {
                Some(field) => f.write_str(field.name()),
                None => write!(f, "#{index}"),
            },
            ExprKind::Parameter(index) => match self.names.parameters.get(*index) {
                Some(parameter) => write!(f, "{parameter}"),
                None => write!(f, "${index}"),
            },
            ExprKind::Call {
                function,
                options,
                arguments,
            } => self.call(f, *function, options, arguments),
        }
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.steps.is_empty() {
            return f.write_str("pass");
        }
        let mut input = self.input.as_ref().clone();
        for (index, step) in self.steps.iter().enumerate() {
            if index > 0 {
                f.write_str(" → ")?;
            }
            let names = Names {
                input: &input,
                parameters: &self.parameters,
            };
            write_step(f, step, names)?;
            input = step.output_schema(&input);
        }
        Ok(())
    }
}

fn write_step(f: &mut fmt::Formatter<'_>, step: &Step, names: Names<'_>) -> fmt::Result {
    match step {
        Step::Filter(predicate) => write!(f, "filter {}", names.show(predicate)),
        Step::Project(columns) => {
            f.write_str("project ")?;
            separated(f, columns, |f, column| write_named(f, column, names))
        }
        Step::Aggregate(aggregate) => write_aggregate(f, aggregate, names),
        Step::Sort(sort) => write_sort(f, sort, names),
    }
}

/// Writes the items with commas between them.
fn separated<T>(
    f: &mut fmt::Formatter<'_>,
    items: &[T],
    mut write: impl FnMut(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        write(f, item)?;
    }
    Ok(())
}

/// Writes an expression, and its name where that is not how it reads anyway.
fn write_named(f: &mut fmt::Formatter<'_>, column: &NamedExpr, names: Names<'_>) -> fmt::Result {
    let shown = names.show(&column.expr).to_string();
    f.write_str(&shown)?;
    if shown != column.name {
        write!(f, " as {}", column.name)?;
    }
    Ok(())
}

fn write_aggregate(
    f: &mut fmt::Formatter<'_>,
    aggregate: &Aggregate,
    names: Names<'_>,
) -> fmt::Result {
    if aggregate.keys.is_empty() {
        f.write_str("aggregate")?;
    } else {
        f.write_str("group by ")?;
        separated(f, &aggregate.keys, |f, key| write_named(f, key, names))?;
    }
    if !aggregate.calls.is_empty() {
        f.write_str(if aggregate.keys.is_empty() { " " } else { ": " })?;
        separated(f, &aggregate.calls, |f, call| write_call(f, call, names))?;
    }
    match aggregate.output {
        AggregateOutput::State => f.write_str(" [state]"),
        AggregateOutput::Value => Ok(()),
    }
}

fn write_call(f: &mut fmt::Formatter<'_>, call: &AggregateCall, names: Names<'_>) -> fmt::Result {
    match &call.argument {
        Some(argument) => {
            write!(f, "{}({}", call.function, names.show(argument))?;
            for argument in &call.more {
                write!(f, ", {}", names.show(argument))?;
            }
            f.write_str(")")?;
        }
        None => write!(f, "{}(*)", call.function)?,
    }
    match &call.filter {
        Some(filter) => write!(f, " filter (where {})", names.show(filter)),
        None => Ok(()),
    }
}

fn write_sort(f: &mut fmt::Formatter<'_>, sort: &Sort, names: Names<'_>) -> fmt::Result {
    f.write_str("sort by ")?;
    separated(f, &sort.keys, |f, key| {
        let direction = if key.descending { " desc" } else { "" };
        let nulls = if key.nulls_first { "first" } else { "last" };
        write!(f, "{}{direction} nulls {nulls}", names.show(&key.expr))
    })?;
    match sort.fetch {
        Some(fetch) => write!(f, " fetch {fetch}"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
