//! The meta tools: tools to find, call and request other tools (MGP §16.5).

use mgp_types::mcp::{Tool, ToolAnnotations};
use mgp_types::method::{
    Request, TOOLS_CALL, ToolsDiscover, ToolsRequest, find_kernel_tool, tool_spelling,
};
use mgp_types::{Payload, RawObject};

use super::summary::Summary;

/// One of the meta tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetaTool {
    /// Searches for tools (MGP §16.5).
    Discover,
    /// Calls a tool that a search found. Without this meta tool, hosts would not let a model call the found tool,
    /// because only listed tools can be called directly.
    Call,
    /// Requests tools for the rest of the session (MGP §16.6).
    Request,
}

/// The meta tools that are listed.
///
/// A meta tool can be called by every form of its name: with underscores, dots or slashes. It is listed with
/// underscores, the only form that all model providers accept.
///
/// ```
/// use mgp_toolindex::{AllTools, MetaTool, MetaTools, ToolIndex};
///
/// let tools = MetaTools::new().list(&ToolIndex::new(), &AllTools);
/// assert_eq!(tools[0].name, "mgp_tools_discover");
/// for name in ["mgp_tools_call", "mgp.tools.call", "mgp/tools/call"] {
///     assert_eq!(MetaTool::of(name), Some(MetaTool::Call));
/// }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct MetaTools {
    listed: Vec<MetaTool>,
    no_tools: String,
}

impl MetaTool {
    /// Returns the meta tool with a name, which may have underscores, dots or slashes.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        let known = find_kernel_tool(name)?;
        [Self::Discover, Self::Call, Self::Request]
            .into_iter()
            .find(|tool| tool.name() == known.name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Discover => dotted(ToolsDiscover::METHOD),
            Self::Call => TOOLS_CALL,
            Self::Request => dotted(ToolsRequest::METHOD),
        }
    }

    /// Returns the hints by which hosts decide whether to ask a person before a call. Some hosts refuse tools without
    /// hints, e.g. `codex exec`, which cannot ask a person. The meta tool for calls has no hints, because it can call
    /// any tool. A request for tools changes the session and can begin the creation of a tool, but destroys nothing and
    /// reaches nothing beyond the kernel.
    fn hints(self) -> Option<ToolAnnotations> {
        let mut hints = ToolAnnotations::new();
        match self {
            Self::Discover => hints.read_only_hint = Some(true),
            Self::Call => return None,
            Self::Request => {
                (hints.destructive_hint, hints.open_world_hint) = (Some(false), Some(false));
            }
        }
        Some(hints)
    }
}

/// Returns the name of the kernel tool for a method, in the form with dots.
fn dotted(method: &'static str) -> &'static str {
    find_kernel_tool(method).map_or(method, |tool| tool.name)
}

impl MetaTools {
    /// Creates the list of all three meta tools.
    pub fn new() -> Self {
        Self {
            listed: vec![MetaTool::Discover, MetaTool::Call, MetaTool::Request],
            no_tools: "There are none yet.".to_owned(),
        }
    }

    /// Sets the sentence that the search tool's description has for callers that can find no tools. Default:
    /// `There are none yet.`
    pub fn no_tools(mut self, sentence: impl Into<String>) -> Self {
        self.no_tools = sentence.into();
        self
    }

    /// Removes a tool from the list; calls of the tool are still accepted.
    pub fn without(mut self, tool: MetaTool) -> Self {
        self.listed.retain(|listed| *listed != tool);
        self
    }

    /// Returns the definitions; the search tool describes what this caller can find.
    #[must_use]
    pub fn list(&self, index: &crate::ToolIndex, allowed: &dyn crate::Allowed) -> Vec<Tool> {
        self.tools(&Summary::short(index, allowed, &self.no_tools))
    }

    pub(crate) fn tools(&self, summary: &Summary) -> Vec<Tool> {
        self.listed.iter().map(|tool| Self::tool(*tool, summary)).collect()
    }

    fn tool(tool: MetaTool, summary: &Summary) -> Tool {
        let (description, schema) = match tool {
            MetaTool::Discover => (format!("{FIND} {summary}"), FIND_SCHEMA),
            MetaTool::Call => (CALL.to_owned(), CALL_SCHEMA),
            MetaTool::Request => (REQUEST.to_owned(), REQUEST_SCHEMA),
        };
        let schema = RawObject::try_from(Payload::from_trusted(schema)).unwrap_or_default();
        let mut listed = Tool::new(tool_spelling(tool.name()), schema);
        listed.description = Some(description);
        listed.annotations = tool.hints();
        listed
    }
}

impl Default for MetaTools {
    fn default() -> Self {
        Self::new()
    }
}

const FIND: &str = "Finds tools by what they do. Search one step at a time, in plain words. \
A result marked `trimmed` shows more with max_results 1.";
const FIND_SCHEMA: &str = r#"{"type":"object","properties":{"query":{"type":"string"},"max_results":{"type":"integer","description":"1-50, default 5"},"filter":{"type":"object","properties":{"categories":{"type":"array","items":{"type":"string"}},"risk_level_max":{"type":"string","enum":["safe","moderate","dangerous"]}}}},"required":["query"]}"#;

const CALL: &str = "Calls a tool that was found.";
const CALL_SCHEMA: &str = r#"{"type":"object","properties":{"name":{"type":"string"},"server_id":{"type":"string","description":"if several servers have it"},"arguments":{"type":"object"}},"required":["name","arguments"]}"#;

const REQUEST: &str = "Loads tools for the rest of the session.";
const REQUEST_SCHEMA: &str = r#"{"type":"object","properties":{"context":{"type":"string"},"requirements":{"type":"object","properties":{"capabilities":{"type":"array","items":{"type":"string"},"description":"one need each, in a few words"},"preferred_risk_level":{"type":"string","enum":["safe","moderate","dangerous"]}},"required":["capabilities"]},"session_handle":{"type":"string","description":"if you were given one"}},"required":["requirements"]}"#;

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use crate::tokens::lean::lean;
    use crate::{AllTools, ServerEntry, TokenCounter, ToolEntry, ToolIndex};

    /// Returns an index with as many categories as possible, each with the longest possible name.
    fn worst() -> ToolIndex {
        let index = ToolIndex::new();
        let server = |server: usize| {
            let tools = (0..5).map(|number| {
                let tool = Tool::new(format!("t{number}"), RawObject::empty());
                let category = format!("{server}qzxj vkwq zxqj 文字 🙂 {number}");
                ToolEntry::from(tool).categories([category, format!("ZQ-XJ_{server}/{number}")])
            });
            ServerEntry::new(format!("s{server}")).tools(tools)
        };
        index.put_all((0..40).map(server)).unwrap();
        index
    }

    fn count(tools: &[Tool]) -> u32 {
        static COUNTER: LazyLock<TokenCounter> = LazyLock::new(TokenCounter::new);
        tools.iter().map(|tool| COUNTER.count(&lean(&serde_json::to_string(tool).unwrap()))).sum()
    }

    #[test]
    fn meta_tools_never_exceed_their_tokens() {
        let filesystem = ToolIndex::new();
        let tool = Tool::new("read_file".to_owned(), RawObject::empty());
        let entry = ToolEntry::from(tool).categories(["filesystem"]);
        filesystem.put(ServerEntry::new("files").tool(entry)).unwrap();
        for index in [ToolIndex::new(), filesystem, worst()] {
            let tools = MetaTools::new().list(&index, &AllTools);
            assert!(count(&tools[..1]) <= 200, "{} {:?}", count(&tools[..1]), tools[0]);
            assert!(count(&tools[..2]) <= 320, "{}", count(&tools[..2]));
            assert!(count(&tools) <= 450, "{}", count(&tools));
        }
    }

    #[test]
    fn one_spelling_is_listed_and_all_are_accepted() {
        let tools = MetaTools::new().without(MetaTool::Request);
        let tools = tools.list(&ToolIndex::new(), &AllTools);
        let names: Vec<_> = tools.iter().map(|tool| &*tool.name).collect();
        assert_eq!(names, ["mgp_tools_discover", "mgp_tools_call"]);
        for [discover, call] in [
            ["mgp_tools_discover", "mgp_tools_call"],
            ["mgp.tools.discover", "mgp.tools.call"],
            ["mgp/tools/discover", "mgp/tools/call"],
        ] {
            assert_eq!(MetaTool::of(discover), Some(MetaTool::Discover));
            assert_eq!(MetaTool::of(call), Some(MetaTool::Call));
        }
        assert_eq!(MetaTool::of("mgp_tools_request"), Some(MetaTool::Request));
        for other in ["mgp_tools_session", "tools_call", "mgp_tools_call2", ""] {
            assert_eq!(MetaTool::of(other), None, "{other}");
        }
    }

    #[test]
    fn hosts_can_search_without_asking_a_person_but_not_call() {
        let tools = MetaTools::new().list(&ToolIndex::new(), &AllTools);
        let hints: Vec<_> = tools.iter().map(|tool| tool.annotations.as_ref()).collect();
        assert_eq!(hints[0].unwrap().read_only_hint, Some(true));
        assert_eq!(hints[1], None, "a call can be that of a dangerous tool");
        let request = hints[2].unwrap();
        assert_eq!(request.read_only_hint, None, "a request changes the session");
        assert_eq!((request.destructive_hint, request.open_world_hint), (Some(false), Some(false)));
    }

    /// Gemini refuses all tools of a host if one property has an `enum` and no `type`.
    #[test]
    fn each_part_of_a_schema_has_a_type() {
        fn check(schema: &serde_json::Value) {
            assert!(schema["type"].is_string(), "{schema}");
            let properties =
                schema["properties"].as_object().into_iter().flat_map(serde_json::Map::values);
            properties.chain(schema.get("items")).for_each(check);
        }
        for schema in [FIND_SCHEMA, CALL_SCHEMA, REQUEST_SCHEMA] {
            let schema: serde_json::Value = serde_json::from_str(schema).unwrap();
            assert_eq!(schema["type"], "object");
            check(&schema);
        }
    }
}
