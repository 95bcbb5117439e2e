//! Tests that only valid annotations are accepted, and that headers are compared with arguments.

use proptest::prelude::*;

use super::*;
use crate::wire::Payload;

fn schema(text: &str) -> RawObject {
    RawObject::try_from(Payload::parse(text.to_owned()).unwrap()).unwrap()
}

fn object(properties: &str) -> RawObject {
    schema(&format!(r#"{{"type":"object","properties":{{{properties}}}}}"#))
}

#[track_caller]
fn bad(schema: &RawObject, expected: &str) {
    let error = HeaderPlan::of(schema).unwrap_err().to_string();
    assert!(error.contains(expected), "{error}");
}

#[test]
fn invalid_annotations_are_refused() {
    let named = |name: &str| object(&format!(r#""v":{{"type":"string","x-mcp-header":"{name}"}}"#));
    for name in ["", "My Region", "Region:Primary", "Région", r"Region\t1", r"a\r\nb", "a/b"] {
        bad(&named(name), "cannot be part of a header's name");
    }
    bad(&object(r#""v":{"type":"string","x-mcp-header":7}"#), "must be a string");
    for kind in [
        r#""object""#,
        r#""array""#,
        r#""null""#,
        r#""number""#,
        r#"["string","integer"]"#,
        r#"["null"]"#,
        "7",
    ] {
        bad(&object(&format!(r#""v":{{"type":{kind},"x-mcp-header":"V"}}"#)), "`v` must be");
    }
    bad(&object(r#""v":{"x-mcp-header":"V"}"#), "`v` must be");
    bad(&object(r##""v":{"$ref":"#/$defs/s","x-mcp-header":"V"}"##), "`v` must be");
    for second in ["MyField", "myfield"] {
        let twice = format!(
            r#""a":{{"type":"string","x-mcp-header":"MyField"}},"b":{{"type":"object","properties":{{"c":{{"type":"string","x-mcp-header":"{second}"}}}}}}"#
        );
        bad(&object(&twice), "two arguments");
    }
    // The name of an annotation may be written with escapes, so this annotation is found too.
    bad(&object(r#""v":{"type":"object","\u0078-mcp-header":"V"}"#), "`v` must be");
}

#[test]
fn the_number_of_headers_is_limited() {
    let many = |count: usize| {
        let one = |at: usize| format!(r#""v{at}":{{"type":"string","x-mcp-header":"V{at}"}}"#);
        object(&(0..count).map(one).collect::<Vec<_>>().join(","))
    };
    assert!(HeaderPlan::of(&many(MAX_HEADERS)).is_ok());
    bad(&many(MAX_HEADERS + 1), "more than 64 arguments");
}

#[test]
fn annotations_are_reached_through_properties_alone() {
    let inner = r#"{"type":"string","x-mcp-header":"V"}"#;
    bad(&schema(r#"{"type":"object","x-mcp-header":"V"}"#), "the schema itself");
    for keyword in ["items", "not", "if", "then", "else", "additionalProperties", "contains"] {
        bad(&schema(&format!(r#"{{"{keyword}":{inner}}}"#)), keyword);
        bad(&object(&format!(r#""v":{{"type":"array","{keyword}":{inner}}}"#)), keyword);
        bad(
            &schema(&format!(r#"{{"{keyword}":{{"properties":{{"v":{inner}}}}}}}"#)),
            "is not on a plain property",
        );
    }
    for keyword in ["oneOf", "anyOf", "allOf", "prefixItems"] {
        bad(&schema(&format!(r#"{{"{keyword}":[true,{inner}]}}"#)), keyword);
    }
    for keyword in ["$defs", "definitions", "patternProperties", "dependentSchemas"] {
        bad(&schema(&format!(r#"{{"{keyword}":{{"v":{inner}}}}}"#)), "is not on a plain property");
    }
}

#[test]
fn an_annotation_inside_data_is_ignored() {
    for text in [
        r#"{"properties":{"x-mcp-header":{"type":"string"}}}"#,
        r#"{"$defs":{"x-mcp-header":{"type":"string"}}}"#,
        r#"{"properties":{"v":{"default":{"x-mcp-header":"V"},"enum":[{"x-mcp-header":"V"}]}}}"#,
        r#"{"description":"x-mcp-header"}"#,
        r#"{"properties":{"v":{"$ref":"https://example.com/x-mcp-header.json"}}}"#,
        "{}",
    ] {
        assert!(HeaderPlan::of(&schema(text)).unwrap().is_empty(), "{text}");
    }
}

fn plan() -> HeaderPlan {
    HeaderPlan::of(&object(
        r#""region":{"type":"string","x-mcp-header":"Region"},
           "count":{"type":["integer","null"],"x-mcp-header":"Count"},
           "deep":{"type":"object","properties":{"dry":{"type":"boolean","x-mcp-header":"Dry-Run"}}},
           "query":{"type":"string"}"#,
    ))
    .unwrap()
}

#[track_caller]
fn check(arguments: &str, expected: &[(&str, &str)]) {
    let headers = plan().headers(arguments).unwrap();
    assert_eq!(headers.iter().collect::<Vec<_>>(), expected, "{arguments}");
    assert_eq!(plan().check(arguments, &headers), Ok(()), "{arguments}");
}

#[test]
fn arguments_become_headers() {
    check("{}", &[]);
    check(r#"{"region":null,"query":"SELECT 1","deep":7}"#, &[]);
    check(
        r#"{"region":"us-west1","count":42,"deep":{"dry":false}}"#,
        &[("Count", "42"), ("Dry-Run", "false"), ("Region", "us-west1")],
    );
    check(r#"{"region":" a","count":-4.2e1}"#, &[("Count", "-42"), ("Region", "=?base64?IGE=?=")]);
    check(r#"{"count":9007199254740991}"#, &[("Count", "9007199254740991")]);
    for count in ["9007199254740993", "1e300", "1.5", "18446744073709551615", "{}", "[1]"] {
        let error = plan().headers(&format!(r#"{{"count":{count}}}"#)).unwrap_err();
        assert_eq!(error.code(), ErrorCode::INVALID_PARAMS, "{error}");
    }
}

#[track_caller]
fn refused(arguments: &str, headers: &[(&str, &str)], expected: &str) {
    let mut received = HeaderParams::new();
    for (name, value) in headers {
        received.push(*name, *value);
    }
    let mismatch = plan().check(arguments, &received).unwrap_err();
    assert!(mismatch.to_string().contains(expected), "{mismatch}");
    assert_eq!(RpcError::from(mismatch).code(), ErrorCode::HEADER_MISMATCH);
}

#[test]
fn headers_must_be_what_the_arguments_are() {
    refused(r#"{"region":"a"}"#, &[], "`Mcp-Param-Region` is missing");
    refused(r#"{"region":null}"#, &[("region", "a")], "its argument is missing");
    refused("{}", &[("Count", "1")], "its argument is missing");
    refused(r#"{"region":"a"}"#, &[("Region", "A")], "differs from");
    refused(r#"{"region":"a"}"#, &[("Region", "a"), ("REGION", "a")], "more than once");
    refused(r#"{"region":"Hello"}"#, &[("Region", "=?base64?SGVsbG8?=")], "nor valid Base64");
    refused(r#"{"count":1}"#, &[("Count", "one")], "differs from");
    refused(r#"{"count":1}"#, &[("Count", "2")], "differs from");
    refused(r#"{"count":[1]}"#, &[("Count", "[1]")], "differs from");
    refused(r#"{"count":9007199254740993}"#, &[("Count", "9007199254740992")], "differs from");
    refused(r#"{"deep":{"dry":true}}"#, &[("Dry-Run", "True")], "differs from");

    let mut headers = HeaderParams::new();
    headers.push("REGION", "=?base64?SGVsbG8=?=");
    headers.push("count", "42.0");
    headers.push("Other", "x");
    assert_eq!(plan().check(r#"{"region":"Hello","count":42}"#, &headers), Ok(()));
}

proptest! {
    #[test]
    fn written_headers_are_accepted(region in ".*", count in -MAX_SAFE_INTEGER..=MAX_SAFE_INTEGER, dry in any::<bool>()) {
        let arguments =
            serde_json::json!({ "region": region, "count": count, "deep": { "dry": dry } }).to_string();
        let headers = plan().headers(&arguments).unwrap();
        prop_assert_eq!(plan().check(&arguments, &headers), Ok(()));
    }

    #[test]
    fn no_schema_panics(text in r#"(\{|\}|\[|\]|:|,|"x-mcp-header"|"properties"|"type"|"string"|"a"|1){0,40}"#) {
        if let Ok(payload) = Payload::parse(text) && let Ok(schema) = RawObject::try_from(payload) {
            let _ = HeaderPlan::of(&schema);
        }
    }
}
