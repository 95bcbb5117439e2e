//! One session: its scope, its streams, its calls.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use mgp_types::RpcError;
use mgp_types::mcp::Revision;
use mgp_types::random_name;
use mgp_types::service::{CallKey, Peer, Principal, Scope, ScopeKind, WireRules};
use mgp_types::sync::Mutex;

use super::super::event_budget::CallerBudget;
use super::super::stream::{EventId, Stream};
use crate::connection::PendingRequests;

/// The stream number of the session's GET stream, which belongs to no call.
const STANDALONE_STREAM: u64 = 0;
/// The maximum number of streams that have ended and can still be resumed.
const MAX_ENDED_STREAMS: usize = 16;
/// The maximum total size, in bytes, of the unread partial results of all requests that the server sent to the client;
/// clients rarely send partial results.
const MAX_INBOX_BYTES: usize = 1 << 20;

pub(in super::super) struct Session {
    this: Weak<Self>,
    id: String,
    principal: Principal,
    scope: Scope,
    budget: Arc<CallerBudget>,
    state: Mutex<SessionState>,
    /// Time of the last use, in seconds of the table's clock.
    pub(super) last_used: AtomicU64,
    /// The number of calls that are running in the session.
    running_calls: AtomicUsize,
    /// Requests that the server sent to the client; created on first use, because most sessions have none.
    pending: OnceLock<PendingRequests>,
}

#[derive(Default)]
struct SessionState {
    streams: u64,
    /// The streams of the calls that are running in the session.
    calls: HashMap<CallKey, Arc<Stream>, ahash::RandomState>,
    standalone: Option<Arc<Stream>>,
    /// Streams of ended calls that can still be resumed, the oldest first.
    ended: VecDeque<Arc<Stream>>,
    is_ended: bool,
}

impl Session {
    pub(super) fn new(
        principal: Principal,
        budget: Arc<CallerBudget>,
    ) -> Result<Arc<Self>, RpcError> {
        let id = random_name()?;
        Ok(Arc::new_cyclic(|this| Self {
            this: Weak::clone(this),
            id,
            principal,
            scope: Scope::new(ScopeKind::Session),
            budget,
            state: Mutex::default(),
            last_used: AtomicU64::new(0),
            running_calls: AtomicUsize::new(0),
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

    /// Returns a handle through which the server calls the session's client.
    pub(in super::super) fn peer(self: &Arc<Self>) -> Peer {
        Peer::new(Arc::clone(self) as Arc<dyn mgp_types::service::Link>)
    }

    /// Returns the rules of the revision that `initialize` negotiated.
    pub(in super::super) fn rules(&self) -> Arc<WireRules> {
        self.scope.state::<WireRules>()
    }

    /// Returns whether the client accepts an event that contains no message.
    pub(in super::super) fn supports_priming(&self) -> bool {
        self.rules().revision() >= Some(&Revision::V2025_11_25)
    }

    /// Returns an owned reference to the session.
    pub(super) fn upgrade(&self) -> Option<Arc<Self>> {
        self.this.upgrade()
    }

    // === Streams ===

    /// Opens the stream of a call. The stream stays registered until the returned guard is dropped.
    pub(in super::super) fn open(self: &Arc<Self>, key: CallKey) -> OpenCall {
        let mut state = self.state.lock();
        state.streams += 1;
        let stream = Arc::new(Stream::new(Some(state.streams), Arc::clone(&self.budget)));
        if state.is_ended {
            stream.end();
        } else {
            state.calls.insert(key, Arc::clone(&stream));
        }
        drop(state);
        OpenCall { running: self.running(), key, stream }
    }

    /// Counts a call as running until the returned guard is dropped.
    pub(in super::super) fn running(self: &Arc<Self>) -> RunningGuard {
        self.running_calls.fetch_add(1, Ordering::Relaxed);
        RunningGuard(Arc::clone(self))
    }

    /// Returns the session's GET stream; creates it on first use.
    pub(in super::super) fn standalone(&self) -> Arc<Stream> {
        let mut state = self.state.lock();
        if let Some(stream) = &state.standalone {
            return Arc::clone(stream);
        }
        let stream = Arc::new(Stream::new(Some(STANDALONE_STREAM), Arc::clone(&self.budget)));
        if state.is_ended {
            stream.end();
        }
        state.standalone = Some(Arc::clone(&stream));
        stream
    }

    /// Returns the stream to which an event id belongs.
    pub(in super::super) fn stream_of(&self, event: EventId) -> Option<Arc<Stream>> {
        if event.stream == STANDALONE_STREAM {
            return Some(self.standalone());
        }
        let state = self.state.lock();
        let mut known = state.calls.values().chain(&state.ended);
        known.find(|stream| stream.number() == Some(event.stream)).cloned()
    }

    /// Returns the stream for messages that belong to a call; the session's GET stream if the call has ended, or if its
    /// client accepts only the answer.
    pub(super) fn route(&self, related: Option<CallKey>) -> Arc<Stream> {
        related.and_then(|key| self.stream(key)).unwrap_or_else(|| self.standalone())
    }

    pub(super) fn stream(&self, key: CallKey) -> Option<Arc<Stream>> {
        let state = self.state.lock();
        state.calls.get(&key).filter(|stream| !stream.is_answer_only()).cloned()
    }

    // === Requests of the server ===

    pub(super) fn pending(&self) -> &PendingRequests {
        self.pending.get_or_init(|| PendingRequests::new(MAX_INBOX_BYTES))
    }

    /// Returns the table of requests that the server sent; `None` if the server has sent no request.
    pub(in super::super) fn sent_requests(&self) -> Option<&PendingRequests> {
        self.pending.get()
    }

    // === End of the session ===

    /// Returns whether no call is running and the session's GET stream has no reader.
    pub(super) fn is_idle(&self) -> bool {
        let state = self.state.lock();
        let has_reader = state.standalone.as_ref().is_some_and(|stream| stream.has_reader());
        self.running_calls.load(Ordering::Relaxed) == 0 && !has_reader
    }

    pub(in super::super) fn is_ended(&self) -> bool {
        self.state.lock().is_ended
    }

    /// Ends the session with its calls, streams and scope.
    pub(in super::super) fn end(&self) {
        let (calls, standalone, ended) = {
            let mut state = self.state.lock();
            state.is_ended = true;
            (
                std::mem::take(&mut state.calls),
                state.standalone.take(),
                std::mem::take(&mut state.ended),
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
}

mgp_types::opaque_debug!(Session { scope });

/// A guard that counts a running call; while such guards exist, the session is not idle.
pub(in super::super) struct RunningGuard(Arc<Session>);

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.running_calls.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A guard that registers the stream of a call, so that messages that belong to the call are sent on it.
pub(in super::super) struct OpenCall {
    running: RunningGuard,
    key: CallKey,
    pub(in super::super) stream: Arc<Stream>,
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.stream.end();
        let mut state = self.running.0.state.lock();
        let known = state.calls.remove(&self.key);
        // A client that has received no event of the stream knows no event id, so it cannot resume the stream.
        if let Some(stream) = known
            && stream.has_events()
            && !state.is_ended
        {
            state.ended.push_back(stream);
            if state.ended.len() > MAX_ENDED_STREAMS {
                state.ended.pop_front();
            }
            // If the caller has used up its share, drop the events of ended calls first, and keep those of running
            // calls.
            while self.running.0.budget.is_full() && state.ended.pop_front().is_some() {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::config::HttpConfig;
    use super::super::super::event_budget::EventBudget;
    use super::*;

    fn session(bound: usize) -> Arc<Session> {
        let config =
            HttpConfig { store_bytes: bound, replay_bytes: 1 << 20, ..HttpConfig::default() };
        let budget = EventBudget::new(&config);
        let principal = Principal::local();
        let own = budget.of_caller(&principal);
        Session::new(principal, own).unwrap()
    }

    /// Simulates a call whose client disconnects before the answer.
    fn abandon_call(session: &Arc<Session>, bytes: usize) -> u64 {
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
        let numbers: Vec<_> = (0..40).map(|_| abandon_call(&session, 10)).collect();
        let known: Vec<_> = numbers.iter().map(|stream| is_known(&session, *stream)).collect();
        assert_eq!(known, [[false; 24].as_slice(), &[true; 16]].concat());
        assert!(session.is_idle());
    }

    #[test]
    fn unread_answers_do_not_outgrow_the_budget() {
        let session = session(100_000);
        for _ in 0..16 {
            abandon_call(&session, 50_000);
        }
        let stored = session.budget.all.stored_bytes();
        assert!(stored <= 100_000, "{stored} bytes");
        assert!(is_known(&session, abandon_call(&session, 10)));
        session.end();
        assert_eq!(session.budget.all.stored_bytes(), 0);
    }

    #[test]
    fn a_silent_call_leaves_no_stream() {
        let session = session(1 << 20);
        let open = session.open(CallKey::next());
        let number = open.stream.number().unwrap();
        open.stream.finish(b"{}".to_vec());
        assert!(is_known(&session, number));
        drop(open);
        assert!(!is_known(&session, number));
    }
}
