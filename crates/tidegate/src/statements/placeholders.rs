//! Parameters written as `?`, in the order of the text, become `$1`, `$2`, …: DataFusion tells
//! parameters apart by their names. Parameters with a name may be replaced by literals; those of `PREPARE` are numbered
//! in the order in which they come first, and `EXECUTE` gives values to their names.

use std::collections::hash_map::{Entry, HashMap};

use sqlparser::dialect::GenericDialect;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::walk::Walk;
use super::words::is_word;
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

/// Lists the names of the parameters of a `PREPARE` statement, as they are numbered.
pub(super) fn names(tokens: &[TokenWithSpan]) -> Vec<String> {
    let is_space = |token: &&TokenWithSpan| matches!(token.token, Token::Whitespace(_));
    let first = tokens.iter().find(|token| !is_space(token));
    if !first.is_some_and(|first| is_word(&first.token, "PREPARE")) {
        return Vec::new();
    }
    let mut names = Vec::new();
    let mut numbers = HashMap::new();
    for name in tokens.iter().filter_map(name_of) {
        if let Entry::Vacant(free) = numbers.entry(name.clone()) {
            free.insert(());
            names.push(name);
        }
    }
    names
}

/// Numbers the parameters of a statement that have names.
///
/// # Errors
/// Refuses a statement that has parameters with numbers, too.
pub(super) fn number_names(tokens: &mut [TokenWithSpan]) -> Result<(), StatementError> {
    let mut numbers: HashMap<String, usize> = HashMap::new();
    let mut numbered = None;
    for token in tokens.iter_mut() {
        if let Some(name) = name_of(token) {
            let next = numbers.len() + 1;
            let number = *numbers.entry(name).or_insert(next);
            token.token = Token::Placeholder(format!("${number}"));
        } else if matches!(token.token, Token::Placeholder(_)) {
            numbered = numbered.or(Some(token.span.start));
        }
    }
    match numbered {
        Some(at) if !numbers.is_empty() => Err(StatementError::Syntax {
            message: "parameters are written as $1 or as $name, not both in one statement".into(),
            line: at.line,
            column: at.column,
        }),
        _ => Ok(()),
    }
}

/// Returns the name, in small letters, of a parameter such as `$day`.
fn name_of(token: &TokenWithSpan) -> Option<String> {
    let Token::Placeholder(text) = &token.token else {
        return None;
    };
    let name = text.strip_prefix('$')?;
    let is_number = name.bytes().all(|byte| byte.is_ascii_digit());
    (!is_number).then(|| name.to_lowercase())
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
    use super::{StatementError, Token, names, number, number_names, with_values};
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

    #[test]
    fn names_of_prepared_statements_are_numbered() {
        let sql = "PREPARE p AS SELECT $b, $A, $b || '$c'";
        let mut tokens = tokens(sql);
        assert_eq!(names(&tokens), ["b", "a"]);
        number_names(&mut tokens).unwrap();
        let numbers = tokens.iter().filter_map(|token| match &token.token {
            Token::Placeholder(name) => Some(name.as_str()),
            _ => None,
        });
        assert_eq!(numbers.collect::<Vec<_>>(), ["$1", "$2", "$1"]);
        assert!(names(&super::super::tests::tokens("SELECT $a")).is_empty());
        assert!(number_names(&mut super::super::tests::tokens("SELECT $a, $1")).is_err());
    }
}
