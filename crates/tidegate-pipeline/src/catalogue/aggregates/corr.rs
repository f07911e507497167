//! `corr(a, b)` of pairs: the products of the distances from the means over the roots of their squares; NULL
//! for fewer than two pairs, without a spread, and where one of the means is NaN. The state is the count, mean
//! and squares of the first, mean and squares of the second, and the products; zeros for a group without a pair.

use arrow_schema::DataType;

use crate::catalogue::pairs::{self, Pairs, check};
use crate::catalogue::{AggregateEntry, CallTypes, Finish, NamedAggregate, floats};
use crate::check::Unsupported;
use crate::pipeline::AggregateFunction;
use crate::program::{Builder, Comparison, FloatOp, Nullable, ValueId};

pub(super) static ENTRY: AggregateEntry = AggregateEntry {
    name: "corr",
    datafusion: &["corr"],
    arity: 2,
    rounds: |_| true,
    function: AggregateFunction::Named(NamedAggregate::new(&ENTRY)),
    types,
    accumulate: |builder, update| pairs::accumulate(builder, update, false),
    columns,
    arguments: pairs::arguments,
};

fn types(arguments: &[DataType], _: &DataType) -> Result<CallTypes, Unsupported> {
    check("correlation", arguments)?;
    let mut state = vec![DataType::Float64; 6];
    state[0] = DataType::UInt64;
    Ok(CallTypes {
        value: DataType::Float64,
        state,
    })
}

fn columns(
    builder: &mut Builder,
    finish: &Finish<'_>,
    results: &[Nullable],
) -> Result<Vec<Nullable>, Unsupported> {
    let pairs = Pairs::of(results)?;
    if finish.gives_state() {
        return Ok(vec![
            pairs.count,
            pairs.mean,
            pairs.squares,
            pairs.other_mean,
            pairs.other_squares,
            pairs.products,
        ]);
    }
    let covariance = pairs.per_pair(builder, pairs.products.value);
    let mut deviations = Vec::new();
    for squares in [pairs.squares, pairs.other_squares] {
        let variance = pairs.per_pair(builder, squares.value);
        deviations.push(builder.call(&floats::SQRT, vec![variance]));
    }
    let mut spreads = builder.bool(true);
    let mut value = covariance;
    for deviation in deviations {
        let zero = builder.float(0.0);
        let is_spread = builder.compare(Comparison::NotEqual, deviation, zero);
        spreads = builder.and(spreads, is_spread);
        value = builder.float2(FloatOp::Divide, value, deviation);
    }
    let means = [pairs.mean.value, pairs.other_mean.value];
    Ok(vec![decided(builder, pairs.count, means, spreads, value)])
}

/// Returns NaN where both are NaN, NULL where one is, and the value where there are two pairs and a spread.
fn decided(
    builder: &mut Builder,
    count: Nullable,
    means: [ValueId; 2],
    spreads: ValueId,
    value: ValueId,
) -> Nullable {
    let greatest = builder.float(f64::INFINITY);
    let [one, other] = means.map(|mean| builder.compare(Comparison::Greater, mean, greatest));
    let both = builder.and(one, other);
    let any = builder.or(one, other);
    let none = builder.not(any);
    let single = builder.int(1);
    let are_several = builder.compare(Comparison::Greater, count.value, single);
    let is_known = builder.and(are_several, spreads);
    let is_known = builder.and(is_known, none);
    let nan = builder.float(f64::NAN);
    Nullable {
        value: builder.select(both, nan, value),
        valid: builder.or(both, is_known),
    }
}
