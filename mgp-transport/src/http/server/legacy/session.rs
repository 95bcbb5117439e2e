//! One session: its scope, its streams, its calls.
//!
//! Applies to: inbound.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use mgp_types::RpcError;
use mgp_types::mcp::Revision;
use mgp_types::service::{CallKey, Peer, Principal, Scope, ScopeKind, WireRules};
use mgp_types::unguessable;

use super::super::stream::{EventId, Store, Stream};
use crate::connection::PendingRequests;

/// The number of the stream that belongs to no call.
const STANDALONE: u64 = 0;
/// Streams that ended, and that a client may still come back to.
const ENDED: usize = 16;
/// Bytes of partial results of our own requests that may wait; a client sends hardly any.
const INBOX: usize = 1 << 20;

/// A session.
pub(in super::super) struct Session {
    this: Weak<Self>,
    id: String,
    principal: Principal,
    scope: Scope,
    store: Arc<Store>,
    live: Mutex<Live>,
    /// When it was used last, in seconds of the table's clock.
    pub(super) used: AtomicU64,
    /// Calls that run.
    busy: AtomicUsize,
    /// Our requests, which most sessions never see.
    pending: OnceLock<PendingRequests>,
}

#[derive(Default)]
struct Live {
    streams: u64,
    /// The streams of the calls that run.
    calls: HashMap<CallKey, Arc<Stream>, ahash::RandomState>,
    standalone: Option<Arc<Stream>>,
    /// Streams a client may come back to although their call has ended, the oldest first.
    ended: VecDeque<Arc<Stream>>,
    is_over: bool,
}

impl Session {
    pub(super) fn new(principal: Principal, store: Arc<Store>) -> Result<Arc<Self>, RpcError> {
        let id = unguessable()?;
        Ok(Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            id,
            principal,
            scope: Scope::new(ScopeKind::Session),
            store,
            live: Mutex::default(),
            used: AtomicU64::new(0),
            busy: AtomicUsize::new(0),
            pending: OnceLock::new(),
        }))
    }

    pub(in super::super) fn id(&self) -> &str {
        &self.id
    }

    pub(in super::super) fn principal(&self) -> &Principal {
        &self.principal
    }

    pub(in super::super) fn scope(&self) -> &Scope {
        &self.scope
    }

    /// The other end.
    pub(in super::super) fn peer(self: &Arc<Self>) -> Peer {
        Peer::new(Arc::clone(self) as Arc<dyn mgp_types::service::Link>)
    }

    /// The revision `initialize` settled on.
    pub(in super::super) fn rules(&self) -> Arc<WireRules> {
        self.scope.state::<WireRules>()
    }

    /// Whether its client understands an event without a message.
    pub(in super::super) fn may_prime(&self) -> bool {
        self.rules().revision() >= Some(&Revision::V2025_11_25)
    }

    /// The session, to hold as long as something waits in it.
    pub(super) fn this(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }

    // === Streams ===

    /// The stream of a call, for as long as the guard lives.
    pub(in super::super) fn open(self: &Arc<Self>, key: CallKey) -> OpenCall {
        let mut live = self.live();
        live.streams += 1;
        let stream = Arc::new(Stream::new(Some(live.streams), Arc::clone(&self.store)));
        if live.is_over {
            stream.end();
        } else {
            live.calls.insert(key, Arc::clone(&stream));
        }
        drop(live);
        OpenCall { running: self.running(), key, stream }
    }

    /// Counts a call as running until the guard is dropped.
    pub(in super::super) fn running(self: &Arc<Self>) -> Running {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Running(Arc::clone(self))
    }

    /// The stream of the session itself.
    pub(in super::super) fn standalone(&self) -> Arc<Stream> {
        let mut live = self.live();
        if let Some(stream) = &live.standalone {
            return Arc::clone(stream);
        }
        let stream = Arc::new(Stream::new(Some(STANDALONE), Arc::clone(&self.store)));
        if live.is_over {
            stream.end();
        }
        live.standalone = Some(Arc::clone(&stream));
        stream
    }

    /// The stream an event belongs to.
    pub(in super::super) fn stream_of(&self, event: EventId) -> Option<Arc<Stream>> {
        if event.stream == STANDALONE {
            return Some(self.standalone());
        }
        let live = self.live();
        let mut known = live.calls.values().chain(&live.ended);
        known.find(|stream| stream.number() == Some(event.stream)).cloned()
    }

    /// The stream that carries what belongs to a call; that of the session once the call has ended.
    pub(super) fn route(&self, related: Option<CallKey>) -> Arc<Stream> {
        related.and_then(|key| self.stream(key)).unwrap_or_else(|| self.standalone())
    }

    /// The stream of a call that runs.
    pub(super) fn stream(&self, key: CallKey) -> Option<Arc<Stream>> {
        self.live().calls.get(&key).cloned()
    }

    // === Our requests ===

    pub(super) fn pending(&self) -> &PendingRequests {
        self.pending.get_or_init(|| PendingRequests::new(INBOX))
    }

    /// Our requests, where there have been any.
    pub(in super::super) fn asked(&self) -> Option<&PendingRequests> {
        self.pending.get()
    }

    // === Life ===

    /// Whether nothing runs and nobody reads.
    pub(super) fn is_idle(&self) -> bool {
        let live = self.live();
        let is_read = live.standalone.as_ref().is_some_and(|stream| stream.is_read());
        self.busy.load(Ordering::Relaxed) == 0 && !is_read
    }

    /// Whether it has ended.
    pub(in super::super) fn is_over(&self) -> bool {
        self.live().is_over
    }

    /// Ends it: its calls, its streams, what hangs on its scope.
    pub(in super::super) fn end(&self) {
        let (calls, standalone, ended) = {
            let mut live = self.live();
            live.is_over = true;
            (
                std::mem::take(&mut live.calls),
                live.standalone.take(),
                std::mem::take(&mut live.ended),
            )
        };
        self.scope.end();
        for stream in calls.into_values().chain(standalone) {
            stream.end();
        }
        drop(ended);
        if let Some(pending) = self.pending.get() {
            pending.close("the session ended");
        }
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("scope", &self.scope).finish_non_exhaustive()
    }
}

/// Keeps a session from being idle.
pub(in super::super) struct Running(Arc<Session>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.busy.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Keeps the stream of a call where what belongs to the call finds it.
pub(in super::super) struct OpenCall {
    running: Running,
    key: CallKey,
    pub(in super::super) stream: Arc<Stream>,
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.stream.end();
        let mut live = self.running.0.live();
        let known = live.calls.remove(&self.key);
        // Who can never have seen an event of it has no id to come back with.
        if let Some(stream) = known
            && stream.has_events()
            && !live.is_over
        {
            live.ended.push_back(stream);
            if live.ended.len() > ENDED {
                live.ended.pop_front();
            }
            // The events of calls that ended go before those of calls that run.
            while self.running.0.store.is_full() && live.ended.pop_front().is_some() {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn session(bound: usize) -> Arc<Session> {
        let second = Duration::from_secs(1);
        let store = Arc::new(Store::new(bound, 1 << 20, second, second));
        Session::new(Principal::local(), store).unwrap()
    }

    /// A call whose client left before its answer.
    fn leaves(session: &Arc<Session>, bytes: usize) -> u64 {
        let open = session.open(CallKey::next());
        open.stream.push(|out| out.push(b'x')).unwrap();
        open.stream.detach(open.stream.attach(None));
        open.stream.finish(vec![b'x'; bytes]);
        open.stream.number().unwrap()
    }

    fn is_known(session: &Session, stream: u64) -> bool {
        session.stream_of(EventId { stream, number: 0 }).is_some()
    }

    #[test]
    fn streams_that_ended_are_bounded_in_number() {
        let session = session(1 << 30);
        let numbers: Vec<_> = (0..40).map(|_| leaves(&session, 10)).collect();
        let known: Vec<_> = numbers.iter().map(|stream| is_known(&session, *stream)).collect();
        assert_eq!(known, [[false; 24].as_slice(), &[true; 16]].concat());
        assert!(session.is_idle());
    }

    #[test]
    fn answers_nobody_fetches_do_not_outgrow_the_store() {
        let session = session(100_000);
        for _ in 0..16 {
            leaves(&session, 50_000);
        }
        assert!(session.store.held() <= 100_000, "{} bytes", session.store.held());
        assert!(is_known(&session, leaves(&session, 10)));
        session.end();
        assert_eq!(session.store.held(), 0);
    }

    #[test]
    fn silent_call_leaves_no_stream() {
        let session = session(1 << 20);
        let open = session.open(CallKey::next());
        let number = open.stream.number().unwrap();
        open.stream.finish(b"{}".to_vec());
        assert!(is_known(&session, number));
        drop(open);
        assert!(!is_known(&session, number));
    }
}
