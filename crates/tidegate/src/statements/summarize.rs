//! `SUMMARIZE`, which is ours: DataFusion does not plan it.
//!
//! ```text
//! SUMMARIZE t
//! SUMMARIZE 'trips.parquet' WHERE distance > 3
//! SUMMARIZE SELECT a + b AS c FROM t
//! ```

use sqlparser::tokenizer::{Location, Token};

use super::explain::blanked_until;
use super::own::Words;
use super::{StatementError, syntax_error, tokenize};

/// Words that begin a query.
const QUERY_WORDS: [&str; 4] = ["SELECT", "WITH", "VALUES", "FROM"];

/// Returns the query whose columns are asked for; `None` if it is another statement.
///
/// A query keeps its lines and columns, for messages; of anything else all rows are selected.
pub(crate) fn summarized(sql: &str) -> Result<Option<String>, StatementError> {
    let (tokens, error) = match sql.trim_start().get(..1) {
        Some("s" | "S" | "/" | "-") => tokenize(sql),
        _ => return Ok(None),
    };
    let mut words = Words::new(tokens);
    if !words.takes("SUMMARIZE") {
        return Ok(None);
    }
    if let Some(error) = error {
        return Err(syntax_error(&error, Location::new(1, 1)));
    }
    let names_table = words.takes("TABLE");
    let begins_query = match words.peek() {
        None | Some(Token::SemiColon) => {
            return Err(words.expected("a table or a query"));
        }
        Some(Token::LParen) => true,
        Some(Token::Word(word)) if word.quote_style.is_none() => {
            let mut words = QUERY_WORDS.iter();
            words.any(|query| word.value.eq_ignore_ascii_case(query))
        }
        Some(_) => false,
    };
    let rest = blanked_until(sql, words.location());
    match begins_query && !names_table {
        true => Ok(Some(rest)),
        false => Ok(Some(format!("SELECT * FROM {}", rest.trim_start()))),
    }
}

#[cfg(test)]
mod tests {
    use super::summarized;

    #[test]
    fn tables_and_queries_are_told_apart() {
        for (sql, expect) in [
            ("SUMMARIZE t", Some("SELECT * FROM t")),
            (
                "summarize TABLE \"values\";",
                Some("SELECT * FROM \"values\";"),
            ),
            ("-- how\nSummarize 'a.csv'", Some("SELECT * FROM 'a.csv'")),
            (
                "SUMMARIZE s.t WHERE a > 1",
                Some("SELECT * FROM s.t WHERE a > 1"),
            ),
            ("SUMMARIZE SELECT 1", Some("          SELECT 1")),
            ("SUMMARIZE\n(VALUES (1))", Some("         \n(VALUES (1))")),
            (
                "SUMMARIZE with a AS (SELECT 1) TABLE a",
                Some("          with a AS (SELECT 1) TABLE a"),
            ),
            ("SELECT summarize FROM t", None),
            ("\"SUMMARIZE\" t", None),
            ("-- SUMMARIZE t", None),
            ("", None),
        ] {
            assert_eq!(summarized(sql).unwrap().as_deref(), expect, "{sql}");
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        for sql in ["SUMMARIZE", "SUMMARIZE ;", "SUMMARIZE TABLE"] {
            let error = summarized(sql).unwrap_err().to_string();
            assert!(
                error.contains("expected a table or a query, found"),
                "{error}"
            );
        }
        assert!(summarized("SUMMARIZE 'x").is_err());
    }
}
