//! Requests that stand alone: a call lives as long as its response, and writes to nothing else.
//!
//! Applies to: inbound.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mgp_types::RpcError;
use mgp_types::service::{
    BoxFuture, Call, Kind, Link, Peer, Principal, Reply, Scope, ScopeKind, closed, write_call,
};

use super::stream::Stream;

/// The scopes of the callers that have requests running.
///
/// Requests of one principal share a scope, so that a cancellation which comes as a request of its own finds its call.
#[derive(Debug, Default)]
pub(super) struct Callers(Mutex<HashMap<Principal, Caller, ahash::RandomState>>);

/// Scopes that are kept for callers without a running request: most call again soon.
const KEPT: usize = 64;

#[derive(Debug)]
struct Caller {
    scope: Scope,
    requests: usize,
}

impl Callers {
    /// Enters a request of a principal.
    pub(super) fn enter(self: &Arc<Self>, principal: Principal) -> Within {
        let mut callers = self.callers();
        let scope = if let Some(caller) = callers.get_mut(&principal) {
            caller.requests += 1;
            caller.scope.clone()
        } else {
            let scope = Scope::new(ScopeKind::Handle);
            callers.insert(principal.clone(), Caller { scope: scope.clone(), requests: 1 });
            scope
        };
        drop(callers);
        Within { scope, principal, callers: Arc::clone(self) }
    }

    fn callers(&self) -> MutexGuard<'_, HashMap<Principal, Caller, ahash::RandomState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request within the scope of its principal.
#[derive(Debug)]
pub(super) struct Within {
    pub(super) scope: Scope,
    pub(super) principal: Principal,
    callers: Arc<Callers>,
}

impl Drop for Within {
    fn drop(&mut self) {
        let mut callers = self.callers.callers();
        let Some(caller) = callers.get_mut(&self.principal) else { return };
        caller.requests -= 1;
        if caller.requests == 0 && callers.len() > KEPT {
            callers.remove(&self.principal);
            drop(callers);
            self.scope.end();
        }
    }
}

/// The way back to the caller of one request: its own response.
#[derive(Debug)]
pub(super) struct PostLink(pub(super) Arc<Stream>);

impl PostLink {
    pub(super) fn peer(stream: &Arc<Stream>) -> Peer {
        Peer::new(Arc::new(Self(Arc::clone(stream))))
    }
}

impl Link for PostLink {
    fn send(&self, call: Call) -> BoxFuture<'static, Result<Reply, RpcError>> {
        if call.kind() == Kind::Request {
            let why =
                "a server asks nothing by itself in this revision; a result can say what it needs";
            return Box::pin(std::future::ready(Err(RpcError::internal(why))));
        }
        let stream = Arc::clone(&self.0);
        Box::pin(async move {
            let gone = || closed("the client is gone");
            stream.room().await.map_err(|_| gone())?;
            stream
                .push(|out| {
                    write_call(out, None, call.method().as_str(), call.params(), call.hop());
                })
                .map_err(|_| gone())?;
            Ok(Reply::None)
        })
    }

    fn is_closed(&self) -> bool {
        self.0.is_ended()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(number: usize) -> Principal {
        Principal::new("acme", number.to_string())
    }

    #[test]
    fn requests_of_one_principal_share_a_scope() {
        let callers = Arc::new(Callers::default());
        let one = callers.enter(caller(1));
        let scopes = [callers.enter(caller(1)), callers.enter(caller(2))].map(|w| w.scope.id());
        assert_eq!(scopes[0], one.scope.id());
        assert_ne!(scopes[1], one.scope.id());
        let agent = callers.enter(caller(1).agent("a"));
        assert_ne!(agent.scope.id(), one.scope.id());
        let scope = one.scope.clone();
        drop((one, agent));
        assert!(!scope.is_ended(), "most call again soon");
        assert_eq!(callers.enter(caller(1)).scope.id(), scope.id());
    }

    #[test]
    fn scopes_of_callers_that_left_are_bounded() {
        let callers = Arc::new(Callers::default());
        let running: Vec<_> = (0..1_000).map(|number| callers.enter(caller(number))).collect();
        let scopes: Vec<_> = running.iter().map(|within| within.scope.clone()).collect();
        assert!(scopes.iter().all(|scope| !scope.is_ended()), "a call runs in each");
        drop(running);
        let left = scopes.iter().filter(|scope| !scope.is_ended()).count();
        assert_eq!((left, callers.callers().len()), (KEPT, KEPT));
    }
}
