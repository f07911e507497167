//! A table that is no wider than the terminal.
//!
//! Names and types stand above the values, numbers to the right. Where the columns are too wide, the widest
//! are cut to one width; where that is too narrow to read, columns in the middle make room for one with `…`.
//! Of a list of tables, the names stay longest.
//! A plan, whose lines mean something, is no table: its lines are broken instead.

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Columns are cut to this width before some of them are left out.
const CUT_WIDTH: usize = 24;
/// What stands for what is left out.
const MORE: &str = "…";
/// What stands between a column's value and the next one's, and before the first and behind the last.
const BETWEEN: usize = 3;
const AROUND: usize = 1;

/// The text of a table's columns.
pub(super) struct Cells {
    columns: Vec<Column>,
    num_rows: usize,
}

struct Column {
    name: String,
    data_type: String,
    is_number: bool,
    /// Lines of each value.
    values: Vec<Vec<String>>,
    width: usize,
}

/// A table as text.
pub(super) struct Frame {
    pub(super) text: String,
    /// Columns that were left out.
    pub(super) hidden: usize,
}

impl Cells {
    pub(super) fn new(schema: &SchemaRef, batches: &[RecordBatch]) -> Result<Self, ArrowError> {
        let options = FormatOptions::default()
            .with_display_error(true)
            .with_null("NULL");
        let mut columns = Vec::with_capacity(schema.fields().len());
        for (place, field) in schema.fields().iter().enumerate() {
            let mut values = Vec::new();
            for batch in batches {
                let array = batch.column(place);
                let formatter = ArrayFormatter::try_new(array, &options)?;
                let value = |row| lines(&formatter.value(row).to_string());
                values.extend((0..array.len()).map(value));
            }
            let (name, data_type) = (field.name().clone(), tidegate::sql_type(field.data_type()));
            let lines = values.iter().flatten().map(|line| line.width());
            let width = lines.chain([name.width(), data_type.width()]).max();
            columns.push(Column {
                is_number: is_number(field.data_type()),
                width: width.unwrap_or(0),
                name,
                data_type,
                values,
            });
        }
        let num_rows = batches.iter().map(RecordBatch::num_rows).sum();
        Ok(Self { columns, num_rows })
    }

    /// Tells whether the table is wider than so many columns of the terminal.
    pub(super) fn is_wider(&self, width: usize) -> bool {
        let widths: Vec<usize> = self.columns.iter().map(|column| column.width).collect();
        total(&widths) > width
    }

    /// Returns the column of names, if this is what `SHOW TABLES` lists.
    fn name_of_tables(&self) -> Option<usize> {
        let names = self.columns.iter().map(|column| column.name.as_str());
        let is_it = names.eq(["table_schema", "table_name", "table_type"]);
        is_it.then_some(1)
    }

    /// Lays the table out.
    pub(super) fn frame(&self, width: usize) -> Frame {
        let mut widths: Vec<usize> = self.columns.iter().map(|column| column.width).collect();
        if total(&widths) > width {
            shrink(&mut widths, width);
        }
        let shown = match self.name_of_tables() {
            Some(kept) if total(&widths) > width => {
                widths[kept] = self.columns[kept].width;
                places_beside(kept, &mut widths, width)
            }
            _ => places(&mut widths, width),
        };
        let hidden = self.columns.len() - shown.iter().flatten().count();
        let widths: Vec<usize> = shown
            .iter()
            .map(|place| place.map_or(MORE.width(), |place| widths[place]))
            .collect();
        let mut text = String::new();
        let rule: String = widths
            .iter()
            .map(|width| format!("+{}", "-".repeat(width + 2)))
            .collect();
        let rule = format!("{rule}+\n");
        text.push_str(&rule);
        for head in [
            |column: &Column| column.name.clone(),
            |column: &Column| column.data_type.clone(),
        ] {
            let cells = shown.iter().zip(&widths).map(|(place, width)| {
                let column = place.map(|place| &self.columns[place]);
                let written = column.map_or(MORE.into(), head);
                let is_number = column.is_some_and(|column| column.is_number);
                aligned(&written, *width, is_number)
            });
            push_row(&mut text, cells);
        }
        text.push_str(&rule);
        for row in 0..self.num_rows {
            let column = |place: &Option<usize>| place.map(|place| &self.columns[place]);
            let height = shown.iter().filter_map(column);
            let height = height.map(|column| column.values[row].len()).max();
            for line in 0..height.unwrap_or(1) {
                let cells = shown.iter().zip(&widths).map(|(place, width)| {
                    let Some(column) = column(place) else {
                        return aligned(MORE, *width, false);
                    };
                    let value = column.values[row].get(line).map_or("", String::as_str);
                    aligned(value, *width, column.is_number)
                });
                push_row(&mut text, cells);
            }
        }
        if self.num_rows > 0 {
            text.push_str(&rule);
        }
        Frame { text, hidden }
    }
}

/// Writes the parts of a plan one below the other, each line broken at the width.
pub(super) fn plan(cells: &Cells, width: usize) -> String {
    let mut text = String::new();
    let [kinds, plans] = cells.columns.as_slice() else {
        return text;
    };
    for (kind, plan) in kinds.values.iter().zip(&plans.values) {
        push_broken(&mut text, &format!("-- {} --", kind.join(" ")), width);
        for line in plan {
            push_broken(&mut text, line, width);
        }
    }
    text
}

/// Tells whether a result is that of EXPLAIN.
pub(super) fn is_plan(schema: &SchemaRef) -> bool {
    let names = schema.fields().iter().map(|field| field.name().as_str());
    names.eq(["plan_type", "plan"])
}

/// Breaks a line where it is too wide, if possible at a space; what follows is further in than its
/// beginning.
fn push_broken(text: &mut String, line: &str, width: usize) {
    let inner = line.trim_start();
    let indent = (line.len() - inner.len()).min(width / 2);
    let mut rest = inner;
    let mut room = width.saturating_sub(indent).max(10);
    text.push_str(&" ".repeat(indent));
    while rest.width() > room {
        let fitting = fitting(rest, room);
        let space = rest[..fitting].rfind(' ').filter(|at| *at * 2 > fitting);
        let (part, behind) = rest.split_at(space.map_or(fitting, |at| at + 1));
        text.push_str(part.trim_end());
        text.push('\n');
        text.push_str(&" ".repeat(indent + 4));
        room = width.saturating_sub(indent + 4).max(10);
        rest = behind;
    }
    text.push_str(rest);
    text.push('\n');
}

fn lines(value: &str) -> Vec<String> {
    let shown = |line: &str| line.replace('\t', "    ");
    match value.is_empty() {
        true => vec![String::new()],
        false => value.lines().map(shown).collect(),
    }
}

fn is_number(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => is_number(value),
        other => other.is_numeric(),
    }
}

fn total(widths: &[usize]) -> usize {
    widths.iter().map(|width| width + BETWEEN).sum::<usize>() + AROUND
}

/// Cuts the widest columns to one width with which all fit, but not below [`CUT_WIDTH`].
fn shrink(widths: &mut [usize], width: usize) {
    let widest = widths.iter().copied().max().unwrap_or(0);
    let fits = |cut: usize| {
        let cut: Vec<usize> = widths.iter().map(|width| (*width).min(cut)).collect();
        total(&cut) <= width
    };
    let cut = (CUT_WIDTH..widest).rev().find(|cut| fits(*cut));
    // One column may be as wide as the terminal.
    let most = width.saturating_sub(BETWEEN + AROUND).max(1);
    let cut = cut.unwrap_or(CUT_WIDTH).min(most);
    for width in widths {
        *width = (*width).min(cut);
    }
}

/// Returns the columns that are shown, from both ends; `None` is where others are left out. The first is
/// always there, cut if it must be.
fn places(widths: &mut [usize], width: usize) -> Vec<Option<usize>> {
    if total(widths) <= width {
        return (0..widths.len()).map(Some).collect();
    }
    let mut left = width.saturating_sub(AROUND + MORE.width() + BETWEEN);
    if let Some(first) = widths.first_mut() {
        *first = (*first).min(left.saturating_sub(BETWEEN)).max(1);
    }
    let (mut first, mut last) = (0, widths.len());
    loop {
        let is_first = first <= widths.len() - last;
        let place = if is_first { first } else { last - 1 };
        let needed = widths[place] + BETWEEN;
        if first + 1 >= last || needed > left {
            break;
        }
        left = left.saturating_sub(needed);
        match is_first {
            true => first += 1,
            false => last -= 1,
        }
    }
    let begin = (0..first).map(Some);
    begin
        .chain([None])
        .chain((last..widths.len()).map(Some))
        .collect()
}

/// Returns the columns that are shown where one must be, and others as far as there is room.
fn places_beside(kept: usize, widths: &mut [usize], width: usize) -> Vec<Option<usize>> {
    let laid_out = |shown: &[usize]| {
        let mut places: Vec<Option<usize>> = Vec::with_capacity(shown.len() + 2);
        for place in 0..widths.len() {
            match shown.contains(&place) {
                true => places.push(Some(place)),
                false if places.last() == Some(&None) => {}
                false => places.push(None),
            }
        }
        places
    };
    let mut shown = vec![kept];
    for place in 0..widths.len() {
        let mut more = shown.clone();
        more.push(place);
        let of_places = laid_out(&more).into_iter();
        let of_places = of_places.map(|place| place.map_or(MORE.width(), |place| widths[place]));
        if place != kept && total(&of_places.collect::<Vec<_>>()) <= width {
            shown = more;
        }
    }
    let places = laid_out(&shown);
    let num_gaps = places.iter().filter(|place| place.is_none()).count();
    let others = shown.iter().filter(|place| **place != kept);
    let others: usize = others.map(|place| widths[*place] + BETWEEN).sum();
    let room =
        width.saturating_sub(AROUND + BETWEEN + num_gaps * (MORE.width() + BETWEEN) + others);
    widths[kept] = widths[kept].min(room).max(1);
    places
}

fn push_row(text: &mut String, cells: impl Iterator<Item = String>) {
    for cell in cells {
        text.push_str("| ");
        text.push_str(&cell);
        text.push(' ');
    }
    text.push_str("|\n");
}

/// Returns how many bytes of a text fit into so many columns of the terminal.
fn fitting(text: &str, width: usize) -> usize {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > width {
            return at;
        }
    }
    text.len()
}

fn aligned(value: &str, width: usize, to_the_right: bool) -> String {
    let cut = match value.width() > width {
        true => format!("{}{MORE}", &value[..fitting(value, width - 1)]),
        false => value.to_string(),
    };
    let space = " ".repeat(width.saturating_sub(cut.width()));
    match to_the_right {
        true => format!("{space}{cut}"),
        false => format!("{cut}{space}"),
    }
}

#[cfg(test)]
mod tests;
