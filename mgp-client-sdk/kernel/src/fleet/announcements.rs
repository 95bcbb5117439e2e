//! Changes of lists, announced together to the clients that see them.

use std::collections::BTreeSet;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mgp_types::service::{Principal, ServerId};
use mgp_types::sync::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};

use super::refresh_queue::ListGroup;
use super::servers::{Fleet, WeakFleet};

/// Time over which changes are collected.
const COLLECT_INTERVAL: Duration = Duration::from_millis(250);

/// Time for which a change waits for servers that were just added: they change the same lists.
const MAX_COLLECT: Duration = Duration::from_secs(5);

/// Interval at which it is checked whether the fleet still exists.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// The changes that are not announced yet; a cheap handle.
#[derive(Clone, Default)]
pub(crate) struct Announcements(Arc<Pending>);

#[derive(Default)]
struct Pending {
    changes: Mutex<Changes>,
    marked: Notify,
}

/// The changed lists.
#[derive(Default)]
struct Changes {
    of_servers: BTreeSet<(ListGroup, ServerId)>,
    /// The rules changed that decide what callers see.
    of_rules: bool,
}

impl Announcements {
    /// Adds the change of a list of a server.
    pub(super) fn add(&self, server: &ServerId, group: ListGroup) {
        self.0.changes.lock().of_servers.insert((group, server.clone()));
        self.0.marked.notify_one();
    }

    fn add_rules(&self) {
        self.0.changes.lock().of_rules = true;
        self.0.marked.notify_one();
    }
}

/// Announces changes until the fleet is dropped.
pub(super) async fn run(fleet: WeakFleet, changes: Announcements) {
    loop {
        tokio::select! {
            () = changes.0.marked.notified() => {}
            () = sleep(CHECK_INTERVAL) => {}
        }
        let end = Instant::now() + MAX_COLLECT;
        loop {
            sleep(COLLECT_INTERVAL).await;
            let Some(fleet) = fleet.upgrade() else { return };
            let is_starting = fleet.all().values().any(|server| server.is_new());
            if !is_starting || Instant::now() >= end {
                announce(&fleet, mem::take(&mut *changes.0.changes.lock()));
                break;
            }
        }
    }
}

/// Adds each change of the rules, until the governance is dropped.
pub(super) async fn follow_rules(mut rules: watch::Receiver<u64>, changes: Announcements) {
    while rules.changed().await.is_ok() {
        changes.add_rules();
    }
}

fn announce(fleet: &Fleet, Changes { of_servers, of_rules }: Changes) {
    for group in ListGroup::ALL {
        let changed: Vec<&ServerId> =
            of_servers.iter().filter(|(other, _)| *other == group).map(|(_, id)| id).collect();
        if changed.is_empty() && !of_rules {
            continue;
        }
        let sees = |principal: &Principal| {
            of_rules || changed.iter().any(|id| sees_list(fleet, principal, id, group))
        };
        let notifications = &fleet.context().notifications;
        match group {
            ListGroup::Tools => notifications.tools_changed(sees),
            ListGroup::Resources => notifications.resources_changed(sees),
            ListGroup::Prompts => notifications.prompts_changed(sees),
        }
    }
}

/// Returns whether a principal sees a list of a server, or a part of it.
fn sees_list(fleet: &Fleet, principal: &Principal, server: &ServerId, group: ListGroup) -> bool {
    let (access, now) = (fleet.context().governance.access(), SystemTime::now());
    let sees = |tool: Option<&str>| access.decide(principal, Some(server), tool, now).is_allowed();
    if sees(None) {
        return true;
    }
    if group != ListGroup::Tools {
        return false;
    }
    // A principal may see single tools of a server that it does not see as a whole; of a removed one they are unknown.
    let tools = fleet.context().index.tools_of(server.as_str());
    fleet.get(server.as_str()).is_none() || tools.iter().any(|tool| sees(Some(tool.name())))
}
