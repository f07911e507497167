//! `regexp_replace(s, pattern, replacement)`, whose replacement is written as in PostgreSQL: `\1` to `\9` are groups of
//! the match, `\0` and `\&` all of it, and `\\` is a backslash.
//!
//! DataFusion's function expands `$name` as well, and reads all digits behind a backslash as one number. It is handed
//! replacements in which everything else is escaped.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{ColumnarValue, ScalarUDF};

use super::with_arguments;

/// Returns the function, made of the one that is registered.
///
/// # Errors
/// Those of a registry that has not the functions of DataFusion.
pub(super) fn function(registry: &dyn FunctionRegistry) -> Result<ScalarUDF> {
    with_arguments::function(registry, "regexp_replace", write_replacement)
}

fn write_replacement(args: &mut [ColumnarValue]) -> Result<()> {
    if let Some(replacement) = args.get_mut(2) {
        *replacement = match &*replacement {
            ColumnarValue::Scalar(text) => of_one(text)?.into(),
            ColumnarValue::Array(texts) => ColumnarValue::Array(of_each(texts)?),
        };
    }
    Ok(())
}

fn of_one(text: &ScalarValue) -> Result<ScalarValue> {
    match text.try_as_str().flatten() {
        Some(written) => ScalarValue::from(expanded(written)).cast_to(&text.data_type()),
        None => Ok(text.clone()),
    }
}

fn of_each(texts: &ArrayRef) -> Result<ArrayRef> {
    let views = cast(texts, &DataType::Utf8View)?;
    let written = views.as_string_view().iter();
    let written: StringViewArray = written.map(|text| text.map(expanded)).collect();
    Ok(cast(&written, texts.data_type())?)
}

/// Writes a replacement as DataFusion's function reads it.
fn expanded(replacement: &str) -> String {
    let mut written = String::with_capacity(replacement.len() + 8);
    let mut rest = replacement.chars().peekable();
    while let Some(letter) = rest.next() {
        match letter {
            '$' => written.push_str("$$"),
            '\\' => match rest.peek().copied() {
                Some('&') => {
                    rest.next();
                    written.push_str("${0}");
                }
                Some(group) if group.is_ascii_digit() => {
                    rest.next();
                    written.extend(['$', '{', group, '}']);
                }
                behind => {
                    written.push('\\');
                    if behind == Some('\\') {
                        rest.next();
                    }
                    // A backslash before a digit would be a group. One without a name, of which there is none, is
                    // nothing.
                    if rest.peek().is_some_and(char::is_ascii_digit) {
                        written.push_str("${}");
                    }
                }
            },
            letter => written.push(letter),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::expanded;

    #[test]
    fn only_groups_are_expanded() {
        for (replacement, expect) in [
            ("$5", "$$5"),
            ("$$", "$$$$"),
            ("${a}", "$${a}"),
            (r"\1", "${1}"),
            (r"\10", "${1}0"),
            (r"<\0\&>", "<${0}${0}>"),
            (r"\\", r"\"),
            (r"\\1", r"\${}1"),
            (r"\x\", r"\x\"),
            (r"\$1", r"\$$1"),
            ("a b", "a b"),
        ] {
            assert_eq!(expanded(replacement), expect, "{replacement}");
        }
    }
}
