//! Raw values of consecutive rows, as a thread's registers hold them.

use std::fmt::Write;

/// The bytes of the widest load.
const VECTOR_BYTES: u32 = 16;

/// Raw values of one column, of so many consecutive rows.
///
/// They are held as they are loaded: in a word of 32 bits or in vectors of such words; values of 8
/// bytes, where all chunks have them, in words of 64 bits, which need not be cut and joined. Each load
/// and each value is a statement of its own, without arrays of words, functions or templates: those
/// take a tenth of a small kernel's time to compile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// The column's position among those that are read; names its variables.
    index: usize,
    rows: u32,
    /// The bytes of the widest raw value that a chunk has.
    widest: u32,
    are_longs: bool,
}

impl Packet {
    /// Describes the packet of a column whose chunks have values of these widths. A packet is a power
    /// of two of bytes, no more than one vector of them but where a single value is a vector.
    pub(super) fn of(index: usize, widths: &[u32], rows: u32) -> Self {
        Self {
            index,
            rows,
            widest: widths.iter().copied().max().unwrap_or(8),
            are_longs: widths == [8],
        }
    }

    /// Returns the variables' type and how many there are of it.
    fn registers(&self) -> (&'static str, u32) {
        let bytes = self.widest * self.rows;
        let vectors = bytes.div_ceil(VECTOR_BYTES);
        match (self.are_longs, bytes) {
            (true, 8) => ("u64", 1),
            (true, _) => ("ulonglong2", vectors),
            (false, 0..=4) => ("u32", vectors),
            (false, 8) => ("uint2", 1),
            (false, _) => ("uint4", vectors),
        }
    }

    fn name(&self, vector: u32) -> String {
        match vector {
            0 => format!("f{}", self.index),
            _ => format!("f{}_{vector}", self.index),
        }
    }

    /// Declares the packets of `TG_UNROLL` runs of rows.
    pub(super) fn write_declaration(&self, text: &mut String) {
        let (data_type, count) = self.registers();
        for vector in 0..count {
            let name = self.name(vector);
            let _ = writeln!(text, "            {data_type} {name}[TG_UNROLL];");
        }
    }

    /// Returns the statements that fetch the values, each of `width` bytes, of run `u` of rows, which
    /// begins at row `at`.
    pub(super) fn fetch(&self, width: u32) -> String {
        let bytes = width * self.rows;
        let data = format!("k{}.data + (u64)at * {width}", self.index);
        let (data_type, _) = self.registers();
        let first = self.name(0);
        match (bytes, data_type) {
            (0, _) => String::new(),
            (1..=4, _) => {
                let loaded = ["u8", "u16", "u32"][bytes.ilog2() as usize];
                format!("{} = __ldcs((const {loaded}*)({data}));", self.word(0))
            }
            (8, "u64" | "uint2") => format!("{first}[u] = __ldcs((const {data_type}*)({data}));"),
            (8, _) => format!(
                "{{ const uint2 part = __ldcs((const uint2*)({data})); {first}[u].x = part.x; {first}[u].y = part.y; }}"
            ),
            _ => {
                let load = |vector| {
                    let name = self.name(vector);
                    format!("{name}[u] = __ldcs((const {data_type}*)({data}) + {vector});")
                };
                let vectors = bytes.div_ceil(VECTOR_BYTES);
                (0..vectors).map(load).collect::<Vec<_>>().join(" ")
            }
        }
    }

    /// Returns the 32 bits from this byte on, a multiple of four.
    fn word(&self, byte: u32) -> String {
        let name = self.name(byte / VECTOR_BYTES);
        match self.registers().0 {
            "u32" => format!("{name}[u]"),
            _ => {
                let lane = ["x", "y", "z", "w"][(byte % VECTOR_BYTES / 4) as usize];
                format!("{name}[u].{lane}")
            }
        }
    }

    /// Returns the raw value of a row where each has `width` bytes: of 32 bits, or from 8 bytes on of
    /// 64 or 128.
    pub(super) fn raw(&self, width: u32, row: u32) -> String {
        let byte = row * width;
        let word = self.word(byte / 4 * 4);
        match width {
            1 => format!("({word} >> {} & 0xff)", byte % 4 * 8),
            2 => format!("({word} >> {} & 0xffff)", byte % 4 * 8),
            4 => word,
            8 if self.are_longs => self.long(byte),
            8 => format!("joined({word}, {})", self.word(byte + 4)),
            _ => format!("wide_value({}[u])", self.name(byte / VECTOR_BYTES)),
        }
    }

    /// Returns the 64 bits from this byte on, a multiple of eight.
    fn long(&self, byte: u32) -> String {
        let name = self.name(byte / VECTOR_BYTES);
        match self.registers().0 {
            "u64" => format!("{name}[u]"),
            _ => {
                let lane = ["x", "y"][(byte % VECTOR_BYTES / 8) as usize];
                format!("{name}[u].{lane}")
            }
        }
    }

    /// Returns the statements after which each row's value, of `width` bytes, is where that of the row
    /// before it was.
    pub(super) fn advance(&self, width: u32) -> String {
        let bytes = width * self.rows;
        let pieces: Vec<String> = match width {
            0 => return String::new(),
            16 => (0..self.rows)
                .map(|vector| format!("{}[u]", self.name(vector)))
                .collect(),
            8 if self.are_longs => (0..bytes).step_by(8).map(|byte| self.long(byte)).collect(),
            _ => (0..bytes).step_by(4).map(|byte| self.word(byte)).collect(),
        };
        let is_half = width < 4;
        // Pieces of one value.
        let step = if width == 8 && !self.are_longs { 2 } else { 1 };
        let moved = pieces.iter().enumerate().filter_map(|(index, piece)| {
            let next = pieces.get(index + step);
            match (next, is_half) {
                (Some(next), true) => {
                    let bits = 8 * width;
                    let rest = 32 - bits;
                    Some(format!("{piece} = {piece} >> {bits} | {next} << {rest};"))
                }
                (None, true) => Some(format!("{piece} >>= {};", 8 * width)),
                (Some(next), false) => Some(format!("{piece} = {next};")),
                (None, false) => None,
            }
        });
        moved.collect::<Vec<_>>().join(" ")
    }
}

#[cfg(test)]
mod tests;
