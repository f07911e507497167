//! Losses of executors and of the scheduler, at moments that a seed chooses.
//!
//! In each round a statement runs, and at some moment of it a process is killed, stopped or told to end. The
//! statement then has the rows of an undisturbed one, or fails with an error that names the executor, which
//! is allowed once rows have left; whatever is left answers the next statement right, and holds nothing.
//! `TIDEGATE_KILLS=1000` runs as many rounds, `TIDEGATE_SEED` starts elsewhere, and `TIDEGATE_BINARY` names
//! another build of the command.

use std::fmt;
use std::fs;
use std::time::{Duration, Instant};

use crate::nodes::{Nodes, STATEMENTS, ended, rows};

/// Rounds, unless more are asked for.
const ROUNDS: u64 = 20;
/// In how many seconds a silent process must be noticed, and what a busy machine may add.
const SILENT: f64 = 4.0;
const BUSY: f64 = 2.5;

/// What happens to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    Killed,
    Stopped,
    ToldToEnd,
    SchedulerKilled,
}

/// A counter-based choice: the same seed gives the same rounds.
struct Seed(u64);

impl Seed {
    fn below(&mut self, bound: u64) -> u64 {
        let Self(state) = self;
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % bound
    }

    fn loss(&mut self) -> Loss {
        match self.below(20) {
            0..=12 => Loss::Killed,
            13..=15 => Loss::Stopped,
            16..=17 => Loss::ToldToEnd,
            _ => Loss::SchedulerKilled,
        }
    }
}

/// What came of the rounds.
#[derive(Debug, Default)]
struct Outcome {
    right: u64,
    /// Of the right ones, those that ran again.
    again: u64,
    lost: u64,
    /// The longest that a statement took beyond twice its undisturbed time.
    late: f64,
    /// The longest until nothing was held any more.
    idle: f64,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            right,
            again,
            lost,
            late,
            idle,
        } = self;
        write!(
            f,
            "{right} right ({again} of them ran again), {lost} lost after rows had left; at most {late:.1} s \
             beyond twice the undisturbed time, idle after {idle:.1} s at most"
        )
    }
}

fn number(name: &str, default: u64) -> u64 {
    let named = std::env::var(name).ok();
    named.map_or(default, |text| text.parse().unwrap())
}

#[test]
fn losses_cost_no_row() {
    let (rounds, seed) = (
        number("TIDEGATE_KILLS", ROUNDS),
        number("TIDEGATE_SEED", 20_261_125),
    );
    let mut nodes = Nodes::start(3);
    let undisturbed = STATEMENTS.map(|sql| {
        let began = Instant::now();
        let rows = nodes.rows(sql);
        assert!(!rows.is_empty(), "{sql}");
        (rows, began.elapsed())
    });
    let mut outcome = Outcome::default();
    for number in 0..rounds {
        let mut seed = Seed(seed.wrapping_add(number.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        seed.below(1);
        let statement = seed.below(4) as usize;
        let (expected, whole) = &undisturbed[statement];
        let round = Round {
            sql: STATEMENTS[statement],
            expected,
            whole: *whole,
            loss: seed.loss(),
            victim: seed.below(3) as usize,
            moment: whole.mul_f64(seed.below(1000) as f64 / 1000.0),
        };
        let began = Instant::now();
        round.run(&mut nodes, &mut outcome);
        eprintln!(
            "round {number} of {rounds}: {round}, {:.1} s in all",
            began.elapsed().as_secs_f64()
        );
    }
    eprintln!("{rounds} rounds from seed {seed}: {outcome}");
    assert!(outcome.again > 0, "no loss came while tasks ran: {outcome}");
    // A statement of groups has sent nothing before its end.
    assert!(outcome.lost <= outcome.right, "{outcome}");
}

/// A statement, and what happens while it runs.
#[derive(Debug)]
struct Round<'a> {
    sql: &'a str,
    expected: &'a [String],
    whole: Duration,
    loss: Loss,
    victim: usize,
    moment: Duration,
}

impl fmt::Display for Round<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (loss, victim) = (self.loss, self.victim + 1);
        let (moment, whole) = (self.moment.as_secs_f64(), self.whole.as_secs_f64());
        write!(f, "{loss:?} (e{victim}) {moment:.2} s into {whole:.2} s")
    }
}

impl Round<'_> {
    fn run(&self, nodes: &mut Nodes, outcome: &mut Outcome) {
        let began = Instant::now();
        let running = nodes.spawn(self.sql);
        std::thread::sleep(self.moment);
        match self.loss {
            Loss::Killed => nodes.executors[self.victim].1.signal("-KILL"),
            Loss::Stopped => nodes.executors[self.victim].1.signal("-STOP"),
            Loss::ToldToEnd => nodes.executors[self.victim].1.signal("-TERM"),
            Loss::SchedulerKilled => nodes.another_scheduler(),
        }
        let output = ended(running);
        // A signal takes effect a little later than it is sent.
        match self.loss {
            Loss::Killed => nodes.executors[self.victim].1.wait(),
            Loss::Stopped => nodes.executors[self.victim].1.wait_stopped(),
            Loss::ToldToEnd | Loss::SchedulerKilled => {}
        }
        let name = nodes.executors[self.victim].0.clone();
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            assert_eq!(rows(&output), self.expected, "{self:?}");
            outcome.right += 1;
            let beyond = began.elapsed().as_secs_f64() - 2.0 * self.whole.as_secs_f64();
            if self.loss != Loss::Stopped {
                outcome.late = outcome.late.max(beyond);
            }
        } else if self.loss != Loss::SchedulerKilled {
            // Rows had left.
            let named = format!("executor {name} was lost");
            assert!(said.contains(&named), "{self:?}: {said}");
            outcome.lost += 1;
        }
        if self.loss != Loss::SchedulerKilled {
            let last = "SELECT count(*) FROM system.tasks WHERE (attempt > 1 OR state = 'lost') \
                        AND statement = (SELECT max(statement) FROM system.tasks)";
            let ran_again = nodes.rows(last) != ["0"];
            outcome.again += u64::from(ran_again && output.status.success());
        }
        self.recover(nodes, &name, outcome);
    }

    /// Has whatever is left answer, and brings back what was lost.
    fn recover(&self, nodes: &mut Nodes, name: &str, outcome: &mut Outcome) {
        let answers = |nodes: &Nodes| assert_eq!(nodes.rows(self.sql), self.expected, "{self:?}");
        if self.loss != Loss::SchedulerKilled {
            answers(nodes);
        }
        let began = Instant::now();
        match self.loss {
            Loss::Stopped => nodes.executors[self.victim].1.signal("-CONT"),
            Loss::SchedulerKilled => {}
            Loss::Killed | Loss::ToldToEnd => {
                drop(nodes.executors.remove(self.victim));
                nodes.wait_idle();
                outcome.idle = outcome.idle.max(began.elapsed().as_secs_f64());
                nodes.add(name, &[]);
            }
        }
        nodes.wait("SELECT count(*) - 2 FROM system.executors WHERE state = 'ready'");
        nodes.wait_idle();
        answers(nodes);
    }
}

#[test]
fn a_stopped_executor_is_taken_for_lost() {
    let nodes = Nodes::start(3);
    let sql = STATEMENTS[1];
    let expected = nodes.rows(sql);
    nodes.executors[1].1.signal("-STOP");
    let began = Instant::now();
    assert_eq!(nodes.rows(sql), expected);
    let attempts = nodes.rows("SELECT max(attempt) FROM system.tasks");
    assert_eq!(attempts, ["2"], "after {:?}", began.elapsed());
    nodes.wait("SELECT count(*) - 1 FROM system.executors");
    nodes.executors[1].1.signal("-CONT");
    nodes.wait("SELECT count(*) - 2 FROM system.executors");
    assert_eq!(nodes.rows(sql), expected);
    nodes.wait_idle();
}

#[test]
fn a_statement_that_begins_after_a_loss_is_right() {
    let mut nodes = Nodes::start(3);
    // Its rows leave as they come.
    let sql = STATEMENTS[2];
    let expected = nodes.rows(sql);
    for round in 0..4 {
        let victim = round % 3;
        let node = &mut nodes.executors[victim].1;
        node.signal(if round == 3 { "-STOP" } else { "-KILL" });
        match round {
            3 => node.wait_stopped(),
            _ => node.wait(),
        }
        assert_eq!(nodes.rows(sql), expected);
        if round < 3 {
            let (name, _) = nodes.executors.remove(victim);
            nodes.add(&name, &[]);
        }
    }
}

#[test]
fn a_lost_share_moves() {
    let nodes = Nodes::start(3);
    let sql =
        "SELECT count(*), sum(x), min(x) FROM random_integers([6000, 4000], 0, 9) WHERE i % 3 = 0";
    let expected = nodes.rows(sql);
    for (signal, victim) in [("-KILL", 0), ("-STOP", 1)] {
        let running = nodes.spawn(sql);
        nodes.wait("SELECT CASE WHEN sum(tasks) > 1 THEN 1 ELSE 0 END FROM system.executors");
        nodes.executors[victim].1.signal(signal);
        assert_eq!(rows(&ended(running)), expected);
        // The statement did not run again: the other's task did.
        let tasks = nodes.rows(
            "SELECT attempt, executor, state FROM system.tasks \
             WHERE statement = (SELECT max(statement) FROM system.tasks) AND stage = 1",
        );
        let lost = format!("1,{},lost", nodes.executors[victim].0);
        assert!(tasks.contains(&lost), "{tasks:?}");
        let done = tasks.iter().filter(|task| task.ends_with(",done"));
        assert_eq!(done.count(), tasks.len() - 1, "{tasks:?}");
        assert!(tasks.iter().all(|task| task.starts_with("1,")), "{tasks:?}");
    }
}

/// Runs for hours, on every core.
const ENDLESS: &str =
    "SELECT i % 1000, count(*), sum(x) FROM random_normal([500000, 500000]) GROUP BY 1";

#[test]
fn a_loss_is_noticed_in_time() {
    for (signal, seconds) in [("-KILL", 0.1), ("-STOP", SILENT)] {
        let nodes = Nodes::start(2);
        nodes.rows("SELECT 1");
        let running = nodes.spawn(&format!("SET tidegate.retries = 0; {ENDLESS}"));
        nodes.wait("SELECT CASE WHEN min(tasks) > 0 THEN 1 ELSE 0 END FROM system.executors");
        nodes.executors[0].1.signal(signal);
        let began = Instant::now();
        let output = ended(running);
        let took = began.elapsed().as_secs_f64();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("executor e1 was lost"), "{said}");
        eprintln!("{signal}: an error after {took:.2} s");
        assert!(took < seconds + BUSY, "{signal}: {took:.2} s");
    }
}

/// Returns the seconds that a process has computed.
#[cfg(target_os = "linux")]
fn computed(id: u32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2);
    ticks
        .map(|ticks| ticks.parse::<f64>().unwrap())
        .sum::<f64>()
        / 100.0
}

#[test]
#[cfg(target_os = "linux")]
fn executors_of_a_silent_scheduler_stop() {
    let nodes = Nodes::start(2);
    let expected = nodes.rows(STATEMENTS[0]);
    let mut running = nodes.spawn(ENDLESS);
    nodes.wait("SELECT CASE WHEN min(tasks) > 0 THEN 1 ELSE 0 END FROM system.executors");
    let all = || -> f64 {
        let ids = nodes.executors.iter().map(|(_, node)| node.0.id());
        ids.map(computed).sum()
    };
    let step = Duration::from_millis(250);
    let busy = |of: f64| all() - of > 0.1 * step.as_secs_f64();
    nodes.scheduler.signal("-STOP");
    let began = Instant::now();
    let (mut before, mut quiet) = (all(), 0);
    while quiet < 2 {
        std::thread::sleep(step);
        quiet = if busy(before) { 0 } else { quiet + 1 };
        before = all();
        let took = began.elapsed().as_secs_f64();
        assert!(
            took < SILENT + BUSY + 0.5,
            "they still compute after {took:.1} s"
        );
    }
    eprintln!("quiet after {:.2} s", began.elapsed().as_secs_f64() - 0.5);
    nodes.scheduler.signal("-CONT");
    let _ = running.kill();
    let _ = running.wait();
    nodes.wait("SELECT count(*) - 1 FROM system.executors WHERE state = 'ready'");
    nodes.wait_idle();
    assert_eq!(nodes.rows(STATEMENTS[0]), expected);
}
