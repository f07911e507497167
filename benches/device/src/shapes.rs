//! The queries that are timed.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use tidegate_pipeline::check::decimal_rule;
use tidegate_pipeline::types::Decimal;
use tidegate_pipeline::{
    Aggregate, AggregateCall, AggregateFunction, AggregateOutput, ArithmeticOp, CastFailure,
    CompareOp, Expr, NamedExpr, Pipeline, Scalar, ScalarValue, Step, Unsupported,
};

use crate::columns::{Column, Values};
use crate::variants;

/// How a shape's answer is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// Every cell against sums over all rows on the host.
    Q6,
    /// The same, six groups.
    Q1,
    /// Sums over groups that tell every (key, value) apart with high probability.
    IntegerGroups,
    /// The same with doubles, within the contract's error.
    FloatGroups,
    /// Every count and sum of every group; the first columns are keys, and the last call counts rows.
    Calls,
    /// The rows that a filter lets through.
    Rows,
}

/// One query over generated columns.
pub(crate) struct Shape {
    pub(crate) name: String,
    /// Bytes of a row as it is stored, and with plain columns.
    pub(crate) plain_row_bytes: u64,
    pub(crate) columns: Vec<Column>,
    pub(crate) pipeline: Pipeline,
    pub(crate) check: Check,
    /// What cuDF takes for the same shape over 500 M plain rows, in ms, and what is to be reached.
    pub(crate) cudf: Option<f64>,
    pub(crate) target: Option<f64>,
    /// How many of the first columns are keys, and the column that each call is of, where
    /// [`Check::Calls`] has to know.
    pub(crate) num_keys: usize,
    pub(crate) arguments: Vec<Option<usize>>,
}

impl Shape {
    /// Returns the bits of a row as it is stored, validity included.
    pub(crate) fn row_bits(&self) -> u64 {
        self.columns
            .iter()
            .map(|column| 8 * u64::from(column.width) + u64::from(column.null_every > 0))
            .sum()
    }

    /// Returns what the columns hold and what is said of float sums.
    pub(crate) fn description(&self) -> String {
        let fields = self.pipeline.input.fields().iter();
        let columns: Vec<String> = fields
            .zip(&self.columns)
            .map(|(field, column)| format!("{} {}", field.name(), column.description()))
            .collect();
        let floats = match self.columns.iter().any(Column::is_float) {
            true => "; float sums ordered",
            false => "",
        };
        format!("resident; {}{floats}", columns.join("; "))
    }
}

pub(crate) fn column(values: Values, width: u32, seed: u64) -> Column {
    Column {
        values,
        sparse: false,
        width,
        base: 0,
        factor: 1,
        low: 0,
        seed: seed.wrapping_mul(0xd134_2543_de82_ef95),
        null_every: 0,
    }
}

pub(crate) const DECIMAL: DataType = DataType::Decimal128(15, 2);
pub(crate) const DATE_LOW: i64 = 8036;
const DATES: u64 = 2526;

/// Builds expressions over parameters that grow as they are used.
#[derive(Default)]
pub(crate) struct Builder {
    parameters: Vec<Scalar>,
}

impl Builder {
    fn literal(&mut self, data_type: DataType, value: ScalarValue) -> Result<Expr, Unsupported> {
        self.parameters.push(Scalar {
            data_type: data_type.clone(),
            value,
        });
        Expr::parameter(self.parameters.len() - 1, data_type)
    }

    fn date(&mut self, days: i64) -> Result<Expr, Unsupported> {
        self.literal(DataType::Date32, ScalarValue::Int(days))
    }

    /// Hundredths, as the money type has them.
    fn money(&mut self, money: &DataType, hundredths: i64) -> Result<Expr, Unsupported> {
        let value = match money {
            DataType::Float64 => ScalarValue::Float(hundredths as f64 / 100.0),
            _ => ScalarValue::Decimal(i128::from(hundredths)),
        };
        self.literal(money.clone(), value)
    }
}

fn arithmetic(op: ArithmeticOp, left: Expr, right: Expr) -> Result<Expr, Unsupported> {
    let types = (Decimal::of(&left.data_type), Decimal::of(&right.data_type));
    let data_type = match types {
        (Some(left), Some(right)) => decimal_rule(op, left, right)?.result.data_type(),
        _ => left.data_type.clone(),
    };
    Expr::arithmetic(op, left, right, data_type)
}

fn all(mut conditions: Vec<Expr>) -> Result<Expr, Unsupported> {
    let first = conditions.remove(0);
    conditions.into_iter().try_fold(first, Expr::and)
}

pub(crate) fn named(expr: Expr, name: &str) -> NamedExpr {
    NamedExpr {
        expr,
        name: name.into(),
    }
}

pub(crate) fn sum(argument: Expr, name: &str) -> Result<AggregateCall, Unsupported> {
    let data_type = match Decimal::of(&argument.data_type) {
        Some(decimal) => Decimal {
            precision: (decimal.precision + 10).min(38),
            ..decimal
        }
        .data_type(),
        None => argument.data_type.clone(),
    };
    let state = vec![Field::new(name, data_type.clone(), true)];
    AggregateCall::new(
        AggregateFunction::Sum,
        Some(argument),
        None,
        data_type,
        state,
        name,
    )
}

fn average(argument: Expr, name: &str) -> Result<AggregateCall, Unsupported> {
    let (value, state) = match Decimal::of(&argument.data_type) {
        Some(decimal) => (
            DataType::Decimal128(decimal.precision + 4, decimal.scale + 4),
            DataType::Decimal128(38, decimal.scale),
        ),
        None => (DataType::Float64, DataType::Float64),
    };
    let state = vec![
        Field::new("count", DataType::UInt64, true),
        Field::new("sum", state, true),
    ];
    AggregateCall::new(
        AggregateFunction::Avg,
        Some(argument),
        None,
        value,
        state,
        name,
    )
}

pub(crate) fn count() -> Result<AggregateCall, Unsupported> {
    let state = vec![Field::new("count", DataType::Int64, false)];
    AggregateCall::new(
        AggregateFunction::Count,
        None,
        None,
        DataType::Int64,
        state,
        "count",
    )
}

pub(crate) fn pipeline(
    fields: Vec<Field>,
    builder: Builder,
    steps: Vec<Step>,
) -> Result<Pipeline, Unsupported> {
    let input = Arc::new(Schema::new(fields));
    let mut output = input.as_ref().clone();
    for step in &steps {
        output = step.output_schema(&output);
    }
    let pipeline = Pipeline {
        input,
        parameters: builder.parameters,
        steps,
        output: Arc::new(output),
    };
    pipeline.validate()?;
    Ok(pipeline)
}

/// TPC-H Q6: shipdate, discount, quantity, price; of each one of so many rows is NULL.
pub(crate) fn q6(packed: bool, null_every: u64) -> Result<Shape, Unsupported> {
    let money = if packed { DECIMAL } else { DataType::Float64 };
    let mut builder = Builder::default();
    let date = || Expr::column(0, DataType::Date32);
    let column_of = |index| Expr::column(index, money.clone());
    let filter = all(vec![
        Expr::compare(CompareOp::GtEq, date()?, builder.date(8766)?)?,
        Expr::compare(CompareOp::Lt, date()?, builder.date(9131)?)?,
        Expr::compare(CompareOp::GtEq, column_of(1)?, builder.money(&money, 5)?)?,
        Expr::compare(CompareOp::LtEq, column_of(1)?, builder.money(&money, 7)?)?,
        Expr::compare(CompareOp::Lt, column_of(2)?, builder.money(&money, 2400)?)?,
    ])?;
    let revenue = arithmetic(ArithmeticOp::Multiply, column_of(3)?, column_of(1)?)?;
    let steps = vec![
        Step::Filter(filter),
        Step::Aggregate(Aggregate {
            keys: vec![],
            calls: vec![sum(revenue, "revenue")?],
            output: AggregateOutput::Value,
        }),
    ];
    let fields = vec![
        Field::new("shipdate", DataType::Date32, null_every > 0),
        Field::new("discount", money.clone(), null_every > 0),
        Field::new("quantity", money.clone(), null_every > 0),
        Field::new("price", money.clone(), null_every > 0),
    ];
    let name = if packed { "Q6 packed" } else { "Q6 plain f64" };
    let nulls = if null_every > 0 { ", NULLs" } else { "" };
    let columns = lineitem_columns(packed)[..4]
        .iter()
        .map(|column| Column {
            null_every,
            ..*column
        })
        .collect();
    Ok(Shape {
        name: format!("{name}{nulls}"),
        plain_row_bytes: 28,
        columns,
        pipeline: pipeline(fields, builder, steps)?,
        check: Check::Q6,
        cudf: (!packed && null_every == 0).then_some(26.6),
        target: (null_every == 0).then_some(if packed { 1.1 } else { 3.7 }),
        num_keys: 0,
        arguments: vec![],
    })
}

/// shipdate, discount, quantity, price, tax, returnflag, linestatus.
fn lineitem_columns(packed: bool) -> Vec<Column> {
    let cents =
        |low: u64, count: u64, seed: u64| column(Values::Hundredths { low, count }, 8, seed);
    let narrow = |count: u64, width: u32, base: i64, factor: i64, seed: u64| Column {
        base,
        factor,
        ..column(Values::Uniform { count }, width, seed)
    };
    if packed {
        return vec![
            narrow(DATES, 2, DATE_LOW, 1, 1),
            narrow(11, 1, 0, 1, 2),
            narrow(50, 1, 100, 100, 3),
            narrow(10_404_951, 4, 90_000, 1, 4),
            narrow(9, 1, 0, 1, 5),
            narrow(3, 1, 0, 1, 6),
            narrow(2, 1, 0, 1, 7),
        ];
    }
    vec![
        Column {
            low: DATE_LOW as u64,
            ..column(Values::Uniform { count: DATES }, 4, 1)
        },
        cents(0, 11, 2),
        cents(100, 4901, 3),
        cents(90_000, 10_404_951, 4),
        cents(0, 9, 5),
        column(Values::Uniform { count: 3 }, 1, 6),
        column(Values::Uniform { count: 2 }, 1, 7),
    ]
}

/// TPC-H Q1.
fn q1(packed: bool) -> Result<Shape, Unsupported> {
    let money = if packed { DECIMAL } else { DataType::Float64 };
    let mut builder = Builder::default();
    let column_of = |index| Expr::column(index, money.clone());
    let (discount, quantity, price, tax) =
        (column_of(1)?, column_of(2)?, column_of(3)?, column_of(4)?);
    let date = Expr::column(0, DataType::Date32)?;
    let filter = Expr::compare(CompareOp::LtEq, date, builder.date(10_471)?)?;
    let one = |builder: &mut Builder| builder.money(&money, 100);
    let left = arithmetic(ArithmeticOp::Subtract, one(&mut builder)?, discount.clone())?;
    let discounted = arithmetic(ArithmeticOp::Multiply, price.clone(), left)?;
    let taxed = arithmetic(ArithmeticOp::Add, one(&mut builder)?, tax)?;
    let charge = arithmetic(ArithmeticOp::Multiply, discounted.clone(), taxed)?;
    let flag = |index| Expr::column(index, DataType::Int8);
    let steps = vec![
        Step::Filter(filter),
        Step::Aggregate(Aggregate {
            keys: vec![named(flag(5)?, "returnflag"), named(flag(6)?, "linestatus")],
            calls: vec![
                sum(quantity.clone(), "sum_qty")?,
                sum(price.clone(), "sum_base_price")?,
                sum(discounted, "sum_disc_price")?,
                sum(charge, "sum_charge")?,
                average(quantity, "avg_qty")?,
                average(price, "avg_price")?,
                average(discount, "avg_disc")?,
                count()?,
            ],
            output: AggregateOutput::Value,
        }),
    ];
    let fields = vec![
        Field::new("shipdate", DataType::Date32, false),
        Field::new("discount", money.clone(), false),
        Field::new("quantity", money.clone(), false),
        Field::new("price", money.clone(), false),
        Field::new("tax", money.clone(), false),
        Field::new("returnflag", DataType::Int8, false),
        Field::new("linestatus", DataType::Int8, false),
    ];
    Ok(Shape {
        name: if packed { "Q1 packed" } else { "Q1 plain f64" }.into(),
        plain_row_bytes: 38,
        columns: lineitem_columns(packed),
        pipeline: pipeline(fields, builder, steps)?,
        check: Check::Q1,
        cudf: (!packed).then_some(243.0),
        target: Some(if packed { 2.2 } else { 5.0 }),
        num_keys: 0,
        arguments: vec![],
    })
}

/// SELECT k, sum(v) GROUP BY k.
fn group_by(
    name: String,
    key: Column,
    float: bool,
    cudf: Option<f64>,
    target: f64,
) -> Result<Shape, Unsupported> {
    let value_type = if float {
        DataType::Float64
    } else {
        DataType::Int64
    };
    let values = if float { Values::Unit } else { Values::Full };
    let steps = vec![Step::Aggregate(Aggregate {
        keys: vec![named(Expr::column(0, DataType::Int64)?, "k")],
        calls: vec![sum(Expr::column(1, value_type.clone())?, "sum")?],
        output: AggregateOutput::Value,
    })];
    let fields = vec![
        Field::new("k", DataType::Int64, false),
        Field::new("v", value_type, false),
    ];
    Ok(Shape {
        name,
        plain_row_bytes: 16,
        columns: vec![key, column(values, 8, 9)],
        pipeline: pipeline(fields, Builder::default(), steps)?,
        check: if float {
            Check::FloatGroups
        } else {
            Check::IntegerGroups
        },
        cudf,
        target: Some(target),
        num_keys: 0,
        arguments: vec![],
    })
}

/// The same by two keys, each of them full range, with as many groups.
fn group_by_two(name: String, key: Column, target: f64) -> Result<Shape, Unsupported> {
    let mut shape = group_by(name, key, false, None, target)?;
    let steps = vec![Step::Aggregate(Aggregate {
        keys: vec![
            named(Expr::column(0, DataType::Int64)?, "k"),
            named(Expr::column(2, DataType::Int64)?, "l"),
        ],
        calls: vec![sum(Expr::column(1, DataType::Int64)?, "sum")?],
        output: AggregateOutput::Value,
    })];
    let fields = ["k", "v", "l"].map(|name| Field::new(name, DataType::Int64, false));
    shape.pipeline = pipeline(fields.to_vec(), Builder::default(), steps)?;
    shape.columns.push(key);
    shape.plain_row_bytes = 24;
    Ok(shape)
}

/// SELECT a, b + 1 WHERE a < half.
fn half_of_the_rows() -> Result<Shape, Unsupported> {
    let mut builder = Builder::default();
    let limit = builder.literal(DataType::Int64, ScalarValue::Int(500_000))?;
    let one = builder.literal(DataType::Int64, ScalarValue::Int(1))?;
    let a = || Expr::column(0, DataType::Int64);
    let steps = vec![
        Step::Filter(Expr::compare(CompareOp::Lt, a()?, limit)?),
        Step::Project(vec![named(
            arithmetic(ArithmeticOp::Add, Expr::column(1, DataType::Int64)?, one)?,
            "b",
        )]),
    ];
    let fields = vec![
        Field::new("a", DataType::Int64, false),
        Field::new("b", DataType::Int64, false),
    ];
    Ok(Shape {
        name: "filter 50 % + projection".into(),
        plain_row_bytes: 16,
        columns: vec![
            column(Values::Uniform { count: 1_000_000 }, 8, 11),
            column(Values::Full, 8, 12),
        ],
        pipeline: pipeline(fields, builder, steps)?,
        check: Check::Rows,
        cudf: Some(11.6),
        target: Some(3.6),
        num_keys: 0,
        arguments: vec![],
    })
}

/// SELECT sum(x + 1), count(*) over one column.
pub(crate) fn sum_plus_one(
    value: DataType,
    output: AggregateOutput,
) -> Result<Pipeline, Unsupported> {
    let mut builder = Builder::default();
    let one = builder.literal(value.clone(), ScalarValue::Float(1.0))?;
    let sum_of = arithmetic(ArithmeticOp::Add, Expr::column(0, value.clone())?, one)?;
    // As in SQL, singles are summed as doubles.
    let sum_of = match value {
        DataType::Float32 => Expr::cast(sum_of, DataType::Float64, CastFailure::Raise)?,
        _ => sum_of,
    };
    let steps = vec![Step::Aggregate(Aggregate {
        keys: vec![],
        calls: vec![sum(sum_of, "sum")?, count()?],
        output,
    })];
    pipeline(vec![Field::new("x", value, false)], builder, steps)
}

/// Returns all shapes.
pub(crate) fn shapes() -> Result<Vec<Shape>, Unsupported> {
    let mut shapes = vec![
        q6(false, 0)?,
        q6(true, 0)?,
        q1(false)?,
        q1(true)?,
        half_of_the_rows()?,
    ];
    let key = |values: Values, sparse: bool| Column {
        sparse,
        ..column(values, 8, 8)
    };
    let uniform = |count: u64| Values::Uniform { count };
    for (count, cudf) in [(10, 41.0), (1_000, 29.0)] {
        shapes.push(group_by(
            format!("{count} groups i64"),
            key(uniform(count), false),
            false,
            Some(cudf),
            2.0,
        )?);
    }
    for (count, cudf) in [(10, 47.0), (1_000, 27.0)] {
        shapes.push(group_by(
            format!("{count} groups f64 ordered"),
            key(uniform(count), false),
            true,
            Some(cudf),
            2.2,
        )?);
    }
    shapes.extend(variants::shapes()?);
    let many = [
        (100_000, 28.0, 6.5, 10.0),
        (1_000_000, 46.0, 6.5, 10.0),
        (10_000_000, 65.0, 12.0, 16.0),
        (100_000_000, 79.0, 18.0, 22.0),
    ];
    for (count, cudf, dense, sparse) in many {
        for (is_sparse, target) in [(false, dense), (true, sparse)] {
            let spread = if is_sparse { "sparse" } else { "dense" };
            let named = |law: &str| format!("{:.0e} groups {spread}{law}", count as f64);
            shapes.push(group_by(
                named(""),
                key(uniform(count), is_sparse),
                false,
                Some(cudf),
                target,
            )?);
            shapes.push(group_by(
                named(" zipf 1.1"),
                key(Values::Zipf { count }, is_sparse),
                false,
                None,
                2.0 * target,
            )?);
            shapes.push(group_by(
                named(" half on one"),
                key(Values::Half { count }, is_sparse),
                false,
                None,
                2.0 * target,
            )?);
        }
        shapes.push(group_by_two(
            format!("{:.0e} groups of two keys", count as f64),
            key(uniform(count), true),
            3.0 * sparse,
        )?);
    }
    Ok(shapes)
}
