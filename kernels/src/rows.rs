//! Rows that a program writes out, in the order of the input, and their way to the host.
//!
//! One kernel writes them in one pass; there has to be room for all rows, for none is counted before.
//! What is copied back is what Arrow's arrays are made of, so that only strings and bits are looked
//! at one by one, and that not on the device's thread.

use std::borrow::Borrow;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_buffer::{Buffer, MutableBuffer};
use arrow_schema::Schema;
use tidegate_device::DeviceError;

use crate::backend::RunError;
use crate::columns::{Picked, gather};
use crate::engine::{Engine, Flags, Prepared, Segments, bytes_of_words};
use crate::groups::arrays::{code_array, plain_array};
use crate::program::{DeviceProgram, OutputColumn, launch_words};
use crate::strings::Dictionary;

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

/// Copies the picked rows. The engine is that of [`columns::SOURCE`](crate::columns::SOURCE).
///
/// # Errors
/// The device's own.
pub fn pick_rows<E: Engine>(
    engine: &E,
    rows: &DeviceRows<E::Buffer>,
    columns: &[OutputColumn],
    picked: &Picked<E::Buffer>,
) -> Result<DeviceRows<E::Buffer>, RunError> {
    let mut buffers = Vec::with_capacity(columns.len());
    for (column, (values, validity)) in columns.iter().zip(&rows.buffers) {
        let values = gather(engine, picked, values, column.width)?;
        let validity = if column.nullable {
            gather(engine, picked, validity, 1)?
        } else {
            engine.alloc(0)?
        };
        buffers.push((values, validity));
    }
    Ok(DeviceRows {
        num_rows: picked.num_rows,
        buffers,
    })
}

/// Rows on the host, in the bytes that a device wrote.
#[derive(Debug)]
pub struct HostRows {
    num_rows: usize,
    columns: Vec<(OutputColumn, Buffer, Option<Buffer>)>,
}

/// Copies rows to the host.
///
/// # Errors
/// A lost device.
pub fn download_rows<E: Engine>(
    engine: &E,
    rows: &DeviceRows<E::Buffer>,
    columns: &[OutputColumn],
) -> Result<HostRows, DeviceError> {
    let num_rows = rows.num_rows as usize;
    let download = |from: &E::Buffer, bytes: usize| {
        let mut buffer = MutableBuffer::from_len_zeroed(bytes);
        engine.read(from, 0, buffer.as_slice_mut())?;
        Ok::<Buffer, DeviceError>(buffer.into())
    };
    let mut downloaded = Vec::with_capacity(columns.len());
    for (column, (values, validity)) in columns.iter().zip(&rows.buffers) {
        let values = download(values, num_rows * column.width as usize)?;
        let validity = if column.nullable {
            Some(download(validity, num_rows)?)
        } else {
            None
        };
        downloaded.push((column.clone(), values, validity));
    }
    Ok(HostRows {
        num_rows,
        columns: downloaded,
    })
}

impl HostRows {
    /// Returns how many rows there are.
    pub fn num_rows(&self) -> usize {
        self.num_rows
    }

    /// Makes a batch of the rows. Strings are looked up in the dictionary of their slot.
    ///
    /// # Errors
    /// A NULL in a column declared without; more strings than a dictionary's keys can count.
    pub fn into_batch(
        self,
        dictionaries: &[impl Borrow<Dictionary>],
        schema: &Arc<Schema>,
    ) -> Result<RecordBatch, RunError> {
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
        for ((column, values, validity), field) in self.columns.into_iter().zip(schema.fields()) {
            let data_type = field.data_type();
            arrays.push(match column.dictionary {
                Some(slot) => {
                    let strings = dictionaries[slot].borrow();
                    code_array(data_type, &values, validity.as_deref(), strings)?
                }
                None => plain_array(data_type, self.num_rows, values, validity.as_deref())?,
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(self.num_rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options);
        batch.map_err(|error| RunError::Eval(error.into()))
    }
}
