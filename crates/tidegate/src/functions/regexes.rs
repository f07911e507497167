//! `regexp_extract`, `regexp_extract_all`, `regexp_split_to_array` and `regexp_escape`, as DuckDB has them.
//!
//! A pattern is compiled once for as many rows as follow each other with it, and never larger than
//! [`COMPILED_BYTES_MAX`]. A match is found in linear time, whatever the pattern.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, ListBuilder, StringViewArray, StringViewBuilder,
};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::common::{exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_REGEX;
use regex::{Regex, RegexBuilder};

use super::plain::{self, Parts};
use crate::error::{Error, ErrorKind};

/// The most bytes that a compiled pattern may take.
const COMPILED_BYTES_MAX: usize = 4 << 20;

/// Returns the functions of a string, a pattern, the number of a group (but for a split) and options, and the one that makes a
/// pattern of a string.
pub(crate) fn functions() -> [ScalarUDF; 4] {
    let extract = Parts {
        names: &["regexp_extract"],
        section: DOC_SECTION_REGEX,
        description: "Returns the first match of a pattern, or a group of it.",
        syntax: "regexp_extract(s, pattern[, group][, options])",
        takes: |given| Kind::Extract.takes(given),
        returns: |_| DataType::Utf8View,
        computes: |given| evaluate(Kind::Extract, given),
    };
    let extract_all = Parts {
        names: &["regexp_extract_all"],
        section: DOC_SECTION_REGEX,
        description: "Returns all matches of a pattern, or a group of each.",
        syntax: "regexp_extract_all(s, pattern[, group][, options])",
        takes: |given| Kind::ExtractAll.takes(given),
        returns: |_| list_of_texts(),
        computes: |given| evaluate(Kind::ExtractAll, given),
    };
    let split = Parts {
        names: &[
            "regexp_split_to_array",
            "string_split_regex",
            "str_split_regex",
        ],
        section: DOC_SECTION_REGEX,
        description: "Returns what stands between the matches of a pattern.",
        syntax: "regexp_split_to_array(s, pattern[, options])",
        takes: |given| Kind::Split.takes(given),
        returns: |_| list_of_texts(),
        computes: |given| evaluate(Kind::Split, given),
    };
    let escape = Parts {
        names: &["regexp_escape"],
        section: DOC_SECTION_REGEX,
        description: "Returns the pattern that a string alone matches.",
        syntax: "regexp_escape(s)",
        takes: |given| match given {
            [of] if of.is_string() || of.is_null() => Ok(vec![DataType::Utf8View]),
            _ => plan_err!("regexp_escape takes a string"),
        },
        returns: |_| DataType::Utf8View,
        computes: |given| match given {
            [texts] => {
                let texts = texts.as_string_view().iter();
                let escaped = texts.map(|text| text.map(escaped));
                Ok(Arc::new(StringViewArray::from_iter(escaped)))
            }
            _ => exec_err!("regexp_escape takes a string"),
        },
    };
    [extract, extract_all, split, escape].map(plain::function)
}

/// Writes a backslash before all that may have a meaning in a pattern; before `<` and `>` it would give them one.
fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(2 * text.len());
    for letter in text.chars() {
        match letter {
            '\0' => pattern.push_str("\\x00"),
            '_' | '<' | '>' => pattern.push(letter),
            letter if letter.is_ascii() && !letter.is_ascii_alphanumeric() => {
                pattern.push('\\');
                pattern.push(letter);
            }
            letter => pattern.push(letter),
        }
    }
    pattern
}

fn list_of_texts() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Utf8View, true)))
}

/// What a function gives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The first match, or a group of it; empty if there is none.
    Extract,
    /// All matches, or a group of each.
    ExtractAll,
    /// What stands between the matches.
    Split,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Extract => "regexp_extract",
            Self::ExtractAll => "regexp_extract_all",
            Self::Split => "regexp_split_to_array",
        }
    }

    fn takes(self, types: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name();
        let is_text = |given: &DataType| given.is_string() || given.is_null();
        let [text, pattern, rest @ ..] = types else {
            return plan_err!("{name} takes a string and a pattern");
        };
        if !is_text(text) || !is_text(pattern) {
            return plan_err!(
                "{name} takes a string and a pattern, and was given {text} and {pattern}"
            );
        }
        let mut coerced = vec![DataType::Utf8View; 2];
        let options = match (self, rest) {
            (Self::Split, rest) => rest,
            (_, [group, rest @ ..]) if group.is_integer() || group.is_null() => {
                coerced.push(DataType::Int64);
                rest
            }
            (_, rest) => rest,
        };
        match options {
            [] => {}
            [options] if is_text(options) => coerced.push(DataType::Utf8View),
            _ if self == Self::Split => {
                return plan_err!("{name} takes a string, a pattern and options such as 'i'");
            }
            _ => {
                return plan_err!(
                    "{name} takes a string, a pattern, the number of a group and options such as 'i'"
                );
            }
        }
        Ok(coerced)
    }
}

/// The arguments of each row.
struct Rows<'a> {
    name: &'a str,
    text: &'a StringViewArray,
    pattern: &'a StringViewArray,
    group: Option<&'a ArrayRef>,
    options: Option<&'a ArrayRef>,
}

/// A pattern that is compiled, and what it was compiled of.
struct Compiled {
    pattern: String,
    options: String,
    regex: Regex,
}

impl Rows<'_> {
    /// Returns a row's text, pattern and group; `None` if one of them is NULL.
    fn at<'a>(
        &'a self,
        row: usize,
        last: &'a mut Option<Compiled>,
    ) -> Result<Option<(&'a str, &'a Regex, usize)>> {
        let others = [self.group, self.options];
        let is_null = |array: &&ArrayRef| array.is_null(row);
        if self.text.is_null(row)
            || self.pattern.is_null(row)
            || others.iter().flatten().any(is_null)
        {
            return Ok(None);
        }
        let pattern = self.pattern.value(row);
        let options = self.options.map(|array| array.as_string_view().value(row));
        let options = options.unwrap_or_default();
        let group = self
            .group
            .map(|array| array.as_primitive::<Int64Type>().value(row));
        let is_last = |known: &Compiled| known.pattern == pattern && known.options == options;
        if !last.as_ref().is_some_and(is_last) {
            *last = Some(Compiled {
                pattern: pattern.to_string(),
                options: options.to_string(),
                regex: compile(self.name, pattern, options)?,
            });
        }
        let Some(Compiled { regex, .. }) = last else {
            return Ok(None);
        };
        let group = group.unwrap_or_default();
        match usize::try_from(group)
            .ok()
            .filter(|group| *group < regex.captures_len())
        {
            Some(group) => Ok(Some((self.text.value(row), regex, group))),
            None => {
                let groups = regex.captures_len() - 1;
                let message = format!(
                    "{}: there is no group {group} in '{pattern}', which has {groups}; 0 is the whole match",
                    self.name
                );
                Err(Error::new(ErrorKind::Sql, message).into())
            }
        }
    }
}

fn compile(name: &str, pattern: &str, options: &str) -> Result<Regex> {
    let mut builder = RegexBuilder::new(pattern);
    builder.size_limit(COMPILED_BYTES_MAX);
    for option in options.chars() {
        match option {
            'i' => builder.case_insensitive(true),
            'c' => builder.case_insensitive(false),
            's' => builder.dot_matches_new_line(true),
            'm' | 'n' | 'p' => builder.multi_line(true),
            // What it would say is said by the function's name.
            'g' => &mut builder,
            other => {
                let message = format!(
                    "{name}: '{other}' is no option: use i (any case), c (exact case), s (. matches a newline), m \
                     (^ and $ match at lines)"
                );
                return Err(Error::new(ErrorKind::Sql, message).into());
            }
        };
    }
    builder.build().map_err(|error| {
        let message = format!("{name}: '{pattern}' is no pattern: {error}");
        Error::with_source(ErrorKind::Sql, message, error).into()
    })
}

fn evaluate(kind: Kind, given: &[ArrayRef]) -> Result<ArrayRef> {
    let [text, pattern, rest @ ..] = given else {
        return exec_err!("{} takes a string and a pattern", kind.name());
    };
    let rows = Rows {
        name: kind.name(),
        text: text.as_string_view(),
        pattern: pattern.as_string_view(),
        group: rest
            .iter()
            .find(|array| array.data_type() == &DataType::Int64),
        options: rest
            .iter()
            .find(|array| array.data_type() == &DataType::Utf8View),
    };
    let mut last = None;
    if kind == Kind::Extract {
        let mut values = StringViewBuilder::with_capacity(rows.text.len());
        for row in 0..rows.text.len() {
            let found = rows.at(row, &mut last)?.map(|(text, regex, group)| {
                let captures = regex.captures(text);
                let group = captures.and_then(|captures| captures.get(group));
                group.map_or("", |found| found.as_str())
            });
            values.append_option(found);
        }
        return Ok(Arc::new(values.finish()));
    }
    let mut lists = ListBuilder::new(StringViewBuilder::new());
    for row in 0..rows.text.len() {
        let list: Option<Vec<&str>> =
            rows.at(row, &mut last)?
                .map(|(text, regex, group)| match kind {
                    Kind::Split => regex.split(text).collect(),
                    _ => {
                        let all = regex.captures_iter(text);
                        all.map(|captures| captures.get(group).map_or("", |found| found.as_str()))
                            .collect()
                    }
                });
        lists.append_option(list.map(|list| list.into_iter().map(Some)));
    }
    Ok(Arc::new(lists.finish()))
}
