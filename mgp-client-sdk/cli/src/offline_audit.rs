//! The audit log for changes that a command makes without a kernel's help, e.g. of approved projects or of API keys.
//!
//! A running kernel writes its audit log alone; while it runs, such changes are recorded in a second log in the same
//! folder.

use std::sync::Arc;

use mgp_security::{AuditLog, Governance, LogConfig};
use mgp_types::service::AuditSink;
use mgp_types::store::Store;

use crate::args::Global;
use crate::exit::CliResult;
use crate::lock::{self, Lock, LockAttempt};
use crate::state;

/// The name of the second log, which is used while a kernel runs.
pub(crate) const SIDE_LOG: &str = "beside";

/// An open audit log of a command.
pub(crate) struct OfflineAudit {
    log: AuditLog,
    store: Arc<dyn Store>,
    /// The lock of the state folder; `None` while a kernel runs.
    _folder: Option<Lock>,
}

impl OfflineAudit {
    /// Opens the audit log of the state folder, or the second log while a kernel runs.
    pub(crate) async fn open(global: &Global) -> CliResult<Self> {
        let folder = state::create_folder(global)?;
        if let LockAttempt::Acquired(lock) = lock::try_kernel(&folder)? {
            let governance = Governance::in_folder(&folder).await?;
            if let Some(log) = governance.log() {
                let store = Arc::clone(governance.store());
                return Ok(Self { log: log.clone(), store, _folder: Some(lock) });
            }
        }
        let config = LogConfig::new(folder.join("audit"))
            .name(SIDE_LOG)
            .digest_key(folder.join("digest.key"));
        let store: Arc<dyn Store> = Arc::new(state::db(global).await?);
        let log = AuditLog::open(config, Some(Arc::clone(&store))).await?;
        Ok(Self { log, store, _folder: None })
    }

    pub(crate) fn sink(&self) -> Arc<dyn AuditSink> {
        Arc::new(self.log.clone())
    }

    /// Returns the store that commits a change together with its audit event.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Closes the log after every event is on disk.
    pub(crate) async fn close(self) -> CliResult {
        Ok(self.log.close().await?)
    }
}
