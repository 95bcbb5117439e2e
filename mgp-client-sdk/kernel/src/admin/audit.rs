//! Methods that read the audit log (MGP §6).

use std::time::Duration;

use mgp_security::{AuditLog, AuditQuery, RESULT_WORDS};
use mgp_types::mgp::{
    EventType, KernelAuditParams, KernelAuditResult, KernelAuditVerifyParams,
    KernelAuditVerifyResult,
};
use mgp_types::service::Context;
use mgp_types::{ErrorCode, RpcError, Timestamp};
use tokio::time::timeout;

use crate::handle::Kernel;

/// The event types without a dot that [`EventType::KNOWN`] lacks: the operator's change of a tool's risk, and the
/// approval of a server that an agent created.
const LATER_TYPES: [&str; 2] = ["RISK_LEVEL_OVERRIDE", "TOOL_CREATED_DYNAMIC"];

/// The maximum time that a query waits until pending events are written.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) async fn query(
    kernel: Kernel,
    _: Context,
    params: KernelAuditParams,
) -> Result<KernelAuditResult, RpcError> {
    let page = flushed_log(&kernel).await?.query(log_query(params)?).await?;
    let mut result = KernelAuditResult::new();
    (result.events, result.next) = (page.events, page.next);
    Ok(result)
}

pub(super) async fn verify(
    kernel: Kernel,
    _: Context,
    _: KernelAuditVerifyParams,
) -> Result<KernelAuditVerifyResult, RpcError> {
    flushed_log(&kernel).await?;
    Ok(match kernel.governance().verify_log().await {
        Ok(records) => KernelAuditVerifyResult::new(records, true),
        Err(error) => {
            let mut result = KernelAuditVerifyResult::new(0_u64, false);
            result.error = Some(error.to_string());
            result
        }
    })
}

/// Waits up to [`FLUSH_TIMEOUT`] until pending events are written, and returns the audit log. The wait is needed
/// because a request that changes state is answered a moment before its event is written.
async fn flushed_log(kernel: &Kernel) -> Result<&AuditLog, RpcError> {
    let log = kernel.governance().log().ok_or_else(|| {
        let message = "this kernel has no audit log; build it with `in_folder`";
        RpcError::new(ErrorCode::SERVER_NOT_READY, message)
    })?;
    // Ignore a failure or time-out: a log that cannot be written can still be read.
    let _ = timeout(FLUSH_TIMEOUT, log.flush()).await;
    Ok(log)
}

fn log_query(params: KernelAuditParams) -> Result<AuditQuery, RpcError> {
    let time = |time: &Timestamp| {
        let invalid = || {
            RpcError::invalid_params(format!(
                "`{time}` is not a valid time; use RFC 3339, e.g. 2026-07-28T12:00:00Z"
            ))
        };
        time.to_system_time().ok_or_else(invalid)
    };
    let mut query = AuditQuery::new();
    if let Some(agent) = params.agent {
        query = query.agent(agent);
    }
    if let Some(server) = params.server_id {
        query = query.server(server);
    }
    if let Some(tool) = params.tool {
        query = query.tool(tool);
    }
    if let Some(event_type) = params.event_type {
        check_event_type(&event_type)?;
        query = query.event_type(event_type.as_str());
    }
    if let Some(result) = params.result {
        check_result(&result)?;
        query = query.result(result);
    }
    if let Some(trace) = params.trace {
        query = query.trace(trace);
    }
    if let Some(since) = &params.since {
        query = query.since(time(since)?);
    }
    if let Some(until) = &params.until {
        query = query.until(time(until)?);
    }
    if let Some(limit) = params.limit {
        query = query.limit(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    if params.newest_first == Some(true) {
        query = query.newest_first();
    }
    if let Some(after) = params.after {
        query = query.after(after);
    }
    Ok(query)
}

/// Refuses an event type that no audit event can have. Accepts any type with a dot: custom types are in reverse-domain
/// notation (§6.4), and the log can have any of them.
fn check_event_type(event_type: &EventType) -> Result<(), RpcError> {
    let name = event_type.as_str();
    let known: Vec<&str> =
        EventType::KNOWN.iter().map(EventType::as_str).chain(LATER_TYPES).collect();
    if known.contains(&name) || name.contains('.') {
        return Ok(());
    }
    Err(RpcError::invalid_params(format!(
        "unknown event type `{}`; known: {}, and types with a dot, e.g. dev.cloto.key_added",
        mgp_types::clip(name, 64),
        known.join(", ")
    )))
}

/// Refuses a word that is not the result of any audit event.
fn check_result(word: &str) -> Result<(), RpcError> {
    if RESULT_WORDS.contains(&word) {
        return Ok(());
    }
    let (word, known) = (mgp_types::clip(word, 64), RESULT_WORDS.join(", "));
    Err(RpcError::invalid_params(format!("unknown result `{word}`; known: {known}")))
}
