//! `starts_with(a, b)`.

use crate::catalogue::texts;

texts::strict! { "starts_with", (2, 0), BOOLEAN, matches, |text, prefix| text.starts_with(prefix) }
