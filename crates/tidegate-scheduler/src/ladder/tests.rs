//! The order of the rungs, and that every shortage ends.

use std::time::Duration;

use super::{Ladder, Rung, SPLIT_ROWS_MIN, Shortage, WAIT_MAX};

fn shortage() -> Shortage {
    Shortage {
        wanted_bytes: 100,
        free_bytes: 30,
        limit_bytes: 1000,
        in_flight: false,
        others_hold: false,
        divisible_rows: 0,
        may_flush: false,
    }
}

#[test]
fn rungs_come_in_order() {
    let mut ladder = Ladder::default();
    let mut now = Shortage {
        in_flight: true,
        others_hold: true,
        divisible_rows: 4 * SPLIT_ROWS_MIN,
        may_flush: true,
        ..shortage()
    };
    assert_eq!(ladder.next(&now), Rung::Evict(70));
    assert_eq!(ladder.next(&now), Rung::AwaitFold);
    now.in_flight = false;
    let mut waited = Duration::ZERO;
    loop {
        match ladder.next(&now) {
            Rung::AwaitOthers(step) => waited += step,
            other => {
                assert_eq!(other, Rung::Split);
                break;
            }
        }
    }
    assert!(waited >= WAIT_MAX && waited < WAIT_MAX * 2, "{waited:?}");
    now.divisible_rows = 0;
    assert_eq!(ladder.next(&now), Rung::Flush);
    assert_eq!(ladder.next(&now), Rung::Host);
}

#[test]
fn what_never_fits_is_not_waited_for() {
    let mut ladder = Ladder::default();
    let mut now = Shortage {
        wanted_bytes: 2000,
        others_hold: true,
        divisible_rows: 2 * SPLIT_ROWS_MIN,
        ..shortage()
    };
    assert_eq!(ladder.next(&now), Rung::Split);
    now.divisible_rows -= 1;
    assert_eq!(ladder.next(&now), Rung::Host);
}

#[test]
fn every_shortage_ends() {
    for bits in 0..16_u32 {
        let now = Shortage {
            others_hold: bits & 1 > 0,
            may_flush: bits & 2 > 0,
            wanted_bytes: if bits & 4 > 0 { 2000 } else { 100 },
            divisible_rows: if bits & 8 > 0 { 3 } else { 0 },
            ..shortage()
        };
        let mut ladder = Ladder::default();
        let ends = (0..1000).any(|_| ladder.next(&now) == Rung::Host);
        assert!(ends, "{now:?}");
    }
}
