//! Audit events of a process that cannot write the log of a state folder, because another process has it open.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mgp_types::mgp::AuditEvent;
use mgp_types::service::{AuditError, AuditFuture, AuditSink, CallRecord, Ticket};
use mgp_types::store::{Change, Store, StoreError};
use tokio::time::{Instant, sleep};

use super::place::LogPlace;

/// The interval at which the store is checked for events that the other process has not taken yet.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// A sink that keeps events in the store of a state folder. The process that has the folder's audit log open, or else
/// the next process that opens it, moves them to the log.
///
/// It records decisions of operators, but no calls.
#[derive(Clone)]
pub struct DeferredAudit {
    store: Arc<dyn Store>,
    log: String,
}

mgp_types::opaque_debug!(DeferredAudit { log });

impl DeferredAudit {
    /// Creates the sink for the log of a state folder; `store` is the database of the folder.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn in_folder(
        folder: impl AsRef<Path>,
        store: Arc<dyn Store>,
    ) -> Result<Self, StoreError> {
        let log = LogPlace::kept(&*store, folder.as_ref()).await?.name;
        Ok(Self { store, log })
    }

    /// Waits until the other process has taken all events, for at most the time `longest`.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn wait_until_taken(&self, longest: Duration) -> Result<(), StoreError> {
        let end = Instant::now() + longest;
        while !self.store.pending_events(&self.log, 1).await?.is_empty() && Instant::now() < end {
            sleep(CHECK_INTERVAL).await;
        }
        Ok(())
    }
}

impl AuditSink for DeferredAudit {
    fn begin(&self, _: CallRecord) -> AuditFuture<Ticket> {
        AuditFuture::Ready(Err(AuditError::Closed))
    }

    fn record(&self, event: AuditEvent) -> AuditFuture<()> {
        let stored = self.store.commit(Change::new().event(&*self.log, event));
        AuditFuture::Later(Box::pin(
            async move { stored.await.map(drop).map_err(AuditError::failed) },
        ))
    }

    fn outbox(&self, store: &dyn Store) -> Option<&str> {
        store.revision().same_channel(&self.store.revision()).then_some(&*self.log)
    }
}

#[cfg(test)]
mod tests {
    use mgp_types::service::Principal;
    use mgp_types::store::Db;

    use super::*;
    use crate::audit::{AuditQuery, Event};
    use crate::governance::Governance;

    #[tokio::test]
    async fn the_process_that_has_the_log_open_takes_the_events() {
        let temp = mgp_testkit::temp_dir();
        let folder = temp.path().join("state");
        let governance = Governance::in_folder(&folder).await.unwrap();
        let store = Arc::new(Db::open(folder.join("state.db")).await.unwrap());
        let audit = DeferredAudit::in_folder(&folder, store).await.unwrap();
        let ann = Principal::new("local", "ann").operator();
        audit.record(Event::administered(&ann, None, "trust").build()).await.unwrap();
        audit.wait_until_taken(Duration::from_secs(20)).await.unwrap();
        let page = governance.log().unwrap().query(AuditQuery::new()).await.unwrap();
        assert_eq!(page.events.len(), 1, "{page:?}");
        assert_eq!(page.events[0].event_type.as_str(), "dev.cloto.administered");
    }
}
