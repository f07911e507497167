//! `list_reduce(l, (a, x) -> …)`: the values of a list made one, from the left, as in DuckDB.
//!
//! The lambda is given what the values before have become and the next value, and if it has a third parameter the place of
//! that value, from 1. It begins with the first value, or with a value that is given: `list_reduce(l, (a, x) -> a + x, 10)`,
//! which then has the type of the list's values. What the lambda gives has their type too, and is cast to it where both are
//! integers, or decimals with as many digits. NULL of NULL, and of an empty list without a value to begin with.
//!
//! The lambda runs once for each place of the longest list, over all lists that are as long.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array, UInt32Array, new_null_array};
use datafusion::arrow::compute::{CastOptions, cast_with_options, interleave, take, take_arrays};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::arrow::util::display::FormatOptions;
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_ARRAY;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs,
    HigherOrderSignature, HigherOrderUDF, HigherOrderUDFImpl, LambdaArgument,
    LambdaParametersProgress, ValueOrLambda, Volatility,
};

use crate::error::{Error, ErrorKind};

/// The most values of a list: the lambda runs as often, and cannot be stopped.
const VALUES_MAX: usize = 1_000_000;

/// The most bytes of what the lists of a batch have become: each step may double them.
const MADE_BYTES_MAX: usize = 128 << 20;

/// Has numbers that do not fit be errors.
const EXACT: CastOptions<'static> = CastOptions {
    safe: false,
    format_options: FormatOptions::new(),
};

const TAKES: &str =
    "list_reduce takes a list and a lambda of two parameters: list_reduce(l, (a, x) -> a + x)";

/// Returns the function.
pub(crate) fn function() -> HigherOrderUDF {
    let description = "Makes one value of the values of a list, from the left.";
    let syntax = "list_reduce(list, (a, x) -> expression[, first])";
    HigherOrderUDF::new_from_impl(ListReduce {
        aliases: vec!["array_reduce".to_string(), "reduce".to_string()],
        signature: HigherOrderSignature::user_defined(Volatility::Immutable),
        documentation: Documentation::builder(DOC_SECTION_ARRAY, description, syntax).build(),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ListReduce {
    aliases: Vec<String>,
    signature: HigherOrderSignature,
    documentation: Documentation,
}

/// Returns the values that a list holds.
fn values_of(list: &DataType) -> Result<&FieldRef> {
    match list {
        DataType::List(values) => Ok(values),
        other => plan_err!("list_reduce takes a list, and was given {other}"),
    }
}

impl HigherOrderUDFImpl for ListReduce {
    fn name(&self) -> &str {
        "list_reduce"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn coerce_value_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let Some((list, rest)) = given.split_first() else {
            return plan_err!("{TAKES}");
        };
        let list = match list {
            DataType::List(values)
            | DataType::LargeList(values)
            | DataType::FixedSizeList(values, _)
            | DataType::ListView(values)
            | DataType::LargeListView(values) => DataType::List(Arc::clone(values)),
            DataType::Null => DataType::new_list(DataType::Int64, true),
            _ => return plan_err!("{TAKES}"),
        };
        match rest {
            [] => Ok(vec![list]),
            [_] => {
                let first = values_of(&list)?.data_type().clone();
                Ok(vec![list, first])
            }
            _ => plan_err!("{TAKES}"),
        }
    }

    fn lambda_parameters(
        &self,
        _step: usize,
        fields: &[ValueOrLambda<FieldRef, Option<FieldRef>>],
    ) -> Result<LambdaParametersProgress> {
        let [ValueOrLambda::Value(list), ValueOrLambda::Lambda(_), ..] = fields else {
            return plan_err!("{TAKES}");
        };
        let values = values_of(list.data_type())?.data_type();
        let made = Arc::new(Field::new("made", values.clone(), true));
        let value = Arc::new(Field::new("value", values.clone(), true));
        let place = Arc::new(Field::new("place", DataType::Int64, false));
        Ok(LambdaParametersProgress::Complete(vec![vec![
            made, value, place,
        ]]))
    }

    fn return_field_from_args(&self, args: HigherOrderReturnFieldArgs) -> Result<FieldRef> {
        let [
            ValueOrLambda::Value(list),
            ValueOrLambda::Lambda(lambda),
            rest @ ..,
        ] = args.arg_fields
        else {
            return plan_err!("{TAKES}");
        };
        if !matches!(rest, [] | [ValueOrLambda::Value(_)]) {
            return plan_err!("{TAKES}");
        }
        let values = values_of(list.data_type())?.data_type();
        let gives = lambda.data_type();
        let is_kept = gives == values
            || gives.is_null()
            || (gives.is_integer() && values.is_integer())
            || (gives.is_string() && values.is_string())
            || matches!((gives, values), (DataType::Decimal128(_, of), DataType::Decimal128(_, scale)) if of == scale);
        if !is_kept {
            return plan_err!(
                "list_reduce: the lambda gives {gives} of a list of {values}: cast the values of the list, or what it gives"
            );
        }
        Ok(Arc::new(Field::new(self.name(), values.clone(), true)))
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> Result<ColumnarValue> {
        let [
            ValueOrLambda::Value(lists),
            ValueOrLambda::Lambda(lambda),
            rest @ ..,
        ] = args.args.as_slice()
        else {
            return exec_err!("{TAKES}");
        };
        let first = match rest {
            [] => None,
            [ValueOrLambda::Value(first)] => Some(first.to_array(args.number_rows)?),
            _ => return exec_err!("{TAKES}"),
        };
        let lists = lists.to_array(args.number_rows)?;
        let reduced = reduced(&lists, lambda, first.as_ref(), args.return_type())?;
        Ok(ColumnarValue::Array(reduced))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

/// The lists that are not at their end.
struct Open {
    rows: Vec<u32>,
    /// What each has become.
    made: ArrayRef,
}

fn reduced(
    lists: &ArrayRef,
    lambda: &LambdaArgument,
    first: Option<&ArrayRef>,
    returns: &DataType,
) -> Result<ArrayRef> {
    let Some(lists) = lists.as_list_opt::<i32>() else {
        return exec_err!("{TAKES}");
    };
    let length = |row: u32| lists.value_length(row as usize) as usize;
    let values_at = |rows: &[u32], place: usize| -> Result<ArrayRef> {
        let begin = |row: &u32| lists.value_offsets()[*row as usize] as u32 + place as u32;
        let places = UInt32Array::from_iter_values(rows.iter().map(begin));
        Ok(take(lists.values().as_ref(), &places, None)?)
    };
    let least = usize::from(first.is_none());
    let rows = (0..lists.len() as u32)
        .filter(|row| lists.is_valid(*row as usize) && length(*row) >= least);
    let rows: Vec<u32> = rows.collect();
    if let Some(longest) = rows.iter().map(|row| length(*row)).max()
        && longest > VALUES_MAX
    {
        return exec_err!(
            "list_reduce takes lists of at most {VALUES_MAX} values, and was given {longest}; list_aggregate(l, 'sum') takes more"
        );
    }
    let made = match first {
        Some(first) => take(first.as_ref(), &UInt32Array::from(rows.clone()), None)?,
        None => values_at(&rows, 0)?,
    };
    let mut open = Open { rows, made };
    // Rows that have no value are the NULL of the first piece.
    let mut pieces = vec![new_null_array(returns, 1)];
    let mut places = vec![(0, 0); lists.len()];
    for place in least.. {
        let is_at_end = |row: &u32| length(*row) == place;
        if open.rows.iter().any(is_at_end) {
            let mut left = Vec::with_capacity(open.rows.len());
            for (index, row) in open.rows.iter().enumerate() {
                match is_at_end(row) {
                    true => places[*row as usize] = (pieces.len(), index),
                    false => left.push(index as u32),
                }
            }
            let rows = left.iter().map(|index| open.rows[*index as usize]);
            let rows: Vec<u32> = rows.collect();
            let made = take(open.made.as_ref(), &UInt32Array::from(left), None)?;
            pieces.push(open.made);
            open = Open { rows, made };
        }
        if open.rows.is_empty() {
            break;
        }
        let num_rows = open.rows.len();
        let value = values_at(&open.rows, place)?;
        let number: ArrayRef = Arc::new(Int64Array::from_value(place as i64 + 1, num_rows));
        let made = || -> Result<ArrayRef> { Ok(Arc::clone(&open.made)) };
        let value = || -> Result<ArrayRef> { Ok(Arc::clone(&value)) };
        let number = || -> Result<ArrayRef> { Ok(Arc::clone(&number)) };
        let given = lambda.evaluate(&[&made, &value, &number], |captured| {
            let rows = UInt32Array::from(open.rows.clone());
            Ok(take_arrays(captured, &rows, None)?)
        });
        let made = given?.into_array(num_rows)?;
        open.made = cast_with_options(&made, returns, &EXACT)?;
        let bytes = open.made.get_array_memory_size();
        if bytes > MADE_BYTES_MAX {
            let message = format!(
                "list_reduce has made values of {bytes} bytes of a batch of rows, and may make {MADE_BYTES_MAX}; ask \
                 for shorter values, or lower datafusion.execution.batch_size"
            );
            return Err(Error::new(ErrorKind::ResourcesExhausted, message).into());
        }
    }
    let pieces: Vec<&dyn Array> = pieces.iter().map(|piece| piece.as_ref()).collect();
    Ok(interleave(&pieces, &places)?)
}
