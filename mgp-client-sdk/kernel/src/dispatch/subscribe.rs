//! Subscriptions of clients to resources of servers (MCP `resources/subscribe`).

use mgp_server_sdk::{ResourceSubscriber, ResourceSubscription};
use mgp_types::RpcError;
use mgp_types::service::{BoxFuture, Context};

use super::dispatcher::Dispatcher;
use super::server_features::{find_resource, unknown_resource};

impl ResourceSubscriber for Dispatcher {
    fn watch(
        &self,
        cx: &Context,
        uri: &str,
    ) -> BoxFuture<'static, Result<ResourceSubscription, RpcError>> {
        let (dispatcher, cx, uri) = (self.clone(), cx.clone(), uri.to_owned());
        Box::pin(async move {
            let found = find_resource(&dispatcher, &cx, &uri).await?;
            if !found.has_access {
                return Err(unknown_resource(&cx, &uri));
            }
            let (server, uri) = (found.entry.server, found.entry.key);
            let owner = server.is_isolated().then(|| cx.principal.clone());
            let client = server.wake_for(&cx.principal).await?;
            let subscriptions = &dispatcher.parts().fleet.context().subscriptions;
            subscriptions.subscribe(server.id(), owner, &client, &uri).await
        })
    }
}
