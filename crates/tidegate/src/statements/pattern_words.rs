//! Patterns that the parser does not know: `s GLOB 'a*'`, and `* LIKE 'a%'` of the names of columns.
//!
//! `s GLOB 'a*'` becomes `s ~ '(?s)^a.*$'`, and `* LIKE 'a%'` in a list of SELECT `COLUMNS('^a.*$')`. A pattern is a string, not
//! an expression.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::{is_word, places, put};

/// Writes patterns as regular expressions.
pub(super) fn as_regular(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_pattern = |token: &TokenWithSpan| {
        ["GLOB", "LIKE", "ILIKE"]
            .iter()
            .any(|word| is_word(&token.token, word))
    };
    if !tokens.iter().any(is_pattern) {
        return tokens;
    }
    let words = places(&tokens);
    // From the end, so that places before stay.
    for at in (1..words.len()).rev() {
        let [before, here] = [words[at - 1], words[at]];
        let Some(text) = words.get(at + 1).map(|place| tokens[*place].token.clone()) else {
            continue;
        };
        let Token::SingleQuotedString(text) = text else {
            continue;
        };
        let is_glob = is_word(&tokens[here].token, "GLOB");
        if is_pattern(&tokens[here]) && begins_item(&tokens, &words, at - 1) {
            let pattern = match is_glob {
                true => of_glob(&text),
                false => of_like(&text),
            };
            let case = match is_word(&tokens[here].token, "ILIKE") {
                true => "(?i)",
                false => "",
            };
            let written = [
                Token::make_word("COLUMNS", None),
                Token::LParen,
                Token::SingleQuotedString(format!("{case}{pattern}")),
                Token::RParen,
            ];
            put(&mut tokens, before..words[at + 1] + 1, written);
        } else if is_glob && ends_operand(&tokens[before].token) {
            tokens[words[at + 1]].token =
                Token::SingleQuotedString(format!("(?s){}", of_glob(&text)));
            match is_word(&tokens[before].token, "NOT") {
                true => {
                    tokens[here].token = Token::ExclamationMarkTilde;
                    tokens.remove(before);
                }
                false => tokens[here].token = Token::Tilde,
            }
        }
    }
    tokens
}

/// Returns whether a word is the `*` of an item of SELECT.
fn begins_item(tokens: &[TokenWithSpan], words: &[usize], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| &tokens[words[before]]);
    tokens[words[at]].token == Token::Mul
        && before.is_some_and(|before| {
            before.token == Token::Comma
                || is_word(&before.token, "SELECT")
                || is_word(&before.token, "DISTINCT")
        })
}

fn ends_operand(token: &Token) -> bool {
    matches!(
        token,
        Token::Word(_) | Token::RParen | Token::RBracket | Token::SingleQuotedString(_)
    )
}

/// Returns the regular expression of a pattern with `%` and `_`.
fn of_like(pattern: &str) -> String {
    let mut regular = String::from("^");
    for c in pattern.chars() {
        match c {
            '%' => regular.push_str(".*"),
            '_' => regular.push('.'),
            c => push_literal(&mut regular, c),
        }
    }
    regular.push('$');
    regular
}

/// Returns the regular expression of a pattern with `*`, `?` and `[…]`, which begins with `!` or `^` for all others.
fn of_glob(pattern: &str) -> String {
    let mut regular = String::from("^");
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        match c {
            '*' => regular.push_str(".*"),
            '?' => regular.push('.'),
            '\\' => push_literal(&mut regular, rest.next().unwrap_or('\\')),
            '[' => match rest
                .as_str()
                .char_indices()
                .skip(1)
                .find(|(_, c)| *c == ']')
            {
                Some((end, _)) => {
                    let set = &rest.as_str()[..end];
                    let (negation, set) = match set.strip_prefix(['!', '^']) {
                        Some(set) => ("^", set),
                        None => ("", set),
                    };
                    regular.push('[');
                    regular.push_str(negation);
                    for c in set.chars() {
                        if matches!(c, '\\' | '[' | ']' | '^' | '&' | '~') {
                            regular.push('\\');
                        }
                        regular.push(c);
                    }
                    regular.push(']');
                    rest = rest.as_str()[end + 1..].chars();
                }
                None => push_literal(&mut regular, '['),
            },
            c => push_literal(&mut regular, c),
        }
    }
    regular.push('$');
    regular
}

fn push_literal(regular: &mut String, c: char) {
    if c.is_ascii_punctuation() {
        regular.push('\\');
    }
    regular.push(c);
}

#[cfg(test)]
mod tests {
    use super::as_regular;
    use crate::statements::tests::{tokens, written};

    #[test]
    fn patterns_become_regular_expressions() {
        for (sql, expect) in [
            ("SELECT s GLOB 'a*.b?'", r"SELECT s ~ '(?s)^a.*\.b.$'"),
            (
                "SELECT s NOT GLOB '[!a-c]*'",
                r"SELECT s  !~ '(?s)^[^a-c].*$'",
            ),
            ("SELECT s GLOB '[a'", r"SELECT s ~ '(?s)^\[a$'"),
            (
                "SELECT * LIKE 'a_%', b FROM t",
                "SELECT COLUMNS('^a..*$'), b FROM t",
            ),
            (
                "SELECT a, * ILIKE 'x%' FROM t",
                "SELECT a, COLUMNS('(?i)^x.*$') FROM t",
            ),
            (
                "SELECT * GLOB '*a' FROM t",
                "SELECT COLUMNS('^.*a$') FROM t",
            ),
            ("SELECT a * b LIKE 'x'", "SELECT a * b LIKE 'x'"),
            (
                "SELECT glob('x'), glob FROM t",
                "SELECT glob('x'), glob FROM t",
            ),
        ] {
            assert_eq!(written(&as_regular(tokens(sql))), expect);
        }
    }
}
