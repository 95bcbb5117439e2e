//! Tests of changes in forms that are harder to compare: a type that becomes nullable by `anyOf`, definitions that are
//! referred to by anchors and identifiers, and `patternProperties` in a schema that refuses other members.

use mgp_contract::{Bump, Contract, ToolDifference, compare};
use serde_json::{Value, json};

/// Returns the changes that are found if the schema of a tool changes; `member` is `inputSchema` or `outputSchema`.
fn changes(member: &str, old: &Value, new: &Value) -> ToolDifference {
    let [old, new] = [old, new].map(|schema| {
        let mut definition = json!({ "name": "t", "inputSchema": { "type": "object" } });
        definition[member] = schema.clone();
        Contract::from_definition(definition).unwrap()
    });
    compare(&old, &new)
}

#[track_caller]
fn check(old: &Value, new: &Value, [arguments, result]: [Bump; 2]) {
    for (member, expected) in [("inputSchema", arguments), ("outputSchema", result)] {
        let found = changes(member, old, new);
        assert_eq!(found.bump, expected, "{member}\n{old}\n{new}\n{:#?}", found.changes);
        assert_eq!(changes(member, new, new).bump, Bump::None, "{member}\n{new}");
    }
}

/// Returns an object schema with the optional member `a`, and the definition `x`.
fn with(a: &Value, x: &Value) -> Value {
    json!({ "type": "object", "properties": { "a": a }, "$defs": { "x": x } })
}

#[test]
fn a_type_that_becomes_nullable_permits_more_values() {
    let nothing = json!({ "type": "null" });
    let person = json!({ "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"] });
    let reference = json!({ "$ref": "#/$defs/x" });
    let text = json!({ "type": "string", "minLength": 1 });
    for (one, alternative) in [
        (&text, &text),
        (&reference, &reference),
        // Before the change, the type was written in place; a schema generator then moved it to the definitions. This
        // alone changes nothing.
        (&person, &reference),
    ] {
        let old = with(one, &person);
        for list in [json!([alternative, nothing]), json!([nothing, alternative])] {
            let new = with(&json!({ "anyOf": list, "title": "A" }), &person);
            check(&old, &new, [Bump::Minor, Bump::Major]);
            check(&new, &old, [Bump::Major, Bump::Minor]);
        }
    }

    // If an argument becomes optional, Pydantic writes it as nullable, with the default `null`. This is a minor change.
    let old =
        json!({ "properties": { "q": { "type": "string", "title": "Q" } }, "required": ["q"] });
    let any = json!({ "anyOf": [{ "type": "string" }, { "type": "null" }], "default": null, "title": "Q" });
    let found = changes("inputSchema", &old, &json!({ "properties": { "q": any } }));
    assert_eq!(found.bump, Bump::Minor, "{:#?}", found.changes);
}

#[test]
fn other_changes_of_a_type_that_becomes_nullable_count_too() {
    let nullable = |one: Value| json!({ "anyOf": [one, { "type": "null" }] });
    let old = with(&json!({ "type": "string" }), &json!({}));
    check(&old, &with(&nullable(json!({ "type": "integer" })), &json!({})), [Bump::Major; 2]);

    let reference = json!({ "$ref": "#/$defs/x" });
    let old = with(&reference, &json!({ "properties": { "b": { "type": "string" } } }));
    let new = json!({ "properties": { "b": { "type": "integer" } } });
    check(&old, &with(&nullable(reference.clone()), &new), [Bump::Major; 2]);

    let number = |default: u8| json!({ "type": "integer", "default": default });
    let old = with(&reference, &number(5));
    check(&old, &with(&nullable(reference), &number(6)), [Bump::Major; 2]);

    let defaults = |default: u8| {
        let mut any = nullable(json!({ "type": "integer" }));
        any["default"] = default.into();
        with(&any, &json!({}))
    };
    let old = with(&json!({ "type": "integer", "default": 5 }), &json!({}));
    check(&old, &defaults(5), [Bump::Minor, Bump::Major]);
    check(&old, &defaults(6), [Bump::Major; 2]);
}

#[test]
fn definitions_behind_anchors_and_identifiers_are_compared() {
    for (keyword, reference, name, named) in [
        ("$ref", "#n", "$anchor", "n"),
        ("$dynamicRef", "#n", "$dynamicAnchor", "n"),
        ("$ref", "n.json", "$id", "n.json"),
        ("$ref", "n.json#", "$id", "n.json"),
        ("$ref", "n.json#/anyOf/0", "$id", "n.json"),
    ] {
        let schema = |kind: &str| {
            with(
                &json!({ keyword: reference }),
                &json!({ name: named, "anyOf": [{ "type": kind }] }),
            )
        };
        check(&schema("number"), &schema("string"), [Bump::Major; 2]);
        check(&schema("integer"), &schema("number"), [Bump::Minor, Bump::Major]);
    }
    let named = |name: &str| {
        let reference = format!("#{name}");
        with(&json!({ "$ref": reference }), &json!({ "$anchor": name, "type": "number" }))
    };
    check(&named("a"), &named("b"), [Bump::None; 2]);
}

#[test]
fn a_pattern_of_names_is_an_exception_where_other_members_are_refused() {
    let patterns = json!({ "^[0-9]+$": { "type": "string" } });
    let closed = json!({ "type": "object", "additionalProperties": false });
    let mut excepted = closed.clone();
    excepted["patternProperties"] = patterns.clone();
    check(&excepted, &closed, [Bump::Major; 2]);
    check(&closed, &excepted, [Bump::Major; 2]);

    let open = json!({ "type": "object" });
    let restricted = json!({ "type": "object", "patternProperties": patterns });
    check(&restricted, &open, [Bump::Minor, Bump::Major]);
    check(&open, &restricted, [Bump::Major, Bump::Minor]);
}
