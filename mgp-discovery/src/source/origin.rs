//! The owner of the file that contains an entry (MGP §15.2).

use std::fmt;

/// The owner of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Origin {
    /// A file in the working directory, written by the authors of the project.
    Project,
    /// The user's own file.
    User,
    /// A file that the user named, in `$MGP_CONFIG_PATH` or on the command line.
    Named,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Project => "project",
            Self::User => "user",
            Self::Named => "given",
        })
    }
}
