//! `LIMIT 10%`: a share of a query's rows, as in DuckDB, rounded down.
//!
//! The words become `LIMIT percent_of_rows(10)`, which the parser takes for a call. A query with that limit keeps the rows
//! whose number, in its order, is within the share: `QUALIFY row_number() OVER (ORDER BY …) <= count(*) OVER () * 10 / 100.0`.

use sqlparser::ast::{
    Distinct, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, LimitClause, OrderByExpr,
    OrderByKind, Query, Select, SelectItem, SetExpr, Statement, TableFactor, Value, WindowType,
};
use sqlparser::dialect::GenericDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::using::folded;
use super::words::{is_word, places, put};
use crate::error::{Error, ErrorKind};
use crate::functions::forms;

/// The function that stands for a share.
const SHARE: &str = "percent_of_rows";

/// Writes shares as calls.
pub(super) fn as_calls(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let is_limit = |token: &TokenWithSpan| is_word(&token.token, "LIMIT");
    if !tokens.iter().any(is_limit) {
        return tokens;
    }
    let words = places(&tokens);
    // From the end, so that places before stay.
    for at in (0..words.len().saturating_sub(2)).rev() {
        let [limit, number, sign] = [words[at], words[at + 1], words[at + 2]];
        let is_share = is_limit(&tokens[limit])
            && matches!(tokens[number].token, Token::Number(..))
            && (tokens[sign].token == Token::Mod || is_word(&tokens[sign].token, "PERCENT"))
            && ends(words.get(at + 3).map(|place| &tokens[*place].token));
        if !is_share {
            continue;
        }
        let written = [
            Token::make_word(SHARE, None),
            Token::LParen,
            tokens[number].token.clone(),
            Token::RParen,
        ];
        put(&mut tokens, number..sign + 1, written);
    }
    tokens
}

/// Tells whether a limit ends before a token, so that `%` is no operator.
fn ends(token: Option<&Token>) -> bool {
    match token {
        None | Some(Token::RParen | Token::SemiColon) => true,
        Some(Token::Word(word)) => word.quote_style.is_none() && word.keyword == Keyword::OFFSET,
        Some(_) => false,
    }
}

/// Has a query with a share for a limit keep as many rows.
///
/// # Errors
/// [`ErrorKind::Sql`] for a share that is none, and [`ErrorKind::NotSupported`] beside OFFSET and for an order by the places
/// of columns that are not known.
pub(super) fn limit(query: &mut Query) -> Result<(), Error> {
    let Some(LimitClause::LimitOffset {
        limit: Some(limit),
        offset,
        limit_by,
    }) = &query.limit_clause
    else {
        return Ok(());
    };
    let Some(share) = share_of(limit) else {
        return Ok(());
    };
    let is_within = |share: f64| (0.0..=100.0).contains(&share);
    if !share.parse::<f64>().is_ok_and(is_within) {
        let message = format!("LIMIT {share} %: it is not between 0 and 100 per cent");
        return Err(Error::new(ErrorKind::Sql, message));
    }
    if offset.is_some() || !limit_by.is_empty() || query.fetch.is_some() {
        return Err(not_supported(
            "OFFSET, FETCH and BY beside it are not supported: select from a subquery that has them",
        ));
    }
    let order = match query.order_by.as_ref().map(|order| &order.kind) {
        None => Vec::new(),
        Some(OrderByKind::Expressions(order)) => order.clone(),
        Some(OrderByKind::All(_)) => {
            return Err(not_supported(
                "ORDER BY ALL beside it is not supported: name the columns",
            ));
        }
    };
    if let SetExpr::Select(select) = query.body.as_ref()
        && matches!(select.distinct, Some(Distinct::On(_)))
    {
        return Err(not_supported(
            "DISTINCT ON beside it is not supported: select from a subquery that has it",
        ));
    }
    let is_whole = |select: &Select| select.distinct.is_none() && select.qualify.is_none();
    if !matches!(query.body.as_ref(), SetExpr::Select(select) if is_whole(select)) {
        enclose(query)?;
    }
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.qualify = Some(condition(&share, of_columns(order, &select.projection)?)?);
        query.limit_clause = None;
    }
    Ok(())
}

/// Returns the number of `percent_of_rows(number)`.
fn share_of(limit: &Expr) -> Option<String> {
    let Expr::Function(call) = limit else {
        return None;
    };
    if forms::name_of(call).as_deref() != Some(SHARE) {
        return None;
    }
    let FunctionArguments::List(list) = &call.args else {
        return None;
    };
    match list.args.as_slice() {
        [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value)))] => match &value.value {
            Value::Number(number, _) => Some(number.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Makes a query that selects all of what it was, in the same order.
fn enclose(query: &mut Query) -> Result<(), Error> {
    let mut outer = parsed("SELECT * FROM (SELECT 1)")?;
    if let SetExpr::Select(select) = outer.body.as_mut()
        && let Some(table) = select.from.first_mut()
        && let TableFactor::Derived { subquery, .. } = &mut table.relation
    {
        std::mem::swap(&mut subquery.body, &mut query.body);
        std::mem::swap(&mut outer.body, &mut query.body);
    }
    Ok(())
}

/// Writes an order by the expressions of a select list, where it has their places or names.
fn of_columns(
    mut order: Vec<OrderByExpr>,
    projection: &[SelectItem],
) -> Result<Vec<OrderByExpr>, Error> {
    let is_star = |item: &SelectItem| {
        !matches!(
            item,
            SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. }
        )
    };
    for by in &mut order {
        let found = match &by.expr {
            Expr::Value(value) => match &value.value {
                Value::Number(place, _) => {
                    let place = place.parse::<usize>().ok();
                    let place = place.and_then(|place| place.checked_sub(1));
                    if projection.is_empty() || projection.iter().any(is_star) {
                        return Err(not_supported(
                            "ORDER BY the place of a column of * beside it is not supported: name the column",
                        ));
                    }
                    place.and_then(|place| projection.get(place))
                }
                _ => None,
            },
            Expr::Identifier(name) => projection.iter().find(|item| {
                matches!(item, SelectItem::ExprWithAlias { alias, .. }
                    if folded(alias) == folded(name))
            }),
            _ => None,
        };
        if let Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = found
        {
            by.expr = Expr::Nested(Box::new(expr.clone()));
        }
    }
    Ok(order)
}

/// Returns the condition that a row is within the share.
fn condition(share: &str, order: Vec<OrderByExpr>) -> Result<Expr, Error> {
    let text = format!(
        "SELECT 1 FROM t QUALIFY row_number() OVER () <= count(*) OVER () * {share} / 100.0"
    );
    let mut query = parsed(&text)?;
    let SetExpr::Select(select) = query.body.as_mut() else {
        return Err(not_supported("it cannot be written out"));
    };
    let Some(mut condition) = select.qualify.take() else {
        return Err(not_supported("it cannot be written out"));
    };
    if let Expr::BinaryOp { left, .. } = &mut condition
        && let Expr::Function(call) = left.as_mut()
        && let Some(WindowType::WindowSpec(window)) = &mut call.over
    {
        window.order_by = order;
    }
    Ok(condition)
}

/// Reads a query of ours.
fn parsed(text: &str) -> Result<Box<Query>, Error> {
    let statements = Parser::parse_sql(&GenericDialect {}, text);
    match statements.ok().and_then(|mut statements| statements.pop()) {
        Some(Statement::Query(query)) => Ok(query),
        _ => Err(not_supported("it cannot be written out")),
    }
}

fn not_supported(why: &str) -> Error {
    Error::new(ErrorKind::NotSupported, format!("LIMIT of a share: {why}"))
}

#[cfg(test)]
mod tests {
    use sqlparser::ast::Statement;
    use sqlparser::dialect::GenericDialect;
    use sqlparser::parser::Parser;

    use super::{as_calls, limit};
    use crate::statements::tests::tokens;

    fn written(sql: &str) -> Result<String, String> {
        let parser = Parser::new(&GenericDialect {});
        let mut parser = parser.with_tokens_with_locations(as_calls(tokens(sql)));
        let Ok(Statement::Query(mut query)) = parser.parse_statement() else {
            panic!("{sql} is no query");
        };
        let limited = limit(&mut query);
        limited.map_err(|error| error.to_string())?;
        Ok(query.to_string())
    }

    #[test]
    fn a_share_is_a_condition_on_the_number_of_a_row() {
        for (sql, expect) in [
            (
                "SELECT a FROM t LIMIT 50%",
                "SELECT a FROM t QUALIFY row_number() OVER () <= count(*) OVER () * 50 / 100.0",
            ),
            (
                "SELECT a, b + 1 AS c FROM t ORDER BY 1 DESC, c, d LIMIT 2.5 PERCENT",
                "SELECT a, b + 1 AS c FROM t QUALIFY row_number() OVER (ORDER BY (a) DESC, (b + 1), d) <= \
                 count(*) OVER () * 2.5 / 100.0 ORDER BY 1 DESC, c, d",
            ),
            (
                "SELECT DISTINCT a FROM t ORDER BY a LIMIT 50%",
                "SELECT * FROM (SELECT DISTINCT a FROM t) QUALIFY row_number() OVER (ORDER BY a) <= \
                 count(*) OVER () * 50 / 100.0 ORDER BY a",
            ),
            ("SELECT a FROM t LIMIT 7 % 5", "SELECT a FROM t LIMIT 7 % 5"),
            ("SELECT a FROM t LIMIT 7", "SELECT a FROM t LIMIT 7"),
        ] {
            assert_eq!(written(sql).as_deref(), Ok(expect));
        }
    }

    #[test]
    fn what_a_share_does_not_go_with_is_refused() {
        for sql in [
            "SELECT a FROM t LIMIT 101%",
            "SELECT a FROM t LIMIT 50% OFFSET 1",
            "SELECT * FROM t ORDER BY 1 LIMIT 50%",
            "SELECT DISTINCT ON (a) a, b FROM t ORDER BY a, b LIMIT 50%",
        ] {
            assert!(written(sql).is_err(), "{sql}");
        }
    }
}
