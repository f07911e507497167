//! Each byte is in one range.

use datafusion_datasource::PartitionedFile;

use super::{cut_bytes, group_by_group, together};

fn file(name: &str, size: u64) -> PartitionedFile {
    PartitionedFile::new(name, size)
}

/// Writes files as name, start and end.
fn written(files: &[PartitionedFile]) -> Vec<(String, u64, u64)> {
    let file = |file: &PartitionedFile| (file.path().to_string(), file.range());
    let files = files.iter().map(file);
    files
        .map(|(name, (start, end))| (name, start, end))
        .collect()
}

#[test]
fn each_byte_is_in_one_range() {
    let files = [
        file("a", 100),
        file("b", 1),
        file("c", 50).with_range(10, 40),
    ];
    for weights in [vec![1], vec![1, 1], vec![3, 1, 2], vec![1; 200]] {
        let parts = cut_bytes(&files, &weights);
        assert_eq!(parts.len(), weights.len());
        let mut bytes = 0;
        let mut at = ("a".to_string(), 0);
        for piece in parts.iter().flatten() {
            let (start, end) = piece.range();
            let name = piece.path().to_string();
            if name != at.0 {
                at = (name.clone(), if name == "c" { 10 } else { 0 });
            }
            assert_eq!((name, start), at, "{weights:?}");
            assert!(start < end);
            assert_eq!(piece.range.is_none(), end - start == piece.object_meta.size);
            at.1 = end;
            bytes += end - start;
        }
        assert_eq!(bytes, 131, "{weights:?}");
    }
}

#[test]
fn shares_are_neighbours_unless_rows_are_in_order() {
    let groups = || {
        vec![
            vec![file("a", 100).with_range(0, 50)],
            vec![file("a", 100).with_range(50, 100)],
        ]
    };
    let piece = |start, end| vec![("a".to_string(), start, end)];
    let shares = together(groups(), &[1, 1]);
    let shares: Vec<Vec<_>> = shares
        .iter()
        .map(|share| share.iter().map(|files| written(files)).collect())
        .collect();
    assert_eq!(
        shares,
        [
            [piece(0, 25), piece(25, 50)],
            [piece(50, 75), piece(75, 100)]
        ]
    );
    let shares = group_by_group(&groups(), &[1, 1]);
    let shares: Vec<Vec<_>> = shares
        .iter()
        .map(|share| share.iter().map(|files| written(files)).collect())
        .collect();
    assert_eq!(
        shares,
        [
            [piece(0, 25), piece(50, 75)],
            [piece(25, 50), piece(75, 100)]
        ]
    );
}
