//! The calls that run, by the scope they came in and the id they have there.
//!
//! Applies to: inbound.

use std::collections::hash_map::{Entry, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mgp_types::Id;
use mgp_types::service::{CallKey, ScopeId};

use super::signal::CancelSignal;

/// Calls in flight; shared by all connections of a stack.
#[derive(Clone, Debug, Default)]
pub(super) struct Flights(Arc<Mutex<Table>>);

type Table = HashMap<(ScopeId, Id), Same, ahash::RandomState>;

/// The calls under one id: one is the rule, but some hosts send the same id on every request.
#[derive(Debug)]
enum Same {
    One(CallKey, Arc<CancelSignal>),
    Many(Vec<(CallKey, Arc<CancelSignal>)>),
}

impl Flights {
    pub(super) fn enter(
        &self,
        scope: ScopeId,
        id: Id,
        key: CallKey,
        signal: Arc<CancelSignal>,
    ) -> Flight {
        let place = (scope, id);
        match self.table().entry(place.clone()) {
            Entry::Vacant(vacant) => {
                vacant.insert(Same::One(key, signal));
            }
            Entry::Occupied(mut occupied) => {
                let same = occupied.get_mut();
                let mut calls = match std::mem::replace(same, Same::Many(Vec::new())) {
                    Same::One(key, signal) => vec![(key, signal)],
                    Same::Many(calls) => calls,
                };
                calls.push((key, signal));
                *same = Same::Many(calls);
            }
        }
        Flight { flights: self.clone(), place, key }
    }

    /// The call with an id, if exactly one has it: of several nobody can say which is meant.
    pub(super) fn only(&self, scope: ScopeId, id: &Id) -> Option<Arc<CancelSignal>> {
        match self.table().get(&(scope, id.clone()))? {
            Same::One(_, signal) => Some(Arc::clone(signal)),
            Same::Many(calls) => match calls.as_slice() {
                [(_, signal)] => Some(Arc::clone(signal)),
                _ => None,
            },
        }
    }

    pub(super) fn len(&self) -> usize {
        let calls = |same: &Same| match same {
            Same::One(..) => 1,
            Same::Many(calls) => calls.len(),
        };
        self.table().values().map(calls).sum()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a call in the table while it runs.
#[derive(Debug)]
pub(super) struct Flight {
    flights: Flights,
    place: (ScopeId, Id),
    key: CallKey,
}

impl Drop for Flight {
    fn drop(&mut self) {
        let mut table = self.flights.table();
        let empty = match table.get_mut(&self.place) {
            Some(Same::One(key, _)) => *key == self.key,
            Some(Same::Many(calls)) => {
                calls.retain(|(key, _)| *key != self.key);
                calls.is_empty()
            }
            None => false,
        };
        if empty {
            table.remove(&self.place);
        }
    }
}
