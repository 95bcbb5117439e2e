//! Publishes events about the records of the audit log that concern security and approvals (MGP §6, §13.5).

use std::sync::Weak;

use mgp_security::AuditLog;
use mgp_server_sdk::{EventDraft, EventSubject};
use mgp_types::ErrorCode;
use mgp_types::mgp::{AuditEvent, EventType, Severity};
use mgp_types::service::{Principal, ServerId, TenantId};
use mgp_types::{Object, Payload};
use serde::Serialize;
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::sync::watch;

use super::{
    ACCESS_DENIED, APPROVAL_DECIDED, APPROVAL_REQUESTED, DEFINITION_CHANGED, VALIDATION_FAILED,
};
use crate::handle::KernelParts;

/// The number of audit records that are read at a time.
const BATCH: usize = 256;

/// Publishes new records of the audit log until the kernel is dropped. This task keeps neither the kernel nor its log
/// alive.
pub(crate) async fn follow(kernel: Weak<KernelParts>) {
    let Some(parts) = kernel.upgrade() else { return };
    let Some(mut newest) = parts.audit.as_ref().map(|audit| audit.newest()) else { return };
    let before = *newest.borrow_and_update();
    let log = parts.fleet.context().governance.log().map(AuditLog::watch);
    // Publish the records that were written between the reading of `before` and the beginning of the watch above.
    let last = publish_after(&parts, before).await;
    drop(parts);
    match log {
        Some(records) => follow_log(&kernel, last, records).await,
        None => follow_memory(&kernel, last, newest).await,
    }
}

/// Publishes the records that a log sends. Reads the stored log only if this task has fallen behind, because a busy
/// kernel records thousands of calls per second.
async fn follow_log(
    kernel: &Weak<KernelParts>,
    mut last: u64,
    mut records: Receiver<(u64, Payload)>,
) {
    loop {
        let received = records.recv().await;
        let Some(parts) = kernel.upgrade() else { return };
        match received {
            Ok((number, _)) if number <= last => {}
            Ok((number, record)) => {
                last = number;
                match record.get() {
                    Ok(record) => publish(&parts, &record),
                    Err(error) => tracing::warn!(%error, "an event is not published"),
                }
            }
            Err(RecvError::Lagged(_)) => last = publish_after(&parts, last).await,
            Err(RecvError::Closed) => return,
        }
    }
}

async fn follow_memory(
    kernel: &Weak<KernelParts>,
    mut last: u64,
    mut newest: watch::Receiver<u64>,
) {
    while newest.changed().await.is_ok() {
        let Some(parts) = kernel.upgrade() else { return };
        last = publish_after(&parts, last).await;
    }
}

/// Publishes the stored records with a sequence number above `last`; returns the sequence number of the newest.
async fn publish_after(parts: &KernelParts, mut last: u64) -> u64 {
    while let Some(log) = &parts.audit {
        let read = match log.after(last, BATCH).await {
            Ok(read) => read,
            Err(error) => {
                tracing::warn!(%error, "events about security are not published");
                break;
            }
        };
        for record in &read {
            last = record.mgp.as_ref().and_then(|mgp| mgp.seq).unwrap_or(last).max(last);
            publish(parts, record);
        }
        if read.len() < BATCH {
            break;
        }
    }
    last
}

fn publish(parts: &KernelParts, record: &AuditEvent) {
    if let Some(draft) = draft(record) {
        parts.fleet.context().events.publish(draft);
    }
}

#[derive(Serialize)]
struct SecurityData<'a> {
    event_type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
    actor: &'a str,
    /// The tenant of `actor`, unless it is the local one.
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Object::is_empty")]
    details: Object,
}

/// The members of a record's details that the event contains. Other details could reveal the arguments of calls.
const DETAILS: [&str; 5] = ["code", "method", "approval_id", "decision", "expires_at"];

/// Returns the event to publish for an audit record; `None` for most kinds of records, which are not published.
fn draft(record: &AuditEvent) -> Option<EventDraft> {
    let (channel, severity) = channel(record)?;
    let target = record.target.as_ref();
    let server = target.and_then(|target| target.server_id.as_deref());
    let tool = target.and_then(|target| target.tool_name.as_deref());
    let mut details = Object::new();
    for name in DETAILS {
        if let Some(value) = record.details.as_ref().and_then(|details| details.get(name)) {
            details.insert(name, value.clone());
        }
    }
    let text = |name: &str| record.details.as_ref()?.get(name)?.get::<String>().ok();
    let tenant = text("tenant");
    let data = SecurityData {
        event_type: record.event_type.as_str(),
        server_id: server,
        tool_name: tool,
        actor: &record.actor.id,
        tenant: tenant.as_deref(),
        trace_id: record.trace_id.as_deref(),
        details,
    };
    let mut subject = EventSubject::default();
    subject.server = server.map(ServerId::from);
    subject.tool = tool.map(str::to_owned);
    let local = Principal::local();
    let of_tenant = tenant.as_deref().unwrap_or(local.tenant().as_str());
    subject.tenant = Some(TenantId::from(of_tenant));
    // The event of a changed definition names no caller, because no caller changed it.
    if channel != DEFINITION_CHANGED {
        let actor = &record.actor;
        // Name the caller whose request was decided, and not the operator who decided it.
        let (agent, user) = match text("asked_by").filter(|_| channel == APPROVAL_DECIDED) {
            Some(asked_by) => match text("asked_for") {
                Some(user) => (Some(asked_by), user),
                None => (None, asked_by),
            },
            None if actor.kind == "agent" => {
                let user = text("user").unwrap_or_else(|| local.subject().to_string());
                (Some(actor.id.clone()), user)
            }
            None => (None, actor.id.clone()),
        };
        let owner = Principal::new(of_tenant, user.as_str());
        subject.owner = Some(match agent {
            Some(agent) => owner.agent(agent.as_str()),
            None => owner,
        });
    }
    let draft = EventDraft::new(channel).severity(severity).data(&data).ok()?;
    Some(draft.timestamp(record.timestamp.clone()).subject(subject))
}

fn channel(record: &AuditEvent) -> Option<(&'static str, Severity)> {
    let code = record.details.as_ref().and_then(|details| details.get("code"));
    let code = code.and_then(|code: &Payload| code.get::<i32>().ok());
    let is_about_tool = record.target.as_ref().is_some_and(|target| target.tool_name.is_some());
    Some(match &record.event_type {
        // Skip this record: a record of `ValidationFailed` about the same call follows, and becomes the event.
        EventType::ToolBlocked if code == Some(ErrorCode::VALIDATION_BLOCKED.0) => return None,
        EventType::ToolBlocked => (ACCESS_DENIED, Severity::Warning),
        // Skip records about a tool here, because a refused call of a tool also causes a record of `ToolBlocked`.
        EventType::PermissionDenied if !is_about_tool => (ACCESS_DENIED, Severity::Warning),
        EventType::ValidationFailed | EventType::CodeRejected => {
            (VALIDATION_FAILED, Severity::Warning)
        }
        EventType::Other(name) => match &**name {
            "dev.cloto.definition_changed" => (DEFINITION_CHANGED, Severity::Warning),
            "dev.cloto.approval_requested" => (APPROVAL_REQUESTED, Severity::Info),
            "dev.cloto.approval_decided" => (APPROVAL_DECIDED, Severity::Info),
            _ => return None,
        },
        _ => return None,
    })
}
