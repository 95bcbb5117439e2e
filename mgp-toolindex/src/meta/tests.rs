//! Tests of context levels, and of calls of found tools (MGP §16.3, §16.5).

use mgp_types::RawObject;
use mgp_types::mcp::Tool;
use mgp_types::mgp::ContextLevel;
use mgp_types::service::Principal;

use super::*;
use crate::{
    AllTools, Allowed, Pins, ServerEntry, SessionLimits, Sessions, ToolIndex, default_budget,
};

fn index() -> ToolIndex {
    let index = ToolIndex::new();
    let tool = |name: &str| Tool::new(name.to_owned(), RawObject::empty());
    index.put(ServerEntry::new("files").tools([tool("read"), tool("write")])).unwrap();
    index.put(ServerEntry::new("mail").tools([tool("read"), tool("a.b")])).unwrap();
    index
}

struct Not(&'static str);

impl Allowed for Not {
    fn allows(&self, server: &str, _: &str) -> bool {
        server != self.0
    }
}

#[track_caller]
fn check(arguments: &str, allowed: &dyn Allowed, expected: Result<&str, i32>) {
    let arguments: RawObject = serde_json::from_str(arguments).unwrap();
    let found = ForwardedCall::read(&arguments, &index(), allowed);
    let found = found.as_ref().map(|call| call.tool.tool_id()).map_err(|error| error.code().0);
    assert_eq!(found, expected.map(str::to_owned));
}

#[test]
fn a_call_resolves_to_one_tool_or_lists_the_candidates() {
    check(r#"{"name":"write","arguments":{}}"#, &AllTools, Ok("files.write"));
    check(r#"{"name":"write"}"#, &AllTools, Ok("files.write"));
    check(r#"{"name":"read"}"#, &AllTools, Err(4003));
    check(r#"{"name":"mail.read"}"#, &AllTools, Ok("mail.read"));
    check(r#"{"name":"read","server_id":"mail"}"#, &AllTools, Ok("mail.read"));
    check(r#"{"name":"mail.read","server_id":"mail"}"#, &AllTools, Ok("mail.read"));
    check(r#"{"name":"mail.read","server_id":"files"}"#, &AllTools, Err(4001));
    check(r#"{"name":"a.b"}"#, &AllTools, Ok("mail.a.b"));
    check(r#"{"name":"nothing"}"#, &AllTools, Err(4001));
    check(r#"{"name":7}"#, &AllTools, Err(-32602));
    check(r#"{"name":"write","arguments":[]}"#, &AllTools, Ok("files.write"));
    check(r#"{"name":"write","arguments":[1]}"#, &AllTools, Err(-32602));
    check(r#"{"name":"write","server_id":{}}"#, &AllTools, Err(-32602));
    check(r#"{"name":"write","server_id":null,"arguments":null}"#, &AllTools, Ok("files.write"));
    check(r#"{"name":"write","server_id":""}"#, &AllTools, Ok("files.write"));
    check(r#"{"name":"read","server_id":""}"#, &AllTools, Err(4003));
    check("{}", &AllTools, Err(-32602));
}

#[test]
fn a_tool_without_access_is_unknown_and_hides_no_other() {
    check(r#"{"name":"read"}"#, &Not("mail"), Ok("files.read"));
    check(r#"{"name":"mail.read"}"#, &Not("mail"), Err(4001));
    check(r#"{"name":"read","server_id":"mail"}"#, &Not("mail"), Err(4001));
    let index = index();
    let read = index.get("files", "read").unwrap();
    assert_eq!(name_for(&read, &index, &AllTools), "files.read");
    assert_eq!(name_for(&read, &index, &Not("mail")), "read");
}

#[test]
fn an_ambiguous_name_is_refused_with_the_qualified_names() {
    let arguments = serde_json::from_str(r#"{"name":"read"}"#).unwrap();
    let error = ForwardedCall::read(&arguments, &index(), &AllTools).unwrap_err();
    assert!(error.message().contains("files.read, mail.read"), "{error}");
    let index = ToolIndex::new();
    for (server, name) in [("c", "a.b"), ("c.a", "b")] {
        let tool = Tool::new(name.to_owned(), RawObject::empty());
        index.put(ServerEntry::new(server).tool(tool)).unwrap();
    }
    let arguments = serde_json::from_str(r#"{"name":"c.a.b"}"#).unwrap();
    let error = ForwardedCall::read(&arguments, &index, &AllTools).unwrap_err();
    assert!(
        error.message().ends_with("use one of `server_id` c, `server_id` c.a")
            || error.message().ends_with("use one of `server_id` c.a, `server_id` c"),
        "{error}"
    );
    let long = format!(r#"{{"name":"{}"}}"#, "n\\n".repeat(9000));
    let arguments = serde_json::from_str(&long).unwrap();
    let error = ForwardedCall::read(&arguments, &index, &AllTools).unwrap_err();
    assert!(error.message().len() < 200, "{error}");
}

#[test]
fn a_name_of_a_million_dots_is_looked_up_like_any_other() {
    for name in
        [".".repeat(1 << 20), "mail.".repeat(200_000), format!("mail.{}", "a.".repeat(500_000))]
    {
        check(&format!(r#"{{"name":"{name}"}}"#), &AllTools, Err(4001));
    }
}

#[test]
fn a_reduced_definition_keeps_what_hosts_show_and_ask_about() {
    let definition = serde_json::json!({"name": "wipe", "title": "Wipe all", "inputSchema": {},
        "description": "Wipes. ".repeat(5000), "annotations": {"destructiveHint": true}});
    let tool: Tool = serde_json::from_str(&definition.to_string()).unwrap();
    let index = ToolIndex::new();
    index.put(ServerEntry::new("disks").tool(tool)).unwrap();
    let pins = Pins::new().agent("bot", ["wipe"]);
    let sessions = Sessions::with_budget(default_budget(), pins, SessionLimits::default());
    let bot = Principal::local().agent("bot");
    let view = sessions.view(&bot, None, &index, &AllTools);
    let listed = listed_tools(&ContextLevel::Hybrid, &MetaTools::new(), &index, &AllTools, &view);
    let wipe = listed.iter().find(|tool| tool.name == "wipe").unwrap();
    assert!(wipe.description.as_ref().is_some_and(|text| text.len() < 9000));
    assert_eq!(wipe.title.as_deref(), Some("Wipe all"));
    assert_eq!(wipe.annotations.as_ref().and_then(|hints| hints.destructive_hint), Some(true));
}
