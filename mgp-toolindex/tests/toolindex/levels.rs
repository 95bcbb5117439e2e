//! Compares `tools/list` at each context level, and its size in tokens, with golden files (MGP §16.3).
//!
//! With `UPDATE_GOLDEN=1` the test writes the files.

use mgp_toolindex::{
    AllTools, MetaTools, Pins, ServerEntry, SessionLimits, Sessions, TokenCounter, ToolEntry,
    ToolIndex, default_budget, listed_tools,
};
use mgp_types::RawObject;
use mgp_types::mcp::Tool;
use mgp_types::mgp::ContextLevel;
use mgp_types::service::{Principal, Router, Stack, mock};
use serde_json::{Value, json};

/// The page that shows the tokens of each level.
const PAGE: &str = include_str!("../../../docs/tool-context.md");

/// Returns an index of forty servers with ten tools each, whose descriptions resemble the descriptions of real servers.
fn index() -> ToolIndex {
    let things = ["file", "issue", "invoice", "message", "table", "page", "image", "event"];
    let verbs = [
        "read", "write", "list", "delete", "search", "rename", "copy", "share", "export", "archive",
    ];
    let places = ["local disk", "team workspace", "customer account", "public website", "archive"];
    let index = ToolIndex::new();
    let server = |number: usize| {
        let (thing, place) = (things[number % things.len()], places[number % places.len()]);
        let tools = verbs.map(|verb| {
            let schema = json!({
                "type": "object",
                "properties": {
                    format!("{thing}_id"): {"type": "string", "description": format!("Identifier of the {thing} in the {place}")},
                    "recursive": {"type": "boolean", "description": "Whether everything below is meant too", "default": false},
                    "limit": {"type": "integer", "description": format!("How many {thing}s at most"), "minimum": 1},
                },
                "required": [format!("{thing}_id")],
            });
            let mut tool = Tool::new(format!("{verb}_{thing}_{number}"), RawObject::of(&schema).unwrap());
            let title = format!("{verb} {thing}");
            tool.description = Some(format!("Can {verb} a {thing} of the {place}, and says what became of it."));
            tool.title = Some(title);
            ToolEntry::from(tool).categories([format!("{thing}s/{verb}")])
        });
        ServerEntry::new(format!("server{number}"))
            .name(format!("{thing}s of the {place}"))
            .tools(tools)
    };
    index.put_all((0..40).map(server)).unwrap();
    index
}

#[test]
fn each_level_has_its_tools_and_stays_below_its_cost() {
    let index = index();
    index.count_tokens();
    let pins = Pins::new().agent("bot", ["read_file_0", "search_page_5"]);
    let sessions = Sessions::with_budget(default_budget(), pins, SessionLimits::default());
    let mut cx = mock::client(Stack::new(Router::new())).cx;
    cx.principal = Principal::local().agent("bot");
    let session = sessions.open(&cx, None).unwrap();
    for (server, tool) in [("server3", "share_message_3"), ("server6", "export_image_6")] {
        sessions.record_use(&session, &index.get(server, tool).unwrap());
    }
    let view = sessions.view(&cx.principal, Some(&session), &index, &AllTools);
    let counter = TokenCounter::new();
    let mut costs = Vec::new();
    for level in ContextLevel::KNOWN {
        let tools = listed_tools(level, &MetaTools::new(), &index, &AllTools, &view);
        let text = serde_json::to_string(&tools).unwrap();
        let tokens = counter.count(&text);
        costs.push(tokens);
        // Compare only the first tool, which is enough to show the form of the complete list.
        let shown = if *level == ContextLevel::Standard { &tools[..1] } else { &tools[..] };
        golden(
            level.as_str(),
            &json!({"level": level, "count": tools.len(), "tokens": tokens, "tools": shown}),
        );
    }
    for (level, tokens) in ContextLevel::KNOWN.iter().zip(&costs) {
        let row = PAGE.lines().find(|line| line.starts_with(&format!("| {} |", level.as_str())));
        let cost = format!("| {}", grouped(*tokens));
        assert!(row.unwrap().contains(&cost), "docs/tool-context.md needs `{cost}`");
    }
    let [standard, category, discovery, hybrid] = costs[..] else { panic!("{costs:?}") };
    assert!(discovery <= 450 && hybrid <= 5000 && category <= 5000, "{costs:?}");
    assert!(u64::from(hybrid) <= view.total_tokens + 100, "{hybrid} {}", view.total_tokens);
    assert!(standard > 40 * discovery, "{costs:?}");
    let unknown =
        listed_tools(&ContextLevel::from("L9"), &MetaTools::new(), &index, &AllTools, &view);
    assert_eq!(unknown.len(), 7, "an unknown level is L3");
}

#[test]
fn the_category_index_stays_below_its_bound_for_15000_tools() {
    let index = ToolIndex::new();
    let server = |server: usize| {
        let tools = (0..100).map(|number| {
            let tool = Tool::new(format!("tool_{number}"), RawObject::empty());
            ToolEntry::from(tool).categories([format!("subject {}/part {}", server, number % 20)])
        });
        ServerEntry::new(format!("server{server}")).tools(tools)
    };
    index.put_all((0..150).map(server)).unwrap();
    assert_eq!(index.len(), 15_000);
    let view = Sessions::new().view(&Principal::local(), None, &index, &AllTools);
    let tools = listed_tools(&ContextLevel::Category, &MetaTools::new(), &index, &AllTools, &view);
    let tokens = TokenCounter::new().count(&serde_json::to_string(&tools).unwrap());
    assert!(tokens <= 5000, "{tokens}");
    let description = tools[0].description.as_deref().unwrap();
    assert!(description.contains("There are 15000") && description.contains("\nsubject 149 100"));
}

/// Returns a number as the documents write it, e.g. `48,242`.
fn grouped(number: u32) -> String {
    let (thousands, rest) = (number / 1000, number % 1000);
    if thousands == 0 { rest.to_string() } else { format!("{thousands},{rest:03}") }
}

/// Compares a value with its golden file, or writes the file if `UPDATE_GOLDEN` is set.
#[track_caller]
fn golden(level: &str, value: &Value) {
    let name = format!("s16_3_level_{}.json", level.to_lowercase());
    let path = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = serde_json::to_string_pretty(value).unwrap() + "\n";
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(path, text).unwrap();
        return;
    }
    let golden = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        golden == text,
        "{name} is stale; look at the change, then run with UPDATE_GOLDEN=1\n{text}"
    );
}
