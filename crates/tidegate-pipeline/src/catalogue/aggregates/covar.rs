//! `covar_pop(a, b)` and `covar_samp(a, b)`: the products of the distances from the means over the count of
//! pairs, or over one less; NULL without a divisor. The state is the count, both means and the products,
//! zeros for a group without a pair.

use arrow_schema::DataType;

use crate::catalogue::pairs::{self, Pairs, check};
use crate::catalogue::{AggregateEntry, CallTypes, Columns, NamedAggregate};
use crate::check::Unsupported;
use crate::pipeline::AggregateFunction;
use crate::program::{Builder, Class, Comparison, FloatOp, IntegerOp, Nullable};

const fn covariance(
    datafusion: &'static [&'static str],
    entry: &'static AggregateEntry,
    columns: Columns,
) -> AggregateEntry {
    AggregateEntry {
        name: datafusion[0],
        datafusion,
        arity: 2,
        rounds: |_| true,
        function: AggregateFunction::Named(NamedAggregate::new(entry)),
        types,
        accumulate: |builder, update| pairs::accumulate(builder, update, false),
        columns,
        arguments: pairs::arguments,
    }
}

pub(super) static ENTRIES: [AggregateEntry; 2] = [
    covariance(&["covar_pop"], &ENTRIES[0], |builder, finish, results| {
        columns(builder, finish.gives_state(), results, 0)
    }),
    covariance(&["covar_samp"], &ENTRIES[1], |builder, finish, results| {
        columns(builder, finish.gives_state(), results, 1)
    }),
];

fn types(arguments: &[DataType], _: &DataType) -> Result<CallTypes, Unsupported> {
    check("covariance", arguments)?;
    let double = DataType::Float64;
    Ok(CallTypes {
        value: double.clone(),
        state: vec![DataType::UInt64, double.clone(), double.clone(), double],
    })
}

fn columns(
    builder: &mut Builder,
    gives_state: bool,
    results: &[Nullable],
    fewer: i128,
) -> Result<Vec<Nullable>, Unsupported> {
    let pairs = Pairs::of(results)?;
    if gives_state {
        return Ok(vec![
            pairs.count,
            pairs.mean,
            pairs.other_mean,
            pairs.products,
        ]);
    }
    let (zero, fewer) = (builder.int(0), builder.int(fewer));
    let divisor = builder.exact(IntegerOp::Subtract, pairs.count.value, fewer);
    let valid = builder.compare(Comparison::Greater, divisor, zero);
    let divisor = builder.convert(divisor, Class::F64);
    let value = builder.float2(FloatOp::Divide, pairs.products.value, divisor);
    Ok(vec![Nullable { value, valid }])
}
