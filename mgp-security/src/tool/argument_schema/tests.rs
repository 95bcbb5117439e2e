//! Tests of schemas that are used and not used, and of the checks with them.

use super::*;

fn tool(schema: &str) -> mcp::Tool {
    serde_json::from_str(&format!(r#"{{"name":"t","inputSchema":{schema}}}"#)).unwrap()
}

#[track_caller]
fn check(schema: &str, arguments: &str) -> Option<String> {
    let refused = ToolSchemas::default().check_arguments(&tool(schema), Some(arguments));
    refused?.err().map(|refused| refused.to_string())
}

#[test]
fn a_violation_names_its_member() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"},"to":{"type":"object","required":["mail"]}},"required":["n"],"additionalProperties":false}"#;
    assert_eq!(check(schema, r#"{"n":1}"#), None);
    let said = |arguments: &str| check(schema, arguments).unwrap();
    assert!(said(r#"{"n":"x"}"#).contains("`/n`: \"x\" is not of type \"integer\""));
    assert!(said("{}").contains("`/n`: \"n\" is a required property"));
    assert!(said(r#"{"n":1,"to":{}}"#).contains("`/to/mail`: \"mail\" is a required property"));
    assert!(said(r#"{"n":1,"m":2}"#).contains("'m' was unexpected"));
    assert!(ToolSchemas::default().check_arguments(&tool(schema), None).unwrap().is_err());
}

#[test]
fn all_errors_of_arguments_are_named() {
    let tool = tool(
        r#"{"type":"object","properties":{"n":{"type":"integer","maximum":3},"to":{"type":"object","required":["mail"]}},"required":["m"]}"#,
    );
    let found = argument_errors(&tool, r#"{"n":9,"to":{}}"#).unwrap();
    let mut found: Vec<_> = found
        .iter()
        .map(|(path, one)| (path.as_str(), one.field.as_str(), one.error_type.as_str()))
        .collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [("/m", "m", "required"), ("/n", "n", "maximum"), ("/to/mail", "to.mail", "required")]
    );
    assert!(argument_errors(&tool, r#"{"m":1}"#).unwrap().is_empty());
}

#[test]
fn null_counts_as_an_absent_member_unless_the_schema_allows_it() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"},"to":{"type":"object","properties":{"cc":{"type":"string"}}}},"required":["n"]}"#;
    assert_eq!(check(schema, r#"{"n":1,"to":null}"#), None);
    assert_eq!(check(schema, r#"{"n":1,"to":{"cc":null}}"#), None);
    assert!(check(schema, r#"{"n":null}"#).unwrap().contains("`/n`: \"n\" is a required"));
    let nullable =
        r#"{"type":"object","properties":{"n":{"type":["integer","null"]}},"required":["n"]}"#;
    assert_eq!(check(nullable, r#"{"n":null}"#), None);
}

/// Returns a schema with nested conditions (`if`), each inside the next one. Each has many branches with different
/// names, which `unevaluatedProperties` must check.
fn conditions(levels: usize) -> String {
    let names: Vec<_> =
        (0..20).map(|n| format!(r#""x{n}":{{"properties":{{"p{n}":true}}}}"#)).collect();
    let names = names.join(",");
    (0..levels).fold("true".to_owned(), |inner, _| {
        format!(
            r#"{{"type":"object","if":{{"properties":{{"a":{inner}}}}},"then":{{"dependentSchemas":{{{names}}}}},
                "unevaluatedProperties":{{"not":{{"const":"zz"}}}}}}"#
        )
    })
}

/// Returns a schema with levels of closed objects whose members are in combined schemas.
fn combined_closed(levels: usize) -> String {
    (0..levels).fold(r#"{"type":"integer"}"#.to_owned(), |inner, _| {
        format!(r#"{{"allOf":[{{"properties":{{"p":{inner}}}}}],"unevaluatedProperties":false}}"#)
    })
}

#[test]
fn a_schema_whose_check_is_not_bounded_is_not_used() {
    let doubling = |n: usize| {
        let defs: Vec<_> = (0..n)
            .map(|at| {
                let next = if at + 1 == n {
                    "{\"type\":\"string\"}".to_owned()
                } else {
                    format!("{{\"$ref\":\"#/$defs/d{}\"}}", at + 1)
                };
                format!("\"d{at}\":{{\"anyOf\":[{next},{next}]}}")
            })
            .collect();
        format!("{{\"$ref\":\"#/$defs/d0\",\"$defs\":{{{}}}}}", defs.join(","))
    };
    assert!(check(&doubling(3), "{}").is_some());
    let defs = doubling(40).split_once(',').unwrap().1.to_owned();
    let named = |member: &str| {
        format!(
            r##"{{"type":"object","{member}":{{"definitions":{{"$ref":"#/$defs/d0"}}}},{defs}"##
        )
    };
    let mut conditional = r#"{"type":"object"}"#.to_owned();
    for _ in 0..20 {
        conditional = format!(
            r#"{{"type":"object","if":{conditional},"unevaluatedProperties":{{"type":"integer"}}}}"#
        );
    }
    for schema in [
        doubling(40).as_str(),
        &named("properties"),
        &named("patternProperties"),
        &named("dependentSchemas"),
        &conditional,
        &conditions(2),
        &conditions(6),
        &combined_closed(4),
        r##"{"$ref":"#"}"##,
        r##"{"$defs":{"a":{"properties":{"b":{"$ref":"#/$defs/a"}}}},"$ref":"#/$defs/a"}"##,
        r#"{"$ref":"https://example.com/schema.json"}"#,
        r#"{"type":"no such type"}"#,
        r#"{"pattern":"(?=x)","type":"string"}"#,
        r##"{"$dynamicRef":"#x","type":"string"}"##,
    ] {
        assert!(compile(schema).is_none(), "{schema}");
    }
}

#[test]
fn a_schema_whose_references_are_ambiguous_is_not_used() {
    let old = "http://json-schema.org/draft-04/schema#";
    let with = |own: &str, id: &str| {
        format!(
            r##"{{{own}"properties":{{"a":{{{id}"allOf":[{{"$ref":"#/definitions/d"}}],
                "definitions":{{"d":{{}}}}}}}},"definitions":{{"d":{{"type":"string"}}}}}}"##
        )
    };
    let old = format!(r#""$schema":"{old}","#);
    for schema in [with(&old, ""), with("", r#""id":"http://x/","#)] {
        assert!(check(&schema, r#"{"a":5}"#).is_some(), "{schema}");
    }
    for schema in [
        with(&old, r#""id":"http://x/","#).as_str(),
        &with("", r#""$id":"http://x/","#),
        r##"{"$ref":"#/$defs/o/properties/a","$defs":{"d":{},"o":{"$id":"http://x/",
            "properties":{"a":{"$ref":"#/$defs/d"}},"$defs":{"d":{"type":"string"}}}}}"##,
        r##"{"$ref":"#/$defs/%41","$defs":{"%41":{},"A":{"type":"string"}}}"##,
        r##"{"$ref":"#/$defs/~~1","$defs":{"~/":{},"~~1":{"type":"string"}}}"##,
    ] {
        assert!(compile(schema).is_none(), "{schema}");
    }
    let id = format!(r#"{{{old}"properties":{{"id":{{"type":"integer"}}}}}}"#);
    assert!(check(&id, r#"{"id":"x"}"#).is_some());
}

#[test]
fn references_do_not_make_a_schema_deeper_than_a_text() {
    let chain = |levels: usize| {
        let def = |at: usize| {
            let (open, close) = (r#"{"not":"#.repeat(levels), "}".repeat(levels));
            format!(r##""d{at}":{open}{{"$ref":"#/$defs/d{}"}}{close}"##, at + 1)
        };
        let defs: Vec<_> = (0..20).map(def).collect();
        let end = r#""d20":{"type":"string"}"#;
        format!(r##"{{"$ref":"#/$defs/d0","$defs":{{{},{end}}}}}"##, defs.join(","))
    };
    assert!(check(&chain(2), "{}").is_some());
    assert!(compile(&chain(10)).is_none());
}

#[test]
fn members_with_the_names_of_keywords_and_nested_closed_objects_are_checked() {
    let schema = r#"{"properties":{"definitions":{"type":"integer"}}}"#;
    assert!(check(schema, r#"{"definitions":"x"}"#).is_some());
    let (mut schema, mut right, mut wrong) =
        (r#"{"type":"integer"}"#.to_owned(), "1".to_owned(), r#""x""#.to_owned());
    for _ in 0..8 {
        schema = format!(
            r#"{{"type":"object","properties":{{"p":{schema}}},"unevaluatedProperties":false}}"#
        );
        right = format!(r#"{{"p":{right}}}"#);
        wrong = format!(r#"{{"p":{wrong}}}"#);
    }
    assert_eq!(check(&schema, &right), None);
    assert!(check(&schema, &wrong).is_some());
}

#[test]
fn closed_objects_with_conditions_and_combined_members_are_checked() {
    let conditionals: Vec<_> = (0..30)
        .map(|n| {
            format!(
                r#"{{"if":{{"properties":{{"kind":{{"const":"k{n}"}}}}}},
                    "then":{{"properties":{{"p{n}":{{"type":"integer"}}}}}}}}"#
            )
        })
        .collect();
    let schema = format!(
        r#"{{"type":"object","properties":{{"kind":{{"type":"string"}}}},"allOf":[{}],
            "unevaluatedProperties":false}}"#,
        conditionals.join(",")
    );
    assert_eq!(check(&schema, r#"{"kind":"k3","p3":1}"#), None);
    assert!(check(&schema, r#"{"kind":"k3","p3":"x"}"#).is_some());
    assert!(check(&schema, r#"{"kind":"k3","p4":1}"#).is_some());
    assert!(compile(&conditions(1)).is_some());
    let combined = combined_closed(3);
    assert_eq!(check(&combined, r#"{"p":{"p":{"p":1}}}"#), None);
    assert!(check(&combined, r#"{"p":{"p":{"p":"x"}}}"#).is_some());
}

#[test]
fn a_text_that_cannot_be_checked_is_refused() {
    let schema = r#"{"type":"object","properties":{"to":{"enum":["test"]}}}"#;
    let deep = format!(r#"{{"to":"test","x":{}{}}}"#, "[".repeat(130), "]".repeat(130));
    for arguments in [
        r#"{"to":"test","x":1e400}"#,
        r#"{"to":"test","x":"\ud800"}"#,
        r#"{"to":"live","to":"test"}"#,
        r#"{"to":"live","\u0074o":"test"}"#,
        r#"{"to":"test","x":[{"a":1,"a":1}]}"#,
        r#"{"to":"test""#,
        &deep,
    ] {
        let refused = check(schema, arguments).unwrap();
        assert!(refused.contains("cannot be checked: "), "{arguments}: {refused}");
    }
    let repeated = check(schema, r#"{"to":"live","to":"test"}"#).unwrap();
    assert!(repeated.contains("the member `to` is repeated"), "{repeated}");
    assert!(argument_errors(&tool(schema), r#"{"to":"live","to":"test"}"#).is_err());
    let with_output = serde_json::from_str::<mcp::Tool>(&format!(
        r#"{{"name":"t","inputSchema":{{}},"outputSchema":{schema}}}"#
    ));
    let (tool, schemas) = (with_output.unwrap(), ToolSchemas::default());
    assert!(schemas.check_result(&tool, r#"{"to":"test"}"#).is_ok());
    assert!(schemas.check_result(&tool, r#"{"to":"live","to":"test"}"#).is_err());
    assert!(schemas.check_result(&tool, r#"{"to":"test","x":1e400}"#).is_err());
}

#[test]
fn large_arguments_are_checked_as_long_as_the_check_takes_bounded_time() {
    let padded = |to: &str, pad: usize| format!(r#"{{"to":"{to}","pad":"{}"}}"#, "x".repeat(pad));
    let schema = r#"{"type":"object","properties":{"to":{"enum":["test"]}}}"#;
    let nearly_all = (16 << 20) - 64;
    assert_eq!(check(schema, &padded("test", nearly_all)), None);
    for pad in [1_100_000, nearly_all] {
        assert!(check(schema, &padded("live", pad)).unwrap().contains("does not fit"));
    }
    let ids = format!(r#"{{"ids":[{}0]}}"#, "0,".repeat(1 << 20));
    let numbers = check(r#"{"properties":{"ids":{"items":{"type":"string"}}}}"#, &ids).unwrap();
    assert!(numbers.contains("too large to name the members"), "{numbers}");
    let many: Vec<_> = (0..4_000).map(|n| format!(r#""m{n}":{{}}"#)).collect();
    let large = format!(r#"{{"properties":{{{}}}}}"#, many.join(","));
    assert_eq!(check(&large, &padded("test", 1 << 20)), None);
    assert!(check(&large, &padded("test", 4 << 20)).unwrap().contains("too large for a schema"));
}

#[test]
fn texts_of_violations_are_bounded() {
    let long = format!(r#"{{"n":"{}"}}"#, "x".repeat(10_000));
    let refused = check(r#"{"properties":{"n":{"type":"integer"}}}"#, &long).unwrap();
    assert!(refused.len() < 2 * MAX_TEXT, "{refused}");
    let many: Vec<_> = (0..100).map(|n| format!("\"m{n}\":1")).collect();
    let tool = tool(r#"{"additionalProperties":{"type":"string"}}"#);
    let refused = ToolSchemas::default()
        .check_arguments(&tool, Some(&format!("{{{}}}", many.join(","))))
        .unwrap()
        .unwrap_err();
    assert_eq!(refused.violations.len(), MAX_VIOLATIONS);
}
