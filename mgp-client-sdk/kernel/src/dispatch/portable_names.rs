//! Portable names of tools (setting `portable_names`): 1 to 64 letters, digits, `_` and `-`. The APIs of many model
//! providers refuse a whole list of tools because of a single name of any other form.
//!
//! A caller with this setting sees a portable name in place of each name that is not portable, and calls the tool by
//! it. Everything else, e.g. approvals and the audit log, uses the id of the tool.

use std::collections::HashMap;

use mgp_lifecycle::Transactions;
use mgp_toolindex::{AllTools, Allowed, IndexedTool, Resolved, ToolIndex};
use mgp_types::mcp::Tool;
use mgp_types::method::find_kernel_tool;
use mgp_types::mgp::{DiscoverToolsResult, FoundTool, RequestToolsResult};
use mgp_types::service::{Context, Reply, ServerId};
use mgp_types::{RpcError, Sha256Hash};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::dispatcher::{Dispatcher, DispatcherParts};
use crate::fleet::FleetContext;
use crate::kernel_hops;

/// The maximum number of characters in a portable name.
const MAX_CHARS: usize = 64;

/// The usual number of hexadecimal digits of the hash at the end of a name.
const MIN_DIGITS: usize = 8;

/// The maximum number of digits of the hash. The kernel uses more than the minimum if a server has named one of its
/// tools like another tool's name with a hash.
const MAX_DIGITS: usize = 32;

/// Returns whether the configuration requires portable names for a caller. Returns `false` for a caller that is itself
/// a kernel, because it creates portable names for its own callers.
pub(super) fn apply_to(context: &FleetContext, cx: &Context) -> bool {
    let config = context.config.config();
    let of_agent = config.agent(&cx.principal).and_then(|agent| agent.portable_names);
    of_agent.unwrap_or(config.kernel.portable_names) && !kernel_hops::is_from_kernel(cx)
}

/// Replaces each name in a tool list that is not portable, or that is also the portable name of a different tool.
pub(super) fn fit_list(
    dispatcher: &Dispatcher,
    cx: &Context,
    caller: &dyn Allowed,
    tools: &mut [Tool],
) {
    let context = dispatcher.parts().fleet.context();
    if !apply_to(context, cx) {
        return;
    }
    let names = PortableNames::new(&context.index, caller);
    for tool in tools {
        names.fit(&mut tool.name);
    }
}

/// Replaces the names in the result of `mgp/tools/discover` by the names that the caller's tool list would contain.
///
/// # Errors
/// Returns −32603 (internal error) if the result cannot be read.
pub(super) fn fit_discovered(
    dispatcher: &Dispatcher,
    cx: &Context,
    reply: Reply,
) -> Result<Reply, RpcError> {
    fit_result(dispatcher, cx, reply, |names, result: &mut DiscoverToolsResult| {
        for tool in &mut result.tools {
            names.fit_found(tool);
        }
        let parts = result.mgp.iter_mut().flat_map(|mgp| mgp.parts.iter_mut());
        for name in parts.flat_map(|part| part.tools.iter_mut()) {
            names.fit(name);
        }
    })
}

/// Replaces the names in the result of `mgp/tools/request` by the names that the caller's tool list contains.
///
/// # Errors
/// Returns −32603 (internal error) if the result cannot be read.
pub(super) fn fit_requested(
    dispatcher: &Dispatcher,
    cx: &Context,
    reply: Reply,
) -> Result<Reply, RpcError> {
    fit_result(dispatcher, cx, reply, |names, result: &mut RequestToolsResult| {
        for tool in &mut result.tools_loaded {
            names.fit_found(tool);
        }
    })
}

/// Replaces the names in a complete result, if the setting `portable_names` applies to the caller.
fn fit_result<R: DeserializeOwned + Serialize>(
    dispatcher: &Dispatcher,
    cx: &Context,
    reply: Reply,
    fit: impl FnOnce(&PortableNames<'_>, &mut R),
) -> Result<Reply, RpcError> {
    let DispatcherParts { fleet, search, .. } = dispatcher.parts();
    if reply.as_body().is_none() || !apply_to(fleet.context(), cx) {
        return Ok(reply);
    }
    let mut result: R = reply.get()?;
    fit(&PortableNames::new(&fleet.context().index, &search.caller(cx)), &mut result);
    Reply::of(&result)
}

/// Returns the name of a tool as a caller sees it. `shown` is the name that the caller would see without the setting
/// `portable_names`.
pub(super) fn shown(
    dispatcher: &Dispatcher,
    cx: &Context,
    tool: &IndexedTool,
    shown: String,
) -> String {
    let DispatcherParts { fleet, search, .. } = dispatcher.parts();
    if !apply_to(fleet.context(), cx) {
        return shown;
    }
    PortableNames::new(&fleet.context().index, &search.caller(cx)).name_of(tool, &shown)
}

/// Returns the tools that a caller sees and may mean by a portable name; an empty list if the setting `portable_names`
/// does not apply to the caller. `server` is the id of the server, if the call states it.
pub(super) fn find(
    dispatcher: &Dispatcher,
    cx: &Context,
    name: &str,
    server: Option<&str>,
) -> Vec<IndexedTool> {
    let DispatcherParts { fleet, search, .. } = dispatcher.parts();
    let context = fleet.context();
    if !is_portable(name) || !apply_to(context, cx) {
        return Vec::new();
    }
    let (index, caller) = (&context.index, search.caller(cx));
    let mut tools = match server {
        Some(server) => index.tools_of(server),
        // Compare names before access, because a decision about access takes longer.
        None => index.listed(&AllTools),
    };
    let is_own_name = |tool: &IndexedTool| {
        is_name_of(tool, name) && (server.is_some() || has_own_name(index, &caller, tool))
    };
    tools.retain(|tool| {
        (is_id_of(tool, name) || is_own_name(tool)) && caller.allows(tool.server_id(), tool.name())
    });
    tools
}

/// Returns whether the usual name of a tool is also a portable name of another tool that the caller sees. Without this
/// check, a server could give its own tool the portable name of another server's tool, and so receive the calls of that
/// tool.
pub(super) fn is_shared(
    dispatcher: &Dispatcher,
    cx: &Context,
    name: &str,
    tool: &IndexedTool,
) -> bool {
    find(dispatcher, cx, name, None).iter().any(|other| !is_same(other, tool))
}

/// Returns the tool that a caller means by a portable name; `None` unless exactly one tool has it.
pub(super) fn find_one(dispatcher: &Dispatcher, cx: &Context, name: &str) -> Option<IndexedTool> {
    let mut tools = find(dispatcher, cx, name, None);
    tools.pop().filter(|_| tools.is_empty())
}

/// Finds a tool by a portable name, if the tool is hidden from the caller only because its definition waits for an
/// operator or was rejected. Returns the id of the tool's server and the name that the server uses. Returns `None` if
/// the setting `portable_names` does not apply to the caller.
pub(super) fn find_held(
    dispatcher: &Dispatcher,
    cx: &Context,
    name: &str,
    server: Option<&str>,
) -> Option<(ServerId, String)> {
    let DispatcherParts { fleet, view, .. } = dispatcher.parts();
    let context = fleet.context();
    if !is_portable(name) || !apply_to(context, cx) {
        return None;
    }
    let found = context.governance.definitions().find_held(|of_tool, tool| {
        server.is_none_or(|server| of_tool == server)
            && (is_spelling(tool, name) || is_portable_id(of_tool, tool, name))
            // Skip a server that is not in the fleet: the kernel keeps the definitions of a server that is switched
            // off.
            && fleet.get(of_tool).is_some()
            && view.is_held(cx, &ServerId::from(of_tool), tool)
    });
    found.ok().flatten()
}

/// Returns the tools that callers may know under a portable name.
pub(super) fn find_any(context: &FleetContext, name: &str) -> Vec<IndexedTool> {
    let config = context.config.config();
    let is_used = config.kernel.portable_names
        || config.agents.values().any(|agent| agent.portable_names == Some(true));
    if !is_used || !is_portable(name) {
        return Vec::new();
    }
    let mut tools = context.index.listed(&AllTools);
    tools.retain(|tool| is_name_of(tool, name) || is_id_of(tool, name));
    tools
}

/// Returns whether the caller can call a tool by the server's own name for it. Also returns `true` if this name is only
/// ambiguous, because other servers have a tool of the same name. Returns `false` if the name begins with the id of
/// another server, because it then means a tool of that server.
fn has_own_name(index: &ToolIndex, caller: &dyn Allowed, tool: &IndexedTool) -> bool {
    match index.resolve(tool.name(), caller) {
        Resolved::One(found) => is_same(&found, tool),
        Resolved::Ambiguous(found) => found.iter().any(|found| is_same(found, tool)),
        _ => false,
    }
}

fn is_same(one: &IndexedTool, other: &IndexedTool) -> bool {
    one.server_id() == other.server_id() && one.name() == other.name()
}

/// The tool names that a caller sees; all model providers accept them.
struct PortableNames<'a> {
    index: &'a ToolIndex,
    caller: &'a dyn Allowed,
    /// For each portable form of a name or an id, the number of tools with this name or id. The counts include all
    /// tools that the caller sees, so the names do not depend on the tools in a session.
    uses: HashMap<String, usize>,
}

impl<'a> PortableNames<'a> {
    fn new(index: &'a ToolIndex, caller: &'a dyn Allowed) -> Self {
        let mut uses = HashMap::new();
        for tool in index.listed(caller) {
            for name in [spell(tool.name()), spell(&tool.tool_id())] {
                *uses.entry(name).or_default() += 1;
            }
        }
        Self { index, caller, uses }
    }

    /// Replaces a name in a tool list, unless it is portable and belongs to only one tool.
    fn fit(&self, name: &mut String) {
        let is_fit = is_portable(name) && (self.is_unique(name) || is_kernel_tool(name));
        if !is_fit && let Resolved::One(tool) = self.index.resolve(name, self.caller) {
            *name = self.name_of(&tool, name);
        }
    }

    /// Replaces the name for calling a tool in a search result: its id, or its own name if it has no id.
    fn fit_found(&self, found: &mut FoundTool) {
        let Some(tool) = self.index.get(&found.server_id, &found.name) else { return };
        let name = found.tool_id.as_mut().unwrap_or(&mut found.name);
        *name = self.name_of(&tool, name);
    }

    /// Returns the portable name of a tool. `shown` is the name that a list would contain without this setting.
    fn name_of(&self, tool: &IndexedTool, shown: &str) -> String {
        let short = spell(shown);
        if short.len() <= MAX_CHARS && self.is_unique(&short) && !is_kernel_tool(&short) {
            return short;
        }
        // Use more digits while the name with the hash equals another tool's name, which a server could have chosen on
        // purpose.
        let mut hashed = (MIN_DIGITS..=MAX_DIGITS)
            .map(|digits| hashed_name(tool.server_id(), tool.name(), digits));
        hashed.find(|name| !self.uses.contains_key(name)).unwrap_or(short)
    }

    fn is_unique(&self, name: &str) -> bool {
        self.uses.get(name).is_none_or(|uses| *uses < 2)
    }
}

/// Returns whether the APIs of all model providers accept a tool's name.
fn is_portable(name: &str) -> bool {
    (1..=MAX_CHARS).contains(&name.len()) && name.chars().all(|char| char == portable(char))
}

/// Returns a character, or `_` if portable names must not contain it.
fn portable(char: char) -> char {
    if char.is_ascii_alphanumeric() || char == '-' { char } else { '_' }
}

/// Returns a name with `_` in place of each character that portable names must not contain. The result may be too long
/// for a portable name.
fn spell(name: &str) -> String {
    name.chars().map(portable).collect()
}

/// Returns the beginning of a tool's id with a hash. The hash distinguishes tools with the same id: the tool `a.b` of
/// the server `c` and the tool `b` of the server `c.a`.
fn hashed_name(server: &str, tool: &str, digits: usize) -> String {
    let hash = Sha256Hash::digest(format!("{server}/{tool}").as_bytes()).to_string();
    let mut name: String = spelled_id(server, tool).collect();
    name.truncate(MAX_CHARS - 1 - digits);
    format!("{name}_{}", &hash[..digits])
}

/// Returns the characters of a tool's id, each replaced by `_` if portable names must not contain it.
fn spelled_id(server: &str, tool: &str) -> impl Iterator<Item = char> {
    server.chars().chain(['.']).chain(tool.chars()).map(portable)
}

/// Returns whether `name` is the portable form of the name that the server gave the tool.
fn is_name_of(tool: &IndexedTool, name: &str) -> bool {
    is_spelling(tool.name(), name)
}

fn is_spelling(tool: &str, name: &str) -> bool {
    tool.chars().map(portable).eq(name.chars())
}

/// Returns whether `name` is the portable form of a tool's id: the whole id, or a shortened id with a hash.
fn is_id_of(tool: &IndexedTool, name: &str) -> bool {
    is_portable_id(tool.server_id(), tool.name(), name)
}

fn is_portable_id(server: &str, tool: &str, name: &str) -> bool {
    if spelled_id(server, tool).eq(name.chars()) {
        return true;
    }
    let Some((start, digits)) = name.rsplit_once('_') else { return false };
    (MIN_DIGITS..=MAX_DIGITS).contains(&digits.len())
        && spelled_id(server, tool).take(start.len()).eq(start.chars())
        && hashed_name(server, tool, digits.len()) == name
}

fn is_kernel_tool(name: &str) -> bool {
    find_kernel_tool(name).is_some() || Transactions::method_of_tool(name).is_some()
}

#[cfg(test)]
mod tests {
    use mgp_toolindex::ServerEntry;
    use mgp_types::RawObject;

    use super::*;

    /// Returns an index with these tools, each by the id of its server and its name.
    fn index(servers: &[(&str, &[&str])]) -> ToolIndex {
        let index = ToolIndex::new();
        for (server, tools) in servers {
            let tools = tools.iter().map(|name| Tool::new(*name, RawObject::empty()));
            index.put(ServerEntry::new(*server).tools(tools)).unwrap();
        }
        index
    }

    /// Returns the portable name of a tool that a list contains under this name.
    fn fitted(index: &ToolIndex, name: &str) -> String {
        let mut name = name.to_owned();
        PortableNames::new(index, &AllTools).fit(&mut name);
        name
    }

    #[test]
    fn only_names_that_an_api_refuses_are_replaced() {
        let long = "l".repeat(80);
        let index =
            index(&[("weather", &["plan", "a/b c", long.as_str()]), ("kit", &["plan", "P-l_4n"])]);
        for (name, expected) in [
            ("P-l_4n", "P-l_4n"),
            ("weather.plan", "weather_plan"),
            ("kit.plan", "kit_plan"),
            ("a/b c", "a_b_c"),
        ] {
            assert_eq!(fitted(&index, name), expected);
        }
        let short = fitted(&index, &long);
        assert!(is_portable(&short) && short.len() == 64, "{short}");
        assert!(short.starts_with("weather_lll"), "{short}");
        assert_eq!(short, fitted(&index, &format!("weather.{long}")), "both names are too long");
    }

    #[test]
    fn each_of_several_tools_with_one_spelling_has_a_name_of_its_own() {
        let servers: [(&str, &[&str]); 3] =
            [("a.b", &["c"]), ("a", &["b_c", "x.y"]), ("d", &["c", "b_c", "x_y"])];
        let all = index(&servers);
        let mut names = Vec::new();
        for name in ["a.b.c", "a.b_c", "x.y", "x_y"] {
            let fitted = fitted(&all, name);
            assert!(is_portable(&fitted) && fitted.len() > MIN_DIGITS + 3, "{name}: {fitted}");
            let found = all.listed(&AllTools).into_iter();
            let found = found.filter(|tool| is_id_of(tool, &fitted) || is_name_of(tool, &fitted));
            let found: Vec<_> = found.map(|tool| tool.tool_id()).collect();
            assert!(found.len() == 1 && found[0].ends_with(name), "{fitted}: {found:?}");
            names.push(fitted);
        }
        assert_ne!(names[0], names[1]);
        // The portable names must not depend on the order of the servers.
        let reversed = index(&servers.into_iter().rev().collect::<Vec<_>>());
        assert_eq!(names[0], fitted(&reversed, "a.b.c"));
    }

    #[test]
    fn a_server_cannot_give_its_tool_the_portable_name_of_another_tool() {
        let honest = index(&[("a.b", &["c"]), ("a", &["b_c", "c"])]);
        let hashed = fitted(&honest, "a.b.c");
        let hostile = index(&[("a.b", &["c"]), ("a", &["b_c", "c"]), ("evil", &[hashed.as_str()])]);
        let longer = fitted(&hostile, "a.b.c");
        assert_eq!(longer.len(), hashed.len() + 1, "{longer}");
        assert!(is_id_of(&hostile.get("a.b", "c").unwrap(), &longer));
        assert!(is_id_of(&hostile.get("a.b", "c").unwrap(), &hashed), "the earlier name");
    }

    #[test]
    fn a_portable_name_is_not_that_of_a_tool_of_the_kernel() {
        let index = index(&[("mgp", &["tools_call"]), ("b", &["tools_call"])]);
        let fitted = fitted(&index, "mgp.tools_call");
        assert!(fitted.starts_with("mgp_tools_call_"), "{fitted}");
    }
}
