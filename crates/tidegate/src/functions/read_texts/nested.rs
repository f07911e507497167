//! Text of lists, structs and maps, as DuckDB writes it, `[a, NULL, 'b, c']`, `{'a': 1}` and `{k=v}`, or as JSON.
//!
//! A value within is what stands between commas, without the blanks around it and without quotes; NULL is no text. It is
//! then read as the type within says. In quotes a backslash stands before a letter that is meant; what is a string of JSON
//! is read as one. Outside of quotes it is a letter. Names of fields are compared without regard to case, and a field that
//! is not there is NULL. What is no such text is an error, or NULL of a cast that is not strict.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait, StructArray,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, FieldRef, Fields};
use datafusion::common::internal_err;
use datafusion::error::Result;

use super::{Mode, Text, known};

/// What a value within is that is no value.
const NULL: &str = "null";

/// Casts texts to a nested type.
pub(super) fn read(texts: &[Text<'_>], to: &DataType, mode: Mode) -> Result<ArrayRef> {
    match to {
        DataType::List(field) => lists::<i32>(texts, to, field, mode),
        DataType::LargeList(field) => lists::<i64>(texts, to, field, mode),
        DataType::FixedSizeList(field, length) => fixed_lists(texts, to, field, *length, mode),
        DataType::Struct(fields) => structs(texts, to, fields, mode),
        DataType::Map(entries, is_sorted) => maps(texts, to, entries, *is_sorted, mode),
        _ => internal_err!("{to} is no nested type"),
    }
}

/// Takes each text apart; nothing of a row that is NULL.
fn parts<'a, T>(
    texts: &'a [Text<'_>],
    to: &DataType,
    mode: Mode,
    of: impl Fn(&'a str) -> Option<T>,
) -> Result<Vec<Option<T>>> {
    let found = texts.iter().map(|text| match text {
        Some(text) if text.trim() != NULL => known(of(text), text, to, mode),
        _ => Ok(None),
    });
    found.collect()
}

/// Returns which rows have a value.
fn validity<T>(found: &[Option<T>]) -> Option<NullBuffer> {
    let valid: Vec<bool> = found.iter().map(Option::is_some).collect();
    Some(NullBuffer::from(valid))
}

fn lists<O: OffsetSizeTrait>(
    texts: &[Text<'_>],
    to: &DataType,
    field: &FieldRef,
    mode: Mode,
) -> Result<ArrayRef> {
    let found = parts(texts, to, mode, elements)?;
    let nulls = validity(&found);
    let lengths = found.iter().map(|list| list.as_ref().map_or(0, Vec::len));
    let offsets = OffsetBuffer::<O>::from_lengths(lengths);
    let values: Vec<Text<'_>> = found.into_iter().flatten().flatten().collect();
    let values = super::read(&values, field.data_type(), mode)?;
    let field = Arc::clone(field);
    let lists = GenericListArray::<O>::try_new(field, offsets, values, nulls)?;
    Ok(Arc::new(lists))
}

fn fixed_lists(
    texts: &[Text<'_>],
    to: &DataType,
    field: &FieldRef,
    length: i32,
    mode: Mode,
) -> Result<ArrayRef> {
    let length_of_each = usize::try_from(length).unwrap_or_default();
    let fitting = |text| elements(text).filter(|list| list.len() == length_of_each);
    let found = parts(texts, to, mode, fitting)?;
    let nulls = validity(&found);
    let none = || vec![None; length_of_each];
    let values = found.into_iter().flat_map(|list| list.unwrap_or_else(none));
    let values: Vec<Text<'_>> = values.collect();
    let values = super::read(&values, field.data_type(), mode)?;
    let field = Arc::clone(field);
    let lists = FixedSizeListArray::try_new_with_length(field, length, values, nulls, texts.len())?;
    Ok(Arc::new(lists))
}

fn structs(texts: &[Text<'_>], to: &DataType, fields: &Fields, mode: Mode) -> Result<ArrayRef> {
    let of_fields = |text| row(text, fields, mode == Mode::Loose);
    let found = parts(texts, to, mode, of_fields)?;
    let nulls = validity(&found);
    let mut columns: Vec<Vec<Text<'_>>> = fields.iter().map(|_| Vec::new()).collect();
    for row in found {
        let values = row.into_iter().flatten().map(Some);
        let values = values.chain(std::iter::repeat(None));
        for (column, value) in columns.iter_mut().zip(values) {
            column.push(value.flatten());
        }
    }
    let columns = fields
        .iter()
        .zip(&columns)
        .map(|(field, texts)| super::read(texts, field.data_type(), mode))
        .collect::<Result<Vec<_>>>()?;
    let fields = fields.clone();
    let structs = StructArray::try_new_with_length(fields, columns, nulls, texts.len())?;
    Ok(Arc::new(structs))
}

fn maps(
    texts: &[Text<'_>],
    to: &DataType,
    entries: &FieldRef,
    is_sorted: bool,
    mode: Mode,
) -> Result<ArrayRef> {
    let DataType::Struct(fields) = entries.data_type() else {
        return internal_err!("{to} has no keys");
    };
    let [key, value] = &fields[..] else {
        return internal_err!("{to} has no keys");
    };
    let mut found = parts(texts, to, mode, map_entries)?;
    if mode != Mode::Strict && !key.data_type().is_string() {
        // There is no map with a key that is NULL.
        for map in &mut found {
            let keys = map.iter().flatten().map(|(key, _)| Some(key.clone()));
            let keys: Vec<Text<'_>> = keys.collect();
            if super::read(&keys, key.data_type(), Mode::Lenient)?.null_count() > 0 {
                *map = None;
            }
        }
    }
    let nulls = validity(&found);
    let lengths = found.iter().map(|map| map.as_ref().map_or(0, Vec::len));
    let offsets = OffsetBuffer::<i32>::from_lengths(lengths);
    let pairs = found.into_iter().flatten().flatten();
    let (keys, values): (Vec<Text<'_>>, Vec<Text<'_>>) =
        pairs.map(|(key, value)| (Some(key), value)).unzip();
    let number = keys.len();
    let keys = super::read(&keys, key.data_type(), Mode::Strict)?;
    let values = super::read(&values, value.data_type(), mode)?;
    let columns = vec![keys, values];
    let pairs = StructArray::try_new_with_length(fields.clone(), columns, None, number)?;
    let entries = Arc::clone(entries);
    let maps = MapArray::try_new(entries, offsets, pairs, nulls, is_sorted)?;
    Ok(Arc::new(maps))
}

/// Returns the values of a list.
fn elements(text: &str) -> Option<Vec<Text<'_>>> {
    let parts = split(within(text, '[', ']')?)?;
    Some(parts.into_iter().map(value).collect())
}

/// Returns the values of some fields, in their order; `None` if one is not of these, unless it may be left out.
fn row<'a>(text: &'a str, fields: &Fields, is_loose: bool) -> Option<Vec<Text<'a>>> {
    let mut found: Vec<Text<'a>> = vec![None; fields.len()];
    if let Some(values) = within(text, '(', ')') {
        let values = split(values)?;
        if values.len() > fields.len() {
            return None;
        }
        for (place, part) in found.iter_mut().zip(values) {
            *place = value(part);
        }
        return Some(found);
    }
    for part in split(within(text, '{', '}')?)? {
        let (name, given) = pair(part, ':')?;
        let name = value(name)?;
        let place = fields
            .iter()
            .position(|field| field.name().eq_ignore_ascii_case(&name));
        match place {
            Some(place) => *found.get_mut(place)? = value(given),
            None if is_loose => {}
            None => return None,
        }
    }
    Some(found)
}

/// Returns the entries of a map, whose keys are not NULL and differ.
fn map_entries(text: &str) -> Option<Vec<(Cow<'_, str>, Text<'_>)>> {
    let parts = split(within(text, '{', '}')?)?;
    let mut keys = HashSet::with_capacity(parts.len());
    let mut entries = Vec::with_capacity(parts.len());
    for part in parts {
        // JSON has strings as keys, and a colon behind them.
        let (key, given) = match pair(part, '=') {
            Some(pair) => pair,
            None => pair(part, ':').filter(|_| part.trim_start().starts_with('"'))?,
        };
        let key = value(key)?;
        if !keys.insert(key.clone()) {
            return None;
        }
        entries.push((key, value(given)));
    }
    Some(entries)
}

/// Returns what is within brackets.
fn within(text: &str, open: char, close: char) -> Option<&str> {
    text.trim().strip_prefix(open)?.strip_suffix(close)
}

/// Splits what is within brackets at its commas; `None` if a bracket or a quote is not closed.
fn split(text: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    if text.trim().is_empty() {
        return Some(parts);
    }
    let mut rest = text;
    loop {
        let end = find(rest, ',')?;
        let (part, behind) = rest.split_at_checked(end)?;
        parts.push(part);
        match behind.strip_prefix(',') {
            Some(behind) => rest = behind,
            None => return Some(parts),
        }
    }
}

/// Splits a part where a sign first stands.
fn pair(part: &str, sign: char) -> Option<(&str, &str)> {
    let (name, behind) = part.split_at_checked(find(part, sign)?)?;
    Some((name, behind.strip_prefix(sign)?))
}

/// Returns where a sign first stands outside of quotes and brackets, which is the end if it does nowhere; `None` if a
/// bracket or a quote is not closed. A quote opens at the beginning of a value alone: `it's` has none.
fn find(text: &str, sign: char) -> Option<usize> {
    let mut closing = Vec::new();
    let mut is_begin = true;
    let mut letters = text.char_indices();
    while let Some((place, letter)) = letters.next() {
        if letter == sign && closing.is_empty() {
            return Some(place);
        }
        match letter {
            '"' | '\'' if is_begin => loop {
                match letters.next()?.1 {
                    '\\' => {
                        letters.next()?;
                    }
                    end if end == letter => break,
                    _ => {}
                }
            },
            '[' => closing.push(']'),
            '{' => closing.push('}'),
            ']' | '}' if closing.pop() != Some(letter) => return None,
            _ => {}
        }
        is_begin =
            matches!(letter, '[' | '{' | ',' | ':' | '=') || (is_begin && letter.is_whitespace());
    }
    closing.is_empty().then_some(text.len())
}

/// Returns what a part stands for.
fn value(part: &str) -> Text<'_> {
    let part = part.trim();
    match unquoted(part) {
        Some(text) => Some(Cow::Owned(text)),
        None => (!part.eq_ignore_ascii_case(NULL)).then_some(Cow::Borrowed(part)),
    }
}

/// Takes the quotes off a text; `None` of one that has none, or more behind them.
fn unquoted(part: &str) -> Option<String> {
    let mut letters = part.chars();
    let quote = letters
        .next()
        .filter(|letter| matches!(letter, '"' | '\''))?;
    let mut text = String::with_capacity(part.len());
    loop {
        match letters.next()? {
            '\\' => text.push(letters.next()?),
            letter if letter == quote => break,
            letter => text.push(letter),
        }
    }
    if !letters.as_str().is_empty() {
        return None;
    }
    match quote == '"' && part.contains('\\') {
        true => Some(serde_json::from_str(part).unwrap_or(text)),
        false => Some(text),
    }
}

#[cfg(test)]
mod tests {
    use super::{elements, map_entries, row};
    use datafusion::arrow::datatypes::{DataType, Field, Fields};

    fn check(text: &str, expect: Option<&[Option<&str>]>) {
        let found = elements(text);
        let found = found
            .as_ref()
            .map(|list| list.iter().map(Option::as_deref).collect::<Vec<_>>());
        assert_eq!(found.as_deref(), expect, "{text}");
    }

    #[test]
    fn lists_are_split_at_commas() {
        check("[]", Some(&[]));
        check(" [ ] ", Some(&[]));
        check("[,]", Some(&[Some(""), Some("")]));
        check("[a, NULL, null]", Some(&[Some("a"), None, None]));
        check("[\"NULL\", 'd, e']", Some(&[Some("NULL"), Some("d, e")]));
        check(
            "[\"x\\\"y\", \"\\u00e9\", \"q\\q\"]",
            Some(&[Some("x\"y"), Some("é"), Some("qq")]),
        );
        check("[a\\,b]", Some(&[Some("a\\"), Some("b")]));
        check(
            "[[1, 2], {\"a\": 3, \"b\": \"]\"}]",
            Some(&[Some("[1, 2]"), Some("{\"a\": 3, \"b\": \"]\"}")]),
        );
        check("[it's, so]", Some(&[Some("it's"), Some("so")]));
        for text in ["", "a", "[a", "[[a]", "[a]]", "['a]", "{a}"] {
            check(text, None);
        }
    }

    #[test]
    fn fields_are_found_by_name_or_place() {
        let field = |name: &str| Field::new(name, DataType::Utf8View, true);
        let fields = Fields::from(vec![field("a"), field("b")]);
        for (text, expect) in [
            ("{b: x, 'A': 1}", Some(["1", "x"])),
            ("{\"a\": \"y: z\"}", Some(["y: z", "-"])),
            ("{a: b: c}", Some(["b: c", "-"])),
            ("{}", Some(["-", "-"])),
            ("(1, x)", Some(["1", "x"])),
            ("(1)", Some(["1", "-"])),
            ("{c: 1}", None),
            ("{a 1}", None),
            ("(1, 2, 3)", None),
            ("x", None),
        ] {
            let found = row(text, &fields, false);
            let found = found.as_ref().map(|row| {
                let texts = row.iter().map(|text| text.as_deref().unwrap_or("-"));
                texts.collect::<Vec<_>>()
            });
            let expect = expect.map(|row| row.to_vec());
            assert_eq!(found, expect, "{text}");
        }
        let found = row("{c: 1, a: 2}", &fields, true).unwrap();
        assert_eq!(found[0].as_deref(), Some("2"));
    }

    #[test]
    fn maps_have_keys_that_differ() {
        for (text, expect) in [
            ("{a=1, b=NULL}", Some("a=1 b=-")),
            ("{\"a\": 1, \"b=\": \"c=d\"}", Some("a=1 b==c=d")),
            ("{'a=b'=x}", Some("a=b=x")),
            ("{a=b=c}", Some("a=b=c")),
            ("{a=[1,2]}", Some("a=[1,2]")),
            ("{}", Some("")),
            ("{a: 1}", None),
            ("{a=1, a=2}", None),
            ("{NULL=1}", None),
        ] {
            let entries = map_entries(text).map(|entries| {
                let entries = entries
                    .iter()
                    .map(|(key, value)| format!("{key}={}", value.as_deref().unwrap_or("-")));
                entries.collect::<Vec<_>>().join(" ")
            });
            assert_eq!(entries.as_deref(), expect, "{text}");
        }
    }
}
