//! What can go wrong here, and the one place where that becomes a code (MGP §14.3, §15).
//!
//! Applies to: both.

use std::io;
use std::path::PathBuf;

use mgp_types::service::Unaudited;
use mgp_types::store::StoreError;
use mgp_types::{ErrorCode, PrivateFileError, Recovery, RpcError};

use crate::config::{Faults, limits};
use crate::expand::NotExpanded;
use crate::registration::RegistrationRefused;

/// Why a configuration is not used, or not changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Something is wrong in a file.
    #[error(transparent)]
    Faults(#[from] Faults),
    /// A file that was named is not there.
    #[error("there is no file `{path}`; create it, or name another one")]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The system refused.
    #[error("`{path}` cannot be {verb}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        verb: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// A file belongs to somebody else.
    #[error("you may not read `{path}`; run `chmod u+r` on it, or name another one")]
    NotYours {
        /// The file.
        path: PathBuf,
    },
    /// There is something else in the place of a file.
    #[error("`{path}` is not a plain file; name one that is")]
    NotPlain {
        /// The file.
        path: PathBuf,
    },
    /// A file is longer than any configuration.
    #[error("`{path}` is longer than {} bytes", limits::FILE_BYTES)]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// A file is not text.
    #[error("`{path}` is not UTF-8 text")]
    NotText {
        /// The file.
        path: PathBuf,
    },
    /// Everybody may write a file that says which programs are started.
    #[error(
        "everybody may write `{path}`, and so start programs in your name; run `chmod o-w` on it"
    )]
    Exposed {
        /// The file.
        path: PathBuf,
    },
    /// Something in a file of another host is wrong.
    #[error("`{path}` cannot be read: {reason}")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// What cannot be recorded is not decided.
    #[error("nothing was decided, for it could not be recorded: {0}")]
    Unaudited(#[from] Unaudited),
    /// A file changed between looking and writing.
    #[error("`{path}` was changed meanwhile; look again")]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// Somebody who is no operator tried to approve.
    #[error("only an operator approves a project's configuration; run `mgp trust`")]
    NotOperator,
    /// Somebody who is no operator tried to decide about registrations.
    #[error("only an operator decides about registrations; ask one")]
    NotRegistrar,
    /// Nothing was registered, started or removed.
    #[error(transparent)]
    Registration(#[from] RegistrationRefused),
    /// There is no room for another approval.
    #[error("{0} files are approved already; take some approvals back first")]
    TooManyApprovals(usize),
    /// Something of a server could not be filled in.
    #[error(transparent)]
    NotExpanded(#[from] Box<NotExpanded>),
    /// State could not be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file could not be written.
    #[error(transparent)]
    PrivateFile(#[from] PrivateFileError),
}

impl From<Error> for RpcError {
    fn from(error: Error) -> Self {
        let (code, message) = match &error {
            Error::Store(store) => return Self::from(store.clone()),
            Error::Registration(refused) => return registration(refused),
            Error::NotOperator | Error::NotRegistrar => {
                (ErrorCode::PERMISSION_DENIED, error.to_string())
            }
            Error::Changed { .. } | Error::TooManyApprovals(_) => {
                (ErrorCode::RESOURCE_EXHAUSTED, error.to_string())
            }
            Error::NotExpanded(_) => (ErrorCode::SERVER_NOT_READY, error.to_string()),
            // Paths and lines of the operator's files are no caller's business.
            _ => (
                ErrorCode::SERVER_NOT_READY,
                "the configuration cannot be used; whoever runs the kernel must look at it"
                    .to_owned(),
            ),
        };
        Self::new(code, message).because(error)
    }
}

/// What a registration that is refused says to its caller.
fn registration(refused: &RegistrationRefused) -> RpcError {
    use RegistrationRefused as Refused;

    let code = match refused {
        Refused::Unfit(what) => return RpcError::invalid_params(what).because(refused.clone()),
        Refused::NotAllowed { .. } | Refused::NotCreator(_) => ErrorCode::PERMISSION_DENIED,
        Refused::PassEnded => ErrorCode::AUTH_EXPIRED,
        Refused::Unavailable { .. } => ErrorCode::DISCOVERY_UNAVAILABLE,
        Refused::Taken { .. } => ErrorCode::SERVER_ALREADY_REGISTERED,
        Refused::Configured(_) => ErrorCode::CANNOT_DEREGISTER_CONFIG,
        Refused::Unknown(_) | Refused::NotWaiting(_) => ErrorCode::RESOURCE_NOT_FOUND,
        Refused::Rejected { .. } => ErrorCode::CODE_SAFETY_VIOLATION,
        Refused::TooFast(_) => ErrorCode::RATE_LIMITED,
        Refused::TooMany { .. } => ErrorCode::RESOURCE_EXHAUSTED,
        Refused::Changed(_)
        | Refused::NotThere { .. }
        | Refused::NotApproved(_)
        | Refused::Unaudited(_) => ErrorCode::SERVER_NOT_READY,
    };
    let hints = Recovery::default_for(code).map(|mut hints| match refused {
        Refused::TooFast(wait) => {
            hints.retry_after_ms = Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
            hints
        }
        // Somebody must do something first.
        Refused::TooMany { .. }
        | Refused::Changed(_)
        | Refused::NotThere { .. }
        | Refused::NotApproved(_)
        | Refused::Unaudited(_) => hints.no_retry(),
        _ => hints,
    });
    let mut error = RpcError::new(code, refused.to_string()).because(refused.clone());
    if let Some(mut hints) = hints {
        hints.details = refused.details();
        error = error.recovery(hints);
    }
    error
}
