//! The audit log for changes that a command makes without a kernel's help, e.g. of approved projects or of API keys.
//!
//! While another process holds the state folder, e.g. a running kernel, only that process writes the log; it takes the
//! events of the command from the store.

use std::sync::Arc;
use std::time::Duration;

use mgp_security::{AuditLog, DeferredAudit, Governance};
use mgp_types::service::AuditSink;
use mgp_types::store::{Durability, Store};

use crate::args::Global;
use crate::exit::CliResult;
use crate::lock::{self, Lock, LockAttempt};
use crate::state;

/// The maximum time that a command waits until the process that holds the state folder has written the command's
/// events.
const TAKEN_TIMEOUT: Duration = Duration::from_secs(1);

/// The audit log of a command, for the events of its changes.
pub(crate) struct OfflineAudit {
    log: CommandLog,
    store: Arc<dyn Store>,
}

enum CommandLog {
    /// The log of the state folder, which this command has locked.
    Own(AuditLog, Lock),
    /// The store; the process that holds the state folder takes the events from it.
    Deferred(DeferredAudit),
}

impl OfflineAudit {
    /// Opens the audit log of the state folder.
    pub(crate) async fn open(global: &Global) -> CliResult<Self> {
        let folder = state::create_folder(global)?;
        if let LockAttempt::Acquired(lock) = lock::try_kernel(&folder)? {
            let governance = Governance::in_folder(&folder).await?;
            if let Some(log) = governance.log() {
                let store = Arc::clone(governance.store());
                return Ok(Self { log: CommandLog::Own(log.clone(), lock), store });
            }
        }
        let store: Arc<dyn Store> = Arc::new(state::open_db(global, Durability::Full).await?);
        let log = DeferredAudit::in_folder(&folder, Arc::clone(&store)).await?;
        Ok(Self { log: CommandLog::Deferred(log), store })
    }

    pub(crate) fn sink(&self) -> Arc<dyn AuditSink> {
        match &self.log {
            CommandLog::Own(log, _) => Arc::new(log.clone()),
            CommandLog::Deferred(log) => Arc::new(log.clone()),
        }
    }

    /// Returns the store that commits a change together with its audit event.
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Closes the log after every event is on disk. If another process writes the log, waits up to [`TAKEN_TIMEOUT`]
    /// until that process has written the events.
    pub(crate) async fn close(self) -> CliResult {
        match self.log {
            CommandLog::Own(log, lock) => {
                log.close().await?;
                drop(lock);
                Ok(())
            }
            CommandLog::Deferred(log) => Ok(log.wait_until_taken(TAKEN_TIMEOUT).await?),
        }
    }
}
