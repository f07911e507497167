//! Number literals with underscores, and text that runs into a number.
//!
//! `1_000` is 1000, as in SQL:2023. The tokenizer of the generic dialect ends the number at the
//! underscore, and the parser takes the rest for a column's name: `1 AS _000`. Any other word that
//! touches a number (`0b101`, `123abc`) would be read in the same way, and is an error.

use std::borrow::Cow;

use sqlparser::tokenizer::{Location, Token};

use super::{StatementError, syntax_error, tokenize};

/// Writes number literals without underscores.
///
/// # Errors
/// [`StatementError::Syntax`] for a number that a word follows without a space.
pub(crate) fn plain_numbers(sql: &str) -> Result<Cow<'_, str>, StatementError> {
    if !may_touch(sql) {
        return Ok(Cow::Borrowed(sql));
    }
    let (tokens, error) = tokenize(sql);
    if let Some(error) = error {
        return Err(syntax_error(&error, Location::new(1, 1)));
    }
    let touching = tokens.windows(2).filter_map(|pair| {
        let [number, word] = pair else { return None };
        let touches = matches!(number.token, Token::Number(..))
            && matches!(&word.token, Token::Word(word) if word.quote_style.is_none())
            && number.span.end == word.span.start;
        touches.then_some(number.span.start)
    });
    let mut starts = touching.peekable();
    if starts.peek().is_none() {
        return Ok(Cow::Borrowed(sql));
    }
    let mut plain = String::with_capacity(sql.len());
    let (mut at, mut skipped) = (Location::new(1, 1), 0_usize);
    for (offset, c) in sql.char_indices() {
        // A later part of a literal that was copied as a whole is no start of another.
        while starts.next_if(|start| *start < at).is_some() {}
        if skipped == 0 && starts.next_if_eq(&at).is_some() {
            let literal = literal(&sql[offset..]);
            let Some(digits) = without_underscores(literal) else {
                return Err(StatementError::Syntax {
                    message: format!(
                        "'{literal}' is not a number: separate the number from what follows it"
                    ),
                    line: at.line,
                    column: at.column,
                });
            };
            plain.push_str(&digits);
            skipped = literal.len();
        }
        match skipped {
            0 => plain.push(c),
            _ => skipped = skipped.saturating_sub(c.len_utf8()),
        }
        at = match c {
            '\n' => Location::new(at.line + 1, 1),
            _ => Location::new(at.line, at.column + 1),
        };
    }
    Ok(Cow::Owned(plain))
}

/// Tells whether a letter or underscore follows a digit anywhere, in strings and names too.
fn may_touch(sql: &str) -> bool {
    let bytes = sql.as_bytes();
    let is_word = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_' || byte >= 0x80;
    bytes
        .windows(2)
        .any(|pair| (pair[0].is_ascii_digit() || pair[0] == b'.') && is_word(pair[1]))
}

/// Returns the characters at the start of `text` that can belong to one number or the word behind it.
fn literal(text: &str) -> &str {
    let mut previous = ' ';
    let end = text.find(|c: char| {
        let belongs = c.is_alphanumeric()
            || c == '_'
            || c == '.'
            || ((c == '+' || c == '-') && matches!(previous, 'e' | 'E'));
        previous = c;
        !belongs
    });
    &text[..end.unwrap_or(text.len())]
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
    use super::plain_numbers;

    #[track_caller]
    fn becomes(sql: &str, plain: &str) {
        assert_eq!(plain_numbers(sql).unwrap(), plain);
    }

    #[track_caller]
    fn is_refused(sql: &str, literal: &str) {
        let error = plain_numbers(sql).unwrap_err().to_string();
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
    fn words_that_touch_a_number_are_refused() {
        is_refused("SELECT 0b101", "0b101");
        is_refused("SELECT 123abc", "123abc");
        is_refused("SELECT 1__0", "1__0");
        is_refused("SELECT 1_", "1_");
        is_refused("SELECT 1_000 , 0o17", "0o17");
    }
}
