//! The audit log, for changes that are made beside a kernel.
//!
//! A kernel that runs has the log to itself; then these changes are recorded in one of their own beside it.
//!
//! Applies to: both.

use std::sync::Arc;

use mgp_client_sdk::security::{AuditLog, FolderError, Governance, LogConfig, LogError};
use mgp_client_sdk::types::service::AuditSink;

use crate::cli::Global;
use crate::exit::Ended;
use crate::state;

/// The log of changes that were made while a kernel had its own.
pub(crate) const BESIDE: &str = "beside";

/// An open log.
pub(crate) struct Record(AuditLog);

/// Opens the log of the state, or the one beside it.
pub(crate) async fn open(global: &Global) -> Ended<Record> {
    let folder = state::made(global)?;
    match Governance::in_folder(&folder).await {
        Ok(governance) => {
            if let Some(log) = governance.log() {
                return Ok(Record(log.clone()));
            }
        }
        Err(FolderError::Log(LogError::Taken { .. })) => {}
        Err(error) => return Err(error.into()),
    }
    let config =
        LogConfig::new(folder.join("audit")).name(BESIDE).digest_key(folder.join("digest.key"));
    let store = Arc::new(state::db(global).await?);
    Ok(Record(AuditLog::open(config, Some(store)).await?))
}

impl Record {
    /// Where changes are recorded.
    pub(crate) fn sink(&self) -> Arc<dyn AuditSink> {
        Arc::new(self.0.clone())
    }

    /// Waits until everything is on the disk.
    pub(crate) async fn close(self) -> Ended {
        Ok(self.0.close().await?)
    }
}
