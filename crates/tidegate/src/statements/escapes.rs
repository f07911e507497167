//! `LIKE … ESCAPE '!'`: patterns whose escape character is not the backslash, as in standard SQL.
//!
//! The planner knows the backslash alone, so the pattern is written with it: `'a!%b\'` becomes `'a\%b\\'`. That takes a
//! pattern that is a string. `ESCAPE ''` is no escape character at all, as in PostgreSQL.

use sqlparser::ast::{Expr, Value, ValueWithSpan};

use crate::error::{Error, ErrorKind};

/// The characters that stand for others in a pattern.
const SPECIAL: [char; 2] = ['%', '_'];

const BACKSLASH: char = '\\';

/// Writes the pattern of `LIKE` and `ILIKE` with backslashes.
///
/// # Errors
/// [`ErrorKind::Sql`] if a pattern ends with its escape character, or if that is more than one character.
pub(super) fn bind(expr: &mut Expr) -> Result<(), Error> {
    let (Expr::Like {
        pattern,
        escape_char,
        ..
    }
    | Expr::ILike {
        pattern,
        escape_char,
        ..
    }) = expr
    else {
        return Ok(());
    };
    let Some(escape) = escape_char.as_ref().and_then(text_of) else {
        return Ok(());
    };
    let mut characters = escape.chars();
    let escape = match (characters.next(), characters.next()) {
        (Some(BACKSLASH), None) => return Ok(()),
        (escape, None) => escape,
        _ => {
            let message = format!(
                "ESCAPE '{escape}': an escape character is one character, as in ESCAPE '!'"
            );
            return Err(Error::new(ErrorKind::Sql, message));
        }
    };
    let Expr::Value(value) = pattern.as_mut() else {
        return Ok(());
    };
    let Some(text) = text_of(value) else {
        return Ok(());
    };
    value.value = Value::SingleQuotedString(with_backslashes(text, escape)?);
    *escape_char = None;
    Ok(())
}

fn text_of(value: &ValueWithSpan) -> Option<&str> {
    match &value.value {
        Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => Some(text),
        _ => None,
    }
}

fn with_backslashes(pattern: &str, escape: Option<char>) -> Result<String, Error> {
    let mut written = String::with_capacity(pattern.len() + 2);
    let mut characters = pattern.chars();
    while let Some(next) = characters.next() {
        let is_escaped = Some(next) == escape;
        let meant = if is_escaped {
            characters.next()
        } else {
            Some(next)
        };
        let Some(meant) = meant else {
            let message = format!(
                "the pattern '{pattern}' ends with its escape character {next}: write it twice"
            );
            return Err(Error::new(ErrorKind::Sql, message));
        };
        if meant == BACKSLASH || (is_escaped && SPECIAL.contains(&meant)) {
            written.push(BACKSLASH);
        }
        written.push(meant);
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::bind;
    use crate::statements::tests::expr;

    fn written(sql: &str) -> Result<String, String> {
        let mut expr = expr(sql);
        let bound = bind(&mut expr);
        bound.map_err(|error| error.to_string())?;
        Ok(expr.to_string())
    }

    #[test]
    fn patterns_are_escaped_with_backslashes() {
        for (sql, expect) in [
            ("a LIKE 'a!%c' ESCAPE '!'", r"a LIKE 'a\%c'"),
            ("a NOT ILIKE '!_!!!x_' ESCAPE '!'", r"a NOT ILIKE '\_!x_'"),
            (r"a LIKE 'a\%' ESCAPE '#'", r"a LIKE 'a\\%'"),
            (r"a LIKE '#\' ESCAPE '#'", r"a LIKE '\\'"),
            ("a LIKE 'x%%y%_' ESCAPE '%'", r"a LIKE 'x\%y\_'"),
            (r"a LIKE '\%' ESCAPE ''", r"a LIKE '\\%'"),
            (r"a LIKE 'a\%' ESCAPE '\'", r"a LIKE 'a\%' ESCAPE '\'"),
            ("a LIKE b ESCAPE '!'", "a LIKE b ESCAPE '!'"),
        ] {
            assert_eq!(written(sql).as_deref(), Ok(expect));
        }
    }

    #[test]
    fn an_escape_character_escapes_another_character() {
        for sql in ["a LIKE 'a!' ESCAPE '!'", "a LIKE 'a' ESCAPE 'ab'"] {
            assert!(written(sql).is_err(), "{sql}");
        }
    }
}
