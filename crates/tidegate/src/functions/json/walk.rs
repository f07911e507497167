//! Finds a value in a string of JSON, step by step, without building a tree of it.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind};

/// The most of a string that an error quotes, in characters.
const QUOTED_MAX: usize = 40;

/// One step into a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step<'a> {
    /// Into an object.
    Key(&'a str),
    /// Into an array, from 0; from its end if it is negative.
    Index(i64),
    /// Into an object by a name, or into an array by a number from 0.
    Either(Cow<'a, str>),
    /// To each value of an array.
    Elements,
    /// To each value of an object.
    Members,
}

/// Tells whether a path leads to several values.
pub(crate) fn has_wildcard(path: &str) -> bool {
    let mut parts = path.split('"').step_by(2);
    path.starts_with('$') && parts.any(|part| part.contains("[*]") || part.contains(".*"))
}

/// Adds the steps that a key or a path stands for.
///
/// # Errors
/// [`ErrorKind::Sql`] for a path, which begins with `$` or `/`, that cannot be read, and for one with wildcards.
pub(super) fn steps<'a>(key: &'a str, steps: &mut Vec<Step<'a>>) -> Result<(), Error> {
    add_steps(key, steps, false)
}

/// Adds the steps of a path that may have wildcards.
///
/// # Errors
/// [`ErrorKind::Sql`] for a path that cannot be read.
pub(super) fn wild_steps<'a>(key: &'a str, steps: &mut Vec<Step<'a>>) -> Result<(), Error> {
    add_steps(key, steps, true)
}

fn add_steps<'a>(key: &'a str, steps: &mut Vec<Step<'a>>, is_wild: bool) -> Result<(), Error> {
    if let Some(pointer) = key.strip_prefix('/') {
        return pointer_steps(key, pointer, steps);
    }
    let Some(mut rest) = key.strip_prefix('$') else {
        steps.push(Step::Key(key));
        return Ok(());
    };
    while !rest.is_empty() {
        let read = match rest.as_bytes() {
            [b'.', b'*', ..] if is_wild => Some((Step::Members, &rest[2..])),
            [b'[', b'*', b']', ..] if is_wild => Some((Step::Elements, &rest[3..])),
            [b'.', b'"', ..] => quoted(&rest[1..]),
            [b'.', ..] => {
                let name = &rest[1..];
                let end = name.find(['.', '[']).unwrap_or(name.len());
                let is_name = end > 0 && &name[..end] != "*";
                is_name.then(|| (Step::Key(&name[..end]), &name[end..]))
            }
            [b'[', b'"', ..] => {
                quoted(&rest[1..]).and_then(|(step, rest)| Some((step, rest.strip_prefix(']')?)))
            }
            [b'[', ..] => rest[1..].split_once(']').and_then(|(index, rest)| {
                let index = index.parse().ok()?;
                Some((Step::Index(index), rest))
            }),
            _ => None,
        };
        let Some((step, behind)) = read else {
            let message = format!(
                "the JSON path '{key}' cannot be read at '{rest}': it is written '$.name[0].\"other name\"', with \
                 [-1] for the last value; a path with wildcards is a constant, as in json_extract(doc, '$[*].a')"
            );
            return Err(Error::new(ErrorKind::Sql, message));
        };
        steps.push(step);
        rest = behind;
    }
    Ok(())
}

/// Adds the steps of a pointer, as RFC 6901 has it: `/` parts them, `~1` stands for `/` and `~0` for `~`.
fn pointer_steps<'a>(key: &str, pointer: &'a str, steps: &mut Vec<Step<'a>>) -> Result<(), Error> {
    for part in pointer.split('/') {
        let mut escapes = part.split('~').skip(1);
        if !escapes.all(|behind| behind.starts_with(['0', '1'])) {
            let message = format!(
                "the JSON pointer '{key}' cannot be read at '{part}': a ~ in a name is written ~0, and a / ~1"
            );
            return Err(Error::new(ErrorKind::Sql, message));
        }
        let name = match part.contains('~') {
            true => Cow::Owned(part.replace("~1", "/").replace("~0", "~")),
            false => Cow::Borrowed(part),
        };
        steps.push(Step::Either(name));
    }
    Ok(())
}

/// Reads a name in double quotes.
fn quoted(text: &str) -> Option<(Step<'_>, &str)> {
    let (name, rest) = text.strip_prefix('"')?.split_once('"')?;
    Some((Step::Key(name), rest))
}

/// Finds what lies at the end of some steps, as it is written; `None` if nothing does.
///
/// # Errors
/// [`ErrorKind::Sql`] for a string that is no JSON.
pub(super) fn walk<'a>(json: &'a str, steps: &[Step<'_>]) -> Result<Option<&'a str>, Error> {
    let whole: &RawValue = serde_json::from_str(json).map_err(|error| malformed(json, &error))?;
    let mut current = whole.get();
    for step in steps {
        let found = match step {
            Step::Key(key) => member(current, key),
            Step::Index(index) => element(current, *index),
            Step::Either(name) if current.starts_with('[') => match place(name) {
                Some(index) => element(current, index),
                None => Ok(None),
            },
            Step::Either(name) => member(current, name),
            // One value is at none of several.
            Step::Elements | Step::Members => Ok(None),
        };
        match found.map_err(|error| malformed(json, &error))? {
            Some(value) => current = value,
            None => return Ok(None),
        }
    }
    Ok(Some(current))
}

/// Returns the index that a pointer names: its digits have no zeros before them.
fn place(name: &str) -> Option<i64> {
    let is_index = name.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = name == "0" || !name.starts_with('0');
    (is_index && is_plain).then(|| name.parse().ok()).flatten()
}

/// Returns a value as text: a string without its quotes, `None` for null, any other as it is written.
pub(super) fn text(json: &str) -> Result<Option<String>, Error> {
    match json.as_bytes().first() {
        Some(b'"') => match serde_json::from_str(json) {
            Ok(text) => Ok(Some(text)),
            Err(error) => Err(malformed(json, &error)),
        },
        Some(b'n') => Ok(None),
        _ => Ok(Some(json.to_string())),
    }
}

/// Hands on the values of an array as they are written; returns their number, `None` of any other value.
pub(super) fn each_element(json: &str, take: impl FnMut(&str)) -> Result<Option<usize>, Error> {
    if !json.starts_with('[') {
        return Ok(None);
    }
    let number = in_array(json, Elements(take));
    number.map(Some).map_err(|error| malformed(json, &error))
}

/// Returns the number of an array's values; `None` of any other value.
pub(super) fn length(json: &str) -> Result<Option<usize>, Error> {
    each_element(json, |_| {})
}

fn in_array<'a, V: Visitor<'a>>(json: &'a str, visitor: V) -> serde_json::Result<V::Value> {
    serde_json::Deserializer::from_str(json).deserialize_seq(visitor)
}

/// Hands on the names in an object in their order; `None` of any other value.
pub(super) fn each_key(json: &str, take: impl FnMut(&str)) -> Result<Option<()>, Error> {
    if !json.starts_with('{') {
        return Ok(None);
    }
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let names = deserializer.deserialize_map(Names(take));
    names.map(Some).map_err(|error| malformed(json, &error))
}

/// Tells whether a string is JSON.
pub(super) fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

pub(super) fn malformed(json: &str, error: &serde_json::Error) -> Error {
    let begins: String = json.chars().take(QUOTED_MAX).collect();
    let cut = if begins.len() < json.len() { "…" } else { "" };
    let message =
        format!("'{begins}{cut}' is no JSON: {error}; json_valid tells which strings are");
    Error::new(ErrorKind::Sql, message)
}

fn element(json: &str, index: i64) -> serde_json::Result<Option<&str>> {
    if !json.starts_with('[') {
        return Ok(None);
    }
    let from_end = usize::try_from(index.unsigned_abs()).unwrap_or(usize::MAX);
    let place = match index {
        0.. => from_end,
        _ => match in_array(json, Elements(|_: &str| {}))?.checked_sub(from_end) {
            Some(place) => place,
            None => return Ok(None),
        },
    };
    let found = in_array(json, At(place))?;
    Ok(found.map(RawValue::get))
}

/// Hands on the values of an array, and counts them.
struct Elements<F>(F);

impl<'de, F: FnMut(&str)> Visitor<'de> for Elements<F> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut values: A) -> Result<usize, A::Error> {
        let mut number = 0;
        while let Some(value) = values.next_element::<&RawValue>()? {
            self.0(value.get());
            number += 1;
        }
        Ok(number)
    }
}

/// Finds the value at a place of an array.
struct At(usize);

impl<'de> Visitor<'de> for At {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Self::Value, A::Error> {
        let (mut found, mut place) = (None, 0);
        while let Some(value) = values.next_element::<&RawValue>()? {
            if place == self.0 {
                found = Some(value);
            }
            place += 1;
        }
        Ok(found)
    }
}

fn member<'a>(json: &'a str, key: &str) -> serde_json::Result<Option<&'a str>> {
    if !json.starts_with('{') {
        return Ok(None);
    }
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let found = deserializer.deserialize_map(Member { key })?;
    Ok(found.map(RawValue::get))
}

/// Finds the value of a name in an object; of several, the last.
struct Member<'k> {
    key: &'k str,
}

impl<'de> Visitor<'de> for Member<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(is_it) = map.next_key_seed(IsKey(self.key))? {
            match is_it {
                true => found = Some(map.next_value()?),
                false => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }
}

/// Compares a name with one that is looked for.
struct IsKey<'k>(&'k str);

impl<'de> DeserializeSeed<'de> for IsKey<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for IsKey<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

/// Hands on the names in an object.
struct Names<F>(F);

impl<'de, F: FnMut(&str)> Visitor<'de> for Names<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some((name, _)) = map.next_entry::<String, IgnoredAny>()? {
            self.0(&name);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Step, each_element, each_key, is_json, length, steps, text, walk};

    const DOC: &str =
        r#"{"a": {"b": [1, "two", null, {"c d": 1.50}]}, "a b": "x\"y", "k": 1, "k": 2}"#;

    fn check(path: &[&str], expect: Option<&str>) {
        let mut read = Vec::new();
        for key in path {
            steps(key, &mut read).unwrap();
        }
        assert_eq!(walk(DOC, &read).unwrap(), expect, "{path:?}");
    }

    #[test]
    fn steps_lead_to_values() {
        check(&["a", "b"], Some(r#"[1, "two", null, {"c d": 1.50}]"#));
        check(&["$.a.b[1]"], Some("\"two\""));
        check(&["$.a.b[-1].\"c d\""], Some("1.50"));
        check(&["$[\"a b\"]"], Some("\"x\\\"y\""));
        check(&["$"], Some(DOC));
        check(&["k"], Some("2"));
        check(&["a", "x"], None);
        check(&["$.a[0]"], None);
        check(&["$.a.b[9]"], None);
        check(&["$.a.b[-9]"], None);
        check(&["/a/b/1"], Some("\"two\""));
        check(&["/a", "/b/3/c d"], Some("1.50"));
        check(&["/a/b/01"], None);
        check(&["/a/b/-"], None);
        check(&["/a/x"], None);
        check(&["/"], None);
        let step = [Step::Key("a"), Step::Key("b"), Step::Index(2)];
        assert_eq!(walk(DOC, &step).unwrap(), Some("null"));
    }

    #[test]
    fn pointers_have_escapes() {
        let mut read = Vec::new();
        steps("/a~1b/~01", &mut read).unwrap();
        assert_eq!(walk(r#"{"a/b": {"~1": 7}}"#, &read).unwrap(), Some("7"));
    }

    #[test]
    fn texts_have_no_quotes() {
        assert_eq!(text("\"x\\\"y\"").unwrap().as_deref(), Some("x\"y"));
        assert_eq!(text("null").unwrap(), None);
        assert_eq!(text("1.50").unwrap().as_deref(), Some("1.50"));
    }

    #[test]
    fn what_is_in_a_value_is_listed() {
        let mut found = Vec::new();
        let number = each_element("[1, [2]]", |value| found.push(value.to_string()));
        assert_eq!(number.unwrap(), Some(2));
        let named = each_key(r#"{"b": 1, "a": 2}"#, |name| found.push(name.to_string()));
        assert_eq!(named.unwrap(), Some(()));
        assert_eq!(found, ["1", "[2]", "b", "a"]);
        assert_eq!(each_element("{}", |_| {}).unwrap(), None);
        assert_eq!(each_key("[]", |_| {}).unwrap(), None);
        assert_eq!(length("[[1, 2], 3]").unwrap(), Some(2));
        assert!(length("[1, 2").is_err());
    }

    #[test]
    fn what_is_no_json_is_an_error() {
        let error = walk("{'a': 1}", &[Step::Key("a")]).unwrap_err().to_string();
        assert!(error.starts_with("'{'a': 1}' is no JSON: "), "{error}");
        for path in ["$a", "$.*", "$.a[*]", "$.a[#-1]", "$..a", "/a~2"] {
            assert!(steps(path, &mut Vec::new()).is_err(), "{path}");
        }
        assert!(is_json("[1]") && !is_json("[1") && !is_json(""));
    }
}
