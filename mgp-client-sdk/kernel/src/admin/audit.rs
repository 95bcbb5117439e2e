//! The audit log (MGP §6).
//!
//! Applies to: inbound.

use std::time::Duration;

use mgp_security::{AuditLog, AuditQuery};
use mgp_types::method::{KernelAudit, KernelAuditVerify};
use mgp_types::mgp::{KernelAuditParams, KernelAuditResult, KernelAuditVerifyResult};
use mgp_types::{ErrorCode, RpcError, Timestamp};
use tokio::time::timeout;

use super::Desk;
use crate::handle::Kernel;

/// How long the log may take to come to what was answered before it is read as it is.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) fn on(desk: Desk) -> Desk {
    desk.reads::<KernelAudit, _, _>(async |kernel, _, params| {
        let page = kernel.log().await?.query(query(params)?).await?;
        let mut result = KernelAuditResult::new();
        (result.events, result.next) = (page.events, page.next);
        Ok(result)
    })
    .reads::<KernelAuditVerify, _, _>(async |kernel, _, _| {
        kernel.log().await?;
        Ok(match kernel.governance().verify_log().await {
            Ok(records) => KernelAuditVerifyResult::new(records, true),
            Err(error) => {
                let mut result = KernelAuditVerifyResult::new(0_u64, false);
                result.error = Some(error.to_string());
                result
            }
        })
    })
}

impl Kernel {
    /// The log, with everything that was answered so far: it takes events of changes from the state a moment later.
    async fn log(&self) -> Result<&AuditLog, RpcError> {
        let log = self.governance().log().ok_or_else(|| {
            let message = "this kernel keeps no log; build it with `in_folder`";
            RpcError::new(ErrorCode::SERVER_NOT_READY, message)
        })?;
        // One that cannot be written can still be read.
        let _ = timeout(PATIENCE, log.flush()).await;
        Ok(log)
    }
}

fn query(params: KernelAuditParams) -> Result<AuditQuery, RpcError> {
    let time = |time: &Timestamp| {
        let unread = || RpcError::invalid_params(format!("`{time}` is no time"));
        time.to_system_time().ok_or_else(unread)
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
        query = query.event_type(event_type.as_str());
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
