//! Why the index refuses something, and the one place where reasons become codes (MGP §14.3, §16).
//!
//! Applies to: both.

use mgp_types::store::StoreError;
use mgp_types::{ErrorCode, RpcError};

/// Why the index could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The keyword index failed; it is in memory, so memory is what it lacks, or one of its threads died.
    #[error("the keyword index failed: {0}")]
    Keywords(#[source] tantivy::TantivyError),
    /// The database that keeps the index cannot be read or written.
    #[error("the index could not be kept: {0}")]
    Store(#[from] StoreError),
    /// A server without an id, or with one that is too long.
    #[error("a server id has 1 to {most} bytes, this one has {bytes}")]
    ServerId {
        /// How many it has.
        bytes: usize,
        /// How many it may have.
        most: usize,
    },
}

/// Why a budget of tools in context cannot be kept (§16.8).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// The parts are more than the whole.
    #[error(
        "`pinned_reserve`, `discovery_reserve` and `cache_limit` add up to {parts} tokens, `max_tokens` is {most}; lower one of them or raise it"
    )]
    Parts {
        /// What they add up to.
        parts: u64,
        /// What they may.
        most: u64,
    },
    /// What is pinned costs more than its reserve.
    #[error(
        "pinned tools and the tools to find tools cost {tokens} tokens, `pinned_reserve` is {reserve}; raise it{}",
        unpin(largest.as_ref())
    )]
    Pins {
        /// What they cost.
        tokens: u64,
        /// What they may.
        reserve: u64,
        /// The tool that costs most, and how much.
        largest: Option<(String, u32)>,
    },
}

fn unpin(largest: Option<&(String, u32)>) -> String {
    largest.map_or_else(String::new, |(tool, tokens)| {
        format!(" or unpin tools, first `{tool}` with {tokens} tokens")
    })
}

/// Why a call has no session (§16.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The handle never was, has ended, or is somebody else's; nobody is told which.
    #[error("unknown `session_handle`; leave it out of `mgp/tools/request` to get a new one")]
    UnknownHandle,
    /// The system gives no randomness to make a handle of.
    #[error("no session can be opened: the system gives no randomness")]
    NoRandomness,
}

/// Why a request about tools is not answered (§16.5–§16.8).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// A member is longer, or has more parts, than anything worth asking.
    #[error("`{member}` has at most {most} {what}, this one has {count}")]
    TooMuch {
        /// Which.
        member: &'static str,
        /// Bytes, or what its parts are called.
        what: &'static str,
        /// How many it may have.
        most: usize,
        /// How many it has.
        count: usize,
    },
    /// A word that nobody knows.
    #[error("unknown {what} `{word}`; known: {known}")]
    UnknownWord {
        /// What it should be.
        what: &'static str,
        /// The word, cut.
        word: String,
        /// The words there are.
        known: String,
    },
    /// Nothing is asked for.
    #[error("`requirements.capabilities` is empty; name what the tools must do, a few words each")]
    NoCapability,
    /// No tool of this name, or none the caller may call.
    #[error("unknown tool `{0}`; find tools first, and use a name that was found")]
    UnknownTool(String),
    /// Several servers have a tool of this name.
    #[error("several servers have a tool `{name}`; use one of {qualified}")]
    AmbiguousTool {
        /// The name.
        name: String,
        /// The names that say which.
        qualified: String,
    },
}

impl From<tantivy::TantivyError> for IndexError {
    fn from(error: tantivy::TantivyError) -> Self {
        Self::Keywords(error)
    }
}

impl From<IndexError> for RpcError {
    fn from(error: IndexError) -> Self {
        match error {
            IndexError::Keywords(_) => Self::internal("the tool index failed").because(error),
            IndexError::Store(error) => error.into(),
            IndexError::ServerId { .. } => Self::invalid_params(error),
        }
    }
}

impl From<SessionError> for RpcError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::UnknownHandle => Self::invalid_params(error),
            SessionError::NoRandomness => Self::internal(error.to_string()),
        }
    }
}

impl From<RequestError> for RpcError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::TooMuch { .. }
            | RequestError::UnknownWord { .. }
            | RequestError::NoCapability => Self::invalid_params(error),
            RequestError::UnknownTool(_) => Self::new(ErrorCode::TOOL_NOT_FOUND, error.to_string()),
            RequestError::AmbiguousTool { .. } => {
                Self::new(ErrorCode::TOOL_NAME_CONFLICT, error.to_string())
            }
        }
    }
}
