//! One query as the page draws it, and as one file that holds all that it takes to draw it.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tidegate::{QueryProfile, QueryProgress, QueryReport, QueryState, RegionReport};

use super::{DRAWING, STYLE};
use crate::timeline::MemoryByTier;

pub(super) fn milliseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

/// Tells all that is known of a query; the memory is that of the whole process, by seconds from its beginning.
pub(super) fn told(
    report: &QueryReport,
    profile: &QueryProfile,
    progress: Option<&QueryProgress>,
    memory: &[(f64, MemoryByTier)],
) -> Value {
    let began = profile.began.unwrap_or(report.started);
    let memory = memory
        .iter()
        .map(|(at, memory)| json!({ "at": at, "memory": memory }));
    json!({
        "id": report.id,
        "sql": report.sql,
        "user": report.user,
        "state": report.state,
        "is_live": is_live(report),
        "started_ms": milliseconds(report.started),
        "seconds": report.seconds,
        "plan_seconds": report.plan_seconds,
        "admission_seconds": report.admission_seconds,
        "rows": report.rows,
        "peak_bytes": report.peak_bytes,
        "error": report.error,
        "rows_left_out": report.rows_left_out,
        "note": report.note,
        "progress": progress.map(progress_of),
        "verdict": profile.verdict,
        "plan": profile.plan,
        "work": profile.work,
        "claims": claims(report, began),
        "regions": report.regions.iter().map(region).collect::<Vec<_>>(),
        "memory": memory.collect::<Vec<_>>(),
    })
}

/// Tells which share of a query is done, and what time is left.
pub(super) fn progress_of(progress: &QueryProgress) -> Value {
    json!({
        "share": progress.share(),
        "seconds_left": progress.seconds_left(),
        "rows_read": progress.rows_read,
        "rows_total": progress.rows_total,
    })
}

pub(super) fn is_live(report: &QueryReport) -> bool {
    matches!(report.state, QueryState::Planned | QueryState::Running)
}

fn region(region: &RegionReport) -> Value {
    json!({
        "form": region.form,
        "program": region.program,
        "reasons": region.reasons,
        "places": region.places,
    })
}

/// Lists what each place claimed of the regions, by seconds from the query's beginning.
fn claims(report: &QueryReport, began: SystemTime) -> Vec<Value> {
    let since = |time: SystemTime| {
        let since = time.duration_since(began);
        since.map_or(0.0, |since| since.as_secs_f64())
    };
    let mut claims = Vec::new();
    for (number, region) in report.regions.iter().enumerate() {
        for place in &region.places {
            for claim in &place.decisions {
                claims.push(json!({
                    "region": number + 1,
                    "place": place.place,
                    "start": since(claim.started()),
                    "end": since(claim.ended),
                    "morsels": claim.morsels,
                    "rows": claim.rows,
                    "bytes": claim.bytes,
                    "seconds": claim.seconds,
                    "estimated_seconds": claim.estimated_seconds,
                    "reason": claim.reason,
                }));
            }
        }
    }
    claims
}

/// Draws a query as one page that asks for nothing else; `memory` is by seconds from the query's beginning.
pub fn report_page(
    report: &QueryReport,
    profile: &QueryProfile,
    memory: &[(f64, MemoryByTier)],
) -> String {
    let told = told(report, profile, None, memory);
    // No markup: a text that ends a script is none inside a string.
    let told = told.to_string().replace('<', "\\u003c");
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Tidegate: query {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header><h1>Tidegate {}</h1></header>\n\
         <main><section class=\"wide\" id=\"query\"></section></main>\n\
         <noscript>This page draws with JavaScript, which it holds itself.</noscript>\n\
         <script>\n{DRAWING}\nconst told = {told};\nconst place = document.getElementById(\"query\");\n\
         showQuery(place, told);\nwindow.addEventListener(\"resize\", () => showQuery(place, told));\n\
         </script>\n</body>\n</html>\n",
        report.id,
        env!("CARGO_PKG_VERSION"),
    )
}
