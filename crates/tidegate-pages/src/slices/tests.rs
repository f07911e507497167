use bytes::Bytes;

use super::Slices;
use crate::error::PageError;
use crate::header::PageEncoding;

fn read(encoding: PageEncoding, bytes: &[u8], len: usize) -> Result<Vec<Vec<u8>>, PageError> {
    let mut slices = Slices::default();
    slices.read(encoding, Bytes::copy_from_slice(bytes), len, 100)?;
    let places = slices.places.iter();
    Ok(places.map(|place| slices.get(*place).to_vec()).collect())
}

#[test]
fn plain_lengths_are_compared_with_the_page() {
    let bytes = [1, 0, 0, 0, b'a', 0, 0, 0, 0, 2, 0, 0, 0, b'b', b'c'];
    let expect = [b"a".to_vec(), vec![], b"bc".to_vec()];
    assert_eq!(read(PageEncoding::Plain, &bytes, 3).unwrap(), expect);
    assert!(read(PageEncoding::Plain, &bytes, 4).is_err());
    assert!(read(PageEncoding::Plain, &bytes[..14], 3).is_err());
    assert!(read(PageEncoding::Plain, &[0xff; 8], 1).is_err());
    assert!(read(PageEncoding::Plain, &[], usize::MAX).is_err());
}

/// Lengths, each `least` more than the one before.
fn lengths(count: u8, first: u8, least: u8) -> Vec<u8> {
    vec![32, 1, count, first << 1, least << 1, 0]
}

#[test]
fn delta_lengths_are_compared_with_the_page() {
    let mut bytes = lengths(3, 1, 1);
    bytes.extend(b"abbccc");
    let encoding = PageEncoding::DeltaLengthByteArray;
    let expect = [b"a".to_vec(), b"bb".to_vec(), b"ccc".to_vec()];
    assert_eq!(read(encoding, &bytes, 3).unwrap(), expect);
    assert!(read(encoding, &bytes, 2).is_err());
    assert!(read(encoding, &bytes[..bytes.len() - 1], 3).is_err());
    // Of -1.
    assert!(read(encoding, &[32, 1, 1, 1], 1).is_err());
}

#[test]
fn shared_beginnings_do_not_grow_beyond_the_limit() {
    // Prefixes of 0, 1, 2 and 3 bytes, suffixes of one.
    let mut bytes = lengths(4, 0, 1);
    bytes.extend(lengths(4, 1, 0));
    bytes.extend(b"abcd");
    let encoding = PageEncoding::DeltaByteArray;
    let expect = [
        b"a".to_vec(),
        b"ab".to_vec(),
        b"abc".to_vec(),
        b"abcd".to_vec(),
    ];
    assert_eq!(read(encoding, &bytes, 4).unwrap(), expect);
    // 16 strings would take 136 bytes, and 100 are allowed.
    let mut bytes = lengths(16, 0, 1);
    bytes.extend(lengths(16, 1, 0));
    bytes.extend([b'x'; 16]);
    let refused = read(encoding, &bytes, 16).unwrap_err();
    assert!(
        matches!(refused, PageError::TooLarge { limit: 100, .. }),
        "{refused}"
    );
    // More is shared than there is.
    let mut bytes = lengths(2, 0, 2);
    bytes.extend(lengths(2, 1, 0));
    bytes.extend(b"ab");
    assert!(read(encoding, &bytes, 2).is_err());
}
