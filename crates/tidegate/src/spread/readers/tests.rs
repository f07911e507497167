//! No reader has a unit too many.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Reader, Unit, assigned, runs_of};

fn readers(weights: &[u64]) -> Vec<Reader> {
    let weights = weights.iter().enumerate();
    let reader = |(number, weight): (usize, &u64)| Reader {
        name: format!("e{number}"),
        weight: *weight,
    };
    weights.map(reader).collect()
}

fn units(table: &str, count: usize) -> Vec<Unit> {
    let unit = |number: usize| {
        let mut hasher = DefaultHasher::new();
        (table, number).hash(&mut hasher);
        let key = hasher.finish();
        let size = 80 + key % 40;
        Unit { key, size }
    };
    (0..count).map(unit).collect()
}

fn loads(units: &[Unit], taken: &[usize], readers: usize) -> Vec<u64> {
    let mut loads = vec![0; readers];
    for (unit, reader) in units.iter().zip(taken) {
        loads[*reader] += unit.size;
    }
    loads
}

#[test]
fn no_reader_has_a_unit_too_many() {
    for weights in [vec![1, 1], vec![1, 3], vec![5, 1, 2, 2], vec![1; 7]] {
        let readers = readers(&weights);
        for count in [1, 2, 7, 64, 300] {
            let units = units("t", count);
            let taken = assigned(&units, &readers);
            let whole: u64 = units.iter().map(|unit| unit.size).sum();
            let all: u64 = weights.iter().sum();
            let loads = loads(&units, &taken, weights.len());
            for (load, weight) in loads.iter().zip(&weights) {
                let part = whole * weight / all;
                assert!(*load <= part + 120, "{weights:?} {count}: {loads:?}");
            }
        }
    }
    assert!(assigned(&[], &readers(&[1, 1])).is_empty());
}

#[test]
fn units_stay_where_they_are() {
    let (mut kept, mut of) = (0, 0);
    for table in ["a", "b", "c", "d", "e", "f"] {
        let units = units(table, 64);
        let four = assigned(&units, &readers(&[1; 4]));
        assert_eq!(four, assigned(&units, &readers(&[1; 4])));
        let three = assigned(&units, &readers(&[1; 3]));
        let survivors = four.iter().zip(&three).filter(|(before, _)| **before < 3);
        for (before, after) in survivors {
            kept += u32::from(before == after);
            of += 1;
        }
        // A weight that changes by a tenth moves little.
        let other = assigned(&units, &readers(&[11, 10, 10, 10]));
        let moved = four
            .iter()
            .zip(&other)
            .filter(|(before, after)| before != after);
        assert!(moved.count() <= 12, "{table}");
    }
    assert!(kept * 10 >= of * 9, "{kept} of {of}");
}

#[test]
fn neighbours_are_joined() {
    assert_eq!(runs_of(&[0, 0, 1, 0, 1, 1], 0), [0..2, 3..4]);
    assert_eq!(runs_of(&[0, 0, 1, 0, 1, 1], 1), [2..3, 4..6]);
    assert!(runs_of(&[0, 0], 1).is_empty());
}
