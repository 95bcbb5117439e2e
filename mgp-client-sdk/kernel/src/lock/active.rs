//! The active lock file (`mgp.lock`), with which the kernel compares servers and tools, and the replacement of its
//! content.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use mgp_contract::LockFile;
use mgp_types::sync::RwLock;

/// The length and the modification time of the lock file, which reveal a change of the file; `None` if the file cannot
/// be opened.
pub(crate) type LockStamp = Option<(u64, SystemTime)>;

/// The active lock file, and the path from which the kernel reads it again. This handle is cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ActiveLock {
    current: Arc<RwLock<Arc<LockFile>>>,
    path: Option<Arc<Path>>,
}

impl ActiveLock {
    pub(crate) fn new(lock: LockFile, path: Option<PathBuf>) -> Self {
        let current = Arc::new(RwLock::new(Arc::new(lock)));
        Self { current, path: path.map(Arc::from) }
    }

    pub(crate) fn current(&self) -> Arc<LockFile> {
        Arc::clone(&self.current.read())
    }

    /// Returns the path from which the kernel reads the lock file again, if any.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Reads the lock file again; `None` if it was not read from a file. The call blocks.
    pub(crate) fn read_file(&self) -> Option<Result<LockFile, String>> {
        let path = self.path()?;
        let shown = path.display();
        let text = fs::read_to_string(path);
        let text = text.map_err(|error| format!("`{shown}` cannot be read: {error}"));
        let malformed = |error: String| format!("`{shown}` is not a lock file: {error}");
        Some(text.and_then(|text| LockFile::parse(&text).map_err(malformed)))
    }

    /// Returns the length and the modification time of the lock file. The call blocks.
    pub(crate) fn stamp(&self) -> LockStamp {
        // Open the file, because the system returns its metadata even if the file itself cannot be read. So the stamp
        // changes when an unreadable file becomes readable.
        let metadata = fs::File::open(self.path()?).and_then(|file| file.metadata()).ok()?;
        Some((metadata.len(), metadata.modified().ok()?))
    }

    /// Replaces the lock file, and returns the ids of the servers whose entries changed.
    pub(crate) fn replace(&self, lock: LockFile) -> BTreeSet<String> {
        let lock = Arc::new(lock);
        let before = std::mem::replace(&mut *self.current.write(), Arc::clone(&lock));
        let ids = before.servers.keys().chain(lock.servers.keys());
        ids.filter(|id| before.servers.get(*id) != lock.servers.get(*id)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use mgp_contract::LockedServer;

    use super::*;

    #[test]
    fn a_new_lock_file_changes_only_the_servers_whose_entries_differ() {
        let entry =
            |target: &str| LockedServer { target: target.to_owned(), ..LockedServer::default() };
        let lock = |entries: &[(&str, &str)]| {
            let servers = entries.iter().map(|(id, target)| ((*id).to_owned(), entry(target)));
            LockFile::new(servers.collect())
        };
        let active = ActiveLock::new(lock(&[("a", "1"), ("b", "1"), ("c", "1")]), None);
        let changed = active.replace(lock(&[("a", "1"), ("b", "2"), ("d", "1")]));
        assert_eq!(changed.into_iter().collect::<Vec<_>>(), ["b", "c", "d"]);
        assert_eq!(active.current().servers["b"].target, "2");
    }

    #[test]
    fn a_lock_file_that_is_missing_is_not_called_malformed() {
        let folder = mgp_testkit::temp_dir();
        let path = folder.path().join("mgp.lock");
        let active = ActiveLock::new(LockFile::new(BTreeMap::new()), Some(path.clone()));
        let missing = active.read_file().unwrap().unwrap_err();
        assert!(missing.contains("cannot be read") && active.stamp().is_none(), "{missing}");
        fs::write(&path, "{}").unwrap();
        let malformed = active.read_file().unwrap().unwrap_err();
        assert!(malformed.contains("is not a lock file") && active.stamp().is_some());
    }
}
