//! NULL in functions of lists, as in DuckDB: lists are sorted with NULLs last, NULL is no distinct value and in no
//! intersection, `list_has_any` and `list_has_all` leave it out of what they look for, and to `list_concat` a list that is
//! NULL is an empty one. `a || b` of lists is NULL if either is, which is a function of its own.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, GenericListArray, OffsetSizeTrait,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::{filter, nullif};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::utils::list_ndims;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::functions_nested::concat::array_concat_udf;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExprSchemable, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, cast,
};
use sqlparser::ast::BinaryOperator;

use super::operators::Planned;

/// The function of `a || b`.
const OPERATOR: &str = "concat_lists";

/// Returns the functions, made of those that are registered.
///
/// # Errors
/// Those of a registry that has not the functions of DataFusion.
pub(super) fn functions(registry: &dyn FunctionRegistry) -> Result<Vec<ScalarUDF>> {
    let rules = [
        ("array_sort", Rule::SortsLast),
        ("array_distinct", Rule::LeavesOut),
        ("array_intersect", Rule::LeavesOut),
        ("array_has_any", Rule::LooksFor),
        ("array_has_all", Rule::LooksFor),
        ("array_concat", Rule::Empty),
    ];
    let mut functions = vec![operator()];
    for (name, rule) in rules {
        let of = registry.udf(name)?;
        functions.push(OfNulls { of, rule }.into());
    }
    Ok(functions)
}

fn operator() -> ScalarUDF {
    let of = array_concat_udf();
    let rule = Rule::Null;
    OfNulls { of, rule }.into()
}

/// Plans `||` of two lists, or of a list and NULL, before DataFusion takes NULL for a value of the list; and of two values of
/// which neither is a string, `1 || 2`, as text.
pub(crate) fn plan(mut expr: RawBinaryExpr, schema: &DFSchema) -> Planned {
    if expr.op != BinaryOperator::StringConcat {
        return Ok(PlannerResult::Original(expr));
    }
    // What has no type yet is no list.
    let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
        return Ok(PlannerResult::Original(expr));
    };
    let (depth, other) = (list_ndims(&left), list_ndims(&right));
    let are_lists = depth == other && depth > 0;
    if are_lists || (depth > 0 && right.is_null()) || (left.is_null() && other > 0) {
        let call = operator().call(vec![expr.left, expr.right]);
        return Ok(PlannerResult::Planned(call));
    }
    if has_text(&left) && has_text(&right) {
        expr.left = cast(expr.left, DataType::Utf8View);
    }
    Ok(PlannerResult::Original(expr))
}

/// Tells whether values of a type are no strings, and have a text.
fn has_text(data_type: &DataType) -> bool {
    data_type.is_numeric()
        || data_type.is_temporal()
        || matches!(data_type, DataType::Boolean | DataType::Null)
}

/// Plans `a && b` of lists, which is `array_has_any(a, b)`, as in PostgreSQL and DuckDB.
#[derive(Debug)]
pub(crate) struct ListOverlaps {
    has_any: Arc<ScalarUDF>,
}

impl ListOverlaps {
    /// Makes it of the function as it is registered.
    ///
    /// # Errors
    /// Those of a registry that has not the functions of DataFusion.
    pub(crate) fn new(registry: &dyn FunctionRegistry) -> Result<Self> {
        let has_any = registry.udf("array_has_any")?;
        Ok(Self { has_any })
    }
}

impl ExprPlanner for ListOverlaps {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let is_list =
            |operand: &Expr| matches!(operand.get_type(schema), Ok(of) if list_ndims(&of) > 0);
        if expr.op != BinaryOperator::PGOverlap || !is_list(&expr.left) || !is_list(&expr.right) {
            return Ok(PlannerResult::Original(expr));
        }
        let call = self.has_any.call(vec![expr.left, expr.right]);
        Ok(PlannerResult::Planned(call))
    }
}

/// What becomes of NULL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Rule {
    /// It is behind the other values.
    SortsLast,
    /// It is left out of the first list.
    LeavesOut,
    /// It is left out of the second list; nothing is known of a list that is NULL.
    LooksFor,
    /// A list that is NULL has no values.
    Empty,
    /// Nothing is known of a list that is NULL.
    Null,
}

/// A function of DataFusion's with another rule for NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfNulls {
    of: Arc<ScalarUDF>,
    rule: Rule,
}

impl ScalarUDFImpl for OfNulls {
    fn name(&self) -> &str {
        match self.rule {
            Rule::Null => OPERATOR,
            _ => self.of.name(),
        }
    }

    fn aliases(&self) -> &[String] {
        match self.rule {
            Rule::Null => &[],
            _ => self.of.aliases(),
        }
    }

    fn signature(&self) -> &Signature {
        self.of.signature()
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        self.of.inner().coerce_types(&as_lists(given))
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        self.of.return_type(given)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = &mut args.args;
        match self.rule {
            Rule::SortsLast => {
                for option in ["ASC", "NULLS LAST"].iter().skip(values.len() - 1) {
                    values.push(ScalarValue::from(*option).into());
                }
            }
            Rule::LeavesOut => values.iter_mut().take(1).try_for_each(leave_out)?,
            Rule::LooksFor => {
                let types: Vec<DataType> = values.iter().map(ColumnarValue::data_type).collect();
                for (value, of) in values.iter_mut().zip(as_lists(&types)) {
                    if value.data_type().is_null() {
                        *value = match of {
                            DataType::Null => return Ok(ScalarValue::Boolean(None).into()),
                            of => ScalarValue::try_new_null(&of)?.into(),
                        };
                    }
                }
                values.iter_mut().skip(1).try_for_each(leave_out)?;
            }
            Rule::Empty | Rule::Null => {}
        }
        if !matches!(self.rule, Rule::LooksFor | Rule::Null) {
            return self.of.inner().invoke_with_args(args);
        }
        let nulls = nulls_of(&args.args)?;
        let result = self.of.inner().invoke_with_args(args)?;
        match nulls {
            None => Ok(result),
            Some(nulls) => with_nulls(result, &nulls),
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        match self.rule {
            Rule::Null => None,
            _ => self.of.documentation(),
        }
    }
}

/// Gives NULL without a type that of a list beside it.
fn as_lists(given: &[DataType]) -> Vec<DataType> {
    let list = given.iter().find(|of| !of.is_null());
    let typed = given.iter().map(|of| match list {
        Some(list) if of.is_null() => list.clone(),
        _ => of.clone(),
    });
    typed.collect()
}

/// Returns where an argument is NULL; of constants alone there is one place. `None` if none is.
fn nulls_of(args: &[ColumnarValue]) -> Result<Option<NullBuffer>> {
    let arrays = ColumnarValue::values_to_arrays(args)?;
    let nulls = arrays
        .iter()
        .fold(None, |nulls: Option<NullBuffer>, array| {
            NullBuffer::union(nulls.as_ref(), array.logical_nulls().as_ref())
        });
    Ok(nulls.filter(|nulls| nulls.null_count() > 0))
}

fn with_nulls(result: ColumnarValue, nulls: &NullBuffer) -> Result<ColumnarValue> {
    match result {
        ColumnarValue::Scalar(value) => Ok(ScalarValue::try_new_null(&value.data_type())?.into()),
        ColumnarValue::Array(values) => {
            let is_null = BooleanArray::new(!nulls.inner(), None);
            Ok(ColumnarValue::Array(nullif(&values, &is_null)?))
        }
    }
}

/// Leaves NULLs out of lists.
fn leave_out(value: &mut ColumnarValue) -> Result<()> {
    *value = match &*value {
        ColumnarValue::Scalar(list) => {
            let lists = without_nulls(&list.to_array()?)?;
            ScalarValue::try_from_array(&lists, 0)?.into()
        }
        ColumnarValue::Array(lists) => ColumnarValue::Array(without_nulls(lists)?),
    };
    Ok(())
}

fn without_nulls(lists: &ArrayRef) -> Result<ArrayRef> {
    match lists.data_type() {
        DataType::List(_) => shortened(lists.as_list::<i32>()),
        DataType::LargeList(_) => shortened(lists.as_list::<i64>()),
        _ => Ok(Arc::clone(lists)),
    }
}

fn shortened<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> Result<ArrayRef> {
    let nulls = lists.values().logical_nulls();
    let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) else {
        return Ok(Arc::new(lists.clone()));
    };
    let offsets = lists.value_offsets();
    let (first, last) = match offsets {
        [first, .., last] => (first.as_usize(), last.as_usize()),
        _ => (0, 0),
    };
    let lengths = offsets.windows(2).map(|ends| {
        let (start, end) = (ends[0].as_usize(), ends[1].as_usize());
        end - start - nulls.slice(start, end - start).null_count()
    });
    let offsets = OffsetBuffer::<O>::from_lengths(lengths);
    let is_kept = BooleanArray::new(nulls.inner().slice(first, last - first), None);
    let values = filter(&lists.values().slice(first, last - first), &is_kept)?;
    let (DataType::List(field) | DataType::LargeList(field)) = lists.data_type() else {
        return Ok(Arc::new(lists.clone()));
    };
    Ok(Arc::new(GenericListArray::<O>::try_new(
        Arc::clone(field),
        offsets,
        values,
        lists.nulls().cloned(),
    )?))
}
