//! Names that need no quotes in SQL: small letters of ASCII, digits and underscores, and no reserved word.

/// Letters with accents, behind the letter that each becomes.
const ACCENTS: [&str; 18] = [
    "aàáâãäåāăą",
    "cçćĉċč",
    "dďđ",
    "eèéêëēĕėęě",
    "gĝğġģ",
    "hĥħ",
    "iìíîïĩīĭįı",
    "jĵ",
    "kķ",
    "lĺļľŀł",
    "nñńņňŉ",
    "oòóôõöøōŏő",
    "rŕŗř",
    "sśŝşš",
    "tţťŧ",
    "uùúûüũūŭůűų",
    "yýÿŷ",
    "zźżž",
];

/// Reserved words of DuckDB.
const RESERVED: &str = "all analyse analyze and any array as asc asymmetric both case cast check collate column constraint \
    create default deferrable desc describe distinct do else end except false fetch for foreign from group having \
    in initially intersect into lambda lateral leading limit not null offset on only or order pivot pivot_longer \
    pivot_wider placing primary qualify references returning select show some summarize symmetric table then to trailing \
    true union unique unpivot using variadic when where window with";

/// Makes a plain name of a header's: accents and what is no letter of ASCII go, and blanks become underscores. Nothing
/// of nothing.
pub(super) fn plain(name: &str) -> String {
    let mut plain = String::with_capacity(name.len());
    for letter in name.trim().chars().flat_map(char::to_lowercase) {
        match letter {
            'a'..='z' | '0'..='9' | '_' => plain.push(letter),
            letter if letter.is_whitespace() => plain.push('_'),
            letter => {
                let with_accents = ACCENTS.iter().find(|letters| letters.contains(letter));
                plain.extend(with_accents.and_then(|letters| letters.chars().next()));
            }
        }
    }
    let is_lost = plain.is_empty() && !name.trim().is_empty();
    let begins_with_digit = plain.starts_with(|first: char| first.is_ascii_digit());
    if is_lost || begins_with_digit || RESERVED.split(' ').any(|word| word == plain) {
        plain.insert(0, '_');
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn names_are_plain() {
        for (name, expect) in [
            ("My Col", "my_col"),
            ("Größe (cm)", "groe_cm"),
            ("2nd", "_2nd"),
            ("SELECT", "_select"),
            ("window", "_window"),
            ("a-b", "ab"),
            ("  x ", "x"),
            ("Ÿ Łódź", "y_lodz"),
            ("%", "_"),
            (" ", ""),
        ] {
            assert_eq!(plain(name), expect, "{name}");
        }
    }
}
