//! Files beside a host's configuration file, from which the host starts servers that mgp does not read.

use std::io;
use std::io::ErrorKind::{NotADirectory, NotFound};
use std::path::{Path, PathBuf};

use mgp_discovery::DiscoveryError;
use mgp_discovery::import::{Host, ImportError, read};

use crate::hosts::{KnownHost, MAX_BESIDE, first_names};
use crate::this_program::is_mgp;

/// The maximum size of a file that is searched for servers, in bytes.
const MAX_BYTES: u64 = 1 << 20;

impl KnownHost {
    /// Returns warnings if the host starts further servers from files beside its configuration file, which mgp does
    /// not read: those of Continue, and of the profiles of VS Code.
    pub(crate) fn unread_servers(self, home: &Path) -> Vec<String> {
        match self.format() {
            Host::Continue => self.unread_in_folder(home).into_iter().collect(),
            Host::VsCode => self.unread_in_profiles(home),
            _ => Vec::new(),
        }
    }

    fn unread_in_profiles(self, home: &Path) -> Vec<String> {
        let profiles = self.user_file(home).with_file_name("profiles");
        let Ok(entries) = std::fs::read_dir(profiles) else { return Vec::new() };
        let entries = entries.flatten().take(MAX_BESIDE);
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path().join("mcp.json")).collect();
        files.sort();
        let (mut started, mut warnings) = (Vec::new(), Vec::new());
        for file in files {
            match self.starts_others(&file) {
                Ok(true) => started.push(file),
                Ok(false) => {}
                Err(why) => warnings.push(format!("{}: {why}; correct the file", self.name())),
            }
        }
        if let Some(file) = started.first() {
            let (title, name, file) = (self.title(), self.name(), file.display());
            let more = match started.len() {
                1 => String::new(),
                all => format!(" (and those of {} more)", all - 1),
            };
            warnings.push(format!(
                "{title} starts the servers of the profile in `{file}`{more} itself, not governed; run `mgp import \"{file}\" --apply`, then `mgp connect {name} \"{file}\" --replace`"
            ));
        }
        warnings
    }

    /// Returns whether the host starts servers other than mgp from a file; `false` if the file does not exist.
    ///
    /// # Errors
    /// The name of the file, and the reason for which it cannot be read.
    pub(crate) fn starts_others(self, file: &Path) -> Result<bool, String> {
        let text = match read_short(file) {
            Err(error) if matches!(error.kind(), NotFound | NotADirectory) => return Ok(false),
            text => text.map_err(|why| format!("`{}` cannot be read: {why}", file.display()))?,
        };
        if text.trim().is_empty() {
            return Ok(false);
        }
        match read(self.format(), file, &text) {
            Ok(all) => Ok(all.servers.iter().any(|server| !is_mgp(&server.entry))
                || all.refused.iter().any(ImportError::is_started)),
            Err(DiscoveryError::NoServers { .. }) => Ok(false),
            Err(error) => Err(error.to_string()),
        }
    }

    fn unread_in_folder(self, home: &Path) -> Option<String> {
        let file = self.user_file(home);
        let folder = file.parent()?;
        let entries = std::fs::read_dir(folder).ok()?.flatten().take(MAX_BESIDE);
        let mut names: Vec<String> = entries
            .map(|entry| entry.path())
            .filter(|path| *path != file && lists_servers(path))
            .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
            .collect();
        names.sort();
        (!names.is_empty()).then(|| {
            format!(
                "mgp does not read {} in `{}`, so {} starts the servers there itself, not governed; move them to `{}`",
                first_names(&names),
                folder.display(),
                self.title(),
                file.display()
            )
        })
    }
}

/// Returns whether a file of Continue seems to list servers.
fn lists_servers(file: &Path) -> bool {
    let is_list =
        file.extension().is_some_and(|end| end == "json" || end == "yaml" || end == "yml");
    is_list
        && read_short(file)
            .is_ok_and(|text| ["mcpServers", "command", "url"].iter().any(|key| text.contains(key)))
}

fn read_short(file: &Path) -> io::Result<String> {
    let metadata = std::fs::metadata(file)?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if metadata.len() > MAX_BYTES {
        return Err(io::Error::other("it is longer than 1 MiB"));
    }
    std::fs::read_to_string(file)
}
