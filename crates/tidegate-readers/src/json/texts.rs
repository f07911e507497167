//! Objects and lists that are read as text.
//!
//! A field that is an object in some rows and something else in others is a column of text, and so is one whose type
//! was given as text. Arrow's reader takes no object for a text: [`Texts`] makes strings of them before it.

use std::collections::HashSet;

/// Where a text is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// Before the name of a field of an object of the file.
    #[default]
    BeforeName,
    /// In such a name.
    Name,
    /// Between the name and the value.
    BeforeValue,
    /// In or behind a value that is left as it is.
    Value,
    /// In an object or a list that becomes a string.
    Made,
}

/// Makes strings of the objects and lists of some fields, in buffers of any size.
#[derive(Debug)]
pub struct Texts {
    names: HashSet<Vec<u8>>,
    place: Place,
    depth: usize,
    is_string: bool,
    is_escaped: bool,
    name: Vec<u8>,
}

impl Texts {
    /// Makes texts of the fields of these names in each object of a file.
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        Self {
            names: names.into_iter().map(String::into_bytes).collect(),
            place: Place::default(),
            depth: 0,
            is_string: false,
            is_escaped: false,
            name: Vec::new(),
        }
    }

    /// Appends what a buffer becomes. Where it is no JSON it stays as it is, and the reader says so.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        out.reserve(bytes.len());
        for byte in bytes {
            self.push_byte(*byte, out);
        }
    }

    fn push_byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        let was_made = self.place == Place::Made;
        if self.is_string {
            self.in_string(byte);
        } else {
            self.between_strings(byte);
        }
        let is_made = self.place == Place::Made;
        if is_made && !was_made {
            out.push(b'"');
        }
        match byte {
            b'"' | b'\\' if was_made => out.extend([b'\\', byte]),
            // A string has no line breaks, and between values they mean nothing.
            0..b' ' if was_made => out.push(b' '),
            _ => out.push(byte),
        }
        if was_made && !is_made {
            out.push(b'"');
        }
    }

    fn in_string(&mut self, byte: u8) {
        let ends = byte == b'"' && !self.is_escaped;
        self.is_escaped = byte == b'\\' && !self.is_escaped;
        self.is_string = !ends;
        if self.place == Place::Name {
            match ends {
                true => self.place = Place::BeforeValue,
                false => self.name.push(byte),
            }
        }
    }

    fn between_strings(&mut self, byte: u8) {
        match byte {
            b'"' => {
                self.is_string = true;
                self.place = match self.place {
                    Place::BeforeName if self.depth == 1 => {
                        self.name.clear();
                        Place::Name
                    }
                    Place::BeforeValue => Place::Value,
                    place => place,
                };
            }
            b'{' | b'[' => {
                self.depth += 1;
                if self.place == Place::BeforeValue {
                    self.place = match self.names.contains(&self.name) {
                        true => Place::Made,
                        false => Place::Value,
                    };
                }
            }
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                self.place = match (self.depth, self.place) {
                    (0, _) => Place::BeforeName,
                    (1, Place::Made) => Place::Value,
                    (_, place) => place,
                };
            }
            b',' if self.depth == 1 => self.place = Place::BeforeName,
            b':' | b' ' | b'\t' | b'\r' | b'\n' => {}
            _ if self.place == Place::BeforeValue => self.place = Place::Value,
            _ => {}
        }
    }
}
