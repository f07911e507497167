//! `similar_to_escape(pattern, escape)`: the regular expression of a pattern of SIMILAR TO, as PostgreSQL's function.
//!
//! `x SIMILAR TO p` is `x ~ similar_to_escape(p)`: the pattern has to match all of the text, `%` stands for any
//! characters and `_` for one, and `| * + ? {n} ( ) [ ]` mean what they mean in regular expressions.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_REGEX;

use super::plain::{self, Parts};

/// The name of the function.
pub(crate) const NAME: &str = "similar_to_escape";

/// What makes the next character stand for itself, unless another one is given.
const ESCAPE: char = '\\';

/// Returns the function.
pub(crate) fn function() -> ScalarUDF {
    plain::function(Parts {
        names: &[NAME],
        section: DOC_SECTION_REGEX,
        description: "Returns the regular expression of a pattern of SIMILAR TO.",
        syntax: "similar_to_escape(pattern[, escape])",
        takes: |given| match given {
            [_] | [_, _] => Ok(given.to_vec()),
            _ => plan_err!("{NAME} takes a pattern and an escape character"),
        },
        returns: |_| DataType::Utf8,
        computes: expressions,
    })
}

fn expressions(given: &[ArrayRef]) -> Result<ArrayRef> {
    let given = given.iter().map(|array| cast(array, &DataType::Utf8));
    let given = given.collect::<std::result::Result<Vec<_>, _>>()?;
    let (patterns, escapes) = match given.as_slice() {
        [patterns] => (patterns.as_string::<i32>(), None),
        [patterns, escapes] => (
            patterns.as_string::<i32>(),
            Some(escapes.as_string::<i32>()),
        ),
        _ => return exec_err!("{NAME} takes a pattern and an escape character"),
    };
    let expressions = (0..patterns.len()).map(|row| {
        let escape = match escapes {
            None => Some(ESCAPE),
            Some(escapes) if escapes.is_null(row) => return Ok(None),
            Some(escapes) => one_character(escapes.value(row))?,
        };
        let pattern = patterns.is_valid(row).then(|| patterns.value(row));
        Ok(pattern.map(|pattern| expression(pattern, escape)))
    });
    let expressions = expressions.collect::<Result<StringArray>>()?;
    Ok(Arc::new(expressions))
}

/// Returns the escape character; `None` where the text is empty, and nothing escapes.
fn one_character(text: &str) -> Result<Option<char>> {
    let mut characters = text.chars();
    match (characters.next(), characters.next()) {
        (escape, None) => Ok(escape),
        _ => exec_err!("the ESCAPE of SIMILAR TO is one character or none, not '{text}'"),
    }
}

fn expression(pattern: &str, escape: Option<char>) -> String {
    let mut expression = String::from("(?s)^(?:");
    let mut characters = pattern.chars();
    let mut is_class = false;
    while let Some(character) = characters.next() {
        match character {
            _ if Some(character) == escape => {
                let escaped = characters.next().unwrap_or(character);
                expression.push_str(&regex::escape(&escaped.to_string()));
            }
            '\\' => expression.push_str(r"\\"),
            ']' => {
                is_class = false;
                expression.push(']');
            }
            // An operator of classes of regular expressions.
            '[' | '&' | '~' if is_class => expression.extend(['\\', character]),
            _ if is_class => expression.push(character),
            '[' => {
                is_class = true;
                expression.push('[');
            }
            '%' => expression.push_str(".*"),
            '_' => expression.push('.'),
            '(' => expression.push_str("(?:"),
            '.' | '^' | '$' => expression.extend(['\\', character]),
            other => expression.push(other),
        }
    }
    expression.push_str(")$");
    expression
}

#[cfg(test)]
mod tests {
    use super::expression;

    #[test]
    fn patterns_are_regular_expressions_of_the_whole_text() {
        for (pattern, wanted) in [
            ("", "(?s)^(?:)$"),
            ("a%_", "(?s)^(?:a.*.)$"),
            ("a.b^$", r"(?s)^(?:a\.b\^\$)$"),
            ("(a|b)+", "(?s)^(?:(?:a|b)+)$"),
            (r"\%\\", r"(?s)^(?:%\\)$"),
            ("[^a%_(.&&]", r"(?s)^(?:[^a%_(.\&\&])$"),
        ] {
            assert_eq!(expression(pattern, Some('\\')), wanted, "{pattern}");
        }
        assert_eq!(expression(r"\d#%", Some('#')), r"(?s)^(?:\\d%)$");
        assert_eq!(expression(r"\%", None), r"(?s)^(?:\\.*)$");
    }
}
