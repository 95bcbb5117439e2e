//! Servers and tools for the stories.
//!
//! Applies to: both.

use mgp_toolindex::{Everything, Found, Query, ServerEntry, ToolIndex};
use mgp_types::RawObject;
use mgp_types::mcp::Tool;
use mgp_types::mgp::SearchStrategy;

/// A tool with an ordinary schema.
pub(crate) fn tool(name: &str, description: &str) -> Tool {
    let schema =
        r#"{"type":"object","properties":{"path":{"type":"string","description":"Where it is"}}}"#;
    let mut tool = Tool::new(name.to_owned(), raw(schema));
    tool.description = Some(description.to_owned());
    tool
}

/// An object as it came.
pub(crate) fn raw(json: &str) -> RawObject {
    serde_json::from_str(json).unwrap()
}

/// A server whose tools all say the same word.
pub(crate) fn server(id: &str, word: &str, tools: u64) -> ServerEntry {
    let tools = (0..tools).map(|number| {
        tool(&format!("{word}_part_{number}"), &format!("Reads part {number} of what {word} keeps"))
    });
    ServerEntry::new(id).name("A server").description("It keeps parts").tools(tools)
}

/// Searches by words.
pub(crate) fn by_words(index: &ToolIndex, text: &str) -> Found {
    let query = Query::new(text).strategy(SearchStrategy::Keyword);
    index.search(&query, &Everything).unwrap()
}

/// Searches as if nobody had said how.
pub(crate) fn by_all(index: &ToolIndex, text: &str) -> Found {
    index.search(&Query::new(text), &Everything).unwrap()
}

/// Kilobytes of this process that are resident, where the system says it.
pub(crate) fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}
