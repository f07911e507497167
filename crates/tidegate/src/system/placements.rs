//! `system.placements` and `system.decisions`: what ran where and why, by place and claim by claim.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array};
use tidegate_scheduler::{DecisionReport, PlaceReport};

use super::{counts, moments, texts};
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

fn seconds(values: impl Iterator<Item = f64>) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(values))
}

/// Lists each reason why a place ran a region, with what it ran; what is counted is told in the
/// line of each reason. Regions that executors ran come after a query's own.
pub(super) fn placements(
    reports: &[QueryReport],
    planner: Option<&dyn SpreadPlanner>,
) -> Vec<ArrayRef> {
    let elsewhere = elsewhere(reports, planner);
    let mut lines: Vec<(Part<'_>, Option<&(String, u64)>)> = Vec::new();
    for part in parts(reports, &elsewhere) {
        if part.place.reasons.is_empty() {
            lines.push((part, None));
        }
        let reasons = part.place.reasons.iter();
        lines.extend(reasons.map(|reason| (part, Some(reason))));
    }
    let regions = || lines.iter().map(|(part, _)| part.region);
    let places = || lines.iter().map(|(part, _)| part.place);
    let count = |of: fn(&PlaceReport) -> u64| counts(places().map(of));
    vec![
        counts(lines.iter().map(|(part, _)| part.query)),
        counts(lines.iter().map(|(part, _)| part.number)),
        texts(regions().map(|region| Some(&region.form))),
        texts(regions().map(|region| region.program.as_ref())),
        texts(regions().map(|region| region.program_json.as_ref())),
        texts(places().map(|place| Some(&place.place))),
        texts(lines.iter().map(|(_, reason)| reason.map(|(why, _)| why))),
        counts(
            lines
                .iter()
                .map(|(_, reason)| reason.map_or(0, |(_, times)| *times)),
        ),
        count(|place| place.morsels),
        count(|place| place.rows),
        count(|place| place.bytes),
        seconds(places().map(|place| place.seconds)),
        count(|place| place.claim_stats.claims),
        seconds(places().map(|place| place.claim_stats.seconds)),
        seconds(places().map(|place| place.claim_stats.estimated_seconds)),
        count(|place| place.claim_stats.estimated_bytes),
        count(|place| place.setbacks.retries),
        count(|place| place.setbacks.splits),
        count(|place| place.setbacks.flushes),
        count(|place| place.setbacks.waits),
        count(|place| place.setbacks.evicted_bytes),
        texts(
            lines
                .iter()
                .map(|(part, _)| part.region.morsels_at(part.position)),
        ),
        texts(lines.iter().map(|(part, _)| part.executor)),
    ]
}

/// Lists the claims of each place, as many as are remembered one by one.
pub(super) fn decisions(reports: &[QueryReport]) -> Vec<ArrayRef> {
    let mut lines: Vec<(Part<'_>, u64, &DecisionReport)> = Vec::new();
    for part in parts(reports, &[]) {
        let claims = part.place.decisions.iter().enumerate();
        lines.extend(claims.map(|(index, claim)| (part, index as u64 + 1, claim)));
    }
    let claims = || lines.iter().map(|(_, _, claim)| *claim);
    vec![
        counts(lines.iter().map(|(part, _, _)| part.query)),
        counts(lines.iter().map(|(part, _, _)| part.number)),
        texts(lines.iter().map(|(part, _, _)| Some(&part.place.place))),
        counts(lines.iter().map(|(_, number, _)| *number)),
        texts(claims().map(|claim| Some(&claim.reason))),
        counts(claims().map(|claim| claim.morsels)),
        counts(claims().map(|claim| claim.rows)),
        counts(claims().map(|claim| claim.bytes)),
        counts(claims().map(|claim| claim.estimated_bytes)),
        seconds(claims().map(|claim| claim.seconds)),
        seconds(claims().map(|claim| claim.estimated_seconds)),
        moments(claims().map(DecisionReport::started)),
        moments(claims().map(|claim| claim.ended)),
    ]
}
