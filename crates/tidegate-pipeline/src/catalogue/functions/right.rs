//! `right(a, n)`: the last `n` characters; for `n` below 0 all but the first ones. Nothing for the least integer.

crate::catalogue::texts::strict!("right", (1, 1), FIRST, kernel, |arguments| {
    let (text, n) = (arguments[0].text(), arguments[1].int());
    let start = match usize::try_from(n) {
        Ok(0) => return "".into(),
        Ok(n) => text.char_indices().nth_back(n - 1).map_or(0, |(at, _)| at),
        Err(_) if n == i64::MIN => return "".into(),
        Err(_) => {
            let dropped = usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX);
            let start = text.char_indices().nth(dropped);
            start.map_or(text.len(), |(at, _)| at)
        }
    };
    text[start..].into()
});
