//! File locks on a state folder: one for the kernel that uses the folder, one for the process that starts a kernel.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use mgp_types::is_other_file;
use serde::{Deserialize, Serialize};

use crate::exit::{CliResult, Failure};
use crate::pipe;
use crate::replace_file::create_private;
use crate::state::unusable;

/// The name of the file that lists the configuration files whose changes a kernel applies.
const FOLLOWED: &str = "kernel.files";

/// The second line of the lock file of a kernel that finishes its calls before it ends.
const STOPPING: &str = "stopping";

/// A held file lock; dropping it or ending the process releases it.
#[derive(Debug)]
#[must_use = "the lock ends when it is dropped"]
pub(crate) struct Lock(File);

#[derive(Debug)]
pub(crate) enum LockAttempt {
    Acquired(Lock),
    /// Another process holds the lock; `None` if its process id could not be read.
    Held(Option<u32>),
}

impl Lock {
    /// Returns whether the file of this lock is no longer in the state folder, because the file or the folder was
    /// removed or replaced.
    pub(crate) fn is_replaced(&self, folder: &Path) -> bool {
        self.0.metadata().is_ok_and(|own| is_other_file(&own, &kernel_file(folder)))
    }

    /// Records that the kernel which holds this lock finishes its calls and then ends.
    pub(crate) fn record_stopping(&self) {
        // Ignore an error: without the record, commands only describe the kernel less precisely.
        let _ = writeln!(&self.0, "{STOPPING}");
    }
}

fn kernel_file(folder: &Path) -> PathBuf {
    folder.join("kernel.lock")
}

fn start_file(folder: &Path) -> PathBuf {
    folder.join("start.lock")
}

/// Tries to take the lock that a kernel holds while it uses a state folder.
pub(crate) fn try_kernel(folder: &Path) -> CliResult<LockAttempt> {
    try_lock(&kernel_file(folder))
}

/// Tries to take the lock that a process holds while it starts a kernel for a state folder.
pub(crate) fn try_start(folder: &Path) -> CliResult<LockAttempt> {
    try_lock(&start_file(folder))
}

/// Checks that the files of both locks can be locked, as far as they exist.
pub(crate) fn check_files(folder: &Path) -> CliResult {
    refuse_special(&kernel_file(folder))?;
    refuse_special(&start_file(folder))
}

/// Returns the process that holds the lock of a kernel, or held it last, if its id can be read.
pub(crate) fn kernel_process(folder: &Path) -> Option<u32> {
    process_of(&kernel_text(folder)?)
}

fn kernel_text(folder: &Path) -> Option<String> {
    let file = kernel_file(folder);
    // Refuse a pipe, because opening it would wait for another process.
    refuse_special(&file).ok()?;
    fs::read_to_string(file).ok()
}

/// Returns the process id in the text of a lock file.
fn process_of(text: &str) -> Option<u32> {
    text.lines().next()?.trim().parse().ok()
}

/// Returns whether a process holds the lock of a kernel. Changes no file. Does not read the file, because Windows lets
/// no other process read a locked one.
pub(crate) fn is_held(folder: &Path) -> bool {
    let is_held = |file: File| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
    let file = kernel_file(folder);
    // Refuse a pipe, because opening it would wait for another process.
    refuse_special(&file).is_ok() && File::open(file).is_ok_and(is_held)
}

/// Returns whether the kernel that holds the lock finishes its calls and then ends.
pub(crate) fn is_stopping(folder: &Path) -> bool {
    is_held(folder) && kernel_text(folder).is_some_and(|text| records_stopping(&text))
}

fn records_stopping(text: &str) -> bool {
    text.lines().nth(1) == Some(STOPPING)
}

/// Returns the failure of a command while another process holds the lock of a kernel and does not serve.
pub(crate) fn unserved(folder: &Path) -> Failure {
    Failure::unserved(unserved_text(folder))
}

/// Returns the text about a process that holds the lock of a kernel and does not serve; after its last semicolon comes
/// the remedy.
pub(crate) fn unserved_text(folder: &Path) -> String {
    let text = kernel_text(folder).unwrap_or_default();
    let process = process_of(&text);
    let process =
        process.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
    let folder = folder.display();
    if records_stopping(&text) {
        return format!(
            "the kernel of `{folder}` ({process}) is stopping; wait until it has ended"
        );
    }
    format!(
        "{process} uses the state folder `{folder}` and does not answer; try again in a few seconds, or check and end it"
    )
}

/// The record of a kernel's configuration files.
#[derive(Serialize, Deserialize)]
struct FollowedFiles {
    /// The process id of the kernel, so that the record of an earlier kernel is not used.
    pid: u32,
    files: Vec<PathBuf>,
}

/// Records the configuration files whose changes the kernel of a state folder applies. Commands read this record if the
/// kernel does not answer them.
pub(crate) fn record_files<'a>(folder: &Path, files: impl Iterator<Item = &'a Path>) {
    let files = files.map(Path::to_path_buf).collect();
    let path = folder.join(FOLLOWED);
    let _ = fs::remove_file(&path);
    let record = FollowedFiles { pid: std::process::id(), files };
    // If the record is missing, e.g. because a path is not UTF-8, commands that get no answer assume that the kernel
    // uses every file.
    if let Ok(text) = serde_json::to_vec(&record) {
        let _ = create_private(&path).and_then(|mut file| file.write_all(&text));
    }
}

/// Returns the configuration files that the kernel of a state folder has recorded; `None` if it has recorded none.
pub(crate) fn followed_files(folder: &Path) -> Option<Vec<PathBuf>> {
    let text = pipe::read_to_string(&folder.join(FOLLOWED)).ok()?;
    let record: FollowedFiles = serde_json::from_str(&text).ok()?;
    (Some(record.pid) == kernel_process(folder)).then_some(record.files)
}

/// Refuses a folder, a pipe and the like, which cannot contain a process id.
fn refuse_special(path: &Path) -> CliResult {
    match fs::metadata(path) {
        Ok(found) if !found.is_file() => {
            let path = path.display();
            Err(Failure::failed(format!("`{path}` is not a plain file; move it away")))
        }
        _ => Ok(()),
    }
}

fn try_lock(path: &Path) -> CliResult<LockAttempt> {
    refuse_special(path)?;
    let failed = |error| unusable(path, &error);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {
            // Write the process id for people, and for the error message of the next process that tries to lock.
            let written = file.set_len(0).and_then(|()| file.rewind());
            written.and_then(|()| writeln!(file, "{}", std::process::id())).map_err(failed)?;
            Ok(LockAttempt::Acquired(Lock(file)))
        }
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let read = file.take(32).read_to_string(&mut text);
            Ok(LockAttempt::Held(read.ok().and_then(|_| process_of(&text))))
        }
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Unlock the file explicitly, because closing it would not release the lock if a child process inherited the
        // descriptor.
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_in_use_also_if_the_process_id_cannot_be_read() {
        let folder = mgp_testkit::temp_dir();
        assert!(!is_held(folder.path()));
        let file = File::create(kernel_file(folder.path())).unwrap();
        assert!(!is_held(folder.path()));
        file.lock().unwrap();
        assert!(is_held(folder.path()));
    }
}
