//! `tools/call`: to the server that has the tool, through all of its gates.
//!
//! Applies to: inbound.

use std::future::Future;
use std::sync::Arc;

use mgp_toolindex::{Allowed, Everything, FoundCall, Listed, MetaTool, Outcome, Resolved};
use mgp_types::mcp::{CallToolParams, TaskSupport};
use mgp_types::method::method_of_tool;
use mgp_types::service::{Call, Context, Params, Reply, Target, Visibility as _};
use mgp_types::{ErrorCode, RawObject, RpcError};

use super::{Parts, Switch, tasks};
use crate::kernel::fleet::Node;
use crate::kernel::seen::Seen;

/// Passes a call on.
pub(super) fn call(
    switch: Switch,
    mut call: Call,
) -> impl Future<Output = Result<Reply, RpcError>> + Send {
    let aimed = aim(&switch, &mut call);
    async move {
        let aimed = match aimed {
            // A server that has just come may have it.
            Err(refused) if refused.code() == ErrorCode::TOOL_NOT_FOUND && switch.has_new() => {
                // What few calls wait for is not carried by all.
                Box::pin(switch.met(call.cx(), switch.parts().fleet.all().values())).await;
                aim(&switch, &mut call)
            }
            aimed => aimed,
        };
        let (tool, is_seen) = match aimed? {
            Aimed::Seen(tool) => (tool, true),
            Aimed::Found(tool) => (tool, false),
            Aimed::Held(node) => return node.send(call, false).await,
        };
        let Parts { fleet, seen, search, .. } = switch.parts();
        let Some(node) = fleet.get(tool.server_id()) else {
            return Err(gone(&tool));
        };
        let may = is_seen || seen.sees(call.cx(), Some(node.id()), tool.name()).is_ok();
        let cx = call.cx().clone();
        let answer = if tasks::of(&tool) == TaskSupport::Required {
            Box::pin(tasks::see_through(&node, call, may)).await
        } else {
            node.send(call, may).await
        };
        if may {
            let outcome = match &answer {
                Ok(reply) if !has_failed(reply) => Outcome::Answered,
                _ => Outcome::Failed,
            };
            // Without a handle there is none that could have ended.
            if search.called(&cx, None, &tool, outcome).unwrap_or_default() {
                // Hosts that honour it list the tool from now on.
                let herald = &fleet.ground().herald;
                herald.tools_changed(|other| *other == cx.principal);
            }
        }
        answer
    }
}

/// Whether a call of `mgp_tools_call` names one of the kernel's own; then it is aimed at that, and decided like it.
pub(super) fn is_of_kernel(call: &mut Call) -> bool {
    if call.tool().and_then(|tool| MetaTool::of(tool.name)) != Some(MetaTool::Call) {
        return false;
    }
    let Ok(named) = call.tool_arguments().get::<CallToolParams>() else { return false };
    // It is no method itself, so that it cannot name itself.
    if method_of_tool(&named.name).is_none_or(|own| own.method.is_none()) {
        return false;
    }
    *call.params_mut() = Params::tool(&named.name, &named.arguments.unwrap_or_default().into());
    true
}

/// What a call means.
enum Aimed {
    /// A tool that its caller sees.
    Seen(Listed),
    /// A tool that can be found; whether its caller sees it is still to be asked.
    Found(Listed),
    /// One of a server whose definition waits for an operator: the gates say so, on the record.
    Held(Arc<Node>),
}

/// Finds the tool a call means, and aims the call at it.
fn aim(switch: &Switch, call: &mut Call) -> Result<Aimed, RpcError> {
    let meta = MetaTool::of(call.tool().map_or("", |tool| tool.name));
    let (tool, is_seen) = match plain(switch, call).filter(|_| meta.is_none()) {
        Some(tool) => (tool, true),
        None => match named(switch, call, meta) {
            Ok(FoundCall { tool, arguments, .. }) if meta.is_some() => {
                *call.params_mut() = Params::tool(tool.name(), &arguments.into());
                return Ok(Aimed::Found(tool));
            }
            Ok(FoundCall { tool, .. }) => (tool, false),
            Err(unknown) if unknown.code() == ErrorCode::TOOL_NOT_FOUND => {
                let held = held(switch, call, meta)?;
                return held.map(Aimed::Held).ok_or(unknown);
            }
            Err(refused) => return Err(refused),
        },
    };
    if call.params().mentions("\"task\"") {
        // The task is the kernel's, and the call below a plain one.
        *call.params_mut() = Params::tool(tool.name(), &call.tool_arguments());
    }
    call.params_mut().retarget(Target::Tool(tool.name().into()));
    Ok(if is_seen { Aimed::Seen(tool) } else { Aimed::Found(tool) })
}

/// Aims a call at the tool it names whose definition is held back, if the caller would see it but for that.
fn held(
    switch: &Switch,
    call: &mut Call,
    meta: Option<MetaTool>,
) -> Result<Option<Arc<Node>>, RpcError> {
    let Parts { fleet, seen, .. } = switch.parts();
    let CallToolParams { name, arguments, extra, .. } = arguments(call, meta)?.get()?;
    let server: Option<String> = extra.get("server_id").and_then(|server| server.get().ok());
    for node in fleet.all().values() {
        if server.as_ref().is_some_and(|server| server != node.id().as_str()) {
            continue;
        }
        let own = name.strip_prefix(node.id().as_str()).and_then(|rest| rest.strip_prefix('.'));
        let is_held = |tool: &&str| seen.is_held(call.cx(), node.id(), tool);
        if let Some(tool) = own.into_iter().chain([name.as_str()]).find(is_held) {
            *call.params_mut() = Params::tool(tool, &arguments.unwrap_or_default().into());
            return Ok(Some(Arc::clone(node)));
        }
    }
    Ok(None)
}

/// What a caller sees, for one look.
struct Sees<'a> {
    seen: &'a Seen,
    cx: &'a Context,
}

impl Allowed for Sees<'_> {
    fn allows(&self, server: &str, tool: &str) -> bool {
        self.seen.shows(self.cx, server, tool)
    }
}

/// The tool of a call whose name says all; most do, and need no second look at their params.
fn plain(switch: &Switch, call: &Call) -> Option<Listed> {
    let Parts { fleet, seen, .. } = switch.parts();
    let tool = call.tool()?;
    let is_object = tool.arguments.is_none_or(|arguments| arguments.starts_with('{'));
    if !is_object || call.params().mentions("\"server_id\"") {
        return None;
    }
    match fleet.ground().index.resolve(tool.name, &Sees { seen, cx: call.cx() }) {
        Resolved::One(tool) => Some(tool),
        _ => None,
    }
}

/// The tool that is called by its name.
///
/// One that the caller may not use is found too, if the name can mean nothing else: the gates refuse it, on the record.
fn named(switch: &Switch, call: &Call, meta: Option<MetaTool>) -> Result<FoundCall, RpcError> {
    let Parts { fleet, search, .. } = switch.parts();
    let index = &fleet.ground().index;
    let arguments = arguments(call, meta)?;
    FoundCall::read(&arguments, index, &search.caller(call.cx())).or_else(|refused| {
        match refused.code() {
            ErrorCode::TOOL_NOT_FOUND => {
                FoundCall::read(&arguments, index, &Everything).map_err(|_| refused)
            }
            _ => Err(refused),
        }
    })
}

/// What names the tool, and has its arguments.
fn arguments(call: &Call, meta: Option<MetaTool>) -> Result<RawObject, RpcError> {
    match meta {
        Some(MetaTool::Call) => call.tool_arguments().get(),
        _ => call.params().get(),
    }
}

/// Whether a result says that the tool failed.
fn has_failed(reply: &Reply) -> bool {
    let text = reply.as_body().map(|body| body.as_raw().as_str());
    // Most results do not even mention it.
    text.is_some_and(|text| text.contains("\"isError\":true"))
}

fn gone(tool: &Listed) -> RpcError {
    RpcError::new(
        ErrorCode::TOOL_NOT_FOUND,
        format!("the server `{}` is gone; find another tool", tool.server_id()),
    )
}
