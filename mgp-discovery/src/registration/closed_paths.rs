//! The files and folders to which no permission of a registered server extends (MGP §15.4).

use std::path::{Path, PathBuf};
use std::{env, fs};

use mgp_types::mgp::Permission;

use super::config::RegistrationConfig;
use super::record::Proposal;
use crate::config::path_in;
use crate::expand::{SecretFile, real};
use crate::source::{Origin, own_user_folders, text_of};

/// The maximum number of links that are followed to a file; Linux follows as many in a path.
const MAX_LINKS: usize = 40;

/// Folders of packages, which no program can change. Each server must be able to list them.
const STORES: [&str; 2] = ["/gnu/store", "/nix/store"];

/// The real paths to which no permission of a program extends.
#[derive(Debug, Default)]
pub(super) struct ClosedPaths {
    /// The state folder, the configuration and the program of the kernel, and the files that the configuration names.
    /// A program has no right for a path in them either, except for its own script and folder.
    kernel: Vec<PathBuf>,
    /// The hidden files and folders in the home folder, e.g. keys, tokens and the start files of shells, except the
    /// working directory of a program that may write there.
    home: Vec<PathBuf>,
}

impl ClosedPaths {
    /// Finds the paths. Blocks.
    pub(super) fn new(
        config: &RegistrationConfig,
        program: &Proposal,
        granted: &[Permission],
    ) -> Self {
        let state = config.secrets.as_ref().and_then(SecretFile::folder).map(Path::to_owned);
        let named = config.config_file.iter().flat_map(|file| named_files(file));
        let kernel = state.into_iter().chain(config.config_file.clone()).chain(named);
        // The system itself protects its programs, and each server must be able to list them.
        let own = env::current_exe().ok().filter(|own| !own.starts_with("/usr"));
        let kernel = kernel.chain(config.closed.iter().cloned()).chain(own);
        let kernel = kernel.flat_map(|path| places(&path));
        let kernel = kernel.filter(|path| !STORES.iter().any(|store| path.starts_with(store)));
        let home = env::home_dir().map(|home| real(&home));
        let writes = granted.contains(&Permission::FilesystemWrite);
        let open = writes.then(|| real(Path::new(&program.cwd)));
        let hidden = home.iter().flat_map(|home| hidden_entries(home, open.as_deref()));
        Self { kernel: kernel.chain(own_user_folders()).collect(), home: hidden.collect() }
    }

    /// Returns whether a path belongs to the kernel. Blocks.
    pub(super) fn is_of_kernel(&self, path: &Path) -> bool {
        let path = real(path);
        self.kernel.iter().any(|closed| path.starts_with(closed))
    }

    pub(super) fn into_paths(self) -> Vec<PathBuf> {
        self.kernel.into_iter().chain(self.home).collect()
    }
}

/// Returns the real path of a file or folder, which may not exist, and of each link on the way to it: a program that
/// replaced such a link would replace the file.
fn places(path: &Path) -> Vec<PathBuf> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let (mut found, mut links, mut open) = (Vec::new(), Vec::new(), vec![path]);
    while let Some(path) = open.pop() {
        for part in path.ancestors() {
            let (Ok(target), Some(link)) = (fs::read_link(part), in_real_folder(part)) else {
                continue;
            };
            if links.len() == MAX_LINKS || links.contains(&link) {
                continue;
            }
            let rest = path.strip_prefix(part).unwrap_or(Path::new(""));
            let target = link.parent().map(|folder| folder.join(target));
            open.extend(
                target.map(|to| to.components().chain(rest.components()).collect::<PathBuf>()),
            );
            links.push(link);
        }
        found.push(real_place(&path));
        found.extend(in_real_folder(&path));
    }
    found.append(&mut links);
    found.sort();
    found.dedup();
    found
}

/// Returns the real path of a file or folder. If it does not exist, only the existing folders above it are resolved.
fn real_place(path: &Path) -> PathBuf {
    let real = dunce::canonicalize(path).ok().or_else(|| in_real_folder(path));
    real.unwrap_or_else(|| path.to_owned())
}

/// Returns the path of a file or link in the real folder above it.
fn in_real_folder(path: &Path) -> Option<PathBuf> {
    Some(real_place(path.parent()?).join(path.file_name()?))
}

/// Returns the files that `${file:PATH}` names in a configuration file.
fn named_files(file: &Path) -> Vec<PathBuf> {
    let text = text_of(file, Origin::Named).ok().flatten().unwrap_or_default();
    let folder = file.parent().unwrap_or(Path::new(""));
    let behind = text.split("${file:").skip(1);
    behind.filter_map(|rest| Some(path_in(folder, rest.split_once('}')?.0.trim()))).collect()
}

/// Returns the real paths of the hidden entries of a home folder, except `open`.
fn hidden_entries(home: &Path, open: Option<&Path>) -> Vec<PathBuf> {
    let entries = fs::read_dir(home).into_iter().flatten().flatten();
    let hidden = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"."));
    // The target of a link, e.g. a start file in a folder under version control, needs the same protection.
    let paths = hidden.map(|entry| real(&entry.path()));
    paths.filter(|path| !home.starts_with(path) && Some(&**path) != open).collect()
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn hidden_entries_are_found_with_the_targets_of_links_but_without_an_open_one() {
        let home = mgp_testkit::temp_dir();
        let home = real(home.path());
        for folder in [".ssh", "dotfiles", "notes"] {
            fs::create_dir(home.join(folder)).unwrap();
        }
        fs::write(home.join("dotfiles/profile"), "").unwrap();
        symlink("dotfiles/profile", home.join(".profile")).unwrap();
        symlink("/", home.join(".root")).unwrap();
        let mut found = hidden_entries(&home, Some(&home.join("notes")));
        found.sort();
        let (keys, profile) = (home.join(".ssh"), home.join("dotfiles/profile"));
        assert_eq!(found, [keys.clone(), profile.clone()]);
        assert_eq!(hidden_entries(&home, Some(&keys)), [profile]);
    }

    #[test]
    fn each_link_on_the_way_to_a_file_is_closed_with_the_file() {
        let folder = mgp_testkit::temp_dir();
        let folder = real(folder.path());
        for name in ["a", "b"] {
            fs::create_dir(folder.join(name)).unwrap();
        }
        fs::write(folder.join("b/own.toml"), "").unwrap();
        symlink("own.toml", folder.join("b/mgp.toml")).unwrap();
        symlink("../b", folder.join("a/link")).unwrap();
        let at = |names: &[&str]| names.iter().map(|name| folder.join(name)).collect::<Vec<_>>();
        let found = places(&folder.join("a/link/mgp.toml"));
        assert_eq!(found, at(&["a/link", "b/mgp.toml", "b/own.toml"]));
        // A file that does not exist yet must not be created in its place.
        assert_eq!(places(&folder.join("a/link/new")), at(&["a/link", "b/new"]));
        assert_eq!(places(&folder.join("a/link/x/y")), at(&["a/link", "b/x/y"]));
        symlink("../b/later", folder.join("a/early")).unwrap();
        assert_eq!(places(&folder.join("a/early")), at(&["a/early", "b/later"]));
        // A loop of links ends.
        symlink("loop", folder.join("loop")).unwrap();
        assert_eq!(places(&folder.join("loop")), at(&["loop"]));
    }

    #[test]
    fn the_files_that_a_configuration_names_are_closed_with_it() {
        let folder = mgp_testkit::temp_dir();
        let folder = real(folder.path());
        let config = folder.join("mgp.toml");
        let text = "env = { A = \"${file:token}\", B = \"x${file: /keys/b }${C}\" }";
        fs::write(&config, text).unwrap();
        assert_eq!(named_files(&config), [folder.join("token"), "/keys/b".into()]);
        let bounds = RegistrationConfig {
            config_file: Some(config.clone()),
            closed: vec![folder.join("audit")],
            ..RegistrationConfig::default()
        };
        let program = serde_json::from_value(serde_json::json!({
            "id": "made", "command": "/bin/x", "real": "/bin/x", "args": [], "cwd": "/", "env": {},
            "files": [], "mgp": {}, "trust": "sandboxed",
        }));
        let closed = ClosedPaths::new(&bounds, &program.unwrap(), &[]);
        for path in [config, folder.join("token"), folder.join("audit/log.jsonl")] {
            assert!(closed.is_of_kernel(&path), "{}", path.display());
        }
        assert!(!closed.is_of_kernel(&folder.join("work")));
    }
}
