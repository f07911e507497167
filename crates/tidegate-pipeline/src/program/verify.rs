//! Checks the invariants of a program, after lowering and after anything that changes one.

use super::{
    Callee, Class, Groups, InputId, Op, Overflow, Reduce, Rounding, RowProgram, Sink, Type, Value,
    ValueId,
};
use crate::interval::Interval;

/// Returns every invariant that does not hold.
pub fn verify(program: &RowProgram) -> Vec<String> {
    let mut broken = Vec::new();
    for (index, value) in program.values.iter().enumerate() {
        let operands = value.op.operands();
        if let Some(later) = operands.iter().find(|id| id.0 as usize >= index) {
            broken.push(format!("v{index} reads {later}, which comes after it"));
            continue;
        }
        if let Some(what) = wrong(program, value, &operands) {
            broken.push(format!("v{index}: {what}"));
        }
    }
    let roots = program.roots();
    if let Some(root) = roots
        .iter()
        .find(|id| id.0 as usize >= program.values.len())
    {
        broken.push(format!("{root} is read, which is not there"));
        return broken;
    }
    let is_boolean = |id: ValueId| program.data(id) == Type::Bool;
    if !is_boolean(program.selected) {
        broken.push("the selection is no boolean".to_owned());
    }
    for raise in &program.raises {
        if !is_boolean(raise.guard) || !is_boolean(raise.when) {
            broken.push(format!(
                "{:?} hangs on other values than booleans",
                raise.error
            ));
        }
    }
    match &program.sink {
        Sink::Groups(groups) => broken.extend(wrong_groups(program, groups)),
        Sink::Rows(outputs) => {
            let columns = outputs.iter().map(|output| output.value.valid);
            broken.extend(wrong_validity(program, columns));
        }
        Sink::Sorted(sorted) => {
            let columns = sorted.outputs.iter().map(|output| output.value.valid);
            let keys = sorted.keys.iter().map(|key| key.value.valid);
            broken.extend(wrong_validity(program, columns.chain(keys)));
        }
    }
    broken
}

fn wrong_validity(
    program: &RowProgram,
    mut valid: impl Iterator<Item = ValueId>,
) -> Option<String> {
    let wrong = valid.find(|id| program.data(*id) != Type::Bool);
    wrong.map(|id| format!("a validity {id} that is no boolean"))
}

/// Returns what is wrong with the operands of a value, or with what is said of its result.
fn wrong(program: &RowProgram, value: &Value, operands: &[ValueId]) -> Option<String> {
    if let Type::Int(Interval { low, high }) = value.data
        && low > high
    {
        return Some(format!("an empty interval, from {low} to {high}"));
    }
    let types: Vec<Type> = operands.iter().map(|id| program.data(*id)).collect();
    let are_alike = match types.as_slice() {
        [first, rest @ ..] => rest.iter().all(|data| data.is_like(*first)),
        [] => true,
    };
    let are_booleans = types.iter().all(|data| *data == Type::Bool);
    let are_floats = types.iter().all(|data| data.is_float());
    let (holds, what) = match &value.op {
        Op::Not(_) | Op::And(..) | Op::Or(..) => {
            (are_booleans, "logic on other values than booleans")
        }
        Op::Select { .. } => {
            let fits = types[0] == Type::Bool && types[1].is_like(types[2]);
            (fits, "a choice between values that are not alike")
        }
        Op::Integer { .. } | Op::Divide { .. } | Op::Remainder { .. } => {
            let fits = types.iter().all(|data| data.is_integer()) && is_proven(value, &types);
            (fits, "integers that are none, or whose result may not fit")
        }
        Op::Float2 { .. } | Op::NegateFloat(_) | Op::Canonical(_) => {
            (are_floats && are_alike, "float arithmetic on other values")
        }
        Op::Compare { .. } => (are_alike, "a comparison of values that are not alike"),
        Op::Convert { to, .. } => {
            let is_text = types[0] == Type::Text || matches!(to, Class::Text | Class::Bool);
            (!is_text, "a conversion that there is not")
        }
        Op::Failed(of) => (may_fail(program, *of), "the failure of what cannot fail"),
        Op::Gave(of) => (is_custom(program, *of), "a result of no user's function"),
        Op::Call {
            callee: Callee::Custom { wanted, .. },
            ..
        } => {
            let is_condition = program.data(*wanted) == Type::Bool;
            (is_condition, "a call under what is no condition")
        }
        Op::Input(InputId(index)) | Op::IsPresent(InputId(index)) => {
            let is_there = (*index as usize) < program.inputs.len();
            (is_there, "an input that is not there")
        }
        Op::Parameter(index) => {
            let is_there = *index < program.parameters.len();
            (is_there, "a literal that is not there")
        }
        Op::Call { .. } | Op::Bool(_) | Op::Int(_) | Op::Float(_) | Op::RowExists => (true, ""),
    };
    (!holds).then(|| what.to_owned())
}

/// Returns whether the intervals of operands prove what an operation on integers says.
fn is_proven(value: &Value, types: &[Type]) -> bool {
    let (left, right) = (types[0].interval(), types[1].interval());
    match value.op {
        Op::Integer {
            op,
            overflow: Overflow::Never,
            ..
        } => op.interval(left, right) == value.data.interval(),
        // Only towards zero is there a quotient for every divisor.
        Op::Divide { rounding, .. } => rounding == Rounding::Zero || right.low > 0,
        _ => true,
    }
}

fn is_custom(program: &RowProgram, id: ValueId) -> bool {
    matches!(
        program.value(id).op,
        Op::Call {
            callee: Callee::Custom { .. },
            ..
        }
    )
}

fn may_fail(program: &RowProgram, id: ValueId) -> bool {
    let is_checked = matches!(
        program.value(id).op,
        Op::Integer {
            overflow: Overflow::Fails { .. },
            ..
        } | Op::Convert { .. }
    );
    is_checked || is_custom(program, id)
}

fn wrong_groups(program: &RowProgram, groups: &Groups) -> Vec<String> {
    let mut broken = Vec::new();
    for (index, accumulator) in groups.accumulators.iter().enumerate() {
        let data = accumulator.value.map(|value| program.data(value));
        let fits = match (accumulator.reduce, data) {
            (Reduce::Count, None) => true,
            (Reduce::SumInteger { bits }, Some(data)) => {
                data.is_integer() && matches!(bits, 64 | 128)
            }
            (Reduce::SumFloat, Some(data)) => data.is_float(),
            (Reduce::Combine(_), Some(data)) => {
                data.is_integer() && data.interval().is_within(Interval::signed(64))
            }
            (Reduce::Moments, Some(data)) => data.class() == Class::F64,
            (Reduce::CoMoment { other }, Some(data)) => {
                [data, program.data(other)].map(Type::class) == [Class::F64; 2]
            }
            (Reduce::Least | Reduce::Greatest, Some(_)) => true,
            (Reduce::Count, Some(_)) | (_, None) => false,
        };
        if !fits {
            broken.push(format!("a{index}: {:?} of {data:?}", accumulator.reduce));
        }
        if !implies(program, accumulator.rows, program.selected) {
            broken.push(format!("a{index} counts rows that are not selected"));
        }
    }
    for call in &groups.calls {
        let finish = verify(&call.finish).into_iter();
        broken.extend(finish.map(|what| format!("finish of {}: {what}", call.function)));
    }
    let keys = groups.keys.iter().map(|key| key.value.valid);
    broken.extend(wrong_validity(program, keys));
    broken
}

/// Returns whether one condition implies another, as far as conjunctions show it.
fn implies(program: &RowProgram, condition: ValueId, wanted: ValueId) -> bool {
    let has = program.conjuncts(condition);
    let wants = program.conjuncts(wanted);
    program.is(condition, false) || wants.iter().all(|id| has.contains(id))
}
