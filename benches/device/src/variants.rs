//! NULLs, decimals, strings, and keys and values of several types: shapes with no figure to reach.

use arrow_schema::{DataType, Field};
use tidegate_pipeline::{Aggregate, AggregateOutput, Expr, Step, Unsupported};

use crate::columns::{Column, Values};
use crate::shapes::{
    Builder, Check, DATE_LOW, DECIMAL, Shape, column, count, named, pipeline, q6, sum,
};

/// One column of a shape whose calls are checked one by one.
struct Input {
    name: &'static str,
    data_type: DataType,
    column: Column,
}

fn input(name: &'static str, data_type: DataType, column: Column) -> Input {
    Input {
        name,
        data_type,
        column,
    }
}

/// SELECT keys, sum of each value, count(*) GROUP BY keys.
fn calls(name: &str, keys: Vec<Input>, values: Vec<Input>) -> Result<Shape, Unsupported> {
    let num_keys = keys.len();
    let inputs: Vec<Input> = keys.into_iter().chain(values).collect();
    let expr = |index: usize| Expr::column(index, inputs[index].data_type.clone());
    let keys = (0..num_keys)
        .map(|index| Ok(named(expr(index)?, inputs[index].name)))
        .collect::<Result<_, Unsupported>>()?;
    let mut calls = (num_keys..inputs.len())
        .map(|index| sum(expr(index)?, inputs[index].name))
        .collect::<Result<Vec<_>, _>>()?;
    calls.push(count()?);
    let steps = vec![Step::Aggregate(Aggregate {
        keys,
        calls,
        output: AggregateOutput::Value,
    })];
    let field = |input: &Input| {
        let nullable = input.column.null_every > 0;
        Field::new(input.name, input.data_type.clone(), nullable)
    };
    let fields: Vec<Field> = inputs.iter().map(field).collect();
    // A plain string key is a view of 16 bytes.
    let plain = |input: &Input| input.data_type.primitive_width().unwrap_or(16) as u64;
    let arguments = (num_keys..inputs.len()).map(Some).chain([None]);
    Ok(Shape {
        name: name.into(),
        plain_row_bytes: inputs.iter().map(plain).sum(),
        columns: inputs.iter().map(|input| input.column).collect(),
        pipeline: pipeline(fields, Builder::default(), steps)?,
        check: Check::Calls,
        cudf: None,
        target: None,
        num_keys,
        arguments: arguments.collect(),
    })
}

/// Returns the shapes.
pub(crate) fn shapes() -> Result<Vec<Shape>, Unsupported> {
    let uniform =
        |count: u64, width: u32, seed: u64| column(Values::Uniform { count }, width, seed);
    let nullable = |column: Column| Column {
        null_every: 10,
        ..column
    };
    let key = || uniform(1_000, 8, 21);
    let value = || column(Values::Full, 8, 22);
    let int = |name, column| input(name, DataType::Int64, column);
    let cents = || Values::Hundredths {
        low: 90_000,
        count: 10_404_951,
    };
    Ok(vec![
        q6(false, 20)?,
        q6(true, 20)?,
        calls(
            "1000 groups i64, NULL values",
            vec![int("k", key())],
            vec![int("v", nullable(value()))],
        )?,
        calls(
            "1000 groups i64, NULL keys",
            vec![int("k", nullable(key()))],
            vec![int("v", value())],
        )?,
        calls(
            "1000 groups decimal packed",
            vec![int("k", uniform(1_000, 2, 21))],
            vec![input("v", DECIMAL, uniform(10_404_951, 4, 23))],
        )?,
        calls(
            "1000 groups decimal of 84 bits",
            vec![int("k", key())],
            vec![input(
                "v",
                DataType::Decimal128(38, 2),
                column(Values::Wide, 16, 24),
            )],
        )?,
        calls(
            "1000 strings",
            vec![input("k", DataType::Utf8, uniform(1_000, 2, 25))],
            vec![int("v", value())],
        )?,
        calls(
            "50000 strings",
            vec![input("k", DataType::Utf8, uniform(50_000, 2, 25))],
            vec![int("v", value())],
        )?,
        calls(
            "string, date and i8, mixed values",
            vec![
                input("country", DataType::Utf8, uniform(20, 1, 26)),
                input(
                    "month",
                    DataType::Date32,
                    Column {
                        base: DATE_LOW,
                        factor: 30,
                        ..uniform(12, 1, 27)
                    },
                ),
                input("flag", DataType::Int8, uniform(3, 1, 28)),
            ],
            vec![
                input("price", DataType::Float64, column(cents(), 8, 29)),
                input("fee", DECIMAL, uniform(10_404_951, 4, 30)),
                input("quantity", DataType::Int64, nullable(uniform(50, 1, 31))),
            ],
        )?,
    ])
}
