//! Notifies clients of changed lists. Collects the changes within a short time, and then notifies each client whose
//! lists are affected once.

use std::time::{Duration, SystemTime};

use mgp_discovery::ApprovedRegistration;
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
        loop {
            sleep(COLLECT_INTERVAL).await;
            let Some(fleet) = fleet.upgrade() else { return };
            let is_starting = fleet.all().values().any(|server| server.delays_lists());
            if !is_starting || Instant::now() >= end {
                announce(&fleet, changes.take());
                break;
            }
        }
    }
}

/// Records each change of the operator's rules as a change of all lists, because the rules decide which entries a
/// client sees. Ends when the governance is dropped.
pub(super) async fn follow_rules(mut rules: watch::Receiver<u64>, changes: ChangedLists) {
    while rules.changed().await.is_ok() {
        changes.add_rules();
    }
}

fn announce(fleet: &Fleet, Changes { of_servers, of_rules }: Changes) {
    for group in ListGroup::ALL {
        let changed: Vec<(&ServerId, u64)> = of_servers
            .iter()
            .filter(|((other, _), _)| *other == group)
            .map(|((_, id), version)| (id, *version))
            .collect();
        if changed.is_empty() && of_rules.is_none() {
            continue;
        }
        // Do not notify a session whose lists already contain the change: some old hosts hang if a notification follows
        // their lists.
        let needs_notice = |principal: &Principal, scope: &Scope| {
            let is_new = |version: u64| !is_in_all_lists(scope, version);
            let is_affected = |(id, version): &(&ServerId, u64)| {
                is_new(*version) && sees_list(fleet, principal, id, group)
            };
            of_rules.is_some_and(is_new) || changed.iter().any(is_affected)
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
    let (access, now) = (fleet.context().governance.access(), SystemTime::now());
    let sees = |tool: Option<&str>| access.decide(principal, Some(server), tool, now).is_allowed();
    if sees(None) {
        return true;
    }
    if group != ListGroup::Tools {
        return false;
    }
    // A principal can see single tools of a server without access to the server as a whole. If the server was removed
    // or must not run, its tools are unknown here, so notify the principal in any case.
    let tools = fleet.context().index.tools_of(server.as_str());
    fleet
        .get(server.as_str())
        .is_none_or(|server| server.approved().is_some_and(ApprovedRegistration::is_held))
        || tools.iter().any(|tool| sees(Some(tool.name())))
}
