//! Physical expressions to IR expressions.
//!
//! DataFusion has coerced every operand by the time a physical expression exists, so each construct
//! maps to one constructor, and the constructor's type rule has the last word. Literals become
//! parameters; an expression without columns whose value comes later (a scalar subquery) becomes a
//! parameter that is bound when the plan runs.

use std::any::Any;
use std::collections::HashMap;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::compute::kernels::cast_utils::IntervalUnit;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::ScalarValue;
use datafusion::functions::datetime::date_part::DatePartFunc;
use datafusion::functions::unicode::substr::SubstrFunc;
use datafusion::logical_expr::{Operator, ScalarUDF};
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr,
    Literal, NegativeExpr, NotExpr, TryCastExpr,
};
use datafusion::physical_expr::scalar_subquery::ScalarSubqueryExpr;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, split_conjunction};
use tidegate_pipeline::catalogue::Function;
use tidegate_pipeline::{
    ArithmeticOp, CastFailure, CompareOp, DatePart, Expr, Scalar, ScalarValue as IrValue,
};

use super::{Binding, Reasons, parameter};
use crate::floats::canonical;
use crate::functions::beside_texts;
use crate::functions::bounded;
use crate::functions::custom::RustFunction;
use crate::functions::times;
use crate::rewrite::lazy_logic::LazyLogic;

/// Lowers expressions of one pipeline, gathering its parameters and whatever could not be said.
#[derive(Debug, Default)]
pub(crate) struct ExprLowering {
    pub(crate) parameters: Vec<Scalar>,
    pub(crate) bindings: Vec<Binding>,
    pub(crate) reasons: Reasons,
}

impl ExprLowering {
    /// Lowers `expr` over rows of `input`. `None` means that a reason was noted.
    pub(crate) fn lower(&mut self, expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> Option<Expr> {
        if parameter::is_late(expr) {
            return self.late(expr, input);
        }
        if let Some(column) = expr.downcast_ref::<Column>() {
            let data_type = input.field(column.index()).data_type().clone();
            return self.reasons.keep(Expr::column(column.index(), data_type));
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            return self.literal(literal.value());
        }
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            return self.binary(binary, expr, input);
        }
        if let Some(logic) = expr.downcast_ref::<LazyLogic>() {
            // Programs go from left to right anyway.
            let left = self.lower(logic.left(), input);
            let right = self.lower(logic.right(), input);
            return self.reasons.keep(match logic.op() {
                Operator::Or => Expr::or(left?, right?),
                _ => Expr::and(left?, right?),
            });
        }
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            let inner = self.lower(cast.expr(), input)?;
            let failure = if cast.cast_options().safe {
                CastFailure::Null
            } else {
                CastFailure::Raise
            };
            return self
                .reasons
                .keep(Expr::cast(inner, cast.cast_type().clone(), failure));
        }
        if let Some(cast) = expr.downcast_ref::<TryCastExpr>() {
            let inner = self.lower(cast.expr(), input)?;
            let target = cast.cast_type().clone();
            return self
                .reasons
                .keep(Expr::cast(inner, target, CastFailure::Null));
        }
        if let Some(not) = expr.downcast_ref::<NotExpr>() {
            let inner = self.lower(not.arg(), input)?;
            return self.reasons.keep(Expr::not(inner));
        }
        if let Some(is_null) = expr.downcast_ref::<IsNullExpr>() {
            let inner = self.lower(is_null.arg(), input)?;
            return self.reasons.keep(Expr::is_null(inner));
        }
        if let Some(is_not_null) = expr.downcast_ref::<IsNotNullExpr>() {
            let inner = self.lower(is_not_null.arg(), input)?;
            return self.reasons.keep(Expr::is_not_null(inner));
        }
        if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
            let inner = self.lower(negative.arg(), input)?;
            return self.reasons.keep(Expr::negate(inner));
        }
        if let Some(case) = expr.downcast_ref::<CaseExpr>() {
            return self.case(case, expr, input);
        }
        if let Some(in_list) = expr.downcast_ref::<InListExpr>() {
            let needle = self.lower_operand(in_list.expr(), input);
            let items = in_list.list().iter();
            let list: Vec<Option<Expr>> =
                items.map(|item| self.lower_operand(item, input)).collect();
            let list = list.into_iter().collect::<Option<_>>()?;
            return self
                .reasons
                .keep(Expr::in_list(needle?, list, in_list.negated()));
        }
        if let Some(like) = expr.downcast_ref::<LikeExpr>() {
            let text = self.lower(like.expr(), input);
            let pattern = self.lower(like.pattern(), input);
            let (negated, insensitive) = (like.negated(), like.case_insensitive());
            return self
                .reasons
                .keep(Expr::like(text?, pattern?, negated, insensitive));
        }
        if let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() {
            return self.function(function, input);
        }
        if expr.is::<ScalarSubqueryExpr>() {
            return self.late(expr, input);
        }
        self.reasons.push(format!("expression {expr}"));
        None
    }

    /// Lowers an operand of a comparison, a group key, a sort key or what an extreme is taken of: in
    /// their places one NaN and one zero are the pipeline's own rule.
    pub(crate) fn lower_operand(
        &mut self,
        expr: &Arc<dyn PhysicalExpr>,
        input: &Schema,
    ) -> Option<Expr> {
        self.lower(canonical::argument(expr).unwrap_or(expr), input)
    }

    /// Lowers `canonical(argument)` where its value is seen: the first value that equals it.
    fn canonical(&mut self, argument: &Arc<dyn PhysicalExpr>, input: &Schema) -> Option<Expr> {
        let value = self.lower(argument, input)?;
        let data_type = value.data_type.clone();
        let mut branches = Vec::new();
        for constant in [0.0, f64::NAN] {
            let same = self.parameter(Scalar {
                data_type: data_type.clone(),
                value: IrValue::Float(constant),
            })?;
            let equal = Expr::compare(CompareOp::Eq, value.clone(), same.clone());
            branches.push((self.reasons.keep(equal)?, same));
        }
        self.reasons
            .keep(Expr::case(branches, Some(value), data_type))
    }

    fn all(&mut self, exprs: &[Arc<dyn PhysicalExpr>], input: &Schema) -> Option<Vec<Expr>> {
        // Every one is lowered before the first failure counts: all reasons, not the first.
        let lowered: Vec<Option<Expr>> = exprs.iter().map(|expr| self.lower(expr, input)).collect();
        lowered.into_iter().collect()
    }

    fn parameter(&mut self, scalar: Scalar) -> Option<Expr> {
        let data_type = scalar.data_type.clone();
        let lowered = self
            .reasons
            .keep(Expr::parameter(self.parameters.len(), data_type))?;
        self.parameters.push(scalar);
        Some(lowered)
    }

    fn literal(&mut self, value: &ScalarValue) -> Option<Expr> {
        match scalar(value) {
            Some(scalar) => self.parameter(scalar),
            None => {
                self.reasons
                    .push(format!("literal of type {}", value.data_type()));
                None
            }
        }
    }

    fn late(&mut self, expr: &Arc<dyn PhysicalExpr>, input: &Schema) -> Option<Expr> {
        let data_type = expr.data_type(input).ok()?;
        let parameter = self.parameters.len();
        let lowered = self.parameter(Scalar {
            data_type,
            value: IrValue::Null,
        })?;
        self.bindings.push(Binding {
            parameter,
            expr: Arc::clone(expr),
        });
        Some(lowered)
    }

    fn binary(
        &mut self,
        binary: &BinaryExpr,
        expr: &Arc<dyn PhysicalExpr>,
        input: &Schema,
    ) -> Option<Expr> {
        let op = binary.op();
        if let Some(compare) = compare_op(op) {
            let left = self.lower_operand(binary.left(), input);
            let right = self.lower_operand(binary.right(), input);
            return self.reasons.keep(Expr::compare(compare, left?, right?));
        }
        if *op == Operator::And
            && let Some(conjuncts) = without_guards(expr)
        {
            let lowered: Vec<Option<Expr>> = conjuncts
                .iter()
                .map(|conjunct| self.lower(conjunct, input))
                .collect();
            let mut conjuncts = lowered.into_iter().collect::<Option<Vec<_>>>()?.into_iter();
            let first = conjuncts.next()?;
            return conjuncts.try_fold(first, |all, next| self.reasons.keep(Expr::and(all, next)));
        }
        let left = self.lower(binary.left(), input);
        let right = self.lower(binary.right(), input);
        if let Some(arithmetic) = arithmetic_op(op) {
            let data_type = expr.data_type(input).ok()?;
            return self
                .reasons
                .keep(Expr::arithmetic(arithmetic, left?, right?, data_type));
        }
        match op {
            Operator::And => self.reasons.keep(Expr::and(left?, right?)),
            Operator::Or => self.reasons.keep(Expr::or(left?, right?)),
            Operator::LikeMatch => self.reasons.keep(Expr::like(left?, right?, false, false)),
            Operator::NotLikeMatch => self.reasons.keep(Expr::like(left?, right?, true, false)),
            Operator::ILikeMatch => self.reasons.keep(Expr::like(left?, right?, false, true)),
            Operator::NotILikeMatch => self.reasons.keep(Expr::like(left?, right?, true, true)),
            _ => {
                self.reasons.push(format!("operator {op}"));
                None
            }
        }
    }

    fn case(
        &mut self,
        case: &CaseExpr,
        expr: &Arc<dyn PhysicalExpr>,
        input: &Schema,
    ) -> Option<Expr> {
        let operand = match case.expr() {
            Some(operand) => Some(self.lower_operand(operand, input)?),
            None => None,
        };
        let mut branches = Vec::new();
        for (when, then) in case.when_then_expr() {
            let when = match &operand {
                Some(_) => self.lower_operand(when, input),
                None => self.lower(when, input),
            };
            let then = self.lower(then, input);
            let condition = match &operand {
                Some(operand) => {
                    self.reasons
                        .keep(Expr::compare(CompareOp::Eq, operand.clone(), when?))
                }
                None => when,
            };
            branches.push((condition?, then?));
        }
        let otherwise = match case.else_expr() {
            Some(otherwise) => Some(self.lower(otherwise, input)?),
            None => None,
        };
        let data_type = expr.data_type(input).ok()?;
        self.reasons
            .keep(Expr::case(branches, otherwise, data_type))
    }

    fn function(&mut self, function: &ScalarFunctionExpr, input: &Schema) -> Option<Expr> {
        let implementation = function.fun().inner();
        let args = function.args();
        if implementation.is::<DatePartFunc>()
            && let [part, date] = args
        {
            let date = self.lower(date, input);
            let Some(part) = literal_text(part).and_then(date_part) else {
                self.reasons.push("date_part of this field");
                return None;
            };
            return self.reasons.keep(Expr::date_part(part, date?));
        }
        if implementation.is::<SubstrFunc>()
            && let [text, start, rest @ ..] = args
            && let Some(start) = literal_int(start)
        {
            let length = rest.first().map(literal_int);
            if length != Some(None) {
                let text = self.lower(text, input)?;
                let data_type = function.return_type().clone();
                let length = length.flatten();
                return self
                    .reasons
                    .keep(Expr::substring(text, start, length, data_type));
            }
        }
        if let [argument] = args
            && canonical::is(function)
        {
            return self.canonical(argument, input);
        }
        if let Some(users) = RustFunction::of(function.fun()) {
            return match users.of_device() {
                Ok(of_device) => {
                    let args = self.all(args, input)?;
                    self.reasons.keep(Expr::custom(Arc::clone(of_device), args))
                }
                Err(why) => {
                    self.reasons.push(why);
                    None
                }
            };
        }
        if let Some(known) = catalogued(function.fun()) {
            return self.call(known, function, input);
        }
        self.reasons.push(format!("function {}", function.name()));
        None
    }

    /// Lowers a call of a function of the catalogue.
    fn call(&mut self, known: Function, call: &ScalarFunctionExpr, input: &Schema) -> Option<Expr> {
        let (mut constants, mut arguments) = (Vec::new(), Vec::new());
        for (place, argument) in call.args().iter().enumerate() {
            if !known.entry().constants.contains(&place) {
                arguments.push(self.lower(argument, input));
                continue;
            }
            let literal = argument.downcast_ref::<Literal>();
            match literal.and_then(|literal| scalar(literal.value())) {
                Some(constant) => constants.push(constant),
                None => {
                    let place = place + 1;
                    self.reasons
                        .push(format!("{known} whose argument {place} is no literal"));
                    return None;
                }
            }
        }
        let arguments = arguments.into_iter().collect::<Option<_>>()?;
        let gives = call.return_type().clone();
        self.reasons
            .keep(Expr::call(known, constants, arguments, gives))
    }
}

/// Returns the function of the catalogue that stands for one of DataFusion's, which is told by its
/// implementation: anybody may register another one by its name.
fn catalogued(function: &ScalarUDF) -> Option<Function> {
    static DEFAULTS: LazyLock<HashMap<String, Arc<ScalarUDF>>> = LazyLock::new(|| {
        let functions = datafusion::functions::all_default_functions().into_iter();
        functions
            .map(|function| (function.name().to_owned(), function))
            .collect()
    });
    let function = beside_texts::within(times::within(bounded::within(function)));
    let known = Function::of_datafusion(function.name())?;
    let own = DEFAULTS.get(function.name())?;
    // A session's time zone is in some of them.
    let implementation = |function: &ScalarUDF| (function.inner().as_ref() as &dyn Any).type_id();
    (implementation(own) == implementation(function)).then_some(known)
}

/// Returns the conjuncts without those that also stand in canonical form, and are there to prune
/// files; `None` if there are none.
fn without_guards(conjunction: &Arc<dyn PhysicalExpr>) -> Option<Vec<&Arc<dyn PhysicalExpr>>> {
    let conjuncts = split_conjunction(conjunction);
    let decided: Vec<Arc<dyn PhysicalExpr>> = conjuncts
        .iter()
        .filter_map(|conjunct| canonical::without(conjunct))
        .collect();
    let kept: Vec<_> = conjuncts
        .iter()
        .copied()
        .filter(|conjunct| !decided.contains(conjunct))
        .collect();
    (kept.len() < conjuncts.len()).then_some(kept)
}

fn compare_op(op: &Operator) -> Option<CompareOp> {
    Some(match op {
        Operator::Eq => CompareOp::Eq,
        Operator::NotEq => CompareOp::NotEq,
        Operator::Lt => CompareOp::Lt,
        Operator::LtEq => CompareOp::LtEq,
        Operator::Gt => CompareOp::Gt,
        Operator::GtEq => CompareOp::GtEq,
        Operator::IsDistinctFrom => CompareOp::IsDistinctFrom,
        Operator::IsNotDistinctFrom => CompareOp::IsNotDistinctFrom,
        _ => return None,
    })
}

fn arithmetic_op(op: &Operator) -> Option<ArithmeticOp> {
    Some(match op {
        Operator::Plus => ArithmeticOp::Add,
        Operator::Minus => ArithmeticOp::Subtract,
        Operator::Multiply => ArithmeticOp::Multiply,
        Operator::Divide => ArithmeticOp::Divide,
        Operator::Modulo => ArithmeticOp::Modulo,
        _ => return None,
    })
}

/// Returns the field that a name stands for, as DataFusion reads it.
fn date_part(name: String) -> Option<DatePart> {
    let unquoted = ['\'', '"'].into_iter();
    let quote = |c: char| unquoted.clone().any(|quote| quote == c);
    let inner = name.strip_prefix(quote);
    let name = inner
        .and_then(|name| name.strip_suffix(quote))
        .unwrap_or(&name);
    Some(match IntervalUnit::from_str(name) {
        Ok(IntervalUnit::Year) => DatePart::Year,
        Ok(IntervalUnit::Month) => DatePart::Month,
        Ok(IntervalUnit::Week) => DatePart::Week,
        Ok(IntervalUnit::Day) => DatePart::Day,
        Ok(IntervalUnit::Hour) => DatePart::Hour,
        Ok(IntervalUnit::Minute) => DatePart::Minute,
        Ok(IntervalUnit::Second) => DatePart::Second,
        Ok(IntervalUnit::Millisecond) => DatePart::Millisecond,
        Ok(IntervalUnit::Microsecond) => DatePart::Microsecond,
        Ok(IntervalUnit::Nanosecond) => DatePart::Nanosecond,
        Ok(_) => return None,
        Err(_) => match name.to_lowercase().as_str() {
            "isoyear" => DatePart::IsoYear,
            "qtr" | "quarter" => DatePart::Quarter,
            "doy" => DatePart::DayOfYear,
            "dow" => DatePart::DayOfWeek,
            "isodow" => DatePart::IsoDayOfWeek,
            "epoch" => DatePart::Epoch,
            _ => return None,
        },
    })
}

fn literal_text(expr: &Arc<dyn PhysicalExpr>) -> Option<String> {
    match scalar(expr.downcast_ref::<Literal>()?.value())?.value {
        IrValue::Utf8(text) => Some(text.to_string()),
        _ => None,
    }
}

fn literal_int(expr: &Arc<dyn PhysicalExpr>) -> Option<i64> {
    match scalar(expr.downcast_ref::<Literal>()?.value())?.value {
        IrValue::Int(number) => Some(number),
        _ => None,
    }
}

/// Converts a DataFusion scalar; `None` for types that the IR does not have.
pub(crate) fn scalar(value: &ScalarValue) -> Option<Scalar> {
    let data_type = value.data_type();
    if let ScalarValue::Dictionary(_, inner) = value {
        return scalar(inner).map(|inner| Scalar {
            data_type,
            value: inner.value,
        });
    }
    if value.is_null() {
        let known = !matches!(data_type, DataType::Null);
        return known.then_some(Scalar {
            data_type,
            value: IrValue::Null,
        });
    }
    let int = |number: i64| Some(IrValue::Int(number));
    let value = match value {
        ScalarValue::Boolean(v) => v.map(IrValue::Boolean),
        ScalarValue::Int8(v) => v.and_then(|v| int(v.into())),
        ScalarValue::Int16(v) => v.and_then(|v| int(v.into())),
        ScalarValue::Int32(v) | ScalarValue::Date32(v) => v.and_then(|v| int(v.into())),
        ScalarValue::Time32Second(v) | ScalarValue::Time32Millisecond(v) => {
            v.and_then(|v| int(v.into()))
        }
        ScalarValue::Int64(v)
        | ScalarValue::Date64(v)
        | ScalarValue::Time64Microsecond(v)
        | ScalarValue::Time64Nanosecond(v)
        | ScalarValue::TimestampSecond(v, _)
        | ScalarValue::TimestampMillisecond(v, _)
        | ScalarValue::TimestampMicrosecond(v, _)
        | ScalarValue::TimestampNanosecond(v, _)
        | ScalarValue::DurationSecond(v)
        | ScalarValue::DurationMillisecond(v)
        | ScalarValue::DurationMicrosecond(v)
        | ScalarValue::DurationNanosecond(v) => v.and_then(int),
        ScalarValue::UInt8(v) => v.map(|v| IrValue::UInt(v.into())),
        ScalarValue::UInt16(v) => v.map(|v| IrValue::UInt(v.into())),
        ScalarValue::UInt32(v) => v.map(|v| IrValue::UInt(v.into())),
        ScalarValue::UInt64(v) => v.map(IrValue::UInt),
        ScalarValue::Float32(v) => v.map(|v| IrValue::Float(v.into())),
        ScalarValue::Float64(v) => v.map(IrValue::Float),
        ScalarValue::Decimal32(v, ..) => v.map(|v| IrValue::Decimal(v.into())),
        ScalarValue::Decimal64(v, ..) => v.map(|v| IrValue::Decimal(v.into())),
        ScalarValue::Decimal128(v, ..) => v.map(IrValue::Decimal),
        ScalarValue::Utf8(v) | ScalarValue::LargeUtf8(v) | ScalarValue::Utf8View(v) => {
            v.as_deref().map(|v| IrValue::Utf8(v.into()))
        }
        ScalarValue::IntervalYearMonth(v) => v.map(|months| IrValue::Interval {
            months,
            days: 0,
            nanoseconds: 0,
        }),
        ScalarValue::IntervalDayTime(v) => v.map(|v| IrValue::Interval {
            months: 0,
            days: v.days,
            nanoseconds: i64::from(v.milliseconds) * 1_000_000,
        }),
        ScalarValue::IntervalMonthDayNano(v) => v.map(|v| IrValue::Interval {
            months: v.months,
            days: v.days,
            nanoseconds: v.nanoseconds,
        }),
        _ => None,
    };
    value.map(|value| Scalar { data_type, value })
}
