//! What aggregates of pairs of doubles have in common: their moments.

use arrow_schema::DataType;

use super::{Accumulator, Builder, Nullable, Reduce, Update, ValueId, count_of};
use crate::check::Unsupported;
use crate::program::{Class, Comparison, FloatOp};

/// What is known of the pairs of a group; a pair has neither NULL.
pub(super) struct Pairs {
    /// How many there are.
    pub(super) count: Nullable,
    /// The mean of the first.
    pub(super) mean: Nullable,
    /// The sum of the squared distances of the first from their mean.
    pub(super) squares: Nullable,
    /// The mean of the second.
    pub(super) other_mean: Nullable,
    /// The sum of the squared distances of the second from their mean.
    pub(super) other_squares: Nullable,
    /// The sum of the products of the distances.
    pub(super) products: Nullable,
}

impl Pairs {
    /// Reads the results of the accumulators.
    pub(super) fn of(results: &[Nullable]) -> Result<Self, Unsupported> {
        let [count, mean, squares, other_mean, other_squares, products] = *results else {
            return Err(Unsupported::new("pairs without their moments"));
        };
        Ok(Self {
            count,
            mean,
            squares,
            other_mean,
            other_squares,
            products,
        })
    }

    /// Divides by the count of pairs.
    pub(super) fn per_pair(&self, builder: &mut Builder, value: ValueId) -> ValueId {
        let count = builder.convert(self.count.value, Class::F64);
        builder.float2(FloatOp::Divide, value, count)
    }

    /// Returns whether there are more than so many pairs.
    pub(super) fn are_more_than(&self, builder: &mut Builder, num: i128) -> ValueId {
        let num = builder.int(num);
        builder.compare(Comparison::Greater, self.count.value, num)
    }
}

/// Checks that both arguments are doubles.
pub(super) fn check(name: &str, arguments: &[DataType]) -> Result<(), Unsupported> {
    let is_other = |data_type: &&DataType| **data_type != DataType::Float64;
    match arguments.iter().find(is_other) {
        Some(other) => Err(Unsupported::new(format!("{name} of {other}"))),
        None => Ok(()),
    }
}

/// Keeps the moments of pairs; `turned` makes the second argument the first.
pub(super) fn accumulate(
    builder: &mut Builder,
    update: &Update,
    turned: bool,
) -> Result<Vec<Accumulator>, Unsupported> {
    let ([mut value, mut other], rows) = update.pair(builder)?;
    if turned {
        (value, other) = (other, value);
    }
    let moments = |of: ValueId| Accumulator {
        reduce: Reduce::Moments,
        value: Some(of),
        rows,
    };
    let products = Accumulator {
        reduce: Reduce::CoMoment { other },
        value: Some(value),
        rows,
    };
    Ok(vec![
        count_of(rows),
        moments(value),
        moments(other),
        products,
    ])
}

/// Returns the types that aggregates of pairs are tested with.
pub(super) fn arguments() -> Vec<Vec<DataType>> {
    vec![vec![DataType::Float64; 2]]
}
