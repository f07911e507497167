//! Each row group is read once.

use datafusion_datasource::PartitionedFile;

use super::super::readers::Reader;
use super::by_cells;

fn readers(count: usize) -> Vec<Reader> {
    let reader = |number: usize| Reader {
        name: format!("e{number}"),
        weight: 1,
    };
    (0..count).map(reader).collect()
}

fn file(name: &str, size: u64) -> PartitionedFile {
    PartitionedFile::new(name, size)
}

/// Row groups of 100 bytes behind the four that a file begins with.
fn hundreds(file: &PartitionedFile) -> Option<Vec<i64>> {
    let size = file.object_meta.size as i64;
    Some((0..size / 100).map(|number| 4 + number * 100).collect())
}

/// Returns which row groups a file of a share has.
fn owned(file: &PartitionedFile) -> Vec<(String, i64)> {
    let starts = hundreds(file).unwrap().into_iter();
    let is_in = |start: &i64| {
        file.range
            .as_ref()
            .is_none_or(|range| range.contains(*start))
    };
    let name = file.path().to_string();
    starts
        .filter(is_in)
        .map(|start| (name.clone(), start))
        .collect()
}

#[test]
fn each_row_group_is_read_once() {
    let groups = vec![
        vec![file("a", 2_000).with_range(0, 1_033), file("b", 150)],
        vec![file("a", 2_000).with_range(1_033, 2_000), file("c", 900)],
    ];
    for partitions in [Some(1), Some(3), None] {
        for count in [1, 2, 3, 40] {
            let shares = by_cells(&groups, partitions, &readers(count), hundreds).unwrap();
            assert_eq!(shares.len(), count);
            let mut read = Vec::new();
            for (files, _) in &shares {
                assert_eq!(files.len(), partitions.unwrap_or(2).max(2));
                let files = files.iter().flatten();
                read.extend(files.flat_map(owned));
            }
            read.sort();
            let mut all: Vec<_> = [("a", 2_000), ("b", 150), ("c", 900)]
                .into_iter()
                .flat_map(|(name, size)| owned(&file(name, size)))
                .collect();
            all.sort();
            assert_eq!(read, all, "{partitions:?} {count}");
            let bytes: u64 = shares.iter().map(|(_, size)| size).sum();
            assert_eq!(bytes, 3_050);
            let most = shares.iter().map(|(_, size)| *size).max().unwrap();
            assert!(most <= 3_050 / count as u64 + 180, "{count}: {most}");
        }
    }
    assert!(by_cells(&groups, Some(1), &readers(2), |_| None).is_none());
}

#[test]
fn files_that_cannot_be_cut_stay_whole_and_where_they_are() {
    let files = |count: u64| -> Vec<PartitionedFile> {
        (0..count)
            .map(|number| file(&format!("f{number:03}"), 100))
            .collect()
    };
    let whole = |_: &PartitionedFile| Some(Vec::new());
    let shares = by_cells(&[files(64)], Some(1), &readers(4), whole).unwrap();
    let again = by_cells(&[files(64)], Some(1), &readers(3), whole).unwrap();
    let names = |shares: &[super::Read], reader: usize| -> Vec<String> {
        let files = shares[reader].0.iter().flatten();
        files
            .map(|file| {
                assert!(file.range.is_none());
                file.path().to_string()
            })
            .collect()
    };
    let mut kept = 0;
    for reader in 0..3 {
        let after = names(&again, reader);
        let before = names(&shares, reader);
        assert_eq!(before.len(), 16);
        kept += before.iter().filter(|name| after.contains(name)).count();
    }
    assert!(kept >= 38, "{kept} of 48");
}
