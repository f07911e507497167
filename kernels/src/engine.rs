//! What running a program asks of a machine: memory, copies and launches.
//!
//! The launch logic of [`table`](crate::table), [`rows`](crate::rows) and [`finish`](crate::finish)
//! is written over [`Engine`], the kernels of one program, and an [`execution`](crate::execution)
//! over a [`Machine`], which has engines for all of its programs: so the same code drives a GPU and,
//! in tests, kernels compiled for the host.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use futures::future::try_join_all;
use parking_lot::Mutex;
use tidegate_device::cuda::SLOT_BYTES;
use tidegate_device::{DeviceError, DeviceId, MemoryBudget, Reservation};
use tidegate_pipeline::EvalError;

use crate::backend::{RunError, Unsuited};
use crate::encode::EncodedColumn;
use crate::execution::Programs;
use crate::program::{DeviceProgram, NUM_LAUNCH_FIELDS, launch_words};

/// A machine with memory of its own.
///
/// # Contract
/// Everything happens in the order of the calls; `read` waits for what came before.
pub trait Engine {
    /// A piece of memory, freed when it is dropped.
    type Buffer: fmt::Debug + Send + 'static;

    /// Returns the device that errors name.
    fn device(&self) -> DeviceId;

    /// Takes memory, whose content is undefined.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn alloc(&self, bytes: u64) -> Result<Self::Buffer, DeviceError>;

    /// Promises memory of the device's budget to the caller, who then takes it with `alloc`.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], at once.
    fn reserve(&self, bytes: u64) -> Result<Reservation, DeviceError>;

    /// Returns the address by which kernels know a buffer.
    fn address(&self, buffer: &Self::Buffer) -> u64;

    /// Sets every byte of a range.
    ///
    /// # Errors
    /// A range outside of the buffer; a lost device.
    fn fill(
        &self,
        buffer: &Self::Buffer,
        offset: u64,
        bytes: u64,
        value: u8,
    ) -> Result<(), DeviceError>;

    /// Copies to the device.
    ///
    /// # Errors
    /// A range outside of the buffer; a lost device.
    fn write(&self, buffer: &Self::Buffer, offset: u64, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Copies from the device.
    ///
    /// # Errors
    /// A range outside of the buffer; a lost device.
    fn read(&self, buffer: &Self::Buffer, offset: u64, into: &mut [u8]) -> Result<(), DeviceError>;

    /// Has a launch's flags read behind it for whoever hears of the fold later. Returns false if nobody
    /// does: then they are read at once.
    ///
    /// # Errors
    /// A range outside of the buffer; a lost device.
    fn read_flags_later(&self, buffer: &Self::Buffer, offset: u64) -> Result<bool, DeviceError> {
        let _ = (buffer, offset);
        Ok(false)
    }

    /// Copies on the device.
    ///
    /// # Errors
    /// A range outside of a buffer; a lost device.
    fn copy(
        &self,
        from: &Self::Buffer,
        from_offset: u64,
        to: &Self::Buffer,
        to_offset: u64,
        bytes: u64,
    ) -> Result<(), DeviceError>;

    /// Returns how many blocks of a kernel the machine runs at once, at least 1.
    ///
    /// # Errors
    /// A kernel that is not there or cannot run; a lost device.
    fn resident_blocks(
        &self,
        kernel: &str,
        threads: u32,
        shared_bytes: u32,
    ) -> Result<u32, DeviceError>;

    /// Starts a kernel; `parameters` are the words of its launch.
    ///
    /// # Errors
    /// A kernel that is not there or cannot run; a lost device.
    fn launch(
        &self,
        kernel: &str,
        blocks: u32,
        threads: u32,
        shared_bytes: u32,
        parameters: &[u64],
    ) -> Result<(), DeviceError>;
}

/// A device, with an engine for whatever source.
pub trait Machine {
    /// A piece of memory, freed when it is dropped.
    type Buffer: fmt::Debug + Send + 'static;
    /// The kernels of one source.
    type Engine: Engine<Buffer = Self::Buffer>;

    /// Returns the budget of the device's memory.
    fn budget(&self) -> &Arc<MemoryBudget>;

    /// Returns how many bytes are encoded together.
    fn piece_bytes(&self) -> usize {
        SLOT_BYTES
    }

    /// Takes so much memory and copies parts into it, each to its offset.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`]; a part that reaches beyond the end; a lost device.
    fn upload(&self, parts: &[(u64, &[u8])], bytes: u64) -> Result<Self::Buffer, DeviceError>;

    /// Returns the address by which kernels know a buffer.
    fn address(&self, buffer: &Self::Buffer) -> u64;

    /// Returns the programs that were written for the machine.
    fn programs(&self) -> &Programs;

    /// Returns the named kernels of a source, once they are compiled and loaded.
    ///
    /// # Errors
    /// What the compiler says; a lost device.
    fn engine(
        &self,
        text: &str,
        kernels: &'static [&'static str],
    ) -> impl Future<Output = Result<Self::Engine, DeviceError>>;

    /// Returns an engine for each source of a set, in its order, once all are compiled and loaded. They are
    /// compiled at once.
    ///
    /// # Errors
    /// As [`engine`](Self::engine).
    fn engines(
        &self,
        needed: &KernelSet<'_>,
    ) -> impl Future<Output = Result<Vec<Self::Engine>, DeviceError>> {
        let sources = needed.0.iter();
        try_join_all(sources.map(|(text, kernels)| self.engine(text, kernels)))
    }
}

/// The kernels that some work needs, by their sources. It follows from the work's program, so that it is
/// known before anything of the work is asked of a device.
#[derive(Clone, Debug, Default)]
pub struct KernelSet<'a>(Vec<(&'a str, &'static [&'static str])>);

impl<'a> KernelSet<'a> {
    /// Makes a set of the named kernels of a source.
    pub fn of(text: &'a str, kernels: &'static [&'static str]) -> Self {
        Self(vec![(text, kernels)])
    }

    /// Adds the named kernels of another source.
    pub fn and(mut self, text: &'a str, kernels: &'static [&'static str]) -> Self {
        self.0.push((text, kernels));
        self
    }
}

/// One column of a chunk that lies on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResidentColumn {
    /// Where its raw values are; anything for a constant.
    pub values: u64,
    /// Where its validity is; 0 if no value is NULL.
    pub validity: u64,
    /// See [`EncodedColumn::base`].
    pub base: i64,
    /// See [`EncodedColumn::factor`].
    pub factor: i64,
    /// See [`EncodedColumn::width`].
    pub width: u32,
}

impl ResidentColumn {
    /// Describes an encoded column whose bytes are at these addresses.
    pub fn at(column: &EncodedColumn, values: u64, validity: u64) -> Self {
        Self {
            values,
            validity: if column.validity.is_some() {
                validity
            } else {
                0
            },
            base: column.base,
            factor: column.factor,
            width: column.width,
        }
    }
}

/// A chunk that lies on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResidentChunk {
    /// Rows.
    pub num_rows: u64,
    /// Its columns, in the order of the program's slots.
    pub columns: Vec<ResidentColumn>,
}

/// Rows of a segment, unless its chunk has fewer.
const SEGMENT_ROWS: u64 = 1 << 20;

/// The chunks of a launch as the kernel reads them.
#[derive(Clone, Debug)]
pub struct Segments {
    columns: Vec<u64>,
    rows: Vec<u32>,
    tiles_per_segment: u64,
    /// Where a device keeps the descriptors, if they are kept.
    kept: Option<Arc<Kept>>,
    /// Rows in all.
    pub num_rows: u64,
}

/// Descriptors that stay on the device to which they were copied first.
#[derive(Default)]
struct Kept(Mutex<Option<Descriptors>>);

struct Descriptors {
    columns: u64,
    rows: u64,
    _buffer: Box<dyn Any + Send>,
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kept({})", self.0.lock().is_some())
    }
}

impl Segments {
    /// Cuts chunks into segments.
    pub fn of(program: &DeviceProgram, chunks: &[ResidentChunk]) -> Self {
        let mut segments = Self::empty();
        for chunk in chunks {
            segments.num_rows += chunk.num_rows;
            let mut start = 0;
            while start < chunk.num_rows {
                let rows = SEGMENT_ROWS.min(chunk.num_rows - start);
                segments.rows.push(rows as u32);
                for column in &chunk.columns {
                    segments.columns.extend([
                        column.values + start * u64::from(column.width),
                        if column.validity == 0 {
                            0
                        } else {
                            column.validity + start / 8
                        },
                        column.base as u64,
                        column.factor as u64,
                        u64::from(column.width),
                    ]);
                }
                if program.slots.is_empty() {
                    segments.columns.extend([0; 5]);
                }
                let tiles = rows.div_ceil(u64::from(program.tile_rows));
                segments.tiles_per_segment = segments.tiles_per_segment.max(tiles);
                start += rows;
            }
        }
        segments
    }

    /// Makes a launch of no rows, to be filled by [`push`](Self::push).
    pub(crate) fn empty() -> Self {
        Self {
            columns: Vec::new(),
            rows: Vec::new(),
            tiles_per_segment: 1,
            kept: None,
            num_rows: 0,
        }
    }

    /// Adds a segment that takes `rows` rows of tiles, of which `num_rows` are rows of the input;
    /// `columns` is five words for each column of the program, or for one if it has none.
    pub(crate) fn push(&mut self, columns: &[u64], rows: u32, num_rows: u64, tile_rows: u32) {
        self.columns.extend_from_slice(columns);
        self.rows.push(rows);
        self.num_rows += num_rows;
        let tiles = u64::from(rows.div_ceil(tile_rows));
        self.tiles_per_segment = self.tiles_per_segment.max(tiles);
    }

    /// Has the descriptors stay on the device from the first launch on, for as long as the segments
    /// live. All launches over them must be on one device.
    pub fn kept(mut self) -> Self {
        self.kept = Some(Arc::default());
        self
    }

    /// Returns how many tiles there are.
    pub fn num_tiles(&self) -> u64 {
        self.rows.len() as u64 * self.tiles_per_segment
    }

    /// Copies the descriptors to the device; returns the addresses of columns and rows, and what
    /// they point into unless that is kept.
    fn describe<E: Engine>(
        &self,
        engine: &E,
    ) -> Result<(u64, u64, Option<E::Buffer>), DeviceError> {
        let mut kept = self.kept.as_ref().map(|kept| kept.0.lock());
        if let Some(Some(known)) = kept.as_deref() {
            return Ok((known.columns, known.rows, None));
        }
        let column_bytes = self.columns.len() as u64 * 8;
        let mut bytes = bytes_of_words(&self.columns);
        for rows in &self.rows {
            bytes.extend_from_slice(&rows.to_le_bytes());
        }
        let buffer = engine.alloc(bytes.len().max(1) as u64)?;
        engine.write(&buffer, 0, &bytes)?;
        let columns = engine.address(&buffer);
        let rows = columns + column_bytes;
        let Some(kept) = kept.as_deref_mut() else {
            return Ok((columns, rows, Some(buffer)));
        };
        *kept = Some(Descriptors {
            columns,
            rows,
            _buffer: Box::new(buffer),
        });
        Ok((columns, rows, None))
    }
}

/// Segments on the device, and the words of a launch over them.
#[derive(Debug)]
pub struct Prepared<B> {
    _buffer: Option<B>,
    /// The words of a launch; what belongs to its store is still zero.
    pub words: Vec<u64>,
    /// Tiles of the launch.
    pub num_tiles: u64,
    /// Rows of the launch.
    pub num_rows: u64,
}

impl<B> Prepared<B> {
    /// Copies the segments to the device, unless they are kept there.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`]; a lost device.
    pub fn new<E: Engine<Buffer = B>>(
        engine: &E,
        literals: &[u64],
        segments: &Segments,
    ) -> Result<Self, DeviceError> {
        if segments.num_tiles() > u64::from(u32::MAX) {
            return Err(DeviceError::Refused {
                device: engine.device(),
                what: format!("fold {} rows at once", segments.num_rows),
                why: format!("{} tiles are the most", u32::MAX),
            });
        }
        let (columns, rows, buffer) = segments.describe(engine)?;
        let mut words = vec![0; NUM_LAUNCH_FIELDS];
        words[launch_words("columns")] = columns;
        words[launch_words("segment_rows")] = rows;
        words[launch_words("num_tiles")] = segments.num_tiles();
        words[launch_words("tiles_per_segment")] = segments.tiles_per_segment;
        words.extend(literals);
        if literals.is_empty() {
            words.push(0);
        }
        Ok(Self {
            _buffer: buffer,
            words,
            num_tiles: segments.num_tiles(),
            num_rows: segments.num_rows,
        })
    }
}

/// Returns words as the bytes that a device reads.
pub fn bytes_of_words(words: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(words.len() * 8);
    for word in words {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Reads words from a device.
///
/// # Errors
/// A range outside of the buffer; a lost device.
pub fn read_words<E: Engine>(
    engine: &E,
    buffer: &E::Buffer,
    count: u64,
) -> Result<Vec<u64>, DeviceError> {
    let mut bytes = vec![0; count as usize * 8];
    engine.read(buffer, 0, &mut bytes)?;
    let (words, _) = bytes.as_chunks::<8>();
    Ok(words.iter().map(|word| u64::from_le_bytes(*word)).collect())
}

/// The flags of a launch: what its rows had to say.
#[derive(Debug)]
pub struct Flags<B>(B);

/// Bytes of a launch's flags.
pub(crate) const FLAGS_BYTES: usize = 32;
const ERROR: usize = 0;
const FLOAT_RANGE: usize = 1;
const SPILLED: usize = 2;
const KEY_RANGE: usize = 3;
const DISTINCT: usize = 4;
const KEYS_MET: usize = 5;

impl<B> Flags<B> {
    /// Makes flags, all unset.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`]; a lost device.
    pub fn new<E: Engine<Buffer = B>>(engine: &E) -> Result<Self, DeviceError> {
        let buffer = engine.alloc(FLAGS_BYTES as u64)?;
        let flags = Self(buffer);
        flags.clear(engine)?;
        Ok(flags)
    }

    /// Unsets all.
    ///
    /// # Errors
    /// A lost device.
    pub fn clear<E: Engine<Buffer = B>>(&self, engine: &E) -> Result<(), DeviceError> {
        engine.fill(&self.0, 0, FLAGS_BYTES as u64, 0)
    }

    /// Returns the flags' address.
    pub fn address<E: Engine<Buffer = B>>(&self, engine: &E) -> u64 {
        engine.address(&self.0)
    }

    /// Waits for the launch and returns how many distinct keys it found in a sample.
    ///
    /// # Errors
    /// A lost device.
    pub fn read_distinct<E: Engine<Buffer = B>>(&self, engine: &E) -> Result<u64, DeviceError> {
        let mut bytes = [0; 4];
        engine.read(&self.0, 4 * DISTINCT as u64, &mut bytes)?;
        Ok(u64::from(u32::from_le_bytes(bytes)))
    }

    /// Has the flags read behind the launch, as [`Engine::read_flags_later`] says.
    ///
    /// # Errors
    /// A lost device.
    pub(crate) fn read_later<E: Engine<Buffer = B>>(
        &self,
        engine: &E,
    ) -> Result<bool, DeviceError> {
        engine.read_flags_later(&self.0, 0)
    }

    /// Waits for the launch and returns how many records it spilled, or why its rows are not in.
    ///
    /// # Errors
    /// What the rows raise; values outside of the kernel's ranges; a lost device.
    pub fn read<E: Engine<Buffer = B>>(&self, engine: &E) -> Result<u64, RunError> {
        let mut bytes = [0; FLAGS_BYTES];
        engine.read(&self.0, 0, &mut bytes)?;
        outcome_of(engine.device(), &bytes)
    }
}

/// Returns how many records a launch has spilled, or why its rows are not in, from the bytes of its
/// flags.
///
/// # Errors
/// What the rows raise; values outside of the kernel's ranges.
pub(crate) fn outcome_of(device: DeviceId, flags: &[u8; FLAGS_BYTES]) -> Result<u64, RunError> {
    let (words, _) = flags.as_chunks::<4>();
    let flag = |index: usize| u32::from_le_bytes(words[index]);
    let overflow = |operation: &str| EvalError::Overflow {
        operation: operation.into(),
    };
    match flag(ERROR) {
        0 => {}
        1 => return Err(EvalError::DivideByZero.into()),
        2 => return Err(overflow("an operation of the device's program").into()),
        _ => {
            return Err(EvalError::CastFailed {
                value: "a value".into(),
                to: "the type of a cast in the device's program".into(),
            }
            .into());
        }
    }
    let unsuited = [
        (FLOAT_RANGE, Unsuited::FloatRange),
        (KEY_RANGE, Unsuited::KeyRange),
        (KEYS_MET, Unsuited::KeysMet),
    ];
    match unsuited.into_iter().find(|(index, _)| flag(*index) != 0) {
        Some((_, why)) => Err(RunError::Unsuited { device, why }),
        None => Ok(u64::from(flag(SPILLED))),
    }
}
