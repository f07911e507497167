//! `upper(a)` by Unicode.

crate::catalogue::texts::strict!("upper", (1, 0), FIRST, kernel, |arguments| {
    arguments[0].text().to_uppercase().into()
});
