//! `bit_length(a)`.

use crate::catalogue::{Body, texts};

texts::strict! { "bit_length", (1, 0), OFFSET, measure, Body::TextInt(|text| (text.len() * 8) as i64) }
