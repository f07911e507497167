//! `reverse(a)`, character by character.

crate::catalogue::texts::strict!("reverse", (1, 0), FIRST, kernel, |arguments| {
    arguments[0].text().chars().rev().collect::<String>().into()
});
