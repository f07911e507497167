//! Random operations fail under queries that run at once.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tidegate::{FaultPlan, Session};

use super::bench::{Answer, Bench, answer};
use super::{Failure, drained, is_lost, plan};

const QUERIES: [&str; 5] = [
    "SELECT k, s, sum(v), count(*), avg(v), min(v), max(s) FROM t WHERE v % 5 <> 0 GROUP BY k, s",
    "SELECT count(*), sum(v) FROM t WHERE v > 100",
    "SELECT v, count(*) FROM t GROUP BY v",
    "SELECT s, max(v) AS m FROM t GROUP BY s HAVING max(v) > 3 ORDER BY m LIMIT 2",
    "SELECT i % 3, count(*), sum(x) \
     FROM random_integers([60, 40], -1000, 1000, chunks => [10, 10], seed => 42) GROUP BY i % 3",
];

/// Queries that run at once, and how many each of them is followed by.
const AT_ONCE: usize = 4;
const TURNS: usize = 3;

/// A round that takes longer hangs.
const ROUND_MAX: Duration = Duration::from_secs(60);

/// What random faults did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    rounds: u64,
    queries: u64,
    met: u64,
    devices_lost: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rounds,
            queries,
            met,
            devices_lost,
        } = self;
        write!(
            f,
            "{rounds} rounds, {queries} queries, {met} faults met, {devices_lost} devices lost"
        )
    }
}

/// What is drawn for a round.
struct Draw {
    faults: FaultPlan,
    placement: &'static str,
    memory: &'static str,
    cached: bool,
}

impl Draw {
    fn new(seed: u64) -> Result<Self, Failure> {
        let mut random = StdRng::seed_from_u64(seed);
        let mut faults: Vec<String> = (0..random.random_range(1..12))
            .map(|_| {
                let kinds = ["launch", "alloc", "copy", "event"];
                let kind = kinds[random.random_range(0..kinds.len())];
                let effect = if kind == "alloc" { "oom" } else { "fail" };
                let most = [60, 600][random.random_range(0..2)];
                format!("{kind}:{}={effect}", random.random_range(1..most))
            })
            .collect();
        if random.random_bool(0.1) {
            faults.push(format!("launch:{}=lost", random.random_range(1..90)));
        }
        let any = |random: &mut StdRng, of: &[&'static str]| {
            of.choose(random).copied().unwrap_or_default()
        };
        Ok(Self {
            faults: faults.join("|").parse()?,
            placement: any(&mut random, &["auto", "device"]),
            memory: any(&mut random, &["300kB", "32MB", "1GB"]),
            cached: random.random_bool(0.3),
        })
    }
}

impl fmt::Display for Draw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            faults,
            placement,
            memory,
            cached,
        } = self;
        write!(f, "{placement}, {memory}, cached: {cached}, {faults}")
    }
}

/// Runs rounds of concurrent queries with faults that a seed chooses, for this time and at least once.
///
/// # Errors
/// An answer that is not the host's; a round that hangs; memory that does not come back; no fault that
/// was met. The error has the seed.
pub async fn at_random(bench: &Bench, time: Duration) -> Result<Tally, Failure> {
    let mut expected = Vec::new();
    for sql in QUERIES {
        expected.push(bench.expected(sql).await?);
    }
    let expected: Arc<[Answer]> = expected.into();
    let (began, first_seed) = (Instant::now(), rand::random::<u64>());
    let mut tally = Tally::default();
    let mut session = bench.open(&[]).await?;
    while began.elapsed() < time || tally.rounds == 0 {
        let seed = first_seed.wrapping_add(tally.rounds);
        let draw = Draw::new(seed)?;
        let met = round(&session, &draw, &expected).await;
        tally.met += met.map_err(|error| format!("seed {seed}, {draw}: {error}"))?;
        tally.rounds += 1;
        tally.queries += (AT_ONCE * TURNS) as u64;
        if is_lost(&session) {
            tally.devices_lost += 1;
            // The device is given back before it is opened again.
            drop(session);
            session = bench.open(&[]).await?;
        }
    }
    if tally.met == 0 {
        return Err(format!("no fault was met from seed {first_seed} on").into());
    }
    Ok(tally)
}

/// Runs one round; returns how many faults were met.
async fn round(session: &Session, draw: &Draw, expected: &Arc<[Answer]>) -> Result<u64, Failure> {
    let Draw {
        faults,
        placement,
        memory,
        cached,
    } = draw;
    for setting in [
        format!("placement = '{placement}'"),
        format!("device_memory_limit = '{memory}'"),
    ] {
        session.collect(&format!("SET tidegate.{setting}")).await?;
    }
    let before = plan(session, faults.clone())?;
    // It fails where it meets a fault, or has no room.
    let is_cached = *cached && session.collect("CACHE TABLE t ON DEVICE").await.is_ok();
    let tasks = (0..AT_ONCE).map(|number| {
        let (session, expected) = (session.clone(), Arc::clone(expected));
        tokio::spawn(async move {
            for turn in 0..TURNS {
                let index = (number + turn) % QUERIES.len();
                let found = answer(&session, QUERIES[index]).await?;
                if found != expected[index] {
                    let wrong = format!("{}: not the host's answer, {found:?}", QUERIES[index]);
                    return Err(wrong.into());
                }
            }
            Ok::<(), Failure>(())
        })
    });
    let ended = tokio::time::timeout(ROUND_MAX, join_all(tasks)).await;
    for task in ended.map_err(|_| "it hangs")? {
        task??;
    }
    let met = plan(session, FaultPlan::default())? - before;
    if is_cached {
        session.collect("UNCACHE TABLE t").await?;
    }
    drained(session, 0).await?;
    Ok(met)
}
