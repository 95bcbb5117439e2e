//! The [`Dispatcher`]: the parts of the kernel that all routes of clients' calls share.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use mgp_discovery::Registrations;
use mgp_toolindex::{Endpoints, Sessions};
use mgp_types::mcp::{EmptyParams, Era};
use mgp_types::method::RootsListChanged;
use mgp_types::service::{Call, Context};

use super::creation::Creation;
use super::list_counter::ListCounter;
use super::meta_tools::MetaToolConfig;
use super::surface;
use crate::caller_view::CallerView;
use crate::coalesced::Coalesced;
use crate::fleet::{Fleet, ListGroup, ManagedServer, VisibleFleet};
use crate::kernel_hops;
use crate::metrics::CallMetrics;
use crate::results::Results;

/// The note in the result of a search while the kernel does not know the tools of some servers yet.
const LOADING_NOTE: &str = "some servers are still loading their tools; \
    if the right one is missing, try again in a few seconds";

/// The dispatcher of clients' calls to servers. This handle is cheap to clone.
#[derive(Clone)]
pub(crate) struct Dispatcher(Arc<DispatcherParts>);

pub(crate) struct DispatcherParts {
    pub(crate) fleet: Fleet,
    pub(crate) view: CallerView,
    pub(crate) sessions: Sessions,
    pub(crate) search: Endpoints,
    pub(crate) meta_tools: MetaToolConfig,
    pub(crate) registrations: Registrations,
    pub(crate) results: Results,
    pub(crate) metrics: CallMetrics,
    pub(super) list_counter: ListCounter,
}

impl Dispatcher {
    pub(crate) fn new(
        fleet: Fleet,
        view: CallerView,
        sessions: Sessions,
        meta_tools: MetaToolConfig,
        registrations: Registrations,
    ) -> Self {
        let index = fleet.context().index.clone();
        let versions = view.clone();
        let (context, shown, listed) = (fleet.context().clone(), view.clone(), meta_tools.clone());
        let (searched, seen) = (fleet.clone(), view.clone());
        let creation =
            Creation { meta_tools: meta_tools.clone(), registrations: registrations.clone() };
        let search = Endpoints::new(index, sessions.clone())
            .visibility(view.clone())
            .version(move || versions.version())
            .availability(view.clone())
            .create(creation)
            .note(move |cx, visible| search_note(&searched, &seen, cx, visible))
            .on_change(move |cx| surface::notify_session_changed(&context, &shown, &listed, cx));
        let results = Results::new(fleet.context());
        let parts = DispatcherParts {
            fleet,
            view,
            sessions,
            search,
            meta_tools,
            registrations,
            results,
            metrics: CallMetrics::default(),
            list_counter: ListCounter::default(),
        };
        Self(Arc::new(parts))
    }

    pub(crate) fn parts(&self) -> &DispatcherParts {
        &self.0
    }

    /// Returns the shared parts, for work that outlives the call.
    pub(super) fn shared_parts(&self) -> &Arc<DispatcherParts> {
        &self.0
    }

    /// Returns a handle of the fleet that shows each caller only the servers that the caller is allowed to see.
    pub(crate) fn visible_fleet(&self) -> Arc<VisibleFleet> {
        Arc::new(VisibleFleet { fleet: self.0.fleet.clone(), view: self.0.view.clone() })
    }

    /// Returns the servers to which the caller has access as a whole, and not only to single tools.
    pub(super) fn visible_servers(&self, cx: &Context) -> Vec<Arc<ManagedServer>> {
        let all = self.0.fleet.all();
        let visible = all.values().filter(|server| self.0.view.sees_server(cx, server.id()));
        visible.cloned().collect()
    }

    /// Returns the servers with tools that the caller may see, even if these tools are not known yet.
    fn servers_with_tools(&self, cx: &Context) -> Vec<Arc<ManagedServer>> {
        servers_with_tools(&self.0.fleet, &self.0.view, cx)
    }

    /// Waits for the first tools of the servers with tools that the caller may see, at most until `limit` after each
    /// server was added.
    pub(super) async fn wait_for_first_tools(&self, cx: &Context, limit: Duration) {
        // Return early in the usual case, because it is then not necessary to read the rules about access.
        if self.0.fleet.all().values().any(|server| server.delays_tools()) {
            let servers = self.servers_with_tools(cx);
            self.wait_for_first_lists(cx, &servers, ListGroup::Tools, limit).await;
        }
    }

    /// Starts failed servers with unknown tools again in the background, if the caller may see one of these tools. No
    /// call would start such a server, because a model cannot call a tool that it never finds. A failed server with
    /// known tools starts again when a client calls one of them.
    pub(super) fn retry_failed_starts(&self, cx: &Context) {
        if !self.0.fleet.all().values().any(|server| server.has_failed_to_start()) {
            return;
        }
        let index = &self.0.fleet.context().index;
        for server in self.servers_with_tools(cx) {
            if index.tools_of(server.id().as_str()).is_empty() {
                server.retry_start_later();
            }
        }
    }

    /// Waits for the first lists of a group of the given servers, at most until `limit` after each server was added.
    pub(super) async fn wait_for_first_lists(
        &self,
        cx: &Context,
        servers: &[Arc<ManagedServer>],
        group: ListGroup,
        limit: Duration,
    ) {
        // Do not wait if the caller is a kernel: if two kernels are servers of each other, each would wait for the
        // other.
        if !kernel_hops::is_from_kernel(cx) {
            self.0.fleet.synced_within(servers, group, limit).await;
        }
    }

    /// Returns whether a server with tools that the caller may see has not listed its tools yet, but might do so soon.
    pub(super) fn has_unread_servers(&self, cx: &Context) -> bool {
        self.servers_with_tools(cx).iter().any(|server| server.has_unknown_lists())
    }

    /// Returns a text that explains to a caller why it has no tools.
    pub(super) fn no_tools_text(&self, cx: &Context) -> &'static str {
        let visible = self.servers_with_tools(cx);
        let is_loading =
            |server: &Arc<ManagedServer>| server.delays_tools() || server.is_starting();
        if visible.iter().any(is_loading) {
            return "They are still being loaded: search all the same.";
        }
        no_tools_reason(&self.0.fleet, &visible)
    }

    /// Notifies the servers that are visible to a caller that the roots of this caller have changed. At most one task
    /// per caller does so at a time.
    pub(crate) fn announce_roots(&self, cx: &Context) {
        #[derive(Default)]
        struct Roots;
        let (dispatcher, cx) = (self.clone(), cx.clone());
        // Notify the servers in a task, because sending can wait for servers that read slowly.
        cx.scope
            .state::<Coalesced<Roots>>()
            .request(move || dispatcher.clone().notify_roots(cx.clone()));
    }

    async fn notify_roots(self, cx: Context) {
        let servers = self.visible_servers(&cx).into_iter();
        let clients = servers.flat_map(|server| server.roots_clients(&cx.principal));
        // Notify only legacy servers, because modern servers ask for the roots with each call.
        let legacy = clients.filter(|client| client.server().era == Era::Legacy);
        let notified = legacy.map(|client| async move {
            let call = Call::tell::<RootsListChanged>(&EmptyParams::new(), client.context());
            if let Ok(call) = call {
                // Ignore the error: a disconnected server asks for the roots itself after it has reconnected.
                let _ = mgp_client_sdk::gateway::ungated(&client).send(call).await;
            }
        });
        join_all(notified).await;
    }
}

/// Returns the servers with tools that a caller may see, even if these tools are not known yet.
fn servers_with_tools(fleet: &Fleet, view: &CallerView, cx: &Context) -> Vec<Arc<ManagedServer>> {
    let all = fleet.all();
    let visible = all.values().filter(|server| view.may_see_a_tool(cx, server.id()));
    visible.cloned().collect()
}

/// Returns a text that explains to a caller why it has no tools although no server is starting. `visible` are the
/// servers with tools that the caller may see.
fn no_tools_reason(fleet: &Fleet, visible: &[Arc<ManagedServer>]) -> &'static str {
    if fleet.all().is_empty() {
        "No tool exists yet: an operator adds servers with `mgp servers add`."
    } else if visible.is_empty() {
        "You may use no tool yet: ask an operator for access."
    } else {
        "No tool is available now: an operator sees why in `mgp servers ls`."
    }
}

/// Returns a note for the result of a search by a caller who sees this number of tools; `None` if the caller sees
/// tools, and the tools of all servers are known.
fn search_note(fleet: &Fleet, view: &CallerView, cx: &Context, visible: usize) -> Option<String> {
    // Return early in the usual case, because it is then not necessary to read the rules about access.
    if visible > 0 && !fleet.all().values().any(|server| server.has_unknown_lists()) {
        return None;
    }
    let servers = servers_with_tools(fleet, view, cx);
    let is_loading = |server: &Arc<ManagedServer>| {
        server.has_unknown_lists() || visible == 0 && server.is_starting()
    };
    let note = if servers.iter().any(is_loading) {
        Some(LOADING_NOTE)
    } else {
        (visible == 0).then(|| no_tools_reason(fleet, &servers))
    };
    note.map(str::to_owned)
}
