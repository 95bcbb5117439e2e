//! The failures of configuration files that cannot be read or written, with the remedy.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use mgp_discovery::DiscoveryError;
use mgp_discovery::import::Plan;
use mgp_types::PrivateFileError;

use crate::exit::{CliResult, Failure};

/// Creates the failure for a configuration file, or its folder, that cannot be read or written.
pub(crate) fn failed(file: &Path, verb: &str, error: &io::Error) -> Failure {
    let fix = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "; correct the rights of the file and its folder, or name another file with --config FILE"
        }
        _ => "",
    };
    Failure::failed(format!("`{}` cannot be {verb}: {error}{fix}", file.display()))
}

/// Creates the failure for a configuration file that cannot be locked or replaced.
pub(super) fn unwritable(error: PrivateFileError) -> Failure {
    match error {
        PrivateFileError::Io { path, verb, source } => failed(&path, verb, &source),
        other => other.into(),
    }
}

/// Writes a planned configuration; returns the path of a backup of the previous content, if there was any.
pub(crate) fn apply(plan: &Plan) -> CliResult<Option<PathBuf>> {
    plan.apply().map_err(|error| match error {
        DiscoveryError::Io { path, verb, source } => failed(&path, verb, &source),
        DiscoveryError::PrivateFile(error) => unwritable(error),
        other => other.into(),
    })
}
