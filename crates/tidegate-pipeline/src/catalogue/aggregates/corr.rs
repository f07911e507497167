//! `corr(a, b)` of pairs: the products of the distances from the means over the roots of their squares; NULL
//! for fewer than two pairs, without a spread, and where one of the means is NaN. The state is the moments
//! of the pairs without keys, and their sums with keys, as DataFusion has it; zeros for a group without a
//! pair.

use arrow_schema::DataType;

use crate::catalogue::pairs::{self, Pairs, check};
use crate::catalogue::{
    AggregateEntry, CallTypes, Finish, NamedAggregate, Update, count_of, floats,
};
use crate::check::Unsupported;
use crate::pipeline::AggregateFunction;
use crate::program::{Accumulator, Builder, Class, Comparison, FloatOp, Nullable, Reduce, ValueId};

pub(super) static ENTRY: AggregateEntry = AggregateEntry {
    name: "corr",
    datafusion: &["corr"],
    arity: 2,
    rounds: |_| true,
    function: AggregateFunction::Named(NamedAggregate::new(&ENTRY)),
    types,
    accumulate,
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

fn accumulate(builder: &mut Builder, update: &Update) -> Result<Vec<Accumulator>, Unsupported> {
    if !update.grouped {
        return pairs::accumulate(builder, update, false);
    }
    let ([x, y], rows) = update.pair(builder)?;
    let mut product = |one, other| builder.float2(FloatOp::Multiply, one, other);
    let sums = [x, y, product(x, y), product(x, x), product(y, y)];
    let sum = |value| Accumulator {
        reduce: Reduce::SumFloat,
        value: Some(value),
        rows,
    };
    let sums = sums.into_iter().map(sum);
    Ok(std::iter::once(count_of(rows)).chain(sums).collect())
}

fn columns(
    builder: &mut Builder,
    finish: &Finish<'_>,
    results: &[Nullable],
) -> Result<Vec<Nullable>, Unsupported> {
    match finish.update.grouped {
        true => of_sums(builder, finish.gives_state(), results),
        false => of_moments(builder, finish.gives_state(), results),
    }
}

fn of_moments(
    builder: &mut Builder,
    gives_state: bool,
    results: &[Nullable],
) -> Result<Vec<Nullable>, Unsupported> {
    let pairs = Pairs::of(results)?;
    if gives_state {
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

fn of_sums(
    builder: &mut Builder,
    gives_state: bool,
    results: &[Nullable],
) -> Result<Vec<Nullable>, Unsupported> {
    let [count, sums @ ..] = results else {
        return Err(Unsupported::new("a correlation without its sums"));
    };
    let zero = builder.float(0.0);
    let always = builder.bool(true);
    let sums: Vec<ValueId> = sums
        .iter()
        .map(|sum| builder.select(sum.valid, sum.value, zero))
        .collect();
    if gives_state {
        let sums = sums.into_iter().map(|value| Nullable {
            value,
            valid: always,
        });
        return Ok(std::iter::once(*count).chain(sums).collect());
    }
    let [x, y, xy, xx, yy] = *sums.as_slice() else {
        return Err(Unsupported::new("a correlation without its sums"));
    };
    let divisor = builder.convert(count.value, Class::F64);
    let mean_x = builder.float2(FloatOp::Divide, x, divisor);
    let mean_y = builder.float2(FloatOp::Divide, y, divisor);
    let mut about = |products, sum, mean| {
        let expected = builder.float2(FloatOp::Multiply, sum, mean);
        builder.float2(FloatOp::Subtract, products, expected)
    };
    let (products, x_squares, y_squares) = (
        about(xy, x, mean_y),
        about(xx, x, mean_x),
        about(yy, y, mean_y),
    );
    let squares = builder.float2(FloatOp::Multiply, x_squares, y_squares);
    let root = builder.call(&floats::SQRT, vec![squares]);
    let spreads = builder.compare(Comparison::NotEqual, root, zero);
    let value = builder.float2(FloatOp::Divide, products, root);
    Ok(vec![decided(builder, *count, [x, y], spreads, value)])
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
