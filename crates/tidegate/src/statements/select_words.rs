//! Words around queries that the parser does not know, as DuckDB and PostgreSQL have them.
//!
//! `SELECT total: a + b`, DuckDB's other way to name an item, becomes `SELECT a + b AS total`.
//! `WITH t AS MATERIALIZED (…)` and `AS NOT MATERIALIZED (…)` lose the hint: each says how a query is run, not
//! what it gives.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// What ends a select list.
const ENDS: [Keyword; 15] = [
    Keyword::FROM,
    Keyword::INTO,
    Keyword::WHERE,
    Keyword::GROUP,
    Keyword::HAVING,
    Keyword::WINDOW,
    Keyword::QUALIFY,
    Keyword::ORDER,
    Keyword::LIMIT,
    Keyword::OFFSET,
    Keyword::FETCH,
    Keyword::UNION,
    Keyword::EXCEPT,
    Keyword::INTERSECT,
    Keyword::SELECT,
];

/// What stands between two brackets.
#[derive(Default)]
struct Level {
    /// It is a select list, up to here.
    is_list: bool,
    /// The next word begins an item.
    begins_item: bool,
    /// The name that the item began with.
    name: Option<TokenWithSpan>,
}

/// Writes names of items behind them, and leaves hints out.
pub(super) fn as_standard(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let needed = |token: &TokenWithSpan| {
        token.token == Token::Colon || keyword(&token.token) == Keyword::MATERIALIZED
    };
    match tokens.iter().any(needed) {
        true => names_behind(without_hints(tokens)),
        false => tokens,
    }
}

/// Leaves `MATERIALIZED` and `NOT MATERIALIZED` out between `AS` and a parenthesis.
fn without_hints(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_space = |token: &Token| matches!(token, Token::Whitespace(_));
    let words: Vec<usize> = (0..tokens.len())
        .filter(|place| !is_space(&tokens[*place].token))
        .collect();
    let mut hints = Vec::new();
    for (at, &place) in words.iter().enumerate() {
        let word = |at: Option<usize>| {
            let place = at.and_then(|at| words.get(at));
            place.map_or(Keyword::NoKeyword, |place| keyword(&tokens[*place].token))
        };
        let is_hint = keyword(&tokens[place].token) == Keyword::MATERIALIZED
            && words
                .get(at + 1)
                .is_some_and(|next| tokens[*next].token == Token::LParen);
        if !is_hint {
            continue;
        }
        match (word(at.checked_sub(2)), word(at.checked_sub(1))) {
            (_, Keyword::AS) => hints.push(place),
            (Keyword::AS, Keyword::NOT) => hints.extend([words[at - 1], place]),
            _ => {}
        }
    }
    let mut place = 0;
    let mut tokens = tokens;
    tokens.retain(|_| {
        place += 1;
        !hints.contains(&(place - 1))
    });
    tokens
}

/// Writes `x: a` in a select list as `a AS x`.
fn names_behind(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let mut written: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 8);
    let mut levels = vec![Level::default()];
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let Some(level) = levels.last_mut() else {
            break;
        };
        let word = keyword(&token.token);
        match &token.token {
            Token::Whitespace(_) => {
                written.push(token);
                continue;
            }
            Token::LParen | Token::LBracket | Token::LBrace => {
                level.begins_item = false;
                levels.push(Level::default());
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                name_item(&mut written, level);
                if levels.len() > 1 {
                    levels.pop();
                }
            }
            Token::Comma if level.is_list => {
                name_item(&mut written, level);
                level.begins_item = true;
            }
            Token::SemiColon => name_item(&mut written, level),
            Token::Word(_) if level.begins_item && is_named(&mut tokens) => {
                level.begins_item = false;
                level.name = Some(token);
                // The colon.
                tokens.next();
                continue;
            }
            _ if level.begins_item && matches!(word, Keyword::DISTINCT | Keyword::ALL) => {}
            _ => {
                level.begins_item = false;
                if level.is_list && ENDS.contains(&word) {
                    name_item(&mut written, level);
                    level.is_list = false;
                }
                if word == Keyword::SELECT {
                    level.is_list = true;
                    level.begins_item = true;
                }
            }
        }
        written.push(token);
    }
    if let Some(level) = levels.last_mut() {
        name_item(&mut written, level);
    }
    written
}

/// Tells whether a colon comes next, right behind the name.
fn is_named(tokens: &mut std::iter::Peekable<impl Iterator<Item = TokenWithSpan>>) -> bool {
    let next = tokens.peek();
    next.is_some_and(|next| next.token == Token::Colon)
}

/// Writes the name of an item that has ended, before the space behind it.
fn name_item(written: &mut Vec<TokenWithSpan>, level: &mut Level) {
    let Some(name) = level.name.take() else {
        return;
    };
    let is_space = |token: &TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let end = written.iter().rposition(|token| !is_space(token));
    let at = end.map_or(0, |end| end + 1);
    let keyword = TokenWithSpan::new(Token::make_keyword("AS"), name.span);
    written.splice(at..at, [keyword, name]);
}

fn keyword(token: &Token) -> Keyword {
    match token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

#[cfg(test)]
mod tests {
    use super::as_standard;
    use crate::statements::tests::tokens;

    #[test]
    fn names_and_hints_are_those_of_the_parser() {
        for (sql, expect) in [
            (
                "SELECT x: 1, y: f(a, b) FROM t",
                "SELECT  1ASx,  f(a, b)ASy FROM t",
            ),
            ("SELECT DISTINCT x: 1", "SELECT DISTINCT  1ASx"),
            (
                "(SELECT x: 1) UNION SELECT 2",
                "(SELECT  1ASx) UNION SELECT 2",
            ),
            (
                "SELECT {'a': 1}, b: {'c': d} FROM t",
                "SELECT {'a': 1},  {'c': d}ASb FROM t",
            ),
            ("SELECT {a: 1}", "SELECT {a: 1}"),
            ("SELECT a[1:2], b FROM t", "SELECT a[1:2], b FROM t"),
            ("FROM t SELECT x: a", "FROM t SELECT  aASx"),
            (
                "WITH t AS MATERIALIZED (SELECT 1) SELECT 2",
                "WITH t AS  (SELECT 1) SELECT 2",
            ),
            (
                "WITH t AS NOT MATERIALIZED (SELECT 1)",
                "WITH t AS   (SELECT 1)",
            ),
            (
                "SELECT a AS materialized, x::INT",
                "SELECT a AS materialized, x::INT",
            ),
        ] {
            let written: Vec<String> = as_standard(tokens(sql))
                .iter()
                .map(|token| token.token.to_string())
                .collect();
            assert_eq!(written.concat(), expect, "{sql}");
        }
    }
}
