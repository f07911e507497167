//! One call's state in every group, and the Arrow columns that it becomes.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use tidegate_pipeline::types::Decimal;
use tidegate_pipeline::{AggregateCall, AggregateFunction, EvalError};

use super::arrays::{dictionary_array, float32_array, float64_array, integer_array};
use super::floats::FloatSums;
use super::moments::{Moments, PowerSums};
use crate::encode::Dictionary;

/// One call's state in every group.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CallColumn {
    pub(super) counts: Vec<u64>,
    pub(super) sums: SumColumn,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum SumColumn {
    None,
    /// Modulo 2^128.
    Integers(Vec<i128>),
    Floats(FloatSums),
    /// Images in unsigned order: the greatest wins.
    Extremes {
        images: Vec<u64>,
        complement: bool,
    },
    Moments(Vec<PowerSums>),
    /// Codes of a slot's dictionary, the greatest strings so far; or the least.
    Codes {
        codes: Vec<u32>,
        dictionary: usize,
        least: bool,
    },
    /// The same as strings.
    Strings {
        strings: Vec<Arc<str>>,
        least: bool,
    },
}

impl CallColumn {
    fn nulls(&self) -> Option<NullBuffer> {
        if self.counts.iter().all(|count| *count > 0) {
            return None;
        }
        Some(NullBuffer::from_iter(
            self.counts.iter().map(|count| *count > 0),
        ))
    }

    /// Returns the columns of the partial state.
    pub(super) fn state(&self, call: &AggregateCall) -> Result<Vec<ArrayRef>, EvalError> {
        match call.function {
            AggregateFunction::Avg => {
                let counts: Vec<Option<i128>> = self
                    .counts
                    .iter()
                    .map(|count| (*count > 0).then_some(i128::from(*count)))
                    .collect();
                let sum_type = call.state.get(1).map(|field| field.data_type());
                let sum_type = sum_type.unwrap_or(&call.data_type);
                Ok(vec![
                    integer_array(&DataType::UInt64, &counts)?,
                    self.sum(sum_type)?,
                ])
            }
            _ => match &self.sums {
                SumColumn::Moments(sums) => {
                    let moments = self.moments(sums);
                    let counts = self.counts.iter().map(|count| Some(i128::from(*count)));
                    let column = |of: fn(&Moments) -> f64| {
                        float64_array(moments.iter().map(of).collect(), None)
                    };
                    Ok(vec![
                        integer_array(&DataType::UInt64, &counts.collect::<Vec<_>>())?,
                        column(|moments| moments.mean),
                        column(|moments| moments.m2),
                    ])
                }
                _ => Ok(vec![self.value(call)?]),
            },
        }
    }

    pub(super) fn value(&self, call: &AggregateCall) -> Result<ArrayRef, EvalError> {
        match call.function {
            AggregateFunction::Count => {
                let counts: Vec<Option<i128>> = self
                    .counts
                    .iter()
                    .map(|count| Some(i128::from(*count)))
                    .collect();
                integer_array(&call.data_type, &counts)
            }
            AggregateFunction::Avg => self.average(call),
            _ => match &self.sums {
                SumColumn::Moments(sums) => Ok(self.variance(call.function, sums)),
                _ => self.sum(&call.data_type),
            },
        }
    }

    fn moments(&self, sums: &[PowerSums]) -> Vec<Moments> {
        let counts = self.counts.iter();
        let of_group = |(count, sums): (&u64, &PowerSums)| sums.moments(*count);
        counts.zip(sums).map(of_group).collect()
    }

    /// Returns variances or their roots, NULL where there are too few values.
    fn variance(&self, function: AggregateFunction, sums: &[PowerSums]) -> ArrayRef {
        let fewer = u64::from(function.is_of_sample());
        let divisors = self.counts.iter().map(|count| count.saturating_sub(fewer));
        let nulls = NullBuffer::from_iter(divisors.clone().map(|divisor| divisor > 0));
        let value = |(divisor, moments): (u64, Moments)| {
            let variance = moments.m2 / divisor as f64;
            match (divisor, function.is_root()) {
                (0, _) => 0.0,
                (_, true) => variance.sqrt(),
                (_, false) => variance,
            }
        };
        let values = divisors.zip(self.moments(sums)).map(value).collect();
        float64_array(values, (nulls.null_count() > 0).then_some(nulls))
    }

    /// Returns the sums or extremes, NULL where there is no value.
    fn sum(&self, data_type: &DataType) -> Result<ArrayRef, EvalError> {
        let there = |row: usize| self.counts[row] > 0;
        match &self.sums {
            SumColumn::None | SumColumn::Moments(_) | SumColumn::Codes { .. } => {
                integer_array(data_type, &[])
            }
            SumColumn::Strings { strings, .. } => {
                let mut dictionary = Dictionary::default();
                let code = |(row, string): (usize, &Arc<str>)| {
                    there(row).then(|| i128::from(dictionary.code(string)))
                };
                let codes: Vec<_> = strings.iter().enumerate().map(code).collect();
                dictionary_array(data_type, &codes, &dictionary)
            }
            SumColumn::Integers(sums) if *data_type == DataType::Float64 => Ok(float64_array(
                sums.iter().map(|sum| *sum as f64).collect(),
                self.nulls(),
            )),
            SumColumn::Integers(sums) => {
                let value =
                    |(row, sum): (usize, &i128)| there(row).then(|| wrapped(data_type, *sum));
                let values: Vec<_> = sums.iter().enumerate().map(value).collect();
                integer_array(data_type, &values)
            }
            SumColumn::Floats(sums) => Ok(float64_array(sums.rounded(), self.nulls())),
            SumColumn::Extremes { images, complement } => {
                let image_of = |image: &u64| if *complement { !*image } else { *image };
                let word = |image: &u64| (image_of(image) ^ (1 << 63)) as i64;
                match data_type {
                    DataType::Float64 => Ok(float64_array(
                        images.iter().map(|image| double_of(word(image))).collect(),
                        self.nulls(),
                    )),
                    DataType::Float32 => Ok(float32_array(
                        images.iter().map(|image| single_of(word(image))).collect(),
                        self.nulls(),
                    )),
                    _ => {
                        let value = |(row, image): (usize, &u64)| {
                            there(row).then(|| match data_type {
                                // What is unsigned is its own image.
                                DataType::UInt64 => i128::from(image_of(image)),
                                _ => i128::from(word(image)),
                            })
                        };
                        let values: Vec<_> = images.iter().enumerate().map(value).collect();
                        integer_array(data_type, &values)
                    }
                }
            }
        }
    }

    fn average(&self, call: &AggregateCall) -> Result<ArrayRef, EvalError> {
        let overflow = || EvalError::Overflow {
            operation: format!("avg as {}", call.data_type),
        };
        match &self.sums {
            SumColumn::Floats(sums) => Ok(float64_array(
                sums.rounded()
                    .iter()
                    .zip(&self.counts)
                    .map(|(sum, count)| sum / *count as f64)
                    .collect(),
                self.nulls(),
            )),
            SumColumn::Integers(sums) if call.data_type == DataType::Float64 => Ok(float64_array(
                sums.iter()
                    .zip(&self.counts)
                    .map(|(sum, count)| *sum as f64 / *count as f64)
                    .collect(),
                self.nulls(),
            )),
            SumColumn::Integers(sums) => {
                let state = call.state.get(1).map(|field| field.data_type());
                let summed = state.and_then(Decimal::of);
                let given = Decimal::of(&call.data_type);
                let average = |(sum, count): (&i128, &u64)| {
                    if *count == 0 {
                        return Ok(None);
                    }
                    let (Some(summed), Some(given)) = (summed, given) else {
                        // A mean of durations.
                        let sum = *sum as i64;
                        return Ok(Some(i128::from(sum.wrapping_div(*count as i64))));
                    };
                    let digits =
                        u32::try_from(given.scale - summed.scale).map_err(|_| overflow())?;
                    let factor = summed.width.power_of_ten(digits).ok_or_else(overflow)?;
                    let scaled = summed.width.wrap(*sum).checked_mul(factor);
                    let scaled = scaled.and_then(|scaled| summed.width.fit(scaled));
                    let average = scaled.ok_or_else(overflow)? / i128::from(*count);
                    if given.holds(average) {
                        Ok(Some(average))
                    } else {
                        Err(overflow())
                    }
                };
                let values = sums.iter().zip(&self.counts).map(average);
                integer_array(
                    &call.data_type,
                    &values.collect::<Result<Vec<_>, EvalError>>()?,
                )
            }
            _ => Err(EvalError::Internal {
                what: "an average without a sum".into(),
            }),
        }
    }
}

/// Reduces a sum modulo 2^128 to the width of its type, as DataFusion's sums wrap.
fn wrapped(data_type: &DataType, sum: i128) -> i128 {
    match (Decimal::of(data_type), data_type) {
        (Some(decimal), _) => decimal.width.wrap(sum),
        (None, DataType::UInt64) => i128::from(sum as u64),
        _ => i128::from(sum as i64),
    }
}

fn double_of(ordered: i64) -> f64 {
    f64::from_bits((ordered ^ ((ordered >> 63) as u64 >> 1) as i64) as u64)
}

fn single_of(ordered: i64) -> f32 {
    let ordered = ordered as i32;
    f32::from_bits((ordered ^ ((ordered >> 31) as u32 >> 1) as i32) as u32)
}
