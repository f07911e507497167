//! `EXPLAIN (FORMAT CUDA) query`, which is ours: DataFusion knows no such format.
//!
//! ```text
//! EXPLAIN (FORMAT CUDA) query
//! EXPLAIN FORMAT CUDA query
//! ```

use sqlparser::tokenizer::{Location, Token};

use super::own::Words;
use super::{StatementError, syntax_error, tokenize};

/// Returns the query whose kernels are asked for; `None` if it is another statement.
///
/// What stands before the query is blanked out, so that it keeps its lines and columns in messages.
pub(crate) fn explained_kernels(sql: &str) -> Result<Option<String>, StatementError> {
    // Most statements begin otherwise; they are not cut into tokens for this.
    let (tokens, error) = match sql.trim_start().get(..1) {
        Some("e" | "E" | "/" | "-") => tokenize(sql),
        _ => return Ok(None),
    };
    let mut words = Words::new(tokens);
    if !words.takes("EXPLAIN") {
        return Ok(None);
    }
    let is_list = words.takes_token(&Token::LParen);
    if !words.takes("FORMAT") || !words.takes("CUDA") {
        return Ok(None);
    }
    if let Some(error) = error {
        return Err(syntax_error(&error, Location::new(1, 1)));
    }
    if is_list && !words.takes_token(&Token::RParen) {
        return Err(words.expected("')'"));
    }
    if matches!(words.peek(), None | Some(Token::SemiColon)) {
        return Err(words.expected("a query"));
    }
    Ok(Some(blanked_until(sql, words.location())))
}

/// Writes spaces for all that stands before a place.
pub(super) fn blanked_until(sql: &str, end: Location) -> String {
    let mut at = Location::new(1, 1);
    let mut text = String::with_capacity(sql.len());
    for c in sql.chars() {
        let is_before = (at.line, at.column) < (end.line, end.column);
        text.push(if is_before && c != '\n' { ' ' } else { c });
        at = match c {
            '\n' => Location::new(at.line + 1, 1),
            _ => Location::new(at.line, at.column + 1),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::explained_kernels;

    fn check(sql: &str, expect: Option<&str>) {
        let query = explained_kernels(sql).unwrap();
        assert_eq!(query.as_deref(), expect, "{sql}");
    }

    fn check_error(sql: &str, expect: &str) {
        let error = explained_kernels(sql).unwrap_err().to_string();
        assert!(error.contains(expect), "{sql}: {error}");
    }

    #[test]
    fn the_query_keeps_its_place() {
        check(
            "EXPLAIN (FORMAT CUDA) SELECT 1",
            Some("                      SELECT 1"),
        );
        check(
            "-- ö\nExplain(format\n/* x */ cuda)(SELECT 'ö;'); -- end",
            Some("    \n              \n             (SELECT 'ö;'); -- end"),
        );
        check(
            "explain format cuda WITH t AS (SELECT 1) TABLE t;",
            Some("                    WITH t AS (SELECT 1) TABLE t;"),
        );
    }

    #[test]
    fn other_statements_are_left_alone() {
        for sql in [
            "",
            "SELECT 1",
            "EXPLAIN",
            "EXPLAIN SELECT 1",
            "EXPLAIN FORMAT INDENT SELECT 1",
            "EXPLAIN (FORMAT TREE) SELECT 1",
            "EXPLAIN (ANALYZE, FORMAT CUDA) SELECT 1",
            "EXPLAIN (FORMAT \"CUDA\") SELECT 1",
            "EXPLAIN (SELECT format FROM cuda)",
            "EXPLAIN ANALYZE FORMAT CUDA SELECT 1",
            "EXECUTE explain(1)",
            "-- EXPLAIN (FORMAT CUDA) SELECT 1",
            "/* EXPLAIN (FORMAT CUDA) */ SELECT 1",
        ] {
            check(sql, None);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        check_error("EXPLAIN (FORMAT CUDA)", "expected a query, found nothing");
        check_error("EXPLAIN FORMAT CUDA ;", "expected a query, found ;");
        check_error(
            "EXPLAIN (FORMAT CUDA, ANALYZE) SELECT 1",
            "expected ')', found , at line 1, column 21",
        );
        check_error(
            "EXPLAIN (FORMAT CUDA SELECT 1",
            "expected ')', found SELECT",
        );
        check_error("EXPLAIN (FORMAT CUDA) SELECT 'x", "nterminated string");
    }
}
