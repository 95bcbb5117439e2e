//! Subscriptions to resources: the kernel subscribes to each resource at its server only once, however many clients
//! subscribe (MCP `resources/subscribe`).

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mgp_client_sdk::gateway::{self, WeakClient};
use mgp_client_sdk::{Client, Error};
use mgp_server_sdk::ResourceSubscription;
use mgp_types::mcp::{Era, SubscribeParams};
use mgp_types::method::{ResourcesSubscribe, ResourcesUnsubscribe};
use mgp_types::service::{Call, Principal, ServerId};
use mgp_types::sync::Mutex;
use mgp_types::{Backoff, ErrorCode, RpcError};
use tokio::time::{sleep, timeout};

use super::era_choice::SessionKind;
use super::notifier::ServerNotifier;
use super::refresh_queue::{MAX_RETRY_DELAY, RETRY_DELAY};

const MAX_SUBSCRIPTIONS: usize = 65_536;

/// The maximum number of parent folders of a resource that are searched for subscriptions.
const MAX_LEVELS: usize = 32;

/// The maximum length in bytes of a parent folder that is searched for subscriptions, because a server chooses the URI.
const MAX_FOLDER_BYTES: usize = 8 * 1024;

/// The maximum time that a new subscriber waits for the end of the previous subscription, i.e. for the server's answer.
const UNSUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The session to which a subscription belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) server: ServerId,
    /// The principal that owns the isolated instance; `None` for the shared instance.
    pub(crate) owner: Option<Principal>,
    pub(crate) session: SessionKind,
}

/// The resources to which clients are subscribed. This handle is cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct ResourceSubscriptions(Arc<Mutex<HashMap<String, Subscription>>>);

struct Subscription {
    /// The number of subscribed clients; zero while the kernel ends the subscription at the server.
    subscribers: usize,
    source: Source,
    uri: String,
    /// The connection to the server over which the subscription was requested; `None` before the request and after a
    /// failure.
    client: Option<WeakClient>,
    /// `true` if the server has accepted the subscription; `false` e.g. if the request was cancelled.
    is_accepted: bool,
    /// The lock that a subscriber holds while it requests the subscription, and that the kernel holds while it ends the
    /// subscription. Other subscribers wait for the outcome.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// The number of requests to subscribe that succeeded or failed; a cancelled request does not count.
    outcomes: u64,
    /// The error of the last request to subscribe, with the client that sent the request; `None` if the server accepted
    /// it.
    failure: Option<(WeakClient, RpcError)>,
    /// The number of updates of the resource that the server has announced.
    changes: Arc<AtomicU64>,
}

impl Subscription {
    /// Returns whether clients are subscribed to the resource in this session.
    fn is_of(&self, source: &Source) -> bool {
        self.subscribers > 0 && self.source == *source
    }

    /// Returns whether a request to subscribe over this client is in progress.
    fn is_requested_at(&self, client: &Client) -> bool {
        self.client.as_ref().is_some_and(|requested| requested.is(client))
            && self.turn.try_lock().is_err()
    }

    /// Returns the error of the last request, if the request used this client and more than `outcomes` requests have
    /// ended so far.
    fn failure_since(&self, outcomes: u64, client: &Client) -> Option<RpcError> {
        let (requested, error) = self.failure.as_ref()?;
        (self.outcomes > outcomes && requested.is(client)).then(|| error.clone())
    }

    fn is_at(&self, client: &Client) -> bool {
        self.is_accepted && self.client.as_ref().is_some_and(|requested| requested.is(client))
    }
}

/// Returns the key that identifies a resource in the table of subscriptions.
fn key(source: &Source, uri: &str) -> String {
    let Source { server, owner, session } = source;
    // Separate the parts by spaces: ids contain none, and the URI is the last part.
    match owner {
        None => format!("{server} {session:?} {uri}"),
        Some(owner) => format!("{server} {session:?} {owner:?} {uri}"),
    }
}

/// Returns the parent folders of a resource, each with and without its slash.
fn folders(uri: &str) -> impl Iterator<Item = &str> {
    let slashes = uri.rmatch_indices('/').map(|(slash, _)| slash);
    let levels = slashes.filter(|slash| *slash < MAX_FOLDER_BYTES).take(MAX_LEVELS);
    levels.flat_map(move |slash| [&uri[..=slash], &uri[..slash]])
}

impl ResourceSubscriptions {
    /// Subscribes a client to a resource. Sends a request to the server only if the kernel is not subscribed to the
    /// resource yet.
    pub(crate) async fn subscribe(
        &self,
        source: Source,
        client: &Client,
        uri: &str,
    ) -> Result<ResourceSubscription, RpcError> {
        let key = key(&source, uri);
        let changes = {
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
                is_accepted: false,
                turn: Arc::default(),
                outcomes: 0,
                failure: None,
                changes: Arc::default(),
            });
            subscription.subscribers += 1;
            Arc::clone(&subscription.changes)
        };
        let before = changes.load(Ordering::Acquire);
        let guard = SubscriptionGuard { subscriptions: self.clone(), key: key.clone() };
        let has_changed = move || changes.load(Ordering::Acquire) > before;
        let watch = ResourceSubscription::new(key.clone()).guard(guard).has_changed(has_changed);
        // If this fails, the guard is dropped, which removes the subscriber again.
        self.request(client, &key).await?;
        Ok(watch)
    }

    /// Requests a subscription over a connection to the server. Returns `false` if no subscription has this key, or if
    /// the server has already accepted it over this connection. If another request over this connection fails while
    /// this request waits for its turn, returns the error of the other request, so that the caller does not wait for a
    /// second time-out.
    async fn request(&self, client: &Client, key: &str) -> Result<bool, RpcError> {
        let known = self.0.lock().get(key).map(|one| (Arc::clone(&one.turn), one.outcomes));
        let Some((turn, outcomes)) = known else { return Ok(false) };
        let _turn = turn.lock().await;
        // Compare the locks, because another subscription with the same key may have replaced this one.
        let is_same = |subscription: &&mut Subscription| Arc::ptr_eq(&subscription.turn, &turn);
        let uri = {
            let mut table = self.0.lock();
            let subscription = table.get_mut(key).filter(is_same);
            let Some(subscription) = subscription.filter(|one| !one.is_at(client)) else {
                return Ok(false);
            };
            if let Some(error) = subscription.failure_since(outcomes, client) {
                return Err(error);
            }
            subscription.client = Some(gateway::weak(client));
            subscription.is_accepted = false;
            subscription.uri.clone()
        };
        let requested = request_subscribe(client, &uri).await;
        if let Some(subscription) = self.0.lock().get_mut(key).filter(is_same) {
            subscription.outcomes += 1;
            subscription.is_accepted = requested.is_ok();
            let error = requested.as_ref().err();
            subscription.failure = error.map(|error| (gateway::weak(client), error.clone()));
            if error.is_some() {
                subscription.client = None;
            }
        }
        requested.map(|()| true)
    }

    /// Returns the keys of all subscriptions that an update of a resource concerns: to the resource and to the folders
    /// that contain it, in both sessions of the server. A server may announce the update of a part of a subscribed
    /// resource (MCP `notifications/resources/updated`), and may do so in the session of the call that caused it.
    pub(super) fn keys(&self, source: &Source, uri: &str) -> BTreeSet<String> {
        let sources = [SessionKind::Main, SessionKind::Legacy]
            .map(|session| Source { session, ..source.clone() });
        let keys: BTreeSet<_> = folders(uri)
            .chain([uri])
            .flat_map(|uri| sources.each_ref().map(|source| key(source, uri)))
            .collect();
        let table = self.0.lock();
        keys.into_iter().filter(|key| table.contains_key(key)).collect()
    }

    /// Counts an update of a resource. Because of this count, the clients whose subscriptions are being requested now
    /// are notified later. The caller must notify all other clients afterwards.
    pub(super) fn count_change(&self, key: &str) {
        if let Some(subscription) = self.0.lock().get(key) {
            subscription.changes.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Returns whether any client is subscribed to a resource in the session that `source` names.
    pub(super) fn has(&self, source: &Source) -> bool {
        self.0.lock().values().any(|subscription| subscription.is_of(source))
    }

    /// Returns whether any client is subscribed to a resource in any session of this instance.
    pub(super) fn has_any(&self, server: &ServerId, owner: Option<&Principal>) -> bool {
        let is_of = |source: &Source| source.server == *server && source.owner.as_ref() == owner;
        self.0.lock().values().any(|one| one.subscribers > 0 && is_of(&one.source))
    }

    /// In a task, requests all subscriptions of a session again over its new connection. Notifies the subscribers,
    /// because updates may have been lost while the server was disconnected. Repeats a request that fails, e.g. because
    /// the server still loads its resources, until it succeeds or the connection is closed.
    pub(super) fn restore(&self, source: Source, client: &Client, notifier: &ServerNotifier) {
        let (subscriptions, notifier) = (self.clone(), notifier.clone());
        let client = gateway::weak(client);
        tokio::spawn(async move {
            let mut backoff = Backoff::new(RETRY_DELAY, MAX_RETRY_DELAY);
            while let Some(client) = client.upgrade().filter(|client| !client.is_closed()) {
                for key in subscriptions.resubscribe(&source, &client).await {
                    notifier.resource_updated(&key);
                }
                if subscriptions.are_accepted(&source, &client) {
                    return;
                }
                drop(client);
                sleep(backoff.next_delay()).await;
            }
        });
    }

    /// Returns whether the server has accepted all subscriptions of a session over this connection.
    fn are_accepted(&self, source: &Source, client: &Client) -> bool {
        self.0.lock().values().all(|one| !one.is_of(source) || one.is_at(client))
    }

    /// Requests all subscriptions of a session again over its new connection, except those that a client is requesting
    /// now over the same connection. Returns the keys of the subscriptions that succeeded.
    async fn resubscribe(&self, source: &Source, client: &Client) -> Vec<String> {
        let keys: Vec<_> = {
            let table = self.0.lock();
            let subscriptions = table.iter().filter(|(_, one)| one.is_of(source));
            subscriptions.map(|(key, _)| key.clone()).collect()
        };
        let mut requested = Vec::new();
        for key in keys {
            // Do not use a closed connection: the subscription may already be requested over the next connection, and
            // would then count as requested over the closed one.
            if client.is_closed()
                || self.0.lock().get(&key).is_some_and(|one| one.is_requested_at(client))
            {
                continue;
            }
            match self.request(client, &key).await {
                Ok(true) => requested.push(key),
                Ok(false) => {}
                Err(error) => {
                    let error = mgp_types::clip(&error.to_string(), 200);
                    tracing::warn!(server = %source.server, %error, "subscription to a resource refused; retrying");
                }
            }
        }
        requested
    }

    /// If the subscription still has no subscribers, ends it at the server and then removes it. Until the server has
    /// answered, a new subscriber must wait with its request, because the server may handle requests in any order. If
    /// the server never answers, the new subscriber waits only for a limited time.
    async fn end(&self, key: &str, turn: Arc<tokio::sync::Mutex<()>>) {
        let _turn = turn.lock().await;
        // Compare the locks, because another subscription with the same key may have replaced this one.
        let is_same = |subscription: &&mut Subscription| Arc::ptr_eq(&subscription.turn, &turn);
        let (client, uri) = {
            let mut table = self.0.lock();
            let subscription = table.get_mut(key).filter(is_same);
            let Some(subscription) = subscription.filter(|one| one.subscribers == 0) else {
                return;
            };
            subscription.is_accepted = false;
            let client = subscription.client.as_ref().and_then(WeakClient::upgrade);
            (client, subscription.uri.clone())
        };
        if let Some(client) = client {
            let _ = timeout(UNSUBSCRIBE_TIMEOUT, request_unsubscribe(&client, &uri)).await;
        }
        let mut table = self.0.lock();
        if let Some(subscription) = table.get_mut(key).filter(is_same) {
            subscription.client = None;
            if subscription.subscribers == 0 {
                table.remove(key);
            }
        }
    }
}

/// A guard whose drop ends a client's subscription. The drop of the last guard also ends the subscription at the
/// server.
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
        let (is_requested, turn) = (subscription.client.is_some(), Arc::clone(&subscription.turn));
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) if is_requested => {
                drop(table);
                let subscriptions = self.subscriptions.clone();
                let key = std::mem::take(&mut self.key);
                runtime.spawn(async move { subscriptions.end(&key, turn).await });
            }
            _ => drop(table.remove(&self.key)),
        }
    }
}

/// Sends the kernel's request to subscribe without security checks, because the client has already passed them.
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures_util::future::join_all;
    use mgp_client_sdk::TestClient;
    use mgp_lifecycle::EraChoice;
    use mgp_server_sdk::{Resource, Server};
    use mgp_types::method::Request as _;
    use mgp_types::service::{Stack, around};
    use tokio::time::Instant;

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(10);

    fn source() -> Source {
        Source { server: "news".into(), owner: None, session: SessionKind::Legacy }
    }

    fn news() -> Server {
        Server::new("news", "1").resource(Resource::text("test://news", "news", "none"))
    }

    async fn connect(server: Server) -> TestClient {
        let builder = Client::builder("kernel", "1").era(EraChoice::Legacy).timeout(TIMEOUT);
        TestClient::with_builder(server, builder).await
    }

    /// Connects to a server that never answers requests to subscribe, but counts them.
    async fn hung(requests: &Arc<AtomicUsize>) -> TestClient {
        let requests = Arc::clone(requests);
        let hangs = around(move |call, inner: Stack| {
            let is_hung = call.method().as_str() == ResourcesSubscribe::METHOD;
            requests.fetch_add(usize::from(is_hung), Ordering::SeqCst);
            async move {
                if is_hung {
                    std::future::pending::<()>().await;
                }
                inner.send(call).await
            }
        });
        connect(news().layer(hangs)).await
    }

    /// Regression test: a long URI with many slashes made the kernel build 130 keys of this length.
    #[test]
    fn the_folders_of_a_long_uri_are_short() {
        let uri = format!("x://a/{}{}", "b".repeat(1 << 20), "/".repeat(100));
        let found: Vec<_> = folders(&uri).collect();
        assert_eq!(found, ["x://a/", "x://a", "x://", "x:/", "x:/", "x:"]);
        assert_eq!(folders(&"/".repeat(1 << 20)).count(), 2 * MAX_LEVELS);
    }

    #[tokio::test(start_paused = true)]
    async fn subscribers_of_a_hanging_server_wait_for_the_same_request() {
        let requests = Arc::new(AtomicUsize::new(0));
        let client = hung(&requests).await;
        let subscriptions = ResourceSubscriptions::default();
        let subscribe = || subscriptions.subscribe(source(), &client, "test://news");
        let begun = Instant::now();
        let each = join_all((0..5).map(|_| subscribe()));
        let resubscribe = async {
            sleep(Duration::from_secs(1)).await;
            assert!(subscriptions.resubscribe(&source(), &client).await.is_empty());
            assert!(begun.elapsed() < TIMEOUT / 2, "a new connection waits for no subscriber");
        };
        let (each, ()) = tokio::join!(each, resubscribe);
        assert!(each.iter().all(Result::is_err));
        assert!(begun.elapsed() < TIMEOUT * 2, "{:?}", begun.elapsed());
        assert_eq!(requests.load(Ordering::SeqCst), 1);
        assert!(subscriptions.0.lock().is_empty());

        // The failure does not affect later subscribers, and a cancelled request does not count as a failure.
        let (first, second) = tokio::join!(timeout(TIMEOUT / 2, subscribe()), subscribe());
        assert!(first.is_err() && second.is_err());
        assert_eq!(requests.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_resource_is_subscribed_to_again_only_after_the_server_has_ended_the_subscription() {
        let handled: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&handled);
        let slow = around(move |call: Call, inner: Stack| {
            let (method, seen) = (call.method().as_str().to_owned(), Arc::clone(&seen));
            async move {
                if method == ResourcesUnsubscribe::METHOD {
                    sleep(Duration::from_secs(2)).await;
                }
                let reply = inner.send(call).await;
                if method.ends_with("subscribe") {
                    seen.lock().push(method);
                }
                reply
            }
        });
        let client = connect(news().layer(slow)).await;
        let subscriptions = ResourceSubscriptions::default();
        let subscribe = || subscriptions.subscribe(source(), &client, "test://news");
        drop(subscribe().await.unwrap());
        sleep(Duration::from_secs(1)).await;
        assert!(!subscriptions.has(&source()), "it has no subscribers");
        let _again = subscribe().await.unwrap();
        sleep(Duration::from_secs(5)).await;
        let (subscribed, ended) = (ResourcesSubscribe::METHOD, ResourcesUnsubscribe::METHOD);
        assert_eq!(*handled.lock(), [subscribed, ended, subscribed]);
    }
}
