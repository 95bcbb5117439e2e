//! The refusals of this crate, and the only place where they are mapped to error codes (MGP §14.3).

use mgp_types::service::{AuditError, Rule, ServerId};
use mgp_types::{ErrorCode, Object, Recovery, RpcError};

use crate::access::{AccessDenied, CredentialsExpired, NotOperator};
#[cfg(feature = "auth")]
use crate::auth::AuthRefused;
use crate::definition::{DecisionRefused, DefinitionRefused};
use crate::permission::{PermissionRefused, RefusalKind};
use crate::scope::{ScopesMissing, SessionEnded};
use crate::state::ChangeError;
#[cfg(feature = "schemas")]
use crate::tool::ArgumentsRefused;
use crate::tool::{ConfirmRefused, Unconfirmed, ValidationBlocked, VersionRefused};

/// A refusal of a security layer.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The audit log cannot record the call or change, so it is not made.
    #[error("the call was not run: {0}")]
    Unaudited(#[source] AuditError),
    /// A tool was called with a notification instead of a request.
    #[error("a tool must be called with a request, because a notification gets no answer")]
    NotARequest(#[source] Rule),
    /// No access entry or policy allows the call, or one of them denies it.
    #[error(transparent)]
    AccessDenied(#[from] Box<AccessDenied>),
    /// The requested tool name is longer than any tool name can be; the error does not repeat it.
    #[error(transparent)]
    LongName(#[from] LongName),
    /// The credentials of the caller expired or were revoked.
    #[error(transparent)]
    PassEnded(#[from] CredentialsExpired),
    /// A caller who is not an operator called a method for operators.
    #[error(transparent)]
    NotOperator(#[from] NotOperator),
    /// The tenant already has the maximum number of access entries.
    #[error("there are {0} access entries already; revoke some first")]
    TooManyEntries(usize),
    /// A change could not be stored or recorded.
    #[error(transparent)]
    Unchanged(#[from] ChangeError),
    /// A call lacks a permission, or a change of permissions is refused.
    #[error(transparent)]
    Permission(#[from] Box<PermissionRefused>),
    /// The call lacks scopes that its tool requires.
    #[error(transparent)]
    Scopes(Box<ScopesMissing>),
    /// The session that granted the scopes of the call has ended.
    #[error(transparent)]
    SessionEnded(#[from] SessionEnded),
    /// The tool cannot be called because its definition changed, waits for an operator, or is unusable.
    #[error(transparent)]
    Definition(Box<DefinitionRefused>),
    /// An operator's decision about a definition is refused.
    #[error(transparent)]
    Decision(#[from] DecisionRefused),
    /// The tools of a server cannot be listed, so it is unknown whether the definition of the called tool has changed.
    #[error("the tools of `{server}` cannot be listed: {reason}")]
    Unlisted {
        /// The server that did not list its tools.
        server: ServerId,
        /// The reason, e.g. the error that the server returned.
        #[source]
        reason: RpcError,
    },
    /// The call was not confirmed.
    #[error(transparent)]
    Unconfirmed(Box<ConfirmRefused>),
    /// The arguments do not fit the input schema of the tool.
    #[cfg(feature = "schemas")]
    #[error(transparent)]
    Arguments(Box<ArgumentsRefused>),
    /// The tool has another version than the caller accepts.
    #[error(transparent)]
    Version(#[from] Box<VersionRefused>),
    /// A validator blocked the call, or the tool's validator is not installed.
    #[error(transparent)]
    Blocked(Box<ValidationBlocked>),
    /// The credentials of the caller are missing or not accepted, or cannot be checked now.
    #[cfg(feature = "auth")]
    #[error(transparent)]
    Auth(#[from] AuthRefused),
}

/// The error for a tool call with a name that is too long for any tool.
#[derive(Clone, Debug, thiserror::Error)]
#[error("no tool has a name of {bytes} bytes; use a name from `tools/list`")]
pub struct LongName {
    bytes: usize,
    #[source]
    rule: Rule,
}

impl LongName {
    pub(crate) fn new(bytes: usize, most: usize) -> Self {
        Self { bytes, rule: Rule::new(format!("names of tools have at most {most} bytes")) }
    }
}

impl From<DefinitionRefused> for Refusal {
    fn from(refused: DefinitionRefused) -> Self {
        Self::Definition(Box::new(refused))
    }
}

impl From<ConfirmRefused> for Refusal {
    fn from(refused: ConfirmRefused) -> Self {
        Self::Unconfirmed(Box::new(refused))
    }
}

impl From<ValidationBlocked> for Refusal {
    fn from(blocked: ValidationBlocked) -> Self {
        Self::Blocked(Box::new(blocked))
    }
}

impl Refusal {
    /// Returns whether lists hide a tool from a caller if a call of the tool by this caller is refused with this
    /// reason. The `match` has an arm for each reason, so that the author of a new reason must decide this.
    pub(crate) fn hides_tool(&self) -> bool {
        match self {
            Self::AccessDenied(_)
            | Self::LongName(_)
            | Self::PassEnded(_)
            | Self::Definition(_) => true,
            Self::Unaudited(_)
            | Self::NotARequest(_)
            | Self::NotOperator(_)
            | Self::TooManyEntries(_)
            | Self::Unchanged(_)
            | Self::Permission(_)
            | Self::Scopes(_)
            | Self::SessionEnded(_)
            | Self::Decision(_)
            | Self::Unlisted { .. }
            | Self::Unconfirmed(_)
            | Self::Version(_)
            | Self::Blocked(_) => false,
            #[cfg(feature = "schemas")]
            Self::Arguments(_) => false,
            #[cfg(feature = "auth")]
            Self::Auth(_) => false,
        }
    }

    /// Returns the error's structured details for the caller (§14.5).
    fn details(&self) -> Option<Object> {
        match self {
            Self::Unconfirmed(refused) => Some(refused.details()),
            #[cfg(feature = "schemas")]
            Self::Arguments(refused) => Some(refused.details()),
            Self::Version(refused) => Some(refused.details()),
            Self::Blocked(blocked) => Some(blocked.details()),
            Self::AccessDenied(denied) => Some(denied.details()),
            Self::NotOperator(refused) => Some(refused.details()),
            Self::Definition(refused) => Some(refused.details()),
            Self::Permission(refused) => refused.details(),
            Self::Scopes(refused) => Some(refused.details()),
            _ => None,
        }
    }
}

#[cfg(feature = "schemas")]
impl From<crate::tool::ResultRefused> for RpcError {
    fn from(refused: crate::tool::ResultRefused) -> Self {
        Self::new(ErrorCode::UPSTREAM_ERROR, refused.to_string()).because(refused)
    }
}

impl From<Refusal> for RpcError {
    fn from(refusal: Refusal) -> Self {
        let code = match &refusal {
            Refusal::Unaudited(unaudited) => code_of(unaudited),
            Refusal::Unchanged(error) => code_of_change(error),
            Refusal::NotARequest(_) => ErrorCode::INVALID_REQUEST,
            Refusal::AccessDenied(_) => ErrorCode::ACCESS_DENIED,
            Refusal::LongName(_) => ErrorCode::TOOL_NOT_FOUND,
            Refusal::PassEnded(_) | Refusal::SessionEnded(_) => ErrorCode::AUTH_EXPIRED,
            Refusal::NotOperator(_) | Refusal::Scopes(_) => ErrorCode::PERMISSION_DENIED,
            Refusal::TooManyEntries(_) => ErrorCode::RESOURCE_EXHAUSTED,
            Refusal::Permission(refused) => match refused.kind() {
                RefusalKind::Denied => ErrorCode::PERMISSION_DENIED,
                RefusalKind::Unfit => ErrorCode::INVALID_PARAMS,
                RefusalKind::Unreadable(error) => Self::from(error.clone()).code(),
                RefusalKind::Unwritten(error) => code_of_change(error),
            },
            Refusal::Definition(_) => ErrorCode::TOOL_DISABLED,
            Refusal::Decision(DecisionRefused::Rejected { .. }) => ErrorCode::INVALID_PARAMS,
            Refusal::Decision(_) => ErrorCode::RESOURCE_NOT_FOUND,
            // The server might answer again soon, so the client can retry.
            Refusal::Unlisted { .. } => ErrorCode::SERVER_NOT_READY,
            Refusal::Unconfirmed(refused) => match refused.why() {
                Unconfirmed::TooMany | Unconfirmed::Full => ErrorCode::RESOURCE_EXHAUSTED,
                Unconfirmed::Unreadable => ErrorCode::INVALID_TOOL_ARGS,
                _ => ErrorCode::PERMISSION_DENIED,
            },
            #[cfg(feature = "schemas")]
            Refusal::Arguments(_) => ErrorCode::INVALID_TOOL_ARGS,
            Refusal::Version(_) => ErrorCode::INVALID_TOOL_ARGS,
            Refusal::Blocked(blocked) if blocked.is_of_code() => ErrorCode::CODE_SAFETY_VIOLATION,
            Refusal::Blocked(_) => ErrorCode::VALIDATION_BLOCKED,
            #[cfg(feature = "auth")]
            Refusal::Auth(refused) => match refused {
                AuthRefused::Missing | AuthRefused::Malformed(_) | AuthRefused::Invalid(_) => {
                    ErrorCode::AUTH_REQUIRED
                }
                AuthRefused::Expired => ErrorCode::AUTH_EXPIRED,
                AuthRefused::InsufficientScope { .. } => ErrorCode::PERMISSION_DENIED,
                // The issuer or the key store is unreachable.
                AuthRefused::Unavailable => ErrorCode::UPSTREAM_UNAVAILABLE,
            },
        };
        let message = match &refusal {
            Refusal::Unchanged(error) => error.caller_message(),
            other => other.to_string(),
        };
        let mut error = Self::new(code, message);
        if let Some(details) = refusal.details() {
            let mut recovery = Recovery::default_for(code).unwrap_or_default();
            recovery.details = Some(details);
            error = error.recovery(recovery);
        }
        error.because(refusal)
    }
}

fn code_of_change(error: &ChangeError) -> ErrorCode {
    match error {
        ChangeError::Store(error) | ChangeError::Unread(error) | ChangeError::Late(error) => {
            RpcError::from(error.clone()).code()
        }
        ChangeError::Unaudited(unaudited) | ChangeError::Unrecorded(unaudited) => {
            code_of(unaudited)
        }
        ChangeError::Encode(error) => error.code(),
    }
}

fn code_of(unaudited: &AuditError) -> ErrorCode {
    match unaudited {
        // The queue might have room again later, so the client can retry.
        AuditError::Full => ErrorCode::RESOURCE_EXHAUSTED,
        // The call was not started, and an operator must repair the log.
        _ => ErrorCode::SERVER_NOT_READY,
    }
}
