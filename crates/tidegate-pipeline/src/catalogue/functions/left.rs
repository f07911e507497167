//! `left(a, n)`: the first `n` characters; for `n` below 0 all but the last ones.

crate::catalogue::texts::strict!("left", (1, 1), FIRST, kernel, |arguments| {
    let (text, n) = (arguments[0].text(), arguments[1].int());
    let end = match usize::try_from(n) {
        Ok(n) => text.char_indices().nth(n),
        Err(_) => {
            let dropped = usize::try_from(n.unsigned_abs()).unwrap_or(usize::MAX);
            let start = text.char_indices().nth_back(dropped - 1);
            return text[..start.map_or(0, |(at, _)| at)].into();
        }
    };
    text[..end.map_or(text.len(), |(at, _)| at)].into()
});
