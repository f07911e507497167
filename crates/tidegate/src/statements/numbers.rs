//! Number literals with underscores, text that runs into a number, and `**`, which is `^`.
//!
//! `1_000` is 1000, as in SQL:2023. The tokenizer of the generic dialect ends the number at the
//! underscore, and the parser takes the rest for a column's name: `1 AS _000`. Any other word that
//! touches a number (`0b101`, `123abc`) would be read in the same way, and is an error.

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::StatementError;

/// Makes one token of each number that is written with underscores.
///
/// # Errors
/// [`StatementError::Syntax`] for a number that a word follows without a space.
pub(super) fn joined_numbers(
    tokens: Vec<TokenWithSpan>,
) -> Result<Vec<TokenWithSpan>, StatementError> {
    let is_apart = |pair: &[TokenWithSpan]| !touch(&pair[0], &pair[1]);
    if tokens.windows(2).all(is_apart) {
        return Ok(tokens);
    }
    let mut joined = Vec::with_capacity(tokens.len());
    let mut rest = tokens.into_iter().peekable();
    while let Some(mut token) = rest.next() {
        if rest.peek().is_some_and(|next| touch(&token, next)) {
            let at = token.span.start;
            let mut literal = token.token.to_string();
            while let Some(next) = rest.next_if(|next| goes_on(&literal, &token, next)) {
                literal.push_str(&next.token.to_string());
                token.span.end = next.span.end;
            }
            let Some(digits) = without_underscores(&literal) else {
                return Err(StatementError::Syntax {
                    message: format!(
                        "'{literal}' is not a number: separate the number from what follows it"
                    ),
                    line: at.line,
                    column: at.column,
                });
            };
            token.token = Token::Number(digits, false);
        }
        joined.push(token);
    }
    Ok(joined)
}

/// Makes one `^` of each `**`, which has no token of its own.
pub(super) fn joined_powers(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_power = |pair: &[TokenWithSpan]| {
        let are_stars = pair.iter().all(|token| token.token == Token::Mul);
        are_stars && pair[0].span.end == pair[1].span.start
    };
    if !tokens.windows(2).any(is_power) {
        return tokens;
    }
    let mut joined: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    for token in tokens {
        let is_second = token.token == Token::Mul
            && joined
                .last()
                .is_some_and(|last| last.token == Token::Mul && last.span.end == token.span.start);
        match joined.last_mut().filter(|_| is_second) {
            Some(first) => {
                first.token = Token::Caret;
                first.span.end = token.span.end;
            }
            None => joined.push(token),
        }
    }
    joined
}

/// Tells whether a word follows a number without a space.
fn touch(number: &TokenWithSpan, word: &TokenWithSpan) -> bool {
    matches!(number.token, Token::Number(..))
        && is_word(&word.token)
        && number.span.end == word.span.start
}

fn is_word(token: &Token) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none())
}

/// Tells whether a token belongs to the number, or the word behind it, that has come so far.
fn goes_on(literal: &str, so_far: &TokenWithSpan, next: &TokenWithSpan) -> bool {
    let may_belong = match &next.token {
        Token::Number(..) | Token::Period => true,
        Token::Plus | Token::Minus => literal.ends_with(['e', 'E']),
        token => is_word(token),
    };
    may_belong && so_far.span.end == next.span.start
}

/// Returns a number without its underscores; `None` if it is no number, or an underscore does not
/// stand between two digits.
fn without_underscores(literal: &str) -> Option<String> {
    let mut digits = String::with_capacity(literal.len());
    let mut previous = None;
    let mut rest = literal.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '_' {
            let between = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
            if !between(previous) || !between(rest.peek().copied()) {
                return None;
            }
        } else {
            digits.push(c);
        }
        previous = Some(c);
    }
    let is_plain = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-');
    (digits.chars().all(is_plain) && digits.parse::<f64>().is_ok()).then_some(digits)
}

#[cfg(test)]
mod tests {
    use super::{joined_numbers, joined_powers};
    use crate::statements::tests::{tokens, written};

    #[track_caller]
    fn becomes(sql: &str, plain: &str) {
        let joined = joined_numbers(tokens(sql)).unwrap();
        assert_eq!(written(&joined), written(&tokens(plain)));
    }

    #[track_caller]
    fn is_refused(sql: &str, literal: &str) {
        let error = joined_numbers(tokens(sql)).unwrap_err().to_string();
        assert!(error.contains(&format!("'{literal}'")), "{error}");
    }

    #[test]
    fn underscores_between_digits_are_left_out() {
        becomes("SELECT 1_000", "SELECT 1000");
        becomes("SELECT 1_000_000+2_0,\n 3_3", "SELECT 1000000+20,\n 33");
        becomes(
            "SELECT 1_0.2_5, 1_0e1_0, -1_2.5e-1_0",
            "SELECT 10.25, 10e10, -12.5e-10",
        );
        becomes(
            "SELECT 1_000 AS _000 FROM t_1",
            "SELECT 1000 AS _000 FROM t_1",
        );
        becomes("SELECT 'ä', 1_0 -- ü\n, 2_0", "SELECT 'ä', 10 -- ü\n, 20");
    }

    #[test]
    fn other_text_stays() {
        for sql in [
            "SELECT '1_000', \"1_000\", t1_0, $1_a, 1 AS _0, 1.5e3, 0x1F, 1.0",
            "SELECT a.b1_0 FROM 'x/1_0.csv' -- 1_0",
            "SELECT $$1_0$$ /* 1_0 */",
        ] {
            becomes(sql, sql);
        }
    }

    #[test]
    fn two_stars_are_a_power() {
        let joined = joined_powers(tokens("2 ** 3, count(*), 2 * *"));
        assert_eq!(written(&joined), "2 ^ 3, count(*), 2 * *");
    }

    #[test]
    fn words_that_touch_a_number_are_refused() {
        is_refused("SELECT 0b101", "0b101");
        is_refused("SELECT 123abc", "123abc");
        is_refused("SELECT 1__0", "1__0");
        is_refused("SELECT 1_", "1_");
        is_refused("SELECT 1_000 , 0o17", "0o17");
    }
}
