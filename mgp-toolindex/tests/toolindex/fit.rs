//! Tests of searches for which no tool fits, and of requests to an index of few tools (MGP §16.5, §16.6).

use mgp_toolindex::{Endpoints, ServerEntry, Sessions, ToolIndex};
use mgp_types::RawObject;
use mgp_types::mcp::Tool;
use mgp_types::service::{Stack, mock};
use serde_json::{Value, json};

const TOOLS: [(&str, &str); 12] = [
    ("read_file", "Read the contents of a file"),
    ("write_file", "Create a file or replace its contents"),
    ("edit_file", "Replace lines of a text file"),
    ("list_directory", "List the files of a directory"),
    ("create_directory", "Create a directory"),
    ("move_file", "Move or rename a file"),
    ("search_files", "Find files by their names"),
    ("get_file_info", "Show the size and the times of a file"),
    ("git_log", "Show the last commits"),
    ("git_diff", "Show the changes between two commits"),
    ("git_commit", "Record the changes of the repository"),
    ("get_weather", "Return the weather forecast of a city"),
];

async fn ask(method: &str, params: Value) -> Value {
    let tool = |(name, description): (&str, &str)| {
        let mut tool = Tool::new(name.to_owned(), RawObject::empty());
        tool.description = Some(description.to_owned());
        tool
    };
    let index = ToolIndex::new();
    index.put(ServerEntry::new("desk").name("desk").tools(TOOLS.map(tool))).unwrap();
    let endpoints = Endpoints::new(index, Sessions::new());
    let mut client = mock::client(Stack::new(endpoints.router()));
    let answer = client.request(&format!("mgp/tools/{method}"), &params.to_string()).await;
    answer.unwrap().get().unwrap()
}

#[tokio::test]
async fn a_search_that_no_tool_fits_is_noted_and_is_not_filled_with_other_tools() {
    for (query, is_weak) in [
        ("turn on the lights in the living room", true),
        ("send an sms to my mother", true),
        ("book a dentist appointment", true),
        ("xqzw vvkp", true),
        ("will it rain in Lisbon", false),
        ("wird es morgen in Lissabon regnen", false),
        ("rename my notes", false),
        ("what is in my notes file", false),
        ("", false),
    ] {
        let found = ask("discover", json!({"query": query, "max_results": 4})).await;
        let count = found["tools"].as_array().unwrap().len();
        assert_eq!(count < 4, is_weak, "{query}: {found}");
        assert_eq!(found["notes"].to_string().contains("no tool does this"), is_weak, "{found}");
    }
}

#[tokio::test]
async fn an_indirect_request_loads_the_tool_of_a_small_index() {
    for (capability, tool) in [
        ("will it rain in Lisbon", Some("get_weather")),
        ("who changed this code", Some("git_log")),
        ("turn on the lights in the living room", None),
        ("order a pizza", None),
        ("brew espresso", None),
    ] {
        let wanted = json!({"requirements": {"capabilities": [capability]}});
        let answer = ask("request", wanted).await;
        let loaded = &answer["tools_loaded"][0]["name"];
        assert_eq!(loaded.as_str(), tool, "{answer}");
    }
}
