//! Subscriptions of clients to resources of servers (MCP `resources/subscribe`).

use async_trait::async_trait;
use mgp_server_sdk::{ResourceSubscriber, ResourceSubscription};
use mgp_types::service::Context;
use mgp_types::{ErrorCode, RpcError};

use super::dispatcher::Dispatcher;
use super::resources;
use crate::fleet::{SessionKind, SessionUse};

#[async_trait]
impl ResourceSubscriber for Dispatcher {
    async fn subscribe(&self, cx: &Context, uri: &str) -> Result<ResourceSubscription, RpcError> {
        let found = resources::find(self, cx, uri).await?;
        if !found.has_access {
            return Err(resources::unknown(cx, uri));
        }
        let (server, uri) = (found.entry.server, found.entry.key);
        let (source, client) = server.wake_to_subscribe(cx, SessionUse::Subscription).await?;
        let subscriptions = &self.parts().fleet.context().subscriptions;
        let is_legacy = source.session == SessionKind::Legacy;
        match subscriptions.subscribe(source, &client, &uri).await {
            // Servers that use some SDKs accept subscriptions in the modern era only. So subscribe in a modern session.
            Err(error) if is_legacy && error.code() == ErrorCode::METHOD_NOT_FOUND => {
                let session_use = SessionUse::ModernSubscription;
                let (source, client) = server.wake_to_subscribe(cx, session_use).await?;
                subscriptions.subscribe(source, &client, &uri).await
            }
            outcome => outcome,
        }
    }
}
