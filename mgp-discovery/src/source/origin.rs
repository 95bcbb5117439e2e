//! Whose file an entry is from (MGP §15.2).
//!
//! Applies to: both.

use std::fmt;

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// That of the working directory: whoever wrote the project wrote it.
    Project,
    /// The user's own.
    User,
    /// The one the user named, by `$MGP_CONFIG_PATH` or on the command line.
    Given,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Project => "project",
            Self::User => "user",
            Self::Given => "given",
        })
    }
}
