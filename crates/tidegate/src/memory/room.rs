//! How much room folders have.

use std::io;
use std::path::Path;

/// Returns the bytes that this process may still write to a folder's file system, if that can be found
/// out.
#[cfg(unix)]
pub(crate) fn free_bytes(folder: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(folder).ok()?;
    found.f_bavail.checked_mul(found.f_frsize)
}

/// Returns the bytes that this process may still write to a folder's file system, if that can be found
/// out.
#[cfg(not(unix))]
pub(crate) fn free_bytes(_: &Path) -> Option<u64> {
    None
}

/// Says where statements spill, and why they cannot or how much room there is.
pub(crate) fn describe_folder(folder: &Path) -> String {
    let name = folder.display();
    match std::fs::metadata(folder) {
        Ok(found) if !found.is_dir() => format!("{name} (not a folder)"),
        Ok(_) => match free_bytes(folder) {
            Some(free) => format!("{name} ({} MB free)", free >> 20),
            None => name.to_string(),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            format!("{name} (made by the first statement that spills)")
        }
        Err(error) => format!("{name} ({error})"),
    }
}
