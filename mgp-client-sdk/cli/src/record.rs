//! The audit log, for changes that are made beside a kernel.
//!
//! A kernel that runs has the log to itself; then these changes are recorded in one of their own beside it.
//!
//! Applies to: both.

use std::sync::Arc;

use mgp_security::{AuditLog, Governance, LogConfig};
use mgp_types::service::AuditSink;
use mgp_types::store::Store;

use crate::cli::Global;
use crate::exit::Ended;
use crate::lock::{self, Lock, Locked};
use crate::state;

/// The log of changes that were made while a kernel had its own.
pub(crate) const BESIDE: &str = "beside";

/// An open log; the folder too, where no kernel has it.
pub(crate) struct Record {
    log: AuditLog,
    store: Arc<dyn Store>,
    _folder: Option<Lock>,
}

/// Opens the log of the state, or the one beside it.
pub(crate) async fn open(global: &Global) -> Ended<Record> {
    let folder = state::made(global)?;
    if let Locked::Ours(lock) = lock::kernel(&folder)? {
        let governance = Governance::in_folder(&folder).await?;
        if let Some(log) = governance.log() {
            let store = Arc::clone(governance.store());
            return Ok(Record { log: log.clone(), store, _folder: Some(lock) });
        }
    }
    let config =
        LogConfig::new(folder.join("audit")).name(BESIDE).digest_key(folder.join("digest.key"));
    let store: Arc<dyn Store> = Arc::new(state::db(global).await?);
    let log = AuditLog::open(config, Some(Arc::clone(&store))).await?;
    Ok(Record { log, store, _folder: None })
}

impl Record {
    /// Where changes are recorded.
    pub(crate) fn sink(&self) -> Arc<dyn AuditSink> {
        Arc::new(self.log.clone())
    }

    /// The state that the log takes events from: what is changed there is recorded with it.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Waits until everything is on the disk.
    pub(crate) async fn close(self) -> Ended {
        Ok(self.log.close().await?)
    }
}
