//! Where a query ran, in one line.

use super::report::RegionReport;

/// Says which share of the rows ran where, and the reason that counts for most of them.
pub(crate) fn verdict(regions: &[RegionReport]) -> String {
    let places = || regions.iter().flat_map(|region| &region.places);
    let total: u64 = places().map(|place| place.rows).sum();
    if total == 0 {
        return "all of it ran on the host: no part of it was read in regions".into();
    }
    let mut sums: Vec<(&str, u64)> = Vec::new();
    for place in places() {
        match sums.iter_mut().find(|(name, _)| *name == place.place) {
            Some((_, rows)) => *rows += place.rows,
            None => sums.push((&place.place, place.rows)),
        }
    }
    sums.sort_by_key(|(_, rows)| std::cmp::Reverse(*rows));
    let Some((most, rows)) = sums.first().copied() else {
        return String::new();
    };
    let share = match rows == total {
        true => "all rows ran".to_string(),
        false => format!("{} of the rows ran", percent(rows, total)),
    };
    let others = sums.iter().skip(1).filter(|(_, rows)| *rows > 0);
    let others: Vec<String> = others
        .map(|(place, rows)| format!(", {} on {}", percent(*rows, total), named(place)))
        .collect();
    let why = reason(regions, most).map(|why| format!(": {why}"));
    format!(
        "{share} on {}{}{}",
        named(most),
        others.concat(),
        why.unwrap_or_default()
    )
}

fn named(place: &str) -> &str {
    match place {
        "host" => "the host",
        other => other,
    }
}

fn percent(rows: u64, total: u64) -> String {
    let percent = rows as f64 * 100.0 / total as f64;
    match percent {
        // What is there is not nothing, and what is not all is not all.
        _ if percent < 1.0 => "less than 1 %".into(),
        _ if percent > 99.0 => "more than 99 %".into(),
        _ => format!("{percent:.0} %"),
    }
}

/// Returns why most morsels of a place ran there.
fn reason(regions: &[RegionReport], place: &str) -> Option<String> {
    let mut counts: Vec<(&str, u64)> = Vec::new();
    let of_place = regions.iter().flat_map(|region| &region.places);
    for (why, count) in of_place
        .filter(|of| of.place == place)
        .flat_map(|of| &of.reasons)
    {
        match counts.iter_mut().find(|(known, _)| known == why) {
            Some((_, sum)) => *sum += count,
            None => counts.push((why, *count)),
        }
    }
    let (why, _) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    Some(match (why, place) {
        ("earliest finish", "host") => "a device was estimated to finish later".into(),
        ("earliest finish", _) => "it was estimated to finish there first".into(),
        // What was looked for in which places is told below.
        _ => why.split(": looked for").next().unwrap_or(why).to_string(),
    })
}

#[cfg(test)]
mod tests;
