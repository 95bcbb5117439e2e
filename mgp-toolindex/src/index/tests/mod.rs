//! Tests of the index on small catalogues.

mod access;
#[cfg(feature = "sqlite")]
mod database;
mod embedding;
mod hostile;
#[cfg(feature = "sqlite")]
mod words;

use mgp_types::mcp::Tool;
use mgp_types::mgp::{RiskLevel, ServerState, ToolSecurity};
use mgp_types::{Payload, RawObject};

use super::*;
use crate::catalog::{AllTools, CategoryNode, IndexedTool, ServerEntry, ToolEntry};
use crate::search::{Filter, Query, SearchResult};

pub(super) fn tool(name: &str, description: &str) -> Tool {
    let mut tool = Tool::new(name.to_owned(), RawObject::empty());
    tool.description = Some(description.to_owned());
    tool
}

fn with_schema(name: &str, schema: &str) -> Tool {
    let schema: RawObject = Payload::from_trusted(schema.to_owned()).try_into().unwrap();
    Tool::new(name.to_owned(), schema)
}

/// Returns an empty index that searches by words only.
pub(super) fn by_words() -> ToolIndex {
    ToolIndex::builder().without_embedder().build()
}

pub(super) fn names(found: &SearchResult) -> Vec<String> {
    found.hits.iter().map(|hit| hit.tool.tool_id()).collect()
}

pub(super) fn search(index: &ToolIndex, text: &str) -> Vec<String> {
    names(&index.search(&Query::new(text), &AllTools).unwrap())
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
    let index = by_words();
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
fn unchanged_tools_cost_nothing() {
    let index = by_words();
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
fn values_of_parameters_are_found() {
    let index = by_words();
    let long: Vec<String> = ('a'..='j').map(|letter| letter.to_string().repeat(40)).collect();
    let schema = format!(
        r#"{{"properties":{{"format":{{"enum":["webp","{0}x"]}},"tone":{{"const":"sepia"}},"key":{{"enum":{1:?}}}}}}}"#,
        long[0], long
    );
    index
        .put(ServerEntry::new("x").tools([with_schema("paint", &schema), tool("sing", "")]))
        .unwrap();
    assert_eq!(search(&index, "convert to webp"), ["x.paint"]);
    assert_eq!(search(&index, "sepia"), ["x.paint"]);
    assert_eq!(search(&index, &long[0]), ["x.paint"]);
    // Values of more than 40 bytes are not indexed, and neither are values beyond the total of 256 bytes for a tool.
    for text in [&format!("{}x", long[0]), &long[9]] {
        assert!(search(&index, text).is_empty(), "{text}");
    }
}

#[test]
fn risk_is_the_effective_one() {
    let claimed = |text: &str| {
        let json = format!(r#"{{"name":"t","inputSchema":{{}},"security":{text}}}"#);
        serde_json::from_str::<Tool>(&json).unwrap()
    };
    let check = |entry: ToolEntry, expected: RiskLevel| {
        let index = by_words();
        index.put(ServerEntry::new("s").tool(entry)).unwrap();
        assert_eq!(index.get("s", "t").unwrap().risk(), expected);
    };
    check(tool("t", "").into(), RiskLevel::Dangerous);
    check(claimed(r#"{"risk_level":"safe"}"#).into(), RiskLevel::Safe);
    // A server must not be able to lower the risk of its own tools.
    let lie = claimed(r#"{"risk_level":"moderate","effective_risk_level":"safe"}"#);
    check(lie.clone().into(), RiskLevel::Moderate);
    let mut security_source = ToolSecurity::new(RiskLevel::Dangerous);
    security_source.effective_risk_level = Some(RiskLevel::Safe);
    check(ToolEntry::from(lie).security(security_source), RiskLevel::Safe);
}

#[test]
fn filters_narrow() {
    let index = by_words();
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
        let found = index.search(&Query::new("read").filter(filter), &AllTools).unwrap();
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

#[test]
fn a_name_of_two_tools_is_ambiguous() {
    let index = by_words();
    index.put_all([files(), mail()]).unwrap();
    let resolve = |name: &str| match index.resolve(name, &AllTools) {
        Resolved::One(tool) => tool.tool_id(),
        Resolved::Ambiguous(tools) => {
            tools.iter().map(IndexedTool::tool_id).collect::<Vec<_>>().join(" or ")
        }
        Resolved::Unknown => "-".to_owned(),
    };
    assert_eq!(resolve("read_file"), "files.read_file");
    assert_eq!(resolve("files.read_file"), "files.read_file");
    assert_eq!(resolve("ReadFile"), "-");
    assert_eq!(resolve("mail.read_file"), "-");
    index.put(ServerEntry::new("more").tool(tool("read_file", ""))).unwrap();
    assert_eq!(resolve("read_file"), "files.read_file or more.read_file");
    assert_eq!(resolve("more.read_file"), "more.read_file");
    // A server must not be able to take over the qualified name of another server's tool.
    index.put(ServerEntry::new("bad").tool(tool("files.read_file", ""))).unwrap();
    assert_eq!(resolve("files.read_file"), "files.read_file");
    assert_eq!(resolve("bad.files.read_file"), "bad.files.read_file");
    index.put(ServerEntry::new("bad.files").tool(tool("read_file", ""))).unwrap();
    assert_eq!(resolve("bad.files.read_file"), "bad.files.read_file or bad.files.read_file");
}

#[test]
fn a_server_does_not_take_calls_of_one_that_is_not_there() {
    let index = by_words();
    let own = |name: &str| ServerEntry::new("aaa").tool(tool(name, ""));
    for name in ["files.erase", "files/read_file", "files.read_file"] {
        index.put(own(name)).unwrap();
        let is_found = || !matches!(index.resolve(name, &AllTools), Resolved::Unknown);
        index.put(files()).unwrap();
        assert_eq!(is_found(), name == "files.read_file", "{name}: that of `files` or none");
        index.remove("files").unwrap();
        assert!(!is_found(), "{name}");
        let qualified = format!("aaa.{name}");
        assert!(matches!(index.resolve(&qualified, &AllTools), Resolved::One(_)), "{name}");
    }
    // If no server has the id before the dot, the whole name is the name of a tool.
    index.put(own("notes.list")).unwrap();
    assert!(matches!(index.resolve("notes.list", &AllTools), Resolved::One(_)));
    index.put(ServerEntry::new("notes").tool(tool("notes.add", ""))).unwrap();
    assert!(matches!(index.resolve("notes.add", &AllTools), Resolved::One(_)), "its own id");
}

#[test]
fn words_are_found_in_scripts_without_spaces() {
    let index = by_words();
    let all = [
        ("a", "读取文件的内容"),
        ("b", "发送电子邮件"),
        ("c", "天気予報を取得します"),
        ("d", "파일을 삭제합니다"),
    ];
    index.put(ServerEntry::new("s").tools(all.map(|(name, text)| tool(name, text)))).unwrap();
    for (query, expected) in [("文件", "s.a"), ("邮件", "s.b"), ("天気", "s.c"), ("파일", "s.d")]
    {
        assert_eq!(search(&index, query)[0], expected, "{query}");
    }
}

#[test]
fn texts_of_the_server_find_its_tools() {
    let index = by_words();
    index.put(mail()).unwrap();
    let again = mail().description("Carrier pigeons");
    assert_eq!(index.put(again).unwrap().changed, 1);
    assert_eq!(search(&index, "pigeon"), ["mail.send_mail"]);
    assert_eq!(index.put(mail()).unwrap().changed, 1);
    assert!(search(&index, "pigeon").is_empty());
}

#[test]
fn categories_are_a_tree() {
    let index = by_words();
    index.put(files()).unwrap();
    let given =
        ServerEntry::new("s").categories(["data/charts"]).tools([tool("one", ""), tool("two", "")]);
    index.put(given.tool(ToolEntry::from(tool("three", "")).categories(["Data.Tables"]))).unwrap();
    let (tools, tree) = index.caller_overview(&AllTools);
    let counts = |nodes: &[CategoryNode]| {
        let counts = nodes.iter().map(|node| format!("{} {}", node.path, node.tools));
        counts.collect::<Vec<_>>()
    };
    assert_eq!(tools, 6);
    assert_eq!(counts(&tree.roots), ["data 3", "filesystem 3"]);
    assert_eq!(counts(&tree.roots[0].below), ["data/charts 2", "data/tables 1"]);
    assert_eq!(counts(&tree.roots[1].below)[0], "filesystem/read 2");
}

#[test]
fn the_export_has_the_shape_of_the_specification() {
    let index = by_words();
    let entry = ToolEntry::from(tool("read_file", "Reads the file"))
        .security(ToolSecurity::new(RiskLevel::Moderate))
        .categories(["filesystem"]);
    index.put(ServerEntry::new("files").tool(entry)).unwrap();
    let entries = index.entries();
    assert_eq!(
        serde_json::to_string(&entries[0]).unwrap(),
        concat!(
            r#"{"tool_id":"files.read_file","server_id":"files","name":"read_file","#,
            r#""description":"Reads the file","categories":["filesystem"],"#,
            r#""keywords":["read","file","reads"],"security":{"risk_level":"moderate"}}"#
        )
    );
}

#[test]
fn the_definition_is_stored_compact_and_whole() {
    let index = by_words();
    let spaced = "{ \"type\" : \"object\", \"x\": [1, \"a b\"] }";
    let mut tool = with_schema("t", spaced);
    tool.description = Some("says \"hello\"\n".to_owned());
    index.put(ServerEntry::new("s").tool(tool.clone())).unwrap();
    let listed = index.get("s", "t").unwrap();
    assert_eq!(
        listed.definition(),
        r#"{"name":"t","description":"says \"hello\"\n","inputSchema":{"type":"object","x":[1,"a b"]}}"#
    );
    assert_eq!((listed.name(), listed.description()), ("t", tool.description.as_deref()));
    assert_eq!(listed.tool().unwrap().name, "t");
    assert!(listed.tokens() as usize >= listed.definition().len() / 8);
    assert_eq!(index.stats().tokens_all, u64::from(listed.tokens()));
}

#[test]
fn servers_need_an_id() {
    let index = by_words();
    let error = index.put_all([files(), ServerEntry::new("")]).unwrap_err();
    assert_eq!(error.to_string(), "the server id has 0 bytes; 1 to 512 are allowed");
    // The refused call added no tool, not even one of the valid server `files`.
    assert_eq!((index.stats().tools, index.generation()), (0, 0));
    index.put(files()).unwrap();
    assert_eq!(index.stats().servers, 1);
}
