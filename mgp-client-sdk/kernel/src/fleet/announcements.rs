//! Notifies clients of changed lists. Collects the changes within a short time, and then sends one notification to each
//! client whose lists are affected.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use mgp_discovery::ApprovedRegistration;
use mgp_security::Governance;
use mgp_types::service::{Principal, Scope, ServerId};
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

use super::changed_lists::{ChangedLists, Changes, is_in_all_lists};
use super::refresh_queue::ListGroup;
use super::servers::{Fleet, WeakFleet};

/// The time for which changes of lists are collected before clients are notified.
const COLLECT_INTERVAL: Duration = Duration::from_millis(250);

/// The maximum delay of a notification while new servers start, because their start will change the same lists.
const MAX_COLLECT: Duration = Duration::from_secs(5);

/// The interval at which the task checks whether the fleet still exists.
const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Notifies clients of changed lists; ends when the fleet is dropped.
pub(super) async fn run(fleet: WeakFleet, changes: ChangedLists) {
    loop {
        tokio::select! {
            () = changes.marked() => {}
            () = sleep(CHECK_INTERVAL) => {}
        }
        let end = Instant::now() + MAX_COLLECT;
        let mut was_starting = false;
        loop {
            sleep(COLLECT_INTERVAL).await;
            let Some(fleet) = fleet.upgrade() else { return };
            let is_starting = fleet.all().values().any(|server| server.delays_tools());
            // After a start, wait once more: the requests that waited for it are answered now, and their clients must
            // not be notified of changes that these answers contain.
            if !(is_starting || was_starting) || Instant::now() >= end {
                announce(&fleet, changes.take());
                break;
            }
            was_starting = is_starting;
        }
    }
}

/// The operator's rules, as of the last recorded change.
pub(super) struct KnownRules {
    all: watch::Receiver<u64>,
    shared: watch::Receiver<u64>,
    /// The revisions of the tenants' access entries; `None` if they could not be read.
    revisions: Option<BTreeMap<String, u64>>,
    /// The revisions of the servers' definitions.
    definitions: BTreeMap<ServerId, u64>,
}

impl KnownRules {
    pub(super) fn new(governance: &Governance) -> Self {
        let (all, shared) = (governance.changes(), governance.shared_changes());
        let definitions = governance.definitions().revisions();
        Self { all, shared, revisions: governance.access().revisions(), definitions }
    }

    /// Records each change of the rules, because the rules decide which entries a client sees. A change of access
    /// entries affects the clients of their tenant. A change of a server's definitions affects the clients that see
    /// tools of the server. Any other change affects all clients. Ends when the governance or the fleet is dropped.
    pub(super) async fn follow(mut self, fleet: WeakFleet, changes: ChangedLists) {
        loop {
            let is_shared = tokio::select! {
                changed = self.shared.changed() => changed.map(|()| true),
                changed = self.all.changed() => changed.map(|()| false),
            };
            let (Ok(is_shared), Some(fleet)) = (is_shared, fleet.upgrade()) else { return };
            let governance = &fleet.context().governance;
            let definitions = governance.definitions().revisions();
            let servers = self.definitions.keys().chain(definitions.keys());
            servers
                .filter(|server| self.definitions.get(*server) != definitions.get(*server))
                .for_each(|server| changes.add(server, ListGroup::Tools));
            self.definitions = definitions;
            let revisions = governance.access().revisions();
            match (&self.revisions, &revisions) {
                (Some(old), Some(new)) if !is_shared => {
                    let tenants = old.keys().chain(new.keys());
                    tenants
                        .filter(|tenant| old.get(*tenant) != new.get(*tenant))
                        .for_each(|tenant| changes.add_tenant(tenant));
                }
                _ => changes.add_rules(),
            }
            self.revisions = revisions;
        }
    }
}

fn announce(fleet: &Fleet, Changes { lists, shared_rules, access }: Changes) {
    for group in ListGroup::ALL {
        let changed: Vec<(&ServerId, u64)> = lists
            .iter()
            .filter(|((other, _), _)| *other == group)
            .map(|((_, id), version)| (id, *version))
            .collect();
        if changed.is_empty() && shared_rules.is_none() && access.is_empty() {
            continue;
        }
        // Do not notify a session whose lists already contain the change: some old hosts hang if they receive a
        // notification right after their lists.
        let needs_notice = |principal: &Principal, scope: &Scope| {
            let is_new = |version: u64| !is_in_all_lists(scope, version);
            let is_affected = |(id, version): &(&ServerId, u64)| {
                is_new(*version) && sees_list(fleet, principal, id, group)
            };
            let of_tenant = access.get(principal.tenant().as_str()).copied();
            shared_rules.max(of_tenant).is_some_and(is_new) || changed.iter().any(is_affected)
        };
        let notifications = &fleet.context().notifications;
        match group {
            ListGroup::Tools => notifications.tools_changed(needs_notice),
            ListGroup::Resources => notifications.resources_changed(needs_notice),
            ListGroup::Prompts => notifications.prompts_changed(needs_notice),
        }
    }
}

/// Returns whether a principal sees at least a part of a list of a server.
fn sees_list(fleet: &Fleet, principal: &Principal, server: &ServerId, group: ListGroup) -> bool {
    let access = fleet.context().governance.access();
    if group != ListGroup::Tools {
        return access.decide(principal, Some(server), None, SystemTime::now()).is_allowed();
    }
    // If the server was removed or must not run, the access to its tools may be deleted already, so notify the
    // principal in any case.
    access.allows_a_tool(principal, server)
        || fleet
            .get(server.as_str())
            .is_none_or(|server| server.approved().is_some_and(ApprovedRegistration::is_held))
}
