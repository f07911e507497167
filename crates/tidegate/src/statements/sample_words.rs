//! `TABLESAMPLE RESERVOIR (10 ROWS)`, `TABLESAMPLE BERNOULLI (10%)` and `TABLESAMPLE 10% (system)`, as DuckDB has them, are
//! `TABLESAMPLE 10 ROWS` and `TABLESAMPLE 10 PERCENT`: rows have no order here, so that the methods give the same.

use std::ops::Range;

use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::words::{is_word, places, put};

/// The methods by which rows are taken, with the unit that a number without one has.
pub(super) const METHODS: [(&str, &str); 3] = [
    ("RESERVOIR", "ROWS"),
    ("BERNOULLI", "PERCENT"),
    ("SYSTEM", "PERCENT"),
];

/// Writes samples as the parser knows them.
pub(super) fn as_standard(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_sample = |token: &TokenWithSpan| is_word(&token.token, "TABLESAMPLE");
    if !tokens.iter().any(is_sample) {
        return tokens;
    }
    let words = places(&tokens);
    // From the end, so that places before stay.
    for at in (0..words.len()).rev() {
        if !is_sample(&tokens[words[at]]) {
            continue;
        }
        if let Some((range, quantity, unit)) = sample(&tokens, &words, at) {
            let written = [
                Token::make_keyword("TABLESAMPLE"),
                Token::Whitespace(Whitespace::Space),
                Token::Number(quantity, false),
                Token::Whitespace(Whitespace::Space),
                Token::make_keyword(unit),
            ];
            put(&mut tokens, range, written);
        }
    }
    tokens
}

/// Reads the sample that begins at a word, if the parser does not know its form: its tokens, the number and the unit.
fn sample(
    tokens: &[TokenWithSpan],
    words: &[usize],
    begin: usize,
) -> Option<(Range<usize>, String, &'static str)> {
    let token = |at: usize| words.get(at).map(|place| &tokens[*place].token);
    let mut at = begin + 1;
    let before = method(token(at)?);
    at += usize::from(before.is_some());
    let is_open = *token(at)? == Token::LParen;
    at += usize::from(is_open);
    let Token::Number(quantity, _) = token(at)? else {
        return None;
    };
    at += 1;
    let (unit, is_sign) = match token(at) {
        Some(Token::Mod) => (Some("PERCENT"), true),
        Some(word) if is_word(word, "PERCENT") => (Some("PERCENT"), false),
        Some(word) if is_word(word, "ROWS") => (Some("ROWS"), false),
        _ => (None, false),
    };
    at += usize::from(unit.is_some());
    if is_open {
        if *token(at)? != Token::RParen {
            return None;
        }
        at += 1;
    }
    let behind = match (before, token(at), token(at + 1), token(at + 2)) {
        (None, Some(Token::LParen), Some(word), Some(Token::RParen)) if !is_open => method(word),
        _ => None,
    };
    at += if behind.is_some() { 3 } else { 0 };
    let is_reservoir = before.is_some_and(|(name, _)| name == METHODS[0].0);
    if !is_reservoir && behind.is_none() && !(is_open && is_sign) {
        return None;
    }
    let by_method = before.or(behind).map(|(_, unit)| unit);
    let range = words[begin]..words[at - 1] + 1;
    Some((range, quantity.clone(), unit.or(by_method)?))
}

/// Reads the name of a method.
pub(super) fn method(token: &Token) -> Option<(&'static str, &'static str)> {
    METHODS.into_iter().find(|(name, _)| is_word(token, name))
}

#[cfg(test)]
mod tests {
    use super::as_standard;
    use crate::statements::tests::{tokens, written};

    #[test]
    fn samples_are_those_of_the_parser() {
        for (sql, expect) in [
            (
                "FROM t TABLESAMPLE RESERVOIR(10 ROWS) u",
                "FROM t TABLESAMPLE 10 ROWS u",
            ),
            (
                "FROM t TABLESAMPLE reservoir(5)",
                "FROM t TABLESAMPLE 5 ROWS",
            ),
            (
                "FROM t TABLESAMPLE bernoulli(5%)",
                "FROM t TABLESAMPLE 5 PERCENT",
            ),
            (
                "FROM t TABLESAMPLE 10% (system) WHERE a",
                "FROM t TABLESAMPLE 10 PERCENT WHERE a",
            ),
            (
                "FROM t TABLESAMPLE 10 (reservoir)",
                "FROM t TABLESAMPLE 10 ROWS",
            ),
            (
                "FROM t TABLESAMPLE BERNOULLI (10)",
                "FROM t TABLESAMPLE BERNOULLI (10)",
            ),
            ("FROM t TABLESAMPLE 10%", "FROM t TABLESAMPLE 10%"),
            (
                "FROM t TABLESAMPLE 10% (bernoulli, 7)",
                "FROM t TABLESAMPLE 10% (bernoulli, 7)",
            ),
        ] {
            assert_eq!(written(&as_standard(tokens(sql))), expect);
        }
    }
}
