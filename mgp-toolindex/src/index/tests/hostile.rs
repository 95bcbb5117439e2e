//! Tests that hostile definitions are indexed safely, or refused with a reason.

use super::*;

#[track_caller]
fn refused(entry: impl Into<ToolEntry>, limits: IndexLimits, expected: &str) {
    let index = ToolIndex::builder().without_embedder().limits(limits).build();
    let server =
        ServerEntry::new("s").tool(tool("good", "fine")).tool(entry).tool(tool("last", ""));
    let put = index.put(server).unwrap();
    let reasons: Vec<String> = put.refused.iter().map(ToString::to_string).collect();
    assert_eq!(reasons, [expected]);
    // The valid tools are added although the other tools are refused.
    assert_eq!((put.added, index.stats().tools), (2, 2));
    assert_eq!(search(&index, "good")[0], "s.good");
}

#[test]
fn an_unusable_definition_is_refused() {
    let limits = IndexLimits::default();
    refused(tool("", ""), limits, "the tool `` of `s` is not indexed: it has no name");
    refused(
        tool(&"a".repeat(64 << 10), ""),
        limits,
        &format!(
            "the tool `{}` of `s` is not indexed: its name has 65536 characters, at most 256 are allowed",
            "a".repeat(80)
        ),
    );
    refused(
        tool("good", "again"),
        limits,
        "the tool `good` of `s` is not indexed: its server lists another tool of the same name before it",
    );
    let deep = format!(r#"{{"properties":{}1{}}}"#, r#"{"a":"#.repeat(10_000), "}".repeat(10_000));
    refused(
        with_schema("deep", &deep),
        limits,
        "the tool `deep` of `s` is not indexed: its definition is nested 10002 levels deep, at most 120 are allowed",
    );
    refused(
        tool("long", &"words ".repeat(300_000)),
        limits,
        "the tool `long` of `s` is not indexed: its definition has 1800049 bytes, at most 1048576 are allowed",
    );
    refused(
        with_schema("broken", "{\"a\":"),
        limits,
        "the tool `broken` of `s` is not indexed: its definition is not valid JSON: EOF while parsing a value at line 1 column 5",
    );
}

#[test]
fn a_full_index_refuses_tools() {
    let with = |change: fn(&mut IndexLimits)| {
        let mut limits = IndexLimits::default();
        change(&mut limits);
        let index = ToolIndex::builder().without_embedder().limits(limits).build();
        let put = index.put(files()).unwrap();
        let reasons = put.refused.iter().map(|refused| refused.reason.to_string());
        (put.added, reasons.collect::<Vec<_>>().join(", "))
    };
    assert_eq!(with(|l| l.tools_of_server = 2), (2, "its server lists more than 2 tools".into()));
    assert_eq!(with(|l| l.tools = 2), (2, "the index is full with 2 tools".into()));
    let (added, reason) = with(|l| l.bytes = 200);
    assert_eq!(added, 2);
    assert_eq!(reason, "the index is full with 200 bytes of definitions");
}

#[test]
fn a_refused_change_removes_the_old_tool() {
    let index = by_words();
    index.put(ServerEntry::new("s").tool(tool("t", "harmless"))).unwrap();
    let put = index.put(ServerEntry::new("s").tool(tool("t", &"x ".repeat(1 << 20)))).unwrap();
    assert_eq!((put.removed, put.refused.len()), (1, 1));
    assert!(search(&index, "harmless").is_empty());
}

#[test]
fn strange_definitions_are_indexed_safely() {
    let index = by_words();
    let many = (0..50_000).map(|n| format!(r#""p{n}":{{}}"#)).collect::<Vec<_>>().join(",");
    let many = with_schema("many", &format!(r#"{{"properties":{{{many}}}}}"#));
    let mut security = tool("security", "odd security");
    security.security = Some(mgp_types::Lenient::Malformed(Payload::from_trusted("[]")));
    let put = index
        .put(ServerEntry::new("s").description("\u{0}\u{202e}").tools([
            many,
            tool("bell\u{7}\u{0}\n name", "rings\u{1b}[2J the \u{202e}bell"),
            tool("\u{200b}\u{feff}", "invisible"),
            tool("🦀", "a crab"),
            with_schema("types", r#"{"properties":[1,{"a":"b"}],"enum":{"x":[]},"description":7}"#),
            security,
        ]))
        .unwrap();
    assert_eq!(put.added, 6, "{:?}", put.refused);
    assert_eq!(search(&index, "bell")[0], "s.bell\u{7}\u{0}\n name");
    assert_eq!(search(&index, "invisible")[0], "s.\u{200b}\u{feff}");
    assert_eq!(search(&index, "crab")[0], "s.🦀");
    assert_eq!(index.get("s", "security").unwrap().risk(), RiskLevel::Dangerous);
    // Only the first parameters are searchable.
    assert_eq!(search(&index, "12")[0], "s.many");
    assert!(search(&index, "49999").is_empty());
}

#[test]
fn tools_whose_names_differ_only_in_separators_are_found_by_their_exact_names() {
    let index = by_words();
    let (long, longer) = ("a".repeat(200), "a".repeat(201));
    let names = ["read_file", "readFile", "read-file", "--", "__", &*long, &*longer];
    index.put(ServerEntry::new("s").tools(names.map(|name| tool(name, "")))).unwrap();
    for name in names {
        assert_eq!(index.get("s", name).unwrap().name(), name);
    }
    index.remove("s").unwrap();
    assert!(names.into_iter().all(|name| index.get("s", name).is_none()));
}
