//! Finds the folders that can have the user's own configuration (MGP §15.2).

use std::path::{Path, PathBuf};

/// The folder of this program in a folder for configurations.
pub(super) const USER_FOLDER: &str = "mgp";

/// The environment variable that names a folder for configurations in place of `~/.config`.
const CONFIG_HOME: &str = "XDG_CONFIG_HOME";

/// The folders that can have the user's own file.
pub(super) struct UserFolders {
    /// The folder `~/.config`.
    usual: Option<PathBuf>,
    /// The folder in `$XDG_CONFIG_HOME`, if it is absolute and not `~/.config`.
    pub(super) moved: Option<PathBuf>,
}

impl UserFolders {
    pub(super) fn from_env() -> Self {
        Self::new(std::env::home_dir(), std::env::var_os(CONFIG_HOME).map(PathBuf::from))
    }

    fn new(home: Option<PathBuf>, config_home: Option<PathBuf>) -> Self {
        let usual = home.map(|home| home.join(".config"));
        // Ignore a relative path, as the specification of `$XDG_CONFIG_HOME` requires.
        let is_other = |folder: &PathBuf| folder.is_absolute() && Some(folder) != usual.as_ref();
        let moved = config_home.filter(is_other);
        Self { usual, moved }
    }

    /// Returns the folder `mgp` in `$XDG_CONFIG_HOME` if it exists and is not used. Returns `None` if a link makes it
    /// the same folder as the used folder.
    pub(super) fn unused(&self) -> Option<PathBuf> {
        let (used, moved) = (self.used()?, self.moved.as_ref()?);
        let real = |folder: &Path| dunce::canonicalize(folder.join(USER_FOLDER)).ok();
        let is_other = real(moved).is_some_and(|folder| Some(folder) != real(used));
        is_other.then(|| moved.join(USER_FOLDER))
    }

    /// Returns the folder for the user's own file. A folder `mgp` in `~/.config`, which an earlier version has created,
    /// stays in use.
    pub(super) fn used(&self) -> Option<&PathBuf> {
        let is_usual = self.usual.as_ref().is_some_and(|usual| usual.join(USER_FOLDER).exists());
        self.moved.as_ref().filter(|_| !is_usual).or(self.usual.as_ref())
    }
}

/// Returns the real paths of the folders that can have the file of the user of this process, whether or not they exist.
pub(crate) fn own_user_folders() -> Vec<PathBuf> {
    user_folders(std::env::home_dir(), |name| std::env::var(name).ok())
}

/// Returns the real paths of the folders that can have the user's own file, whether or not they exist; `variable`
/// returns the value of an environment variable.
pub(crate) fn user_folders(
    home: Option<PathBuf>,
    variable: impl FnOnce(&str) -> Option<String>,
) -> Vec<PathBuf> {
    let UserFolders { usual, moved } =
        UserFolders::new(home, variable(CONFIG_HOME).map(PathBuf::from));
    let folders = [usual, moved].into_iter().flatten();
    folders.map(|folder| real(&real(&folder).join(USER_FOLDER))).collect()
}

/// Returns the real path of a file. Approvals use it, so that they do not apply to another file when a link changes.
pub(super) fn real(path: &Path) -> PathBuf {
    dunce::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
