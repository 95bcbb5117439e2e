//! Tests of grants and revocations in processes that are killed: acknowledged changes persist, and are recorded exactly
//! once (MGP §5, §6).
//!
//! The environment variable `KILLS` sets the number of kills; 30 by default.

#![cfg(feature = "sqlite")]
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a test that prints its measurement")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_security::{
    Access, AuditLog, EventSource as _, LogConfig, LogError, LogHead, Policies, verify,
};
use mgp_testkit::{ChildTest, child_role, report, temp_dir};
use mgp_types::mgp::{AccessGrantParams, AccessRevokeParams, AuditEvent, EntryType};
use mgp_types::service::{AuditSink, Principal};
use mgp_types::store::{Db, Store};
use tokio::time::Instant;

/// The number of kills if the environment variable `KILLS` is not set.
const KILLS: u32 = 30;

/// The number of kills after which the test uses a new folder.
const A_FOLDER: u32 = 50;

/// The number of grants in force at a time: each grant is revoked after that number of later grants.
const STANDING: u64 = 20;

/// The time limit for opening the store and the log in a folder.
const OPENING: Duration = Duration::from_millis(100);

/// The time limit for the last events of a log to arrive, and for the lock of a log to be released.
const PATIENCE: Duration = Duration::from_secs(10);

/// A change, identified by its number, from 1 on. An odd number is a grant, an even number the revocation of an older
/// grant.
#[derive(Clone, Copy)]
struct Step(u64);

impl Step {
    /// Returns the agent to whom this step grants access, if it is a grant.
    fn granted(self) -> Option<u64> {
        (self.0 % 2 == 1).then_some(self.0 / 2)
    }

    /// Returns the agent whose grant this step revokes, if it is a revocation. The first even steps revoke nothing,
    /// because no grant is old enough.
    fn revoked(self) -> Option<u64> {
        (self.0 / 2 - 1).checked_sub(STANDING).filter(|_| self.0.is_multiple_of(2))
    }

    async fn make(self, access: &Access) {
        let ann = Principal::new("acme", "ann").operator();
        if let Some(agent) = self.granted() {
            let grant = AccessGrantParams::allow(name(agent), "files").tool("read");
            access.grant(&ann, grant).await.unwrap();
        } else if let Some(agent) = self.revoked() {
            let revoke = AccessRevokeParams::new(name(agent), "files", EntryType::ToolGrant);
            assert_eq!(access.revoke(&ann, revoke).await.unwrap().deleted_count, 1);
        }
    }

    /// Returns the type of the audit event that records this change, and its agent.
    fn event_key(self) -> Option<(&'static str, String)> {
        let granted = self.granted().map(|agent| ("ACCESS_GRANTED", name(agent)));
        granted.or_else(|| self.revoked().map(|agent| ("ACCESS_REVOKED", name(agent))))
    }
}

fn name(agent: u64) -> String {
    format!("agent.{agent}")
}

/// The opened database, audit log and access entries of a folder.
struct Open {
    db: Db,
    log: AuditLog,
    access: Access,
}

impl Open {
    async fn all(folder: &Path) -> Self {
        let db = Db::open(folder.join("mgp.db")).await.unwrap();
        let store: Arc<dyn Store> = Arc::new(db.clone());
        let config = LogConfig::new(folder.join("log"));
        let until = Instant::now() + PATIENCE;
        let log = loop {
            match AuditLog::open(config.clone(), Some(Arc::clone(&store))).await {
                // A task that follows the store may still hold the last handle for a short time, so try again.
                Err(LogError::InUse { .. }) if Instant::now() < until => {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                opened => break opened.unwrap(),
            }
        };
        let access = Access::new(store, Arc::new(log.clone()), Policies::default());
        access.open().await.unwrap();
        Self { db, log, access }
    }

    async fn close(self) {
        drop((self.access, self.log));
        self.db.close().await;
    }

    fn may(&self, agent: u64) -> bool {
        let agent = Principal::new("acme", name(agent));
        let decided =
            self.access.decide(&agent, Some(&"files".into()), Some("read"), SystemTime::now());
        decided.is_allowed()
    }

    /// Returns the number of changes that were made. Checks that these are the changes from 1 to that number and no
    /// others.
    fn made(&self, at_most: u64) -> u64 {
        let holds = |agent: u64, made: u64| {
            let granted = agent * 2 < made;
            let revoked = (agent + STANDING + 1) * 2 <= made;
            granted && !revoked
        };
        let fits =
            |made: &u64| (0..=at_most / 2).all(|agent| self.may(agent) == holds(agent, *made));
        (0..=at_most).rev().find(fits).expect("the entries match one moment")
    }

    /// Returns the events after a sequence number, once there are at least as many as expected.
    async fn events(&self, mut seq: u64, expected: usize) -> Vec<AuditEvent> {
        // Reading the log also moves committed events from the store to the log.
        let until = Instant::now() + PATIENCE;
        let mut events = Vec::new();
        loop {
            let page = self.log.after(seq, 1000).await.unwrap();
            seq += page.len() as u64;
            let got_all = page.is_empty() && events.len() >= expected;
            events.extend(page);
            let left = self.db.pending_events(self.log.outbox(&self.db).unwrap(), 1).await.unwrap();
            if got_all && left.is_empty() || Instant::now() > until {
                return events;
            }
            if events.len() < expected {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

fn event_key(event: &AuditEvent) -> Option<(&str, String)> {
    let details = event.details.as_ref().unwrap();
    Some((event.event_type.as_str(), details.get("agent_id")?.get().unwrap()))
}

/// Runs in the child process. In an ordinary test run, it does nothing.
#[tokio::test]
async fn child() {
    let Some((from, folder)) = child_role() else { return };
    let open = Open::all(&folder).await;
    for number in from.parse().unwrap().. {
        Step(number).make(&open.access).await;
        report("ack", number);
    }
}

/// Starts a process that makes changes, and kills it; returns the last change that it acknowledged, if any.
fn change_and_kill(folder: &Path, from: u64, kill: u32) -> Option<u64> {
    let mut child = ChildTest::start("kills::child", &from.to_string(), folder);
    let mut acknowledged = None;
    if kill % 4 == 3 {
        // After such a short time the process is usually still opening the folder.
        std::thread::sleep(Duration::from_micros(fastrand::u64(..25_000)));
    } else {
        for _ in 0..fastrand::u32(1..60) {
            acknowledged = Some(child.wait_for("ack"));
        }
        std::thread::sleep(Duration::from_micros(fastrand::u64(..3000)));
    }
    let [newest] = child.kill_and_read(["ack"]);
    newest.or(acknowledged)
}

// Two threads, because the task that follows the store must be able to release it while the test reads from a child.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_changes_persist_after_every_kill_and_are_recorded_once() {
    if child_role().is_some() {
        return;
    }
    let kills = std::env::var("KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let (mut openings, mut changes) = (Vec::new(), 0);
    for first in (0..kills).step_by(A_FOLDER as usize) {
        let folder = temp_dir();
        let (mut made, mut events) = (0, 0);
        for kill in first..kills.min(first + A_FOLDER) {
            let acknowledged = change_and_kill(folder.path(), made + 1, kill).unwrap_or(made);
            let begun = Instant::now();
            let open = Open::all(folder.path()).await;
            openings.push(begun.elapsed());
            // The change that was in progress may have been made, too, so allow one change that was not acknowledged.
            let now = open.made(acknowledged + 1);
            assert!(now >= acknowledged, "{acknowledged} acknowledged, {now} made");
            let expected: Vec<_> =
                (made + 1..=now).filter_map(|step| Step(step).event_key()).collect();
            let found = open.events(events, expected.len()).await;
            let found: Vec<_> = found.iter().map(|event| event_key(event).unwrap()).collect();
            assert_eq!(found, expected, "each change is recorded once, in order");
            events += found.len() as u64;
            made = now;
            let head = LogHead::in_store(&open.db, "audit").await.unwrap().unwrap();
            verify(&folder.path().join("log"), "audit", &head).unwrap();
            open.close().await;
        }
        changes += made;
    }
    openings.sort();
    let (median, worst) = (openings[openings.len() / 2], openings[openings.len() - 1]);
    println!("{kills} kills, {changes} changes, opened in {median:?}, at worst {worst:?}");
    assert!(changes > u64::from(kills) * 10, "{changes}");
    assert!(median < OPENING, "{median:?}, at worst {worst:?}");
}
