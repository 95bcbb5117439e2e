//! Change notifications for servers whose tools, prompts and resources are stored outside of the server, e.g. in a
//! gateway (MCP `list_changed`, `subscribe`).

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use mgp_types::RpcError;
use mgp_types::mcp::EmptyResult;
use mgp_types::method::{ResourcesSubscribe, ResourcesUnsubscribe};
use mgp_types::mgp::LifecycleParams;
use mgp_types::service::{BoxFuture, Context, Principal, Router, Scope};

use crate::resource::Resources;
use crate::subscribers::{HasChanged, ListKind, Subscribers, WatchedResource};

/// A handle that notifies the clients of any number of servers about changes; cheap to clone.
///
/// Several changes within a few milliseconds cause only one notification.
///
/// ```
/// use async_trait::async_trait;
/// use mgp_server_sdk::types::RpcError;
/// use mgp_server_sdk::types::service::Context;
/// use mgp_server_sdk::{ChangeNotifier, Server, ResourceSubscription, ResourceSubscriber};
///
/// struct Everything;
///
/// #[async_trait]
/// impl ResourceSubscriber for Everything {
///     async fn subscribe(&self, _: &Context, uri: &str) -> Result<ResourceSubscription, RpcError> {
///         Ok(ResourceSubscription::new(uri))
///     }
/// }
///
/// let notifier = ChangeNotifier::new();
/// let (one, two) = (Server::new("a", "1"), Server::new("b", "1"));
/// let one = one.change_notifier(&notifier, Everything);
/// let two = two.change_notifier(&notifier, Everything);
/// notifier.tools_changed(|principal, _| principal.as_agent().is_none());
/// # drop((one, two));
/// ```
#[derive(Clone, Debug, Default)]
pub struct ChangeNotifier(Subscribers);

/// A handler of subscriptions to resources, for servers whose resources are stored elsewhere.
///
/// Implement it with the `#[async_trait]` macro of the crate `async-trait`.
#[async_trait]
pub trait ResourceSubscriber: Send + Sync + 'static {
    /// Subscribes to a resource for a caller.
    ///
    /// # Errors
    /// Returns an error, which is sent to the caller, if the caller cannot subscribe to the resource.
    async fn subscribe(&self, cx: &Context, uri: &str) -> Result<ResourceSubscription, RpcError>;
}

/// A subscription to a resource.
#[must_use = "a subscription ends when it is dropped"]
pub struct ResourceSubscription {
    name: String,
    has_changed: Option<HasChanged>,
    guard: Option<Box<dyn Any + Send + Sync>>,
}

impl ResourceSubscription {
    /// Creates a subscription; `name` identifies the resource in [`ChangeNotifier::updated`].
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), has_changed: None, guard: None }
    }

    /// Sets a function that returns whether the resource has changed since the caller requested the subscription.
    ///
    /// [`ChangeNotifier::updated`] does not reach a caller before its request is answered, so a change in between would
    /// be lost. The function is called once, when updates begin to reach the caller; if it returns `true`, the caller
    /// is notified.
    pub fn has_changed(
        mut self,
        has_changed: impl FnOnce() -> bool + Send + Sync + 'static,
    ) -> Self {
        self.has_changed = Some(Box::new(has_changed));
        self
    }

    /// Attaches a value that is dropped when the subscription ends.
    pub fn guard(mut self, guard: impl Any + Send + Sync) -> Self {
        self.guard = Some(Box::new(guard));
        self
    }
}

mgp_types::opaque_debug!(ResourceSubscription { name });

impl ChangeNotifier {
    /// Creates a notifier that no client has subscribed to yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Notifies the clients whose principal and scope match that the list of tools changed.
    pub fn tools_changed(&self, matches: impl Fn(&Principal, &Scope) -> bool) {
        self.0.changed_for(ListKind::Tools, matches);
    }

    /// Notifies the clients whose principal and scope match that the list of prompts changed.
    pub fn prompts_changed(&self, matches: impl Fn(&Principal, &Scope) -> bool) {
        self.0.changed_for(ListKind::Prompts, matches);
    }

    /// Notifies the clients whose principal and scope match that the lists of resources and templates changed.
    pub fn resources_changed(&self, matches: impl Fn(&Principal, &Scope) -> bool) {
        self.0.changed_for(ListKind::Resources, matches);
    }

    /// Notifies the subscribers of a resource that it changed; `name` is the name in its [`ResourceSubscription`].
    pub fn updated(&self, name: &str, matches: impl Fn(&Principal) -> bool) {
        self.0.updated_for(name, matches);
    }

    /// Notifies the clients of matching principals that a server behind this one changed its state (MGP §11.4). The
    /// future completes when every message has been sent or has failed.
    ///
    /// Only clients that negotiated `lifecycle` are notified; clients of 2026-07-28 only while a `subscriptions/listen`
    /// request of theirs is open.
    ///
    /// # Cancel safety
    /// If the future is dropped, some clients might not get the notification.
    pub fn state_changed(
        &self,
        change: &LifecycleParams,
        matches: impl Fn(&Principal) -> bool,
    ) -> BoxFuture<'static, ()> {
        self.0.notify_state(change, matches)
    }

    pub(crate) fn subscribers(&self) -> &Subscribers {
        &self.0
    }
}

/// The handler of subscriptions to a server's resources.
#[derive(Clone, Debug)]
pub(crate) enum ResourceWatcher {
    /// The resources belong to the server itself, which notifies the subscribers of changes.
    Own(Resources),
    /// The resources are stored elsewhere, e.g. behind a gateway; the author's implementation subscribes to them.
    External(Arc<dyn ResourceSubscriber>),
}

impl fmt::Debug for dyn ResourceSubscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResourceSubscriber")
    }
}

impl ResourceWatcher {
    /// Subscribes to a resource for the notification stream of a modern client. Returns the subscription, and the name
    /// by which [`ChangeNotifier::updated`] refers to the resource; `None` if the caller cannot subscribe to it.
    pub(crate) async fn subscribe(
        &self,
        cx: &Context,
        uri: String,
    ) -> Option<(String, WatchedResource)> {
        match self {
            Self::Own(resources) => resources.knows(&uri).then(|| WatchedResource::plain(uri)),
            Self::External(subscriber) => match subscriber.subscribe(cx, &uri).await {
                Ok(subscription) => Some(watched_resource(subscription, uri)),
                Err(error) => {
                    tracing::debug!(%error, "resource subscription failed");
                    None
                }
            },
        }
    }
}

fn watched_resource(
    ResourceSubscription { name, has_changed, guard }: ResourceSubscription,
    uri: String,
) -> (String, WatchedResource) {
    (name, WatchedResource { uri, has_changed, _guard: guard, charge: None })
}

/// Returns the endpoints with which clients subscribe to resources that are stored elsewhere, and unsubscribe from
/// them.
pub(crate) fn routes(subscribers: Subscribers, watcher: Arc<dyn ResourceSubscriber>) -> Router {
    let unsubscribed = subscribers.clone();
    Router::new()
        .on::<ResourcesSubscribe, _, _>(move |cx, params| {
            let (subscribers, watcher) = (subscribers.clone(), Arc::clone(&watcher));
            async move {
                let subscription = watcher.subscribe(&cx, &params.uri).await?;
                let (name, watching) = watched_resource(subscription, params.uri);
                subscribers.watch_as(&cx, name, watching)?;
                Ok(EmptyResult::new())
            }
        })
        .on::<ResourcesUnsubscribe, _, _>(move |cx, params| {
            unsubscribed.unwatch(&cx, &params.uri);
            async { Ok(EmptyResult::new()) }
        })
}
