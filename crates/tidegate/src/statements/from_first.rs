//! `FROM t WHERE …`, which is `SELECT * FROM t WHERE …` as in DuckDB.
//!
//! The parser reads `FROM t` and `FROM t SELECT …` alone; of any other clause behind `FROM` it makes a syntax
//! error. Here `SELECT *` is put before such a `FROM`, wherever a query begins with it.

use std::collections::HashSet;

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::keyword;

/// What stands between two parentheses.
#[derive(Default)]
struct Level {
    begins_with_with: bool,
    has_select: bool,
    /// Where the query's `FROM` stands, if it begins with that and selects nothing so far.
    from: Option<usize>,
}

/// Puts `SELECT *` before each query that begins with `FROM`, has one of its clauses, and selects nothing.
pub(super) fn select_all(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let places = places(&tokens);
    if places.is_empty() {
        return tokens;
    }
    let mut all = Vec::with_capacity(tokens.len() + 2 * places.len());
    for (index, token) in tokens.into_iter().enumerate() {
        if places.contains(&index) {
            for part in [Token::make_keyword("SELECT"), Token::Mul] {
                all.push(TokenWithSpan::new(part, token.span));
            }
        }
        all.push(token);
    }
    all
}

/// Finds where `SELECT *` is missing.
fn places(tokens: &[TokenWithSpan]) -> HashSet<usize> {
    let mut places = HashSet::new();
    let mut levels = vec![Level::default()];
    let mut before: Option<&Token> = None;
    for (index, token) in tokens.iter().map(|token| &token.token).enumerate() {
        if matches!(token, Token::Whitespace(_)) {
            continue;
        }
        match token {
            Token::LParen => levels.push(Level::default()),
            Token::RParen if levels.len() > 1 => {
                levels.pop();
            }
            _ => {}
        }
        if let Some(level) = levels.last_mut() {
            match keyword(token) {
                Keyword::WITH if matches!(before, None | Some(Token::LParen)) => {
                    level.begins_with_with = true;
                }
                Keyword::FROM if begins_query(before, level) => level.from = Some(index),
                Keyword::SELECT => {
                    level.has_select = true;
                    level.from = None;
                }
                Keyword::UNION | Keyword::EXCEPT | Keyword::INTERSECT => level.from = None,
                Keyword::WHERE | Keyword::GROUP | Keyword::HAVING | Keyword::QUALIFY => {
                    places.extend(level.from.take());
                }
                // Behind a pipe the clauses are steps of their own.
                _ if *token == Token::VerticalBarRightAngleBracket => level.from = None,
                _ => {}
            }
        }
        before = Some(token);
    }
    places
}

fn begins_query(before: Option<&Token>, level: &Level) -> bool {
    match before {
        None | Some(Token::LParen) => true,
        Some(Token::RParen) => level.begins_with_with && !level.has_select,
        Some(Token::Word(word)) => {
            let begin = ["AS", "EXPLAIN", "ANALYZE", "SUMMARIZE"];
            let is_it = |begin: &&str| word.value.eq_ignore_ascii_case(begin);
            word.quote_style.is_none() && !level.has_select && begin.iter().any(is_it)
        }
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::select_all;
    use crate::statements::tests::{tokens, written};

    #[track_caller]
    fn check(sql: &str, expect: &str) {
        assert_eq!(written(&select_all(tokens(sql))), expect);
    }

    #[test]
    fn queries_that_begin_with_from_select_all() {
        for (sql, expect) in [
            ("FROM t WHERE a", "SELECT*FROM t WHERE a"),
            (
                "FROM t JOIN u USING (k) GROUP BY k",
                "SELECT*FROM t JOIN u USING (k) GROUP BY k",
            ),
            (
                "SELECT 1 FROM (FROM t WHERE a) x",
                "SELECT 1 FROM (SELECT*FROM t WHERE a) x",
            ),
            (
                "CREATE TABLE x AS FROM (FROM t WHERE a) WHERE b",
                "CREATE TABLE x AS SELECT*FROM (SELECT*FROM t WHERE a) WHERE b",
            ),
            (
                "WITH w AS (SELECT 1) FROM w WHERE a",
                "WITH w AS (SELECT 1) SELECT*FROM w WHERE a",
            ),
            (
                "FROM t WHERE a UNION ALL FROM t",
                "SELECT*FROM t WHERE a UNION ALL FROM t",
            ),
        ] {
            check(sql, expect);
        }
    }

    #[test]
    fn any_other_from_stays() {
        for sql in [
            "FROM t",
            "FROM t SELECT a WHERE b",
            "FROM t |> WHERE a",
            "DELETE FROM t WHERE a",
            "EXPLAIN DELETE FROM t WHERE a",
            "SELECT (1) FROM t WHERE a",
            "WITH w AS (SELECT 1) SELECT (a) FROM w WHERE a",
            "SELECT extract(year FROM d) FROM t WHERE a",
            "SELECT \"FROM\" WHERE a",
            "FROM t UNION ALL SELECT a FROM t WHERE b",
        ] {
            check(sql, sql);
        }
    }
}
