//! A walk through a structure in Thrift's compact protocol that allocates nothing.
//!
//! Parquet's footers and page headers are such structures. arrow-rs allocates some lists and strings by
//! their claimed length; here every length is compared with the bytes that are left before anything
//! else reads them.

/// Structures inside structures; Parquet's own nest less than ten deep.
const DEPTH_MAX: usize = 24;

/// Walks one structure at the beginning of some bytes and calls `visit` with each number in it, below
/// the numbers of the fields that lead to it. Returns the length of the structure.
///
/// # Errors
/// What does not fit in the bytes, or what nests too deep.
pub fn walk(bytes: &[u8], visit: impl FnMut(&[i16], i64)) -> Result<usize, String> {
    let mut walker = Walker {
        bytes,
        at: 0,
        path: [0; DEPTH_MAX],
        visit,
    };
    walker.structure(0)?;
    Ok(walker.at)
}

struct Walker<'a, V> {
    bytes: &'a [u8],
    at: usize,
    path: [i16; DEPTH_MAX],
    visit: V,
}

impl<V: FnMut(&[i16], i64)> Walker<'_, V> {
    fn structure(&mut self, depth: usize) -> Result<(), String> {
        if depth == DEPTH_MAX {
            return Err(format!("structures nest more than {DEPTH_MAX} deep"));
        }
        let mut field: i16 = 0;
        loop {
            let header = self.byte()?;
            let kind = header & 0x0f;
            if kind == 0 {
                return Ok(());
            }
            field = match header >> 4 {
                0 => i16::try_from(self.zigzag()?).map_err(|_| self.wrong("a field's number"))?,
                delta => field
                    .checked_add(i16::from(delta))
                    .ok_or_else(|| self.wrong("a field's number"))?,
            };
            self.path[depth] = field;
            match kind {
                // A field's boolean is its kind.
                1 | 2 => (self.visit)(&self.path[..=depth], i64::from(kind == 1)),
                _ => self.value(kind, depth)?,
            }
        }
    }

    /// Walks a value of the field at `depth`.
    fn value(&mut self, kind: u8, depth: usize) -> Result<(), String> {
        match kind {
            1 | 2 => {
                self.byte()?;
            }
            3 => {
                let value = self.byte()?;
                (self.visit)(&self.path[..=depth], i64::from(value as i8));
            }
            4..=6 => {
                let value = self.zigzag()?;
                (self.visit)(&self.path[..=depth], value);
            }
            7 => self.skip(8)?,
            8 => {
                let length = self.length()?;
                self.skip(length)?;
            }
            9 | 10 => self.list(depth)?,
            11 => self.map(depth)?,
            12 => self.structure(depth + 1)?,
            13 => self.skip(16)?,
            _ => return Err(self.wrong("a value's type")),
        }
        Ok(())
    }

    fn list(&mut self, depth: usize) -> Result<(), String> {
        let header = self.byte()?;
        let count = match header >> 4 {
            15 => self.length()?,
            count => usize::from(count),
        };
        let kind = header & 0x0f;
        // Each element takes a byte or more.
        if count > self.bytes.len() - self.at {
            return Err(self.wrong("a list's length"));
        }
        (0..count).try_for_each(|_| self.element(kind, depth))
    }

    fn map(&mut self, depth: usize) -> Result<(), String> {
        let count = self.length()?;
        if count == 0 {
            return Ok(());
        }
        let kinds = self.byte()?;
        if count > self.bytes.len() - self.at {
            return Err(self.wrong("a map's length"));
        }
        (0..count).try_for_each(|_| {
            self.element(kinds >> 4, depth)?;
            self.element(kinds & 0x0f, depth)
        })
    }

    fn element(&mut self, kind: u8, depth: usize) -> Result<(), String> {
        match kind {
            // Lists of lists nest as structures do.
            9..=11 if depth + 1 >= DEPTH_MAX => Err(self.wrong("a list's nesting")),
            9..=11 => {
                self.path[depth + 1] = 0;
                self.value(kind, depth + 1)
            }
            kind => self.value(kind, depth),
        }
    }

    fn byte(&mut self) -> Result<u8, String> {
        let byte = self.bytes.get(self.at).copied();
        let byte = byte.ok_or_else(|| self.wrong("the end"))?;
        self.at += 1;
        Ok(byte)
    }

    fn skip(&mut self, length: usize) -> Result<(), String> {
        if length > self.bytes.len() - self.at {
            return Err(self.wrong("a value's length"));
        }
        self.at += length;
        Ok(())
    }

    fn length(&mut self) -> Result<usize, String> {
        usize::try_from(self.varint()?).map_err(|_| self.wrong("a length"))
    }

    fn zigzag(&mut self) -> Result<i64, String> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn varint(&mut self) -> Result<u64, String> {
        let mut value = 0_u64;
        for shift in (0..70).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.wrong("a number"))
    }

    fn wrong(&self, what: &str) -> String {
        format!(
            "{what} does not fit in the {} bytes that hold it",
            self.bytes.len()
        )
    }
}

#[cfg(test)]
mod tests;
