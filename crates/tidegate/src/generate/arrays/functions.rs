//! The table functions `random_normal`, `random_uniform`, `random_integers`, `arange` and `ones`.
//!
//! A shape is a whole number or a list of them, the slowest dimension first; `chunks` is the same, one
//! number for all dimensions, and by default the whole array; `dtype` is 'float64', which is the default,
//! or 'float32'. NULL is a default.

use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::{DataFusionError, ScalarValue, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use tidegate_kernels::random::{Array, NORMAL_MAX, Values};

use super::ArraySource;
use crate::generate::functions::{Arguments, table_of};
use crate::options::TidegateOptions;

/// The functions' names, each with its arguments in order.
pub(super) const SIGNATURES: [(&str, &[&str]); 5] = [
    (
        "random_normal",
        &["shape", "loc", "scale", "chunks", "seed", "dtype"],
    ),
    (
        "random_uniform",
        &["shape", "low", "high", "chunks", "seed", "dtype"],
    ),
    (
        "random_integers",
        &["shape", "low", "high", "chunks", "seed"],
    ),
    ("arange", &["start", "stop", "step", "chunks"]),
    ("ones", &["shape", "chunks", "dtype"]),
];

/// Returns the functions by their names.
pub(in crate::generate) fn functions() -> Vec<(&'static str, Arc<dyn TableFunctionImpl>)> {
    let function = |kind: Kind| Arc::new(ArrayFunction(kind)) as Arc<dyn TableFunctionImpl>;
    let kinds = [
        Kind::Normal,
        Kind::Uniform,
        Kind::Integers,
        Kind::Arange,
        Kind::Ones,
    ];
    let names = SIGNATURES.iter().map(|(name, _)| *name);
    names.zip(kinds.map(function)).collect()
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Normal,
    Uniform,
    Integers,
    Arange,
    Ones,
}

#[derive(Debug)]
struct ArrayFunction(Kind);

impl TableFunctionImpl for ArrayFunction {
    fn call_with_args(&self, args: TableFunctionArgs) -> Result<Arc<dyn TableProvider>> {
        let options = TidegateOptions::of(args.session().config_options());
        let source = source(self.0, args.exprs(), options.generate_all)?;
        Ok(table_of(source))
    }
}

fn source(kind: Kind, exprs: &[Expr], generate_all: bool) -> Result<ArraySource> {
    let (shape, values, chunks_at, dtype_at) = match kind {
        Kind::Normal => {
            let signature = "random_normal(shape [, loc [, scale [, chunks [, seed [, dtype]]]]])";
            let args = Arguments::try_new(signature, exprs, 1..=6)?;
            let location = args.given(1).map_or(Ok(0.0), |_| args.number(1, "loc"))?;
            let scale = args.given(2).map_or(Ok(1.0), |_| args.number(2, "scale"))?;
            let far = location.abs() + NORMAL_MAX * scale;
            if scale < 0.0 || !far.is_finite() {
                return args.mismatch(2, "scale", "zero or more, and all values finite");
            }
            let values = Values::Normal { location, scale };
            (shape(&args)?, values, 3, Some(5))
        }
        Kind::Uniform => {
            let signature = "random_uniform(shape [, low [, high [, chunks [, seed [, dtype]]]]])";
            let args = Arguments::try_new(signature, exprs, 1..=6)?;
            let low = args.given(1).map_or(Ok(0.0), |_| args.number(1, "low"))?;
            let high = args.given(2).map_or(Ok(1.0), |_| args.number(2, "high"))?;
            let width = high - low;
            if width < 0.0 || !width.is_finite() {
                return args.mismatch(2, "high", "low or more, and finite");
            }
            let values = Values::Uniform { low, width };
            (shape(&args)?, values, 3, Some(5))
        }
        Kind::Integers => {
            let signature = "random_integers(shape, low, high [, chunks [, seed]])";
            let args = Arguments::try_new(signature, exprs, 3..=5)?;
            let (low, high) = (args.integer(1, "low")?, args.integer(2, "high")?);
            if high <= low {
                return args.mismatch(2, "high", "more than low, which is the least value");
            }
            let count = high.wrapping_sub(low) as u64;
            let values = Values::Integers { low, count };
            (shape(&args)?, values, 3, None)
        }
        Kind::Arange => {
            let signature = "arange(stop) or arange(start, stop [, step [, chunks]])";
            let args = Arguments::try_new(signature, exprs, 1..=4)?;
            let (shape, values) = arange(&args)?;
            (shape, values, 3, None)
        }
        Kind::Ones => {
            let args = Arguments::try_new("ones(shape [, chunks [, dtype]])", exprs, 1..=3)?;
            (shape(&args)?, Values::Constant(1.0), 1, Some(2))
        }
    };
    let name = SIGNATURES[kind as usize].0;
    let args = Arguments::try_new(name, exprs, 0..=usize::MAX)?;
    let chunks = match args.given(chunks_at) {
        None => shape.iter().map(|len| (*len).max(1)).collect(),
        Some(_) => match whole_numbers(&args, chunks_at, "chunks")?.as_slice() {
            [one] => vec![*one; shape.len()],
            many => many.to_vec(),
        },
    };
    let seed = match args.given(4) {
        Some(_) => args.whole(4, "seed")?,
        None => 0,
    };
    let shown: Vec<String> = exprs.iter().map(shown).collect();
    let mut array = Array::try_new(shape, values, seed)
        .map_err(|error| DataFusionError::Plan(format!("{name}: {error}")))?;
    if let Some(dtype_at) = dtype_at
        && is_single(&args, dtype_at, &values)?
    {
        array = array.in_singles();
    }
    let call = format!("{name}({})", shown.join(", "));
    ArraySource::try_new(call, array, chunks, generate_all)
}

/// Reads whether the values are singles, which then must hold them.
fn is_single(args: &Arguments<'_>, index: usize, values: &Values) -> Result<bool> {
    if args.given(index).is_none() {
        return Ok(false);
    }
    match args.text(index, "dtype")?.to_ascii_lowercase().as_str() {
        "float64" | "double" | "f8" => Ok(false),
        "float32" | "real" | "f4" => {
            let far = match values {
                Values::Normal { location, scale } => location.abs() + NORMAL_MAX * scale,
                Values::Uniform { low, width } => low.abs() + width,
                _ => 0.0,
            };
            if far > f64::from(f32::MAX) {
                return args.mismatch(index, "dtype", "'float64', as singles hold no such values");
            }
            Ok(true)
        }
        _ => args.mismatch(index, "dtype", "'float64' or 'float32'"),
    }
}

fn shown(expr: &Expr) -> String {
    match expr {
        Expr::Literal(value, _) => value.to_string(),
        expr => expr.to_string(),
    }
}

fn shape(args: &Arguments<'_>) -> Result<Vec<u64>> {
    whole_numbers(args, 0, "shape")
}

/// Reads the numbers from start to below stop.
fn arange(args: &Arguments<'_>) -> Result<(Vec<u64>, Values)> {
    let (start, stop) = if args.given(1).is_some() {
        let start = args.given(0).map_or(Ok(0), |_| args.integer(0, "start"))?;
        (start, args.integer(1, "stop")?)
    } else {
        (0, args.integer(0, "stop")?)
    };
    let step = args.given(2).map_or(Ok(1), |_| args.integer(2, "step"))?;
    if step == 0 {
        return args.mismatch(2, "step", "a whole number that is not zero");
    }
    let far = (i128::from(stop) - i128::from(start)) * i128::from(step.signum());
    let by = i128::from(step).abs();
    let count = if far <= 0 { 0 } else { (far + by - 1) / by };
    let count = u64::try_from(count).unwrap_or(u64::MAX);
    Ok((vec![count], Values::Series { start, step }))
}

/// Reads a whole number, or a list of them.
fn whole_numbers(args: &Arguments<'_>, index: usize, name: &str) -> Result<Vec<u64>> {
    const EXPECTED: &str = "a whole number from 0 to below 2^63, or a list of such";
    let list = match args.given(index) {
        Some(ScalarValue::List(list)) => list.value(0),
        Some(ScalarValue::LargeList(list)) => list.value(0),
        Some(ScalarValue::FixedSizeList(list)) => list.value(0),
        _ => return Ok(vec![args.whole(index, name)?]),
    };
    let numbers = cast(&list, &DataType::Int64);
    let Ok(numbers) = numbers
        .as_ref()
        .map(|numbers| numbers.as_primitive::<Int64Type>())
    else {
        return args.mismatch(index, name, EXPECTED);
    };
    let read: Option<Vec<u64>> = numbers
        .iter()
        .map(|number| number.and_then(|number| u64::try_from(number).ok()))
        .collect();
    match read {
        Some(read) if !read.is_empty() => Ok(read),
        Some(_) => plan_err!("the {name} is an empty list; give a length for each dimension"),
        None => args.mismatch(index, name, EXPECTED),
    }
}
