//! What can go wrong here, and the one place where that becomes a code (MGP §14.3, §15).
//!
//! Applies to: both.

use std::io;
use std::path::PathBuf;

use mgp_types::store::StoreError;
use mgp_types::{ErrorCode, PrivateFileError, RpcError};

use crate::config::{Faults, limits};
use crate::expand::NotExpanded;

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
    /// There is something else in the place of a file.
    #[error("`{path}` is not a plain file")]
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
    /// A file changed between looking and writing.
    #[error("`{path}` was changed meanwhile; look again")]
    Changed {
        /// The file.
        path: PathBuf,
    },
    /// Somebody who is no operator tried to approve.
    #[error("only an operator approves a project's configuration; run `mgp trust`")]
    NotOperator,
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
            Error::NotOperator => (ErrorCode::PERMISSION_DENIED, error.to_string()),
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
