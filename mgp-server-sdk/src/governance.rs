//! Governance of a server's own tools (MGP §3–§6).

use mgp_security::Governance;
use mgp_types::mgp::Extension;
use mgp_types::service::{Context, ServerId, Visibility as _};

use crate::server::Server;

impl Server {
    /// Governs the tools of this server: access, permissions, confirmation, and the audit log.
    ///
    /// Grants, permissions and events refer to the server by `id`. A caller may call a tool only if access is granted
    /// to the caller, or if the server's policy allows the call. Operators change access by `mgp/access/*` (MGP §5.4),
    /// programs through [`Governance::access`]; subscribed clients are then notified that the list of tools changed.
    ///
    /// The layers that check calls are added in the same way as by [`Server::layer`]. If a server is governed twice,
    /// [`Server::into_stack`](Self::into_stack) fails.
    ///
    /// ```
    /// use mgp_server_sdk::prelude::*;
    /// use mgp_server_sdk::security::prelude::*;
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let governance = Governance::builder().build();
    /// let ann = Principal::new("local", "ann").operator();
    /// governance.access().grant(&ann, AccessGrantParams::allow("local", "clock")).await.unwrap();
    ///
    /// let now = Tool::new("now", "The time", || async { "noon" }).risk(RiskLevel::Safe);
    /// let server = Server::new("clock", "1.0").tool(now).governed(&governance, "clock");
    /// # drop(server.into_stack().unwrap());
    /// # });
    /// ```
    pub fn governed(mut self, governance: &Governance, id: impl Into<ServerId>) -> Self {
        let id = id.into();
        let (definitions, name) = (governance.definitions().clone(), id.clone());
        let is_first = self
            .own_tools()
            .observe_definitions(move |tools| definitions.learn_shared(Some(&name), tools));
        if !is_first {
            self.add_error(crate::error::BuildError::GovernedTwice);
        }
        let tools = self.own_tools().downgrade();
        governance.on_change(move || {
            if let Some(tools) = tools.upgrade() {
                tools.notify_changed();
            }
        });
        if let Some(mgp) = self.offered() {
            mgp.extensions = mgp.extensions.with(Extension::AccessControl);
        }
        let (view, server) = (governance.clone(), id.clone());
        let has_access = move |cx: &Context, tool: &str| view.sees(cx, Some(&server), tool).is_ok();
        self.own_tools().set_access(has_access);
        let gates = governance.own(id);
        self.own_tools().set_recheck(gates.recheck());
        self.endpoints(governance.router()).layer(gates)
    }
}
