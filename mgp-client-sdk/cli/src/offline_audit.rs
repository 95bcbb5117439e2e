//! The audit log for changes that a command makes by itself.
//!
//! A running kernel has its log to itself; then these changes are recorded in a second log beside it.

use std::sync::Arc;

use mgp_security::{AuditLog, Governance, LogConfig};
use mgp_types::service::AuditSink;
use mgp_types::store::Store;

use crate::args::Global;
use crate::exit::CliResult;
use crate::lock::{self, Lock, LockAttempt};
use crate::state;

/// The name of the log beside that of a running kernel.
pub(crate) const SIDE_LOG: &str = "beside";

/// An open audit log.
pub(crate) struct OfflineAudit {
    log: AuditLog,
    store: Arc<dyn Store>,
    /// Held unless a kernel runs.
    _folder: Option<Lock>,
}

impl OfflineAudit {
    /// Opens the log of the state, or the second one while a kernel runs.
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

    /// Returns the store whose changes and events are committed together.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Waits until every event is on disk.
    pub(crate) async fn close(self) -> CliResult {
        Ok(self.log.close().await?)
    }
}
