//! `FROM t … USING SAMPLE 10%`, DuckDB's sample of a query's table, which is `FROM t TABLESAMPLE 10 PERCENT …`.
//!
//! Rows are taken before they are filtered. Of a join it would be a sample of the joined rows: there the words stay, and the
//! parser refuses them.

use std::cmp::Reverse;
use std::ops::Range;

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::sample_words::{self, Taken};
use super::words::{is_join, is_set_operation, is_word, keyword, places};

/// What stands between two parentheses.
#[derive(Default)]
struct Level {
    /// The query's FROM has been seen.
    has_from: bool,
    /// FROM has more than one table.
    is_joined: bool,
    /// Where the first clause behind FROM stands, among the words.
    behind: Option<usize>,
}

/// A clause that moves.
struct Sample {
    /// The words of the clause.
    words: Range<usize>,
    /// The word before which it goes.
    before: usize,
    taken: Taken,
}

/// Moves samples behind their tables.
pub(super) fn behind_tables(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(&token.token, "SAMPLE")) {
        return tokens;
    }
    let words = places(&tokens);
    let mut changes = Vec::new();
    for sample in samples(&tokens, &words) {
        let begin = words[sample.words.start];
        let end = words[sample.words.end - 1] + 1;
        let span = tokens[begin].span;
        let mut written = sample.taken.written();
        written.push(Token::Whitespace(Whitespace::Space));
        let written = written.into_iter();
        let written = written.map(|token| TokenWithSpan::new(token, span));
        let before = words[sample.before];
        changes.push((begin..end, Vec::new()));
        changes.push((before..before, written.collect()));
    }
    // From the end, so that places before stay; of two at one place, words go before others come.
    changes.sort_by_key(|(range, _)| Reverse(range.start));
    for (range, written) in changes {
        tokens.splice(range, written);
    }
    tokens
}

/// Finds the samples of queries with one table each.
fn samples(tokens: &[TokenWithSpan], words: &[usize]) -> Vec<Sample> {
    let mut found = Vec::new();
    let mut levels = vec![Level::default()];
    for (at, place) in words.iter().enumerate() {
        let token = &tokens[*place].token;
        match token {
            Token::LParen => levels.push(Level::default()),
            Token::RParen if levels.len() > 1 => {
                levels.pop();
            }
            _ => {}
        }
        let Some(level) = levels.last_mut() else {
            break;
        };
        let is_in_from = level.has_from && level.behind.is_none();
        match keyword(token) {
            Keyword::SELECT => *level = Level::default(),
            word if is_set_operation(word) => *level = Level::default(),
            Keyword::FROM => {
                *level = Level {
                    has_from: true,
                    ..Level::default()
                };
            }
            Keyword::WHERE
            | Keyword::GROUP
            | Keyword::HAVING
            | Keyword::WINDOW
            | Keyword::QUALIFY
                if is_in_from =>
            {
                level.behind = Some(at);
            }
            Keyword::USING if level.has_from && !level.is_joined => {
                let clause = &words[at..];
                if let Some((length, taken)) = sample(tokens, clause) {
                    found.push(Sample {
                        words: at..at + length,
                        before: level.behind.unwrap_or(at),
                        taken,
                    });
                }
            }
            word if is_in_from && (is_join(word) || *token == Token::Comma) => {
                level.is_joined = true;
            }
            _ => {}
        }
    }
    found
}

/// Reads `USING SAMPLE`, and how much is taken; returns how many words it has as well.
fn sample(tokens: &[TokenWithSpan], clause: &[usize]) -> Option<(usize, Taken)> {
    let token = |at: usize| clause.get(at).map(|place| &tokens[*place].token);
    if !is_word(token(1)?, "SAMPLE") {
        return None;
    }
    let mut method = sample_words::method(token(2)?).map(|(_, unit)| unit);
    let mut at = match method {
        Some(_) => 3,
        None => 2,
    };
    let is_open = *token(at)? == Token::LParen;
    if method.is_some() && !is_open {
        return None;
    }
    at += usize::from(is_open);
    let Token::Number(quantity, _) = token(at)? else {
        return None;
    };
    at += 1;
    let unit = match token(at) {
        Some(Token::Mod) => Some("PERCENT"),
        Some(word) if is_word(word, "PERCENT") => Some("PERCENT"),
        Some(word) if is_word(word, "ROWS") => Some("ROWS"),
        _ => None,
    };
    at += usize::from(unit.is_some());
    if is_open {
        if *token(at)? != Token::RParen {
            return None;
        }
        at += 1;
    }
    let mut seed = None;
    if method.is_none()
        && let Some((of_method, given, words)) = sample_words::method_behind(token, at)
    {
        (method, seed) = (Some(of_method), given);
        at += words;
    }
    if let (Some(word), Some(Token::LParen), Some(Token::Number(given, _)), Some(Token::RParen)) =
        (token(at), token(at + 1), token(at + 2), token(at + 3))
        && is_word(word, "REPEATABLE")
    {
        seed = Some(given.clone());
        at += 4;
    }
    let taken = Taken {
        quantity: quantity.clone(),
        unit: unit.or(method).unwrap_or("ROWS"),
        seed,
    };
    Some((at, taken))
}

#[cfg(test)]
mod tests {
    use super::behind_tables;
    use crate::statements::tests::{tokens, written};

    #[test]
    fn samples_stand_behind_their_table() {
        for (sql, expect) in [
            (
                "SELECT a FROM t USING SAMPLE 10%",
                "SELECT a FROM t TABLESAMPLE 10 PERCENT ",
            ),
            ("FROM t u USING SAMPLE 5", "FROM t u TABLESAMPLE 5 ROWS "),
            (
                "SELECT a FROM t WHERE b IN (1, 2) USING SAMPLE reservoir(5 ROWS) ORDER BY a",
                "SELECT a FROM t TABLESAMPLE 5 ROWS WHERE b IN (1, 2)  ORDER BY a",
            ),
            (
                "SELECT a FROM (SELECT b FROM t USING SAMPLE 5 ROWS), u",
                "SELECT a FROM (SELECT b FROM t TABLESAMPLE 5 ROWS ), u",
            ),
            (
                "SELECT a FROM t WHERE b IN (SELECT b FROM u USING SAMPLE 3) USING SAMPLE 5",
                "SELECT a FROM t TABLESAMPLE 5 ROWS WHERE b IN (SELECT b FROM u TABLESAMPLE 3 ROWS ) ",
            ),
            (
                "SELECT a FROM t USING SAMPLE 20 PERCENT (bernoulli)",
                "SELECT a FROM t TABLESAMPLE 20 PERCENT ",
            ),
            (
                "SELECT a FROM t USING SAMPLE 20 (system)",
                "SELECT a FROM t TABLESAMPLE 20 PERCENT ",
            ),
            (
                "SELECT a FROM t USING SAMPLE reservoir(5 ROWS) REPEATABLE (42) ORDER BY a",
                "SELECT a FROM t TABLESAMPLE 5 ROWS REPEATABLE (42)  ORDER BY a",
            ),
            (
                "SELECT a FROM t USING SAMPLE 20% (bernoulli, 42)",
                "SELECT a FROM t TABLESAMPLE 20 PERCENT REPEATABLE (42) ",
            ),
            (
                "SELECT a FROM t USING SAMPLE bernoulli(0.5)",
                "SELECT a FROM t TABLESAMPLE 0.5 PERCENT ",
            ),
            (
                "SELECT a FROM t JOIN u USING (k) USING SAMPLE 5",
                "SELECT a FROM t JOIN u USING (k) USING SAMPLE 5",
            ),
            (
                "SELECT a FROM t, u USING SAMPLE 5",
                "SELECT a FROM t, u USING SAMPLE 5",
            ),
            (
                "SELECT sample FROM t USING SAMPLE x",
                "SELECT sample FROM t USING SAMPLE x",
            ),
        ] {
            assert_eq!(written(&behind_tables(tokens(sql))), expect);
        }
    }
}
