//! The running calls, by their scope (e.g. their connection) and by their id in that scope.

use std::collections::hash_map::{Entry, HashMap};
use std::sync::Arc;

use mgp_types::Id;
use mgp_types::service::{CallKey, ScopeId};
use mgp_types::sync::Mutex;

use super::signal::CancelSignal;
use crate::chunk::KeptBytes;

/// The running calls of a stack, shared by all connections that use the stack.
#[derive(Clone, Debug, Default)]
pub(super) struct RunningCalls {
    table: Arc<Mutex<Table>>,
    /// The counter of the bytes of sent chunks that are still kept, over all calls of the stack.
    kept: KeptBytes,
}

type Table = HashMap<(ScopeId, Id), CallsWithId, ahash::RandomState>;

/// The running calls with the same id in one scope: usually a single one, but some hosts send the same id with every
/// request.
#[derive(Debug)]
enum CallsWithId {
    One(CallKey, Arc<CancelSignal>),
    Many(Vec<(CallKey, Arc<CancelSignal>)>),
}

impl RunningCalls {
    pub(super) fn kept(&self) -> &KeptBytes {
        &self.kept
    }

    pub(super) fn insert(
        &self,
        scope: ScopeId,
        id: Id,
        key: CallKey,
        signal: Arc<CancelSignal>,
    ) -> RunningCall {
        let id = (scope, id);
        match self.table.lock().entry(id.clone()) {
            Entry::Vacant(vacant) => {
                vacant.insert(CallsWithId::One(key, signal));
            }
            Entry::Occupied(mut occupied) => {
                let calls_with_id = occupied.get_mut();
                let mut calls =
                    match std::mem::replace(calls_with_id, CallsWithId::Many(Vec::new())) {
                        CallsWithId::One(key, signal) => vec![(key, signal)],
                        CallsWithId::Many(calls) => calls,
                    };
                calls.push((key, signal));
                *calls_with_id = CallsWithId::Many(calls);
            }
        }
        RunningCall { calls: self.clone(), id, key }
    }

    /// Returns the signal of the call with an id. Returns `None` if no call has that id, or if several calls have it,
    /// because then it is unclear which call is meant.
    pub(super) fn get(&self, scope: ScopeId, id: &Id) -> Option<Arc<CancelSignal>> {
        match self.table.lock().get(&(scope, id.clone()))? {
            CallsWithId::One(_, signal) => Some(Arc::clone(signal)),
            CallsWithId::Many(calls) => match calls.as_slice() {
                [(_, signal)] => Some(Arc::clone(signal)),
                _ => None,
            },
        }
    }

    pub(super) fn len(&self) -> usize {
        let count = |calls: &CallsWithId| match calls {
            CallsWithId::One(..) => 1,
            CallsWithId::Many(calls) => calls.len(),
        };
        self.table.lock().values().map(count).sum()
    }
}

/// The registration of a call in [`RunningCalls`]; dropping it removes the call from there.
#[derive(Debug)]
pub(super) struct RunningCall {
    calls: RunningCalls,
    id: (ScopeId, Id),
    key: CallKey,
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        let mut table = self.calls.table.lock();
        let empty = match table.get_mut(&self.id) {
            Some(CallsWithId::One(key, _)) => *key == self.key,
            Some(CallsWithId::Many(calls)) => {
                calls.retain(|(key, _)| *key != self.key);
                calls.is_empty()
            }
            None => false,
        };
        if empty {
            table.remove(&self.id);
        }
    }
}
