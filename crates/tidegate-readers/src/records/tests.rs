//! Rows are the same however the text comes.

use super::{ROW_BYTES_MAX, RowMeasure, Rows, Step, Syntax, Tokenizer};
use crate::error::ReadError;

fn rows(text: &str, buffer: usize) -> Rows {
    let mut rows = Rows::default();
    let mut tokenizer = Tokenizer::new(Syntax {
        delimiter: b',',
        quote: Some(b'"'),
        escape: None,
        comment: Some(b'#'),
    });
    for chunk in text.as_bytes().chunks(buffer).chain([&[][..]]) {
        let mut rest = chunk;
        loop {
            let (step, consumed) = tokenizer.read(rest, &mut rows).unwrap();
            rest = &rest[consumed..];
            if step == Step::More || rest.is_empty() {
                break;
            }
        }
    }
    rows
}

#[test]
fn rows_are_the_same_however_the_text_comes() {
    let text = "a,b\r\n#c\n\n\"x\n\"\"y\"\"\",2\n,\n3";
    for buffer in [1, 2, 3, 7, 100] {
        let rows = rows(text, buffer);
        let all: Vec<Vec<&[u8]>> = (0..rows.len()).map(|r| rows.values(r).collect()).collect();
        let expect: [&[&[u8]]; 4] = [&[b"a", b"b"], &[b"x\n\"y\"", b"2"], &[b"", b""], &[b"3"]];
        assert_eq!(all, expect, "{buffer}");
        let lines: Vec<u64> = (1..4).map(|row| rows.line(row)).collect();
        assert_eq!(lines, [4, 6, 7], "{buffer}");
        assert!(rows.has_newline(1) && !rows.has_newline(2));
    }
}

#[test]
fn rows_are_fitted() {
    let mut fitted = rows("1,2,,\n", 9);
    assert!(fitted.fit(2, false));
    assert_eq!(fitted.width(0), 2);
    let mut fitted = rows("1,2,3\n", 9);
    assert!(!fitted.fit(2, true));
    assert!(!fitted.fit(4, false) && fitted.fit(4, true));
    assert_eq!(fitted.value(0, 3), b"");
    fitted.pop();
    assert_eq!(
        (fitted.len(), fitted.text().len(), fitted.ends().len()),
        (0, 0, 0)
    );
}

#[test]
fn a_row_that_is_too_long_is_found_by_its_line() {
    let mut measure = RowMeasure::new(b',', b'"', None, None);
    measure.push(b"a,b\n\"x\ny\",2\n3,\"").unwrap();
    let lines = "text\n".repeat(1 << 20);
    let pieces = ROW_BYTES_MAX / lines.len() + 1;
    let mut measured = (0..pieces).map(|_| measure.push(lines.as_bytes()));
    match measured.find_map(Result::err) {
        Some(ReadError::Row { line, limit }) => assert_eq!((line, limit), (4, ROW_BYTES_MAX)),
        other => panic!("{other:?}"),
    }
    let mut measure = RowMeasure::new(b',', b'"', None, None);
    for _ in 0..pieces {
        measure.push(lines.as_bytes()).unwrap();
    }
}
