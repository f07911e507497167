//! `FETCH FIRST n ROWS ONLY`, the limit of standard SQL.

use sqlparser::ast::{Expr, LimitClause, Query, Value};

use crate::error::{Error, ErrorKind};

/// Writes `FETCH FIRST n ROWS ONLY` as `LIMIT n`; without a number it is one row.
///
/// # Errors
/// [`ErrorKind::NotSupported`] for a share and for ties, [`ErrorKind::Sql`] beside a LIMIT.
pub(super) fn as_limit(query: &mut Query) -> Result<(), Error> {
    let Some(fetch) = query.fetch.take() else {
        return Ok(());
    };
    if fetch.with_ties {
        let message = "FETCH FIRST … WITH TIES is not supported: QUALIFY rank() OVER (ORDER BY x) <= n keeps ties";
        return Err(Error::new(ErrorKind::NotSupported, message));
    }
    if fetch.percent {
        let message = "FETCH FIRST … PERCENT is not supported: LIMIT 10% keeps a share of the rows";
        return Err(Error::new(ErrorKind::NotSupported, message));
    }
    let quantity = fetch.quantity.unwrap_or_else(one);
    match &mut query.limit_clause {
        None => {
            query.limit_clause = Some(LimitClause::LimitOffset {
                limit: Some(quantity),
                offset: None,
                limit_by: Vec::new(),
            });
            Ok(())
        }
        Some(LimitClause::LimitOffset {
            limit: limit @ None,
            ..
        }) => {
            *limit = Some(quantity);
            Ok(())
        }
        Some(_) => {
            let message = "LIMIT and FETCH FIRST say the same: leave one of them out";
            Err(Error::new(ErrorKind::Sql, message))
        }
    }
}

fn one() -> Expr {
    Expr::Value(Value::Number("1".into(), false).with_empty_span())
}

#[cfg(test)]
mod tests {
    use super::as_limit;
    use crate::statements::tests::query;

    fn written(sql: &str) -> Result<String, String> {
        let mut query = query(sql);
        let limited = as_limit(&mut query);
        limited.map_err(|error| error.to_string())?;
        Ok(query.to_string())
    }

    #[test]
    fn first_rows_are_a_limit() {
        for (sql, expect) in [
            (
                "SELECT a FROM t ORDER BY a FETCH FIRST 3 ROWS ONLY",
                "SELECT a FROM t ORDER BY a LIMIT 3",
            ),
            (
                "SELECT a FROM t FETCH NEXT ROW ONLY",
                "SELECT a FROM t LIMIT 1",
            ),
            (
                "SELECT a FROM t OFFSET 2 ROWS FETCH NEXT 3 ROWS ONLY",
                "SELECT a FROM t LIMIT 3 OFFSET 2 ROWS",
            ),
        ] {
            assert_eq!(written(sql).as_deref(), Ok(expect));
        }
    }

    #[test]
    fn ties_and_shares_are_refused() {
        for sql in [
            "SELECT a FROM t FETCH FIRST 3 ROWS WITH TIES",
            "SELECT a FROM t FETCH FIRST 3 PERCENT ROWS ONLY",
            "SELECT a FROM t LIMIT 2 FETCH FIRST 3 ROWS ONLY",
        ] {
            assert!(written(sql).is_err(), "{sql}");
        }
    }
}
