//! What the interpreter gives for a case, and how near a device must come to it.

use std::mem::discriminant;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, Schema};
use tidegate_kernels::groups::output_schema;
use tidegate_kernels::program::first_aggregate;
use tidegate_pipeline::{
    Aggregate, AggregateCall, AggregateFunction, AggregateOutput, CompareOp, EvalError, Expr,
    Interpreter, NamedExpr, Pipeline, Scalar, ScalarValue, Step,
};

use crate::cells::{Cell, compare_groups, compare_rows, rows_of};
use crate::check::Case;
use crate::exact;
use crate::plan::{avg, multiply};

/// Units of rounding by which a float sum may differ, of the size of what it adds up.
const UNITS: f64 = 256.0;

/// What the interpreter gives up to and with the first aggregate, with its rounded sums made exact.
pub(crate) struct Reference {
    /// The pipeline that gives it.
    upto: Pipeline,
    pub(crate) rows: Result<Vec<Vec<Cell>>, EvalError>,
    num_keys: Option<usize>,
    /// How large a float sum's terms are, where a column is one.
    sizes: Vec<Vec<Option<f64>>>,
    pub(crate) after: Option<After>,
}

impl Reference {
    pub(crate) fn of(case: &Case) -> Self {
        let pipeline = &case.pipeline;
        let Some(aggregate) = first_aggregate(pipeline) else {
            return Self {
                upto: pipeline.clone(),
                rows: interpret(pipeline, &case.batches).map(|batches| rows_of(&batches)),
                num_keys: None,
                sizes: Vec::new(),
                after: None,
            };
        };
        let position = pipeline
            .steps
            .iter()
            .position(|step| matches!(step, Step::Aggregate(_)))
            .unwrap();
        let upto = truncated(pipeline, position + 1, aggregate);
        let mut rows = interpret(&upto, &case.batches).map(|batches| rows_of(&batches));
        let columns = columns_of(aggregate);
        let is_exact = columns
            .iter()
            .all(|column| column.rounding == Rounding::Exact);
        if let (Ok(rows), false) = (&mut rows, is_exact) {
            exact::correct(rows, &columns, &upto, &case.batches);
        }
        let sizes = match &rows {
            Ok(rows) if !is_exact => {
                let sized = interpret(&with_sizes(&upto, position), &case.batches).unwrap();
                let sizes = rows_of(&sized);
                assert_eq!(sizes.len(), rows.len());
                let size = |row: &Vec<Cell>| {
                    let columns = columns.iter().enumerate();
                    columns
                        .map(|(index, column)| column.rounding.size(row, index))
                        .collect()
                };
                sizes.iter().map(size).collect()
            }
            _ => Vec::new(),
        };
        let after = (position + 1 < pipeline.steps.len() && sizes.is_empty() && rows.is_ok())
            .then(|| After::of(case, position + 1, &upto));
        Self {
            rows,
            num_keys: Some(aggregate.keys.len()),
            sizes,
            after,
            upto,
        }
    }

    pub(crate) fn compare(&self, found: &[Vec<Cell>]) -> Result<(), String> {
        let expected = self.rows.as_ref().map_err(ToString::to_string)?;
        let Some(num_keys) = self.num_keys else {
            return compare_rows(expected, found);
        };
        let within = |row: usize, column: usize| {
            let size = self.sizes.get(row).and_then(|sizes| sizes[column]);
            size.map(|size| size * UNITS * f64::EPSILON)
        };
        compare_groups(expected, found, num_keys, &within)
    }

    /// Tells whether a device may raise `found` where the interpreter raises `expected`: an error of the
    /// same class, or of one that some operation raises by itself over some row, for on a device neither
    /// rows nor the operations of a row have an order.
    pub(crate) fn raises_as(
        &self,
        expected: &EvalError,
        found: &EvalError,
        batches: &[RecordBatch],
    ) -> bool {
        let is_found = |error: &EvalError| discriminant(error) == discriminant(found);
        if is_found(expected) {
            return found.is_arithmetic();
        }
        let raises = |(position, operation): (usize, Expr)| {
            let before = &self.upto.steps[..position];
            let alone = Arc::new(projecting(&self.upto, before, vec![operation]));
            batches
                .iter()
                .flat_map(|batch| (0..batch.num_rows()).map(|row| batch.slice(row, 1)))
                .any(|row| {
                    // A value that cannot leave a pipeline, as an interval, raises nothing.
                    let alone = Interpreter::new(Arc::clone(&alone));
                    alone.is_ok_and(|mut alone| alone.fold(&row).is_err_and(|e| is_found(&e)))
                })
        };
        found.is_arithmetic() && operations_of(&self.upto).into_iter().any(raises)
    }
}

/// Returns every expression of a pipeline and all that they are made of, each with its step.
fn operations_of(pipeline: &Pipeline) -> Vec<(usize, Expr)> {
    let mut operations = Vec::new();
    for (position, step) in pipeline.steps.iter().enumerate() {
        let mut rest: Vec<&Expr> = match step {
            Step::Filter(predicate) => vec![predicate],
            Step::Project(columns) => columns.iter().map(|column| &column.expr).collect(),
            Step::Aggregate(aggregate) => {
                let keys = aggregate.keys.iter().map(|key| &key.expr);
                let calls = aggregate.calls.iter();
                keys.chain(calls.flat_map(|call| call.argument.iter().chain(&call.filter)))
                    .collect()
            }
            Step::Sort(sort) => sort.keys.iter().map(|key| &key.expr).collect(),
        };
        while let Some(expr) = rest.pop() {
            rest.extend(expr.children());
            operations.push((position, expr.clone()));
        }
    }
    operations
}

/// Makes a pipeline that does these steps and gives these expressions.
pub(crate) fn projecting(pipeline: &Pipeline, before: &[Step], exprs: Vec<Expr>) -> Pipeline {
    let fields: Vec<Field> = exprs
        .iter()
        .enumerate()
        .map(|(index, expr)| Field::new(format!("c{index}"), expr.data_type.clone(), true))
        .collect();
    let named = |(index, expr)| NamedExpr {
        expr,
        name: format!("c{index}"),
    };
    let columns = exprs.into_iter().enumerate().map(named).collect();
    Pipeline {
        steps: [before, &[Step::Project(columns)]].concat(),
        output: Arc::new(Schema::new(fields)),
        ..pipeline.clone()
    }
}

/// The steps after the first aggregate, and what the whole pipeline gives.
pub(crate) struct After {
    rest: Pipeline,
    rows: Vec<String>,
}

impl After {
    fn of(case: &Case, from: usize, upto: &Pipeline) -> Self {
        let rest = Pipeline {
            input: Arc::clone(&upto.output),
            parameters: case.pipeline.parameters.clone(),
            steps: case.pipeline.steps[from..].to_vec(),
            output: Arc::clone(&case.pipeline.output),
        };
        let rows = interpret(&case.pipeline, &case.batches).unwrap();
        Self {
            rest,
            rows: sorted(&rows),
        }
    }

    pub(crate) fn compare(&self, groups: &RecordBatch) -> Result<(), String> {
        let found = sorted(&interpret(&self.rest, std::slice::from_ref(groups)).unwrap());
        if found == self.rows {
            return Ok(());
        }
        Err(format!(
            "after the groups {found:?} instead of {:?}",
            self.rows
        ))
    }
}

fn sorted(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows: Vec<String> = rows_of(batches)
        .iter()
        .map(|row| format!("{row:?}"))
        .collect();
    rows.sort();
    rows
}

/// Runs a pipeline in the interpreter.
pub(crate) fn interpret(
    pipeline: &Pipeline,
    batches: &[RecordBatch],
) -> Result<Vec<RecordBatch>, EvalError> {
    let mut interpreter = Interpreter::new(Arc::new(pipeline.clone())).unwrap();
    for batch in batches {
        interpreter.fold(batch)?;
    }
    interpreter.finish()
}

fn truncated(pipeline: &Pipeline, num_steps: usize, aggregate: &Aggregate) -> Pipeline {
    Pipeline {
        steps: pipeline.steps[..num_steps].to_vec(),
        output: output_schema(aggregate),
        ..pipeline.clone()
    }
}

/// How a column of an aggregate's output is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    Exact,
    /// As a sum of these terms.
    Sum,
    /// As a mean of squares.
    Variance,
    /// As the root of one.
    Root,
    /// As the mean in the state of a variance, which is in the column before and the one behind.
    StateMean,
    /// As the sum of squares in the same, which is in the two columns before.
    StateSquares,
}

/// A column of an aggregate's output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    pub(crate) rounding: Rounding,
    /// The call that it is of; of a key, the first.
    pub(crate) call: usize,
}

impl Rounding {
    /// Returns the size of what is rounded, from a row of [`with_sizes`].
    fn size(self, row: &[Cell], column: usize) -> Option<f64> {
        let float = |column: usize| row[column].float().unwrap_or(0.0);
        let squares = |count: usize| {
            let Cell::Integer(values) = row[count] else {
                return 0.0;
            };
            let mean = float(count + 1);
            (mean * mean).mul_add(values as f64, float(count + 2))
        };
        match self {
            Self::Exact => None,
            Self::Sum | Self::Variance => Some(float(column)),
            Self::Root => Some(float(column).sqrt()),
            Self::StateMean => Some(squares(column - 1).sqrt()),
            Self::StateSquares => Some(squares(column - 2)),
        }
    }
}

fn columns_of(aggregate: &Aggregate) -> Vec<Column> {
    let key = Column {
        rounding: Rounding::Exact,
        call: 0,
    };
    let mut columns = vec![key; aggregate.keys.len()];
    for (index, call) in aggregate.calls.iter().enumerate() {
        let column = |rounding| Column {
            rounding,
            call: index,
        };
        let adds = matches!(
            call.function,
            AggregateFunction::Sum | AggregateFunction::Avg
        ) && call.data_type == DataType::Float64;
        let of_value = match call.function {
            _ if adds => Rounding::Sum,
            function if function.is_root() => Rounding::Root,
            function if function.is_of_squares() => Rounding::Variance,
            _ => Rounding::Exact,
        };
        match aggregate.output {
            AggregateOutput::Value => columns.push(column(of_value)),
            AggregateOutput::State if call.function.is_of_squares() => {
                let state = [Rounding::Exact, Rounding::StateMean, Rounding::StateSquares];
                columns.extend(state.map(column));
            }
            AggregateOutput::State => columns.extend(call.state.iter().map(|field| {
                let is_sum = adds && *field.data_type() == DataType::Float64;
                column(if is_sum {
                    Rounding::Sum
                } else {
                    Rounding::Exact
                })
            })),
        }
    }
    columns
}

/// Replaces what float sums add up by its distance from zero, and variances by means of squares; their
/// states stay.
fn with_sizes(pipeline: &Pipeline, position: usize) -> Pipeline {
    let mut pipeline = pipeline.clone();
    let zero = Expr::parameter(pipeline.parameters.len(), DataType::Float64).unwrap();
    pipeline.parameters.push(Scalar {
        data_type: DataType::Float64,
        value: ScalarValue::Float(0.0),
    });
    let Step::Aggregate(aggregate) = &mut pipeline.steps[position] else {
        return pipeline;
    };
    let states = aggregate.output == AggregateOutput::State;
    for call in &mut aggregate.calls {
        if call.function.is_of_squares() && !states {
            let mean = |argument: Expr| avg(multiply(argument.clone(), argument));
            let mean = mean(call.argument.clone().unwrap());
            *call = AggregateCall {
                filter: call.filter.clone(),
                ..mean
            };
        }
        let sums = matches!(
            call.function,
            AggregateFunction::Sum | AggregateFunction::Avg
        );
        if let Some(argument) = &mut call.argument
            && sums
            && argument.data_type == DataType::Float64
        {
            let value = argument.clone();
            let negative = Expr::compare(CompareOp::Lt, value.clone(), zero.clone()).unwrap();
            let negated = Expr::negate(value.clone()).unwrap();
            *argument =
                Expr::case(vec![(negative, negated)], Some(value), DataType::Float64).unwrap();
        }
    }
    pipeline
}
