//! The servers of a kernel, each with its supervised client.
//!
//! A changed list takes this path: the server announces the change ([`notifier`]), the list is marked as stale
//! ([`refresh_queue`]) and read again ([`refresh`]), and the [`announcements`] notify the clients that see the server.

mod announcements;
mod changed_lists;
mod confinement;
mod context;
mod control;
mod describe;
mod era_choice;
mod first_start_permits;
mod first_sync;
mod idle;
mod instance;
mod isolated_instances;
mod known_servers;
mod list_cache;
mod list_entry;
mod list_reading;
mod log_level;
mod log_messages;
mod managed_server;
mod notifier;
mod offer;
mod probed_lists;
mod processor_times;
mod refresh;
mod refresh_queue;
mod remote_health;
mod server_log;
mod servers;
mod session;
mod start_hold;
mod start_permits;
mod state_watch;
mod stopped_owners;
mod stored_lists;
mod subscriptions;
mod target;
mod task_session;
mod task_tools;
#[cfg(test)]
mod tests;
mod visible_fleet;

use std::collections::HashMap;

use mgp_types::Payload;

use announcements::KnownRules;
pub(super) use changed_lists::ChangedLists;
pub use confinement::confine;
pub(crate) use confinement::private_variable;
pub(super) use context::{CreateServer, FleetContext};
pub(super) use describe::describe_all;
pub(super) use era_choice::{SessionKind, SessionUse};
pub(super) use first_sync::{FIRST_LIST_TIMEOUT, FIRST_SYNC_TIMEOUT};
pub(super) use known_servers::KnownServers;
pub(super) use list_cache::{CachedList, ListEntry, ListKind, skills as declared_skills};
pub(super) use managed_server::ManagedServer;
pub use offer::{offer_callers, offer_extensions};
pub use probed_lists::{ProbedLists, store_probed_lists};
pub(super) use refresh_queue::{ListGroup, StaleLists};
pub(super) use servers::Fleet;
pub(super) use start_permits::StartPermits;
pub(super) use stopped_owners::StoppedOwners;
pub use stored_lists::forget_stored_lists;
pub(super) use stored_lists::load as load_stored_lists;
pub(super) use subscriptions::ResourceSubscriptions;
pub use target::program_path;
pub(super) use task_tools::InMainSession;
pub(super) use visible_fleet::VisibleFleet;

/// Creates a fleet without servers, and starts the tasks that serve it until it is dropped.
///
/// # Panics
/// Panics outside of a tokio runtime.
pub(super) fn start(context: FleetContext, stored: HashMap<String, Payload>) -> Fleet {
    let (rules, changed_lists) =
        (KnownRules::new(&context.governance), context.changed_lists.clone());
    let stale = context.stale.clone();
    let fleet = Fleet::new(context, stored);
    tokio::spawn(rules.follow(fleet.downgrade(), changed_lists.clone()));
    tokio::spawn(refresh::run(fleet.downgrade(), stale));
    tokio::spawn(announcements::run(fleet.downgrade(), changed_lists));
    tokio::spawn(idle::run(fleet.downgrade()));
    tokio::spawn(idle::check_remote(fleet.downgrade()));
    tokio::spawn(idle::reread(fleet.downgrade()));
    fleet
}
