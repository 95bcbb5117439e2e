//! The folders that are searched for programs: those in `PATH`, followed by the usual folders of the user.
//!
//! A process that a desktop or another program started often has a short `PATH`, without the folders that a shell adds.
//! Without this module, a server whose program or interpreter is in such a folder would start only if the program that
//! started this process has a longer `PATH`. The folders are added after those of `PATH`, so that they never hide a
//! program in `PATH`.

use std::ffi::OsString;
use std::fmt;
#[cfg(unix)]
use std::path::Path;
use std::path::PathBuf;

/// The search path of a system without the variable `PATH`.
#[cfg(unix)]
const DEFAULT: &str = "/usr/bin:/bin";

/// The usual folders below the home of the user.
#[cfg(unix)]
const OF_USER: &[&str] = &[
    ".local/bin",
    "bin",
    ".cargo/bin",
    ".bun/bin",
    ".deno/bin",
    ".volta/bin",
    ".asdf/shims",
    ".asdf/bin",
    ".local/share/mise/shims",
    ".local/share/fnm/aliases/default/bin",
    "Library/Application Support/fnm/aliases/default/bin",
    ".local/share/pnpm",
    "Library/pnpm",
    ".npm-global/bin",
    ".nodenv/shims",
    ".pyenv/shims",
    ".rbenv/shims",
    "go/bin",
    ".dotnet/tools",
    ".nix-profile/bin",
];

/// The folders of package managers that a short `PATH` lacks.
#[cfg(unix)]
const OF_SYSTEM: &[&str] = &[
    "/opt/homebrew/bin",
    "/home/linuxbrew/.linuxbrew/bin",
    "/usr/local/bin",
    "/opt/local/bin",
    "/nix/var/nix/profiles/default/bin",
    "/snap/bin",
];

/// The maximum number of versions of Node that are compared.
#[cfg(unix)]
const MAX_VERSIONS: usize = 256;

/// The maximum number of bytes read from nvm's file `alias/default`, which names its default version.
#[cfg(unix)]
const MAX_ALIAS_BYTES: u64 = 64;

/// Returns the search path for programs of servers: the variable `PATH` of this process, followed by those usual
/// folders that exist and that `PATH` lacks.
///
/// A folder that other users could change is left out: the folder, and each folder that contains it, must belong to the
/// user or to root and be writable by no other user; a containing folder with the sticky bit may be writable. On
/// systems other than Unix, where this cannot be checked, no folder is added. The call reads folders, so it blocks for
/// a moment.
#[must_use]
pub fn search_path() -> OsString {
    with_usual_folders(std::env::var_os("PATH").filter(|path| !path.is_empty()))
}

/// A usual folder of the user that [`search_path`] leaves out, because other users could change it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkippedFolder {
    /// The usual folder.
    pub folder: PathBuf,
    /// The folder that other users could change: the skipped folder with all links resolved, or a folder that contains
    /// it.
    pub open: PathBuf,
    /// `true` if `open` belongs to this user, who can then withdraw the other users' right to write.
    pub is_own: bool,
}

impl SkippedFolder {
    /// Returns all folders that [`search_path`] leaves out. The call reads folders, so it blocks for a moment.
    #[must_use]
    pub fn all() -> Vec<Self> {
        skipped_folders()
    }

    /// Returns the first skipped folder that contains a program of this name.
    #[must_use]
    pub fn with_program(name: &str) -> Option<Self> {
        if name.contains(std::path::is_separator) {
            return None;
        }
        Self::all().into_iter().find(|skipped| super::is_program(&skipped.folder.join(name)))
    }

    /// Returns an instruction for the user, e.g. a command to run. Once the user has followed it, other users can no
    /// longer change the folder `open`.
    #[must_use]
    pub fn remedy(&self) -> String {
        let open = self.open.display();
        if self.is_own {
            format!("run `chmod go-w '{open}'`")
        } else {
            format!("make sure that only you and root can change `{open}`")
        }
    }
}

impl fmt::Display for SkippedFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (folder, open) = (self.folder.display(), self.open.display());
        write!(f, "`{folder}` is not searched, because other users could change `{open}`")
    }
}

#[cfg(not(unix))]
fn skipped_folders() -> Vec<SkippedFolder> {
    Vec::new()
}

#[cfg(unix)]
fn skipped_folders() -> Vec<SkippedFolder> {
    use std::os::unix::fs::MetadataExt as _;

    let path = std::env::var_os("PATH").unwrap_or_default();
    let known: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let skipped = usual_folders().into_iter().filter_map(|folder| {
        let real = real_folder(&folder)?;
        if known.contains(&folder) || known.contains(&real) {
            return None;
        }
        let open = open_folder(&real)?;
        let user = rustix::process::geteuid().as_raw();
        let is_own = open.metadata().is_ok_and(|metadata| metadata.uid() == user);
        Some(SkippedFolder { folder, open, is_own })
    });
    skipped.collect()
}

#[cfg(unix)]
fn with_usual_folders(path: Option<OsString>) -> OsString {
    extended(path.unwrap_or_else(|| DEFAULT.into()), &usual_folders())
}

#[cfg(not(unix))]
fn with_usual_folders(path: Option<OsString>) -> OsString {
    path.unwrap_or_default()
}

/// Adds the folders that other users cannot change to the end of a search path.
#[cfg(unix)]
fn extended(mut path: OsString, folders: &[PathBuf]) -> OsString {
    let mut known: Vec<PathBuf> = std::env::split_paths(&path).collect();
    for folder in folders {
        // Add the path with all links resolved, because this path was checked.
        let Some(real) = private_folder(folder) else { continue };
        let would_be_split = real.as_os_str().as_encoded_bytes().contains(&b':');
        if would_be_split || known.contains(folder) || known.contains(&real) {
            continue;
        }
        path.push(":");
        path.push(&real);
        known.push(real);
    }
    path
}

#[cfg(unix)]
fn usual_folders() -> Vec<PathBuf> {
    let home = std::env::home_dir().filter(|home| home.is_absolute());
    let of_user = home.iter().flat_map(|home| {
        let folders = OF_USER.iter().map(move |folder| home.join(folder));
        folders.chain(nvm_folder(home))
    });
    of_user.chain(OF_SYSTEM.iter().map(PathBuf::from)).collect()
}

/// Returns the folder with the programs of a version of Node that nvm installed. This is its default version or, if nvm
/// does not name that version by a number or it is not installed, the newest version.
#[cfg(unix)]
fn nvm_folder(home: &Path) -> Option<PathBuf> {
    use std::io::Read as _;

    let nvm = home.join(".nvm");
    let entries = std::fs::read_dir(nvm.join("versions/node")).ok()?.take(MAX_VERSIONS);
    let versions = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        Some((version(entry.file_name().to_str()?)?, entry.path().join("bin")))
    });
    let versions: Vec<_> = versions.collect();
    let mut alias = String::new();
    if let Ok(file) = std::fs::File::open(nvm.join("alias/default")) {
        // Ignore an error: if the name cannot be read, the newest version is used.
        let _ = file.take(MAX_ALIAS_BYTES).read_to_string(&mut alias);
    }
    let wanted = version(alias.trim()).unwrap_or_default();
    let fits = versions.iter().filter(|(version, _)| version.starts_with(&wanted)).max();
    fits.or_else(|| versions.iter().max()).map(|(_, folder)| folder.clone())
}

/// Parses a version such as `v20.11.1`, or the beginning of a version, such as `20`.
#[cfg(unix)]
fn version(text: &str) -> Option<Vec<u64>> {
    text.trim_start_matches('v').split('.').map(|part| part.parse().ok()).collect()
}

/// Resolves all links in the path of a folder. Returns the resulting folder if only the user and root can change its
/// contents.
#[cfg(unix)]
fn private_folder(folder: &Path) -> Option<PathBuf> {
    real_folder(folder).filter(|real| open_folder(real).is_none())
}

#[cfg(unix)]
fn real_folder(folder: &Path) -> Option<PathBuf> {
    std::fs::canonicalize(folder).ok().filter(|real| real.is_dir())
}

/// Returns the first folder that users other than this user and root can change, among `real` and the folders that
/// contain it.
#[cfg(unix)]
fn open_folder(real: &Path) -> Option<PathBuf> {
    use std::os::unix::fs::MetadataExt as _;

    let user = rustix::process::geteuid().as_raw();
    let is_private = |folder: &Path| {
        let Ok(metadata) = folder.metadata() else { return false };
        let (owner, group, mode) = (metadata.uid(), metadata.gid(), metadata.mode());
        // A group with the same number as the folder's owner has no other members, so its right to write is accepted.
        // So is that of the group `admin` (80) of macOS, which may become root: it can change the folders of Homebrew.
        let is_own_group = group == owner || (cfg!(target_os = "macos") && group == 80);
        let others = if is_own_group { 0o002 } else { 0o022 };
        // In a folder with the sticky bit, such as `/tmp`, other users cannot replace a folder of this user, although
        // they can write. So such a folder is accepted if it is only a parent.
        let is_sticky = folder != real && mode & 0o1000 != 0;
        (owner == 0 || owner == user) && (mode & others == 0 || is_sticky)
    };
    real.ancestors().find(|folder| !is_private(folder)).map(Path::to_owned)
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn usual_folders_that_others_cannot_change_follow_the_path() {
        let home = mgp_testkit::temp_dir();
        let home = fs::canonicalize(home.path()).unwrap();
        let folder = |name: &str, mode: u32| {
            let folder = home.join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            folder
        };
        let (safe, open) = (folder("safe", 0o755), folder("open", 0o777));
        let (inside, sticky) = (folder("open/inside", 0o755), folder("sticky", 0o1777));
        let (below, known) = (folder("sticky/below", 0o755), folder("known", 0o755));
        let (link, colon) = (home.join("link"), folder("a:b", 0o755));
        symlink(&safe, &link).unwrap();
        let path = OsString::from(format!("/usr/bin::{}", known.display()));
        let folders = [link, safe.clone(), open, inside, sticky, below.clone(), known, colon];
        let missing = home.join("missing");
        let expected = format!("{}:{}:{}", path.to_str().unwrap(), safe.display(), below.display());
        let all: Vec<PathBuf> = folders.into_iter().chain([missing]).collect();
        assert_eq!(extended(path, &all), OsString::from(expected));
    }

    #[test]
    fn nvm_has_a_default_version_or_else_the_newest() {
        let home = mgp_testkit::temp_dir();
        assert_eq!(nvm_folder(home.path()), None);
        let nvm = home.path().join(".nvm");
        let bin = |version: &str| nvm.join("versions/node").join(version).join("bin");
        for version in ["v9.11.2", "v20.9.0", "v20.11.1", "v22.1.0", "system"] {
            fs::create_dir_all(bin(version)).unwrap();
        }
        fs::create_dir_all(nvm.join("alias")).unwrap();
        let newest = Some(bin("v22.1.0"));
        assert_eq!(nvm_folder(home.path()), newest);
        for (alias, expected) in [
            ("20\n", Some(bin("v20.11.1"))),
            ("v20.9.0", Some(bin("v20.9.0"))),
            ("lts/*", newest.clone()),
            ("18", newest.clone()),
        ] {
            fs::write(nvm.join("alias/default"), alias).unwrap();
            assert_eq!(nvm_folder(home.path()), expected, "{alias}");
        }
    }
}
