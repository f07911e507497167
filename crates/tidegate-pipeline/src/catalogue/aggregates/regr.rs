//! `regr_slope(y, x)` and its kin, of pairs: least squares. The state is the count, both means, the squared
//! distances of both, and the products of the distances; zeros for a group without a pair.

use arrow_schema::DataType;

use crate::catalogue::pairs::{self, Pairs, check};
use crate::catalogue::{AggregateEntry, CallTypes, Columns, Finish, NamedAggregate};
use crate::check::Unsupported;
use crate::pipeline::AggregateFunction;
use crate::program::{Builder, Comparison, FloatOp, Nullable, ValueId};

const fn regression(
    datafusion: &'static [&'static str],
    entry: &'static AggregateEntry,
    columns: Columns,
) -> AggregateEntry {
    AggregateEntry {
        name: datafusion[0],
        datafusion,
        arity: 2,
        rounds: |value| value.is_floating(),
        function: AggregateFunction::Named(NamedAggregate::new(entry)),
        types: |arguments, _| types(arguments, DataType::Float64),
        // The second argument is x, which comes first in the state.
        accumulate: |builder, update| pairs::accumulate(builder, update, true),
        columns,
        arguments: pairs::arguments,
    }
}

pub(super) static ENTRIES: [AggregateEntry; 9] = [
    regression(&["regr_slope"], &ENTRIES[0], |builder, finish, results| {
        columns(builder, finish, results, slope)
    }),
    regression(
        &["regr_intercept"],
        &ENTRIES[1],
        |builder, finish, results| columns(builder, finish, results, intercept),
    ),
    AggregateEntry {
        types: |arguments, _| types(arguments, DataType::UInt64),
        ..regression(&["regr_count"], &ENTRIES[2], |builder, finish, results| {
            columns(builder, finish, results, |_, pairs| pairs.count)
        })
    },
    regression(&["regr_r2"], &ENTRIES[3], |builder, finish, results| {
        columns(builder, finish, results, r2)
    }),
    regression(&["regr_avgx"], &ENTRIES[4], |builder, finish, results| {
        if_any(builder, finish, results, |pairs| pairs.mean)
    }),
    regression(&["regr_avgy"], &ENTRIES[5], |builder, finish, results| {
        if_any(builder, finish, results, |pairs| pairs.other_mean)
    }),
    regression(&["regr_sxx"], &ENTRIES[6], |builder, finish, results| {
        if_any(builder, finish, results, |pairs| pairs.squares)
    }),
    regression(&["regr_syy"], &ENTRIES[7], |builder, finish, results| {
        if_any(builder, finish, results, |pairs| pairs.other_squares)
    }),
    regression(&["regr_sxy"], &ENTRIES[8], |builder, finish, results| {
        if_any(builder, finish, results, |pairs| pairs.products)
    }),
];

fn types(arguments: &[DataType], value: DataType) -> Result<CallTypes, Unsupported> {
    check("regression", arguments)?;
    let mut state = vec![DataType::Float64; 6];
    state[0] = DataType::UInt64;
    Ok(CallTypes { value, state })
}

fn columns(
    builder: &mut Builder,
    finish: &Finish<'_>,
    results: &[Nullable],
    value: fn(&mut Builder, &Pairs) -> Nullable,
) -> Result<Vec<Nullable>, Unsupported> {
    let pairs = Pairs::of(results)?;
    if finish.gives_state() {
        return Ok(state(&pairs));
    }
    Ok(vec![value(builder, &pairs)])
}

/// Makes the columns of what is there if there is a pair.
fn if_any(
    builder: &mut Builder,
    finish: &Finish<'_>,
    results: &[Nullable],
    of: fn(&Pairs) -> Nullable,
) -> Result<Vec<Nullable>, Unsupported> {
    let pairs = Pairs::of(results)?;
    if finish.gives_state() {
        return Ok(state(&pairs));
    }
    Ok(vec![Nullable {
        value: of(&pairs).value,
        valid: pairs.are_more_than(builder, 0),
    }])
}

fn state(pairs: &Pairs) -> Vec<Nullable> {
    vec![
        pairs.count,
        pairs.mean,
        pairs.other_mean,
        pairs.squares,
        pairs.other_squares,
        pairs.products,
    ]
}

/// Returns whether a float is not 0.
fn is_not_zero(builder: &mut Builder, value: ValueId) -> ValueId {
    let zero = builder.float(0.0);
    builder.compare(Comparison::NotEqual, value, zero)
}

fn slope(builder: &mut Builder, pairs: &Pairs) -> Nullable {
    let covariance = pairs.per_pair(builder, pairs.products.value);
    let variance = pairs.per_pair(builder, pairs.squares.value);
    let are_several = pairs.are_more_than(builder, 1);
    let varies = is_not_zero(builder, variance);
    Nullable {
        value: builder.float2(FloatOp::Divide, covariance, variance),
        valid: builder.and(are_several, varies),
    }
}

fn intercept(builder: &mut Builder, pairs: &Pairs) -> Nullable {
    let slope = slope(builder, pairs);
    let rise = builder.float2(FloatOp::Multiply, slope.value, pairs.mean.value);
    Nullable {
        value: builder.float2(FloatOp::Subtract, pairs.other_mean.value, rise),
        ..slope
    }
}

fn r2(builder: &mut Builder, pairs: &Pairs) -> Nullable {
    let covariance = pairs.per_pair(builder, pairs.products.value);
    let variance = pairs.per_pair(builder, pairs.squares.value);
    let other = pairs.per_pair(builder, pairs.other_squares.value);
    let are_several = pairs.are_more_than(builder, 1);
    let varies = is_not_zero(builder, variance);
    let other_varies = is_not_zero(builder, other);
    let both_vary = builder.and(varies, other_varies);
    let explained = builder.float2(FloatOp::Multiply, covariance, covariance);
    let all = builder.float2(FloatOp::Multiply, variance, other);
    Nullable {
        value: builder.float2(FloatOp::Divide, explained, all),
        valid: builder.and(are_several, both_vary),
    }
}
