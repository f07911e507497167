//! `x IN [1, 2]`, as in DuckDB, which is `x IN (1, 2)`.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::{is_word, places};

/// Writes lists behind IN in parentheses; comprehensions are calls by now.
pub(super) fn in_parentheses(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|token| is_word(&token.token, "in")) {
        return tokens;
    }
    let words = places(&tokens);
    for (at, place) in words.iter().enumerate() {
        let Some(open) = words.get(at + 1) else {
            break;
        };
        if !is_word(&tokens[*place].token, "in") || tokens[*open].token != Token::LBracket {
            continue;
        }
        if let Some(close) = closing(&tokens, &words[at + 1..]) {
            tokens[*open].token = Token::LParen;
            tokens[close].token = Token::RParen;
        }
    }
    tokens
}

/// Finds where the bracket is closed that is the first of some tokens; `None` of an empty list, and of one of which an
/// element or a part is taken.
fn closing(tokens: &[TokenWithSpan], words: &[usize]) -> Option<usize> {
    let mut depth = 0;
    for (at, place) in words.iter().enumerate() {
        match tokens[*place].token {
            Token::LBracket => depth += 1,
            Token::RBracket if depth == 1 => {
                let next = words.get(at + 1).map(|place| &tokens[*place].token);
                return (at > 1 && next != Some(&Token::LBracket)).then_some(*place);
            }
            Token::RBracket => depth -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::in_parentheses;
    use crate::statements::tests::{tokens, written};

    #[test]
    fn lists_behind_in_are_in_parentheses() {
        for (sql, expect) in [
            ("3 IN [1, 2]", "3 IN (1, 2)"),
            ("x NOT IN [[1], [2, 3]]", "x NOT IN ([1], [2, 3])"),
            ("x IN []", "x IN []"),
            ("x IN [1, 2][1:1]", "x IN [1, 2][1:1]"),
            ("x IN (1)", "x IN (1)"),
        ] {
            assert_eq!(written(&in_parentheses(tokens(sql))), expect);
        }
    }
}
