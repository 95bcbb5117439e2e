//! Tests with two processes that share a store: a revocation takes effect immediately in the process that makes it, and
//! soon in the other one (MGP §3–§5).

#![cfg(feature = "sqlite")]
#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a test that prints its measurement")]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_security::{DefinitionState, Governance, PermissionChange};
use mgp_testkit::{ChildTest, Stopwatch, child_role, report, temp_dir};
use mgp_types::Payload;
use mgp_types::mgp::{AccessGrantParams, AccessRevokeParams, Permission};
use mgp_types::service::{Principal, Reply, ServerId, Stack, mock};
use mgp_types::store::Db;
use tokio::time::Instant;
use tower_layer::Layer as _;

/// The number of measurements per kind of change.
const ROUNDS: u64 = 20;

/// The time limit for a change to take effect in the other process.
const SOON: Duration = Duration::from_millis(250);

/// The time that the child waits for a change. Then it ends, which makes the test fail.
const PATIENCE: Duration = Duration::from_secs(20);

/// The kinds of change, each with numbered subjects.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// Grants of access to agents, which are revoked.
    Access,
    /// Grants of permissions to servers, which are revoked.
    Permission,
    /// Changed definitions of tools, which are approved.
    Pin,
    /// Grants of access to agents, which expire.
    Expiry,
}

const KINDS: [Kind; 4] = [Kind::Access, Kind::Permission, Kind::Pin, Kind::Expiry];

fn ann() -> Principal {
    Principal::new("acme", "ann").operator()
}

fn name(number: u64) -> String {
    format!("name.{number}")
}

struct Process {
    governance: Governance,
}

impl Process {
    async fn start(folder: &Path) -> Self {
        let db = Db::open(folder.join("mgp.db")).await.unwrap();
        let governance = Governance::builder().store(Arc::new(db)).build();
        governance.open().await.unwrap();
        Self { governance }
    }

    /// Returns whether the subject of a change is allowed now.
    fn may(&self, kind: Kind, number: u64) -> bool {
        let (name, at) = (name(number), SystemTime::now());
        match kind {
            Kind::Access | Kind::Expiry => {
                let agent = Principal::new("acme", name);
                let access = self.governance.access();
                access.decide(&agent, Some(&"files".into()), Some("read"), at).is_allowed()
            }
            Kind::Permission => {
                let (server, needed) = (ServerId::from(&*name), [Permission::FilesystemRead]);
                let permissions = self.governance.permissions();
                permissions.missing(&ann(), Some(&server), "read", &needed, None, at).is_empty()
            }
            Kind::Pin => self.standing(&name).is_callable(),
        }
    }

    fn standing(&self, tool: &str) -> DefinitionState {
        self.governance.definitions().state(Some(&"files".into()), tool)
    }

    /// Makes a server list its tools twice, the second time with different definitions.
    async fn see_tools_change(&self) {
        for version in 0..2 {
            let tools = Stack::from_fn(move |_| async move {
                let tool = |number| {
                    let name = name(number);
                    format!(
                        r#"{{"name":"{name}","description":"Version {version}.","inputSchema":{{}}}}"#
                    )
                };
                let tools: Vec<_> = (0..ROUNDS).map(tool).collect();
                let tools = format!(r#"{{"tools":[{}]}}"#, tools.join(","));
                Ok(Reply::raw(Payload::from_trusted(tools)))
            });
            let mut client = mock::client(Stack::new(self.governance.layer("files").layer(tools)));
            client.request("tools/list", "{}").await.unwrap();
        }
    }

    /// Creates every subject, before any of them changes.
    async fn prepare(&self, kind: Kind) {
        if kind == Kind::Pin {
            return self.see_tools_change().await;
        }
        for number in 0..ROUNDS {
            let name = name(number);
            if kind == Kind::Permission {
                let change =
                    PermissionChange::new(Some((&*name).into()), [Permission::FilesystemRead]);
                self.governance.permissions().approve(&ann(), change).await.unwrap();
            } else {
                let grant = AccessGrantParams::allow(name, "files");
                self.governance.access().grant(&ann(), grant).await.unwrap();
            }
        }
    }

    async fn change(&self, kind: Kind, number: u64) {
        let name = name(number);
        match kind {
            Kind::Access => {
                let revoke = AccessRevokeParams::server_grant(name, "files");
                self.governance.access().revoke(&ann(), revoke).await.unwrap();
            }
            Kind::Permission => {
                let change =
                    PermissionChange::new(Some((&*name).into()), [Permission::FilesystemRead]);
                self.governance.permissions().revoke(&ann(), change).await.unwrap();
            }
            Kind::Pin => {
                let DefinitionState::Changed(held) = self.standing(&name) else {
                    panic!("unchanged")
                };
                let definitions = self.governance.definitions();
                let server = ServerId::from("files");
                let operator = Principal::local().operator();
                definitions
                    .approve(&operator, &server, &name, &held.fingerprint, None)
                    .await
                    .unwrap();
            }
            Kind::Expiry => {}
        }
    }
}

/// Returns whether a subject is allowed after its change.
fn after(kind: Kind) -> bool {
    kind == Kind::Pin
}

/// Runs in the child process. In an ordinary test run, it does nothing.
#[tokio::test]
async fn child() {
    let Some((role, folder)) = child_role() else { return };
    let kind = KINDS.into_iter().find(|kind| format!("{kind:?}") == role).unwrap();
    let process = Process::start(&folder).await;
    if kind == Kind::Pin {
        process.see_tools_change().await;
    }
    assert!((0..ROUNDS).all(|number| process.may(kind, number) != after(kind)));
    report("ready", 0);
    let until = Instant::now() + PATIENCE;
    for number in 0..ROUNDS {
        while process.may(kind, number) != after(kind) {
            assert!(Instant::now() < until, "{kind:?} {number} never came");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        report("now", number);
    }
}

/// Makes changes in this process, and measures how long they take to affect the other process.
async fn measure(kind: Kind) {
    let folder = temp_dir();
    let here = Process::start(folder.path()).await;
    here.prepare(kind).await;
    let mut there = ChildTest::start("two_processes::child", &format!("{kind:?}"), folder.path());
    there.wait_for("ready");
    let mut took = Vec::new();
    for number in 0..ROUNDS {
        // Make the change at a random moment between two polls of the other process.
        tokio::time::sleep(Duration::from_millis(fastrand::u64(..120))).await;
        let begun = Stopwatch::start();
        here.change(kind, number).await;
        assert_eq!(here.may(kind, number), after(kind), "{kind:?} {number} here");
        assert_eq!(there.wait_for("now"), number);
        took.push(begun.elapsed());
    }
    judge(&format!("{kind:?}"), took);
}

fn judge(kind: &str, mut took: Vec<Duration>) {
    took.sort();
    let worst = took[took.len() - 1];
    println!("{kind}: in force elsewhere after {worst:?} at worst");
    // Ignore the longest time, because a busy machine may be late once.
    let most = took[took.len() - 2];
    assert!(most < SOON, "{kind}: {took:?}");
}

#[tokio::test]
async fn a_revoked_grant_ends_here_at_once_and_there_soon() {
    measure(Kind::Access).await;
}

#[tokio::test]
async fn a_revoked_permission_ends_here_at_once_and_there_soon() {
    measure(Kind::Permission).await;
}

#[tokio::test]
async fn an_approved_definition_can_be_called_here_at_once_and_there_soon() {
    measure(Kind::Pin).await;
}

#[tokio::test]
async fn a_grant_ends_everywhere_at_its_time_and_not_before() {
    let folder = temp_dir();
    let here = Process::start(folder.path()).await;
    // The other process must be running before the first grant expires.
    let first = Duration::from_secs(8);
    let begun = SystemTime::now();
    let end = |number: u64| begun + first + Duration::from_millis(number * 200);
    for number in 0..ROUNDS {
        let grant = AccessGrantParams::allow(name(number), "files").until(end(number));
        here.governance.access().grant(&ann(), grant).await.unwrap();
    }
    let mut there = ChildTest::start("two_processes::child", "Expiry", folder.path());
    there.wait_for("ready");
    assert!(SystemTime::now() < end(0), "the other process came too late to see anything");
    let (watch, mut took) = (Stopwatch::start(), Vec::new());
    for number in 0..ROUNDS {
        assert_eq!(there.wait_for("now"), number);
        // Times in entries are rounded to milliseconds, so an entry may expire up to a millisecond before its exact
        // end.
        let late = SystemTime::now() + Duration::from_millis(1);
        let late = late.duration_since(end(number)).expect("it expired too early there");
        took.push(late.saturating_sub(watch.paused()));
        assert!(!here.may(Kind::Expiry, number));
    }
    judge("Expiry", took);
}
