//! `SUMMARIZE`: a row for each column of a query, by one pass over its rows.
//!
//! The query's rows are aggregated to one row with a handful of measures for each column; that row
//! is a list of what there is to tell of each column, and the list becomes the rows.

use datafusion::arrow::compute::can_cast_types;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Column, ScalarValue};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::SessionState;
use datafusion::functions::core::expr_fn::{get_field, named_struct};
use datafusion::functions::encoding::expr_fn::encode;
use datafusion::functions::math::expr_fn::{isnan, round};
use datafusion::functions_aggregate::count::count_all;
use datafusion::functions_aggregate::expr_fn::{approx_distinct, avg, count, max, min, stddev};
use datafusion::functions_nested::expr_fn::make_array;
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, cast, col, lit, try_cast, when,
};

use crate::error::{Error, ErrorKind};
use crate::functions::approximate;
use crate::functions::time_means::{mean_of_times, mean_type};
use crate::sql_type::sql_type;

/// The columns of the answer.
const COLUMNS: [&str; 12] = [
    "column_name",
    "column_type",
    "min",
    "max",
    "approx_unique",
    "avg",
    "std",
    "q25",
    "q50",
    "q75",
    "count",
    "null_percentage",
];

/// The most columns that are told of: each takes eight aggregates.
const COLUMNS_MAX: usize = 2_000;

/// The one column of the row that holds everything.
const LIST: &str = "summary";

/// Makes the plan that tells of a query's columns.
///
/// NULLs count in `count` and `null_percentage` alone; NaN is left out of quantiles; what a column's
/// type does not have is NULL.
pub(super) fn plan(state: &SessionState, query: LogicalPlan) -> Result<LogicalPlan> {
    check(&query)?;
    let mut measures = Measures::default();
    let num_rows = measures.add(count_all());
    let columns = columns_of(state, &query)?;
    let rows = columns
        .into_iter()
        .map(|column| column.row(&num_rows, &mut measures))
        .collect::<Result<_>>()?;
    let told = COLUMNS.map(|name| get_field(col(LIST), name).alias(name));
    LogicalPlanBuilder::from(query)
        .aggregate(Vec::<Expr>::new(), measures.aggregates)?
        .project([make_array(rows).alias(LIST)])?
        .unnest_column(LIST)?
        .project(told)?
        .build()
}

/// Returns whether a plan is that of a query.
pub(super) fn is_query(plan: &LogicalPlan) -> bool {
    !matches!(
        plan,
        LogicalPlan::Ddl(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::Statement(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::DescribeTable(_)
    )
}

/// Refuses what has no rows to tell of.
fn check(query: &LogicalPlan) -> Result<()> {
    let num_columns = query.schema().fields().len();
    let why = match (is_query(query), num_columns) {
        (false, _) => "SUMMARIZE takes a table or a query".to_string(),
        (true, 0) => "SUMMARIZE takes a query with columns, and this one has none".to_string(),
        (true, 1..=COLUMNS_MAX) => return Ok(()),
        (true, _) => format!(
            "SUMMARIZE of {num_columns} columns exceeds the limit of {COLUMNS_MAX}: select some of \
             them"
        ),
    };
    Err(DataFusionError::from(Error::new(ErrorKind::Sql, why)))
}

/// Lists a query's columns. Before types are coerced, a plan may tell wrong ones.
fn columns_of(state: &SessionState, query: &LogicalPlan) -> Result<Vec<Described>> {
    let analyzer = state.analyzer();
    let analyzed = analyzer.execute_and_check(query.clone(), state.config_options(), |_, _| {});
    let analyzed = match analyzed {
        // A parameter's value decides.
        Err(_) if !query.get_parameter_names()?.is_empty() => query.clone(),
        analyzed => analyzed?,
    };
    let types = analyzed.schema().fields().iter();
    let columns = query.schema().iter().zip(types);
    Ok(columns
        .map(|((qualifier, field), typed)| Described {
            name: field.name().clone(),
            column: Expr::Column(Column::from((qualifier, field))),
            data_type: typed.data_type().clone(),
        })
        .collect())
}

/// The aggregates of all columns.
#[derive(Default)]
struct Measures {
    aggregates: Vec<Expr>,
}

impl Measures {
    /// Adds an aggregate; returns its value.
    fn add(&mut self, aggregate: Expr) -> Expr {
        let name = format!("measure_{}", self.aggregates.len());
        self.aggregates.push(aggregate.alias(&name));
        Expr::Column(Column::new_unqualified(name))
    }
}

/// A column that is told of.
struct Described {
    name: String,
    column: Expr,
    data_type: DataType,
}

impl Described {
    /// Returns what is told of the column, in the order of [`COLUMNS`].
    fn row(self, num_rows: &Expr, measures: &mut Measures) -> Result<Expr> {
        let column_type = sql_type(&self.data_type);
        let plain = self.plain();
        let (least, most) = match has_order(&plain.data_type) {
            true => (
                plain.text(measures.add(min(plain.column.clone()))),
                plain.text(measures.add(max(plain.column.clone()))),
            ),
            false => (nothing(), nothing()),
        };
        let unique = measures.add(approx_distinct(plain.hashed()));
        let (average, deviation) = match plain.data_type.is_numeric() {
            true => {
                let number = cast(plain.column.clone(), DataType::Float64);
                let average = measures.add(avg(number.clone()));
                let deviation = measures.add(stddev(number));
                (text(average), text(deviation))
            }
            false if mean_type(&plain.data_type).is_some() => {
                let average = mean_of_times().call(vec![plain.column.clone()]);
                (text(measures.add(average)), nothing())
            }
            false => (nothing(), nothing()),
        };
        let mut quantile = |share| plain.quantile(share, measures);
        let quantiles = [quantile(0.25)?, quantile(0.5)?, quantile(0.75)?];
        let not_null = measures.add(count(plain.column.clone()));
        let values = [
            lit(plain.name),
            lit(column_type),
            least,
            most,
            cast(unique, DataType::Int64),
            average,
            deviation,
        ];
        let values = values.into_iter().chain(quantiles).chain([
            num_rows.clone(),
            null_percentage(num_rows.clone(), not_null)?,
        ]);
        let named = COLUMNS.iter().zip(values);
        let fields = named.flat_map(|(name, value)| [lit(*name), value]);
        Ok(named_struct(fields.collect()))
    }

    /// Looks behind a dictionary's or run's encoding.
    fn plain(self) -> Self {
        let inner = match &self.data_type {
            DataType::Dictionary(_, values) => values.as_ref().clone(),
            DataType::RunEndEncoded(_, values) => values.data_type().clone(),
            _ => return self,
        };
        Self {
            column: cast(self.column, inner.clone()),
            data_type: inner,
            name: self.name,
        }
    }

    /// Returns what distinct values are counted by. −0.0 is 0.0.
    fn hashed(&self) -> Expr {
        match self.data_type.is_floating() {
            true => text(cast(self.column.clone(), DataType::Float64) + lit(0.0)),
            false => self.column.clone(),
        }
    }

    /// Writes a value of the column's type; NULL where that cannot be done.
    fn text(&self, value: Expr) -> Expr {
        match &self.data_type {
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => text(encode(value, lit("hex"))),
            data_type if can_cast_types(data_type, &DataType::Utf8) => text(value),
            _ => nothing(),
        }
    }

    /// Returns the value below which a share of the values lies; times are weighed as numbers.
    fn quantile(&self, share: f64, measures: &mut Measures) -> Result<Expr> {
        let is_time = self.data_type.is_temporal()
            && can_cast_types(&self.data_type, &DataType::Int64)
            && can_cast_types(&DataType::Int64, &self.data_type);
        let number = match (is_time, self.data_type.is_numeric()) {
            (true, _) => {
                let ticks = cast(self.column.clone(), DataType::Int64);
                cast(ticks, DataType::Float64)
            }
            (false, true) => cast(self.column.clone(), DataType::Float64),
            (false, false) => return Ok(nothing()),
        };
        let number =
            when(isnan(number.clone()), lit(ScalarValue::Float64(None))).otherwise(number)?;
        let quantile = approximate::function().call(vec![number, lit(share)]);
        let quantile = measures.add(quantile);
        Ok(match is_time {
            true => {
                let ticks = try_cast(round(vec![quantile]), DataType::Int64);
                self.text(try_cast(ticks, self.data_type.clone()))
            }
            false => text(quantile),
        })
    }
}

/// Tells whether the values of a type have a least and a most.
fn has_order(data_type: &DataType) -> bool {
    !data_type.is_nested() || matches!(data_type, DataType::List(_))
}

fn text(value: Expr) -> Expr {
    cast(value, DataType::Utf8)
}

fn nothing() -> Expr {
    lit(ScalarValue::Utf8(None))
}

/// Returns the share of NULLs; NULL if there are no rows.
fn null_percentage(num_rows: Expr, not_null: Expr) -> Result<Expr> {
    let rows = cast(num_rows.clone(), DataType::Float64);
    let nulls = cast(num_rows.clone() - not_null, DataType::Float64);
    let share = cast(
        round(vec![lit(100.0) * nulls / rows, lit(2_i64)]),
        DataType::Decimal128(9, 2),
    );
    let none = lit(ScalarValue::Decimal128(None, 9, 2));
    when(num_rows.eq(lit(0_i64)), none).otherwise(share)
}
