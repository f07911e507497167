//! Codes of strings.

use super::{Dictionary, Texts};

#[test]
fn strings_of_every_length_have_codes_of_their_own() {
    let mut strings = Dictionary::default();
    let all: Vec<String> = (0..40)
        .flat_map(|len| ["a", "b"].map(|letter| letter.repeat(len)))
        .chain((0..3_000).map(|number| format!("{number:020}")))
        .chain((0..3_000).map(|number| format!("k{number}")))
        .collect();
    let mut known: Vec<&str> = Vec::new();
    for rows in all.chunks(2_048).chain(all.chunks(100)) {
        let mut codes = vec![0; rows.len()];
        let texts = Texts::Rows(rows.iter().map(String::as_str).collect());
        strings.codes(&texts, &mut codes).unwrap();
        for (row, code) in rows.iter().zip(codes) {
            if code as usize == known.len() {
                known.push(row);
            }
            assert_eq!(known[code as usize], row);
            assert_eq!(strings.get(code as usize), row);
        }
    }
    known.sort_unstable();
    known.dedup();
    assert_eq!(known.len(), strings.len(), "a string has two codes");
    assert_eq!(strings.len(), 79 + 6_000);
}
