//! `/*+ placement(device) */`: a comment with settings for the statement that it stands in.
//!
//! To other engines it is a comment. It may stand wherever a comment may, by custom behind SELECT, and
//! holds names with values in parentheses; a value with a parenthesis in it is quoted.

use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::StatementError;

/// A setting for one statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hint {
    /// The name, as it was written.
    pub(crate) name: String,
    /// The value, without quotes.
    pub(crate) value: String,
}

/// Reads the hints of a statement, in their order.
///
/// # Errors
/// [`StatementError::Syntax`] for what is no name with a value in parentheses.
pub(super) fn hints(tokens: &[TokenWithSpan]) -> Result<Vec<Hint>, StatementError> {
    let mut hints = Vec::new();
    for token in tokens {
        let Token::Whitespace(Whitespace::MultiLineComment(comment)) = &token.token else {
            continue;
        };
        let Some(text) = comment.strip_prefix('+') else {
            continue;
        };
        read(text, &mut hints).map_err(|message| StatementError::Syntax {
            message,
            line: token.span.start.line,
            column: token.span.start.column,
        })?;
    }
    Ok(hints)
}

fn read(text: &str, hints: &mut Vec<Hint>) -> Result<(), String> {
    let mut rest = next(text);
    while !rest.is_empty() {
        let is_of_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let end = rest.find(|c| !is_of_name(c)).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(end);
        if name.is_empty() {
            return Err(format!(
                "a hint is a name with a value, as in placement(device), not '{}'",
                rest.trim_end()
            ));
        }
        let value = behind.trim_start().strip_prefix('(');
        let value =
            value.ok_or_else(|| format!("hint {name} has no value: write {name}(value)"))?;
        let open = || format!("the value of hint {name} does not end: write {name}(value)");
        let (value, behind) = match value.trim_start().strip_prefix('\'') {
            Some(quoted) => quoted.split_once('\'').ok_or_else(open)?,
            None => value.split_at(value.find(')').ok_or_else(open)?),
        };
        hints.push(Hint {
            name: name.to_owned(),
            value: value.trim().to_owned(),
        });
        rest = next(behind.trim_start().strip_prefix(')').ok_or_else(open)?);
    }
    Ok(())
}

/// Moves over what may stand between hints.
fn next(text: &str) -> &str {
    text.trim_start_matches(|c: char| c.is_whitespace() || c == ',')
}

#[cfg(test)]
mod tests {
    use super::hints;
    use crate::statements::tests::tokens;

    fn told(sql: &str) -> Vec<(String, String)> {
        let hints = hints(&tokens(sql)).unwrap().into_iter();
        hints.map(|hint| (hint.name, hint.value)).collect()
    }

    #[test]
    fn hints_are_names_with_values() {
        let of = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            let owned = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
            pairs.iter().map(owned).collect()
        };
        let placed = of(&[("placement", "device")]);
        for sql in [
            "SELECT /*+ placement(device) */ 1",
            "/*+placement ( 'device' )*/ SELECT 1",
            "SELECT 1 /*+ , placement(device), */",
        ] {
            assert_eq!(told(sql), placed, "{sql}");
        }
        let several =
            "SELECT /*+ Devices(host, device:0)\nmorsel_rows(10) */ 1 /*+ x('a)b') y() */";
        let expected = [
            ("Devices", "host, device:0"),
            ("morsel_rows", "10"),
            ("x", "a)b"),
            ("y", ""),
        ];
        assert_eq!(told(several), of(&expected));
        for sql in [
            "SELECT 1",
            "SELECT '/*+ placement(device) */'",
            "SELECT 1 -- /*+ placement(device) */",
            "SELECT /* + placement(device) */ 1",
            "SELECT /*+ */ 1",
            "SELECT \"/*+ a(b) */\"",
        ] {
            assert_eq!(told(sql), [], "{sql}");
        }
    }

    #[test]
    fn what_is_no_hint_is_refused() {
        for (hint, why) in [
            (
                "placement",
                "hint placement has no value: write placement(value)",
            ),
            ("placement = device", "hint placement has no value"),
            (
                "placement(device",
                "the value of hint placement does not end",
            ),
            ("placement('device)", "does not end"),
            ("placement('a' b)", "does not end"),
            ("(device)", "a hint is a name with a value"),
            ("placement(device) ;", "not ';'"),
        ] {
            let error = hints(&tokens(&format!("SELECT\n  /*+ {hint} */ 1"))).unwrap_err();
            let message = error.to_string();
            assert!(message.contains(why), "{hint}: {message}");
            assert!(message.contains("line 2, column 3"), "{message}");
        }
    }
}
