//! Compiled images in a folder, one file each.
//!
//! A file is a line that names the format, the lengths of its three parts, a hash of all three, and
//! the parts: the key's text, the log, the image. It is written under another name in the same
//! folder and renamed, so that readers find it whole or not at all. Whatever cannot be read, or
//! holds another key, is a miss; a folder that cannot be written is no failure but a reason kept.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::Compiled;
use super::key::{Key, fnv1a};

const FORMAT: &[u8] = b"tidegate image 1\n";
const LENGTHS: usize = 3;
const HEAD_BYTES: usize = FORMAT.len() + LENGTHS * size_of::<u64>() + size_of::<u128>();

/// A folder of images.
pub(super) struct Store {
    folder: PathBuf,
    writes: AtomicU64,
    trouble: Mutex<Option<String>>,
}

impl Store {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            writes: AtomicU64::new(0),
            trouble: Mutex::new(None),
        }
    }

    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }

    pub(super) fn read(&self, key: &Key) -> Option<Compiled> {
        decode(&fs::read(self.place(key)).ok()?, key)
    }

    /// Writes the image, or keeps the reason why it cannot.
    pub(super) fn write(&self, key: &Key, compiled: &Compiled) {
        let trouble = self.try_write(key, compiled).err().map(|error| {
            let folder = self.folder.display();
            format!("compiled kernels cannot be kept in {folder}: {error}")
        });
        *self.trouble.lock() = trouble;
    }

    fn try_write(&self, key: &Key, compiled: &Compiled) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let place = self.place(key);
        // No other writer of this folder has this process and this count.
        let count = self.writes.fetch_add(1, Ordering::Relaxed);
        let name = format!("{:032x}.{}.{count}.new", key.hash, std::process::id());
        let draft = self.folder.join(name);
        let outcome =
            write_whole(&draft, &encode(key, compiled)).and_then(|()| fs::rename(&draft, &place));
        if outcome.is_err() {
            // What is left of a draft is in nobody's way.
            let _ = fs::remove_file(&draft);
        }
        outcome
    }

    pub(super) fn place(&self, key: &Key) -> PathBuf {
        self.folder.join(format!("{:032x}.image", key.hash))
    }
}

fn write_whole(place: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(place)?;
    file.write_all(bytes)
}

fn encode(key: &Key, compiled: &Compiled) -> Vec<u8> {
    let parts = [
        key.text.as_bytes(),
        compiled.log.as_bytes(),
        &compiled.image,
    ];
    let body = parts.concat();
    let mut bytes = FORMAT.to_vec();
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
    }
    bytes.extend_from_slice(&fnv1a(&body).to_le_bytes());
    bytes.extend_from_slice(&body);
    bytes
}

fn decode(bytes: &[u8], key: &Key) -> Option<Compiled> {
    let (head, body) = bytes.split_at_checked(HEAD_BYTES)?;
    let head = head.strip_prefix(FORMAT)?;
    let (lengths, hash) = head.split_at_checked(LENGTHS * size_of::<u64>())?;
    if hash != fnv1a(body).to_le_bytes() {
        return None;
    }
    let mut lengths = lengths.chunks_exact(size_of::<u64>()).map(|length| {
        let length = length.try_into().ok().map(u64::from_le_bytes)?;
        usize::try_from(length).ok()
    });
    let (text, rest) = body.split_at_checked(lengths.next()??)?;
    let (log, image) = rest.split_at_checked(lengths.next()??)?;
    if text != key.text.as_bytes() || image.len() != lengths.next()?? {
        return None;
    }
    Some(Compiled {
        image: image.to_vec(),
        log: String::from_utf8(log.to_vec()).ok()?,
    })
}

#[cfg(test)]
mod tests;
