//! Groups that become columns on the device, without leaving it.
//!
//! There has to be room for the columns of all groups, so these are counted first. What the kernel
//! notes of the values on the way tells the next program what it may assume of them.

use crate::backend::RunError;
use crate::columns::pack_bits;
use crate::engine::{Engine, Flags, ResidentColumn, bytes_of_words, read_words};
use crate::program::{FinishProgram, NUM_LAUNCH_FIELDS, OutputColumn, launch_words};
use crate::rows::DeviceRows;
use crate::table::GroupTable;

/// Rows to which stored columns are padded, so that wide loads stay inside.
const PADDED_ROWS: u64 = 32;

/// The groups of a table as columns on the device.
#[derive(Debug)]
pub struct FinishedGroups<B> {
    /// The columns of the program.
    pub rows: DeviceRows<B>,
    /// What was noted of each.
    pub noted: Vec<[u64; 2]>,
}

/// Returns the bytes that the columns of so many rows take, the bits of validity included.
pub fn column_bytes<'a>(columns: impl Iterator<Item = &'a OutputColumn>, num_rows: u64) -> u64 {
    let rows = num_rows.next_multiple_of(PADDED_ROWS);
    let validity = |column: &OutputColumn| if column.nullable { rows + rows / 8 } else { 0 };
    columns
        .map(|column| rows * u64::from(column.width) + validity(column))
        .sum()
}

/// Writes the columns of a table's groups, of which there are `num_groups`, in the order of its slots.
///
/// # Errors
/// A mean that its type does not hold; the device's own errors.
pub fn finish_groups<E: Engine>(
    engine: &E,
    program: &FinishProgram,
    table: &GroupTable<E::Buffer>,
    num_groups: u64,
) -> Result<FinishedGroups<E::Buffer>, RunError> {
    let flags = Flags::new(engine)?;
    let num_tiles = table.num_places().div_ceil(u64::from(program.tile_slots));
    // A word of state for each tile, then the next ticket.
    let tiles = engine.alloc((num_tiles + 1) * 8)?;
    engine.fill(&tiles, 0, (num_tiles + 1) * 8, 0)?;
    let noted_bytes = program.columns.len().max(1) as u64 * 16;
    let noted = engine.alloc(noted_bytes)?;
    engine.fill(&noted, 0, noted_bytes, 0)?;
    let mut buffers = Vec::new();
    let mut addresses = Vec::new();
    for column in &program.columns {
        let values = padded(engine, num_groups, u64::from(column.output.width))?;
        let rows = if column.output.nullable {
            num_groups
        } else {
            0
        };
        let validity = padded(engine, rows, 1)?;
        addresses.extend([engine.address(&values), engine.address(&validity)]);
        buffers.push((values, validity));
    }
    addresses.push(engine.address(&noted));
    let outputs = engine.alloc(addresses.len() as u64 * 8)?;
    engine.write(&outputs, 0, &bytes_of_words(&addresses))?;
    let mut words = vec![0; NUM_LAUNCH_FIELDS];
    words.extend(table.literals());
    words.extend(&program.literals);
    if words.len() == NUM_LAUNCH_FIELDS {
        words.push(0);
    }
    table.address(engine, &mut words, flags.address(engine));
    words[launch_words("num_tiles")] = num_tiles;
    words[launch_words("spill")] = engine.address(&tiles);
    words[launch_words("resume")] = engine.address(&tiles) + num_tiles * 8;
    words[launch_words("outputs")] = engine.address(&outputs);
    let resident = engine.resident_blocks("finish", program.threads, 0)?;
    let blocks = u64::from(resident).min(num_tiles).max(1) as u32;
    engine.launch("finish", blocks, program.threads, 0, &words)?;
    flags.read(engine)?;
    let words = read_words(engine, &noted, noted_bytes / 8)?;
    let (noted, _) = words.as_chunks::<2>();
    Ok(FinishedGroups {
        rows: DeviceRows {
            num_rows: num_groups,
            buffers,
        },
        noted: noted[..program.columns.len()].to_vec(),
    })
}

/// Takes memory for a column, of which what lies behind the last row is zero.
fn padded<E: Engine>(engine: &E, num_rows: u64, width: u64) -> Result<E::Buffer, RunError> {
    let rows = num_rows.next_multiple_of(PADDED_ROWS);
    let buffer = engine.alloc(rows * width)?;
    engine.fill(&buffer, num_rows * width, (rows - num_rows) * width, 0)?;
    Ok(buffer)
}

/// Columns of finished groups, as a program reads them.
#[derive(Debug)]
pub struct StoredGroups<B> {
    /// The columns, in order.
    pub columns: Vec<ResidentColumn>,
    _validity: Vec<B>,
}

/// Makes finished columns of the layout [`Stored`](crate::program::FinishLayout::Stored) readable.
/// The engine is that of [`columns::SOURCE`](crate::columns::SOURCE).
///
/// # Errors
/// The device's own.
pub fn store_groups<E: Engine>(
    engine: &E,
    program: &FinishProgram,
    groups: &FinishedGroups<E::Buffer>,
) -> Result<StoredGroups<E::Buffer>, RunError> {
    let mut stored = StoredGroups {
        columns: Vec::new(),
        _validity: Vec::new(),
    };
    for (column, (values, validity)) in program.columns.iter().zip(&groups.rows.buffers) {
        let mut resident = ResidentColumn {
            values: engine.address(values),
            validity: 0,
            base: 0,
            factor: 1,
            width: column.output.width,
        };
        if column.output.nullable && groups.rows.num_rows > 0 {
            let bits = pack_bits(engine, validity, groups.rows.num_rows)?;
            resident.validity = engine.address(&bits);
            stored._validity.push(bits);
        }
        stored.columns.push(resident);
    }
    Ok(stored)
}
