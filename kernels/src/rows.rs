//! Rows that a program writes out, in the order of the input.
//!
//! One kernel does it in one pass; there has to be room for all rows, for none is counted before.

use std::borrow::Borrow;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::Schema;

use crate::backend::RunError;
use crate::encode::Dictionary;
use crate::engine::{Engine, Flags, Prepared, Segments, bytes_of_words};
use crate::groups::{dictionary_array, integer_array};
use crate::program::{DeviceProgram, OutputColumn, launch_words};

/// The bits of a tile's state that count rows (`compact.cuh`).
const TILE_VALUE: u64 = (1 << 62) - 1;

/// Rows that lie on the device.
#[derive(Debug)]
pub struct DeviceRows<B> {
    /// How many there are.
    pub num_rows: u64,
    /// The values of each column, and a byte of validity for each value where there is one.
    pub buffers: Vec<(B, B)>,
}

/// Runs a program that writes rows, and leaves them on the device.
///
/// # Errors
/// What the rows raise, and the device's own errors.
pub fn write_rows<E: Engine>(
    engine: &E,
    program: &DeviceProgram,
    columns: &[OutputColumn],
    segments: &Segments,
) -> Result<DeviceRows<E::Buffer>, RunError> {
    let mut prepared = Prepared::new(engine, &program.literals, segments)?;
    let flags = Flags::new(engine)?;
    let num_tiles = prepared.num_tiles;
    // A word of state for each tile, then the next ticket.
    let tiles = engine.alloc((num_tiles + 1) * 8)?;
    engine.fill(&tiles, 0, (num_tiles + 1) * 8, 0)?;
    let mut buffers = Vec::new();
    let mut addresses = Vec::new();
    for column in columns {
        let values = engine.alloc(segments.num_rows * u64::from(column.width))?;
        let validity = engine.alloc(if column.nullable {
            segments.num_rows
        } else {
            0
        })?;
        addresses.extend([engine.address(&values), engine.address(&validity)]);
        buffers.push((values, validity));
    }
    let table = engine.alloc(addresses.len().max(1) as u64 * 8)?;
    engine.write(&table, 0, &bytes_of_words(&addresses))?;
    prepared.words[launch_words("flags")] = flags.address(engine);
    prepared.words[launch_words("spill")] = engine.address(&tiles);
    prepared.words[launch_words("resume")] = engine.address(&tiles) + num_tiles * 8;
    prepared.words[launch_words("outputs")] = engine.address(&table);
    let mut num_rows = 0;
    if num_tiles > 0 {
        let resident = engine.resident_blocks("write_rows", program.threads, 0)?;
        let blocks = u64::from(resident).min(num_tiles) as u32;
        engine.launch("write_rows", blocks, program.threads, 0, &prepared.words)?;
        flags.read(engine)?;
        let mut last = [0; 8];
        engine.read(&tiles, (num_tiles - 1) * 8, &mut last)?;
        num_rows = u64::from_le_bytes(last) & TILE_VALUE;
    }
    Ok(DeviceRows { num_rows, buffers })
}

/// Brings rows back to the host.
///
/// # Errors
/// A NULL in a column declared without; a lost device.
pub fn read_rows<E: Engine>(
    engine: &E,
    rows: &DeviceRows<E::Buffer>,
    columns: &[OutputColumn],
    dictionaries: &[impl Borrow<Dictionary>],
    schema: &Arc<Schema>,
) -> Result<RecordBatch, RunError> {
    let num_rows = rows.num_rows;
    let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
    for ((column, (values, validity)), field) in
        columns.iter().zip(&rows.buffers).zip(schema.fields())
    {
        let mut bytes = vec![0; (num_rows * u64::from(column.width)) as usize];
        let mut valid = vec![1; num_rows as usize];
        engine.read(values, 0, &mut bytes)?;
        if column.nullable {
            engine.read(validity, 0, &mut valid)?;
        }
        let cells: Vec<Option<i128>> = bytes
            .chunks_exact(column.width as usize)
            .zip(&valid)
            .map(|(bytes, valid)| (*valid != 0).then(|| integer_of(bytes)))
            .collect();
        arrays.push(match column.dictionary {
            Some(slot) => dictionary_array(field.data_type(), &cells, dictionaries[slot].borrow())?,
            None => integer_array(field.data_type(), &cells)?,
        });
    }
    let options = RecordBatchOptions::new().with_row_count(Some(num_rows as usize));
    let batch = RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options);
    batch.map_err(|error| RunError::Eval(error.into()))
}

fn integer_of(bytes: &[u8]) -> i128 {
    let mut wide = [0; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    i128::from_le_bytes(wide)
}
