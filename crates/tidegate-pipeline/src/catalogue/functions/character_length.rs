//! `character_length(a)`, also `length` and `char_length`.

use crate::catalogue::{Body, texts};

texts::strict! { "character_length", (1, 0), OFFSET, measure, Body::TextInt(|text| text.chars().count() as i64) }
