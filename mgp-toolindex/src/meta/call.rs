//! Which tool a call of `mgp_tools_call` means (MGP §16.5, C37).
//!
//! Applies to: inbound.

use mgp_types::RawObject;
use mgp_types::RpcError;
use mgp_types::mcp::CallToolParams;

use crate::catalog::{Allowed, Listed};
use crate::error::RequestError;
use crate::index::{Resolved, ToolIndex};

/// How many tools an ambiguous name is told to mean.
const NAMED: usize = 16;

/// A call of a tool that was found: the tool, and its arguments as they came.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FoundCall {
    /// The tool.
    pub tool: Listed,
    /// Its arguments.
    pub arguments: RawObject,
}

impl FoundCall {
    /// Reads the arguments of `mgp_tools_call`: `name`, `arguments`, and `server_id` where the name is not enough.
    ///
    /// Whether the tool may run is not decided here: the call goes through all gates like one that names it itself.
    ///
    /// # Errors
    /// −32602 when the arguments do not fit; 4001 when there is no such tool, or none the caller may call; 4003 naming
    /// the tools it may call, when there are several.
    pub fn read(
        arguments: &RawObject,
        index: &ToolIndex,
        allowed: &dyn Allowed,
    ) -> Result<Self, RpcError> {
        let params: CallToolParams = arguments.get()?;
        let server = match params.extra.get("server_id") {
            Some(server) => Some(server.get::<String>()?),
            None => None,
        };
        let tool = resolve(&params.name, server.as_deref(), index, allowed)?;
        Ok(Self { tool, arguments: params.arguments.unwrap_or_default() })
    }
}

/// The tool a name means to a caller; what it may not call is as unknown as what is not there.
fn resolve(
    name: &str,
    server: Option<&str>,
    index: &ToolIndex,
    allowed: &dyn Allowed,
) -> Result<Listed, RequestError> {
    let is_allowed = |tool: &Listed| allowed.allows(tool.server_id(), tool.name());
    let unknown = || RequestError::UnknownTool(brief(name));
    if let Some(server) = server {
        // Both `read` and `files.read` of `files` are meant.
        let own = name.strip_prefix(server).and_then(|rest| rest.strip_prefix('.'));
        let find = |name| index.get(server, name).filter(is_allowed);
        return find(name).or_else(|| own.and_then(find)).ok_or_else(unknown);
    }
    match index.resolve(name, allowed) {
        Resolved::One(tool) => Ok(tool),
        Resolved::Unknown => Err(unknown()),
        Resolved::Ambiguous(tools) => {
            let mut names: Vec<_> = tools.iter().take(NAMED).map(Listed::tool_id).collect();
            names.dedup();
            // `a.b` of `c` and `b` of `c.a` are both `c.a.b`.
            if let [_] = names[..] {
                let servers = tools.iter().take(NAMED).map(Listed::server_id);
                names = servers.map(|server| format!("`server_id` {server}")).collect();
            }
            let qualified = names.join(", ");
            Err(RequestError::AmbiguousTool { name: brief(name), qualified })
        }
    }
}

/// A word of a peer, short enough to be told back.
pub(crate) fn brief(word: &str) -> String {
    let head = &word[..word.floor_char_boundary(64)];
    let clean: String = head.chars().filter(|c| !c.is_control()).collect();
    if head.len() < word.len() { clean + "…" } else { clean }
}
