//! Tests which part of the version each kind of change raises, with at least two changes of each kind.

use mgp_contract::{Bump, Contract, compare, compare_all, read_contracts};
use serde_json::{Value, json};

use Bump::{Major, Minor, None as Same, Patch};

/// Returns a tool whose arguments (`in`) or result (`out`) have this schema, or whose definition has these members.
fn tool(place: &str, schema: Value) -> Contract {
    let mut definition =
        json!({ "name": "t", "description": "T.", "inputSchema": { "type": "object" } });
    match place {
        "in" => definition["inputSchema"] = schema,
        "out" => definition["outputSchema"] = schema,
        _ => {
            for (name, member) in schema.as_object().unwrap() {
                definition[name] = member.clone();
            }
        }
    }
    Contract::from_definition(definition).unwrap()
}

/// The changes of tools, one per line: `[place, old, new, part of the version to raise]`. [`tool`] explains the places.
/// A line that is only a text is the heading of the lines below it.
const CHANGES: &str = include_str!("changes.jsonl");

/// Returns the tools before and after each of the [`CHANGES`], the part of the version to raise, and the line.
fn changes() -> impl Iterator<Item = (Contract, Contract, Bump, &'static str)> {
    CHANGES.lines().filter(|line| line.starts_with('[')).map(|line| {
        let (place, old, new, bump): (String, Value, Value, String) =
            serde_json::from_str(line).unwrap();
        let bump = match bump.as_str() {
            "major" => Major,
            "minor" => Minor,
            "patch" => Patch,
            "same" => Same,
            other => panic!("`{other}`: {line}"),
        };
        (tool(&place, old), tool(&place, new), bump, line)
    })
}

#[test]
fn each_kind_of_change_demands_its_version() {
    assert!(changes().count() >= 60, "{} changes", changes().count());
    for (old, new, expected, line) in changes() {
        let found = compare(&old, &new);
        assert_eq!(found.bump, expected, "{line}\n{:#?}", found.changes);
        // A comparison of a definition with itself finds no change.
        assert_eq!(compare(&new, &new).bump, Same, "{line}");
    }
}

#[test]
fn a_compatible_change_reversed_is_breaking() {
    for (old, new, _, line) in changes().filter(|change| change.2 == Minor) {
        // Removing a deprecation breaks no caller, so it is left out here. Removing a default value does, because calls
        // then act differently.
        if !line.contains("deprecated") {
            let found = compare(&new, &old);
            assert_eq!(found.bump, Major, "{line}\n{:#?}", found.changes);
        }
    }
}

#[test]
fn added_and_removed_tools_are_changes_of_the_list() {
    let list = |names: &[&str]| {
        let tools = names.iter().map(|name| json!({ "name": name, "inputSchema": {} }));
        let text =
            json!({ "jsonrpc": "2.0", "id": 1, "result": { "tools": tools.collect::<Vec<_>>() } });
        read_contracts(&text.to_string()).unwrap()
    };
    let found = compare_all(&list(&["a", "b"]), &list(&["b", "c"]));
    let found: Vec<_> = found.iter().map(|one| (one.tool.as_str(), one.bump)).collect();
    assert_eq!(found, [("a", Major), ("c", Minor)]);
}

#[test]
fn texts_that_are_not_tools_are_refused_with_the_reason() {
    for (text, expected) in [
        ("", "neither JSON nor"),
        ("{}", "has no tools"),
        (r#"{"tools":[{"name":"a"}]}"#, "entry 1"),
        ("[1]", "entry 1"),
    ] {
        let error = read_contracts(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_breaking_change_after_hundreds_of_others_counts_and_is_listed() {
    let schema = |text: &str, last: &str| {
        let arguments = (0..250).map(|number| (format!("a{number}"), json!({ "title": text })));
        let mut properties: serde_json::Map<_, _> = arguments.collect();
        properties.insert("z".to_owned(), json!({ "type": last }));
        tool("in", json!({ "type": "object", "properties": properties }))
    };
    let found = compare(&schema("one", "string"), &schema("two", "integer"));
    assert_eq!((found.bump, found.changes.len(), found.changes[0].bump), (Major, 200, Major));
}

#[test]
fn a_change_behind_a_long_chain_of_references_counts() {
    let link = |number: u8| {
        let next = json!({ "$ref": format!("#/$defs/d{number}") });
        json!({ "type": "object", "properties": { "next": next } })
    };
    let schema = |last: Value| {
        let links = (0..40).map(|number| (format!("d{number}"), link(number + 1)));
        let mut links: serde_json::Map<_, _> = links.collect();
        links.insert("d40".to_owned(), last);
        let mut schema = link(0);
        schema["$defs"] = links.into();
        tool("in", schema)
    };
    let bump = |old: Value, new: Value| compare(&schema(old), &schema(new)).bump;
    let (text, number) = (json!({ "type": "string" }), json!({ "type": "integer" }));
    let any = json!({ "type": ["string", "integer"] });
    assert_eq!(bump(text.clone(), number), Major);
    assert_eq!(bump(text.clone(), any), Minor);
    assert_eq!(bump(text.clone(), text), Same);
}
