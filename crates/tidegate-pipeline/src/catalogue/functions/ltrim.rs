//! `ltrim(a[, characters])`: without those characters at the start; without spaces if none are named.

crate::catalogue::texts::trimmed!("ltrim", trim_start_matches);
