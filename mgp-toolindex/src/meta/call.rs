//! Resolves the tool that a call of `mgp_tools_call` names (MGP §16.5).

use mgp_types::RawObject;
use mgp_types::RpcError;
use mgp_types::mcp::CallToolParams;
use mgp_types::service::Params;

use crate::catalog::{Allowed, IndexedTool};
use crate::error::RequestError;
use crate::index::{Resolved, ToolIndex};

/// The maximum number of tools that an error about an ambiguous name lists.
const MAX_NAMED: usize = 16;

/// A call of a tool that the caller found, with its arguments.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ForwardedCall {
    /// The tool to call.
    pub tool: IndexedTool,
    /// The arguments of the call.
    pub arguments: RawObject,
}

impl ForwardedCall {
    /// Parses the arguments of `mgp_tools_call`: `name`, `arguments`, and `server_id` if the name is ambiguous.
    ///
    /// Parsing a call does not permit it: the kernel must check the call in the same way as a call that names the tool
    /// directly.
    ///
    /// # Errors
    /// Returns −32602 (invalid params) if the arguments are invalid, and 4001 (tool not found) if the caller is not
    /// allowed to call any tool with this name. Returns 4003 (tool name conflict), with the names of the tools, if
    /// several tools match.
    pub fn read(
        arguments: &RawObject,
        index: &ToolIndex,
        allowed: &dyn Allowed,
    ) -> Result<Self, RpcError> {
        // After an error, decode again in a slower way, because the error of the slower way contains the path of the
        // wrong member.
        let params: CallToolParams =
            arguments.get().or_else(|_| Params::of("", arguments)?.get())?;
        // Some agent frameworks write each member of a schema, so `null` and an empty id are the same as no id.
        let server: Option<String> = params.extra.decode("server_id")?;
        let server = server.filter(|id| !id.is_empty());
        let tool = resolve(&params.name, server.as_deref(), index, allowed)?;
        Ok(Self { tool, arguments: params.arguments.unwrap_or_default() })
    }
}

/// Finds the tool that a caller means by a name. Reports a tool that the caller is not allowed to call as unknown, like
/// a tool that does not exist.
fn resolve(
    name: &str,
    server: Option<&str>,
    index: &ToolIndex,
    allowed: &dyn Allowed,
) -> Result<IndexedTool, RequestError> {
    let is_allowed = |tool: &IndexedTool| allowed.allows(tool.server_id(), tool.name());
    let unknown = || RequestError::UnknownTool(brief(name));
    if let Some(server) = server {
        // With the server `files`, the names `read` and `files.read` both mean the tool `read`.
        let own = name.strip_prefix(server).and_then(|rest| rest.strip_prefix('.'));
        let find = |name| index.get(server, name).filter(is_allowed);
        return find(name).or_else(|| own.and_then(find)).ok_or_else(unknown);
    }
    match index.resolve(name, allowed) {
        Resolved::One(tool) => Ok(tool),
        Resolved::Unknown => Err(unknown()),
        Resolved::Ambiguous(tools) => {
            let mut names: Vec<_> =
                tools.iter().take(MAX_NAMED).map(IndexedTool::tool_id).collect();
            names.dedup();
            // Different tools can have the same id: the tool `b` of the server `c.a`, and the tool `a.b` of the server
            // `c`. In this case, list the servers instead of the ids.
            if let [_] = names[..] {
                let servers = tools.iter().take(MAX_NAMED).map(IndexedTool::server_id);
                names = servers.map(|server| format!("`server_id` {server}")).collect();
            }
            let qualified = names.join(", ");
            Err(RequestError::AmbiguousTool { name: brief(name), qualified })
        }
    }
}

/// Returns the beginning of a text that a client or server sent, for use in an error message.
pub(crate) fn brief(word: &str) -> String {
    mgp_types::clip(word, 64)
}
