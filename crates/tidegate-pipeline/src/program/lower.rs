//! From a pipeline to the programs of its stages: each ends with a step that needs all rows, the last
//! with the pipeline.

use arrow_schema::DataType;

use super::{
    Accumulator, Bodies, Builder, Call, Facts, Groups, Input, InputId, Nullable, Order, Output,
    Reduce, RowProgram, Sink, Sorted, Type,
};
use crate::catalogue::{self, Arguments, Finish, Lowered, Signature, Update};
use crate::check::Unsupported;
use crate::expr::{Expr, ExprKind};
use crate::interval::Interval;
use crate::pipeline::{Aggregate, AggregateCall, AggregateOutput, NamedExpr, Pipeline, Sort, Step};

/// Lowers a pipeline, of whose input columns this is known. The pipeline has to pass
/// [`Pipeline::validate`].
///
/// # Errors
/// What a program cannot say.
pub fn lower(
    pipeline: &Pipeline,
    facts: &dyn Fn(usize) -> Facts,
) -> Result<Vec<RowProgram>, Unsupported> {
    lower_for(pipeline, facts, Bodies::Host)
}

/// Lowers a pipeline as [`lower`] does, for these bodies of users' functions.
///
/// # Errors
/// What a program cannot say.
pub fn lower_for(
    pipeline: &Pipeline,
    facts: &dyn Fn(usize) -> Facts,
    bodies: Bodies,
) -> Result<Vec<RowProgram>, Unsupported> {
    let fields = pipeline.input.fields().iter().enumerate();
    let mut columns: Vec<Input> = fields
        .map(|(column, field)| Input {
            name: field.name().clone(),
            column,
            data_type: field.data_type().clone(),
            facts: facts(column),
        })
        .collect();
    let mut stages: Vec<RowProgram> = Vec::new();
    let mut steps = pipeline.steps.as_slice();
    loop {
        let num_rows_alone = steps.iter().take_while(|step| is_row_wise(step)).count();
        let (row_wise, rest) = steps.split_at(num_rows_alone);
        let (blocking, rest) = rest.split_at(rest.len().min(1));
        let names = rest.is_empty().then_some(pipeline);
        let program = stage(
            Builder::new(Vec::new(), pipeline.parameters.clone()).calling(bodies),
            &columns,
            row_wise,
            blocking.first(),
            names,
        )?;
        columns = program.columns();
        stages.push(program);
        steps = rest;
        if steps.is_empty() {
            return Ok(stages);
        }
    }
}

fn is_row_wise(step: &Step) -> bool {
    matches!(step, Step::Filter(_) | Step::Project(_))
}

/// Lowers one stage; the last one's columns have the names of the pipeline's output.
fn stage(
    mut builder: Builder,
    source: &[Input],
    row_wise: &[Step],
    blocking: Option<&Step>,
    last_of: Option<&Pipeline>,
) -> Result<RowProgram, Unsupported> {
    let columns = source.iter().map(|input| Column::Unread(input.column));
    let mut scope = Scope {
        source,
        columns: columns.collect(),
        names: source.iter().map(|input| input.name.clone()).collect(),
        types: source.iter().map(|input| input.data_type.clone()).collect(),
    };
    for step in row_wise {
        match step {
            Step::Filter(predicate) => {
                let value = scope.expr(&mut builder, predicate)?;
                let holds = builder.truth(value);
                builder.filter(holds);
            }
            Step::Project(columns) => scope.project(&mut builder, columns)?,
            Step::Aggregate(_) | Step::Sort(_) => {
                return Err(Unsupported::new(
                    "a step that blocks among those that do not",
                ));
            }
        }
    }
    let mut sink = match blocking {
        Some(Step::Aggregate(aggregate)) => Sink::Groups(scope.groups(&mut builder, aggregate)?),
        Some(Step::Sort(sort)) => Sink::Sorted(scope.sorted(&mut builder, sort)?),
        _ => Sink::Rows(scope.outputs(&mut builder)?),
    };
    if let (Some(pipeline), Sink::Rows(outputs)) = (last_of, &mut sink) {
        for (output, field) in outputs.iter_mut().zip(pipeline.output.fields()) {
            output.name.clone_from(field.name());
        }
    }
    Ok(builder.finish(sink))
}

/// A column that a step sees.
#[derive(Clone, Copy)]
enum Column {
    /// One of the source, which becomes an input when it is read.
    Unread(usize),
    Value(Nullable),
}

/// What expressions of a step refer to.
struct Scope<'a> {
    source: &'a [Input],
    columns: Vec<Column>,
    names: Vec<String>,
    types: Vec<DataType>,
}

impl Scope<'_> {
    fn project(&mut self, builder: &mut Builder, columns: &[NamedExpr]) -> Result<(), Unsupported> {
        let mut projected = Vec::with_capacity(columns.len());
        for column in columns {
            projected.push(match column.expr.kind {
                // What is passed on is read by whoever uses it.
                ExprKind::Column(index) => self.columns[index],
                _ => Column::Value(self.expr(builder, &column.expr)?),
            });
        }
        self.columns = projected;
        self.names = columns.iter().map(|column| column.name.clone()).collect();
        let types = columns.iter().map(|column| column.expr.data_type.clone());
        self.types = types.collect();
        Ok(())
    }

    fn read(&self, builder: &mut Builder, index: usize) -> Nullable {
        match self.columns[index] {
            Column::Value(value) => value,
            Column::Unread(column) => builder.column(column, || self.source[column].clone()),
        }
    }

    fn expr(&self, builder: &mut Builder, expr: &Expr) -> Lowered {
        match &expr.kind {
            ExprKind::Column(index) => Ok(self.read(builder, *index)),
            ExprKind::Parameter(index) => Ok(builder.parameter(*index)),
            _ => {
                let (function, signature) = Signature::of(expr)?;
                let children = expr.children();
                let mut lower =
                    |builder: &mut Builder, index: usize| self.expr(builder, &children[index]);
                let arguments = &mut Arguments {
                    signature: &signature,
                    lower: &mut lower,
                };
                (function.lower)(builder, arguments)
            }
        }
    }

    fn outputs(&self, builder: &mut Builder) -> Result<Vec<Output>, Unsupported> {
        let columns = self.names.iter().zip(&self.types).enumerate();
        let outputs = columns.map(|(index, (name, data_type))| Output {
            name: name.clone(),
            data_type: data_type.clone(),
            value: self.read(builder, index),
        });
        Ok(outputs.collect())
    }

    fn sorted(&self, builder: &mut Builder, sort: &Sort) -> Result<Sorted, Unsupported> {
        let outputs = self.outputs(builder)?;
        let mut keys = Vec::with_capacity(sort.keys.len());
        for key in &sort.keys {
            keys.push(Order {
                value: self.expr(builder, &key.expr)?,
                descending: key.descending,
                nulls_first: key.nulls_first,
            });
        }
        Ok(Sorted {
            outputs,
            keys,
            fetch: sort.fetch,
        })
    }

    fn groups(&self, builder: &mut Builder, aggregate: &Aggregate) -> Result<Groups, Unsupported> {
        let mut groups = Groups {
            keys: Vec::new(),
            accumulators: Vec::new(),
            calls: Vec::new(),
        };
        for NamedExpr { expr, name } in &aggregate.keys {
            let key = self.expr(builder, expr)?;
            groups.keys.push(Output {
                name: name.clone(),
                data_type: expr.data_type.clone(),
                value: Nullable {
                    value: builder.canonical(key.value),
                    ..key
                },
            });
        }
        let grouped = !aggregate.keys.is_empty();
        for call in &aggregate.calls {
            let call = self.call(builder, &mut groups, call, aggregate.output, grouped)?;
            groups.calls.push(call);
        }
        Ok(groups)
    }

    /// Lowers a call: its accumulators, each of which may be shared, and its finish.
    fn call(
        &self,
        builder: &mut Builder,
        groups: &mut Groups,
        call: &AggregateCall,
        output: AggregateOutput,
        grouped: bool,
    ) -> Result<Call, Unsupported> {
        let selected = builder.selected();
        // What is not counted is not wanted.
        let mut wanted = builder.bool(true);
        if let Some(filter) = &call.filter {
            let filter = self.expr(builder, filter)?;
            wanted = builder.truth(filter);
        }
        let rows = builder.and(selected, wanted);
        let argument = call.argument.as_ref();
        let lowered = argument
            .map(|argument| builder.guarded(wanted, |builder| self.expr(builder, argument)));
        let lowered = lowered.transpose()?;
        let mut more = Vec::with_capacity(call.more.len());
        for argument in &call.more {
            more.push(builder.guarded(wanted, |builder| self.expr(builder, argument))?);
        }
        let update = Update {
            function: call.function,
            argument: lowered,
            more,
            argument_type: argument.map(|argument| argument.data_type.clone()),
            value_type: call.data_type.clone(),
            state: call.state.clone(),
            rows,
            grouped,
        };
        let entry = catalogue::aggregate(call.function);
        let mut places = Vec::new();
        let mut inputs = Vec::new();
        for accumulator in (entry.accumulate)(builder, &update)? {
            let known = groups
                .accumulators
                .iter()
                .position(|known| *known == accumulator);
            places.push(known.unwrap_or(groups.accumulators.len()));
            let is_every_row = grouped && accumulator.rows == selected;
            inputs.extend(results_of(
                builder,
                &accumulator,
                call,
                !is_every_row,
                inputs.len(),
            ));
            if known.is_none() {
                groups.accumulators.push(accumulator);
            }
        }
        let finish = Finish {
            update: &update,
            output,
            name: &call.name,
        };
        Ok(Call {
            function: call.function,
            accumulators: places,
            finish: Box::new(finish_of(entry, inputs, &finish)?),
        })
    }
}

/// Makes the program that turns the accumulators' results into a call's columns.
fn finish_of(
    entry: &catalogue::AggregateEntry,
    inputs: Vec<Input>,
    finish: &Finish<'_>,
) -> Result<RowProgram, Unsupported> {
    let num_results = inputs.len();
    let mut builder = Builder::new(inputs, Vec::new());
    let results = (0..num_results).map(|index| builder.input(InputId(index as u32)));
    let results: Vec<Nullable> = results.collect();
    let columns = (entry.columns)(&mut builder, finish, &results)?;
    let named = finish.columns().into_iter().zip(columns);
    let outputs = named.map(|((name, data_type), value)| Output {
        name,
        data_type,
        value,
    });
    Ok(builder.finish(Sink::Rows(outputs.collect())))
}

/// Returns an accumulator's results as inputs of a finish, from a place on.
fn results_of(
    builder: &Builder,
    accumulator: &Accumulator,
    call: &AggregateCall,
    may_be_empty: bool,
    from: usize,
) -> Vec<Input> {
    let wide = DataType::Decimal128(38, 0);
    let results = match accumulator.reduce {
        Reduce::Count => vec![("count", DataType::Int64)],
        Reduce::SumInteger { bits: 64 } => vec![("sum", DataType::Int64)],
        Reduce::SumInteger { .. } => vec![("sum", wide)],
        Reduce::SumFloat => vec![("sum", DataType::Float64)],
        Reduce::Combine(_) => vec![("combined", DataType::Int64)],
        Reduce::Moments => vec![("mean", DataType::Float64), ("squares", DataType::Float64)],
        Reduce::CoMoment { .. } => vec![("products", DataType::Float64)],
        Reduce::Least => vec![("least", call.data_type.clone())],
        Reduce::Greatest => vec![("greatest", call.data_type.clone())],
    };
    let data = accumulator.value.map(|value| builder.data(value));
    let of_values = match accumulator.reduce {
        Reduce::Least | Reduce::Greatest => data,
        Reduce::Combine(monoid) => data.map(|data| Type::Int((monoid.gives)(data.interval()))),
        _ => None,
    };
    let is_count = accumulator.reduce == Reduce::Count;
    let is_moment = matches!(
        accumulator.reduce,
        Reduce::Moments | Reduce::CoMoment { .. }
    );
    let nullable = may_be_empty && !is_count && !is_moment;
    let input = |(column, (name, data_type)): (usize, (&str, DataType))| {
        let declared = Facts::declared(&data_type);
        let interval = of_values.map_or(declared.interval, Type::interval);
        Input {
            name: name.to_owned(),
            column: from + column,
            facts: Facts {
                interval: if is_count { Interval::COUNT } else { interval },
                floats: of_values.map_or(declared.floats, Type::floats),
                nullable,
                step: 1,
            },
            data_type,
        }
    };
    results.into_iter().enumerate().map(input).collect()
}
