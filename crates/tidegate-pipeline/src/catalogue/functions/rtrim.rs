//! `rtrim(a[, characters])`: without those characters at the end; without spaces if none are named.

crate::catalogue::texts::trimmed!("rtrim", trim_end_matches);
