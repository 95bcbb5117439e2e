//! The listeners to change notifications: legacy sessions and modern streams, in one bounded table.
//!
//! Changes are collected for a moment and sent by a task per listener, so a burst is one message
//! and a listener that does not read blocks no other.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mgp_types::mcp::{EmptyParams, Meta, ResourceUpdatedParams, ServerCapabilities, key};
use mgp_types::method::{
    LifecycleNotification, Notification, PromptsListChanged, ResourcesListChanged,
    ResourcesUpdated, ToolsListChanged,
};
use mgp_types::mgp::{Extension, LifecycleParams};
use mgp_types::service::{BoxFuture, Call, CallKey, Context, Peer, Principal, Scope, ScopeId};
use mgp_types::{Payload, RpcError};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::error::Refusal;

/// The maximum number of listeners; further clients are served without notifications.
const LISTENERS: usize = 131_072;

/// The maximum number of resources that one listener may subscribe to.
pub(crate) const WATCHED: usize = 1_000;

/// The time for which changes are collected before they are sent.
const SETTLE: Duration = Duration::from_millis(10);

/// A list with change notifications.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum List {
    Tools,
    Prompts,
    Resources,
}

/// A set of lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lists(u8);

/// The table of listeners.
#[derive(Clone, Default)]
pub(crate) struct Audience(Arc<Table>);

#[derive(Default)]
struct Table {
    /// The lists whose changes the handshake announced; no others are sent.
    announced: AtomicU8,
    listeners: Mutex<HashMap<Key, Arc<Listener>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    /// A legacy session.
    Session(ScopeId),
    /// A modern stream of notifications.
    Stream(CallKey),
}

/// A client that receives notifications.
struct Listener {
    peer: Peer,
    scope: Scope,
    principal: Principal,
    /// The call whose stream carries notifications, and their `_meta`; `None` for a session.
    stream: Option<(CallKey, Meta)>,
    lists: Lists,
    /// If set, the client negotiated notifications of the server's state.
    hears_state: bool,
    runtime: Handle,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The subscriptions by the name of the resource in this server.
    watched: BTreeMap<String, Watching>,
    news: News,
    /// `true` while a task sends the changes.
    telling: bool,
}

/// A subscription to a resource.
pub(crate) struct Watching {
    /// The URI that the client used.
    pub(crate) uri: String,
    /// Dropped when the subscription ends.
    pub(crate) _guard: Option<Box<dyn Any + Send + Sync>>,
}

impl Watching {
    /// Creates a subscription to a resource whose name is its URI.
    pub(crate) fn plain(uri: String) -> (String, Self) {
        (uri.clone(), Self { uri, _guard: None })
    }
}

/// The changes that are not sent yet.
#[derive(Default)]
struct News {
    lists: Lists,
    resources: BTreeSet<String>,
}

// === impl Lists ===

impl Lists {
    pub(crate) const ALL: Self = Self(0b111);

    pub(crate) fn of(lists: &[(List, bool)]) -> Self {
        let chosen = lists.iter().filter(|(_, is_in)| *is_in);
        Self(chosen.fold(0, |bits, (list, _)| bits | Self::bit(*list)))
    }

    /// Returns the lists whose changes a server announces.
    pub(crate) fn announced(capabilities: &ServerCapabilities) -> Self {
        let told = |told: Option<bool>| told == Some(true);
        let list = |capability: Option<&mgp_types::mcp::ListChanged>| {
            told(capability.and_then(|capability| capability.list_changed))
        };
        let resources = capabilities.resources.as_ref();
        Self::of(&[
            (List::Tools, list(capabilities.tools.as_ref())),
            (List::Prompts, list(capabilities.prompts.as_ref())),
            (List::Resources, told(resources.and_then(|resources| resources.list_changed))),
        ])
    }

    pub(crate) fn has(self, list: List) -> bool {
        self.0 & Self::bit(list) != 0
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    fn insert(&mut self, list: List) {
        self.0 |= Self::bit(list);
    }

    fn bit(list: List) -> u8 {
        match list {
            List::Tools => 1,
            List::Prompts => 2,
            List::Resources => 4,
        }
    }
}

// === impl Audience ===

impl Audience {
    /// Sets the changes that the handshake announces.
    pub(crate) fn announce(&self, lists: Lists) {
        self.0.announced.store(lists.0, Ordering::Relaxed);
    }

    /// Returns the changes that the handshake announces.
    pub(crate) fn announced(&self) -> Lists {
        Lists(self.0.announced.load(Ordering::Relaxed))
    }

    /// Notifies all listeners that a list changed.
    pub(crate) fn changed(&self, list: List) {
        self.changed_for(list, |_| true);
    }

    /// Notifies the listeners of matching principals that a list changed.
    pub(crate) fn changed_for(&self, list: List, whom: impl Fn(&Principal) -> bool) {
        if !self.announced().has(list) {
            return;
        }
        let listeners = self.listeners();
        let hear = listeners.values().filter(|listener| listener.lists.has(list));
        for listener in hear.filter(|listener| whom(&listener.principal)) {
            listener.note(|news, _| {
                news.lists.insert(list);
                true
            });
        }
    }

    /// Notifies the subscribers of a resource that it changed.
    pub(crate) fn updated(&self, uri: &str) {
        self.updated_for(uri, |_| true);
    }

    /// Notifies the subscribers of matching principals that a resource changed.
    pub(crate) fn updated_for(&self, name: &str, whom: impl Fn(&Principal) -> bool) {
        for listener in self.listeners().values() {
            listener.note(|news, watched| match watched.get(name) {
                Some(watching) if whom(&listener.principal) => {
                    news.resources.insert(watching.uri.clone())
                }
                _ => false,
            });
        }
    }

    /// Notifies the listeners that negotiated it of a new server state; completes when every message was sent or failed.
    ///
    /// # Cancel safety
    /// Dropping the future may leave listeners that read slowly without the notification.
    pub(crate) fn tell_state(&self, params: &LifecycleParams) -> BoxFuture<'static, ()> {
        let listeners = self.listeners();
        let told = listeners.values().filter(|listener| listener.hears_state).map(|listener| {
            let (listener, params) = (Arc::clone(listener), params.clone());
            async move {
                if let Err(error) = listener.send_state(&params).await {
                    tracing::debug!(%error, "listener disconnected");
                }
            }
        });
        // One task each: a listener that does not read blocks no other.
        let told: Vec<_> = told.collect();
        drop(listeners);
        Box::pin(async move {
            let all: JoinSet<()> = told.into_iter().collect();
            all.join_all().await;
        })
    }

    /// Adds the session of a call; it is removed when its scope ends.
    pub(crate) fn join(&self, cx: &Context) {
        let key = Key::Session(cx.scope.id());
        if self.enter(key, || Listener::new(cx, Lists::ALL, None)) {
            let table = Arc::downgrade(&self.0);
            let leave = move || {
                if let Some(table) = table.upgrade() {
                    Self(table).leave(key);
                }
            };
            cx.scope.on_end(leave).keep();
        }
    }

    /// Adds a stream of notifications; it is removed when the guard is dropped.
    pub(crate) fn listen(
        &self,
        cx: &Context,
        mark: Meta,
        lists: Lists,
        watched: Vec<(String, Watching)>,
    ) -> Result<Listening, RpcError> {
        if watched.len() > WATCHED {
            return Err(Refusal::TooManyWatched(WATCHED).into());
        }
        let key = Key::Stream(cx.key);
        let entered = self.enter(key, || {
            let listener = Listener::new(cx, lists, Some((cx.key, mark)));
            listener.state().watched.extend(watched);
            listener
        });
        if entered {
            Ok(Listening { audience: self.clone(), key })
        } else {
            Err(Refusal::TooManyListeners.into())
        }
    }

    /// Subscribes the session of a call to a resource.
    pub(crate) fn watch(&self, cx: &Context, uri: String) -> Result<(), RpcError> {
        let (name, watching) = Watching::plain(uri);
        self.watch_as(cx, name, watching)
    }

    /// Subscribes the session of a call to a resource that has another name in this server.
    pub(crate) fn watch_as(
        &self,
        cx: &Context,
        name: String,
        watching: Watching,
    ) -> Result<(), RpcError> {
        self.join(cx);
        let listeners = self.listeners();
        let Some(listener) = listeners.get(&Key::Session(cx.scope.id())) else {
            return Err(Refusal::TooManyListeners.into());
        };
        let mut state = listener.state();
        if state.watched.len() >= WATCHED && !state.watched.contains_key(&name) {
            return Err(Refusal::TooManyWatched(WATCHED).into());
        }
        let before = state.watched.insert(name, watching);
        drop(state);
        drop(listeners);
        drop(before);
        Ok(())
    }

    /// Removes a subscription.
    pub(crate) fn unwatch(&self, cx: &Context, uri: &str) {
        if let Some(listener) = self.listeners().get(&Key::Session(cx.scope.id())) {
            let mut state = listener.state();
            let gone: Vec<_> =
                state.watched.extract_if(.., |_, watching| watching.uri == uri).collect();
            state.news.resources.remove(uri);
            drop(state);
            drop(gone);
        }
    }

    /// Returns `true` if the listener is new and there was room.
    fn enter(&self, key: Key, listener: impl FnOnce() -> Listener) -> bool {
        let mut listeners = self.listeners();
        if listeners.contains_key(&key) {
            return false;
        }
        if listeners.len() >= LISTENERS {
            tracing::warn!(LISTENERS, "listener limit reached; client gets no change notifications");
            return false;
        }
        listeners.insert(key, Arc::new(listener()));
        true
    }

    fn leave(&self, key: Key) {
        // Dropped after the lock is released: it may be the last handle of a connection.
        let left = self.listeners().remove(&key);
        drop(left);
    }

    fn listeners(&self) -> MutexGuard<'_, HashMap<Key, Arc<Listener>>> {
        self.0.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Audience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Audience({})", self.listeners().len())
    }
}

/// A stream of notifications in the table; removed on drop.
#[derive(Debug)]
pub(crate) struct Listening {
    audience: Audience,
    key: Key,
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.audience.leave(self.key);
    }
}

// === impl Listener ===

impl Listener {
    fn new(cx: &Context, lists: Lists, stream: Option<(CallKey, Meta)>) -> Self {
        Self {
            peer: cx.peer.clone(),
            scope: cx.scope.clone(),
            principal: cx.principal.clone(),
            stream,
            lists,
            hears_state: cx.caller.has(Extension::Lifecycle),
            runtime: Handle::current(),
            state: Mutex::default(),
        }
    }

    /// Records changes and starts the task that sends them; `add` returns whether there are any.
    fn note(self: &Arc<Self>, add: impl FnOnce(&mut News, &BTreeMap<String, Watching>) -> bool) {
        let mut state = self.state();
        let State { watched, news, telling } = &mut *state;
        if add(news, watched) && !*telling {
            *telling = true;
            self.runtime.spawn(Arc::clone(self).tell());
        }
    }

    /// Sends the changes until there are none left.
    async fn tell(self: Arc<Self>) {
        loop {
            tokio::time::sleep(SETTLE).await;
            let Some(news) = self.take() else { return };
            if let Err(error) = self.tell_once(news).await {
                // The table drops the listener when its scope ends; until then no further attempt is made.
                tracing::debug!(%error, "listener disconnected");
                return;
            }
        }
    }

    /// Returns the recorded changes, or `None` to end the sending task.
    fn take(&self) -> Option<News> {
        let mut state = self.state();
        let news = std::mem::take(&mut state.news);
        let any = news.lists != Lists::default() || !news.resources.is_empty();
        state.telling = any;
        any.then_some(news)
    }

    async fn tell_once(&self, news: News) -> Result<(), RpcError> {
        let mut params = EmptyParams::new();
        params.meta = self.stream.as_ref().map(|(_, mark)| mark.clone());
        if news.lists.has(List::Tools) {
            self.send::<ToolsListChanged>(&params).await?;
        }
        if news.lists.has(List::Prompts) {
            self.send::<PromptsListChanged>(&params).await?;
        }
        if news.lists.has(List::Resources) {
            self.send::<ResourcesListChanged>(&params).await?;
        }
        for uri in news.resources {
            let mut updated = ResourceUpdatedParams::new(uri);
            updated.meta.clone_from(&params.meta);
            self.send::<ResourcesUpdated>(&updated).await?;
        }
        Ok(())
    }

    async fn send_state(&self, params: &LifecycleParams) -> Result<(), RpcError> {
        let (peer, scope) = (self.peer.clone(), self.scope.clone());
        let cx = Context::new(peer, scope, self.principal.clone());
        let mut call = Call::tell::<LifecycleNotification>(params, cx)?;
        if let Some((key, mark)) = &self.stream {
            let id = mark.subscription_id()?.map(|id| Payload::of(&id)).transpose()?;
            let mark = id.map(|id| (key::SUBSCRIPTION_ID.into(), id));
            call.hop_mut().meta.extend(mark);
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

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::service::{Reply, ScopeKind, Stack, mock};

    use super::*;

    fn peer() -> mock::MockPeer {
        mock::peer(Stack::from_fn(|_| async { Ok(Reply::None) }))
    }

    fn told(peer: &mock::MockPeer) -> Vec<String> {
        peer.seen().iter().map(|call| call.method().as_str().to_owned()).collect()
    }

    async fn settle() {
        tokio::time::sleep(SETTLE * 3).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_told_once_and_a_session_that_ended_not_at_all() {
        let (audience, peer) = (Audience::default(), peer());
        let scope = Scope::new(ScopeKind::Connection);
        let cx = peer.peer().context(&scope);
        audience.join(&cx);
        audience.join(&cx);
        audience.changed(List::Tools);
        settle().await;
        assert!(told(&peer).is_empty(), "nothing was announced in the handshake");

        audience.announce(Lists::of(&[(List::Tools, true), (List::Prompts, false)]));
        for _ in 0..100 {
            audience.changed(List::Tools);
            audience.changed(List::Prompts);
            audience.updated("test://a");
        }
        settle().await;
        assert_eq!(told(&peer), [ToolsListChanged::METHOD]);

        audience.watch(&cx, "test://a".to_owned()).unwrap();
        audience.updated("test://a");
        audience.updated("test://b");
        audience.changed(List::Tools);
        settle().await;
        assert_eq!(told(&peer)[1..], [ToolsListChanged::METHOD, ResourcesUpdated::METHOD]);
        audience.unwatch(&cx, "test://a");
        audience.updated("test://a");

        scope.end();
        audience.changed(List::Tools);
        settle().await;
        assert_eq!(peer.seen().len(), 3);
        assert!(audience.listeners().is_empty());
        audience.join(&cx);
        assert!(audience.listeners().is_empty(), "a scope that ended does not come back");
    }

    #[tokio::test(start_paused = true)]
    async fn a_listener_that_does_not_read_holds_up_nobody() {
        let audience = Audience::default();
        audience.announce(Lists::ALL);
        let stuck = mock::peer(Stack::from_fn(|_| std::future::pending()));
        let fine = peer();
        let scopes = [(); 2].map(|()| Scope::new(ScopeKind::Connection));
        audience.join(&stuck.peer().context(&scopes[0]));
        audience.join(&fine.peer().context(&scopes[1]));
        for _ in 0..3 {
            audience.changed(List::Prompts);
            settle().await;
        }
        assert_eq!((stuck.seen().len(), fine.seen().len()), (1, 3));
    }

    #[tokio::test]
    async fn watching_is_bounded() {
        let (audience, peer) = (Audience::default(), peer());
        let scope = Scope::new(ScopeKind::Connection);
        let cx = peer.peer().context(&scope);
        for number in 0..WATCHED {
            audience.watch(&cx, number.to_string()).unwrap();
        }
        audience.watch(&cx, "0".to_owned()).unwrap();
        assert_eq!(audience.watch(&cx, "more".to_owned()).unwrap_err().code().0, 3001);
    }
}
