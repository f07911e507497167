//! The page: what ran, for how long, where and why. It holds its own style, and no script.

use std::fmt;

use serde_json::Value;
use tidegate::QueryReport;

use super::stream::Stream;

const STYLE: &str = include_str!("style.css");

/// What the page tells of.
pub(super) struct Page<'a> {
    pub(super) query: &'a str,
    /// As `EXPLAIN ANALYZE FORMAT JSON` returns it.
    pub(super) profile: &'a Value,
    pub(super) report: Option<&'a QueryReport>,
}

impl fmt::Display for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |name: &str| self.profile[name].as_str().unwrap_or_default();
        let seconds = self.profile["seconds"].as_f64().unwrap_or(0.0);
        write!(
            f,
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <title>tidegate report</title>\n<style>\n{STYLE}</style></head><body>\n\
             <h1>{}</h1>\n<p>{} rows in {}",
            escaped(text("verdict")),
            self.profile["rows"],
            time(seconds)
        )?;
        if let Some(report) = self.report {
            write!(
                f,
                ", planned in {}, at most {} of memory",
                time(report.plan_seconds),
                bytes(report.peak_bytes)
            )?;
        }
        write!(
            f,
            ", tidegate {}</p>\n<pre>{}</pre>\n",
            env!("CARGO_PKG_VERSION"),
            escaped(self.query)
        )?;
        if let Some(note) = self.report.and_then(|report| report.note.as_ref()) {
            writeln!(f, "<p>{}</p>", escaped(note))?;
        }
        writeln!(f, "<h2>Work by time</h2>")?;
        match self.report.and_then(Stream::of) {
            Some(stream) => writeln!(f, "<div class=\"wide\">{}</div>", stream.svg())?,
            None => writeln!(
                f,
                "<p>Nothing was shared between places: the host ran all of it, and the plan below has its times.</p>"
            )?,
        }
        writeln!(
            f,
            "<h2>Plan</h2>\n<div class=\"wide\"><table><tr><th>operator</th><th>rows</th>\
             <th>time</th></tr>"
        )?;
        operator(f, &self.profile["plan"], 0)?;
        writeln!(f, "</table></div>")?;
        self.places(f)?;
        writeln!(f, "</body></html>")
    }
}

impl Page<'_> {
    fn places(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "<h2>Places</h2>\n<div class=\"wide\"><table><tr><th>region</th><th>place</th>\
             <th>morsels</th><th>rows</th><th>bytes</th><th>time</th><th>why</th></tr>"
        )?;
        let regions = self.report.map_or(&[][..], |report| &report.regions);
        for (number, region) in regions.iter().enumerate() {
            for place in &region.places {
                let reasons = place.reasons.iter();
                let reasons: Vec<String> = reasons
                    .map(|(why, times)| format!("{} ×{times}", escaped(why)))
                    .collect();
                writeln!(
                    f,
                    "<tr class=\"{}\"><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td>\
                     <td>{}</td><td class=\"text\">{}</td></tr>",
                    side(&place.place),
                    number + 1,
                    escaped(&place.place),
                    place.morsels,
                    place.rows,
                    bytes(place.bytes),
                    time(place.seconds),
                    reasons.join("<br>")
                )?;
            }
        }
        writeln!(f, "</table></div>")
    }
}

fn side(place: &str) -> &'static str {
    match place {
        "host" => "host",
        _ => "device",
    }
}

/// Writes an operator and those below it as rows of a table.
fn operator(f: &mut fmt::Formatter<'_>, of: &Value, depth: usize) -> fmt::Result {
    let text = |name: &str| escaped(of[name].as_str().unwrap_or_default());
    let rows = of["rows"].as_u64().map(|rows| rows.to_string());
    let seconds = of["seconds"].as_f64().map(time);
    let places = of["places"].as_array().map_or(&[][..], Vec::as_slice);
    let mut sides = places
        .iter()
        .filter(|place| place["rows"].as_u64() > Some(0));
    let sides: Vec<&str> = sides
        .by_ref()
        .map(|place| side(place["place"].as_str().unwrap_or_default()))
        .collect();
    let class = match (sides.contains(&"host"), sides.contains(&"device")) {
        (true, true) => "both",
        (false, true) => "device",
        _ => "host",
    };
    writeln!(
        f,
        "<tr class=\"{class}\"><td class=\"text\" style=\"padding-left:{}em\"><details><summary>{}\
         </summary>{}</details></td><td>{}</td><td>{}</td></tr>",
        depth as f64 + 0.5,
        text("operator"),
        text("details"),
        rows.unwrap_or_default(),
        seconds.unwrap_or_default()
    )?;
    for input in of["inputs"].as_array().into_iter().flatten() {
        operator(f, input, depth + 1)?;
    }
    Ok(())
}

fn time(seconds: f64) -> String {
    match seconds {
        _ if seconds < 1.0 => format!("{:.1} ms", seconds * 1e3),
        _ => format!("{seconds:.2} s"),
    }
}

fn bytes(bytes: u64) -> String {
    indicatif::HumanBytes(bytes).to_string()
}

/// Writes a text so that a browser shows it as it is.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}
