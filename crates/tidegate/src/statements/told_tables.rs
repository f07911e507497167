//! `FROM (SUMMARIZE t)`, `FROM (DESCRIBE t)` and `FROM (SHOW TABLES)`: what these statements tell, as a table.
//!
//! The parser takes no statement there. It becomes a call of a function with the statement's text ([`TOLD`]), which is planned
//! by itself before the query is.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::words::{closing, is_join, is_word, keyword, places};

/// The function whose argument is the text of a statement.
pub(crate) const TOLD: &str = "tidegate_told";

/// Words that begin such a statement.
const BEGINS: [&str; 4] = ["SUMMARIZE", "DESCRIBE", "DESC", "SHOW"];

/// The most of them in a text.
const TABLES_MAX: usize = 20;

/// Writes statements in parentheses as calls.
pub(super) fn as_calls(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
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
            ("SELECT f(describe) FROM t", "SELECT f(describe) FROM t"),
            ("SUMMARIZE t", "SUMMARIZE t"),
        ] {
            assert_eq!(written(&as_calls(tokens(sql))), expect);
        }
    }
}
