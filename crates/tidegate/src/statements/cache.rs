//! `CACHE TABLE` and `UNCACHE TABLE`, which are ours: DataFusion plans neither.
//!
//! ```text
//! CACHE TABLE name [(column, …)] ON (DEVICE | HOST)
//! UNCACHE TABLE name
//! ```

use sqlparser::tokenizer::{Location, Token};

use super::own::Words;
use super::{StatementError, syntax_error, tokenize};

/// One part of a name, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamePart {
    pub(crate) text: String,
    pub(crate) quoted: bool,
}

/// A statement about the column cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CacheStatement {
    /// Keep a table, or some of its columns.
    Cache {
        table: Vec<NamePart>,
        /// Empty for all.
        columns: Vec<NamePart>,
        tier: Tier,
    },
    /// Let it go.
    Uncache { table: Vec<NamePart> },
}

/// Where a table is to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tier {
    Device,
    Host,
}

/// Reads a statement about the column cache; `None` if it is another statement.
pub(crate) fn cache_statement(sql: &str) -> Result<Option<CacheStatement>, StatementError> {
    // Most statements begin otherwise; they are not cut into tokens for this.
    let (tokens, error) = match sql.trim_start().get(..1) {
        Some("c" | "C" | "u" | "U" | "/" | "-") => tokenize(sql),
        _ => return Ok(None),
    };
    let mut words = Words::new(tokens);
    let is_uncache = words.takes("UNCACHE");
    if !(is_uncache || words.takes("CACHE")) || !words.takes("TABLE") {
        return Ok(None);
    }
    if let Some(error) = error {
        return Err(syntax_error(&error, Location::new(1, 1)));
    }
    let table = words.name()?;
    let statement = if is_uncache {
        CacheStatement::Uncache { table }
    } else {
        let columns = words.columns()?;
        let tier = words.tier()?;
        CacheStatement::Cache {
            table,
            columns,
            tier,
        }
    };
    words.end()?;
    Ok(Some(statement))
}

impl Words {
    fn part(&mut self, what: &str) -> Result<NamePart, StatementError> {
        let Some(Token::Word(word)) = self.peek() else {
            return Err(self.expected(what));
        };
        let part = NamePart {
            text: word.value.clone(),
            quoted: word.quote_style.is_some(),
        };
        self.advance();
        Ok(part)
    }

    fn name(&mut self) -> Result<Vec<NamePart>, StatementError> {
        let mut parts = vec![self.part("a table's name")?];
        while self.takes_token(&Token::Period) {
            parts.push(self.part("a name after the dot")?);
        }
        Ok(parts)
    }

    fn columns(&mut self) -> Result<Vec<NamePart>, StatementError> {
        let mut columns = Vec::new();
        if !self.takes_token(&Token::LParen) {
            return Ok(columns);
        }
        loop {
            columns.push(self.part("a column's name")?);
            if self.takes_token(&Token::RParen) {
                return Ok(columns);
            }
            if !self.takes_token(&Token::Comma) {
                return Err(self.expected("',' or ')'"));
            }
        }
    }

    fn tier(&mut self) -> Result<Tier, StatementError> {
        if !self.takes("ON") {
            return Err(self.expected("ON DEVICE or ON HOST"));
        }
        if self.takes("DEVICE") {
            return Ok(Tier::Device);
        }
        if self.takes("HOST") {
            return Ok(Tier::Host);
        }
        Err(self.expected("DEVICE or HOST"))
    }
}

#[cfg(test)]
mod tests {
    use super::{CacheStatement, NamePart, Tier, cache_statement};

    fn part(text: &str) -> NamePart {
        NamePart {
            text: text.into(),
            quoted: false,
        }
    }

    fn quoted(text: &str) -> NamePart {
        NamePart {
            text: text.into(),
            quoted: true,
        }
    }

    fn check(sql: &str, expect: Option<CacheStatement>) {
        assert_eq!(cache_statement(sql).unwrap(), expect, "{sql}");
    }

    fn check_error(sql: &str, expect: &str) {
        let error = cache_statement(sql).unwrap_err().to_string();
        assert!(error.contains(expect), "{sql}: {error}");
    }

    #[test]
    fn statements_are_recognised_in_any_case() {
        let cache = |columns: &[&str], tier| {
            let columns = columns.iter().map(|column| part(column)).collect();
            Some(CacheStatement::Cache {
                table: vec![part("t")],
                columns,
                tier,
            })
        };
        check("CACHE TABLE t ON DEVICE", cache(&[], Tier::Device));
        check("cache table t on device;", cache(&[], Tier::Device));
        check("CACHE TABLE t ON HOST", cache(&[], Tier::Host));
        check(
            "-- keep it\n Cache /* this */ Table t (a,\n b) On Device",
            cache(&["a", "b"], Tier::Device),
        );
        let table = vec![part("c"), quoted("My Schema"), part("t")];
        check(
            "UNCACHE TABLE c.\"My Schema\".t",
            Some(CacheStatement::Uncache { table }),
        );
    }

    #[test]
    fn other_statements_are_left_alone() {
        for sql in [
            "SELECT 1",
            "",
            "CREATE TABLE cache(a INT)",
            "UPDATE t SET a = 1",
            "CACHE",
            "\"CACHE\" TABLE t ON DEVICE",
            "-- CACHE TABLE t ON DEVICE",
            "/* CACHE */ SELECT 1",
        ] {
            check(sql, None);
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        check_error("CACHE TABLE", "expected a table's name, found nothing");
        check_error(
            "CACHE TABLE 't' ON DEVICE",
            "expected a table's name, found 't'",
        );
        check_error(
            "CACHE TABLE t",
            "expected ON DEVICE or ON HOST, found nothing",
        );
        check_error(
            "CACHE TABLE t ON DISK",
            "expected DEVICE or HOST, found DISK",
        );
        check_error("CACHE TABLE t () ON DEVICE", "expected a column's name");
        check_error(
            "CACHE TABLE t (a b) ON DEVICE",
            "expected ',' or ')', found b",
        );
        check_error(
            "CACHE TABLE t ON DEVICE now",
            "the end of the statement, found now",
        );
        check_error(
            "UNCACHE TABLE t ON DEVICE",
            "the end of the statement, found ON",
        );
        check_error(
            "CACHE TABLE t. (a) ON DEVICE",
            "found ( at line 1, column 16",
        );
    }
}
