//! Why serving ended, and why a call was refused: the one place where reasons become codes.
//!
//! Applies to: inbound.

use std::fmt;

use mgp_transport::{Closed, StdioError};
use mgp_types::mgp::Permission;
use mgp_types::service::BadHeaderPlan;
use mgp_types::{ErrorCode, Object, Recovery, RpcError};

use crate::tool::Standing;

/// Why a server could not serve, or stopped.
///
/// `Debug` says the same as `Display`: a `main` that returns this error shows its sentence.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// Standard input and output cannot be used.
    #[error("cannot serve on stdin and stdout: {0}")]
    Stdio(#[from] StdioError),
    /// The connection failed.
    #[error(transparent)]
    Connection(Closed),
    /// The server was put together wrongly.
    #[error("the server cannot be built: {0}")]
    Build(#[from] RpcError),
    /// The address cannot be listened at.
    #[cfg(feature = "http")]
    #[error("cannot listen at `{address}`, which should be HOST:PORT: {source}")]
    Listen {
        /// The address as it was given.
        address: String,
        /// Why.
        source: std::io::Error,
    },
    /// A host or origin of the configuration is written in a way no browser writes it.
    #[cfg(feature = "http")]
    #[error("`{wrong}` is no {what}: write {right}")]
    Listed {
        /// What it should be.
        what: &'static str,
        /// As it was given.
        wrong: String,
        /// How it is written.
        right: &'static str,
    },
    /// The path to serve is none.
    #[cfg(feature = "http")]
    #[error("the endpoint `{0}` is no path: it must begin with `/`")]
    Endpoint(String),
    /// Nobody would be asked who they are.
    #[cfg(feature = "http")]
    #[error(
        "`{0}` would serve anyone: ask callers for a key with `.auth(…)`, or say `.no_auth()` (on loopback only)"
    )]
    Unguarded(std::net::SocketAddr),
    /// Anyone on the network would be served.
    #[cfg(feature = "http")]
    #[error(
        "`{0}` can be reached from other machines, so `.no_auth()` is no choice there: use `.auth(…)`"
    )]
    Exposed(std::net::SocketAddr),
}

impl fmt::Debug for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a server cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Flaw {
    /// The name of a tool cannot be used.
    #[error("tool `{0}`: a name is 1 to 128 of the characters A-Z a-z 0-9 _ . / -")]
    Name(String),
    /// The name of a tool belongs to the protocol.
    #[error(
        "tool `{tool}`: names that begin with `{prefix}` belong to the protocol; choose another"
    )]
    Reserved { tool: String, prefix: &'static str },
    /// The annotations of a tool's arguments mean nothing.
    #[error("tool `{tool}`: {why}")]
    Headers { tool: String, why: BadHeaderPlan },
    /// Two tools have one name.
    #[error("tool `{0}` is there twice; rename one, or put it with `replace` where that is meant")]
    Twice(String),
    /// A tool needs state that the server lacks.
    #[error(
        "tool `{tool}` takes `State<{state}>`, and the server has none; give it one with `.state(…)`"
    )]
    State { tool: String, state: &'static str },
    /// A prompt, resource or completion needs state that the server lacks.
    #[error("{what} takes `State<{state}>`, and the server has none; give it one with `.state(…)`")]
    Lacks { what: String, state: &'static str },
    /// The server is governed twice.
    #[error("the server is governed twice; one `governed` is enough")]
    GovernedTwice,
    /// Two prompts or resources have one name.
    #[error("{0} is there twice")]
    Again(String),
    /// A URI template is not understood.
    #[error("the URI template `{template}` {why}")]
    Template { template: String, why: &'static str },
    /// Something is completed that is not there.
    #[error("{what} has no argument `{argument}` to complete")]
    Completion { what: String, argument: String },
    /// A permission means nothing.
    #[error(
        "tool `{tool}` needs the unknown permission `{permission}`; use a standard one, or a reverse-domain name such as `com.example.{permission}`"
    )]
    Permission { tool: String, permission: Permission },
}

/// All that keeps a server from being built.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub(crate) struct Flaws(pub(crate) Vec<Flaw>);

impl From<Flaws> for RpcError {
    fn from(flaws: Flaws) -> Self {
        Self::internal(flaws.to_string()).because(flaws)
    }
}

/// A tool was called without a permission it needs (MGP §3).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{tool}` needs the permission `{permission}`, which is {}; {}", .standing.as_str(), remedy(*.standing))]
pub(crate) struct PermissionMissing {
    tool: String,
    permission: Permission,
    standing: Standing,
}

impl PermissionMissing {
    pub(crate) fn new(tool: &str, permission: Permission, standing: Standing) -> Self {
        Self { tool: tool.to_owned(), permission, standing }
    }
}

impl From<PermissionMissing> for RpcError {
    fn from(missing: PermissionMissing) -> Self {
        let code = ErrorCode::PERMISSION_DENIED;
        let mut details = Object::new();
        // Words can always be written.
        let _ = details.encode("permission", missing.permission.as_str());
        let _ = details.encode("status", missing.standing.as_str());
        let _ = details.encode("remedy", remedy(missing.standing));
        let mut recovery = Recovery::default_for(code).unwrap_or_default();
        recovery.details = Some(details);
        Self::new(code, missing.to_string()).recovery(recovery).because(missing)
    }
}

/// What helps a call that lacks a permission: the client decides about it, so the client can change that.
fn remedy(standing: Standing) -> &'static str {
    match standing {
        Standing::Deferred => "call again once the client has decided about it",
        _ => "whoever runs the client can grant it to this server",
    }
}

/// A refusal of what bounds this server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    /// A session or stream watches too many resources.
    #[error(
        "more than {0} resources cannot be watched at once; end the watch of another one first"
    )]
    TooManyWatched(usize),
    /// Too many sessions and streams are told about changes.
    #[error(
        "too many sessions and streams are told about changes; try again once others have ended, or ask for lists without being told"
    )]
    TooManyListeners,
}

impl From<Refusal> for RpcError {
    fn from(refusal: Refusal) -> Self {
        Self::new(ErrorCode::RESOURCE_EXHAUSTED, refusal.to_string())
    }
}
