//! Subscriptions of clients to resources of servers (MCP `resources/subscribe`).

use async_trait::async_trait;
use mgp_server_sdk::{ResourceSubscriber, ResourceSubscription};
use mgp_types::RpcError;
use mgp_types::service::Context;

use super::dispatcher::Dispatcher;
use super::server_features::{find_resource, unknown_resource};

#[async_trait]
impl ResourceSubscriber for Dispatcher {
    async fn subscribe(&self, cx: &Context, uri: &str) -> Result<ResourceSubscription, RpcError> {
        let found = find_resource(self, cx, uri).await?;
        if !found.has_access {
            return Err(unknown_resource(cx, uri));
        }
        let (server, uri) = (found.entry.server, found.entry.key);
        let (source, client) = server.wake_to_subscribe(cx).await?;
        let subscriptions = &self.parts().fleet.context().subscriptions;
        subscriptions.subscribe(source, &client, &uri).await
    }
}
