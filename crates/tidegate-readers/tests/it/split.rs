//! A file that is read in parts has the rows and the errors of a file that is read whole.

use std::sync::Arc;

use tidegate_readers::json::{GivenJson, sniff_json};
use tidegate_readers::{
    Encoding, Given, LeftOut, Part, Place, Sample, SearchFrom, Sniffed, Splitter, places, sniff,
    wrong_part,
};

use crate::read::{Rows, read_rows};

/// Searches one part, in buffers of this size.
fn search(bytes: &[u8], mut splitter: Splitter, from: SearchFrom, buffer: usize) -> Part {
    let behind = &bytes[(from.offset() as usize).min(bytes.len())..];
    if !splitter.push(&[]) {
        let _ = behind.chunks(buffer).any(|chunk| splitter.push(chunk));
    }
    splitter.part()
}

/// Cuts a file at offsets, the first of which is 0.
fn cut(
    bytes: &[u8],
    offsets: &[u64],
    buffer: usize,
    splitter: impl Fn(SearchFrom, u64) -> Splitter,
) -> Vec<Place> {
    let size = bytes.len() as u64;
    let ends = |place: usize| offsets.get(place + 1).copied().unwrap_or(size);
    let part = |place: usize, from| search(bytes, splitter(from, ends(place)), from, buffer);
    let mut parts: Vec<Part> = Vec::new();
    for (place, offset) in offsets.iter().enumerate() {
        parts.push(match place {
            0 => part(0, SearchFrom::Head),
            _ => part(place, SearchFrom::Line(*offset)),
        });
    }
    while let Some((place, start)) = wrong_part(&parts) {
        parts[place] = part(place, SearchFrom::Row(start));
    }
    places(&parts, size)
}

type Outcome = (Result<Rows, String>, u64, Option<String>);

fn whole(bytes: &[u8], sniffed: &Sniffed) -> Outcome {
    in_parts(bytes, sniffed, &[0], 5)
}

/// Reads all parts one after the other, up to the first error.
fn in_parts(bytes: &[u8], sniffed: &Sniffed, offsets: &[u64], buffer: usize) -> Outcome {
    let all = match offsets {
        [_] => vec![Place {
            start: 0,
            end: bytes.len() as u64,
            line: 1,
            objects: 0,
        }],
        _ => cut(bytes, offsets, buffer, |from, wanted| {
            Splitter::delimited(sniffed, from, wanted)
        }),
    };
    let left_out = Arc::<LeftOut>::default();
    let mut rows = Rows::new();
    let mut end = 0;
    for (number, place) in all.iter().enumerate() {
        assert_eq!(place.start, end, "a byte is lost or read twice: {all:?}");
        end = place.end;
        let line = (number > 0).then_some(place.line);
        let part = &bytes[place.start as usize..place.end as usize];
        match read_rows(part, sniffed, buffer, line, &left_out) {
            Ok(part) => rows.extend(part),
            Err(error) => return (Err(error.to_string()), 0, None),
        }
    }
    assert_eq!(end, bytes.len() as u64, "{all:?}");
    (Ok(rows), left_out.count(), left_out.first().map(Into::into))
}

/// Cuts a file in two everywhere, and in many parts, and compares with the file read whole.
#[track_caller]
fn check(bytes: &[u8], sniffed: &Sniffed) {
    let expect = whole(bytes, sniffed);
    let size = bytes.len() as u64;
    for buffer in [1, 3, 1 << 16] {
        for offset in 1..size {
            let found = in_parts(bytes, sniffed, &[0, offset], buffer);
            let text = String::from_utf8_lossy(bytes);
            assert_eq!(found, expect, "cut at {offset}, {buffer}: {text:?}");
        }
        for step in [1, 2, 5, 11] {
            let offsets: Vec<u64> = (0..size.max(1)).step_by(step).collect();
            let found = in_parts(bytes, sniffed, &offsets, buffer);
            let text = String::from_utf8_lossy(bytes);
            assert_eq!(found, expect, "each {step}, {buffer}: {text:?}");
        }
    }
}

#[track_caller]
fn check_text(text: &str, given: &Given) {
    let sniffed = sniff(&Sample::whole(text.into()), given).unwrap();
    assert!(sniffed.dialect.is_splittable());
    check(text.as_bytes(), &sniffed);
}

#[test]
fn rows_are_those_of_the_whole_file() {
    let given = Given::default();
    for text in [
        "a,b\n1,2\n3,4\n5,6",
        "a,b\r\n1,2\r\n\r\n\r\n3,4\r\n",
        "a,b\r1,2\r3,4\r",
        "a,b\n\n\n1,2\n\n3,4\n\n",
        "# a comment, with \"one quote\n# another\na,b\n1,2\n# \"within\n3,4\n",
        "a,b\n1,2\n3,\"x\ny\"\n4,\"\n\n,\n\"\n5,6\n",
        "a,b\n\"1\",\"say \"\"no\n\"\" or,\"\n\"2\",z\n",
        "a,b\n1,5\" pipe\n2,\"6\"\" pipe\n\"\n3,x\"y\n4,z\n",
        "\u{feff}a,b\n\u{feff}1,2\n\u{feff}\"3\",4\n",
        "one line",
    ] {
        check_text(text, &given);
    }
    let escaped = "a,b\n1,\"x\\\"\ny\"\n2,\"\\\"\"\n3,z\n";
    check_text(escaped, &given);
    let skipping = Given {
        skip: Some(2),
        header: Some(true),
        ..Given::default()
    };
    check_text("a \"title\n\nx,y\n1,2\n3,\"4\n\"\n", &skipping);
    let latin = b"n,v\nK\xf6ln,1\n\"M\xfc\nn\",2\nx,3\n";
    let sniffed = sniff(&Sample::whole(latin.to_vec()), &given).unwrap();
    assert!(sniffed.dialect.is_splittable());
    check(latin, &sniffed);
}

#[test]
fn errors_and_rows_left_out_are_those_of_the_whole_file() {
    // A late quote, a late word, a short row, a quote that is never closed.
    for text in [
        "a,b\n1,2\n3,4\n5,6\n7,\"8\n9,10\n\"\n11,12\n",
        "a,b\n1,2\n3,4\n5,x\n7,8\n",
        "a,b\n1,2\n3,4\n5\n7,8\ny,9\n",
        "a,b\n1,2\n3,4\n5,\"6\n7,8\n9,10\n",
    ] {
        for ignore_errors in [false, true] {
            let given = Given {
                ignore_errors,
                ..Given::default()
            };
            let sniffed = sniff(&Sample::head(text.as_bytes()[..12].to_vec()), &given).unwrap();
            check(text.as_bytes(), &sniffed);
        }
    }
}

#[test]
fn files_at_random_are_read_the_same_in_parts() {
    let mut tried = 0;
    // Numbers of Marsaglia's xorshift; the seed is printed with what differs.
    for seed in 1_u64..400 {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as usize
        };
        let words = [
            "a", ",", ",", "\"", "\"\"", "\n", "\n", "\r\n", "#", "\\\"", "\r", "é", "\",\"",
        ];
        let mut text = String::from("x,y\n");
        for _ in 0..4 + next(20) {
            text.push_str(words[next(words.len())]);
        }
        let given = Given {
            delimiter: Some(b','),
            quote: Some((next(4) > 0).then_some(b'"')),
            escape: Some((next(3) == 0).then_some(b'\\')),
            comment: Some((next(2) == 0).then_some(b'#')),
            names: Some(vec!["x".into(), "y".into()]),
            header: Some(next(2) == 0),
            skip: Some(next(3)),
            encoding: Some(Encoding::Utf8),
            all_text: true,
            null_padding: next(2) == 0,
            ignore_errors: next(2) == 0,
            ..Given::default()
        };
        // A file of which all lines are skipped has no rows.
        let Ok(sniffed) = sniff(&Sample::whole(text.clone().into()), &given) else {
            continue;
        };
        tried += 1;
        let size = text.len() as u64;
        let expect = whole(text.as_bytes(), &sniffed);
        for offset in 1..size {
            let offsets = [0, offset, (offset + size) / 2];
            let found = in_parts(text.as_bytes(), &sniffed, &offsets, 1 + next(9));
            assert_eq!(found, expect, "seed {seed}, {offsets:?}: {text:?}");
        }
    }
    assert!(tried > 300, "{tried}");
}

#[test]
fn encodings_of_wider_characters_are_not_cut() {
    let wide = "a,b\n1,2\n".encode_utf16().flat_map(u16::to_le_bytes);
    let sniffed = sniff(&Sample::whole(wide.collect()), &Given::default()).unwrap();
    assert!(!sniffed.dialect.is_splittable());
    let given = Given {
        encoding: Encoding::named("shift_jis"),
        ..Given::default()
    };
    let sniffed = sniff(&Sample::whole(b"a,b\n1,2\n".to_vec()), &given).unwrap();
    assert!(!sniffed.dialect.is_splittable());
}

#[test]
fn objects_are_cut_between_lines() {
    for text in [
        "{\"a\": 1}\n{\"a\": \"}\\\"\\n{\"}\n\n{\"a\": [1, {}]}\r\n{\"a\": 2}",
        "{\n \"a\": {\n  \"b\": 1\n }\n}\n{\n \"a\": {\"b\": 2}\n}\n",
        "{\"a\": 1}{\"a\": 2}\n{\"a\": 3} {\"a\": 4}\n",
        "\u{feff}{\"a\": 1}\n{\"a\": 2}\n",
    ] {
        let bytes = text.as_bytes();
        let given = GivenJson {
            columns: Some(vec![("a".into(), arrow::datatypes::DataType::Utf8)]),
            ..GivenJson::default()
        };
        let sniffed = sniff_json(&Sample::whole(text.into()), &given).unwrap();
        let objects = |text: &str| {
            let text = text.trim_start_matches('\u{feff}');
            let values = serde_json::Deserializer::from_str(text).into_iter();
            values
                .collect::<Result<Vec<serde_json::Value>, _>>()
                .unwrap()
        };
        let expect = objects(text);
        for buffer in [1, 4, 1 << 16] {
            for offset in 1..bytes.len() as u64 {
                let all = cut(bytes, &[0, offset, offset + 3], buffer, |from, wanted| {
                    Splitter::json(&sniffed, from, wanted)
                });
                let mut found = Vec::new();
                for place in &all {
                    assert_eq!(place.objects, found.len() as u64, "{offset}: {all:?}");
                    let before = text[..place.start as usize].matches('\n').count();
                    assert_eq!(place.line, before as u64 + 1);
                    found.extend(objects(&text[place.start as usize..place.end as usize]));
                }
                assert_eq!(found, expect, "{offset}: {all:?}");
                assert_eq!(all.last().unwrap().end, bytes.len() as u64);
            }
        }
    }
}
