//! A client whose calls are subject to governance (MGP §3–§6).

use std::sync::Arc;

use mgp_lifecycle::{RepeatPolicy, ToolRetryInfo};
use mgp_security::Governance;
use mgp_types::service::ServerId;

use crate::builder::ClientBuilder;
use crate::handler::{FindKnownTool, ServerChange};

impl ClientBuilder {
    /// Governs all calls to this server: access to tools, the server's permissions, pinned definitions, confirmation of
    /// calls, and the audit log.
    ///
    /// `id` identifies the server in all records and decisions; see [`server_id`](Self::server_id). The governance
    /// decides about the server's permissions when the server connects and when it asks; see
    /// [`grantor`](Self::grantor). Lists contain what the client's principal may use, and are requested again when that
    /// changes.
    ///
    /// ```
    /// use mgp_client_sdk::prelude::*;
    /// use mgp_client_sdk::security::prelude::*;
    /// use mgp_server_sdk::{Server, Tool};
    ///
    /// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
    /// let wipe = Tool::new("wipe", "Wipes the disk", || async { "wiped" });
    /// let governance = Governance::builder().build();
    /// let builder = Client::builder("me", "1.0").governed(&governance, "disk");
    /// let client = TestClient::with_builder(Server::new("d", "1").tool(wipe), builder).await;
    ///
    /// // No access was granted yet.
    /// assert!(client.tools().await.unwrap().is_empty());
    /// assert_eq!(client.refusal("wipe", ()).await.code(), ErrorCode::ACCESS_DENIED);
    /// # });
    /// ```
    pub fn governed(mut self, governance: &Governance, id: impl Into<ServerId>) -> Self {
        let id = id.into();
        self.config.hooks.visibility = Some(governance.changes());
        self.config.hooks.known_tools = Some(known_tools(governance));
        let (definitions, server) = (governance.definitions().clone(), id.clone());
        let (restarted, of) = (definitions.clone(), id.clone());
        self.config.hooks.restarted = Some(Arc::new(move || restarted.mark_restarted(&of)));
        self.on_change(move |what| {
            if matches!(what, ServerChange::Tools) {
                definitions.mark_stale(&server);
            }
        })
        .server_id(id.clone())
        .grantor(Arc::new(governance.permissions().clone()))
        .audit(Arc::clone(governance.audit()))
        .layer(governance.layer(id))
    }
}

/// Returns the function that looks up for the retry layer what governance knows about tools.
fn known_tools(governance: &Governance) -> Arc<FindKnownTool> {
    let (definitions, policies) = (governance.definitions().clone(), governance.policies().clone());
    Arc::new(move |server, tool| {
        let definition = definitions.definition(server, tool)?;
        let risk = definitions.assessment(server, tool).effective_risk.clone();
        let mut known = ToolRetryInfo::of(&definition, risk);
        // Ignore the claim of an untrusted server that its tool may always be repeated, because its claims must not
        // make retries more permissive.
        if policies.get(server).trust.rank() == 0 && known.repeat == RepeatPolicy::Always {
            known.repeat = RepeatPolicy::IfNotStarted;
        }
        Some(known)
    })
}
