//! Errors, and their JSON-RPC codes (MGP §14.3, §16).

use mgp_types::store::StoreError;
use mgp_types::{ErrorCode, RpcError};

/// An error of the index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The keyword index failed. It is in memory, so the likely cause is that memory ran out or that a thread panicked.
    #[error("the keyword index failed: {0}")]
    Keywords(#[source] tantivy::TantivyError),
    /// The database of the index cannot be read or written.
    #[error("the index cannot be stored: {0}")]
    Store(#[from] StoreError),
    /// The id of a server is empty or too long.
    #[error("the server id has {bytes} bytes; 1 to {most} are allowed")]
    ServerId {
        /// The length of the server's id, in bytes.
        bytes: usize,
        /// The maximum length of a server's id, in bytes.
        most: usize,
    },
}

/// An error of a context budget (§16.8).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BudgetError {
    /// The reserves and the cache limit of the budget add up to more than `max_tokens`.
    #[error(
        "`pinned_reserve`, `discovery_reserve` and `cache_limit` add up to {parts} tokens, `max_tokens` is {most}; lower one of them or raise it"
    )]
    Parts {
        /// The sum of the parts of the budget, in tokens.
        parts: u64,
        /// The value of `max_tokens` of the budget.
        most: u64,
    },
    /// The pinned tools and the meta-tools need more tokens than are reserved for them.
    #[error(
        "the pinned tools and the meta-tools cost {tokens} tokens, `pinned_reserve` is {reserve}; raise it{}",
        unpin(largest.as_ref())
    )]
    Pins {
        /// The cost of the pinned tools and the meta-tools.
        tokens: u64,
        /// The size of `pinned_reserve`, in tokens.
        reserve: u64,
        /// The pinned tool that needs the most tokens, with its number of tokens.
        largest: Option<(String, u32)>,
    },
}

fn unpin(largest: Option<&(String, u32)>) -> String {
    largest.map_or_else(String::new, |(tool, tokens)| {
        format!(" or unpin tools, first `{tool}` with {tokens} tokens")
    })
}

/// An error of a session (§16.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The handle is unknown, expired, or belongs to another principal; callers cannot tell which.
    #[error("unknown `session_handle`; leave it out of `mgp/tools/request` to get a new one")]
    UnknownHandle,
    /// The operating system provided no random bytes for a handle.
    #[error("cannot open a session: the system has no randomness")]
    NoRandomness,
}

/// An invalid request about tools (§16.5–§16.8).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// A member of the request is too long, or a list in it has too many elements.
    #[error("`{member}` has {count} {what}; at most {most} are allowed")]
    TooMuch {
        /// The name of the member.
        member: &'static str,
        /// The unit that was counted: bytes, or the name of the elements.
        what: &'static str,
        /// The maximum count.
        most: usize,
        /// The actual count.
        count: usize,
    },
    /// A word in a request is not one of the permitted values.
    #[error("unknown {what} `{word}`; known: {known}")]
    UnknownWord {
        /// The kind of the value, e.g. `order` or `risk level`.
        what: &'static str,
        /// The unknown word, truncated.
        word: String,
        /// The values that are allowed.
        known: String,
    },
    /// No capability was requested.
    #[error("`requirements.capabilities` is empty; describe each capability in a few words")]
    NoCapability,
    /// The tool does not exist, or the caller is not allowed to call it.
    #[error("unknown tool `{0}`; use a name from the list of tools or from a search for tools")]
    UnknownTool(String),
    /// Several servers have a tool with this name.
    #[error("several servers have a tool `{name}`; use one of {qualified}")]
    AmbiguousTool {
        /// The ambiguous name.
        name: String,
        /// The qualified names of the tools with this name.
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
