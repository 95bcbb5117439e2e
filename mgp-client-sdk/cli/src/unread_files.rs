//! Finds files from which a host starts servers in addition to those in its configuration file. mgp does not read these
//! files.

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
    /// Returns warnings if the host starts further servers from other files, which mgp does not read: files of
    /// Continue, and files of the profiles of VS Code.
    pub(crate) fn unread_servers(self, home: &Path) -> Vec<String> {
        match self.format() {
            Host::Continue => self.unread_in_folder(home),
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
    /// Returns the name of the file and the reason if the file cannot be read.
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

    fn unread_in_folder(self, home: &Path) -> Vec<String> {
        let file = self.user_file(home);
        let Some(folder) = file.parent() else { return Vec::new() };
        let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
        let paths = entries.flatten().take(MAX_BESIDE).map(|entry| entry.path());
        let (mut listing, mut unreadable) = (Vec::new(), Vec::new());
        for path in paths.filter(|path| *path != file && !path.is_dir()) {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            match lists_servers(&path) {
                Ok(true) => listing.push(name.to_owned()),
                Ok(false) => {}
                Err(_) => unreadable.push(name.to_owned()),
            }
        }
        listing.sort();
        unreadable.sort();
        let (folder, file, title) = (folder.display(), file.display(), self.title());
        let mut warnings = Vec::new();
        if !listing.is_empty() {
            let names = first_names(&listing);
            warnings.push(format!(
                "mgp does not read {names} in `{folder}`, so {title} starts the servers there itself, not governed; move them to `{file}`"
            ));
        }
        if !unreadable.is_empty() {
            let names = first_names(&unreadable);
            warnings.push(format!(
                "mgp cannot read {names} in `{folder}`, from which {title} may start servers itself, not governed; correct these files, or move them away"
            ));
        }
        warnings
    }
}

fn lists_servers(file: &Path) -> io::Result<bool> {
    let is_list =
        file.extension().is_some_and(|end| end == "json" || end == "yaml" || end == "yml");
    if !is_list {
        return Ok(false);
    }
    let text = read_short(file)?;
    Ok(["mcpServers", "command", "url"].iter().any(|key| text.contains(key)))
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
