//! Parameters written as `?`, in the order of the text, become `$1`, `$2`, …: DataFusion tells
//! parameters apart by their names. Parameters with a name may be replaced by literals.

use std::borrow::Cow;

use sqlparser::tokenizer::{Location, Token};

use super::{StatementError, syntax_error, tokenize};

/// Numbers the parameters of a statement.
///
/// # Errors
/// Refuses a statement that has parameters of both kinds.
pub(crate) fn number_placeholders(sql: &str) -> Result<Cow<'_, str>, StatementError> {
    if !sql.contains('?') {
        return Ok(Cow::Borrowed(sql));
    }
    let (tokens, error) = tokenize(sql);
    if let Some(error) = error {
        return Err(syntax_error(&error, Location::new(1, 1)));
    }
    let is_unnumbered = |token: &Token| match token {
        Token::Question => true,
        Token::Placeholder(name) => name == "?",
        _ => false,
    };
    let mut places = tokens
        .iter()
        .filter(|token| is_unnumbered(&token.token))
        .map(|token| token.span.start)
        .peekable();
    let Some(first) = places.peek().copied() else {
        return Ok(Cow::Borrowed(sql));
    };
    let is_numbered =
        |token: &Token| matches!(token, Token::Placeholder(name) if name.starts_with('$'));
    if tokens.iter().any(|token| is_numbered(&token.token)) {
        return Err(StatementError::Syntax {
            message: "parameters are written as ? or as $1, not both in one statement".into(),
            line: first.line,
            column: first.column,
        });
    }
    let mut numbered = String::with_capacity(sql.len() + 16);
    let (mut at, mut count) = (Location::new(1, 1), 0_usize);
    for c in sql.chars() {
        if c == '?' && places.next_if_eq(&at).is_some() {
            count += 1;
            numbered.push_str(&format!("${count}"));
        } else {
            numbered.push(c);
        }
        at = match c {
            '\n' => Location::new(at.line + 1, 1),
            _ => Location::new(at.line, at.column + 1),
        };
    }
    Ok(Cow::Owned(numbered))
}

/// Puts literals in the place of parameters such as `$day`, wherever `value_of` has one for the name.
/// Text that cannot be read stays as it is from the mistake on.
pub fn with_values<'v>(sql: &str, value_of: impl Fn(&str) -> Option<&'v str>) -> String {
    if !sql.contains('$') {
        return sql.to_string();
    }
    let (tokens, _) = tokenize(sql);
    let named = |token: &Token| match token {
        Token::Placeholder(name) => {
            let value = name.strip_prefix('$').and_then(&value_of)?;
            Some((name.chars().count(), value))
        }
        _ => None,
    };
    let named = tokens
        .iter()
        .filter_map(|token| Some((token.span.start, named(&token.token)?)));
    let mut named = named.peekable();
    let mut text = String::with_capacity(sql.len() + 16);
    let (mut at, mut skipped) = (Location::new(1, 1), 0_usize);
    for c in sql.chars() {
        if let Some((_, (length, value))) = named.next_if(|(place, _)| *place == at) {
            // A sign would belong to what stands before or behind.
            match value.starts_with(['-', '+']) {
                true => text.push_str(&format!("({value})")),
                false => text.push_str(value),
            }
            skipped = length;
        }
        match skipped {
            0 => text.push(c),
            _ => skipped -= 1,
        }
        at = match c {
            '\n' => Location::new(at.line + 1, 1),
            _ => Location::new(at.line, at.column + 1),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{number_placeholders, with_values};

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
        for (sql, expect) in [
            ("SELECT 1", "SELECT 1"),
            ("SELECT ?", "SELECT $1"),
            (
                "SELECT ? +\n  ?, '?', \"?\" -- ?\n, ?",
                "SELECT $1 +\n  $2, '?', \"?\" -- ?\n, $3",
            ),
            ("SELECT 'é', ?", "SELECT 'é', $1"),
            ("SELECT $1, '?'", "SELECT $1, '?'"),
            ("INSERT INTO t VALUES (?,?)", "INSERT INTO t VALUES ($1,$2)"),
        ] {
            assert_eq!(number_placeholders(sql).unwrap(), expect);
        }
        assert!(number_placeholders("SELECT ?, $1").is_err());
        assert!(number_placeholders("SELECT ? '").is_err());
    }
}
