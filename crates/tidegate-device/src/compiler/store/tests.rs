//! What was written is read.

use super::{HEAD_BYTES, Store, encode};
use crate::compiler::Compiled;
use crate::compiler::key::Key;

fn key(source: &str) -> Key {
    Key::new((13, 0), &["--gpu-architecture=sm_90".to_owned()], source)
}

fn compiled() -> Compiled {
    Compiled {
        image: vec![0x7f, b'E', b'L', b'F', 0, 1, 2],
        log: "Used 16 registers".to_owned(),
    }
}

#[test]
fn what_was_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().join("deep/er"));
    assert_eq!(store.read(&key("a")), None);
    store.write(&key("a"), &compiled());
    assert_eq!(store.read(&key("a")), Some(compiled()));
    assert_eq!(store.read(&key("b")), None);
    assert_eq!(store.trouble(), None);
    let files = std::fs::read_dir(folder.path().join("deep/er")).unwrap();
    assert_eq!(files.count(), 1);
}

#[test]
fn no_cut_and_no_flipped_byte_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().to_path_buf());
    let whole = encode(&key("a"), &compiled());
    for length in 0..whole.len() {
        std::fs::write(store.place(&key("a")), &whole[..length]).unwrap();
        assert_eq!(store.read(&key("a")), None, "cut to {length}");
    }
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 0x10;
        std::fs::write(store.place(&key("a")), &flipped).unwrap();
        assert_eq!(store.read(&key("a")), None, "flipped at {at}");
    }
    assert!(whole.len() > HEAD_BYTES);
}

#[test]
fn another_key_under_the_same_name_is_a_miss() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::new(folder.path().to_path_buf());
    std::fs::write(store.place(&key("a")), encode(&key("b"), &compiled())).unwrap();
    assert_eq!(store.read(&key("a")), None);
}

#[test]
fn a_folder_that_cannot_be_written_is_a_reason() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let store = Store::new(file.path().join("below a file"));
    store.write(&key("a"), &compiled());
    let why = store.trouble().unwrap();
    assert!(
        why.starts_with("compiled kernels cannot be kept in "),
        "{why}"
    );
    assert_eq!(store.read(&key("a")), None);
}
