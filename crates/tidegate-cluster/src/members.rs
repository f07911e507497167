//! The executors that a scheduler knows: who is there, who is silent, and who may be used.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tidegate::spread::ExecutorReport;
use tokio_util::sync::CancellationToken;
use url::Url;

use crate::join::{Beat, Hello};

/// How often an executor reports.
pub(crate) const BEAT: Duration = Duration::from_secs(1);
/// How long a silent executor is taken to be there: three reports, and what a busy machine delays them.
/// With [`LOOK`] a host that stops is noticed in less than four seconds.
const SILENCE: Duration = Duration::from_millis(3_500);
/// How often silent executors are looked for.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// How long an executor is not used after its second loss, and at the most after others.
const PAUSE: Duration = Duration::from_secs(10);
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// When losses before are forgotten.
const LOSSES_FORGOTTEN: Duration = Duration::from_secs(900);

/// The executors of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Members {
    by_name: Mutex<BTreeMap<String, Member>>,
    counts: Mutex<Counts>,
}

/// What was counted of all executors.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) joined: u64,
    pub(crate) lost: u64,
    pub(crate) received_bytes: u64,
}

/// What is known of one.
#[derive(Debug)]
struct Member {
    hello: Hello,
    url: Url,
    beat: Beat,
    /// Its connection, counted over all.
    joined: u64,
    heard: Instant,
    /// A statement lost it then.
    suspected: Option<Instant>,
    /// How often statements lost it, one soon after the other.
    losses: u32,
    /// Why it is not used.
    refused: Option<String>,
    gone: CancellationToken,
    /// Cancelled when it is to end.
    drain: CancellationToken,
}

/// An executor that a statement may use.
#[derive(Clone, Debug)]
pub(crate) struct Usable {
    pub(crate) name: String,
    pub(crate) url: Url,
    pub(crate) cores: u64,
    /// Bytes that its statements may hold.
    pub(crate) memory_limit: u64,
    /// Cancelled when it is gone.
    pub(crate) gone: CancellationToken,
}

/// One connection of an executor; it is gone when this is dropped.
#[derive(Debug)]
pub(crate) struct Membership {
    members: Arc<Members>,
    name: String,
    joined: u64,
    gone: CancellationToken,
    drain: CancellationToken,
}

impl Members {
    /// Adds an executor. One of the same name that was there before is gone.
    pub(crate) fn join(
        self: &Arc<Self>,
        hello: Hello,
        url: Url,
        refused: Option<String>,
    ) -> Membership {
        let (gone, drain) = (CancellationToken::new(), CancellationToken::new());
        let mut members = self.by_name.lock();
        let before = members.get(&hello.name).map(|member| {
            member.gone.cancel();
            member.joined
        });
        let joined = before.unwrap_or_default() + 1;
        let name = hello.name.clone();
        tracing::info!(executor = %name, %url, refused, "an executor joins");
        self.counts.lock().joined += u64::from(refused.is_none());
        members.insert(
            name.clone(),
            Member {
                hello,
                url,
                beat: Beat::default(),
                joined,
                heard: Instant::now(),
                suspected: None,
                losses: 0,
                refused,
                gone: gone.clone(),
                drain: drain.clone(),
            },
        );
        Membership {
            members: Arc::clone(self),
            name,
            joined,
            gone,
            drain,
        }
    }

    /// Has an executor told to end; returns whether there is one of this name. It is not used again.
    pub(crate) fn drain(&self, name: &str) -> bool {
        let mut members = self.by_name.lock();
        let Some(member) = members.get_mut(name) else {
            return false;
        };
        member.beat.is_draining = true;
        member.drain.cancel();
        true
    }

    /// Lists whom a statement may use, of these names or, if there are none, of all.
    pub(crate) fn usable(&self, names: &[String]) -> Vec<Usable> {
        let members = self.by_name.lock();
        let named = |name: &String| names.is_empty() || names.contains(name);
        let usable = members.iter().filter(|(name, member)| {
            named(name) && member.refused.is_none() && !member.beat.is_draining && member.is_sound()
        });
        let usable = usable.map(|(name, member)| Usable {
            name: name.clone(),
            url: member.url.clone(),
            cores: member.hello.cores.max(1),
            memory_limit: member.hello.memory_limit,
            gone: member.gone.clone(),
        });
        usable.collect()
    }

    /// Notes that a statement lost an executor: it is not used again before it reports, nor, if others have lost it
    /// lately, for a while that doubles each time, for one that reports may still not be reached. One that has left is
    /// not known any more, and one that came back under its name is another.
    pub(crate) fn suspect(&self, name: &str, url: &Url) {
        let mut members = self.by_name.lock();
        if let Some(member) = members.get_mut(name).filter(|member| member.url == *url) {
            member.losses = match member.suspected.map(|at| at.elapsed()) {
                // Other tasks lose it with the first.
                Some(ago) if ago < BEAT => member.losses,
                Some(ago) if ago < LOSSES_FORGOTTEN => member.losses.saturating_add(1),
                _ => 1,
            };
            member.suspected = Some(Instant::now());
        }
    }

    /// Forgets executors that have been silent for too long.
    pub(crate) fn forget_silent(&self) {
        self.by_name.lock().retain(|name, member| {
            let is_there = member.heard.elapsed() < SILENCE;
            if !is_there {
                tracing::warn!(executor = %name, "an executor is silent and is taken for lost");
                member.gone.cancel();
                self.counts.lock().lost += u64::from(member.is_missed());
            }
            is_there
        });
    }

    /// Returns what was counted so far.
    pub(crate) fn counts(&self) -> Counts {
        *self.counts.lock()
    }

    /// Reports the executors.
    pub(crate) fn reports(&self) -> Vec<ExecutorReport> {
        let members = self.by_name.lock();
        let report = |(name, member): (&String, &Member)| ExecutorReport {
            name: name.clone(),
            url: member.url.to_string(),
            version: member.hello.version.clone(),
            state: member.state().into(),
            reason: member.refused.clone().or_else(|| member.why_suspected()),
            cores: member.hello.cores,
            memory_limit: member.hello.memory_limit,
            memory_used: member.beat.memory_used,
            devices: member.hello.devices.clone(),
            tasks: member.beat.tasks,
            silent_seconds: member.heard.elapsed().as_secs_f64(),
            received_bytes: member.beat.received_bytes,
            speed: None,
        };
        members.iter().map(report).collect()
    }
}

impl Member {
    /// Tells whether the executor has reported since a statement lost it.
    fn is_sound(&self) -> bool {
        self.suspected
            .is_none_or(|at| self.heard > at && at.elapsed() >= pause(self.losses))
    }

    fn why_suspected(&self) -> Option<String> {
        let at = self.suspected.filter(|_| !self.is_sound())?;
        if self.heard <= at {
            return Some("a statement lost it, and it has not reported since".into());
        }
        let rest = pause(self.losses).saturating_sub(at.elapsed()).as_secs();
        Some(format!(
            "it reports, but {} statements lost it: it is used again in {rest} s",
            self.losses
        ))
    }

    /// Tells whether statements could use the executor, so that it is lost if it goes.
    fn is_missed(&self) -> bool {
        self.refused.is_none() && !self.beat.is_draining
    }

    fn state(&self) -> &'static str {
        match self {
            Self {
                refused: Some(_), ..
            } => "refused",
            _ if !self.is_sound() => "suspect",
            _ if self.beat.is_draining => "draining",
            _ => "ready",
        }
    }
}

/// Returns how long an executor is not used after so many losses.
fn pause(losses: u32) -> Duration {
    match losses.checked_sub(2) {
        Some(more) => PAUSE
            .saturating_mul(2_u32.saturating_pow(more))
            .min(PAUSE_MAX),
        None => Duration::ZERO,
    }
}

impl Membership {
    /// Notes what the executor reports.
    pub(crate) fn beat(&self, beat: Beat) {
        let mut members = self.members.by_name.lock();
        let member = members.get_mut(&self.name);
        if let Some(member) = member.filter(|member| member.joined == self.joined) {
            let more = beat
                .received_bytes
                .saturating_sub(member.beat.received_bytes);
            self.members.counts.lock().received_bytes += more;
            member.beat = beat;
            // What it reports may be older than what it was told.
            member.beat.is_draining |= member.drain.is_cancelled();
            member.heard = Instant::now();
        }
    }

    /// Returns what is cancelled when the executor is to be told to end.
    pub(crate) fn drain(&self) -> CancellationToken {
        self.drain.clone()
    }

    /// Waits until the executor is taken for gone, or another connection has taken its place.
    pub(crate) async fn gone(&self) {
        self.gone.cancelled().await;
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.gone.cancel();
        let mut members = self.members.by_name.lock();
        let is_own = members.get(&self.name).is_some_and(|member| {
            // Another connection may have taken the place.
            member.joined == self.joined
        });
        let gone = is_own.then(|| members.remove(&self.name)).flatten();
        if let Some(gone) = gone {
            tracing::info!(executor = %self.name, "an executor is gone");
            self.members.counts.lock().lost += u64::from(gone.is_missed());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use url::Url;

    use super::{Members, pause};
    use crate::join::{Beat, Hello};

    fn hello(name: &str) -> Hello {
        Hello {
            name: name.into(),
            cores: 2,
            ..Hello::default()
        }
    }

    fn names(members: &Members, asked: &[&str]) -> Vec<String> {
        let asked: Vec<String> = asked.iter().map(ToString::to_string).collect();
        let usable = members.usable(&asked).into_iter();
        usable.map(|usable| usable.name).collect()
    }

    #[test]
    fn who_is_lost_again_is_not_used_for_longer() {
        let seconds = [0, 1, 2, 3, 4, 100].map(|losses| pause(losses).as_secs());
        assert_eq!(seconds, [0, 0, 10, 20, 40, 300]);
        let members = Arc::<Members>::default();
        let url = Url::parse("http://127.0.0.1:1").unwrap();
        let one = members.join(hello("a"), url.clone(), None);
        // Two tasks of one statement lose it at once.
        members.suspect("a", &url);
        members.suspect("a", &url);
        std::thread::sleep(std::time::Duration::from_millis(1));
        one.beat(Beat::default());
        assert_eq!(names(&members, &[]), ["a"]);
        members.by_name.lock().get_mut("a").unwrap().losses = 2;
        assert!(names(&members, &[]).is_empty());
        let report = members.reports().remove(0);
        assert_eq!(report.state, "suspect");
        let reason = report.reason.unwrap();
        assert!(reason.contains("2 statements lost it"), "{reason}");
    }

    #[test]
    fn who_may_be_used() {
        let members = Arc::<Members>::default();
        let url = |port| Url::parse(&format!("http://127.0.0.1:{port}")).unwrap();
        let first = members.join(hello("a"), url(1), None);
        let second = members.join(hello("b"), url(2), None);
        let _other = members.join(hello("c"), url(3), Some("another version".into()));
        assert_eq!(names(&members, &[]), ["a", "b"]);
        assert_eq!(names(&members, &["b", "c", "x"]), ["b"]);
        members.suspect("b", &url(7));
        assert_eq!(names(&members, &[]), ["a", "b"]);
        members.suspect("b", &url(2));
        assert_eq!(names(&members, &[]), ["a"]);
        std::thread::sleep(std::time::Duration::from_millis(1));
        second.beat(Beat::default());
        assert_eq!(names(&members, &[]), ["a", "b"]);
        assert!(members.drain("b") && !members.drain("x"));
        assert!(second.drain().is_cancelled() && !first.drain().is_cancelled());
        second.beat(Beat::default());
        assert_eq!(names(&members, &[]), ["a"]);
        let gone = members.usable(&[])[0].gone.clone();
        let again = members.join(hello("a"), url(4), None);
        assert!(gone.is_cancelled());
        drop(first);
        assert_eq!(names(&members, &[]), ["a"]);
        drop(again);
        assert!(names(&members, &[]).is_empty());
        let states: Vec<String> = members.reports().into_iter().map(|r| r.state).collect();
        assert_eq!(states, ["draining", "refused"]);
        second.beat(Beat {
            received_bytes: 7,
            ..Beat::default()
        });
        second.beat(Beat {
            received_bytes: 9,
            is_draining: true,
            ..Beat::default()
        });
        drop(second);
        let counts = members.counts();
        assert_eq!(
            (counts.joined, counts.lost, counts.received_bytes),
            (3, 1, 9)
        );
    }
}
