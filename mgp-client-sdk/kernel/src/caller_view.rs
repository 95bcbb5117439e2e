//! Decides which servers and tools a caller sees. Calls, lists, searches and the registry all use this decision (MGP
//! §5).

use mgp_security::Governance;
use mgp_toolindex::{Allowed, Availability, AvailabilityCheck, IndexedTool, ToolFeature};
use mgp_types::mcp::UiToolMeta;
use mgp_types::service::{Context, Hidden, ServerId, Visibility};
use tokio::sync::watch;

/// Decides which tools a caller sees: those to which the caller has access, except tools whose definition an operator
/// must still approve.
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

    /// Returns whether a caller may see at least one tool of a server, even if it does not see the server as a whole.
    /// The kernel need not know the tools of the server.
    pub(crate) fn may_see_a_tool(&self, cx: &Context, server: &ServerId) -> bool {
        self.governance.access().may_see_a_tool(cx, server)
    }

    /// Returns whether a caller sees a tool. `tool` is the name that the server itself uses.
    pub(crate) fn shows(&self, cx: &Context, server: &str, tool: &str) -> bool {
        self.governance.shows(cx, server, tool)
    }

    /// Returns whether a caller has access to a tool. The kernel need not know the definition of the tool.
    pub(crate) fn may_use(&self, cx: &Context, server: &ServerId, tool: &str) -> bool {
        self.governance.access().sees(cx, Some(server), tool).is_ok()
    }

    /// Returns whether a caller, with the credentials of this request, may call a tool.
    pub(crate) fn may_call(&self, cx: &Context, tool: &IndexedTool) -> bool {
        self.governance.access().may_call(cx, &tool.server_id().into(), tool.name()).is_ok()
    }

    /// Returns whether only the state of a tool's definition hides the tool from a caller: the definition waits for an
    /// operator, was rejected or is refused.
    pub(crate) fn is_held(&self, cx: &Context, server: &ServerId, tool: &str) -> bool {
        !self.governance.definitions().state(Some(server), tool).is_callable()
            && self.may_use(cx, server, tool)
    }
}

/// Returns the metadata of the page that a host shows for the results of a tool; `None` if the tool has no page.
pub(crate) fn page_of(tool: &IndexedTool) -> Option<UiToolMeta> {
    if !tool.may_use(ToolFeature::Page) {
        return None;
    }
    UiToolMeta::of(&tool.tool().ok()?)
}

/// Returns whether only pages (MCP Apps) use a tool. No model receives such a tool.
pub(crate) fn is_for_pages_only(tool: &IndexedTool) -> bool {
    page_of(tool).is_some_and(|page| !page.is_for_models())
}

/// The access decision for one caller; the tool index uses it to decide which tools to list.
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
        if is_for_pages_only(tool) {
            return Availability::Refused;
        }
        let server = ServerId::from(tool.server_id());
        // Name the credentials as the reason if they permit the caller to see a tool, but not to call it.
        if !self.may_call(cx, tool) {
            let how = "the caller's API key or token permits no calls of it; use one that does"
                .to_owned();
            return Availability::NeedsApproval { permissions: Vec::new(), how: Some(how) };
        }
        let missing = self.governance.missing_permissions(&cx.principal, &server, tool.name());
        if missing.is_empty() {
            return Availability::Callable;
        }
        if missing.iter().any(|missing| !missing.may_ask) {
            return Availability::Refused;
        }
        let how = "a person decides when it is called".to_owned();
        let permissions = missing.into_iter().map(|missing| missing.permission).collect();
        Availability::NeedsApproval { permissions, how: Some(how) }
    }
}
