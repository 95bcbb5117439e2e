//! What the index promises, on small catalogues.

use mgp_types::mcp::Tool;
use mgp_types::mgp::{RiskLevel, ServerState, ToolSecurity};
use mgp_types::{Payload, RawObject};

use super::*;
use crate::catalog::{Everything, ServerEntry, ToolEntry};
use crate::search::{Filter, Found, Query};

pub(super) fn tool(name: &str, description: &str) -> Tool {
    let mut tool = Tool::new(name.to_owned(), RawObject::empty());
    tool.description = Some(description.to_owned());
    tool
}

fn with_schema(name: &str, schema: &str) -> Tool {
    let schema: RawObject = Payload::from_trusted(schema.to_owned()).try_into().unwrap();
    Tool::new(name.to_owned(), schema)
}

pub(super) fn names(found: &Found) -> Vec<String> {
    found.hits.iter().map(|hit| hit.tool.tool_id()).collect()
}

pub(super) fn search(index: &ToolIndex, text: &str) -> Vec<String> {
    names(&index.search(&Query::new(text), &Everything).unwrap())
}

fn files() -> ServerEntry {
    ServerEntry::new("files").description("The user's files").tools([
        tool("read_file", "Reads the contents of a file"),
        tool("write_file", "Writes text to a file"),
        tool("list_directory", "Lists what is in a folder"),
    ])
}

fn mail() -> ServerEntry {
    ServerEntry::new("mail").name("Mail").tool(tool("send_mail", "Sends a letter to somebody"))
}

#[test]
fn a_change_is_seen_by_the_next_query() {
    let index = ToolIndex::new();
    assert!(search(&index, "read file").is_empty());
    let put = index.put(files()).unwrap();
    assert_eq!((put.added, put.removed), (3, 0));
    assert_eq!(search(&index, "reading files")[0], "files.read_file");
    index.put(mail()).unwrap();
    assert_eq!(search(&index, "letters")[0], "mail.send_mail");
    assert_eq!(index.remove("mail").unwrap(), 1);
    assert!(search(&index, "letters").is_empty());
    assert_eq!(index.remove("mail").unwrap(), 0);
    assert!(index.get("mail", "send_mail").is_none());
    assert_eq!(index.get("files", "read_file").unwrap().tool_id(), "files.read_file");
}

#[test]
fn what_did_not_change_costs_nothing() {
    let index = ToolIndex::new();
    index.put(files()).unwrap();
    let (generation, before) = (index.generation(), index.get("files", "read_file").unwrap());
    let put = index.put(files()).unwrap();
    assert_eq!((put.unchanged, put.added + put.changed + put.removed), (3, 0));
    assert_eq!(index.generation(), generation);

    let other = ServerEntry::new("files").description("The user's files").tools([
        tool("read_file", "Reads the contents of a file"),
        tool("write_file", "Overwrites a file with a poem"),
        tool("move_file", "Moves"),
    ]);
    let put = index.put(other).unwrap();
    assert_eq!((put.unchanged, put.added, put.changed, put.removed), (1, 1, 1, 1));
    let after = index.get("files", "read_file").unwrap();
    assert!(std::sync::Arc::ptr_eq(&before.0, &after.0));
    assert_eq!(search(&index, "poem"), ["files.write_file"]);
    assert!(search(&index, "folder").is_empty());
}

#[test]
fn risk_is_the_effective_one() {
    let claimed = |text: &str| {
        let json = format!(r#"{{"name":"t","inputSchema":{{}},"security":{text}}}"#);
        serde_json::from_str::<Tool>(&json).unwrap()
    };
    let check = |entry: ToolEntry, expected: RiskLevel| {
        let index = ToolIndex::new();
        index.put(ServerEntry::new("s").tool(entry)).unwrap();
        assert_eq!(index.get("s", "t").unwrap().risk(), expected);
    };
    check(tool("t", "").into(), RiskLevel::Dangerous);
    check(claimed(r#"{"risk_level":"safe"}"#).into(), RiskLevel::Safe);
    // What a server says of its own effective risk makes nothing milder.
    let lie = claimed(r#"{"risk_level":"moderate","effective_risk_level":"safe"}"#);
    check(lie.clone().into(), RiskLevel::Moderate);
    let mut decided = ToolSecurity::new(RiskLevel::Dangerous);
    decided.effective_risk_level = Some(RiskLevel::Safe);
    check(ToolEntry::from(lie).security(decided), RiskLevel::Safe);
}

#[test]
fn filters_narrow() {
    let index = ToolIndex::new();
    let safe = |tool: Tool| ToolEntry::from(tool).security(ToolSecurity::new(RiskLevel::Safe));
    let csv = r#"{"properties":{"csv_path":{"type":"string"}}}"#;
    let server = ServerEntry::new("data").tools([
        safe(with_schema("read_table", csv)).categories(["data/tables"]),
        ToolEntry::from(tool("read_row", "reads")).categories(["data.rows"]),
    ]);
    index.put(server).unwrap();
    index
        .put(ServerEntry::new("old").state(ServerState::Error).tool(tool("read_old", "")))
        .unwrap();
    let check = |filter: Filter, expected: &[&str]| {
        let found = index.search(&Query::new("read").filter(filter), &Everything).unwrap();
        let mut names = names(&found);
        names.sort();
        assert_eq!(names, expected);
        assert_eq!(found.total_available, expected.len());
    };
    check(Filter::new().category("data"), &["data.read_row", "data.read_table"]);
    check(Filter::new().category("Data/Rows"), &["data.read_row"]);
    check(Filter::new().category("rows"), &["data.read_row"]);
    check(Filter::new().risk_level_max(RiskLevel::Moderate), &["data.read_table"]);
    check(Filter::new().status(ServerState::Connected), &["data.read_row", "data.read_table"]);
    check(Filter::new().server("old").server("none"), &["old.read_old"]);
    check(Filter::new().input_type("csv"), &["data.read_table"]);
    check(Filter::new().input_type("csv").risk_level_max(RiskLevel::Safe), &["data.read_table"]);
    check(Filter::new().output_type("tables"), &["data.read_table"]);
    check(Filter::new().input_type("pdf"), &[]);
    index.set_state("old", ServerState::Connected);
    check(
        Filter::new().status(ServerState::Connected),
        &["data.read_row", "data.read_table", "old.read_old"],
    );
}
