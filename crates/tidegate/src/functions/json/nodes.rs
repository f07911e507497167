//! `json_each(j[, path])` and `json_tree(j[, path])`: the values in an object or an array, or at any depth, as a list of
//! structs. In a FROM they are tables (`statements::json_tables`).
//!
//! The numbers of values are those of DuckDB: a document is counted from its beginning, names of objects included.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, ListArray, StringViewBuilder, StructArray, UInt64Builder,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ScalarUDF;
use datafusion::logical_expr::scalar_doc_sections::DOC_SECTION_STRING;

use super::super::plain::{self, Parts};
use super::steps_of;
use super::trees::{elements, members, type_of, whole, write};
use super::walk::walk;
use crate::error::{Error, ErrorKind};

/// The most levels of a value.
const LEVELS_MAX: usize = 1_000;

/// The most bytes of the paths of a value, beside those of the value.
const PATH_BYTES_MAX: usize = 64 << 20;

pub(super) fn functions() -> [ScalarUDF; 2] {
    let each = Parts {
        names: &["json_each"],
        section: DOC_SECTION_STRING,
        description: "Returns the values of an object or an array, with their keys and paths.",
        syntax: "json_each(json[, path])",
        takes: |given| takes("json_each", given),
        returns: |_| DataType::new_list(DataType::Struct(fields()), true),
        computes: |given| lists(given, false),
    };
    let tree = Parts {
        names: &["json_tree"],
        section: DOC_SECTION_STRING,
        description: "Returns a value and all values in it, with their keys and paths.",
        syntax: "json_tree(json[, path])",
        takes: |given| takes("json_tree", given),
        returns: |_| DataType::new_list(DataType::Struct(fields()), true),
        computes: |given| lists(given, true),
    };
    [each, tree].map(plain::function)
}

fn fields() -> Fields {
    let text = |name: &str| Field::new(name, DataType::Utf8View, true);
    let number = |name: &str| Field::new(name, DataType::UInt64, true);
    Fields::from(vec![
        text("key"),
        text("value"),
        text("type"),
        text("atom"),
        number("id"),
        number("parent"),
        text("fullkey"),
        text("path"),
    ])
}

fn takes(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    let are_strings = given.iter().all(|of| of.is_string() || of.is_null());
    match are_strings && (1..=2).contains(&given.len()) {
        true => Ok(vec![DataType::Utf8View; given.len()]),
        false => plan_err!("{name} takes a string of JSON, and perhaps a path"),
    }
}

/// How a value is reached from the one around it.
enum Reached {
    Whole,
    Name(String),
    Place(usize),
}

/// A value in a document.
struct Node<'a> {
    value: &'a str,
    reached: Reached,
    /// The place of the value around it, its own if there is none.
    around: usize,
    number: u64,
}

/// Adds a value and those in it.
fn gather<'a>(
    (value, reached, around): (&'a str, Reached, usize),
    level: usize,
    number: &mut u64,
    nodes: &mut Vec<Node<'a>>,
) -> Result<(), Error> {
    if level > LEVELS_MAX {
        let message = format!("JSON with more than {LEVELS_MAX} levels is not taken apart");
        return Err(Error::new(ErrorKind::Sql, message));
    }
    let own = nodes.len();
    nodes.push(Node {
        value,
        reached,
        around,
        number: *number,
    });
    *number += 1;
    for (name, value) in members(value)?.unwrap_or_default() {
        // A name has a number, too.
        *number += 1;
        gather((value, Reached::Name(name), own), level + 1, number, nodes)?;
    }
    for (place, value) in elements(value)?.unwrap_or_default().into_iter().enumerate() {
        gather(
            (value, Reached::Place(place), own),
            level + 1,
            number,
            nodes,
        )?;
    }
    Ok(())
}

/// Writes a path one step further.
fn further(path: &str, reached: &Reached) -> String {
    match reached {
        Reached::Whole => "$".to_string(),
        Reached::Place(place) => format!("{path}[{place}]"),
        Reached::Name(name) => {
            let is_plain = name.starts_with(|first: char| first.is_ascii_alphabetic())
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            match is_plain {
                true => format!("{path}.{name}"),
                false => format!("{path}.{}", serde_json::Value::from(name.as_str())),
            }
        }
    }
}

/// Writes the path to a value.
fn path_to(nodes: &[Node<'_>], place: usize) -> String {
    let mut way = Vec::new();
    let mut place = place;
    while let Some(node) = nodes.get(place) {
        way.push(&node.reached);
        if node.around == place {
            break;
        }
        place = node.around;
    }
    let steps = way.into_iter().rev();
    steps.fold(String::new(), |path, reached| further(&path, reached))
}

/// The columns of values.
#[derive(Default)]
struct Columns {
    key: StringViewBuilder,
    value: StringViewBuilder,
    kind: StringViewBuilder,
    atom: StringViewBuilder,
    id: UInt64Builder,
    parent: UInt64Builder,
    fullkey: StringViewBuilder,
    path: StringViewBuilder,
    num_rows: usize,
}

impl Columns {
    fn add(&mut self, node: &Node<'_>, parent: Option<u64>, own: &str, around: &str) -> Result<()> {
        let mut text = String::with_capacity(node.value.len());
        write(node.value, None, &mut text)?;
        let is_atom = !node.value.starts_with(['{', '[', 'n']);
        match &node.reached {
            Reached::Whole => self.key.append_null(),
            Reached::Name(name) => self.key.append_value(name),
            Reached::Place(place) => self.key.append_value(place.to_string()),
        }
        self.kind.append_value(type_of(node.value));
        self.atom.append_option(is_atom.then_some(&text));
        self.value.append_value(&text);
        self.id.append_value(node.number);
        self.parent.append_option(parent);
        self.fullkey.append_value(own);
        self.path.append_value(around);
        self.num_rows += 1;
        Ok(())
    }

    /// Adds what is in the value at a place of a document, or that value if nothing is.
    fn add_each(&mut self, nodes: &[Node<'_>], found: usize) -> Result<()> {
        let around = path_to(nodes, found);
        let mut room = Room::of(nodes);
        let mut is_empty = true;
        for (place, node) in nodes.iter().enumerate().skip(found + 1) {
            if node.around == found && place != found {
                let own = further(&around, &node.reached);
                room.take(own.len() + around.len())?;
                self.add(node, None, &own, &around)?;
                is_empty = false;
            }
        }
        match nodes.get(found) {
            Some(node) if is_empty && !node.value.starts_with(['{', '[']) => {
                self.add_whole(node, &around)
            }
            _ => Ok(()),
        }
    }

    /// Adds the value at a place of a document, and all in it.
    fn add_tree(&mut self, nodes: &[Node<'_>], found: usize) -> Result<()> {
        let mut room = Room::of(nodes);
        let mut paths = vec![path_to(nodes, found)];
        let Some((first, others)) = nodes.get(found..).and_then(<[_]>::split_first) else {
            return Ok(());
        };
        self.add_whole(first, &path_to(nodes, found))?;
        for node in others.iter().take_while(|node| node.around >= found) {
            let around = paths.get(node.around - found).map_or("", String::as_str);
            let own = further(around, &node.reached);
            room.take(own.len() + around.len())?;
            let parent = nodes.get(node.around).map(|around| around.number);
            self.add(node, parent, &own, around)?;
            paths.push(own);
        }
        Ok(())
    }

    /// Adds a value as one that is in no other.
    fn add_whole(&mut self, node: &Node<'_>, path: &str) -> Result<()> {
        let alone = Node {
            value: node.value,
            reached: Reached::Whole,
            around: node.around,
            number: node.number,
        };
        self.add(&alone, None, path, path)
    }

    fn finish(mut self) -> Result<StructArray> {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.key.finish()),
            Arc::new(self.value.finish()),
            Arc::new(self.kind.finish()),
            Arc::new(self.atom.finish()),
            Arc::new(self.id.finish()),
            Arc::new(self.parent.finish()),
            Arc::new(self.fullkey.finish()),
            Arc::new(self.path.finish()),
        ];
        Ok(StructArray::try_new(fields(), columns, None)?)
    }
}

/// The bytes that the paths of a document may have yet: a long name is in the path of each value below it.
struct Room(usize);

impl Room {
    fn of(nodes: &[Node<'_>]) -> Self {
        let whole = nodes.first().map_or(0, |node| node.value.len());
        Self(whole.saturating_mul(16).saturating_add(PATH_BYTES_MAX))
    }

    fn take(&mut self, bytes: usize) -> Result<(), Error> {
        match self.0.checked_sub(bytes) {
            Some(rest) => {
                self.0 = rest;
                Ok(())
            }
            None => {
                let message = "the paths of the values in a JSON document have too many bytes: its names are long";
                Err(Error::new(ErrorKind::ResourcesExhausted, message))
            }
        }
    }
}

fn lists(given: &[ArrayRef], is_tree: bool) -> Result<ArrayRef> {
    let Some((json, path)) = given.split_first() else {
        return internal_err!("values of no JSON");
    };
    let json = json.as_string_view();
    let mut columns = Columns::default();
    let mut lengths = Vec::with_capacity(json.len());
    let mut valid = Vec::with_capacity(json.len());
    for (row, text) in json.iter().enumerate() {
        let before = columns.num_rows;
        valid.push(text.is_some());
        if let (Some(text), Some(steps)) = (text, steps_of(path, row)?)
            && let Some(target) = walk(text, &steps)?
        {
            let mut nodes = Vec::new();
            gather((whole(text)?, Reached::Whole, 0), 0, &mut 0, &mut nodes)?;
            let is_target = |node: &Node<'_>| std::ptr::eq(node.value, target);
            match (nodes.iter().position(is_target), is_tree) {
                (Some(found), true) => columns.add_tree(&nodes, found)?,
                (Some(found), false) => columns.add_each(&nodes, found)?,
                (None, _) => {}
            }
        }
        lengths.push(columns.num_rows - before);
    }
    let field = Field::new_list_field(DataType::Struct(fields()), true);
    let lists = ListArray::try_new(
        Arc::new(field),
        OffsetBuffer::from_lengths(lengths),
        Arc::new(columns.finish()?),
        Some(NullBuffer::from(valid)),
    )?;
    Ok(Arc::new(lists))
}

#[cfg(test)]
mod tests {
    use super::{Columns, Reached, gather};

    fn check(json: &str, is_tree: bool, expect: &[&str]) {
        let mut nodes = Vec::new();
        gather((json, Reached::Whole, 0), 0, &mut 0, &mut nodes).unwrap();
        let mut columns = Columns::default();
        match is_tree {
            true => columns.add_tree(&nodes, 0).unwrap(),
            false => columns.add_each(&nodes, 0).unwrap(),
        }
        let id = columns.id.finish();
        let (value, fullkey) = (columns.value.finish(), columns.fullkey.finish());
        let rows = value.iter().zip(&id).zip(&fullkey);
        let rows = rows.map(|((value, id), fullkey)| {
            format!("{} {} {}", id.unwrap(), fullkey.unwrap(), value.unwrap())
        });
        assert_eq!(rows.collect::<Vec<_>>(), expect, "{json}");
    }

    #[test]
    fn values_have_paths() {
        let json = r#"{"a": 1, "b c": [2, {"c": null}]}"#;
        let within = r#"[2,{"c":null}]"#;
        check(json, false, &["2 $.a 1", &format!("4 $.\"b c\" {within}")]);
        check(
            json,
            true,
            &[
                &format!("0 $ {{\"a\":1,\"b c\":{within}}}"),
                "2 $.a 1",
                &format!("4 $.\"b c\" {within}"),
                "5 $.\"b c\"[0] 2",
                "6 $.\"b c\"[1] {\"c\":null}",
                "8 $.\"b c\"[1].c null",
            ],
        );
        check("5", false, &["0 $ 5"]);
        check("{}", false, &[]);
        check("[]", true, &["0 $ []"]);
    }
}
