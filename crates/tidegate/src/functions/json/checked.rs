//! JSON that is checked as a whole: `as_json(x)`, which a cast to JSON becomes, `json(s)`, which leaves out blanks, and
//! `json_structure(s)`, the types in a value.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_STRING;
use serde::de::IgnoredAny;

use super::super::plain::{self, Parts};
use super::made::written;
use super::trees::{elements, members, type_of, whole, write};
use super::walk::malformed;
use crate::error::{Error, ErrorKind};

/// The most levels of a value.
const LEVELS_MAX: usize = 1_000;

pub(super) fn functions() -> [ScalarUDF; 4] {
    let strict = Parts {
        names: &["as_json"],
        section: DOC_SECTION_STRING,
        description: "Returns a string that is JSON as it is, and any other value as JSON.",
        syntax: "as_json(x)",
        takes: |given| one_value("as_json", given),
        returns: |_| DataType::Utf8View,
        computes: |given| checked(given, true),
    };
    let lenient = Parts {
        names: &["try_as_json"],
        section: DOC_SECTION_STRING,
        description: "Returns a string that is JSON as it is, NULL of any other, and another value as JSON.",
        syntax: "try_as_json(x)",
        takes: |given| one_value("try_as_json", given),
        computes: |given| checked(given, false),
        ..strict
    };
    let short = Parts {
        names: &["json"],
        section: DOC_SECTION_STRING,
        description: "Writes JSON without blanks.",
        syntax: "json(s)",
        takes: |given| one_string("json", given),
        returns: |_| DataType::Utf8View,
        computes: |given| {
            texts(given, |json| {
                let mut text = String::with_capacity(json.len());
                write(levelled(json)?, None, &mut text)?;
                Ok(text)
            })
        },
    };
    let structure = Parts {
        names: &["json_structure"],
        section: DOC_SECTION_STRING,
        description: "Returns the structure of a value: the types in it, as JSON.",
        syntax: "json_structure(json)",
        takes: |given| one_string("json_structure", given),
        computes: |given| {
            texts(given, |json| {
                let mut text = String::new();
                Structure::of(levelled(json)?)?.write(&mut text);
                Ok(text)
            })
        },
        ..short
    };
    [strict, lenient, short, structure].map(plain::function)
}

fn one_value(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [DataType::Dictionary(_, of)] if of.is_string() => Ok(vec![DataType::Utf8View]),
        [of] if of.is_string() || of.is_null() => Ok(vec![DataType::Utf8View]),
        [_] => Ok(given.to_vec()),
        _ => plan_err!("{name} takes one value"),
    }
}

fn one_string(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [of] if of.is_string() || of.is_null() => Ok(vec![DataType::Utf8View]),
        _ => plan_err!("{name} takes a string of JSON"),
    }
}

fn checked(given: &[ArrayRef], is_strict: bool) -> Result<ArrayRef> {
    let [values] = given else {
        return internal_err!("as_json of {} arguments", given.len());
    };
    let Some(texts) = values.as_string_view_opt() else {
        return written(given);
    };
    let mut is_all = true;
    for text in texts.iter().flatten() {
        if let Err(error) = serde_json::from_str::<IgnoredAny>(text) {
            if is_strict {
                return Err(malformed(text, &error).into());
            }
            is_all = false;
        }
    }
    if is_all {
        return Ok(Arc::clone(values));
    }
    let is_json = |text: &&str| serde_json::from_str::<IgnoredAny>(text).is_ok();
    let texts = texts.iter().map(|text| text.filter(is_json));
    Ok(Arc::new(StringViewArray::from_iter(texts)))
}

fn texts(given: &[ArrayRef], of: fn(&str) -> Result<String, Error>) -> Result<ArrayRef> {
    let [values] = given else {
        return internal_err!("JSON of {} arguments", given.len());
    };
    let values = values.as_string_view().iter();
    let made = values.map(|value| value.map(of).transpose());
    let made = made.collect::<Result<Vec<_>, Error>>()?;
    Ok(Arc::new(StringViewArray::from_iter(made)))
}

/// Returns a value that has not too many levels, without blanks around it.
fn levelled(json: &str) -> Result<&str, Error> {
    let value = whole(json)?;
    let (mut level, mut most) = (0_usize, 0);
    let (mut is_text, mut is_escaped) = (false, false);
    for byte in value.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'[' | b'{' if !is_text => {
                level += 1;
                most = most.max(level);
            }
            b']' | b'}' if !is_text => level = level.saturating_sub(1),
            _ => {}
        }
    }
    if most > LEVELS_MAX {
        let message = format!("JSON with more than {LEVELS_MAX} levels is not taken apart");
        return Err(Error::new(ErrorKind::Sql, message));
    }
    Ok(value)
}

/// The names of an object in their order, and the place of each.
#[derive(Clone, Debug, Default, PartialEq)]
struct Members {
    all: Vec<(String, Structure)>,
    places: HashMap<String, usize>,
}

impl Members {
    fn add(&mut self, name: String, of: Structure) {
        let known = self
            .places
            .get(&name)
            .and_then(|place| self.all.get_mut(*place));
        if let Some((_, known)) = known {
            let own = std::mem::replace(known, Structure::Null);
            *known = own.with(of);
            return;
        }
        self.places.insert(name.clone(), self.all.len());
        self.all.push((name, of));
    }
}

/// What values are like.
#[derive(Clone, Debug, PartialEq)]
enum Structure {
    Null,
    Of(&'static str),
    Array(Box<Structure>),
    Object(Members),
    /// Of several kinds.
    Any,
}

impl Structure {
    fn of(value: &str) -> Result<Self, Error> {
        if let Some(members) = members(value)? {
            let mut found = Members::default();
            for (name, value) in members {
                found.add(name, Self::of(value)?);
            }
            return Ok(Self::Object(found));
        }
        if let Some(elements) = elements(value)? {
            let mut all = Self::Null;
            for element in elements {
                all = all.with(Self::of(element)?);
            }
            return Ok(Self::Array(Box::new(all)));
        }
        Ok(match type_of(value) {
            "NULL" => Self::Null,
            of => Self::Of(of),
        })
    }

    /// Returns the structure of values of two structures.
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Null, one) | (one, Self::Null) => one,
            (one, other) if one == other => one,
            (Self::Of(one), Self::Of(other)) => match is_number(one) && is_number(other) {
                true if one == "DOUBLE" || other == "DOUBLE" => Self::Of("DOUBLE"),
                true => Self::Of("HUGEINT"),
                false => Self::Any,
            },
            (Self::Array(one), Self::Array(other)) => Self::Array(Box::new(one.with(*other))),
            (Self::Object(mut fields), Self::Object(others)) => {
                for (name, other) in others.all {
                    fields.add(name, other);
                }
                Self::Object(fields)
            }
            _ => Self::Any,
        }
    }

    fn write(&self, text: &mut String) {
        match self {
            Self::Null => text.push_str("\"NULL\""),
            Self::Any => text.push_str("\"JSON\""),
            Self::Of(of) => {
                let _ = write!(text, "\"{of}\"");
            }
            Self::Array(of) => {
                text.push('[');
                of.write(text);
                text.push(']');
            }
            Self::Object(fields) => {
                text.push('{');
                for (place, (name, of)) in fields.all.iter().enumerate() {
                    let comma = if place > 0 { "," } else { "" };
                    let name = serde_json::Value::from(name.as_str());
                    let _ = write!(text, "{comma}{name}:");
                    of.write(text);
                }
                text.push('}');
            }
        }
    }
}

fn is_number(of: &str) -> bool {
    matches!(of, "UBIGINT" | "BIGINT" | "HUGEINT" | "DOUBLE")
}

#[cfg(test)]
mod tests {
    use super::{Structure, levelled};

    #[test]
    fn structures_are_of_all_values() {
        for (json, expect) in [
            (
                r#"{"a":1,"b":[2,3.5],"c":{"d":null,"e":"x","f":true}}"#,
                r#"{"a":"UBIGINT","b":["DOUBLE"],"c":{"d":"NULL","e":"VARCHAR","f":"BOOLEAN"}}"#,
            ),
            (
                r#"[{"a":1},{"b":"x"}]"#,
                r#"[{"a":"UBIGINT","b":"VARCHAR"}]"#,
            ),
            ("[]", r#"["NULL"]"#),
            ("-1", r#""BIGINT""#),
            (r#"[1,"a"]"#, r#"["JSON"]"#),
            ("[1,-1]", r#"["HUGEINT"]"#),
            ("[[1],[null]]", r#"[["UBIGINT"]]"#),
            (r#"[{"a":1},2]"#, r#"["JSON"]"#),
        ] {
            let mut text = String::new();
            Structure::of(json).unwrap().write(&mut text);
            assert_eq!(text, expect);
        }
    }

    #[test]
    fn levels_are_counted_outside_of_strings() {
        let deep = |open: &str, close: &str, levels: usize| {
            format!("{}{}", open.repeat(levels), close.repeat(levels))
        };
        assert!(levelled(&deep("[", "]", 1_000)).is_ok());
        assert!(levelled(&deep("[", "]", 1_001)).is_err());
        assert!(levelled(&format!("\"{}\\\"[\"", "[".repeat(2_000))).is_ok());
    }
}
