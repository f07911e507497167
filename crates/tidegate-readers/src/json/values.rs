//! Arrays whose elements are no objects: each becomes an object with one field.

/// The field, and the column, of such values.
pub(super) const COLUMN: &str = "json";

/// Makes objects of the elements of an array, one after the other, in buffers of any size.
#[derive(Debug, Default)]
pub struct Wrapper {
    depth: usize,
    is_text: bool,
    is_escaped: bool,
    /// Whether an element has begun.
    is_open: bool,
}

impl Wrapper {
    /// Appends what a buffer becomes. Where it is no JSON it stays as it is, and the reader says so.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        out.reserve(bytes.len());
        for byte in bytes {
            self.push_byte(*byte, out);
        }
    }

    fn push_byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        if self.is_text {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = true,
                b'"' => self.is_text = false,
                _ => {}
            }
            out.push(byte);
            return;
        }
        match byte {
            b'[' if self.depth == 0 => {
                self.depth = 1;
                return;
            }
            b',' | b']' if self.depth == 1 => {
                self.depth -= usize::from(byte == b']');
                if std::mem::take(&mut self.is_open) {
                    out.extend_from_slice(b"}\n");
                }
                return;
            }
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ if self.depth == 1 && !self.is_open => {
                out.extend_from_slice(format!("{{\"{COLUMN}\":").as_bytes());
                self.is_open = true;
            }
            _ => {}
        }
        match byte {
            b'"' => self.is_text = true,
            b'[' | b'{' => self.depth += 1,
            b']' | b'}' => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        out.push(byte);
    }
}
