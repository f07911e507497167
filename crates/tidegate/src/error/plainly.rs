//! What DataFusion says in the terms of its own parts, said in those of SQL. Each sentence here says all that there is to say.

use datafusion::error::DataFusionError;

use super::ErrorKind;
use super::wording::{in_sql, plain};

/// Returns what is said instead of an error's text; `None` of any other error.
pub(super) fn plainly(error: &DataFusionError) -> Option<(ErrorKind, String)> {
    let said = said_plainly(&plain(error))?;
    let kind = match error.find_root() {
        DataFusionError::NotImplemented(_) => ErrorKind::NotSupported,
        _ => ErrorKind::Sql,
    };
    Some((kind, said))
}

fn said_plainly(text: &str) -> Option<String> {
    let after = |beginning: &str| text.strip_prefix(beginning);
    if let Some(rest) = after("Cannot create filter with non-boolean predicate '") {
        let (predicate, data_type) = rest.rsplit_once("' returning ")?;
        let (predicate, data_type) = (in_sql(predicate), in_sql(data_type));
        let predicate = without_path(&predicate);
        return Some(format!(
            "WHERE takes a condition, and {predicate} is {data_type}"
        ));
    }
    if let Some(rest) = after("There isn't a common type to coerce ") {
        let (types, operator) = rest.rsplit_once(" in ")?;
        let (left, right) = types.split_once(" and ")?;
        let operator = operator.strip_suffix(" expression")?;
        let (left, right) = (in_sql(left), in_sql(right));
        return Some(format!("{operator} does not compare {left} with {right}"));
    }
    if let Some(rest) = after("Cannot coerce arithmetic expression ") {
        let operation = rest.strip_suffix(" to valid types")?;
        return Some(format!("no operator computes {}", in_sql(operation)));
    }
    if let Some(rest) = after("Cannot get result type for temporal operation ") {
        let operation = rest.split(": Invalid").next()?;
        return Some(format!("no operator computes {}", in_sql(operation)));
    }
    if let Some(rest) = after("Cannot automatically convert ") {
        let (from, to) = rest.split_once(" to ")?;
        return Some(format!(
            "{} cannot be taken for {}",
            in_sql(from),
            in_sql(to)
        ));
    }
    if let Some(rest) = after("Cannot access field at argument ") {
        let (_, rest) = rest.split_once(": type ")?;
        let data_type = rest.strip_suffix(" is not Struct, Map, or Null")?;
        return Some(format!(
            "{} has no fields: structs and maps have",
            in_sql(data_type)
        ));
    }
    if let Some(rest) = after("Field ") {
        let field = rest.strip_suffix(" not found in struct")?;
        return Some(format!("the struct has no field {field}"));
    }
    if text.starts_with("Substring without for/from") {
        return Some(
            "substring takes a string and where the part begins: substr(s, 2), or substr(s, 2, 3) for 3 characters"
                .to_string(),
        );
    }
    if text.starts_with("Inserting into a ListingTable backed by a single file") {
        return Some(
            "rows are not added to a file: CREATE TABLE t AS SELECT * FROM 'x.csv', INSERT INTO t, and COPY t TO 'y.csv', \
             which is another file"
                .to_string(),
        );
    }
    if text.starts_with("'' is not a variable") {
        return Some(
            "SHOW takes the name of a setting: DESCRIBE 'x.csv' lists the columns of a file"
                .to_string(),
        );
    }
    pattern(text)
}

/// Says what is wrong with a regular expression.
fn pattern(text: &str) -> Option<String> {
    if let Some((_, rest)) = text.split_once("regex parse error: ") {
        let (shown, why) = rest.split_once(" error: ")?;
        let shown = shown.trim_end_matches(['^', ' ']);
        // SIMILAR TO is written as one.
        let own = shown.strip_prefix("(?s)^(?:");
        let shown = own.map_or(shown, |own| own.strip_suffix(")$").unwrap_or(own));
        let why = why.split(" ~~~").next().unwrap_or(why);
        return Some(format!("'{shown}' is no pattern: {why}"));
    }
    let shown = text.strip_prefix("Regular expression did not compile: ")?;
    Some(format!("'{shown}' is no pattern"))
}

/// Returns a column's name without the path of its file.
pub(crate) fn without_path(column: &str) -> &str {
    match column.contains('/') && !column.contains(['(', ' ', '\'', '"']) {
        true => column.rsplit('.').next().unwrap_or(column),
        false => column,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::error::DataFusionError;

    use super::{plainly, said_plainly};

    #[test]
    fn what_is_said_of_parts_is_said_of_sql() {
        for (given, expect) in [
            (
                "Cannot create filter with non-boolean predicate 'Utf8(\"x\")' returning Utf8",
                "WHERE takes a condition, and 'x' is VARCHAR",
            ),
            (
                "Cannot create filter with non-boolean predicate 'd/x.csv.zip' returning BIGINT",
                "WHERE takes a condition, and zip is BIGINT",
            ),
            (
                "There isn't a common type to coerce Float64 and Int64 in LIKE expression",
                "LIKE does not compare DOUBLE with BIGINT",
            ),
            (
                "Cannot coerce arithmetic expression Timestamp(ns) + Int64 to valid types",
                "no operator computes TIMESTAMP + BIGINT",
            ),
            (
                "Cannot get result type for temporal operation Timestamp(ns) + Timestamp(ns): Invalid argument error: x",
                "no operator computes TIMESTAMP + TIMESTAMP",
            ),
            (
                "Cannot access field at argument 1: type Utf8 is not Struct, Map, or Null",
                "VARCHAR has no fields: structs and maps have",
            ),
            ("Field b not found in struct", "the struct has no field b"),
            (
                "regex parse error: ( ^ error: unclosed group",
                "'(' is no pattern: unclosed group",
            ),
            (
                "Regular expression did not compile: Syntax( ~~~ regex parse error: (?s)^(?:[)$ ^ error: unclosed class ~~~ )",
                "'[' is no pattern: unclosed class",
            ),
            ("Regular expression did not compile: (", "'(' is no pattern"),
        ] {
            assert_eq!(said_plainly(given).as_deref(), Some(expect), "{given}");
        }
        assert_eq!(said_plainly("Field of dreams"), None);
        let error = DataFusionError::Plan("another mistake".into());
        assert!(plainly(&error).is_none());
    }
}
