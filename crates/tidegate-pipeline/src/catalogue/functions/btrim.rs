//! `btrim(a[, characters])`: without those characters at both ends; without spaces if none are named.

crate::catalogue::texts::trimmed!("btrim", trim_matches);
