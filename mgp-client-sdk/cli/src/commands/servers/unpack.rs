//! Unpacks a bundle (`.mcpb`) into a folder of the state folder.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use mgp_discovery::import::{Bundle, PublishedBundle, PublishedServer};
use serde_json::Value;
use zip::ZipArchive;

use super::bundle_users::{self, BundleUsers, fits_folder_name};
use super::registry::Registry;
use crate::args::Global;
use crate::exit::{CliResult, Failure};
use crate::output::{first_line, print_note};
use crate::replace_file::create_private;
use crate::{pipe, state};

/// The maximum size of the file of a bundle, in bytes.
const MAX_FILE_BYTES: u64 = 512 << 20;
/// The maximum number of files in a bundle.
const MAX_ENTRIES: usize = 50_000;
/// The maximum size of all unpacked files of a bundle together, in bytes.
const MAX_BYTES: u64 = 1 << 30;
/// The maximum size of the manifest of a bundle, in bytes.
pub(super) const MAX_MANIFEST_BYTES: u64 = 1 << 20;

/// The minimum age of an unfinished download or folder that counts as left by a killed process.
const LEFTOVER_AGE: Duration = Duration::from_hours(24);

/// Returns whether a path on the command line names a bundle.
pub(super) fn is_bundle(name: &str) -> bool {
    let ending = Path::new(name).extension();
    ending.is_some_and(|ending| {
        ending.eq_ignore_ascii_case("mcpb") || ending.eq_ignore_ascii_case("dxt")
    })
}

/// Parses the manifest of a bundle; some editors write a byte order mark before it.
pub(super) fn parse_manifest(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text.trim_start_matches('\u{feff}'))
}

/// A bundle file that is not unpacked yet.
pub(super) struct BundleFile {
    path: PathBuf,
    /// `true` if the file was downloaded; it is then removed when this value is dropped.
    is_download: bool,
    archive: ZipArchive<File>,
    pub(super) bundle: Bundle,
}

impl BundleFile {
    pub(super) fn open(path: &Path) -> CliResult<Self> {
        let failed =
            |why: String| Failure::failed(format!("`{}` cannot be used: {why}", path.display()));
        let file = pipe::refuse(path).and_then(|()| File::open(path));
        let file = file.map_err(|error| failed(error.to_string()))?;
        if file.metadata()?.len() > MAX_FILE_BYTES {
            return Err(failed(format!("it is longer than {MAX_FILE_BYTES} bytes")));
        }
        let mut archive = ZipArchive::new(file)
            .map_err(|error| failed(format!("it is not a bundle: {error}; download it again")))?;
        if archive.len() > MAX_ENTRIES {
            return Err(failed(format!("it has more than {MAX_ENTRIES} files")));
        }
        let mut text = String::new();
        let manifest = archive.by_name("manifest.json");
        let manifest = manifest.map_err(|_| failed("it has no `manifest.json`".to_owned()))?;
        let read = manifest.take(MAX_MANIFEST_BYTES + 1).read_to_string(&mut text);
        read.map_err(|error| failed(format!("{error}; download it again")))?;
        if text.len() as u64 > MAX_MANIFEST_BYTES {
            return Err(failed("its manifest is too long".to_owned()));
        }
        let manifest = parse_manifest(&text)
            .map_err(|error| failed(format!("its manifest is not JSON: {error}")))?;
        let bundle = Bundle::new(&manifest).map_err(failed)?;
        Ok(Self { path: path.to_owned(), is_download: false, archive, bundle })
    }

    /// Downloads the bundle that an entry of a registry names, and opens it under the name and version of the entry.
    pub(super) async fn download(
        global: &Global,
        registry: &Registry,
        server: &PublishedServer,
        bundle: &PublishedBundle,
    ) -> CliResult<Self> {
        let folder = Self::folder_of_all(global)?;
        fs::create_dir_all(&folder)?;
        remove_leftovers(&folder, ".download");
        let path = folder.join(format!(".download{}.mcpb", std::process::id()));
        // Remove the file that a killed process with the same process id may have left.
        let _ = fs::remove_file(&path);
        print_note(global, &format!("mgp: downloading {}", first_line(&bundle.url, 200)));
        registry.download(bundle, &path).await?;
        let opened = Self::open(&path);
        if opened.is_err() {
            let _ = fs::remove_file(&path);
        }
        let mut file = opened?;
        file.is_download = true;
        file.bundle.name.clone_from(&server.name);
        if let Some(version) = &server.version {
            file.bundle.version.clone_from(version);
        }
        Ok(file)
    }

    pub(super) fn folder_of_all(global: &Global) -> CliResult<PathBuf> {
        Ok(state::create_folder(global)?.join("bundles"))
    }

    /// Returns the folder of the files of a server that came from a bundle; the folder might not exist.
    pub(super) fn folder_of(global: &Global, id: &str) -> CliResult<PathBuf> {
        Ok(state::folder(global)?.join("bundles").join(folder_name(id)))
    }

    /// Returns the folder for this version of the bundle. It is below a folder of the server `id`, so that servers
    /// whose bundles have the same name do not share a folder.
    pub(super) fn folder(&self, bundles: &Path, id: &str) -> PathBuf {
        bundles.join(folder_name(id)).join(folder_name(&self.bundle.version))
    }

    /// Unpacks the files into a folder, and replaces the folder if it exists. `config` is the configuration file of the
    /// server that uses them.
    pub(super) fn unpack(&mut self, folder: &Path, config: &Path) -> CliResult {
        let parent = folder.parent().unwrap_or(folder);
        fs::create_dir_all(parent)?;
        let has_list = bundle_users::has_list(parent);
        remove_leftovers(parent, ".new");
        let fresh = parent.join(format!(".new{}", std::process::id()));
        // Remove the folder that a killed process with the same process id may have left.
        let _ = fs::remove_dir_all(&fresh);
        let unpacked = self.unpack_into(&fresh).and_then(|()| {
            // Write the list first, because without it the files could never be removed.
            if has_list {
                bundle_users::add_user(parent, config)?;
            }
            match fs::remove_dir_all(folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
            Ok(fs::rename(&fresh, folder)?)
        });
        if unpacked.is_err() {
            let _ = fs::remove_dir_all(&fresh);
        }
        unpacked
    }

    fn unpack_into(&mut self, folder: &Path) -> CliResult {
        let path = self.path.display().to_string();
        let failed = |why: String| Failure::failed(format!("`{path}` was not unpacked: {why}"));
        fs::create_dir(folder)?;
        let mut left = MAX_BYTES;
        for at in 0..self.archive.len() {
            let entry = self.archive.by_index(at).map_err(|error| failed(error.to_string()))?;
            let name = entry.name().map_err(|error| failed(error.to_string()))?.into_owned();
            let failed_at = |why: &str| failed(format!("`{}`{why}", name.escape_debug()));
            let not_written = |error: io::Error| failed_at(&format!(": {error}"));
            let inside = inside(&name).ok_or_else(|| failed_at(" leads out of its folder"))?;
            if entry.is_symlink() {
                return Err(failed_at(" is a link"));
            }
            let target = folder.join(inside);
            if entry.is_dir() {
                fs::create_dir_all(&target).map_err(not_written)?;
                continue;
            }
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent).map_err(not_written)?;
            }
            let is_program = entry.unix_mode().is_some_and(|mode| mode & 0o111 != 0);
            let mut file = create_private(&target).map_err(not_written)?;
            // Count the bytes that are unpacked, because the size that an archive states may be wrong.
            let copied = io::copy(&mut entry.take(left + 1), &mut file).map_err(not_written)?;
            left = left
                .checked_sub(copied)
                .ok_or_else(|| failed(format!("its files have more than {MAX_BYTES} bytes")))?;
            if is_program {
                make_executable(&file)?;
            }
        }
        Ok(())
    }
}

impl Drop for BundleFile {
    fn drop(&mut self) {
        if self.is_download {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes the files of a bundle's other versions, except those that a server may use. A folder that cannot be removed
/// does no harm.
pub(super) fn remove_other_versions(folder: &Path, users: &BundleUsers) {
    let Some(parent) = folder.parent() else { return };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_used = name.starts_with('.') || users.may_use(Some(&name));
        if !is_used && entry.path() != folder {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Removes the old files and folders whose names begin with this text, which killed processes left.
fn remove_leftovers(folder: &Path, begin: &str) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_old = |metadata: &fs::Metadata| {
            let age = metadata.modified().ok().and_then(|at| at.elapsed().ok());
            age.is_some_and(|age| age > LEFTOVER_AGE)
        };
        let metadata = entry.metadata().ok().filter(is_old);
        let is_named = entry.file_name().to_string_lossy().starts_with(begin);
        if let Some(metadata) = metadata.filter(|_| is_named) {
            let path = entry.path();
            let _ =
                if metadata.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    }
}

/// Returns the path of an archive entry, or `None` if it would be outside of the target folder.
fn inside(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(name);
    let is_safe = !name.is_empty()
        && !name.contains(['\\', '\0', ':'])
        && path.components().all(|part| matches!(part, Component::Normal(_)));
    is_safe.then_some(path)
}

/// Returns a text as the name of a folder, with `-` for characters that do not fit.
fn folder_name(text: &str) -> String {
    let fitting = text.chars().take(100).map(|c| if fits_folder_name(c) { c } else { '-' });
    let name: String = fitting.collect();
    let name = name.trim_start_matches('.');
    if name.is_empty() { "-".to_owned() } else { name.to_owned() }
}

#[cfg(unix)]
fn make_executable(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(fs::Permissions::from_mode(0o700))
}

#[cfg(not(unix))]
fn make_executable(_: &File) -> io::Result<()> {
    Ok(())
}
