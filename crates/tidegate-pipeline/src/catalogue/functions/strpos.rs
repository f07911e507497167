//! `strpos(a, b)`: the first place of `b` in characters, counted from 1; 0 if it is not in `a`.

use crate::catalogue::{Body, texts};

texts::strict!(
    "strpos",
    (2, 0),
    OFFSET,
    measure,
    Body::Text2Int(|text, part| {
        let found = text.find(part);
        found.map_or(0, |at| text[..at].chars().count() as i64 + 1)
    })
);
