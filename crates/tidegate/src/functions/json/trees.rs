//! Whole values of JSON: `json_contains(a, b)`, `json_merge_patch(a, b, …)`, `json_pretty(a)`, and what the type of one is.
//!
//! A value stays text, and is taken apart level by level, so that names keep their order and numbers their digits.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringViewArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_STRING;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::super::plain::{self, Parts};
use super::walk::malformed;
use crate::error::Error;

/// Spaces of a level of `json_pretty`.
const INDENT: usize = 4;

pub(super) fn functions() -> [ScalarUDF; 3] {
    let contains = Parts {
        names: &["json_contains"],
        section: DOC_SECTION_STRING,
        description: "Tells whether a value of JSON is another, or holds it at any depth.",
        syntax: "json_contains(json, part)",
        takes: |given| strings("json_contains", given, 2..=2),
        returns: |_| DataType::Boolean,
        computes: |given| {
            let [all, parts] = given else {
                return internal_err!("json_contains of {} arguments", given.len());
            };
            let pairs = all.as_string_view().iter().zip(parts.as_string_view());
            let found = pairs.map(|pair| -> Result<Option<bool>, Error> {
                match pair {
                    (Some(all), Some(part)) => Ok(Some(holds(whole(all)?, whole(part)?)?)),
                    _ => Ok(None),
                }
            });
            Ok(Arc::new(found.collect::<Result<BooleanArray, Error>>()?))
        },
    };
    let merge = Parts {
        names: &["json_merge_patch"],
        section: DOC_SECTION_STRING,
        description: "Changes an object of JSON by others (RFC 7396): a null removes a name.",
        syntax: "json_merge_patch(json, patch)",
        takes: |given| strings("json_merge_patch", given, 2..=usize::MAX),
        returns: |_| DataType::Utf8View,
        computes: merged,
    };
    let pretty = Parts {
        names: &["json_pretty"],
        section: DOC_SECTION_STRING,
        description: "Writes JSON with a line for each value.",
        syntax: "json_pretty(json)",
        takes: |given| strings("json_pretty", given, 1..=1),
        returns: |_| DataType::Utf8View,
        computes: |given| {
            let [values] = given else {
                return internal_err!("json_pretty of {} arguments", given.len());
            };
            let values = values.as_string_view().iter();
            let written = values.map(|value| value.map(in_lines).transpose());
            let written = written.collect::<Result<Vec<_>, Error>>()?;
            Ok(Arc::new(StringViewArray::from_iter(written)))
        },
    };
    [contains, merge, pretty].map(plain::function)
}

fn strings(
    name: &str,
    given: &[DataType],
    count: std::ops::RangeInclusive<usize>,
) -> Result<Vec<DataType>> {
    let are_strings = given.iter().all(|of| of.is_string() || of.is_null());
    match are_strings && count.contains(&given.len()) {
        true => Ok(vec![DataType::Utf8View; given.len()]),
        false => plan_err!("{name} takes strings of JSON"),
    }
}

/// Returns what DuckDB calls the type of a value.
pub(super) fn type_of(value: &str) -> &'static str {
    match value.as_bytes().first() {
        Some(b'{') => "OBJECT",
        Some(b'[') => "ARRAY",
        Some(b'"') => "VARCHAR",
        Some(b't' | b'f') => "BOOLEAN",
        Some(b'n') | None => "NULL",
        Some(_) if value.parse::<u64>().is_ok() => "UBIGINT",
        Some(_) if value.parse::<i64>().is_ok() => "BIGINT",
        Some(_) => "DOUBLE",
    }
}

fn in_lines(value: &str) -> Result<String, Error> {
    let mut text = String::new();
    write(whole(value)?, Some(0), &mut text)?;
    Ok(text)
}

fn merged(given: &[ArrayRef]) -> Result<ArrayRef> {
    let Some((first, patches)) = given.split_first() else {
        return internal_err!("json_merge_patch of no arguments");
    };
    let mut made = Vec::with_capacity(first.len());
    for (row, value) in first.as_string_view().iter().enumerate() {
        let mut value = value.map(str::to_string);
        for patch in patches {
            let patch = patch.as_string_view();
            value = match (value, patch.is_null(row)) {
                (Some(value), false) => {
                    let value = whole(&value)?;
                    let mut text = String::new();
                    merge(Some(value), whole(patch.value(row))?, &mut text)?;
                    Some(text)
                }
                _ => None,
            };
        }
        made.push(value);
    }
    Ok(Arc::new(StringViewArray::from_iter(made)))
}

/// Returns a value without space around it.
pub(super) fn whole(json: &str) -> Result<&str, Error> {
    let value: &RawValue = serde_json::from_str(json).map_err(|error| malformed(json, &error))?;
    Ok(value.get())
}

/// The names and values of an object, in their order.
struct Members<'a>(Vec<(String, &'a str)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    members.push((name, value.get()));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

/// Returns the names and values of an object; `None` of anything else.
pub(crate) fn members(value: &str) -> Result<Option<Vec<(String, &str)>>, Error> {
    if !value.starts_with('{') {
        return Ok(None);
    }
    let Members(members) = serde_json::from_str(value).map_err(|error| malformed(value, &error))?;
    Ok(Some(members))
}

/// Returns the values of an array; `None` of anything else.
pub(crate) fn elements(value: &str) -> Result<Option<Vec<&str>>, Error> {
    if !value.starts_with('[') {
        return Ok(None);
    }
    let elements: Vec<&RawValue> =
        serde_json::from_str(value).map_err(|error| malformed(value, &error))?;
    Ok(Some(elements.into_iter().map(RawValue::get).collect()))
}

/// Tells whether a value covers another, or one within it does.
fn holds(all: &str, part: &str) -> Result<bool, Error> {
    if covers(all, part)? {
        return Ok(true);
    }
    let within: Vec<&str> = match members(all)? {
        Some(members) => members.into_iter().map(|(_, value)| value).collect(),
        None => elements(all)?.unwrap_or_default(),
    };
    for value in within {
        if holds(value, part)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Tells whether an object has the members of another, an array the values of another, or two values are the same.
fn covers(all: &str, part: &str) -> Result<bool, Error> {
    if let (Some(all), Some(part)) = (members(all)?, members(part)?) {
        for (name, value) in part {
            let known = all.iter().find(|(known, _)| *known == name);
            match known {
                Some((_, known)) if covers(known, value)? => {}
                _ => return Ok(false),
            }
        }
        return Ok(true);
    }
    if let (Some(all), Some(part)) = (elements(all)?, elements(part)?) {
        for value in part {
            let mut is_there = false;
            for known in &all {
                is_there = is_there || covers(known, value)?;
            }
            if !is_there {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    let is_text = |value: &str| value.starts_with('"');
    Ok(match is_text(all) && is_text(part) {
        true => text_of(all)? == text_of(part)?,
        false => all == part,
    })
}

fn text_of(value: &str) -> Result<String, Error> {
    serde_json::from_str(value).map_err(|error| malformed(value, &error))
}

/// Writes a value that is changed by a patch.
fn merge(value: Option<&str>, patch: &str, text: &mut String) -> Result<(), Error> {
    let Some(changes) = members(patch)? else {
        return write(patch, None, text);
    };
    let known = value.map(members).transpose()?.flatten();
    let known = known.unwrap_or_default();
    text.push('{');
    let mut is_first = true;
    let mut name_of = |name: &str, text: &mut String| {
        if !std::mem::replace(&mut is_first, false) {
            text.push(',');
        }
        write_name(name, text);
        text.push(':');
    };
    for (name, value) in &known {
        match changes.iter().rev().find(|(changed, _)| changed == name) {
            Some((_, "null")) => {}
            Some((_, change)) => {
                name_of(name, text);
                merge(Some(*value), change, text)?;
            }
            None => {
                name_of(name, text);
                write(value, None, text)?;
            }
        }
    }
    for (name, change) in &changes {
        let is_known = known.iter().any(|(known, _)| known == name);
        if !is_known && *change != "null" {
            name_of(name, text);
            merge(None, change, text)?;
        }
    }
    text.push('}');
    Ok(())
}

fn write_name(name: &str, text: &mut String) {
    text.push_str(&serde_json::Value::from(name).to_string());
}

/// Writes a value, in lines from a level on, or without space.
pub(super) fn write(value: &str, level: Option<usize>, text: &mut String) -> Result<(), Error> {
    let (open, close) = match value.as_bytes().first() {
        Some(b'{') => ('{', '}'),
        Some(b'[') => ('[', ']'),
        _ => {
            text.push_str(value);
            return Ok(());
        }
    };
    let within: Vec<(Option<String>, &str)> = match members(value)? {
        Some(members) => members
            .into_iter()
            .map(|(name, value)| (Some(name), value))
            .collect(),
        None => elements(value)?
            .unwrap_or_default()
            .into_iter()
            .map(|value| (None, value))
            .collect(),
    };
    let line = |level: usize, text: &mut String| {
        text.push('\n');
        text.extend(std::iter::repeat_n(' ', level * INDENT));
    };
    text.push(open);
    for (place, (name, value)) in within.iter().enumerate() {
        if place > 0 {
            text.push(',');
        }
        if let Some(level) = level {
            line(level + 1, text);
        }
        if let Some(name) = name {
            write_name(name, text);
            text.push_str(if level.is_some() { ": " } else { ":" });
        }
        write(value, level.map(|level| level + 1), text)?;
    }
    if let Some(level) = level.filter(|_| !within.is_empty()) {
        line(level, text);
    }
    text.push(close);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{holds, merge, type_of, write};

    #[test]
    fn values_hold_others() {
        for (all, part, expect) in [
            (r#"{"a":1}"#, "1", true),
            ("[1,2,[3]]", "[3]", true),
            ("[1,[2,3]]", "[2]", true),
            (r#"{"a":{"b":1,"c":2}}"#, r#"{"b":1}"#, true),
            (r#"{"a":{"b":1}}"#, r#"{"b":2}"#, false),
            ("[1]", "2", false),
            (r#""\u0061""#, r#""a""#, true),
        ] {
            assert_eq!(holds(all, part).unwrap(), expect, "{all} {part}");
        }
    }

    #[test]
    fn patches_change_objects() {
        for (value, patch, expect) in [
            (r#"{"a":1}"#, r#"{"a":null,"b":2}"#, r#"{"b":2}"#),
            (
                r#"{"a": {"b": 1}}"#,
                r#"{"a": {"c": 2}}"#,
                r#"{"a":{"b":1,"c":2}}"#,
            ),
            (
                r#"{"a":1,"c":3}"#,
                r#"{"c":null,"a":{"x":null,"y":1}}"#,
                r#"{"a":{"y":1}}"#,
            ),
            ("1", r#"{"a":2}"#, r#"{"a":2}"#),
            (r#"{"a":1}"#, "2", "2"),
        ] {
            let mut text = String::new();
            merge(Some(value), patch, &mut text).unwrap();
            assert_eq!(text, expect);
        }
    }

    #[test]
    fn values_are_written_in_lines() {
        let mut text = String::new();
        write(r#"{"b":[1,{"a":[]}],"c":"x"}"#, Some(0), &mut text).unwrap();
        let expect = "{\n    \"b\": [\n        1,\n        {\n            \"a\": []\n        }\n    ],\n    \"c\": \"x\"\n}";
        assert_eq!(text, expect);
    }

    #[test]
    fn types_are_those_of_duckdb() {
        for (value, expect) in [
            ("1", "UBIGINT"),
            ("-1", "BIGINT"),
            ("1e3", "DOUBLE"),
            ("18446744073709551616", "DOUBLE"),
            ("null", "NULL"),
            ("true", "BOOLEAN"),
        ] {
            assert_eq!(type_of(value), expect);
        }
    }
}
