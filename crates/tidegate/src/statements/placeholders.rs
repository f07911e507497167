//! Parameters written as `?`, in the order of the text, become `$1`, `$2`, …: DataFusion tells
//! parameters apart by their names. Parameters with a name may be replaced by literals.

use sqlparser::dialect::GenericDialect;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::walk::Walk;
use super::{StatementError, tokenize};

/// Numbers the parameters of a statement.
///
/// # Errors
/// Refuses a statement that has parameters of both kinds.
pub(super) fn number(tokens: &mut [TokenWithSpan]) -> Result<(), StatementError> {
    let is_unnumbered = |token: &TokenWithSpan| match &token.token {
        Token::Question => true,
        Token::Placeholder(name) => name == "?",
        _ => false,
    };
    let is_numbered = |token: &TokenWithSpan| matches!(&token.token, Token::Placeholder(name) if name.starts_with('$'));
    let first = tokens.iter().find(|token| is_unnumbered(token));
    if let Some(first) = first
        && tokens.iter().any(is_numbered)
    {
        return Err(StatementError::Syntax {
            message: "parameters are written as ? or as $1, not both in one statement".into(),
            line: first.span.start.line,
            column: first.span.start.column,
        });
    }
    let unnumbered = tokens.iter_mut().filter(|token| is_unnumbered(token));
    for (number, token) in (1..).zip(unnumbered) {
        token.token = Token::Placeholder(format!("${number}"));
    }
    Ok(())
}

/// Puts literals in the place of parameters such as `$day`, wherever `value_of` has one for the name.
/// Text that cannot be read stays as it is from the mistake on.
pub fn with_values<'v>(sql: &str, value_of: impl Fn(&str) -> Option<&'v str>) -> String {
    if !sql.contains('$') {
        return sql.to_string();
    }
    let (tokens, _) = tokenize(sql, &GenericDialect {});
    let mut text = String::with_capacity(sql.len() + 16);
    let mut walk = Walk::new(sql);
    let mut copied = 0;
    for token in &tokens {
        let Token::Placeholder(name) = &token.token else {
            continue;
        };
        let Some(value) = name.strip_prefix('$').and_then(&value_of) else {
            continue;
        };
        let start = walk.to(token.span.start);
        text.push_str(&sql[copied..start]);
        // A sign would belong to what stands before or behind.
        match value.starts_with(['-', '+']) {
            true => text.push_str(&format!("({value})")),
            false => text.push_str(value),
        }
        copied = start + name.len();
    }
    text.push_str(&sql[copied..]);
    text
}

#[cfg(test)]
mod tests {
    use super::{StatementError, Token, number, with_values};
    use crate::statements::tests::tokens;

    #[test]
    fn names_are_replaced_where_they_are_parameters() {
        let value_of = |name: &str| match name {
            "k" => Some("3"),
            "n" => Some("-4"),
            _ => None,
        };
        for (sql, expect) in [
            ("SELECT $k", "SELECT 3"),
            ("SELECT é, 1-$n,\n $k", "SELECT é, 1-(-4),\n 3"),
            (
                "SELECT '$k', \"$k\", $$k$$ -- $k",
                "SELECT '$k', \"$k\", $$k$$ -- $k",
            ),
            ("SELECT $1, $kk, $k::TEXT", "SELECT $1, $kk, 3::TEXT"),
            ("SELECT $k, '", "SELECT 3, '"),
        ] {
            assert_eq!(with_values(sql, value_of), expect);
        }
    }

    #[test]
    fn parameters_are_numbered_in_the_order_of_the_text() {
        let numbered = |sql: &str| {
            let mut tokens = tokens(sql);
            number(&mut tokens)?;
            let names = tokens.into_iter().filter_map(|token| match token.token {
                Token::Placeholder(name) => Some(name),
                _ => None,
            });
            Ok::<_, StatementError>(names.collect::<Vec<_>>())
        };
        for (sql, expect) in [
            ("SELECT 1", &[] as &[&str]),
            ("SELECT ?", &["$1"]),
            ("SELECT ? +\n  ?, '?', \"?\" -- ?\n, ?", &["$1", "$2", "$3"]),
            ("SELECT 'é', ?", &["$1"]),
            ("SELECT $1, '?'", &["$1"]),
            ("SELECT $2, $1", &["$2", "$1"]),
            ("INSERT INTO t VALUES (?,?)", &["$1", "$2"]),
        ] {
            assert_eq!(numbered(sql).unwrap(), expect, "{sql}");
        }
        assert!(numbered("SELECT ?, $1").is_err());
    }
}
