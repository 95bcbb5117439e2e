//! Tests of documents that contain operations that cannot be sent, or refer to parts in other documents.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use mgp_openapi::Api;
use serde_json::{Value, json};

fn left_out(document: &Value) -> Vec<(String, String)> {
    let api = Api::parse(&document.to_string()).unwrap();
    api.left_out().iter().map(|one| (one.operation.clone(), one.why.clone())).collect()
}

#[test]
fn paths_in_other_documents_and_methods_that_cannot_be_sent_are_left_out_with_the_reason() {
    let operation = json!({"responses": {}});
    let document = json!({"openapi": "3.2.0", "paths": {
        "/a": {
            "get": operation, "trace": operation, "query": operation,
            "additionalOperations": {"COPY": operation},
        },
        "/b": {"$ref": "paths/b.yaml"},
        "x-note": "a text",
    }});
    let expected = [
        ("TRACE /a", "its method cannot be sent"),
        ("QUERY /a", "its method cannot be sent"),
        ("COPY /a", "its method cannot be sent"),
        ("/b", "it refers to `paths/b.yaml`, which is not in the document"),
    ];
    let mut left_out = left_out(&document);
    left_out.sort();
    let mut expected = expected.map(|(operation, why)| (operation.to_owned(), why.to_owned()));
    expected.sort();
    assert_eq!(left_out, expected);

    let elsewhere = json!({"openapi": "3.1.0", "paths": {"/b": {"$ref": "paths/b.yaml"}}});
    let error = Api::parse(&elsewhere.to_string()).unwrap_err().to_string();
    assert!(error.contains("`/b` is left out: it refers to `paths/b.yaml`"), "{error}");
}

#[test]
fn a_referenced_media_type_gives_the_schema_of_the_body() {
    let media = json!({"$ref": "#/components/mediaTypes/Pet"});
    let document = json!({
        "openapi": "3.2.0",
        "paths": {"/pets": {"post": {"requestBody": {"content": {"application/json": media}}}}},
        "components": {"mediaTypes": {"Pet": {"schema": {"type": "object"}}}},
    });
    let api = Api::parse(&document.to_string()).unwrap();
    let schema = api.operations()[0].input_schema();
    assert_eq!(schema["properties"]["body"]["type"], "object");
}
