//! What of a pipeline the host evaluates, because a device sees no strings.
//!
//! Every largest expression that reads strings or gives some becomes a [`Slot`], and so does every column
//! that is read. What is left is a pipeline whose input columns are the slots: it ends with the first
//! aggregate, with an order, or with a projection to the columns that leave. Every projection before that
//! passes the slots on in front of what it computes, so that the next step reads them by the same numbers.

use std::sync::Arc;

use arrow_schema::{Field, Schema};
use tidegate_pipeline::program::{Facts, lower};
use tidegate_pipeline::types::is_string;
use tidegate_pipeline::{
    Aggregate, AggregateCall, AggregateFunction, Expr, ExprKind, NamedExpr, Pipeline, Sort,
    SortKey, Step, Unsupported,
};

use super::slots::{Slot, slot_kind};

/// A pipeline over slots.
pub(super) struct Lifted {
    /// One stage, whose input columns are the slots.
    pub(super) pipeline: Pipeline,
    /// What each input column is.
    pub(super) slots: Vec<Slot>,
    /// How many steps of the original it does.
    pub(super) num_steps: usize,
}

/// Lifts a pipeline up to and with its first aggregate; a pipeline without one, with the order of its rows,
/// if there is one, by which its keys leave behind the columns.
///
/// # Errors
/// What a device cannot be given.
pub(super) fn lift(pipeline: &Pipeline, order: &[SortKey]) -> Result<Lifted, Unsupported> {
    let columns = pipeline.input.fields().iter().enumerate();
    let over_input = columns.map(|(index, field)| {
        let column = Expr::column(index, field.data_type().clone());
        column.ok()
    });
    let mut lifter = Lifter {
        pipeline,
        slots: Vec::new(),
        columns: over_input
            .map(|expr| Column::Input(expr.map(Box::new)))
            .collect(),
    };
    let mut steps = Vec::new();
    let mut is_grouped = false;
    for step in &pipeline.steps {
        steps.push(match step {
            Step::Filter(predicate) => Step::Filter(lifter.value(predicate)?),
            Step::Project(columns) => Step::Project(lifter.project(columns)?),
            Step::Aggregate(aggregate) => Step::Aggregate(lifter.aggregate(aggregate)?),
            Step::Sort(_) => {
                return Err(Unsupported::new(
                    "a sort before any aggregate has no device form",
                ));
            }
        });
        is_grouped = matches!(step, Step::Aggregate(_));
        if is_grouped {
            break;
        }
    }
    let num_steps = steps.len();
    if !is_grouped {
        steps.extend(lifter.outputs(order)?);
    }
    Ok(lifter.finish(steps, num_steps))
}

/// The most nodes of an expression that is carried along for the host to evaluate, and of one that it does
/// evaluate.
const CARRIED_NODES_MAX: usize = 64;
const HOST_NODES_MAX: usize = 256;

/// Added to the numbers of computed columns while it is not known how many slots come before them.
const COMPUTED: usize = 1 << 32;

/// A column of a step.
#[derive(Clone)]
enum Column {
    /// Known as an expression over the pipeline's input, if that is small enough.
    Input(Option<Box<Expr>>),
    /// Computed by the projection before, at this place behind the slots; and what it is over the input.
    Computed(usize, Option<Box<Expr>>),
}

struct Lifter<'a> {
    pipeline: &'a Pipeline,
    slots: Vec<Slot>,
    /// The columns that the next step sees.
    columns: Vec<Column>,
}

impl Lifter<'_> {
    /// Returns the expression over slots and computed columns.
    fn value(&mut self, expr: &Expr) -> Result<Expr, Unsupported> {
        if let ExprKind::Column(index) = expr.kind {
            return match &self.columns[index] {
                Column::Computed(place, _) => Ok(column(COMPUTED + place, expr)),
                Column::Input(_) => self.slot(expr),
            };
        }
        if is_string(&expr.data_type) || reads_strings(expr) {
            return self.slot(expr);
        }
        let mut lifted = expr.clone();
        for child in lifted.children_mut() {
            *child = self.value(child)?;
        }
        Ok(lifted)
    }

    /// Makes an expression a slot, unless it is one.
    fn slot(&mut self, expr: &Expr) -> Result<Expr, Unsupported> {
        let over_input = self.over_input(expr)?;
        let kind = slot_kind(&expr.data_type)?;
        let known = self.slots.iter().position(|slot| slot.expr == over_input);
        let index = known.unwrap_or(self.slots.len());
        if known.is_none() {
            self.check_total(&over_input)?;
            let expr = over_input;
            self.slots.push(Slot { expr, kind });
        }
        Ok(column(index, expr))
    }

    /// Refuses what may raise: it is evaluated for strings that no selected row has.
    fn check_total(&self, expr: &Expr) -> Result<(), Unsupported> {
        if matches!(expr.kind, ExprKind::Column(_)) {
            return Ok(());
        }
        let field = Field::new("lifted", expr.data_type.clone(), true);
        let name = "lifted".to_owned();
        let expr = expr.clone();
        let alone = Pipeline {
            input: Arc::clone(&self.pipeline.input),
            parameters: self.pipeline.parameters.clone(),
            steps: vec![Step::Project(vec![NamedExpr { expr, name }])],
            output: Arc::new(Schema::new(vec![field])),
        };
        let declared = |column: usize| Facts::declared(alone.input.field(column).data_type());
        let programs = lower(&alone, &declared)?;
        match programs.iter().all(|program| program.raises.is_empty()) {
            true => Ok(()),
            false => Err(Unsupported::new(
                "an expression over strings that can raise",
            )),
        }
    }

    /// Returns the expression with the columns of the step replaced by what they are over the input.
    fn over_input(&self, expr: &Expr) -> Result<Expr, Unsupported> {
        let replaced = self.replaced(expr)?;
        if count_nodes(&replaced) > HOST_NODES_MAX {
            return Err(Unsupported::new(format!(
                "an expression over strings of more than {HOST_NODES_MAX} nodes"
            )));
        }
        Ok(replaced)
    }

    fn replaced(&self, expr: &Expr) -> Result<Expr, Unsupported> {
        if let ExprKind::Column(index) = expr.kind {
            return match &self.columns[index] {
                Column::Input(Some(expr)) | Column::Computed(_, Some(expr)) => Ok(*expr.clone()),
                _ => Err(Unsupported::new(
                    "an expression over strings and a computed column that is too large",
                )),
            };
        }
        let mut copy = expr.clone();
        for child in copy.children_mut() {
            *child = self.replaced(child)?;
        }
        Ok(copy)
    }

    fn project(&mut self, columns: &[NamedExpr]) -> Result<Vec<NamedExpr>, Unsupported> {
        let mut computed = Vec::new();
        let mut next = Vec::with_capacity(columns.len());
        for NamedExpr { expr, name } in columns {
            let carried = self.replaced(expr).ok();
            let carried = carried.filter(|expr| count_nodes(expr) <= CARRIED_NODES_MAX);
            let carried = carried.map(Box::new);
            let is_passed_on = match expr.kind {
                ExprKind::Column(index) => matches!(self.columns[index], Column::Input(_)),
                _ => is_string(&expr.data_type),
            };
            next.push(match is_passed_on {
                true => Column::Input(carried),
                false => {
                    let name = name.clone();
                    let expr = self.value(expr)?;
                    computed.push(NamedExpr { expr, name });
                    Column::Computed(computed.len() - 1, carried)
                }
            });
        }
        self.columns = next;
        Ok(computed)
    }

    fn aggregate(&mut self, aggregate: &Aggregate) -> Result<Aggregate, Unsupported> {
        let mut keys = Vec::with_capacity(aggregate.keys.len());
        for NamedExpr { expr, name } in &aggregate.keys {
            let name = name.clone();
            let expr = self.value(expr)?;
            keys.push(NamedExpr { expr, name });
        }
        let calls = aggregate.calls.iter().map(|call| self.call(call));
        Ok(Aggregate {
            keys,
            calls: calls.collect::<Result<_, _>>()?,
            output: aggregate.output,
        })
    }

    fn call(&mut self, call: &AggregateCall) -> Result<AggregateCall, Unsupported> {
        let filter = call.filter.as_ref();
        let filter = filter.map(|filter| self.value(filter)).transpose()?;
        let more = call.more.iter().map(|argument| self.value(argument));
        let mut lifted = AggregateCall {
            more: more.collect::<Result<_, _>>()?,
            filter,
            ..call.clone()
        };
        let Some(argument) = &call.argument else {
            return Ok(lifted);
        };
        if call.function != AggregateFunction::Count || !is_string(&argument.data_type) {
            lifted.argument = Some(self.value(argument)?);
            return Ok(lifted);
        }
        // Whether a string is there needs no dictionary.
        let is_there = Expr::is_not_null(argument.clone())?;
        let is_there = self.slot(&is_there)?;
        lifted.argument = None;
        lifted.filter = Some(match lifted.filter {
            Some(filter) => Expr::and(filter, is_there)?,
            None => is_there,
        });
        Ok(lifted)
    }

    /// Returns the steps that make the columns that leave, and the order of the rows.
    fn outputs(&mut self, order: &[SortKey]) -> Result<Vec<Step>, Unsupported> {
        let fields = self.pipeline.output.fields().iter().enumerate();
        let mut columns = Vec::with_capacity(fields.len() + order.len());
        for (index, field) in fields {
            let expr = Expr::column(index, field.data_type().clone())?;
            let (expr, name) = (self.value(&expr)?, field.name().clone());
            columns.push(NamedExpr { expr, name });
        }
        let mut keys = Vec::with_capacity(order.len());
        for key in order {
            if is_string(&key.expr.data_type) {
                return Err(Unsupported::new("an order of strings has no device form"));
            }
            let expr = self.value(&key.expr)?;
            let by = column(columns.len(), &key.expr);
            let name = String::new();
            columns.push(NamedExpr { expr, name });
            keys.push(SortKey {
                expr: by,
                ..key.clone()
            });
        }
        let sort = Step::Sort(Sort { keys, fetch: None });
        let project = Step::Project(columns);
        Ok(match order {
            [] => vec![project],
            _ => vec![project, sort],
        })
    }

    /// Ends the pipeline, whose columns get their numbers.
    fn finish(self, mut steps: Vec<Step>, num_steps: usize) -> Lifted {
        let fields = self.slots.iter().enumerate();
        let fields = fields.map(|(index, slot)| {
            Field::new(format!("c{index}"), slot.expr.data_type.clone(), true)
        });
        let input = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        for (position, step) in steps.iter_mut().enumerate() {
            if let Step::Project(columns) = step
                && position < num_steps
            {
                let passed = self.slots.iter().enumerate();
                let passed = passed.map(|(index, slot)| NamedExpr {
                    expr: column(index, &slot.expr),
                    name: input.field(index).name().clone(),
                });
                columns.splice(0..0, passed);
            }
            for expr in exprs_of(step) {
                number_computed(expr, self.slots.len());
            }
        }
        Lifted {
            pipeline: Pipeline {
                input,
                output: Arc::new(Schema::empty()),
                parameters: self.pipeline.parameters.clone(),
                steps,
            },
            slots: self.slots,
            num_steps,
        }
    }
}

fn column(index: usize, of: &Expr) -> Expr {
    Expr {
        kind: ExprKind::Column(index),
        data_type: of.data_type.clone(),
    }
}

/// Returns whether the node is computed from strings directly.
fn reads_strings(expr: &Expr) -> bool {
    let children = expr.children();
    children.iter().any(|child| is_string(&child.data_type))
}

fn count_nodes(expr: &Expr) -> usize {
    1 + expr.children().iter().map(count_nodes).sum::<usize>()
}

fn exprs_of(step: &mut Step) -> Vec<&mut Expr> {
    match step {
        Step::Filter(predicate) => vec![predicate],
        Step::Project(columns) => columns.iter_mut().map(|column| &mut column.expr).collect(),
        Step::Sort(sort) => sort.keys.iter_mut().map(|key| &mut key.expr).collect(),
        Step::Aggregate(aggregate) => {
            let keys = aggregate.keys.iter_mut().map(|key| &mut key.expr);
            let calls = aggregate.calls.iter_mut();
            let of_calls = calls.flat_map(|call| {
                let arguments = call.argument.iter_mut().chain(&mut call.more);
                arguments.chain(&mut call.filter)
            });
            keys.chain(of_calls).collect()
        }
    }
}

fn number_computed(expr: &mut Expr, num_slots: usize) {
    if let ExprKind::Column(index) = &mut expr.kind
        && *index >= COMPUTED
    {
        *index = *index - COMPUTED + num_slots;
    }
    for child in expr.children_mut() {
        number_computed(child, num_slots);
    }
}
