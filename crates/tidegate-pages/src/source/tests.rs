use std::io::Write;

use bytes::Bytes;

use super::{Buffers, ChunkBytes, FileParts, LocalFile};

#[test]
fn parts_are_found_by_their_place() {
    let part = |bytes: &'static [u8]| Bytes::from_static(bytes);
    let parts = FileParts::new(vec![(100, part(b"hundred")), (4, part(b"four"))]);
    assert_eq!(parts.read(4..8).unwrap(), part(b"four"));
    assert_eq!(parts.read(101..107).unwrap(), part(b"undred"));
    assert_eq!(parts.read(5..5).unwrap(), part(b""));
    for range in [0..2, 3..5, 4..9, 8..9, 99..101, 100..108, 200..201] {
        assert!(parts.read(range.clone()).is_err(), "{range:?}");
    }
}

#[test]
fn files_are_read_into_buffers_that_come_back() {
    let path = std::env::temp_dir().join(format!("tidegate-pages-{}", std::process::id()));
    let mut file = std::fs::File::create(&path).unwrap();
    file.write_all(&[7; 10_000]).unwrap();
    let buffers = Buffers::default();
    let file = LocalFile::new(std::fs::File::open(&path).unwrap(), &buffers).unwrap();
    std::fs::remove_file(&path).unwrap();
    let first = file.read(10..5_010).unwrap();
    assert_eq!(first, vec![7; 5_000]);
    let place = first.as_ptr();
    let half = first.slice(..2_500);
    drop(first);
    let second = file.read(0..100).unwrap();
    assert_ne!(second.as_ptr(), place, "a part of it is still in use");
    drop(half);
    let third = file.read(0..4_000).unwrap();
    assert_eq!(third.as_ptr(), place);
    // Nothing is allocated for what is not there.
    assert!(file.read(0..u64::MAX).is_err());
    assert!(file.read(9_999..10_001).is_err());
    let backwards = std::ops::Range { start: 9, end: 8 };
    assert!(file.read(backwards).is_err());
}
