//! What separates and encloses values, and where they begin.

use super::escapes::escape_of;
use super::traits::Traits;
use super::types::traits_of;
use crate::error::SniffError;
use crate::given::Given;
use crate::records::{Rows, Step, Syntax, Tokenizer};

/// Delimiters that are tried; on a tie the first wins. Bytes that are within values of one column, as the `:` of
/// times, addresses and messages is, are delimiters only where a user says so.
const DELIMITERS: [u8; 5] = [b',', b';', b'\t', b'|', 0x1f];
/// Delimiters that show in a value that was cut by another one.
const TELLTALE: [u8; 3] = [b';', b'\t', b'|'];

/// Bytes of the head by which candidates are compared, and rows.
const COMPARED_BYTES: usize = 64 << 10;
const COMPARED_ROWS: usize = 1_000;
/// What is left of a candidate's points if it takes what may be several rows for one value.
const TORN: f64 = 0.3;
/// The least share of rows of one length.
const REGULAR_MIN: f64 = 0.5;

/// How a file's rows are cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) syntax: Syntax,
    /// Lines before the header or the first row.
    pub(super) skip: usize,
    /// The values of a row.
    pub(super) width: usize,
}

/// How well a candidate cuts the rows.
struct Score {
    points: f64,
    /// The row that is the header or the first one.
    start: usize,
    width: usize,
}

/// Finds how a file's rows are cut, from its head.
pub(super) fn find(head: &[u8], given: &Given) -> Result<Found, SniffError> {
    let skipped = given.skip.unwrap_or(0);
    let text = behind_lines(head, skipped);
    let compared = match text.get(..COMPARED_BYTES) {
        Some(part) => &part[..memchr::memrchr(b'\n', part).map_or(part.len(), |at| at + 1)],
        None => text,
    };
    let compared = match is_cut(compared, given) {
        true => text,
        false => compared,
    };
    let mut best: Option<(Score, Syntax, usize)> = None;
    for syntax in candidates(compared, given) {
        let rows = rows_of(compared, syntax)?;
        let prior = prior(syntax, given);
        let Some(mut score) = score(&rows, syntax, given) else {
            continue;
        };
        score.points *= prior;
        if torn_value(compared, syntax).is_some() {
            score.points *= TORN;
        }
        if best
            .as_ref()
            .is_none_or(|(best, ..)| score.points > best.points)
        {
            let skip = match given.skip {
                Some(_) => skipped,
                None => (rows.line(score.start) as usize).saturating_sub(1),
            };
            best = Some((score, syntax, skip));
        }
    }
    let one_column = one_column(compared, given, skipped)?;
    let found = match best {
        Some((score, syntax, skip)) if !one_column.is_temporal => Found {
            syntax,
            skip: if score.start == 0 { skipped } else { skip },
            width: score.width,
        },
        _ => one_column.found,
    };
    match torn_value(text, found.syntax) {
        Some(at) if !given.ignore_errors => {
            let line = skipped + 1 + memchr::memchr_iter(b'\n', &text[..at]).count();
            Err(SniffError::Option(format!(
                "line {line}: a quote is opened, and closed on another line with text behind it: where it is a character as \
                 others, quote => '' says so, and ignore_errors => true reads on"
            )))
        }
        _ => Ok(found),
    }
}

/// Finds a value in quotes that goes over several lines and has text behind its last quote: one of its quotes lacks its
/// partner, and rows are taken for a part of it. Returns where it begins.
fn torn_value(text: &[u8], syntax: Syntax) -> Option<usize> {
    let quote = syntax.quote?;
    let is_end = |byte: u8| byte == syntax.delimiter || matches!(byte, b'\n' | b'\r');
    let (mut at, mut is_start) = (0, true);
    while let Some(byte) = text.get(at) {
        if !is_start || *byte != quote {
            is_start = is_end(*byte);
            at += 1;
            continue;
        }
        let close = closing_quote(text, at, quote, syntax.escape)?;
        let behind = text[close + 1..].iter().find(|byte| **byte != b' ');
        let has_newline = memchr::memchr(b'\n', &text[at..close]).is_some();
        if has_newline && behind.is_some_and(|byte| !is_end(*byte)) {
            return Some(at);
        }
        (at, is_start) = (close + 1, false);
    }
    None
}

/// Returns where the value ends that a quote opens; `None` if the text ends first.
fn closing_quote(text: &[u8], open: usize, quote: u8, escape: Option<u8>) -> Option<usize> {
    let mut at = open + 1;
    loop {
        let byte = *text.get(at)?;
        let is_doubled = byte == quote && text.get(at + 1) == Some(&quote);
        if is_doubled || Some(byte) == escape {
            at += 2;
        } else if byte == quote {
            return Some(at);
        } else {
            at += 1;
        }
    }
}

/// Returns whether a text may end within its first row, or within one that has more than half of it, as one with a
/// long quoted value does.
pub(super) fn is_cut(text: &[u8], given: &Given) -> bool {
    let has_line = memchr::memchr2(b'\n', b'\r', text).is_some();
    let mut quoting = candidates(text, given).into_iter();
    !has_line
        || quoting.any(|syntax| syntax.quote.is_some() && cut_row(text, syntax) < text.len() / 2)
}

/// Returns where the row begins in which a text ends; its length if it ends with a row.
fn cut_row(text: &[u8], syntax: Syntax) -> usize {
    let (mut rows, mut tokenizer, mut start) = (Rows::default(), Tokenizer::new(syntax), 0);
    while let Ok((Step::Row, taken)) = tokenizer.read(&text[start..], &mut rows) {
        start += taken;
        rows.clear();
        if start == text.len() {
            break;
        }
    }
    start
}

/// Lists what is tried.
fn candidates(text: &[u8], given: &Given) -> Vec<Syntax> {
    let has = |byte: u8| memchr::memchr(byte, text).is_some();
    let delimiters: Vec<u8> = match given.delimiter {
        Some(delimiter) => vec![delimiter],
        None => {
            let mut tried = DELIMITERS.to_vec();
            tried.retain(|delimiter| has(*delimiter));
            tried
        }
    };
    let quotes: Vec<Option<u8>> = match given.quote {
        Some(quote) => vec![quote],
        None => {
            let mut quotes = vec![Some(b'"')];
            if opens_values(text, b'\'', &delimiters) {
                quotes.push(Some(b'\''));
            }
            if has(b'"') {
                quotes.push(None);
            }
            quotes
        }
    };
    let mut all = Vec::new();
    for &delimiter in &delimiters {
        let comments: Vec<Option<u8>> = match given.comment {
            Some(comment) => vec![comment],
            None if begins_lines(text, b'#') && !is_header(text, delimiter) => {
                vec![Some(b'#'), None]
            }
            None => vec![None],
        };
        for &quote in &quotes {
            for &comment in &comments {
                let doubled = Syntax {
                    delimiter,
                    quote,
                    escape: None,
                    comment,
                };
                let escape = match given.escape {
                    Some(escape) => escape,
                    None => escape_of(text, doubled),
                };
                all.push(Syntax { escape, ..doubled });
            }
        }
    }
    all
}

/// Tells whether the one line that begins with `#` is the first, and is separated as the second: it names the columns.
fn is_header(text: &[u8], delimiter: u8) -> bool {
    let mut lines = text.split(|byte| *byte == b'\n');
    let (Some(first), Some(second)) = (lines.next(), lines.next()) else {
        return false;
    };
    let separators = |line: &[u8]| memchr::memchr_iter(delimiter, line).count();
    first.starts_with(b"#")
        && separators(first) > 0
        && separators(first) == separators(second)
        && memchr::memmem::find(text, b"\n#").is_none()
}

fn begins_lines(text: &[u8], byte: u8) -> bool {
    text.first() == Some(&byte) || memchr::memmem::find(text, &[b'\n', byte]).is_some()
}

/// Tells whether a byte stands where a quoted value begins.
fn opens_values(text: &[u8], quote: u8, delimiters: &[u8]) -> bool {
    memchr::memchr_iter(quote, text).any(|at| match at.checked_sub(1) {
        None => true,
        Some(before) => matches!(text[before], b'\n' | b'\r') || delimiters.contains(&text[before]),
    })
}

/// Says how likely a candidate is before its rows are looked at.
fn prior(syntax: Syntax, given: &Given) -> f64 {
    match given.quote.is_none() && syntax.quote != Some(b'"') {
        true => 0.95,
        false => 1.0,
    }
}

fn rows_of(text: &[u8], syntax: Syntax) -> Result<Rows, SniffError> {
    let mut rows = Rows::default();
    let mut tokenizer = Tokenizer::new(syntax);
    let mut rest = text;
    let refused = |error: crate::error::ReadError| SniffError::Option(error.to_string());
    while !rest.is_empty() && rows.len() < COMPARED_ROWS {
        let (step, consumed) = tokenizer.read(rest, &mut rows).map_err(refused)?;
        rest = &rest[consumed..];
        if step == Step::More {
            tokenizer.read(&[], &mut rows).map_err(refused)?;
            break;
        }
    }
    Ok(rows)
}

fn score(rows: &Rows, syntax: Syntax, given: &Given) -> Option<Score> {
    let declared = given.columns.as_ref().map(Vec::len);
    let declared = declared.or(given.names.as_ref().map(Vec::len));
    let mut width = match (declared, given.null_padding) {
        (Some(width), _) => width,
        (None, true) => (0..rows.len()).map(|row| rows.width(row)).max()?,
        (None, false) => usual_width(rows)?,
    };
    if width < 2 {
        return None;
    }
    let is_fitting = |row: usize, width: usize| {
        let has = rows.width(row);
        let is_ended = has == width + 1 && rows.value(row, width).is_empty();
        has == width || is_ended || (given.null_padding && has < width)
    };
    let mut start = match given.skip {
        Some(_) => 0,
        None => (0..rows.len()).find(|row| is_fitting(*row, width))?,
    };
    // Each row may end with a delimiter, but for the header.
    let ends_empty = |row: usize| rows.width(row) != width || rows.value(row, width - 1).is_empty();
    if start > 0
        && width > 2
        && rows.width(start - 1) == width - 1
        && (start..rows.len()).all(ends_empty)
    {
        start -= 1;
        width -= 1;
    }
    let fitting: Vec<usize> = (start..rows.len())
        .filter(|row| is_fitting(*row, width))
        .collect();
    let behind = rows.len() - start;
    let regular = fitting.len() as f64 / behind.max(1) as f64;
    if regular < REGULAR_MIN && declared.is_none() {
        return None;
    }
    let mut plausible = 0.0;
    let mut values = 0_usize;
    for row in &fitting {
        for value in rows.values(*row).take(width) {
            plausible += plausibility(value, syntax, given);
            values += 1;
        }
    }
    let share = fitting.len() as f64 / rows.len().max(1) as f64;
    let columns = (width - 1) as f64 / width as f64;
    Some(Score {
        points: regular * regular * (0.5 + 0.5 * share) * columns * plausible
            / values.max(1) as f64,
        start,
        width,
    })
}

/// Returns how many values most rows have; of equally many rows, the larger number.
fn usual_width(rows: &Rows) -> Option<usize> {
    let mut counts = std::collections::BTreeMap::new();
    for row in 0..rows.len() {
        let is_blank = rows.width(row) == 1 && rows.value(row, 0).trim_ascii().is_empty();
        if !is_blank {
            *counts.entry(rows.width(row)).or_insert(0_usize) += 1;
        }
    }
    // Of equals `max_by_key` takes the last.
    counts
        .into_iter()
        .max_by_key(|(_, count)| *count)
        .map(|(width, _)| width)
}

/// Says how much a value looks like one.
fn plausibility(value: &[u8], syntax: Syntax, given: &Given) -> f64 {
    let Some(traits) = traits_of(value, given) else {
        return 0.7;
    };
    if traits != Traits::empty() {
        return 1.0;
    }
    let is_quoted = |quote: u8| value.first() == Some(&quote) || value.last() == Some(&quote);
    if is_quoted(b'"') || (value.len() > 1 && is_quoted(b'\'') && syntax.quote != Some(b'\'')) {
        return 0.1;
    }
    if value.first() == Some(&b'#') {
        return 0.4;
    }
    if TELLTALE.iter().any(|byte| value.contains(byte)) {
        return 0.3;
    }
    match value.contains(&b',') {
        true => 0.6,
        false => 0.8,
    }
}

struct OneColumn {
    found: Found,
    /// Whether all values but the first are dates or timestamps.
    is_temporal: bool,
}

/// Takes each line for a value.
fn one_column(text: &[u8], given: &Given, skip: usize) -> Result<OneColumn, SniffError> {
    let delimiter = given.delimiter.unwrap_or(b',');
    // What separates nothing is none of the text.
    let unused = (0x01..=0x1f).find(|byte| {
        !matches!(byte, b'\t' | b'\n' | b'\r') && memchr::memchr(*byte, text).is_none()
    });
    let comment = match given.comment {
        Some(comment) => comment,
        None => begins_lines(text, b'#').then_some(b'#'),
    };
    let mut syntax = Syntax {
        delimiter: given.delimiter.or(unused).unwrap_or(delimiter),
        quote: given.quote.unwrap_or(Some(b'"')),
        escape: given.escape.unwrap_or(None),
        comment,
    };
    if given.quote.is_none() && torn_value(text, syntax).is_some() {
        syntax.quote = None;
    }
    let rows = rows_of(text, syntax)?;
    let is_temporal = rows.len() > 1
        && given.delimiter.is_none()
        && (1..rows.len()).all(|row| {
            traits_of(rows.value(row, 0), given)
                .is_none_or(|traits| traits == Traits::TIME || traits.timestamps().next().is_some())
        });
    Ok(OneColumn {
        found: Found {
            syntax,
            skip,
            width: 1,
        },
        is_temporal,
    })
}

/// Returns the text behind so many lines.
pub(super) fn behind_lines(text: &[u8], lines: usize) -> &[u8] {
    let mut rest = text;
    for _ in 0..lines {
        match memchr::memchr(b'\n', rest) {
            Some(at) => rest = &rest[at + 1..],
            None => return &[],
        }
    }
    rest
}
