//! Where a value whose last bits may differ between host and device would decide which rows, groups or
//! numbers there are.

use super::{Callee, Class, Facts, FloatOp, Op, Reduce, RowProgram, Sink, Sorted, ValueId, lower};
use crate::catalogue::Accuracy;
use crate::pipeline::Pipeline;

/// A function whose last bits may differ, where these would decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{function} may differ in its last bits between host and device, so it cannot be in {place}"
)]
pub struct InexactDecision {
    /// The function.
    pub function: &'static str,
    /// What hangs on it.
    pub place: &'static str,
}

/// Returns why a pipeline may give other rows or groups on a device than on the host: a function whose last
/// bits may differ, and what hangs on it. Such a value may be a result, be added up, and be an operand of
/// what moves little where it moves little.
pub fn inexact_decision(pipeline: &Pipeline) -> Option<InexactDecision> {
    let fields = pipeline.input.fields();
    let stages = lower(pipeline, &|column| {
        Facts::declared(fields[column].data_type())
    });
    let mut columns: Vec<Option<&'static str>> = vec![None; fields.len()];
    for stage in stages.ok()? {
        let values = match inexact_values(&stage, &columns) {
            Ok(values) => values,
            Err(why) => return Some(why),
        };
        match leaving(&stage, &values) {
            Ok(leaving) => columns = leaving,
            Err(why) => return Some(why),
        }
    }
    None
}

/// Returns the inexact function that each value hangs on, or why one may not.
fn inexact_values(
    program: &RowProgram,
    columns: &[Option<&'static str>],
) -> Result<Vec<Option<&'static str>>, InexactDecision> {
    let mut values: Vec<Option<&'static str>> = Vec::with_capacity(program.values.len());
    for value in &program.values {
        let mut operands = value.op.operands().into_iter();
        let of = operands.find_map(|ValueId(index)| values[index as usize]);
        let moves_little = match &value.op {
            Op::Input(id) => {
                let input = &program.inputs[id.0 as usize];
                values.push(columns.get(input.column).copied().flatten());
                continue;
            }
            Op::Call {
                callee: Callee::Kernel(kernel),
                ..
            } => match kernel.accuracy {
                Accuracy::Exact => false,
                Accuracy::Ulps(_) => {
                    values.push(Some(kernel.name));
                    continue;
                }
            },
            Op::Float2 { op, .. } => *op != FloatOp::Remainder,
            Op::Convert { to, .. } => matches!(to, Class::F32 | Class::F64),
            Op::NegateFloat(_) | Op::Canonical(_) | Op::Select { .. } => true,
            _ => false,
        };
        match (of, moves_little) {
            (Some(function), false) => {
                let place = place_of(&value.op);
                return Err(InexactDecision { function, place });
            }
            (of, _) => values.push(of),
        }
    }
    Ok(values)
}

fn place_of(op: &Op) -> &'static str {
    match op {
        Op::Compare { .. } => "a comparison",
        Op::Convert { .. } | Op::Failed(_) => "a cast",
        Op::Call { .. } => "another function",
        _ => "an operation that is not continuous",
    }
}

/// Returns what leaves with an inexact value, or why it may not.
fn leaving(
    program: &RowProgram,
    values: &[Option<&'static str>],
) -> Result<Vec<Option<&'static str>>, InexactDecision> {
    let of = |ValueId(index): ValueId| values[index as usize];
    let exact = |id: ValueId, place: &'static str| match of(id) {
        Some(function) => Err(InexactDecision { function, place }),
        None => Ok(()),
    };
    match &program.sink {
        Sink::Rows(outputs) => Ok(outputs
            .iter()
            .map(|column| of(column.value.value))
            .collect()),
        Sink::Sorted(Sorted { outputs, keys, .. }) => {
            let mut keys = keys.iter();
            keys.try_for_each(|key| exact(key.value.value, "ORDER BY"))?;
            Ok(outputs
                .iter()
                .map(|column| of(column.value.value))
                .collect())
        }
        Sink::Groups(groups) => {
            let mut keys = groups.keys.iter();
            keys.try_for_each(|key| exact(key.value.value, "a key"))?;
            let mut of_accumulators = Vec::with_capacity(groups.accumulators.len());
            for accumulator in &groups.accumulators {
                let mut values = accumulator
                    .value
                    .into_iter()
                    .chain(match accumulator.reduce {
                        Reduce::CoMoment { other } => Some(other),
                        _ => None,
                    });
                let function = values.find_map(of);
                let picks = matches!(
                    accumulator.reduce,
                    Reduce::Least | Reduce::Greatest | Reduce::Combine(_)
                );
                if let (Some(function), true) = (function, picks) {
                    let place = "MIN or MAX";
                    return Err(InexactDecision { function, place });
                }
                of_accumulators.push(function);
            }
            let mut columns = vec![None; groups.keys.len()];
            for call in &groups.calls {
                let mut used = call.accumulators.iter();
                let function = used.find_map(|at| of_accumulators[*at]);
                columns.extend(call.finish.finished().iter().map(|_| function));
            }
            Ok(columns)
        }
    }
}

#[cfg(test)]
mod tests;
