//! `system.placements` and `system.decisions`: what ran where and why, by place and claim by claim.

use datafusion::arrow::array::RecordBatch;
use datafusion::error::Result;
use tidegate_scheduler::{DecisionReport, PlaceReport};

use super::{Asked, Columns};
use crate::query::QueryReport;
use crate::region::report::RegionReport;
use crate::spread::SpreadPlanner;

/// What one place did for one region of a query.
#[derive(Clone, Copy)]
struct Part<'a> {
    query: u64,
    /// Counts up from 1.
    number: u64,
    region: &'a RegionReport,
    /// Who ran it, if another process did.
    executor: Option<&'a str>,
    place: &'a PlaceReport,
    /// The place's position among those of the region.
    position: usize,
}

/// The regions of a query that executors ran, with their names.
type Elsewhere = Vec<(String, RegionReport)>;

/// Asks a planner of stages for the regions of each query.
fn elsewhere(reports: &[QueryReport], planner: Option<&dyn SpreadPlanner>) -> Vec<Elsewhere> {
    let regions = |report: &QueryReport| match (planner, report.statement) {
        (Some(planner), Some(statement)) => planner.regions(statement),
        _ => Vec::new(),
    };
    reports.iter().map(regions).collect()
}

fn parts<'a>(reports: &'a [QueryReport], elsewhere: &'a [Elsewhere]) -> Vec<Part<'a>> {
    let mut parts = Vec::new();
    for (index, report) in reports.iter().enumerate() {
        let own = report.regions.iter().map(|region| (None, region));
        let others = elsewhere.get(index).into_iter().flatten();
        let others = others.map(|(executor, region)| (Some(executor.as_str()), region));
        for ((executor, region), number) in own.chain(others).zip(1..) {
            let places = region.places.iter().enumerate();
            parts.extend(places.map(|(position, place)| Part {
                query: report.id,
                number,
                region,
                executor,
                place,
                position,
            }));
        }
    }
    parts
}

/// Lists each reason why a place ran a region, with what it ran; what is counted is told in the
/// line of each reason. Regions that executors ran come after a query's own.
pub(super) fn placements(asked: Option<&Asked<'_>>) -> Result<RecordBatch> {
    let reports = asked.map_or_else(Vec::new, Asked::reports);
    let elsewhere = elsewhere(&reports, asked.and_then(Asked::planner).as_deref());
    let mut lines: Vec<(Part<'_>, Option<&(String, u64)>)> = Vec::new();
    for part in parts(&reports, &elsewhere) {
        if part.place.reasons.is_empty() {
            lines.push((part, None));
        }
        let reasons = part.place.reasons.iter();
        lines.extend(reasons.map(|reason| (part, Some(reason))));
    }
    Columns::of(&lines)
        .count("query_id", |(part, _)| part.query)
        .count("region", |(part, _)| part.number)
        .text("form", |(part, _)| Some(&part.region.form))
        .text("program", |(part, _)| part.region.program.as_ref())
        .text("program_json", |(part, _)| {
            part.region.program_json.as_ref()
        })
        .text("place", |(part, _)| Some(&part.place.place))
        .text("reason", |(_, reason)| reason.map(|(why, _)| why))
        .count("reason_count", |(_, reason)| {
            reason.map_or(0, |(_, times)| *times)
        })
        .count("morsels", |(part, _)| part.place.morsels)
        .count("rows", |(part, _)| part.place.rows)
        .count("bytes", |(part, _)| part.place.bytes)
        .seconds("seconds", |(part, _)| part.place.seconds)
        .count("claims", |(part, _)| part.place.claim_stats.claims)
        .seconds("claimed_seconds", |(part, _)| {
            part.place.claim_stats.seconds
        })
        .seconds("estimated_seconds", |(part, _)| {
            part.place.claim_stats.estimated_seconds
        })
        .count("estimated_bytes", |(part, _)| {
            part.place.claim_stats.estimated_bytes
        })
        .count("retries", |(part, _)| part.place.setbacks.retries)
        .count("splits", |(part, _)| part.place.setbacks.splits)
        .count("flushes", |(part, _)| part.place.setbacks.flushes)
        .count("waits", |(part, _)| part.place.setbacks.waits)
        .count("evicted_bytes", |(part, _)| {
            part.place.setbacks.evicted_bytes
        })
        .text("recorded", |(part, _)| {
            part.region.morsels_at(part.position)
        })
        .text("executor", |(part, _)| part.executor)
        .batch()
}

/// Lists the claims of each place, as many as are remembered one by one.
pub(super) fn decisions(asked: Option<&Asked<'_>>) -> Result<RecordBatch> {
    let reports = asked.map_or_else(Vec::new, Asked::reports);
    let mut lines: Vec<(Part<'_>, u64, &DecisionReport)> = Vec::new();
    for part in parts(&reports, &[]) {
        let claims = part.place.decisions.iter().enumerate();
        lines.extend(claims.map(|(index, claim)| (part, index as u64 + 1, claim)));
    }
    Columns::of(&lines)
        .count("query_id", |(part, _, _)| part.query)
        .count("region", |(part, _, _)| part.number)
        .text("place", |(part, _, _)| Some(&part.place.place))
        .count("claim", |(_, number, _)| *number)
        .text("reason", |(_, _, claim)| Some(&claim.reason))
        .count("morsels", |(_, _, claim)| claim.morsels)
        .count("rows", |(_, _, claim)| claim.rows)
        .count("bytes", |(_, _, claim)| claim.bytes)
        .count("estimated_bytes", |(_, _, claim)| claim.estimated_bytes)
        .seconds("seconds", |(_, _, claim)| claim.seconds)
        .seconds("estimated_seconds", |(_, _, claim)| claim.estimated_seconds)
        .moment("started", |(_, _, claim)| claim.started())
        .moment("ended", |(_, _, claim)| claim.ended)
        .batch()
}
