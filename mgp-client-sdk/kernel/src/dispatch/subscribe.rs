//! Subscriptions of clients to resources of servers (MCP `resources/subscribe`).

use mgp_server_sdk::{ResourceSubscriber, ResourceSubscription};
use mgp_types::service::{BoxFuture, Context};
use mgp_types::{ErrorCode, RpcError};

use super::dispatcher::Dispatcher;
use super::resources;
use crate::fleet::{SessionKind, SessionUse};

// Do not use `#[async_trait]` here: the bounds that it adds slow down the compilation of this package. The comment on
// `impl Fleet for VisibleFleet` in `fleet/visible_fleet.rs` has the details.
impl ResourceSubscriber for Dispatcher {
    fn subscribe<'s, 'c, 'u, 'f>(
        &'s self,
        cx: &'c Context,
        uri: &'u str,
    ) -> BoxFuture<'f, Result<ResourceSubscription, RpcError>>
    where
        's: 'f,
        'c: 'f,
        'u: 'f,
        Self: 'f,
    {
        subscribe(self, cx, uri)
    }
}

fn subscribe<'a>(
    dispatcher: &'a Dispatcher,
    cx: &'a Context,
    uri: &'a str,
) -> BoxFuture<'a, Result<ResourceSubscription, RpcError>> {
    Box::pin(async move {
        let found = resources::find(dispatcher, cx, uri).await?;
        if !found.has_access {
            return Err(resources::unknown(cx, uri));
        }
        let (server, uri) = (found.entry.server, found.entry.key);
        let (source, client) = server.wake_to_subscribe(cx, SessionUse::Subscription).await?;
        let subscriptions = &dispatcher.parts().fleet.context().subscriptions;
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
    })
}
