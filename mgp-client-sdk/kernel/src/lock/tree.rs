//! Hashes of files and folders.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use mgp_types::to_hex;
use sha2::{Digest as _, Sha256};

/// The maximum total size of the files of a folder, in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// The maximum number of files and folders in a folder that is hashed.
const MAX_FILES: usize = 100_000;

/// The names of the folders into which programs write while they run. Hashes do not include these folders.
const CACHES: &[&str] = &[".cache", "__pycache__"];

pub(super) fn hash_file(path: &Path) -> Result<String, String> {
    let mut hash = Sha256::new();
    add_file(path, &mut hash).map_err(|error| failed(path, &error))?;
    Ok(to_hex(&hash.finalize()))
}

/// Returns the SHA-256 of the names and contents of all files in a folder and its subfolders.
pub(super) fn hash_folder(folder: &Path) -> Result<String, String> {
    let mut files = Vec::new();
    list(folder, &mut files).map_err(|error| failed(folder, &error))?;
    files.sort();
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    for file in &files {
        let name = file.strip_prefix(folder).unwrap_or(file).to_string_lossy();
        hash.update((name.len() as u64).to_be_bytes());
        hash.update(name.as_bytes());
        let length = match fs::read_link(file) {
            // Of a link, hash only the target path: a target in the folder is hashed itself, and the path identifies
            // any other target.
            Ok(target) => {
                let target = target.to_string_lossy().into_owned();
                hash.update(target.as_bytes());
                target.len() as u64
            }
            Err(_) => add_file(file, &mut hash).map_err(|error| failed(file, &error))?,
        };
        hash.update(length.to_be_bytes());
        bytes += length;
        if bytes > MAX_BYTES {
            return Err(format!("`{}` has more than {MAX_BYTES} bytes", folder.display()));
        }
    }
    Ok(to_hex(&hash.finalize()))
}

fn add_file(path: &Path, hash: &mut Sha256) -> io::Result<u64> {
    // Check the kind of the file before opening it, because opening a named pipe would block.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a plain file"));
    }
    let mut file = File::open(path)?.take(MAX_BYTES + 1);
    let (mut buffer, mut total) = (vec![0; 64 * 1024], 0);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(total);
        }
        hash.update(&buffer[..read]);
        total += read as u64;
        if total > MAX_BYTES {
            return Err(io::Error::other("it is too large"));
        }
    }
}

fn list(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut open = vec![folder.to_owned()];
    let mut seen = 0;
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            seen += 1;
            if seen > MAX_FILES {
                return Err(io::Error::other(format!("it has more than {MAX_FILES} files")));
            }
            let is_cache = CACHES.iter().any(|name| entry.file_name() == *name);
            if entry.file_type()?.is_dir() {
                open.extend((!is_cache).then(|| entry.path()));
            } else {
                files.push(entry.path());
            }
        }
    }
    Ok(())
}

fn failed(path: &Path, error: &io::Error) -> String {
    format!("`{}` cannot be read: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_folder_covers_names_and_contents_but_no_caches() {
        let folder = mgp_testkit::temp_dir();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
            hash_folder(folder.path()).unwrap()
        };
        let first = write("a/x.js", "1");
        assert_eq!(write("a/__pycache__/x", "1"), first);
        let second = write("a/x.js", "2");
        assert_ne!(second, first);
        assert_eq!(write("a/x.js", "1"), first);
        assert_ne!(write("a/y.js", ""), first);
    }
}
