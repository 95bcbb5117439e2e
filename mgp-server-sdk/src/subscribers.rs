//! The table of all clients that receive change notifications: legacy sessions and modern streams; its size is bounded.
//!
//! Changes are collected for a short time, and a separate task per listener sends them. Many changes within this time
//! thus become one message, and a listener that does not read does not block other listeners.

mod watch_budget;

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use mgp_types::mcp::{EmptyParams, Meta, ResourceUpdatedParams, ServerCapabilities, key};
use mgp_types::method::{
    LifecycleNotification, ManifestChanged, Notification, PromptsListChanged, ResourcesListChanged,
    ResourcesUpdated, ToolsListChanged,
};
use mgp_types::mgp::{Extension, LifecycleParams};
use mgp_types::proposal::ManifestParams;
use mgp_types::service::{BoxFuture, Call, CallKey, Context, Peer, Principal, Scope, ScopeId};
use mgp_types::sync::Mutex;
use mgp_types::{Payload, RpcError};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use self::watch_budget::{WatchBudget, WatchCharge};
use crate::error::Refusal;
use crate::uri::canonical;

/// The maximum number of listeners (clients that receive change notifications). Further clients are served, but get no
/// change notifications.
const MAX_LISTENERS: usize = 131_072;

/// The maximum number of resources to which one listener can subscribe.
pub(crate) const MAX_WATCHED: usize = 1_000;

/// The maximum length in bytes of the URI of a resource to which a session subscribes. A session stores its URIs until
/// it ends, so their size must be limited too.
const MAX_URI_BYTES: usize = 8 * 1024;

/// The time for which changes are collected before they are sent.
const COALESCE_DELAY: Duration = Duration::from_millis(10);

/// A list of which the server can announce changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListKind {
    Tools,
    Prompts,
    Resources,
}

/// A set of lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ListSet(u8);

#[derive(Clone, Default)]
pub(crate) struct Subscribers(Arc<Table>);

#[derive(Default)]
struct Table {
    /// The lists for which the handshake announced change notifications. Changes of all other lists are not reported to
    /// clients.
    announced: AtomicU8,
    listeners: Mutex<HashMap<ListenerKey, Arc<Listener>>>,
    budget: WatchBudget,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ListenerKey {
    /// The listener is a legacy session.
    Session(ScopeId),
    /// The listener is a modern stream of notifications.
    Stream(CallKey),
}

/// A client that receives change notifications: a legacy session, or a notification stream of a modern client.
struct Listener {
    peer: Peer,
    scope: Scope,
    principal: Principal,
    /// The call that opened the stream of a modern client, and the `_meta` that each notification repeats; `None` for a
    /// legacy session.
    stream: Option<(CallKey, Meta)>,
    lists: ListSet,
    /// `true` if the client negotiated notifications of the server's lifecycle state.
    wants_state: bool,
    /// `true` if the client negotiated notifications of changes of the manifest.
    wants_manifest: bool,
    runtime: Handle,
    state: Mutex<ListenerState>,
}

#[derive(Default)]
struct ListenerState {
    /// The subscriptions to resources, by the server's name for the resource and the client's URI. One resource can
    /// have several entries, because a client may write its URI with different escapes.
    watched: Watched,
    changes: Changes,
    /// `true` if changes can be sent now. `false` for a stream before its acknowledgement, which must be its first
    /// message.
    is_open: bool,
    /// `true` while a task collects and sends the changes, so that no second task is started.
    is_sending: bool,
}

type Watched = BTreeMap<(String, String), WatchedResource>;

/// A function that returns whether a resource has changed since the client requested its subscription.
pub(crate) type HasChanged = Box<dyn FnOnce() -> bool + Send + Sync>;

/// A subscription to a resource.
pub(crate) struct WatchedResource {
    /// The URI that the client used.
    pub(crate) uri: String,
    /// The author's function that is called once, when the subscription is added.
    pub(crate) has_changed: Option<HasChanged>,
    /// A value that is dropped when the subscription ends, e.g. to unsubscribe at another server.
    pub(crate) _guard: Option<Box<dyn Any + Send + Sync>>,
    /// The guard that counts the subscription for its principal; `None` until the subscription is added.
    pub(crate) charge: Option<WatchCharge>,
}

impl WatchedResource {
    /// Creates a subscription to a resource of this server. Returns the name of the resource, which does not depend on
    /// the escapes in its URI, and the subscription.
    pub(crate) fn plain(uri: String) -> (String, Self) {
        (canonical(&uri), Self { uri, has_changed: None, _guard: None, charge: None })
    }

    fn key(&self, name: String) -> (String, String) {
        (name, self.uri.clone())
    }
}

/// The changes that have not been sent to a listener yet.
#[derive(Default)]
struct Changes {
    lists: ListSet,
    resources: BTreeSet<String>,
}

impl ListSet {
    pub(crate) const ALL: Self = Self(0b111);

    pub(crate) fn of(lists: &[(ListKind, bool)]) -> Self {
        let chosen = lists.iter().filter(|(_, is_in)| *is_in);
        Self(chosen.fold(0, |bits, (list, _)| bits | Self::bit(*list)))
    }

    /// Returns the lists for which a server's capabilities announce change notifications.
    pub(crate) fn announced(capabilities: &ServerCapabilities) -> Self {
        let announces = |changes: Option<bool>| changes == Some(true);
        let list = |capability: Option<&mgp_types::mcp::ListChanged>| {
            announces(capability.and_then(|capability| capability.list_changed))
        };
        let resources = capabilities.resources.as_ref();
        Self::of(&[
            (ListKind::Tools, list(capabilities.tools.as_ref())),
            (ListKind::Prompts, list(capabilities.prompts.as_ref())),
            (
                ListKind::Resources,
                announces(resources.and_then(|resources| resources.list_changed)),
            ),
        ])
    }

    pub(crate) fn has(self, list: ListKind) -> bool {
        self.0 & Self::bit(list) != 0
    }

    pub(crate) fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    fn insert(&mut self, list: ListKind) {
        self.0 |= Self::bit(list);
    }

    fn remove(&mut self, list: ListKind) {
        self.0 &= !Self::bit(list);
    }

    fn bit(list: ListKind) -> u8 {
        match list {
            ListKind::Tools => 1,
            ListKind::Prompts => 2,
            ListKind::Resources => 4,
        }
    }
}

impl Changes {
    fn is_empty(&self) -> bool {
        self.lists == ListSet::default() && self.resources.is_empty()
    }
}

impl Subscribers {
    /// Sets the lists for which the handshake announces change notifications. Clients are notified of changes of these
    /// lists only.
    pub(crate) fn announce(&self, lists: ListSet) {
        self.0.announced.store(lists.0, Ordering::Relaxed);
    }

    /// Returns the lists for which the handshake announces change notifications.
    pub(crate) fn announced(&self) -> ListSet {
        ListSet(self.0.announced.load(Ordering::Relaxed))
    }

    /// Notifies all listeners that a list changed.
    pub(crate) fn changed(&self, list: ListKind) {
        self.changed_for(list, |_, _| true);
    }

    /// Notifies the listeners whose principal and scope match that a list changed.
    pub(crate) fn changed_for(&self, list: ListKind, matches: impl Fn(&Principal, &Scope) -> bool) {
        if !self.announced().has(list) {
            return;
        }
        let interested = self.listeners_where(|listener| listener.lists.has(list));
        for listener in interested {
            if !matches(&listener.principal, &listener.scope) {
                continue;
            }
            listener.record(|changes, _| {
                changes.lists.insert(list);
                true
            });
        }
    }

    /// Notifies the subscribers of a resource that it changed, whichever escapes their URIs have.
    pub(crate) fn updated(&self, uri: &str) {
        let name = canonical(uri);
        self.updated_for(&name, |_| true);
        if name != uri {
            // Subscriptions through the author's [`ResourceSubscriber`](crate::ResourceSubscriber) are stored under the
            // name that the author gave, so look the URI up unchanged too.
            self.updated_for(uri, |_| true);
        }
    }

    /// Notifies the subscribers of matching principals that a resource changed.
    pub(crate) fn updated_for(&self, name: &str, matches: impl Fn(&Principal) -> bool) {
        let first = (name.to_owned(), String::new());
        let uris = |watched: &Watched| -> Vec<String> {
            let from = watched.range::<(String, String), _>(&first..).map(|(key, _)| key);
            from.take_while(|(known, _)| known == name).map(|(_, uri)| uri.clone()).collect()
        };
        let subscribed =
            self.listeners_where(|listener| !uris(&listener.state.lock().watched).is_empty());
        for listener in subscribed {
            if matches(&listener.principal) {
                listener.record(|changes, watched| {
                    let uris = uris(watched);
                    let is_subscriber = !uris.is_empty();
                    changes.resources.extend(uris);
                    is_subscriber
                });
            }
        }
    }

    /// Sends a new server state to the listeners that negotiated such notifications; completes when each message
    /// was sent or has failed.
    ///
    /// # Cancel safety
    /// If the future is dropped, listeners that read slowly might not get the notification.
    pub(crate) fn notify_state(
        &self,
        params: &LifecycleParams,
        matches: impl Fn(&Principal) -> bool,
    ) -> BoxFuture<'static, ()> {
        let wants = |listener: &Listener| listener.wants_state && listener.state.lock().is_open;
        let mut listeners = self.listeners_where(wants);
        listeners.retain(|listener| matches(&listener.principal));
        let messages = listeners.into_iter().map(|listener| {
            let params = params.clone();
            async move {
                if let Err(error) = listener.send_state(&params).await {
                    tracing::debug!(%error, "listener disconnected");
                }
            }
        });
        // Each message is sent in its own task, so that a listener that does not read does not block other listeners.
        let messages: Vec<_> = messages.collect();
        Box::pin(async move {
            let all: JoinSet<()> = messages.into_iter().collect();
            all.join_all().await;
        })
    }

    /// Adds the session of a call as a listener; it is removed when the session's scope ends.
    pub(crate) fn join(&self, cx: &Context) {
        let key = ListenerKey::Session(cx.scope.id());
        if self.enter(key, || Listener::new(cx, ListSet::ALL, None)) {
            let table = Arc::downgrade(&self.0);
            let leave = move || {
                if let Some(table) = table.upgrade() {
                    Self(table).leave(key);
                }
            };
            cx.scope.on_end(leave).keep();
        }
    }

    /// Adds the notification stream of a modern client as a listener. Its changes are recorded from now on, and are
    /// sent once [`StreamGuard::open`] is called. Dropping the guard removes the stream.
    pub(crate) fn listen(
        &self,
        cx: &Context,
        meta: Meta,
        lists: ListSet,
    ) -> Result<StreamGuard, RpcError> {
        let key = ListenerKey::Stream(cx.key);
        if self.enter(key, || Listener::new(cx, lists, Some((cx.key, meta)))) {
            Ok(StreamGuard { subscribers: self.clone(), key })
        } else {
            Err(Refusal::TooManyListeners.into())
        }
    }

    /// Subscribes the session of a call to a resource.
    pub(crate) fn watch(&self, cx: &Context, uri: String) -> Result<(), RpcError> {
        let (name, watching) = WatchedResource::plain(uri);
        self.watch_as(cx, name, watching)
    }

    /// Subscribes the session of a call to a resource whose name in this server differs from the client's URI.
    pub(crate) fn watch_as(
        &self,
        cx: &Context,
        name: String,
        watching: WatchedResource,
    ) -> Result<(), RpcError> {
        if watching.uri.len() > MAX_URI_BYTES {
            let message = format!("`uri` has more than {MAX_URI_BYTES} bytes");
            return Err(RpcError::invalid_params(message));
        }
        self.join(cx);
        match self.listener(ListenerKey::Session(cx.scope.id())) {
            Some(listener) => listener.watch(name, watching, &self.0.budget),
            None => Err(Refusal::TooManyListeners.into()),
        }
    }

    /// Returns the listeners for which `is_wanted` returns `true`. It is called under the lock, so it must not run code
    /// of the author.
    fn listeners_where(&self, is_wanted: impl Fn(&Listener) -> bool) -> Vec<Arc<Listener>> {
        let listeners = self.0.listeners.lock();
        listeners.values().filter(|listener| is_wanted(listener)).cloned().collect()
    }

    fn listener(&self, key: ListenerKey) -> Option<Arc<Listener>> {
        self.0.listeners.lock().get(&key).cloned()
    }

    /// Ends the subscriptions of a session that were made with this URI.
    pub(crate) fn unwatch(&self, cx: &Context, uri: &str) {
        let Some(listener) = self.listener(ListenerKey::Session(cx.scope.id())) else { return };
        let mut state = listener.state.lock();
        state.changes.resources.remove(uri);
        let removed: Vec<_> =
            state.watched.extract_if(.., |_, watching| watching.uri == uri).collect();
        // Drop the guards of the subscriptions only after all locks are released: they run code of the server's author,
        // which may use this table.
        drop(state);
        drop(removed);
    }

    /// Adds a listener; returns `false` if the key is present already or the table is full.
    fn enter(&self, key: ListenerKey, listener: impl FnOnce() -> Listener) -> bool {
        let mut listeners = self.0.listeners.lock();
        if listeners.contains_key(&key) {
            return false;
        }
        if listeners.len() >= MAX_LISTENERS {
            tracing::warn!(
                MAX_LISTENERS,
                "listener limit reached; client gets no change notifications"
            );
            return false;
        }
        listeners.insert(key, Arc::new(listener()));
        true
    }

    fn leave(&self, key: ListenerKey) {
        // The listener is dropped after the lock is released, because it might be the last handle of a connection.
        let removed = self.0.listeners.lock().remove(&key);
        drop(removed);
    }
}

mgp_types::opaque_debug!(Subscribers);

/// A guard for a stream of notifications in the table; dropping the guard removes the stream.
#[derive(Debug)]
pub(crate) struct StreamGuard {
    subscribers: Subscribers,
    key: ListenerKey,
}

impl StreamGuard {
    /// Subscribes the stream to a resource. Returns `false` if its client has too many subscriptions.
    pub(crate) fn watch(&self, name: String, watching: WatchedResource) -> bool {
        let Some(listener) = self.subscribers.listener(self.key) else { return false };
        let outcome = listener.watch(name, watching, &self.subscribers.0.budget);
        outcome.inspect_err(|error| tracing::debug!(%error, "resource subscription failed")).is_ok()
    }

    /// Lets the stream send the recorded changes, and all later ones. Must be called after the acknowledgement of the
    /// stream.
    pub(crate) fn open(&self) {
        if let Some(listener) = self.subscribers.listener(self.key) {
            listener.state.lock().is_open = true;
            listener.record(|changes, _| !changes.is_empty());
        }
    }
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        self.subscribers.leave(self.key);
    }
}

impl Listener {
    fn new(cx: &Context, lists: ListSet, stream: Option<(CallKey, Meta)>) -> Self {
        let is_open = stream.is_none();
        Self {
            peer: cx.peer.clone(),
            scope: cx.scope.clone(),
            principal: cx.principal.clone(),
            stream,
            lists,
            wants_state: cx.caller.has(Extension::Lifecycle),
            wants_manifest: cx.caller.has(Extension::Manifest),
            runtime: Handle::current(),
            state: Mutex::new(ListenerState { is_open, ..ListenerState::default() }),
        }
    }

    /// Adds a subscription. If its resource has changed since the client requested it, records the change.
    fn watch(
        self: &Arc<Self>,
        name: String,
        mut watching: WatchedResource,
        budget: &WatchBudget,
    ) -> Result<(), RpcError> {
        let (key, has_changed) = (watching.key(name), watching.has_changed.take());
        let uri = watching.uri.clone();
        let mut state = self.state.lock();
        if state.watched.len() >= MAX_WATCHED && !state.watched.contains_key(&key) {
            return Err(Refusal::TooManyWatched(MAX_WATCHED).into());
        }
        watching.charge = if let Some(known) = state.watched.get_mut(&key) {
            known.charge.take()
        } else {
            let charge = budget.charge(&self.principal, &uri);
            Some(charge.ok_or(Refusal::ClientLimit)?)
        };
        let replaced = state.watched.insert(key, watching);
        drop(state);
        drop(replaced);
        // Call `has_changed` after the subscription was added. Otherwise a change between the call and the first
        // notification would be lost.
        if has_changed.is_some_and(|has_changed| has_changed()) {
            self.record(|changes, watched| {
                let is_watched = watched.values().any(|watching| watching.uri == uri);
                is_watched && changes.resources.insert(uri)
            });
        }
        Ok(())
    }

    /// Calls `add`, which records changes and returns whether it added any. If it did, starts the task that sends them,
    /// unless the task runs already or the stream is not open yet.
    fn record(self: &Arc<Self>, add: impl FnOnce(&mut Changes, &Watched) -> bool) {
        let mut state = self.state.lock();
        let ListenerState { watched, changes, is_open, is_sending } = &mut *state;
        if add(changes, watched) && *is_open && !*is_sending {
            *is_sending = true;
            self.runtime.spawn(Arc::clone(self).send_changes());
        }
    }

    /// Sends the recorded changes to the client, until there are none left.
    async fn send_changes(self: Arc<Self>) {
        loop {
            tokio::time::sleep(COALESCE_DELAY).await;
            let Some(mut changes) = self.take() else { return };
            if let Err(error) = self.send_once(&mut changes).await {
                // Keep the unsent changes for the next attempt, which the next change starts. A listener leaves the
                // table only when the scope of its session or stream ends.
                tracing::debug!(%error, "listener did not take a change");
                self.restore(changes);
                return;
            }
        }
    }

    /// Removes and returns the recorded changes; returns `None` if there are none, and the sending task must then end.
    fn take(&self) -> Option<Changes> {
        let mut state = self.state.lock();
        let changes = std::mem::take(&mut state.changes);
        let any = !changes.is_empty();
        state.is_sending = any;
        any.then_some(changes)
    }

    /// Records the unsent changes again, except those of resources to which the client no longer subscribes. Also
    /// clears the flag of the sending task, which then ends.
    fn restore(&self, mut unsent: Changes) {
        let mut state = self.state.lock();
        let ListenerState { watched, changes, is_sending, .. } = &mut *state;
        unsent.resources.retain(|uri| watched.values().any(|watching| watching.uri == *uri));
        changes.lists.0 |= unsent.lists.0;
        changes.resources.append(&mut unsent.resources);
        *is_sending = false;
    }

    /// Sends the changes one by one, and removes each from `changes` once it was sent.
    async fn send_once(&self, changes: &mut Changes) -> Result<(), RpcError> {
        let mut params = EmptyParams::new();
        params.meta = self.stream.as_ref().map(|(_, meta)| meta.clone());
        if changes.lists.has(ListKind::Tools) {
            self.send::<ToolsListChanged>(&params).await?;
            if self.wants_manifest {
                let mut changed = ManifestParams::new();
                changed.meta.clone_from(&params.meta);
                self.send::<ManifestChanged>(&changed).await?;
            }
            changes.lists.remove(ListKind::Tools);
        }
        if changes.lists.has(ListKind::Prompts) {
            self.send::<PromptsListChanged>(&params).await?;
            changes.lists.remove(ListKind::Prompts);
        }
        if changes.lists.has(ListKind::Resources) {
            self.send::<ResourcesListChanged>(&params).await?;
            changes.lists.remove(ListKind::Resources);
        }
        while let Some(uri) = changes.resources.first() {
            let mut updated = ResourceUpdatedParams::new(uri.clone());
            updated.meta.clone_from(&params.meta);
            self.send::<ResourcesUpdated>(&updated).await?;
            changes.resources.pop_first();
        }
        Ok(())
    }

    async fn send_state(&self, params: &LifecycleParams) -> Result<(), RpcError> {
        let (peer, scope) = (self.peer.clone(), self.scope.clone());
        let cx = Context::new(peer, scope, self.principal.clone());
        let mut call = Call::tell::<LifecycleNotification>(params, cx)?;
        if let Some((key, meta)) = &self.stream {
            let id = meta.subscription_id()?.map(|id| Payload::of(&id)).transpose()?;
            let member = id.map(|id| (key::SUBSCRIPTION_ID.into(), id));
            call.hop_mut().meta.extend(member);
            call = call.related(*key);
        }
        self.peer.send(call).await.map(drop)
    }

    async fn send<N: Notification>(&self, params: &N::Params) -> Result<(), RpcError> {
        let (peer, scope) = (self.peer.clone(), self.scope.clone());
        let call = Call::tell::<N>(params, Context::new(peer, scope, self.principal.clone()))?;
        let call = match &self.stream {
            Some((key, _)) => call.related(*key),
            None => call,
        };
        self.peer.send(call).await.map(drop)
    }
}

#[cfg(test)]
mod tests;
