//! Tests that a `Guard` answers every line, in order, for each kind of judge.

#![expect(clippy::format_collect, reason = "a few lines of a test")]

use mgp_security::guard::Guard;
use serde_json::{Value, json};

fn answers(kind: &str, lines: &[Value]) -> Vec<Value> {
    let input: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let mut output = Vec::new();
    let guard = Guard::from_name(kind).expect("a judge");
    let timing = guard.answer_all(input.as_bytes(), &mut output).expect("answers");
    assert!(timing.percentile(99) >= timing.percentile(50));
    let text = String::from_utf8(output).expect("text");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn every_judge_blocks_and_allows() {
    let tool = |name: &str| json!({"name": name, "inputSchema": {}, "description": "Adds."});
    for (kind, block, allow) in [
        ("sandbox", json!({"input": "ls; id"}), json!({"input": {"argv": ["ls", "a;b"]}})),
        (
            "network_restricted",
            json!({"kind": "host", "input": "127.0.0.1"}),
            json!({"kind": "host", "input": "1.1.1.1:853"}),
        ),
        (
            "readonly",
            json!({"input": {"tool": {"name": "drop_table"}, "arguments": {}}}),
            json!({"input": {"tool": {"name": "get_table"}, "arguments": {}}}),
        ),
        (
            "code_safety",
            json!({"input": "eval('1')", "language": "python", "level": "standard"}),
            json!({"input": "eval('1')", "language": "python", "level": "unrestricted"}),
        ),
        (
            "tooldef",
            json!({"kind": "change", "old": tool("a"), "new": tool("b")}),
            json!({"kind": "definition", "tool": tool("add")}),
        ),
    ] {
        let mut lines = vec![block, allow, json!("not an object")];
        lines[0]["id"] = json!("first");
        lines[1]["id"] = json!(2);
        let decided = answers(kind, &lines);
        let parts = decided.iter().map(|answer| (answer["id"].clone(), answer["decision"].clone()));
        let expected = [
            (json!("first"), json!("block")),
            (json!(2), json!("allow")),
            (json!(null), json!("block")),
        ];
        assert_eq!(parts.collect::<Vec<_>>(), expected, "{kind}: {decided:?}");
    }
    assert!(Guard::from_name("sandbx").is_none());
}

#[test]
fn another_order_of_a_set_is_not_a_change_but_another_set_is() {
    let listed = |words: &[&str]| {
        let properties = json!({"mode": {"type": "string", "enum": words}});
        json!({"name": "set_mode", "inputSchema": {"type": "object", "properties": properties}})
    };
    let change = |old: &[&str], new: &[&str]| {
        let (old, new) = (listed(old), listed(new));
        json!({"kind": "change", "old": old, "new": new})
    };
    let lines = [change(&["off", "on"], &["on", "off"]), change(&["off", "on"], &["on", "up"])];
    let decided = answers("tooldef", &lines);
    assert_eq!(decided[0]["decision"], json!("allow"), "{decided:?}");
    assert_eq!(decided[1]["decision"], json!("block"), "{decided:?}");
}
