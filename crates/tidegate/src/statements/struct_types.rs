//! `STRUCT(a INT, b VARCHAR)`, as DuckDB writes the type, which is `STRUCT<a INT, b VARCHAR>`.
//!
//! A call has no two words behind its parenthesis of which the second is no operator: `struct(a, b)`, `struct(a AND b)`.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::{closing, is_infix, is_word, keyword, places};

/// Words that begin an expression, and are no name of a field.
const NO_FIELDS: [Keyword; 8] = [
    Keyword::CASE,
    Keyword::NOT,
    Keyword::SELECT,
    Keyword::EXISTS,
    Keyword::CAST,
    Keyword::DISTINCT,
    Keyword::ALL,
    Keyword::WITH,
];

/// Words behind which a name stands, and no type.
const BEFORE_NAMES: [Keyword; 5] = [
    Keyword::TABLE,
    Keyword::EXISTS,
    Keyword::FUNCTION,
    Keyword::MACRO,
    Keyword::VIEW,
];

/// Words that go on from an expression, beside those between operands.
const NO_TYPES: [Keyword; 8] = [
    Keyword::AS,
    Keyword::AND,
    Keyword::OR,
    Keyword::XOR,
    Keyword::NOT,
    Keyword::NOTNULL,
    Keyword::OVER,
    Keyword::FILTER,
];

/// Writes the fields of types between `<` and `>`.
pub(super) fn with_brackets(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(&token.token, "struct")) {
        return tokens;
    }
    let words = places(&tokens);
    for (at, place) in words.iter().enumerate() {
        if !is_word(&tokens[*place].token, "struct") {
            continue;
        }
        let token = |at: usize| words.get(at).map(|place| &tokens[*place].token);
        let (Some(Token::LParen), Some(field), Some(data_type)) =
            (token(at + 1), token(at + 2), token(at + 3))
        else {
            continue;
        };
        let before = at.checked_sub(1).and_then(token).map(keyword);
        let is_name = before.is_some_and(|before| BEFORE_NAMES.contains(&before));
        if is_name || !is_field(field) || !is_type(data_type) {
            continue;
        }
        let Some(close) = closing(&tokens, words[at + 1]) else {
            continue;
        };
        tokens[words[at + 1]].token = Token::Lt;
        tokens[close].token = Token::Gt;
    }
    tokens
}

fn is_field(token: &Token) -> bool {
    matches!(token, Token::Word(_)) && !NO_FIELDS.contains(&keyword(token))
}

fn is_type(token: &Token) -> bool {
    let keyword = keyword(token);
    matches!(token, Token::Word(_)) && !is_infix(keyword) && !NO_TYPES.contains(&keyword)
}

#[cfg(test)]
mod tests {
    use super::with_brackets;
    use crate::statements::tests::{tokens, written};

    #[test]
    fn fields_of_types_are_between_brackets() {
        for (sql, expect) in [
            (
                "CREATE TABLE t (s STRUCT(x INT, y DECIMAL(10, 2)))",
                "CREATE TABLE t (s STRUCT<x INT, y DECIMAL(10, 2)>)",
            ),
            (
                "x::struct(a STRUCT(\"b c\" INT[]), d INT)[]",
                "x::struct<a STRUCT<\"b c\" INT[]>, d INT>[]",
            ),
            ("struct(a, b)", "struct(a, b)"),
            ("struct(a AND b)", "struct(a AND b)"),
            ("struct(a AS b)", "struct(a AS b)"),
            ("struct(a IS NULL)", "struct(a IS NULL)"),
            ("struct(DATE '2024-01-01')", "struct(DATE '2024-01-01')"),
            ("struct(NOT a)", "struct(NOT a)"),
            ("STRUCT<a INT>", "STRUCT<a INT>"),
            ("CREATE TABLE struct (a INT)", "CREATE TABLE struct (a INT)"),
            ("STRUCT(a INT", "STRUCT(a INT"),
        ] {
            assert_eq!(written(&with_brackets(tokens(sql))), expect);
        }
    }
}
