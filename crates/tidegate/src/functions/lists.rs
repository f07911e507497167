//! `list_aggregate(list, 'name', …)`: an aggregate function over the values of each list, as DuckDB has it.
//!
//! Any aggregate that the session has will do. Lists are the groups of one aggregation: the values of a whole batch
//! go through one `GroupsAccumulator`, as rows of `GROUP BY` would.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray};
use datafusion::arrow::compute::{cast, nullif};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::{ScalarValue, exec_err, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::execution::context::SessionState;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    AggregateUDF, ColumnarValue, EmitTo, GroupsAccumulator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{GroupsAccumulatorAdapter, PhysicalExpr};

use super::forms;
use crate::suggest::nearest;

/// Returns the functions, which know the aggregates that a state has now.
pub(crate) fn functions(state: &SessionState) -> [ScalarUDF; 2] {
    let known = Arc::new(state.aggregate_functions().clone());
    // DataFusion's `array_sum` adds in floating point, and rounds what is above 2^53.
    [None, Some("sum")].map(|fixed| ListAggregate::new(&known, fixed).into())
}

/// Aggregates the values of each list; NULL of a list that is NULL.
#[derive(Debug)]
struct ListAggregate {
    /// The aggregate; if there is none, the second argument names it.
    fixed: Option<&'static str>,
    known: Arc<HashMap<String, Arc<AggregateUDF>>>,
    aliases: Vec<String>,
    signature: Signature,
}

impl PartialEq for ListAggregate {
    fn eq(&self, other: &Self) -> bool {
        self.fixed == other.fixed && self.known == other.known
    }
}

impl Eq for ListAggregate {}

impl Hash for ListAggregate {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.fixed.hash(state);
    }
}

impl ListAggregate {
    fn new(known: &Arc<HashMap<String, Arc<AggregateUDF>>>, fixed: Option<&'static str>) -> Self {
        let aliases: &[&str] = match fixed {
            None => &["list_aggr", "array_aggregate", "array_aggr"],
            Some(_) => &["list_sum"],
        };
        Self {
            fixed,
            known: Arc::clone(known),
            aliases: aliases.iter().map(ToString::to_string).collect(),
            signature: Signature::user_defined(Volatility::Immutable),
        }
    }

    /// How many arguments stand before those of the aggregate.
    fn before(&self) -> usize {
        match self.fixed {
            None => 2,
            Some(_) => 1,
        }
    }

    fn aggregate(&self, name: Option<&ScalarValue>) -> Result<&Arc<AggregateUDF>> {
        let given = match (self.fixed, name.and_then(ScalarValue::try_as_str)) {
            (Some(fixed), _) => fixed.to_string(),
            (None, Some(Some(name))) => name.to_lowercase(),
            (None, _) => {
                return plan_err!(
                    "{} takes a list and the name of an aggregate function, such as 'sum'",
                    self.name()
                );
            }
        };
        let name = forms::renamed(&given).unwrap_or(&given);
        let Some(aggregate) = self.known.get(name) else {
            let mut names: Vec<String> = self.known.keys().cloned().collect();
            names.sort_unstable();
            let hint = nearest(&names, name).unwrap_or("sum, avg, min, max, count");
            return plan_err!("there is no aggregate function {given}: did you mean {hint}?");
        };
        Ok(aggregate)
    }

    /// Returns the arguments of the aggregate, as it takes them: the values of the list, and those behind its name.
    fn arguments(&self, aggregate: &AggregateUDF, fields: &[FieldRef]) -> Result<Vec<FieldRef>> {
        let Some(values) = fields
            .first()
            .and_then(|field| values_of(field.data_type()))
        else {
            return plan_err!("{} takes a list", self.name());
        };
        let rest = fields.iter().skip(self.before()).cloned();
        let given: Vec<FieldRef> = std::iter::once(values).chain(rest).collect();
        fields_with_udf(&given, aggregate)
    }
}

/// Returns the values that a list holds.
fn values_of(data_type: &DataType) -> Option<FieldRef> {
    match data_type {
        DataType::List(values)
        | DataType::LargeList(values)
        | DataType::FixedSizeList(values, _) => Some(Arc::new(Field::new(
            "value",
            values.data_type().clone(),
            true,
        ))),
        _ => None,
    }
}

fn is_of_nulls(list: &DataType) -> bool {
    values_of(list).is_some_and(|values| values.data_type().is_null())
}

impl ScalarUDFImpl for ListAggregate {
    fn name(&self) -> &str {
        match self.fixed {
            None => "list_aggregate",
            Some(_) => "array_sum",
        }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let list = match given.first() {
            // No sum is known of values without a type.
            Some(list) if self.fixed.is_some() && is_of_nulls(list) => {
                DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true)))
            }
            Some(list) if values_of(list).is_some() => list.clone(),
            Some(DataType::Null) => {
                DataType::List(Arc::new(Field::new_list_field(DataType::Int64, true)))
            }
            _ => {
                return plan_err!(
                    "{0} takes a list: {0}([1, 2]{1})",
                    self.name(),
                    self.fixed.map_or(", 'sum'", |_| "")
                );
            }
        };
        if given.len() < self.before() || (self.fixed.is_some() && given.len() > 1) {
            return plan_err!(
                "{} takes {}",
                self.name(),
                match self.fixed {
                    None => "a list and the name of an aggregate function, such as 'sum'",
                    Some(_) => "one list",
                }
            );
        }
        Ok(std::iter::once(list)
            .chain(given[1..].iter().cloned())
            .collect())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type of {} depends on its arguments", self.name())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let aggregate = self.aggregate(args.scalar_arguments.get(1).copied().flatten())?;
        let arguments = self.arguments(aggregate, args.arg_fields)?;
        let returns = aggregate.return_field(&arguments)?;
        Ok(Arc::new(Field::new(
            self.name(),
            returns.data_type().clone(),
            true,
        )))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_scalar = |value: &ColumnarValue| matches!(value, ColumnarValue::Scalar(_));
        let are_scalars = args.args.iter().all(is_scalar);
        let num_rows = if are_scalars { 1 } else { args.number_rows };
        let name = match args.args.get(1) {
            Some(ColumnarValue::Scalar(name)) => Some(name),
            _ => None,
        };
        let aggregate = self.aggregate(name)?;
        let arguments = self.arguments(aggregate, &args.arg_fields)?;
        let Some(list) = args.args.first() else {
            return exec_err!("{} takes a list", self.name());
        };
        let lists = list.to_array(num_rows)?;
        let lists = cast(&lists, &DataType::List(list_field(&lists)?))?;
        let mut constants = Vec::with_capacity(arguments.len());
        for (given, wanted) in args
            .args
            .iter()
            .skip(self.before())
            .zip(arguments.iter().skip(1))
        {
            let ColumnarValue::Scalar(constant) = given else {
                return exec_err!("{}: arguments behind the name are constants", self.name());
            };
            constants.push(constant.cast_to(wanted.data_type())?);
        }
        let results = aggregated(aggregate, lists.as_list(), &arguments, &constants)?;
        match are_scalars {
            true => Ok(ScalarValue::try_from_array(&results, 0)?.into()),
            false => Ok(ColumnarValue::Array(results)),
        }
    }
}

fn list_field(lists: &ArrayRef) -> Result<FieldRef> {
    match lists.data_type() {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            Ok(Arc::clone(field))
        }
        other => internal_err!("{other} is no list"),
    }
}

/// Aggregates the values of each list.
fn aggregated(
    aggregate: &Arc<AggregateUDF>,
    lists: &ListArray,
    arguments: &[FieldRef],
    constants: &[ScalarValue],
) -> Result<ArrayRef> {
    let offsets = lists.value_offsets();
    let place = |offset: i32| usize::try_from(offset).unwrap_or_default();
    let (first, last) = match offsets {
        [first, .., last] => (place(*first), place(*last)),
        _ => (0, 0),
    };
    let values = lists.values().slice(first, last - first);
    let mut groups = Vec::with_capacity(values.len());
    for (group, ends) in offsets.windows(2).enumerate() {
        groups.resize(groups.len() + place(ends[1] - ends[0]), group);
    }
    let Some(wanted) = arguments.first() else {
        return internal_err!("an aggregate without an argument");
    };
    let mut columns = vec![cast(&values, wanted.data_type())?];
    for constant in constants {
        columns.push(constant.to_array_of_size(values.len())?);
    }
    let mut accumulator = accumulator(aggregate, arguments, constants)?;
    // Accumulators take it that each group has a row, unless rows are filtered: empty lists have none.
    let some_are_empty = offsets.windows(2).any(|ends| ends[0] == ends[1]);
    let all = some_are_empty.then(|| BooleanArray::from(vec![true; values.len()]));
    accumulator.update_batch(&columns, &groups, all.as_ref(), lists.len())?;
    let results = accumulator.evaluate(EmitTo::All)?;
    // Nothing is known of what NULL stands for, whatever its values.
    match lists.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => Ok(results),
        Some(nulls) => {
            let is_null = BooleanArray::new(!nulls.inner(), None);
            Ok(nullif(&results, &is_null)?)
        }
    }
}

fn accumulator(
    aggregate: &Arc<AggregateUDF>,
    arguments: &[FieldRef],
    constants: &[ScalarValue],
) -> Result<Box<dyn GroupsAccumulator>> {
    let column = |(index, field): (usize, &FieldRef)| -> Arc<dyn PhysicalExpr> {
        match index.checked_sub(1).and_then(|index| constants.get(index)) {
            Some(constant) => Arc::new(Literal::new(constant.clone())),
            None => Arc::new(Column::new(field.name(), index)),
        }
    };
    let columns = arguments.iter().enumerate().map(column).collect();
    let schema = Schema::new(arguments.to_vec());
    let built = AggregateExprBuilder::new(Arc::clone(aggregate), columns)
        .schema(Arc::new(schema))
        .alias(aggregate.name())
        .build()?;
    if built.groups_accumulator_supported() {
        return built.create_groups_accumulator();
    }
    let make = move || AggregateFunctionExpr::create_accumulator(&built);
    Ok(Box::new(GroupsAccumulatorAdapter::new(make)))
}
