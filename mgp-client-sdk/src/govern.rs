//! A client whose calls are governed (MGP §3–§6).
//!
//! Applies to: outbound.

use std::sync::Arc;

use mgp_lifecycle::{KnownTool, Repeat};
use mgp_security::Governance;
use mgp_types::service::ServerId;

use crate::builder::ClientBuilder;
use crate::handler::{Changed, Known};

impl ClientBuilder {
    /// Governs the calls to this server, whatever it is: who may use which tool, what the server may do, definitions
    /// that must not change, who confirms a call, and the record of it all.
    ///
    /// The id is the server's identity everywhere; see [`server_id`](Self::server_id).
    /// The permissions it needs are decided when it connects and when it asks; see [`grantor`](Self::grantor).
    /// Lists show what the client's principal may use, and are asked for again once that changes.
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
    /// let client = TestClient::through(Server::new("d", "1").tool(wipe), builder).await;
    ///
    /// // Nobody granted anything yet.
    /// assert!(client.tools().await.unwrap().is_empty());
    /// assert_eq!(client.refusal("wipe", ()).await.code(), ErrorCode::ACCESS_DENIED);
    /// # });
    /// ```
    pub fn governed(mut self, governance: &Governance, id: impl Into<ServerId>) -> Self {
        let id = id.into();
        self.config.hooks.moves = Some(governance.changes());
        self.config.hooks.known = Some(known_to(governance));
        let (definitions, server) = (governance.definitions().clone(), id.clone());
        self.on_change(move |what| {
            if matches!(what, Changed::Tools) {
                definitions.stale(&server);
            }
        })
        .server_id(id.clone())
        .grantor(Arc::new(governance.permissions().clone()))
        .audit(Arc::clone(governance.audit()))
        .layer(governance.layer(id))
    }
}

/// What governance knows of tools, for calls that are made again.
fn known_to(governance: &Governance) -> Arc<Known> {
    let (definitions, policies) = (governance.definitions().clone(), governance.policies().clone());
    Arc::new(move |server, tool| {
        let definition = definitions.definition(server, tool)?;
        let risk = definitions.assessment(server, tool).effective_risk.clone();
        let mut known = KnownTool::of(&definition, risk);
        // What a server says that is not trusted loosens nothing.
        if policies.of(server).trust.rank() == 0 && known.repeat == Repeat::Freely {
            known.repeat = Repeat::Unstarted;
        }
        Some(known)
    })
}
