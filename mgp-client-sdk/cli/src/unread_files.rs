//! Finds files from which a host starts servers in addition to those in its configuration file. mgp does not change
//! these files.

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
    /// Returns warnings if the host starts further servers from other files, which mgp does not change: files of
    /// Continue, files of the profiles of VS Code, and the other files of `OpenCode` in its folder.
    pub(crate) fn ungoverned_servers(self, home: &Path) -> Vec<String> {
        match self.format() {
            Host::Continue => self.unread_in_folder(home),
            Host::VsCode => self.unread_in(self.files_of_profiles(home), "of the profile in"),
            Host::OpenCode => self.unread_in(self.others_of_opencode(home), "in"),
            _ => Vec::new(),
        }
    }

    fn files_of_profiles(self, home: &Path) -> Vec<PathBuf> {
        let profiles = self.user_file(home).with_file_name("profiles");
        let Ok(entries) = std::fs::read_dir(profiles) else { return Vec::new() };
        let entries = entries.flatten().take(MAX_BESIDE);
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path().join("mcp.json")).collect();
        files.sort();
        files
    }

    /// Returns the files of `OpenCode` that it reads in addition to the one that mgp changes.
    fn others_of_opencode(self, home: &Path) -> Vec<PathBuf> {
        let own = self.user_file(home);
        let files = ["config.json", "opencode.json", "opencode.jsonc"].into_iter();
        files.map(|name| own.with_file_name(name)).filter(|file| *file != own).collect()
    }

    fn unread_in(self, files: Vec<PathBuf>, place: &str) -> Vec<String> {
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
                "{title} starts the servers {place} `{file}`{more} itself, not governed; run `mgp import \"{file}\" --apply`, then `mgp connect {name} \"{file}\" --replace`"
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

    /// Returns warnings about the other files in the folder of Continue's file.
    fn unread_in_folder(self, home: &Path) -> Vec<String> {
        let file = self.user_file(home);
        let Some(folder) = file.parent() else { return Vec::new() };
        let (listing, unreadable) = self.beside(&file);
        let (folder, name, title) = (folder.display(), self.name(), self.title());
        let names = |files: &[PathBuf]| {
            let names = files.iter().filter_map(|file| file.file_name()?.to_str());
            first_names(&names.map(str::to_owned).collect::<Vec<_>>())
        };
        let mut warnings = Vec::new();
        if !listing.is_empty() {
            let names = names(&listing);
            warnings.push(format!(
                "mgp cannot change {names} in `{folder}`, so {title} starts the servers there itself, not governed; `mgp import {name} --apply` copies them, then remove them there"
            ));
        }
        if !unreadable.is_empty() {
            let names = names(&unreadable);
            warnings.push(format!(
                "mgp cannot read {names} in `{folder}`, from which {title} may start servers itself, not governed; correct these files, or move them away"
            ));
        }
        warnings
    }

    /// Returns the files beside the host's file from which the host starts further servers: of Continue only.
    pub(crate) fn files_beside(self, file: &Path) -> Vec<PathBuf> {
        if self.format() == Host::Continue { self.beside(file).0 } else { Vec::new() }
    }

    /// Returns the other files in the folder of a file that have servers, and those that cannot be read.
    fn beside(self, file: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let (mut listing, mut unreadable) = (Vec::new(), Vec::new());
        let entries = file.parent().and_then(|folder| std::fs::read_dir(folder).ok());
        let entries = entries.into_iter().flatten().flatten().take(MAX_BESIDE);
        let is_other = |path: &PathBuf| path != file && may_list_servers(path) && !path.is_dir();
        for path in entries.map(|entry| entry.path()).filter(is_other) {
            match self.starts_others(&path) {
                Ok(true) => listing.push(path),
                Ok(false) => {}
                Err(_) => unreadable.push(path),
            }
        }
        listing.sort();
        unreadable.sort();
        (listing, unreadable)
    }
}

/// Returns whether Continue reads a file of this name in its folder.
pub(crate) fn may_list_servers(file: &Path) -> bool {
    file.extension().is_some_and(|end| end == "json" || end == "yaml" || end == "yml")
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
