//! Values of expressions over strings, looked up by the codes of a stored column.
//!
//! The host evaluates the expression once for each string of the dictionary, and once for NULL.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema};
use tidegate_pipeline::{EvalError, Expr, ExprKind, Scalar, Unsupported};

use crate::backend::RunError;
use crate::encode::{Narrowing, encode};
use crate::engine::Machine;
use crate::groups::arrays::dictionary_array;
use crate::program::{Lookup, Slot};
use crate::stored::ColumnDictionary;

/// The values of a slot for every code, on the device.
#[derive(Debug)]
pub(super) struct LookupTable<B> {
    pub(super) dictionary: Arc<ColumnDictionary>,
    pub(super) num_values: usize,
    pub(super) facts: Lookup,
    values: B,
    validity: B,
}

/// Returns the one input column that an expression reads.
pub(super) fn column_of(expr: &Expr) -> Result<usize, Unsupported> {
    let mut columns = BTreeSet::new();
    collect(expr, &mut columns);
    match (columns.first(), columns.len()) {
        (Some(column), 1) => Ok(*column),
        _ => Err(Unsupported::new(
            "an expression over several stored columns of strings",
        )),
    }
}

fn collect(expr: &Expr, columns: &mut BTreeSet<usize>) {
    if let ExprKind::Column(index) = expr.kind {
        columns.insert(index);
    }
    for child in expr.children() {
        collect(child, columns);
    }
}

impl<B> LookupTable<B> {
    /// Evaluates the slot for all strings of the dictionary. `strings` is the slot's own dictionary,
    /// if it is strings again.
    pub(super) fn new<M: Machine<Buffer = B>>(
        machine: &M,
        slot: &Slot,
        parameters: &[Scalar],
        dictionary: &Arc<ColumnDictionary>,
        strings: &Arc<ColumnDictionary>,
    ) -> Result<Self, RunError> {
        let mut source = None;
        let expr = over_one_column(&slot.expr, &mut source);
        let data_type = source.unwrap_or(slot.expr.data_type.clone());
        let (array, num_values) = {
            let held = dictionary.strings.read();
            let count = held.len();
            let codes: Vec<Option<i128>> = (0..count as i128).map(Some).chain([None]).collect();
            (dictionary_array(&data_type, &codes, &held)?, count)
        };
        let schema = Arc::new(Schema::new(vec![Field::new("strings", data_type, true)]));
        let batch = RecordBatch::try_new(schema, vec![array]).map_err(EvalError::from)?;
        let over_one = Slot {
            expr,
            kind: slot.kind,
        };
        let column = {
            let mut own = strings.strings.write();
            encode(&over_one, parameters, &[batch], &mut own, Narrowing::Width)?
        };
        let words = column.words();
        let valid: Vec<u8> = (0..=num_values)
            .map(|row| u8::from(column.is_valid(row)))
            .collect();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let values = machine.upload(&[(0, &bytes)], bytes.len() as u64)?;
        let validity = machine.upload(&[(0, &valid)], valid.len() as u64)?;
        Ok(Self {
            dictionary: Arc::clone(dictionary),
            num_values,
            facts: Lookup {
                range: column.facts.range,
                nullable: column.facts.nullable,
            },
            values,
            validity,
        })
    }

    /// Returns the literals of a launch: where values and validity are, and what NULL looks up.
    pub(super) fn literals<M: Machine<Buffer = B>>(&self, machine: &M) -> [u64; 3] {
        [
            machine.address(&self.values),
            machine.address(&self.validity),
            self.num_values as u64,
        ]
    }
}

/// Returns the expression with its one column at index 0, and notes that column's type.
fn over_one_column(expr: &Expr, source: &mut Option<arrow_schema::DataType>) -> Expr {
    let mut copy = expr.clone();
    if let ExprKind::Column(index) = &mut copy.kind {
        *index = 0;
        *source = Some(copy.data_type.clone());
    }
    for child in copy.children_mut() {
        *child = over_one_column(child, source);
    }
    copy
}
