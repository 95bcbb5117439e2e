//! Servers and tools for the tests.

use mgp_toolindex::{AllTools, Query, SearchResult, ServerEntry, ToolIndex};
use mgp_types::RawObject;
use mgp_types::mcp::Tool;
use mgp_types::mgp::SearchStrategy;

pub(crate) fn tool(name: &str, description: &str) -> Tool {
    let schema =
        r#"{"type":"object","properties":{"path":{"type":"string","description":"Where it is"}}}"#;
    let mut tool = Tool::new(name.to_owned(), raw(schema));
    tool.description = Some(description.to_owned());
    tool
}

pub(crate) fn raw(json: &str) -> RawObject {
    serde_json::from_str(json).unwrap()
}

/// Returns a server whose tools have a word in common.
pub(crate) fn server(id: &str, word: &str, tools: u64) -> ServerEntry {
    let tools = (0..tools).map(|number| {
        tool(&format!("{word}_part_{number}"), &format!("Reads part {number} of what {word} keeps"))
    });
    ServerEntry::new(id).name("A server").description("It keeps parts").tools(tools)
}

/// Searches by keywords.
pub(crate) fn by_words(index: &ToolIndex, text: &str) -> SearchResult {
    let query = Query::new(text).strategy(SearchStrategy::Keyword);
    index.search(&query, &AllTools).unwrap()
}

/// Searches with the default strategy.
pub(crate) fn by_all(index: &ToolIndex, text: &str) -> SearchResult {
    index.search(&Query::new(text), &AllTools).unwrap()
}

/// Returns the resident memory of this process in kilobytes; `None` if the system has no `/proc`.
pub(crate) fn resident() -> Option<u64> {
    Some(mgp_testkit::process_memory(std::process::id(), "VmRSS")? >> 10)
}
