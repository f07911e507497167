//! Which scans read all of their files.

use datafusion_datasource::PartitionedFile;
use tidegate_scheduler::{ScanKey, ScanRows};

use super::{are_of, are_whole, text_of};

fn piece(name: &str, size: u64, range: Option<(i64, i64)>) -> PartitionedFile {
    let file = PartitionedFile::new(name, size);
    match range {
        Some((start, end)) => file.with_range(start, end),
        None => file,
    }
}

#[test]
fn pieces_of_files_make_up_the_whole_or_not() {
    let check = |pieces: &[(&str, Option<(i64, i64)>)], expected: bool| {
        let files: Vec<_> = pieces
            .iter()
            .map(|(name, range)| piece(name, 100, *range))
            .collect();
        assert_eq!(are_whole(&files), expected, "{pieces:?}");
    };
    check(&[("a", None), ("b", None)], true);
    check(
        &[("a", Some((50, 100))), ("b", None), ("a", Some((0, 50)))],
        true,
    );
    check(&[("a", Some((0, 50))), ("a", Some((50, 120)))], true);
    check(&[("a", Some((0, 50)))], false);
    check(&[("a", Some((50, 100)))], false);
    check(&[("a", Some((0, 50))), ("a", Some((51, 100)))], false);
    check(&[("a", None), ("a", None)], false);
    check(&[("a", None), ("a", Some((100, 100)))], true);
}

#[test]
fn a_name_tells_files_and_their_state() {
    let files = [piece("b/x", 7, None), piece("a", 5, None)];
    let metas = || files.iter().map(|file| &file.object_meta);
    let name = format!("file:/// 1 of [\"k\"]{}", text_of(metas()));
    let scan = ScanKey::new(ScanRows::Named(name.into()), vec![0]);
    assert!(are_of(&scan, metas()));
    assert!(are_of(&scan, metas().rev()));
    assert!(!are_of(&scan, metas().take(1)));
    let larger = [piece("b/x", 8, None), piece("a", 5, None)];
    assert!(!are_of(&scan, larger.iter().map(|file| &file.object_meta)));
}
