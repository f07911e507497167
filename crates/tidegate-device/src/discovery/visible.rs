//! The rules of `CUDA_VISIBLE_DEVICES`: which devices count, and in which order.
//!
//! Entries are separated by commas and are an index or the unique beginning of a UUID. The first
//! entry that names no device, or one already named, ends the list; what stands before it counts.

/// What a list of visible devices selects.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Selection {
    /// The devices' own numbers, in the order of the list.
    pub(super) ordinals: Vec<u32>,
    /// Why the list was not read to its end.
    pub(super) ended_by: Option<String>,
}

/// Selects among the devices with these UUIDs (`None` where the driver tells none).
pub(super) fn select(list: &str, uuids: &[Option<String>]) -> Selection {
    let mut selection = Selection {
        ordinals: Vec::new(),
        ended_by: None,
    };
    if list.trim().is_empty() {
        return selection;
    }
    for entry in list.split(',').map(str::trim) {
        match find(entry, uuids) {
            Some(ordinal) if !selection.ordinals.contains(&ordinal) => {
                selection.ordinals.push(ordinal);
            }
            found => {
                let why = if found.is_some() {
                    "repeats a device"
                } else {
                    "names no device"
                };
                selection.ended_by = Some(format!("'{entry}' {why}, which ends the list"));
                return selection;
            }
        }
    }
    selection
}

fn find(entry: &str, uuids: &[Option<String>]) -> Option<u32> {
    let all = (0u32..).zip(uuids);
    if let Ok(index) = entry.parse::<u32>() {
        return all
            .map(|(ordinal, _)| ordinal)
            .find(|ordinal| *ordinal == index);
    }
    if !entry.starts_with("GPU-") {
        return None;
    }
    let begins = |uuid: &Option<String>| uuid.as_ref().is_some_and(|uuid| uuid.starts_with(entry));
    let mut matching = all
        .filter(|(_, uuid)| begins(uuid))
        .map(|(ordinal, _)| ordinal);
    let first = matching.next()?;
    matching.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests;
