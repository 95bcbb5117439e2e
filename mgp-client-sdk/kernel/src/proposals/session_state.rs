//! The session states of servers (extension `session_state`), which the kernel keeps for its callers.
//!
//! A caller gets one token of the kernel instead of the states of all servers. So a server's state never reaches
//! another server or an agent, and each server gets its own state back unchanged.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use mgp_types::mcp::Meta;
use mgp_types::mgp::{Extension, ExtensionSet};
use mgp_types::proposal::{CallMembers, Member as _, SessionState};
use mgp_types::service::{Call, Context, Principal, Reply, ServerId};
use mgp_types::sync::Mutex;
use mgp_types::{RpcError, random_name};

/// The maximum number of sessions of all callers. Beyond it, the owner with the most sessions loses its least recently
/// used session.
const MAX_SESSIONS: usize = 1024;

/// The maximum size of all states in bytes. Beyond it, the owner with the most bytes of states loses its least recently
/// used sessions.
const MAX_BYTES: usize = 32 * 1024 * 1024;

/// The states that servers returned, by the caller's session. This handle is cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct SessionStates(Arc<Mutex<Table>>);

mgp_types::opaque_debug!(SessionStates);

#[derive(Default)]
struct Table {
    sessions: HashMap<String, Session>,
    bytes: usize,
    /// A counter that each use of a session increments. Each session stores the value at its last use; the lowest value
    /// belongs to the least recently used session.
    uses: u64,
}

struct Session {
    owner: Principal,
    states: BTreeMap<ServerId, String>,
    used: u64,
}

impl Session {
    /// Returns the total size of the session's states in bytes.
    fn bytes(&self) -> usize {
        self.states.values().map(String::len).sum()
    }
}

/// The caller's token and the server of a running call. They are the key for the session state in the result.
pub(crate) struct OpenSession {
    states: SessionStates,
    /// The caller's token; `None` if the caller has not received one yet.
    token: Option<String>,
    server: ServerId,
}

impl SessionStates {
    /// Replaces the caller's token in a call by the state that the called server last returned. Returns `None` if the
    /// caller does not use session states.
    ///
    /// # Errors
    /// Returns 4000 (invalid arguments) if the token is unknown or belongs to another caller.
    pub(crate) fn open(
        &self,
        call: &mut Call,
        server: &ServerId,
    ) -> Result<Option<OpenSession>, RpcError> {
        if !call.cx().caller.has(Extension::SessionState) {
            return Ok(None);
        }
        let token = call.cx().member::<SessionState>()?.map(|SessionState(token)| token);
        let state = match &token {
            None => None,
            Some(token) => self.0.lock().state(token, &call.cx().principal, server)?,
        };
        let cx = call.cx_mut();
        let mut members = cx.extensions.get::<CallMembers>().cloned().unwrap_or_default();
        members.remove::<SessionState>();
        if let Some(state) = state {
            members.set(&SessionState(state))?;
        }
        cx.extensions.insert(members);
        Ok(Some(OpenSession { states: self.clone(), token, server: server.clone() }))
    }
}

impl OpenSession {
    /// Stores the state that a server with these extensions returned in its result, and puts the caller's token into
    /// the result.
    ///
    /// # Errors
    /// Returns −32603 (internal error) if the system has no randomness for a token.
    pub(crate) fn close(
        self,
        cx: &Context,
        negotiated: ExtensionSet,
        answer: &Result<Reply, RpcError>,
    ) -> Result<(), RpcError> {
        if !negotiated.contains(Extension::SessionState) {
            return Ok(());
        }
        let state = match answer {
            Ok(reply) => match super::read_meta(reply).map(|meta| state_of(&meta)) {
                Some(Some(state)) => state,
                _ => return Ok(()),
            },
            Err(error) => {
                // Remove the state of this server only. The caller's token stays valid for the other servers.
                if let Some(token) = self.token.filter(|_| SessionState::is_invalidated(error)) {
                    self.states.0.lock().forget(&token, &self.server);
                }
                return Ok(());
            }
        };
        let token = self.token.map_or_else(random_name, Ok)?;
        self.states.0.lock().keep(&token, &cx.principal, self.server, state);
        cx.add_to_result(&SessionState(token))
    }
}

/// Returns the state in the `_meta` of a result, unless it is too long.
fn state_of(meta: &Meta) -> Option<String> {
    let state = SessionState::read(Some(meta)).ok().flatten()?;
    if state.is_too_long() {
        let bytes = state.0.len();
        tracing::warn!(bytes, max = SessionState::MAX_BYTES, "session state too long; not kept");
        return None;
    }
    Some(state.0)
}

impl Table {
    fn state(
        &mut self,
        token: &str,
        caller: &Principal,
        server: &ServerId,
    ) -> Result<Option<String>, RpcError> {
        self.uses += 1;
        let session = self.sessions.get_mut(token).filter(|session| session.owner == *caller);
        let session = session.ok_or_else(|| {
            SessionState::invalidated("the kernel has no such session; it may have been restarted")
        })?;
        session.used = self.uses;
        Ok(session.states.get(server).cloned())
    }

    fn keep(&mut self, token: &str, caller: &Principal, server: ServerId, state: String) {
        self.uses += 1;
        let session = self.sessions.entry(token.to_owned()).or_insert_with(|| Session {
            owner: caller.clone(),
            states: BTreeMap::new(),
            used: 0,
        });
        session.used = self.uses;
        self.bytes += state.len();
        let replaced = session.states.insert(server, state);
        self.bytes -= replaced.map_or(0, |state| state.len());
        while self.sessions.len() > MAX_SESSIONS || self.bytes > MAX_BYTES {
            let Some(oldest) = self.oldest_of_most() else { return };
            if let Some(dropped) = self.sessions.remove(&oldest) {
                self.bytes -= dropped.bytes();
            }
        }
    }

    /// Returns the token of the session to drop, which is the least recently used session of an owner. The owner is the
    /// one with the most sessions or, if there are not too many sessions, the one with the most bytes of states.
    fn oldest_of_most(&self) -> Option<String> {
        let are_too_many = self.sessions.len() > MAX_SESSIONS;
        let mut shares = HashMap::<&Principal, usize>::new();
        for session in self.sessions.values() {
            let share = if are_too_many { 1 } else { session.bytes() };
            *shares.entry(&session.owner).or_default() += share;
        }
        let order = |(_, session): &(&String, &Session)| {
            (Reverse(shares.get(&session.owner).copied()), session.used)
        };
        self.sessions.iter().min_by_key(order).map(|(token, _)| token.clone())
    }

    fn forget(&mut self, token: &str, server: &ServerId) {
        let session = self.sessions.get_mut(token);
        let state = session.and_then(|session| session.states.remove(server));
        self.bytes -= state.map_or(0, |state| state.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_that_of_its_caller_and_the_oldest_are_dropped() {
        let (ada, bob) = (Principal::local().agent("ada"), Principal::local().agent("bob"));
        let (one, two) = (ServerId::from("one"), ServerId::from("two"));
        let mut table = Table::default();
        table.keep("t", &ada, one.clone(), "s".to_owned());
        assert_eq!(table.state("t", &ada, &one).unwrap().as_deref(), Some("s"));
        assert_eq!(table.state("t", &ada, &two).unwrap(), None);
        let refused = table.state("t", &bob, &one).unwrap_err();
        assert!(SessionState::is_invalidated(&refused), "{refused}");
        table.forget("t", &one);
        assert_eq!((table.state("t", &ada, &one).unwrap(), table.bytes), (None, 0));

        let long = "s".repeat(SessionState::MAX_BYTES);
        for number in 0..=MAX_BYTES / SessionState::MAX_BYTES {
            table.keep(&number.to_string(), &ada, one.clone(), long.clone());
        }
        assert!(table.bytes <= MAX_BYTES);
        assert!(table.state("0", &ada, &one).is_err());
        assert!(table.state("1", &ada, &one).is_ok());
        for number in 0..=MAX_SESSIONS {
            table.keep(&format!("n{number}"), &ada, one.clone(), "s".to_owned());
        }
        assert_eq!(table.sessions.len(), MAX_SESSIONS);
        assert_eq!(table.bytes, table.sessions.values().map(Session::bytes).sum::<usize>());
    }

    #[test]
    fn a_caller_with_many_or_large_sessions_ends_no_session_of_others() {
        let (ada, eve) = (Principal::local().agent("ada"), Principal::local().agent("eve"));
        let server = ServerId::from("one");
        let mut table = Table::default();
        table.keep("t", &ada, server.clone(), "s".to_owned());
        for number in 0..MAX_SESSIONS {
            table.keep(&format!("n{number}"), &eve, server.clone(), "s".to_owned());
        }
        assert_eq!(table.sessions.len(), MAX_SESSIONS);
        assert!(table.state("n0", &eve, &server).is_err());
        assert!(table.state("t", &ada, &server).is_ok());

        let long = "s".repeat(SessionState::MAX_BYTES);
        for number in 0..=MAX_BYTES / SessionState::MAX_BYTES {
            let token = format!("n{}", MAX_SESSIONS - 1 - number);
            table.keep(&token, &eve, server.clone(), long.clone());
        }
        assert!(table.bytes <= MAX_BYTES);
        assert_eq!(table.state("t", &ada, &server).unwrap().as_deref(), Some("s"));
    }
}
