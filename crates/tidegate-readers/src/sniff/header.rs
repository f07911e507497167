//! Whether the first row has the columns' names, and what they are.

use std::collections::{HashMap, HashSet};

use super::plain_names;
use super::traits::Traits;
use super::types::{Facts, traits_of};
use crate::error::SniffError;
use crate::given::Given;
use crate::records::Rows;

/// Tells whether the first row is a header: `facts` are those of the rows below it.
///
/// Where a column has a type, a header is what does not have it. Where all is text, a header is a row of
/// different words that do not come again below them.
pub(super) fn find(rows: &Rows, width: usize, facts: &Facts, given: &Given) -> bool {
    if let Some(header) = given.header {
        return header;
    }
    if rows.len() == 0 || rows.width(0) < width {
        return false;
    }
    let first: Vec<&[u8]> = rows.values(0).take(width).collect();
    let traits: Vec<Option<Traits>> = first.iter().map(|value| traits_of(value, given)).collect();
    let (mut differs, mut agrees) = (0, 0);
    for (column, traits) in traits.iter().enumerate() {
        match traits {
            Some(traits) if facts.is_typed(column) => match facts.admits(column, *traits) {
                true => agrees += 1,
                false => differs += 1,
            },
            _ => {}
        }
    }
    if differs + agrees > 0 {
        return (differs > 0 && differs >= agrees) || are_years(&first);
    }
    let is_word = |(value, traits): (&&[u8], &Option<Traits>)| {
        !value.trim_ascii().is_empty() && traits.is_none_or(|traits| traits == Traits::empty())
    };
    let are_words = first.iter().zip(&traits).skip(1).all(is_word)
        && (width > 1 || first.iter().zip(&traits).all(is_word));
    let different: HashSet<&[u8]> = first.iter().copied().collect();
    let comes_again = |row: usize| {
        let values = rows.values(row).zip(&first);
        values
            .into_iter()
            .any(|(value, name)| value == *name && !name.is_empty())
    };
    are_words && different.len() == first.len() && !(1..rows.len()).any(comes_again)
}

/// Tells whether a row is a name and then years, one after the other.
fn are_years(first: &[&[u8]]) -> bool {
    let year = |value: &&[u8]| {
        let text = std::str::from_utf8(value.trim_ascii()).ok()?;
        text.parse::<u32>()
            .ok()
            .filter(|year| (1800..2200).contains(year))
    };
    let names = first.iter().take_while(|value| year(value).is_none());
    let names: Vec<_> = names.collect();
    let years: Option<Vec<u32>> = first[names.len()..].iter().map(year).collect();
    let are_names = !names.is_empty() && names.iter().all(|name| !name.is_empty());
    are_names
        && years.is_some_and(|years| {
            years.len() >= 2 && years.windows(2).all(|pair| pair[0].abs_diff(pair[1]) == 1)
        })
}

/// Returns the columns' names.
///
/// # Errors
/// [`SniffError::Option`] for names that are given twice, or too many of them.
pub(super) fn names(
    rows: &Rows,
    width: usize,
    header: bool,
    given: &Given,
) -> Result<Vec<String>, SniffError> {
    if let Some(columns) = &given.columns {
        return Ok(columns.iter().map(|(name, _)| name.clone()).collect());
    }
    if let Some(names) = &given.names {
        return Ok(names.clone());
    }
    let digits = width.saturating_sub(1).to_string().len();
    let numbered = |place: usize| format!("column{place:0digits$}");
    let mut taken = HashSet::new();
    // How often a name was numbered, so that of many columns of one name none is tried again.
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut names = Vec::with_capacity(width);
    for place in 0..width {
        let written = match header && rows.len() > 0 && place < rows.width(0) {
            true => String::from_utf8_lossy(rows.value(0, place))
                .trim()
                .to_string(),
            false => String::new(),
        };
        let written = match given.normalize_names {
            true => plain_names::plain(&written),
            false => written,
        };
        let name = match written.is_empty() {
            true => numbered(place),
            false => written,
        };
        let mut unique = name.clone();
        while !taken.insert(unique.to_lowercase()) {
            let count = counts.entry(name.to_lowercase()).or_default();
            *count += 1;
            unique = format!("{name}_{count}");
        }
        names.push(unique);
    }
    Ok(names)
}
