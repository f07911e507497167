//! The table functions `tpch(table, scale_factor)` and
//! `h2o_g1(rows, groups [, null_percent [, seed]])`, and those of arrays.
//!
//! Arguments are literals, or what the planner can fold into one. Errors name the argument, what
//! it was given and what it takes.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;

use super::{H2oG1Source, TpchSource, arrays};
use crate::sources::{MorselSource, MorselTable};

/// The seed of db-benchmark's own generator.
const H2O_SEED: u64 = 108;

/// Returns the table functions by the names that SQL calls them by.
pub fn table_functions() -> Vec<(&'static str, Arc<dyn TableFunctionImpl>)> {
    let mut functions: Vec<(&'static str, Arc<dyn TableFunctionImpl>)> = vec![
        ("tpch", Arc::new(TpchFunction)),
        ("h2o_g1", Arc::new(H2oG1Function)),
    ];
    functions.extend(arrays::functions());
    functions
}

#[derive(Debug)]
struct TpchFunction;

impl TableFunctionImpl for TpchFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        Ok(table_of(tpch_source(args.exprs())?))
    }
}

#[derive(Debug)]
struct H2oG1Function;

impl TableFunctionImpl for H2oG1Function {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        Ok(table_of(h2o_g1_source(args.exprs())?))
    }
}

pub(super) fn table_of(source: impl MorselSource + 'static) -> Arc<dyn TableProvider> {
    Arc::new(MorselTable::new(Arc::new(source)))
}

fn tpch_source(exprs: &[Expr]) -> Result<TpchSource> {
    let args = Arguments::try_new("tpch(table, scale_factor)", exprs, 2..=2)?;
    TpchSource::try_new(args.text(0, "table")?, args.number(1, "scale_factor")?)
}

fn h2o_g1_source(exprs: &[Expr]) -> Result<H2oG1Source> {
    let signature = "h2o_g1(rows, groups [, null_percent [, seed]])";
    let args = Arguments::try_new(signature, exprs, 2..=4)?;
    let rows = args.whole(0, "rows")?;
    let groups = args.whole(1, "groups")?;
    let null_percent = if exprs.len() > 2 {
        args.percent(2, "null_percent")?
    } else {
        0
    };
    let seed = if exprs.len() > 3 {
        args.whole(3, "seed")?
    } else {
        H2O_SEED
    };
    H2oG1Source::try_new(rows, groups, null_percent, seed)
}

/// The arguments of one call, with the signature that their errors begin with.
#[derive(Clone, Copy)]
pub(super) struct Arguments<'a> {
    signature: &'static str,
    exprs: &'a [Expr],
}

impl<'a> Arguments<'a> {
    pub(super) fn try_new(
        signature: &'static str,
        exprs: &'a [Expr],
        count: RangeInclusive<usize>,
    ) -> Result<Self> {
        if count.contains(&exprs.len()) {
            return Ok(Self { signature, exprs });
        }
        let (least, most) = count.into_inner();
        let takes = if least == most {
            least.to_string()
        } else {
            format!("{least} to {most}")
        };
        plan_err!("{signature}: takes {takes} arguments, got {}", exprs.len())
    }

    pub(super) fn text(&self, index: usize, name: &str) -> Result<&'a str> {
        match self
            .literal(index)
            .and_then(|value| value.try_as_str().flatten())
        {
            Some(text) => Ok(text),
            None => self.mismatch(index, name, "a string literal"),
        }
    }

    pub(super) fn number(&self, index: usize, name: &str) -> Result<f64> {
        match self.literal(index).and_then(to_number) {
            Some(number) => Ok(number),
            None => self.mismatch(index, name, "a number"),
        }
    }

    /// Reads a whole number, which may be written with a point or an exponent, as `1e7`.
    pub(super) fn whole(&self, index: usize, name: &str) -> Result<u64> {
        match self.literal(index).and_then(to_whole) {
            Some(number) => Ok(number),
            None => self.mismatch(index, name, "a whole number, zero or more"),
        }
    }

    /// Reads a signed whole number, which may be written with a point or an exponent.
    pub(super) fn integer(&self, index: usize, name: &str) -> Result<i64> {
        match self.literal(index).and_then(to_integer) {
            Some(number) => Ok(number),
            None => self.mismatch(index, name, "a whole number"),
        }
    }

    /// Returns the literal at a place, unless there is none or it is NULL.
    pub(super) fn given(&self, index: usize) -> Option<&'a ScalarValue> {
        match self.exprs.get(index) {
            Some(Expr::Literal(value, _)) => Some(value).filter(|value| !value.is_null()),
            // What is no literal is told by whoever reads it.
            Some(_) => Some(&ScalarValue::Null),
            None => None,
        }
    }

    fn percent(&self, index: usize, name: &str) -> Result<u8> {
        match self.literal(index).and_then(to_whole).map(u8::try_from) {
            Some(Ok(percent)) if percent <= 100 => Ok(percent),
            _ => self.mismatch(index, name, "a whole number from 0 to 100"),
        }
    }

    fn literal(&self, index: usize) -> Option<&'a ScalarValue> {
        match self.exprs.get(index) {
            Some(Expr::Literal(value, _)) => Some(value),
            _ => None,
        }
    }

    pub(super) fn mismatch<T>(&self, index: usize, name: &str, expected: &str) -> Result<T> {
        let given = match self.exprs.get(index) {
            Some(Expr::Literal(value, _)) => match value.try_as_str() {
                Some(Some(text)) => format!("'{text}'"),
                _ => value.to_string(),
            },
            Some(expr) => format!("the expression {expr}"),
            None => "nothing".to_string(),
        };
        plan_err!(
            "{}: the {name} must be {expected}, got {given}",
            self.signature
        )
    }
}

fn to_number(value: &ScalarValue) -> Option<f64> {
    if !value.data_type().is_numeric() {
        return None;
    }
    match value.cast_to(&DataType::Float64) {
        Ok(ScalarValue::Float64(number)) => number,
        _ => None,
    }
}

fn to_whole(value: &ScalarValue) -> Option<u64> {
    if value.data_type().is_integer() {
        return match value.cast_to(&DataType::UInt64) {
            Ok(ScalarValue::UInt64(number)) => number,
            _ => None,
        };
    }
    // Up to 2^53 each whole number is a Float64 of its own.
    to_number(value)
        .filter(|number| number.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(number))
        .map(|number| number as u64)
}

fn to_integer(value: &ScalarValue) -> Option<i64> {
    if value.data_type().is_integer() {
        return match value.cast_to(&DataType::Int64) {
            Ok(ScalarValue::Int64(number)) => number,
            _ => None,
        };
    }
    to_number(value)
        .filter(|number| number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0)
        .map(|number| number as i64)
}

#[cfg(test)]
mod tests;
