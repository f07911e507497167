//! `TABLE t`, which is `SELECT * FROM t` as in PostgreSQL, and `PRAGMA table_info('t')`, which is `DESCRIBE t`.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::words::{is_set_operation, is_word, keyword, places, put};

/// Words before a parenthesis that may open a query.
const BEFORE_QUERIES: [Keyword; 9] = [
    Keyword::FROM,
    Keyword::JOIN,
    Keyword::AS,
    Keyword::IN,
    Keyword::EXISTS,
    Keyword::ALL,
    Keyword::ANY,
    Keyword::SOME,
    Keyword::COPY,
];

/// Words that begin something else behind `TABLE`.
const NO_NAMES: [Keyword; 4] = [
    Keyword::SELECT,
    Keyword::WITH,
    Keyword::VALUES,
    Keyword::FROM,
];

/// Writes queries of whole tables as the parser knows them.
pub(super) fn as_queries(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let has_any = |word: &str| tokens.iter().any(|token| is_word(&token.token, word));
    if has_any("table_info") {
        describe(&mut tokens);
    }
    // From the end, so that places before stay.
    for place in tables(&tokens).into_iter().rev() {
        let space = Token::Whitespace(Whitespace::Space);
        let written = [
            Token::make_keyword("SELECT"),
            space.clone(),
            Token::Mul,
            space,
            Token::make_keyword("FROM"),
        ];
        put(&mut tokens, place..place + 1, written);
    }
    tokens
}

/// Makes `DESCRIBE t` of `PRAGMA table_info('t')`.
fn describe(tokens: &mut Vec<TokenWithSpan>) {
    let words = places(tokens);
    let [pragma, info, open, name, close, rest @ ..] = words.as_slice() else {
        return;
    };
    let is_end = rest
        .iter()
        .all(|place| tokens[*place].token == Token::SemiColon);
    let is_it = is_word(&tokens[*pragma].token, "PRAGMA")
        && is_word(&tokens[*info].token, "table_info")
        && tokens[*open].token == Token::LParen
        && tokens[*close].token == Token::RParen;
    if !is_it || !is_end {
        return;
    }
    let table = match &tokens[*name].token {
        Token::SingleQuotedString(name) => {
            let mut parts = Vec::new();
            for part in name.split('.') {
                if !parts.is_empty() {
                    parts.push(Token::Period);
                }
                parts.push(Token::make_word(part, None));
            }
            parts
        }
        name @ Token::Word(_) => vec![name.clone()],
        _ => return,
    };
    let space = Token::Whitespace(Whitespace::Space);
    let span = tokens[*name].span;
    let written = [Token::make_keyword("DESCRIBE"), space]
        .into_iter()
        .chain(table);
    let written: Vec<TokenWithSpan> = written
        .map(|token| TokenWithSpan::new(token, span))
        .collect();
    tokens.splice(*pragma..=*close, written);
}

/// Finds where `TABLE` begins a query.
fn tables(tokens: &[TokenWithSpan]) -> Vec<usize> {
    let words = places(tokens);
    let token = |at: Option<usize>| Some(&tokens[*words.get(at?)?].token);
    let first = token(Some(0)).map_or(Keyword::NoKeyword, keyword);
    let mut found = Vec::new();
    // Whether a query has begun, for each parenthesis that is open.
    let mut begun = vec![false];
    for (at, place) in words.iter().enumerate() {
        let here = &tokens[*place].token;
        match here {
            Token::LParen => begun.push(false),
            Token::RParen if begun.len() > 1 => {
                begun.pop();
            }
            _ => {}
        }
        let Some(has_begun) = begun.last_mut() else {
            break;
        };
        match keyword(here) {
            Keyword::SELECT | Keyword::VALUES | Keyword::FROM => *has_begun = true,
            word if is_set_operation(word) => *has_begun = false,
            Keyword::TABLE => {
                let before = [1, 2].map(|back| token(at.checked_sub(back)));
                let is_named = matches!(token(Some(at + 1)), Some(Token::Word(name))
                    if !NO_NAMES.contains(&name.keyword));
                if is_named && !*has_begun && begins_query(before, first) {
                    found.push(*place);
                    *has_begun = true;
                }
            }
            _ => {}
        }
    }
    found
}

/// Tells whether a query may begin behind two tokens, the nearer one first, of a statement with this first word.
fn begins_query(before: [Option<&Token>; 2], first: Keyword) -> bool {
    let [before, further] = before;
    let further_word = further.map_or(Keyword::NoKeyword, keyword);
    match before {
        None | Some(Token::SemiColon) => true,
        Some(Token::LParen) => match further {
            None | Some(Token::LParen) => true,
            Some(_) => BEFORE_QUERIES.contains(&further_word) || is_set_operation(further_word),
        },
        Some(Token::RParen) => matches!(first, Keyword::WITH | Keyword::INSERT),
        Some(before) => match keyword(before) {
            word if is_set_operation(word) => true,
            Keyword::ALL | Keyword::DISTINCT => is_set_operation(further_word),
            Keyword::AS => matches!(first, Keyword::CREATE | Keyword::PREPARE),
            Keyword::EXPLAIN | Keyword::ANALYZE | Keyword::VERBOSE => first == Keyword::EXPLAIN,
            Keyword::INTO | Keyword::OVERWRITE => false,
            _ => first == Keyword::INSERT && matches!(before, Token::Word(_)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::as_queries;
    use crate::statements::tests::{tokens, written};

    #[track_caller]
    fn check(sql: &str, expect: &str) {
        assert_eq!(written(&as_queries(tokens(sql))), expect);
    }

    #[test]
    fn tables_are_queries() {
        for (sql, expect) in [
            ("TABLE t", "SELECT * FROM t"),
            ("table s.t LIMIT 1", "SELECT * FROM s.t LIMIT 1"),
            (
                "TABLE t UNION ALL TABLE u",
                "SELECT * FROM t UNION ALL SELECT * FROM u",
            ),
            (
                "SELECT a FROM (TABLE t) x WHERE a IN (TABLE u)",
                "SELECT a FROM (SELECT * FROM t) x WHERE a IN (SELECT * FROM u)",
            ),
            (
                "WITH w AS (TABLE t) TABLE w",
                "WITH w AS (SELECT * FROM t) SELECT * FROM w",
            ),
            (
                "CREATE TABLE x AS TABLE t",
                "CREATE TABLE x AS SELECT * FROM t",
            ),
            (
                "INSERT INTO x (a) TABLE t",
                "INSERT INTO x (a) SELECT * FROM t",
            ),
            ("INSERT INTO x TABLE t", "INSERT INTO x SELECT * FROM t"),
            ("EXPLAIN ANALYZE TABLE t", "EXPLAIN ANALYZE SELECT * FROM t"),
            ("PRAGMA table_info('t');", "DESCRIBE t;"),
            ("PRAGMA table_info('s.t')", "DESCRIBE s.t"),
            ("PRAGMA table_info(t)", "DESCRIBE t"),
        ] {
            check(sql, expect);
        }
    }

    #[test]
    fn other_tables_stay() {
        for sql in [
            "CREATE TABLE x (table INT)",
            "CREATE TABLE t AS SELECT 1 AS table",
            "SELECT table FROM t",
            "SELECT 1 AS table UNION ALL SELECT 2",
            "INSERT INTO TABLE t SELECT 1",
            "CREATE MACRO f(a) AS TABLE SELECT a",
            "DROP TABLE t",
            "SUMMARIZE TABLE t",
            "ANALYZE TABLE t",
            "DESCRIBE TABLE t",
            "SELECT count(table) FROM t",
            "PRAGMA table_info",
        ] {
            check(sql, sql);
        }
    }
}
