//! Decides which servers and tools a caller sees. Calls, lists, searches and the registry all use this decision (MGP
//! §5).

use mgp_security::{Governance, MissingStatus};
use mgp_toolindex::{Allowed, Availability, AvailabilityCheck, IndexedTool};
use mgp_types::service::{Context, Hidden, ServerId, Visibility};
use tokio::sync::watch;

/// The decision about which tools a caller sees: those to which the caller has access, except tools whose definition an
/// operator must still approve.
#[derive(Clone, Debug)]
pub(crate) struct CallerView {
    governance: Governance,
    changes: watch::Receiver<u64>,
}

impl CallerView {
    pub(crate) fn new(governance: &Governance) -> Self {
        Self { governance: governance.clone(), changes: governance.changes() }
    }

    /// Returns a version number that changes whenever the set of visible tools might have changed.
    pub(crate) fn version(&self) -> u64 {
        *self.changes.borrow()
    }

    /// Returns whether a caller sees the parts of a server that are not tools, e.g. its resources and prompts.
    pub(crate) fn sees_server(&self, cx: &Context, server: &ServerId) -> bool {
        self.governance.access().sees_server(cx, server).is_ok()
    }

    /// Returns whether a caller sees a tool; `tool` is the server's own name for it.
    pub(crate) fn shows(&self, cx: &Context, server: &str, tool: &str) -> bool {
        self.governance.shows(cx, server, tool)
    }

    /// Returns whether a caller has access to a tool. The kernel need not know the definition of the tool.
    pub(crate) fn may_use(&self, cx: &Context, server: &ServerId, tool: &str) -> bool {
        self.governance.access().sees(cx, Some(server), tool).is_ok()
    }

    /// Returns whether a caller would see a tool if its definition did not wait for an operator.
    pub(crate) fn is_held(&self, cx: &Context, server: &ServerId, tool: &str) -> bool {
        !self.governance.definitions().state(Some(server), tool).is_callable()
            && self.may_use(cx, server, tool)
    }
}

/// The tools that a caller sees.
pub(crate) struct VisibleTools<'a> {
    pub(crate) view: &'a CallerView,
    pub(crate) cx: &'a Context,
}

impl Allowed for VisibleTools<'_> {
    fn allows(&self, server: &str, tool: &str) -> bool {
        self.view.shows(self.cx, server, tool)
    }
}

impl Visibility for CallerView {
    fn sees(&self, cx: &Context, server: Option<&ServerId>, tool: &str) -> Result<(), Hidden> {
        self.governance.sees(cx, server, tool)
    }
}

impl AvailabilityCheck for CallerView {
    fn standing(&self, cx: &Context, tool: &IndexedTool) -> Availability {
        let server = ServerId::from(tool.server_id());
        let missing = self.governance.missing_permissions(&cx.principal, &server, tool.name());
        if missing.is_empty() {
            return Availability::Callable;
        }
        if missing.iter().any(|missing| missing.status == MissingStatus::Denied) {
            return Availability::Refused;
        }
        let how = "a person decides when it is called".to_owned();
        let permissions = missing.into_iter().map(|missing| missing.permission).collect();
        Availability::NeedsApproval { permissions, how: Some(how) }
    }
}
