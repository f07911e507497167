//! `octet_length(a)`, in bytes.

use crate::catalogue::{Body, texts};

texts::strict! { "octet_length", (1, 0), OFFSET, measure, Body::TextInt(|text| text.len() as i64) }
