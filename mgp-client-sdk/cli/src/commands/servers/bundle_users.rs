//! The configuration files whose servers use the files of a bundle.
//!
//! Bundles are unpacked into the state folder, which all configuration files of a user share. The folder of a bundle
//! has a list of the configuration files for which it was unpacked. Files of the bundle are removed only if the list is
//! readable, and no server in these configuration files uses them.

use std::collections::BTreeSet;
use std::fs::{self, DirEntry, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

use mgp_discovery::{Config, ServerConfig, TargetConfig};

use crate::pipe;

/// The name of the list in the folder of a bundle. It has the path of a configuration file on each line.
const LIST: &str = ".users";
/// The maximum size of the list, in bytes; a longer list counts as unreadable.
const MAX_LIST_BYTES: u64 = 256 << 10;
/// The maximum size of a configuration file, in bytes.
const MAX_CONFIG_BYTES: u64 = 16 << 20;
/// The line for a configuration file whose path does not fit on a line. It makes the list unreadable.
const UNKNOWN: &str = "?";

/// Returns whether a character fits into the name of a folder for a bundle.
pub(super) fn fits_folder_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._-+".contains(c)
}

/// Returns whether a folder has a list, or nothing is unpacked in it. A bundle that an earlier version of this program
/// unpacked has no list.
pub(super) fn has_list(folder: &Path) -> bool {
    let is_version = |entry: io::Result<DirEntry>| {
        !entry.is_ok_and(|entry| entry.file_name().to_string_lossy().starts_with('.'))
    };
    let is_empty = || fs::read_dir(folder).is_ok_and(|mut entries| !entries.any(is_version));
    folder.join(LIST).exists() || is_empty()
}

/// Adds a configuration file to the list of a folder.
pub(super) fn add_user(folder: &Path, config: &Path) -> io::Result<()> {
    let (path, config) = (folder.join(LIST), std::path::absolute(config)?);
    pipe::refuse(&path)?;
    let is_full = fs::metadata(&path).is_ok_and(|metadata| metadata.len() > MAX_LIST_BYTES);
    if is_full || listed(folder).is_some_and(|files| files.contains(&config)) {
        return Ok(());
    }
    let line = config.to_str().filter(|line| !line.contains(['\n', '\r'])).unwrap_or(UNKNOWN);
    let mut list = OpenOptions::new().append(true).create(true).open(&path)?;
    // A killed process may have left half a line at the end, so begin with a line break.
    list.write_all(format!("\n{line}\n").as_bytes())
}

/// Returns the configuration files in the list of a folder; `None` if the list is missing, damaged or too long.
fn listed(folder: &Path) -> Option<Vec<PathBuf>> {
    let mut text = String::new();
    let list = folder.join(LIST);
    pipe::refuse(&list).ok()?;
    let list = File::open(list).ok()?;
    list.take(MAX_LIST_BYTES + 1).read_to_string(&mut text).ok()?;
    if text.len() as u64 > MAX_LIST_BYTES {
        return None;
    }
    let files = text.lines().filter(|line| !line.is_empty()).map(PathBuf::from);
    files.map(|file| file.is_absolute().then_some(file)).collect()
}

/// The texts of the servers in all configuration files that may use a bundle. A server that uses a file of the bundle
/// has a text that names the bundle's folder.
pub(super) struct BundleUsers {
    /// The end of the path of the bundle's folder; a text that contains it names the folder.
    place: String,
    /// The commands, arguments, folders and values of variables of all servers in these files, in comparable form;
    /// `None` if the list of users or one of the files cannot be read.
    texts: Option<Vec<String>>,
}

impl BundleUsers {
    /// Reads the configuration files in the list of a bundle's folder, and the given further files.
    pub(super) fn read<'a>(folder: &Path, more: impl Iterator<Item = &'a Path>) -> Self {
        let read = |listed: Vec<PathBuf>| {
            let files: BTreeSet<PathBuf> =
                listed.into_iter().chain(more.map(PathBuf::from)).collect();
            let texts: Option<Vec<_>> = files.iter().map(|file| texts_of_file(file)).collect();
            Some(texts?.concat())
        };
        let id = folder.file_name().unwrap_or_default().to_string_lossy();
        Self { place: format!("bundles/{id}"), texts: listed(folder).and_then(read) }
    }

    /// Returns whether a server may use files of this version of the bundle, or of any version if `version` is `None`.
    pub(super) fn may_use(&self, version: Option<&str>) -> bool {
        let Some(texts) = &self.texts else { return true };
        let version = version.map(|version| format!("/{version}")).unwrap_or_default();
        let place = comparable(&format!("{}{version}", self.place));
        let names_it = |text: &String| {
            let mut ends = text.match_indices(&place).map(|(at, _)| &text[at + place.len()..]);
            ends.any(|rest| !rest.starts_with(fits_folder_name))
        };
        texts.iter().any(names_it)
    }
}

/// Returns the texts of the servers in a configuration file; `None` if the file cannot be read. A missing file has no
/// texts.
fn texts_of_file(file: &Path) -> Option<Vec<String>> {
    let metadata = match fs::metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Some(Vec::new()),
        metadata => metadata.ok()?,
    };
    if !metadata.is_file() || metadata.len() > MAX_CONFIG_BYTES {
        return None;
    }
    let parsed = Config::parse(file, &fs::read_to_string(file).ok()?).ok()?;
    // Return nothing if an entry has an error, because the texts of that server are not known.
    parsed.broken.is_empty().then(|| parsed.config.servers.iter().flat_map(texts_of).collect())
}

fn texts_of(server: &ServerConfig) -> Vec<String> {
    let TargetConfig::Program { command, args, cwd, env } = &server.target else {
        return Vec::new();
    };
    let texts = [command].into_iter().chain(args).chain(cwd).chain(env.values());
    texts.map(|text| comparable(text)).collect()
}

/// Returns a text in lower case and with `/` in place of `\`, so that paths of all systems can be compared.
fn comparable(text: &str) -> String {
    text.replace('\\', "/").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates the folder of a bundle, and a configuration file whose server runs there.
    fn bundle(cwd: &str) -> (mgp_testkit::TempDir, PathBuf, PathBuf) {
        let home = mgp_testkit::temp_dir();
        let (folder, config) = (home.path().join("bundles/desk"), home.path().join("mgp.toml"));
        fs::create_dir_all(&folder).unwrap();
        let text = format!("# {cwd}\n[[servers]]\nid = 'desk'\ncommand = 'desk'\ncwd = '{cwd}'\n");
        fs::write(&config, text).unwrap();
        (home, folder, config)
    }

    fn read(folder: &Path) -> BundleUsers {
        BundleUsers::read(folder, std::iter::empty())
    }

    #[test]
    fn a_server_uses_only_the_version_that_it_names() {
        let (_home, folder, config) = bundle("/s/bundles/desk/1.0.0/server");
        add_user(&folder, &config).unwrap();
        add_user(&folder, &config).unwrap();
        assert_eq!(listed(&folder).unwrap(), std::slice::from_ref(&config), "it is listed once");
        let users = read(&folder);
        assert!(users.may_use(None) && users.may_use(Some("1.0.0")));
        assert!(!users.may_use(Some("1.0")) && !users.may_use(Some("1.0.1")));
        // A file that only a comment names is not in use.
        fs::write(&config, "# From /s/bundles/desk/1.0.0\n").unwrap();
        assert!(!read(&folder).may_use(None));
        fs::remove_file(&config).unwrap();
        assert!(!read(&folder).may_use(None), "the file of a removed project uses nothing");
    }

    #[test]
    fn a_list_that_cannot_be_read_frees_no_files() {
        let (_home, folder, config) = bundle("/elsewhere");
        assert!(read(&folder).may_use(None), "it has no list");
        add_user(&folder, &config).unwrap();
        assert!(!read(&folder).may_use(None));
        fs::write(&config, "[[servers]]\nid = 'desk'\n").unwrap();
        assert!(read(&folder).may_use(None), "the server has no command");
        fs::remove_file(&config).unwrap();
        let long = vec![b'\n'; 300 << 10];
        for damaged in [&b"mgp.toml\n"[..], b"?\n", b"\xff\n", &long] {
            fs::write(folder.join(LIST), damaged).unwrap();
            add_user(&folder, &config).unwrap();
            assert!(read(&folder).may_use(None), "{damaged:?}");
        }
        assert!(fs::metadata(folder.join(LIST)).unwrap().len() <= 300 << 10, "it does not grow");
    }

    #[test]
    fn a_bundle_without_a_list_gets_none() {
        let (_home, folder, config) = bundle("/elsewhere");
        assert!(has_list(&folder), "nothing is unpacked there");
        fs::create_dir(folder.join("1.0.0")).unwrap();
        assert!(!has_list(&folder));
        add_user(&folder, &config).unwrap();
        assert!(has_list(&folder));
    }
}
