//! Tests that written specifications in Markdown can be read back, that faults in a specification are reported, that
//! no text makes the reader panic, and that generated examples fit their schemas.

use std::time::{Duration, SystemTime};

use mgp_contract::{
    Bump, Contract, LintLevel, compare, examples, read_contracts, read_spec, write_spec,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn contract(definition: Value) -> Contract {
    Contract::from_definition(definition).unwrap()
}

fn weather() -> Contract {
    contract(json!({
        "name": "weather.forecast",
        "description": "Returns a forecast.\n# Not a heading\n```json\n{ not an example }\n```\nUses | tables.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "city": { "type": "string", "description": "The city | town.", "minLength": 2 },
                "days": { "type": "integer", "description": "The days.", "minimum": 1, "maximum": 9 },
            },
            "required": ["city"],
        },
        "outputSchema": {
            "type": "object",
            "properties": { "text": { "type": "string", "description": "The forecast." } },
            "required": ["text"],
        },
        "annotations": { "readOnlyHint": true },
        "security": { "risk_level": "safe", "permissions_required": ["network"] },
        "execution": { "taskSupport": "optional" },
        "_meta": { "version": "1.2.3", "idempotency": "yes" },
    }))
}

#[test]
fn a_generated_specification_is_whole_and_reads_back() {
    let tools = [
        weather(),
        contract(
            json!({ "name": "a.b", "description": "B.", "inputSchema": { "type": "object" }, "_meta": { "version": "0.1.0" } }),
        ),
    ];
    let text = write_spec("Tools", &tools);
    let read = read_spec(&text);
    let errors: Vec<_> = read.lints.iter().filter(|lint| lint.level == LintLevel::Error).collect();
    assert!(errors.is_empty(), "{errors:#?}\n{text}");
    assert_eq!(read.lints.len(), 1, "only the missing output schema: {:#?}", read.lints);
    assert_eq!(read.contracts.len(), 2);
    for (tool, read) in tools.iter().zip(&read.contracts) {
        assert_eq!(
            (&tool.name, &tool.input, &tool.output),
            (&read.name, &read.input, &read.output)
        );
        assert_eq!(tool.version(), read.version());
        // The comparison must find no difference, although the contract that was read has no hints, security metadata
        // or settings of tasks.
        for found in [compare(tool, read), compare(read, tool)] {
            assert_eq!(found.bump, Bump::None, "{found:#?}");
        }
    }
    assert!(text.contains("**Idempotent**: yes") && text.contains("Permissions: `network`"));
}

#[test]
fn notes_and_layout_of_a_specification_are_no_changes_of_the_tools() {
    let input = json!({ "type": "object" });
    let tools = [
        json!({ "name": "a.old", "description": "Old.", "inputSchema": input, "_meta": {
            "version": "1.2.3", "deprecated": { "in": "1.2.0" },
        } }),
        json!({ "name": "a.bare", "inputSchema": input }),
        json!({ "name": "a.code", "inputSchema": input, "description":
            "\n  Runs:\r\n\n    if x:\n        > y  \n\nThe tool is deprecated.\n**Version**: 9.9.9\n  " }),
        json!({ "name": "a.choice", "description": "Chooses.", "inputSchema": input, "outputSchema": {
            "oneOf": [{ "const": "a" }, { "type": "object", "properties": { "b": {} } }],
        } }),
        json!({ "name": "a.any", "description": "Any.", "inputSchema": input, "outputSchema": {} }),
    ];
    let tools = tools.map(contract);
    let read = read_spec(&write_spec("Tools", &tools));
    assert_eq!(read.contracts.len(), tools.len(), "{:#?}", read.lints);
    for (tool, read) in tools.iter().zip(&read.contracts) {
        for found in [compare(tool, read), compare(read, tool)] {
            assert_eq!(found.bump, Bump::None, "{found:#?}");
        }
    }
    let old = &read.contracts[0];
    assert_eq!(
        (old.description(), old.version().unwrap().to_string()),
        ("Old.", "1.2.3".to_owned())
    );
    assert_eq!(read.contracts[2].version(), None);
}

#[test]
fn missing_parts_and_wrong_examples_are_named() {
    let text = "# Tools\n\n## Tool: `files.read`\n### Purpose\nReads.\n### Invocation Name\n`files.read`\n### Input Schema\n```json\n{\"type\":\"object\",\"properties\":{\"n\":{\"type\":\"integer\",\"description\":\"N.\"}}}\n```\n### Usage Examples\n```json\n{\"tool_name\":\"files.write\",\"arguments\":{\"n\":\"x\"}}\n```\n";
    let read = read_spec(text);
    let texts: Vec<_> = read.lints.iter().map(ToString::to_string).collect();
    for expected in [
        "part 4, `Output Schema (Return Value)`, is missing",
        "part 5",
        "part 6",
        "part 8",
        "line 13: `files.read`: the example calls another tool",
        "error: line 13: `files.read`: the example does not fit: `/n`",
        "warning: line 3: `files.read`: it has no `**Version**",
    ] {
        assert!(texts.iter().any(|text| text.contains(expected)), "{expected} in {texts:#?}");
    }
    assert!(read_spec("").lints[0].message.contains("describes no tool"));
    assert!(read_spec("## Tool: x\n```").lints[0].message.contains("not closed"));
}

#[test]
fn other_forms_of_headings_are_understood() {
    let text = "# Spec\n## 1. Tool Purpose and Description\nFinds.\n**Version:** 2.0.0\n## 2. Invocation Name\n`find.it`\n## 3. Input Schema\n### Example\n```\n{\"type\":\"object\"}\n```\n## 4. Output Schema\nText.\n";
    let read = read_spec(text);
    assert_eq!(read.contracts.len(), 1, "{:#?}", read.lints);
    assert_eq!(read.contracts[0].name, "find.it");
    assert_eq!(read.contracts[0].version().unwrap().to_string(), "2.0.0");
}

#[test]
fn the_version_of_a_pre_release_is_read_as_written() {
    let tool = json!({ "name": "a.b", "description": "B.", "inputSchema": { "type": "object" },
        "_meta": { "version": "1.0.0-RC.1" } });
    let read = read_spec(&write_spec("Tools", &[contract(tool)]));
    assert_eq!(read.contracts[0].version().unwrap().to_string(), "1.0.0-RC.1");
    for line in ["- **Version:** `1.2.3-a-b`", "version 1.2.3-a-b", "__Version__: **1.2.3-a-b**"] {
        let text = format!(
            "## Tool: `a.b`\n### Purpose\nB.\n{line}\n### Input\n```\n{{\"type\":\"object\"}}\n```\n"
        );
        let version = read_spec(&text).contracts[0].version().unwrap().to_string();
        assert_eq!(version, "1.2.3-a-b", "{line}");
    }
}

#[test]
fn a_tool_of_a_specification_that_cannot_be_read_is_not_left_out() {
    let tool = |name: &str| {
        contract(json!({ "name": name, "description": "B.", "inputSchema": { "type": "object" } }))
    };
    let text = write_spec("Tools", &[tool("a.b"), tool("a.c")]);
    assert_eq!(read_contracts(&text).unwrap().len(), 2);
    let introduced = text.replacen("# Tools\n", "# Tools\n\n## Overview\n\nAll tools.\n", 1);
    assert_eq!(read_contracts(&introduced).unwrap().len(), 2);
    let broken = text.replacen("\"type\": \"object\"", "\"type\": \"object", 1);
    assert_ne!(broken, text);
    let error = read_contracts(&broken).unwrap_err().to_string();
    assert!(error.starts_with("line 3: this tool has no name"), "{error}");
    let error = read_contracts("[{\"name\":\"t\"}]").unwrap_err().to_string();
    assert!(error.contains("entry 1 of"), "entries are counted from 1: {error}");
}

/// Returns random schemas, each with at least one valid value.
fn schemas() -> impl Strategy<Value = Value> {
    let text = (0..6u8, 1..6u8, any::<bool>()).prop_map(|(min, more, has_pattern)| {
        let mut schema = json!({ "type": "string", "minLength": min, "maxLength": min + more });
        if has_pattern {
            schema = json!({ "type": "string", "pattern": format!("^[a-z]{{{min},{}}}-\\d+$", min + more) });
        }
        schema
    });
    let number = (-50..50i32, 1..100i32, 1..5i32, any::<bool>(), any::<bool>()).prop_map(
        |(low, more, step, is_integer, is_open)| {
            let kind = if is_integer { "integer" } else { "number" };
            if is_open {
                json!({ "type": kind, "exclusiveMinimum": low, "exclusiveMaximum": low + more + 1 })
            } else {
                json!({ "type": kind, "minimum": low, "maximum": low + more + step, "multipleOf": step })
            }
        },
    );
    let leaf = prop_oneof![
        text,
        number,
        Just(json!({ "type": "boolean" })),
        Just(json!({ "type": ["null", "string"], "format": "date-time" })),
        Just(json!({ "enum": ["a", 2, null] })),
        Just(json!({ "const": { "k": [1] } })),
        Just(json!({ "$ref": "#/$defs/word" })),
        Just(json!({ "type": "string", "format": "email", "maxLength": 5 })),
    ];
    let part = leaf.prop_recursive(4, 32, 5, |inner| {
        let members = prop::collection::btree_map("[a-e]", (inner.clone(), any::<bool>()), 0..5);
        let object = members.prop_map(|members| {
            let required: Vec<_> =
                members.iter().filter(|(_, (_, is_required))| *is_required).map(|(name, _)| name).collect();
            let properties: serde_json::Map<_, _> =
                members.iter().map(|(name, (schema, _))| (name.clone(), schema.clone())).collect();
            json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
        });
        let list = (inner.clone(), 0..4u8).prop_map(|(items, min)| json!({ "type": "array", "items": items, "minItems": min }));
        let unique = (2..5u8).prop_map(|min| json!({ "type": "array", "items": { "type": "integer", "minimum": 3 }, "minItems": min, "uniqueItems": true }));
        let choice = prop::collection::vec(inner.clone(), 1..3).prop_map(|any| json!({ "anyOf": any }));
        let all = (inner, 0..3u8).prop_map(|(part, min)| json!({ "allOf": [part, { "minLength": min.min(1) }] }));
        prop_oneof![object, list, unique, choice, all]
    });
    prop::collection::btree_map("[a-e]", part, 0..5).prop_map(|members| {
        let required: Vec<_> = members.keys().cloned().collect();
        json!({ "type": "object", "properties": members, "required": required, "$defs": { "word": { "type": "string", "minLength": 2 } } })
    })
}

/// Regression test: the parts of all tools beyond the limit were added to the last tool before it.
#[test]
fn tools_beyond_the_limit_are_a_flaw() {
    let text = "## Tool: `a.b`\n".repeat(10_000) + "## Tool: `c.d`\n### 1. Purpose\nReads.\n";
    let lints = read_spec(&text).lints;
    assert!(lints.iter().any(|lint| lint.message.contains("only the first 10000 tools")));
    let without_purpose =
        |message: &str| message.contains("Purpose") && message.contains("missing");
    assert_eq!(lints.iter().filter(|lint| without_purpose(&lint.message)).count(), 10_000);
}

#[test]
fn an_example_of_a_long_list_of_different_texts_is_found_soon() {
    let items = json!({ "type": "string" });
    let list = json!({ "type": "array", "uniqueItems": true, "minItems": 1_000, "items": items });
    let schema = json!({ "type": "object", "properties": { "x": list }, "required": ["x"] });
    let begun = SystemTime::now();
    let found = examples(&schema).unwrap();
    assert_eq!(found[0]["x"].as_array().unwrap().len(), 1_000);
    let took = begun.elapsed().unwrap();
    assert!(took < Duration::from_secs(20), "{took:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn generated_examples_fit_their_schema(schema in schemas()) {
        let validator = jsonschema::validator_for(&schema).unwrap();
        let found = examples(&schema);
        prop_assert!(found.is_ok(), "{schema}: {}", found.unwrap_err());
        for example in found.unwrap() {
            prop_assert!(validator.is_valid(&example), "{schema}\n{example}");
        }
    }

    #[test]
    fn any_text_can_be_read(text in "(#{1,3} (Tool: |Purpose|Input|Usage)?|```(json)?|\\{\"a\":|`|\\*\\*Version\\*\\*: 1|\n|é| |\\PC){0,80}") {
        let _ = read_spec(&text);
    }

    #[test]
    fn any_definition_can_be_written_and_read(name in "\\PC{1,20}", description in "(\\PC|\n|```|#){0,60}", schema in schemas()) {
        let tool = contract(json!({ "name": name, "description": description, "inputSchema": schema }));
        let read = read_spec(&write_spec("T", std::slice::from_ref(&tool)));
        prop_assert!(read.lints.iter().all(|lint| !lint.message.contains("is missing")
            || lint.message.contains("description")), "{:#?}", read.lints);
    }
}
