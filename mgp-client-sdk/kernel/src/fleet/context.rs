//! State and handles that all servers of a kernel share.

use std::collections::HashMap;
use std::sync::Arc;

use mgp_client_sdk::ClientBuilder;
use mgp_discovery::Expander;
use mgp_lifecycle::TaskTables;
use mgp_security::{Governance, Scopes};
use mgp_server_sdk::ChangeNotifier;
use mgp_toolindex::ToolIndex;
use mgp_types::service::{Principal, ServerId};

use super::changed_lists::ChangedLists;
use super::known_servers::KnownServers;
use super::notifier::ServerNotifier;
use super::refresh_queue::StaleLists;
use super::start_permits::StartPermits;
use super::stopped_owners::StoppedOwners;
use super::subscriptions::ResourceSubscriptions;
use crate::active_config::SharedConfig;
use crate::bounds::CallBounds;
use crate::call_proposals::CallProposals;
use crate::callers::Callers;
use crate::events::KernelEvents;
use crate::lock::ActiveLock;
use crate::logins::Logins;
use crate::operator_questions::ServerQuestions;
use crate::proposals::ProposalState;
use crate::references::References;

/// A function that creates a server in this process; it is called at each start of the server.
pub(crate) type CreateServer = Arc<dyn Fn() -> mgp_server_sdk::Server + Send + Sync>;

/// State and handles that all servers of a kernel share. This handle is cheap to clone.
#[derive(Clone)]
pub(crate) struct FleetContext {
    pub(crate) config: SharedConfig,
    /// The idempotency keys and transactions of calls.
    pub(crate) calls: CallProposals,
    pub(crate) bounds: CallBounds,
    pub(crate) governance: Governance,
    /// The sessions that limit callers to scopes.
    pub(crate) scopes: Scopes,
    pub(crate) index: ToolIndex,
    pub(crate) expander: Expander,
    pub(crate) logins: Logins,
    pub(crate) lock: Option<ActiveLock>,
    pub(crate) stale: StaleLists,
    pub(crate) known: KnownServers,
    pub(crate) start_permits: StartPermits,
    pub(crate) local: Arc<HashMap<ServerId, CreateServer>>,
    /// The handle that notifies clients of changed lists and resources.
    pub(crate) notifications: ChangeNotifier,
    /// The changes of lists that clients have not been notified of yet.
    pub(crate) changed_lists: ChangedLists,
    pub(crate) callers: Callers,
    pub(crate) events: KernelEvents,
    pub(crate) subscriptions: ResourceSubscriptions,
    /// The tables of the tasks of all callers.
    pub(crate) tasks: TaskTables,
    /// The owners of instances that were stopped together with their server.
    pub(crate) stopped: StoppedOwners,
    /// The references to data in the results of servers, which callers can pass to other servers.
    pub(crate) references: References,
    /// The questions of servers that wait for an operator.
    pub(crate) questions: ServerQuestions,
    pub(crate) proposals: ProposalState,
}

impl FleetContext {
    /// Adds the layers that run after the security checks to the stack that sends calls to a server, beginning with the
    /// innermost layer.
    pub(super) fn layers(&self, builder: ClientBuilder, server: &ServerId) -> ClientBuilder {
        let builder = self.calls.layers(builder, &self.governance, server);
        self.bounds.layer_decided(builder, &self.governance, server)
    }

    /// Returns whether any client is subscribed to a resource, or to the events, of a principal's instance of a server.
    pub(super) fn has_subscriber(&self, server: &ServerId, owner: &Principal) -> bool {
        self.subscriptions.has_any(server, Some(owner))
            || self.events.hub().has_subscriber(server, Some(owner))
    }

    pub(super) fn notifier(&self, server: ServerId) -> ServerNotifier {
        ServerNotifier {
            server,
            access: self.governance.access().clone(),
            stale: self.stale.clone(),
            subscriptions: self.subscriptions.clone(),
            notifications: self.notifications.clone(),
            callers: self.callers.clone(),
            events: self.events.clone(),
        }
    }
}
