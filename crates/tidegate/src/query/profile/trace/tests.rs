//! Work of a step stands side by side from the leaves up.

use std::collections::HashMap;
use std::time::Instant;

use super::{Busy, Lane, STEPS_MAX, Step, Trace, Watched};

fn busy(lane: Lane, number: usize, is_copy: bool) -> Busy {
    Busy {
        lane,
        number,
        is_copy,
    }
}

fn step(start: f64, busy: &[(Busy, u64)]) -> Step {
    Step {
        start,
        end: start + 1.0,
        busy: busy.iter().cloned().collect(),
    }
}

#[test]
fn work_of_a_step_stands_side_by_side_from_the_leaves_up() {
    let device = || Lane::Device("device 0".into());
    let pieces = step(
        2.0,
        &[
            (busy(Lane::Host(1), 0, false), 250_000_000),
            (busy(Lane::Host(1), 3, false), 500_000_000),
            (busy(device(), 1, false), 3_000_000_000),
            (busy(device(), 1, true), 1_000_000_000),
        ],
    )
    .pieces();
    let told: Vec<_> = pieces
        .iter()
        .map(|piece| {
            (
                piece.lane.as_str(),
                piece.number,
                piece.is_copy,
                piece.start,
                piece.end,
            )
        })
        .collect();
    assert_eq!(
        told,
        [
            ("host 1", 3, false, 2.0, 2.5),
            ("host 1", 0, false, 2.5, 2.75),
            // More than there was time for is drawn as all of it.
            ("device 0", 1, true, 2.0, 2.25),
            ("device 0", 1, false, 2.25, 3.0),
        ]
    );
}

#[test]
fn long_queries_keep_their_work_in_fewer_steps() {
    let mut trace = Trace::new(Instant::now());
    let key = busy(Lane::Host(0), 0, false);
    for at in 0..=STEPS_MAX {
        trace.steps.push(step(at as f64, &[(key.clone(), 1_000)]));
    }
    trace.halve();
    assert_eq!(trace.steps.len(), STEPS_MAX / 2 + 1);
    let all: u64 = trace.steps.iter().map(|step| step.busy[&key]).sum();
    assert_eq!(all, (STEPS_MAX as u64 + 1) * 1_000);
    assert_eq!(trace.steps[0].end, 2.0);
}

#[test]
fn work_is_told_once() {
    let watched = Watched::default();
    watched.add(Lane::Host(0), "FilterExec", false, 5);
    watched.add(Lane::Host(0), "FilterExec", false, 7);
    let told: HashMap<_, _> = watched
        .take()
        .into_iter()
        .map(|work| ((work.lane, work.operator), work.seconds))
        .collect();
    assert_eq!(told[&("host 0".into(), "FilterExec".into())], 12e-9);
    assert!(watched.take().is_empty());
}
