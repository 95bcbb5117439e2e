//! The errors of serving, and the refusals of calls with their codes.

use std::fmt;

use mgp_security::GrantState;
use mgp_transport::{CloseReason, StdioError};
use mgp_types::mgp::Permission;
use mgp_types::service::HeaderPlanError;
use mgp_types::{ErrorCode, Object, Recovery, RpcError};

/// The reason why a server could not serve, or stopped.
///
/// `Debug` shows the same text as `Display`, for a `main` that returns this error.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Standard input and output cannot be used.
    #[error("cannot serve on stdin and stdout: {0}")]
    Stdio(#[from] StdioError),
    /// The connection to the peer failed, for this reason.
    #[error(transparent)]
    Connection(CloseReason),
    /// The server cannot be built.
    #[error("the server cannot be built: {0}")]
    Build(#[from] RpcError),
    /// The server cannot listen on the given address.
    #[cfg(feature = "http")]
    #[error("cannot listen on `{address}`: {source}; {}", listen_remedy(.source))]
    Listen {
        /// The address as the author gave it.
        address: String,
        /// The error that the operating system reported.
        source: std::io::Error,
    },
    /// A host or origin in the configuration does not have the form in which browsers send it.
    #[cfg(feature = "http")]
    #[error("`{wrong}` is not a valid {what}; use {right}")]
    Listed {
        /// The kind of entry: host or origin.
        what: &'static str,
        /// The entry as the author gave it.
        wrong: String,
        /// The form that the entry should have.
        right: &'static str,
    },
    /// The HTTP endpoint that the author gave is not a path.
    #[cfg(feature = "http")]
    #[error("the endpoint `{0}` is not a path; begin it with `/`")]
    Endpoint(String),
    /// The author has chosen neither an authentication layer nor [`HttpServer::no_auth`](crate::HttpServer::no_auth).
    #[cfg(feature = "http")]
    #[error(
        "`{0}` would serve callers without authentication; add `.auth(…)`, or `.no_auth()` on a loopback address"
    )]
    Unguarded(std::net::SocketAddr),
    /// The server would serve callers without credentials, but other machines can reach the address.
    #[cfg(feature = "http")]
    #[error(
        "`{0}` is reachable from other machines, so it may not serve anonymous callers; use `.auth(…)`"
    )]
    Exposed(std::net::SocketAddr),
}

/// Returns advice for the author about an error of the operating system that concerns the address.
#[cfg(feature = "http")]
fn listen_remedy(error: &std::io::Error) -> &'static str {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => "choose another port, or stop the program that uses it",
        std::io::ErrorKind::PermissionDenied => "choose a port from 1024 on",
        _ => "use HOST:PORT, e.g. 127.0.0.1:8000",
    }
}

impl fmt::Debug for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A mistake of the server's author that prevents the server from being built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BuildError {
    /// A tool has an invalid name.
    #[error("tool `{0}`: a name is 1 to 128 of the characters A-Z a-z 0-9 _ . / -")]
    InvalidName(String),
    /// A tool has a name that the protocol reserves.
    #[error(
        "tool `{tool}`: names that begin with `{prefix}` are reserved by the protocol; choose another"
    )]
    ReservedName { tool: String, prefix: &'static str },
    /// The arguments of a tool are not an object.
    #[error(
        "tool `{tool}`: the `type` of its arguments' schema is {kind}, and must be \"object\"; take a struct with named fields, e.g. `Args<Greet>`"
    )]
    ArgumentsNotObject { tool: String, kind: String },
    /// A tool has an output schema, and its function returns no structured content.
    #[error(
        "tool `{0}` has an output schema, and its function returns no structured content; return `Json<…>`, or omit the schema"
    )]
    OutputNotStructured(String),
    /// An argument of a tool has an invalid `x-mcp-header` annotation.
    #[error("tool `{tool}`: {why}")]
    InvalidHeaders { tool: String, why: HeaderPlanError },
    /// Two tools of the server have the same name.
    #[error("tool `{0}` is defined twice; rename one, or replace the first with `replace`")]
    DuplicateTool(String),
    /// A tool needs state that the server lacks.
    #[error(
        "tool `{tool}` takes `State<{state}>`, and the server has none; give it one with `.state(…)`"
    )]
    MissingToolState { tool: String, state: &'static str },
    /// A prompt, resource or completion needs state that the server lacks.
    #[error("{what} takes `State<{state}>`, and the server has none; give it one with `.state(…)`")]
    MissingState { what: String, state: &'static str },
    /// The server has transactions, but no idempotency keys, or keeps the keys only in memory, where a restart loses
    /// them.
    #[error(
        "transactions need idempotency keys in a store; add `.extension(Idempotency::open(…))`"
    )]
    TransactionsWithoutKeys,
    /// [`Server::governed`](crate::Server::governed) was called more than once for the server.
    #[error("the server is governed twice; one `governed` is enough")]
    GovernedTwice,
    /// [`Server::change_notifier`](crate::Server::change_notifier) was called after resources or prompts were added.
    #[error(
        "resources or prompts were added before `change_notifier`; call `change_notifier` first"
    )]
    LateChangeNotifier,
    /// [`Server::event_hub`](crate::Server::event_hub) was called after a channel was declared, or twice.
    #[error(
        "a channel or a hub was set before `event_hub`, which replaces it; call `event_hub` first, and once"
    )]
    LateEventHub,
    /// Two prompts have the same name, or two resources the same URI.
    #[error("{0} is defined twice; rename one")]
    Duplicate(String),
    /// A URI template is invalid.
    #[error("the URI template `{template}` {why}")]
    InvalidTemplate { template: String, why: &'static str },
    /// A completion function was set for an argument that does not exist.
    #[error("{what} has no argument `{argument}` to complete")]
    UnknownArgument { what: String, argument: String },
    /// A tool requires a permission whose name is not valid.
    #[error(
        "tool `{tool}` needs the unknown permission `{permission}`; use a standard one, or a reverse-domain name such as `com.example.{permission}`"
    )]
    UnknownPermission { tool: String, permission: Permission },
}

/// All mistakes that prevent a server from being built; [`Server::into_stack`](crate::Server::into_stack) returns them
/// as one error.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub(crate) struct BuildErrors(pub(crate) Vec<BuildError>);

impl From<BuildErrors> for RpcError {
    fn from(flaws: BuildErrors) -> Self {
        Self::internal(flaws.to_string()).because(flaws)
    }
}

/// The refusal of a call because the client has not granted a permission that the tool needs (MGP §3).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{tool}` needs the permission `{permission}`, which is {}; {}", .standing.as_str(), remedy(*.standing))]
pub(crate) struct PermissionMissing {
    tool: String,
    permission: Permission,
    standing: GrantState,
}

impl PermissionMissing {
    pub(crate) fn new(tool: &str, permission: Permission, standing: GrantState) -> Self {
        Self { tool: tool.to_owned(), permission, standing }
    }
}

impl From<PermissionMissing> for RpcError {
    fn from(missing: PermissionMissing) -> Self {
        let code = ErrorCode::PERMISSION_DENIED;
        let details = Object::new()
            .with("permission", missing.permission.as_str())
            .with("status", missing.standing.as_str())
            .with("remedy", remedy(missing.standing));
        let mut recovery = Recovery::default_for(code).unwrap_or_default();
        recovery.details = Some(details);
        Self::new(code, missing.to_string()).recovery(recovery).because(missing)
    }
}

/// Returns the remedy for a missing permission, which only the client can grant.
fn remedy(standing: GrantState) -> &'static str {
    match standing {
        GrantState::Deferred => "call again once the client has decided about it",
        _ => "the client's operator can grant it to this server",
    }
}

/// The refusal of a request that would exceed a limit of this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// A session or stream has too many subscriptions to resources.
    #[error("cannot subscribe to more than {0} resources; unsubscribe from another one first")]
    TooManyWatched(usize),
    /// The sessions and streams of one client have too many subscriptions to resources together.
    #[error(
        "your sessions and streams have too many subscriptions to resources; unsubscribe from others, or end sessions"
    )]
    ClientLimit,
    /// Too many sessions and streams receive change notifications.
    #[error(
        "too many clients receive change notifications; retry later, or poll the lists instead"
    )]
    TooManyListeners,
}

impl From<Refusal> for RpcError {
    fn from(refusal: Refusal) -> Self {
        Self::new(ErrorCode::RESOURCE_EXHAUSTED, refusal.to_string())
    }
}
