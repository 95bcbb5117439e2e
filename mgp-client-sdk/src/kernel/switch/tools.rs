//! `tools/call`: to the server that has the tool, through all of its gates.
//!
//! Applies to: inbound.

use std::future::Future;

use mgp_toolindex::{Everything, FoundCall, Listed, MetaTool};
use mgp_types::mcp::TaskSupport;
use mgp_types::service::{Call, Params, Reply, ServerId, Target, Visibility as _};
use mgp_types::{ErrorCode, RpcError};

use super::{Parts, Switch, tasks};

/// Passes a call on.
pub(super) fn call(
    switch: Switch,
    mut call: Call,
) -> impl Future<Output = Result<Reply, RpcError>> + Send {
    let aimed = aim(&switch, &mut call);
    async move {
        let tool = aimed?;
        let Parts { fleet, seen, sessions, .. } = switch.parts();
        let Some(node) = fleet.get(tool.server_id()) else {
            return Err(gone(&tool));
        };
        let id = ServerId::from(tool.server_id());
        let may = seen.sees(call.cx(), Some(&id), tool.name()).is_ok();
        let session = if may { Some(sessions.open(call.cx(), None)?) } else { None };
        let principal = call.cx().principal.clone();
        let reply = if tasks::of(&tool) == TaskSupport::Required {
            tasks::see_through(&node, call, may).await?
        } else {
            node.send(call, may).await?
        };
        if let Some(session) = session
            && sessions.used(&session, &tool)
        {
            // Hosts that honour it list the tool from now on.
            fleet.ground().herald.tools_changed(|other| *other == principal);
        }
        Ok(reply)
    }
}

/// Finds the tool a call means, and aims the call at it.
fn aim(switch: &Switch, call: &mut Call) -> Result<Listed, RpcError> {
    let FoundCall { tool, arguments, .. } = named(switch, call)?;
    if call.tool().is_some_and(|named| MetaTool::of(named.name).is_some()) {
        *call.params_mut() = Params::tool(tool.name(), &arguments.into());
    } else {
        if call.params().mentions("\"task\"") {
            // The task is the kernel's, and the call below a plain one.
            *call.params_mut() = Params::tool(tool.name(), &call.tool_arguments());
        }
        call.params_mut().retarget(Target::Tool(tool.name().into()));
    }
    Ok(tool)
}

/// The tool that is called by its name.
///
/// One that the caller may not use is found too, if the name can mean nothing else: the gates refuse it, on the record.
fn named(switch: &Switch, call: &Call) -> Result<FoundCall, RpcError> {
    let Parts { fleet, search, .. } = switch.parts();
    let index = &fleet.ground().index;
    let arguments = match MetaTool::of(call.tool().map_or("", |tool| tool.name)) {
        Some(MetaTool::Call) => call.tool_arguments().get()?,
        _ => call.params().get()?,
    };
    FoundCall::read(&arguments, index, &search.caller(call.cx())).or_else(|refused| {
        match refused.code() {
            ErrorCode::TOOL_NOT_FOUND => {
                FoundCall::read(&arguments, index, &Everything).map_err(|_| refused)
            }
            _ => Err(refused),
        }
    })
}

fn gone(tool: &Listed) -> RpcError {
    RpcError::new(
        ErrorCode::TOOL_NOT_FOUND,
        format!("the server `{}` is gone; find another tool", tool.server_id()),
    )
}
