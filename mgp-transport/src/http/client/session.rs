//! The legacy session of a connection: its id, its revision, and the call that opens it anew (MCP sessions).
//!
//! Applies to: outbound, legacy.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, HeaderValue};
use mgp_types::service::Call;
use tokio::sync::Notify;

use super::headers::{REVISION, SESSION};
use super::wishes::{Wish, Wishes};

/// What is known of the session; in the modern era it stays empty.
#[derive(Default)]
pub(super) struct Session {
    state: Mutex<State>,
    /// Held by the one who opens it anew, so that all who find it gone wait for the same new one.
    pub(super) renewing: tokio::sync::Mutex<()>,
    /// Told when it is replaced or ends.
    turned: Notify,
}

#[derive(Default)]
struct State {
    /// What its requests carry.
    opened: Arc<Opened>,
    /// The call that opened it.
    opening: Option<Call>,
    /// What it was asked to do; the next one is asked the same.
    wishes: Wishes,
    /// Grows with every session.
    generation: u64,
    /// There will be no further one.
    is_closed: bool,
}

impl State {
    fn lease(&self) -> Lease {
        Lease { generation: self.generation, is_named: self.opened.id.is_some() }
    }
}

/// Which session something was sent or came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    generation: u64,
    /// Whether the server gave it an id, so that 404 means it is gone.
    pub(super) is_named: bool,
}

/// What opens a session.
#[derive(Default)]
pub(super) struct Opened {
    pub(super) id: Option<HeaderValue>,
    pub(super) revision: Option<HeaderValue>,
}

impl Opened {
    pub(super) fn stamp(&self, headers: &mut HeaderMap) {
        if let Some(id) = &self.id {
            headers.insert(SESSION, id.clone());
        }
        if let Some(revision) = &self.revision {
            headers.insert(REVISION, revision.clone());
        }
    }
}

impl Session {
    /// The session there is, and what its requests carry.
    pub(super) fn now(&self) -> (Lease, Arc<Opened>) {
        let state = self.state();
        (state.lease(), Arc::clone(&state.opened))
    }

    /// Writes the headers of the session, and says which one it is.
    pub(super) fn stamp(&self, headers: &mut HeaderMap) -> Lease {
        let (lease, opened) = self.now();
        opened.stamp(headers);
        lease
    }

    /// Which session there is.
    pub(super) fn lease(&self) -> Lease {
        self.state().lease()
    }

    /// Writes the headers of this session and of no other; `false` when it was replaced or ended.
    pub(super) fn stamp_in(&self, lease: Lease, headers: &mut HeaderMap) -> bool {
        // Judged by what was written, so that no other session can begin in between.
        self.stamp(headers) == lease
    }

    /// Whether a lease is of a session that was replaced or ended.
    pub(super) fn is_over(&self, lease: Lease) -> bool {
        self.state().generation != lease.generation
    }

    /// Waits until the session of a lease is replaced or ends.
    pub(super) async fn over(&self, lease: Lease) {
        loop {
            let turned = self.turned.notified();
            if self.is_over(lease) {
                return;
            }
            turned.await;
        }
    }

    /// The call that opened it.
    pub(super) fn opening(&self) -> Option<Call> {
        self.state().opening.clone()
    }

    /// Notes what was granted.
    pub(super) fn note(&self, wish: Wish) {
        self.state().wishes.note(wish);
    }

    /// What a new session is to be asked.
    pub(super) fn wishes(&self) -> Vec<Call> {
        self.state().wishes.requests()
    }

    /// The revision that was settled.
    pub(super) fn revision(&self) -> Option<HeaderValue> {
        self.state().opened.revision.clone()
    }

    /// Begins a session; where it is closed for good, the new one is given back, to be ended at the server.
    pub(super) fn open(&self, opened: Opened, by: Call) -> Result<(), Opened> {
        let mut state = self.state();
        if state.is_closed {
            return Err(opened);
        }
        state.generation += 1;
        state.opened = Arc::new(opened);
        state.opening = Some(by);
        drop(state);
        self.turned.notify_waiters();
        Ok(())
    }

    /// Ends it for good; gives the headers to tell the server so, where it has an id.
    pub(super) fn close(&self) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        let lease = self.stamp(&mut headers);
        // The calls in it hold the way to this session.
        *self.state() =
            State { generation: lease.generation + 1, is_closed: true, ..State::default() };
        self.turned.notify_waiters();
        lease.is_named.then_some(headers)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
