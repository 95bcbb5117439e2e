//! The legacy session of a connection: its id, its revision, and the handshake that opens it again (MCP sessions).

use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use mgp_types::RpcError;
use mgp_types::service::Call;
use mgp_types::sync::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::core::{Core, closed_here};
use super::headers::{REVISION, SESSION};
use super::session_settings::{SessionSettings, SettingChange};

/// State of the session; in the modern era it stays empty.
#[derive(Default)]
pub(super) struct Session {
    state: Mutex<SessionState>,
    /// Locked while a new session is opened, so that all requests that find the session lost wait for the same new
    /// session.
    pub(super) renewing: tokio::sync::Mutex<()>,
    /// Notified when the client's session is replaced or ends.
    changed: Notify,
}

#[derive(Default)]
struct SessionState {
    headers: Arc<SessionHeaders>,
    /// The `initialize` call that opened the session; repeated to open a new session.
    handshake: Option<Call>,
    /// The settings made in this session, which are replayed in the next session.
    settings: SessionSettings,
    /// The sequence number of the session, incremented for every new session.
    generation: u64,
    /// If set, the connection is closed and no further session can start.
    is_closed: bool,
}

impl SessionState {
    fn session_ref(&self) -> SessionRef {
        SessionRef { generation: self.generation, has_id: self.headers.id.is_some() }
    }
}

/// The identity of a session, to match it with the messages sent or received in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SessionRef {
    generation: u64,
    /// If set, the server assigned an id to the session. Only then does status 404 mean that the session is lost.
    pub(super) has_id: bool,
}

#[derive(Default)]
pub(super) struct SessionHeaders {
    pub(super) id: Option<HeaderValue>,
    pub(super) revision: Option<HeaderValue>,
}

impl SessionHeaders {
    pub(super) fn insert_headers(&self, headers: &mut HeaderMap) {
        if let Some(id) = &self.id {
            headers.insert(SESSION, id.clone());
        }
        if let Some(revision) = &self.revision {
            headers.insert(REVISION, revision.clone());
        }
    }
}

impl Session {
    pub(super) fn current(&self) -> (SessionRef, Arc<SessionHeaders>) {
        let state = self.state.lock();
        (state.session_ref(), Arc::clone(&state.headers))
    }

    /// Adds the headers of the current session to a request, and returns a reference to that session.
    pub(super) fn insert_headers(&self, headers: &mut HeaderMap) -> SessionRef {
        let (session_ref, current) = self.current();
        current.insert_headers(headers);
        session_ref
    }

    pub(super) fn session_ref(&self) -> SessionRef {
        self.state.lock().session_ref()
    }

    /// Adds the headers of this session to a request; returns `false` if the session was replaced or ended.
    pub(super) fn insert_headers_of(
        &self,
        session_ref: SessionRef,
        headers: &mut HeaderMap,
    ) -> bool {
        // The session is compared only after its headers were inserted, because `insert_headers` reads both under one
        // lock.
        self.insert_headers(headers) == session_ref
    }

    /// Returns whether this session was replaced or ended.
    pub(super) fn is_replaced(&self, session_ref: SessionRef) -> bool {
        self.state.lock().generation != session_ref.generation
    }

    /// Waits until this session is replaced or ends.
    pub(super) async fn ended(&self, session_ref: SessionRef) {
        loop {
            let changed = self.changed.notified();
            if self.is_replaced(session_ref) {
                return;
            }
            changed.await;
        }
    }

    /// Returns the `initialize` call that opened the session.
    pub(super) fn handshake(&self) -> Option<Call> {
        self.state.lock().handshake.clone()
    }

    /// Records a setting that the server accepted, unless the session was closed meanwhile: the calls in the settings
    /// would keep the connection alive.
    pub(super) fn keep(&self, change: SettingChange) {
        let mut state = self.state.lock();
        if !state.is_closed {
            state.settings.keep(change);
        }
    }

    pub(super) fn settings(&self) -> Vec<Call> {
        self.state.lock().settings.requests()
    }

    pub(super) fn revision(&self) -> Option<HeaderValue> {
        self.state.lock().headers.revision.clone()
    }

    /// Starts a session. If the connection is closed, returns `headers` as the error, so that the caller can end the
    /// new session at the server.
    pub(super) fn start(&self, headers: SessionHeaders, by: Call) -> Result<(), SessionHeaders> {
        let mut state = self.state.lock();
        if state.is_closed {
            return Err(headers);
        }
        state.generation += 1;
        state.headers = Arc::new(headers);
        state.handshake = Some(by);
        drop(state);
        self.changed.notify_waiters();
        Ok(())
    }

    /// Closes the session, so that no other can start; returns the headers for ending it at the
    /// server, if it has an id.
    pub(super) fn close(&self) -> Option<HeaderMap> {
        // The calls in the old state would keep the connection alive. They are dropped after the lock is released,
        // because their destructors can run any code.
        let old = {
            let mut state = self.state.lock();
            let generation = state.generation + 1;
            let closed = SessionState { generation, is_closed: true, ..SessionState::default() };
            std::mem::replace(&mut *state, closed)
        };
        self.changed.notify_waiters();
        old.headers.id.as_ref()?;
        let mut headers = HeaderMap::new();
        old.headers.insert_headers(&mut headers);
        Some(headers)
    }
}

/// A guard for a newly opened session. If the guard is dropped before [`start`](Self::start) is called, e.g. because
/// the caller stopped waiting, it ends the session at the server in the background.
pub(super) struct SessionGuard {
    core: Arc<Core>,
    headers: Option<SessionHeaders>,
    /// The runtime that opened the session; stored because the guard might be dropped outside of a runtime.
    runtime: Option<Handle>,
}

impl SessionGuard {
    pub(super) fn new(core: &Arc<Core>, headers: SessionHeaders) -> Self {
        let runtime = Handle::try_current().ok();
        Self { core: Arc::clone(core), headers: Some(headers), runtime }
    }

    pub(super) fn headers(&self) -> Option<&SessionHeaders> {
        self.headers.as_ref()
    }

    /// Makes the new session the session of the connection; fails if the connection was closed meanwhile.
    pub(super) fn start(mut self, by: Call) -> Result<(), RpcError> {
        let Some(headers) = self.headers.take() else { return Ok(()) };
        self.core.session.start(headers, by).map_err(|unwanted| {
            self.headers = Some(unwanted);
            closed_here()
        })
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        let Some(headers) = self.headers.take().filter(|headers| headers.id.is_some()) else {
            return;
        };
        let mut map = HeaderMap::new();
        headers.insert_headers(&mut map);
        if let Some(runtime) = &self.runtime {
            let core = Arc::clone(&self.core);
            runtime.spawn(async move { core.delete_session(map).await });
        }
    }
}
