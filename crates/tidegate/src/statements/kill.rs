//! `KILL QUERY id`, which is ours: DataFusion does not plan it.

use sqlparser::tokenizer::{Location, Token};

use super::own::Words;
use super::{StatementError, syntax_error, tokenize};

/// Reads `KILL [QUERY] id`; `None` if it is another statement.
pub(crate) fn killed_query(sql: &str) -> Result<Option<u64>, StatementError> {
    let (tokens, error) = match sql.trim_start().get(..1) {
        Some("k" | "K" | "/" | "-") => tokenize(sql),
        _ => return Ok(None),
    };
    let mut words = Words::new(tokens);
    if !words.takes("KILL") {
        return Ok(None);
    }
    if let Some(error) = error {
        return Err(syntax_error(&error, Location::new(1, 1)));
    }
    words.takes("QUERY");
    let id = match words.peek() {
        Some(Token::Number(digits, _)) => digits.parse().ok(),
        _ => None,
    };
    let Some(id) = id else {
        return Err(words.expected("the query_id of system.queries"));
    };
    words.advance();
    words.end()?;
    Ok(Some(id))
}

#[cfg(test)]
mod tests {
    use super::killed_query;

    #[test]
    fn queries_are_named_by_their_number() {
        for sql in ["KILL QUERY 17", "kill 17;", "-- stop\nKill Query 17"] {
            assert_eq!(killed_query(sql).unwrap(), Some(17), "{sql}");
        }
        for sql in ["SELECT 1", "", "\"KILL\" 1", "-- KILL 1"] {
            assert_eq!(killed_query(sql).unwrap(), None, "{sql}");
        }
        for sql in ["KILL", "KILL QUERY", "KILL QUERY x", "KILL 1.5", "KILL 1 2"] {
            assert!(killed_query(sql).is_err(), "{sql}");
        }
    }
}
