//! Groups of tables whose calls share accumulators in different ways.

use super::Groups;
use super::accumulated::{Accumulated, SumColumn};

fn counts(counts: &[u64]) -> Accumulated {
    Accumulated {
        counts: counts.to_vec(),
        sums: SumColumn::None,
    }
}

fn groups(keys: &[i128], accumulated: Vec<Accumulated>, calls: &[&[usize]]) -> Groups {
    Groups {
        num_groups: keys.len(),
        keys: vec![keys.iter().map(|key| Some(*key)).collect()],
        accumulated,
        calls: calls.iter().map(|of| of.to_vec()).collect(),
    }
}

#[test]
fn tables_that_share_accumulators_otherwise_are_merged_by_call() {
    // Without NULLs one count is both count(*) and count(v).
    let without = groups(&[1, 2], vec![counts(&[10, 20])], &[&[0], &[0]]);
    let with = groups(
        &[2, 3],
        vec![counts(&[5, 7]), counts(&[4, 0])],
        &[&[0], &[1]],
    );
    let none = groups(&[], vec![counts(&[])], &[&[0], &[0]]);
    for parts in [
        vec![without.clone(), with.clone(), none.clone()],
        vec![none, with, without],
    ] {
        let all = Groups::merged(parts);
        let count = |call: usize, key: i128| {
            let group = (0..all.len()).find(|group| all.key_of(0, *group) == Some(key));
            all.count_of(call, group.unwrap())
        };
        assert_eq!((count(0, 1), count(1, 1)), (10, 10));
        assert_eq!((count(0, 2), count(1, 2)), (25, 24));
        assert_eq!((count(0, 3), count(1, 3)), (7, 0));
    }
}
