//! The extractor for state of the server that all calls share.

use std::any::type_name;
use std::ops::Deref;
use std::sync::Arc;

use mgp_types::RpcError;
use mgp_types::service::Extensions;

use super::{FromCall, ToolRequest};

/// The extractor for the server's value of the type `T`, which is set with [`Server::state`](crate::Server::state).
///
/// A server cannot be built if it lacks a value that one of its tools extracts.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use mgp_server_sdk::State;
/// use mgp_server_sdk::prelude::*;
///
/// let next = Tool::new("next", "The next number", |State(count): State<AtomicU64>| async move {
///     count.fetch_add(1, Ordering::Relaxed).to_string()
/// });
/// assert!(Server::new("counter", "1.0").tool(next.clone()).into_stack().is_err());
/// assert!(Server::new("counter", "1.0").state(AtomicU64::new(1)).tool(next).into_stack().is_ok());
/// ```
#[derive(Debug)]
pub struct State<T>(pub Arc<T>);

impl<T> Clone for State<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for State<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Send + Sync + 'static> FromCall for State<T> {
    fn from_call(request: &ToolRequest) -> Result<Self, RpcError> {
        // This fails only in an extractor of the author that calls this function, but lacks the state in `needs`.
        request.state().map(State).ok_or_else(|| {
            RpcError::internal(format!("the server has no state `{}`", type_name::<T>()))
        })
    }

    fn needs() -> Vec<RequiredState> {
        vec![RequiredState::state::<T>()]
    }
}

/// The type of a value that a function takes as [`State`]; the server must have such a value.
#[derive(Clone, Copy, Debug)]
pub struct RequiredState {
    name: &'static str,
    is_met: fn(&Extensions) -> bool,
}

impl RequiredState {
    /// Creates the requirement of a value of the type `T`.
    #[must_use]
    pub fn state<T: Send + Sync + 'static>() -> Self {
        Self { name: type_name::<T>(), is_met: |state| state.get::<T>().is_some() }
    }

    /// Returns the name of the type.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub(crate) fn is_met(&self, state: &Extensions) -> bool {
        (self.is_met)(state)
    }
}
