//! The errors of this crate, and their conversion to JSON-RPC codes (MGP §14.3, §15).

use std::io;
use std::path::PathBuf;

use mgp_types::service::AuditError;
use mgp_types::store::StoreError;
use mgp_types::{ErrorCode, PrivateFileError, Recovery, RpcError};

use crate::config::{ConfigErrors, limits};
use crate::expand::ExpandError;
use crate::registration::RegistrationError;

/// An error of this crate: the reason why it could not do what the caller requested.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiscoveryError {
    /// A configuration file contains errors.
    #[error(transparent)]
    InvalidConfig(#[from] ConfigErrors),
    /// The file that the caller named does not exist.
    #[error("there is no file `{path}`; create it, or name another one")]
    Missing {
        /// The path of the file.
        path: PathBuf,
    },
    /// The operating system refused an operation on a file.
    #[error("`{path}` cannot be {verb}: {source}")]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The operation as a past participle, for the error message.
        verb: &'static str,
        /// The error that the operating system reported.
        source: io::Error,
    },
    /// This process has no permission to read a file.
    #[error("you may not read `{path}`; run `chmod u+r` on it, or name another one")]
    NotYours {
        /// The path of the file.
        path: PathBuf,
    },
    /// The path is not a regular file.
    #[error("`{path}` is not a plain file; name one that is")]
    NotPlain {
        /// The path of the file.
        path: PathBuf,
    },
    /// A file exceeds the maximum size of a configuration.
    #[error("`{path}` is longer than {} bytes", limits::MAX_FILE_BYTES)]
    TooLong {
        /// The path of the file.
        path: PathBuf,
    },
    /// A file is not text.
    #[error("`{path}` is not UTF-8 text; save it with this encoding")]
    NotText {
        /// The path of the file.
        path: PathBuf,
    },
    /// A file that names programs to start is writable by every user.
    #[error(
        "`{path}` is writable by every user, who could start programs in your name; run `chmod o-w` on it"
    )]
    Exposed {
        /// The path of the file.
        path: PathBuf,
    },
    /// The configuration file of an MCP host, e.g. of Claude Code, is not valid.
    #[error("`{path}` cannot be read: {reason}")]
    Foreign {
        /// The path of the file.
        path: PathBuf,
        /// The reason why the file is not valid.
        reason: String,
    },
    /// The configuration file of an MCP host has no member with servers.
    #[error("`{path}` cannot be read: it has no `{key}`")]
    NoServers {
        /// The path of the file.
        path: PathBuf,
        /// The name of the missing member.
        key: &'static str,
    },
    /// The decision of an operator was not made, because it could not be written to the audit log.
    #[error("no decision was made because it could not be recorded: {0}")]
    Unaudited(#[from] AuditError),
    /// A file was changed between reading and writing it.
    #[error("`{path}` was changed meanwhile; try again")]
    Changed {
        /// The path of the file.
        path: PathBuf,
    },
    /// A caller who is not an operator tried to approve a file, or to revoke its approval.
    #[error("only an operator may approve a project's configuration; run `mgp trust`")]
    NotOperator,
    /// A caller who is not an operator tried to decide on a registration.
    #[error("only an operator may decide on registrations; ask one")]
    NotRegistrar,
    /// A server could not be registered at run time, or a server that was registered at run time could not be started
    /// or removed.
    #[error(transparent)]
    Registration(#[from] RegistrationError),
    /// The maximum number of approvals is reached.
    #[error("{0} files are approved already; revoke some approvals first")]
    TooManyApprovals(usize),
    /// A `${…}` in a server's entry could not be expanded.
    #[error(transparent)]
    NotExpanded(#[from] Box<ExpandError>),
    /// The store of the kernel's state could not be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A private file could not be read, locked or written.
    #[error(transparent)]
    PrivateFile(#[from] PrivateFileError),
}

impl From<DiscoveryError> for RpcError {
    fn from(error: DiscoveryError) -> Self {
        let (code, message) = match &error {
            DiscoveryError::Store(store) => return Self::from(store.clone()),
            DiscoveryError::Registration(refused) => return registration(refused),
            DiscoveryError::NotOperator | DiscoveryError::NotRegistrar => {
                (ErrorCode::PERMISSION_DENIED, error.to_string())
            }
            DiscoveryError::Changed { .. } | DiscoveryError::TooManyApprovals(_) => {
                (ErrorCode::RESOURCE_EXHAUSTED, error.to_string())
            }
            DiscoveryError::NotExpanded(_) => (ErrorCode::SERVER_NOT_READY, error.to_string()),
            // The message contains no details, because a caller must not learn paths and lines of the operator's files.
            _ => (
                ErrorCode::SERVER_NOT_READY,
                "the configuration cannot be used; the operator of the kernel must check it"
                    .to_owned(),
            ),
        };
        Self::new(code, message).because(error)
    }
}

fn registration(refused: &RegistrationError) -> RpcError {
    use RegistrationError as Refused;

    let code = match refused {
        Refused::InvalidParams(what) => {
            return RpcError::invalid_params(what).because(refused.clone());
        }
        Refused::NotAllowed { .. } | Refused::NotCreator(_) => ErrorCode::PERMISSION_DENIED,
        Refused::CredentialsExpired => ErrorCode::AUTH_EXPIRED,
        Refused::Unavailable { .. } => ErrorCode::DISCOVERY_UNAVAILABLE,
        Refused::IdTaken { .. } => ErrorCode::SERVER_ALREADY_REGISTERED,
        Refused::Configured(_) => ErrorCode::CANNOT_DEREGISTER_CONFIG,
        Refused::Unknown(_) | Refused::NotWaiting(_) => ErrorCode::RESOURCE_NOT_FOUND,
        Refused::Rejected { .. } => ErrorCode::CODE_SAFETY_VIOLATION,
        Refused::RateLimited(_) => ErrorCode::RATE_LIMITED,
        Refused::TooMany { .. } => ErrorCode::RESOURCE_EXHAUSTED,
        Refused::Changed(_)
        | Refused::MissingFile { .. }
        | Refused::NotApproved(_)
        | Refused::Unaudited(_) => ErrorCode::SERVER_NOT_READY,
    };
    let hints = Recovery::default_for(code).map(|mut hints| match refused {
        Refused::RateLimited(wait) => {
            hints.retry_after_ms = Some(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
            hints
        }
        // Forbid a retry after these errors: the same request succeeds only after the operator or the caller has acted.
        Refused::TooMany { .. }
        | Refused::Changed(_)
        | Refused::MissingFile { .. }
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
