//! Subscriptions to resources: the kernel subscribes to each resource once at its server, however many clients
//! subscribe (MCP `resources/subscribe`).

use std::collections::HashMap;
use std::sync::Arc;

use mgp_client_sdk::gateway::{self, WeakClient};
use mgp_client_sdk::{Client, Error};
use mgp_server_sdk::ResourceSubscription;
use mgp_types::mcp::{Era, SubscribeParams};
use mgp_types::method::{ResourcesSubscribe, ResourcesUnsubscribe};
use mgp_types::service::{Call, Principal, ServerId};
use mgp_types::sync::Mutex;
use mgp_types::{ErrorCode, RpcError};

use super::session::SessionKind;

const MAX_SUBSCRIPTIONS: usize = 65_536;

/// The session in which a subscription was requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) server: ServerId,
    /// The principal of an isolated instance; `None` for the shared instance.
    pub(crate) owner: Option<Principal>,
    pub(crate) session: SessionKind,
}

/// The resources that clients are subscribed to. This handle is cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct ResourceSubscriptions(Arc<Mutex<HashMap<String, Subscription>>>);

struct Subscription {
    subscribers: usize,
    source: Source,
    uri: String,
    /// The server's client over which the subscription was requested; `None` before the request or after its failure.
    client: Option<WeakClient>,
}

impl Subscription {
    fn is_at(&self, client: &Client) -> bool {
        self.client.as_ref().is_some_and(|requested| requested.is(client))
    }
}

/// Returns the key that identifies a resource in the table of subscriptions.
pub(super) fn key(source: &Source, uri: &str) -> String {
    let Source { server, owner, session } = source;
    // The parts can be separated by spaces, because neither ids nor URIs contain any.
    match owner {
        None => format!("{server} {session:?} {uri}"),
        Some(owner) => format!("{server} {session:?} {owner:?} {uri}"),
    }
}

impl ResourceSubscriptions {
    /// Subscribes a client to a resource. A request is sent to the server only if there is no subscription yet.
    pub(crate) async fn subscribe(
        &self,
        source: Source,
        client: &Client,
        uri: &str,
    ) -> Result<ResourceSubscription, RpcError> {
        let key = key(&source, uri);
        {
            let mut table = self.0.lock();
            if table.len() >= MAX_SUBSCRIPTIONS && !table.contains_key(&key) {
                let message = "too many resources are subscribed to; unsubscribe from some first";
                return Err(RpcError::new(ErrorCode::RESOURCE_EXHAUSTED, message));
            }
            let subscription = table.entry(key.clone()).or_insert_with(|| Subscription {
                subscribers: 0,
                source,
                uri: uri.to_owned(),
                client: None,
            });
            subscription.subscribers += 1;
        }
        let guard = SubscriptionGuard { subscriptions: self.clone(), key: key.clone() };
        let watch = ResourceSubscription::new(key.clone()).guard(guard);
        // If this fails, the guard is dropped and removes the subscriber again.
        self.request(client, &key).await?;
        Ok(watch)
    }

    /// Requests a subscription over a connection to the server. Returns `false` if there is no subscription with this
    /// key, or it was already requested over the same connection.
    async fn request(&self, client: &Client, key: &str) -> Result<bool, RpcError> {
        let uri = {
            let mut table = self.0.lock();
            let Some(subscription) = table.get_mut(key).filter(|one| !one.is_at(client)) else {
                return Ok(false);
            };
            subscription.client = Some(gateway::weak(client));
            subscription.uri.clone()
        };
        let requested = request_subscribe(client, &uri).await;
        if requested.is_err()
            && let Some(subscription) = self.0.lock().get_mut(key).filter(|one| one.is_at(client))
        {
            subscription.client = None;
        }
        requested.map(|()| true)
    }

    /// Returns whether any client is subscribed to a resource in this session.
    pub(super) fn has(&self, source: &Source) -> bool {
        self.0.lock().values().any(|subscription| subscription.source == *source)
    }

    /// Returns whether any client is subscribed to a resource of this instance.
    pub(super) fn has_any(&self, server: &ServerId, owner: Option<&Principal>) -> bool {
        let is_of = |source: &Source| source.server == *server && source.owner.as_ref() == owner;
        self.0.lock().values().any(|subscription| is_of(&subscription.source))
    }

    /// Requests all subscriptions of a session again over its new connection. Returns the keys of the subscriptions for
    /// which this succeeded.
    pub(super) async fn resubscribe(&self, source: &Source, client: &Client) -> Vec<String> {
        let keys: Vec<_> = {
            let table = self.0.lock();
            let subscriptions = table.iter().filter(|(_, one)| one.source == *source);
            subscriptions.map(|(key, _)| key.clone()).collect()
        };
        let mut requested = Vec::new();
        for key in keys {
            match self.request(client, &key).await {
                Ok(true) => requested.push(key),
                Ok(false) => {}
                Err(error) => {
                    tracing::warn!(server = %source.server, %error, "subscription to a resource lost");
                }
            }
        }
        requested
    }
}

/// A guard that ends a client's subscription when it is dropped; the last one also unsubscribes at the server.
struct SubscriptionGuard {
    subscriptions: ResourceSubscriptions,
    key: String,
}

impl Drop for SubscriptionGuard {
    fn drop(&mut self) {
        let mut table = self.subscriptions.0.lock();
        let Some(subscription) = table.get_mut(&self.key) else { return };
        subscription.subscribers -= 1;
        if subscription.subscribers > 0 {
            return;
        }
        let Some(subscription) = table.remove(&self.key) else { return };
        drop(table);
        let subscriptions = self.subscriptions.clone();
        let key = std::mem::take(&mut self.key);
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let client = subscription.client.as_ref().and_then(WeakClient::upgrade);
            // Check again, because another client may have subscribed in the meantime.
            if let Some(client) = client.filter(|_| !subscriptions.0.lock().contains_key(&key)) {
                let _ = request_unsubscribe(&client, &subscription.uri).await;
            }
        });
    }
}

/// Sends the kernel's request to subscribe without security checks, because these have already admitted the client.
async fn request_subscribe(client: &Client, uri: &str) -> Result<(), RpcError> {
    if client.server().era == Era::Modern {
        return client.subscribe(uri).await.map_err(Error::into);
    }
    let call = Call::ask::<ResourcesSubscribe>(&SubscribeParams::new(uri), client.context())?;
    gateway::ungated(client).send(call).await.map(drop)
}

async fn request_unsubscribe(client: &Client, uri: &str) -> Result<(), RpcError> {
    if client.server().era == Era::Modern {
        return client.unsubscribe(uri).await.map_err(Error::into);
    }
    let call = Call::ask::<ResourcesUnsubscribe>(&SubscribeParams::new(uri), client.context())?;
    gateway::ungated(client).send(call).await.map(drop)
}
