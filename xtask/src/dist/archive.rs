//! Writes archives whose bytes depend only on the given entries and the given time, not on the clock or the user.

use crate::run::{Context, Outcome};
use flate2::{Compression, GzBuilder};
use std::io::{Cursor, Write};
use zip::{DateTime, ZipWriter, write::SimpleFileOptions};

/// A file or a folder in an archive; the path of a folder ends with `/`.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) path: String,
    pub(super) mode: u32,
    pub(super) bytes: Vec<u8>,
}

impl Entry {
    pub(super) fn file(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode: 0o644, bytes: bytes.into() }
    }

    pub(super) fn program(path: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        Self { mode: 0o755, ..Self::file(path, bytes) }
    }

    pub(super) fn folder(path: impl Into<String>) -> Self {
        Self::program(path, Vec::new())
    }
}

/// Compresses bytes with gzip, without storing a time or a name.
pub(super) fn gzip(bytes: &[u8]) -> Outcome<Vec<u8>> {
    let mut writer = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    writer.write_all(bytes)?;
    Ok(writer.finish()?)
}

/// Returns a compressed tar archive; `epoch` is the time of each file, in seconds since 1970.
pub(super) fn tar_gz(entries: &[Entry], epoch: u64) -> Outcome<Vec<u8>> {
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    sorted.sort_by(|one, other| one.path.cmp(&other.path));
    let mut archive = tar::Builder::new(Vec::new());
    for entry in sorted {
        let mut header = tar::Header::new_gnu();
        header.set_mode(entry.mode);
        header.set_mtime(epoch);
        header.set_size(entry.bytes.len() as u64);
        if entry.path.ends_with('/') {
            header.set_entry_type(tar::EntryType::Directory);
        }
        archive
            .append_data(&mut header, &entry.path, entry.bytes.as_slice())
            .context(&entry.path)?;
    }
    gzip(&archive.into_inner()?)
}

/// Returns a zip archive in the order of the entries.
pub(super) fn zip(entries: &[Entry]) -> Outcome<Vec<u8>> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for entry in entries {
        let options = SimpleFileOptions::default()
            .last_modified_time(DateTime::default())
            .unix_permissions(entry.mode);
        archive.start_file(&entry.path, options).context(&entry.path)?;
        archive.write_all(&entry.bytes)?;
    }
    Ok(archive.finish()?.into_inner())
}

/// Returns an `ar` archive, the container format of Debian packages.
pub(super) fn ar(members: &[(&str, Vec<u8>)], epoch: u64) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let head =
            format!("{name:<16}{epoch:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, "100644", bytes.len());
        archive.extend_from_slice(head.as_bytes());
        archive.extend_from_slice(bytes);
        if bytes.len() % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}
