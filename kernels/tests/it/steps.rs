//! Group keys that lie in steps, over columns as they are stored: finished on the device as by the
//! host, and grouped again.

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::DataType;
use tidegate_kernels::encode::{Narrowing, encode};
use tidegate_kernels::engine::{Machine, ResidentColumn};
use tidegate_kernels::execution::FinishLimits;
use tidegate_kernels::program::{Slot, SlotFacts, StoreLimits, slot_kind};
use tidegate_kernels::strings::Dictionary;
use tidegate_pipeline::{Expr, Pipeline};

use crate::cells::sorted_rows;
use crate::data::{batch, integers};
use crate::plan::{Plan, count, max, min, sum};
use crate::reference::interpret;
use crate::shim::{Buffer, ShimMachine, now, options};

use DataType::{Date32, Int64};

const ROWS: i128 = 900;
const DAY: i128 = 86_400_000_000;

/// A key of microseconds that are whole days, one of months, some of both NULL, and a value.
fn table() -> RecordBatch {
    let column = |data_type: &DataType, value: &dyn Fn(i128) -> Option<i128>| -> ArrayRef {
        integers(data_type, &(0..ROWS).map(value).collect::<Vec<_>>())
    };
    batch(vec![
        column(&Int64, &|row| {
            (row % 17 != 3).then_some(DAY * (row * 7919 % 61 - 20) + 5)
        }),
        column(&Date32, &|row| {
            (row % 23 != 7).then_some(8036 + 30 * (row % 11))
        }),
        column(&Int64, &|row| Some(row * row - 1000)),
    ])
}

/// Puts a column on the machine as a stored one is.
pub(crate) fn stored(
    machine: &ShimMachine,
    input: &RecordBatch,
    index: usize,
) -> ((ResidentColumn, SlotFacts), Buffer) {
    let data_type = input.column(index).data_type().clone();
    let slot = Slot {
        kind: slot_kind(&data_type).unwrap(),
        expr: Expr::column(index, data_type).unwrap(),
    };
    let batches = std::slice::from_ref(input);
    let mut dictionary = Dictionary::default();
    let column = encode(&slot, &[], batches, &mut dictionary, Narrowing::Factor).unwrap();
    let words = column.validity.iter().flatten();
    let validity: Vec<u8> = words.flat_map(|word| word.to_le_bytes()).collect();
    let offset = column.values.len().next_multiple_of(256) as u64;
    let parts = [(0, column.values.as_slice()), (offset, validity.as_slice())];
    let buffer = machine
        .upload(&parts, offset + validity.len() as u64)
        .unwrap();
    let address = machine.address(&buffer);
    let described = ResidentColumn::at(&column, address, address + offset);
    ((described, column.facts), buffer)
}

fn check(name: &str, pipeline: &Pipeline, input: &RecordBatch) {
    let expected = interpret(pipeline, std::slice::from_ref(input)).unwrap();
    let expected = sorted_rows(&expected);
    let default = StoreLimits::default();
    let hash = StoreLimits {
        shared_bytes: 0,
        private_bytes: 0,
        dense_bytes: 0,
        ..default
    };
    let on_device = FinishLimits {
        slots_min: 0,
        groups_min: 0,
        copied_bytes_max: 0,
        first_rows_max: 64,
        spare_rows: 0,
    };
    for limits in [default, hash] {
        for finish in [on_device, FinishLimits::default()] {
            let machine = ShimMachine::new(3, 1 << 30);
            let mut execution = machine.execution(pipeline, &options(limits)).unwrap();
            let (columns, buffers): (Vec<_>, Vec<_>) = (0..input.num_columns())
                .map(|index| stored(&machine, input, index))
                .unzip();
            assert_eq!(columns[0].1.step, DAY as u64);
            assert_eq!(columns[1].1.step, 30);
            // Twice the same rows, of which nothing new is learnt.
            for _ in 0..2 {
                now(execution.fold_resident(&machine, ROWS as u64, &columns)).unwrap();
            }
            let leaving = now(execution.finish(&machine, &finish)).unwrap();
            let rows = sorted_rows(&leaving.into_batches().unwrap());
            drop(buffers);
            assert_eq!(rows, expected, "{name}, {finish:?}");
        }
    }
}

#[test]
fn groups_leave_and_are_grouped_again() {
    let input = table();
    let plan = Plan::over(&input);
    let keys = vec![plan.col(0), plan.col(1)];
    let extremes = vec![min(plan.col(2)), max(plan.col(2))];
    let groups = plan.group(keys, extremes);
    check("groups", &groups.clone().build(), &input);
    let again = groups.col(1);
    let calls = vec![count(), sum(groups.col(0)), max(groups.col(3))];
    check(
        "groups of groups",
        &groups.group(vec![again], calls).build(),
        &input,
    );
}
