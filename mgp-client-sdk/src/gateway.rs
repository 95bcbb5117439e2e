//! What a program needs that passes the calls of others on to servers: a gateway.
//!
//! - [`supervise`] starts a server whose command or address is found anew at each start.
//! - [`ungated`] and [`ungated_supervised`] give the stacks without gates, for requests of the gateway itself.
//! - [`ask_unattributed`] finds the caller to ask when a server asks outside of any call.
//! - [`AwaitLegacyTask`] makes a [`Hop`](crate::Hop) wait for the task of a legacy server.
//! - [`WeakClient`] tells two connections of one server apart without keeping either alive.
//!
//! The kernel is built on these; clients of a single server need none of them.

use std::sync::Arc;

use mgp_lifecycle::SuperviseConfig;
use mgp_types::service::{BoxFuture, Context, SpawnError, Stack};

use crate::builder::ClientBuilder;
use crate::client::Client;
pub use crate::client::WeakClient;
use crate::error::Error;
pub use crate::supervised::ServerTarget;
use crate::supervised::SupervisedClient;
pub use crate::switchboard::AwaitLegacyTask;
use crate::wire::FindCaller;

/// Creates a supervised client whose target is resolved at each start.
///
/// # Errors
/// As [`ClientBuilder::supervise`].
///
/// # Panics
/// Outside a tokio runtime.
pub fn supervise<F>(
    builder: ClientBuilder,
    resolve: F,
    config: SuperviseConfig,
) -> Result<SupervisedClient, Error>
where
    F: Fn() -> BoxFuture<'static, Result<ServerTarget, SpawnError>> + Send + Sync + 'static,
{
    SupervisedClient::new(builder, Arc::new(resolve), config)
}

/// Finds, by the method of the question, the caller to ask when a server asks outside of any call.
///
/// Without it, or if `find` returns `None`, such a question is refused.
pub fn ask_unattributed(
    builder: ClientBuilder,
    find: impl Fn(&str) -> Option<Context> + Send + Sync + 'static,
) -> ClientBuilder {
    builder.config(|config| config.unattributed = Some(FindCaller::new(find)))
}

/// Returns the stack of a connection without gates.
///
/// Nothing is checked or recorded on it: it is for requests that the gateway makes for itself, never for a caller's.
#[must_use]
pub fn ungated(client: &Client) -> &Stack {
    client.ungated()
}

/// Returns the stack of a supervised server without gates; see [`ungated`].
#[must_use]
pub fn ungated_supervised(client: &SupervisedClient) -> &Stack {
    client.ungated()
}

/// Returns a handle that does not keep the client alive.
#[must_use]
pub fn weak(client: &Client) -> WeakClient {
    client.weak()
}
