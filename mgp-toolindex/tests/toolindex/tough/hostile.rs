//! Tests that each hostile definition is indexed safely or refused with a reason, and that other tools are not
//! affected.

use std::time::Duration;

use mgp_toolindex::{AllTools, Query, ServerEntry, ToolIndex};
use mgp_types::mcp::Tool;
use mgp_types::mgp::SearchStrategy;
use tokio::time::Instant;

use super::tools::{by_all, by_words, raw, tool};

/// The maximum time for one hostile definition or query; it is long, because debug builds are slow.
const MAX_TIME: Duration = Duration::from_secs(20);

/// Returns a schema of nested objects as JSON.
fn deep(levels: usize) -> String {
    let open = r#"{"type":"object","properties":{"a":"#.repeat(levels);
    format!("{open}{{}}{}", "}}".repeat(levels))
}

/// Returns a schema with nested arrays as JSON.
fn nested(levels: usize) -> String {
    format!(r#"{{"type":"object","x":{}{}}}"#, "[".repeat(levels), "]".repeat(levels))
}

fn with_schema(name: &str, schema: &str) -> Tool {
    let mut tool = tool(name, "Reads a file");
    tool.input_schema = raw(schema);
    tool
}

/// Returns the hostile definitions, each with a description for messages.
fn definitions() -> Vec<(&'static str, Tool)> {
    let properties: Vec<_> =
        (0..100_000).map(|number| format!(r#""p{number}":{{"type":"string"}}"#)).collect();
    let properties = format!(r#"{{"type":"object","properties":{{{}}}}}"#, properties.join(","));
    let long = "x".repeat(64 * 1024);
    vec![
        ("a name of 64 KiB", tool(&long, "Reads a file")),
        ("a name of 64 KiB in parts", tool(&"ab_Cd".repeat(13_108), "Reads a file")),
        ("no name", tool("", "Reads a file")),
        ("a name of blanks", tool(" \t\n ", "Reads a file")),
        ("control characters in the name", tool("re\u{0}ad\u{1b}[2J\u{7}", "Reads a file")),
        ("a name that turns the direction", tool("read\u{202e}elif\u{2066}", "Reads a file")),
        (
            "a name in the syntax of queries",
            tool("name:* AND (slot:[0 TO *] OR \"", "Reads a file"),
        ),
        ("a path as a name", tool("../../etc/passwd", "Reads a file")),
        (
            "control characters in the text",
            tool("ctl", "Reads\u{0}\u{8}\u{1b}]0;x\u{7}\u{9f} a file"),
        ),
        ("a description of 8 MiB", tool("long", &"read the file ".repeat(600_000))),
        ("a description of one word of 1 MiB", tool("oneword", &"y".repeat(1024 * 1024))),
        ("many marks on a letter", tool("zalgo", &format!("a{}", "\u{301}".repeat(200_000)))),
        ("a million signs that are no letters", tool("signs", &"!\u{1f600}_-.".repeat(100_000))),
        ("words without blanks", tool("cjk", &"\u{6587}\u{4ef6}".repeat(200_000))),
        ("a schema 10,000 deep", with_schema("deep", &deep(10_000))),
        ("an array 100,000 deep", with_schema("nested", &nested(100_000))),
        ("100,000 properties", with_schema("wide", &properties)),
        (
            "half of a pair",
            with_schema("half", r#"{"properties":{"\ud800":{"description":"\udfff"}}}"#),
        ),
        (
            "a schema that is no schema",
            with_schema("odd", r#"{"properties":[1,{"a":null}],"type":7}"#),
        ),
        (
            "a schema that names itself",
            with_schema("loop", r##"{"$ref":"#","properties":{"a":{"$ref":"#"}}}"##),
        ),
        (
            "a number beyond all numbers",
            with_schema("big", r#"{"maximum":1e999999,"properties":{"a":{"default":-1e999}}}"#),
        ),
    ]
}

#[test]
fn hostile_definitions_affect_no_other_tool() {
    let index = ToolIndex::new();
    let (mut taken, mut refused, mut slowest) = (0, 0, Duration::ZERO);
    for (number, (what, hostile)) in definitions().into_iter().enumerate() {
        let id = format!("server-{number}");
        let (word, name) = (format!("bystander{number}x"), hostile.name.clone());
        let server = ServerEntry::new(&id)
            .tool(tool(&word, "Stands beside it"))
            .tool(hostile)
            .tool(tool(&format!("after_{word}"), "Stands behind it"));
        let begin = Instant::now();
        let put = index.put(server).unwrap_or_else(|error| panic!("{what}: {error}"));
        slowest = slowest.max(begin.elapsed());
        assert_eq!(put.added + put.refused.len(), 3, "{what}");
        for one in &put.refused {
            assert!(!one.reason.to_string().is_empty(), "{what}");
            assert!(one.name.len() < 1024, "{what}: the refusal repeats it");
            assert!(!one.name.contains(char::is_control), "{what}: the refusal repeats it");
        }
        assert!(index.get(&id, &word).is_some(), "{what}: its neighbour is gone");
        assert_eq!(by_words(&index, &word).hits[0].tool.server_id(), id, "{what}");
        // A tool must be in the index exactly if it was not refused.
        assert_eq!(index.get(&id, &name).is_some(), put.refused.is_empty(), "{what}");
        refused += put.refused.len();
        taken += 1 - put.refused.len();
    }
    assert!(slowest < MAX_TIME, "{slowest:?}");
    for query in queries() {
        for strategy in
            [SearchStrategy::Keyword, SearchStrategy::Semantic, SearchStrategy::Category]
        {
            let begin = Instant::now();
            index.search(&Query::new(&query).strategy(strategy), &AllTools).unwrap();
            slowest = slowest.max(begin.elapsed());
        }
        let found = by_all(&index, &query);
        assert!(found.hits.iter().all(|hit| (0.0..=1.0).contains(&hit.score)));
        assert!(found.hits.is_sorted_by(|one, other| one.score >= other.score));
    }
    assert!(slowest < MAX_TIME, "{slowest:?}");
    let entries = index.entries();
    assert_eq!(entries.len(), index.stats().tools);
    println!(
        "tough: {taken} hostile definitions indexed, {refused} refused with a reason, {:.0} ms at worst",
        slowest.as_secs_f64() * 1000.0
    );
}

fn queries() -> Vec<String> {
    vec![
        "read ".repeat(200_000),
        "x".repeat(1024 * 1024),
        "\u{6587}".repeat(300_000),
        "a, b; c and d then e. ".repeat(20_000),
        "\u{0}\u{1b}[2J\u{202e}".to_owned(),
        "name:* AND (slot:[0 TO *] OR \"".to_owned(),
        "+-&&||!(){}[]^\"~*?:\\/".to_owned(),
        "the of and to a".to_owned(),
        format!("a{}", "\u{301}".repeat(100_000)),
        (0..20_000).map(|number| format!("word{number}")).collect::<Vec<_>>().join(" "),
    ]
}

#[test]
fn invalid_json_is_not_parsed_as_a_tool() {
    for bytes in [
        &b"{\"name\":\"\xff\xfe\",\"inputSchema\":{}}"[..],
        b"{\"name\":\"a\",\"description\":\"\xc3\x28\",\"inputSchema\":{}}",
        b"{\"name\":\"a\",\"inputSchema\":{\"x\":\"\xed\xa0\x80\"}}",
        b"{\"name\":\"a\",\"inputSchema\":3}",
        b"{\"name\":7,\"inputSchema\":{}}",
        b"{\"inputSchema\":{}}",
    ] {
        assert!(serde_json::from_slice::<Tool>(bytes).is_err(), "{}", bytes.escape_ascii());
    }
}
