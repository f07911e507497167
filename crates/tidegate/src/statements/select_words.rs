//! Words around queries that the parser does not know, as DuckDB and PostgreSQL have them.
//!
//! `SELECT total: a + b`, DuckDB's other way to name an item, becomes `SELECT a + b AS total`.
//! `WITH t AS MATERIALIZED (…)` and `AS NOT MATERIALIZED (…)` lose the hint: each says how a query is run, not
//! what it gives.
//! `TABLESAMPLE 10%` becomes `TABLESAMPLE 10 PERCENT`, `CREATE FUNCTION f(x) AS x + 1`, which is DuckDB's other name for a macro, `CREATE
//! MACRO`, `sum(x) FILTER (x > 0)` gets its `WHERE`, and the words of `INSERT INTO t BY NAME` a column of that name ([`BY_NAME`]).

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::words::{is_word, keyword, places, put};

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

/// Stands for the columns of `INSERT INTO t BY NAME`, until the query tells them.
pub(crate) const BY_NAME: &str = "by name";

/// Writes names of items behind them, leaves hints out, and writes other words as the parser knows them.
pub(super) fn as_standard(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    replace_words(&mut tokens);
    let needed = |token: &TokenWithSpan| {
        token.token == Token::Colon || keyword(&token.token) == Keyword::MATERIALIZED
    };
    match tokens.iter().any(needed) {
        true => names_behind(without_hints(tokens)),
        false => tokens,
    }
}

/// Writes words of samples, of functions and of INSERT in place.
fn replace_words(tokens: &mut Vec<TokenWithSpan>) {
    let has_any = tokens.iter().any(|token| {
        let word = keyword(&token.token);
        matches!(
            word,
            Keyword::TABLESAMPLE | Keyword::FUNCTION | Keyword::INSERT | Keyword::FILTER
        )
    });
    if !has_any {
        return;
    }
    let places = places(tokens);
    let words: Vec<Keyword> = places
        .iter()
        .map(|place| keyword(&tokens[*place].token))
        .collect();
    // From the end, so that places before stay.
    for (at, word) in words.iter().enumerate().rev() {
        let is_share = *word == Keyword::TABLESAMPLE
            && places
                .get(at + 1)
                .is_some_and(|place| matches!(tokens[*place].token, Token::Number(..)))
            && places
                .get(at + 2)
                .is_some_and(|place| tokens[*place].token == Token::Mod);
        if is_share {
            let place = places[at + 2];
            let space = Token::Whitespace(Whitespace::Space);
            let written = [space, Token::make_keyword("PERCENT")];
            put(tokens, place..place + 1, written);
        }
    }
    for at in (1..words.len()).rev() {
        let token = |place: usize| places.get(place).map(|place| &tokens[*place].token);
        let lacks_where = words[at] == Keyword::FILTER
            && token(at - 1) == Some(&Token::RParen)
            && token(at + 1) == Some(&Token::LParen)
            && words.get(at + 2) != Some(&Keyword::WHERE);
        if lacks_where {
            let place = places[at + 1];
            let written = [
                Token::make_keyword("WHERE"),
                Token::Whitespace(Whitespace::Space),
            ];
            let span = tokens[place].span;
            let written = written.map(|token| TokenWithSpan::new(token, span));
            tokens.splice(place + 1..place + 1, written);
        }
    }
    if let Some(at) = macro_at(tokens, &places, &words) {
        tokens[places[at]].token = Token::make_keyword("MACRO");
    }
    if let Some(range) = by_name_at(tokens, &places, &words) {
        let column = [
            Token::LParen,
            Token::make_word(BY_NAME, Some('"')),
            Token::RParen,
        ];
        put(tokens, range, column);
    }
}

/// Finds `FUNCTION` in `CREATE FUNCTION f(x) AS` before an expression.
fn macro_at(tokens: &[TokenWithSpan], places: &[usize], words: &[Keyword]) -> Option<usize> {
    const BEFORE: [Keyword; 5] = [
        Keyword::CREATE,
        Keyword::OR,
        Keyword::REPLACE,
        Keyword::TEMP,
        Keyword::TEMPORARY,
    ];
    let at = words.iter().position(|word| !BEFORE.contains(word))?;
    if words.first() != Some(&Keyword::CREATE) || words[at] != Keyword::FUNCTION {
        return None;
    }
    let mut behind = places[at + 1..].iter();
    behind.find(|place| tokens[**place].token == Token::RParen)?;
    let [as_word, body] = [behind.next()?, behind.next()?];
    let is_text = matches!(
        tokens[*body].token,
        Token::SingleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::EscapedStringLiteral(_)
    );
    (keyword(&tokens[*as_word].token) == Keyword::AS && !is_text).then_some(at)
}

/// Finds `BY NAME` behind the table of an INSERT.
fn by_name_at(
    tokens: &[TokenWithSpan],
    places: &[usize],
    words: &[Keyword],
) -> Option<std::ops::Range<usize>> {
    if words.first() != Some(&Keyword::INSERT) {
        return None;
    }
    // A table's name has at most three parts, and points between them.
    let by = words.iter().take(8).position(|word| *word == Keyword::BY)?;
    let name = *places.get(by + 1)?;
    is_word(&tokens[name].token, "name").then(|| places[by]..name + 1)
}

/// Leaves `MATERIALIZED` and `NOT MATERIALIZED` out between `AS` and a parenthesis.
fn without_hints(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let words = places(&tokens);
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

#[cfg(test)]
mod tests {
    use super::as_standard;
    use crate::statements::tests::{tokens, written};

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
                "SELECT * FROM t TABLESAMPLE 10% WHERE a % 2 = 0",
                "SELECT * FROM t TABLESAMPLE 10 PERCENT WHERE a % 2 = 0",
            ),
            (
                "SELECT sum(a) FILTER (a > 1), filter(l, x -> x), sum(b) FILTER (WHERE b)",
                "SELECT sum(a) FILTER (WHERE a > 1), filter(l, x -> x), sum(b) FILTER (WHERE b)",
            ),
            (
                "CREATE OR REPLACE FUNCTION f(a, b) AS a + b",
                "CREATE OR REPLACE MACRO f(a, b) AS a + b",
            ),
            (
                "CREATE FUNCTION f(a INT) RETURNS INT RETURN a",
                "CREATE FUNCTION f(a INT) RETURNS INT RETURN a",
            ),
            (
                "INSERT INTO s.t BY NAME SELECT 1 AS a",
                "INSERT INTO s.t (\"by name\") SELECT 1 AS a",
            ),
            (
                "INSERT INTO t SELECT a FROM u GROUP BY name",
                "INSERT INTO t SELECT a FROM u GROUP BY name",
            ),
            (
                "SELECT a AS materialized, x::INT",
                "SELECT a AS materialized, x::INT",
            ),
        ] {
            assert_eq!(written(&as_standard(tokens(sql))), expect, "{sql}");
        }
    }
}
