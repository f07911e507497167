//! `contains(a, b)`.

use crate::catalogue::texts;

texts::strict! { "contains", (2, 0), BOOLEAN, matches, |text, part| text.contains(part) }
