//! An audit log that refuses all records.

use mgp_types::mgp::AuditEvent;
use mgp_types::service::{AuditError, AuditFuture, AuditSink, CallRecord, Ticket};

/// An audit log that refuses every record with the given error.
#[derive(Debug)]
pub struct RefusingAudit(pub AuditError);

impl AuditSink for RefusingAudit {
    fn begin(&self, _: CallRecord) -> AuditFuture<Ticket> {
        AuditFuture::Ready(Err(self.0.clone()))
    }

    fn record(&self, _: AuditEvent) -> AuditFuture<()> {
        AuditFuture::Ready(Err(self.0.clone()))
    }
}
