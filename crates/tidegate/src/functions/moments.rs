//! `skewness`, `kurtosis` and `kurtosis_pop`, of central moments that are added up without cancellation.
//!
//! A state is the number of values, their mean, and the sums of the second to fourth powers of their distances
//! from it. Two states add up by the formulas of P. Pébay, "Formulas for robust, one-pass parallel computation of
//! covariances and arbitrary-order statistical moments" (Sandia report SAND2008-6212), equations 3.1; the sample
//! statistics are those of DuckDB, pandas and Excel (adjusted Fisher-Pearson, and excess kurtosis).

use datafusion::arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use datafusion::arrow::datatypes::{DataType, FieldRef, Float64Type};
use datafusion::common::{ScalarValue, exec_err, not_impl_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::aggregate_doc_sections::DOC_SECTION_STATISTICAL;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF, Documentation};

use super::aggregate::{self, Kind};

/// What is told of the moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Told {
    Skewness,
    Kurtosis,
    KurtosisPop,
}

/// Returns the functions.
pub(crate) fn functions() -> [AggregateUDF; 3] {
    [Told::Skewness, Told::Kurtosis, Told::KurtosisPop].map(aggregate::function)
}

/// Takes one number, for a function that returns one.
///
/// # Errors
/// That the function takes one.
pub(super) fn one_number(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [of] if of.is_numeric() || of.is_null() => Ok(vec![DataType::Float64]),
        _ => plan_err!("{name} takes one number"),
    }
}

impl Kind for Told {
    fn name(self) -> &'static str {
        match self {
            Self::Skewness => "skewness",
            Self::Kurtosis => "kurtosis",
            Self::KurtosisPop => "kurtosis_pop",
        }
    }

    fn documentation(self) -> Documentation {
        let what = match self {
            Self::Skewness => "sample skewness, NULL of fewer than three values",
            Self::Kurtosis => "sample excess kurtosis, NULL of fewer than four values",
            Self::KurtosisPop => "excess kurtosis of a population, NULL of fewer than two values",
        };
        let description = format!("Returns the {what}; NULL where all are equal.");
        let call = format!("{}(x)", self.name());
        Documentation::builder(DOC_SECTION_STATISTICAL, description, call).build()
    }

    fn takes(self, given: &[DataType]) -> Result<Vec<DataType>> {
        one_number(self.name(), given)
    }

    fn returns(self, _: &[DataType]) -> DataType {
        DataType::Float64
    }

    fn state(self, _: &[FieldRef]) -> Result<Vec<(&'static str, DataType)>> {
        let columns = ["count", "mean", "second", "third", "fourth"];
        Ok(columns.map(|name| (name, DataType::Float64)).to_vec())
    }

    fn keeper(self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return not_impl_err!("{}(DISTINCT …)", self.name());
        }
        Ok(Box::new(Sums {
            told: self,
            moments: Moments::default(),
        }))
    }
}

/// The number of values, their mean, and sums of powers of their distances from it.
#[derive(Clone, Copy, Debug, Default)]
struct Moments {
    count: f64,
    mean: f64,
    second: f64,
    third: f64,
    fourth: f64,
}

impl Moments {
    fn one(value: f64) -> Self {
        Self {
            count: 1.0,
            mean: value,
            ..Self::default()
        }
    }

    fn add(&mut self, other: Self) {
        if self.count == 0.0 {
            *self = other;
            return;
        }
        if other.count == 0.0 {
            return;
        }
        let (a, b) = (*self, other);
        let (count, delta) = (a.count + b.count, b.mean - a.mean);
        let (share_a, share_b) = (a.count / count, b.count / count);
        let square = delta * delta * a.count * share_b;
        let second = a.second + b.second + square;
        let third = a.third
            + b.third
            + square * delta * (share_a - share_b)
            + 3.0 * delta * (share_a * b.second - share_b * a.second);
        let fourth = a.fourth
            + b.fourth
            + square * delta * delta * (share_a * share_a - share_a * share_b + share_b * share_b)
            + 6.0 * delta * delta * (share_a * share_a * b.second + share_b * share_b * a.second)
            + 4.0 * delta * (share_a * b.third - share_b * a.third);
        *self = Self {
            count,
            mean: a.mean + delta * share_b,
            second,
            third,
            fourth,
        };
    }

    fn told(self, what: Told) -> Option<f64> {
        let Self {
            count: n,
            second,
            third,
            fourth,
            ..
        } = self;
        let least = match what {
            Told::Skewness => 3.0,
            Told::Kurtosis => 4.0,
            Told::KurtosisPop => 2.0,
        };
        if n < least || second == 0.0 {
            return None;
        }
        let kurtosis = n * fourth / (second * second) - 3.0;
        Some(match what {
            Told::Skewness => {
                let population = n.sqrt() * third / second.powf(1.5);
                population * (n * (n - 1.0)).sqrt() / (n - 2.0)
            }
            Told::Kurtosis => (n - 1.0) / ((n - 2.0) * (n - 3.0)) * ((n + 1.0) * kurtosis + 6.0),
            Told::KurtosisPop => kurtosis,
        })
    }
}

#[derive(Debug)]
struct Sums {
    told: Told,
    moments: Moments,
}

impl Accumulator for Sums {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [values] = values else {
            return exec_err!("a function of moments takes one argument");
        };
        for value in values.as_primitive::<Float64Type>().iter().flatten() {
            self.moments.add(Moments::one(value));
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let Moments {
            count,
            mean,
            second,
            third,
            fourth,
        } = self.moments;
        let state = [count, mean, second, third, fourth];
        Ok(state
            .map(|value| ScalarValue::Float64(Some(value)))
            .to_vec())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let columns: Vec<&PrimitiveArray<Float64Type>> = states
            .iter()
            .map(|column| column.as_primitive::<Float64Type>())
            .collect();
        let [count, mean, second, third, fourth] = columns[..] else {
            return exec_err!("a state of moments has {} columns", states.len());
        };
        for row in (0..count.len()).filter(|row| count.is_valid(*row)) {
            self.moments.add(Moments {
                count: count.value(row),
                mean: mean.value(row),
                second: second.value(row),
                third: third.value(row),
                fourth: fourth.value(row),
            });
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.moments.told(self.told)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

#[cfg(test)]
mod tests {
    use super::{Moments, Told};

    /// Values of pandas (`skew`, `kurt`) for 1, 2, 4 and 9.
    #[test]
    fn moments_are_the_same_however_they_are_added_up() {
        let values = [1.0, 2.0, 4.0, 9.0];
        for split in 0..=values.len() {
            let mut both = [Moments::default(), Moments::default()];
            for (index, value) in values.into_iter().enumerate() {
                // A large offset costs the sums of powers their digits.
                both[usize::from(index >= split)].add(Moments::one(value + 1e6));
            }
            let [mut all, other] = both;
            all.add(other);
            for (told, expected) in [
                (Told::Skewness, 1.330_937_732_247_670_3),
                (Told::Kurtosis, 1.5),
                (Told::KurtosisPop, -1.0),
            ] {
                let seen = all.told(told).unwrap();
                assert!((seen - expected).abs() < 1e-8, "{told:?}: {seen}");
            }
        }
    }

    #[test]
    fn too_few_or_equal_values_have_none() {
        for (told, least) in [
            (Told::KurtosisPop, 2),
            (Told::Skewness, 3),
            (Told::Kurtosis, 4),
        ] {
            let mut moments = Moments::default();
            for value in 0..least {
                assert_eq!(moments.told(told), None);
                moments.add(Moments::one(f64::from(value)));
            }
            assert!(moments.told(told).is_some());
        }
        let mut moments = Moments::default();
        (0..5).for_each(|_| moments.add(Moments::one(0.1)));
        assert_eq!(moments.told(Told::Kurtosis), None);
    }
}
