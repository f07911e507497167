//! `TABLESAMPLE RESERVOIR (10 ROWS)`, `TABLESAMPLE BERNOULLI (10%)` and `TABLESAMPLE 10% (system)`, as DuckDB has them, are
//! `TABLESAMPLE 10 ROWS` and `TABLESAMPLE 10 PERCENT`: rows have no order here, so that the methods give the same.
//! `TABLESAMPLE 10% (system, 42)` is `TABLESAMPLE 10 PERCENT REPEATABLE (42)`.

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
        if let Some((range, sample)) = sample(&tokens, &words, at) {
            put(&mut tokens, range, sample.written());
        }
    }
    tokens
}

/// How much is taken.
pub(super) struct Taken {
    pub(super) quantity: String,
    pub(super) unit: &'static str,
    /// What a sample that can be repeated begins with.
    pub(super) seed: Option<String>,
}

impl Taken {
    /// Writes the sample as the parser knows it.
    pub(super) fn written(self) -> Vec<Token> {
        let space = || Token::Whitespace(Whitespace::Space);
        let mut written = vec![
            Token::make_keyword("TABLESAMPLE"),
            space(),
            Token::Number(self.quantity, false),
            space(),
            Token::make_keyword(self.unit),
        ];
        if let Some(seed) = self.seed {
            written.extend([
                space(),
                Token::make_keyword("REPEATABLE"),
                space(),
                Token::LParen,
                Token::Number(seed, false),
                Token::RParen,
            ]);
        }
        written
    }
}

/// Reads a method behind a quantity, `(system)`, or one with a seed, `(system, 42)`; returns the unit of its numbers, the
/// seed and how many words there are.
pub(super) fn method_behind<'a>(
    token: impl Fn(usize) -> Option<&'a Token>,
    at: usize,
) -> Option<(&'static str, Option<String>, usize)> {
    let (Token::LParen, (_, unit)) = (token(at)?, method(token(at + 1)?)?) else {
        return None;
    };
    match (token(at + 2)?, token(at + 3), token(at + 4)) {
        (Token::RParen, ..) => Some((unit, None, 3)),
        (Token::Comma, Some(Token::Number(seed, _)), Some(Token::RParen)) => {
            Some((unit, Some(seed.clone()), 5))
        }
        _ => None,
    }
}

/// Reads the sample that begins at a word, if the parser does not know its form, and its tokens.
fn sample(
    tokens: &[TokenWithSpan],
    words: &[usize],
    begin: usize,
) -> Option<(Range<usize>, Taken)> {
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
    let behind = match before.is_none() && !is_open {
        true => method_behind(token, at),
        false => None,
    };
    at += behind.as_ref().map_or(0, |(.., words)| *words);
    let is_reservoir = before.is_some_and(|(name, _)| name == METHODS[0].0);
    if !is_reservoir && behind.is_none() && !(is_open && is_sign) {
        return None;
    }
    let (of_behind, seed) = behind.map(|(unit, seed, _)| (unit, seed)).unzip();
    let by_method = before.map(|(_, unit)| unit).or(of_behind);
    let range = words[begin]..words[at - 1] + 1;
    let taken = Taken {
        quantity: quantity.clone(),
        unit: unit.or(by_method)?,
        seed: seed.flatten(),
    };
    Some((range, taken))
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
                "FROM t TABLESAMPLE 10 PERCENT REPEATABLE (7)",
            ),
            (
                "FROM t TABLESAMPLE reservoir(10 ROWS) REPEATABLE (7)",
                "FROM t TABLESAMPLE 10 ROWS REPEATABLE (7)",
            ),
        ] {
            assert_eq!(written(&as_standard(tokens(sql))), expect);
        }
    }
}
