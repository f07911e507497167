//! `list_transform(l, (x, i) -> …)` and `list_filter(l, (x, i) -> …)`: DataFusion's functions, whose lambda may also take the
//! place of a value, from 1, as in DuckDB.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, ListArray, new_null_array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{filter, take_arrays};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::utils::{adjust_offsets_for_slice, list_values, list_values_row_number};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_ARRAY;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs,
    HigherOrderSignature, HigherOrderUDF, HigherOrderUDFImpl, LambdaParametersProgress,
    ValueOrLambda, Volatility,
};

/// Returns the functions.
pub(super) fn functions() -> [HigherOrderUDF; 2] {
    let transform = ListLambda::new(
        "array_transform",
        "list_transform",
        false,
        "Returns what a lambda gives of each value of a list, and of its place, from 1.",
        "array_transform(array, (x, i) -> expression)",
    );
    let filter = ListLambda::new(
        "array_filter",
        "list_filter",
        true,
        "Returns the values of a list of which, and of their place, from 1, a condition is true.",
        "array_filter(array, (x, i) -> condition)",
    );
    [transform, filter].map(HigherOrderUDF::new_from_impl)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ListLambda {
    name: &'static str,
    aliases: Vec<String>,
    /// Whether the lambda tells which values are kept, and does not give others.
    filters: bool,
    signature: HigherOrderSignature,
    documentation: Documentation,
}

impl ListLambda {
    fn new(
        name: &'static str,
        alias: &str,
        filters: bool,
        description: &str,
        syntax: &str,
    ) -> Self {
        let takes = vec![ValueOrLambda::Value(()), ValueOrLambda::Lambda(())];
        Self {
            name,
            aliases: vec![alias.to_string()],
            filters,
            signature: HigherOrderSignature::exact(takes, Volatility::Immutable),
            documentation: Documentation::builder(DOC_SECTION_ARRAY, description, syntax).build(),
        }
    }

    /// Keeps the values of which a condition is true.
    fn kept(
        &self,
        values: &ArrayRef,
        condition: &ArrayRef,
        offsets: &OffsetBuffer<i32>,
    ) -> Result<(ArrayRef, OffsetBuffer<i32>)> {
        let Some(condition) = condition.as_boolean_opt() else {
            return exec_err!(
                "{} lambda must return boolean, got {}",
                self.name,
                condition.data_type()
            );
        };
        let is_kept = |at: &usize| condition.is_valid(*at) && condition.value(*at);
        let place = |offset: i32| usize::try_from(offset).unwrap_or_default();
        let lengths = offsets
            .windows(2)
            .map(|ends| (place(ends[0])..place(ends[1])).filter(is_kept).count());
        let offsets = OffsetBuffer::from_lengths(lengths);
        Ok((filter(values, condition)?, offsets))
    }
}

/// Returns the values that a list holds.
fn values_of<'a>(name: &str, list: &'a DataType) -> Result<&'a FieldRef> {
    match list {
        DataType::List(values) => Ok(values),
        other => plan_err!("{name} expected a list as first argument, got {other}"),
    }
}

/// Returns the place of each value in its list.
fn places(offsets: &OffsetBuffer<i32>) -> ArrayRef {
    let lengths = offsets.windows(2).map(|ends| i64::from(ends[1] - ends[0]));
    Arc::new(Int64Array::from_iter_values(
        lengths.flat_map(|length| 1..=length),
    ))
}

impl HigherOrderUDFImpl for ListLambda {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn coerce_value_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [
                DataType::List(values)
                | DataType::LargeList(values)
                | DataType::FixedSizeList(values, _)
                | DataType::ListView(values)
                | DataType::LargeListView(values),
            ] => Ok(vec![DataType::List(Arc::clone(values))]),
            [DataType::Null] => Ok(vec![DataType::new_list(DataType::Null, true)]),
            [other] => plan_err!(
                "{} expected a list as first argument, got {other}",
                self.name
            ),
            _ => plan_err!("{} takes a list and a lambda", self.name),
        }
    }

    fn lambda_parameters(
        &self,
        _step: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        let [ValueOrLambda::Value(list), ValueOrLambda::Lambda(_)] = fields else {
            return plan_err!("{} expects a value followed by a lambda", self.name);
        };
        let value = Arc::clone(values_of(self.name, list.data_type())?);
        let place = Arc::new(Field::new("place", DataType::Int64, false));
        Ok(LambdaParametersProgress::Complete(vec![vec![value, place]]))
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs) -> Result<FieldRef> {
        let [ValueOrLambda::Value(list), ValueOrLambda::Lambda(lambda)] = args.arg_fields else {
            return plan_err!("{} expects a value followed by a lambda", self.name);
        };
        let data_type = match self.filters {
            true => list.data_type().clone(),
            false => DataType::new_list(lambda.data_type().clone(), lambda.is_nullable()),
        };
        Ok(Arc::new(Field::new("", data_type, list.is_nullable())))
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        let [ValueOrLambda::Value(lists), ValueOrLambda::Lambda(lambda)] = args.args.as_slice()
        else {
            return exec_err!("{} expects a value followed by a lambda", self.name);
        };
        let lists = lists.to_array(args.number_rows)?;
        if lists.null_count() == lists.len() {
            let nulls = new_null_array(args.return_type(), lists.len());
            return Ok(ColumnarValue::Array(nulls));
        }
        let Some(list) = lists.as_list_opt::<i32>() else {
            return exec_err!("{} of {}", self.name, lists.data_type());
        };
        let field = Arc::clone(values_of(self.name, args.return_type())?);
        let values = list_values(&lists)?;
        let offsets = adjust_offsets_for_slice(list);
        let value = || -> Result<ArrayRef> { Ok(Arc::clone(&values)) };
        let place = || -> Result<ArrayRef> { Ok(places(&offsets)) };
        let given = lambda.evaluate(&[&value, &place], |captured| {
            let rows = list_values_row_number(&lists)?;
            Ok(take_arrays(captured, &rows, None)?)
        });
        let given = given?.into_array(values.len())?;
        let (values, offsets) = match self.filters {
            true => self.kept(&values, &given, &offsets)?,
            false => (given, offsets),
        };
        let made = ListArray::try_new(field, offsets, values, list.nulls().cloned())?;
        Ok(ColumnarValue::Array(Arc::new(made)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}
