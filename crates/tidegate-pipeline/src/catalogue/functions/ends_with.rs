//! `ends_with(a, b)`.

use crate::catalogue::texts;

texts::strict! { "ends_with", (2, 0), BOOLEAN, matches, |text, suffix| text.ends_with(suffix) }
