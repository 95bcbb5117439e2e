//! Watches the state folder of a running kernel, whose files another program can remove or replace.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mgp_kernel::Kernel;
use mgp_types::is_other_file;
use mgp_types::store::Change;
use tokio::time::sleep;

use crate::lock::Lock;

const INTERVAL: Duration = Duration::from_secs(2);

/// Waits until the lock file in the state folder is no longer the one that this kernel has locked. Another kernel can
/// then start there, and records of this kernel are lost. While waiting, notes in the kernel whether its database or
/// the write-ahead log of the database was removed or replaced.
pub(crate) async fn folder_lost(kernel: &Kernel, lock: &Lock, folder: &Path) {
    let database = folder.join("state.db");
    // SQLite follows symbolic links, and creates the log beside the file itself.
    let mut log = fs::canonicalize(&database).unwrap_or_else(|_| database.clone()).into_os_string();
    log.push("-wal");
    let (mut database, mut log) = (WatchedFile::new(database), WatchedFile::new(log.into()));
    while !lock.is_replaced(folder) {
        let (is_new, is_log_new) = (database.check(), log.check());
        if log.is_lost || is_log_new {
            // Without the log, the store refuses this empty change, writes the accepted changes into the database file
            // and locks it; once the log is back, it ends that.
            let _ = kernel.governance().store().commit(Change::new()).await;
        }
        if is_new || is_log_new {
            kernel.set_endpoints(|endpoints| {
                endpoints.is_state_lost = database.is_lost;
                endpoints.is_state_log_lost = log.is_lost;
            });
        }
        sleep(INTERVAL).await;
    }
    tracing::error!("stopping: {}", lost_text(folder));
}

/// A file of the state folder, with its identity when the watch began.
struct WatchedFile {
    path: PathBuf,
    own: io::Result<Metadata>,
    is_lost: bool,
}

impl WatchedFile {
    fn new(path: PathBuf) -> Self {
        Self { own: fs::metadata(&path), path, is_lost: false }
    }

    /// Checks whether the file was removed or replaced, logs it, and returns whether that has changed.
    fn check(&mut self) -> bool {
        let is_lost = match &self.own {
            Ok(own) => is_other_file(own, &self.path),
            // Check whether the file exists, because it may have been removed before this watch began.
            Err(_) => matches!(self.path.try_exists(), Ok(false)),
        };
        let has_changed = is_lost != self.is_lost;
        self.is_lost = is_lost;
        if has_changed && is_lost {
            tracing::error!("`{}` was removed or replaced; see `mgp status`", self.path.display());
        }
        has_changed
    }
}

/// Returns the failure of a kernel whose state folder was lost.
pub(crate) fn lost_text(folder: &Path) -> String {
    format!(
        "the state folder `{}` was removed or replaced while a kernel used it",
        folder.display()
    )
}
