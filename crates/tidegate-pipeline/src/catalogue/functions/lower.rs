//! `lower(a)` by Unicode, with its rule for the last sigma of a word.

crate::catalogue::texts::strict!("lower", (1, 0), FIRST, kernel, |arguments| {
    arguments[0].text().to_lowercase().into()
});
