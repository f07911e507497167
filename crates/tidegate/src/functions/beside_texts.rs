//! `coalesce(d, '2024-01-01')` and `[DATE '2024-01-01', '2024-01-02']`: text beside times and truths takes their type, as in
//! CASE. DataFusion finds no type that they have in common.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::functions_nested::make_array::make_array_udf;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, cast,
};

use super::forwarded::methods_of;

/// Returns `coalesce`, made of the one that is registered.
///
/// # Errors
/// Those of a registry that has not the functions of DataFusion.
pub(super) fn coalesce(registry: &dyn FunctionRegistry) -> Result<ScalarUDF> {
    Ok(Coalesce(registry.udf("coalesce")?).into())
}

/// Returns DataFusion's function within this one, and any other as it is.
pub(crate) fn within(function: &ScalarUDF) -> &ScalarUDF {
    match function.inner().downcast_ref::<Coalesce>() {
        Some(Coalesce(inner)) => inner,
        None => function,
    }
}

/// DataFusion's function, with a type for more arguments. It is planned as the CASE that DataFusion makes of it.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Coalesce(Arc<ScalarUDF>);

impl ScalarUDFImpl for Coalesce {
    methods_of!(0);

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match beside_texts(given, &self.0) {
            Some(common) => Ok(vec![common; given.len()]),
            None => self.0.inner().coerce_types(given),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.0.return_field_from_args(args)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.0.simplify(args, info)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.0.inner().invoke_with_args(args)
    }

    fn conditional_arguments<'a>(
        &self,
        args: &'a [Expr],
    ) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.0.conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.0.short_circuits()
    }
}

/// Plans the strings of a list that is written out.
#[derive(Debug)]
pub(crate) struct ListLiterals;

impl ExprPlanner for ListLiterals {
    fn plan_array_literal(
        &self,
        mut exprs: Vec<Expr>,
        schema: &DFSchema,
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let types = exprs.iter().map(|value| value.get_type(schema));
        // What has no type yet is left to DataFusion.
        let Ok(types) = types.collect::<Result<Vec<DataType>>>() else {
            return Ok(PlannerResult::Original(exprs));
        };
        if let Some(common) = beside_texts(&types, &make_array_udf()) {
            for (value, given) in exprs.iter_mut().zip(&types) {
                if given.is_string() && matches!(value, Expr::Literal(..)) {
                    *value = cast(std::mem::take(value), common.clone());
                }
            }
        }
        Ok(PlannerResult::Original(exprs))
    }
}

/// Returns the type of times or truths that stand beside texts; `None` of any other arguments. A function knows what they
/// have in common.
fn beside_texts(given: &[DataType], of: &ScalarUDF) -> Option<DataType> {
    let typed = given.iter().filter(|of| !of.is_null());
    let (texts, others): (Vec<DataType>, Vec<DataType>) =
        typed.cloned().partition(DataType::is_string);
    if texts.is_empty() || others.is_empty() || !others.iter().all(is_read) {
        return None;
    }
    let common = of.inner().coerce_types(&others).ok()?;
    common.into_iter().next()
}

/// Tells whether values of a type are times or truths, which are read from text.
fn is_read(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Date32
            | DataType::Date64
            | DataType::Timestamp(..)
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Interval(_)
            | DataType::Boolean
    )
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::DataType::{Boolean, Date32, Int64, Null, Utf8, Utf8View};
    use datafusion::functions::core::coalesce;

    use super::beside_texts;

    #[test]
    fn texts_take_the_type_of_times_and_truths() {
        let of = coalesce();
        assert_eq!(beside_texts(&[Date32, Utf8], &of), Some(Date32));
        assert_eq!(beside_texts(&[Null, Utf8View, Boolean], &of), Some(Boolean));
        for others in [&[Int64, Utf8][..], &[Utf8, Null], &[Date32, Date32], &[]] {
            assert_eq!(beside_texts(others, &of), None, "{others:?}");
        }
    }
}
