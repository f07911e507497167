//! Encodings are found from the bytes.

use super::{Encoding, Transcoder};
use crate::sample::Sample;

fn of(bytes: &[u8]) -> &'static str {
    Encoding::of(&Sample::whole(bytes.to_vec())).unwrap().name()
}

#[test]
fn encodings_are_found_from_the_bytes() {
    assert_eq!(of(b"a,b\n"), "UTF-8");
    assert_eq!(of("ä,b\n".as_bytes()), "UTF-8");
    assert_eq!(of(b"\xef\xbb\xbfa"), "UTF-8");
    assert_eq!(of(b"\xff\xfea\0"), "UTF-16LE");
    assert_eq!(of(b"a\0,\0b\0\n\0"), "UTF-16LE");
    assert_eq!(of(b"\0a\0,\0b\0\n"), "UTF-16BE");
    assert_eq!(of(b"caf\xe9,1\n"), "windows-1252");
    assert!(Encoding::of(&Sample::whole(b"abc\0def".to_vec())).is_err());
}

#[test]
fn characters_may_be_cut_between_buffers() {
    let bytes = "\u{feff}aäb\n".encode_utf16().flat_map(u16::to_le_bytes);
    let mut transcoder = Transcoder::new(Encoding::Other(encoding_rs::UTF_16LE), true);
    let mut text = Vec::new();
    for byte in bytes {
        transcoder.push(&[byte], false, &mut text);
    }
    transcoder.push(&[], true, &mut text);
    assert_eq!(text, "aäb\n".as_bytes());
}
