//! `FROM (SUMMARIZE t)`, `FROM (DESCRIBE t)` and `FROM (SHOW TABLES)`: what these statements tell, as a table.
//!
//! The parser takes no statement there. It becomes a call of a function with the statement's text ([`TOLD`]), which is planned
//! by itself before the query is. So do `duckdb_tables()` and its like, of which a query tells ([`CATALOG`]).

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::words::{closing, is_join, is_word, keyword, places};

/// The function whose argument is the text of a statement.
pub(crate) const TOLD: &str = "tidegate_told";

/// Words that begin such a statement.
const BEGINS: [&str; 4] = ["SUMMARIZE", "DESCRIBE", "DESC", "SHOW"];

/// Functions of DuckDB that tell of what there is, and the queries that tell it.
const CATALOG: [(&str, &str); 3] = [
    (
        "duckdb_columns",
        "SELECT table_catalog AS database_name, table_schema AS schema_name, table_name, column_name, \
         CAST(ordinal_position AS INT) + 1 AS column_index, is_nullable = 'YES' AS is_nullable, data_type \
         FROM information_schema.columns WHERE table_schema NOT IN ('information_schema', 'system')",
    ),
    (
        "duckdb_tables",
        "SELECT t.table_catalog AS database_name, t.table_schema AS schema_name, t.table_name, \
         t.table_schema = 'temp' AS temporary, count(c.column_name) AS column_count \
         FROM information_schema.tables AS t LEFT JOIN information_schema.columns AS c \
         ON c.table_catalog = t.table_catalog AND c.table_schema = t.table_schema AND c.table_name = t.table_name \
         WHERE t.table_type = 'BASE TABLE' GROUP BY t.table_catalog, t.table_schema, t.table_name",
    ),
    (
        "duckdb_views",
        "SELECT table_catalog AS database_name, table_schema AS schema_name, table_name AS view_name, \
         definition AS sql FROM information_schema.views WHERE definition IS NOT NULL",
    ),
];

/// The most of them in a text.
const TABLES_MAX: usize = 20;

/// Writes statements in parentheses as calls.
pub(super) fn as_calls(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for (name, query) in CATALOG {
        ask(&mut tokens, name, query);
    }
    let begins = |token: &Token| BEGINS.iter().any(|word| is_word(token, word));
    for _ in 0..TABLES_MAX {
        let words = places(&tokens);
        let found = words.windows(3).find_map(|three| {
            let [before, open, first] = [three[0], three[1], three[2]].map(|at| &tokens[at].token);
            let is_table = *before == Token::Comma
                || matches!(keyword(before), Keyword::FROM | Keyword::AS)
                || is_join(keyword(before));
            (is_table && *open == Token::LParen && begins(first)).then_some((three[1], three[2]))
        });
        let Some((open, first)) = found else {
            break;
        };
        let Some(close) = closing(&tokens, open) else {
            break;
        };
        let text: String = tokens[first..close].iter().map(written).collect();
        let space = || Token::Whitespace(Whitespace::Space);
        let call = [
            Token::make_keyword("SELECT"),
            space(),
            Token::Mul,
            space(),
            Token::make_keyword("FROM"),
            space(),
            Token::make_word(TOLD, None),
            Token::LParen,
            Token::SingleQuotedString(text.trim().to_string()),
            Token::RParen,
        ];
        let span = tokens[first].span;
        let call = call.map(|token| TokenWithSpan::new(token, span));
        tokens.splice(first..close, call);
    }
    tokens
}

/// Writes calls of a function without arguments as calls with the query that tells as much.
fn ask(tokens: &mut Vec<TokenWithSpan>, name: &str, query: &str) {
    if !tokens.iter().any(|token| is_word(&token.token, name)) {
        return;
    }
    let words = places(tokens);
    let calls = words.windows(3).filter(|three| {
        is_word(&tokens[three[0]].token, name)
            && tokens[three[1]].token == Token::LParen
            && tokens[three[2]].token == Token::RParen
    });
    let calls: Vec<(usize, usize)> = calls.map(|three| (three[0], three[1])).collect();
    // From the end, so that places before stay.
    for (function, open) in calls.into_iter().rev().take(TABLES_MAX) {
        let query = Token::SingleQuotedString(query.to_string());
        let query = TokenWithSpan::new(query, tokens[function].span);
        tokens[function].token = Token::make_word(TOLD, None);
        tokens.insert(open + 1, query);
    }
}

/// Writes a token as it is read again.
fn written(token: &TokenWithSpan) -> String {
    match &token.token {
        Token::SingleQuotedString(text) => format!("'{}'", text.replace('\'', "''")),
        Token::Whitespace(_) => " ".to_string(),
        token => token.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::as_calls;
    use crate::statements::tests::{tokens, written};

    #[test]
    fn statements_in_parentheses_are_calls() {
        for (sql, expect) in [
            (
                "SELECT min FROM (SUMMARIZE t) s",
                "SELECT min FROM (SELECT * FROM tidegate_told('SUMMARIZE t')) s",
            ),
            (
                "FROM (DESCRIBE SELECT (1) AS a), (SHOW TABLES)",
                "FROM (SELECT * FROM tidegate_told('DESCRIBE SELECT (1) AS a')), (SELECT * FROM tidegate_told('SHOW TABLES'))",
            ),
            (
                "FROM duckdb_views() v",
                "FROM tidegate_told('SELECT table_catalog AS database_name, table_schema AS schema_name, \
                 table_name AS view_name, definition AS sql FROM information_schema.views \
                 WHERE definition IS NOT NULL') v",
            ),
            ("SELECT f(describe) FROM t", "SELECT f(describe) FROM t"),
            ("SUMMARIZE t", "SUMMARIZE t"),
        ] {
            assert_eq!(written(&as_calls(tokens(sql))), expect);
        }
    }
}
