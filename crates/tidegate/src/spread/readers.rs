//! Which executor reads which unit of a leaf: weighted rendezvous hashing, with room for each by its weight.
//!
//! A unit is a row group, a file or a run of morsels. Each executor has a score for each unit, of their
//! names and its weight alone (Schindelhauer and Schomaker 2005: `weight / -ln(hash)`). Pairs are taken from
//! the highest score down, and an executor takes a unit as long as it has room for half of it, its room
//! being its weight's part of the whole. So the same executor reads the same unit again in the next
//! statement and finds its columns cached; of an executor that comes or goes only its own part moves,
//! beside little that evens out the rest.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Units of a leaf at the most, where they can be joined.
pub(super) const UNITS_MAX: usize = 512;

/// An executor that reads a share of a leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reader {
    /// Its name, which decides what it reads.
    pub name: String,
    /// How much it reads, next to others.
    pub weight: u64,
}

/// What one executor reads whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unit {
    /// A hash of what it is.
    pub(super) key: u64,
    /// How much work it is, next to others.
    pub(super) size: u64,
}

/// Returns which of the readers reads each unit.
pub(super) fn assigned(units: &[Unit], readers: &[Reader]) -> Vec<usize> {
    let whole: u64 = units.iter().map(|unit| unit.size).sum();
    let weights: u64 = readers.iter().map(|reader| reader.weight).sum();
    let part = |reader: &Reader| whole as f64 * reader.weight as f64 / weights.max(1) as f64;
    let mut room: Vec<f64> = readers.iter().map(part).collect();
    let mut pairs = Vec::with_capacity(units.len() * readers.len());
    for (unit, key) in units.iter().map(|unit| unit.key).enumerate() {
        for (reader, of) in readers.iter().enumerate() {
            pairs.push((score(key, of), unit, reader));
        }
    }
    pairs.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let mut taken = vec![None; units.len()];
    for (_, unit, reader) in pairs {
        let size = units[unit].size as f64;
        if taken[unit].is_none() && room[reader] >= size / 2.0 {
            taken[unit] = Some(reader);
            room[reader] -= size;
        }
    }
    // For a few nobody has room: they go where most of it is left.
    let last = |(taken, unit): (Option<usize>, &Unit)| {
        taken.unwrap_or_else(|| {
            let most = (0..room.len()).max_by(|&a, &b| room[a].total_cmp(&room[b]));
            let reader = most.unwrap_or_default();
            if let Some(room) = room.get_mut(reader) {
                *room -= unit.size as f64;
            }
            reader
        })
    };
    taken.into_iter().zip(units).map(last).collect()
}

fn score(key: u64, reader: &Reader) -> f64 {
    let mut hasher = DefaultHasher::new();
    (key, &reader.name).hash(&mut hasher);
    // Above 0 and below 1, whatever the hash is.
    let fraction = ((hasher.finish() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    reader.weight as f64 / -fraction.ln()
}

/// Joins neighbours that one reader reads.
pub(super) fn runs_of(taken: &[usize], reader: usize) -> Vec<std::ops::Range<usize>> {
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    for (unit, _) in taken.iter().enumerate().filter(|(_, by)| **by == reader) {
        match runs.last_mut() {
            Some(run) if run.end == unit => run.end = unit + 1,
            _ => runs.push(unit..unit + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests;
