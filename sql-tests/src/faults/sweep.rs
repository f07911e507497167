//! Every operation of a query fails once.

use std::fmt;

use tidegate::{FaultPlan, Session};

use super::bench::{Answer, Bench, answer};
use super::{Failure, drained, is_lost, plan, used};

const TABLE: &str = "SELECT k, s, sum(v), count(*), avg(v), min(v), max(s) FROM t WHERE v % 5 <> 0 \
                     GROUP BY k, s";

/// An array of 24 parts, each of which a device makes itself.
const ARRAY: &str = "SELECT i % 3, count(*), sum(x), max(x) \
                     FROM random_integers([60, 40], -1000, 1000, chunks => [10, 10], seed => 42) \
                     WHERE x > -900 GROUP BY i % 3";

/// What fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A launch.
    Launch,
    /// A launch, and the device with it.
    Lost,
    /// Memory is not there, but is when asked for again.
    Memory,
    /// Memory is not there the second time either.
    MemoryTwice,
    /// A copy.
    Copy,
    /// An event.
    Event,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 6] = [
        Self::Launch,
        Self::Lost,
        Self::Memory,
        Self::MemoryTwice,
        Self::Copy,
        Self::Event,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Lost => "lost",
            Self::Memory => "memory",
            Self::MemoryTwice => "memory x2",
            Self::Copy => "copy",
            Self::Event => "event",
        }
    }

    /// Plans that the operation fails which has this number, counted from 1.
    fn plan(self, count: u64) -> Result<FaultPlan, Failure> {
        let text = match self {
            Self::Launch => format!("launch:{count}=fail"),
            Self::Lost => format!("launch:{count}=lost"),
            Self::Memory => format!("alloc:{count}=oom"),
            Self::MemoryTwice => format!("alloc:{count}=oom|alloc:{}=oom", count + 1),
            Self::Copy => format!("copy:{count}=fail"),
            Self::Event => format!("event:{count}=fail"),
        };
        Ok(text.parse()?)
    }

    /// Returns whether rows must run again. Memory is asked for again first.
    fn repeats_rows(self) -> bool {
        !matches!(self, Self::Memory | Self::MemoryTwice)
    }
}

/// A way in which a query uses a device.
struct Way {
    name: &'static str,
    settings: &'static [&'static str],
    sql: &'static str,
    /// The table is on the device before.
    cached: bool,
}

const WAYS: [Way; 7] = [
    Way {
        name: "shared",
        settings: &["replay_placement = 'HD'"],
        sql: TABLE,
        cached: false,
    },
    Way {
        name: "additive",
        settings: &["regions = 'additive'", "placement = 'device'"],
        sql: TABLE,
        cached: false,
    },
    Way {
        name: "atomic",
        settings: &["regions = 'atomic'", "placement = 'device'"],
        sql: TABLE,
        cached: false,
    },
    Way {
        name: "cached",
        settings: &["regions = 'additive'", "placement = 'device'"],
        sql: TABLE,
        cached: true,
    },
    Way {
        name: "resident",
        settings: &["regions = 'atomic'", "placement = 'device'"],
        sql: TABLE,
        cached: true,
    },
    Way {
        name: "made",
        settings: &["regions = 'additive'", "placement = 'device'"],
        sql: ARRAY,
        cached: false,
    },
    Way {
        name: "made, atomic",
        settings: &["regions = 'atomic'", "placement = 'device'"],
        sql: ARRAY,
        cached: false,
    },
];

/// What one kind of fault did to a query run in one way.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    way: &'static str,
    kind: Kind,
    /// Faults that happened.
    met: u64,
    /// Morsels that ran again.
    retries: u64,
    /// Runs that met a fault and repeated nothing: whoever met it could do without, or asked again.
    unretried: u64,
}

impl Row {
    fn new(way: &'static str, kind: Kind) -> Self {
        Self {
            way,
            kind,
            met: 0,
            retries: 0,
            unretried: 0,
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            way,
            kind,
            met,
            retries,
            unretried,
        } = self;
        let kind = kind.name();
        write!(
            f,
            "{way:<12} {kind:<10} {met:>7} {retries:>7} {unretried:>9}"
        )
    }
}

/// Has operations of a kind fail one after the other until a query has no more of them, in each way;
/// and the same under `CACHE TABLE`, which may fail, but leaves nothing then. A GPU that is to be lost,
/// and has to be opened again, is lost at its operations 1, 2, 4, 8, … only.
///
/// # Errors
/// An answer that is not the host's; memory that does not come back; rows that did not run again; no
/// fault that was met.
pub async fn at_every_operation(bench: &Bench, kind: Kind) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for way in &WAYS {
        let row = under_query(bench, kind, way).await?;
        let has_repeated = row.retries > 0 && !(bench.is_simulated() && row.unretried > 0);
        if kind.repeats_rows() && !has_repeated {
            return Err(format!("no fault was met, or nothing ran again: {row}").into());
        }
        rows.push(row);
    }
    rows.push(under_cache_table(bench, kind).await?);
    if rows.iter().all(|row| row.met == 0) {
        return Err(format!("no fault was met: {}", kind.name()).into());
    }
    Ok(rows)
}

async fn under_query(bench: &Bench, kind: Kind, way: &Way) -> Result<Row, Failure> {
    let mut row = Row::new(way.name, kind);
    let expected = bench.expected(way.sql).await?;
    let mut session = prepared(bench, way, &expected).await?;
    let mut count = 1;
    loop {
        let at = |what: &dyn fmt::Display| format!("{} {} {count}: {what}", way.name, kind.name());
        let held = used(&session);
        let before = plan(&session, kind.plan(count)?)?;
        let found = answer(&session, way.sql)
            .await
            .map_err(|error| at(&error))?;
        let met = plan(&session, FaultPlan::default())? - before;
        if found != expected {
            return Err(at(&format!("{found:?} is not the host's answer {expected:?}")).into());
        }
        drained(&session, held).await.map_err(|error| at(&error))?;
        if met == 0 {
            break;
        }
        let retries = retries(&session);
        row.met += met;
        row.retries += retries;
        row.unretried += u64::from(retries == 0);
        if is_lost(&session) {
            closed(session, way).await.map_err(|error| at(&error))?;
            session = prepared(bench, way, &expected).await?;
        }
        count = match kind {
            Kind::Lost if !bench.is_simulated() => 2 * count,
            _ => count + 1,
        };
    }
    closed(session, way).await?;
    Ok(row)
}

/// Opens a session whose next query finds everything as those after it.
async fn prepared(bench: &Bench, way: &Way, expected: &Answer) -> Result<Session, Failure> {
    let session = bench.open(way.settings).await?;
    if way.cached {
        session.collect("CACHE TABLE t ON DEVICE").await?;
    }
    let found = answer(&session, way.sql).await?;
    if found != *expected {
        return Err(format!("{}: {found:?} without a fault", way.name).into());
    }
    Ok(session)
}

/// Gives back what a session keeps on its device, and sees that it was all.
async fn closed(session: Session, way: &Way) -> Result<(), Failure> {
    if way.cached {
        session.collect("UNCACHE TABLE t").await?;
    }
    drained(&session, 0).await
}

async fn under_cache_table(bench: &Bench, kind: Kind) -> Result<Row, Failure> {
    let mut row = Row::new("CACHE TABLE", kind);
    // It launches nothing, so it can lose nothing by a launch.
    let session = bench.open(&["placement = 'device'"]).await?;
    for count in 1.. {
        let at = |what: &dyn fmt::Display| format!("CACHE TABLE {} {count}: {what}", kind.name());
        let before = plan(&session, kind.plan(count)?)?;
        let cached = session.collect("CACHE TABLE t ON DEVICE").await;
        let met = plan(&session, FaultPlan::default())? - before;
        row.met += met;
        match cached {
            Ok(_) => {
                row.unretried += u64::from(met > 0);
                session.collect("UNCACHE TABLE t").await?;
            }
            Err(error) if met == 0 => return Err(at(&error).into()),
            Err(_) => {}
        }
        drained(&session, 0).await.map_err(|error| at(&error))?;
        if met == 0 || is_lost(&session) {
            break;
        }
    }
    Ok(row)
}

/// Counts the morsels of the last query that had to run again.
fn retries(session: &Session) -> u64 {
    let last = session.last_report();
    let regions = last.iter().flat_map(|report| &report.regions);
    regions
        .flat_map(|region| &region.places)
        .map(|place| place.setbacks.retries)
        .sum()
}
