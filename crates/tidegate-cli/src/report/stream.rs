//! Who worked when: a lane for each device, and for the host as many as worked at the same time.

use std::fmt::Write;
use std::time::SystemTime;

use tidegate::QueryReport;

use super::page::escaped;

/// Height of a lane, and of the scale below them, in units of the picture.
const LANE: f64 = 22.0;
const SCALE: f64 = 24.0;
/// Width of the names, and of the picture.
const NAMES: f64 = 150.0;
const WIDTH: f64 = 1_000.0;
/// Steps of the scale.
const STEPS: u32 = 5;

/// One piece of work.
struct Bar {
    lane: usize,
    /// Seconds from the first beginning.
    start: f64,
    end: f64,
    region: usize,
    title: String,
}

/// The work of a query by time.
pub(super) struct Stream {
    lanes: Vec<String>,
    bars: Vec<Bar>,
    seconds: f64,
}

impl Stream {
    /// Gathers the claims of a query; `None` if it has none.
    pub(super) fn of(report: &QueryReport) -> Option<Self> {
        let mut claims = Vec::new();
        for (region, of) in report.regions.iter().enumerate() {
            for place in &of.places {
                for claim in &place.decisions {
                    claims.push((place.place.as_str(), region, claim));
                }
            }
        }
        let first = claims.iter().map(|(_, _, claim)| claim.started()).min()?;
        let since = |time: SystemTime| {
            let since = time.duration_since(first);
            since.map_or(0.0, |since| since.as_secs_f64())
        };
        claims.sort_by_key(|(place, _, claim)| (*place != "host", *place, claim.started()));
        let mut stream = Self {
            lanes: Vec::new(),
            bars: Vec::new(),
            seconds: 0.0,
        };
        // The lanes of the place at hand, each with the time at which it is free.
        let (mut current, mut free): (&str, Vec<(usize, f64)>) = ("", Vec::new());
        for (place, region, claim) in claims {
            if place != current {
                (current, free) = (place, Vec::new());
            }
            let (start, end) = (since(claim.started()), since(claim.ended));
            let lane = match free.iter_mut().find(|(_, until)| *until <= start) {
                Some((lane, until)) => {
                    *until = end;
                    *lane
                }
                None => {
                    stream.lanes.push(place.to_string());
                    free.push((stream.lanes.len() - 1, end));
                    stream.lanes.len() - 1
                }
            };
            stream.seconds = stream.seconds.max(end);
            stream.bars.push(Bar {
                lane,
                start,
                end,
                region,
                title: format!(
                    "region {}, {} rows in {:.1} ms, estimated {:.1} ms: {}",
                    region + 1,
                    claim.rows,
                    claim.seconds * 1e3,
                    claim.estimated_seconds * 1e3,
                    claim.reason
                ),
            });
        }
        Some(stream)
    }

    /// Draws the lanes on one scale.
    pub(super) fn svg(&self) -> String {
        let height = self.lanes.len() as f64 * LANE + SCALE;
        let seconds = self.seconds.max(1e-6);
        let x = |at: f64| NAMES + at / seconds * (WIDTH - NAMES - 20.0);
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"work by time\">\n"
        );
        for step in 0..=STEPS {
            let at = seconds * f64::from(step) / f64::from(STEPS);
            let _ = writeln!(
                svg,
                "<line x1=\"{0:.1}\" x2=\"{0:.1}\" y1=\"0\" y2=\"{1:.1}\" class=\"grid\"/>\
                 <text x=\"{0:.1}\" y=\"{2:.1}\" text-anchor=\"middle\">{3:.1} ms</text>",
                x(at),
                height - SCALE,
                height - 8.0,
                at * 1e3
            );
        }
        for (lane, name) in self.lanes.iter().enumerate() {
            let short: String = name.chars().take(22).collect();
            let y = lane as f64 * LANE + LANE * 0.7;
            let _ = writeln!(svg, "<text x=\"0\" y=\"{y:.1}\">{}</text>", escaped(&short));
        }
        for bar in &self.bars {
            let width = (x(bar.end) - x(bar.start)).max(1.0);
            let _ = writeln!(
                svg,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\" class=\"r{}\">\
                 <title>{}</title></rect>",
                x(bar.start),
                bar.lane as f64 * LANE + 2.0,
                LANE - 4.0,
                bar.region % 6,
                escaped(&bar.title)
            );
        }
        svg.push_str("</svg>\n");
        svg
    }
}
